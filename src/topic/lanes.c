/*
 * lanes.c: the producers of a topic.
 *
 * Where one server has all partitions there is one, and publishing goes there
 * directly.  On a cluster each partition has its own, made with its first
 * message: a backlog, a thread and a connection to the node that has the
 * partition.  So a node that is away delays its partitions and no others, a
 * partition that moves takes its order with it, and nothing that is under way
 * for another has to be looked at.
 *
 * What is the topic's stays the topic's: the bounds are shared (quota.c), flush
 * and close are for all within one time, and a batch over several partitions is
 * accepted whole or not at all.  The window is each connection's.
 *
 * Locks: those of several producers are taken in the order of partitions.
 */
#include "topic/lanes.h"
#include "base/mem.h"
#include "base/system.h"
#include "message/sink.h"
#include "redis/client.h"

#include <stdlib.h>

struct leat__lanes {
    leat_topic *topic;
    leat__quota quota;
    pthread_mutex_t lock; /* for making one */
    bool closing;
    uint32_t count;                 /* 1, or the topic's partitions   */
    _Atomic(leat__producer *) of[]; /* NULL: nothing published there  */
};

/* ---- making ----------------------------------------------------------- */

static leat__lanes *lanes_new(leat_topic *t, leat_error *err)
{
    bool each = leat__client_clustered(t->client) && t->meta.partitions > 1;
    uint32_t n = each ? t->meta.partitions : 1;
    leat__lanes *l = leat__zalloc(sizeof *l + n * sizeof l->of[0], err);
    if (!l)
        return NULL;
    l->topic = t;
    l->count = n;
    if (leat__quota_init(&l->quota, &t->opts, err) != LEAT_OK) {
        leat__free(l);
        return NULL;
    }
    pthread_mutex_init(&l->lock, NULL);
    return l;
}

static leat__lanes *lanes_of(leat_topic *t, leat_error *err)
{
    leat__lanes *l = atomic_load_explicit(&t->lanes, memory_order_acquire);
    if (l)
        return l;
    pthread_mutex_lock(&t->lock);
    l = atomic_load_explicit(&t->lanes, memory_order_relaxed);
    if (!l && (l = lanes_new(t, err)) != NULL)
        atomic_store_explicit(&t->lanes, l, memory_order_release);
    pthread_mutex_unlock(&t->lock);
    return l;
}

static leat__producer *lane(const leat__lanes *l, uint32_t i)
{
    return atomic_load_explicit(&l->of[i], memory_order_acquire);
}

static leat_code make_locked(leat__lanes *l, uint32_t i, leat_error *err)
{
    leat_topic *t = l->topic;
    bool alone = l->count == 1;
    leat_error e;
    if (l->closing)
        return leat__producer_closing(t, err);
    if (lane(l, i))
        return LEAT_OK;
    leat__producer *p = leat__producer_open(
        t, i, alone ? t->meta.partitions : 1, alone ? NULL : &l->quota, &e);
    if (!p) {
        if (err)
            *err = e;
        return e.code;
    }
    atomic_store_explicit(&l->of[i], p, memory_order_release);
    if (alone)
        atomic_store_explicit(&t->producer, p, memory_order_release);
    return LEAT_OK;
}

/* The one that sends to the partition. */
static leat_code find(leat__lanes *l, uint32_t partition, leat__producer **out,
                      leat_error *err)
{
    uint32_t i = l->count == 1 ? 0 : partition;
    leat_code rc = LEAT_OK;
    if (!lane(l, i)) {
        pthread_mutex_lock(&l->lock);
        rc = make_locked(l, i, err);
        pthread_mutex_unlock(&l->lock);
    }
    *out = lane(l, i);
    return rc;
}

/* ---- publishing ------------------------------------------------------- */

/* Where a message of a batch goes. */
typedef struct place {
    uint32_t partition, index;
} place;

/* What of a batch goes to one partition. */
typedef struct share {
    leat__producer *p;
    leat__offer offer;
    leat__spot before; /* the end of its backlog */
    int plan;
} share;

typedef struct batch {
    leat__lanes *lanes;
    const leat_msg *m;
    size_t n, shares, locked, size;
    share *share;
    place *place;
    leat_published_fn *fn;
    void *arg;
} batch;

