/*
 * batch.c: one reply as deliveries.
 *
 * The reply's strings stand one behind the other in the receive buffer, so one
 * copy of the stretch from the first to the last takes them all; the views are
 * then moved over.  What the codec makes up for all entries lives in one
 * leat_fields.  A batch that is used again allocates nothing while replies do
 * not grow.
 */
#include "base/mem.h"
#include "message/fields.h"
#include "stream/stream.h"

#include <string.h>

/* ---- memory ----------------------------------------------------------- */

static leat_code room(void **p, size_t *cap, size_t want, size_t size,
                      leat_error *err)
{
    if (want <= *cap)
        return LEAT_OK;
    size_t n = *cap ? *cap : 16;
    while (n < want)
        n *= 2;
    void *q = leat__realloc(*p, n * size, err);
    if (!q)
        return LEAT_ENOMEM;
    *p = q;
    *cap = n;
    return LEAT_OK;
}

void leat__stream_batch_free(stream_batch *b)
{
    if (!b)
        return;
    leat_fields_free(b->fields);
    leat__free(b->bytes);
    leat__free(b->entries);
    leat__free(b->slots);
    leat__free(b);
}

/* ---- the copy --------------------------------------------------------- */

typedef struct stretch {
    const char *from; /* in the receive buffer */
    const char *to;   /* in the batch          */
} stretch;

static bool is_string(const leat_reply *r)
{
    return r->type == LEAT_REPLY_STRING;
}

static leat_code copy_bytes(stream_batch *b, const leat_reply *entries,
                            stretch *out, leat_error *err)
{
    const leat_reply *first = entries, *last = entries + entries->span - 1;
    while (first < last && !is_string(first))
        first++;
    while (last > first && !is_string(last))
        last--;
    size_t n = is_string(last) ? (size_t)(last->s.p + last->s.n - first->s.p)
                               : 0;
    leat_code rc = room((void **)&b->bytes, &b->bytes_cap, n + 1, 1, err);
    if (rc != LEAT_OK)
        return rc;
    *out = (stretch){ n > 0 ? first->s.p : NULL, b->bytes };
    if (n > 0)
        memcpy(b->bytes, first->s.p, n);
    return LEAT_OK;
}

static leat_bytes moved(const stretch *m, const leat_reply *r)
{
    if (!is_string(r))
        return leat_mem("", 0);
    return leat_mem(m->to + (r->s.p - m->from), r->s.n);
}

/* ---- entries ---------------------------------------------------------- */

typedef struct filling {
    stream_batch *b;
    const leat_codec *codec;
    stretch m;
    bool counts;
    int64_t since_ns;
} filling;

static leat_code no_entry(leat_error *err)
{
    return leat__fail(err, LEAT_EPROTO,
                      "the server's answer to a read has no entries");
}

/* The entry's fields for the codec. */
static leat_code load_fields(filling *f, const leat_reply *pairs,
                             leat_error *err)
{
    leat_fields *in = f->b->fields;
    size_t n = leat_reply_len(pairs) / 2;
    leat_code rc = leat__fields_next(in, n, err);
    leat_reply_iter it = leat_reply_each(pairs);
    for (size_t i = 0; i < n && rc == LEAT_OK; i++) {
        const leat_reply *name = leat_reply_step(&it);
        const leat_reply *value = leat_reply_step(&it);
        if (!is_string(name) || !is_string(value))
            return no_entry(err);
        rc = leat_fields_add(in, moved(&f->m, name), moved(&f->m, value), err);
    }
    return rc;
}

/* It is handed out as it is: the fields are its headers. */
static leat_code as_raw(filling *f, const leat_error *why, const leat_msg **m,
                        const leat_error **kept, leat_error *err)
{
    leat_fields *in = f->b->fields;
    size_t n = leat_fields_count(in);
    const leat_bytes *pairs = leat_fields_pairs(in);
    leat_msg *raw = leat_fields_alloc(in, sizeof *raw, err);
    leat_error *e = raw ? leat_fields_alloc(in, sizeof *e, err) : NULL;
    leat_header *h = e ? leat_fields_alloc(in, (n + 1) * sizeof *h, err) : NULL;
    if (!h)
        return LEAT_ENOMEM;
    for (size_t i = 0; i < n; i++)
        h[i] = (leat_header){ pairs[2 * i], pairs[2 * i + 1] };
    *raw = (leat_msg){ .headers = h, .header_count = n };
    *e = *why;
    *m = raw;
    *kept = e;
    f->b->undecodable++;
    return LEAT_OK;
}

static leat_code decode(filling *f, const leat_msg **m, size_t *n,
                        const leat_error **bad, leat_error *err)
{
    leat_error e;
    *bad = NULL;
    leat_code rc = f->codec->decode(f->codec, f->b->fields, m, n, &e);
    if (rc == LEAT_OK && *n > 0)
        return LEAT_OK;
    if (rc == LEAT_ENOMEM) {
        if (err)
            *err = e;
        return rc;
    }
    if (rc == LEAT_OK)
        leat__fail(&e, LEAT_EDECODE, "an entry without a message");
    *n = 1;
    return as_raw(f, &e, m, bad, err);
}

