/*
 * chunk.c: from the reply of a read to messages.
 *
 * The strings of a reply are views into the connection's receive buffer, in
 * the order of the wire.  So one copy from the first string to the end of the
 * last moves them all, and a view is moved by moving its start.
 */
#include "topic/chunk.h"
#include "base/mem.h"
#include "message/fields.h"
#include "redis/resp.h"

#include <assert.h>
#include <string.h>

enum { BYTES_KEEP = 1 << 20 }; /* a larger copy is not kept for reuse */

struct leat__chunk {
    atomic_uint refs;
    leat__chunk_pool *pool;
    leat__chunk *next;
    leat_fields *fields;
    leat__buf bytes;
};

/* ---- the pool --------------------------------------------------------- */

static void chunk_free(leat__chunk *k)
{
    leat_fields_free(k->fields);
    leat__buf_release(&k->bytes);
    leat__free(k);
}

static leat__chunk *chunk_new(leat__chunk_pool *pool, leat_error *err)
{
    leat__chunk *k = leat__zalloc(sizeof *k, err);
    if (!k)
        return NULL;
    k->fields = leat_fields_new(err);
    if (!k->fields) {
        leat__free(k);
        return NULL;
    }
    k->pool = pool;
    return k;
}

static leat__chunk *chunk_get(leat__chunk_pool *pool, leat_error *err)
{
    if (!pool->spare)
        pool->spare = atomic_exchange_explicit(&pool->back, NULL,
                                               memory_order_acquire);
    leat__chunk *k = pool->spare;
    if (!k)
        return chunk_new(pool, err);
    pool->spare = k->next;
    leat_fields_clear(k->fields);
    k->bytes.n = 0;
    if (k->bytes.cap > BYTES_KEEP)
        leat__buf_release(&k->bytes);
    return k;
}

static void chunk_drop(leat__chunk *k)
{
    if (atomic_fetch_sub_explicit(&k->refs, 1, memory_order_acq_rel) != 1)
        return;
    leat__chunk_pool *pool = k->pool;
    k->next = atomic_load_explicit(&pool->back, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(
        &pool->back, &k->next, k, memory_order_release, memory_order_relaxed))
        ;
}

static void free_all(leat__chunk *k)
{
    for (leat__chunk *next; k; k = next) {
        next = k->next;
        chunk_free(k);
    }
}

void leat__chunk_pool_release(leat__chunk_pool *pool)
{
    free_all(pool->spare);
    free_all(atomic_exchange(&pool->back, NULL));
    pool->spare = NULL;
}

void leat__held_keep(leat__held *h)
{
    atomic_fetch_add_explicit(&h->chunk->refs, 1, memory_order_relaxed);
}

void leat__held_drop(leat__held *h)
{
    chunk_drop(h->chunk);
}

/* ---- filling ---------------------------------------------------------- */

/* Copy everything the nodes of r point to; *moved is to be added to a view. */
static leat_code copy_bytes(leat__chunk *k, const leat_reply *r,
                            const char **from, leat_error *err)
{
    const leat_reply *end = r + r->span, *first = r + 1, *last = end - 1;
    while (first < end && first->type != LEAT_REPLY_STRING)
        first++;
    while (last > first && last->type != LEAT_REPLY_STRING)
        last--;
    if (first >= end)
        return LEAT_OK;
    *from = first->s.p;
    size_t n = (size_t)(last->s.p + last->s.n - first->s.p);
    return leat__buf_add(&k->bytes, first->s.p, n, err);
}

static leat_bytes moved(const leat__chunk *k, const char *from,
                        const leat_reply *r)
{
    return leat_mem(k->bytes.p + (r->s.p - from), r->s.n);
}

