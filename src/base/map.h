/*
 * map.h: byte strings to pointers.
 *
 * Zero-initialised is empty.  Keys are copied; values are the caller's and
 * never NULL, so that NULL can mean "not there".  The hash is keyed by a random
 * seed of each map's own: whoever chooses the keys cannot make it slow.
 * Threads: confined.
 */
#ifndef LEAT_BASE_MAP_H
#define LEAT_BASE_MAP_H

#include "base/error.h"
#include "base/siphash.h"
#include <leat/bytes.h>

typedef struct leat__map {
    struct leat__map_slot *slots;
    size_t count; /* entries                        */
    size_t cap;   /* slots: 0, or a power of two    */
    leat__sipkey seed;
} leat__map;

/* Frees the keys; the values are the caller's. */
void leat__map_release(leat__map *m);

/* The same, but keeps the slots. */
void leat__map_clear(leat__map *m);

/* The value, or NULL. */
void *leat__map_get(const leat__map *m, leat_bytes key);

/* Set the value of a key.  The one it had goes to *old (which may be NULL), or
 * NULL when it is new.  On failure the map is as it was. */
leat_code leat__map_put(leat__map *m, leat_bytes key, void *value, void **old,
                        leat_error *err) LEAT_MUST_CHECK;

/* Take the key out; the value it had, or NULL. */
void *leat__map_remove(leat__map *m, leat_bytes key);

/* Each entry once, in no order: start with *at = 0, end at NULL.  key may be
 * NULL.  The map must not change meanwhile, except that values may be put for
 * keys that are there. */
void *leat__map_next(const leat__map *m, size_t *at, leat_bytes *key);

/* Numbers as keys. */
static inline void *leat__map_get_u64(const leat__map *m, uint64_t key)
{
    return leat__map_get(m, leat_mem(&key, sizeof key));
}

static inline leat_code leat__map_put_u64(leat__map *m, uint64_t key,
                                          void *value, void **old,
                                          leat_error *err)
{
    return leat__map_put(m, leat_mem(&key, sizeof key), value, old, err);
}

static inline void *leat__map_remove_u64(leat__map *m, uint64_t key)
{
    return leat__map_remove(m, leat_mem(&key, sizeof key));
}

#endif
