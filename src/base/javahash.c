/*
 * javahash.c: Java's String.hashCode, h = 31 h + unit over UTF-16 units with
 * 32 bits that wrap.
 */
#include "base/javahash.h"
#include "base/utf8.h"

static uint32_t add_unit(uint32_t h, uint32_t unit)
{
    return 31 * h + unit;
}

int32_t leat__java_hash(leat_bytes text)
{
    uint32_t h = 0;
    while (text.n > 0) {
        bool ok;
        uint32_t cp = leat__utf8_next(&text, &ok);
        if (cp >= 0x10000) {
            h = add_unit(h, 0xd800 + ((cp - 0x10000) >> 10));
            cp = 0xdc00 + ((cp - 0x10000) & 0x3ff);
        }
        h = add_unit(h, cp);
    }
    return (int32_t)h;
}
