/*
 * base64.c: standard base64 with padding.
 */
#include "base/base64.h"

static const char digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void leat__base64_encode(char *out, leat_bytes b)
{
    const unsigned char *s = b.p;
    size_t left = b.n;

    for (; left >= 3; s += 3, left -= 3) {
        uint32_t v = (uint32_t)s[0] << 16 | (uint32_t)s[1] << 8 | s[2];
        *out++ = digits[v >> 18];
        *out++ = digits[v >> 12 & 63];
        *out++ = digits[v >> 6 & 63];
        *out++ = digits[v & 63];
    }
    if (left == 0)
        return;
    uint32_t v = (uint32_t)s[0] << 16 | (left == 2 ? (uint32_t)s[1] << 8 : 0);
    *out++ = digits[v >> 18];
    *out++ = digits[v >> 12 & 63];
    *out++ = left == 2 ? digits[v >> 6 & 63] : '=';
    *out = '=';
}

/* 0..63, or 64 for what is no digit. */
static unsigned value(unsigned char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26u;
    if (c >= '0' && c <= '9')
        return c - '0' + 52u;
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

/* The n digits (2..4) at s as the leading bits of 24; false: one is none. */
static bool group(const unsigned char *s, size_t n, uint32_t *v)
{
    *v = 0;
    for (size_t i = 0; i < 4; i++) {
        unsigned d = i < n ? value(s[i]) : 0;
        if (d > 63)
            return false;
        *v = *v << 6 | d;
    }
    return true;
}

static size_t padding(leat_bytes text)
{
    const char *s = text.p;
    if (text.n == 0 || s[text.n - 1] != '=')
        return 0;
    return s[text.n - 2] == '=' ? 2 : 1;
}

leat_code leat__base64_decode(void *out, size_t *n, leat_bytes text,
                              leat_error *err)
{
    const unsigned char *s = text.p;
    unsigned char *o = out;

    *n = 0;
    if (text.n % 4 != 0)
        return leat__fail(err, LEAT_EDECODE,
                          "base64 of %zu characters: not a multiple of four",
                          text.n);
    size_t pad = padding(text);
    for (size_t i = 0; i < text.n; i += 4) {
        size_t have = i + 4 == text.n ? 4 - pad : 4;
        uint32_t v;
        if (!group(s + i, have, &v))
            return leat__fail(err, LEAT_EDECODE,
                              "base64 is broken in the characters from %zu", i);
        if (have < 4 && (v & (have == 2 ? 0xffffu : 0xffu)) != 0)
            return leat__fail(err, LEAT_EDECODE,
                              "base64 ends with bits that mean nothing");
        *o++ = (unsigned char)(v >> 16);
        if (have > 2)
            *o++ = (unsigned char)(v >> 8);
        if (have > 3)
            *o++ = (unsigned char)v;
    }
    *n = text.n / 4 * 3 - pad;
    return LEAT_OK;
}
