/*
 * system.h: the table in force, and clocks in the units the code uses.
 */
#ifndef LEAT_BASE_SYSTEM_H
#define LEAT_BASE_SYSTEM_H

#include "base/error.h"
#include <leat/system.h>

extern const leat_system *leat__sys;

/* Monotonic, for deadlines; it has no relation to the date. */
static inline int64_t leat__now_ns(void)
{
    return leat__sys->monotonic_ns(leat__sys->arg);
}

static inline int64_t leat__now_ms(void)
{
    return leat__now_ns() / 1000000;
}

/* Monotonic, and it counts the time in which this machine sleeps: for what
 * others measure while it does.  Not to be mixed with leat__now_ns. */
static inline int64_t leat__boot_ns(void)
{
    return leat__sys->boottime_ns ? leat__sys->boottime_ns(leat__sys->arg)
                                  : leat__now_ns();
}

/* The date, in milliseconds since 1970. */
static inline int64_t leat__date_ms(void)
{
    return leat__sys->realtime_ns(leat__sys->arg) / 1000000;
}

/* A monotonic instant ms from now, in nanoseconds; INT64_MAX for ms < 0, which
 * reads as "never". */
static inline int64_t leat__deadline_ns(int64_t ms)
{
    if (ms < 0 || ms > INT64_MAX / 2000000)
        return INT64_MAX;
    return leat__now_ns() + ms * 1000000;
}

/* Milliseconds left, rounded up, 0 when it has passed. */
static inline int64_t leat__left_ms(int64_t deadline_ns)
{
    if (deadline_ns == INT64_MAX)
        return INT64_MAX / 2000000;
    int64_t left = deadline_ns - leat__now_ns();
    return left <= 0 ? 0 : (left + 999999) / 1000000;
}

/* Random bytes; LEAT_EIO when the system has none. */
leat_code leat__random(void *buf, size_t n, leat_error *err);

/* Sleep on the table's clock. */
void leat__sleep_ms(int64_t ms);

#endif
