/*
 * window_lanes.c: what was handed back where others flow (KEY and NONE).
 *
 * As long as nothing is handed back there is nothing here but, in the order
 * KEY, one chain for each bucket of lanes through the entries of the ring:
 *
 *     bucket -> newest entry <-> older <-> older ... (gone: before the head)
 *
 * It costs a few instructions for an entry read, and is what a lane is found by
 * when it matters: which of it are out, and which waits next.
 *
 * A lane is made by the first entry of it that is handed back.  It holds all
 * its entries that wait behind `next`: those that were handed back, and those
 * that `next` has gone over since because the lane was held.  It stands still
 * while anything of it is out; then it goes on in order.  When none waits any
 * more the lane is forgotten.
 *
 * An entry without a lane, or any in the order NONE, is a lane of itself.
 *
 * Lanes that may go on stand in a heap by their first.  All room is taken when
 * the window is made, since handing back must not fail: at most as many lanes
 * as entries.
 */
#include "base/mem.h"
#include "topic/window_inside.h"

#include <assert.h>

leat_code leat__lanes_init(leat__window *w, leat_error *err)
{
    leat__lanes *l = &w->lanes;
    size_t n = (size_t)w->cap + 1;
    if (w->order == LEAT_ORDER_PARTITION)
        return LEAT_OK;
    l->pool = leat__calloc(n, sizeof *l->pool, err);
    l->heap = l->pool ? leat__calloc(n, sizeof *l->heap, err) : NULL;
    if (!l->heap)
        return LEAT_ENOMEM;
    if (w->order != LEAT_ORDER_KEY)
        return LEAT_OK;
    l->buckets = leat__calloc(w->mask + 1, sizeof *l->buckets, err);
    l->shift = (unsigned)__builtin_clzll(w->mask);
    return l->buckets ? LEAT_OK : LEAT_ENOMEM;
}

void leat__lanes_release(leat__lanes *l)
{
    leat__free(l->buckets);
    leat__free(l->pool);
    leat__free(l->heap);
}

void leat__lanes_reset(leat__window *w)
{
    leat__lanes *l = &w->lanes;
    l->heap_n = l->used = l->free = l->held = 0;
    if (l->buckets)
        memset(l->buckets, 0, (w->mask + 1) * sizeof *l->buckets);
}

/* ---- entries of a lane ------------------------------------------------ */

uint32_t leat__lanes_out(const leat__window *w, uint64_t lane, bool claimed)
{
    uint32_t n = 0;
    uint64_t place = leat__lanes_bucket(w, lane)->last;
    while (place >= w->head) {
        const leat__slot *s = leat__slot_at(w, place);
        n += s->e.lane == lane && s->e.state == LEAT__ENTRY_OUT &&
             (claimed || !s->e.claimed);
        place = s->before;
    }
    return n;
}

/* The place of the next one of the same lane that waits and that `next` has
 * gone over; 0: none. */
static uint64_t following(const leat__window *w, const leat__slot *s)
{
    uint64_t lane = s->e.lane, place = s->after;
    while (place != 0 && place < w->next) {
        s = leat__slot_at(w, place);
        if (s->e.lane == lane && s->e.state == LEAT__ENTRY_WAITING)
            return place;
        place = s->after;
    }
    return 0;
}

/* ---- the heap --------------------------------------------------------- */

static bool earlier(const leat__window *w, uint32_t a, uint32_t b)
{
    return w->lanes.pool[a].first < w->lanes.pool[b].first;
}

static void put(leat__lanes *l, uint32_t place, uint32_t lane)
{
    l->heap[place] = lane;
    l->pool[lane].place = place;
}

static void sift_up(leat__window *w, uint32_t place)
{
    leat__lanes *l = &w->lanes;
    uint32_t lane = l->heap[place];
    for (; place > 1 && earlier(w, lane, l->heap[place / 2]); place /= 2)
        put(l, place, l->heap[place / 2]);
    put(l, place, lane);
}

static void sift_down(leat__window *w, uint32_t place)
{
    leat__lanes *l = &w->lanes;
    uint32_t lane = l->heap[place];
    for (uint32_t child; (child = place * 2) <= l->heap_n; place = child) {
        if (child < l->heap_n && earlier(w, l->heap[child + 1], l->heap[child]))
            child++;
        if (!earlier(w, l->heap[child], lane))
            break;
        put(l, place, l->heap[child]);
    }
    put(l, place, lane);
}

