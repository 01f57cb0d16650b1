/* backoff.c: waits grow, are spread, and turns are rationed. */
#include "base/backoff.h"
#include "base/system.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Randomness that is always all zeros, all ones, or missing. */
static leat_system rigged;
static int rig;

static int rigged_random(void *arg, void *buf, size_t n)
{
    (void)arg;
    memset(buf, rig, n);
    return rig == -2 ? -1 : 0;
}

static int restore(void **state)
{
    (void)state;
    leat_system_set(NULL);
    return 0;
}

static void a_wait_lies_between_one_and_a_limit_that_doubles(void **state)
{
    (void)state;
    for (int run = 0; run < 200; run++) {
        leat__backoff b = { .base_ms = 10, .cap_ms = 100 };
        const int64_t limits[] = { 10, 20, 40, 80, 100, 100, 100 };
        for (size_t i = 0; i < 7; i++)
            assert_in_range(leat__backoff_next_ms(&b), 1, limits[i]);
    }
}

static void waits_fill_the_whole_range(void **state)
{
    bool seen[9] = { false };
    (void)state;
    for (int i = 0; i < 2000; i++) {
        leat__backoff b = { .base_ms = 8, .cap_ms = 8 };
        seen[leat__backoff_next_ms(&b)] = true;
    }
    for (int i = 1; i <= 8; i++)
        assert_true(seen[i]);
}

static void only_a_reset_makes_waits_short_again(void **state)
{
    leat__backoff b = { .base_ms = 1, .cap_ms = INT64_MAX };
    (void)state;
    for (int i = 0; i < 200; i++)
        assert_true(leat__backoff_next_ms(&b) >= 1);
    leat__backoff_reset(&b);
    assert_int_equal(leat__backoff_next_ms(&b), 1);
}

static void a_wait_is_never_nothing(void **state)
{
    (void)state;
    rigged = *leat_system_default();
    rigged.random = rigged_random;
    leat_system_set(&rigged);
    for (rig = -2; rig <= 0; rig++) {
        leat__backoff b = { .base_ms = 50, .cap_ms = 50 };
        assert_in_range(leat__backoff_next_ms(&b), 1, 50);
        leat__backoff zero = { 0 };
        assert_int_equal(leat__backoff_next_ms(&zero), 1);
    }
}

static void a_budget_gives_its_burst_and_then_its_rate(void **state)
{
    leat__budget b;
    const int64_t now = INT64_C(5000000000);
    (void)state;
    leat__budget_init(&b, 10, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(leat__budget_take(&b, now), 0);
    assert_int_equal(leat__budget_take(&b, now), 100);
    assert_int_equal(leat__budget_take(&b, now), 200);
    assert_int_equal(leat__budget_take(&b, now + 50000000), 250);
}

static void a_turn_given_back_is_the_next_ones(void **state)
{
    leat__budget b;
    const int64_t now = INT64_C(5000000000);
    (void)state;
    leat__budget_init(&b, 10, 1);
    assert_int_equal(leat__budget_take(&b, now), 0);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(leat__budget_take(&b, now), 100);
        leat__budget_give(&b);
    }
}

static void an_idle_budget_fills_up_to_its_burst_only(void **state)
{
    leat__budget b;
    const int64_t later = INT64_C(3600000000000);
    (void)state;
    leat__budget_init(&b, 1, 2);
    assert_int_equal(leat__budget_take(&b, 0), 0);
    assert_int_equal(leat__budget_take(&b, later), 0);
    assert_int_equal(leat__budget_take(&b, later), 0);
    assert_int_equal(leat__budget_take(&b, later), 1000);
}

static void a_budget_without_rate_never_makes_wait(void **state)
{
    leat__budget b;
    (void)state;
    leat__budget_init(&b, 0, 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(leat__budget_take(&b, 0), 0);
}

enum { THREADS = 4, EACH = 1000 };
static leat__budget common;
static int64_t longest[THREADS];

static void *take_many(void *arg)
{
    int64_t *most = arg;
    for (int i = 0; i < EACH; i++) {
        int64_t ms = leat__budget_take(&common, 1);
        *most = ms > *most ? ms : *most;
    }
    return NULL;
}

static void threads_get_turns_of_their_own(void **state)
{
    pthread_t t[THREADS];
    int64_t most = 0;
    (void)state;
    leat__budget_init(&common, 1000, 1);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, take_many, &longest[i]),
                         0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i], NULL);
        most = longest[i] > most ? longest[i] : most;
    }
    assert_int_equal(most, THREADS * EACH - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_lies_between_one_and_a_limit_that_doubles),
        cmocka_unit_test(waits_fill_the_whole_range),
        cmocka_unit_test(only_a_reset_makes_waits_short_again),
        cmocka_unit_test_teardown(a_wait_is_never_nothing, restore),
        cmocka_unit_test(a_budget_gives_its_burst_and_then_its_rate),
        cmocka_unit_test(a_turn_given_back_is_the_next_ones),
        cmocka_unit_test(an_idle_budget_fills_up_to_its_burst_only),
        cmocka_unit_test(a_budget_without_rate_never_makes_wait),
        cmocka_unit_test(threads_get_turns_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
