/*
 * queues.c: what is known of each queue.
 *
 * A queue is known from its first message here until it had none for
 * queue_idle_ms; what is forgotten costs nothing.
 */
#include "base/mem.h"
#include "base/system.h"
#include "pool/pool.h"

#include <string.h>

static int weight_of(const pool_source *s, leat_bytes name)
{
    int w = s->opts.weight ? s->opts.weight(s->opts.weight_arg, name) : 1;
    w = w > 0 ? w : 1;
    return w < POOL_TURN_MAX ? w : POOL_TURN_MAX;
}

static pool_queue *make_locked(pool_source *s, leat_bytes name, int weight,
                               leat_error *err)
{
    pool_queue *q;
    if (name.n == 0 || name.n > LEAT__QUEUE_NAME_MAX) {
        leat__fail(err, LEAT_EPROTO, "a queue's name of %zu bytes", name.n);
        return NULL;
    }
    q = leat__zalloc(sizeof *q + name.n + 1, err);
    if (!q)
        return NULL;
    memcpy(q->name, name.p, name.n);
    if (leat__map_put(&s->queues, name, q, NULL, err) != LEAT_OK) {
        leat__free(q);
        return NULL;
    }
    q->shard = leat__queue_shard(q->name);
    q->lane = leat__siphash13(s->seed, name) | 1;
    q->weight = weight;
    q->burst = q->weight;
    q->used_ns = leat__now_ns();
    q->look_ns = INT64_MAX;
    leat__list_push(&s->used, &q->link);
    leat__list_push(&s->known, &q->known);
    return q;
}

/* Its weight is asked for without the lock; another may make it meanwhile. */
pool_queue *leat__pool_queue(pool_source *s, leat_bytes name, leat_error *err)
{
    pthread_mutex_lock(&s->lock);
    pool_queue *q = leat__map_get(&s->queues, name);
    if (!q) {
        pthread_mutex_unlock(&s->lock);
        int weight = weight_of(s, name);
        pthread_mutex_lock(&s->lock);
        q = leat__map_get(&s->queues, name);
        if (!q)
            q = make_locked(s, name, weight, err);
    }
    if (q)
        q->out++;
    pthread_mutex_unlock(&s->lock);
    return q;
}

static leat_pool_queue figures_locked(const pool_queue *q, int64_t now_ns)
{
    int64_t idle = now_ns > q->used_ns ? (now_ns - q->used_ns) / 1000000 : 0;
    return (leat_pool_queue){ .name = leat_str(q->name),
                              .received = q->received,
                              .acked = q->acked,
                              .nacked = q->nacked,
                              .rejected = q->rejected,
                              .running = atomic_load(&q->running),
                              .idle_ms = q->out > 0 ? 0 : idle };
}

/* In the order in which they were met, those that are known when it begins: the
 * one that fn is told of is not forgotten meanwhile. */
void leat__pool_queues_each(pool_source *s, leat_pool_queue_fn *fn, void *arg)
{
    int64_t now = leat__now_ns();
    pthread_mutex_lock(&s->lock);
    size_t left = s->queues.count;
    leat__link *at = s->known.head.next;
    while (at != &s->known.head && left-- > 0) {
        pool_queue *q = LEAT__ITEM(at, pool_queue, known);
        leat_pool_queue figures = figures_locked(q, now);
        q->shown++;
        pthread_mutex_unlock(&s->lock);
        fn(arg, &figures);
        pthread_mutex_lock(&s->lock);
        q->shown--;
        at = at->next;
    }
    pthread_mutex_unlock(&s->lock);
}

void leat__pool_use_locked(pool_source *s, pool_queue *q, int64_t now_ns)
{
    q->used_ns = now_ns;
    leat__link_remove(&q->link);
    leat__list_push(&s->used, &q->link);
}

void leat__pool_forget_locked(pool_source *s, int64_t now_ns)
{
    int64_t before = now_ns - s->opts.queue_idle_ms * 1000000;
    LEAT__LIST_EACH(&s->used, at)
    {
        pool_queue *q = LEAT__ITEM(at, pool_queue, link);
        if (q->used_ns > before)
            return;
        if (q->out > 0 || q->shown > 0)
            continue;
        leat__link_remove(&q->link);
        leat__link_remove(&q->known);
        leat__map_remove(&s->queues, leat_str(q->name));
        leat__free(q);
    }
}

void leat__pool_queues_free(pool_source *s)
{
    LEAT__LIST_EACH(&s->used, at)
    leat__free(LEAT__ITEM(at, pool_queue, link));
    leat__list_init(&s->used);
    leat__map_release(&s->queues);
}
