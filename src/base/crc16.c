/*
 * crc16.c: CRC-16/XMODEM (polynomial 0x1021, start 0) and cluster slots.
 *
 * A CRC is linear, so an entry of the table is the xor of the entries of its
 * bits; the compiler lays the table out from the eight of those.
 */
#include "base/crc16.h"

#define BIT(i, b, v) ((i) >> (b)&1 ? (v) : 0)
#define T1(i)                                                                  \
    BIT(i, 0, 0x1021) ^ BIT(i, 1, 0x2042) ^ BIT(i, 2, 0x4084) ^                \
        BIT(i, 3, 0x8108) ^ BIT(i, 4, 0x1231) ^ BIT(i, 5, 0x2462) ^            \
        BIT(i, 6, 0x48c4) ^ BIT(i, 7, 0x9188)
#define T4(i)  T1(i), T1((i) + 1), T1((i) + 2), T1((i) + 3)
#define T16(i) T4(i), T4((i) + 4), T4((i) + 8), T4((i) + 12)
#define T64(i) T16(i), T16((i) + 16), T16((i) + 32), T16((i) + 48)

static const uint16_t table[256] = { T64(0), T64(64), T64(128), T64(192) };

uint16_t leat__crc16(const void *p, size_t n)
{
    const unsigned char *s = p;
    uint16_t crc = 0;
    for (size_t i = 0; i < n; i++)
        crc = (uint16_t)((crc << 8) ^ table[(crc >> 8) ^ s[i]]);
    return crc;
}

leat_bytes leat__crc16_tag(leat_bytes key)
{
    if (key.n == 0)
        return key;
    const char *end = (const char *)key.p + key.n;
    const char *open = memchr(key.p, '{', key.n);
    if (!open)
        return key;
    const char *tag = open + 1;
    const char *shut = memchr(tag, '}', (size_t)(end - tag));
    if (!shut || shut == tag)
        return key;
    return leat_mem(tag, (size_t)(shut - tag));
}

unsigned leat__crc16_slot(leat_bytes key)
{
    leat_bytes tag = leat__crc16_tag(key);
    return leat__crc16(tag.p, tag.n) % LEAT__SLOTS;
}
