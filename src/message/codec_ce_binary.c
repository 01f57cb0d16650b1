/*
 * codec_ce_binary.c: CloudEvents 1.0, readable with nothing but XRANGE.
 *
 * There is no binding for Redis, so this mirrors the one for Kafka:
 *
 *   ce_specversion  "1.0"
 *   ce_id           required
 *   ce_source       required; a message without one is sent as "/leat"
 *   ce_type         required; a message without one is sent as "leat.message"
 *   ce_subject  ce_time  ce_partitionkey      where given; the last is the key
 *   content-type    where given
 *   ce_<name>       a header that can be an extension attribute: its name is
 *                   of a-z and 0-9, its value is text, it is the first of that
 *                   name and among the first 64
 *   h_<name>        every other header, name and value as they are
 *   data            the body as it is; left out when empty
 *
 * Headers keep their order, which is that of their fields.  When reading, a
 * field that leat did not write becomes a header, so nothing is lost.  An entry
 * whose content type is that of a structured event is handed to the other
 * codec: the entry says its mode, not the reader.  For the same reason a
 * message with such a content type cannot be sent in this mode.
 */
#include "message/ce.h"

/* ---- encoding --------------------------------------------------------- */

static leat_code put(leat_fields *out, const char *name, leat_bytes value,
                     leat_error *err)
{
    if (value.n == 0)
        return LEAT_OK;
    leat_code rc = leat__codec_check_size(&leat_codec_ce_binary, name, value.n,
                                          err);
    return rc == LEAT_OK ? leat_fields_add(out, leat_str(name), value, err)
                         : rc;
}

static leat_code put_time(leat_fields *out, int64_t ms, leat_error *err)
{
    if (ms == 0)
        return LEAT_OK;
    char *text = leat_fields_alloc(out, LEAT__CE_TIME, err);
    if (!text)
        return LEAT_ENOMEM;
    leat__ce_time_format(text, ms);
    return put(out, "ce_time", leat_mem(text, LEAT__CE_TIME), err);
}

/* A header's value may be empty, so it does not go through put. */
static leat_code put_header(leat_fields *out, const leat_msg *m, size_t i,
                            leat_error *err)
{
    const leat_header *h = &m->headers[i];
    const char *prefix = leat__ce_is_extension(m, i) ? "ce_" : "h_";
    size_t plen = strlen(prefix);

    leat_code rc = leat__codec_check_size(&leat_codec_ce_binary, "of a header",
                                          h->name.n, err);
    if (rc == LEAT_OK)
        rc = leat__codec_check_size(&leat_codec_ce_binary, "of a header",
                                    h->value.n, err);
    if (rc != LEAT_OK)
        return rc;
    char *name = leat_fields_alloc(out, plen + h->name.n, err);
    if (!name)
        return LEAT_ENOMEM;
    memcpy(name, prefix, plen);
    if (h->name.n > 0)
        memcpy(name + plen, h->name.p, h->name.n);
    return leat_fields_add(out, leat_mem(name, plen + h->name.n), h->value,
                           err);
}

static leat_code check(const leat_codec *c, const leat_msg *m, size_t n,
                       leat_error *err)
{
    leat_code rc = leat__codec_check_count(c, n, err);
    if (rc == LEAT_OK)
        rc = leat__ce_check(c, m, err);
    if (rc == LEAT_OK && leat__ce_mode(m->content_type) != LEAT__CE_BINARY)
        rc = leat__fail(err, LEAT_EINVAL,
                        "codec %s: a body of type application/cloudevents "
                        "would be read as the event itself",
                        c->name);
    return rc;
}

