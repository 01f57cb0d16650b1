/*
 * thread.c: threads and timed waiting.
 */
#include "base/thread.h"
#include "base/system.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>

leat_code leat__cond_init(pthread_cond_t *c, leat_error *err)
{
    pthread_condattr_t a;
    int rc = pthread_condattr_init(&a);
    if (rc == 0) {
        pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
        rc = pthread_cond_init(c, &a);
        pthread_condattr_destroy(&a);
    }
    if (rc != 0)
        return leat__fail_errno(err, LEAT_EIO, rc, "condition variable");
    return LEAT_OK;
}

bool leat__cond_wait(pthread_cond_t *c, pthread_mutex_t *m, int64_t deadline_ns)
{
    if (deadline_ns == INT64_MAX)
        return pthread_cond_wait(c, m) == 0;
    struct timespec t = { .tv_sec = deadline_ns / 1000000000,
                          .tv_nsec = deadline_ns % 1000000000 };
    return pthread_cond_timedwait(c, m, &t) != ETIMEDOUT;
}

/* The program's signals are for the program's threads: a handler that runs on
 * ours would see our stack and interrupt our waits. */
leat_code leat__thread_start(pthread_t *t, const char *name,
                             void *(*fn)(void *), void *arg, leat_error *err)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(t, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return leat__fail_errno(err, LEAT_EIO, rc, "cannot start thread '%s'",
                                name);
    pthread_setname_np(*t, name);
    return LEAT_OK;
}
