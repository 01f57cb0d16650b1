/*
 * queue_delay.c: who waits gets what is delayed when it is due, though the
 * process that sent it has ended and no reaper of the shard lives.
 */
#include "queue_help.h"

#include <pthread.h>
#include <stdlib.h>

enum { ROUNDS = 8, MOST_OF = 5, SOON_MS = 100, LATE_MS = 900, CALLS = 40 };

/* From a process of its own, as it were: nothing is left of it. */
static void send_and_end(int64_t delay_ms, bool with_id)
{
    leat_error e = { 0 };
    leat_client *c = open_client(url, NULL);
    leat_queue *q = leat_queue_open(
        c, "orders", &(leat_queue_opts){ .no_reaper = true }, &e);
    assert_non_null(q);
    leat_msg m = { .body = leat_str("x"),
                   .id = leat_str(with_id ? "mine" : "") };
    must(leat_queue_send(q, &m, &(leat_queue_send_opts){ .delay_ms = delay_ms },
                         NULL, err));
    leat_queue_close(q);
    leat_client_close(c);
}

/* How late it came to one who waited before it was sent. */
static int64_t lateness(leat_queue *q, bool with_id)
{
    patient p = { .q = q };
    pthread_t thread;
    the_reaper_has_died();
    assert_int_equal(pthread_create(&thread, NULL, be_patient, &p), 0);
    wait_until(redis_int(server, "PUBSUB CHANNELS leat:{q/41}:orders:ready") ==
                   1,
               LONG_MS);
    int64_t due = wait_now_ms() + SOON_MS;
    send_and_end(SOON_MS, with_id);
    pthread_join(thread, NULL);
    return p.came_ms - due;
}

/* A busy machine may be late now and then; three seconds are not its doing. */
static void what_an_ended_process_delayed_comes_in_time(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    for (int with_id = 0; with_id < 2; with_id++) {
        int in_time = 0;
        for (int i = 0; i < ROUNDS; i++)
            in_time += lateness(q, with_id) < LATE_MS;
        if (in_time < MOST_OF)
            fail_msg("only %d of %d came in time", in_time, ROUNDS);
    }
    leat_queue_close(q);
}

static int64_t scripts_run(void)
{
    return redis_int(server, "EVAL %s 0",
                     "return tonumber(string.match(redis.call('INFO', "
                     "'commandstats'), 'cmdstat_evalsha:calls=(%d+)') or 0)");
}

/* It was there before the wait began.  The server is not asked until then, but
 * by the reaper now and then. */
static void who_waits_for_a_delay_asks_only_when_it_is_over(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    int in_time = 0;
    for (int i = 0; i < ROUNDS; i++) {
        the_reaper_has_died();
        int64_t due = wait_now_ms() + 3 * SOON_MS;
        send_and_end(3 * SOON_MS, false);
        int64_t before = scripts_run();
        patient p = { .q = q };
        (void)be_patient(&p);
        in_time += p.came_ms - due < LATE_MS;
        assert_true(scripts_run() - before < CALLS);
    }
    if (in_time < MOST_OF)
        fail_msg("only %d of %d came in time", in_time, ROUNDS);
    leat_queue_close(q);
}

/* ---- never early ------------------------------------------------------ */

static int64_t server_ms(void)
{
    redisReply *r = redis_raw(server, "TIME");
    int64_t ms = strtoll(r->element[0]->str, NULL, 10) * 1000 +
                 strtoll(r->element[1]->str, NULL, 10) / 1000;
    freeReplyObject(r);
    return ms;
}

static void none_comes_before_its_time_by_the_servers_clock(void **state)
{
    static const int64_t delays[] = { 300, 1200 };
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    for (int i = 0; i < 4; i++) {
        int64_t before = server_ms(), delay = delays[i / 2];
        send_and_end(delay, i % 2);
        leat_queue_batch *b = take_one(q);
        assert_true(server_ms() - before >= delay);
        ack(q, b);
        leat_queue_batch_free(b);
    }
    leat_queue_close(q);
}

/* ---- woken, not found by a look --------------------------------------- */

/* Who waits looks every 5 s by itself. */
enum { WOKEN_MS = 2500, TRIES = 3 };

static int64_t wait_of(leat_queue *q, bool with_id)
{
    patient p = { .q = q };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, be_patient, &p), 0);
    wait_until(redis_int(server, "EVAL %s 0",
                         "return redis.call('PUBSUB', 'NUMSUB', "
                         "'leat:{q/41}:orders:ready')[2]") > 0,
               LONG_MS);
    wait_nap(100); /* the look before the wait is over */
    int64_t sent = wait_now_ms();
    send_and_end(-1, with_id);
    pthread_join(thread, NULL);
    return p.came_ms - sent;
}

static void a_send_wakes_who_waits(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    for (int with_id = 0; with_id < 2; with_id++) {
        int64_t best = LONG_MS;
        for (int i = 0; i < TRIES && best >= WOKEN_MS; i++) {
            int64_t ms = wait_of(q, with_id);
            best = ms < best ? ms : best;
        }
        if (best >= WOKEN_MS)
            fail_msg("nobody was woken: it took %lld ms", (long long)best);
    }
    leat_queue_close(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        queue_test(what_an_ended_process_delayed_comes_in_time),
        queue_test(who_waits_for_a_delay_asks_only_when_it_is_over),
        queue_test(none_comes_before_its_time_by_the_servers_clock),
        queue_test(a_send_wakes_who_waits),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
