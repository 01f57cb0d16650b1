/*
 * queue.h: work queues with a visibility timeout.
 *
 * A received message stays in the queue, hidden, until it is acknowledged or
 * its visibility runs out; then it is received again.  At least once.  Each
 * receive gives its own receipt, and only the last one settles: a slow receiver
 * cannot delete what another one has.
 *
 *   leat_queue *q = leat_queue_open(client, "orders",
 *       &(leat_queue_opts){ .max_receives = 3 }, &e);
 *   leat_queue_send(q, &(leat_msg){ .body = B }, NULL, NULL, &e);
 *
 *   leat_queue_batch *b = leat_queue_receive(q,
 *       &(leat_receive_opts){ .max = 10, .wait_ms = 20000 }, &e);
 *   for (size_t i = 0; b && i < leat_queue_batch_count(b); i++) {
 *       const leat_queue_item *it = leat_queue_batch_at(b, i);
 *       if (work(&it->msg))
 *           leat_queue_ack(q, it->receipt, &e);
 *   }
 *   leat_queue_batch_free(b);
 *
 * With a handler and threads: leat_run_start(leat_queue_source(q, NULL, &e),
 * ...), or leat_pool_start for any number of queues.
 *
 * Every step is one script on the server, whose clock alone counts.  A key of
 * the queue that holds something else than it should is LEAT_EDECODE, and
 * nothing is changed.
 * Threads: leat_queue is shared; a batch is confined.
 */
#ifndef LEAT_QUEUE_H
#define LEAT_QUEUE_H

#include <leat/log.h>
#include <leat/message.h>
#include <leat/metrics.h>
#include <leat/redis.h>
#include <leat/source.h>

LEAT_BEGIN

enum {
    LEAT_QUEUE_BATCH = 1000, /* messages in one call           */
    LEAT_VISIBILITY_MAX_MS = 12 * 3600 * 1000,
    LEAT_RECEIPT_MAX = 512,      /* bytes of a receipt             */
    LEAT_REDOWL_NAME_MAX = 512,  /* of a queue of redowl, in bytes */
    LEAT_REDOWL_PREFIX_MAX = 128 /* of its keys                    */
};

/* Of a queue of redowl: ten years. */
#define LEAT_REDOWL_VISIBILITY_MAX_MS INT64_C(315360000000)

typedef struct leat_queue leat_queue;

/* Whose keys and bytes. */
typedef enum leat_queue_profile {
    LEAT_QUEUE_NATIVE = 0,
    LEAT_QUEUE_REDOWL /* shares queues with Go programs that use redowl: */
                      /* settings are the handle's, see docs/queues.md   */
} leat_queue_profile;

/* The settings of a queue are kept with it.  Opening takes zero for "as it
 * is", and for a new queue for the default. */
typedef struct leat_queue_opts {
    const char *prefix; /* of its keys; NULL: "leat", of redowl "redowl" */
    leat_queue_profile profile;
    bool must_exist; /* LEAT_ENOENT instead of making it              */

    int64_t visibility_ms;  /* hidden after a receive; 0: 30 s               */
    int max_receives;       /* then to the dead letters; 0: 10, of redowl    */
                            /* never; -1: never                              */
    int64_t delay_ms;       /* hidden after a send; 0: none                  */
    int64_t ttl_ms;         /* dropped, and counted, when older; 0: never    */
    size_t max_message;     /* bytes of an encoded message; 0: 1 MiB; of     */
                            /* redowl of the body; 0: 64 MiB                 */
    bool fifo;              /* strict order in each message group            */
    bool content_dedup;     /* the body's hash is the dedup id               */
    int64_t dedup_ms;       /* how long an id is remembered; 0: 5 min        */
    const char *dead_queue; /* another queue for the dead letters, fed by a */
                            /* mover; NULL: they stay in this one's slot    */

    bool no_reaper;      /* this handle gives back nothing that expired or */
                         /* was delayed, not even to a receive that waits: */
                         /* others do, or leat_queue_requeue_expired_once; */
                         /* of redowl each receive does, as redowl's does  */
    bool no_events;      /* publish none                                  */
    bool durable_events; /* also in a capped stream                       */
    leat_client *event_client; /* kept until the close; NULL: the same      */
    leat_logger log;       /* NULL fn: the client's                         */
    leat_metrics *metrics; /* borrowed; NULL: the client's                  */
    const char *id; /* of leat_queue_remove: the one that is meant; NULL:   */
                    /* whichever is there                                   */

    /* How long a message that failed waits, where nobody says: kept, too. */
    int64_t retry_delay_ms;     /* the first time; 0: 1 s, -1: not at all   */
    int64_t retry_max_delay_ms; /* the longest; 0: 60 s                     */
    leat_backoff_kind backoff;
    leat_choice jitter; /* any time up to that; unset: LEAT_YES             */
} leat_queue_opts;

