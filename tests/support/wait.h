/*
 * wait.h: wait for a condition, never for a time.
 *
 *   wait_until(redis_int(s, "XLEN log") == 10, 2000);
 *
 * Looks every millisecond, on the monotonic clock; when the time is over the
 * cmocka test fails at the caller's line with the text of the condition.  In
 * programs that are not cmocka tests use wait_for(), which only answers.
 */
#ifndef SUPPORT_WAIT_H
#define SUPPORT_WAIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

static inline int64_t wait_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t wait_now_ms(void)
{
    return wait_now_ns() / 1000000;
}

static inline void wait_nap(int64_t ms)
{
    struct timespec t = { .tv_sec = ms / 1000,
                          .tv_nsec = (ms % 1000) * 1000000 };
    nanosleep(&t, NULL);
}

/* The condition is looked at once more after the deadline: a machine that did
 * not run us for a second must not fail the test. */
#define wait_until(cond, ms)                                                   \
    do {                                                                       \
        int64_t wait_end_ = wait_now_ms() + (ms);                              \
        bool wait_late_ = false;                                               \
        while (!(cond)) {                                                      \
            if (wait_late_)                                                    \
                fail_msg("not within %d ms: %s", (int)(ms), #cond);            \
            wait_late_ = wait_now_ms() >= wait_end_;                           \
            wait_nap(1);                                                       \
        }                                                                      \
    } while (0)

/* True as soon as look(arg) is; false if it was not within ms. */
static inline bool wait_for(bool (*look)(void *arg), void *arg, int64_t ms)
{
    int64_t end = wait_now_ms() + ms;
    bool late = false;
    while (!look(arg)) {
        if (late)
            return false;
        late = wait_now_ms() >= end;
        wait_nap(1);
    }
    return true;
}

#endif
