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

pool_queue *leat__pool_queue_locked(pool_source *s, leat_bytes name,
                                    leat_error *err)
{
    pool_queue *q = leat__map_get(&s->queues, name);
    if (q)
        return q;
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
    q->weight = weight_of(s, name);
    q->burst = q->weight;
    q->used_ns = leat__now_ns();
    q->look_ns = INT64_MAX;
    leat__list_push(&s->used, &q->link);
    return q;
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
        if (q->out > 0)
            continue;
        leat__link_remove(&q->link);
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
