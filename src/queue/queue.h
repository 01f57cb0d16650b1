/*
 * queue.h: the inside of a queue handle.  See keys.h for what is on the server.
 *
 *   queue.c    opening, settings
 *   profile.c  whose keys and bytes;  redowl.c, redowl_pack.c  those of redowl
 *   redowl_apart.c  of a cluster, without scripts;  redowl_find.c  their names
 *   call.c     one script, asked until it is answered; lanes
 *   send.c     messages in
 *   receive.c  messages out, waiting
 *   batch.c    what was received, in one piece of memory
 *   settle.c   ack, change, reject
 *   hold.c     a thread that keeps messages hidden while they are worked on
 *   care.c     redrive, purge, remove, stats
 *   list.c     names
 *   reaper.c   a thread that gives back what expired
 *   mover.c    dead letters to another queue
 *   tell.c     events through another client;  watch.c  hearing them
 *   source.c, source_settle.c, sink.c   the contracts of message/
 */
#ifndef LEAT_QUEUE_QUEUE_H
#define LEAT_QUEUE_QUEUE_H

#include "base/buf.h"
#include "base/list.h"
#include "base/uuid.h"
#include "queue/profile.h"
#include "redis/proof.h"
#include "redis/script.h"
#include "redis/shape.h"
#include "redis/waker.h"
#include <pthread.h>
#include <stdatomic.h>

/* A line of calls, one at a time, each numbered: see call.c. */
typedef struct queue_lane {
    struct queue_lane *next;
    uint64_t number;  /* of the call under way, or of one in doubt */
    int64_t asked_ns; /* before that was first sent               */
    int max;          /* messages that it may bring               */
    bool doubt;
    char name[LEAT__QUEUE_NONCE];
} queue_lane;

typedef enum queue_line {
    QUEUE_SEND,
    QUEUE_TAKE,
    QUEUE_TAKE_DEAD,
    QUEUE_CHANGE,
    QUEUE_LINES_
} queue_line;

/* Waits for one of the queue's channels; kept for the next who waits. */
typedef struct queue_wait {
    leat__link link;
    leat__waiter *waiter;
    int event; /* where it also tells; -1: nowhere yet */
    bool used, dead;
} queue_wait;

typedef struct queue_meters {
    leat_counter *sent, *received, *acked, *requeued, *dead, *stale;
    leat_gauge *visible, *delayed, *in_flight, *letters, *oldest;
} queue_meters;

typedef struct leat__reaper leat__reaper;
typedef struct queue_holder queue_holder;

struct leat_queue {
    leat_client *client; /* borrowed */
    const queue_profile *profile;
    char *name;
    char prefix[LEAT__QUEUE_PREFIX_MAX + 1];
    leat_queue_opts opts; /* the handle's own part                     */
    leat__key due;        /* the key of every script                   */
    unsigned forks;
    bool fifo;
    bool apart; /* its keys are in different slots: see redowl_apart.c */
    bool moves; /* the mover's: what it sends was received */
    char who[LEAT__QUEUE_WHO]; /* the incarnation that was opened; "": none */
    const char *events;
    _Atomic int64_t deaf_ns; /* nobody listens, it is believed until then */

    pthread_mutex_t lock;
    leat_queue_opts kept; /* the settings, as last seen                */
    char *dead_queue;     /* of kept                                   */
    int64_t created_ms;
    queue_lane *lanes[QUEUE_LINES_];
    leat__list waits;
    unsigned interrupts;
    unsigned receiving;  /* receives that wait, or may          */
    bool interrupt_kept; /* there was none: the last is for the next */
    leat__uuid7_gen ids;
    queue_meters meters;

    queue_holder *holder; /* NULL: nothing was held yet */
    leat__reaper *reaper; /* NULL: none */
    leat__link reaped;    /* in the reaper's list; its lock covers the next */
    uint64_t told;        /* the last lot of events that it was told of     */
    int64_t mute_ns;      /* its event client was away: not before that     */
    int64_t requeued_seen, dead_seen; /* -1: not yet             */
};

/* Messages in one script that has more to do for each: of a fifo queue, or with
 * ids.  So none keeps the server for long. */
enum { LEAT__QUEUE_LOT = 400 };

/* LEAT_EFORK in a forked child. */
leat_code leat__queue_own(const leat_queue *q, leat_error *err);

/* Are these a name and a prefix, of a profile that is there? */
leat_code leat__queue_check(const char *name, const leat_queue_opts *o,
                            leat_error *err);

/* And can it be where the client leads? */
leat_code leat__queue_check_on(const leat_client *c, const char *name,
                               const leat_queue_opts *o, leat_error *err);

/* ---- call.c ----------------------------------------------------------- */

/* Read a script's answer; LEAT_ENOMEM makes the call one in doubt. */
typedef leat_code queue_read_fn(void *arg, const leat_reply *r,
                                leat_error *err);

