/*
 * queue_life.c: what becomes of a queue's messages that nobody finishes, and
 * how they are counted.
 */
#include "queue_help.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { HIDDEN_MS = 50 };

static int64_t server_ms(void)
{
    return redis_int(server, "EVAL %s 0",
                     "local t = redis.call('TIME') "
                     "return t[1] * 1000 + math.floor(t[2] / 1000)");
}

/* All that was received and delayed until now is over. */
static void wait_until_over(void)
{
    int64_t till = server_ms() + HIDDEN_MS + 1;
    wait_until(server_ms() > till, LONG_MS);
}

static void take_and_lose(leat_queue *q, int n)
{
    leat_queue_batch *b = take(
        q, &(leat_receive_opts){ .max = n, .visibility_ms = HIDDEN_MS });
    assert_int_equal(leat_queue_batch_count(b), n);
    leat_queue_batch_free(b);
}

/* ---- counts ----------------------------------------------------------- */

static void what_expired_counts_as_visible_though_nobody_reaps(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .no_reaper = true });
    send_many(q, 0, 3);
    take_and_lose(q, 2);
    wait_until_over();
    leat_queue_stats s = stats(q);
    assert_int_equal(s.visible, 3);
    assert_int_equal(s.in_flight, 0);
    assert_true(s.oldest_ms > HIDDEN_MS);
    conserved(q);
    leat_queue_close(q);
}

static void what_expired_counts_as_visible_before_a_reaper_comes(void **state)
{
    (void)state;
    the_reaper_has_died();
    leat_queue *lone = queue_of("orders",
                                &(leat_queue_opts){ .no_reaper = true });
    leat_queue *q = queue_of("orders", NULL);
    send_text(lone, "x");
    take_and_lose(lone, 1);
    wait_until_over();
    leat_queue_stats s = stats(q);
    assert_int_equal(s.visible, 1);
    assert_int_equal(s.in_flight, 0);
    conserved(q);
    leat_queue_close(lone);
    leat_queue_close(q);
}

static void what_was_received_too_often_counts_as_dead(void **state)
{
    (void)state;
    leat_queue *q = queue_of(
        "orders", &(leat_queue_opts){ .no_reaper = true, .max_receives = 1 });
    send_many(q, 0, 2);
    take_and_lose(q, 1);
    wait_until_over();
    leat_queue_stats s = stats(q);
    assert_int_equal(s.visible, 1);
    assert_int_equal(s.in_flight, 0);
    assert_int_equal(s.dead, 1);
    conserved(q);
    leat_queue_close(q);
}

static void what_was_delayed_long_enough_counts_as_visible(void **state)
{
    (void)state;
    for (int fifo = 0; fifo < 2; fifo++) {
        leat_queue *q = queue_of(fifo ? "lines" : "orders",
                                 &(leat_queue_opts){ .no_reaper = true,
                                                     .fifo = fifo,
                                                     .delay_ms = HIDDEN_MS });
        send_group(q, "a", "x");
        send_group(q, "a", "y");
        wait_until_over();
        leat_queue_stats s = stats(q);
        assert_int_equal(s.visible, 2);
        assert_int_equal(s.delayed, 0);
        assert_true(s.oldest_ms >= HIDDEN_MS);
        conserved(q);
        leat_queue_close(q);
    }
}

static void a_fifo_queue_counts_what_expired_as_visible(void **state)
{
    (void)state;
    leat_queue *q = queue_of(
        "lines", &(leat_queue_opts){ .no_reaper = true, .fifo = true });
    send_group(q, "a", "x");
    send_group(q, "a", "y");
    send_group(q, "b", "z");
    take_and_lose(q, 2);
    wait_until_over();
    leat_queue_stats s = stats(q);
    assert_int_equal(s.visible, 3);
    assert_int_equal(s.in_flight, 0);
    conserved(q);
    leat_queue_close(q);
}

/* As many as one look reads, and one more. */
static void all_that_expired_is_counted(void **state)
{
    (void)state;
    enum { LOOKED = 4000, LOT = 1000 };
    static leat_msg m[LOT];
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .no_reaper = true });
    for (int i = 0; i < LOOKED / LOT; i++) {
        must(leat_queue_send_batch(q, m, LOT, NULL, NULL, err));
        take_and_lose(q, LOT);
    }
    wait_until_over();
    assert_int_equal(stats(q).visible, LOOKED);
    send_text(q, "x");
    take_and_lose(q, 1);
    wait_until_over();
    assert_int_equal(stats(q).visible, LOOKED + 1);
    assert_int_equal(stats(q).in_flight, 0);
    leat_queue_close(q);
}

