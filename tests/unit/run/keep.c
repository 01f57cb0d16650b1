/* keep.c: heartbeat, time limits and cancel tokens. */
#include "scripted.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* What the handler below does and saw. */
struct desk {
    atomic_bool open;     /* handlers that wait may go on            */
    atomic_int begun;     /* calls                                   */
    atomic_int cancelled; /* calls that saw their token raised       */
    atomic_llong left_ms; /* the delivery had left when it was raised */
    atomic_int again;     /* calls of a redelivery                   */
};

static leat_run *start(scripted *s, leat_handler_fn *fn, struct desk *d,
                       leat_run_opts opts)
{
    leat_error err = { 0 };
    leat_run *r = leat_run_start(scripted_source(s), fn, d, &opts, &err);
    if (!r)
        fail_msg("%s", err.msg);
    return r;
}

static void stop(leat_run *r)
{
    assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);
}

static void note_cancel(struct desk *d, const leat_ctx *x)
{
    atomic_store(&d->left_ms, leat_delivery_left_ms(leat_ctx_delivery(x)));
    atomic_fetch_add(&d->cancelled, 1);
}

/* Waits until the desk opens. */
static leat_verdict wait_open(leat_ctx *x, void *arg)
{
    struct desk *d = arg;
    atomic_fetch_add(&d->begun, 1);
    while (!atomic_load(&d->open))
        script_nap();
    if (leat_ctx_cancelled(x))
        note_cancel(d, x);
    return LEAT_ACK;
}

/* Waits until it is cancelled, the first time a message comes. */
static leat_verdict wait_cancel(leat_ctx *x, void *arg)
{
    struct desk *d = arg;
    atomic_fetch_add(&d->begun, 1);
    if (leat_delivery_attempt(leat_ctx_delivery(x)) > 1) {
        atomic_fetch_add(&d->again, 1);
        return LEAT_ACK;
    }
    AWAIT(leat_ctx_cancelled(x));
    note_cancel(d, x);
    return LEAT_ACK;
}

static leat_verdict poll_cancel(leat_ctx *x, void *arg)
{
    struct desk *d = arg;
    struct pollfd p = { .fd = leat_ctx_cancel_fd(x), .events = POLLIN };
    if (script_number(x) == 0) {
        if (poll(&p, 1, 20000) == 1 && leat_ctx_cancelled(x))
            note_cancel(d, x);
    } else if (poll(&p, 1, 0) != 0) {
        note_cancel(d, x);
    }
    return LEAT_ACK;
}

static void a_slow_message_is_kept_by_heartbeats(void **state)
{
    struct desk d = { 0 };
    scripted *s = scripted_open(false, 1500);
    (void)state;
    scripted_add(s, 3, 0, NULL);
    leat_run *r = start(s, wait_open, &d, (leat_run_opts){ .threads = 2 });
    /* Three rounds outlast the lease; the one that waits is kept too. */
    AWAIT(scripted_extends(s) >= 9);
    atomic_store(&d.open, true);
    AWAIT(scripted_settled(s) == 3);
    stop(r);
    assert_int_equal(d.cancelled, 0);
    assert_int_equal(d.begun, 3);
    scripted_free(s);
}

static void a_failed_heartbeat_is_tried_again_in_time(void **state)
{
    struct desk d = { 0 };
    scripted *s = scripted_open(false, 2400);
    (void)state;
    scripted_fail_extend(s, 1, LEAT_ECONN);
    scripted_add(s, 1, 0, NULL);
    leat_run *r = start(s, wait_open, &d, (leat_run_opts){ 0 });
    AWAIT(scripted_extends(s) >= 2);
    atomic_store(&d.open, true);
    AWAIT(scripted_settled(s) == 1);
    stop(r);
    assert_int_equal(d.cancelled, 0);
    scripted_free(s);
}

static void a_heartbeat_that_finds_it_stale_cancels(void **state)
{
    struct desk d = { 0 };
    leat_run_stats st;
    scripted *s = scripted_open(false, 60000);
    (void)state;
    scripted_extend_says(s, LEAT_ESTALE);
    scripted_add(s, 1, 0, NULL);
    scripted_entry(s, 0)->stale = true;
    leat_run *r = start(s, wait_cancel, &d,
                        (leat_run_opts){ .heartbeat_ms = 5 });
    AWAIT(scripted_settled(s) == 1);
    leat_run_stats_get(r, &st);
    assert_int_equal(st.stale, 1); /* once, though the ack is refused too */
    stop(r);
    assert_int_equal(d.cancelled, 1);
    scripted_free(s);
}