/* Open a queue, making it if it is new.  LEAT_EEXIST: it has other settings
 * than those given, and the error names the first; see leat_queue_alter. */
LEAT_API leat_queue *leat_queue_open(leat_client *c, const char *name,
                                     const leat_queue_opts *opts,
                                     leat_error *err);

/* Change the settings that are not 0; -1 takes a bound away, but visibility and
 * dedup window have to be.  Messages that are there keep the delay and deadline
 * they have. */
LEAT_API leat_code leat_queue_alter(leat_queue *q, const leat_queue_opts *opts,
                                    leat_error *err);

/* A paused queue hands out nothing to anybody, whoever comes and goes: receives
 * wait, a pool passes it over.  Sending, settling what is in flight, and its
 * dead letters go on as ever.  Resumed, those who wait are woken at once.
 * Twice is as good as once.  LEAT_ENOTSUP: the profile keeps no settings. */
LEAT_API leat_code leat_queue_pause(leat_queue *q, leat_error *err);
LEAT_API leat_code leat_queue_resume(leat_queue *q, leat_error *err);

/* What was received and not settled comes back when its time is over.  NULL is
 * accepted. */
LEAT_API void leat_queue_close(leat_queue *q);

LEAT_API const char *leat_queue_name(const leat_queue *q);

/* ---- sending ---------------------------------------------------------- */

typedef struct leat_queue_send_opts {
    int64_t delay_ms; /* hidden so long; 0: the queue's, -1: not at all     */
    leat_bytes group; /* of a FIFO queue; empty: the message's key          */
    leat_bytes dedup; /* empty: none, or the content's                      */
} leat_queue_send_opts;

/* How one message of a batch ended. */
typedef struct leat_queue_sent {
    leat_code code; /* LEAT_OK, LEAT_EUNKNOWN, or certainly not           */
    char id[64];    /* the message's; of the first one where it is a      */
    bool duplicate; /* duplicate, which is not sent again                 */
} leat_queue_sent;

/* Send one message and wait for the answer.  The headers are its attributes. */
LEAT_API leat_code leat_queue_send(leat_queue *q, const leat_msg *m,
                                   const leat_queue_send_opts *opts,
                                   leat_queue_sent *sent, leat_error *err);

/* n at once, in one script; of a fifo queue, or with ids or dedup ids, in one
 * for each 400, and none after one that failed.  opts and sent, each of n or
 * NULL.  The first bad outcome is returned. */
LEAT_API leat_code leat_queue_send_batch(leat_queue *q, const leat_msg *m,
                                         size_t n,
                                         const leat_queue_send_opts *opts,
                                         leat_queue_sent *sent,
                                         leat_error *err);

/* ---- receiving -------------------------------------------------------- */

typedef struct leat_queue_item {
    leat_msg msg;
    leat_bytes receipt;      /* of this receive                              */
    leat_bytes group;        /* of a FIFO queue                              */
    uint32_t receives;       /* this one counted                             */
    int64_t sent_ms;         /* the server's clock                           */
    const leat_error *error; /* why it could not be decoded; NULL: it could  */
    leat_bytes reason; /* of a dead letter: why it failed last, or was       */
                       /* rejected; empty: nobody said                       */
    int64_t deadline_ms; /* it is visible again then, or a little later, */
                         /* by this machine's clock; 0: of a peek        */
} leat_queue_item;

typedef struct leat_queue_batch leat_queue_batch;

typedef struct leat_receive_opts {
    int max;               /* 0: 1; at most LEAT_QUEUE_BATCH, of which come  */
                           /* as many as have 32 MiB, 400 of a fifo queue    */
    int64_t wait_ms;       /* for the first                                  */
    int64_t visibility_ms; /* 0: the queue's                                 */
    bool dead;             /* from the dead letters, hidden as others are    */
    int cancel_fd;         /* the wait ends when this is readable, and it is */
                           /* not read: one call's own interrupt, as that of */
                           /* leat_ctx_cancel_fd; 0: none                    */
} leat_receive_opts;

/* NULL on failure; a batch of none is an empty wait. */
LEAT_API leat_queue_batch *leat_queue_receive(leat_queue *q,
                                              const leat_receive_opts *opts,
                                              leat_error *err);
