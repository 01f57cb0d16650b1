/*
 * buf.h: a growing run of bytes.  Zero-initialised is empty.
 */
#ifndef LEAT_BASE_BUF_H
#define LEAT_BASE_BUF_H

#include "base/error.h"
#include <leat/bytes.h>

typedef struct leat__buf {
    char *p;
    size_t n;   /* bytes in use       */
    size_t cap; /* bytes allocated    */
} leat__buf;

void leat__buf_release(leat__buf *b);

/* Make room for n more bytes; what is there stays valid on failure. */
leat_code leat__buf_reserve(leat__buf *b, size_t n, leat_error *err);

leat_code leat__buf_add(leat__buf *b, const void *p, size_t n, leat_error *err);
leat_code leat__buf_printf(leat__buf *b, leat_error *err, const char *fmt, ...)
    LEAT_PRINTF(3, 4);

static inline leat_code leat__buf_str(leat__buf *b, const char *s,
                                      leat_error *err)
{
    return leat__buf_add(b, s, strlen(s), err);
}

static inline leat_bytes leat__buf_bytes(const leat__buf *b)
{
    return leat_mem(b->p, b->n);
}

#endif
