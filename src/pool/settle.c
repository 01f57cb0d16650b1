/*
 * settle.c: a thread that sends what was settled.
 *
 * What was settled while scripts were under way goes with the next ones: all
 * that is done in one script for each shard, and what failed or goes back in
 * one for each queue, all in one round trip.
 *
 * To extend a message is to extend all of its lot that is still out, in one
 * script: they must expire together, should it come to that.  As this may hit
 * one that was just given back, neither happens during the other.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/thread.h"
#include "pool/pool.h"
#include "redis/client.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    TRY_MS = 10 * 1000,
    RELEASE_MS = 2000,
    CALLS = 128,
    DONE_HEAD = 3,
    QUEUE_HEAD = 4,
    CHANGE_HEAD = 8
};

/* One script's worth: slots `from` up to `to` of the settling. */
typedef struct sending {
    struct pool_settling *of;
    size_t from, to;
    char again[2]; /* of what is done                              */
    char lane[40]; /* of a change, each with a number of its own   */
    char number[LEAT__NUMBER];
    char ms[LEAT__NUMBER];
} sending;

typedef struct pool_settling settling;
struct pool_settling {
    pool_source *s;
    pool_slot *slot[POOL_SETTLE_MAX];
    size_t n;
    bool gentle; /* nothing but acknowledgements */
    bool full;   /* no worker is free            */
    int64_t deadline_ns;
    int64_t freed; /* queues that may be served again */
    int64_t changes;
    leat_error bad;

    sending sendings[CALLS];
    queue_call calls[CALLS];
    queue_answer answers[CALLS];
    leat_bytes keys[CALLS];
    leat__key owl_keys[CALLS]; /* of queues of redowl, which have no shard */
    size_t count;
    leat_bytes args[CALLS * (CHANGE_HEAD + DONE_HEAD) +
                    POOL_SETTLE_MAX * (QUEUE_HEAD + 3)];
    size_t used;
    char counts[POOL_SETTLE_MAX][8];
};

pool_settling *leat__pool_settling_new(leat_error *err)
{
    return leat__zalloc(sizeof(pool_settling), err);
}

void leat__pool_settling_free(pool_settling *t)
{
    leat__free(t);
}

static const char *const words[] = { [POOL_WAIT] = "wait",
                                     [POOL_LATE] = "late",
                                     [POOL_FREE] = "free",
                                     [POOL_BACK] = "back",
                                     [POOL_BURY] = "bury" };

/* ---- in order --------------------------------------------------------- */

