/*
 * print.h: what a producer remembers of messages that were acknowledged.
 *
 * A print is an entry's id, a check sum of how it begins, and its size.  By it
 * an entry that is looked for again is known from another's that got the same
 * id in another history of the log, which happens after a failover.  A trail
 * is the last prints of a partition, oldest first, in bounded memory.
 * Threads: confined.
 */
#ifndef LEAT_TOPIC_PRINT_H
#define LEAT_TOPIC_PRINT_H

#include "base/error.h"
#include "message/id.h"

/* An entry's mark is made of its names and values as they are sent, bulk
 * strings of RESP, up to so many bytes.  The native codec has a check sum of
 * the whole among them, others the message's id, unless the key is a long
 * one. */
enum { LEAT__PRINT_BYTES = 128 };

typedef struct leat__print {
    leat__id id;
    uint32_t mark;
    uint32_t size; /* of the command                                        */
    bool gap;      /* some before it are no longer remembered               */
    void *copy;    /* the caller's                                          */
} leat__print;

/* What there.lua says: see there. */
#define LEAT__SHAPE_THERE "[]|[idene(t)]"

/* From the beginning at least of what is sent, or of what there.lua says. */
uint32_t leat__print_mark(leat_bytes bulks);

typedef struct leat__trail {
    leat__print *ring; /* ring[i & (cap - 1)], head..tail                   */
    uint32_t cap;      /* a power of two, or 0                              */
    uint32_t most;
    uint64_t head, tail;
    bool forgot; /* there was no room for even one                          */
} leat__trail;

/* At most so many, rounded up to a power of two. */
void leat__trail_init(leat__trail *t, uint32_t most);
void leat__trail_release(leat__trail *t);

/* Remember one more.  The oldest makes room where there is none, also for want
 * of memory: true then, and *out is what was forgotten, perhaps p itself. */
bool leat__trail_add_slowly(leat__trail *t, const leat__print *p,
                            leat__print *out);

static inline bool leat__trail_add(leat__trail *t, const leat__print *p,
                                   leat__print *out)
{
    bool full = t->tail - t->head == t->cap;
    if (!t->ring || t->forgot || (full && t->cap != t->most))
        return leat__trail_add_slowly(t, p, out);
    leat__print *to = &t->ring[t->tail++ & (t->cap - 1)];
    if (full) { /* the oldest one's place is the next */
        *out = *to;
        t->ring[++t->head & (t->cap - 1)].gap = true;
    }
    *to = *p;
    return full;
}

/* Forget those of the last n prints whose flag is set: for flags[i] the one at
 * count - n + i. */
void leat__trail_drop(leat__trail *t, const bool *flags, uint32_t n);

static inline uint32_t leat__trail_count(const leat__trail *t)
{
    return (uint32_t)(t->tail - t->head);
}

/* The i-th, oldest first. */
static inline leat__print *leat__trail_at(const leat__trail *t, uint32_t i)
{
    return &t->ring[(t->head + i) & (t->cap - 1)];
}

static inline leat__print *leat__trail_newest(const leat__trail *t)
{
    return t->tail > t->head ? leat__trail_at(t, leat__trail_count(t) - 1)
                             : NULL;
}

/* How many of the oldest have an id up to this one. */
uint32_t leat__trail_upto(const leat__trail *t, leat__id id);

#endif
