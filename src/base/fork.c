/*
 * fork.c: counting the forks between the first process and this one.
 */
#include "base/fork.h"

#include <pthread.h>
#include <stddef.h>

atomic_uint leat__forks;

static void in_child(void)
{
    atomic_fetch_add_explicit(&leat__forks, 1, memory_order_relaxed);
}

/* Before any thread of ours can exist, so that no fork is missed. */
__attribute__((constructor)) static void watch(void)
{
    pthread_atfork(NULL, NULL, in_child);
}
