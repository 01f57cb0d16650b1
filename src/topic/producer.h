/*
 * producer.h: the inside of a topic's producer.  See producer.c.
 */
#ifndef LEAT_TOPIC_PRODUCER_H
#define LEAT_TOPIC_PRODUCER_H

#include "base/backoff.h"
#include "base/uuid.h"
#include "redis/conn.h"
#include "redis/heir.h"
#include "topic/backlog.h"
#include "topic/loss.h"
#include "topic/topic.h"

#include <pthread.h>

/* How one message ended, until it is told. */
typedef struct leat__verdict {
    uint64_t ms, seq;
    leat_error *text; /* of a failure, owned; NULL: there was no memory */
    leat_code code;
    bool retriable;
} leat__verdict;

enum leat__outcome { LEAT__SENT, LEAT__FAILED, LEAT__UNKNOWN, LEAT__OUTCOMES };

struct leat__producer {
    leat_topic *topic;
    leat_client *client;
    const leat_topic_opts *opts;
    leat_counter *outcomes[LEAT__OUTCOMES];
    leat_gauge *queued;
    int event; /* an eventfd: wakes the sender */
    atomic_bool poked;

    /* Under `lock`.  Messages are counted from the first: those below head have
     * been told, those below next were given to the connection, those below
     * tail were accepted. */
    pthread_mutex_t lock;
    pthread_cond_t room; /* there may be some */
    pthread_cond_t done; /* head has reached flush_at */
    leat__backlog backlog;
    uint64_t head, next, tail;
    size_t bytes; /* of the commands between head and tail */
    int waiting;  /* for room */
    uint64_t flush_at;
    uint64_t hurry; /* below this nothing lingers */
    leat_error failed;
    bool connected, asleep, stopping;
    leat_fields *fields;
    leat__uuid7_gen uuids;
    leat_bytes *heads; /* of the command for each partition, made when needed */

    /* Under `io`. */
    pthread_mutex_t io;
    leat_conn *conn; /* NULL: away */
    leat__spot sent; /* behind what was given to it */
    leat__verdict *verdicts;
    uint64_t mask;
    uint64_t replied; /* below this there are verdicts,  */
    uint64_t sure;    /* and below this they are final   */
    uint64_t back;    /* did certainly not leave         */
    bool no_memory;   /* for the next command            */
    bool full;        /* more is queued than the window takes */
    char ms_text[24]; /* the last id's, up to and with the '-'  */
    size_t ms_size;
    uint64_t ms;
    int64_t linger_until_ns; /* for what is queued; 0: nothing lingers */

    /* The sender's. */
    pthread_t thread;
    leat__spot told; /* behind what was told */
    leat__heir heir;
    leat__backoff wait;
    int64_t since_ns; /* of this connection */
    uint64_t since;   /* head, when it began */
    bool awaited;     /* messages waited for it */
    leat_error why;   /* there is none */
    int64_t lost_ns;  /* by then what was accepted before the loss fails */
    uint64_t seen;    /* tail, at the last look */
    leat__loss *loss;
};

/* The topic's producer, made at first use. */
leat__producer *leat__producer_of(leat_topic *t, leat_error *err);
void leat__producer_close(leat__producer *p);

/* producer_accept.c: partition NULL means the topic's choice. */
leat_code leat__producer_publish(leat__producer *p, const uint32_t *partition,
                                 const leat_msg *m, size_t n,
                                 leat_published_fn *fn, void *arg,
                                 leat_error *err);

leat_code leat__producer_flush(leat__producer *p, int64_t timeout_ms,
                               leat_error *err);

/* producer_send.c: under io.  Give the connection what it takes and write it;
 * false: somebody has to come back to it. */
bool leat__producer_send(leat__producer *p);

/* The connection has broken: what it said last is final. */
void leat__producer_broken(leat__producer *p);

/* producer_run.c */
void *leat__producer_run(void *arg);
void leat__producer_poke(leat__producer *p);

/* After the thread has ended: everything left gets its outcome. */
void leat__producer_finish(leat__producer *p);

static inline bool leat__producer_inside(const leat__producer *p)
{
    return pthread_equal(p->thread, pthread_self());
}

#endif
