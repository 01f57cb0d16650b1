/*
 * arena.c: memory for things that die together.
 */
#include "base/arena.h"
#include "base/mem.h"

#include <stdalign.h>
#include <string.h>

enum { FIRST = 4096, UNIT = alignof(max_align_t) };

struct leat__arena_block {
    struct leat__arena_block *older;
    size_t used, cap;
    alignas(max_align_t) char bytes[];
};

static struct leat__arena_block *add_block(leat__arena *a, size_t n,
                                           leat_error *err)
{
    size_t cap = a->block ? a->block->cap * 2 : FIRST, size;
    if (cap < n)
        cap = n;
    if (__builtin_add_overflow(sizeof(struct leat__arena_block), cap, &size)) {
        leat__fail(err, LEAT_ENOMEM, "no memory for %zu bytes", n);
        return NULL;
    }
    struct leat__arena_block *b = leat__alloc(size, err);
    if (!b)
        return NULL;
    *b = (struct leat__arena_block){ .older = a->block, .cap = cap };
    return a->block = b;
}

/* Apart, so that an allocation from a block with room is a few instructions. */
static __attribute__((noinline)) void *alloc_anew(leat__arena *a, size_t n,
                                                  leat_error *err)
{
    if (n > SIZE_MAX - UNIT) {
        leat__fail(err, LEAT_ENOMEM, "no memory for %zu bytes", n);
        return NULL;
    }
    n = (n + UNIT - 1) / UNIT * UNIT;
    struct leat__arena_block *b = add_block(a, n, err);
    if (!b)
        return NULL;
    b->used = n;
    return b->bytes;
}

void *leat__arena_alloc(leat__arena *a, size_t n, leat_error *err)
{
    struct leat__arena_block *b = a->block;
    size_t units = n / UNIT + (n % UNIT != 0);
    if (!b || (b->cap - b->used) / UNIT < units)
        return alloc_anew(a, n, err);
    void *p = b->bytes + b->used;
    b->used += units * UNIT;
    return p;
}

/* The newest block is the largest; it alone is kept. */
void leat__arena_clear(leat__arena *a)
{
    if (!a->block)
        return;
    while (a->block->older) {
        struct leat__arena_block *b = a->block->older;
        a->block->older = b->older;
        leat__free(b);
    }
    a->block->used = 0;
}

void leat__arena_release(leat__arena *a)
{
    leat__arena_clear(a);
    leat__free(a->block);
    *a = (leat__arena){ 0 };
}
