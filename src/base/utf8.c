/*
 * utf8.c: taking UTF-8 apart, strictly (RFC 3629).
 *
 * Which second bytes may follow a first byte decides everything: it excludes
 * overlong forms (E0, F0), surrogates (ED) and what is above U+10FFFF (F4).
 */
#include "base/utf8.h"

struct lead {
    unsigned more;        /* bytes that follow; 0: no lead byte */
    unsigned char lo, hi; /* what the second byte may be        */
};

static struct lead lead_of(unsigned char c)
{
    unsigned char lo = 0x80, hi = 0xbf;
    if (c < 0xc2 || c > 0xf4)
        return (struct lead){ 0 };
    if (c == 0xe0)
        lo = 0xa0;
    else if (c == 0xed)
        hi = 0x9f;
    else if (c == 0xf0)
        lo = 0x90;
    else if (c == 0xf4)
        hi = 0x8f;
    return (struct lead){ c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3, lo, hi };
}

static uint32_t take(leat_bytes *b, size_t n, uint32_t cp)
{
    b->p = (const char *)b->p + n;
    b->n -= n;
    return cp;
}

uint32_t leat__utf8_next(leat_bytes *b, bool *ok)
{
    const unsigned char *s = b->p;
    *ok = true;
    if (s[0] < 0x80)
        return take(b, 1, s[0]);

    struct lead l = lead_of(s[0]);
    uint32_t cp = s[0] & (0x3fu >> l.more);
    size_t i = 1;
    for (; i <= l.more && i < b->n; i++) {
        if (s[i] < l.lo || s[i] > l.hi)
            break;
        cp = cp << 6 | (s[i] & 0x3f);
        l.lo = 0x80;
        l.hi = 0xbf;
    }
    *ok = l.more > 0 && i == l.more + 1;
    return take(b, i, *ok ? cp : LEAT__UTF8_BAD);
}

bool leat__utf8_valid(leat_bytes b)
{
    bool ok = true;
    while (ok && b.n > 0)
        leat__utf8_next(&b, &ok);
    return ok;
}

bool leat__utf8_misleads(uint32_t cp)
{
    static const struct {
        uint32_t from, to;
    } marks[] = {
        { 0, 0x1f },        { 0x7f, 0x9f },     { 0x61c, 0x61c },
        { 0x200b, 0x200f }, { 0x2028, 0x202e }, { 0x2060, 0x206f },
        { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xe0000, 0xe007f },
    };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (cp >= marks[i].from && cp <= marks[i].to)
            return true;
    return false;
}
