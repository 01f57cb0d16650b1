/*
 * ring.c: consistent hashing.
 */
#include "topic/ring.h"
#include "base/mem.h"
#include "base/siphash.h"

#include <endian.h>
#include <stdlib.h>

/* "leat.topic.ring." read as two little-endian words: no secret, but fixed for
 * ever, since stored messages were placed by it. */
static const leat__sipkey ring_key = { 0x706f742e7461656cu,
                                       0x2e676e69722e6369u };

typedef struct point {
    uint64_t at;
    uint32_t partition;
} point;

struct leat__ring {
    size_t count;
    point points[];
};

/* Of two points in one place the lower partition's comes first, whatever the
 * sort does. */
static int before(const void *a, const void *b)
{
    const point *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->partition > y->partition) - (x->partition < y->partition);
}

static uint64_t place(uint32_t partition, uint32_t j)
{
    uint32_t words[2] = { htole32(partition), htole32(j) };
    return leat__siphash13(ring_key, leat_mem(words, sizeof words));
}

leat__ring *leat__ring_new(uint32_t partitions, leat_error *err)
{
    size_t count = (size_t)partitions * LEAT__RING_POINTS;
    leat__ring *r = leat__alloc(sizeof *r + count * sizeof *r->points, err);
    if (!r)
        return NULL;
    r->count = count;
    for (uint32_t i = 0; i < partitions; i++)
        for (uint32_t j = 0; j < LEAT__RING_POINTS; j++)
            r->points[(size_t)i * LEAT__RING_POINTS + j] = (point){ place(i, j),
                                                                    i };
    qsort(r->points, count, sizeof *r->points, before);
    return r;
}

void leat__ring_free(leat__ring *r)
{
    leat__free(r);
}

uint32_t leat__ring_of(const leat__ring *r, leat_bytes key)
{
    uint64_t at = leat__siphash13(ring_key, key);
    size_t low = 0, high = r->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (r->points[mid].at < at)
            low = mid + 1;
        else
            high = mid;
    }
    return r->points[low < r->count ? low : 0].partition;
}
