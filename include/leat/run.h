/*
 * run.h: the runner turns a source and a handler into threads.
 *
 * It receives, hands each message to the handler in its lane, settles by the
 * handler's verdict, keeps slow ones by heartbeat, and stops drained.  Within
 * a lane messages run one after another in the order received; lanes run
 * beside each other.
 *
 *   static leat_verdict bill(leat_ctx *x, void *arg)
 *   {
 *       return charge(arg, leat_ctx_msg(x)) ? LEAT_ACK
 *                                           : leat_ctx_nack(x, 5000);
 *   }
 *   leat_run *r = leat_run_start(source, bill, db, NULL, &err);
 *   ...
 *   leat_run_stop(r, 0, &err);
 *
 * Threads: leat_run is shared; leat_ctx is confined to the handler's call.
 */
#ifndef LEAT_RUN_H
#define LEAT_RUN_H

#include <leat/log.h>
#include <leat/metrics.h>
#include <leat/source.h>

LEAT_BEGIN

typedef struct leat_run leat_run;
typedef struct leat_ctx leat_ctx;

typedef enum leat_verdict {
    LEAT_ACK = 0,
    LEAT_NACK,
    LEAT_REJECT,
    LEAT_RELEASE /* not handled: given back, and no attempt is counted */
} leat_verdict;

/* Runs on a thread of the runner's, on several at once for different lanes, and
 * without a lock: it may take its time, publish, send, and look at the runner
 * and its source.  It must not stop the runner, settle the delivery by itself,
 * nor receive from or close the source. */
typedef leat_verdict leat_handler_fn(leat_ctx *x, void *arg);

typedef enum leat_lanes {
    LEAT_LANES_SOURCE = 0, /* as the source says: its partition, or none    */
    LEAT_LANES_KEY,        /* one lane a key; messages without one are free */
    LEAT_LANES_NONE,       /* every message for itself                      */
    LEAT_LANES_ONE         /* all in one line                               */
} leat_lanes;

typedef struct leat_run_opts {
    int threads;       /* handlers at once; 0: 4                 */
    int max_in_flight; /* received and unsettled; 0: 256         */
    int batch;         /* asked of the source at once; 0: 100    */
    leat_lanes lanes;
    int64_t heartbeat_ms;      /* extend that often; 0: a third of what  */
                               /* the delivery has left, and at least at */
                               /* half of it; -1: never                  */
    int64_t max_processing_ms; /* then cancelled and nacked; 0: no limit */
    int64_t drain_ms;          /* for a stop without its own; 0: 30 s;   */
                               /* -1: as long as it takes                */
    leat_logger log;           /* NULL fn: that of the source             */
    leat_metrics *metrics;     /* borrowed; NULL: those of the source     */
} leat_run_opts;

/* A message whose handler runs over max_processing_ms is nacked by the runner,
 * and the handler's verdict, when it comes, is ignored.  The thread is not
 * freed by that, nor is the message's lane: what stands behind waits until the
 * handler returns, or the two would run at once.  Messages without a lane go
 * on with the other threads. */

/* Start; takes the source.  NULL on failure, and the source is still yours.
 * A NULL source is passed on as a failure that *err already describes. */
LEAT_API leat_run *leat_run_start(leat_source *s, leat_handler_fn *fn,
                                  void *arg, const leat_run_opts *opts,
                                  leat_error *err);

/* Stop receiving, release what never started, let handlers finish for drain_ms
 * (0: the option's), raise the cancel token of those still running and wait
 * for them, flush, close the source and free r, whatever the code.
 * LEAT_ETIMEOUT: some handler ran past the deadline.  Otherwise the error that
 * ended receiving for good, if one did, or what the flush said.  Call it once,
 * from any thread but a handler's; NULL is accepted. */
LEAT_API leat_code leat_run_stop(leat_run *r, int64_t drain_ms,
                                 leat_error *err);

/* What the runner is doing. */
typedef struct leat_run_stats {
    uint64_t received; /* = acked + nacked + rejected + released + in flight */
    uint64_t acked, nacked, rejected;
    uint64_t released;  /* given back unprocessed                        */
    uint64_t stale;     /* deliveries found to be no longer ours          */
    uint64_t cancelled; /* taken from a handler past max_processing_ms    */
    uint64_t in_flight; /* received and unsettled                         */
    uint64_t running;   /* threads at work                                */
    bool failed;        /* the source failed for good: stop, and see why  */
} leat_run_stats;

LEAT_API void leat_run_stats_get(leat_run *r, leat_run_stats *out);

/* ---- inside a handler ------------------------------------------------- */

LEAT_API const leat_msg *leat_ctx_msg(const leat_ctx *x);
LEAT_API const leat_delivery *leat_ctx_delivery(const leat_ctx *x);

/* Verdicts with their details: return leat_ctx_nack(x, 5000).  A bare LEAT_NACK
 * is leat_ctx_fail without a reason: the source's policy decides. */
LEAT_API leat_verdict leat_ctx_nack(leat_ctx *x, int64_t delay_ms);
LEAT_API leat_verdict leat_ctx_fail(leat_ctx *x, const char *reason);
LEAT_API leat_verdict leat_ctx_reject(leat_ctx *x, const char *reason);

/* The message is no longer ours or cannot be kept, took too long, or the
 * runner must stop: give up soon.  The fd becomes readable at the same time;
 * it is the runner's and speaks of this message until the handler returns.
 * -1: no descriptor is free. */
LEAT_API bool leat_ctx_cancelled(const leat_ctx *x);
LEAT_API int leat_ctx_cancel_fd(leat_ctx *x);

LEAT_END
#endif
