/*
 * pack.c: a message as one value.
 */
#include "queue/pack.h"
#include "base/error.h"
#include "message/fields.h"

enum { VARINT_MAX = 5 };

static size_t put_varint(unsigned char *p, size_t v)
{
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        p[n++] = (unsigned char)(v | 0x80);
    p[n++] = (unsigned char)v;
    return n;
}

static bool get_varint(leat_bytes *rest, size_t *v)
{
    const unsigned char *p = rest->p;
    *v = 0;
    for (size_t i = 0; i < rest->n && i < VARINT_MAX; i++) {
        *v |= (size_t)(p[i] & 0x7f) << (7 * i);
        if (p[i] < 0x80) {
            *rest = leat_mem(p + i + 1, rest->n - i - 1);
            return true;
        }
    }
    return false;
}

leat_code leat__queue_pack(leat__buf *b, leat_fields *f, const leat_msg *m,
                           leat_error *err)
{
    unsigned char head[2 * VARINT_MAX];
    leat_fields_clear(f);
    leat_code rc = leat_codec_native.encode(&leat_codec_native, m, 1, f, err);
    if (rc != LEAT_OK)
        return rc;
    leat_bytes part[] = { leat_fields_get(f, "k"), leat_fields_get(f, "a"),
                          leat_fields_get(f, "b") };
    size_t n = put_varint(head, part[0].n);
    n += put_varint(head + n, part[1].n);
    rc = leat__buf_add(b, head, n, err);
    for (size_t i = 0; rc == LEAT_OK && i < 3; i++)
        rc = leat__buf_add(b, part[i].p, part[i].n, err);
    return rc;
}

static leat_bytes cut(leat_bytes *rest, size_t n)
{
    leat_bytes part = leat_mem(rest->p, n);
    *rest = leat_mem((const char *)rest->p + n, rest->n - n);
    return part;
}

leat_code leat__queue_unpack(leat_bytes value, leat_fields *f, leat_msg *m,
                             leat_error *err)
{
    size_t nk, na, n, count;
    const leat_msg *got;
    leat_bytes rest = value;
    if (!get_varint(&rest, &nk) || !get_varint(&rest, &na) || nk > rest.n ||
        na > rest.n - nk)
        return leat__fail(err, LEAT_EDECODE,
                          "a value of %zu bytes is no message of a queue",
                          value.n);
    leat_bytes k = cut(&rest, nk), a = cut(&rest, na);
    n = 1 + (nk > 0) + (rest.n > 0);
    leat_bytes *pair = leat__fields_begin(f, n, err);
    if (!pair)
        return LEAT_ENOMEM;
    if (nk > 0) {
        *pair++ = leat_str("k");
        *pair++ = k;
    }
    *pair++ = leat_str("a");
    *pair++ = a;
    if (rest.n > 0) {
        *pair++ = leat_str("b");
        *pair = rest;
    }
    leat_code rc = leat_codec_native.decode(&leat_codec_native, f, &got, &count,
                                            err);
    if (rc == LEAT_OK && count != 1)
        rc = leat__fail(err, LEAT_EDECODE, "a value holds %zu messages", count);
    if (rc == LEAT_OK)
        *m = *got;
    return rc;
}