LEAT_API size_t leat_queue_batch_count(const leat_queue_batch *b);
LEAT_API const leat_queue_item *leat_queue_batch_at(const leat_queue_batch *b,
                                                    size_t i);
LEAT_API void leat_queue_batch_free(leat_queue_batch *b);

/* Make every receive that waits now return early, or the next that would wait
 * if none does.  Of several threads one that is between two receives is not
 * reached: raise a flag that they look at, and interrupt until all have ended,
 * or give each call its cancel_fd.  Sources are not meant: see
 * leat_source_interrupt. */
LEAT_API void leat_queue_interrupt(leat_queue *q);

/* The message is done.  LEAT_ESTALE: it is no longer this receipt's;
 * LEAT_EINVAL: no receipt, or another queue's.  Of redowl all that is not blank
 * may be a receipt, and one that nobody gave is stale. */
LEAT_API leat_code leat_queue_ack(leat_queue *q, leat_bytes receipt,
                                  leat_error *err);

/* outcome, of n or NULL: LEAT_OK, LEAT_ESTALE or LEAT_EINVAL for each.  The
 * first that is not LEAT_OK is returned; the others are done. */
LEAT_API leat_code leat_queue_ack_batch(leat_queue *q,
                                        const leat_bytes *receipts, size_t n,
                                        leat_code *outcome, leat_error *err);

/* Can this be a receipt of the queue?  LEAT_EINVAL says why not: so a call that
 * was refused with LEAT_EINVAL though it can was given a wrong time. */
LEAT_API leat_code leat_queue_receipt_check(const leat_queue *q,
                                            leat_bytes receipt,
                                            leat_error *err);

/* Hide it for ms from now; 0 gives it back at once.  LEAT_EINVAL of a time that
 * cannot be: nothing was changed.  Of redowl ms may be negative: its time is
 * over, and it comes back when somebody next looks for what expired; until then
 * its receipt is good. */
LEAT_API leat_code leat_queue_change_visibility(leat_queue *q,
                                                leat_bytes receipt, int64_t ms,
                                                leat_error *err);
LEAT_API leat_code leat_queue_change_batch(leat_queue *q,
                                           const leat_bytes *receipts, size_t n,
                                           int64_t ms, leat_code *outcome,
                                           leat_error *err);

/* It failed: it comes again after delay_ms, with -1 when the queue's policy
 * says, or is a dead letter if it was the last receive.  The reason may be
 * NULL; 255 bytes of it are kept until the message is done, and a dead letter
 * has that of the last failure.  Of redowl -1 is at once. */
LEAT_API leat_code leat_queue_nack(leat_queue *q, leat_bytes receipt,
                                   int64_t delay_ms, const char *reason,
                                   leat_error *err);

/* It will never succeed: to the dead letters, whatever max_receives says.  The
 * reason may be NULL and is kept with it: 255 bytes of it. */
LEAT_API leat_code leat_queue_reject(leat_queue *q, leat_bytes receipt,
                                     const char *reason, leat_error *err);

/* Keep a message hidden while it is worked on: a thread of the queue extends it
 * at once and then at a third of its visibility until the hold ends, which is
 * before the queue is closed.  ms: as of a receive.  LEAT_ESTALE: it is no
 * longer this receipt's. */
typedef struct leat_queue_hold leat_queue_hold;
LEAT_API leat_queue_hold *leat_queue_hold_start(leat_queue *q,
                                                leat_bytes receipt, int64_t ms,
                                                leat_error *err);

/* No longer ours, or its time is over as nothing could extend it: give up. */
LEAT_API bool leat_queue_hold_lost(leat_queue_hold *h);

/* NULL is accepted. */
LEAT_API void leat_queue_hold_end(leat_queue_hold *h);

/* Look at up to max messages from the head, without receiving them. */
LEAT_API leat_queue_batch *leat_queue_peek(leat_queue *q, int max, bool dead,
                                           leat_error *err);

/* ---- the dead letters, and care --------------------------------------- */

/* A handle looks after the queue that it opened.  LEAT_ENOENT of redrive,
 * purge, alter and pause: it is gone, or another one of that name is there. */

typedef struct leat_redrive_opts {
    int64_t max;  /* 0: all that are there now                             */
    double rate;  /* a second; 0: as fast as can be                        */
    bool dry_run; /* only count                                            */
} leat_redrive_opts;

/* Back to the queue, the oldest first, receives counted from 0.  *moved counts
 * also when it fails; calling it again goes on. */
LEAT_API leat_code leat_queue_redrive(leat_queue *q,
                                      const leat_redrive_opts *opts,
                                      int64_t *moved, leat_error *err);

