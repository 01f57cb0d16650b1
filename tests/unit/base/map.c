/* map.c: the hash map and the list. */
#include "base/map.h"
#include "base/list.h"
#include "support/allocfail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int values[4000];

/* "k<i>"; i = 0 is the empty key. */
static leat_bytes key(int i, char room[16])
{
    int n = i == 0 ? 0 : snprintf(room, 16, "k%d", i);
    return leat_mem(room, (size_t)n);
}

static void put(leat__map *m, int i)
{
    char room[16];
    assert_int_equal(leat__map_put(m, key(i, room), &values[i], NULL, NULL),
                     LEAT_OK);
}

static void *get(const leat__map *m, int i)
{
    char room[16];
    return leat__map_get(m, key(i, room));
}

static void *take(leat__map *m, int i)
{
    char room[16];
    return leat__map_remove(m, key(i, room));
}

static void an_empty_map_finds_nothing(void **state)
{
    leat__map m = { 0 };
    size_t at = 0;
    (void)state;
    assert_null(get(&m, 1));
    assert_null(take(&m, 1));
    assert_null(leat__map_next(&m, &at, NULL));
    leat__map_clear(&m);
    leat__map_release(&m);
}

static void putting_again_replaces_and_gives_back_the_old(void **state)
{
    leat__map m = { 0 };
    void *old = &m;
    (void)state;
    assert_int_equal(leat__map_put(&m, leat_str("a"), &values[1], &old, NULL),
                     LEAT_OK);
    assert_null(old);
    assert_int_equal(leat__map_put(&m, leat_str("a"), &values[2], &old, NULL),
                     LEAT_OK);
    assert_ptr_equal(old, &values[1]);
    assert_ptr_equal(leat__map_get(&m, leat_str("a")), &values[2]);
    assert_int_equal(m.count, 1);
    leat__map_release(&m);
}

static void keys_are_bytes_and_copied(void **state)
{
    leat__map m = { 0 };
    char k[3] = { 'a', 0, 'b' };
    (void)state;
    assert_int_equal(leat__map_put(&m, leat_mem(k, 3), &values[1], NULL, NULL),
                     LEAT_OK);
    k[2] = 'c';
    assert_null(leat__map_get(&m, leat_mem(k, 3)));
    assert_null(leat__map_get(&m, leat_mem("a", 1)));
    assert_ptr_equal(leat__map_get(&m, leat_mem("a\0b", 3)), &values[1]);
    leat__map_release(&m);
}

/* A random walk beside a plain array that knows the truth. */
static void the_map_agrees_with_an_array_through_puts_and_removes(void **state)
{
    static bool there[400];
    leat__map m = { 0 };
    size_t count = 0;
    (void)state;
    srand(7);
    for (int step = 0; step < 40000; step++) {
        int i = rand() % 400;
        if (rand() % 2) {
            put(&m, i);
            count += !there[i];
            there[i] = true;
        } else {
            assert_ptr_equal(take(&m, i), there[i] ? &values[i] : NULL);
            count -= there[i];
            there[i] = false;
        }
        assert_int_equal(m.count, count);
    }
    for (int i = 0; i < 400; i++)
        assert_ptr_equal(get(&m, i), there[i] ? &values[i] : NULL);
    leat__map_release(&m);
}

static void a_walk_meets_each_entry_once(void **state)
{
    static int seen[1000];
    leat__map m = { 0 };
    size_t at = 0, n = 0;
    leat_bytes k;
    char room[16];
    (void)state;
    for (int i = 0; i < 1000; i++)
        put(&m, i);
    for (int *v; (v = leat__map_next(&m, &at, &k)); n++) {
        int i = (int)(v - values);
        assert_int_equal(seen[i]++, 0);
        assert_true(leat_bytes_eq(k, key(i, room)));
    }
    assert_int_equal(n, 1000);
    leat__map_clear(&m);
    assert_int_equal(m.count, 0);
    assert_null(get(&m, 5));
    put(&m, 5);
    assert_ptr_equal(get(&m, 5), &values[5]);
    leat__map_release(&m);
}

static void two_maps_have_two_seeds(void **state)
{
    leat__map a = { 0 }, b = { 0 };
    (void)state;
    put(&a, 1);
    put(&b, 1);
    assert_memory_not_equal(&a.seed, &b.seed, sizeof a.seed);
    leat__map_release(&a);
    leat__map_release(&b);
}

