/*
 * run.c: starting, stopping and counting.
 *
 * Everything a runner needs is allocated when it starts; in steady state it
 * allocates nothing.  Stopping goes: no more receives; what did not begin is
 * released; handlers finish; past the deadline their cancel tokens are raised
 * and they are waited for; the keeper ends last, because it keeps what the
 * handlers work on; then flush and close.
 */
#include "run/run.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/thread.h"

#include <unistd.h>

enum {
    DRAIN_MS = 30000,
    FLUSH_MS = 1000 /* at least, for the last settlements */
};

/* ---- options ---------------------------------------------------------- */

static leat_code check(const leat_run_opts *o, leat_error *err)
{
    if (o->threads < 1 || o->threads > LEAT__RUN_THREADS_MAX)
        return leat__fail(err, LEAT_EINVAL,
                          "runner: %d threads, 1 to %d can be", o->threads,
                          LEAT__RUN_THREADS_MAX);
    if (o->max_in_flight < 1 || o->max_in_flight > LEAT__RUN_IN_FLIGHT_MAX)
        return leat__fail(err, LEAT_EINVAL,
                          "runner: %d messages in flight, 1 to %d can be",
                          o->max_in_flight, LEAT__RUN_IN_FLIGHT_MAX);
    if (o->batch < 1)
        return leat__fail(err, LEAT_EINVAL, "runner: a batch of %d", o->batch);
    if ((unsigned)o->lanes > LEAT_LANES_ONE)
        return leat__fail(err, LEAT_EINVAL, "runner: lanes %d are not known",
                          (int)o->lanes);
    if (o->heartbeat_ms < -1 || o->max_processing_ms < 0)
        return leat__fail(err, LEAT_EINVAL, "runner: a negative time");
    return LEAT_OK;
}

static leat_run_opts defaults(const leat_run_opts *opts)
{
    leat_run_opts o = opts ? *opts : (leat_run_opts){ 0 };
    if (o.threads == 0)
        o.threads = 4;
    if (o.max_in_flight == 0)
        o.max_in_flight = 256;
    if (o.batch == 0)
        o.batch = 100;
    if (o.batch > o.max_in_flight)
        o.batch = o.max_in_flight;
    if (o.drain_ms == 0)
        o.drain_ms = DRAIN_MS;
    if (o.max_processing_ms > INT64_MAX / 4000000)
        o.max_processing_ms = 0;
    return o;
}

/* ---- making and freeing ----------------------------------------------- */

static leat_code make_lanes(leat_run *r, leat_error *err)
{
    size_t n = (size_t)r->opts.max_in_flight * 2 + (size_t)r->opts.threads + 1;
    size_t buckets = 16;
    while (buckets < n)
        buckets *= 2;
    r->bucket_mask = buckets - 1;
    r->buckets = leat__calloc(buckets, sizeof *r->buckets, err);
    r->lanes = leat__calloc(n, sizeof *r->lanes, err);
    if (!r->buckets || !r->lanes)
        return LEAT_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        r->lanes[i].chain = r->unused;
        r->unused = &r->lanes[i];
    }
    return LEAT_OK;
}

static leat_code make_slots(leat_run *r, leat_error *err)
{
    size_t n = (size_t)r->opts.max_in_flight;
    r->slots = leat__calloc(n, sizeof *r->slots, err);
    r->batch = leat__calloc(n, sizeof *r->batch, err);
    r->due = leat__calloc(n, sizeof *r->due, err);
    r->due_d = leat__calloc(n, sizeof *r->due_d, err);
    r->outcome = leat__calloc(n, sizeof *r->outcome, err);
    if (!r->slots || !r->batch || !r->due || !r->due_d || !r->outcome)
        return LEAT_ENOMEM;
    for (size_t i = n; i-- > 0;) {
        r->slots[i].next = r->spare;
        r->spare = &r->slots[i];
    }
    return LEAT_OK;
}