/* The fields of one entry; false: it is not made of strings. */
static leat_code add_fields(leat__chunk *k, const char *from,
                            const leat_reply *list, leat_error *err)
{
    const leat_reply *r = list + 1;
    leat_code rc = leat__fields_next(k->fields, list->n / 2, err);
    if (rc != LEAT_OK)
        return rc;
    for (uint32_t i = 0; i + 1 < list->n; i += 2, r += 2) {
        if (r[0].type != LEAT_REPLY_STRING || r[1].type != LEAT_REPLY_STRING)
            return leat__fail(err, LEAT_EPROTO, "an entry's field is no text");
        rc = leat_fields_add(k->fields, moved(k, from, &r[0]),
                             moved(k, from, &r[1]), err);
        if (rc != LEAT_OK)
            return rc;
    }
    return LEAT_OK;
}

/* A message of raw fields, and why. */
static leat_code undecodable(leat__chunk *k, leat__held *h,
                             const leat_error *why, leat_error *err)
{
    const leat_bytes *pairs = leat_fields_pairs(k->fields);
    size_t n = leat_fields_count(k->fields);
    struct raw {
        leat_msg msg;
        leat_error why;
        leat_header headers[];
    } *raw = leat_fields_alloc(k->fields, sizeof *raw + n * sizeof(leat_header),
                               err);
    if (!raw)
        return LEAT_ENOMEM;
    raw->msg = (leat_msg){ .headers = raw->headers, .header_count = n };
    raw->why = *why;
    for (size_t i = 0; i < n; i++)
        raw->headers[i] = (leat_header){ pairs[2 * i], pairs[2 * i + 1] };
    h->msg = &raw->msg;
    h->error = &raw->why;
    return LEAT_OK;
}

static leat_code decode(leat__chunk *k, const leat_codec *codec, leat__held *h,
                        leat_error *err)
{
    leat_error why;
    size_t n;
    leat_code rc = codec->decode(codec, k->fields, &h->msg, &n, &why);
    if (rc == LEAT_OK && n == 1)
        return LEAT_OK;
    if (rc == LEAT_ENOMEM) {
        if (err)
            *err = why;
        return rc;
    }
    if (rc == LEAT_OK)
        leat__fail(&why, LEAT_EDECODE,
                   "an entry of %zu messages: this version reads one", n);
    return undecodable(k, h, &why, err);
}

static leat_code one_entry(leat__chunk *k, const leat_codec *codec,
                           const char *from, const leat_reply *entry,
                           leat__held *h, leat_error *err)
{
    const leat_reply *id = entry + 1, *list = entry + 2;
    if (entry->type != LEAT_REPLY_ARRAY || entry->n != 2 ||
        id->type != LEAT_REPLY_STRING || list->type != LEAT_REPLY_ARRAY ||
        !leat__id_parse(leat_mem(id->s.p, id->s.n), &h->id))
        return leat__fail(err, LEAT_EPROTO,
                          "the server's answer to a read has no entries");
    h->chunk = k;
    h->error = NULL;
    leat_code rc = add_fields(k, from, list, err);
    return rc == LEAT_OK ? decode(k, codec, h, err) : rc;
}

size_t leat__chunk_fill(leat__chunk_pool *pool, const leat_codec *codec,
                        const leat_reply *entries, leat__held **held,
                        size_t max, leat_error *err)
{
    const char *from = NULL;
    size_t count = entries->n < max ? entries->n : max, n = 0;
    leat__chunk *k = chunk_get(pool, err);
    if (!k)
        return 0;

    atomic_store_explicit(&k->refs, 1, memory_order_relaxed);
    leat__held *h = NULL;
    if (copy_bytes(k, entries, &from, err) == LEAT_OK)
        h = leat_fields_alloc(k->fields, count * sizeof *h, err);
    const leat_reply *entry = entries + 1;
    for (; h && n < count; n++, entry += entry->span) {
        if (one_entry(k, codec, from, entry, &h[n], err) != LEAT_OK)
            break;
        held[n] = &h[n];
    }
    atomic_fetch_add_explicit(&k->refs, (unsigned)n, memory_order_relaxed);
    chunk_drop(k);
    return n;
}
