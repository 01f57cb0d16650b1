/* run.c: verdicts, bounds, failures and counts of the runner. */
#include "run/run.h"
#include "base/error.h"
#include "scripted.h"
#include "support/allocfail.h"

#include <stdlib.h>
#include <string.h>

static leat_run *start(scripted *s, leat_handler_fn *fn, void *arg,
                       leat_run_opts opts)
{
    leat_error err = { 0 };
    leat_run *r = leat_run_start(scripted_source(s), fn, arg, &opts, &err);
    if (!r)
        fail_msg("%s", err.msg);
    return r;
}

static leat_verdict ack(leat_ctx *x, void *arg)
{
    (void)x;
    (void)arg;
    return LEAT_ACK;
}

static leat_verdict by_number(leat_ctx *x, void *arg)
{
    bool again = leat_delivery_redelivered(leat_ctx_delivery(x));
    (void)arg;
    switch (script_number(x)) {
    case 0:
        return LEAT_ACK;
    case 1:
        return again ? LEAT_ACK : leat_ctx_nack(x, 7);
    case 2:
        return leat_ctx_reject(x, "no such customer");
    case 3:
        return again ? LEAT_ACK : (leat_verdict)99;
    default:
        leat_ctx_nack(x, 5000); /* said, but not returned */
        return LEAT_ACK;
    }
}

static void a_verdict_settles_its_message(void **state)
{
    scripted *s = scripted_open(false, -1);
    (void)state;
    scripted_add(s, 5, 0, NULL);
    leat_run *r = start(s, by_number, NULL, (leat_run_opts){ 0 });
    AWAIT(scripted_settled(s) == 5);
    assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);

    assert_int_equal(scripted_entry(s, 0)->acks, 1);
    assert_int_equal(scripted_entry(s, 1)->nacks, 1);
    assert_int_equal(scripted_entry(s, 1)->delay_ms, 7);
    assert_int_equal(scripted_entry(s, 1)->acks, 1);
    assert_string_equal(scripted_entry(s, 2)->reason, "no such customer");
    assert_int_equal(scripted_entry(s, 3)->nacks, 1);
    assert_int_equal(scripted_entry(s, 4)->acks, 1);
    assert_int_equal(scripted_entry(s, 4)->nacks, 0);
    assert_true(scripted_closed(s));
    scripted_free(s);
}

static leat_verdict release_once(leat_ctx *x, void *arg)
{
    atomic_int *calls = arg;
    (void)leat_ctx_nack(x, 5000); /* said, but not returned */
    return atomic_fetch_add(calls, 1) == 0 ? LEAT_RELEASE : LEAT_ACK;
}

static void what_is_released_comes_back_as_if_never_out(void **state)
{
    atomic_int calls = 0;
    scripted *s = scripted_open(false, -1);
    leat_run_stats st;
    (void)state;
    scripted_add(s, 1, 0, NULL);
    leat_run *r = start(s, release_once, &calls, (leat_run_opts){ 0 });
    AWAIT(scripted_settled(s) == 1);
    AWAIT((leat_run_stats_get(r, &st), st.in_flight == 0));
    assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);
    assert_int_equal(calls, 2);
    assert_int_equal(st.released, 1);
    assert_int_equal(scripted_entry(s, 0)->releases, 1);
    assert_int_equal(scripted_entry(s, 0)->nacks, 0);
    assert_int_equal(scripted_entry(s, 0)->attempts, 1);
    scripted_free(s);
}

static leat_verdict count_calls(leat_ctx *x, void *arg)
{
    (void)x;
    atomic_fetch_add((atomic_int *)arg, 1);
    return LEAT_ACK;
}

static void an_undecodable_message_is_rejected_unseen(void **state)
{
    atomic_int seen = 0;
    scripted *s = scripted_open(false, -1);
    (void)state;
    scripted_add(s, 3, 0, NULL);
    scripted_entry(s, 1)->bad = true;
    leat_run *r = start(s, count_calls, &seen, (leat_run_opts){ 0 });
    AWAIT(scripted_settled(s) == 3);
    assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);
    assert_int_equal(scripted_entry(s, 1)->rejects, 1);
    assert_string_equal(scripted_entry(s, 1)->reason, "not a message");
    assert_int_equal(seen, 2);
    scripted_free(s);
}

static leat_verdict spin(leat_ctx *x, void *arg)
{
    (void)arg;
    for (volatile size_t i = script_number(x) * 7919 % 3000; i > 0; i--)
        ;
    return script_number(x) % 97 == 0 &&
                   !leat_delivery_redelivered(leat_ctx_delivery(x))
               ? LEAT_NACK
               : LEAT_ACK;
}

