/*
 * window.c: what of a partition is read and not yet behind the cursor.
 *
 * States of an entry:
 *
 *     push -> WAITING -- take --> OUT -- done --> DONE -- pop --> gone
 *                ^                 |
 *                +----- back ------+
 *
 * or DONE at once, when an owner before us had it settled.
 *
 * What is handed back is handed out again from the ring.  In the order
 * PARTITION the ring is one lane: it stands still until nothing is out, and
 * goes on with the first that is not done (`next` is set back).  In the orders
 * KEY and NONE others flow meanwhile: window_lanes.c.  What lanes hold comes
 * before what was never held.
 *
 * What the next owner must know is text (window_text.c):
 *
 *     cursor    all up to this id is settled
 *     mark      all up to this id was handed out once, and nothing behind it,
 *               but for what `attempts` says; it never goes back
 *     settled   what is done behind the cursor
 *     attempts  how often entries were handed out, where it is not as the mark
 *               says
 *
 * If that is saved before what was taken is begun, a crash leaves no hand-out
 * untold: attempts are exact.  If it was not, nothing is lost, the count is
 * only too low.
 *
 * An entry that comes to a new owner with two attempts or more was in the hands
 * of two that never settled it.  It may be what killed them, or only have been
 * beside it.  So it is `alone`: it is handed out when nothing else of the
 * partition is out, and nothing else is until it is settled.  If the process
 * dies now it was this one, and the others' attempts stay as they were.  It is
 * alone each time it is handed out until it leaves the ring.
 */
#include "base/mem.h"
#include "topic/window_inside.h"

#include <assert.h>

enum { ALONE = 2 }; /* attempts with which an entry of old is suspect */

leat__window *leat__window_new(uint32_t cap, leat_order order, leat_error *err)
{
    leat__window *w = leat__zalloc(sizeof *w, err);
    uint64_t slots = 2;
    assert(cap > 0);
    if (!w)
        return NULL;
    while (slots < cap)
        slots *= 2;
    w->cap = cap;
    w->order = order;
    w->mask = slots - 1;
    w->head = w->next = w->tail = w->marked = 1;
    w->slots = leat__calloc(slots, sizeof *w->slots, err);
    if (!w->slots || leat__lanes_init(w, err) != LEAT_OK)
        goto fail;
    return w;

fail:
    leat__window_free(w);
    return NULL;
}

void leat__window_free(leat__window *w)
{
    if (!w)
        return;
    leat__lanes_release(&w->lanes);
    leat__recall_release(&w->recall);
    leat__free(w->slots);
    leat__free(w);
}

uint32_t leat__window_room(const leat__window *w)
{
    return w->cap - (uint32_t)(w->tail - w->head);
}

leat__id leat__window_read_from(const leat__window *w)
{
    return w->read;
}

/* An entry up to the mark: some owner knew it. */
static LEAT__COLD leat__entry *recall(leat__window *w, leat__slot *s)
{
    w->marked = w->tail;
    leat__recall_entry(&w->recall, &s->e);
    s->told = s->e.attempts;
    if (s->e.state == LEAT__ENTRY_WAITING) {
        s->e.alone = s->e.attempts >= ALONE;
        w->suspects += s->e.alone;
        return &s->e;
    }
    s->e.user = NULL;
    return NULL;
}

leat__entry *leat__window_push(leat__window *w, leat__id id, uint64_t lane,
                               void *user)
{
    uint64_t place = w->tail;
    leat__slot *s = leat__slot_at(w, place);
    assert(leat__id_cmp(id, w->read) > 0);
    assert(place - w->head < w->cap);

    s->e = (leat__entry){ .id = id, .lane = lane, .user = user };
    s->e.state = LEAT__ENTRY_WAITING;
    s->told = 0;
    if (w->order == LEAT_ORDER_KEY && lane != 0)
        leat__lanes_link(w, s, place);
    w->read = id;
    w->tail = place + 1;
    if (leat__id_cmp(id, w->mark) <= 0)
        return recall(w, s);
    return &s->e;
}

/* ---- handing out ------------------------------------------------------ */

/* From this place on, that of the first entry which waits and is not held by
 * its lane; the tail: there is none. */
