/*
 * redowl_more.c: what else a queue of redowl can and cannot do, and what it
 * survives.
 */
#include "redowl_help.h"

#include <stdatomic.h>

#define Q "redowl:orders:"

static void what_redowl_lacks_is_refused(void **state)
{
    (void)state;
    leat_error e;
    const struct {
        const char *word;
        leat_queue_opts o;
    } bad[] = {
        { "fifo", { .fifo = true } },
        { "content_dedup", { .content_dedup = true } },
        { "dedup_ms", { .dedup_ms = 1 } },
        { "ttl_ms", { .ttl_ms = 1 } },
        { "durable_events", { .durable_events = true } },
        { "dead_queue", { .dead_queue = "other" } },
    };
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        leat_queue_opts o = bad[i].o;
        o.profile = LEAT_QUEUE_REDOWL;
        assert_null(leat_queue_open(client, "orders", &o, &e));
        assert_code(e.code, LEAT_ENOTSUP);
        assert_non_null(strstr(e.msg, bad[i].word));
        assert_code(leat_queue_alter(q, &o, &e), LEAT_ENOTSUP);
    }
    leat_queue_opts o = { .profile = LEAT_QUEUE_REDOWL };
    assert_null(
        leat_queue_watch_open(client, "orders", &o, true, NULL, NULL, &e));
    assert_code(e.code, LEAT_ENOTSUP);
    o.profile = (leat_queue_profile)7;
    assert_null(leat_queue_open(client, "orders", &o, &e));
    assert_code(e.code, LEAT_EINVAL);
    leat_queue_close(q);
}

static leat_code send_odd(leat_queue *q, const leat_msg *m,
                          const leat_queue_send_opts *o)
{
    leat_error e = { 0 };
    leat_code rc = leat_queue_send(q, m, o, NULL, &e);
    if (rc != LEAT_OK)
        assert_true(strlen(e.msg) > 10);
    return rc;
}

static void what_cannot_be_sent_is_told(void **state)
{
    (void)state;
    leat_queue *q = owl("orders", (leat_queue_opts){ .max_message = 100 });
    leat_header twice[] = { { leat_str("a"), leat_str("1") },
                            { leat_str("a"), leat_str("2") } };
    leat_header bytes = { leat_str("a"), leat_str("\xff") };
    char big[200];
    memset(big, 'x', sizeof big);
    leat_queue_send_opts dedup = { .dedup = leat_str("d") };
    leat_queue_send_opts group = { .group = leat_str("g") };
    leat_msg m = { .body = leat_str("x") };
    assert_code(send_odd(q, &m, &dedup), LEAT_ENOTSUP);
    assert_code(send_odd(q, &m, &group), LEAT_ENOTSUP);
    m.headers = twice;
    m.header_count = 2;
    assert_code(send_odd(q, &m, NULL), LEAT_EINVAL);
    m.headers = &bytes;
    m.header_count = 1;
    assert_code(send_odd(q, &m, NULL), LEAT_EINVAL);
    bytes = (leat_header){ leat_mem("a\0b", 3), leat_str("1") };
    assert_code(send_odd(q, &m, NULL), LEAT_EINVAL);
    m.header_count = 0;
    m.id = leat_str("a\nb");
    assert_code(send_odd(q, &m, NULL), LEAT_EINVAL);
    m.id = leat_str("");
    m.body = leat_mem(big, sizeof big);
    assert_code(send_odd(q, &m, NULL), LEAT_ETOOBIG);
    assert_int_equal(redis_int(server, "DBSIZE"), 0);
    leat_queue_close(q);
}

static void names_are_free_but_for_blanks(void **state)
{
    (void)state;
    leat_error e;
    leat_queue_opts o = { .profile = LEAT_QUEUE_REDOWL };
    const char *const bad[] = { "", " ", " orders", "orders ", "a\nb", "\xff" };
    const char *const good[] = { "a:b", "{a}b", "a b", "\xc3\xa9/\"x\"" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(leat_queue_open(client, bad[i], &o, &e));
        assert_code(e.code, LEAT_EINVAL);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        leat_queue *q = owl(good[i], (leat_queue_opts){ 0 });
        send_text(q, "x");
        assert_int_equal(
            redis_int(server, "LLEN redowl:%b:ready", good[i], strlen(good[i])),
            1);
        leat_queue_batch *b = take_one(q);
        ack(q, b);
        leat_queue_batch_free(b);
        leat_queue_close(q);
    }
}

