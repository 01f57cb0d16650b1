/*
 * deliver.c: handing messages out, and taking settlements in.
 *
 * Nothing is taken from a window before somebody receives it: a message that is
 * handed back by one receive's user is in its window again before the next
 * receive looks there, so nothing behind it overtakes it.
 *
 * What is kept comes before what is in the window: it has waited.
 *
 * A message in whose hands processes died may be what killed them.  It is
 * handed out when users have nothing else of any partition, and nothing else is
 * until it is settled and the server knows; while it waits for that nothing
 * else is begun.  So if the process dies again, it was this one.
 *
 * Settled deliveries come by a stack that any thread pushes to and the driver
 * empties whole; reversed, it is in the order of the settlements.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "metrics/metrics.h"
#include "topic/consumer.h"

#include <assert.h>
#include <stdio.h>

/* ---- the line of settled ones ----------------------------------------- */

static void remember_bad(consumer *c, const leat_error *e)
{
    pthread_mutex_lock(&c->lock);
    leat__error_keep(&c->first_bad, e);
    pthread_mutex_unlock(&c->lock);
}

static void count_outcome(consumer *c, const handed *h, const leat_error *e,
                          int64_t now_ns)
{
    if (e) {
        if (e->code == LEAT_ESTALE) {
            leat__count_add(&c->counts.stale, 1);
            leat__counter_add(h->part->meters->stale, 1);
        }
        return;
    }
    leat__count_add(&c->counts.settled, 1);
    leat__counter_add(h->part->meters->settled[h->verdict], 1);
    leat__histogram_record(c->meters.settle_time, now_ns - h->settled_ns);
    if (h->verdict == LEAT__SETTLE_REJECT)
        leat__count_add(&c->counts.rejected, 1);
}

void leat__line_tell(consumer *c, settled_line *line, const leat_error *e)
{
    if (line->count == 0)
        return;
    if (e)
        remember_bad(c, e);
    int64_t now = leat__now_ns();
    for (leat_delivery *d = line->first, *next; d; d = next) {
        next = d->next;
        count_outcome(c, (handed *)d, e, now);
        leat__source_settled(&c->base, d, e);
    }
    atomic_fetch_sub(&c->owing, line->count);
    *line = (settled_line){ 0 };
}

/* ---- the table's settle and recycle ----------------------------------- */

static void push(_Atomic(leat_delivery *) *stack, leat_delivery *d, bool *empty)
{
    leat_delivery *top = atomic_load_explicit(stack, memory_order_relaxed);
    do {
        d->next = top;
    } while (!atomic_compare_exchange_weak_explicit(
        stack, &top, d, memory_order_seq_cst, memory_order_relaxed));
    *empty = top == NULL;
}

/* The driver finds it the next time it looks.  The first one since it did
 * wakes whoever should: the driver in its poll, or the background thread if it
 * means to sleep for longer than settlements may wait. */
static void announce(consumer *c)
{
    if (atomic_load(&c->polling)) {
        leat__drive_poke(c);
        return;
    }
    int64_t now_ns = leat__now_ns();
    pthread_mutex_lock(&c->lock);
    if (c->due_ns > now_ns + LEAT__LINGER_NS)
        c->due_ns = now_ns + LEAT__LINGER_NS;
    if (!c->driving && c->sleeps_until_ns > c->due_ns)
        pthread_cond_signal(&c->background);
    pthread_mutex_unlock(&c->lock);
}

/* The clock is read for the first that the driver will find, and where the
 * time of each is asked for: the others were settled about then. */
static int64_t settle_time(consumer *c)
{
    if (c->meters.settle_time ||
        !atomic_load_explicit(&c->inbox, memory_order_relaxed))
        return leat__now_ns();
    return 0;
}

static __attribute__((noinline, cold)) void
keep_reason(handed *h, const leat__settlement *how)
{
    h->delay_ms = how->by_policy ? -1 : how->delay_ms;
    snprintf(h->reason, sizeof h->reason, "%s", how->reason ? how->reason : "");
}

