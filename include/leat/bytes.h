/*
 * bytes.h: a pointer and a length.  Payloads, keys and headers may hold zeros,
 * so they are never C strings.  A leat_bytes borrows what it points to.
 */
#ifndef LEAT_BYTES_H
#define LEAT_BYTES_H

#include <leat/api.h>
#include <string.h>

LEAT_BEGIN

typedef struct leat_bytes {
    const void *p; /* may be NULL when n is 0 */
    size_t n;
} leat_bytes;

/* The bytes of a C string, without its terminator; NULL is empty. */
static inline leat_bytes leat_str(const char *s)
{
    leat_bytes b = { s, s ? strlen(s) : 0 };
    return b;
}

static inline leat_bytes leat_mem(const void *p, size_t n)
{
    leat_bytes b = { p, n };
    return b;
}

static inline bool leat_bytes_eq(leat_bytes a, leat_bytes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

LEAT_END
#endif
