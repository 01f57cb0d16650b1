/*
 * msg.c: copies of messages, and their headers.
 *
 * A copy is one block: the leat_msg, its headers, then every byte they point
 * to, back to back.  One free, no way to forget a part.
 */
#include "base/mem.h"
#include <leat/message.h>

leat_bytes leat_msg_header(const leat_msg *m, const char *name)
{
    leat_bytes want = leat_str(name);
    for (size_t i = 0; i < m->header_count; i++) {
        const leat_header *h = &m->headers[i];
        if (leat_bytes_eq(h->name, want))
            return leat_mem(h->value.p ? h->value.p : "", h->value.n);
    }
    return leat_mem(NULL, 0);
}

static const size_t parts[] = {
    offsetof(leat_msg, id),      offsetof(leat_msg, key),
    offsetof(leat_msg, type),    offsetof(leat_msg, source),
    offsetof(leat_msg, subject), offsetof(leat_msg, content_type),
    offsetof(leat_msg, body),
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static leat_bytes *part(leat_msg *m, size_t i)
{
    return (leat_bytes *)((char *)m + parts[i]);
}

static bool add(size_t *sum, size_t n)
{
    return !__builtin_add_overflow(*sum, n, sum);
}

/* Bytes of the whole block; false when no memory can hold them. */
static bool block_size(const leat_msg *m, size_t *size)
{
    leat_msg view = *m;
    bool fits = !__builtin_mul_overflow(m->header_count, sizeof(leat_header),
                                        size) &&
                add(size, sizeof *m);

    for (size_t i = 0; i < PARTS; i++)
        fits = fits && add(size, part(&view, i)->n);
    for (size_t i = 0; fits && i < m->header_count; i++)
        fits = add(size, m->headers[i].name.n) &&
               add(size, m->headers[i].value.n);
    return fits;
}

/* Move b's bytes to *to and step over them. */
static void settle(leat_bytes *b, char **to)
{
    if (b->n > 0)
        memcpy(*to, b->p, b->n);
    b->p = b->n > 0 ? *to : NULL;
    *to += b->n;
}

leat_msg *leat_msg_copy(const leat_msg *m, leat_error *err)
{
    size_t size;
    if (!block_size(m, &size)) {
        leat__fail(err, LEAT_ENOMEM, "no memory for a copy of the message");
        return NULL;
    }
    leat_msg *copy = leat__alloc(size, err);
    if (!copy)
        return NULL;

    leat_header *headers = (leat_header *)(copy + 1);
    char *to = (char *)(headers + m->header_count);
    *copy = *m;
    copy->headers = m->header_count > 0 ? headers : NULL;
    for (size_t i = 0; i < PARTS; i++)
        settle(part(copy, i), &to);
    for (size_t i = 0; i < m->header_count; i++) {
        headers[i] = m->headers[i];
        settle(&headers[i].name, &to);
        settle(&headers[i].value, &to);
    }
    return copy;
}

void leat_msg_free(leat_msg *m)
{
    leat__free(m);
}
