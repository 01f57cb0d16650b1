/*
 * choose.h: whose turn it is, of queues that wait in many shards.
 *
 * Each shard tells for how long its queues wait, the longest first, one by one
 * or in lots of which the first counts.  Chosen are those that wait longest of
 * all; of the last lot perhaps a part.  Pure.
 */
#ifndef LEAT_POOL_CHOOSE_H
#define LEAT_POOL_CHOOSE_H

#include <leat/bytes.h>
#include <stdbool.h>

typedef struct pool_waiting {
    int64_t age_ms; /* of the first           */
    size_t count;   /* queues in this lot     */
    unsigned shard;
    size_t at;       /* where the name stands, for the caller */
    leat_bytes name; /* of a lot of one, or empty             */
} pool_waiting;

/* Sort w; the first of it are chosen, and their counts are at most max queues:
 * how many of w.  *queues: how many they are in all. */
size_t leat__pool_choose(pool_waiting *w, size_t n, size_t max, size_t *queues);

#endif