static int by_place(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->partition != y->partition)
        return x->partition < y->partition ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* By partition, and as given within one. */
static leat_code sort_out(batch *b, leat_error *err)
{
    leat_topic *t = b->lanes->topic;
    leat_code rc = LEAT_OK;
    for (size_t i = 0; rc == LEAT_OK && i < b->n; i++) {
        b->place[i].index = (uint32_t)i;
        rc = leat__choose(&t->chooser, &b->m[i], &b->place[i].partition, err);
    }
    if (rc == LEAT_OK)
        qsort(b->place, b->n, sizeof *b->place, by_place);
    b->shares = 0;
    for (size_t i = 0; rc == LEAT_OK && i < b->n; i++) {
        if (i > 0 && b->place[i].partition == b->place[i - 1].partition)
            continue;
        rc = find(b->lanes, b->place[i].partition, &b->share[b->shares++].p,
                  err);
    }
    return rc;
}

/* Put the messages from *i on that go to its partition. */
static leat_code put_share(batch *b, share *s, size_t *i, leat_error *err)
{
    leat_code rc = LEAT_OK;
    uint32_t partition = b->place[*i].partition;
    leat__offer all = { .fn = b->fn, .arg = b->arg };
    for (; rc == LEAT_OK && *i < b->n && b->place[*i].partition == partition;
         ++*i) {
        leat__offer one = { .partition = &partition,
                            .m = &b->m[b->place[*i].index],
                            .n = 1,
                            .fn = b->fn,
                            .arg = b->arg };
        rc = leat__producer_put_locked(s->p, &one, err);
        all.n++;
        all.size += one.size;
    }
    s->offer = all;
    b->size += all.size;
    return rc;
}

static leat_code put_all(batch *b, leat_error *err)
{
    leat_code rc = LEAT_OK;
    size_t at = 0;
    b->size = 0;
    for (b->locked = 0; rc == LEAT_OK && b->locked < b->shares; b->locked++) {
        share *s = &b->share[b->locked];
        pthread_mutex_lock(&s->p->lock);
        s->before = leat__backlog_end(&s->p->backlog);
        rc = put_share(b, s, &at, err);
    }
    if (rc == LEAT_OK)
        rc = leat__producer_check(b->lanes->topic, b->n, b->size, err);
    return rc;
}

static void finish(batch *b, bool accepted)
{
    for (size_t i = 0; i < b->locked; i++) {
        share *s = &b->share[i];
        if (accepted)
            s->plan = leat__producer_accept_locked(s->p, &s->offer);
        else
            leat__backlog_cut(&s->p->backlog, s->before);
    }
    for (size_t i = 0; i < b->locked; i++)
        pthread_mutex_unlock(&b->share[i].p->lock);
    for (size_t i = 0; accepted && i < b->locked; i++)
        leat__producer_hand_over(b->share[i].p, b->share[i].plan);
}

/* As for a single message: encoded, it fits, or it is taken back and encoded
 * again when there is room for so much. */
static leat_code accept_all(batch *b, leat_error *err)
{
    const leat_topic *t = b->lanes->topic;
    leat__quota *q = &b->lanes->quota;
    int64_t deadline = 0;
    for (;;) {
        leat_code rc = sort_out(b, err);
        b->locked = 0;
        if (rc == LEAT_OK)
            rc = put_all(b, err);
        bool accepted = rc == LEAT_OK && leat__quota_take(q, b->n, b->size);
        finish(b, accepted);
        if (accepted || rc != LEAT_OK)
            return rc;
        if (deadline == 0)
            deadline = leat__deadline_ns(t->opts.max_wait_ms);
        if (t->opts.no_wait || leat__producer_inside(t) ||
            !leat__quota_wait(q, b->n, b->size, deadline))
            return leat__quota_full(q, t->name, err);
    }
}