static void foreign_receipts_are_stale(void **state)
{
    (void)state;
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    const char *const bad[] = { "x", "v/orders/1/2/3/4",
                                "0123456789ABCDEF0123456789abcdef",
                                "0123456789abcdef0123456789abcdef" };
    const char *const none[] = { "", " ", "\t\n" };
    send_text(q, "x");
    leat_queue_batch *b = take_one(q);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_code(leat_queue_ack(q, leat_str(bad[i]), NULL), LEAT_ESTALE);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_code(leat_queue_ack(q, leat_str(none[i]), NULL), LEAT_EINVAL);
    ack(q, b);
    assert_code(leat_queue_ack(q, item(b)->receipt, NULL), LEAT_ESTALE);
    assert_code(leat_queue_reject(q, item(b)->receipt, NULL, NULL),
                LEAT_ESTALE);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

/* Settings are the handle's own. */
static void settings_are_each_handles_own(void **state)
{
    (void)state;
    leat_queue *a = owl("orders", (leat_queue_opts){ .max_receives = 3,
                                                     .visibility_ms = 5000 });
    leat_queue *b = owl("orders", (leat_queue_opts){ .must_exist = true });
    assert_int_equal(stats(a).settings.max_receives, 3);
    assert_int_equal(stats(b).settings.max_receives, 0);
    assert_int_equal(stats(b).settings.visibility_ms, 30000);
    must(leat_queue_alter(
        a, &(leat_queue_opts){ .max_receives = -1, .visibility_ms = 7000 },
        err));
    assert_int_equal(stats(a).settings.max_receives, 0);
    assert_int_equal(stats(a).settings.visibility_ms, 7000);
    leat_queue_close(a);
    leat_queue_close(b);
}

static void figures_purging_and_removal(void **state)
{
    (void)state;
    int64_t n;
    leat_queue_opts o = { .profile = LEAT_QUEUE_REDOWL };
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    assert_code(leat_queue_remove(client, "orders", &o, NULL), LEAT_ENOENT);
    send_many(q, 0, 7);
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 3 });
    must(leat_queue_reject(q, item(b)->receipt, "bad", err));
    must(leat_queue_reject(q, leat_queue_batch_at(b, 1)->receipt, NULL, err));
    leat_queue_batch_free(b);
    leat_queue_batch_free(take_dead(q));
    leat_queue_stats s = stats(q);
    assert_int_equal(s.visible, 4);
    assert_int_equal(s.in_flight, 1);
    assert_int_equal(s.dead, 2);
    assert_true(s.oldest_ms >= 0);
    b = leat_queue_peek(q, 10, false, NULL);
    assert_int_equal(leat_queue_batch_count(b), 4);
    assert_item(item(b), "3");
    leat_queue_batch_free(b);
    must(leat_queue_purge(q, false, &n, err));
    assert_int_equal(n, 5);
    s = stats(q);
    assert_int_equal(s.visible + s.in_flight, 0);
    assert_int_equal(s.dead, 2);
    must(leat_queue_purge(q, true, &n, err));
    assert_int_equal(n, 2);
    send_many(q, 0, 3);
    leat_queue_batch_free(take_one(q));
    must(leat_queue_remove(client, "orders", &o, err));
    redisReply *r = redis_raw(server, "KEYS *");
    for (size_t i = 0; i < r->elements; i++)
        assert_non_null(strstr(r->element[i]->str, ":lane:"));
    freeReplyObject(r);
    leat_queue_close(q);
}

