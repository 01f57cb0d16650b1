/*
 * chunk.c: from the reply of a read to messages.
 *
 * The strings of a reply are views into the connection's receive buffer, in
 * the order of the wire.  So one copy from an entry's first string to the end
 * of its last moves them all, and a view is moved by moving its start.
 */
#include "topic/chunk.h"
#include "base/mem.h"
#include "message/fields.h"
#include "redis/resp.h"

#include <assert.h>
#include <string.h>

#define LARGE "@large"

enum { BYTES_KEEP = 1 << 20 }; /* a larger copy is not kept for reuse */

struct leat__chunk {
    atomic_uint refs;
    leat__chunk_pool *pool;
    leat__chunk *next;
    leat_fields *fields;
    leat__buf bytes;
    size_t large; /* bytes of the one message that has it for itself */
    atomic_bool ahead;
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

/* The message is no longer one that only waits to be handed out. */
static __attribute__((noinline, cold)) void no_more_ahead(leat__chunk *k)
{
    if (!atomic_exchange(&k->ahead, false))
        return;
    atomic_fetch_sub(&k->pool->ahead, 1);
    atomic_fetch_sub(&k->pool->ahead_bytes, k->large);
}

/* Large memory is not kept. */
static __attribute__((noinline, cold)) void drop_large(leat__chunk *k)
{
    no_more_ahead(k);
    atomic_fetch_sub(&k->pool->large_bytes, k->large);
    chunk_free(k);
}

static void chunk_drop(leat__chunk *k)
{
    if (atomic_fetch_sub_explicit(&k->refs, 1, memory_order_acq_rel) != 1)
        return;
    leat__chunk_pool *pool = k->pool;
    if (k->large) {
        drop_large(k);
        return;
    }
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
    if (h->chunk->large)
        no_more_ahead(h->chunk);
    atomic_fetch_add_explicit(&h->chunk->refs, 1, memory_order_relaxed);
}

void leat__held_drop(leat__held *h)
{
    chunk_drop(h->chunk);
}

/* ---- filling ---------------------------------------------------------- */

/* What one filling works with. */
typedef struct filling {
    leat__chunk *chunk;
    const leat_codec *codec;
    const char *id_text; /* of the entry before, where it is long enough */
    leat__id id;
    const char *from; /* where what is copied to the chunk's bytes begins */
    leat_error why;   /* here, because it is large to be made each time   */
    leat_error *err;
} filling;

/* The first and the last string in the nodes after r; false: there is none. */
static bool strings_of(const leat_reply *r, const leat_reply **first,
                       const leat_reply **last)
{
    const leat_reply *end = r + r->span;
    *first = r + 1;
    *last = end - 1;
    while (*first < end && (*first)->type != LEAT_REPLY_STRING)
        ++*first;
    while (*last > *first && (*last)->type != LEAT_REPLY_STRING)
        --*last;
    return *first < end;
}

/* Room for everything the nodes of r point to. */
static leat_code reserve(filling *f, const leat_reply *r)
{
    const leat_reply *first, *last;
    if (!strings_of(r, &first, &last))
        return LEAT_OK;
    f->from = first->s.p;
    size_t n = (size_t)(last->s.p + last->s.n - first->s.p);
    return leat__buf_reserve(&f->chunk->bytes, n, f->err);
}

static inline bool is_marked(const leat_reply *list)
{
    const leat_reply *name = list + 1;
    const size_t n = sizeof LEAT__AGAIN_MARK - 1;
    return list->n >= 2 && name->type == LEAT_REPLY_STRING && name->s.n == n &&
           memcmp(name->s.p, LEAT__AGAIN_MARK, n) == 0;
}

/* The fields of one entry but the mark, and the bytes from the first to the
 * last. */
static inline __attribute__((always_inline)) leat_code
copy_fields(filling *f, const leat_reply *list, leat__held *h)
{
    h->again = is_marked(list);
    size_t n = list->n - (h->again ? 2 : 0);
    const leat_reply *r = list + 1 + (list->n - n), *end = r + n;
    leat_bytes *to = leat__fields_begin(f->chunk->fields, n / 2, f->err);
    if (!to)
        return LEAT_ENOMEM;
    if (n < 2)
        return LEAT_OK;
    const char *first = r->s.p;
    char *base = f->chunk->bytes.p;
    const char *from = f->from;
    for (; r < end; r++) {
        if (r->type != LEAT_REPLY_STRING)
            return leat__fail(f->err, LEAT_EPROTO,
                              "an entry's field is no text");
        *to++ = leat_mem(base + (r->s.p - from), r->s.n);
    }
    size_t bytes = (size_t)(end[-1].s.p + end[-1].s.n - first);
    memcpy(base + (first - from), first, bytes);
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

/* In line, because it is done for every entry. */
static inline __attribute__((always_inline)) leat_code decode(filling *f,
                                                              leat__held *h)
{
    size_t n;
    leat__chunk *k = f->chunk;
    leat_code rc = f->codec->decode(f->codec, k->fields, &h->msg, &n, &f->why);
    if (rc == LEAT_OK && n == 1)
        return LEAT_OK;
    if (rc == LEAT_ENOMEM) {
        if (f->err)
            *f->err = f->why;
        return rc;
    }
    if (rc == LEAT_OK)
        leat__fail(&f->why, LEAT_EDECODE,
                   "an entry of %zu messages: this version reads one", n);
    return undecodable(k, h, &f->why, f->err);
}

/* Does the last pair, before end, say that a body is elsewhere? */
static inline bool is_stub(const filling *f, const leat_reply *end)
{
    const leat_reply *name = end - 2;
    return name->s.n == sizeof LARGE - 1 &&
           memcmp(name->s.p, LARGE, sizeof LARGE - 1) == 0 &&
           f->chunk->pool->bodies;
}

static leat_code body_gone(filling *f, leat__held *h)
{
    leat__fail(&f->why, LEAT_EDECODE, "its large body is gone");
    return undecodable(f->chunk, h, &f->why, f->err);
}

static __attribute__((noinline, cold)) leat_code make_stub(filling *f,
                                                           leat__held *h)
{
    leat__chunk *k = f->chunk;
    size_t n = 2 * leat_fields_count(k->fields);
    struct whole {
        leat__stub stub;
        leat_bytes pairs[];
    } *w = leat_fields_alloc(k->fields, sizeof *w + n * sizeof(leat_bytes),
                             f->err);
    if (!w)
        return LEAT_ENOMEM;
    memcpy(w->pairs, leat_fields_pairs(k->fields), n * sizeof(leat_bytes));
    w->stub = (leat__stub){ w->pairs, n };
    h->msg = NULL;
    h->stub = &w->stub;
    k->pool->stubs = true;
    return LEAT_OK;
}

static bool next_id(filling *f, const leat_reply *id)
{
    bool ok = leat__id_parse_next(leat_mem(id->s.p, id->s.n), f->id_text,
                                  &f->id);
    f->id_text = id->s.n >= LEAT__ID_NEXT ? id->s.p : NULL;
    return ok;
}

/* Up to end, which is the next entry's place.  One without fields ends with its
 * id. */
static inline __attribute__((always_inline)) leat_code
one_entry(filling *f, const leat_reply *entry, const leat_reply *end,
          leat__held *h)
{
    const leat_reply *id = entry + 1, *list = entry + 2;
    if (entry->type != LEAT_REPLY_ARRAY || entry->n != 2 ||
        id->type != LEAT_REPLY_STRING || list->type != LEAT_REPLY_ARRAY ||
        list->n % 2 != 0 || !next_id(f, id))
        return leat__fail(f->err, LEAT_EPROTO,
                          "the server's answer to a read has no entries");
    h->chunk = f->chunk;
    h->id = f->id;
    h->error = NULL;
    leat_code rc = copy_fields(f, list, h);
    if (rc != LEAT_OK)
        return rc;
    return is_stub(f, end) ? make_stub(f, h) : decode(f, h);
}

size_t leat__chunk_fill(leat__chunk_pool *pool, const leat_codec *codec,
                        const leat_reply *entries, leat__held **held,
                        size_t max, leat_error *err)
{
    size_t count = entries->n < max ? entries->n : max, n = 0;
    leat__chunk *k = chunk_get(pool, err);
    filling f = { .chunk = k, .codec = codec, .err = err };
    pool->stubs = false;
    if (!k)
        return 0;

    atomic_store_explicit(&k->refs, 1, memory_order_relaxed);
    leat__held *h = NULL;
    if (reserve(&f, entries) == LEAT_OK)
        h = leat_fields_alloc(k->fields, count * sizeof *h, err);
    const leat_reply *entry = entries + 1, *next;
    for (; h && n < count; n++, entry = next) {
        next = entry + entry->span;
        if (one_entry(&f, entry, next, &h[n]) != LEAT_OK)
            break;
        held[n] = &h[n];
    }
    atomic_fetch_add_explicit(&k->refs, (unsigned)n, memory_order_relaxed);
    chunk_drop(k);
    return n;
}

LEAT__COLD leat_code leat__chunk_one(leat__chunk_pool *pool,
                                     const leat_codec *codec, leat__id id,
                                     const leat_reply *fields,
                                     leat__held **held, leat_error *err)
{
    if (fields->type != LEAT_REPLY_ARRAY || fields->n % 2 != 0)
        return leat__fail(err, LEAT_EPROTO, "a message without fields");
    leat__chunk *k = chunk_get(pool, err);
    filling f = { .chunk = k, .codec = codec, .err = err };
    if (!k)
        return LEAT_ENOMEM;

    atomic_store_explicit(&k->refs, 1, memory_order_relaxed);
    leat__held *h = NULL;
    leat_code rc = reserve(&f, fields);
    if (rc == LEAT_OK) {
        h = leat_fields_alloc(k->fields, sizeof *h, err);
        if (h)
            *h = (leat__held){ .chunk = k, .id = id };
        rc = h ? copy_fields(&f, fields, h) : LEAT_ENOMEM;
    }
    if (rc == LEAT_OK) {
        bool gone = fields->n > 0 && is_stub(&f, fields + fields->span);
        rc = gone ? body_gone(&f, h) : decode(&f, h);
    }
    if (rc != LEAT_OK)
        chunk_drop(k);
    else
        *held = h;
    return rc;
}

/* ---- large ones ------------------------------------------------------- */

static size_t size_of(const leat__stub *s, const leat_bytes *body)
{
    size_t sum = body ? body->n : 0;
    for (size_t i = 0; i < s->n; i++)
        sum += s->pairs[i].n;
    return sum;
}

/* The pairs of the stub, copied; the last is what it stands for. */
static leat_code join(leat__chunk *k, const leat__stub *s,
                      const leat_bytes *body, leat_error *err)
{
    leat_bytes *to = leat__fields_begin(k->fields, s->n / 2, err);
    if (!to || leat__buf_reserve(&k->bytes, size_of(s, body), err) != LEAT_OK)
        return LEAT_ENOMEM;
    char *at = k->bytes.p;
    for (size_t i = 0; i < s->n; i++) {
        leat_bytes from = s->pairs[i];
        if (body && i == s->n - 2)
            from = s->pairs[i + 1];
        else if (body && i == s->n - 1)
            from = *body;
        if (from.n > 0)
            memcpy(at, from.p, from.n);
        to[i] = leat_mem(at, from.n);
        at += from.n;
    }
    return LEAT_OK;
}

static leat_code decode_large(leat__chunk *k, const leat_codec *codec,
                              bool there, leat__held *h, leat_error *err)
{
    filling f = { .chunk = k, .codec = codec, .err = err };
    return there ? decode(&f, h) : body_gone(&f, h);
}

static void count_ahead(leat__chunk *k)
{
    k->large = k->bytes.cap > 0 ? k->bytes.cap : 1;
    atomic_store(&k->ahead, true);
    atomic_fetch_add(&k->pool->ahead, 1);
    atomic_fetch_add(&k->pool->ahead_bytes, k->large);
    atomic_fetch_add(&k->pool->large_bytes, k->large);
}

leat__held *leat__chunk_large(leat__chunk_pool *pool, const leat_codec *codec,
                              const leat__held *stub, const leat_bytes *body,
                              leat_error *err)
{
    leat__chunk *k = chunk_new(pool, err);
    leat__held *h = NULL;
    if (k && join(k, stub->stub, body, err) == LEAT_OK)
        h = leat_fields_alloc(k->fields, sizeof *h, err);
    if (!h) {
        if (k)
            chunk_free(k);
        return NULL;
    }
    *h = (leat__held){ .chunk = k, .id = stub->id, .again = stub->again };
    if (decode_large(k, codec, body != NULL, h, err) != LEAT_OK) {
        chunk_free(k);
        return NULL;
    }
    atomic_store_explicit(&k->refs, 1, memory_order_relaxed);
    count_ahead(k);
    return h;
}
