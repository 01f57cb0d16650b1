/*
 * buckets.h: which cell of a histogram a time belongs to.
 *
 * Two scales at once.  Fine: eight steps to the doubling, so the middle of a
 * step is within 1/16 of everything in it.  Coarse: the bounds that are shown
 * to the outside.  A cell is where both agree, and since both only rise, the
 * number of the fine step plus the number of coarse bounds below is a number
 * of its own for each.  So one count serves both, and both are exact.
 */
#ifndef LEAT_METRICS_BUCKETS_H
#define LEAT_METRICS_BUCKETS_H

#include <leat/api.h>

enum {
    LEAT__BOUNDS = 17,
    LEAT__STEPS = 8 + 60 * 8, /* 0..7 one by one, then octaves 3..62 */
    LEAT__CELLS = LEAT__STEPS + LEAT__BOUNDS
};

/* The upper bounds shown, in nanoseconds, and then UINT64_MAX. */
extern const uint64_t leat__bounds[LEAT__BOUNDS + 1];

/* How many bounds lie below 2^octave. */
extern const uint8_t leat__bounds_below[64];

static inline unsigned leat__octave_of(uint64_t v)
{
    return 63u - (unsigned)__builtin_clzll(v | 1);
}

static inline unsigned leat__step_of(uint64_t v)
{
    unsigned octave = leat__octave_of(v | 8);
    return (octave - 3) * 8 + (unsigned)(v >> (octave - 3));
}

/* No doubling holds more than two bounds. */
static inline unsigned leat__coarse_of(uint64_t v)
{
    unsigned b = leat__bounds_below[leat__octave_of(v)];
    b += v > leat__bounds[b];
    return b + (v > leat__bounds[b]);
}

static inline unsigned leat__cell_of(uint64_t v)
{
    return leat__step_of(v) + leat__coarse_of(v);
}

/* The smallest time in a step. */
static inline uint64_t leat__step_low(unsigned step)
{
    if (step < 16)
        return step;
    unsigned shift = step / 8 - 1;
    return (uint64_t)(8 + step % 8) << shift;
}

/* A walk over the cells from the smallest: start zeroed. */
typedef struct leat__cell {
    unsigned index, step, coarse;
    uint64_t low, high; /* both in the cell */
} leat__cell;

/* The first cell, and the one after *c; false: there is none. */
leat__cell leat__cell_first(void);
bool leat__cell_next(leat__cell *c);

#endif