/* The source aborts on a second settlement, and on one that is missing. */
static void no_settlement_is_lost_or_doubled(void **state)
{
    enum { N = 100000 };
    scripted *s = scripted_open(false, 60000);
    leat_run_stats st;
    (void)state;
    for (int i = 0; i < N / 100; i++)
        scripted_add(s, 100, (uint64_t)(i % SCRIPT_LANES), NULL);
    leat_run *r = start(s, spin, NULL,
                        (leat_run_opts){ .threads = 8, .max_in_flight = 64 });
    AWAIT(scripted_settled(s) == N);
    AWAIT((leat_run_stats_get(r, &st), st.in_flight == 0));
    assert_int_equal(st.acked, N);
    assert_int_equal(st.received, st.acked + st.nacked + st.released);
    assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(scripted_entry(s, i)->acks, 1);
    assert_true(scripted_max_out(s) <= 64);
    scripted_free(s);
}

struct gate {
    atomic_bool open;
    atomic_int inside;
};

static leat_verdict wait_at_gate(leat_ctx *x, void *arg)
{
    struct gate *g = arg;
    (void)x;
    atomic_fetch_add(&g->inside, 1);
    while (!atomic_load(&g->open))
        script_nap();
    return LEAT_ACK;
}

static void no_more_than_max_in_flight_are_ever_out(void **state)
{
    struct gate g = { 0 };
    scripted *s = scripted_open(false, -1);
    leat_run_stats st;
    (void)state;
    scripted_add(s, 1000, 0, NULL);
    leat_run *r = start(s, wait_at_gate, &g,
                        (leat_run_opts){ .threads = 2, .max_in_flight = 10 });
    AWAIT((leat_run_stats_get(r, &st), st.in_flight == 10 && st.running == 2));
    assert_int_equal(scripted_max_out(s), 10);
    atomic_store(&g.open, true);
    AWAIT(scripted_settled(s) == 1000);
    assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);
    assert_int_equal(scripted_max_out(s), 10);
    scripted_free(s);
}

static leat_verdict first_waits(leat_ctx *x, void *arg)
{
    return script_number(x) == 0 ? wait_at_gate(x, arg) : LEAT_ACK;
}

static void a_slow_message_holds_up_only_its_own_thread(void **state)
{
    struct gate g = { 0 };
    scripted *s = scripted_open(false, -1);
    (void)state;
    scripted_add(s, 200, 0, NULL);
    leat_run *r = start(s, first_waits, &g, (leat_run_opts){ .threads = 2 });
    AWAIT(scripted_settled(s) == 199);
    atomic_store(&g.open, true);
    AWAIT(scripted_settled(s) == 200);
    assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);
    scripted_free(s);
}

struct lines {
    atomic_int warnings, errors;
};

static void take_line(void *arg, leat_level level, const char *line)
{
    struct lines *l = arg;
    (void)line;
    atomic_fetch_add(level == LEAT_LOG_ERROR ? &l->errors : &l->warnings, 1);
}

static void a_failure_that_passes_is_said_once_and_outlived(void **state)
{
    struct lines l = { 0 };
    scripted *s = scripted_open(false, -1);
    (void)state;
    scripted_fail_receive(s, 4, LEAT_ECONN);
    scripted_add(s, 10, 0, NULL);
    leat_run *r = start(s, ack, NULL,
                        (leat_run_opts){ .log = { take_line, &l, 0 } });
    AWAIT(scripted_settled(s) == 10);
    assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);
    assert_int_equal(l.warnings, 1);
    assert_int_equal(l.errors, 0);
    scripted_free(s);
}

static void
a_final_failure_ends_receiving_and_is_what_stop_reports(void **state)
{
    struct lines l = { 0 };
    scripted *s = scripted_open(false, -1);
    leat_run_stats st;
    leat_error err;
    (void)state;
    scripted_fail_receive(s, 100, LEAT_EAUTH);
    leat_run *r = start(s, ack, NULL,
                        (leat_run_opts){ .log = { take_line, &l, 0 } });
    AWAIT((leat_run_stats_get(r, &st), st.failed));
    assert_int_equal(leat_run_stop(r, 0, &err), LEAT_EAUTH);
    assert_string_equal(err.msg, "the script says so");
    assert_int_equal(scripted_calls(s), 1);
    assert_int_equal(l.errors, 1);
    scripted_free(s);
}

static void a_refused_settlement_is_counted(void **state)
{
    scripted *s = scripted_open(false, -1);
    leat_run_stats st;
    (void)state;
    scripted_add(s, 5, 0, NULL);
    scripted_entry(s, 2)->stale = true;
    leat_run *r = start(s, ack, NULL, (leat_run_opts){ 0 });
    AWAIT((leat_run_stats_get(r, &st), st.stale == 1));
    AWAIT(scripted_settled(s) == 5);
    assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);
    scripted_free(s);
}

