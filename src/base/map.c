/*
 * map.c: a hash table with open addressing and linear probing.
 *
 * An entry stands at the slot its hash names or, where that is taken, in the
 * unbroken run behind it.  Removing closes the gap by moving back what belongs
 * before it, so there are no tombstones and a long life costs nothing.  At
 * most three slots in four are in use: there is always a free one to stop at.
 */
#include "base/map.h"
#include "base/mem.h"
#include "base/system.h"

#include <assert.h>
#include <string.h>

enum { FIRST = 16 };

struct key {
    size_t n;
    char bytes[];
};

struct leat__map_slot {
    uint64_t hash;
    struct key *key; /* NULL: free */
    void *value;
};

static bool same(const struct leat__map_slot *s, uint64_t hash, leat_bytes key)
{
    return s->hash == hash && s->key->n == key.n &&
           (key.n == 0 || memcmp(s->key->bytes, key.p, key.n) == 0);
}

/* The slot of the key, or the free one where it would go. */
static size_t find(const leat__map *m, uint64_t hash, leat_bytes key)
{
    size_t i = hash & (m->cap - 1);
    while (m->slots[i].key && !same(&m->slots[i], hash, key))
        i = (i + 1) & (m->cap - 1);
    return i;
}

static void place(leat__map *m, const struct leat__map_slot *s)
{
    size_t i = s->hash & (m->cap - 1);
    while (m->slots[i].key)
        i = (i + 1) & (m->cap - 1);
    m->slots[i] = *s;
}

static leat_code grow(leat__map *m, leat_error *err)
{
    leat__map bigger = *m;
    bigger.cap = m->cap ? m->cap * 2 : FIRST;
    if (m->cap == 0) {
        leat_code rc = leat__random(&bigger.seed, sizeof bigger.seed, err);
        if (rc != LEAT_OK)
            return rc;
    }
    bigger.slots = leat__calloc(bigger.cap, sizeof *bigger.slots, err);
    if (!bigger.slots)
        return LEAT_ENOMEM;
    for (size_t i = 0; i < m->cap; i++)
        if (m->slots[i].key)
            place(&bigger, &m->slots[i]);
    leat__free(m->slots);
    *m = bigger;
    return LEAT_OK;
}

void leat__map_clear(leat__map *m)
{
    for (size_t i = 0; i < m->cap; i++) {
        leat__free(m->slots[i].key);
        m->slots[i] = (struct leat__map_slot){ 0 };
    }
    m->count = 0;
}

void leat__map_release(leat__map *m)
{
    leat__map_clear(m);
    leat__free(m->slots);
    *m = (leat__map){ 0 };
}

void *leat__map_get(const leat__map *m, leat_bytes key)
{
    if (m->count == 0)
        return NULL;
    return m->slots[find(m, leat__siphash13(m->seed, key), key)].value;
}

static struct key *copy_key(leat_bytes key, leat_error *err)
{
    size_t size;
    if (__builtin_add_overflow(sizeof(struct key), key.n, &size)) {
        leat__fail(err, LEAT_ENOMEM, "no memory for %zu bytes", key.n);
        return NULL;
    }
    struct key *k = leat__alloc(size, err);
    if (!k)
        return NULL;
    k->n = key.n;
    if (key.n > 0)
        memcpy(k->bytes, key.p, key.n);
    return k;
}

static leat_code insert(leat__map *m, leat_bytes key, void *value,
                        leat_error *err)
{
    if (m->count >= m->cap / 4 * 3) {
        leat_code rc = grow(m, err);
        if (rc != LEAT_OK)
            return rc;
    }
    struct key *k = copy_key(key, err);
    if (!k)
        return LEAT_ENOMEM;
    uint64_t hash = leat__siphash13(m->seed, key);
    place(m, &(struct leat__map_slot){ hash, k, value });
    m->count++;
    return LEAT_OK;
}

leat_code leat__map_put(leat__map *m, leat_bytes key, void *value, void **old,
                        leat_error *err)
{
    assert(value);
    if (old)
        *old = NULL;
    if (m->count > 0) {
        size_t i = find(m, leat__siphash13(m->seed, key), key);
        if (m->slots[i].key) {
            if (old)
                *old = m->slots[i].value;
            m->slots[i].value = value;
            return LEAT_OK;
        }
    }
    return insert(m, key, value, err);
}

/* Close the gap at i: an entry may move back to it unless its own place lies
 * behind the gap. */
static void close_gap(leat__map *m, size_t i)
{
    const size_t mask = m->cap - 1;
    size_t j = (i + 1) & mask;
    for (; m->slots[j].key; j = (j + 1) & mask) {
        size_t home = m->slots[j].hash & mask;
        if (((j - home) & mask) < ((j - i) & mask))
            continue;
        m->slots[i] = m->slots[j];
        i = j;
    }
    m->slots[i] = (struct leat__map_slot){ 0 };
}

void *leat__map_remove(leat__map *m, leat_bytes key)
{
    if (m->count == 0)
        return NULL;
    size_t i = find(m, leat__siphash13(m->seed, key), key);
    void *value = m->slots[i].value;
    if (!m->slots[i].key)
        return NULL;
    leat__free(m->slots[i].key);
    close_gap(m, i);
    m->count--;
    return value;
}

void *leat__map_next(const leat__map *m, size_t *at, leat_bytes *key)
{
    while (*at < m->cap) {
        const struct leat__map_slot *s = &m->slots[(*at)++];
        if (!s->key)
            continue;
        if (key)
            *key = leat_mem(s->key->bytes, s->key->n);
        return s->value;
    }
    return NULL;
}
