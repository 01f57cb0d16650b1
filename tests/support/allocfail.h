/*
 * allocfail.h: failing the n-th allocation, for every n, and counting leaks.
 *
 *   static void body(void *arg)         // tolerates failure, frees its own
 *   {
 *       leat_thing *t = leat_thing_new(NULL);
 *       if (t)
 *           leat_thing_work(t, NULL);
 *       leat_thing_free(t);
 *   }
 *   alloc_fail_sweep(body, NULL);
 *
 * runs body once unharmed, then with its first, second, ... allocation failing,
 * once alone and once with all after it, until a run needs no more.  After
 * each run as many blocks are alive as before, or the test fails.
 *
 * By hand: alloc_fail_install(n, forever), work, alloc_fail_remove().  The hook
 * replaces leat's system table and forwards to the default one.  Only what
 * leat allocates counts, from any thread; leave nothing alive over the remove.
 */
#ifndef TESTS_SUPPORT_ALLOCFAIL_H
#define TESTS_SUPPORT_ALLOCFAIL_H

#include <leat/system.h>
#include <stdatomic.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { ALLOC_FAIL_NEVER = 0, ALLOC_FAIL_MOST = 100000 };

struct alloc_fail {
    leat_system sys;
    atomic_long at;    /* the allocation to fail, from 1; 0: none          */
    bool forever;      /* and all after it                                 */
    atomic_long calls; /* allocations asked for, frees not counted         */
    atomic_long fails; /* of them refused                                  */
    atomic_long live;  /* blocks allocated and not yet freed               */
};

static struct alloc_fail alloc_fail_state;

static inline void *alloc_fail_hook(void *arg, void *old, size_t size)
{
    struct alloc_fail *f = arg;
    const leat_system *os = leat_system_default();

    if (size == 0) {
        if (old)
            atomic_fetch_sub(&f->live, 1);
        return os->alloc(os->arg, old, 0);
    }
    long call = atomic_fetch_add(&f->calls, 1) + 1;
    long at = atomic_load(&f->at);
    if (at > 0 && (call == at || (f->forever && call > at))) {
        atomic_fetch_add(&f->fails, 1);
        return NULL;
    }
    void *p = os->alloc(os->arg, old, size);
    if (p && !old)
        atomic_fetch_add(&f->live, 1);
    return p;
}

/* Fail the n-th allocation from now, and with forever all after it.  n = 0
 * only counts.  No other thread may be inside leat. */
static inline void alloc_fail_install(long n, bool forever)
{
    struct alloc_fail *f = &alloc_fail_state;
    f->sys = *leat_system_default();
    f->sys.arg = f;
    f->sys.alloc = alloc_fail_hook;
    atomic_store(&f->at, n);
    f->forever = forever;
    atomic_store(&f->calls, 0);
    atomic_store(&f->fails, 0);
    atomic_store(&f->live, 0);
    leat_system_set(&f->sys);
}

/* Fail no more, but go on counting: is everything usable again? */
static inline void alloc_fail_heal(void)
{
    atomic_store(&alloc_fail_state.at, ALLOC_FAIL_NEVER);
}

static inline void alloc_fail_remove(void)
{
    leat_system_set(NULL);
}

/* Since the install: blocks alive, allocations asked for, and refused. */
static inline long alloc_fail_live(void)
{
    return atomic_load(&alloc_fail_state.live);
}

static inline long alloc_fail_calls(void)
{
    return atomic_load(&alloc_fail_state.calls);
}

static inline long alloc_fail_count(void)
{
    return atomic_load(&alloc_fail_state.fails);
}

/* One run; how many allocations were refused. */
static inline long alloc_fail_run(void (*body)(void *arg), void *arg, long n,
                                  bool forever)
{
    alloc_fail_install(n, forever);
    body(arg);
    long live = alloc_fail_live(), fails = alloc_fail_count();
    alloc_fail_remove();
    if (live != 0)
        fail_msg("%ld blocks leaked with allocation %ld failing%s", live, n,
                 forever ? " and all after it" : "");
    return fails;
}

/* body must free all it makes, and not return early on the run where nothing
 * fails: it is asked for at least one allocation. */
static inline void alloc_fail_sweep(void (*body)(void *arg), void *arg)
{
    alloc_fail_run(body, arg, ALLOC_FAIL_NEVER, false);
    assert_true(alloc_fail_calls() > 0);
    for (int forever = 0; forever < 2; forever++) {
        long n = 1;
        while (alloc_fail_run(body, arg, n, forever) > 0) {
            n++;
            assert_true(n < ALLOC_FAIL_MOST);
        }
    }
}

#endif
