/*
 * slot.c: a message in flight, from its receipt to its settlement.
 *
 * Slots are made at the start; the receiver takes them and any thread gives
 * them back over a stack that is only ever emptied whole, so it needs no lock.
 */
#include "base/system.h"
#include "run/run.h"

#include <assert.h>

int64_t leat__slot_period_ns(const leat_run *r, int64_t grant_ns)
{
    int64_t asked = r->opts.heartbeat_ms;
    if (asked <= 0 || asked > grant_ns / 2 / 1000000)
        return asked <= 0 ? grant_ns / 3 : grant_ns / 2;
    return asked * 1000000;
}

run_slot *leat__slot_take(leat_run *r, leat_delivery *d, int64_t now_ns,
                          int64_t *due_ns)
{
    run_slot *m = r->spare;
    assert(m);
    r->spare = m->next;

    int64_t deadline = atomic_load_explicit(&d->deadline_ns,
                                            memory_order_relaxed);
    m->d = d;
    m->next = NULL;
    m->lane = NULL;
    m->grant_ns = 0;
    if (deadline != INT64_MAX) {
        m->grant_ns = deadline > now_ns ? deadline - now_ns : 1;
        m->beat_ns = now_ns + leat__slot_period_ns(r, m->grant_ns);
    }
    atomic_store_explicit(&m->worker, NULL, memory_order_relaxed);
    atomic_store_explicit(&m->started_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&m->cancelled, false, memory_order_relaxed);
    int64_t due = leat__keep_due(r, m, now_ns);
    if (due < *due_ns)
        *due_ns = due;

    /* From here on the keeper may work on it. */
    atomic_store_explicit(&m->state, SLOT_HELD, memory_order_release);
    atomic_fetch_add_explicit(&r->received, 1, memory_order_relaxed);
    return m;
}

uint64_t leat__slot_in_flight(const leat_run *r)
{
    /* In this order: what is freed was received before. */
    uint64_t freed = atomic_load(&r->freed_count);
    return atomic_load(&r->received) - freed;
}

int leat__slot_room(leat_run *r)
{
    /* Count before collecting: a slot is on the stack before it counts. */
    int n = r->opts.max_in_flight - (int)leat__slot_in_flight(r);
    run_slot *m = atomic_exchange(&r->freed, NULL);
    while (m) {
        run_slot *next = m->next;
        m->next = r->spare;
        r->spare = m;
        m = next;
    }
    return n;
}

static void give_back(leat_run *r, run_slot *m)
{
    m->d = NULL;
    atomic_store_explicit(&m->state, 0, memory_order_release);
    m->next = atomic_load_explicit(&r->freed, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&r->freed, &m->next, m))
        ;
    leat_gauge_add(r->meters.in_flight, -1);

    /* The receiver says how many it waits for, then looks once more. */
    if (atomic_fetch_add(&r->freed_count, 1) + 1 != atomic_load(&r->wanted))
        return;
    pthread_mutex_lock(&r->lock);
    pthread_cond_signal(&r->room);
    pthread_mutex_unlock(&r->lock);
}

static void count(leat_run *r, run_tally *t, leat__settle verdict)
{
    _Atomic uint64_t *n[] = {
        [LEAT__SETTLE_ACK] = &t->acked,
        [LEAT__SETTLE_NACK] = &t->nacked,
        [LEAT__SETTLE_REJECT] = &t->rejected,
        [LEAT__SETTLE_RELEASE] = &t->released,
        [LEAT__SETTLE_COMMITTED] = &t->acked,
    };
    leat__count(n[verdict]);
    leat_counter_add(r->meters.settled[verdict], 1);
}

static void finish(leat_run *r, run_tally *t, run_slot *m,
                   const leat__settlement *how, bool taken)
{
    leat_delivery *d = m->d;
    if (taken) {
        leat__delivery_drop(d);
    } else {
        count(r, t, how->verdict);
        (void)leat__delivery_settle(d, how);
    }
    give_back(r, m);
}

bool leat__slot_settle(leat_run *r, run_tally *t, run_slot *m,
                       const leat__settlement *how)
{
    m->how = *how;
    unsigned was = atomic_fetch_or(&m->state, SLOT_DONE);
    assert((was & SLOT_HELD) && !(was & SLOT_DONE));
    if (!(was & SLOT_PIN))
        finish(r, t, m, how, was & SLOT_TAKEN);
    return was & SLOT_TAKEN;
}

/* False: the keeper holds it. */
static bool mark_done(run_slot *m, unsigned *was)
{
    *was = atomic_load(&m->state);
    while (!(*was & SLOT_PIN))
        if (atomic_compare_exchange_weak(&m->state, was, *was | SLOT_DONE))
            return true;
    return false;
}

void leat__slot_settle_now(leat_run *r, run_tally *t, run_slot *m,
                           const leat__settlement *how)
{
    unsigned was;
    while (!mark_done(m, &was)) {
        pthread_mutex_lock(&r->lock);
        while (atomic_load(&m->state) & SLOT_PIN)
            pthread_cond_wait(&r->let_go, &r->lock);
        pthread_mutex_unlock(&r->lock);
    }
    finish(r, t, m, how, was & SLOT_TAKEN);
}

void leat__slot_append(run_list *l, run_slot *m)
{
    m->next = NULL;
    if (l->last)
        l->last->next = m;
    else
        l->first = m;
    l->last = m;
}

void leat__slot_release_all(leat_run *r, run_tally *t, run_list *list)
{
    for (run_slot *m = list->first, *next; m; m = next) {
        next = m->next;
        (void)leat__slot_settle(
            r, t, m, &(leat__settlement){ .verdict = LEAT__SETTLE_RELEASE });
    }
    *list = (run_list){ 0 };
}

bool leat__slot_pin(run_slot *m)
{
    unsigned held = SLOT_HELD;
    return atomic_compare_exchange_strong(&m->state, &held,
                                          SLOT_HELD | SLOT_PIN);
}

/* A verdict that came meanwhile is carried out here. */
void leat__slot_unpin(leat_run *r, run_slot *m)
{
    unsigned was = atomic_fetch_and(&m->state, ~(unsigned)SLOT_PIN);
    if (was & SLOT_DONE)
        finish(r, &r->tally, m, &m->how, was & SLOT_TAKEN);
}

bool leat__slot_seize(run_slot *m)
{
    unsigned pinned = SLOT_HELD | SLOT_PIN;
    return atomic_compare_exchange_strong(&m->state, &pinned,
                                          pinned | SLOT_TAKEN);
}

void leat__slot_nack_seized(leat_run *r, run_slot *m)
{
    leat__delivery_keep(m->d); /* the handler still reads it */
    count(r, &r->tally, LEAT__SETTLE_NACK);
    leat__count(&r->tally.cancelled);
    (void)leat__delivery_settle(
        m->d, &(leat__settlement){ .verdict = LEAT__SETTLE_NACK,
                                   .by_policy = true,
                                   .reason = "it took too long" });
}