static uint64_t fresh_place(const leat__window *w, uint64_t place)
{
    for (; place < w->tail; place++) {
        const leat__slot *s = leat__slot_at(w, place);
        if (s->e.state != LEAT__ENTRY_WAITING)
            continue;
        if (w->lanes.held == 0 || !leat__lanes_holds(w, s))
            break;
    }
    return place;
}

/* What is out bears nothing beside it, or this one does not. */
static inline bool apart(const leat__window *w, const leat__slot *s)
{
    return w->out > 0 && (w->alone_out || s->e.alone);
}

static inline leat__entry *hand_out(leat__window *w, leat__slot *s,
                                    uint64_t place)
{
    if (place >= w->marked) {
        w->marked = place + 1;
        w->mark = s->e.id;
    }
    s->e.state = LEAT__ENTRY_OUT;
    s->e.attempts += s->e.attempts < UINT32_MAX;
    w->unmarked |= s->e.attempts != s->told;
    w->out++;
    w->alone_out = s->e.alone;
    w->dirty = true;
    return &s->e;
}

static leat__entry *take_of_lane(leat__window *w, uint32_t lane)
{
    leat__slot *s = leat__lanes_first(w, lane);
    uint64_t place = w->lanes.pool[lane].first;
    if (apart(w, s))
        return NULL;
    leat__lanes_took(w, lane);
    return hand_out(w, s, place);
}

/* Something was handed back and is not forgotten. */
static LEAT__COLD leat__entry *take_turned(leat__window *w)
{
    if (w->still && w->out > 0)
        return NULL;
    uint32_t lane = leat__lanes_top(w);
    if (lane != 0)
        return take_of_lane(w, lane);
    w->next = fresh_place(w, w->next);
    leat__slot *s = leat__slot_at(w, w->next);
    if (w->next == w->tail || apart(w, s))
        return NULL;
    w->still = false;
    w->turned = w->lanes.heap_n > 0 || w->lanes.held > 0;
    return hand_out(w, s, w->next++);
}

leat__entry *leat__window_take(leat__window *w)
{
    if (w->turned)
        return take_turned(w);
    uint64_t place = w->next;
    while (place < w->tail &&
           leat__slot_at(w, place)->e.state != LEAT__ENTRY_WAITING)
        place++;
    leat__slot *s = leat__slot_at(w, place);
    w->next = place;
    if (place == w->tail || apart(w, s))
        return NULL;
    w->next = place + 1;
    return hand_out(w, s, place);
}

/* What comes next, whether or not it may go beside what is out; NULL: none. */
static const leat__slot *following(const leat__window *w)
{
    if (w->still && w->out > 0)
        return NULL;
    uint32_t lane = leat__lanes_top(w);
    if (lane != 0)
        return leat__lanes_first(w, lane);
    uint64_t place = fresh_place(w, w->next);
    return place < w->tail ? leat__slot_at(w, place) : NULL;
}

bool leat__window_ready(const leat__window *w)
{
    const leat__slot *s = following(w);
    return s && !apart(w, s);
}

const leat__entry *leat__window_peek(const leat__window *w)
{
    const leat__slot *s = following(w);
    return s ? &s->e : NULL;
}

/* ---- claiming --------------------------------------------------------- */

static leat__entry *claim(leat__window *w, leat__slot *s, uint64_t place)
{
    assert(s->e.state == LEAT__ENTRY_WAITING);
    if (place >= w->marked) {
        w->marked = place + 1;
        w->mark = s->e.id;
    }
    s->e.state = LEAT__ENTRY_OUT;
    s->e.claimed = true;
    w->alone_out &= w->out > 0;
    w->out++;
    w->dirty = true;
    if (w->lanes.held > 0)
        leat__lanes_claimed(w, s);
    return &s->e;
}

void leat__window_claim(leat__window *w, leat__entry *e)
{
    leat__slot *s = (leat__slot *)e;
    (void)claim(w, s, leat__slot_place(w, s));
}

leat__entry *leat__window_claim_lane(leat__window *w, uint64_t lane,
                                     uint64_t *at)
{
    uint64_t place = *at ? leat__slot_at(w, *at)->after
                         : leat__lanes_forget(w, lane);
    for (leat__slot *s; place != 0; place = s->after) {
        s = leat__slot_at(w, place);
        if (s->e.lane != lane || s->e.state != LEAT__ENTRY_WAITING)
            continue;
        *at = place;
        return claim(w, s, place);
    }
    return NULL;
}