static void
without_a_confirmed_heartbeat_it_cancels_before_the_deadline(void **state)
{
    struct desk d = { 0 };
    scripted *s = scripted_open(false, 1500);
    (void)state;
    scripted_fail_extend(s, 1 << 30, LEAT_ECONN);
    scripted_add(s, 1, 0, NULL);
    leat_run *r = start(s, wait_cancel, &d, (leat_run_opts){ 0 });
    AWAIT(scripted_settled(s) == 1);
    stop(r);
    assert_int_equal(d.cancelled, 1);
    assert_true(d.left_ms > 0);
    assert_true(d.left_ms <= 500);
    scripted_free(s);
}

static void without_heartbeats_it_cancels_at_the_deadline(void **state)
{
    struct desk d = { 0 };
    scripted *s = scripted_open(false, 60);
    (void)state;
    scripted_add(s, 1, 0, NULL);
    leat_run *r = start(s, wait_cancel, &d,
                        (leat_run_opts){ .heartbeat_ms = -1 });
    AWAIT(scripted_settled(s) == 1);
    stop(r);
    assert_int_equal(d.left_ms, 0);
    assert_int_equal(scripted_extends(s), 0);
    scripted_free(s);
}

static void a_message_gone_stale_before_it_began_is_not_run(void **state)
{
    struct desk d = { 0 };
    leat_run_stats st;
    scripted *s = scripted_open(false, 60000);
    (void)state;
    scripted_extend_says(s, LEAT_ESTALE);
    scripted_add(s, 2, 1, NULL);
    leat_run *r = start(s, wait_open, &d, (leat_run_opts){ .heartbeat_ms = 5 });
    AWAIT((leat_run_stats_get(r, &st), st.stale == 2));
    scripted_extend_says(s, LEAT_OK);
    atomic_store(&d.open, true);
    AWAIT(scripted_settled(s) == 2);
    stop(r);
    assert_int_equal(scripted_entry(s, 1)->releases, 1);
    assert_int_equal(scripted_entry(s, 1)->attempts, 1);
    scripted_free(s);
}

static void the_cancel_descriptor_speaks_of_one_message(void **state)
{
    struct desk d = { 0 };
    scripted *s = scripted_open(false, 60000);
    (void)state;
    scripted_extend_says(s, LEAT_ESTALE);
    scripted_add(s, 1, 1, NULL);
    leat_run *r = start(s, poll_cancel, &d,
                        (leat_run_opts){ .threads = 1, .heartbeat_ms = 5 });
    AWAIT(scripted_settled(s) == 1);
    assert_int_equal(d.cancelled, 1);
    scripted_extend_says(s, LEAT_OK);
    scripted_add(s, 10, 1, NULL);
    AWAIT(scripted_settled(s) == 11);
    stop(r);
    assert_int_equal(d.cancelled, 1);
    scripted_free(s);
}

/* The source aborts when a delivery is settled while it is being extended. */
static void a_verdict_during_an_extend_is_carried_out_after_it(void **state)
{
    struct desk d = { 0 };
    scripted *s = scripted_open(false, 60000);
    (void)state;
    scripted_stall_extend(s, true);
    scripted_add(s, 4, 0, NULL);
    leat_run *r = start(s, wait_open, &d, (leat_run_opts){ .heartbeat_ms = 5 });
    AWAIT(scripted_extending(s) == 1);
    atomic_store(&d.open, true);
    scripted_add(s, 1, 0, NULL); /* runs, and is not being extended */
    AWAIT(scripted_settled(s) >= 1);
    scripted_stall_extend(s, false);
    AWAIT(scripted_settled(s) == 5);
    stop(r);
    scripted_free(s);
}

static leat_verdict reject_open(leat_ctx *x, void *arg)
{
    (void)wait_open(x, arg);
    return leat_ctx_reject(x, "kept for later");
}