/* ---- poison ----------------------------------------------------------- */

/* Received and given back at once, so many times. */
static void fail_times(leat_queue *q, int n)
{
    for (int i = 1; i <= n; i++) {
        leat_queue_batch *b = take_one(q);
        assert_int_equal(item(b)->receives, i);
        must(leat_queue_change_visibility(q, item(b)->receipt, 0, err));
        leat_queue_batch_free(b);
    }
}

static void a_queue_made_by_default_ends_a_poison_message(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    assert_int_equal(stats(q).settings.max_receives, 10);
    send_text(q, "poison");
    fail_times(q, 10);
    assert_int_equal(stats(q).dead, 1);
    nothing(q);
    conserved(q);
    leat_queue_close(q);
}

static void a_queue_that_never_gives_up_says_so(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_queue *q = queue_of("orders",
                             &(leat_queue_opts){ .max_receives = -1 });
    leat_queue_close(
        queue_of("orders", &(leat_queue_opts){ .max_receives = -1 }));
    assert_null(leat_queue_open(client, "orders",
                                &(leat_queue_opts){ .max_receives = 10 }, &e));
    assert_code(e.code, LEAT_EEXIST);
    assert_int_equal(stats(q).settings.max_receives, -1);
    send_text(q, "stubborn");
    fail_times(q, 12);
    assert_int_equal(stats(q).visible, 1);
    leat_queue_close(q);
}

/* As an earlier version left it. */
static void a_queue_that_is_there_keeps_its_bound(void **state)
{
    (void)state;
    redis_do(server,
             "HSET leat:{q/41}:orders:conf created 1 u aa hide 30000 "
             "receives 0 delay 0 ttl 0 max 1048576 dedup 300000 fifo 0 "
             "content 0 events 0 usual %s",
             "30000 1048576 0");
    redis_do(server, "SADD leat:{q/41}:queues orders");
    leat_queue *q = queue_of("orders", NULL);
    assert_int_equal(stats(q).settings.max_receives, -1);
    send_text(q, "stubborn");
    fail_times(q, 12);
    assert_int_equal(stats(q).visible, 1);
    leat_queue_close(q);
}

/* One of them is ready and was received too often for the new bound. */
static void a_bound_that_is_lowered_holds_for_what_is_ready(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    send_many(q, 0, 2);
    leat_queue_batch *b = take_one(q);
    must(leat_queue_change_visibility(q, item(b)->receipt, 0, err));
    leat_queue_batch_free(b);
    must(leat_queue_alter(q, &(leat_queue_opts){ .max_receives = 1 }, err));
    b = take(q, &(leat_receive_opts){ .max = 10 });
    assert_int_equal(leat_queue_batch_count(b), 1);
    assert_item(item(b), "1");
    leat_queue_batch_free(b);
    assert_int_equal(stats(q).dead, 1);
    conserved(q);
    leat_queue_close(q);
}

/* ---- failures --------------------------------------------------------- */

#define PATIENT                                                                \
    (&(leat_queue_opts){ .retry_delay_ms = 5000,                               \
                         .retry_max_delay_ms = 12000,                          \
                         .jitter = LEAT_NO })

/* ms until the first deadline of the queue's shard, as of no later than now. */
static int64_t first_deadline(void)
{
    char text[32];
    redisReply *r = redis_raw(server, "ZRANGE leat:{q/41}:due 0 0 WITHSCORES");
    assert_non_null(r);
    assert_int_equal(r->elements, 2);
    snprintf(text, sizeof text, "%s", r->element[1]->str);
    freeReplyObject(r);
    return (int64_t)strtod(text, NULL);
}

/* Receive it, fail, see for how long it waits, and have it back. */
static void fails_for(leat_queue *q, int64_t asked_ms, int64_t least_ms,
                      int64_t most_ms)
{
    leat_queue_batch *b = take_one(q);
    int64_t before = server_ms();
    must(leat_queue_nack(q, item(b)->receipt, asked_ms, "no", err));
    int64_t due = first_deadline(), after = server_ms();
    assert_true(due - before >= least_ms);
    assert_true(due - after <= most_ms);
    must(leat_queue_change_visibility(q, item(b)->receipt, 0, err));
    leat_queue_batch_free(b);
}

