/*
 * quota.h: what a topic's producers share.
 *
 * max_queued and max_queued_bytes are the topic's, however many connections its
 * messages take; and outcomes are told one at a time, as with one producer.
 * Threads: shared.
 */
#ifndef LEAT_TOPIC_QUOTA_H
#define LEAT_TOPIC_QUOTA_H

#include "base/error.h"
#include <leat/topic.h>
#include <pthread.h>

typedef struct leat__quota {
    const leat_topic_opts *opts;
    pthread_mutex_t lock;
    pthread_cond_t room;
    uint64_t messages;
    size_t bytes;
    int waiting;
    bool closed;
    pthread_mutex_t telling; /* held around callbacks */
} leat__quota;

leat_code leat__quota_init(leat__quota *q, const leat_topic_opts *opts,
                           leat_error *err);
void leat__quota_release(leat__quota *q);

/* Is there room; and it is taken, or not; and it is free again. */
bool leat__quota_fits(leat__quota *q, size_t n, size_t bytes);
bool leat__quota_take(leat__quota *q, size_t n, size_t bytes);
void leat__quota_give(leat__quota *q, uint64_t n, size_t bytes);

/* Wait for so much room, or the end; false: there was none in time.  Who takes
 * it first is another matter. */
bool leat__quota_wait(leat__quota *q, size_t n, size_t bytes,
                      int64_t deadline_ns);

/* Nobody waits any more. */
void leat__quota_close(leat__quota *q);

/* LEAT_EFULL: what is held, and what may be. */
leat_code leat__quota_full(leat__quota *q, const char *topic, leat_error *err);
leat_code leat__quota_say(uint64_t messages, size_t bytes,
                          const leat_topic_opts *o, const char *topic,
                          leat_error *err);

/* Who waits for room is not woken for one message each: it would fill it at
 * once and wait again. */
static inline bool leat__quota_roomy(uint64_t messages, size_t bytes,
                                     const leat_topic_opts *o)
{
    enum { SLACK = 8 }; /* an eighth is free */
    uint64_t most = (uint64_t)o->max_queued;
    return messages <= most - most / SLACK &&
           bytes <= o->max_queued_bytes - o->max_queued_bytes / SLACK;
}

#endif
