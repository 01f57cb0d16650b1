/*
 * source.c: a source over all queues of a prefix.
 *
 * Waiting has one place, the waiter: it is hinted when a queue of the prefix
 * gets something to do (by the sender's script), when a settlement lets one be
 * served again, when the receiver waits for free workers, and to interrupt.
 */
#include "base/fork.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/thread.h"
#include "pool/pool.h"
#include "redis/client.h"

#include <stdio.h>

enum {
    SOON_NS = 5000000,  /* a lot done by then makes the next one larger  */
    LONG_NS = 20000000, /* and after that smaller                        */
    SWEEP_NS = 1000000000,
    OWN_RETRY_MS = 1000, /* of queues that keep no policy */
    REASON_MAX = 255
};

static const leat_source_ops ops;

static leat_code own(const pool_source *s, leat_error *err)
{
    if (s->forks == leat__fork_count())
        return LEAT_OK;
    return leat__fail(
        err, LEAT_EFORK,
        "pool '%s' belongs to the parent process, start one after "
        "fork",
        s->prefix);
}

void leat__pool_lot_free(pool_lot *lot)
{
    leat_queue_batch_free(lot->batch);
    leat__free(lot);
}

/* ---- receive ---------------------------------------------------------- */

static void tick_locked(pool_source *s, int64_t now_ns)
{
    int64_t while_ns = POOL_LATELY_MS * INT64_C(1000000);
    int64_t since = now_ns - s->lately_ns;
    if (since < while_ns)
        return;
    s->lately[1] = since < 2 * while_ns ? s->lately[0] : 0;
    s->lately[0] = 0;
    s->lately_ns = now_ns;
}

/* Many more than workers are topped up when half of them are done with: a few
 * at a time would cost as many scripts. */
static size_t refill_at(const pool_source *s, size_t max)
{
    return max > 4 * (size_t)s->opts.workers ? max / 2 : max - 1;
}

/* What is taken is handed out at once: while it waited here nobody would extend
 * it. */
static bool full(const pool_source *s)
{
    return s->held > POOL_IN_FLIGHT - POOL_TAKE_MAX;
}

/* So many queues more; 0: all that are wanted are here, and when few enough are
 * left the waiter is hinted. */
static size_t wanted(pool_source *s, bool *interrupted)
{
    pthread_mutex_lock(&s->lock);
    tick_locked(s, leat__now_ns());
    size_t max = (size_t)s->opts.workers + s->lately[0] + s->lately[1];
    max = max < POOL_QUEUES_MAX ? max : POOL_QUEUES_MAX;
    size_t n = max > s->busy ? max - s->busy : 0;
    s->hungry = SIZE_MAX;
    if (s->busy > refill_at(s, max) || s->outcomes.due >= POOL_DUE_MAX ||
        full(s)) {
        s->hungry = refill_at(s, max);
        n = 0;
    }
    *interrupted = s->interrupted;
    s->interrupted = false;
    pthread_mutex_unlock(&s->lock);
    return n;
}

static void sweep(pool_source *s)
{
    int64_t now = leat__now_ns();
    if (now < s->swept_ns + SWEEP_NS)
        return;
    s->swept_ns = now;
    pthread_mutex_lock(&s->lock);
    leat__pool_forget_locked(s, now);
    pthread_mutex_unlock(&s->lock);
}

static int receive(leat_source *base, leat_delivery **out, int max,
                   int64_t wait_ms, leat_error *err)
{
    pool_source *s = (pool_source *)base;
    int64_t deadline = leat__deadline_ns(wait_ms);
    if (own(s, err) != LEAT_OK)
        return -1;
    for (;;) {
        bool interrupted;
        int64_t again = -1;
        size_t n = wanted(s, &interrupted);
        sweep(s);
        if (interrupted)
            return 0;
        if (n > 0) {
            int got = s->owl ? leat__owl_take(s, n, out, max, &again, err)
                             : leat__pool_take(s, n, out, max, &again, err);
            if (got < 0 && s->worked)
                leat__error_weather(err);
            s->worked = s->worked || got >= 0;
            if (got != 0)
                return got;
        }
        int64_t left = leat__left_ms(deadline);
        if (left == 0)
            return 0;
        if (again < 0 || again > s->opts.poll_ms)
            again = s->opts.poll_ms;
        if (again > 0)
            (void)leat__waiter_wait(s->waiter, again < left ? again : left);
    }
}

