/*
 * source.c: a queue as a source.
 *
 * Receiving runs on the caller's thread; settlements are sent by another, see
 * source_settle.c.  Of a fifo queue a group is a lane: the server gives out one
 * message of a group at a time, so that none overtakes one that was nacked.
 */
#include "queue/source.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "base/system.h"
#include "base/thread.h"
#include "redis/client.h"

#include <stdio.h>

enum { BATCH = 100, EXTEND_AT_ONCE = 256 };

static const leat_source_ops ops;

/* ---- receive ---------------------------------------------------------- */

static source_lot *lot_new(size_t n, leat_error *err)
{
    return leat__zalloc(sizeof(source_lot) + n * sizeof(source_slot), err);
}

static void lot_free(source_lot *lot)
{
    for (size_t i = 0; i < lot->n; i++) {
        leat__free(lot->slots[i].reason);
        leat__free(lot->slots[i].part);
    }
    leat_queue_batch_free(lot->batch);
    leat__free(lot);
}

static uint64_t lane_of(leat_bytes group)
{
    static const leat__sipkey key = { 0x6c656174, 0x66696f };
    return group.n ? leat__siphash13(key, group) | 1 : 0;
}

static void fill(queue_source *s, source_lot *lot, size_t i, int64_t until_ns)
{
    const leat_queue_item *it = leat_queue_batch_at(lot->batch, i);
    source_slot *slot = &lot->slots[i];
    slot->lot = lot;
    slot->receipt = it->receipt;
    slot->out = true;
    leat_delivery *d = &slot->d;
    d->msg = it->msg;
    d->from = leat_str(s->q->name);
    d->position = (leat_position){ .ms = (uint64_t)it->sent_ms,
                                   .seq = ++s->seq };
    d->lane = lane_of(it->group);
    d->error = it->error;
    d->attempt = it->receives ? it->receives : 1;
    d->redelivered = it->receives > 1;
    leat__delivery_arm(d, &s->base, until_ns);
}

/* Too many settlements without outcome: wait for some.  False: still. */
static bool has_room(queue_source *s, int64_t deadline_ns)
{
    bool in_time = true;
    pthread_mutex_lock(&s->lock);
    while (s->outcomes.due >= QUEUE_DUE_MAX && in_time &&
           !atomic_load(&s->interrupted))
        in_time = leat__cond_wait(&s->room, &s->lock, deadline_ns);
    bool room = s->outcomes.due < QUEUE_DUE_MAX;
    pthread_mutex_unlock(&s->lock);
    return room;
}

static int hand_out(queue_source *s, source_lot *lot, int64_t until_ns,
                    leat_delivery **out)
{
    lot->n = leat_queue_batch_count(lot->batch);
    atomic_store(&lot->refs, (unsigned)lot->n);
    if (lot->n == 0) {
        lot_free(lot);
        return 0;
    }
    for (size_t i = 0; i < lot->n; i++) {
        fill(s, lot, i, until_ns);
        out[i] = &lot->slots[i].d;
    }
    pthread_mutex_lock(&s->lock);
    leat__list_push(&s->lots, &lot->link);
    pthread_mutex_unlock(&s->lock);
    return (int)lot->n;
}

static int receive_in_room(queue_source *s, leat_delivery **out, int max,
                           int64_t wait_ms, leat_error *err)
{
    int64_t until = 0;
    if (!has_room(s, leat__deadline_ns(wait_ms)))
        return 0;
    max = max < s->opts.batch ? max : s->opts.batch;
    source_lot *lot = lot_new((size_t)max, err);
    if (!lot)
        return -1;
    lot->batch = leat__queue_take(
        s->q,
        &(leat_receive_opts){ .max = max,
                              .wait_ms = wait_ms,
                              .visibility_ms = s->opts.visibility_ms,
                              .dead = s->opts.dead },
        &s->interrupted, &until, err);
    if (lot->batch)
        return hand_out(s, lot, until, out);
    leat__free(lot);
    leat__error_weather(err);
    return -1;
}

