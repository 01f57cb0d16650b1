/*
 * conn.h: the inside of a connection.  See conn.c for how it works.
 */
#ifndef LEAT_REDIS_CONN_H
#define LEAT_REDIS_CONN_H

#include "base/buf.h"
#include "redis/line.h"
#include "redis/outq.h"
#include "redis/resp.h"
#include "redis/slots.h"
#include "redis/transport.h"

enum leat__call_kind {
    LEAT__CALL_PLAIN,
    LEAT__CALL_MULTI,
    LEAT__CALL_QUEUED, /* inside MULTI: answered QUEUED, then by EXEC */
    LEAT__CALL_EXEC,
    LEAT__CALL_SUBSCRIBE /* answered by `left` confirmations            */
};

/* A command that waits for its answer. */
typedef struct leat__pending {
    uint64_t end;        /* stream offset behind its last byte          */
    int64_t deadline_ns; /* for the answer; set when it is flushed      */
    int64_t block_ms;    /* the server waits this long by itself        */
    leat_reply_fn *fn;
    void *arg;
    struct leat__script_call *script; /* to send it again with its body */
    uint32_t left;
    enum leat__call_kind kind;
} leat__pending;

typedef struct leat__tx_call {
    leat_reply_fn *fn;
    void *arg;
} leat__tx_call;

/* What must follow writes before they are told as done.  See proof.h. */
typedef struct leat__proof {
    bool synced;  /* that they are on disk                            */
    int replicas; /* that they are on so many replicas                */
    int64_t ms;   /* how long that may take                           */
} leat__proof;

/* Of a connection to a node of a cluster: whom its redirects are told. */
typedef struct leat__home {
    struct leat__cluster *cluster;
    uint64_t key; /* the hash of the key it was made for; 0: none */
    int epoll;    /* of the bundle it belongs to; 0: none         */
} leat__home;

struct leat_conn {
    leat__transport *t; /* NULL: broken, `why` says why                 */
    struct leat__bundle *bundle; /* leads to a whole cluster; t is NULL  */
    leat__home *home;            /* leads to a node of one               */
    leat_error why;
    unsigned forks; /* the fork count it was made in */
    bool stale;     /* not to be lent again                               */
    bool asking;    /* ASKING is sent before each command                 */
    bool replica;   /* the server said so when it was connected           */
    int protocol;   /* 2 or 3                                             */
    int64_t born_ns;
    int64_t timeout_ms;
    leat__proof proof; /* that the client's durability needs          */

    leat__outq out;
    char *in; /* received bytes: in_start..in_end are not yet taken     */
    size_t in_start, in_end, in_cap;
    leat__resp resp;
    bool hold; /* the reply just given is to outlive this reading      */
    bool held; /* resp holds such a reply: reset before the next       */

    leat__pending *ring; /* ring[i & mask], head..tail; flushed up to   */
    uint32_t mask;       /* `stamped`                                   */
    uint32_t head, tail, stamped;
    uint32_t window;
    int64_t blocked_ns; /* that unanswered commands let the server wait  */

    leat_error failed; /* first failure of a command without callback   */
    bool in_tx;
    bool no_tx; /* the server refused MULTI                             */
    leat_error tx_error; /* first command the server refused to queue   */
    leat__tx_call *tx;
    uint32_t tx_count, tx_cap; /* answered with QUEUED; room           */
    uint32_t tx_sent;          /* since begin                          */

    leat_push_fn *push_fn;
    void *push_arg;
    uint32_t subscriptions;
    uint64_t pushes; /* messages handed to push_fn */

    leat_conn *next; /* in the pool */
    leat__line line; /* in the client's list of what is open */
};

typedef struct leat__conn_opts {
    int64_t timeout_ms;
    uint32_t window;
    leat__resp_limits limits;
} leat__conn_opts;

/* A connection over t, which it takes on success. */
leat_conn *leat__conn_new(leat__transport *t, const leat__conn_opts *opts,
                          leat_error *err);
void leat__conn_free(leat_conn *c);

/* Give up: close the socket and tell every waiting command what is known of
 * it.  cause says why; returns its code. */
leat_code leat__conn_break(leat_conn *c, const leat_error *cause);

/* May it be lent again?  Sound, nothing in flight, nothing unread, no
 * transaction, no subscription. */
bool leat__conn_clean(const leat_conn *c);

/* One reply has been decoded: give it to whom it belongs.  LEAT_OK, or the
 * connection is broken. */
leat_code leat__conn_answer(leat_conn *c, const leat_reply *r);

