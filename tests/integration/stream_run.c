/*
 * stream_run.c: the runner on a plain stream, and failed allocations.
 */
#include "stream_help.h"
#include "support/allocfail.h"

#include <stdatomic.h>
#include <stdlib.h>

/* ---- the runner ------------------------------------------------------- */

enum { N = 2000 };
static atomic_int handled[N];

static leat_verdict count_them(leat_ctx *x, void *arg)
{
    int n = number_of(leat_ctx_delivery(x));
    (void)arg;
    /* every tenth fails at first */
    if (atomic_fetch_add(&handled[n], 1) == 0 && n % 10 == 0)
        return leat_ctx_nack(x, 1);
    return LEAT_ACK;
}

static uint64_t acked(leat_run *r)
{
    leat_run_stats st;
    leat_run_stats_get(r, &st);
    return st.acked;
}

static leat_run *run_on(leat_source *q, leat_handler_fn *fn, void *arg,
                        const leat_run_opts *opts)
{
    leat_error e = { 0 };
    leat_run *r = leat_run_start(q, fn, arg, opts, &e);
    if (!r)
        fail_msg("run: %s", e.msg);
    return r;
}

static void a_runner_works_a_stream_off(void **state)
{
    (void)state;
    memset(handled, 0, sizeof handled);
    publish(0, N);
    leat_run *r = run_on(subscribe(NULL), count_them, NULL, NULL);
    wait_until(acked(r) == N, LONG_MS);
    must(leat_run_stop(r, LONG_MS, err));
    assert_int_equal(pending(), 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(handled[i], i % 10 == 0 ? 2 : 1);
    assert_int_equal(redis_int(server, "XINFO CONSUMERS s g"), 0);
}

static leat_verdict slow(leat_ctx *x, void *arg)
{
    atomic_int *started = arg;
    (void)x;
    atomic_fetch_add(started, 1);
    wait_nap(1500);
    return LEAT_ACK;
}

/* The heartbeat extends what takes longer than the idle time. */
static void a_slow_handler_keeps_its_message(void **state)
{
    atomic_int started = 0;
    leat_stream_source_opts o = { .idle_ms = 900, .claim_ms = 50 };
    (void)state;
    publish(0, 1);
    leat_run *r = run_on(subscribe(&o), slow, &started, NULL);
    wait_until(started == 1, LONG_MS);
    leat_source *other = subscribe(&o);
    wait_until(acked(r) == 1, LONG_MS);
    must(leat_run_stop(r, LONG_MS, err));
    assert_null(next_within(other, 0));
    leat_source_close(other);
    assert_int_equal(pending(), 0);
}

static leat_verdict stand(leat_ctx *x, void *arg)
{
    atomic_int *started = arg;
    atomic_fetch_add(started, 1);
    while (!leat_ctx_cancelled(x))
        wait_nap(1);
    return leat_ctx_nack(x, 0);
}

/* What never started goes back uncounted. */
static void a_stopped_runner_gives_back_what_it_did_not_begin(void **state)
{
    atomic_int started = 0;
    leat_error e = { 0 };
    (void)state;
    publish(0, 20);
    leat_run *r = run_on(
        subscribe(&(leat_stream_source_opts){ .nack_at_once = true }), stand,
        &started, &(leat_run_opts){ .threads = 2 });
    wait_until(started == 2, LONG_MS);
    (void)leat_run_stop(r, 1, &e); /* the handlers run past the deadline */
    assert_int_equal(pending(), 20);
    leat_source *q = subscribe(NULL); /* idle for a minute otherwise */
    int again = 0;
    for (int i = 0; i < 20; i++) {
        leat_delivery *d = next_of(q);
        again += leat_delivery_attempt(d) > 1;
        ack(d);
    }
    flush(q);
    assert_int_equal(again, 2);
    leat_source_close(q);
}

/* ---- failed allocations ----------------------------------------------- */

static void told(void *arg, const leat_position *at, const leat_error *err)
{
    atomic_int *n = arg;
    (void)at;
    (void)err;
    atomic_fetch_add(n, 1);
}

/* Publish and receive a few, through whatever fails; all of it is freed and
 * every accepted message has its outcome. */
static void sink_body(void *arg)
{
    atomic_int outcomes = 0;
    int accepted = 0;
    (void)arg;
    leat_client *c = leat_client_open(url, NULL, NULL);
    leat_stream *s = c ? leat_stream_open(c, "s", NULL, NULL) : NULL;
    leat_sink *k = s ? leat_stream_sink(s, NULL, NULL) : NULL;
    for (int i = 0; k && i < 3; i++)
        accepted += leat_sink_publish(k, &(leat_msg){ .body = leat_str("0") },
                                      1, told, &outcomes, NULL) == LEAT_OK;
    if (k)
        (void)leat_sink_flush(k, 200, NULL);
    leat_sink_close(k);
    assert_int_equal(outcomes, accepted);
    leat_stream_close(s);
    leat_client_close(c);
}

static void a_publisher_survives_every_failed_allocation(void **state)
{
    (void)state;
    alloc_fail_sweep(sink_body, NULL);
}

/* Six settlements of all kinds; which of them come back does not matter
 * here. */
static void settle_some(leat_source *q)
{
    leat_delivery *d;
    int64_t end = wait_now_ms() + 300;
    for (int n = 0; n < 6 && wait_now_ms() < end;) {
        if (leat_source_receive(q, &d, 1, 10, NULL) != 1)
            continue;
        if (n == 1)
            (void)leat_delivery_extend(d, 1000, NULL);
        if (n == 2)
            (void)leat_stream_nack_now(d);
        else if (n == 3)
            (void)leat_delivery_nack(d, 0);
        else
            (void)leat_delivery_ack(d);
        n++;
    }
}

/* By hand, as the stream has to be filled each time, unharmed. */
static void a_subscriber_survives_every_failed_allocation(void **state)
{
    (void)state;
    for (int forever = 0; forever < 2; forever++) {
        long fails = 1;
        for (long n = 1; fails > 0 && n < 2000; n++) {
            assert_true(redis_flush(server));
            redis_do(server, "XGROUP CREATE s g 0 MKSTREAM");
            publish(0, 5);
            redis_do(server, "XREADGROUP GROUP g me COUNT 2 STREAMS s >");
            alloc_fail_install(n, forever);
            leat_client *c = leat_client_open(url, NULL, NULL);
            leat_stream *s = c ? leat_stream_open(c, "s", NULL, NULL) : NULL;
            leat_source *q = s ? leat_stream_source(s, "g",
                                                    &(leat_stream_source_opts){
                                                        .consumer = "me",
                                                        .idle_ms = 1000,
                                                        .block_ms = 20 },
                                                    NULL)
                               : NULL;
            if (q)
                settle_some(q);
            leat_source_close(q);
            leat_stream_close(s);
            leat_client_close(c);
            fails = alloc_fail_count();
            long live = alloc_fail_live();
            alloc_fail_remove();
            if (live != 0)
                fail_msg("%ld blocks leaked with allocation %ld failing%s",
                         live, n, forever ? " and all after it" : "");
        }
    }
}

/* One failure does not lose or double a message. */
static void after_a_failed_allocation_all_messages_come(void **state)
{
    enum { MANY = 40 };
    (void)state;
    for (long n = 1; n < 60; n++) {
        bool seen[MANY] = { false };
        assert_true(redis_flush(server));
        publish(0, MANY);
        alloc_fail_install(ALLOC_FAIL_NEVER, false);
        leat_client *c = open_client(url, NULL);
        leat_source *q = subscribe_on(
            c, NULL, &(leat_stream_source_opts){ .batch = 7, .block_ms = 20 });
        long now = alloc_fail_calls();
        atomic_store(&alloc_fail_state.at, now + n);
        receive_all(q, MANY, seen, MANY);
        leat_error e = { 0 };
        (void)leat_source_flush(q, LONG_MS, &e);
        leat_source_close(q);
        leat_client_close(c);
        long fails = alloc_fail_count();
        alloc_fail_remove();
        assert_int_equal(pending(), 0);
        if (fails == 0)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        stream_test(a_runner_works_a_stream_off),
        stream_test(a_slow_handler_keeps_its_message),
        stream_test(a_stopped_runner_gives_back_what_it_did_not_begin),
        stream_test(a_publisher_survives_every_failed_allocation),
        stream_test(a_subscriber_survives_every_failed_allocation),
        stream_test(after_a_failed_allocation_all_messages_come),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
