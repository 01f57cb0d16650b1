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
#include "topic/quota.h"
#include "topic/ripen.h"
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

/* What a topic's retention means for what is sent. */
typedef struct leat__policy {
    int64_t cap, maxlen; /* 0: none                                        */
    size_t large;        /* longer values go beside the log; SIZE_MAX: none */
    size_t unusual;      /* messages of so many bytes need a closer look   */
    size_t words;        /* of XADD before the fields                      */
} leat__policy;

struct leat__producer {
    leat_topic *topic;
    leat_client *client;
    const leat_topic_opts *opts;
    uint32_t first, span; /* the partitions it sends to */
    leat__quota *quota;   /* shared with others; NULL: it is alone */
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
    leat_bytes *heads; /* of the command for each partition of the span, made
                          when needed */
    leat__policy policy;

    /* Under `io`. */
    pthread_mutex_t io;
    leat_conn *conn; /* NULL: away */
    leat__spot sent; /* behind what was given to it */
    leat__verdict *verdicts;
    uint64_t mask;
    uint64_t replied; /* below this there are verdicts,  */
    uint64_t sure;    /* and below this they are final   */
    uint64_t refused; /* of the last with a verdict: not done, to go again */
    uint64_t back;    /* did certainly not leave, or is to go again        */
    bool no_memory;   /* for the next command            */
    bool full;        /* more is queued than the window takes */
    unsigned taught;  /* scripts that it knows: bits of enum leat__by    */
    leat__ripening ripening;
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
    int64_t policy_ns;   /* when to look at it again */
    unsigned lost_looks; /* by when the topic was made again last */
};

/* One for `span` partitions from `first` on. */
leat__producer *leat__producer_open(leat_topic *t, uint32_t first,
                                    uint32_t span, leat__quota *q,
                                    leat_error *err);

/* The end: nothing more is accepted; the thread has ended and everything left
 * has its outcome; the memory is gone.  A callback may publish until the last
 * step, also to another of the topic's producers. */
void leat__producer_stop(leat__producer *p);
void leat__producer_end(leat__producer *p);
void leat__producer_free(leat__producer *p);

/* Nothing accepted so far lingers. */
void leat__producer_hurry(leat__producer *p);

/* Wait until what was accepted so far has its outcome.  How many have none by
 * the deadline. */
uint64_t leat__producer_settled(leat__producer *p, int64_t deadline_ns);

/* The first failure since the last call, of those without a callback. */
void leat__producer_failure(leat__producer *p, leat_error *out);

/* How long the end of a topic may take. */
enum { LEAT__PRODUCER_CLOSE_MS = 5000 };

/* ---- producer_accept.c ------------------------------------------------ */

/* partition NULL means the topic's choice. */
leat_code leat__producer_publish(leat__producer *p, const uint32_t *partition,
                                 const leat_msg *m, size_t n,
                                 leat_published_fn *fn, void *arg,
                                 leat_error *err);
leat_code leat__producer_publish_later(leat__producer *p,
                                       const uint32_t *partition,
                                       const leat_msg *m, int64_t delay_ms,
                                       leat_published_fn *fn, void *arg,
                                       leat_error *err);

/* What a publish is for, and the way to its bytes. */
typedef struct leat__offer {
    const uint32_t *partition; /* NULL: as the topic chooses     */
    bool each;                 /* there is one for every message */
    const leat_msg *m;
    size_t n;
    leat_published_fn *fn;
    void *arg;
    int64_t delay_ms;    /* of `later`                                      */
    bool later;          /* to wait beside the log                          */
    int64_t deadline_ns; /* to be sent; 0: from when the connection is lost */
    size_t size;         /* of all commands, once encoded */
} leat__offer;

/* For who publishes to several at once, all or nothing: with the lock held,
 * encode into the backlog; take it in, which says what to do after the lock is
 * let go; do it. */
leat_code leat__producer_put_locked(leat__producer *p, leat__offer *o,
                                    leat_error *err);
int leat__producer_accept_locked(leat__producer *p, const leat__offer *o);
void leat__producer_hand_over(leat__producer *p, int plan);

/* LEAT_ETOOBIG: there will never be room for so much. */
leat_code leat__producer_check(const leat_topic *t, size_t n, size_t size,
                               leat_error *err);
leat_code leat__producer_closing(const leat_topic *t, leat_error *err);

/* ---- producer_script.c ------------------------------------------------ */

/* What holds from now on. */
void leat__producer_policy_locked(leat__producer *p, const leat_retention *r);

/* The message that was encoded last needs a script to be added. */
bool leat__producer_scripted(const leat__producer *p);

/* Put it into the backlog as a call of that script, or of the one that lets it
 * wait. */
leat_code leat__producer_put_script(leat__producer *p, leat__offer *o,
                                    uint32_t partition, size_t sum,
                                    leat_error *err);

/* ---- producer_send.c -------------------------------------------------- */

/* Under io.  Give the connection what it takes and write it; false: somebody
 * has to come back to it. */
bool leat__producer_send(leat__producer *p);

/* The connection has broken: what it said last is final, but for what is to go
 * again. */
void leat__producer_broken(leat__producer *p);

/* Why the last messages are to go again; NULL: none are. */
const leat__verdict *leat__producer_refusal(const leat__producer *p);

/* ---- producer_run.c --------------------------------------------------- */

void *leat__producer_run(void *arg);
void leat__producer_poke(leat__producer *p);

/* After the thread has ended: everything left gets its outcome. */
void leat__producer_finish(leat__producer *p);

/* Is this a thread that tells this topic's outcomes, so that it would wait for
 * itself? */
bool leat__producer_inside(const leat_topic *t);

#endif
