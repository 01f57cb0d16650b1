/*
 * lane.c: which messages may run.
 *
 * Lanes with something to run stand in one line, first come first served.  A
 * worker takes the lane at the head with up to a quantum of its messages, or,
 * where lanes of a single message stand at the head, several of those; a lane
 * that has more goes to the end.  So a busy lane does not starve the others,
 * and the lock is taken once a handful.
 *
 * Lanes come from a pool of two for each message in flight: one for each
 * message, and as many that are empty but held (below), because no more than
 * max_in_flight messages can be given back during one receive; and one for
 * each thread that is just giving back.
 *
 * Giving back in an ordered source.  When a message is nacked, those behind it
 * are released, and the source starts again from the nacked one.  A receive
 * that was under way may still bring messages from behind; they are known by
 * their position and released too.  A receive that began after the nack
 * brings nothing too early (the source's promise), so it ends the hold.
 */
#include "run/run.h"

#include <assert.h>

static uint64_t lane_id(const leat_run *r, const leat_delivery *d)
{
    switch (r->opts.lanes) {
    case LEAT_LANES_SOURCE:
        return d->lane;
    case LEAT_LANES_KEY:
        return d->msg.key.n ? leat__siphash13(r->seed, d->msg.key) | 1 : 0;
    case LEAT_LANES_ONE:
        return 1;
    case LEAT_LANES_NONE:
        break;
    }
    return 0;
}

static run_lane **bucket(leat_run *r, uint64_t id)
{
    return &r->buckets[(id * 0x9e3779b97f4a7c15u >> 32) & r->bucket_mask];
}

static run_lane *find_or_make(leat_run *r, uint64_t id)
{
    run_lane **b = bucket(r, id);
    for (run_lane *l = *b; l; l = l->chain)
        if (l->id == id)
            return l;
    run_lane *l = r->unused;
    assert(l);
    r->unused = l->chain;
    *l = (run_lane){ .id = id, .chain = *b };
    *b = l;
    return l;
}

static void forget(leat_run *r, run_lane *l)
{
    run_lane **p = bucket(r, l->id);
    while (*p != l)
        p = &(*p)->chain;
    *p = l->chain;
    l->chain = r->unused;
    r->unused = l;
}

static void stand_in_line(leat_run *r, run_lane *l)
{
    l->busy = true;
    l->ready = NULL;
    if (r->line_end)
        r->line_end->ready = l;
    else
        r->line = l;
    r->line_end = l;
    r->line_count++;
}

static run_lane *head_of_line(leat_run *r)
{
    run_lane *l = r->line;
    r->line = l->ready;
    if (!r->line)
        r->line_end = NULL;
    r->line_count--;
    return l;
}

static void append(run_lane *l, run_slot *m)
{
    m->next = NULL;
    if (l->last)
        l->last->next = m;
    else
        l->first = m;
    l->last = m;
}

static run_slot *pop(run_lane *l)
{
    run_slot *m = l->first;
    if (!m)
        return NULL;
    l->first = m->next;
    if (!l->first)
        l->last = NULL;
    m->next = NULL;
    return m;
}

static bool is_solo(const run_lane *l)
{
    return l->id == 0;
}

/* True: from a receive before the give-back, and from behind it. */
static bool overtakes(run_lane *l, const run_slot *m, uint64_t seq)
{
    if (!l->held)
        return false;
    if (seq <= l->held_until &&
        leat__position_cmp(m->d->position, l->held_at) > 0)
        return true;
    l->held = false;
    return false;
}

bool leat__lane_enter_locked(leat_run *r, run_slot *m, uint64_t seq)
{
    uint64_t id = lane_id(r, m->d);
    run_lane *l = &m->solo;
    if (id == 0) {
        l->id = 0;
        l->first = l->last = NULL;
    } else {
        l = find_or_make(r, id);
        if (overtakes(l, m, seq))
            return false;
    }
    m->lane = l;
    append(l, m);
    if (id == 0 || !l->busy)
        stand_in_line(r, l);
    return true;
}

/* The lock that thieves hold orders it. */
static void put(_Atomic(run_slot *) *hand, run_slot *m)
{
    atomic_store_explicit(hand, m, memory_order_release);
}

