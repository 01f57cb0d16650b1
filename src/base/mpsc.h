/*
 * mpsc.h: a queue from many threads to one, without a lock.
 *
 * Its links live in what is queued (LEAT__ITEM of list.h finds the item).
 * Items of one producer come out in the order it pushed them.
 * Threads: push is shared, pop and empty belong to the one consumer.
 */
#ifndef LEAT_BASE_MPSC_H
#define LEAT_BASE_MPSC_H

#include <stdatomic.h>
#include <stdbool.h>

typedef struct leat__mpsc_link {
    _Atomic(struct leat__mpsc_link *) next;
} leat__mpsc_link;

typedef struct leat__mpsc {
    _Alignas(64) _Atomic(leat__mpsc_link *) newest; /* producers swap it */
    _Alignas(64) leat__mpsc_link *oldest;           /* the consumer's    */
    leat__mpsc_link stub; /* keeps the chain from ever being empty       */
} leat__mpsc;

void leat__mpsc_init(leat__mpsc *q);

/* Append; never blocks, never fails.  True when the queue was empty, as far
 * as can be told: then the consumer may be asleep and wants to be woken.  At
 * least one of the pushes since it was last empty says so. */
bool leat__mpsc_push(leat__mpsc *q, leat__mpsc_link *k);

/* The oldest, or NULL: empty, or its producer is just between two steps of a
 * push.  Whoever sleeps on NULL must first see leat__mpsc_empty, or it may
 * sleep beside an item. */
leat__mpsc_link *leat__mpsc_pop(leat__mpsc *q);

/* True: every push that began has been popped. */
bool leat__mpsc_empty(const leat__mpsc *q);

#endif