static void a_key_of_another_type_is_an_error_and_no_loss(void **state)
{
    (void)state;
    static const char *const keys[] = { "ready", "dlq", "receipt", "inflight",
                                        "dlq_inflight" };
    leat_queue *q = owl("orders", (leat_queue_opts){ .no_reaper = true });
    for (size_t i = 0; i < 5; i++) {
        leat_error e = { 0 };
        redis_do(server, "SET " Q "%s x", keys[i]);
        assert_code(leat_queue_send(q, &(leat_msg){ 0 }, NULL, NULL, &e),
                    LEAT_EDECODE);
        assert_non_null(strstr(e.msg, "holds something else"));
        assert_null(leat_queue_receive(q, NULL, &e));
        assert_int_equal(redis_int(server, "DBSIZE"), 1);
        redis_do(server, "DEL " Q "%s", keys[i]);
    }
    redis_do(server, "SET " Q "msg:a x");
    redis_do(server, "RPUSH " Q "ready a");
    assert_null(leat_queue_receive(q, NULL, NULL));
    assert_int_equal(redis_int(server, "LLEN " Q "ready"), 1);
    leat_queue_close(q);
}

/* Of three, the message in the middle is overwritten by somebody else. */
static leat_queue_batch *take_three_and_spoil_one(leat_queue *q, int64_t ms,
                                                  leat_bytes receipts[3])
{
    send_many(q, 0, 3);
    leat_queue_batch *b = take(
        q, &(leat_receive_opts){ .max = 3, .visibility_ms = ms });
    assert_int_equal(leat_queue_batch_count(b), 3);
    for (size_t i = 0; i < 3; i++)
        receipts[i] = leat_queue_batch_at(b, i)->receipt;
    leat_bytes id = leat_queue_batch_at(b, 1)->msg.id;
    redis_do(server, "SET " Q "msg:%b x", id.p, id.n);
    return b;
}

static void mend_and_count(leat_queue *q, leat_queue_batch *b)
{
    leat_bytes id = leat_queue_batch_at(b, 1)->msg.id;
    redis_do(server, "DEL " Q "msg:%b", id.p, id.n);
    leat_queue_batch_free(b);
    must(leat_queue_requeue_expired_once(q, 0, NULL, err));
    leat_queue_stats s = stats(q);
    b = take(q, &(leat_receive_opts){ .max = 3 });
    assert_int_equal(
        leat_queue_batch_count(b) + (size_t)s.in_flight + (size_t)s.dead, 2);
    leat_queue_batch_free(b);
}

static void a_message_that_is_none_takes_no_other_with_it(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_bytes r[3];
    leat_code outcome[3];
    leat_queue *q = owl("orders", (leat_queue_opts){ .no_reaper = true });
    leat_queue_batch *b = take_three_and_spoil_one(q, 1, r);
    wait_until(leat_queue_requeue_expired_once(q, 0, NULL, &e) != LEAT_OK,
               LONG_MS);
    assert_code(e.code, LEAT_EDECODE);
    assert_non_null(strstr(e.msg, "holds something else"));
    mend_and_count(q, b);
    must(leat_queue_purge(q, false, NULL, err));
    b = take_three_and_spoil_one(q, 60000, r);
    assert_code(leat_queue_change_batch(q, r, 3, 0, outcome, &e), LEAT_EDECODE);
    redis_do(server, "DEL " Q "msg:%b", leat_queue_batch_at(b, 1)->msg.id.p,
             leat_queue_batch_at(b, 1)->msg.id.n);
    must(leat_queue_change_batch(q, r, 3, 0, outcome, err));
    mend_and_count(q, b);
    leat_queue_close(q);
}

