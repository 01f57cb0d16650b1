/*
 * codec_fields.c: any entry of a stream as a message.
 *
 * For streams that other programs write and read: each field is a header, and
 * the one called "body" is the body.  There is no place for a key, a type or a
 * content type, and the id is the entry's own.
 */
#include "stream.h"

#define BODY "body"

static leat_code refuse(leat_error *err, const char *what)
{
    if (err) {
        *err = (leat_error){ .code = LEAT_EINVAL };
        snprintf(err->msg, sizeof err->msg,
                 "codec fields has no place for a %s: give it as a header",
                 what);
    }
    return LEAT_EINVAL;
}

static leat_code encode(const leat_codec *c, const leat_msg *m, size_t n,
                        leat_fields *out, leat_error *err)
{
    leat_code code = LEAT_OK;
    (void)c;
    (void)n;
    if (m->key.n || m->type.n || m->content_type.n)
        return refuse(err, m->key.n    ? "key"
                           : m->type.n ? "type"
                                       : "content type");
    for (size_t i = 0; i < m->header_count && code == LEAT_OK; i++)
        code = leat_fields_add(out, m->headers[i].name, m->headers[i].value,
                               err);
    if (code == LEAT_OK && (m->body.n || m->header_count == 0))
        code = leat_fields_add(out, leat_str(BODY), m->body, err);
    return code;
}

static leat_code decode(const leat_codec *c, leat_fields *in,
                        const leat_msg **m, size_t *n, leat_error *err)
{
    size_t count = leat_fields_count(in);
    const leat_bytes *pairs = leat_fields_pairs(in);
    leat_msg *out = leat_fields_alloc(in, sizeof *out, err);
    leat_header *list = out ? leat_fields_alloc(in, count * sizeof *list + 1,
                                                err)
                            : NULL;
    (void)c;
    if (!list)
        return LEAT_ENOMEM;
    *out = (leat_msg){ .headers = list };
    for (size_t i = 0; i < count; i++) {
        if (!out->body.p && leat_bytes_eq(pairs[2 * i], leat_str(BODY)))
            out->body = pairs[2 * i + 1];
        else
            list[out->header_count++] = (leat_header){ pairs[2 * i],
                                                       pairs[2 * i + 1] };
    }
    *m = out;
    *n = 1;
    return LEAT_OK;
}

static const leat_codec fields = {
    .name = "fields", .max_batch = 1, .encode = encode, .decode = decode
};

const leat_codec *codec_get(const char *name)
{
    return strcmp(name, fields.name) == 0 ? &fields : leat_codec_find(name);
}