void leat__deliver_settle(leat_source *s, leat_delivery *d,
                          const leat__settlement *how)
{
    consumer *c = (consumer *)s;
    handed *h = (handed *)d;
    bool first;

    h->verdict = how->verdict;
    h->settled_ns = settle_time(c);
    atomic_store_explicit(&h->out, false, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->owing, 1, memory_order_relaxed);
    if (how->verdict != LEAT__SETTLE_ACK)
        keep_reason(h, how);
    push(&c->inbox, d, &first); /* from here on it is the driver's */
    if (first)
        announce(c);
}

void leat__deliver_recycle(leat_source *s, leat_delivery *d)
{
    consumer *c = (consumer *)s;
    bool empty;
    leat__held_drop(((handed *)d)->held);
    push(&c->recycled, d, &empty);
}

/* ---- settlements ------------------------------------------------------ */

static leat_delivery *take_inbox(consumer *c)
{
    leat_delivery *d = atomic_exchange_explicit(&c->inbox, NULL,
                                                memory_order_acq_rel);
    leat_delivery *in_order = NULL;
    while (d) {
        leat_delivery *next = d->next;
        d->next = in_order;
        in_order = d;
        d = next;
    }
    return in_order;
}

static void sort_in(handed *h, int64_t since_ns, settled_line *stale)
{
    part *p = h->part;
    if (leat__part_epoch(p) != h->d.fence) {
        leat__line_add(stale, &h->d);
        return;
    }
    if (h->verdict != LEAT__SETTLE_ACK || h->kept || p->blocks.count > 0) {
        leat__settle_one(h, since_ns);
        return;
    }
    leat__window_done(p->window, h->entry);
    if (p->settled.count == 0)
        leat__save_soon(p, since_ns);
    leat__line_add(&p->settled, &h->d);
}

/* They are with users no more. */
static LEAT__COLD void forget_alone(consumer *c, const leat_delivery *d)
{
    for (; d; d = d->next)
        if (d == &c->alone->d) {
            c->alone = NULL;
            return;
        }
}

void leat__deliver_settled(consumer *c)
{
    settled_line stale = { 0 };
    uint32_t n = 0;
    if (!atomic_load_explicit(&c->inbox, memory_order_relaxed))
        return;
    leat_delivery *d = take_inbox(c);
    int64_t since = d ? ((handed *)d)->settled_ns : 0;
    if (since == 0)
        since = leat__now_ns();
    if (c->alone)
        forget_alone(c, d);
    for (leat_delivery *next; d; d = next) {
        next = d->next;
        n++;
        sort_in((handed *)d, since, &stale);
    }
    c->outs -= n;
    if (stale.count == 0)
        return;
    leat_error e;
    leat__fail(&e, LEAT_ESTALE, "the partition of '%s' is another's by now",
               c->topic->name);
    leat__line_tell(c, &stale, &e);
}

/* ---- handing out ------------------------------------------------------ */

static void put_handed(consumer *c, handed *h)
{
    if (!h)
        return;
    h->d.next = (leat_delivery *)c->spare;
    c->spare = h;
}

static inline handed *get_handed(consumer *c)
{
    if (!c->spare)
        c->spare = (handed *)atomic_exchange_explicit(&c->recycled, NULL,
                                                      memory_order_acquire);
    handed *h = c->spare;
    if (h) {
        c->spare = (handed *)h->d.next;
        return h;
    }
    h = leat__zalloc(sizeof *h, NULL);
    if (h) {
        h->all = c->all;
        c->all = h;
    }
    return h;
}

static inline uint64_t lane_of(const part *p, uint64_t lane)
{
    if (p->order == LEAT_ORDER_PARTITION)
        return (uint64_t)p->index + 1;
    return lane;
}