static leat_code add_slots(filling *f, stream_entry *e, const leat_msg *m,
                           size_t n, const leat_error *bad, leat_error *err)
{
    stream_batch *b = f->b;
    leat_code rc = room((void **)&b->slots, &b->slot_cap, b->slot_count + n,
                        sizeof *b->slots, err);
    if (rc != LEAT_OK)
        return rc;
    e->first = (uint32_t)b->slot_count;
    e->count = e->left = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        stream_slot *slot = &b->slots[b->slot_count++];
        memset(slot, 0, sizeof *slot);
        slot->d.msg = m[i];
        slot->d.position = e->id;
        slot->d.position.index = (uint32_t)i;
        slot->d.error = bad;
        slot->d.attempt = e->attempt;
        slot->d.redelivered = e->attempt > 1;
    }
    b->redelivered += e->attempt > 1 ? n : 0;
    return LEAT_OK;
}

static leat_code add_entry(filling *f, leat_position id, const leat_reply *text,
                           uint32_t attempt, const leat_reply *pairs,
                           leat_error *err)
{
    stream_batch *b = f->b;
    stream_entry *e = &b->entries[b->entry_count];
    const leat_msg *m = NULL;
    const leat_error *bad = NULL;
    size_t n = 0;

    *e = (stream_entry){ .id = id,
                         .text = moved(&f->m, text),
                         .batch = b,
                         .since_ns = f->since_ns,
                         .attempt = attempt };
    leat_code rc = load_fields(f, pairs, err);
    if (rc == LEAT_OK)
        rc = decode(f, &m, &n, &bad, err);
    if (rc == LEAT_OK)
        rc = add_slots(f, e, m, n, bad, err);
    if (rc == LEAT_OK)
        b->entry_count++;
    return rc;
}

/* One element; what is not an entry with fields, or is held, is passed over. */
static leat_code add_element(filling *f, const leat_reply *r,
                             const stream_held *held, leat_error *err)
{
    leat_position id;
    size_t want = f->counts ? 3 : 2;
    leat_reply_iter it = leat_reply_each(r);
    const leat_reply *text = leat_reply_step(&it);
    if (leat_reply_kind(r) == LEAT_REPLY_NIL)
        return LEAT_OK;
    if (!leat__stream_id_parse(leat_reply_bytes(text), &id))
        return no_entry(err);
    int64_t count = f->counts ? leat_reply_int(leat_reply_step(&it)) : 1;
    const leat_reply *pairs = leat_reply_step(&it);
    void *has = leat__stream_held_get(held, id);
    if (count < 1 || leat_reply_kind(pairs) == LEAT_REPLY_NIL ||
        (has && has != LEAT__STREAM_PARKED))
        return LEAT_OK;
    if (leat_reply_len(r) != want ||
        leat_reply_kind(pairs) != LEAT_REPLY_ARRAY ||
        leat_reply_len(pairs) % 2 != 0)
        return no_entry(err);
    return add_entry(f, id, text, (uint32_t)count, pairs, err);
}

static void empty(stream_batch *b)
{
    b->entry_count = b->slot_count = b->taken = 0;
    b->redelivered = b->undecodable = 0;
    b->next = NULL;
    if (b->fields)
        leat_fields_clear(b->fields);
}

/* The slots stand still now. */
static void join(stream_batch *b)
{
    for (size_t i = 0; i < b->entry_count; i++) {
        stream_entry *e = &b->entries[i];
        for (uint32_t k = 0; k < e->count; k++)
            b->slots[e->first + k].entry = e;
    }
    atomic_store(&b->refs, (unsigned)b->slot_count);
}

leat_code leat__stream_batch_fill(stream_batch *b, const leat_codec *codec,
                                  const leat_reply *entries, bool counts,
                                  const stream_held *held, int64_t since_ns,
                                  leat_error *err)
{
    filling f = {
        .b = b, .codec = codec, .counts = counts, .since_ns = since_ns
    };
    size_t n = leat_reply_len(entries);
    empty(b);
    if (!b->fields && !(b->fields = leat_fields_new(err)))
        return LEAT_ENOMEM;
    leat_code rc = room((void **)&b->entries, &b->entry_cap, n + 1,
                        sizeof *b->entries, err);
    if (rc == LEAT_OK)
        rc = copy_bytes(b, entries, &f.m, err);
    leat_reply_iter it = leat_reply_each(entries);
    for (const leat_reply *r; rc == LEAT_OK && (r = leat_reply_step(&it));)
        rc = add_element(&f, r, held, err);
    if (rc != LEAT_OK)
        empty(b);
    join(b);
    return rc;
}
