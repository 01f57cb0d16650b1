/* base64.h: standard base64 with padding (RFC 4648, section 4). */
#ifndef LEAT_BASE_BASE64_H
#define LEAT_BASE_BASE64_H

#include "base/error.h"
#include <leat/bytes.h>

/* Characters for n bytes, n up to SIZE_MAX / 2; and at most so many bytes
 * from n characters. */
static inline size_t leat__base64_encoded(size_t n)
{
    return n / 3 * 4 + (n % 3 ? 4 : 0);
}

static inline size_t leat__base64_decoded_max(size_t n)
{
    return n / 4 * 3;
}

/* Writes leat__base64_encoded(b.n) characters, no zero behind them. */
void leat__base64_encode(char *out, leat_bytes b);

/* Strict: only the alphabet, right padding, no stray bits; each byte string
 * has one encoding.  out has room for leat__base64_decoded_max(text.n); *n
 * tells how much of it was used.  LEAT_EDECODE otherwise. */
leat_code leat__base64_decode(void *out, size_t *n, leat_bytes text,
                              leat_error *err) LEAT_MUST_CHECK;

#endif
