/*
 * murmur2.c: MurmurHash2, 32 bits, with the seed Kafka's producers use.  A key
 * then lands in the same partition number as in Kafka.
 */
#include "base/murmur2.h"

enum { SHIFT = 24 };
static const uint32_t seed = 0x9747b28c, mix = 0x5bd1e995;

static uint32_t word(const unsigned char *s)
{
    return (uint32_t)s[0] | (uint32_t)s[1] << 8 | (uint32_t)s[2] << 16 |
           (uint32_t)s[3] << 24;
}

uint32_t leat__murmur2(leat_bytes key)
{
    const unsigned char *s = key.p;
    size_t left = key.n;
    uint32_t h = seed ^ (uint32_t)key.n;

    for (; left >= 4; s += 4, left -= 4) {
        uint32_t k = word(s) * mix;
        k ^= k >> SHIFT;
        h = (h * mix) ^ (k * mix);
    }
    if (left > 0) {
        for (size_t i = 0; i < left; i++)
            h ^= (uint32_t)s[i] << (8 * i);
        h *= mix;
    }
    h ^= h >> 13;
    h *= mix;
    return h ^ (h >> 15);
}
