/*
 * thread.h: threads, and waiting for a condition with a deadline on the
 * monotonic clock.
 */
#ifndef LEAT_BASE_THREAD_H
#define LEAT_BASE_THREAD_H

#include "base/error.h"
#include <pthread.h>

/* A condition variable that counts on CLOCK_MONOTONIC. */
leat_code leat__cond_init(pthread_cond_t *c, leat_error *err);

/* Wait, with m held, until signalled or deadline_ns has passed (false). */
bool leat__cond_wait(pthread_cond_t *c, pthread_mutex_t *m,
                     int64_t deadline_ns);

/* Start a thread that takes no signals; the name is for ps. */
leat_code leat__thread_start(pthread_t *t, const char *name,
                             void *(*fn)(void *), void *arg, leat_error *err);

#endif