static void interrupt(leat_source *base)
{
    pool_source *s = (pool_source *)base;
    pthread_mutex_lock(&s->lock);
    s->interrupted = true;
    pthread_mutex_unlock(&s->lock);
    leat__waiter_poke(s->waiter);
}

/* ---- settle ----------------------------------------------------------- */

static pool_verdict verdict_of(const pool_source *s, const pool_slot *slot,
                               leat__settle how)
{
    switch (how) {
    case LEAT__SETTLE_ACK:
        return POOL_ACK;
    case LEAT__SETTLE_COMMITTED:
        return POOL_COMMITTED;
    case LEAT__SETTLE_REJECT:
        return POOL_BURY;
    case LEAT__SETTLE_RELEASE:
        return POOL_FREE;
    case LEAT__SETTLE_NACK:
        break;
    }
    if (slot->delay_ms == 0)
        return POOL_BACK;
    return s->opts.go_on && !slot->lot->fifo ? POOL_LATE : POOL_WAIT;
}

static void count_locked(pool_queue *q, pool_verdict v)
{
    q->acked += v == POOL_ACK || v == POOL_COMMITTED;
    q->nacked += v == POOL_WAIT || v == POOL_LATE || v == POOL_BACK;
    q->rejected += v == POOL_BURY;
}

static void line_up_locked(pool_source *s, pool_slot *slot)
{
    slot->next = NULL;
    if (s->line_end)
        s->line_end->next = slot;
    else
        s->first = slot;
    s->line_end = slot;
}

/* The last of a lot is settled: what goes back goes now, and its queue's next
 * turn is longer or shorter. */
static void end_lot_locked(pool_source *s, pool_lot *lot, int64_t now_ns)
{
    pool_queue *q = lot->queue;
    int64_t took = now_ns - lot->since_ns;
    while (lot->back) {
        pool_slot *slot = lot->back;
        lot->back = slot->next;
        line_up_locked(s, slot);
    }
    if (took < SOON_NS && (int)lot->n >= q->burst)
        q->burst = q->burst < POOL_TURN_MAX / 2 ? 2 * q->burst : POOL_TURN_MAX;
    else if (took > LONG_NS)
        q->burst = q->burst / 2 > q->weight ? q->burst / 2 : q->weight;
}

/* A place for another. */
static bool leave_locked(pool_source *s)
{
    s->busy--;
    bool hungry = s->hungry != SIZE_MAX && s->busy <= s->hungry;
    if (hungry)
        s->hungry = SIZE_MAX;
    return hungry;
}

static bool done_locked(pool_source *s, const pool_lot *lot, int64_t now_ns)
{
    tick_locked(s, now_ns);
    s->lately[0]++;
    return !lot->late && leave_locked(s);
}

void leat__pool_overrun(pool_source *s, pool_lot *lot)
{
    bool hungry = false;
    pthread_mutex_lock(&s->lock);
    if (!lot->late && lot->out > 1) { /* more than who says so */
        lot->late = true;
        hungry = leave_locked(s);
    }
    pthread_mutex_unlock(&s->lock);
    if (hungry)
        leat__waiter_poke(s->waiter);
}

/* Of a failure; without memory there is none. */
static char *keep_reason(const leat__settlement *how)
{
    char text[REASON_MAX + 1];
    if (!how->reason || (how->verdict != LEAT__SETTLE_NACK &&
                         how->verdict != LEAT__SETTLE_REJECT))
        return NULL;
    snprintf(text, sizeof text, "%s", how->reason);
    return leat__strdup(text, NULL);
}

