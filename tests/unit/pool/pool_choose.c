/* pool_choose.c: whose turn it is, of queues that wait in many shards. */
#include "pool/choose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static pool_waiting waits(unsigned shard, int64_t age, size_t count)
{
    return (pool_waiting){ .shard = shard, .age_ms = age, .count = count };
}

static void those_that_wait_longest_are_chosen_of_all_shards(void **state)
{
    (void)state;
    size_t queues;
    pool_waiting w[] = { waits(0, 9, 1), waits(0, 8, 1), waits(0, 1, 1),
                         waits(5, 7, 1), waits(63, 10, 1) };
    assert_int_equal(leat__pool_choose(w, 5, 3, &queues), 3);
    assert_int_equal(queues, 3);
    assert_int_equal(w[0].shard, 63);
    assert_int_equal(w[1].age_ms, 9);
    assert_int_equal(w[2].age_ms, 8);
}

static void all_are_chosen_where_there_is_room(void **state)
{
    (void)state;
    size_t queues;
    pool_waiting w[] = { waits(0, 9, 4), waits(1, 0, 1), waits(2, 3, 2) };
    assert_int_equal(leat__pool_choose(w, 3, 100, &queues), 3);
    assert_int_equal(queues, 7);
    assert_int_equal(leat__pool_choose(w, 0, 100, &queues), 0);
    assert_int_equal(leat__pool_choose(w, 3, 0, &queues), 0);
    assert_int_equal(queues, 0);
}

static void of_the_last_lot_a_part_is_chosen(void **state)
{
    (void)state;
    size_t queues;
    pool_waiting w[] = { waits(1, 8, 16), waits(0, 9, 16), waits(2, 7, 16) };
    assert_int_equal(leat__pool_choose(w, 3, 20, &queues), 2);
    assert_int_equal(queues, 20);
    assert_int_equal(w[0].count, 16);
    assert_int_equal(w[1].count, 4);
    assert_int_equal(w[1].shard, 1);
}

/* Whatever is told: no lot that was left out waits longer than one that was
 * chosen, and somebody is chosen. */
static void whoever_is_left_out_waits_no_longer(void **state)
{
    (void)state;
    unsigned seed = 7;
    for (int round = 0; round < 2000; round++) {
        pool_waiting w[40];
        size_t n = 1 + (size_t)rand_r(&seed) % 40, queues, sum = 0;
        for (size_t i = 0; i < n; i++)
            w[i] = waits((unsigned)rand_r(&seed) % 64, rand_r(&seed) % 20,
                         1 + (size_t)rand_r(&seed) % 3);
        size_t max = 1 + (size_t)rand_r(&seed) % 40;
        size_t k = leat__pool_choose(w, n, max, &queues);
        assert_true(k > 0 && queues <= max);
        assert_true(k == n || queues == max);
        for (size_t i = 0; i < k; i++) {
            sum += w[i].count;
            for (size_t j = k; j < n; j++)
                assert_true(w[i].age_ms >= w[j].age_ms);
        }
        assert_int_equal(sum, queues);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_that_wait_longest_are_chosen_of_all_shards),
        cmocka_unit_test(all_are_chosen_where_there_is_room),
        cmocka_unit_test(of_the_last_lot_a_part_is_chosen),
        cmocka_unit_test(whoever_is_left_out_waits_no_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
