/* murmur2.h: the hash of Kafka's default partitioner. */
#ifndef LEAT_BASE_MURMUR2_H
#define LEAT_BASE_MURMUR2_H

#include <leat/bytes.h>

/* As Kafka's Utils.murmur2; Java shows it as an int, so signed. */
uint32_t leat__murmur2(leat_bytes key);

/* The partition Kafka would choose among count, which is above 0. */
static inline uint32_t leat__murmur2_partition(leat_bytes key, uint32_t count)
{
    return (leat__murmur2(key) & 0x7fffffff) % count;
}

#endif
