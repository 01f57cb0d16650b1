/*
 * arena.h: memory for things that die together.  Zero-initialised is empty.
 * A cleared arena keeps one block large enough for what it held, so in a
 * steady state nothing is allocated.
 */
#ifndef LEAT_BASE_ARENA_H
#define LEAT_BASE_ARENA_H

#include "base/error.h"
#include <stddef.h>

typedef struct leat__arena {
    struct leat__arena_block *block; /* the newest, holding the others */
} leat__arena;

/* Aligned for any type; NULL with *err filled when there is no memory. */
void *leat__arena_alloc(leat__arena *a, size_t n, leat_error *err);

/* Everything handed out so far becomes invalid. */
void leat__arena_clear(leat__arena *a);
void leat__arena_release(leat__arena *a);

#endif
