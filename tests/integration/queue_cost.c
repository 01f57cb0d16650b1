/* queue_cost.c: how long scripts of a queue stop the server, at the most. */
#include "queue_help.h"

#include <stdlib.h>

/* The longest script since the log was emptied, by the server's own clock. */
static int64_t longest_us(void)
{
    int64_t most = 0;
    redisReply *r = redis_raw(server, "SLOWLOG GET 128");
    assert_non_null(r);
    for (size_t i = 0; i < r->elements; i++) {
        const redisReply *entry = r->element[i];
        const redisReply *args = entry->element[3];
        if (strncmp(args->element[0]->str, "EVAL", 4) == 0 &&
            entry->element[2]->integer > most)
            most = entry->element[2]->integer;
    }
    freeReplyObject(r);
    return most;
}

/* The quickest of some runs: others have the processor, too, in between. */
static void takes_no_5_ms(const char *what, void (*before)(leat_queue *),
                          void (*work)(leat_queue *), leat_queue *q)
{
    enum { TRIES = 60, MOST_US = 5000 };
    int64_t best = INT64_MAX;
    int i = 0;
    for (; i < TRIES && (i < 3 || best >= MOST_US); i++) {
        if (before)
            before(q);
        redis_do(server, "SLOWLOG RESET");
        work(q);
        int64_t used = longest_us();
        assert_true(used > 0);
        best = used < best ? used : best;
    }
    print_message("# %s: %d us, %d runs\n", what, (int)best, i);
    if (best >= MOST_US)
        fail_msg("%s: %d us", what, (int)best);
}

static leat_msg full[LEAT_QUEUE_BATCH];
static leat_queue_send_opts each[LEAT_QUEUE_BATCH];
static char names[LEAT_QUEUE_BATCH][16];
static bool with_dedup;

static void send_full(leat_queue *q)
{
    for (int i = 0; i < LEAT_QUEUE_BATCH; i++)
        full[i].id = leat_str("");
    must(leat_queue_send_batch(q, full, LEAT_QUEUE_BATCH, NULL, NULL, err));
}

/* Each of a group of its own, and perhaps with a dedup id. */
static void send_each(leat_queue *q)
{
    static int run;
    run++;
    for (int i = 0; i < LEAT_QUEUE_BATCH; i++) {
        snprintf(names[i], sizeof names[i], "%d/%d", run, i);
        leat_bytes name = leat_str(names[i]);
        full[i].id = with_dedup ? leat_str("") : name;
        each[i] = (leat_queue_send_opts){ .group = name,
                                          .dedup = with_dedup ? name
                                                              : leat_str("") };
    }
    must(leat_queue_send_batch(q, full, LEAT_QUEUE_BATCH, each, NULL, err));
}

static leat_queue_batch *take_full(leat_queue *q, int64_t ms, leat_bytes *r)
{
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = LEAT_QUEUE_BATCH,
                                                        .visibility_ms = ms });
    for (size_t i = 0; i < leat_queue_batch_count(b); i++)
        r[i] = leat_queue_batch_at(b, i)->receipt;
    return b;
}

static void take_full_and_ack(leat_queue *q)
{
    static leat_bytes r[LEAT_QUEUE_BATCH];
    leat_queue_batch *b = take_full(q, 0, r);
    size_t n = leat_queue_batch_count(b);
    assert_true(n >= 400);
    must(leat_queue_change_batch(q, r, n, 100000, NULL, err));
    must(leat_queue_ack_batch(q, r, n, NULL, err));
    leat_queue_batch_free(b);
}

static void take_full_and_lose(leat_queue *q)
{
    static leat_bytes r[LEAT_QUEUE_BATCH];
    send_full(q);
    leat_queue_batch_free(take_full(q, 1, r));
    wait_nap(5);
}

static void give_back_full(leat_queue *q)
{
    int64_t n, all = 0;
    while (all < LEAT_QUEUE_BATCH) {
        must(leat_queue_requeue_expired_once(q, 0, &n, err));
        all += n;
    }
}

static void bury_full(leat_queue *q)
{
    static leat_bytes r[LEAT_QUEUE_BATCH];
    send_full(q);
    leat_queue_batch *b = take_full(q, 0, r);
    for (int i = 0; i < LEAT_QUEUE_BATCH; i++)
        must(leat_queue_reject(q, r[i], "no", err));
    leat_queue_batch_free(b);
}

static void redrive_and_purge(leat_queue *q)
{
    int64_t n;
    must(leat_queue_redrive(q, NULL, &n, err));
    assert_int_equal(n, LEAT_QUEUE_BATCH);
    must(leat_queue_purge(q, false, &n, err));
    assert_int_equal(n, LEAT_QUEUE_BATCH);
}

static void purge_all(leat_queue *q)
{
    int64_t n;
    must(leat_queue_purge(q, false, &n, err));
}

static void no_script_takes_5_ms_at_the_batch_limit(void **state)
{
    (void)state;
    static char body[100];
    leat_queue_opts o = { .no_reaper = true, .max_receives = -1 };
    leat_queue *q = queue_of("orders", &o);
    for (int i = 0; i < LEAT_QUEUE_BATCH; i++)
        full[i].body = leat_mem(body, sizeof body);
    redis_do(server, "CONFIG SET slowlog-log-slower-than 0");
    takes_no_5_ms("send", NULL, send_full, q);
    purge_all(q);
    takes_no_5_ms("receive, hide, ack", send_full, take_full_and_ack, q);
    takes_no_5_ms("expire", take_full_and_lose, give_back_full, q);
    purge_all(q);
    takes_no_5_ms("redrive, purge", bury_full, redrive_and_purge, q);
    takes_no_5_ms("send, with ids", NULL, send_each, q);
    purge_all(q);
    must(leat_queue_alter(q, &(leat_queue_opts){ .max_receives = 9 }, err));
    takes_no_5_ms("receive with a bound, hide, ack", send_full,
                  take_full_and_ack, q);
    with_dedup = true;
    takes_no_5_ms("send, with dedup ids", NULL, send_each, q);
    leat_queue_close(q);
    o.fifo = true;
    q = queue_of("fifo", &o);
    with_dedup = false;
    takes_no_5_ms("fifo: send", NULL, send_each, q);
    purge_all(q);
    takes_no_5_ms("fifo: receive, hide, ack", send_each, take_full_and_ack, q);
    leat_queue_close(q);
    redis_do(server, "CONFIG SET slowlog-log-slower-than 10000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        queue_test(no_script_takes_5_ms_at_the_batch_limit),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
