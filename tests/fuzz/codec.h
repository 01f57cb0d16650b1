/*
 * codec.h (fuzz): an entry from the input, and what a codec owes it.
 *
 *   the input, over and over:
 *   byte     length of the name, cut to what is left
 *   name
 *   2 bytes  length of the value, little endian, cut to what is left
 *   value
 *
 * Names and values get blocks of their own, exactly as long, so that ASan sees
 * a read too far.  What decodes is encoded and decoded again, and must be the
 * same message.
 */
#ifndef TESTS_FUZZ_CODEC_H
#define TESTS_FUZZ_CODEC_H

#include <leat/message.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void must(bool ok)
{
    if (!ok)
        abort();
}

enum { MOST_FIELDS = 64 };

typedef struct input {
    const uint8_t *p;
    size_t n;
} input;

static inline size_t take_length(input *in, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes && in->n > 0; i++, in->p++, in->n--)
        n |= (size_t)*in->p << 8 * i;
    return n < in->n ? n : in->n;
}

static inline leat_bytes take_block(input *in, size_t length_bytes)
{
    size_t n = take_length(in, length_bytes);
    char *b = malloc(n ? n : 1);
    must(b != NULL);
    memcpy(b, in->p, n);
    in->p += n;
    in->n -= n;
    return leat_mem(b, n);
}

/* The entry; its blocks are freed by free_entry. */
static inline leat_fields *take_entry(input *in)
{
    leat_fields *f = leat_fields_new(NULL);
    must(f != NULL);
    while (in->n > 0 && leat_fields_count(f) < MOST_FIELDS) {
        leat_bytes name = take_block(in, 1), value = take_block(in, 2);
        must(leat_fields_add(f, name, value, NULL) == LEAT_OK);
    }
    return f;
}

static inline void free_entry(leat_fields *f)
{
    for (size_t i = 0; i < 2 * leat_fields_count(f); i++)
        free((void *)leat_fields_pairs(f)[i].p);
    leat_fields_free(f);
}

static inline void same(const leat_msg *a, const leat_msg *b)
{
    must(leat_bytes_eq(a->id, b->id) && leat_bytes_eq(a->key, b->key));
    must(leat_bytes_eq(a->type, b->type));
    must(leat_bytes_eq(a->source, b->source));
    must(leat_bytes_eq(a->subject, b->subject));
    must(leat_bytes_eq(a->content_type, b->content_type));
    must(a->time_ms == b->time_ms && leat_bytes_eq(a->body, b->body));
    must(a->header_count == b->header_count);
    for (size_t i = 0; i < a->header_count; i++)
        must(leat_bytes_eq(a->headers[i].name, b->headers[i].name) &&
             leat_bytes_eq(a->headers[i].value, b->headers[i].value));
}

static inline void check_again(const leat_codec *c, const leat_msg *m, size_t n)
{
    leat_fields *f = leat_fields_new(NULL);
    const leat_msg *got;
    size_t count;
    must(f != NULL);
    must(c->encode(c, m, n, f, NULL) == LEAT_OK);
    must(c->decode(c, f, &got, &count, NULL) == LEAT_OK && count == n);
    for (size_t i = 0; i < n; i++)
        same(&got[i], &m[i]);
    leat_fields_free(f);
}

#endif