/* How long one that failed waits; -1: as its queue says, where it can. */
static int64_t by_policy(const pool_source *s)
{
    if (s->opts.retry_ms > 0)
        return s->opts.retry_ms;
    return s->profile->kept ? -1 : OWN_RETRY_MS;
}

static void settle(leat_source *base, leat_delivery *d,
                   const leat__settlement *how)
{
    pool_source *s = (pool_source *)base;
    pool_slot *slot = (pool_slot *)d;
    pool_lot *lot = slot->lot;
    int64_t now = leat__now_ns();
    bool hungry = false;
    slot->delay_ms = how->by_policy ? by_policy(s) : how->delay_ms;
    if (slot->delay_ms > s->profile->hide_max_ms)
        slot->delay_ms = s->profile->hide_max_ms;

    slot->reason = keep_reason(how);

    pthread_mutex_lock(&s->lock);
    slot->out = false;
    slot->verdict = verdict_of(s, slot, how->verdict);
    count_locked(lot->queue, slot->verdict);
    leat__pool_use_locked(s, lot->queue, now);
    s->outcomes.due++;
    lot->out--;
    slot->last = lot->out == 0 || !leat__pool_serial(s);
    bool together = leat__pool_serial(s) &&
                    (slot->verdict == POOL_FREE || slot->verdict == POOL_BACK ||
                     (slot->verdict == POOL_WAIT && s->base.ordered));
    if (together) {
        slot->next = lot->back;
        lot->back = slot;
    } else {
        line_up_locked(s, slot);
    }
    if (lot->out == 0)
        end_lot_locked(s, lot, now);
    if (lot->out == 0 || !leat__pool_serial(s))
        hungry = done_locked(s, lot, now);
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    if (hungry)
        leat__waiter_poke(s->waiter);
}

static leat_code extend(leat_source *base, leat_delivery *const *d, size_t n,
                        int64_t ms, leat_code *outcome, leat_error *err)
{
    return leat__pool_extend((pool_source *)base, d, n, ms, outcome, err);
}

static leat_code flush(leat_source *base, int64_t timeout_ms, leat_error *err)
{
    pool_source *s = (pool_source *)base;
    int64_t deadline = leat__deadline_ns(timeout_ms);
    leat_code rc = own(s, err);
    if (rc != LEAT_OK)
        return rc;
    pthread_mutex_lock(&s->lock);
    rc = leat__outcomes_flush(&s->outcomes, &s->lock, deadline, "pool",
                              s->prefix, err);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static void recycle(leat_source *base, leat_delivery *d)
{
    pool_source *s = (pool_source *)base;
    pool_lot *lot = ((pool_slot *)d)->lot;
    if (atomic_fetch_sub(&lot->refs, 1) > 1)
        return;
    pthread_mutex_lock(&s->lock);
    bool was_full = full(s);
    s->held -= lot->n;
    was_full &= !full(s);
    lot->queue->out -= (unsigned)lot->n;
    lot->queue->look_ns = 0; /* there may be more */
    leat__link_remove(&lot->link);
    pthread_mutex_unlock(&s->lock);
    if (was_full || s->owl)
        leat__waiter_poke(s->waiter);
    leat__pool_lot_free(lot);
}

/* ---- its life --------------------------------------------------------- */

static void free_lots(leat__list *lots)
{
    LEAT__LIST_EACH(lots, at)
    leat__pool_lot_free(LEAT__ITEM(at, pool_lot, link));
    leat__list_init(lots);
}

static void source_free(pool_source *s)
{
    leat__owl_close(s); /* which pokes the waiter */
    if (s->waiter)
        leat__waiter_close(s->waiter);
    free_lots(&s->lots);
    free_lots(&s->fresh);
    leat__pool_queues_free(s);
    leat__pool_taking_free(s->taking);
    leat__pool_settling_free(s->settling);
    leat__outcomes_release(&s->outcomes);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->change);
    leat__free(s);
}