static leat_verdict committed(leat_ctx *x, void *arg)
{
    (void)arg;
    return leat__ctx_committed(x);
}

static void a_committed_message_is_only_forgotten(void **state)
{
    scripted *s = scripted_open(false, -1);
    const script_settle *log;
    (void)state;
    scripted_add(s, 1, 0, NULL);
    leat_run *r = start(s, committed, NULL, (leat_run_opts){ 0 });
    AWAIT(scripted_settled(s) == 1);
    assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);
    assert_int_equal(scripted_log(s, &log), 1);
    assert_int_equal(log[0].verdict, LEAT__SETTLE_COMMITTED);
    scripted_free(s);
}

static void metrics_tell_what_happened(void **state)
{
    leat_metrics *m = leat_metrics_new(NULL);
    scripted *s = scripted_open(false, -1);
    (void)state;
    scripted_add(s, 20, 0, NULL);
    scripted_entry(s, 3)->bad = true;
    leat_run *r = start(s, ack, NULL, (leat_run_opts){ .metrics = m });
    AWAIT(scripted_settled(s) == 20);
    assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);

    char *text = leat_metrics_text(m, false, NULL);
    assert_non_null(text);
    const char *want[] = {
        "messaging_client_consumed_messages_total{messaging_destination_name="
        "\"script\",messaging_system=\"leat\"} 20\n",
        "messaging_process_duration_seconds_count{messaging_destination_name="
        "\"script\",messaging_system=\"leat\",result=\"ack\"} 19\n",
        "leat_run_settled_messages_total{messaging_destination_name="
        "\"script\",messaging_system=\"leat\",result=\"ack\"} 19\n",
        "leat_run_settled_messages_total{messaging_destination_name="
        "\"script\",messaging_system=\"leat\",result=\"reject\"} 1\n",
        "leat_run_in_flight{messaging_destination_name=\"script\","
        "messaging_system=\"leat\"} 0\n",
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        if (!strstr(text, want[i]))
            fail_msg("no %s in\n%s", want[i], text);
    leat_metrics_text_free(text);
    leat_metrics_free(m);
    scripted_free(s);
}

static void nonsense_is_refused_and_the_source_stays_ours(void **state)
{
    const leat_run_opts bad[] = {
        { .threads = -1 },       { .threads = 5000 },
        { .max_in_flight = -2 }, { .max_in_flight = 1 << 21 },
        { .batch = -1 },         { .lanes = (leat_lanes)9 },
        { .heartbeat_ms = -2 },  { .max_processing_ms = -1 },
    };
    scripted *s = scripted_open(false, -1);
    leat_error err;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(
            leat_run_start(scripted_source(s), ack, NULL, &bad[i], &err));
        assert_int_equal(err.code, LEAT_EINVAL);
    }
    leat__fail(&err, LEAT_ENOENT, "no such topic");
    assert_null(leat_run_start(NULL, ack, NULL, NULL, &err));
    assert_string_equal(err.msg, "no such topic");
    assert_int_equal(leat_run_stop(NULL, 0, NULL), LEAT_OK);
    assert_false(scripted_closed(s));
    scripted_free(s);
}

static void run_ten(void *arg)
{
    scripted *s = scripted_open(false, -1);
    leat_metrics *m = leat_metrics_new(NULL);
    (void)arg;
    scripted_add(s, 10, 0, NULL);
    leat_run *r = leat_run_start(
        scripted_source(s), ack, NULL,
        &(leat_run_opts){ .threads = 2, .max_in_flight = 4, .metrics = m },
        NULL);
    if (r && !alloc_fail_state.forever)
        AWAIT(scripted_settled(s) == 10);
    (void)!leat_run_stop(r, 0, NULL);
    scripted_free(s);
    leat_metrics_free(m);
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    alloc_fail_sweep(run_ten, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verdict_settles_its_message),
        cmocka_unit_test(what_is_released_comes_back_as_if_never_out),
        cmocka_unit_test(an_undecodable_message_is_rejected_unseen),
        cmocka_unit_test(no_settlement_is_lost_or_doubled),
        cmocka_unit_test(no_more_than_max_in_flight_are_ever_out),
        cmocka_unit_test(a_slow_message_holds_up_only_its_own_thread),
        cmocka_unit_test(a_failure_that_passes_is_said_once_and_outlived),
        cmocka_unit_test(
            a_final_failure_ends_receiving_and_is_what_stop_reports),
        cmocka_unit_test(a_refused_settlement_is_counted),
        cmocka_unit_test(a_committed_message_is_only_forgotten),
        cmocka_unit_test(metrics_tell_what_happened),
        cmocka_unit_test(nonsense_is_refused_and_the_source_stays_ours),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