/* Give back what expired, without waiting for the reaper; *n how many: 0 if
 * nothing has, else about max (0: 1000), as those of one receive come back
 * together.  Call it until there are none. */
LEAT_API leat_code leat_queue_requeue_expired_once(leat_queue *q, int max,
                                                   int64_t *n, leat_error *err);

/* Drop all messages (not the dead letters; with `dead` only those), in steps;
 * those in flight with them. */
LEAT_API leat_code leat_queue_purge(leat_queue *q, bool dead, int64_t *dropped,
                                    leat_error *err);

enum { LEAT_QUEUE_ID = 24 }; /* room for an id */

/* Which queue has the name: its incarnation; "" where the profile has none.
 * Also of one whose removal was cut off. */
LEAT_API leat_code leat_queue_id(leat_client *c, const char *name,
                                 const leat_queue_opts *opts,
                                 char id[LEAT_QUEUE_ID], leat_error *err);

/* Remove the queue with all its messages; not one that is made of that name
 * meanwhile.  With opts.id only that one: whoever tries again after
 * LEAT_EUNKNOWN removes no namesake, which is LEAT_ESTALE.  Handles get
 * LEAT_ENOENT. */
LEAT_API leat_code leat_queue_remove(leat_client *c, const char *name,
                                     const leat_queue_opts *opts,
                                     leat_error *err);

/* What expired counts as visible, or dead after too many receives, whether it
 * was given back yet or not. */
typedef struct leat_queue_stats {
    int64_t visible, delayed, in_flight, dead;
    int64_t oldest_ms; /* age of the oldest visible one; -1: none            */
    int64_t sent, received, acked, requeued, to_dead, expired, redriven;
    int64_t purged; /* dropped by hand                                      */
    int64_t lost;   /* of which the body was gone: not by leat              */
    int64_t created_ms;
    leat_queue_opts settings; /* the kept ones; strings are owned by q       */
    int64_t paused_ms; /* since when it hands out nothing; 0: it does        */
} leat_queue_stats;

LEAT_API leat_code leat_queue_stats_get(leat_queue *q, leat_queue_stats *out,
                                        leat_error *err);

/* The names of the queues under a prefix, sorted, one call for each, when all
 * have been read, inside this one and without a lock: fn may open and remove
 * queues.  One that is made or removed meanwhile may be among them. */
typedef void leat_queue_name_fn(void *arg, const char *name);
LEAT_API leat_code leat_queue_list(leat_client *c, const char *prefix,
                                   leat_queue_name_fn *fn, void *arg,
                                   leat_error *err);

/* The same of a profile and a prefix.  redowl keeps no register: all keys of
 * the server are gone through, and a queue is found while it holds
 * something. */
LEAT_API leat_code leat_queue_list_of(leat_client *c,
                                      const leat_queue_opts *opts,
                                      leat_queue_name_fn *fn, void *arg,
                                      leat_error *err);

/* ---- events ----------------------------------------------------------- */

typedef struct leat_queue_event {
    const char *type; /* sent received requeued to_dlq dlq_received          */
                      /* dlq_redriven acked                                  */
    leat_bytes queue, message_id;
    int64_t at_ms;
    int64_t receives; /* -1: the event has none                              */
} leat_queue_event;

/* missed: some may have been lost before this one.  Runs on the watch's thread,
 * which hears nothing meanwhile, without a lock: it may use the client and its
 * queues; it must not close the watch. */
typedef void leat_queue_event_fn(void *arg, const leat_queue_event *e,
                                 bool missed);

typedef struct leat_queue_watch leat_queue_watch;

/* Hear of a queue, or with name NULL of every queue under the prefix: of all
 * that happens from now on; fn runs on a thread of the watch.  Goes on after a
 * lost connection; `durable` reads the capped stream and misses nothing that is
 * still in it. */
LEAT_API leat_queue_watch *
leat_queue_watch_open(leat_client *c, const char *name,
                      const leat_queue_opts *opts, bool durable,
                      leat_queue_event_fn *fn, void *arg, leat_error *err);
LEAT_API void leat_queue_watch_close(leat_queue_watch *w);

/* ---- as source and sink ----------------------------------------------- */

typedef struct leat_queue_source_opts {
    int batch;             /* received at once; 0: 100                       */
    int64_t visibility_ms; /* 0: the queue's                                 */
    bool dead;
} leat_queue_source_opts;

LEAT_API leat_source *leat_queue_source(leat_queue *q,
                                        const leat_queue_source_opts *opts,
                                        leat_error *err);
LEAT_API leat_sink *leat_queue_sink(leat_queue *q, leat_error *err);

LEAT_END
#endif