/* What is the same of every delivery. */
static inline __attribute__((always_inline)) void
fill(part *p, leat__held *held, handed *h)
{
    consumer *c = p->c;
    leat_delivery *d = &h->d;
    h->part = p;
    h->held = held;
    leat__held_keep(held);
    d->msg = *held->msg;
    h->again = 0;
    if (held->again) {
        h->again = leat__again_count(c, &d->msg);
        d->attempt += h->again;
    }
    d->from = c->from;
    d->fence = leat__part_epoch(p);
    d->error = held->error;
    d->partition = p->index + 1;
    d->redelivered = d->attempt > 1;
    atomic_store_explicit(&h->out, true, memory_order_relaxed);
    leat__delivery_arm(
        d, &c->base,
        atomic_load_explicit(&c->safe_until_ns, memory_order_relaxed));
}

static int from_window(consumer *c, part *p, leat_delivery **out, int max)
{
    int n = 0;
    while (n < max) {
        leat__entry *e = leat__window_take(p->window);
        if (!e)
            break;
        handed *h = get_handed(c);
        if (!h) {
            leat__window_back(p->window, e, true);
            break;
        }
        h->entry = e;
        h->kept = NULL;
        h->d.replayed.n = 0;
        h->d.attempt = e->attempts;
        h->d.position = (leat_position){ e->id.ms, e->id.seq, 0 };
        h->d.lane = lane_of(p, e->lane);
        fill(p, e->user, h);
        out[n++] = &h->d;
    }
    return n;
}

static LEAT__COLD int from_kept(part *p, bool alone, leat_delivery **out,
                                int max)
{
    int n = 0;
    while (n < max) {
        handed *h = get_handed(p->c);
        leat__kept *k = h ? leat__kept_take(p, alone) : NULL;
        if (!k) {
            put_handed(p->c, h);
            break;
        }
        h->entry = NULL;
        h->kept = k;
        memcpy(h->replayed, k->replayed, sizeof h->replayed);
        h->d.replayed = leat_str(h->replayed);
        h->d.attempt = k->n;
        h->d.position = (leat_position){ k->id.ms, k->id.seq, 0 };
        h->d.lane = lane_of(p, k->lane);
        fill(p, k->held, h);
        out[n++] = &h->d;
    }
    return n;
}

/* Not while the server refuses saves: hand-outs must be told. */
static bool may_hand_out(const part *p, int64_t now_ns)
{
    return !p->draining && !p->gone && !p->unsure && !p->doubtful &&
           p->saves < LEAT__SAVES_MAX && now_ns >= p->retry_ns;
}

/* With a third of the lease left without an answered beat, others may soon
 * think that we are gone; and not while the group is paused. */
static bool safe(const consumer *c)
{
    return c->cmd && !c->paused &&
           leat__lease_left_ns(c) > c->opts.lease_ms * 1000000 / 3;
}

static void count_out(consumer *c, leat_delivery **out, int n)
{
    uint64_t again = 0, bad = 0;
    for (int i = 0; i < n; i++) {
        again += out[i]->redelivered;
        bad += out[i]->error != NULL;
    }
    leat__count_add(&c->counts.received, (uint64_t)n);
    if (again)
        leat__count_add(&c->counts.redelivered, again);
    if (bad)
        leat__count_add(&c->counts.undecodable, bad);
    if (c->meters.end_to_end)
        leat__meter_out(c, out, n);
}

static int from_part(consumer *c, part *p, leat_delivery **out, int max)
{
    int n = 0;
    if (p->kept.waits > 0)
        n = from_kept(p, false, out, max);
    if (!p->halted)
        n += from_window(c, p, out + n, max - n);
    return n;
}

/* ---- one that may kill ------------------------------------------------ */

static bool suspect_waits(const part *p)
{
    const leat__kept *k = p->kept.waits > 0 ? p->kept.first : NULL;
    while (k && (k->state != KEPT_WAITS || !k->alone))
        k = k->next;
    return k != NULL;
}

