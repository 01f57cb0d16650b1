/*
 * sweep_help.h: one scenario, in which each allocation and each system call
 * fails once.
 *
 * The program defines scenario(): all it can do, then heal(), after which all
 * works again, and nothing is left over.  What a step is told, it checks.
 * sweep_tests are the tests of its program, `least` is set before.
 */
#ifndef SWEEP_HELP_H
#define SWEEP_HELP_H

#include "support/allocfail.h"
#include "support/leat.h"
#include "support/sysfail.h"

static void scenario(long n, void (*heal)(void));

static bool strict;         /* every step must succeed             */
static leat_code no_wonder; /* beside what every fault may come to */
static long errors;
static long stride = 1; /* from one that fails to the next         */
static struct {
    long allocations, calls; /* else it was no sweep */
} least;

/* Is this a code that may come of a fault? */
static inline bool checked(const char *what, leat_code code,
                           const leat_error *e)
{
    static const leat_code harmless[] = { LEAT_ENOMEM, LEAT_ECONN,
                                          LEAT_EUNKNOWN, LEAT_EIO,
                                          LEAT_ETIMEOUT };
    if (code == LEAT_OK)
        return true;
    errors++;
    assert_int_equal(e->code, code);
    assert_true(e->msg[0] != '\0');
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0] && !strict; i++)
        if (code == harmless[i] || code == no_wonder)
            return false;
    fail_msg("%s: %s: %s", what, leat_code_name(code), e->msg);
    return false;
}

/* ---- allocations ------------------------------------------------------ */

static inline void healed_scenario(void *n)
{
    scenario(*(long *)n, alloc_fail_heal);
}

static inline void sweep_allocations(bool forever)
{
    long n = 1, failed = 0, one;
    errors = 0;
    while ((one = alloc_fail_run(healed_scenario, &n, n, forever)) > 0) {
        failed += one;
        n += stride;
        assert_true(n < ALLOC_FAIL_MOST);
    }
    print_message("# %ld runs, %ld allocations failed, %ld errors told\n", n,
                  failed, errors);
    assert_true(n > least.allocations);
    strict = true;
    (void)alloc_fail_run(healed_scenario, &n, ALLOC_FAIL_NEVER, false);
}

static inline void any_one_allocation_may_fail(void **state)
{
    (void)state;
    sweep_allocations(false);
}

static inline void memory_may_end_at_any_allocation(void **state)
{
    (void)state;
    sweep_allocations(true);
}

/* ---- system calls ----------------------------------------------------- */

/* Counts memory as well; how many calls were failed. */
static inline long fail_system_call(enum sys_fault kind, long n)
{
    sys_fail_install(kind, n);
    scenario(n, sys_fail_heal);
    long live = alloc_fail_live();
    alloc_fail_remove();
    if (live != 0)
        fail_msg("%ld blocks leaked with system call %ld failing", live, n);
    return sys_fail_count();
}

static inline void sweep_system_calls(enum sys_fault kind)
{
    long n = 1;
    errors = 0;
    while (fail_system_call(kind, n) > 0)
        n += stride;
    print_message("# %ld system calls failed, %ld errors told\n", n - 1,
                  errors);
    assert_true(n > least.calls);
}

static inline void any_one_system_call_may_fail(void **state)
{
    (void)state;
    sweep_system_calls(SYS_FAULT_HARD);
    assert_true(errors > 0);
}

static inline void an_interrupted_system_call_changes_nothing(void **state)
{
    (void)state;
    strict = true;
    sweep_system_calls(SYS_FAULT_SOFT);
    assert_int_equal(errors, 0);
}

static inline void short_reads_and_writes_change_nothing(void **state)
{
    (void)state;
    strict = true;
    errors = 0;
    (void)fail_system_call(SYS_FAULT_SHORT, 0);
    assert_int_equal(errors, 0);
}

static inline int lenient(void **state)
{
    (void)state;
    strict = false;
    return 0;
}

static const struct CMUnitTest sweep_tests[] = {
    cmocka_unit_test_setup(any_one_allocation_may_fail, lenient),
    cmocka_unit_test_setup(memory_may_end_at_any_allocation, lenient),
    cmocka_unit_test_setup(any_one_system_call_may_fail, lenient),
    cmocka_unit_test_setup(an_interrupted_system_call_changes_nothing, lenient),
    cmocka_unit_test_setup(short_reads_and_writes_change_nothing, lenient),
};

#endif
