/*
 * window_inside.h: what the files of the window share, and nobody else.
 *
 * Places of the log are counted from 1 and never again; place p is in slot
 * p & mask.  0 is no place.
 */
#ifndef LEAT_TOPIC_WINDOW_INSIDE_H
#define LEAT_TOPIC_WINDOW_INSIDE_H

#include "topic/window.h"

typedef struct leat__slot {
    leat__entry e; /* first: an entry is its slot                          */
    uint32_t told; /* the attempts that saved state tells of               */
    uint64_t before, after; /* in the same bucket of lanes; may be gone    */
} leat__slot;

/* ---- lanes: window_lanes.c -------------------------------------------- */

/* A lane of which something was handed back, or a single entry that was.  It
 * exists as long as something of it waits. */
typedef struct leat__lane {
    uint64_t lane;  /* 0: one entry by itself                              */
    uint64_t first; /* place of the first that waits                       */
    uint32_t out;   /* how many of it are out                              */
    uint32_t place; /* in the heap, from 1; 0: not in it                   */
    uint32_t chain; /* the next of its bucket, or of the free ones         */
    bool still;     /* nothing goes out before all has come back           */
} leat__lane;

typedef struct leat__bucket {
    uint64_t last; /* place of the newest entry                            */
    uint32_t lane; /* the first of the lanes                               */
} leat__bucket;

typedef struct leat__lanes {
    leat__bucket *buckets; /* as many as slots; KEY only                   */
    leat__lane *pool;      /* from 1; 0 is none                            */
    uint32_t *heap;        /* from 1, by the place of the first            */
    uint32_t heap_n;
    uint32_t used; /* of the pool, ever                                    */
    uint32_t free; /* given back                                           */
    uint32_t held; /* lanes that have a number                             */
    unsigned shift;
} leat__lanes;

/* ---- what the owner before left: window_text.c ------------------------ */

typedef struct leat__range {
    leat__id first, last;
} leat__range;

typedef struct leat__tries {
    leat__id id;
    uint32_t n;
} leat__tries;

/* Both ascend; what is before `at` has been read over. */
typedef struct leat__recall {
    leat__range *ranges;
    size_t range_n, range_at;
    leat__tries *tries;
    size_t tries_n, tries_at;
} leat__recall;

/* ---- the window ------------------------------------------------------- */

struct leat__window {
    leat__slot *slots;
    uint64_t mask;
    uint64_t head;   /* first in the ring                                  */
    uint64_t next;   /* all before it are out, done, or held by a lane     */
    uint64_t tail;   /* where the next one read goes                       */
    uint64_t marked; /* all before it, and no other, are up to the mark    */
    uint32_t cap;
    uint32_t out;
    uint32_t suspects; /* that are alone and not done                      */
    leat_order order;
    bool turned;    /* something was handed back: look at what waits       */
    bool still;     /* PARTITION: as a lane's                              */
    bool alone_out; /* if anything is out, it is one that is alone         */
    bool dirty, unmarked;
    bool count_known;
    leat__id cursor, read, mark;
    uint64_t count;
    leat__lanes lanes;
    leat__recall recall;
};

static inline leat__slot *leat__slot_at(const leat__window *w, uint64_t place)
{
    return &w->slots[place & w->mask];
}

static inline uint64_t leat__slot_place(const leat__window *w,
                                        const leat__slot *s)
{
    return w->head + (((uint64_t)(s - w->slots) - w->head) & w->mask);
}

leat_code leat__lanes_init(leat__window *w, leat_error *err);
void leat__lanes_release(leat__lanes *l);
void leat__lanes_reset(leat__window *w);

/* The high bits of a product: numbers of lanes may differ in any bits. */
static inline leat__bucket *leat__lanes_bucket(const leat__window *w,
                                               uint64_t lane)
{
    const leat__lanes *l = &w->lanes;
    return &l->buckets[(lane * 0x9e3779b97f4a7c15U) >> l->shift];
}

/* KEY: the entry at this place has been read. */
static inline void leat__lanes_link(leat__window *w, leat__slot *s,
                                    uint64_t place)
{
    leat__bucket *b = leat__lanes_bucket(w, s->e.lane);
    s->before = b->last;
    s->after = 0;
    if (b->last >= w->head)
        leat__slot_at(w, b->last)->after = place;
    b->last = place;
}

/* The lane is held back, so a fresh entry of it must wait behind. */
bool leat__lanes_holds(const leat__window *w, const leat__slot *s);

/* It waited and was never handed back; now it is out. */
void leat__lanes_claimed(leat__window *w, const leat__slot *s);

/* It was out; now it waits again, or is done. */
void leat__lanes_back(leat__window *w, leat__slot *s);
void leat__lanes_done(leat__window *w, const leat__slot *s);

/* The lane that goes on first; 0: none.  Its first, and what follows once that
 * has been handed out. */
static inline uint32_t leat__lanes_top(const leat__window *w)
{
    return w->lanes.heap_n > 0 ? w->lanes.heap[1] : 0;
}

static inline leat__slot *leat__lanes_first(const leat__window *w,
                                            uint32_t lane)
{
    return leat__slot_at(w, w->lanes.pool[lane].first);
}

void leat__lanes_took(leat__window *w, uint32_t lane);

/* All of it that waits is claimed: there is nothing to hold any more.  Where
 * that begins: the place of the oldest entry in its bucket; 0: there is
 * none. */
uint64_t leat__lanes_forget(leat__window *w, uint64_t lane);

/* How many of it are out, those that are claimed among them or not. */
uint32_t leat__lanes_out(const leat__window *w, uint64_t lane, bool claimed);

/* What is known of an entry up to the mark: its state and attempts. */
void leat__recall_entry(leat__recall *r, leat__entry *e);
void leat__recall_release(leat__recall *r);

#endif