leat__entry *leat__window_claim_upto(leat__window *w, leat__id last,
                                     uint64_t *at)
{
    for (uint64_t p = *at ? *at + 1 : w->head; p < w->tail; p++) {
        leat__slot *s = leat__slot_at(w, p);
        if (leat__id_cmp(s->e.id, last) > 0)
            break;
        if (s->e.state != LEAT__ENTRY_WAITING)
            continue;
        *at = p;
        return claim(w, s, p);
    }
    return NULL;
}

uint32_t leat__window_lane_out(const leat__window *w, uint64_t lane)
{
    return leat__lanes_out(w, lane, false);
}

leat__entry *leat__window_suspect(leat__window *w, uint64_t *at)
{
    for (uint64_t p = *at ? *at + 1 : w->head; p < w->tail; p++) {
        leat__slot *s = leat__slot_at(w, p);
        if (!s->e.alone || s->e.state == LEAT__ENTRY_DONE)
            continue;
        *at = p;
        return &s->e;
    }
    return NULL;
}

uint32_t leat__window_suspects(const leat__window *w)
{
    return w->suspects;
}

/* ---- settling --------------------------------------------------------- */

static leat__slot *came_back(leat__window *w, leat__entry *e)
{
    assert(e->state == LEAT__ENTRY_OUT);
    w->out--;
    return (leat__slot *)e;
}

void leat__window_done(leat__window *w, leat__entry *e)
{
    leat__slot *s = came_back(w, e);
    e->state = LEAT__ENTRY_DONE;
    w->suspects -= e->alone;
    w->dirty = true;
    if (w->lanes.held > 0)
        leat__lanes_done(w, s);
}

void leat__window_back(leat__window *w, leat__entry *e, bool uncount)
{
    leat__slot *s = came_back(w, e);
    e->state = LEAT__ENTRY_WAITING;
    w->turned = true;
    if (uncount) {
        e->attempts--;
        w->dirty = true;
    }
    if (w->order != LEAT_ORDER_PARTITION) {
        leat__lanes_back(w, s);
        return;
    }
    uint64_t place = leat__slot_place(w, s);
    w->still = true;
    if (place < w->next)
        w->next = place;
}

/* ---- leaving ---------------------------------------------------------- */

static void *leave(leat__window *w, leat__slot *s)
{
    void *user = s->e.user;
    s->e.state = LEAT__ENTRY_FREE;
    s->e.user = NULL;
    w->head++;
    if (w->next < w->head)
        w->next = w->head;
    return user;
}

bool leat__window_pop(leat__window *w, void **user)
{
    leat__slot *s = leat__slot_at(w, w->head);
    if (w->head == w->tail || s->e.state != LEAT__ENTRY_DONE)
        return false;
    w->cursor = s->e.id;
    w->count++;
    w->dirty = true;
    *user = leave(w, s);
    return true;
}

bool leat__window_clear(leat__window *w, void **user)
{
    leat__slot *s = leat__slot_at(w, w->head);
    if (w->head == w->tail)
        return false;
    w->out -= s->e.state == LEAT__ENTRY_OUT;
    *user = leave(w, s);
    return true;
}

/* ---- what is the case ------------------------------------------------- */

bool leat__window_dirty(const leat__window *w)
{
    return w->dirty;
}

bool leat__window_unmarked(const leat__window *w)
{
    return w->unmarked;
}

void leat__window_unsaved(leat__window *w)
{
    w->dirty = w->unmarked = true;
}

uint32_t leat__window_count(const leat__window *w)
{
    return (uint32_t)(w->tail - w->head);
}

uint32_t leat__window_out(const leat__window *w)
{
    return w->out;
}

leat__id leat__window_cursor(const leat__window *w)
{
    return w->cursor;
}

bool leat__window_passed(const leat__window *w, uint64_t *count)
{
    *count = w->count;
    return w->count_known;
}

void leat__window_skip(leat__window *w, uint64_t count)
{
    w->count += count;
    w->dirty = true;
}
