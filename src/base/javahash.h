/* javahash.h: Java's String.hashCode of UTF-8 text. */
#ifndef LEAT_BASE_JAVAHASH_H
#define LEAT_BASE_JAVAHASH_H

#include <leat/bytes.h>

/* Over UTF-16 units; what is not UTF-8 counts as U+FFFD, as Java reads it. */
int32_t leat__java_hash(leat_bytes text);

/* Math.floorMod(hash, count), for count above 0. */
static inline uint32_t leat__java_partition(leat_bytes key, uint32_t count)
{
    int64_t m = leat__java_hash(key) % (int64_t)count;
    return (uint32_t)(m < 0 ? m + count : m);
}

#endif
