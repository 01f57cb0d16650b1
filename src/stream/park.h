/*
 * park.h: nacked entries that wait for their time, earliest first.
 *
 * An entry's record may be out of date: whoever takes one out asks the table of
 * held.h whether the entry is still parked.
 * Threads: confined.
 */
#ifndef LEAT_STREAM_PARK_H
#define LEAT_STREAM_PARK_H

#include "base/error.h"
#include <leat/source.h>

typedef struct stream_parked {
    int64_t due_ns;   /* when to do something                          */
    int64_t ready_ns; /* when it comes back: due then, or renewed until */
    leat_position id;
} stream_parked;

typedef struct stream_park {
    stream_parked *heap;
    size_t count, cap;
} stream_park;

/* More are not remembered: they come back with the claims. */
enum { LEAT__STREAM_PARK_MAX = 65536 };

void leat__stream_park_release(stream_park *p);

/* False: full, or no memory. */
bool leat__stream_park_add(stream_park *p, const stream_parked *e);

/* When the first is due; INT64_MAX: there is none. */
int64_t leat__stream_park_due(const stream_park *p);

/* Take the first out; there is one. */
stream_parked leat__stream_park_pop(stream_park *p);

#endif
