/*
 * keep.c: the keeper's thread, which watches what is in flight.
 *
 * It extends deliveries before their time is over, in batches; takes messages
 * away from handlers past max_processing_ms; and raises cancel tokens: when an
 * extend says that a delivery is no longer ours, when two thirds of what it
 * had are gone without a confirmed extend, when a handler takes too long, and
 * when a stop runs out of patience.  A message that is cancelled before it
 * began is released instead of run.
 *
 * It sleeps until the earliest of those instants; the receiver wakes it when
 * a fresh message has an earlier one.
 */
#include "base/log.h"
#include "base/system.h"
#include "base/thread.h"
#include "run/run.h"

static bool beats(const leat_run *r)
{
    return r->opts.heartbeat_ms >= 0 && r->source->ops->extend;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The last instant to stop without a confirmed extend. */
static int64_t hard_stop(const leat_run *r, const run_slot *m)
{
    int64_t deadline = atomic_load_explicit(&m->d->deadline_ns,
                                            memory_order_relaxed);
    return beats(r) ? deadline - m->grant_ns / 3 : deadline;
}

static int64_t limit_ns(const leat_run *r, const run_slot *m, int64_t now_ns)
{
    int64_t max = r->opts.max_processing_ms;
    if (max <= 0)
        return INT64_MAX;
    int64_t started = atomic_load_explicit(&m->started_ns,
                                           memory_order_acquire);
    return (started ? started : now_ns) + max * 1000000;
}

int64_t leat__keep_due(const leat_run *r, const run_slot *m, int64_t now_ns)
{
    int64_t due = limit_ns(r, m, now_ns);
    if (m->grant_ns == 0 ||
        atomic_load_explicit(&m->d->stale, memory_order_relaxed))
        return due;
    if (beats(r))
        due = earlier(due, m->beat_ns);
    if (!atomic_load_explicit(&m->cancelled, memory_order_relaxed))
        due = earlier(due, hard_stop(r, m));
    return due;
}

void leat__keep_by_locked(leat_run *r, int64_t when_ns)
{
    if (when_ns >= r->keep_next)
        return;
    r->keep_next = when_ns;
    pthread_cond_signal(&r->keep);
}

/* Mark it taken and stop its lane, in one step: the handler may just be
 * returning.  False: it has returned. */
static bool seize(leat_run *r, run_slot *m, bool ordered, run_list *behind)
{
    pthread_mutex_lock(&r->lock);
    bool taken = leat__slot_seize(m);
    if (taken && ordered) {
        leat__lane_hold_locked(r, m->lane, m->d->position);
        leat__lane_empty_locked(m->lane, atomic_load(&m->worker), behind);
    }
    pthread_mutex_unlock(&r->lock);
    return taken;
}

/* The lane stays with its handler, but what is behind goes back. */
static void take_away(leat_run *r, run_slot *m)
{
    run_list behind = { 0 };
    run_lane *l = m->lane;
    bool ordered = l != &m->solo && r->source->ordered;

    if (!seize(r, m, ordered, &behind))
        return;
    leat__ctx_cancel(r, m);
    leat__slot_nack_seized(r, m);
    leat__log(&r->opts.log, LEAT_LOG_WARN,
              "a handler of '%s' runs over %lld ms: its message is nacked",
              r->source->name, (long long)r->opts.max_processing_ms);
    if (!ordered)
        return;
    leat__slot_release_all(r, &r->tally, &behind);
    pthread_mutex_lock(&r->lock);
    leat__lane_held_until_locked(r, l);
    pthread_mutex_unlock(&r->lock);
}

/* Judge one pinned slot; true: it is to be extended and stays pinned. */
static bool judge(leat_run *r, run_slot *m, int64_t now_ns, bool cancel_all)
{
    bool started = atomic_load(&m->started_ns) != 0;
    if (cancel_all && started)
        leat__ctx_cancel(r, m);
    if (started && now_ns >= limit_ns(r, m, now_ns)) {
        take_away(r, m);
        return false;
    }
    if (m->grant_ns == 0 || atomic_load(&m->d->stale))
        return false;
    if (now_ns >= hard_stop(r, m))
        leat__ctx_cancel(r, m);
    return beats(r) && now_ns >= m->beat_ns;
}

static void let_go(leat_run *r, run_slot *m, int64_t now_ns, int64_t *next)
{
    /* Read while it is ours. */
    if (!(atomic_load(&m->state) & SLOT_TAKEN))
        *next = earlier(*next, leat__keep_due(r, m, now_ns));
    leat__slot_unpin(r, m);
}

/* Moves those of about the grant of the first to the front; how many. */
static size_t group(run_slot **due, size_t n, int64_t *grant_ns)
{
    int64_t first = due[0]->grant_ns;
    size_t k = 0;
    *grant_ns = 0;
    for (size_t i = 0; i < n; i++) {
        run_slot *m = due[i];
        if (m->grant_ns > first * 2 || m->grant_ns < first / 2)
            continue;
        due[i] = due[k];
        due[k++] = m;
        if (m->grant_ns > *grant_ns)
            *grant_ns = m->grant_ns;
    }
    return k;
}

static void complain(leat_run *r, leat_code code, const leat_error *err)
{
    if (code != LEAT_OK && code != r->keep_said)
        leat__log(&r->opts.log, LEAT_LOG_WARN,
                  "extending deliveries of '%s' fails: %s", r->source->name,
                  err->msg);
    r->keep_said = code;
}

/* A failure is tried again; past the hard stop the next look cancels. */
static void after_extend(leat_run *r, run_slot *m, leat_code outcome)
{
    int64_t now = leat__now_ns();
    if (outcome == LEAT_OK) {
        m->beat_ns = now + leat__slot_period_ns(r, m->grant_ns);
        return;
    }
    m->beat_ns = now + m->grant_ns / 12 + 1;
    if (outcome == LEAT_ESTALE) {
        leat__count(&r->tally.stale);
        leat_counter_add(r->meters.stale, 1);
        leat__ctx_cancel(r, m);
    }
}

static void extend(leat_run *r, run_slot **due, size_t n, int64_t grant_ns,
                   int64_t *next)
{
    leat_error err = { 0 };
    for (size_t i = 0; i < n; i++) {
        r->due_d[i] = due[i]->d;
        r->outcome[i] = LEAT_EUNKNOWN;
    }
    leat_code rc = leat__source_extend(r->source, r->due_d, n,
                                       (grant_ns + 999999) / 1000000,
                                       r->outcome, &err);
    complain(r, rc, &err);
    for (size_t i = 0; i < n; i++)
        after_extend(r, due[i], rc == LEAT_OK ? r->outcome[i] : rc);

    int64_t now = leat__now_ns();
    for (size_t i = 0; i < n; i++)
        let_go(r, due[i], now, next);
    pthread_mutex_lock(&r->lock);
    pthread_cond_broadcast(&r->let_go);
    pthread_mutex_unlock(&r->lock);
}

/* Look at every slot; when to look again. */
static int64_t look(leat_run *r, bool cancel_all)
{
    int64_t now = leat__now_ns(), next = INT64_MAX, grant;
    size_t n = 0;

    for (int i = 0; i < r->opts.max_in_flight; i++) {
        run_slot *m = &r->slots[i];
        if (!leat__slot_pin(m))
            continue;
        if (judge(r, m, now, cancel_all))
            r->due[n++] = m;
        else
            let_go(r, m, now, &next);
    }
    pthread_mutex_lock(&r->lock);
    pthread_cond_broadcast(&r->let_go);
    pthread_mutex_unlock(&r->lock);
    for (run_slot **due = r->due; n > 0;) {
        size_t k = group(due, n, &grant);
        extend(r, due, k, grant, &next);
        due += k;
        n -= k;
    }
    return next;
}

void *leat__run_keep(void *run)
{
    leat_run *r = run;

    pthread_mutex_lock(&r->lock);
    while (!r->keep_stop) {
        bool cancel = r->cancel_all && !r->cancel_seen;
        if (!cancel && leat__now_ns() < r->keep_next) {
            (void)leat__cond_wait(&r->keep, &r->lock, r->keep_next);
            continue;
        }
        r->cancel_seen |= cancel;
        r->keep_next = INT64_MAX;
        pthread_mutex_unlock(&r->lock);
        int64_t next = look(r, cancel);
        pthread_mutex_lock(&r->lock);
        r->keep_next = earlier(r->keep_next, next);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}
