/*
 * delivery.h: one handing-over of one message, as sources make it.
 *
 * A source embeds this struct in its own, keeps it in pooled memory, fills it
 * and hands it out.  Its life:
 *
 *   idle --arm--> out --settle--> settled --outcome known, drop--> idle
 *
 * `settled` stays true until the source arms the struct again, so a second
 * settle of the same delivery is answered by LEAT_ESTALE as long as the memory
 * was not handed out anew.  References keep the message readable after the
 * settlement: the runner that takes a message from a slow handler holds one,
 * because the handler is still reading.
 */
#ifndef LEAT_MESSAGE_DELIVERY_H
#define LEAT_MESSAGE_DELIVERY_H

#include <assert.h>
#include <leat/source.h>
#include <stdatomic.h>

typedef enum leat__settle {
    LEAT__SETTLE_ACK = 0,
    LEAT__SETTLE_NACK,
    LEAT__SETTLE_REJECT,
    LEAT__SETTLE_RELEASE,  /* given back unprocessed: no attempt is counted */
    LEAT__SETTLE_COMMITTED /* a commit script has settled it: only forget it */
} leat__settle;

typedef struct leat__settlement {
    leat__settle verdict;
    int64_t delay_ms;   /* for a nack                                   */
    bool by_policy;     /* for a nack: the source decides how long      */
    const char *reason; /* borrowed for the call, may be NULL           */
} leat__settlement;

struct leat_delivery {
    leat_msg msg; /* a view into memory that lives as long as this */
    leat_source *source;
    leat_bytes from;
    leat_position position; /* within a lane it only grows              */
    uint64_t fence;
    uint64_t lane;           /* serial with its equals; 0: no lane       */
    uint32_t turn;           /* so many of a lane run while others wait; */
                             /* 0: as long as the runner likes           */
    const leat_error *error; /* why it could not be decoded, or NULL     */
    uint32_t attempt;        /* from 1                                   */
    uint32_t partition;      /* counted from 1; 0: the source has none   */
    bool redelivered;
    leat_bytes replayed; /* the dead letter it was; empty: none          */

    _Atomic int64_t deadline_ns; /* monotonic; INT64_MAX: never          */
    atomic_uint refs;
    atomic_bool settled;
    atomic_bool stale;   /* an extend found out that it is not ours   */
    leat_delivery *next; /* for whoever holds it                      */
};

/* Make a filled delivery ready to be handed out. */
static inline void leat__delivery_arm(leat_delivery *d, leat_source *s,
                                      int64_t deadline_ns)
{
    assert(d->attempt >= 1);
    d->source = s;
    d->next = NULL;
    atomic_store_explicit(&d->deadline_ns, deadline_ns, memory_order_relaxed);
    atomic_store_explicit(&d->refs, 1, memory_order_relaxed);
    atomic_store_explicit(&d->stale, false, memory_order_relaxed);
    atomic_store_explicit(&d->settled, false, memory_order_release);
}

/* Settle; takes d.  LEAT_ESTALE: it was settled before, and nothing is done. */
leat_code leat__delivery_settle(leat_delivery *d, const leat__settlement *how);

/* One more and one fewer holder of the memory; the last drop gives it back to
 * the source's recycle. */
void leat__delivery_keep(leat_delivery *d);
void leat__delivery_drop(leat_delivery *d);

/* Before, at or after: -1, 0, 1. */
int leat__position_cmp(leat_position a, leat_position b);

#endif