/* Whoever changes the visibility of a dead letter gives it to the queue. */
static void a_dead_letter_that_the_other_hides_comes_back_once(void **state)
{
    (void)state;
    leat_queue *q = owl(
        "orders", (leat_queue_opts){ .max_receives = 1, .no_reaper = true });
    send_text(q, "x");
    leat_queue_batch *b = take_one(q);
    must(leat_queue_reject(q, item(b)->receipt, NULL, err));
    leat_queue_batch_free(b);
    b = take(q, &(leat_receive_opts){ .dead = true, .visibility_ms = 1 });
    leat_bytes r = item(b)->receipt;
    redis_do(server, "ZADD " Q "inflight 1 %b", r.p, r.n);
    wait_until(leat_queue_requeue_expired_once(q, 0, NULL, NULL) == LEAT_OK &&
                   redis_int(server, "ZCARD " Q "dlq_inflight") == 0,
               LONG_MS);
    assert_int_equal(redis_int(server, "LLEN " Q "ready") +
                         redis_int(server, "LLEN " Q "dlq"),
                     1);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static void what_is_there_can_be_settled_at_maxmemory(void **state)
{
    (void)state;
    int64_t n;
    leat_queue *q = owl(
        "orders", (leat_queue_opts){ .max_receives = 1, .no_reaper = true });
    send_many(q, 0, 6);
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 4 });
    redis_do(server, "CONFIG SET maxmemory 1");
    assert_code(leat_queue_send(q, &(leat_msg){ 0 }, NULL, NULL, NULL),
                LEAT_EFULL);
    must(leat_queue_ack(q, item(b)->receipt, err));
    must(leat_queue_change_visibility(q, leat_queue_batch_at(b, 1)->receipt, 0,
                                      err));
    must(leat_queue_reject(q, leat_queue_batch_at(b, 2)->receipt, "r", err));
    must(leat_queue_change_visibility(q, leat_queue_batch_at(b, 3)->receipt, 1,
                                      err));
    wait_until(leat_queue_requeue_expired_once(q, 0, &n, NULL) == LEAT_OK &&
                   n == 1,
               LONG_MS);
    leat_queue_batch_free(b);
    b = take(q, &(leat_receive_opts){ .max = 2 });
    assert_int_equal(stats(q).dead, 3);
    must(leat_queue_redrive(q, NULL, &n, err));
    redis_do(server, "CONFIG SET maxmemory 0");
    assert_int_equal(n, 3);
    leat_queue_stats s = stats(q);
    assert_int_equal(s.visible + s.in_flight, 5);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static void a_hold_keeps_a_message_hidden(void **state)
{
    (void)state;
    leat_error e;
    leat_queue *q = owl("orders", (leat_queue_opts){ .visibility_ms = 300 });
    send_text(q, "x");
    leat_queue_batch *b = take_one(q);
    leat_queue_hold *h = leat_queue_hold_start(q, item(b)->receipt, 300, &e);
    assert_non_null(h);
    leat_queue_batch *other = take(q, &(leat_receive_opts){ .wait_ms = 1000 });
    assert_true(leat_queue_batch_count(other) == 0 || leat_queue_hold_lost(h));
    leat_queue_batch_free(other);
    leat_queue_hold_end(h);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

/* ---- as source and sink ----------------------------------------------- */

enum { RUN = 200 };

static leat_verdict count_it(leat_ctx *x, void *arg)
{
    atomic_int *done = arg;
    int n = body_number(leat_ctx_delivery(x));
    if (n % 10 == 0 && leat_delivery_attempt(leat_ctx_delivery(x)) == 1)
        return LEAT_NACK;
    ++*done;
    return LEAT_ACK;
}

static void it_is_a_source_and_a_sink(void **state)
{
    (void)state;
    leat_error e;
    atomic_int done = 0;
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    leat_sink *k = leat_queue_sink(q, &e);
    for (int i = 0; i < RUN; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        leat_msg m = { .body = leat_str(text) };
        must(leat_sink_publish(k, &m, 1, NULL, NULL, err));
    }
    must(leat_sink_flush(k, LONG_MS, err));
    leat_sink_close(k);
    leat_run *run = leat_run_start(leat_queue_source(q, NULL, &e), count_it,
                                   &done, NULL, &e);
    assert_non_null(run);
    wait_until(done == RUN, LONG_MS);
    must(leat_run_stop(run, 0, err));
    assert_int_equal(
        redis_int(server, "EXISTS " Q "ready " Q "inflight " Q "receipt"), 0);
    leat_queue_close(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        queue_test(what_redowl_lacks_is_refused),
        queue_test(what_cannot_be_sent_is_told),
        queue_test(names_are_free_but_for_blanks),
        queue_test(foreign_receipts_are_stale),
        queue_test(settings_are_each_handles_own),
        queue_test(figures_purging_and_removal),
        queue_test(a_key_of_another_type_is_an_error_and_no_loss),
        queue_test(a_message_that_is_none_takes_no_other_with_it),
        queue_test(a_dead_letter_that_the_other_hides_comes_back_once),
        queue_test(what_is_there_can_be_settled_at_maxmemory),
        queue_test(a_hold_keeps_a_message_hidden),
        queue_test(it_is_a_source_and_a_sink),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