static void numbers_can_be_keys(void **state)
{
    leat__map m = { 0 };
    (void)state;
    assert_int_equal(leat__map_put_u64(&m, 1ull << 40, &values[1], NULL, NULL),
                     LEAT_OK);
    assert_null(leat__map_get_u64(&m, 0));
    assert_ptr_equal(leat__map_get_u64(&m, 1ull << 40), &values[1]);
    assert_ptr_equal(leat__map_remove_u64(&m, 1ull << 40), &values[1]);
    leat__map_release(&m);
}

/* What could not be put is not there, what could is; then all works. */
static void fill_with_failures(void *arg)
{
    leat__map m = { 0 };
    (void)arg;
    for (int i = 0; i < 60; i++) {
        char room[16];
        leat_error e = { 0 };
        size_t before = m.count;
        leat_code rc = leat__map_put(&m, key(i, room), &values[i], NULL, &e);
        assert_int_equal(e.code, rc);
        assert_int_equal(m.count, before + (rc == LEAT_OK));
        assert_ptr_equal(get(&m, i), rc == LEAT_OK ? &values[i] : NULL);
        if (rc != LEAT_OK) {
            assert_int_equal(rc, LEAT_ENOMEM);
            break;
        }
    }
    take(&m, 1);
    alloc_fail_heal();
    put(&m, 1);
    assert_ptr_equal(get(&m, 1), &values[1]);
    leat__map_release(&m);
}

static void a_map_survives_every_lack_of_memory(void **state)
{
    (void)state;
    alloc_fail_sweep(fill_with_failures, NULL);
}

/* ---- lists ------------------------------------------------------------ */

struct item {
    int n;
    leat__link link;
};

static int pop_n(leat__list *l)
{
    leat__link *k = leat__list_pop(l);
    return k ? LEAT__ITEM(k, struct item, link)->n : -1;
}

static void a_list_keeps_order_and_lets_go_anywhere(void **state)
{
    struct item it[4] = { { .n = 0 }, { .n = 1 }, { .n = 2 }, { .n = 3 } };
    leat__list l;
    (void)state;
    leat__list_init(&l);
    assert_null(leat__list_first(&l));
    for (int i = 1; i < 4; i++)
        leat__list_push(&l, &it[i].link);
    leat__list_push_front(&l, &it[0].link);
    leat__link_remove(&it[2].link);
    assert_false(leat__link_linked(&it[2].link));
    leat__link_remove(&it[2].link);
    assert_ptr_equal(leat__list_last(&l), &it[3].link);
    assert_int_equal(pop_n(&l), 0);
    assert_int_equal(pop_n(&l), 1);
    assert_int_equal(pop_n(&l), 3);
    assert_int_equal(pop_n(&l), -1);
    assert_true(leat__list_empty(&l));
}

static void a_walk_may_unlink_and_lists_can_be_joined(void **state)
{
    struct item it[6] = { 0 };
    leat__list a, b;
    (void)state;
    leat__list_init(&a);
    leat__list_init(&b);
    leat__list_move_all(&a, &b);
    for (int i = 0; i < 6; i++) {
        it[i].n = i;
        leat__list_push(i < 3 ? &a : &b, &it[i].link);
    }
    leat__list_move_all(&a, &b);
    assert_true(leat__list_empty(&b));
    LEAT__LIST_EACH(&a, at)
    {
        if (LEAT__ITEM(at, struct item, link)->n % 2)
            leat__link_remove(at);
    }
    for (int i = 0; i < 6; i += 2)
        assert_int_equal(pop_n(&a), i);
    assert_int_equal(pop_n(&a), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_finds_nothing),
        cmocka_unit_test(putting_again_replaces_and_gives_back_the_old),
        cmocka_unit_test(keys_are_bytes_and_copied),
        cmocka_unit_test(the_map_agrees_with_an_array_through_puts_and_removes),
        cmocka_unit_test(a_walk_meets_each_entry_once),
        cmocka_unit_test(two_maps_have_two_seeds),
        cmocka_unit_test(numbers_can_be_keys),
        cmocka_unit_test(a_map_survives_every_lack_of_memory),
        cmocka_unit_test(a_list_keeps_order_and_lets_go_anywhere),
        cmocka_unit_test(a_walk_may_unlink_and_lists_can_be_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
