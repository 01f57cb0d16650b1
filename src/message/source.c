/*
 * source.c: the public verbs of a source, over its table.
 */
#include "message/source.h"
#include "base/system.h"

#include <assert.h>

int leat_source_receive(leat_source *s, leat_delivery **out, int max,
                        int64_t wait_ms, leat_error *err)
{
    if (max < 1 || wait_ms < 0) {
        leat__fail(err, LEAT_EINVAL,
                   "receive from '%s': max %d must be at least 1 and wait %lld "
                   "ms not negative",
                   s->name, max, (long long)wait_ms);
        return -1;
    }
    int n = s->ops->receive(s, out, max, wait_ms, err);
    assert(n >= -1 && n <= max);
    return n;
}

void leat_source_interrupt(leat_source *s)
{
    s->ops->interrupt(s);
}

leat_code leat_source_flush(leat_source *s, int64_t timeout_ms, leat_error *err)
{
    return s->ops->flush(s, timeout_ms, err);
}

int leat_source_fd(leat_source *s)
{
    return s->ops->fd ? s->ops->fd(s) : -1;
}

void leat_source_close(leat_source *s)
{
    if (s)
        s->ops->close(s);
}

void leat__source_on_settled(leat_source *s, leat__settled_fn *fn, void *arg)
{
    s->on_settled = fn;
    s->settled_arg = arg;
}

void leat__source_settled(leat_source *s, leat_delivery *d,
                          const leat_error *err)
{
    assert(atomic_load_explicit(&d->settled, memory_order_relaxed));
    if (s->on_settled)
        s->on_settled(s->settled_arg, d, err);
    leat__delivery_drop(d);
}

leat_code leat__source_extend(leat_source *s, leat_delivery *const *d, size_t n,
                              int64_t ms, leat_code *outcome, leat_error *err)
{
    if (!s->ops->extend)
        return leat__fail(err, LEAT_ENOTSUP,
                          "deliveries of '%s' cannot be extended", s->name);

    /* The server counts from when it reads the request: earlier is safe. */
    int64_t deadline = leat__deadline_ns(ms);
    leat_code rc = s->ops->extend(s, d, n, ms, outcome, err);
    if (rc != LEAT_OK)
        return rc;
    for (size_t i = 0; i < n; i++) {
        if (outcome[i] == LEAT_OK)
            atomic_store_explicit(&d[i]->deadline_ns, deadline,
                                  memory_order_relaxed);
        else if (outcome[i] == LEAT_ESTALE)
            atomic_store_explicit(&d[i]->stale, true, memory_order_relaxed);
    }
    return LEAT_OK;
}

leat_code leat__source_settle_part(const leat_delivery *d,
                                   leat__settle_part *part, leat_error *err)
{
    leat_source *s = d->source;
    if (!s->ops->settle_part)
        return leat__fail(err, LEAT_ENOTSUP,
                          "'%s' cannot be settled inside a commit script",
                          s->name);
    return s->ops->settle_part(s, d, part, err);
}
