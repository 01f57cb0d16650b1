/* record.c: nonces and members' records, read and written. */
#include "topic/record.h"

#include <string.h>

/* ---- nonces ----------------------------------------------------------- */

void leat__nonce_format(const leat__nonce *n, char out[LEAT__NONCE_TEXT + 1])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < sizeof n->b; i++) {
        out[2 * i] = digits[n->b[i] >> 4];
        out[2 * i + 1] = digits[n->b[i] & 15];
    }
    out[LEAT__NONCE_TEXT] = '\0';
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool leat__nonce_parse(leat_bytes text, leat__nonce *out)
{
    const char *p = text.p;
    if (text.n != LEAT__NONCE_TEXT)
        return false;
    for (size_t i = 0; i < sizeof out->b; i++) {
        int hi = digit(p[2 * i]), lo = digit(p[2 * i + 1]);
        if (hi < 0 || lo < 0)
            return false;
        out->b[i] = (uint8_t)(hi << 4 | lo);
    }
    return true;
}

/* ---- reading ---------------------------------------------------------- */

enum { DIGITS = 19 }; /* of any length that fits without looking */

/* Take a number of up to 19 digits off the front. */
static bool number(leat_bytes *at, uint64_t most, uint64_t *out)
{
    const char *p = at->p;
    size_t n = 0;
    uint64_t v = 0;
    while (n < at->n && n < DIGITS && p[n] >= '0' && p[n] <= '9')
        v = v * 10 + (uint64_t)(p[n++] - '0');
    *at = leat_mem(p + n, at->n - n);
    *out = v;
    return n > 0 && v <= most;
}

static bool skip(leat_bytes *at, char c)
{
    if (at->n == 0 || *(const char *)at->p != c)
        return false;
    *at = leat_mem((const char *)at->p + 1, at->n - 1);
    return true;
}

/* Take the word before the next space, and the space, off the front. */
static bool word(leat_bytes *at, leat_bytes *out)
{
    const char *space = at->n ? memchr(at->p, ' ', at->n) : NULL;
    if (!space)
        return false;
    *out = leat_mem(at->p, (size_t)(space - (const char *)at->p));
    *at = leat_mem(space + 1, at->n - out->n - 1);
    return out->n > 0;
}

bool leat__claims_next(leat_bytes *claims, uint32_t *lo, uint32_t *hi)
{
    uint64_t from, to;
    if (!number(claims, UINT32_MAX, &from))
        return false;
    to = from;
    if (skip(claims, '-') && !number(claims, UINT32_MAX, &to))
        return false;
    (void)skip(claims, ',');
    *lo = (uint32_t)from;
    *hi = (uint32_t)to;
    return to >= from;
}

static bool sound(leat_bytes claims)
{
    uint32_t lo, hi;
    while (claims.n > 0)
        if (!leat__claims_next(&claims, &lo, &hi))
            return false;
    return true;
}

static bool flags(leat_bytes text, leat__record *out)
{
    const char *p = text.p;
    out->leaving = out->stable = false;
    for (size_t i = 0; i < text.n; i++) {
        if (p[i] == 'l')
            out->leaving = true;
        else if (p[i] == 's')
            out->stable = true;
        else if (p[i] != '-')
            return false;
    }
    return true;
}

bool leat__record_head(leat_bytes text, uint64_t *beat, leat_bytes *rest)
{
    if (!skip(&text, '1') || !skip(&text, ' ') ||
        !number(&text, UINT64_MAX, beat) || !skip(&text, ' '))
        return false;
    *rest = text;
    return true;
}

bool leat__record_parse(leat_bytes text, leat__record *out)
{
    leat_bytes at, w;
    uint64_t cap;
    if (!leat__record_head(text, &out->beat, &out->rest))
        return false;
    at = out->rest;
    (void)skip(&at, '+');
    if (!number(&at, UINT64_MAX, &out->born) || !skip(&at, ' ') ||
        !number(&at, UINT32_MAX, &cap) || !skip(&at, ' '))
        return false;
    out->cap = (uint32_t)cap;
    if (!word(&at, &w) || !flags(w, out) || !word(&at, &out->claims))
        return false;
    if (leat_bytes_eq(out->claims, leat_str("-")))
        out->claims.n = 0;
    out->name = at;
    return sound(out->claims);
}

/* ---- writing ---------------------------------------------------------- */

leat_code leat__claims_add(leat__buf *b, uint32_t lo, uint32_t hi,
                           leat_error *err)
{
    const char *comma = b->n ? "," : "";
    if (lo == hi)
        return leat__buf_printf(b, err, "%s%u", comma, lo);
    return leat__buf_printf(b, err, "%s%u-%u", comma, lo, hi);
}

leat_code leat__record_format(leat__buf *b, const leat__record *r, bool again,
                              leat_error *err)
{
    const char *set = r->leaving ? (r->stable ? "ls" : "l")
                                 : (r->stable ? "s" : "-");
    leat_code rc = leat__buf_printf(
        b, err, "1 %llu %s%llu %u %s ", (unsigned long long)r->beat,
        again ? "+" : "", (unsigned long long)r->born, r->cap, set);
    if (rc == LEAT_OK)
        rc = r->claims.n ? leat__buf_add(b, r->claims.p, r->claims.n, err)
                         : leat__buf_add(b, "-", 1, err);
    if (rc == LEAT_OK)
        rc = leat__buf_add(b, " ", 1, err);
    if (rc == LEAT_OK)
        rc = leat__buf_add(b, r->name.p, r->name.n, err);
    return rc;
}
