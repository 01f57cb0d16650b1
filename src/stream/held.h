/*
 * held.h: what this process knows of its own pending entries.
 *
 * A table from an entry's id to what holds it; LEAT__STREAM_PARKED stands for
 * an entry that was nacked and waits for its time.  Whatever is pending here
 * and not in the table was lost on its way, and has to be fetched again.
 * Threads: confined.
 */
#ifndef LEAT_STREAM_HELD_H
#define LEAT_STREAM_HELD_H

#include "base/error.h"
#include <leat/source.h>

#define LEAT__STREAM_PARKED ((void *)1)

typedef struct stream_held {
    struct stream_held_slot *slots;
    size_t count;
    size_t cap; /* 0, or a power of two */
    uint64_t seed;
} stream_held;

void leat__stream_held_release(stream_held *h);

/* Room for n more, so that the puts cannot fail. */
leat_code leat__stream_held_reserve(stream_held *h, size_t n, leat_error *err);

/* NULL: not there. */
void *leat__stream_held_get(const stream_held *h, leat_position id);

/* Set it; there is room. */
void leat__stream_held_put(stream_held *h, leat_position id, void *value);

/* Forget it; nothing when it is not there. */
void leat__stream_held_drop(stream_held *h, leat_position id);

#endif
