/*
 * pool.h: few threads for any number of queues.
 *
 * A pool runs one handler for every queue under a prefix: those that are there,
 * those that other processes make later, and what was sent before it started.
 * The queues with something to do stand in an index that sending keeps, so that
 * a pool asks for work and never looks through queues.  Queues of redowl have
 * none: a pool hears of them by their events, and goes through the keys of the
 * server when it starts and then again and again.
 *
 *   static leat_verdict play(leat_ctx *x, void *arg)
 *   {
 *       leat_bytes room = leat_delivery_from(leat_ctx_delivery(x));
 *       return move(arg, room, leat_ctx_msg(x)) ? LEAT_ACK : LEAT_NACK;
 *   }
 *   leat_pool *p = leat_pool_start(client, play, game,
 *       &(leat_pool_opts){ .prefix = "game" }, &err);
 *   ...
 *   leat_pool_stop(p, 0, &err);
 *
 * A queue's messages run one after another in their order, queues beside each
 * other, each in its turn: none is served a second time while another waits.  A
 * turn is one message; of handlers that are quick as many as fit into 2 ms, 64
 * at most, as to fetch them one by one would cost more than to handle them.
 * Any number of pools, in any number of processes, share the work; what a dead
 * one had comes back when its visibility runs out, first in its queue.
 *
 * Threads: leat_pool is shared.
 */
#ifndef LEAT_POOL_H
#define LEAT_POOL_H

#include <leat/queue.h>
#include <leat/run.h>

LEAT_BEGIN

typedef struct leat_pool leat_pool;

/* How many times as long as those of others a queue's turns are; 0: 1.  Asked
 * once for each queue, on the pool's receiving thread, which takes nothing
 * meanwhile; no lock is held.  It may look at the pool and use its client; it
 * must not stop the pool. */
typedef int leat_pool_weight_fn(void *arg, leat_bytes queue);

typedef struct leat_pool_opts {
    const char *prefix; /* of the queues' keys; NULL: "leat", or "redowl"   */
    int workers;        /* handlers at once; 0: 10                          */
    int min_workers;    /* threads kept when there is nothing to do; 0: 0   */
    int queue_workers;  /* of one queue at once, in all pools; 0: 1, and    */
                        /* its order is kept                                */
    int64_t visibility_ms;     /* 0: each queue's                           */
    int64_t retry_ms;          /* a message that was not acknowledged comes */
                               /* again after so long; 0: as its queue says, */
                               /* of redowl 1 s                             */
    bool go_on;                /* its queue does not wait for it            */
    int64_t max_processing_ms; /* as of leat_run_opts                       */
    int64_t drain_ms;
    int64_t worker_idle_ms; /* a thread over min_workers ends then; 0: 30 s */
    int64_t queue_idle_ms;  /* what is known of a queue is forgotten then;  */
                            /* 0: 5 min                                     */
    int64_t poll_ms; /* asks at least that often, whether told or not;      */
                     /* 0: 500                                              */
    leat_pool_weight_fn *weight; /* NULL: all the same                      */
    void *weight_arg;
    leat_logger log;       /* NULL fn: the client's                         */
    leat_metrics *metrics; /* borrowed; NULL: the client's                  */
    bool no_events;        /* publish none of what it does                  */
    leat_queue_profile profile; /* of the queues: see docs/redowl.md        */
    int max_receives;           /* of redowl: then to the dead letters;     */
                                /* 0: never.  Others have their own         */
} leat_pool_opts;

/* Start.  LEAT_NACK and leat_ctx_fail give a message back after retry_ms,
 * leat_ctx_nack after its own delay, until max_receives of its queue is
 * reached; LEAT_REJECT puts it to the dead letters. */
LEAT_API leat_pool *leat_pool_start(leat_client *c, leat_handler_fn *fn,
                                    void *arg, const leat_pool_opts *opts,
                                    leat_error *err);

/* As leat_run_stop: no more is taken, handlers end, the rest is given back.
 * What it says is of the whole life of the pool: the first settlement that was
 * not done.  Its message comes again when its visibility runs out, unless it is
 * already somebody else's (LEAT_ESTALE) or was settled and the answer lost
 * (LEAT_EUNKNOWN); LEAT_ENOMEM and the others: it certainly was not. */
LEAT_API leat_code leat_pool_stop(leat_pool *p, int64_t drain_ms,
                                  leat_error *err);

typedef struct leat_pool_stats {
    uint64_t received, acked, nacked, rejected, stale;
    uint64_t running; /* handlers at work                                   */
    uint64_t threads; /* workers that live                                  */
    uint64_t queues;  /* known, see queue_idle_ms                           */
    bool failed;      /* receiving failed for good: stop, and see why       */
} leat_pool_stats;

LEAT_API void leat_pool_stats_get(leat_pool *p, leat_pool_stats *out);

/* Of one queue. */
typedef struct leat_pool_queue {
    leat_bytes name;
    uint64_t received, acked, nacked, rejected;
    int running;
    int64_t idle_ms; /* since it last had something                         */
} leat_pool_queue;

/* One call for each queue that is known, inside this one and without a lock: fn
 * may look at the pool and must not stop it. */
typedef void leat_pool_queue_fn(void *arg, const leat_pool_queue *q);
LEAT_API void leat_pool_each(leat_pool *p, leat_pool_queue_fn *fn, void *arg);

LEAT_END
#endif
