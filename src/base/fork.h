/*
 * fork.h: noticing that this process is a forked child.
 *
 * Remember leat__fork_count() when something is made and compare it later:
 * another number means that it belongs to the parent.  One relaxed load, where
 * getpid would be a system call.  A child of a bare clone system call, which
 * runs no handlers, is not seen.
 */
#ifndef LEAT_BASE_FORK_H
#define LEAT_BASE_FORK_H

#include <stdatomic.h>

extern atomic_uint leat__forks;

static inline unsigned leat__fork_count(void)
{
    return atomic_load_explicit(&leat__forks, memory_order_relaxed);
}

#endif