static void a_failure_waits_twice_as_long_each_time(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", PATIENT);
    send_text(q, "x");
    fails_for(q, -1, 5000, 5000);
    fails_for(q, -1, 10000, 10000);
    fails_for(q, -1, 12000, 12000);
    fails_for(q, 7000, 7000, 7000); /* what is asked for goes before */
    leat_queue_close(q);
}

static void a_fixed_backoff_waits_the_same_each_time(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders",
                             &(leat_queue_opts){ .retry_delay_ms = 90000,
                                                 .backoff = LEAT_BACKOFF_FIXED,
                                                 .jitter = LEAT_NO });
    assert_int_equal(stats(q).settings.retry_max_delay_ms, 90000);
    send_text(q, "x");
    fails_for(q, -1, 90000, 90000);
    fails_for(q, -1, 90000, 90000);
    must(
        leat_queue_alter(q, &(leat_queue_opts){ .retry_delay_ms = 3000 }, err));
    fails_for(q, -1, 3000, 3000);
    leat_queue_close(q);
}

static void by_default_a_failure_waits_up_to_a_second(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .no_reaper = true });
    leat_queue_opts s = stats(q).settings;
    assert_int_equal(s.retry_delay_ms, 1000);
    assert_int_equal(s.retry_max_delay_ms, 60000);
    assert_int_equal(s.backoff, LEAT_BACKOFF_EXPONENTIAL);
    assert_int_equal(s.jitter, LEAT_YES);
    send_text(q, "x");
    leat_queue_batch *b = take_one(q);
    must(leat_queue_nack(q, item(b)->receipt, -1, NULL, err));
    int64_t after = server_ms();
    leat_queue_batch_free(b);
    if (stats(q).in_flight == 1) /* else chance made it wait for nothing */
        assert_true(first_deadline() <= after + 1000);
    conserved(q);
    leat_queue_close(q);
}

/* Those that fail together do not come back together. */
static void with_jitter_each_waits_another_time(void **state)
{
    (void)state;
    enum { N = 20, DELAY_MS = 3600 * 1000 };
    leat_queue *q = queue_of(
        "orders",
        &(leat_queue_opts){ .retry_delay_ms = DELAY_MS, .no_reaper = true });
    send_many(q, 0, N);
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = N });
    int64_t before = server_ms();
    for (int i = 0; i < N; i++)
        must(leat_queue_nack(q, leat_queue_batch_at(b, (size_t)i)->receipt, -1,
                             NULL, err));
    int64_t after = server_ms();
    assert_int_equal(redis_int(server, "ZCOUNT leat:{q/41}:due %lld %lld",
                               (long long)before,
                               (long long)(after + DELAY_MS + 1)),
                     N);
    assert_true(redis_int(server, "ZCOUNT leat:{q/41}:due %lld %lld",
                          (long long)before,
                          (long long)(after + DELAY_MS / 2)) < N);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static void without_a_backoff_a_failure_comes_back_at_once(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders",
                             &(leat_queue_opts){ .retry_delay_ms = -1 });
    assert_int_equal(stats(q).settings.retry_delay_ms, -1);
    send_text(q, "x");
    leat_queue_batch *b = take_one(q);
    must(leat_queue_nack(q, item(b)->receipt, -1, NULL, err));
    leat_queue_batch_free(b);
    assert_int_equal(stats(q).visible, 1);
    leat_queue_close(q);
}

static leat_verdict fail_always(leat_ctx *x, void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return leat_ctx_fail(x, "it burns");
}

static void a_handler_that_fails_waits_as_the_queue_says(void **state)
{
    (void)state;
    atomic_int calls = 0;
    leat_error e = { 0 };
    leat_queue *q = queue_of("orders", PATIENT);
    send_text(q, "x");
    int64_t before = server_ms();
    leat_run *r = leat_run_start(leat_queue_source(q, NULL, &e), fail_always,
                                 &calls, NULL, &e);
    assert_non_null(r);
    wait_until(atomic_load(&calls) == 1 && stats(q).in_flight == 1 &&
                   first_deadline() < before + 25000,
               LONG_MS);
    assert_true(first_deadline() >= before + 5000);
    must(leat_run_stop(r, 0, err));
    leat_queue_close(q);
}

