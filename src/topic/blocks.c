/*
 * blocks.c: the lanes of a partition that stand still.
 *
 * A table of open addressing, at most two thirds full; what leaves is closed
 * up, so that there are no tombs.  Most of the time it is empty, which is one
 * number to look at; it may hold every key of a partition.
 */
#include "topic/blocks.h"
#include "base/mem.h"
#include "base/siphash.h"

#include <string.h>

/* Written down with the messages: it never changes. */
static const leat__sipkey lane_key = { 0x6c6561742d6c616eU,
                                       0x652d6f662d6b6579U };

uint64_t leat__lane_of(leat_bytes key)
{
    return key.n > 0 ? leat__siphash13(lane_key, key) | 1 : 0;
}

leat_bytes leat__lane_format(uint64_t lane, char text[LEAT__LANE_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    if (lane == 0)
        return leat_mem("", 0);
    if (lane == LEAT__LANE_STAR)
        return leat_mem("*", 1);
    for (int i = 0; i < 16; i++)
        text[i] = digits[lane >> (60 - 4 * i) & 15];
    text[16] = '\0';
    return leat_mem(text, 16);
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool leat__lane_parse(leat_bytes text, uint64_t *lane)
{
    const char *p = text.p;
    *lane = 0;
    if (text.n == 0)
        return true;
    if (text.n == 1 && p[0] == '*') {
        *lane = LEAT__LANE_STAR;
        return true;
    }
    for (size_t i = 0; i < text.n; i++) {
        int d = digit(p[i]);
        if (d < 0)
            return false;
        *lane = *lane << 4 | (uint64_t)d;
    }
    return text.n == 16 && *lane % 2 == 1;
}

/* ---- the set ---------------------------------------------------------- */

static uint32_t home(uint64_t lane, uint32_t cap)
{
    return (uint32_t)((lane * 0x9e3779b97f4a7c15U) >> 32) & (cap - 1);
}

leat__blocked *leat__blocks_find(const leat__blocks *b, uint64_t lane)
{
    if (b->count == 0)
        return NULL;
    uint32_t i = home(lane, b->cap);
    while (b->slots[i].lane != 0 && b->slots[i].lane != lane)
        i = (i + 1) & (b->cap - 1);
    return b->slots[i].lane == lane ? &b->slots[i] : NULL;
}

static leat__blocked *place(leat__blocked *slots, uint32_t cap, uint64_t lane)
{
    uint32_t i = home(lane, cap);
    while (slots[i].lane != 0)
        i = (i + 1) & (cap - 1);
    return &slots[i];
}

static leat_code grow(leat__blocks *b, leat_error *err)
{
    uint32_t cap = b->cap ? b->cap * 2 : 16;
    leat__blocked *slots = leat__calloc(cap, sizeof *slots, err);
    if (!slots)
        return LEAT_ENOMEM;
    for (uint32_t i = 0; i < b->cap; i++)
        if (b->slots[i].lane != 0)
            *place(slots, cap, b->slots[i].lane) = b->slots[i];
    leat__free(b->slots);
    b->slots = slots;
    b->cap = cap;
    return LEAT_OK;
}

leat__blocked *leat__blocks_add(leat__blocks *b, uint64_t lane, leat_error *err)
{
    leat__blocked *one = leat__blocks_find(b, lane);
    if (one)
        return one;
    if ((b->count + 1) * 3 > b->cap * 2 && grow(b, err) != LEAT_OK)
        return NULL;
    one = place(b->slots, b->cap, lane);
    *one = (leat__blocked){ .lane = lane };
    b->count++;
    return one;
}

/* Those behind it that would not be found over the gap move up. */
void leat__blocks_remove(leat__blocks *b, leat__blocked *one)
{
    uint32_t mask = b->cap - 1, gap = (uint32_t)(one - b->slots);
    b->count--;
    for (uint32_t i = (gap + 1) & mask; b->slots[i].lane != 0;
         i = (i + 1) & mask) {
        uint32_t at = home(b->slots[i].lane, b->cap);
        if (((i - at) & mask) < ((i - gap) & mask))
            continue;
        b->slots[gap] = b->slots[i];
        gap = i;
    }
    b->slots[gap] = (leat__blocked){ 0 };
}

leat__blocked *leat__blocks_next(const leat__blocks *b, uint32_t *at)
{
    while (*at < b->cap)
        if (b->slots[(*at)++].lane != 0)
            return &b->slots[*at - 1];
    return NULL;
}

void leat__blocks_release(leat__blocks *b)
{
    leat__free(b->slots);
    *b = (leat__blocks){ 0 };
}
