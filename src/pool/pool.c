/*
 * pool.c: starting and stopping a pool, and its figures.
 */
#include "pool/pool.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/system.h"
#include "message/name.h"
#include "redis/client.h"
#include "run/run.h"

enum {
    WORKERS = 10,
    WORKER_IDLE_MS = 30 * 1000,
    QUEUE_IDLE_MS = 5 * 60 * 1000,
    POLL_MS = 500,
    PACE_OF = 16 /* handlers are averaged */
};

struct leat_pool {
    leat_handler_fn *fn;
    void *arg;
    pool_source *source;
    leat_run *run;
    leat_client *client;
};

/* ---- options ---------------------------------------------------------- */

static leat_code check_times(const leat_pool_opts *o, leat_error *err)
{
    const struct {
        const char *name;
        int64_t value, least;
    } all[] = {
        { "visibility_ms", o->visibility_ms, 0 },
        { "retry_ms", o->retry_ms, 0 },
        { "max_processing_ms", o->max_processing_ms, 0 },
        { "drain_ms", o->drain_ms, -1 },
        { "worker_idle_ms", o->worker_idle_ms, 0 },
        { "queue_idle_ms", o->queue_idle_ms, 0 },
        { "poll_ms", o->poll_ms, 0 },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].value < all[i].least)
            return leat__fail(err, LEAT_EINVAL, "pool: %s %lld is negative",
                              all[i].name, (long long)all[i].value);
    int64_t most = leat__queue_profile(o->profile)->hide_max_ms;
    if (o->visibility_ms > most || o->retry_ms > most)
        return leat__fail(err, LEAT_EINVAL,
                          "pool: visibility_ms %lld and retry_ms %lld: up to "
                          "the %lld of %lld hours",
                          (long long)o->visibility_ms, (long long)o->retry_ms,
                          (long long)most, (long long)(most / 3600000));
    return LEAT_OK;
}

static leat_code check(const leat_pool_opts *o, leat_error *err)
{
    leat_queue_opts q = { .prefix = o->prefix, .profile = o->profile };
    leat_code rc = leat__queue_check("all", &q, err);
    if (rc != LEAT_OK)
        return rc;
    if (o->max_receives < 0 ||
        (o->max_receives > 0 && leat__queue_profile(o->profile)->kept))
        return leat__fail(err, LEAT_EINVAL,
                          "pool: max_receives %d: it is not negative, and "
                          "queues that are not redowl's have their own",
                          o->max_receives);
    if (o->workers < 1 || o->workers > LEAT__RUN_THREADS_MAX)
        return leat__fail(err, LEAT_EINVAL, "pool: %d workers, 1 to %d can be",
                          o->workers, LEAT__RUN_THREADS_MAX);
    if (o->min_workers < 0 || o->min_workers > o->workers)
        return leat__fail(err, LEAT_EINVAL,
                          "pool: min_workers %d, 0 to the %d workers can be",
                          o->min_workers, o->workers);
    if (o->queue_workers < 1)
        return leat__fail(err, LEAT_EINVAL,
                          "pool: %d workers for a queue, 1 is the least",
                          o->queue_workers);
    return check_times(o, err);
}

static int64_t or_usual(int64_t v, int64_t usual)
{
    return v == 0 ? usual : v;
}

static leat_pool_opts defaults(const leat_pool_opts *opts)
{
    const int64_t longest = INT64_MAX / 2000000;
    leat_pool_opts o = opts ? *opts : (leat_pool_opts){ 0 };
    o.workers = o.workers == 0 ? WORKERS : o.workers;
    o.queue_workers = o.queue_workers == 0 ? 1 : o.queue_workers;
    o.worker_idle_ms = or_usual(o.worker_idle_ms, WORKER_IDLE_MS);
    o.queue_idle_ms = or_usual(o.queue_idle_ms, QUEUE_IDLE_MS);
    o.poll_ms = or_usual(o.poll_ms, POLL_MS);
    if (o.queue_idle_ms > longest)
        o.queue_idle_ms = longest;
    return o;
}

/* ---- its life --------------------------------------------------------- */

