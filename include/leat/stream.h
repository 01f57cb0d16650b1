/*
 * stream.h: one Redis stream, published to and read by consumer groups.
 *
 * Nothing is hidden: a message is an entry of the stream, a group is a group of
 * the server, and what is being worked on is in its pending list.  At least
 * once.  There is no order between messages that are worked on at once, and
 * there are no dead letters: rejecting is acknowledging.
 *
 *   leat_stream *orders = leat_stream_open(client, "orders", NULL, &err);
 *   leat_sink *k = leat_stream_sink(orders, NULL, &err);
 *   leat_sink_publish(k, &(leat_msg){ .body = B }, 1, on_confirm, arg, &err);
 *
 *   run = leat_run_start(leat_stream_source(orders, "billing", NULL, &err),
 *                        bill, db, NULL, &err);
 *
 * Threads: leat_stream is shared.
 */
#ifndef LEAT_STREAM_H
#define LEAT_STREAM_H

#include <leat/log.h>
#include <leat/message.h>
#include <leat/metrics.h>
#include <leat/redis.h>
#include <leat/source.h>

LEAT_BEGIN

typedef struct leat_stream leat_stream;

typedef struct leat_stream_opts {
    const leat_codec *codec; /* borrowed; NULL: native                     */
    leat_logger log;         /* NULL fn: the client's                      */
    leat_metrics *metrics;   /* borrowed; NULL: the client's               */
} leat_stream_opts;

/* Open a handle on the stream of that key; nothing is sent.  Close it and what
 * was opened from it before the client. */
LEAT_API leat_stream *leat_stream_open(leat_client *c, const char *name,
                                       const leat_stream_opts *opts,
                                       leat_error *err);

/* Sources and sinks opened from it go on.  NULL is accepted. */
LEAT_API void leat_stream_close(leat_stream *s);

LEAT_API const char *leat_stream_name(const leat_stream *s);

/* ---- publishing ------------------------------------------------------- */

typedef struct leat_stream_sink_opts {
    int window;              /* sent and unconfirmed, a connection; 0: 1024  */
    int max_queued;          /* messages without outcome; 0: 65536           */
    size_t max_queued_bytes; /* 0: 64 MiB                                    */
    bool no_wait;            /* LEAT_EFULL at once where a bound is reached  */
    int64_t max_wait_ms;     /* for room; 0: 30 s, then LEAT_EFULL           */
    int64_t timeout_ms;      /* to be sent, while the server is away;        */
                             /* 0: 30 s, then LEAT_ETIMEOUT                  */
    int connections;         /* 0: 1; with more, messages overtake another   */

    /* Keep only that many entries: the oldest are dropped, read or not.  The
     * server may keep some more, unless it is told to count exactly, which
     * costs it two fifths of its rate.  0: nothing is dropped. */
    int64_t lossy_maxlen;
    bool lossy_exact;
} leat_stream_sink_opts;

/* A sink that appends to the stream.  Messages from any thread are batched and
 * pipelined; each is told exactly once how it ended: added, with its position;
 * certainly not added; or LEAT_EUNKNOWN.  Nothing is sent twice.  Closing it
 * waits up to 5 s for what is on its way. */
LEAT_API leat_sink *leat_stream_sink(leat_stream *s,
                                     const leat_stream_sink_opts *opts,
                                     leat_error *err);

/* Publish n messages on behalf of a delivery, to any sink: once all of them are
 * confirmed d is acknowledged, and if one fails or is unknown it is nacked with
 * that delay.  Takes d.  On failure nothing was accepted and d is yours. */
LEAT_API leat_code leat_stream_forward(leat_sink *k, leat_delivery *d,
                                       const leat_msg *m, size_t n,
                                       int64_t nack_ms, leat_error *err);

/* ---- reading ---------------------------------------------------------- */

typedef struct leat_stream_source_opts {
    const char *consumer; /* stays over restarts: what its earlier life left */
                          /* pending is handed out first; NULL:              */
                          /* host-pid-nonce, whose entries others adopt      */
    const char *start;    /* of a new group: "0" the whole stream, "$" what  */
                          /* comes, an id "MS-SEQ" what comes after it, or   */
                          /* "@MS" since 1970; NULL: "0"                     */
    int batch;            /* entries asked for at once; 0: 100               */
    int64_t block_ms;     /* the longest wait inside the server; 0: 1 s      */
    int64_t claim_ms;     /* look for what others left that often; 0: 30 s   */
    int64_t idle_ms;      /* pending for so long without extend is left;     */
                          /* the same for the whole group; 0: 60 s           */
    int connections;      /* that read; 0: 1; one more does all the rest     */
    int max_in_flight;    /* read and unsettled messages; 0: 1000            */
    bool nack_at_once;    /* a nack without delay comes back at once, not    */
                          /* after idle_ms                                   */
    bool fence_all;       /* check every ack at the server, where others use */
                          /* a shorter idle_ms                               */
} leat_stream_source_opts;

/* Subscribe as one consumer of a group, which is made where there is none.  One
 * handle has one subscription at a time: LEAT_EINVAL for a second.
 *
 * A delivery is ours for idle_ms, or until it is extended, by at most idle_ms.
 * A nack without delay leaves it pending, so that it comes back after idle_ms;
 * with a delay after that, to us or, if we are gone, to whoever looks next.  An
 * entry that packs several messages comes back as a whole. */
LEAT_API leat_source *leat_stream_source(leat_stream *s, const char *group,
                                         const leat_stream_source_opts *opts,
                                         leat_error *err);

/* A nack that comes back at once, whatever the source's default. */
LEAT_API leat_code leat_stream_nack_now(leat_delivery *d);

/* The name it reads by.  Owned by the source, which is one of a stream. */
LEAT_API const char *leat_stream_consumer(const leat_source *source);

typedef struct leat_stream_stats {
    uint64_t received;    /* handed out                                     */
    uint64_t redelivered; /* of these, not for the first time               */
    uint64_t settled;     /* taken by the server                            */
    uint64_t stale;       /* settlements refused: no longer ours            */
    uint64_t deleted;     /* pending entries that were deleted from the     */
                          /* stream: settled, never handed out              */
    uint64_t undecodable; /* entries that are no message                    */
    uint64_t adopted;     /* entries taken over from others                 */
    uint64_t removed;     /* names of dead consumers removed                */
    uint64_t in_flight;   /* read and unsettled messages                    */
} leat_stream_stats;

LEAT_API void leat_stream_stats_get(leat_source *source,
                                    leat_stream_stats *out);

LEAT_END
#endif
