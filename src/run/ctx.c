/*
 * ctx.c: what a handler sees of the runner.
 *
 * The cancel descriptor is an eventfd, made when a handler first asks and kept
 * by its worker.  fd_slot says for which message it speaks, so that a late
 * cancel does not reach the next one.
 */
#include "base/error.h"
#include "base/system.h"
#include "run/run.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

void leat__ctx_begin(leat_ctx *x, run_slot *m)
{
    x->slot = m;
    x->committed = false;
    x->how = (leat__settlement){ .by_policy = true };
}

static void raise_fd(const run_worker *w)
{
    uint64_t one = 1;
    ssize_t n = write(w->fd, &one, sizeof one);
    (void)n; /* full is as readable as it gets */
}

static void lower_fd(const run_worker *w)
{
    uint64_t was;
    ssize_t n = read(w->fd, &was, sizeof was);
    (void)n; /* empty: it was never raised */
}

void leat__ctx_end(leat_ctx *x)
{
    run_worker *w = x->worker;
    x->slot = NULL;
    if (!w->fd_slot)
        return;
    pthread_mutex_lock(&w->run->cancel_lock);
    lower_fd(w);
    w->fd_slot = NULL;
    pthread_mutex_unlock(&w->run->cancel_lock);
}

void leat__ctx_cancel(leat_run *r, run_slot *m)
{
    if (atomic_exchange(&m->cancelled, true))
        return;
    pthread_mutex_lock(&r->cancel_lock);
    run_worker *w = atomic_load_explicit(&m->worker, memory_order_relaxed);
    if (w && w->fd_slot == m)
        raise_fd(w);
    pthread_mutex_unlock(&r->cancel_lock);
}

const leat_msg *leat_ctx_msg(const leat_ctx *x)
{
    return &x->slot->d->msg;
}

const leat_delivery *leat_ctx_delivery(const leat_ctx *x)
{
    return x->slot->d;
}

leat_verdict leat_ctx_nack(leat_ctx *x, int64_t delay_ms)
{
    x->how.delay_ms = delay_ms > 0 ? delay_ms : 0;
    x->how.by_policy = false;
    return LEAT_NACK;
}

static void keep_reason(leat_ctx *x, const char *reason)
{
    x->how.reason = NULL;
    if (reason) {
        snprintf(x->reason, sizeof x->reason, "%s", reason);
        x->how.reason = x->reason;
    }
}

leat_verdict leat_ctx_fail(leat_ctx *x, const char *reason)
{
    x->how.delay_ms = 0;
    x->how.by_policy = true;
    keep_reason(x, reason);
    return LEAT_NACK;
}

leat_verdict leat_ctx_reject(leat_ctx *x, const char *reason)
{
    keep_reason(x, reason);
    return LEAT_REJECT;
}

leat_verdict leat__ctx_committed(leat_ctx *x)
{
    x->committed = true;
    return LEAT_ACK;
}

bool leat_ctx_cancelled(const leat_ctx *x)
{
    return atomic_load(&x->slot->cancelled);
}

int leat_ctx_cancel_fd(leat_ctx *x)
{
    run_worker *w = x->worker;
    pthread_mutex_lock(&w->run->cancel_lock);
    if (w->fd < 0)
        w->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (w->fd >= 0 && w->fd_slot != x->slot) {
        w->fd_slot = x->slot;
        if (atomic_load(&x->slot->cancelled))
            raise_fd(w);
    }
    int fd = w->fd;
    pthread_mutex_unlock(&w->run->cancel_lock);
    return fd;
}