static leat_code publish_batch(leat__lanes *l, const leat_msg *m, size_t n,
                               leat_published_fn *fn, void *arg,
                               leat_error *err)
{
    batch b = { .lanes = l, .m = m, .n = n, .fn = fn, .arg = arg };
    leat_code rc = leat__producer_check(l->topic, n, 0, err);
    if (rc != LEAT_OK)
        return rc;
    size_t most = n < l->count ? n : l->count;
    b.place = leat__calloc(n, sizeof *b.place, err);
    b.share = b.place ? leat__calloc(most, sizeof *b.share, err) : NULL;
    rc = b.share ? accept_all(&b, err) : LEAT_ENOMEM;
    leat__free(b.share);
    leat__free(b.place);
    return rc;
}

leat_code leat__lanes_publish(leat_topic *t, const uint32_t *partition,
                              const leat_msg *m, size_t n,
                              leat_published_fn *fn, void *arg, leat_error *err)
{
    leat__lanes *l = lanes_of(t, err);
    leat__producer *p;
    uint32_t chosen = 0;
    if (!l)
        return LEAT_ENOMEM;
    if (l->count > 1 && n > 1)
        return publish_batch(l, m, n, fn, arg, err);
    leat_code rc = LEAT_OK;
    if (l->count > 1 && !partition) {
        rc = leat__choose(&t->chooser, m, &chosen, err);
        partition = &chosen;
    }
    if (rc == LEAT_OK)
        rc = find(l, partition ? *partition : 0, &p, err);
    if (rc != LEAT_OK)
        return rc;
    return leat__producer_publish(p, partition, m, n, fn, arg, err);
}

leat_code leat__lanes_publish_later(leat_topic *t, const leat_msg *m,
                                    int64_t delay_ms, leat_published_fn *fn,
                                    void *arg, leat_error *err)
{
    leat__lanes *l = lanes_of(t, err);
    leat__producer *p;
    uint32_t partition;
    if (!l)
        return LEAT_ENOMEM;
    leat_code rc = leat__choose(&t->chooser, m, &partition, err);
    if (rc == LEAT_OK)
        rc = find(l, partition, &p, err);
    if (rc != LEAT_OK)
        return rc;
    return leat__producer_publish_later(p, &partition, m, delay_ms, fn, arg,
                                        err);
}

/* ---- flushing and closing --------------------------------------------- */

static uint64_t await_all(leat__lanes *l, int64_t deadline_ns)
{
    uint64_t left = 0;
    for (uint32_t i = 0; i < l->count; i++)
        if (lane(l, i))
            leat__producer_hurry(lane(l, i));
    for (uint32_t i = 0; i < l->count; i++)
        if (lane(l, i))
            left += leat__producer_settled(lane(l, i), deadline_ns);
    return left;
}

static leat_code first_failure(leat__lanes *l, leat_error *err)
{
    leat_error first = { 0 }, e;
    for (uint32_t i = 0; i < l->count; i++) {
        if (!lane(l, i))
            continue;
        leat__producer_failure(lane(l, i), &e);
        if (first.code == LEAT_OK)
            first = e;
    }
    if (first.code != LEAT_OK && err)
        *err = first;
    return first.code;
}

leat_code leat__lanes_flush(leat__lanes *l, int64_t timeout_ms, leat_error *err)
{
    if (leat__producer_inside(l->topic))
        return leat__sink_inside(err);
    uint64_t left = await_all(l, leat__deadline_ns(timeout_ms));
    if (left > 0)
        return leat__fail(err, LEAT_ETIMEOUT,
                          "topic '%s': %llu messages have no outcome after "
                          "%lld ms",
                          l->topic->name, (unsigned long long)left,
                          (long long)timeout_ms);
    return first_failure(l, err);
}

static void each(leat__lanes *l, void (*fn)(leat__producer *))
{
    for (uint32_t i = 0; i < l->count; i++)
        if (lane(l, i))
            fn(lane(l, i));
}

void leat__lanes_close(leat__lanes *l)
{
    if (!l)
        return;
    (void)await_all(l, leat__deadline_ns(LEAT__PRODUCER_CLOSE_MS));
    pthread_mutex_lock(&l->lock);
    l->closing = true;
    pthread_mutex_unlock(&l->lock);
    each(l, leat__producer_stop);
    leat__quota_close(&l->quota);
    each(l, leat__producer_end);
    each(l, leat__producer_free);
    leat__quota_release(&l->quota);
    pthread_mutex_destroy(&l->lock);
    leat__free(l);
}
