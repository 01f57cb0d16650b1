/*
 * sink.c: a topic's public verbs of publishing, and the topic as a sink.
 */
#include "message/sink.h"
#include "base/mem.h"
#include "topic/lanes.h"
#include "topic/standing.h"

#define DELAY_MOST (INT64_C(36525) * 24 * 60 * 60 * 1000)

/* Is it this process's, and is there such a topic? */
static leat_code check(const leat_topic *t, leat_error *err)
{
    leat_code rc = leat__topic_own(t, err);
    return rc == LEAT_OK && leat__standing_of(t) != LEAT__TOPIC_THERE
               ? leat__standing_refuse(t, err)
               : rc;
}

static leat_code publish(leat_topic *t, const uint32_t *partition,
                         const leat_msg *m, size_t n, leat_published_fn *fn,
                         void *arg, leat_error *err)
{
    leat_code rc = check(t, err);
    if (rc != LEAT_OK)
        return rc;
    leat__producer *p = atomic_load_explicit(&t->producer,
                                             memory_order_acquire);
    if (p)
        return leat__producer_publish(p, partition, m, n, fn, arg, err);
    return leat__lanes_publish(t, partition, m, n, fn, arg, err);
}

leat_code leat_topic_publish(leat_topic *t, const leat_msg *m,
                             leat_published_fn *fn, void *arg, leat_error *err)
{
    return publish(t, NULL, m, 1, fn, arg, err);
}

leat_code leat_topic_publish_batch(leat_topic *t, const leat_msg *m, size_t n,
                                   leat_published_fn *fn, void *arg,
                                   leat_error *err)
{
    return n > 0 ? publish(t, NULL, m, n, fn, arg, err) : LEAT_OK;
}

leat_code leat_topic_publish_to(leat_topic *t, uint32_t partition,
                                const leat_msg *m, leat_published_fn *fn,
                                void *arg, leat_error *err)
{
    if (partition >= t->meta.partitions)
        return leat__fail(err, LEAT_EINVAL,
                          "topic '%s' has no partition %u: it has %u, counted "
                          "from 0",
                          t->name, partition, t->meta.partitions);
    return publish(t, &partition, m, 1, fn, arg, err);
}

leat_code leat_topic_publish_later(leat_topic *t, const leat_msg *m,
                                   int64_t delay_ms, leat_published_fn *fn,
                                   void *arg, leat_error *err)
{
    leat_code rc = check(t, err);
    if (rc != LEAT_OK)
        return rc;
    if (delay_ms < 0 || delay_ms > DELAY_MOST)
        return leat__fail(err, LEAT_EINVAL,
                          "topic '%s': a delay of %lld ms: it is 0 to %lld, a "
                          "hundred years",
                          t->name, (long long)delay_ms, (long long)DELAY_MOST);
    return leat__lanes_publish_later(t, m, delay_ms, fn, arg, err);
}

leat_code leat_topic_flush(leat_topic *t, int64_t timeout_ms, leat_error *err)
{
    leat_code rc = leat__topic_own(t, err);
    leat__lanes *lanes = atomic_load(&t->lanes);
    return rc == LEAT_OK && lanes ? leat__lanes_flush(lanes, timeout_ms, err)
                                  : rc;
}

/* ---- as a sink -------------------------------------------------------- */

typedef struct topic_sink {
    leat_sink base;
    leat_topic *topic;
} topic_sink;

static leat_code sink_publish(leat_sink *k, const leat_msg *m, size_t n,
                              leat_published_fn *fn, void *arg, leat_error *err)
{
    return publish(((topic_sink *)k)->topic, NULL, m, n, fn, arg, err);
}

static leat_code sink_flush(leat_sink *k, int64_t timeout_ms, leat_error *err)
{
    return leat_topic_flush(((topic_sink *)k)->topic, timeout_ms, err);
}

/* What has no outcome gets one from the topic, which stays open. */
static void sink_close(leat_sink *k)
{
    leat__free(k);
}

static const leat_sink_ops ops = {
    .publish = sink_publish,
    .flush = sink_flush,
    .close = sink_close,
};

leat_sink *leat_topic_sink(leat_topic *t, leat_error *err)
{
    topic_sink *k = leat__zalloc(sizeof *k, err);
    if (!k)
        return NULL;
    k->base.ops = &ops;
    k->base.name = t->name;
    k->topic = t;
    return &k->base;
}
