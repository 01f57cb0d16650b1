/*
 * held.c: a hash table of entry ids, with linear probing.  It is asked for
 * every message, twice: so no allocation for each, and no byte strings.
 */
#include "stream/held.h"
#include "base/mem.h"
#include "base/system.h"

#include <assert.h>

enum { FIRST = 256 };

struct stream_held_slot {
    uint64_t ms, seq;
    void *value; /* NULL: free */
};

void leat__stream_held_release(stream_held *h)
{
    leat__free(h->slots);
    *h = (stream_held){ 0 };
}

/* Ids are consecutive more often than not: multiplying spreads them. */
static size_t home(const stream_held *h, uint64_t ms, uint64_t seq)
{
    uint64_t x = (ms ^ h->seed) * 0x9e3779b97f4a7c15u + seq;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    return (size_t)x & (h->cap - 1);
}

static struct stream_held_slot *find(const stream_held *h, leat_position id)
{
    size_t i = home(h, id.ms, id.seq);
    while (h->slots[i].value &&
           (h->slots[i].ms != id.ms || h->slots[i].seq != id.seq))
        i = (i + 1) & (h->cap - 1);
    return &h->slots[i];
}

static leat_code grow(stream_held *h, size_t cap, leat_error *err)
{
    stream_held bigger = { .cap = cap, .count = h->count, .seed = h->seed };
    bigger.slots = leat__calloc(cap, sizeof *bigger.slots, err);
    if (!bigger.slots)
        return LEAT_ENOMEM;
    for (size_t i = 0; i < h->cap; i++) {
        const struct stream_held_slot *s = &h->slots[i];
        if (s->value)
            *find(&bigger, (leat_position){ .ms = s->ms, .seq = s->seq }) = *s;
    }
    leat__free(h->slots);
    *h = bigger;
    return LEAT_OK;
}

leat_code leat__stream_held_reserve(stream_held *h, size_t n, leat_error *err)
{
    size_t cap = h->cap ? h->cap : FIRST;
    if (h->cap == 0) {
        leat_code rc = leat__random(&h->seed, sizeof h->seed, err);
        if (rc != LEAT_OK)
            return rc;
    }
    while (cap / 2 < h->count + n) /* at most half full */
        cap *= 2;
    return cap > h->cap ? grow(h, cap, err) : LEAT_OK;
}

void *leat__stream_held_get(const stream_held *h, leat_position id)
{
    return h->count > 0 ? find(h, id)->value : NULL;
}

void leat__stream_held_put(stream_held *h, leat_position id, void *value)
{
    assert(value && h->count < h->cap);
    struct stream_held_slot *s = find(h, id);
    h->count += s->value == NULL;
    *s = (struct stream_held_slot){ id.ms, id.seq, value };
}

/* May the slot at i move to `hole`?  Not if its home lies behind the hole. */
static bool may_move(const stream_held *h, size_t hole, size_t i)
{
    size_t mask = h->cap - 1;
    size_t want = home(h, h->slots[i].ms, h->slots[i].seq);
    return ((i - want) & mask) >= ((i - hole) & mask);
}

void leat__stream_held_drop(stream_held *h, leat_position id)
{
    struct stream_held_slot *s = h->count > 0 ? find(h, id) : NULL;
    if (!s || !s->value)
        return;
    h->count--;
    size_t mask = h->cap - 1, hole = (size_t)(s - h->slots);
    for (size_t i = (hole + 1) & mask; h->slots[i].value; i = (i + 1) & mask) {
        if (!may_move(h, hole, i))
            continue;
        h->slots[hole] = h->slots[i];
        hole = i;
    }
    h->slots[hole].value = NULL;
}
