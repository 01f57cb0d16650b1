/*
 * keys.h: which arguments of a command are keys.
 *
 * On a cluster a command goes where its keys are, and all of them must be in
 * one slot.  A command that is not in the table has one key, its first
 * argument, as most have.
 */
#ifndef LEAT_REDIS_KEYS_H
#define LEAT_REDIS_KEYS_H

#include "base/error.h"
#include <leat/bytes.h>

/* argv[first], argv[first + step], ... below `end`; and argv[also], unless it
 * is 0. */
typedef struct leat__keys {
    size_t first, end, step;
    size_t also;
} leat__keys;

/* The keys of a command; first == end: it has none. */
leat__keys leat__keys_of(const leat_bytes *argv, size_t n);

/* The slot of all keys, and the first of them; -1 and empty: no keys.
 * LEAT_EINVAL: two of them are in different slots. */
leat_code leat__keys_slot(const leat_bytes *argv, size_t n, int *slot,
                          leat_bytes *key, leat_error *err);

/* The same for keys alone. */
leat_code leat__keys_same(const leat_bytes *keys, size_t n, int *slot,
                          leat_error *err);

#endif
