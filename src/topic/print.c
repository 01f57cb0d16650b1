/* print.c: the last acknowledged messages of a partition. */
#include "topic/print.h"
#include "base/mem.h"

#include <string.h>

enum { FIRST_CAP = 64 };

static uint64_t word_at(const char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Made for every message: sums of many words at once cost next to nothing, and
 * what tells entries from each other, a check sum or an id, is random. */
static uint32_t mark(const char *p)
{
    uint64_t even = 0, odd = 0;
    for (size_t i = 0; i < LEAT__PRINT_BYTES; i += 16) {
        even += word_at(p + i);
        odd += word_at(p + i + 8);
    }
    uint64_t sum = (even ^ (odd << 32 | odd >> 32)) *
                   UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(sum >> 32);
}

/* By itself, so that a longer one does not pay for the room. */
static __attribute__((noinline)) uint32_t mark_short(leat_bytes bulks)
{
    char padded[LEAT__PRINT_BYTES] = { 0 };
    memcpy(padded, bulks.p, bulks.n);
    return mark(padded);
}

uint32_t leat__print_mark(leat_bytes bulks)
{
    return bulks.n < LEAT__PRINT_BYTES ? mark_short(bulks) : mark(bulks.p);
}

void leat__trail_init(leat__trail *t, uint32_t most)
{
    *t = (leat__trail){ .most = 1 };
    while (t->most < most && t->most < UINT32_C(1) << 30)
        t->most *= 2;
}

void leat__trail_release(leat__trail *t)
{
    leat__free(t->ring);
    *t = (leat__trail){ 0 };
}

/* Twice the room, if there may be and is. */
static bool grow(leat__trail *t)
{
    uint32_t n = leat__trail_count(t);
    uint32_t cap = t->cap ? 2 * t->cap : FIRST_CAP;
    if (cap > t->most)
        cap = t->most;
    if (cap == t->cap)
        return false;
    leat__print *ring = leat__alloc(cap * sizeof *ring, NULL);
    if (!ring)
        return false;
    for (uint32_t i = 0; i < n; i++)
        ring[i] = *leat__trail_at(t, i);
    leat__free(t->ring);
    t->ring = ring;
    t->cap = cap;
    t->head = 0;
    t->tail = n;
    return true;
}

bool leat__trail_add_slowly(leat__trail *t, const leat__print *p,
                            leat__print *out)
{
    bool full = leat__trail_count(t) == t->cap && !grow(t);
    if (t->cap == 0) {
        t->forgot = true;
        *out = *p;
        return true;
    }
    if (full) {
        *out = *leat__trail_at(t, 0);
        t->head++;
    }
    leat__print *to = &t->ring[t->tail++ & (t->cap - 1)];
    *to = *p;
    to->gap = t->forgot;
    t->forgot = false;
    if (full)
        leat__trail_at(t, 0)->gap = true;
    return full;
}

void leat__trail_drop(leat__trail *t, const bool *flags, uint32_t n)
{
    uint32_t at = leat__trail_count(t) - n, kept = at;
    bool gap = false; /* of one that goes: its successor inherits it */
    for (uint32_t i = 0; i < n; i++) {
        leat__print p = *leat__trail_at(t, at + i);
        p.gap |= gap;
        gap = flags[i] && p.gap;
        if (!flags[i])
            *leat__trail_at(t, kept++) = p;
    }
    t->forgot |= gap;
    t->tail = t->head + kept;
}

uint32_t leat__trail_upto(const leat__trail *t, leat__id id)
{
    uint32_t lo = 0, hi = leat__trail_count(t);
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (leat__id_cmp(leat__trail_at(t, mid)->id, id) <= 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}
