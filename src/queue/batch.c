/*
 * batch.c: what was received, in one piece of memory.
 */
#include "base/mem.h"
#include "queue/queue.h"

#include <string.h>

struct leat_queue_batch {
    size_t n;
    leat_fields *fields; /* what the messages point to, besides `bytes` */
    leat_error *errors;
    leat_header *raw; /* of those that could not be decoded */
    char *bytes;      /* receipts and values                */
    leat_queue_item items[];
};

size_t leat_queue_batch_count(const leat_queue_batch *b)
{
    return b->n;
}

const leat_queue_item *leat_queue_batch_at(const leat_queue_batch *b, size_t i)
{
    return i < b->n ? &b->items[i] : NULL;
}

void leat_queue_batch_free(leat_queue_batch *b)
{
    if (!b)
        return;
    leat_fields_free(b->fields);
    leat__free(b->errors);
    leat__free(b->raw);
    leat__free(b);
}

leat_queue_batch *leat__batch_none(leat_error *err)
{
    return leat__zalloc(sizeof(leat_queue_batch), err);
}

void leat__batch_until(leat_queue_batch *b, int64_t deadline_ms)
{
    for (size_t i = 0; i < b->n; i++)
        b->items[i].deadline_ms = deadline_ms;
}

/* A message that is none: its bytes as a header, and why. */
static leat_code keep_raw(leat_queue_batch *b, size_t i, leat_bytes value,
                          const leat_error *why, leat_error *err)
{
    if (!b->errors)
        b->errors = leat__calloc(b->n, sizeof *b->errors, err);
    if (!b->raw)
        b->raw = leat__calloc(b->n, sizeof *b->raw, err);
    if (!b->errors || !b->raw)
        return LEAT_ENOMEM;
    b->errors[i] = *why;
    b->raw[i] = (leat_header){ leat_str("raw"), value };
    b->items[i].error = &b->errors[i];
    b->items[i].msg.headers = &b->raw[i];
    b->items[i].msg.header_count = 1;
    return LEAT_OK;
}

static leat_code fill(leat_queue_batch *b, size_t i, leat_bytes receipt,
                      leat_bytes value, const queue_profile *p, bool fifo,
                      leat_error *err)
{
    leat_error e;
    leat_queue_item *it = &b->items[i];
    it->receipt = receipt;
    leat_code rc = p->unpack(receipt, value, fifo, b->fields, it, &e);
    if (rc == LEAT_ENOMEM)
        return leat__fail(err, LEAT_ENOMEM, "no memory for a message");
    if (rc == LEAT_EPROTO && err)
        *err = e;
    if (rc == LEAT_OK || rc == LEAT_EPROTO)
        return rc;
    return keep_raw(b, i, value, &e, err);
}

static leat_bytes copy(char **to, leat_bytes from)
{
    leat_bytes out = leat_mem(*to, from.n);
    if (from.n > 0)
        memcpy(*to, from.p, from.n);
    *to += from.n;
    return out;
}

static leat_queue_batch *batch_new(size_t n, size_t size, leat_error *err)
{
    leat_queue_batch *b = leat__zalloc(sizeof *b + n * sizeof *b->items + size,
                                       err);
    if (!b)
        return NULL;
    b->n = n;
    b->bytes = (char *)(b->items + n);
    b->fields = leat_fields_new(err);
    if (b->fields)
        return b;
    leat_queue_batch_free(b);
    return NULL;
}

/* Each message is so many parts: receipt, value, and perhaps a reason. */
static leat_queue_batch *read_parts(const queue_profile *p, const leat_reply *r,
                                    size_t parts, bool fifo, leat_error *err)
{
    size_t n = (leat_reply_len(r) - 2) / parts, size = 0;
    leat_reply_iter it = leat_reply_each(r);
    leat_reply_step(&it);
    leat_reply_step(&it);
    leat_reply_iter sum = it;
    for (size_t i = 0; i < parts * n; i++)
        size += leat_reply_bytes(leat_reply_step(&sum)).n;
    leat_queue_batch *b = batch_new(n, size, err);
    if (!b)
        return NULL;
    char *to = b->bytes;
    leat_code rc = LEAT_OK;
    for (size_t i = 0; rc == LEAT_OK && i < n; i++) {
        leat_bytes receipt = copy(&to, leat_reply_bytes(leat_reply_step(&it)));
        leat_bytes value = copy(&to, leat_reply_bytes(leat_reply_step(&it)));
        rc = fill(b, i, receipt, value, p, fifo, err);
        if (parts > 2)
            b->items[i].reason = copy(&to,
                                      leat_reply_bytes(leat_reply_step(&it)));
    }
    if (rc == LEAT_OK)
        return b;
    leat_queue_batch_free(b);
    return NULL;
}

leat_queue_batch *leat__batch_of(const queue_profile *p,
                                 const leat_bytes *parts, size_t n,
                                 leat_error *err)
{
    size_t size = 0;
    for (size_t i = 0; i < 2 * n; i++)
        size += parts[i].n;
    leat_queue_batch *b = batch_new(n, size, err);
    if (!b)
        return NULL;
    char *to = b->bytes;
    leat_code rc = LEAT_OK;
    for (size_t i = 0; rc == LEAT_OK && i < n; i++) {
        leat_bytes receipt = copy(&to, parts[2 * i]);
        rc = fill(b, i, receipt, copy(&to, parts[2 * i + 1]), p, false, err);
    }
    if (rc == LEAT_OK)
        return b;
    leat_queue_batch_free(b);
    return NULL;
}

leat_queue_batch *leat__batch_read(const leat_reply *r, bool fifo,
                                   leat_error *err)
{
    return read_parts(&leat__queue_native, r, 2, fifo, err);
}

leat_queue_batch *leat__batch_read_as(const queue_profile *p,
                                      const leat_reply *r, bool fifo, bool dead,
                                      leat_error *err)
{
    return read_parts(p, r, dead ? 3 : 2, fifo, err);
}
