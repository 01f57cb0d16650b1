/* lanes.c: order within lanes, fairness between them. */
#include "scripted.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LANES = 32, PER_LANE = 300 };

/* What ran in each lane, checked as it runs. */
struct order {
    atomic_size_t last[LANES]; /* number + 1 of the last that began */
    atomic_int inside[LANES];
    atomic_int wrong;
    int nack_every;
    bool keyed;
};

static size_t lane_of(const leat_ctx *x, bool keyed)
{
    if (!keyed)
        return script_number(x) % LANES;
    return (size_t)strtoul(leat_ctx_msg(x)->key.p, NULL, 10);
}

static leat_verdict check_order(leat_ctx *x, void *arg)
{
    struct order *o = arg;
    size_t n = script_number(x), lane = lane_of(x, o->keyed);
    bool again = leat_delivery_attempt(leat_ctx_delivery(x)) > 1;

    if (atomic_fetch_add(&o->inside[lane], 1) != 0)
        atomic_fetch_add(&o->wrong, 1);
    size_t last = atomic_exchange(&o->last[lane], n + 1);
    size_t want = last == 0 ? lane : last - 1 + LANES;
    if (n != want && !(again && n + 1 == last))
        atomic_fetch_add(&o->wrong, 1);
    for (volatile size_t i = (n * 2654435761u >> 7) % 4000; i > 0; i--)
        ;
    atomic_fetch_sub(&o->inside[lane], 1);
    if (o->nack_every && n % (size_t)o->nack_every == 0 && !again)
        return leat_ctx_nack(x, (int64_t)n % 3);
    return LEAT_ACK;
}

static void run_ordered(bool ordered, bool keyed, int nack_every, int in_flight)
{
    struct order *o = calloc(1, sizeof *o);
    scripted *s = scripted_open(ordered, 60000);
    leat_run_opts opts = { .threads = 8, .max_in_flight = in_flight };

    o->nack_every = nack_every;
    o->keyed = keyed;
    opts.lanes = keyed ? LEAT_LANES_KEY : LEAT_LANES_SOURCE;
    for (size_t i = 0; i < (size_t)LANES * PER_LANE; i++) {
        char key[16];
        snprintf(key, sizeof key, "%zu", i % LANES);
        scripted_add(s, 1, keyed ? 0 : 1 + i % LANES, key);
    }
    leat_run *r = leat_run_start(scripted_source(s), check_order, o, &opts,
                                 NULL);
    assert_non_null(r);
    AWAIT(scripted_settled(s) == (size_t)LANES * PER_LANE);
    assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);
    assert_int_equal(o->wrong, 0);
    scripted_free(s);
    free(o);
}

static void a_lane_of_the_source_runs_in_order(void **state)
{
    (void)state;
    run_ordered(false, false, 0, 256);
}

static void a_lane_of_a_key_runs_in_order(void **state)
{
    (void)state;
    run_ordered(false, true, 0, 256);
}

static void
nothing_overtakes_a_nacked_message_of_an_ordered_source(void **state)
{
    (void)state;
    run_ordered(true, false, 7, 256);
    run_ordered(true, false, 5, 16);
}

static leat_verdict nack_first_once(leat_ctx *x, void *arg)
{
    atomic_int *ran = arg;
    if (script_number(x) != 0)
        return LEAT_ACK;
    return atomic_fetch_add(ran, 1) == 0 ? LEAT_NACK : LEAT_ACK;
}

static void
what_stands_behind_a_nacked_message_is_released_in_order(void **state)
{
    atomic_int ran = 0;
    scripted *s = scripted_open(true, -1);
    const script_settle *log;
    (void)state;
    scripted_add(s, 5, 1, NULL);
    leat_run *r = leat_run_start(scripted_source(s), nack_first_once, &ran,
                                 NULL, NULL);
    AWAIT(scripted_settled(s) == 5);
    assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);

    /* A receive that was under way during the nack may bring all of them once
     * more, to be released once more. */
    size_t n = scripted_log(s, &log);
    assert_in_range(n, 10, 15);
    assert_int_equal(n % 5, 0);
    for (size_t i = 0; i < n; i++) {
        leat__settle want = i == 0      ? LEAT__SETTLE_NACK
                            : i < n - 5 ? LEAT__SETTLE_RELEASE
                                        : LEAT__SETTLE_ACK;
        assert_int_equal(log[i].number, i % 5);
        assert_int_equal(log[i].verdict, want);
    }
    assert_int_equal(scripted_entry(s, 4)->attempts, 1);
    scripted_free(s);
}

static leat_verdict nack_first(leat_ctx *x, void *arg)
{
    bool again = leat_delivery_attempt(leat_ctx_delivery(x)) > 1;
    (void)arg;
    return script_number(x) == 0 && !again ? leat_ctx_nack(x, 20) : LEAT_ACK;
}