static int compare(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

/* By shard, what is done first; by queue; by verdict; as they were received. */
static int by_script(const void *a, const void *b)
{
    const pool_slot *x = *(pool_slot *const *)a, *y = *(pool_slot *const *)b;
    const pool_queue *p = x->lot->queue, *q = y->lot->queue;
    int c = compare(p->shard, q->shard);
    if (c == 0)
        c = compare(x->verdict != POOL_ACK, y->verdict != POOL_ACK);
    if (c == 0)
        c = compare((intptr_t)p, (intptr_t)q);
    if (c == 0)
        c = compare(x->verdict, y->verdict);
    if (c == 0)
        c = compare(x->delay_ms, y->delay_ms);
    if (c == 0)
        c = compare(x->lot->since_ns, y->lot->since_ns);
    return c != 0 ? c : compare((intptr_t)x, (intptr_t)y);
}

/* A queue that was removed and made anew may be of another kind. */
static bool one_kind(const pool_lot *a, const pool_lot *b)
{
    return a->queue == b->queue && a->fifo == b->fifo && a->log == b->log;
}

static bool one_script(const settling *t, const pool_slot *a,
                       const pool_slot *b)
{
    if (a->lot->queue->shard != b->lot->queue->shard)
        return false;
    if (a->verdict == POOL_ACK && b->verdict == POOL_ACK && !t->s->owl)
        return true;
    return one_kind(a->lot, b->lot) && a->verdict == b->verdict &&
           a->delay_ms == b->delay_ms && !a->reason && !b->reason;
}

/* ---- scripts ---------------------------------------------------------- */

static void be(settling *t, const sending *g, leat_code code)
{
    for (size_t i = g->from; i < g->to; i++)
        t->slot[i]->outcome = code;
}

/* A number for each slot: 0 is stale.  None: all are done. */
static leat_code read_each(settling *t, const sending *g, leat_reply_iter it,
                           leat_error *err)
{
    bool each;
    leat_code rc = leat__queue_each(it, g->to - g->from, &each, err);
    if (rc != LEAT_OK)
        return rc;
    be(t, g, LEAT_OK);
    for (size_t i = g->from; each && i < g->to; i++)
        if (leat_reply_int(leat_reply_step(&it)) != 1)
            t->slot[i]->outcome = LEAT_ESTALE;
    return LEAT_OK;
}

static leat_code read_done(void *arg, const leat_reply *r, leat_error *err)
{
    sending *g = arg;
    leat_code rc = leat__queue_expect(r, "[i(i)" LEAT__QUEUE_TOLD "]", err);
    if (rc != LEAT_OK)
        return rc;
    leat_reply_iter it = leat_reply_each(r);
    g->of->freed += leat_reply_int(leat_reply_step(&it));
    return read_each(g->of, g, it, err);
}

static leat_code read_changed(void *arg, const leat_reply *r, leat_error *err)
{
    sending *g = arg;
    leat_code rc = leat__queue_expect(r, "[(i)" LEAT__QUEUE_TOLD "]", err);
    if (rc != LEAT_OK)
        return rc;
    g->of->freed++;
    return read_each(g->of, g, leat_reply_each(r), err);
}

/* As done.lua has it. */
static const char *what_of(const pool_lot *lot, bool several)
{
    static const char *const all[] = { "",  "f",  "l",  "fl",
                                       "+", "f+", "l+", "fl+" };
    return all[(lot->fifo ? 1 : 0) + (lot->log ? 2 : 0) + (several ? 4 : 0)];
}

static void put(settling *t, leat_bytes b)
{
    t->args[t->used++] = b;
}

/* One queue's part of what is done: slots a up to b. */
static void put_queue(settling *t, size_t a, size_t b)
{
    const pool_lot *lot = t->slot[a]->lot;
    size_t n = b - a, at = t->used + QUEUE_HEAD;
    bool last = false, several = false;
    for (size_t i = 0; i < n; i++) {
        const pool_slot *slot = t->slot[a + i];
        leat__receipt r;
        /* It was one when it came. */
        (void)leat__receipt_parse(slot->receipt, lot->fifo, &r);
        t->args[at + i] = slot->receipt;
        t->args[at + n + i] = r.id;
        if (lot->fifo)
            t->args[at + 2 * n + i] = r.group;
        last |= slot->last;
        several |= slot->d.redelivered;
    }
    snprintf(t->counts[a], sizeof t->counts[a], "%zu", n);
    put(t, leat_str(lot->queue->name));
    put(t, leat_str(what_of(lot, several)));
    put(t, leat_str(last ? "1" : "0"));
    put(t, leat_str(t->counts[a]));
    t->used = at + n * (lot->fifo ? 3 : 2);
}

static void put_done(settling *t, sending *g)
{
    put(t, leat_str(leat__pool_events(t->s)));
    put(t, leat_str(g->again));
    put(t, leat_str(t->full ? "1" : "0"));
    for (size_t a = g->from, b; a < g->to; a = b) {
        for (b = a + 1; b < g->to; b++)
            if (!one_kind(t->slot[a]->lot, t->slot[b]->lot))
                break;
        put_queue(t, a, b);
    }
}

/* What owl_ack.lua and the changes begin with: the queue, a lane, unless it is
 * as good to do it twice, and how events are told. */
static void put_call(settling *t, sending *g, bool once)
{
    const pool_lot *lot = t->slot[g->from]->lot;
    if (once)
        snprintf(g->lane, sizeof g->lane, "%s.%d", t->s->lane,
                 (int)(g - t->sendings));
    put(t, leat_str(lot->queue->name));
    put(t, leat_str(g->lane));
    put(t, leat__arg_int(g->number, ++t->changes));
    put(t, leat_str(leat__pool_events(t->s)));
}

static void put_receipts(settling *t, const sending *g)
{
    for (size_t i = g->from; i < g->to; i++)
        put(t, t->slot[i]->receipt);
}

/* how NULL: hide, which has no lane. */
static void put_change(settling *t, sending *g, const char *how, int64_t ms)
{
    const pool_lot *lot = t->slot[g->from]->lot;
    put_call(t, g, how != NULL);
    put(t, leat_str(lot->fifo ? "1" : "0"));
    put(t, leat_str(how ? how : "hide"));
    put(t, leat__queue_delay(g->ms, ms));
    const char *reason = t->slot[g->from]->reason;
    put(t, leat_str(reason ? reason : ""));
    put_receipts(t, g);
}

/* Send what is planned, and see how it ended. */
static void send_all(settling *t)
{
    leat__queue_calls(t->s->client, t->answers, t->count, t->deadline_ns);
    for (size_t i = 0; i < t->count; i++) {
        const queue_answer *a = &t->answers[i];
        if (a->rc == LEAT_OK)
            continue;
        be(t, &t->sendings[i], a->rc);
        if (t->bad.code == LEAT_OK)
            t->bad = a->err;
    }
    t->count = 0;
    t->used = 0;
}

static leat_bytes key_of(settling *t, size_t i, const pool_queue *q)
{
    if (!t->s->owl)
        return leat__key_bytes(&t->s->shards[q->shard].due);
    t->s->profile->home(&t->owl_keys[i], t->s->prefix, q->name);
    return leat__key_bytes(&t->owl_keys[i]);
}

static const leat__script *script_of(const settling *t, bool done)
{
    const queue_profile *p = t->s->profile;
    return !done ? p->change : t->s->owl ? p->ack : &leat__script_pool_done;
}

static sending *add_call(settling *t, size_t from, size_t to, bool done)
{
    if (t->count == CALLS)
        send_all(t);
    size_t i = t->count++;
    const pool_queue *q = t->slot[from]->lot->queue;
    t->sendings[i] = (sending){ .of = t, .from = from, .to = to, .again = "0" };
    t->keys[i] = key_of(t, i, q);
    bool many = done && !t->s->owl; /* queues in one script */
    t->calls[i] = (queue_call){ .client = t->s->client,
                                .name = q->name,
                                .key = t->keys[i],
                                .script = script_of(t, done),
                                .args = t->args + t->used,
                                .again = many ? t->sendings[i].again : NULL,
                                .read = many ? read_done : read_changed,
                                .arg = &t->sendings[i] };
    t->answers[i] = (queue_answer){ .call = &t->calls[i] };
    return &t->sendings[i];
}

static void plan(settling *t, size_t from, size_t to)
{
    const pool_slot *first = t->slot[from];
    size_t i;
    if (first->verdict == POOL_COMMITTED) {
        for (i = from; i < to; i++)
            t->slot[i]->outcome = LEAT_OK;
        return;
    }
    bool done = first->verdict == POOL_ACK;
    sending *g = add_call(t, from, to, done);
    i = (size_t)(g - t->sendings);
    size_t before = t->used;
    if (done && t->s->owl) {
        put_call(t, g, true);
        put_receipts(t, g);
    } else if (done)
        put_done(t, g);
    else
        put_change(t, g, words[first->verdict], first->delay_ms);
    t->calls[i].n = t->used - before;
}

/* What failed is told once the server has what stood behind it: a short delay
 * may be over before that, and it must come back in front.  If that is not sure
 * it stays in flight, and the lot expires as a whole. */
static bool is_stuck(settling *t, size_t from, size_t to)
{
    if (!t->slot[from]->lot->stuck)
        return false;
    for (size_t i = from; i < to; i++)
        t->slot[i]->outcome = LEAT_EUNKNOWN;
    return true;
}

static void find_stuck(settling *t)
{
    for (size_t i = 0; i < t->n; i++) {
        pool_slot *slot = t->slot[i];
        if (slot->verdict == POOL_FREE && slot->outcome != LEAT_OK &&
            slot->outcome != LEAT_ESTALE)
            slot->lot->stuck = true;
    }
}

static void send_part(settling *t, bool failed)
{
    for (size_t a = 0, b; a < t->n; a = b) {
        for (b = a + 1; b < t->n; b++)
            if (!one_script(t, t->slot[a], t->slot[b]) ||
                (t->s->owl && b - a == LEAT_QUEUE_BATCH))
                break;
        if ((t->slot[a]->verdict > POOL_FREE) == failed &&
            !(failed && is_stuck(t, a, b)))
            plan(t, a, b);
    }
    send_all(t);
}

static void send_slots(settling *t)
{
    qsort(t->slot, t->n, sizeof *t->slot, by_script);
    if (!t->gentle)
        pthread_mutex_lock(&t->s->change);
    send_part(t, false);
    if (!t->gentle) {
        find_stuck(t);
        send_part(t, true);
        pthread_mutex_unlock(&t->s->change);
    }
}

/* ---- the thread ------------------------------------------------------- */

static bool collect_locked(settling *t)
{
    pool_source *s = t->s;
    t->n = 0;
    t->freed = 0;
    t->gentle = true;
    t->full = s->busy >= (size_t)s->opts.workers;
    t->bad = (leat_error){ 0 };
    while (s->first && t->n < POOL_SETTLE_MAX) {
        pool_slot *slot = s->first;
        s->first = slot->next;
        t->gentle &= slot->verdict == POOL_ACK;
        t->slot[t->n++] = slot;
    }
    if (!s->first)
        s->line_end = NULL;
    return t->n > 0;
}

static void tell(settling *t)
{
    pool_source *s = t->s;
    leat_error stale;
    leat__fail(&stale, LEAT_ESTALE, "the message is no longer this receipt's");
    bool some_stale = false;
    for (size_t i = 0; i < t->n; i++) {
        leat_code code = t->slot[i]->outcome;
        some_stale |= code == LEAT_ESTALE;
        const leat_error *e = code == LEAT_ESTALE ? &stale : &t->bad;
        leat__free(t->slot[i]->reason);
        t->slot[i]->reason = NULL;
        leat__source_settled(&s->base, &t->slot[i]->d,
                             code == LEAT_OK ? NULL : e);
    }
    if (t->bad.code == LEAT_OK && some_stale)
        t->bad = stale;
    pthread_mutex_lock(&s->lock);
    leat__outcomes_came(&s->outcomes, t->n, &t->bad);
    pthread_mutex_unlock(&s->lock);
    if (t->freed > 0)
        leat__waiter_poke(s->waiter);
}

void *leat__pool_settler(void *source)
{
    pool_source *s = source;
    settling *t = s->settling;
    t->s = s;
    pthread_mutex_lock(&s->lock);
    while (!s->closing || s->first) {
        if (!collect_locked(t)) {
            leat__cond_wait(&s->work, &s->lock, INT64_MAX);
            continue;
        }
        t->deadline_ns = leat__deadline_ns(s->closing ? RELEASE_MS : TRY_MS);
        pthread_mutex_unlock(&s->lock);
        send_slots(t);
        tell(t);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- what is still out ------------------------------------------------ */

/* Room for n slots more; they are sent when it is full. */
static void make_room(settling *t, size_t n)
{
    if (t->n + n <= POOL_SETTLE_MAX && t->count < CALLS)
        return;
    send_all(t);
    t->n = 0;
}

static void add_lot(settling *t, pool_lot *lot, const char *how, int64_t ms)
{
    size_t from = t->n;
    for (size_t i = 0; i < lot->n; i++)
        if (lot->slots[i].out || i >= lot->given)
            t->slot[t->n++] = &lot->slots[i];
    if (t->n == from)
        return;
    sending *g = add_call(t, from, t->n, false);
    size_t before = t->used;
    put_change(t, g, how, ms);
    t->calls[g - t->sendings].n = t->used - before;
}

/* The lots of these deliveries; the lock guards what is out. */
static void extend_lots(settling *t, leat_delivery *const *d, size_t n,
                        int64_t ms)
{
    pool_source *s = t->s;
    for (size_t i = 0; i < n; i++) {
        pool_lot *lot = ((pool_slot *)d[i])->lot;
        if (lot->marked)
            continue;
        lot->marked = true;
        make_room(t, lot->n);
        pthread_mutex_lock(&s->lock);
        add_lot(t, lot, NULL, ms);
        pthread_mutex_unlock(&s->lock);
    }
    send_all(t);
    for (size_t i = 0; i < n; i++)
        ((pool_slot *)d[i])->lot->marked = false;
}

leat_code leat__pool_extend(pool_source *s, leat_delivery *const *d, size_t n,
                            int64_t ms, leat_code *outcome, leat_error *err)
{
    settling *t = leat__zalloc(sizeof *t, err);
    if (!t)
        return LEAT_ENOMEM;
    t->s = s;
    t->deadline_ns = leat__deadline_ns(ms / 3);
    for (size_t i = 0; i < n; i++)
        ((pool_slot *)d[i])->outcome = LEAT_EUNKNOWN;
    pthread_mutex_lock(&s->change);
    extend_lots(t, d, n, ms);
    pthread_mutex_unlock(&s->change);
    for (size_t i = 0; i < n; i++)
        outcome[i] = ((pool_slot *)d[i])->outcome;
    if (t->bad.code != LEAT_OK && err)
        *err = t->bad;
    leat__free(t);
    return LEAT_OK;
}

void leat__pool_release(pool_source *s)
{
    settling *t = s->settling; /* its thread has ended */
    t->n = 0;
    t->bad = (leat_error){ 0 };
    t->deadline_ns = leat__deadline_ns(RELEASE_MS);
    leat__list *all[] = { &s->lots, &s->fresh };
    for (size_t k = 0; k < 2; k++) {
        LEAT__LIST_EACH(all[k], at)
        {
            pool_lot *lot = LEAT__ITEM(at, pool_lot, link);
            make_room(t, lot->n);
            add_lot(t, lot, words[POOL_FREE], 0);
        }
    }
    send_all(t);
    if (t->bad.code != LEAT_OK)
        leat__log(&s->opts.log, LEAT_LOG_INFO,
                  "pool '%s': what was out comes back when its time is over",
                  s->prefix);
}
