/* print.c: the last acknowledged messages of a partition. */
#include "topic/print.h"
#include "base/crc32c.h"
#include "base/mem.h"

enum { FIRST_CAP = 64 };

uint32_t leat__print_mark(leat_bytes beginning)
{
    return leat__crc32c(0, beginning.p, beginning.n);
}

/* Take a bulk string off the front of sound bytes: its head with the length,
 * and the length. */
static leat_bytes take_bulk(leat_bytes *at, size_t *size)
{
    const char *p = at->p;
    size_t n = 1;
    for (*size = 0; p[n] != '\r'; n++)
        *size = *size * 10 + (size_t)(p[n] - '0');
    n += 2;
    *at = leat_mem(p + n + *size + 2, at->n - n - *size - 2);
    return leat_mem(p, n);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

uint32_t leat__print_sent(leat_bytes bulks)
{
    uint32_t mark = 0;
    size_t left = LEAT__PRINT_BYTES, size;
    while (bulks.n > 0 && left > 0) {
        leat_bytes head = take_bulk(&bulks, &size);
        size_t n = least(head.n + least(size, LEAT__PRINT_EACH), left);
        mark = leat__crc32c(mark, head.p, n);
        left -= n;
    }
    return mark;
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

bool leat__trail_add(leat__trail *t, const leat__print *p, leat__print *out)
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