static void an_unordered_source_goes_on_behind_a_nacked_message(void **state)
{
    scripted *s = scripted_open(false, -1);
    const script_settle *log;
    (void)state;
    scripted_add(s, 5, 1, NULL);
    leat_run *r = leat_run_start(scripted_source(s), nack_first, NULL, NULL,
                                 NULL);
    AWAIT(scripted_settled(s) == 5);
    assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);
    assert_int_equal(scripted_log(s, &log), 6);
    assert_int_equal(log[5].number, 0);
    scripted_free(s);
}

struct meet {
    atomic_int inside, most;
    atomic_bool open;
};

static leat_verdict meet_others(leat_ctx *x, void *arg)
{
    struct meet *m = arg;
    (void)x;
    int n = atomic_fetch_add(&m->inside, 1) + 1;
    int most = atomic_load(&m->most);
    while (n > most && !atomic_compare_exchange_weak(&m->most, &most, n))
        ;
    while (!atomic_load(&m->open) && atomic_load(&m->inside) < 4)
        script_nap();
    atomic_store(&m->open, true);
    atomic_fetch_sub(&m->inside, 1);
    return LEAT_ACK;
}

static void lanes_run_beside_each_other(void **state)
{
    struct meet m = { 0 };
    scripted *s = scripted_open(false, -1);
    (void)state;
    for (uint64_t lane = 1; lane <= 4; lane++)
        scripted_add(s, 5, lane, NULL);
    leat_run *r = leat_run_start(scripted_source(s), meet_others, &m, NULL,
                                 NULL);
    AWAIT(scripted_settled(s) == 20);
    assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);
    assert_int_equal(m.most, 4);
    scripted_free(s);
}

static leat_verdict count_inside(leat_ctx *x, void *arg)
{
    struct meet *m = arg;
    int n = atomic_fetch_add(&m->inside, 1) + 1;
    if (n > 1)
        atomic_store(&m->most, n);
    for (volatile size_t i = script_number(x) % 50 * 100; i > 0; i--)
        ;
    atomic_fetch_sub(&m->inside, 1);
    return LEAT_ACK;
}

static void one_lane_is_one_line(void **state)
{
    struct meet m = { 0 };
    scripted *s = scripted_open(false, -1);
    const script_settle *log;
    (void)state;
    for (uint64_t i = 0; i < 1000; i++)
        scripted_add(s, 1, i % 7, NULL);
    leat_run *r = leat_run_start(
        scripted_source(s), count_inside, &m,
        &(leat_run_opts){ .lanes = LEAT_LANES_ONE, .threads = 8 }, NULL);
    AWAIT(scripted_settled(s) == 1000);
    assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);
    assert_int_equal(m.most, 0);
    assert_int_equal(scripted_log(s, &log), 1000);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(log[i].number, i);
    scripted_free(s);
}

static void without_lanes_messages_of_one_lane_run_at_once(void **state)
{
    struct meet m = { 0 };
    scripted *s = scripted_open(false, -1);
    (void)state;
    scripted_add(s, 8, 1, "same");
    leat_run *r = leat_run_start(scripted_source(s), meet_others, &m,
                                 &(leat_run_opts){ .lanes = LEAT_LANES_NONE },
                                 NULL);
    AWAIT(scripted_settled(s) == 8);
    assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);
    assert_int_equal(m.most, 4);
    scripted_free(s);
}

static leat_verdict slowly(leat_ctx *x, void *arg)
{
    atomic_int *hot_before_cold = arg;
    if (leat_ctx_delivery(x) && script_number(x) < 100)
        atomic_fetch_add(hot_before_cold, 1);
    else
        hot_before_cold[1] = hot_before_cold[0];
    script_nap();
    script_nap();
    return LEAT_ACK;
}

static void a_hot_lane_does_not_starve_a_cold_one(void **state)
{
    atomic_int hot_before_cold[2] = { 0 };
    scripted *s = scripted_open(false, -1);
    (void)state;
    scripted_add(s, 99, 1, NULL); /* received in one batch with the cold one */
    scripted_add(s, 1, 1, NULL);
    scripted_add(s, 1, 2, NULL);
    leat_run *r = leat_run_start(scripted_source(s), slowly, hot_before_cold,
                                 &(leat_run_opts){ .threads = 1, .batch = 200 },
                                 NULL);
    AWAIT(scripted_settled(s) == 101);
    assert_int_equal(leat_run_stop(r, 0, NULL), LEAT_OK);
    assert_true(hot_before_cold[1] < 8);
    scripted_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lane_of_the_source_runs_in_order),
        cmocka_unit_test(a_lane_of_a_key_runs_in_order),
        cmocka_unit_test(
            nothing_overtakes_a_nacked_message_of_an_ordered_source),
        cmocka_unit_test(
            what_stands_behind_a_nacked_message_is_released_in_order),
        cmocka_unit_test(an_unordered_source_goes_on_behind_a_nacked_message),
        cmocka_unit_test(lanes_run_beside_each_other),
        cmocka_unit_test(one_lane_is_one_line),
        cmocka_unit_test(without_lanes_messages_of_one_lane_run_at_once),
        cmocka_unit_test(a_hot_lane_does_not_starve_a_cold_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
