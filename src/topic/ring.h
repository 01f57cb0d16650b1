/*
 * ring.h: consistent hashing.
 *
 * Every partition owns 128 points on a circle of 64 bits; a key belongs to the
 * owner of the first point at or behind its hash.  A partition more takes its
 * points' arcs from all others and moves no other key.
 *
 * The hash is SipHash-1-3 under a fixed key (see ring.c), of the key's bytes,
 * and for point j of partition i of the 8 bytes i, j, each 32 bits little
 * endian.  It is the same in all versions: all producers of a topic must agree.
 * Threads: shared after the making.
 */
#ifndef LEAT_TOPIC_RING_H
#define LEAT_TOPIC_RING_H

#include "base/error.h"
#include <leat/bytes.h>

enum { LEAT__RING_POINTS = 128 };

typedef struct leat__ring leat__ring;

leat__ring *leat__ring_new(uint32_t partitions, leat_error *err);
void leat__ring_free(leat__ring *r);

uint32_t leat__ring_of(const leat__ring *r, leat_bytes key);

#endif
