/*
 * source.h: the table every source fills, and what the generic half does.
 *
 * An implementation embeds struct leat_source as its first member and fills
 * ops and name when it is opened.  The comments of the table are the
 * specification; tests/unit/run/scripted.c is its smallest implementation.
 */
#ifndef LEAT_MESSAGE_SOURCE_H
#define LEAT_MESSAGE_SOURCE_H

#include "message/delivery.h"
#include <leat/log.h>
#include <leat/metrics.h>

/*
 * A settlement as a piece of a larger script, so that effects and settlement
 * are one step.  `lua` is the constant text of a Lua expression that gives a
 * table of two functions over this part's own keys and args, which are
 * strings counted from 1:
 *
 *   { check = function(keys, args) ... end,   nil: it can be settled; else a
 *                                             string saying why not ("STALE")
 *     apply = function(keys, args) ... end }  cannot fail after a good check
 *
 * All checks of a commit run before its first write.  Keys share one slot.
 * What the views point to lives until the delivery is settled.
 */
typedef struct leat__settle_part {
    const char *lua;
    const leat_bytes *keys;
    size_t key_count;
    const leat_bytes *args;
    size_t arg_count;
} leat__settle_part;

typedef struct leat_source_ops {
    /* Hand out up to max (at least 1) deliveries, waiting up to wait_ms for
     * the first; more are not waited for.  How many; 0 for an empty wait, -1
     * with *err filled.  One thread at a time.  Each is filled and armed, and
     * room for its settlement is reserved.  After a failure nothing is lost:
     * what was fetched is handed out by a later call.  A source whose
     * settlements pile up without outcome hands out less: that is its bound.
     *
     * A lost connection is the source's to mend; it says so by a retriable
     * error, after which receive is called again.  A final error is not
     * retriable. */
    int (*receive)(leat_source *s, leat_delivery **out, int max,
                   int64_t wait_ms, leat_error *err);

    /* The receive under way returns at once, or, if there is none, the next
     * one does.  Any thread, beside anything. */
    void (*interrupt)(leat_source *s);

    /* Take d and settle it.  Any thread.  Must not fail, block or wait for the
     * server: settlements are collected and sent in batches, soon, also when
     * nobody calls receive.  The reason is copied, cut or left out where there
     * is no room.  Once the outcome is known, leat__source_settled is called,
     * exactly once for each delivery, also when the source is closed first.
     *
     * Of an ordered source (see below) the lane of a delivery that is nacked
     * or released stands still until all its deliveries that are out are
     * settled and the delay is over; then it goes on with the first that is
     * neither acknowledged nor rejected, in order.  This holds for every
     * receive that begins after settle has returned. */
    void (*settle)(leat_source *s, leat_delivery *d,
                   const leat__settlement *how);

    /* Keep n deliveries, none settled before the call returns, for another ms
     * from now; outcome[i] is LEAT_OK, LEAT_ESTALE when the delivery is
     * certainly not ours, or what else went wrong.  A code other than LEAT_OK
     * says that nothing is known of any.  Gives up by itself after ms / 3, as
     * the caller has to act before the deadline.  Any thread.  NULL: where
     * deliveries have no deadline. */
    leat_code (*extend)(leat_source *s, leat_delivery *const *d, size_t n,
                        int64_t ms, leat_code *outcome, leat_error *err);

    /* Wait until every settlement has its outcome.  The first bad one since
     * the last flush is returned; LEAT_ETIMEOUT when some have none yet. */
    leat_code (*flush)(leat_source *s, int64_t timeout_ms, leat_error *err);

    /* Readable when a receive would find something.  NULL: there is none. */
    int (*fd)(leat_source *s);

    /* Describe how d, not settled, is acknowledged by a commit script, which
     * afterwards settles it by LEAT__SETTLE_COMMITTED.  NULL: not offered. */
    leat_code (*settle_part)(leat_source *s, const leat_delivery *d,
                             leat__settle_part *part, leat_error *err);

    /* Nobody reads d's memory any more.  Any thread. */
    void (*recycle)(leat_source *s, leat_delivery *d);

    /* Release what is out at once, as far as the server can be reached
     * quickly, and free s.  No other call is under way. */
    void (*close)(leat_source *s);
} leat_source_ops;

/* How a settlement ended: err is NULL when the server took it.  Any thread,
 * inside any call of the source; must not call the source.  d is readable
 * during the call. */
typedef void leat__settled_fn(void *arg, const leat_delivery *d,
                              const leat_error *err);

struct leat_source {
    const leat_source_ops *ops;
    const char *name;  /* for logs and metrics; lives as long as the source */
    const char *group; /* likewise; NULL: it has none                       */
    bool ordered;      /* a nack must not be overtaken: see settle          */
    leat_logger log;   /* for a runner without its own, and                 */
    leat_metrics *metrics; /* likewise; NULL: none                          */
    leat__settled_fn *on_settled;
    void *settled_arg;
};

/* Be told of outcomes; before the first receive. */
void leat__source_on_settled(leat_source *s, leat__settled_fn *fn, void *arg);

/* For sources: d's settlement has its outcome.  Tells and drops d. */
void leat__source_settled(leat_source *s, leat_delivery *d,
                          const leat_error *err);

/* Extend and take over the new deadlines, counted from before the call. */
leat_code leat__source_extend(leat_source *s, leat_delivery *const *d, size_t n,
                              int64_t ms, leat_code *outcome, leat_error *err);

/* LEAT_ENOTSUP where the source cannot be part of a commit script. */
leat_code leat__source_settle_part(const leat_delivery *d,
                                   leat__settle_part *part, leat_error *err);

#endif
