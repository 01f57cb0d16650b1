/*
 * choose.c: whose turn it is, of queues that wait in many shards.
 */
#include "pool/choose.h"

#include <stdlib.h>

static int by_age(const void *a, const void *b)
{
    const pool_waiting *x = a, *y = b;
    if (x->age_ms != y->age_ms)
        return x->age_ms > y->age_ms ? -1 : 1;
    return x->shard < y->shard ? -1 : x->shard > y->shard;
}

size_t leat__pool_choose(pool_waiting *w, size_t n, size_t max, size_t *queues)
{
    qsort(w, n, sizeof *w, by_age);
    size_t k = 0;
    *queues = 0;
    for (; k < n && *queues < max; k++) {
        if (w[k].count > max - *queues)
            w[k].count = max - *queues;
        *queues += w[k].count;
    }
    return k;
}