static void a_reason_given_during_an_extend_arrives(void **state)
{
    struct desk d = { 0 };
    scripted *s = scripted_open(false, 60000);
    (void)state;
    scripted_stall_extend(s, true);
    scripted_add(s, 1, 0, NULL);
    leat_run *r = start(s, reject_open, &d,
                        (leat_run_opts){ .heartbeat_ms = 5 });
    AWAIT(scripted_extending(s) == 1);
    atomic_store(&d.open, true);
    scripted_stall_extend(s, false);
    AWAIT(scripted_settled(s) == 1);
    stop(r);
    assert_string_equal(scripted_entry(s, 0)->reason, "kept for later");
    scripted_free(s);
}

static void a_handler_past_the_limit_loses_its_message(void **state)
{
    struct desk d = { 0 };
    leat_run_stats st;
    scripted *s = scripted_open(false, -1);
    (void)state;
    scripted_add(s, 1, 0, NULL);
    leat_run *r = start(s, wait_cancel, &d,
                        (leat_run_opts){ .max_processing_ms = 20 });
    AWAIT(scripted_settled(s) == 1);
    AWAIT((leat_run_stats_get(r, &st), st.in_flight == 0));
    assert_int_equal(st.cancelled, 1);
    assert_int_equal(st.nacked, 1);
    assert_int_equal(st.acked, 1); /* of the second delivery */
    stop(r);
    assert_int_equal(scripted_entry(s, 0)->acks, 1);
    assert_int_equal(d.again, 1);
    scripted_free(s);
}

static leat_verdict first_stuck(leat_ctx *x, void *arg)
{
    struct desk *d = arg;
    atomic_fetch_add(&d->begun, 1);
    if (script_number(x) == 0 &&
        !leat_delivery_redelivered(leat_ctx_delivery(x)))
        while (!atomic_load(&d->open))
            script_nap();
    return LEAT_ACK;
}

static void a_message_without_lane_runs_again_beside_the_stuck_one(void **state)
{
    struct desk d = { 0 };
    scripted *s = scripted_open(false, -1);
    (void)state;
    scripted_add(s, 1, 0, NULL);
    leat_run *r = start(s, first_stuck, &d,
                        (leat_run_opts){ .max_processing_ms = 20 });
    AWAIT(scripted_settled(s) == 1);
    assert_int_equal(d.begun, 2);
    atomic_store(&d.open, true);
    stop(r);
    scripted_free(s);
}

static void a_lane_waits_for_its_stuck_handler(void **state)
{
    struct desk d = { 0 };
    leat_run_stats st;
    scripted *s = scripted_open(true, -1);
    const script_settle *log;
    (void)state;
    scripted_add(s, 4, 1, NULL);
    leat_run *r = start(s, first_stuck, &d,
                        (leat_run_opts){ .max_processing_ms = 20 });
    AWAIT((leat_run_stats_get(r, &st), st.nacked == 1 && st.released == 3));
    AWAIT((leat_run_stats_get(r, &st), st.received == 8)); /* all are back */
    assert_int_equal(d.begun, 1);
    atomic_store(&d.open, true);
    AWAIT(scripted_settled(s) == 4);
    stop(r);
    assert_int_equal(scripted_log(s, &log), 8);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(log[i].number, i % 4);
    scripted_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_message_is_kept_by_heartbeats),
        cmocka_unit_test(a_failed_heartbeat_is_tried_again_in_time),
        cmocka_unit_test(a_heartbeat_that_finds_it_stale_cancels),
        cmocka_unit_test(
            without_a_confirmed_heartbeat_it_cancels_before_the_deadline),
        cmocka_unit_test(without_heartbeats_it_cancels_at_the_deadline),
        cmocka_unit_test(a_message_gone_stale_before_it_began_is_not_run),
        cmocka_unit_test(the_cancel_descriptor_speaks_of_one_message),
        cmocka_unit_test(a_verdict_during_an_extend_is_carried_out_after_it),
        cmocka_unit_test(a_reason_given_during_an_extend_arrives),
        cmocka_unit_test(a_handler_past_the_limit_loses_its_message),
        cmocka_unit_test(
            a_message_without_lane_runs_again_beside_the_stuck_one),
        cmocka_unit_test(a_lane_waits_for_its_stuck_handler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
