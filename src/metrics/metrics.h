/*
 * metrics.h: what a metric is inside, and the inline ways to write to one.
 *
 * Each has cache lines to itself, so that two threads that write to two
 * metrics do not slow each other down.  Orders nothing: relaxed.
 */
#ifndef LEAT_METRICS_METRICS_H
#define LEAT_METRICS_METRICS_H

#include "metrics/buckets.h"
#include <leat/metrics.h>
#include <stdatomic.h>

enum { LEAT__CACHE_LINE = 64, LEAT__METRICS_SERIES = 10000 };

struct leat_counter {
    _Alignas(LEAT__CACHE_LINE) _Atomic uint64_t n;
};

struct leat_gauge {
    _Alignas(LEAT__CACHE_LINE) _Atomic int64_t v;
};

struct leat_histogram {
    _Alignas(LEAT__CACHE_LINE) _Atomic uint64_t sum_ns;
    _Atomic uint64_t cell[LEAT__CELLS];
};

static inline void leat__counter_add(leat_counter *c, uint64_t n)
{
    if (c)
        atomic_fetch_add_explicit(&c->n, n, memory_order_relaxed);
}

static inline void leat__gauge_set(leat_gauge *g, int64_t v)
{
    if (g)
        atomic_store_explicit(&g->v, v, memory_order_relaxed);
}

static inline void leat__gauge_add(leat_gauge *g, int64_t n)
{
    if (g)
        atomic_fetch_add_explicit(&g->v, n, memory_order_relaxed);
}

/* A negative time, from a clock that ran back, counts as none. */
static inline void leat__histogram_record(leat_histogram *h, int64_t ns)
{
    if (!h)
        return;
    uint64_t v = ns > 0 ? (uint64_t)ns : 0;
    atomic_fetch_add_explicit(&h->cell[leat__cell_of(v)], 1,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum_ns, v, memory_order_relaxed);
}

#endif
