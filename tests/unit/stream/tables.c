/* tables.c: what is held, and what is parked. */
#include "stream/held.h"
#include "stream/park.h"
#include "support/allocfail.h"

#include <stdlib.h>

enum { MANY = 3000 };

static leat_position at(uint64_t i)
{
    return (leat_position){ .ms = 1700000000000u + i / 100, .seq = i % 100 };
}

/* ---- held ------------------------------------------------------------- */

static void what_is_put_is_found_until_it_is_dropped(void **state)
{
    stream_held h = { 0 };
    static int values[MANY];
    (void)state;
    assert_null(leat__stream_held_get(&h, at(0)));
    leat__stream_held_drop(&h, at(0));
    for (uint64_t i = 0; i < MANY; i++) {
        assert_int_equal(leat__stream_held_reserve(&h, 1, NULL), LEAT_OK);
        leat__stream_held_put(&h, at(i), &values[i]);
    }
    for (uint64_t i = 0; i < MANY; i += 3)
        leat__stream_held_drop(&h, at(i));
    for (uint64_t i = 0; i < MANY; i++)
        assert_ptr_equal(leat__stream_held_get(&h, at(i)),
                         i % 3 == 0 ? NULL : (void *)&values[i]);
    assert_int_equal(h.count, MANY - MANY / 3);
    leat__stream_held_put(&h, at(1), LEAT__STREAM_PARKED);
    assert_ptr_equal(leat__stream_held_get(&h, at(1)), LEAT__STREAM_PARKED);
    assert_int_equal(h.count, MANY - MANY / 3);
    leat__stream_held_release(&h);
}

/* Against a plain array, with every order of putting and dropping. */
static void it_agrees_with_a_plain_table(void **state)
{
    enum { IDS = 500, STEPS = 200000 };
    static bool there[IDS];
    stream_held h = { 0 };
    unsigned x = 1;
    (void)state;
    for (int i = 0; i < STEPS; i++) {
        x = x * 1103515245 + 12345;
        uint64_t id = x / 65536 % IDS;
        if (x & 0x40000000) {
            assert_int_equal(leat__stream_held_reserve(&h, 1, NULL), LEAT_OK);
            leat__stream_held_put(&h, at(id), &there[id]);
            there[id] = true;
        } else {
            leat__stream_held_drop(&h, at(id));
            there[id] = false;
        }
        uint64_t other = (id * 7 + 3) % IDS;
        assert_ptr_equal(leat__stream_held_get(&h, at(other)),
                         there[other] ? (void *)&there[other] : NULL);
    }
    leat__stream_held_release(&h);
}

static void without_memory_it_is_as_it_was(void **state)
{
    stream_held h = { 0 };
    int value;
    (void)state;
    alloc_fail_install(ALLOC_FAIL_NEVER, false);
    assert_int_equal(leat__stream_held_reserve(&h, 1, NULL), LEAT_OK);
    leat__stream_held_put(&h, at(1), &value);
    atomic_store(&alloc_fail_state.at, alloc_fail_calls() + 1);
    assert_int_equal(leat__stream_held_reserve(&h, MANY, NULL), LEAT_ENOMEM);
    assert_ptr_equal(leat__stream_held_get(&h, at(1)), &value);
    leat__stream_held_release(&h);
    assert_int_equal(alloc_fail_live(), 0);
    alloc_fail_remove();
}

/* ---- parked ----------------------------------------------------------- */

static void the_earliest_comes_first(void **state)
{
    stream_park p = { 0 };
    unsigned x = 1;
    (void)state;
    assert_true(leat__stream_park_due(&p) == INT64_MAX);
    for (uint64_t i = 0; i < MANY; i++) {
        x = x * 1103515245 + 12345;
        stream_parked e = { .due_ns = x / 65536 % 1000, .id = at(i) };
        assert_true(leat__stream_park_add(&p, &e));
    }
    int64_t last = 0;
    for (int i = 0; i < MANY; i++) {
        int64_t due = leat__stream_park_due(&p);
        stream_parked e = leat__stream_park_pop(&p);
        assert_true(e.due_ns == due && due >= last);
        last = due;
    }
    assert_true(leat__stream_park_due(&p) == INT64_MAX);
    leat__stream_park_release(&p);
}

static void it_has_a_bound(void **state)
{
    stream_park p = { 0 };
    stream_parked e = { 0 };
    (void)state;
    for (int i = 0; i < LEAT__STREAM_PARK_MAX; i++)
        assert_true(leat__stream_park_add(&p, &e));
    assert_false(leat__stream_park_add(&p, &e));
    leat__stream_park_release(&p);
    alloc_fail_install(1, true);
    assert_false(leat__stream_park_add(&p, &e));
    alloc_fail_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_found_until_it_is_dropped),
        cmocka_unit_test(it_agrees_with_a_plain_table),
        cmocka_unit_test(without_memory_it_is_as_it_was),
        cmocka_unit_test(the_earliest_comes_first),
        cmocka_unit_test(it_has_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
