/*
 * receive.c: the receiver's thread.
 *
 * It asks the source for as many deliveries as there are free slots and sorts
 * a whole batch into lanes under one lock.  With few slots free it waits a
 * moment for more, so that under load batches stay large.  Failures that may
 * pass are tried again with growing pauses; a final one ends the thread, and
 * the runner is failed: what was received is still worked off.
 */
#include "base/backoff.h"
#include "base/log.h"
#include "base/system.h"
#include "base/thread.h"
#include "run/run.h"

enum {
    WAIT_MS = 1000,      /* for one receive                                 */
    GATHER_NS = 2000000, /* for more than a few free slots               */
    PAUSE_MS = 50,       /* after the first failure, doubled with each more  */
    PAUSE_MAX_MS = 5000
};

/* Wait until n slots are free; false: not by then, or stopping. */
static bool await_free(leat_run *r, int n, int64_t deadline_ns)
{
    uint64_t taken = atomic_load(&r->received);
    uint64_t max = (uint64_t)r->opts.max_in_flight;
    uint64_t wanted = taken + (uint64_t)n - max;
    bool in_time = true;

    pthread_mutex_lock(&r->lock);
    atomic_store(&r->wanted, wanted);
    while (in_time && !leat__stopping(r) &&
           atomic_load(&r->freed_count) < wanted)
        in_time = leat__cond_wait(&r->room, &r->lock, deadline_ns);
    pthread_mutex_unlock(&r->lock);
    return in_time && !leat__stopping(r);
}

/* How many to ask for; 0 when stopping. */
static int room(leat_run *r)
{
    int few = r->opts.max_in_flight / 4;
    if (few > r->opts.batch)
        few = r->opts.batch;
    int n = leat__slot_room(r);
    if (n < few) {
        (void)await_free(r, few, leat__now_ns() + GATHER_NS);
        n = leat__slot_room(r);
    }
    while (n == 0 && await_free(r, 1, INT64_MAX))
        n = leat__slot_room(r);
    return n < r->opts.batch ? n : r->opts.batch;
}

static void wake_workers(leat_run *r, int ready)
{
    if (ready >= r->idle) {
        if (r->idle > 0)
            pthread_cond_broadcast(&r->work);
        return;
    }
    for (int i = 0; i < ready; i++)
        pthread_cond_signal(&r->work);
}

/* Give each delivery a slot; when the keeper must first look at one. */
static int64_t take_slots(leat_run *r, int n, run_list *fresh)
{
    int64_t now = leat__now_ns(), due = INT64_MAX;
    for (int i = 0; i < n; i++) {
        run_slot *m = leat__slot_take(r, r->batch[i], now, &due);
        leat__slot_append(fresh, m);
    }
    leat_gauge_add(r->meters.in_flight, n);
    leat_counter_add(r->meters.consumed, (uint64_t)n);
    return due;
}

static void dispatch(leat_run *r, int n, uint64_t seq)
{
    run_list fresh = { 0 }, late = { 0 };
    leat_error e;
    leat_code rc = LEAT_OK;
    int64_t due = n > 0 ? take_slots(r, n, &fresh) : INT64_MAX;

    pthread_mutex_lock(&r->lock);
    size_t before = r->line_count;
    for (run_slot *m = fresh.first, *next; m; m = next) {
        next = m->next;
        if (!leat__lane_enter_locked(r, m, seq))
            leat__slot_append(&late, m);
    }
    leat__lane_unhold_locked(r, seq);
    leat__keep_by_locked(r, due);
    wake_workers(r, (int)(r->line_count - before));
    if (r->workers_live < r->opts.threads)
        rc = leat__crew_grow_locked(r, &e);
    pthread_mutex_unlock(&r->lock);
    if (rc != LEAT_OK)
        leat__log(&r->opts.log, LEAT_LOG_WARN, "runner of '%s': %s",
                  r->source->name, e.msg);
    leat__slot_release_all(r, &r->tally, &late);
}

static void pause_ms(leat_run *r, int64_t ms)
{
    int64_t until = leat__deadline_ns(ms);
    pthread_mutex_lock(&r->lock);
    while (!leat__stopping(r) && leat__cond_wait(&r->room, &r->lock, until))
        ;
    pthread_mutex_unlock(&r->lock);
}

/* Logs a failure when it is another than the last; false: it is final. */
static bool may_go_on(leat_run *r, const leat_error *err, leat_code *said)
{
    if (!err->retriable) {
        r->failure = *err;
        atomic_store(&r->failed, true);
        leat__log(&r->opts.log, LEAT_LOG_ERROR,
                  "receiving from '%s' has ended: %s", r->source->name,
                  err->msg);
        return false;
    }
    if (err->code != *said)
        leat__log(&r->opts.log, LEAT_LOG_WARN,
                  "receiving from '%s' fails, trying again: %s",
                  r->source->name, err->msg);
    *said = err->code;
    return true;
}

void *leat__run_receive(void *run)
{
    leat_run *r = run;
    leat__backoff pause = { .base_ms = PAUSE_MS, .cap_ms = PAUSE_MAX_MS };
    leat_code said = LEAT_OK;
    leat_error err;

    for (int max; (max = room(r)) > 0 && !leat__stopping(r);) {
        uint64_t seq = atomic_fetch_add(&r->receive_seq, 1) + 1;
        int n = leat_source_receive(r->source, r->batch, max, WAIT_MS, &err);
        if (n >= 0) {
            dispatch(r, n, seq);
            leat__backoff_reset(&pause);
            if (said != LEAT_OK)
                leat__log(&r->opts.log, LEAT_LOG_INFO,
                          "receiving from '%s' works again", r->source->name);
            said = LEAT_OK;
        } else if (may_go_on(r, &err, &said)) {
            pause_ms(r, leat__backoff_next_ms(&pause));
        } else {
            break;
        }
    }
    return NULL;
}