static void wrong_policies_are_refused(void **state)
{
    (void)state;
    static const leat_queue_opts bad[] = {
        { .retry_delay_ms = -2 },
        { .retry_delay_ms = LEAT_VISIBILITY_MAX_MS + 1 },
        { .retry_max_delay_ms = -1 },
        { .retry_max_delay_ms = LEAT_VISIBILITY_MAX_MS + 1 },
        { .retry_delay_ms = 5000, .retry_max_delay_ms = 4000 },
        { .backoff = LEAT_BACKOFF_FIXED + 1 },
        { .jitter = LEAT_NO + 1 },
    };
    leat_error e = { 0 };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(leat_queue_open(client, "orders", &bad[i], &e));
        assert_code(e.code, LEAT_EINVAL);
    }
    leat_queue *q = queue_of("orders", NULL);
    assert_code(leat_queue_nack(q, leat_str("x"), -2, NULL, &e), LEAT_EINVAL);
    assert_null(leat_queue_open(client, "orders",
                                &(leat_queue_opts){ .retry_delay_ms = 5 }, &e));
    assert_code(e.code, LEAT_EEXIST);
    leat_queue_close(q);
}

/* ---- reasons ---------------------------------------------------------- */

static void fail_with(leat_queue *q, const char *reason)
{
    leat_queue_batch *b = take_one(q);
    must(leat_queue_nack(q, item(b)->receipt, 0, reason, err));
    leat_queue_batch_free(b);
}

/* The last receive says nothing: whoever had it died. */
static void a_dead_letter_by_its_receives_has_the_last_reason(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .max_receives = 3 });
    send_text(q, "x");
    fail_with(q, "first");
    fail_with(q, "second");
    take_and_lose(q, 1);
    leat_queue_batch *b = take_dead(q);
    assert_true(leat_bytes_eq(item(b)->reason, leat_str("second")));
    must(leat_queue_change_visibility(q, item(b)->receipt, 0, err));
    leat_queue_batch_free(b);
    b = leat_queue_peek(q, 10, true, NULL);
    assert_non_null(b);
    assert_true(leat_bytes_eq(item(b)->reason, leat_str("second")));
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static int64_t reasons_kept(void)
{
    return redis_int(server, "HLEN leat:{q/41}:orders:why");
}

static void a_reason_goes_with_its_message(void **state)
{
    (void)state;
    int64_t n;
    leat_queue *q = queue_of("orders", NULL);
    send_text(q, "acked");
    fail_with(q, "no");
    assert_int_equal(reasons_kept(), 1);
    leat_queue_batch *b = take_one(q);
    ack(q, b);
    leat_queue_batch_free(b);
    assert_int_equal(reasons_kept(), 0);
    send_text(q, "purged");
    fail_with(q, "no");
    must(leat_queue_purge(q, false, &n, err));
    assert_int_equal(reasons_kept(), 0);
    send_text(q, "too old");
    fail_with(q, "no");
    must(leat_queue_alter(q, &(leat_queue_opts){ .ttl_ms = 1 }, err));
    wait_until_over();
    nothing(q);
    assert_int_equal(reasons_kept(), 0);
    leat_queue_close(q);
}

static leat_verdict fail_once(leat_ctx *x, void *arg)
{
    return atomic_fetch_add((atomic_int *)arg, 1) == 0
               ? leat_ctx_fail(x, "it burns")
               : LEAT_ACK;
}

static void a_pool_that_is_done_with_a_message_forgets_its_reason(void **state)
{
    (void)state;
    atomic_int calls = 0;
    leat_error e = { 0 };
    leat_queue *q = queue_of("orders", PATIENT);
    send_text(q, "x");
    leat_pool *p = leat_pool_start(client, fail_once, &calls,
                                   &(leat_pool_opts){ .no_events = true }, &e);
    assert_non_null(p);
    wait_until(reasons_kept() == 1, LONG_MS);
    assert_int_equal(atomic_load(&calls), 1); /* it waits */
    wait_until(stats(q).acked == 1, LONG_MS);
    assert_int_equal(reasons_kept(), 0);
    must(leat_pool_stop(p, 0, err));
    leat_queue_close(q);
}

/* ---- pause ------------------------------------------------------------ */

