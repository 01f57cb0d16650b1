/*
 * clock.h: a clock of the servers that are started with its path as their
 * clock_file, which the test sets.
 */
#ifndef SUPPORT_CLOCK_H
#define SUPPORT_CLOCK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct wall_clock {
    char path[32];
    int fd;
} wall_clock;

/* From now on so much ahead of the true time, or behind it. */
static inline void clock_set(const wall_clock *c, int64_t seconds)
{
    int64_t ns = seconds * 1000000000;
    assert_int_equal(pwrite(c->fd, &ns, sizeof ns, 0), sizeof ns);
}

static inline wall_clock clock_new(void)
{
    wall_clock c = { .path = "/tmp/leat-clock-XXXXXX" };
    c.fd = mkstemp(c.path);
    assert_true(c.fd >= 0);
    clock_set(&c, 0);
    return c;
}

static inline void clock_free(const wall_clock *c)
{
    close(c->fd);
    unlink(c->path);
}

#endif
