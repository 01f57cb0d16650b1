/*
 * choose.h: whose turn it is, of queues that wait in many shards.
 *
 * Each shard tells for how long its queues wait, the longest first, and perhaps
 * not of all of them.  Chosen are those that wait longest of all: a queue that
 * a shard did not tell of waits no longer than the last it told of, so nobody
 * is chosen who waits less than that.  Pure.
 */
#ifndef LEAT_POOL_CHOOSE_H
#define LEAT_POOL_CHOOSE_H

#include <leat/bytes.h>
#include <stdbool.h>

typedef struct pool_waiting {
    int64_t age_ms;
    unsigned shard;
    bool last; /* its shard has more that it did not tell of */
    size_t at; /* where its name stands, for the caller */
    leat_bytes name;
} pool_waiting;

/* Sort w; the first of it, at most max, are chosen: how many. */
size_t leat__pool_choose(pool_waiting *w, size_t n, size_t max);

#endif
