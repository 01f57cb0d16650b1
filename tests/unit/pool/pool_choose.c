/* pool_choose.c: whose turn it is, of queues that wait in many shards. */
#include "pool/choose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static pool_waiting waits(unsigned shard, int64_t age)
{
    return (pool_waiting){ .shard = shard, .age_ms = age };
}

/* As above, the last of those its shard told of. */
static pool_waiting last(unsigned shard, int64_t age)
{
    return (pool_waiting){ .shard = shard, .age_ms = age, .last = true };
}

static void those_that_wait_longest_are_chosen_of_all_shards(void **state)
{
    (void)state;
    pool_waiting w[] = { waits(0, 9), waits(0, 8), waits(0, 1), waits(5, 7),
                         waits(63, 10) };
    assert_int_equal(leat__pool_choose(w, 5, 3), 3);
    assert_int_equal(w[0].shard, 63);
    assert_int_equal(w[1].age_ms, 9);
    assert_int_equal(w[2].age_ms, 8);
}

static void all_are_chosen_where_there_is_room(void **state)
{
    (void)state;
    pool_waiting w[] = { waits(0, 9), waits(1, 0), waits(2, 3) };
    assert_int_equal(leat__pool_choose(w, 3, 100), 3);
    assert_int_equal(leat__pool_choose(w, 0, 100), 0);
    assert_int_equal(leat__pool_choose(w, 3, 0), 0);
}

static void nobody_goes_before_one_that_was_not_told_of(void **state)
{
    (void)state;
    pool_waiting w[] = { waits(0, 9), last(0, 8), waits(1, 8), waits(1, 7),
                         waits(2, 5) };
    size_t n = leat__pool_choose(w, 5, 5);
    assert_int_equal(n, 3);
    assert_true(w[n - 1].last);
    for (size_t i = 0; i < n; i++)
        assert_true(w[i].age_ms >= 8);
}

/* Whatever is told: nobody who was left out waits longer than one who was
 * chosen, and somebody is. */
static void whoever_is_left_out_waits_no_longer(void **state)
{
    (void)state;
    unsigned seed = 7;
    for (int round = 0; round < 2000; round++) {
        pool_waiting w[40];
        size_t n = 1 + (size_t)rand_r(&seed) % 40;
        for (size_t i = 0; i < n; i++) {
            w[i] = waits((unsigned)rand_r(&seed) % 64, rand_r(&seed) % 20);
            w[i].last = rand_r(&seed) % 10 == 0;
        }
        size_t max = 1 + (size_t)rand_r(&seed) % 40;
        size_t k = leat__pool_choose(w, n, max);
        assert_true(k > 0 && k <= max);
        for (size_t i = 0; i < k; i++)
            for (size_t j = k; j < n; j++)
                assert_true(w[i].age_ms >= w[j].age_ms);
        for (size_t i = 0; i + 1 < k; i++)
            assert_false(w[i].last);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_that_wait_longest_are_chosen_of_all_shards),
        cmocka_unit_test(all_are_chosen_where_there_is_room),
        cmocka_unit_test(nobody_goes_before_one_that_was_not_told_of),
        cmocka_unit_test(whoever_is_left_out_waits_no_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