static leat_code make_workers(leat_run *r, leat_error *err)
{
    r->workers = leat__calloc((size_t)r->opts.threads, sizeof *r->workers, err);
    if (!r->workers)
        return LEAT_ENOMEM;
    for (int i = 0; i < r->opts.threads; i++) {
        r->workers[i].run = r;
        r->workers[i].ctx.worker = &r->workers[i];
        r->workers[i].fd = -1;
    }
    return LEAT_OK;
}

static leat_code make_locks(leat_run *r, leat_error *err)
{
    pthread_cond_t *conds[] = { &r->work, &r->room, &r->keep, &r->let_go,
                                &r->ended };
    pthread_mutex_init(&r->lock, NULL);
    pthread_mutex_init(&r->cancel_lock, NULL);
    for (size_t i = 0; i < sizeof conds / sizeof *conds; i++) {
        leat_code rc = leat__cond_init(conds[i], err);
        if (rc != LEAT_OK)
            return rc;
    }
    return LEAT_OK;
}

static void run_free(leat_run *r)
{
    for (int i = 0; r->workers && i < r->opts.threads; i++)
        if (r->workers[i].fd >= 0)
            close(r->workers[i].fd);
    leat__free(r->workers);
    leat__free(r->outcome);
    leat__free(r->due_d);
    leat__free(r->due);
    leat__free(r->batch);
    leat__free(r->slots);
    leat__free(r->lanes);
    leat__free(r->buckets);
    leat__free(r);
}

/* ---- threads ---------------------------------------------------------- */

static leat_code start_threads(leat_run *r, leat_error *err)
{
    leat_code rc = LEAT_OK;
    pthread_mutex_lock(&r->lock);
    for (int i = 0; rc == LEAT_OK && i < r->crew.least; i++)
        rc = leat__crew_add_locked(r, &r->workers[i], err);
    pthread_mutex_unlock(&r->lock);
    if (rc != LEAT_OK)
        return rc;
    rc = leat__thread_start(&r->keeper, "leat-keep", leat__run_keep, r, err);
    if (rc != LEAT_OK)
        return rc;
    r->keeper_started = true;

    /* Last: before it nothing was received, so failing is harmless. */
    rc = leat__thread_start(&r->receiver, "leat-receive", leat__run_receive, r,
                            err);
    r->receiver_started = rc == LEAT_OK;
    return rc;
}

static void stop_receiver(leat_run *r)
{
    pthread_mutex_lock(&r->lock);
    atomic_store(&r->stopping, true);
    pthread_cond_signal(&r->room);
    pthread_mutex_unlock(&r->lock);
    if (!r->receiver_started)
        return;
    leat_source_interrupt(r->source);
    pthread_join(r->receiver, NULL);
}

static void release_waiting(leat_run *r)
{
    run_list out = { 0 };
    pthread_mutex_lock(&r->lock);
    r->closing = true;
    leat__lane_sweep_locked(r, &out);
    pthread_cond_broadcast(&r->work);
    pthread_mutex_unlock(&r->lock);
    leat__slot_release_all(r, &r->tally, &out);
}

/* False: some handler had to be cancelled. */
static bool join_workers(leat_run *r, int64_t deadline_ns)
{
    bool in_time = true;
    pthread_mutex_lock(&r->lock);
    while (r->workers_live > 0 && in_time)
        in_time = leat__cond_wait(&r->ended, &r->lock, deadline_ns);
    in_time = r->workers_live == 0;
    if (!in_time) {
        r->cancel_all = true;
        pthread_cond_signal(&r->keep);
    }
    pthread_mutex_unlock(&r->lock);
    for (int i = 0; i < r->opts.threads; i++)
        if (r->workers[i].started)
            pthread_join(r->workers[i].thread, NULL);
    return in_time;
}

static void stop_keeper(leat_run *r)
{
    if (!r->keeper_started)
        return;
    pthread_mutex_lock(&r->lock);
    r->keep_stop = true;
    pthread_cond_signal(&r->keep);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->keeper, NULL);
}

static bool stop_threads(leat_run *r, int64_t deadline_ns)
{
    stop_receiver(r);
    release_waiting(r);
    bool in_time = join_workers(r, deadline_ns);
    stop_keeper(r);
    return in_time;
}

/* ---- the public face -------------------------------------------------- */

