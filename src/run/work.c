/*
 * work.c: a worker's thread, which calls the handler.
 *
 * A worker fills its hands from the line (lane.c) and runs what it holds.  A
 * handful of a lane is put back when it took long and others wait; solo ones
 * need not be, as idle workers take them out of its hands.
 */
#include "base/system.h"
#include "base/thread.h"
#include "run/run.h"

enum { TURN_NS = 1000000 }; /* a lane's turn, while others wait */

static const leat__settlement release = { .verdict = LEAT__SETTLE_RELEASE };

static bool given_back(const leat__settlement *how)
{
    return how->verdict == LEAT__SETTLE_NACK ||
           how->verdict == LEAT__SETTLE_RELEASE;
}

/* In an ordered lane nothing behind a message given back may run. */
static void hold(run_worker *w, const run_slot *m)
{
    pthread_mutex_lock(&w->run->lock);
    leat__lane_hold_locked(w->run, w->lane, m->d->position);
    pthread_mutex_unlock(&w->run->lock);
    w->broke = true;
}

static leat__settlement verdict(leat_ctx *x, leat_verdict v)
{
    if (x->committed)
        return (leat__settlement){ .verdict = LEAT__SETTLE_COMMITTED };
    switch (v) {
    case LEAT_ACK:
        return (leat__settlement){ .verdict = LEAT__SETTLE_ACK };
    case LEAT_REJECT:
        return (leat__settlement){ .verdict = LEAT__SETTLE_REJECT,
                                   .reason = x->how.reason };
    case LEAT_RELEASE:
        return release;
    case LEAT_NACK:
        break;
    }
    return (leat__settlement){ .verdict = LEAT__SETTLE_NACK,
                               .delay_ms = x->how.delay_ms,
                               .by_policy = x->how.by_policy,
                               .reason = x->how.reason };
}

static leat__settlement handle(run_worker *w, run_slot *m)
{
    leat_run *r = w->run;
    leat_ctx *x = &w->ctx;

    atomic_store_explicit(&m->worker, w, memory_order_relaxed);
    atomic_store_explicit(&m->started_ns, w->now_ns, memory_order_release);
    leat__ctx_begin(x, m);
    leat_verdict v = r->fn(x, r->arg);
    leat__ctx_end(x);

    int64_t now = leat__now_ns();
    leat__settlement how = verdict(x, v);
    leat_histogram_record(r->meters.process[how.verdict], now - w->now_ns);
    w->now_ns = now;
    return how;
}

static leat__settlement decide(run_worker *w, run_slot *m)
{
    leat_run *r = w->run;
    if (leat__stopping(r) || (w->lane && atomic_load(&w->lane->shut)) ||
        atomic_load_explicit(&m->cancelled, memory_order_relaxed))
        return release;
    if (m->d->error)
        return (leat__settlement){ .verdict = LEAT__SETTLE_REJECT,
                                   .reason = m->d->error->msg };
    return handle(w, m);
}

static void process(run_worker *w, run_slot *m)
{
    leat_run *r = w->run;
    leat__settlement how = decide(w, m);
    bool ordered = w->lane && r->source->ordered && !leat__stopping(r);

    if (ordered && given_back(&how)) {
        if (!atomic_load(&w->lane->shut))
            hold(w, m);
        leat__slot_settle_now(r, &w->tally, m, &how);
    } else if (how.reason) {
        leat__slot_settle_now(r, &w->tally, m, &how);
    } else if (leat__slot_settle(r, &w->tally, m, &how) && ordered) {
        /* Taken from us just now: wait until the lane is shut behind it. */
        pthread_mutex_lock(&r->lock);
        pthread_mutex_unlock(&r->lock);
    }
}

static void run_solos(run_worker *w)
{
    for (int i = 0; i < w->count; i++) {
        run_slot *m = atomic_exchange(&w->solo[i], NULL);
        if (m)
            process(w, m);
    }
}

/* Put the rest back when other lanes wait. */
static bool yielded(run_worker *w)
{
    pthread_mutex_lock(&w->run->lock);
    bool wait = w->run->line != NULL;
    if (wait)
        leat__lane_yield_locked(w);
    pthread_mutex_unlock(&w->run->lock);
    return wait;
}

/* Where a message was given back, those behind follow, and the source knows of
 * all before the hold ends. */
static void leave(run_worker *w)
{
    leat_run *r = w->run;
    run_list out = { 0 };
    run_lane *l = w->lane;

    pthread_mutex_lock(&r->lock);
    leat__lane_leave_locked(r, w, &out);
    pthread_mutex_unlock(&r->lock);
    if (!w->broke)
        return;
    w->broke = false;
    for (run_slot *m = out.first, *next; m; m = next) {
        next = m->next;
        leat__slot_settle_now(r, &w->tally, m, &release);
    }
    pthread_mutex_lock(&r->lock);
    leat__lane_held_until_locked(r, l);
    pthread_mutex_unlock(&r->lock);
}

/* Its turn lasts so many messages, or so long. */
static void run_lane_turn(run_worker *w)
{
    int64_t turn_end = w->now_ns + TURN_NS;
    uint32_t done = 0;

    for (int i = 0; i < w->count; i++) {
        run_slot *m = atomic_exchange(&w->line[i], NULL);
        if (!m)
            continue;
        uint32_t turn = m->d->turn;
        process(w, m);
        bool over = turn > 0 ? ++done >= turn : w->now_ns > turn_end;
        if (over && yielded(w))
            break;
    }
    leave(w);
}

/* Wait for work; false when there will be none, or none came for too long. */
static bool fill_hands(run_worker *w)
{
    leat_run *r = w->run;
    bool got, ends = false;

    pthread_mutex_lock(&r->lock);
    while (!(got = leat__lane_grab_locked(r, w) ||
                   leat__lane_steal_locked(r, w)) &&
           !r->closing && !ends) {
        int64_t until = INT64_MAX;
        if (r->crew.idle_ms > 0)
            until = leat__deadline_ns(r->crew.idle_ms);
        r->idle++;
        bool in_time = leat__cond_wait(&r->work, &r->lock, until);
        r->idle--;
        ends = !in_time && !r->line && r->workers_live > r->crew.least;
    }
    if (!got) {
        w->live = false;
        r->workers_live--;
        pthread_cond_signal(&r->ended);
    }
    pthread_mutex_unlock(&r->lock);
    return got;
}

void *leat__run_work(void *worker)
{
    run_worker *w = worker;

    while (fill_hands(w)) {
        atomic_store_explicit(&w->running, true, memory_order_relaxed);
        w->now_ns = leat__now_ns();
        if (w->lane)
            run_lane_turn(w);
        else
            run_solos(w);
        atomic_store_explicit(&w->running, false, memory_order_relaxed);
    }
    return NULL;
}
