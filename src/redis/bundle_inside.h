/*
 * bundle_inside.h: what the files of a bundle share.  See bundle.c.
 */
#ifndef LEAT_REDIS_BUNDLE_INSIDE_H
#define LEAT_REDIS_BUNDLE_INSIDE_H

#include "base/list.h"
#include "redis/bundle.h"
#include "redis/cluster.h"
#include "redis/dialer.h"

/* One node. */
typedef struct leat__child {
    leat__address at;
    leat_conn *conn;  /* NULL: not connected, `why` says why          */
    leat__dial *dial; /* an attempt under way                         */
    bool wanted;      /* it serves slots: keep it connected           */
    bool room_wanted; /* epoll tells when its socket takes more       */
    uint32_t index;
    leat__list waiting; /* calls, in order, that have not been queued   */
    leat__backoff backoff;
    int64_t next_ns; /* no attempt before                               */
    int64_t up_ns;   /* when it was connected                           */
    unsigned lives;  /* connections it has had                          */
    leat_error why;
} leat__child;

/* A command, kept until its answer: a redirect sends it again. */
typedef struct leat__routed {
    leat__link link; /* in a child's waiting, or in held */
    struct leat__bundle *bundle;
    leat__child *child; /* where it is; NULL: held */
    leat_reply_fn *fn;
    void *arg;
    int64_t block_ms;
    int64_t born_ns;
    const leat__script *script; /* NULL: a plain command              */
    size_t argc, head;          /* of a script: all words, and where  */
                                /* its numkeys begins                 */
    int slot;                   /* -1: it has no keys                 */
    bool counted;               /* in its slot's pending              */
    uint8_t redirects;
    bool asking;    /* ASKING goes before it                             */
    bool body;      /* EVAL: the node does not know the script           */
    bool proof;     /* of what was answered before                       */
    uint64_t route; /* the only one it may go over; 0: any            */
    size_t size;
    char bytes[];
} leat__routed;

/* While `pending` of its commands are unanswered, a slot belongs to the child
 * of the first of them.  What was answered since the last proof can be proven
 * while all of it was answered over one connection. */
struct leat__bundle_slot {
    uint16_t child; /* index + 1; 0: to be looked up             */
    uint16_t pending : 15;
    uint16_t moving : 1;
    uint16_t done; /* index + 1 of the child that answered last */
    uint16_t life; /* of its connections                        */
    bool dirty;    /* something was answered since the proof    */
    bool torn;     /* over more than one connection             */
};

typedef struct leat__bundle {
    leat_conn *conn; /* its face */
    leat_client *client;
    leat__cluster *cluster;
    leat__child **children;
    uint32_t count, cap;
    int epoll, event;
    unsigned version; /* of the map the children and slots are made of */
    struct leat__bundle_slot *slots;
    leat__list held;     /* calls whose slot is moving, in order        */
    leat__list doomed;   /* proofs that cannot come: to be told         */
    leat__child *sticky; /* for commands without keys                   */
    leat__child *kept;   /* has the reply of the last call              */
    leat__child *pin;    /* of the transaction                          */
    unsigned pin_life;
    int pin_slot;
    leat__child *heard; /* of the subscriptions */
    unsigned heard_life;
    int depth;         /* callbacks that are running */
    uint64_t confined; /* see leat__conn_confine */
    bool impatient, ended;
} leat__bundle;

/* bundle.c */
void leat__routed_end(leat__routed *k, const leat_reply *r,
                      const leat_error *e);
leat_code leat__routed_launch(leat__routed *k, leat__child *child,
                              leat_error *err);
void leat__bundle_pump(leat__child *child);

/* Calls that wait for a node the map no longer leads to go where it leads. */
void leat__bundle_reroute(leat__child *child);
void leat__bundle_doom(leat__bundle *b); /* tell the doomed */

/* bundle_io.c */
leat__child *leat__bundle_child(leat__bundle *b, const leat__address *at,
                                leat_error *err);
void leat__bundle_sync(leat__bundle *b);
leat_code leat__child_need(leat__bundle *b, leat__child *child,
                           leat_error *err);
leat_code leat__child_connected(leat__bundle *b, leat__child *child,
                                leat_error *err);
leat__child *leat__bundle_any(leat__bundle *b);
void leat__child_write(leat__bundle *b, leat__child *child);
leat_code leat__bundle_round(leat__bundle *b, int64_t until_ns,
                             leat_error *err);
void leat__bundle_unkeep(leat__bundle *b);
void leat__bundle_stir(leat__bundle *b); /* whoever polls it wakes up */
leat_code leat__child_absent(const leat__child *child, leat_error *err);

/* bundle_pin.c: a command inside a transaction. */
leat_code leat__bundle_pinned(leat__bundle *b, int slot, leat_bytes key,
                              leat_error *err);

#endif
