/* siphash.h: a keyed hash, for tables whose keys strangers choose. */
#ifndef LEAT_BASE_SIPHASH_H
#define LEAT_BASE_SIPHASH_H

#include <leat/bytes.h>

typedef struct leat__sipkey {
    uint64_t k0, k1;
} leat__sipkey;

/* SipHash-1-3: one round a word, three at the end. */
uint64_t leat__siphash13(leat__sipkey key, leat_bytes b);

#endif