static void a_paused_queue_hands_out_nothing_and_takes_in(void **state)
{
    (void)state;
    for (int fifo = 0; fifo < 2; fifo++) {
        leat_queue *q = queue_of(fifo ? "lines" : "orders",
                                 &(leat_queue_opts){ .fifo = fifo });
        leat_queue *other = queue_of(fifo ? "lines" : "orders", NULL);
        send_group(q, "a", "1");
        send_group(q, "b", "2");
        leat_queue_batch *b = take_one(q);
        must(leat_queue_pause(other, err));
        must(leat_queue_pause(q, err));
        int64_t since = stats(q).paused_ms;
        assert_true(since > 1600000000000);
        nothing(q);
        nothing(other);
        send_group(q, "c", "3");
        ack(q, b);
        leat_queue_batch_free(b);
        assert_int_equal(stats(q).visible, 2);
        assert_int_equal(stats(q).in_flight, 0);
        nothing(q);
        must(leat_queue_resume(q, err));
        assert_int_equal(stats(other).paused_ms, 0);
        b = take(other, &(leat_receive_opts){ .max = 10 });
        assert_int_equal(leat_queue_batch_count(b), 2);
        leat_queue_batch_free(b);
        conserved(q);
        leat_queue_close(other);
        leat_queue_close(q);
    }
}

static void a_paused_queue_still_hands_out_its_dead_letters(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    send_text(q, "x");
    leat_queue_batch *b = take_one(q);
    must(leat_queue_reject(q, item(b)->receipt, "no", err));
    leat_queue_batch_free(b);
    must(leat_queue_pause(q, err));
    b = take_dead(q);
    assert_item(item(b), "x");
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

/* Without being told it would look after 5 s.  The best of some tries: the
 * machine may be busy. */
static void who_waits_is_woken_when_a_queue_is_resumed(void **state)
{
    (void)state;
    enum { TRIES = 5, SOON_MS = 1500 };
    int64_t best = INT64_MAX;
    leat_queue *q = queue_of("orders", NULL);
    for (int i = 0; i < TRIES && best > SOON_MS; i++) {
        patient p = { .q = q };
        pthread_t thread;
        must(leat_queue_pause(q, err));
        send_text(q, "x");
        assert_int_equal(pthread_create(&thread, NULL, be_patient, &p), 0);
        wait_nap(200); /* so that it waits, most likely */
        int64_t from = wait_now_ms();
        must(leat_queue_resume(q, err));
        pthread_join(thread, NULL);
        best = p.came_ms - from < best ? p.came_ms - from : best;
    }
    assert_true(best <= SOON_MS);
    leat_queue_close(q);
}

static void another_queue_of_that_name_is_not_paused(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_queue *q = queue_of("orders", NULL);
    must(leat_queue_remove(client, "orders", NULL, err));
    assert_code(leat_queue_pause(q, &e), LEAT_ENOENT);
    leat_queue *other = queue_of("orders", NULL);
    assert_code(leat_queue_pause(q, &e), LEAT_ENOENT);
    assert_int_equal(stats(other).paused_ms, 0);
    leat_queue_close(q);
    leat_queue_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        queue_test(what_expired_counts_as_visible_though_nobody_reaps),
        queue_test(what_expired_counts_as_visible_before_a_reaper_comes),
        queue_test(what_was_received_too_often_counts_as_dead),
        queue_test(what_was_delayed_long_enough_counts_as_visible),
        queue_test(a_fifo_queue_counts_what_expired_as_visible),
        queue_test(all_that_expired_is_counted),
        queue_test(a_queue_made_by_default_ends_a_poison_message),
        queue_test(a_queue_that_never_gives_up_says_so),
        queue_test(a_queue_that_is_there_keeps_its_bound),
        queue_test(a_bound_that_is_lowered_holds_for_what_is_ready),
        queue_test(a_failure_waits_twice_as_long_each_time),
        queue_test(a_fixed_backoff_waits_the_same_each_time),
        queue_test(by_default_a_failure_waits_up_to_a_second),
        queue_test(with_jitter_each_waits_another_time),
        queue_test(without_a_backoff_a_failure_comes_back_at_once),
        queue_test(a_handler_that_fails_waits_as_the_queue_says),
        queue_test(wrong_policies_are_refused),
        queue_test(a_dead_letter_by_its_receives_has_the_last_reason),
        queue_test(a_reason_goes_with_its_message),
        queue_test(a_pool_that_is_done_with_a_message_forgets_its_reason),
        queue_test(a_paused_queue_hands_out_nothing_and_takes_in),
        queue_test(a_paused_queue_still_hands_out_its_dead_letters),
        queue_test(who_waits_is_woken_when_a_queue_is_resumed),
        queue_test(another_queue_of_that_name_is_not_paused),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