/* Queue an encoded command of `size` bytes that the caller has written at
 * leat__outq_room. */
void leat__conn_push(leat_conn *c, size_t size, const leat__pending *p);

/* A command must have a word, and be of a size that a server takes. */
leat_code leat__conn_command_size(const leat_bytes *argv, size_t n,
                                  size_t *size, leat_error *err);

/* A forked child may not use what is the parent's. */
leat_code leat__conn_forked(const leat_conn *c, leat_error *err);

/* The server refused a command with this text, which is *e: is it of use
 * still, and what does it say of the cluster? */
void leat__conn_refused(leat_conn *c, leat_bytes text, const leat_error *e);

/* Where `asking` is set: let the next command through.  Called by whoever
 * pushes commands by itself; leat_conn_send does it. */
leat_code leat__conn_ask(leat_conn *c, leat_error *err);

/* Refuse early: broken, forked, or no room in the window after reading. */
leat_code leat__conn_ready(leat_conn *c, leat_error *err);

/* Tell a command without an answer, or with one, how it ended. */
void leat__conn_tell(leat_conn *c, leat_reply_fn *fn, void *arg,
                     const leat_reply *r, const leat_error *e);

/* A server looks ten times a second who has waited long enough. */
enum { LEAT__BLOCK_SLACK_MS = 200 };

static inline int64_t leat__pending_wait_ns(const leat__pending *p)
{
    if (p->block_ms <= 0)
        return 0;
    return (p->block_ms + LEAT__BLOCK_SLACK_MS) * INT64_C(1000000);
}

static inline uint32_t leat__conn_waiting(const leat_conn *c)
{
    return c->tail - c->head;
}

/* Reads without a look at deadlines and at other connections: poll tells again
 * of what is left. */
enum { LEAT__READS_AT_ONCE = 64 };

/* Write without blocking; and read once, with `wait` for a moment: *got is
 * false when there was nothing to read. */
leat_code leat__conn_write_some(leat_conn *c, leat_error *err);
leat_code leat__conn_read_some(leat_conn *c, bool wait, bool *got,
                               leat_error *err);

/* May a command be queued from inside a callback?  Then sending it neither
 * reads nor writes, and the reply stays. */
bool leat__conn_roomy(const leat_conn *c);

/* Write what can be written, from inside a callback: whatever happens, the
 * reply stays.  A failure is found again by the next flush. */
void leat__conn_write_early(leat_conn *c);

/* Flush, and read until at most in_flight commands wait. */
leat_code leat__conn_await(leat_conn *c, size_t in_flight, leat_error *err);

/* When the answer that comes next must be there; INT64_MAX: none is awaited.
 * For callers that poll by themselves: expire breaks the connection once it
 * has passed. */
int64_t leat__conn_deadline(const leat_conn *c);
leat_code leat__conn_expire(leat_conn *c, leat_error *err);

/* Hand over what has been received. */
leat_code leat__conn_process(leat_conn *c, leat_error *err);

/* One command and its answer: begin, queue it with leat__call_done and the
 * leat__call as its argument, then wait.  The reply is held by the connection
 * until its next use. */
typedef struct leat__call {
    leat_conn *conn;
    const leat_reply *reply;
    leat_error err;
} leat__call;

leat_code leat__call_begin(leat_conn *c, leat_error *err);
void leat__call_done(void *arg, const leat_reply *r, const leat_error *e);
leat_code leat__call_wait(leat__call *call, const leat_reply **reply,
                          leat_error *err);

/* The server does not know the script: queue the call with its body. */
bool leat__script_resend(leat_conn *c, const leat__pending *p);
void leat__script_forget(struct leat__script_call *call);
/* Its first key; empty: it has none. */
leat_bytes leat__script_key(const struct leat__script_call *call);

/* Room to remember one command more until EXEC.  It is made before the command
 * is queued: once EXEC has left, lacking it would no longer stop anything. */
leat_code leat__tx_reserve(leat_conn *c, leat_error *err);

/* EXEC's answer has come, or the connection broke with c->tx waiting. */
void leat__tx_finish(leat_conn *c, const leat_reply *r);
void leat__tx_abort(leat_conn *c, const leat_error *e);
void leat__tx_refused(leat_conn *c, const leat_reply *r); /* MULTI was */
void leat__tx_queued(leat_conn *c, const leat__pending *p, const leat_reply *r);

/* Is r a pushed message or a confirmation?  If so it is dealt with. */
bool leat__pubsub_take(leat_conn *c, const leat_reply *r);

#endif