int leat__pool_slice(const pool_source *s)
{
    int64_t pace = atomic_load_explicit(&s->pace_ns, memory_order_relaxed);
    int64_t n = pace > 0 ? POOL_SLICE_NS / pace : 1;
    return n < 1 ? 1 : n < POOL_SLICE_MAX ? (int)n : POOL_SLICE_MAX;
}

/* An average of the last few.  Of two who count at once one may get lost. */
static void count_time(pool_source *s, pool_lot *lot, int64_t ns)
{
    int64_t pace = atomic_load_explicit(&s->pace_ns, memory_order_relaxed);
    pace = pace == 0 ? ns + 1 : pace + (ns - pace) / PACE_OF;
    atomic_store_explicit(&s->pace_ns, pace, memory_order_relaxed);
    ns += atomic_fetch_add_explicit(&lot->used_ns, ns, memory_order_relaxed);
    if (leat__pool_serial(s) && ns > POOL_SLICE_NS * lot->queue->weight)
        leat__pool_overrun(s, lot);
}

static leat_verdict handle(leat_ctx *x, void *arg)
{
    leat_pool *p = arg;
    pool_slot *slot = (pool_slot *)leat_ctx_delivery(x);
    pool_queue *q = slot->lot->queue;
    int64_t start = leat__now_ns();
    atomic_fetch_add(&q->running, 1);
    leat_verdict v = p->fn(x, p->arg);
    atomic_fetch_sub(&q->running, 1);
    count_time(p->source, slot->lot, leat__now_ns() - start);
    return v;
}

static leat_run *run(leat_pool *p, const leat_pool_opts *o, leat_error *err)
{
    leat_run_opts r = { .threads = o->workers,
                        .max_in_flight = POOL_IN_FLIGHT,
                        .batch = POOL_IN_FLIGHT,
                        .max_processing_ms = o->max_processing_ms,
                        .drain_ms = o->drain_ms,
                        .log = o->log,
                        .metrics = o->metrics };
    leat__crew crew = { .least = o->min_workers, .idle_ms = o->worker_idle_ms };
    return leat__run_start(&p->source->base, handle, p, &r, &crew, err);
}

static void pool_free(leat_pool *p)
{
    leat_client *c = p->client;
    leat__free(p);
    leat__client_drop(c, LEAT__A_POOL);
}

leat_pool *leat_pool_start(leat_client *c, leat_handler_fn *fn, void *arg,
                           const leat_pool_opts *opts, leat_error *err)
{
    leat_pool_opts o = defaults(opts);
    if (leat__client_own(c, err) != LEAT_OK || check(&o, err) != LEAT_OK)
        return NULL;
    leat__client_inherit(c, &o.log, &o.metrics);
    leat_pool *p = leat__zalloc(sizeof *p, err);
    if (!p || leat__client_keep(c, LEAT__A_POOL, err) != LEAT_OK) {
        leat__free(p);
        return NULL;
    }
    p->client = c;
    p->fn = fn;
    p->arg = arg;
    leat_source *s = leat__pool_source(c, &o, err);
    p->source = (pool_source *)s;
    p->run = s ? run(p, &o, err) : NULL;
    if (p->run)
        return p;
    leat_source_close(s);
    pool_free(p);
    return NULL;
}

leat_code leat_pool_stop(leat_pool *p, int64_t drain_ms, leat_error *err)
{
    if (!p)
        return LEAT_OK;
    leat_code rc = leat_run_stop(p->run, drain_ms, err);
    pool_free(p);
    return rc;
}

/* ---- figures ---------------------------------------------------------- */

void leat_pool_stats_get(leat_pool *p, leat_pool_stats *out)
{
    leat_run_stats r;
    leat_run_stats_get(p->run, &r);
    *out = (leat_pool_stats){ .received = r.received,
                              .acked = r.acked,
                              .nacked = r.nacked,
                              .rejected = r.rejected,
                              .stale = r.stale,
                              .running = r.running,
                              .failed = r.failed,
                              .threads = (uint64_t)leat__run_threads(p->run) };
    pthread_mutex_lock(&p->source->lock);
    out->queues = p->source->queues.count;
    pthread_mutex_unlock(&p->source->lock);
}

void leat_pool_each(leat_pool *p, leat_pool_queue_fn *fn, void *arg)
{
    leat__pool_queues_each(p->source, fn, arg);
}
