/*
 * client.h: the inside of a client.  See client.c and pool.c.
 */
#ifndef LEAT_REDIS_CLIENT_H
#define LEAT_REDIS_CLIENT_H

#include "base/backoff.h"
#include "redis/conn.h"
#include "redis/durability.h"
#include "redis/embedded.h"
#include "redis/handshake.h"
#include "redis/tls.h"
#include "redis/url.h"
#include <pthread.h>

typedef struct leat__waker leat__waker;
typedef struct leat__sentinel leat__sentinel;
typedef struct leat__watch leat__watch;
struct leat__cluster;

/* What is opened from a client, for people. */
typedef enum leat__handle {
    LEAT__A_TOPIC,
    LEAT__A_QUEUE,
    LEAT__A_STREAM,
    LEAT__A_POOL,
    LEAT__A_WATCH,
    LEAT__A_BROWSE,
    LEAT__A_DLQ,
    LEAT__A_CONN, /* the pool counts them itself */
    LEAT__HANDLES_
} leat__handle;

struct leat_client {
    leat__url url;
    char *shown; /* the URL for people */
    char *name, *user, *password;
    leat_client_opts opts; /* with the defaults filled in */
    leat__login login;
    leat__demand demand;
    leat__embedded *embedded;
    leat__tls *tls; /* NULL: plain */
    leat_counter *connects, *failures;
    unsigned forks;

    pthread_mutex_t lock;
    pthread_cond_t freed; /* a connection came back, or the end came */
    pthread_cond_t ended; /* the end came: nobody pauses through it  */
    leat_conn *idle;      /* last used first                         */
    int total;            /* idle, lent and being opened             */
    int waiting;          /* threads inside reserve                  */
    bool closing;
    leat_server server; /* of the newest connection */
    bool warned;        /* of what the server lacks */
    bool opened;        /* a first server was good  */
    bool refused;       /* the last one was not     */
    leat__budget budget;
    leat__waker *waker;          /* made at first use */
    int helpers;                 /* threads that need the client to live */
    int handles[LEAT__HANDLES_]; /* that were opened from it             */
    bool closed;                 /* by the user; closing: nothing is open */
    struct leat__reaper *reaper; /* of its open queues; theirs */

    leat__lines lines;             /* every connection that is open  */
    leat__sentinel *sentinel;      /* NULL: the URL names no service */
    leat__watch *watch;            /* likewise                       */
    struct leat__cluster *cluster; /* NULL: it is none                */
};

/* One try: socket, handshake, facts, rules.  Not counted in the pool. */
leat_conn *leat__client_dial(leat_client *c, int64_t deadline_ns,
                             leat_error *err);

/* The same, to this very server; NULL: the one behind the URL's socket. */
leat_conn *leat__client_dial_at(leat_client *c, const leat__url_host *at,
                                int64_t deadline_ns, leat_error *err);

/* The same, to the server that has this key now.  On a cluster it is good for
 * the keys of one slot only: MOVED and ASK are LEAT_EREADONLY and make it
 * stale, and the next dial leads where they pointed. */
leat_conn *leat__client_dial_key(leat_client *c, leat_bytes key,
                                 int64_t deadline_ns, leat_error *err);

/* Bytes to and from this address, as the URL wants it: with TLS or without. */
leat__transport *leat__client_transport(leat_client *c,
                                        const leat__url_host *at,
                                        int64_t deadline_ns, leat_error *err);

/* Shut down every open connection of the client that keep does not want; their
 * owners see an ordinary break.  How many. */
size_t leat__client_cut(leat_client *c, leat__keep_fn *keep, void *arg);

/* Are keys of different slots on different servers, so that one command cannot
 * name both? */
bool leat__client_clustered(const leat_client *c);

/* Try until it works, an error says that trying is no use, the deadline is
 * over, or the client is closing. */
leat_conn *leat__client_connect(leat_client *c, int64_t deadline_ns,
                                leat_error *err);

/* Sleep, but not through a close; false: it is closing. */
bool leat__client_pause(leat_client *c, int64_t ms, int64_t deadline_ns);

/* Every handle of the parent is refused in a forked child. */
leat_code leat__client_own(const leat_client *c, leat_error *err);

/* Until it is let go of, the client lives, though it may be closed. */
leat_code leat__client_hold(leat_client *c, leat_error *err);
void leat__client_let_go(leat_client *c);

/* handles.c: something is opened from the client, which is not over before that
 * is dropped.  LEAT_ECLOSED, and LEAT_EFORK in a forked child. */
leat_code leat__client_keep(leat_client *c, leat__handle what, leat_error *err);
void leat__client_drop(leat_client *c, leat__handle what);

/* The client's logger and metrics, where a handle has none of its own; metrics
 * may be NULL. */
void leat__client_inherit(const leat_client *c, leat_logger *log,
                          leat_metrics **metrics);

/* pool.c: from now on nothing is lent; and then, without the lock, it ends with
 * the last connection that comes back. */
void leat__client_ending_locked(leat_client *c);
void leat__client_end(leat_client *c);

/* Free what is left once nothing is lent. */
void leat__client_destroy(leat_client *c);

#endif
