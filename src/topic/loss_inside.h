/*
 * loss_inside.h: what loss.c and loss_again.c share.
 */
#ifndef LEAT_TOPIC_LOSS_INSIDE_H
#define LEAT_TOPIC_LOSS_INSIDE_H

#include "topic/judge.h"
#include "topic/loss.h"

#include <stdatomic.h>

typedef struct watch watch;
typedef struct copy copy;
typedef struct told_loss told_loss;

/* A message that is held to be published again. */
struct copy {
    copy *older, *newer; /* of all that are held                            */
    copy *next;          /* of those that are to go again                   */
    watch *watch;
    leat__id id;     /* whose print has it                                  */
    told_loss *lost; /* not NULL: it is to go again                         */
    enum { COPY_WAITS, COPY_DONE, COPY_REFUSED } state;
    leat__id at; /* where it went                                           */
    uint32_t head, size;
    char bytes[]; /* the command                                            */
};

/* A loss until it is told. */
struct told_loss {
    leat_loss loss;
    uint32_t left; /* copies without outcome */
};

/* A partition. */
struct watch {
    leat__loss *l;
    uint32_t partition;
    leat__key log, id;
    char u[LEAT__INCARNATION + 1]; /* of the topic that has the log */
    leat__trail trail;
    copy *again, **again_end;
    leat__proof want; /* for those                                          */
    bool proven;

    /* Seen in the log, when it had counted `added` entries. */
    bool verified, counted;
    leat__print seen;
    uint64_t added;

    /* Under io: a look at `seen` is under way; `then` is the newest by when it
     * was sent. */
    bool looking;
    leat__print then;

    /* Of a check. */
    leat__log_facts facts;
    leat__seen was, is; /* `seen`, and the newest */
    leat_code code;
};

struct leat__loss {
    leat_topic *topic;
    uint32_t first, span;
    uint32_t most; /* prints of a partition */
    watch **by;    /* by partition - first; NULL: nothing acknowledged */
    watch **all;
    uint32_t count;
    leat_counter *lost, *republished;
    char server[44];
    bool blind; /* it was said that it may not look */

    int64_t due_ns, calm_ns; /* the next look; how far apart they are         */
    uint64_t noted, looked;  /* acknowledged; and by the last look            */
    uint32_t turn;
    atomic_bool suspects;

    copy *oldest, *newest; /* held, all partitions */
    size_t bytes, most_bytes;
};

/* ---- loss_again.c ----------------------------------------------------- */

/* Hold a copy of what p stands for, if that is wished and there is memory. */
void leat__loss_hold(watch *w, leat__print *p, leat_bytes command, size_t head);

/* What the print stood for is forgotten. */
void leat__loss_let_go(leat__loss *l, leat__print *p);

/* A run of prints is lost: those that are held go again. */
void leat__loss_lost(watch *w, const leat__print **lost, uint32_t n,
                     bool exact);

/* Publish again what is to be.  LEAT_OK: nothing is left. */
leat_code leat__loss_again(leat__loss *l, leat_conn *c, leat_error *err);

/* It never will be. */
void leat__loss_give_up(watch *w);

#endif