/* An interrupt is kept until a receive returns, whatever it was doing. */
static int receive(leat_source *base, leat_delivery **out, int max,
                   int64_t wait_ms, leat_error *err)
{
    queue_source *s = (queue_source *)base;
    if (leat__queue_own(s->q, err) != LEAT_OK)
        return -1;
    int n = receive_in_room(s, out, max, wait_ms, err);
    atomic_store(&s->interrupted, false);
    return n;
}

static void interrupt(leat_source *base)
{
    queue_source *s = (queue_source *)base;
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->interrupted, true);
    pthread_cond_signal(&s->room);
    pthread_mutex_unlock(&s->lock);
    leat__queue_poke(s->q);
}

/* ---- settle, extend, flush -------------------------------------------- */

static void settle(leat_source *base, leat_delivery *d,
                   const leat__settlement *how)
{
    queue_source *s = (queue_source *)base;
    source_slot *slot = (source_slot *)d;
    slot->verdict = how->verdict;
    slot->delay_ms = how->by_policy ? -1 : how->delay_ms;
    if (slot->delay_ms > s->q->profile->hide_max_ms)
        slot->delay_ms = s->q->profile->hide_max_ms;
    if (how->reason && *how->reason)
        slot->reason = leat__strdup(how->reason, NULL);
    slot->next = NULL;
    pthread_mutex_lock(&s->lock);
    slot->out = false;
    s->outcomes.due++;
    if (s->last)
        s->last->next = slot;
    else
        s->first = slot;
    s->last = slot;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

static leat_code extend(leat_source *base, leat_delivery *const *d, size_t n,
                        int64_t ms, leat_code *outcome, leat_error *err)
{
    queue_source *s = (queue_source *)base;
    leat_bytes receipts[EXTEND_AT_ONCE];
    int64_t deadline = leat__deadline_ns(ms / 3);
    leat_code rc = LEAT_OK;
    for (size_t i = 0; i < n; i += EXTEND_AT_ONCE) {
        size_t some = n - i < EXTEND_AT_ONCE ? n - i : EXTEND_AT_ONCE;
        for (size_t k = 0; k < some; k++)
            receipts[k] = ((const source_slot *)d[i + k])->receipt;
        rc = leat__queue_change(s->q, QUEUE_HIDE, receipts, some, ms, deadline,
                                outcome + i, err);
        if (rc != LEAT_OK && rc != LEAT_ESTALE)
            return rc;
    }
    return LEAT_OK;
}

static leat_code flush(leat_source *base, int64_t timeout_ms, leat_error *err)
{
    queue_source *s = (queue_source *)base;
    int64_t deadline = leat__deadline_ns(timeout_ms);
    leat_code rc = leat__queue_own(s->q, err);
    if (rc != LEAT_OK)
        return rc;
    pthread_mutex_lock(&s->lock);
    rc = leat__outcomes_flush(&s->outcomes, &s->lock, deadline, "queue",
                              s->q->name, err);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static void recycle(leat_source *base, leat_delivery *d)
{
    queue_source *s = (queue_source *)base;
    source_lot *lot = ((source_slot *)d)->lot;
    if (atomic_fetch_sub(&lot->refs, 1) > 1)
        return;
    pthread_mutex_lock(&s->lock);
    leat__link_remove(&lot->link);
    pthread_mutex_unlock(&s->lock);
    lot_free(lot);
}

/* ---- as part of a commit script --------------------------------------- */

static const char part_lua[] =
    "{ check = function(keys, args)\n"
    "    redis.call('HLEN', keys[2])\n"
    "    redis.call('LLEN', keys[4])\n"
    "    if not redis.call('ZSCORE', keys[1], args[1]) then\n"
    "        return 'STALE'\n"
    "    end\n"
    "end, apply = function(keys, args)\n"
    "    redis.call('ZREM', keys[1], args[1])\n"
    "    redis.call('HDEL', keys[2], args[2])\n"
    "    redis.pcall('HINCRBY', keys[3], args[3], 1)\n"
    "    if args[7] == 'several' then\n"
    "        redis.pcall('HDEL', keys[6], args[2])\n"
    "    end\n"
    "    if args[6] == 'group' then\n"
    "        redis.call('HDEL', keys[7], args[4])\n"
    "        if redis.call('LLEN', keys[8]) > 0 and\n"
    "            redis.call('RPUSH', keys[4], args[4]) == 1 then\n"
    "            redis.pcall('PUBLISH', keys[4], '')\n"
    "            redis.call('ZADD', keys[5], 'NX', 0, args[5])\n"
    "            redis.pcall('PUBLISH',\n"
    "                string.match(keys[5], '^(.*:){q/') .. 'work', '')\n"
    "        end\n"
    "    end\n"
    "end }";

enum { PART_KEYS = 8, PART_ARGS = 7 };

struct part {
    leat__key key[PART_KEYS - 1];
    char group[LEAT__KEY_MAX + LEAT__GROUP_MAX];
    leat_bytes keys[PART_KEYS], args[PART_ARGS];
};

/* The last two are of a group. */
static void name_keys(leat_queue *q, struct part *p, leat_bytes group)
{
    static const char *const what[] = { "body", "stat", "ready", "why",
                                        "busy" };
    static const int at[] = { 1, 2, 3, 5, 6 };
    p->key[0] = q->due;
    for (int i = 0; i < 5; i++)
        leat__key_queue(&p->key[at[i]], q->prefix, q->name, what[i]);
    leat__key_shard(&p->key[4], q->prefix, leat__queue_shard(q->name), "work");
    for (int i = 0; i < PART_KEYS - 1; i++)
        p->keys[i] = leat__key_bytes(&p->key[i]);
    leat__key list;
    leat__key_queue(&list, q->prefix, q->name, "g:");
    memcpy(p->group, list.p, list.n);
    if (group.n > 0)
        memcpy(p->group + list.n, group.p, group.n);
    p->keys[7] = leat_mem(p->group, list.n + group.n);
}

/* A redowl queue's, whose receipt does not say the id. */
static const char shared_lua[] =
    "{ check = function(keys, args)\n"
    "    redis.call('ZCARD', keys[1])\n"
    "    redis.call('ZCARD', keys[2])\n"
    "    if redis.call('HGET', keys[3], args[1]) ~= args[2] then\n"
    "        return 'STALE'\n"
    "    end\n"
    "end, apply = function(keys, args)\n"
    "    redis.call('HDEL', keys[3], args[1])\n"
    "    redis.call('ZREM', keys[1], args[1])\n"
    "    redis.call('ZREM', keys[2], args[1])\n"
    "    redis.call('DEL', keys[4])\n"
    "end }";

static leat_code shared_part(leat_queue *q, struct part *p,
                             const leat_delivery *d, leat_bytes receipt,
                             leat__settle_part *out, leat_error *err)
{
    static const char *const what[] = { "inflight", "dlq_inflight", "receipt" };
    char msg[LEAT__QUEUE_ID_MAX + 8];
    leat_bytes id = d->msg.id;
    if (id.n > LEAT__QUEUE_ID_MAX)
        return leat__fail(err, LEAT_ENOTSUP, "a message id of %zu bytes", id.n);
    snprintf(msg, sizeof msg, "msg:%.*s", (int)id.n, (const char *)id.p);
    for (int i = 0; i < 4; i++) {
        q->profile->key(&p->key[i], q->prefix, q->name, i < 3 ? what[i] : msg);
        p->keys[i] = leat__key_bytes(&p->key[i]);
    }
    p->args[0] = receipt;
    p->args[1] = id;
    *out = (leat__settle_part){ .lua = shared_lua,
                                .keys = p->keys,
                                .key_count = 4,
                                .args = p->args,
                                .arg_count = 2 };
    return LEAT_OK;
}

static leat_code settle_part(leat_source *base, const leat_delivery *d,
                             leat__settle_part *out, leat_error *err)
{
    queue_source *s = (queue_source *)base;
    source_slot *slot = (source_slot *)(uintptr_t)d;
    leat__receipt r;
    if (!s->q->profile->receipt(slot->receipt, s->q->fifo, &r))
        return leat__fail(err, LEAT_EINVAL, "no receipt");
    if (!slot->part)
        slot->part = leat__zalloc(sizeof *slot->part, err);
    if (!slot->part)
        return LEAT_ENOMEM;
    if (s->q->profile->shard)
        return shared_part(s->q, slot->part, d, slot->receipt, out, err);
    name_keys(s->q, slot->part, r.group);
    struct part *p = slot->part;
    p->args[0] = slot->receipt;
    p->args[1] = r.id;
    p->args[2] = leat_str(r.kind == 'x' ? "dacked" : "acked");
    p->args[3] = r.group;
    p->args[4] = leat_str(s->q->name);
    bool dead = r.kind == 'x', grouped = r.group.n > 0 && !dead;
    p->args[5] = leat_str(grouped ? "group" : "");
    p->args[6] = leat_str(dead || r.receives > 1 ? "several" : "");
    *out = (leat__settle_part){ .lua = part_lua,
                                .keys = p->keys,
                                .key_count = grouped ? PART_KEYS : 6,
                                .args = p->args,
                                .arg_count = PART_ARGS };
    return LEAT_OK;
}

/* ---- its life --------------------------------------------------------- */

static void source_free(queue_source *s)
{
    LEAT__LIST_EACH(&s->lots, at)
    lot_free(LEAT__ITEM(at, source_lot, link));
    leat__outcomes_release(&s->outcomes);
    pthread_cond_destroy(&s->room);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    leat__free(s);
}

static void close_source(leat_source *base)
{
    queue_source *s = (queue_source *)base;
    if (leat__queue_own(s->q, NULL) != LEAT_OK)
        return;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    leat__queue_release(s);
    source_free(s);
}

static const leat_source_ops ops = {
    .receive = receive,
    .interrupt = interrupt,
    .settle = settle,
    .extend = extend,
    .flush = flush,
    .settle_part = settle_part,
    .recycle = recycle,
    .close = close_source,
};

static queue_source *source_new(leat_queue *q, const leat_queue_source_opts *o,
                                leat_error *err)
{
    queue_source *s = leat__zalloc(sizeof *s, err);
    if (!s)
        return NULL;
    if (leat__cond_init(&s->work, err) != LEAT_OK)
        goto no_work;
    if (leat__cond_init(&s->room, err) != LEAT_OK)
        goto no_room;
    if (leat__outcomes_init(&s->outcomes, err) != LEAT_OK)
        goto no_outcomes;
    pthread_mutex_init(&s->lock, NULL);
    leat__list_init(&s->lots);
    s->base.ops = &ops;
    s->base.name = q->name;
    s->base.log = q->opts.log;
    s->base.metrics = q->opts.metrics;
    s->base.ordered = q->fifo && !o->dead;
    s->q = q;
    s->opts = *o;
    if (s->opts.batch == 0)
        s->opts.batch = BATCH;
    return s;

no_outcomes:
    pthread_cond_destroy(&s->room);
no_room:
    pthread_cond_destroy(&s->work);
no_work:
    leat__free(s);
    return NULL;
}

leat_source *leat_queue_source(leat_queue *q,
                               const leat_queue_source_opts *opts,
                               leat_error *err)
{
    leat_queue_source_opts o = opts ? *opts : (leat_queue_source_opts){ 0 };
    if (leat__queue_own(q, err) != LEAT_OK)
        return NULL;
    if (o.batch < 0 || o.batch > LEAT_QUEUE_BATCH || o.visibility_ms < 0 ||
        o.visibility_ms > q->profile->hide_max_ms) {
        leat__fail(err, LEAT_EINVAL,
                   "a batch of %d and a visibility of %lld ms: up to %d and "
                   "%lld hours",
                   o.batch, (long long)o.visibility_ms, LEAT_QUEUE_BATCH,
                   (long long)(q->profile->hide_max_ms / 3600000));
        return NULL;
    }
    queue_source *s = source_new(q, &o, err);
    if (s && leat__thread_start(&s->thread, "leat-settler", leat__queue_settler,
                                s, err) != LEAT_OK) {
        source_free(s);
        s = NULL;
    }
    return s ? &s->base : NULL;
}
