/*
 * quota.c: what a topic's producers share.
 */
#include "topic/quota.h"
#include "base/thread.h"

leat_code leat__quota_init(leat__quota *q, const leat_topic_opts *opts,
                           leat_error *err)
{
    *q = (leat__quota){ .opts = opts };
    leat_code rc = leat__cond_init(&q->room, err);
    if (rc != LEAT_OK)
        return rc;
    pthread_mutex_init(&q->lock, NULL);
    pthread_mutex_init(&q->telling, NULL);
    return rc;
}

void leat__quota_release(leat__quota *q)
{
    pthread_cond_destroy(&q->room);
    pthread_mutex_destroy(&q->telling);
    pthread_mutex_destroy(&q->lock);
}

static bool fits_locked(const leat__quota *q, size_t n, size_t bytes)
{
    return q->messages + n <= (uint64_t)q->opts->max_queued &&
           q->bytes + bytes <= q->opts->max_queued_bytes;
}

bool leat__quota_fits(leat__quota *q, size_t n, size_t bytes)
{
    pthread_mutex_lock(&q->lock);
    bool fits = fits_locked(q, n, bytes);
    pthread_mutex_unlock(&q->lock);
    return fits;
}

bool leat__quota_take(leat__quota *q, size_t n, size_t bytes)
{
    pthread_mutex_lock(&q->lock);
    bool fits = fits_locked(q, n, bytes);
    if (fits) {
        q->messages += n;
        q->bytes += bytes;
    }
    pthread_mutex_unlock(&q->lock);
    return fits;
}

void leat__quota_give(leat__quota *q, uint64_t n, size_t bytes)
{
    pthread_mutex_lock(&q->lock);
    q->messages -= n;
    q->bytes -= bytes;
    if (q->waiting > 0 && leat__quota_roomy(q->messages, q->bytes, q->opts))
        pthread_cond_broadcast(&q->room);
    pthread_mutex_unlock(&q->lock);
}

bool leat__quota_wait(leat__quota *q, size_t n, size_t bytes,
                      int64_t deadline_ns)
{
    bool more = true;
    pthread_mutex_lock(&q->lock);
    q->waiting++;
    while (more && !q->closed && !fits_locked(q, n, bytes))
        more = leat__cond_wait(&q->room, &q->lock, deadline_ns);
    q->waiting--;
    bool ok = q->closed || fits_locked(q, n, bytes);
    pthread_mutex_unlock(&q->lock);
    return ok;
}

void leat__quota_close(leat__quota *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_broadcast(&q->room);
    pthread_mutex_unlock(&q->lock);
}

leat_code leat__quota_say(uint64_t messages, size_t bytes,
                          const leat_topic_opts *o, const char *topic,
                          leat_error *err)
{
    return leat__fail(err, LEAT_EFULL,
                      "topic '%s': %llu messages of %zu bytes have no outcome "
                      "yet, the bounds are %d and %zu: publish less, or raise "
                      "max_queued",
                      topic, (unsigned long long)messages, bytes, o->max_queued,
                      o->max_queued_bytes);
}

leat_code leat__quota_full(leat__quota *q, const char *topic, leat_error *err)
{
    pthread_mutex_lock(&q->lock);
    uint64_t messages = q->messages;
    size_t bytes = q->bytes;
    pthread_mutex_unlock(&q->lock);
    return leat__quota_say(messages, bytes, q->opts, topic, err);
}