static void leave(leat__window *w, uint32_t lane)
{
    leat__lanes *l = &w->lanes;
    uint32_t place = l->pool[lane].place;
    uint32_t last = l->heap[l->heap_n--];
    l->pool[lane].place = 0;
    if (last == lane)
        return;
    put(l, place, last);
    sift_up(w, place);
    sift_down(w, l->pool[last].place);
}

/* Its first, its state or what is out has changed. */
static void settle(leat__window *w, uint32_t lane)
{
    leat__lanes *l = &w->lanes;
    leat__lane *one = &l->pool[lane];
    if (one->still && one->out > 0) {
        if (one->place != 0)
            leave(w, lane);
        return;
    }
    if (one->place == 0)
        put(l, ++l->heap_n, lane);
    sift_up(w, one->place);
    sift_down(w, one->place);
}

/* ---- lanes ------------------------------------------------------------ */

/* The lane of this number, if it is held; 0: it is not. */
static uint32_t find(const leat__window *w, uint64_t lane)
{
    if (w->lanes.held == 0 || lane == 0)
        return 0;
    uint32_t i = leat__lanes_bucket(w, lane)->lane;
    while (i != 0 && w->lanes.pool[i].lane != lane)
        i = w->lanes.pool[i].chain;
    return i;
}

static uint32_t hold(leat__window *w, uint64_t lane, uint64_t first)
{
    leat__lanes *l = &w->lanes;
    uint32_t i = l->free;
    if (i != 0)
        l->free = l->pool[i].chain;
    else
        i = ++l->used;
    assert(i <= w->cap);
    l->pool[i] = (leat__lane){ .lane = lane, .first = first };
    if (lane != 0) {
        leat__bucket *b = leat__lanes_bucket(w, lane);
        l->pool[i].out = leat__lanes_out(w, lane, true);
        l->pool[i].chain = b->lane;
        b->lane = i;
        l->held++;
    }
    return i;
}

static void let_go(leat__window *w, uint32_t lane)
{
    leat__lanes *l = &w->lanes;
    leat__lane *one = &l->pool[lane];
    if (one->place != 0)
        leave(w, lane);
    if (one->lane != 0) {
        uint32_t *link = &leat__lanes_bucket(w, one->lane)->lane;
        while (*link != lane)
            link = &l->pool[*link].chain;
        *link = one->chain;
        l->held--;
    }
    one->chain = l->free;
    l->free = lane;
}

uint64_t leat__lanes_forget(leat__window *w, uint64_t lane)
{
    uint32_t held = find(w, lane);
    if (held != 0)
        let_go(w, held);
    uint64_t place = leat__lanes_bucket(w, lane)->last;
    if (place < w->head)
        return 0;
    while (leat__slot_at(w, place)->before >= w->head)
        place = leat__slot_at(w, place)->before;
    return place;
}

bool leat__lanes_holds(const leat__window *w, const leat__slot *s)
{
    return find(w, s->e.lane) != 0;
}

void leat__lanes_back(leat__window *w, leat__slot *s)
{
    uint64_t number = w->order == LEAT_ORDER_KEY ? s->e.lane : 0;
    uint64_t place = leat__slot_place(w, s);
    uint32_t lane = find(w, number);
    if (lane == 0) {
        lane = hold(w, number, place);
    } else {
        w->lanes.pool[lane].out--;
        if (place < w->lanes.pool[lane].first)
            w->lanes.pool[lane].first = place;
    }
    w->lanes.pool[lane].still = true;
    settle(w, lane);
}

void leat__lanes_claimed(leat__window *w, const leat__slot *s)
{
    uint32_t lane = find(w, s->e.lane);
    if (lane == 0)
        return;
    w->lanes.pool[lane].out++;
    settle(w, lane);
}

void leat__lanes_done(leat__window *w, const leat__slot *s)
{
    uint32_t lane = find(w, s->e.lane);
    if (lane == 0)
        return;
    w->lanes.pool[lane].out--;
    settle(w, lane);
}

void leat__lanes_took(leat__window *w, uint32_t lane)
{
    leat__lane *one = &w->lanes.pool[lane];
    uint64_t first = 0;
    if (one->lane != 0)
        first = following(w, leat__lanes_first(w, lane));
    if (first == 0) {
        let_go(w, lane);
        return;
    }
    one->still = false;
    one->out++;
    one->first = first;
    settle(w, lane);
}
