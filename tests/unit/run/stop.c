/* stop.c: stopping drained, and stopping when something is stuck. */
#include "base/thread.h"
#include "scripted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct desk {
    atomic_bool open;
    atomic_int begun, cancelled;
};

static leat_verdict ack(leat_ctx *x, void *arg)
{
    (void)x;
    (void)arg;
    return LEAT_ACK;
}

static leat_verdict wait_open(leat_ctx *x, void *arg)
{
    struct desk *d = arg;
    (void)x;
    atomic_fetch_add(&d->begun, 1);
    AWAIT(atomic_load(&d->open));
    return LEAT_ACK;
}

static leat_verdict wait_cancel(leat_ctx *x, void *arg)
{
    struct desk *d = arg;
    atomic_fetch_add(&d->begun, 1);
    AWAIT(leat_ctx_cancelled(x));
    atomic_fetch_add(&d->cancelled, 1);
    return LEAT_ACK;
}

static leat_run *start(scripted *s, leat_handler_fn *fn, struct desk *d,
                       leat_run_opts opts)
{
    leat_run *r = leat_run_start(scripted_source(s), fn, d, &opts, NULL);
    assert_non_null(r);
    return r;
}

/* A stop on a thread of its own. */
struct stopper {
    pthread_t thread;
    leat_run *run;
    leat_code code;
};

static void *stop_main(void *arg)
{
    struct stopper *p = arg;
    p->code = leat_run_stop(p->run, 0, NULL);
    return NULL;
}

static void begin_stop(struct stopper *p, leat_run *r)
{
    p->run = r;
    assert_int_equal(
        leat__thread_start(&p->thread, "stopper", stop_main, p, NULL), LEAT_OK);
}

static leat_code end_stop(struct stopper *p)
{
    pthread_join(p->thread, NULL);
    return p->code;
}

static size_t settlements(scripted *s)
{
    const script_settle *log;
    return scripted_log(s, &log);
}

static void stop_while_one_runs(uint64_t lane)
{
    struct desk d = { 0 };
    struct stopper p;
    scripted *s = scripted_open(lane % 2 == 1, 60000);
    scripted_add(s, 40, lane, NULL);
    leat_run *r = start(s, wait_open, &d,
                        (leat_run_opts){ .threads = 1, .max_in_flight = 30 });
    leat_run_stats st;
    AWAIT((leat_run_stats_get(r, &st), d.begun == 1 && st.in_flight == 30));
    begin_stop(&p, r);
    AWAIT(settlements(s) == 29); /* while the handler still runs */
    assert_false(scripted_closed(s));
    atomic_store(&d.open, true);
    assert_int_equal(end_stop(&p), LEAT_OK);
    assert_int_equal(d.begun, 1);
    assert_int_equal(scripted_entry(s, 0)->acks, 1);
    for (size_t i = 1; i < 30; i++) {
        assert_int_equal(scripted_entry(s, i)->releases, 1);
        assert_int_equal(scripted_entry(s, i)->attempts, 0);
    }
    assert_true(scripted_closed(s));
    scripted_free(s);
}

static void a_stop_releases_what_waits_and_drains_what_runs(void **state)
{
    (void)state;
    stop_while_one_runs(0);
    stop_while_one_runs(1);
    stop_while_one_runs(2);
}

static void a_stop_cancels_a_stuck_handler_and_says_so(void **state)
{
    struct desk d = { 0 };
    leat_error err;
    scripted *s = scripted_open(false, -1);
    (void)state;
    scripted_add(s, 2, 0, NULL);
    leat_run *r = start(s, wait_cancel, &d, (leat_run_opts){ .threads = 2 });
    AWAIT(d.begun == 2);
    assert_int_equal(leat_run_stop(r, 20, &err), LEAT_ETIMEOUT);
    assert_int_equal(d.cancelled, 2);
    assert_int_equal(scripted_entry(s, 0)->acks, 1);
    assert_int_equal(scripted_entry(s, 1)->acks, 1);
    scripted_free(s);
}

static void a_stop_keeps_what_still_runs(void **state)
{
    struct desk d = { 0 };
    struct stopper p;
    scripted *s = scripted_open(false, 60000);
    (void)state;
    scripted_add(s, 1, 0, NULL);
    leat_run *r = start(s, wait_open, &d, (leat_run_opts){ .heartbeat_ms = 5 });
    AWAIT(d.begun == 1);
    begin_stop(&p, r);
    size_t before = scripted_extends(s);
    AWAIT(scripted_extends(s) > before + 3);
    atomic_store(&d.open, true);
    assert_int_equal(end_stop(&p), LEAT_OK);
    scripted_free(s);
}

/* A receive waits a second, and a pause between failures up to five. */
static void a_stop_does_not_wait_for_the_source(void **state)
{
    int64_t begun = script_now_ms();
    (void)state;
    for (int i = 0; i < 20; i++) {
        scripted *s = scripted_open(false, -1);
        if (i % 2)
            scripted_fail_receive(s, 1 << 30, LEAT_ECONN);
        leat_run *r = start(s, ack, NULL, (leat_run_opts){ 0 });
        AWAIT(scripted_calls(s) > (size_t)(i % 2) * 4);
        assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);
        scripted_free(s);
    }
    assert_true(script_now_ms() - begun < 15000);
}

static leat_verdict nack_some(leat_ctx *x, void *arg)
{
    (void)arg;
    return script_number(x) % 5 == 0 ? LEAT_NACK : LEAT_ACK;
}

/* The source aborts when a delivery is not settled at the close. */
static void a_stop_at_any_moment_leaves_nothing_out(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        scripted *s = scripted_open(i % 2, i % 3 ? 30 : -1);
        scripted_add(s, 500, 0, NULL);
        for (uint64_t lane = 0; lane < 20; lane++)
            scripted_add(s, 50, lane, NULL);
        leat_run *r = start(s, nack_some, NULL,
                            (leat_run_opts){ .threads = 1 + i % 8,
                                             .heartbeat_ms = 1,
                                             .max_in_flight = 1 + i * 3 });
        AWAIT(settlements(s) >= (size_t)i * 10);
        assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);
        scripted_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_releases_what_waits_and_drains_what_runs),
        cmocka_unit_test(a_stop_cancels_a_stuck_handler_and_says_so),
        cmocka_unit_test(a_stop_keeps_what_still_runs),
        cmocka_unit_test(a_stop_does_not_wait_for_the_source),
        cmocka_unit_test(a_stop_at_any_moment_leaves_nothing_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