typedef struct queue_call {
    leat_client *client;
    const char *name;       /* the queue's, for errors */
    leat_bytes key;         /* due, of its shard       */
    const leat_bytes *keys; /* of several shards, instead */
    size_t key_count;
    const leat__script *script;
    const leat_bytes *args;
    size_t n;
    char *again;         /* becomes '1' where an earlier try may have worked */
    int64_t deadline_ns; /* 0: three times the client's timeout              */
    bool looks;          /* it changes nothing                               */
    queue_read_fn *read;
    void *arg;
} queue_call;

leat_code leat__queue_call(const queue_call *c, leat_error *err);

/* The keys that a script of a shard is sent with.  While a slot moves, a node
 * has some of its keys, and a script that finds out for itself what it needs
 * would stop half way.  So on a cluster it also names a key that never is: a
 * node with a part of the slot then refuses it (TRYAGAIN), before its first
 * step.  `whole` is memory for that. */
enum { LEAT__QUEUE_KEYS = 2 };
size_t leat__queue_keys(leat_client *client, leat_bytes due, leat__key *whole,
                        leat_bytes keys[LEAT__QUEUE_KEYS]);

/* How a call ended. */
typedef struct queue_answer {
    const queue_call *call;
    leat_code rc;
    leat_error err;
    leat_error unknown; /* of an earlier try */
    leat__proof want;
    bool answered; /* in this try */
    bool early;    /* the proof came before the answer: it proves nothing */
    bool over;
} queue_answer;

/* Several at once, in one round trip where all goes well; again, those that
 * can be asked again, until the deadline.  Only `call` is filled in before. */
void leat__queue_calls(leat_client *client, queue_answer *a, size_t n,
                       int64_t deadline_ns);

/* The same of a handle: client, name and key are its own. */
leat_code leat__queue_ask(leat_queue *q, const leat__script *s,
                          const leat_bytes *args, size_t n, char *again,
                          int64_t deadline_ns, queue_read_fn *read, void *arg,
                          leat_error *err);

/* 64 random bits, as text. */
leat_code leat__queue_nonce(char out[LEAT__QUEUE_NONCE], leat_error *err);

/* A lane of one's own, and back; doubt: nobody knows how its call ended.  For:
 * one that brings no more than so many messages. */
queue_lane *leat__lane_take(leat_queue *q, queue_line line, leat_error *err);
queue_lane *leat__lane_take_for(leat_queue *q, queue_line line, int max,
                                leat_error *err);
void leat__lane_give(leat_queue *q, queue_line line, queue_lane *lane,
                     bool doubt);
void leat__lanes_free(queue_lane *lane);

/* There is no queue of that name, or it is not the one that is meant. */
leat_code leat__queue_none(const char *name, leat_error *err);
leat_code leat__queue_other(const char *name, leat_error *err);

/* The first number of an answer is not 0: say why. */
leat_code leat__queue_refused(const leat_queue *q, const leat_reply *r,
                              leat_error *err);

/* An answer of this shape (redis/shape.h); LEAT_EPROTO otherwise, which becomes
 * LEAT_EUNKNOWN of a call that does not only look. */
leat_code leat__queue_expect(const leat_reply *r, const char *shape,
                             leat_error *err);

/* What is left of an answer to a settlement: of each of n messages 1 done, 0
 * its receipt is stale; or nothing, and *each is false: all are done. */
leat_code leat__queue_each(leat_reply_iter it, size_t n, bool *each,
                           leat_error *err);

/* Events that the caller is to tell may be behind the rest of an answer. */
#define LEAT__QUEUE_TOLD "[(tt)]?"

/* ---- batch.c ---------------------------------------------------------- */

/* From [_, _, member, value, ...]. */
leat_queue_batch *leat__batch_read(const leat_reply *r, bool fifo,
                                   leat_error *err);

/* The same of any profile; dead: from [_, _, member, value, reason, ...]. */
leat_queue_batch *leat__batch_read_as(const queue_profile *p,
                                      const leat_reply *r, bool fifo, bool dead,
                                      leat_error *err);
leat_queue_batch *leat__batch_none(leat_error *err);

/* Of n receipts and values, each behind the other. */
leat_queue_batch *leat__batch_of(const queue_profile *p,
                                 const leat_bytes *parts, size_t n,
                                 leat_error *err);

/* They are visible again then. */
void leat__batch_until(leat_queue_batch *b, int64_t deadline_ms);

/* ---- receive.c -------------------------------------------------------- */

/* As leat_queue_receive; they are hidden until then, at least.  Once stop is
 * true and the queue was poked the wait is over; NULL: leat_queue_interrupt
 * does that. */
leat_queue_batch *leat__queue_take(leat_queue *q, const leat_receive_opts *o,
                                   const atomic_bool *stop, int64_t *until_ns,
                                   leat_error *err);
