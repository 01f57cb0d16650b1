/*
 * source.h: a queue as a source.
 *
 *   source.c         the table: receive, extend, flush, close
 *   source_settle.c  a thread that sends settlements, many in one script
 *
 * A delivery's life: received -> out -> settled (in the line) -> sent ->
 * outcome told.  Those of one receive share their memory, a lot.
 */
#ifndef LEAT_QUEUE_SOURCE_H
#define LEAT_QUEUE_SOURCE_H

#include "message/outcomes.h"
#include "message/source.h"
#include "queue/queue.h"

enum { QUEUE_DUE_MAX = 10000 }; /* settlements without outcome */

typedef struct source_lot source_lot;

typedef struct source_slot {
    leat_delivery d;
    source_lot *lot;
    leat_bytes receipt;
    struct source_slot *next; /* in the line                 */
    leat__settle verdict;
    int64_t delay_ms;
    char *reason;      /* or NULL */
    bool out;          /* handed out and not settled  */
    struct part *part; /* of a commit script, or NULL */
} source_slot;

struct source_lot {
    leat__link link; /* of the source's */
    leat_queue_batch *batch;
    atomic_uint refs;
    size_t n;
    source_slot slots[];
};

typedef struct queue_source {
    leat_source base;
    leat_queue *q;
    leat_queue_source_opts opts;
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t work; /* something is settled, or the end */
    pthread_cond_t room; /* for more to receive              */
    leat__list lots;
    source_slot *first, *last; /* settled, to be sent */
    leat__outcomes outcomes;
    uint64_t seq;
    atomic_bool interrupted; /* set with the lock held */
    bool closing;
} queue_source;

void *leat__queue_settler(void *source);

/* Give back what is out and not settled. */
void leat__queue_release(queue_source *s);

#endif
