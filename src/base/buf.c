/*
 * buf.c: a growing run of bytes.
 */
#include "base/buf.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FIRST = 256 };

void leat__buf_release(leat__buf *b)
{
    leat__free(b->p);
    *b = (leat__buf){ 0 };
}

leat_code leat__buf_reserve(leat__buf *b, size_t n, leat_error *err)
{
    size_t need;
    if (b->cap - b->n >= n)
        return LEAT_OK;
    if (__builtin_add_overflow(b->n, n, &need) || need > SIZE_MAX / 2)
        return leat__fail(err, LEAT_ENOMEM, "no memory for %zu bytes", n);

    size_t cap = b->cap ? b->cap : FIRST;
    while (cap < need)
        cap *= 2;
    char *p = leat__realloc(b->p, cap, err);
    if (!p)
        return LEAT_ENOMEM;
    b->p = p;
    b->cap = cap;
    return LEAT_OK;
}

leat_code leat__buf_add(leat__buf *b, const void *p, size_t n, leat_error *err)
{
    leat_code rc = leat__buf_reserve(b, n, err);
    if (rc == LEAT_OK && n > 0) {
        memcpy(b->p + b->n, p, n);
        b->n += n;
    }
    return rc;
}

leat_code leat__buf_printf(leat__buf *b, leat_error *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return leat__fail(err, LEAT_EINVAL, "bad format");

    leat_code rc = leat__buf_reserve(b, (size_t)n + 1, err);
    if (rc != LEAT_OK)
        return rc;
    va_start(ap, fmt);
    vsnprintf(b->p + b->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->n += (size_t)n;
    return LEAT_OK;
}