static void grab_solos(leat_run *r, run_worker *w, run_lane *l)
{
    size_t share = (r->line_count + 1) / (size_t)r->opts.threads;
    if (share > LEAT__RUN_QUANTUM)
        share = LEAT__RUN_QUANTUM;
    size_t n = 0;
    put(&w->solo[n++], pop(l));
    while (n < share && r->line && is_solo(r->line))
        put(&w->solo[n++], pop(head_of_line(r)));
    w->count = (int)n;
}

bool leat__lane_grab_locked(leat_run *r, run_worker *w)
{
    if (!r->line)
        return false;
    run_lane *l = head_of_line(r);
    if (is_solo(l)) {
        grab_solos(r, w, l);
        return true;
    }
    w->lane = l;
    w->count = 0;
    while (w->count < LEAT__RUN_QUANTUM && l->first)
        put(&w->line[w->count++], pop(l));
    return true;
}

/* One, and the last: the owner works from the front. */
bool leat__lane_steal_locked(leat_run *r, run_worker *w)
{
    for (int k = 0; k < r->opts.threads; k++) {
        run_worker *o = &r->workers[k];
        for (int i = LEAT__RUN_QUANTUM - 1; i >= 0; i--) {
            if (!atomic_load_explicit(&o->solo[i], memory_order_relaxed))
                continue;
            run_slot *m = atomic_exchange(&o->solo[i], NULL);
            if (!m)
                continue;
            put(&w->solo[0], m);
            w->count = 1;
            return true;
        }
    }
    return false;
}

static void take_hands(_Atomic(run_slot *) *hand, run_list *out)
{
    for (int i = 0; i < LEAT__RUN_QUANTUM; i++) {
        run_slot *m = atomic_exchange(&hand[i], NULL);
        if (m)
            leat__slot_append(out, m);
    }
}

void leat__lane_yield_locked(run_worker *w)
{
    run_list back = { 0 };
    run_lane *l = w->lane;
    take_hands(w->line, &back);
    if (back.last) {
        back.last->next = l->first;
        if (!l->last)
            l->last = back.last;
        l->first = back.first;
    }
}

static void hold_at(run_lane *l, leat_position at)
{
    if (!l->held || leat__position_cmp(at, l->held_at) < 0)
        l->held_at = at;
    l->held = true;
    l->held_until = UINT64_MAX;
}

void leat__lane_leave_locked(leat_run *r, run_worker *w, run_list *out)
{
    run_lane *l = w->lane;
    w->lane = NULL;
    if (w->broke) {
        leat__lane_empty_locked(l, NULL, out);
        if (out->first)
            hold_at(l, out->first->d->position);
    }
    atomic_store(&l->shut, false);
    l->busy = false;
    if (l->first)
        stand_in_line(r, l);
    else if (!l->in_held)
        forget(r, l);
}

void leat__lane_hold_locked(leat_run *r, run_lane *l, leat_position at)
{
    atomic_store(&l->shut, true);
    hold_at(l, at);
    l->holders++;
    if (l->in_held)
        return;
    l->in_held = true;
    l->next_held = r->held;
    r->held = l;
}

void leat__lane_held_until_locked(leat_run *r, run_lane *l)
{
    if (--l->holders == 0)
        l->held_until = atomic_load(&r->receive_seq);
}

void leat__lane_empty_locked(run_lane *l, run_worker *owner, run_list *out)
{
    if (owner)
        take_hands(owner->line, out);
    for (run_slot *m; (m = pop(l));)
        leat__slot_append(out, m);
}

void leat__lane_sweep_locked(leat_run *r, run_list *out)
{
    for (int k = 0; k < r->opts.threads; k++) {
        take_hands(r->workers[k].solo, out);
        take_hands(r->workers[k].line, out);
    }
    while (r->line)
        leat__lane_empty_locked(head_of_line(r), NULL, out);
    for (int k = 0; k < r->opts.threads; k++)
        if (r->workers[k].lane)
            leat__lane_empty_locked(r->workers[k].lane, NULL, out);
}

void leat__lane_unhold_locked(leat_run *r, uint64_t seq)
{
    run_lane **p = &r->held;
    while (*p) {
        run_lane *l = *p;
        if (l->holders > 0 || (l->held && seq < l->held_until)) {
            p = &l->next_held;
            continue;
        }
        *p = l->next_held;
        l->held = l->in_held = false;
        if (!l->busy)
            forget(r, l);
    }
}