/* A partition in which such a one is the next; NULL: none. */
static part *next_suspect(const consumer *c, int64_t now_ns)
{
    for (uint32_t i = 0; i < c->owned_count; i++) {
        part *p = c->owned[i];
        if (!may_hand_out(p, now_ns))
            continue;
        const leat__entry *e = p->halted ? NULL : leat__window_peek(p->window);
        if (suspect_waits(p) || (e && e->alone))
            return p;
    }
    return NULL;
}

/* There may be none any more. */
static bool no_suspects(consumer *c)
{
    for (uint32_t i = 0; i < c->owned_count; i++)
        if (leat__window_suspects(c->owned[i]->window) > 0 ||
            c->owned[i]->kept.suspects > 0)
            return false;
    c->careful = false;
    return true;
}

/* What was settled and is not saved would come again if the process died now,
 * as if it had been out. */
static bool all_is_told(const consumer *c)
{
    for (uint32_t i = 0; i < c->owned_count; i++)
        if (!c->owned[i]->gone && !leat__save_told(c->owned[i]))
            return false;
    return true;
}

/* Nothing goes out now but what *only has, or whatever if that is NULL; false:
 * nothing at all. */
static bool may_deliver(consumer *c, int64_t now_ns, part **only)
{
    *only = NULL;
    if (!c->careful)
        return true;
    if (c->alone || !all_is_told(c))
        return false;
    if (no_suspects(c))
        return true;
    *only = next_suspect(c, now_ns);
    return !*only || c->outs == 0;
}

static int deliver_alone(consumer *c, part *p, leat_delivery **out)
{
    int n = suspect_waits(p) ? from_kept(p, true, out, 1)
                             : from_window(c, p, out, 1);
    if (n > 0)
        c->alone = (handed *)out[0];
    return n;
}

static int deliver_any(consumer *c, int64_t now_ns, leat_delivery **out,
                       int max)
{
    int n = 0;
    for (uint32_t i = 0; i < c->owned_count && n < max; i++) {
        part *p = c->owned[(c->turn + i) % c->owned_count];
        if (may_hand_out(p, now_ns))
            n += from_part(c, p, out + n, max - n);
    }
    c->turn++;
    return n;
}

int leat__deliver(consumer *c, leat_delivery **out, int max)
{
    int64_t now = leat__now_ns();
    part *only;
    if (!safe(c) || !may_deliver(c, now, &only))
        return 0;
    int n = only ? deliver_alone(c, only, out) : deliver_any(c, now, out, max);
    if (n > 0) {
        c->outs += (uint32_t)n;
        count_out(c, out, n);
    }
    return n;
}

void leat__deliver_undo(consumer *c, leat_delivery **out, int n)
{
    for (int i = 0; i < n; i++) {
        handed *h = (handed *)out[i];
        if (leat__part_epoch(h->part) == h->d.fence)
            leat__settle_release(h); /* its lane may stand still by now */
        c->outs--;
        if (c->alone == h)
            c->alone = NULL;
        atomic_store_explicit(&h->out, false, memory_order_relaxed);
        leat__held_drop(h->held);
        put_handed(c, h);
    }
}

static bool has_something(const part *p)
{
    return p->kept.waits > 0 || (!p->halted && leat__window_ready(p->window));
}

bool leat__deliver_ready(consumer *c, int64_t now_ns, int64_t *due_ns)
{
    part *only = NULL;
    bool can = safe(c) && may_deliver(c, now_ns, &only);
    if (can && only)
        return true;
    for (uint32_t i = 0; i < c->owned_count; i++) {
        const part *p = c->owned[i];
        if (p->draining || p->gone || !has_something(p))
            continue;
        if (can && may_hand_out(p, now_ns))
            return true;
        if (p->retry_ns > now_ns && p->retry_ns < *due_ns)
            *due_ns = p->retry_ns;
    }
    return false;
}