static leat_code encode(const leat_codec *c, const leat_msg *m, size_t n,
                        leat_fields *out, leat_error *err)
{
    leat_bytes source = m->source.n > 0 ? m->source : leat_str(LEAT__CE_SOURCE);
    leat_bytes type = m->type.n > 0 ? m->type : leat_str(LEAT__CE_TYPE);
    leat_code rc = check(c, m, n, err);

    if (rc == LEAT_OK)
        rc = put(out, "ce_specversion", leat_str("1.0"), err);
    if (rc == LEAT_OK)
        rc = put(out, "ce_id", m->id, err);
    if (rc == LEAT_OK)
        rc = put(out, "ce_source", source, err);
    if (rc == LEAT_OK)
        rc = put(out, "ce_type", type, err);
    if (rc == LEAT_OK)
        rc = put(out, "ce_subject", m->subject, err);
    if (rc == LEAT_OK)
        rc = put_time(out, m->time_ms, err);
    if (rc == LEAT_OK)
        rc = put(out, "ce_partitionkey", m->key, err);
    if (rc == LEAT_OK)
        rc = put(out, "content-type", m->content_type, err);
    for (size_t i = 0; rc == LEAT_OK && i < m->header_count; i++)
        rc = put_header(out, m, i, err);
    if (rc == LEAT_OK)
        rc = put(out, "data", m->body, err);
    return rc;
}

/* ---- decoding --------------------------------------------------------- */

static bool strip(leat_bytes *name, const char *prefix)
{
    size_t n = strlen(prefix);
    if (name->n < n || memcmp(name->p, prefix, n) != 0)
        return false;
    *name = leat_mem((const char *)name->p + n, name->n - n);
    return true;
}

typedef struct reader {
    leat__ce_event event;
    leat_header *headers; /* room for one a field */
    bool data;
} reader;

static leat_code get_data(reader *r, leat_bytes value, leat_error *err)
{
    if (r->data)
        return leat__fail(err, LEAT_EDECODE, "cloudevent: two fields data");
    r->data = true;
    r->event.m->body = value;
    return LEAT_OK;
}

static leat_code get_field(reader *r, leat_bytes name, leat_bytes value,
                           leat_error *err)
{
    const leat_bytes datacontenttype = leat_str("datacontenttype");
    leat_msg *m = r->event.m;

    if (leat_bytes_eq(name, leat_str("data")))
        return get_data(r, value, err);
    if (leat_bytes_eq(name, leat_str("content-type")))
        return leat__ce_set(&r->event, datacontenttype, value, err);
    bool ce = strip(&name, "ce_");
    if (ce && leat__ce_is_attribute(name) &&
        !leat_bytes_eq(name, datacontenttype))
        return leat__ce_set(&r->event, name, value, err);
    if (!ce)
        (void)strip(&name, "h_");
    r->headers[m->header_count++] = (leat_header){ name, value };
    return LEAT_OK;
}

static leat_code decode_binary(leat_fields *in, const leat_msg **out, size_t *n,
                               leat_error *err)
{
    const leat_bytes *pairs = leat_fields_pairs(in);
    size_t count = leat_fields_count(in);
    struct block {
        leat_msg m;
        leat_header headers[];
    } *b = leat_fields_alloc(in, sizeof *b + count * sizeof b->headers[0], err);
    if (!b)
        return LEAT_ENOMEM;

    b->m = (leat_msg){ .headers = b->headers };
    reader r = { .event = { .m = &b->m }, .headers = b->headers };
    for (size_t i = 0; i < count; i++) {
        leat_code rc = get_field(&r, pairs[2 * i], pairs[2 * i + 1], err);
        if (rc != LEAT_OK)
            return rc;
    }
    *out = &b->m;
    *n = 1;
    return leat__ce_check_required(&r.event, err);
}

leat_code leat__ce_decode(const leat_codec *c, leat_fields *in,
                          const leat_msg **m, size_t *n, leat_error *err)
{
    enum leat__ce_mode mode = leat__ce_mode(
        leat_fields_get(in, "content-type"));
    (void)c;

    switch (mode) {
    case LEAT__CE_BINARY:
        return decode_binary(in, m, n, err);
    case LEAT__CE_JSON:
    case LEAT__CE_JSON_BATCH:
        return leat__ce_decode_json(in, mode, m, n, err);
    case LEAT__CE_OTHER:
        break;
    }
    return leat__fail(err, LEAT_EDECODE,
                      "cloudevent: an event format other than JSON");
}

const leat_codec leat_codec_ce_binary = {
    .name = "ce",
    .max_batch = 1,
    .encode = encode,
    .decode = leat__ce_decode,
};