/* A delivery whose extend was refused has been counted then. */
static void on_settled(void *arg, const leat_delivery *d, const leat_error *err)
{
    leat_run *r = arg;
    if (!err || err->code != LEAT_ESTALE || atomic_load(&d->stale))
        return;
    leat__count(&r->tally.stale);
    leat_counter_add(r->meters.stale, 1);
}

leat_run *leat_run_start(leat_source *s, leat_handler_fn *fn, void *arg,
                         const leat_run_opts *opts, leat_error *err)
{
    return leat__run_start(s, fn, arg, opts, NULL, err);
}

leat_run *leat__run_start(leat_source *s, leat_handler_fn *fn, void *arg,
                          const leat_run_opts *opts, const leat__crew *crew,
                          leat_error *err)
{
    if (!s)
        return NULL;
    leat_run *r = leat__zalloc(sizeof *r, err);
    if (!r)
        return NULL;
    r->source = s;
    r->fn = fn;
    r->arg = arg;
    r->opts = defaults(opts);
    if (!r->opts.log.fn)
        r->opts.log = s->log;
    if (!r->opts.metrics)
        r->opts.metrics = s->metrics;
    r->crew = crew ? *crew : (leat__crew){ .least = r->opts.threads };
    r->keep_next = INT64_MAX;
    if (check(&r->opts, err) != LEAT_OK || make_locks(r, err) != LEAT_OK ||
        leat__random(&r->seed, sizeof r->seed, err) != LEAT_OK ||
        make_lanes(r, err) != LEAT_OK || make_slots(r, err) != LEAT_OK ||
        make_workers(r, err) != LEAT_OK ||
        leat__meters_init(&r->meters, r->opts.metrics, s, err) != LEAT_OK)
        goto fail;

    leat__source_on_settled(s, on_settled, r);
    if (start_threads(r, err) == LEAT_OK)
        return r;

    (void)stop_threads(r, INT64_MAX);
    leat__source_on_settled(s, NULL, NULL);
fail:
    run_free(r);
    return NULL;
}

static leat_code outcome(leat_run *r, bool in_time, leat_code flushed,
                         const leat_error *why, leat_error *err)
{
    if (atomic_load(&r->failed)) {
        if (err)
            *err = r->failure;
        return r->failure.code;
    }
    if (!in_time)
        return leat__fail(err, LEAT_ETIMEOUT,
                          "runner of '%s': a handler ran past the drain time",
                          r->source->name);
    if (flushed == LEAT_ESTALE)
        return LEAT_OK; /* it was counted, and is no failure of the stop */
    if (flushed != LEAT_OK && err)
        *err = *why;
    return flushed;
}

leat_code leat_run_stop(leat_run *r, int64_t drain_ms, leat_error *err)
{
    leat_error why = { 0 };
    if (!r)
        return LEAT_OK;
    int64_t deadline = leat__deadline_ns(drain_ms == 0 ? r->opts.drain_ms
                                                       : drain_ms);
    bool in_time = stop_threads(r, deadline);

    int64_t left = leat__left_ms(deadline);
    leat_code flushed = leat_source_flush(
        r->source, left > FLUSH_MS ? left : FLUSH_MS, &why);
    leat_code rc = outcome(r, in_time, flushed, &why, err);
    leat_source_close(r->source);
    run_free(r);
    return rc;
}

static void add(leat_run_stats *out, const run_tally *t)
{
    out->acked += atomic_load(&t->acked);
    out->nacked += atomic_load(&t->nacked);
    out->rejected += atomic_load(&t->rejected);
    out->released += atomic_load(&t->released);
    out->stale += atomic_load(&t->stale);
    out->cancelled += atomic_load(&t->cancelled);
}

void leat_run_stats_get(leat_run *r, leat_run_stats *out)
{
    *out = (leat_run_stats){ 0 };
    add(out, &r->tally);
    for (int i = 0; i < r->opts.threads; i++) {
        add(out, &r->workers[i].tally);
        out->running += atomic_load(&r->workers[i].running);
    }
    out->in_flight = leat__slot_in_flight(r);
    out->received = atomic_load(&r->received);
    out->failed = atomic_load(&r->failed);
}