static void close_source(leat_source *base)
{
    pool_source *s = (pool_source *)base;
    if (own(s, NULL) != LEAT_OK)
        return;
    if (s->settler_started) {
        pthread_mutex_lock(&s->lock);
        s->closing = true;
        pthread_cond_broadcast(&s->work);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->settler, NULL);
        leat__pool_release(s);
    }
    source_free(s);
}

static const leat_source_ops ops = {
    .receive = receive,
    .interrupt = interrupt,
    .settle = settle,
    .extend = extend,
    .flush = flush,
    .recycle = recycle,
    .close = close_source,
};

static leat_code make_parts(pool_source *s, leat_error *err)
{
    leat__key channel;
    unsigned char r[8];
    leat__waker *waker = leat__client_waker(s->client, err);
    if (!waker || leat__random(r, sizeof r, err) != LEAT_OK ||
        leat__random(&s->seed, sizeof s->seed, err) != LEAT_OK)
        return LEAT_ENOMEM;
    for (size_t i = 0; i < sizeof r; i++)
        snprintf(s->lane + 2 * i, 3, "%02x", r[i]);
    s->taking = leat__pool_taking_new(err);
    s->settling = s->taking ? leat__pool_settling_new(err) : NULL;
    if (!s->settling)
        return LEAT_ENOMEM;
    leat__key_put(&channel, "%s:work", s->prefix);
    s->waiter = leat__waiter_open(waker, leat__key_bytes(&channel), err);
    if (!s->waiter)
        return LEAT_ENOMEM;
    return s->profile->shard ? leat__owl_open(s, err) : LEAT_OK;
}

static pool_source *source_new(leat_client *c, const leat_pool_opts *o,
                               leat_error *err)
{
    pool_source *s = leat__zalloc(sizeof *s, err);
    if (!s)
        return NULL;
    if (leat__cond_init(&s->work, err) != LEAT_OK) {
        leat__free(s);
        return NULL;
    }
    if (leat__outcomes_init(&s->outcomes, err) != LEAT_OK) {
        pthread_cond_destroy(&s->work);
        leat__free(s);
        return NULL;
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->change, NULL);
    leat__list_init(&s->used);
    leat__list_init(&s->known);
    leat__list_init(&s->lots);
    leat__list_init(&s->fresh);
    s->base.ops = &ops;
    s->client = c;
    s->opts = *o;
    s->forks = leat__fork_count();
    s->profile = leat__queue_profile(o->profile);
    snprintf(s->prefix, sizeof s->prefix, "%s",
             leat__profile_prefix(s->profile, o->prefix));
    s->base.name = s->prefix;
    s->base.ordered = leat__pool_serial(s) && !o->go_on;
    s->events = o->no_events ? "0" : leat__client_clustered(c) ? "2" : "1";
    if (s->profile->shard) /* its queues have no shards */
        return s;
    if (s->events[0] == '1') /* else it need not be asked who listens */
        leat__key_put(&s->heard, "%s:*events", s->prefix);
    for (unsigned i = 0; i < LEAT__QUEUE_SHARDS; i++)
        leat__key_shard(&s->shards[i].due, s->prefix, i, "due");
    return s;
}

leat_source *leat__pool_source(leat_client *c, const leat_pool_opts *o,
                               leat_error *err)
{
    pool_source *s = source_new(c, o, err);
    if (!s)
        return NULL;
    if (make_parts(s, err) == LEAT_OK &&
        leat__thread_start(&s->settler, "leat-settler", leat__pool_settler, s,
                           err) == LEAT_OK) {
        s->settler_started = true;
        return &s->base;
    }
    source_free(s);
    return NULL;
}
