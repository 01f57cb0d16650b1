/*
 * source.h: what hands out deliveries, and what takes messages.
 *
 * Every noun that holds messages can be opened as a source and as a sink, and
 * the verbs mean the same everywhere: publish, receive, ack, nack(delay),
 * extend, reject(reason).
 *
 * A delivery is one handing-over of one message.  Settling takes it: it is
 * sent in batches, and the outcome (a stale receipt, say) comes by the
 * source's callback or by leat_source_flush.
 *
 * Threads: a source is received from by one thread at a time; deliveries may
 * be settled and extended from any thread, each by one at a time.
 */
#ifndef LEAT_SOURCE_H
#define LEAT_SOURCE_H

#include <leat/message.h>

LEAT_BEGIN

typedef enum leat_choice { LEAT_UNSET = 0, LEAT_YES, LEAT_NO } leat_choice;

/* How long a message that failed waits, each time. */
typedef enum leat_backoff_kind {
    LEAT_BACKOFF_UNSET = 0,   /* LEAT_BACKOFF_EXPONENTIAL, of what is new   */
    LEAT_BACKOFF_EXPONENTIAL, /* doubled with every failure                 */
    LEAT_BACKOFF_FIXED
} leat_backoff_kind;

typedef struct leat_source leat_source;
typedef struct leat_sink leat_sink;
typedef struct leat_delivery leat_delivery;

/* Where a message stands: the stream entry and its index in a packed one. */
typedef struct leat_position {
    uint64_t ms;
    uint64_t seq;
    uint32_t index;
} leat_position;

/* ---- deliveries ------------------------------------------------------- */

LEAT_API const leat_msg *leat_delivery_msg(const leat_delivery *d);
LEAT_API leat_position leat_delivery_position(const leat_delivery *d);

/* Name of the stream, topic, queue or table it came from. */
LEAT_API leat_bytes leat_delivery_from(const leat_delivery *d);

/* Its partition; -1 where the source has none. */
LEAT_API int32_t leat_delivery_partition(const leat_delivery *d);

/* Exact, from 1. */
LEAT_API uint32_t leat_delivery_attempt(const leat_delivery *d);
LEAT_API bool leat_delivery_redelivered(const leat_delivery *d);

/* The dead letter that it was, "PARTITION:ID", until it was replayed; attempts
 * are counted from then on.  Empty for one that was none. */
LEAT_API leat_bytes leat_delivery_replayed_from(const leat_delivery *d);

/* Grows with every change of owner: store it with your own writes and refuse
 * a smaller one.  0 where the source has no owners. */
LEAT_API uint64_t leat_delivery_fence(const leat_delivery *d);

/* Milliseconds until the delivery is taken away, unless extended; -1: never. */
LEAT_API int64_t leat_delivery_left_ms(const leat_delivery *d);

/* Why it could not be decoded; NULL for a good one.  The message then carries
 * the raw fields as headers and no body: reject it. */
LEAT_API const leat_error *leat_delivery_error(const leat_delivery *d);

/* Settle: each takes d and queues the settlement, which cannot fail for lack of
 * memory or server.  LEAT_ESTALE: d was settled before; LEAT_EINVAL: a negative
 * delay, and d is still yours.
 *   ack     it is done
 *   nack    it failed; again after the delay
 *   fail    it failed; again when the source's policy says, or never more
 *   reject  it will never succeed
 * A reason may be NULL, and is kept where failures are kept: 255 bytes of
 * it. */
LEAT_API leat_code leat_delivery_ack(leat_delivery *d);
LEAT_API leat_code leat_delivery_nack(leat_delivery *d, int64_t delay_ms);
LEAT_API leat_code leat_delivery_fail(leat_delivery *d, const char *reason);
LEAT_API leat_code leat_delivery_reject(leat_delivery *d, const char *reason);

/* Keep it for another ms from now, and wait for the answer.  LEAT_ESTALE: it is
 * no longer ours. */
LEAT_API leat_code leat_delivery_extend(leat_delivery *d, int64_t ms,
                                        leat_error *err);

/* ---- sources ---------------------------------------------------------- */

/* Up to max deliveries, waiting up to wait_ms for the first.  Returns how
 * many; 0 is an empty wait, -1 a failure with *err filled. */
LEAT_API int leat_source_receive(leat_source *s, leat_delivery **out, int max,
                                 int64_t wait_ms, leat_error *err);

/* Make the receive under way on another thread return early, or the next one if
 * there is none. */
LEAT_API void leat_source_interrupt(leat_source *s);

/* Wait until all that was settled has its outcome.  The first bad outcome
 * since the last flush is returned. */
LEAT_API leat_code leat_source_flush(leat_source *s, int64_t timeout_ms,
                                     leat_error *err);

/* Readable when a receive would find something; -1 where there is none. */
LEAT_API int leat_source_fd(leat_source *s);

/* Release what is unsettled at once, and close.  NULL is accepted. */
LEAT_API void leat_source_close(leat_source *s);

/* ---- sinks ------------------------------------------------------------ */

/* How one published message ended: err NULL and its position, failed, or
 * LEAT_EUNKNOWN.  Runs on a thread of the sink's or the topic's, one after
 * another, or inside flush and close.  It may publish, also to the same, which
 * is LEAT_EFULL where it would have to wait; a flush of the same is
 * LEAT_EINVAL; it must not close it.  No other outcome is told meanwhile. */
typedef void leat_published_fn(void *arg, const leat_position *at,
                               const leat_error *err);

/* Hand over n messages; they are copied.  fn runs once for each. */
LEAT_API leat_code leat_sink_publish(leat_sink *k, const leat_msg *m, size_t n,
                                     leat_published_fn *fn, void *arg,
                                     leat_error *err);
LEAT_API leat_code leat_sink_flush(leat_sink *k, int64_t timeout_ms,
                                   leat_error *err);
LEAT_API void leat_sink_close(leat_sink *k);

LEAT_END
#endif
