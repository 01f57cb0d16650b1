/*
 * mpsc.c: Vyukov's intrusive queue.
 *
 * A push swaps itself in as the newest and then links the one before to
 * itself.  Between the two steps the chain is broken there: the consumer sees
 * NULL although a newer item exists, and waits for the link.  The stub takes
 * part as an item of its own: it is pushed again whenever the last real item
 * is to leave, so a producer always has something to link behind.
 */
#include "base/mpsc.h"

#include <stddef.h>

void leat__mpsc_init(leat__mpsc *q)
{
    atomic_init(&q->stub.next, NULL);
    atomic_init(&q->newest, &q->stub);
    q->oldest = &q->stub;
}

bool leat__mpsc_push(leat__mpsc *q, leat__mpsc_link *k)
{
    atomic_store_explicit(&k->next, NULL, memory_order_relaxed);
    leat__mpsc_link *before = atomic_exchange_explicit(&q->newest, k,
                                                       memory_order_acq_rel);
    atomic_store_explicit(&before->next, k, memory_order_release);
    return before == &q->stub;
}

static leat__mpsc_link *next_of(leat__mpsc_link *k)
{
    return atomic_load_explicit(&k->next, memory_order_acquire);
}

/* Take the oldest when something stands behind it. */
static leat__mpsc_link *step(leat__mpsc *q)
{
    leat__mpsc_link *first = q->oldest, *next = next_of(first);
    if (!next)
        return NULL;
    q->oldest = next;
    return first;
}

leat__mpsc_link *leat__mpsc_pop(leat__mpsc *q)
{
    if (q->oldest == &q->stub && !step(q))
        return NULL;
    leat__mpsc_link *first = step(q);
    if (first)
        return first;
    if (q->oldest != atomic_load_explicit(&q->newest, memory_order_acquire))
        return NULL;
    leat__mpsc_push(q, &q->stub);
    return step(q);
}

bool leat__mpsc_empty(const leat__mpsc *q)
{
    return q->oldest == &q->stub &&
           atomic_load_explicit(&q->newest, memory_order_acquire) == &q->stub;
}
