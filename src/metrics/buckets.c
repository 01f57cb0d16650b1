/*
 * buckets.c: the bounds of histograms, and a walk over their cells.
 */
#include "metrics/buckets.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

/* OpenTelemetry's advice for messaging, and three more at the fast end. */
const uint64_t leat__bounds[LEAT__BOUNDS + 1] = {
    100 * US,  500 * US,  1 * MS,    5 * MS,    10 * MS,    25 * MS,
    50 * MS,   75 * MS,   100 * MS,  250 * MS,  500 * MS,   750 * MS,
    1000 * MS, 2500 * MS, 5000 * MS, 7500 * MS, 10000 * MS, UINT64_MAX
};

const uint8_t leat__bounds_below[64] = {
    0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
    0,  1,  1,  2,  3,  3,  3,  4,  5,  6,  7,  9,  10, 11, 13, 13,
    14, 16, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17,
    17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17,
};

static uint64_t high_of(const leat__cell *c)
{
    uint64_t step_end = leat__step_low(c->step + 1) - 1;
    uint64_t bound = leat__bounds[c->coarse];
    return bound < step_end ? bound : step_end;
}

leat__cell leat__cell_first(void)
{
    leat__cell c = { 0 };
    c.high = high_of(&c);
    return c;
}

/* A bound is never the last of a step: bounds are even, ends are odd.  So each
 * border is of one kind, and the index grows by one. */
bool leat__cell_next(leat__cell *c)
{
    if (c->high == leat__bounds[c->coarse])
        c->coarse++;
    else
        c->step++;
    c->index++;
    c->low = c->high + 1;
    c->high = high_of(c);
    return c->index < LEAT__CELLS;
}