void leat__queue_poke(leat_queue *q);

void leat__waits_free(leat_queue *q);

/* ---- settle.c --------------------------------------------------------- */

typedef enum queue_change {
    QUEUE_HIDE,
    QUEUE_BACK,
    QUEUE_FREE, /* back, and this receive does not count  */
    QUEUE_FAIL, /* hide; if it was the last receive, bury; ms below 0: as */
                /* the queue's policy says                                */
    QUEUE_BURY
} queue_change;

enum { LEAT__REASON_MAX = 255 };

/* What is to become of messages.  deadline_ns 0: the usual one. */
typedef struct queue_order {
    bool ack;
    queue_change how;
    int64_t ms, deadline_ns;
    const char *reason; /* of a failure or a dead letter, or NULL */
} queue_order;

/* ms as a script takes it; below 0: as the queue's policy says. */
leat_bytes leat__queue_delay(char text[LEAT__NUMBER], int64_t ms);

leat_code leat__queue_settle(leat_queue *q, const queue_order *o,
                             const leat_bytes *receipts, size_t n,
                             leat_code *outcome, leat_error *err);
queue_order leat__queue_failed(const leat_queue *q, int64_t delay_ms,
                               const char *reason);
leat_code leat__queue_change(leat_queue *q, queue_change how,
                             const leat_bytes *receipts, size_t n, int64_t ms,
                             int64_t deadline_ns, leat_code *outcome,
                             leat_error *err);
leat_code leat__queue_ack(leat_queue *q, const leat_bytes *receipts, size_t n,
                          int64_t deadline_ns, leat_code *outcome,
                          leat_error *err);

/* ---- redowl_apart.c --------------------------------------------------- */

/* LEAT_ENOTSUP of a queue whose keys are in different slots. */
leat_code leat__queue_whole(const leat_queue *q, leat_error *err);

/* What the scripts do, one by one; packed: by its profile. */
leat_code leat__apart_send(leat_queue *q, leat_bytes id, leat_bytes packed,
                           leat_error *err);
leat_queue_batch *leat__apart_take(leat_queue *q, int max, int64_t hide_ms,
                                   leat_error *err);
leat_code leat__apart_settle(leat_queue *q, const queue_order *o,
                             leat_bytes receipt, leat_error *err);
leat_code leat__apart_expire(leat_queue *q, int max, int64_t *n,
                             leat_error *err);
leat_code leat__apart_stats(leat_queue *q, leat_queue_stats *out,
                            leat_error *err);

/* ---- hold.c ----------------------------------------------------------- */

void leat__holder_close(leat_queue *q);

/* ---- reaper.c --------------------------------------------------------- */

/* Have what expires given back until it leaves. */
leat_code leat__reaper_join(leat_queue *q, leat_error *err);
void leat__reaper_leave(leat_queue *q);

/* Something of this queue is due in ms. */
void leat__reaper_tell(leat_queue *q, int64_t ms);

/* ---- mover.c ---------------------------------------------------------- */

/* Move some dead letters to the other queue, if there is one.  True: there may
 * be more. */
bool leat__mover_step(leat_queue *q);
bool leat__mover_wanted(leat_queue *q);

/* ---- tell.c ----------------------------------------------------------- */

/* To ask who listens costs a tenth of a script.  So that nobody does is
 * believed for so long, and a watch counts as open after that time. */
enum { LEAT__QUEUE_DEAF_MS = 100 };

/* How a frequent script is to tell events: see lua/tell.lua. */
const char *leat__queue_telling(leat_queue *q);

/* Copy the events at the end of an answer.  None: nobody listened, which q, if
 * it is not NULL, keeps in mind. */
leat_code leat__told_copy(leat_queue *q, leat__buf *to, const leat_reply *r,
                          leat_error *err);

/* Of such a copy, which is not empty, the first queue's events. */
leat_bytes leat__told_of_one(leat_bytes told, leat_bytes *queue);

/* Publish a copy.  False: it may not have been heard, and who waits for it
 * waited about so long. */
enum { LEAT__TELL_MS = 2000 };
bool leat__told_publish(leat_client *to, const queue_profile *p,
                        const char *prefix, leat_bytes told);

/* ---- queue.c ---------------------------------------------------------- */

/* The kept settings out of the fields of conf. */
typedef struct queue_conf {
    leat_queue_opts kept; /* dead_queue: in the buffer below */
    int64_t created_ms, paused_ms;
    bool there, gone;
    char who[LEAT__QUEUE_WHO];
    char dead_queue[LEAT_NAME_MAX + 1];
} queue_conf;

leat_code leat__conf_read(const leat_reply *fields, queue_conf *out,
                          leat_error *err);
void leat__queue_learn(leat_queue *q, const queue_conf *conf);

leat_code leat__queue_meters(leat_queue *q, leat_error *err);

#endif
