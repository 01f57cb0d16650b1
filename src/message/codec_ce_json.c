/*
 * codec_ce_json.c: CloudEvents 1.0 as one JSON document.
 *
 *   content-type  application/cloudevents+json, or for more than one message
 *                 application/cloudevents-batch+json
 *   data          the event, or the array of events
 *
 * The body is the member `data` or `data_base64`, and none when it is empty:
 *
 *   content type                body                      member
 *   none, any/json, any+json    one JSON value            data, that value
 *   text/any                    UTF-8                     data, a string
 *   whatever else                                         data_base64
 *
 * A body comes back byte for byte.  A JSON value is therefore copied into the
 * document as it stands and cut out of it when read, never parsed and written
 * again: 1.0 stays 1.0 and a number of forty digits keeps them.  A value that
 * could not be cut out the same goes as base64: one with spaces around it,
 * `null` (which means "no data"), one that repeats a name, one nested deeper
 * than 1000.
 *
 * A header that can be an extension attribute (codec_ce_binary.c has the rule)
 * is a member of its name.  The others are in the extension `leatheaders`, a
 * string that holds a JSON array with an item for each: its place among all
 * headers, name and value, and "base64" when these two are so encoded:
 *
 *   "leatheaders": "[[0,\"X-Id\",\"7\"],[2,\"/w==\",\"AA==\",\"base64\"]]"
 *
 * When reading, a member that is null is not given, a number or a boolean
 * becomes the text it was, and a field beside `data` that is no ce_* becomes a
 * header.  An entry in binary mode is handed to the other codec.  This codec is
 * for reading along and for exchange, not for speed: it allocates.
 */
#include "base/base64.h"
#include "base/buf.h"
#include "base/jsoncheck.h"
#include "base/utf8.h"
#include "message/ce.h"
#include "message/json_span.h"
#include <leat/json.h>

#include <assert.h>
#include <jansson.h>

enum {
    MAX_BATCH = 1000,
    MAX_DOCUMENT = 16 << 20, /* a parsed document is many times its text */
    MAX_DEPTH = 1000         /* of a body; the parser stops at 2048      */
};

#define EVENT_TYPE "application/cloudevents+json"
#define BATCH_TYPE "application/cloudevents-batch+json"

/* The same for what is written and what is read, so that a value which was let
 * in is never refused on the way out.  Integers as doubles: their text is what
 * counts, and one over 64 bits is no error. */
static json_t *parse(leat_bytes text, size_t extra_flags, json_error_t *why)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL |
                         JSON_DECODE_INT_AS_REAL;
    return json_loadb(text.n > 0 ? text.p : "", text.n, flags | extra_flags,
                      why);
}

static leat_code no_memory(leat_error *err)
{
    return leat__fail(err, LEAT_ENOMEM, "no memory for a JSON document");
}

/* ---- encoding --------------------------------------------------------- */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Can this body stand in a document as it is, and be found again? */
static leat_code is_embeddable(leat_bytes body, bool *yes, leat_error *err)
{
    const char *s = body.p;
    json_error_t why;

    *yes = false;
    if (is_space(s[0]) || is_space(s[body.n - 1]) ||
        leat_bytes_eq(body, leat_str("null")) ||
        !leat__json_valid(body, MAX_DEPTH))
        return LEAT_OK;
    json_t *v = parse(body, JSON_DECODE_ANY, &why);
    *yes = v != NULL;
    if (!v && json_error_code(&why) == json_error_out_of_memory)
        return no_memory(err);
    json_decref(v);
    return LEAT_OK;
}

/* *embed: the body is yet to be put in, as the value of data. */
static leat_code put_body(leat_json *j, const leat_msg *m, bool *embed,
                          leat_error *err)
{
    bool json = leat__ce_is_json(m->content_type);
    *embed = false;
    if (m->body.n == 0)
        return LEAT_OK;
    if (json) {
        leat_code rc = is_embeddable(m->body, embed, err);
        if (rc != LEAT_OK || *embed)
            return rc;
    }
    if (!json && leat__ce_is_text(m->content_type) && leat__utf8_valid(m->body))
        leat_json_text(j, "data", m->body);
    else
        leat_json_base64(j, "data_base64", m->body);
    return LEAT_OK;
}

static leat_code put_extension(leat_json *j, const leat_header *h,
                               leat_fields *out, leat_error *err)
{
    char *name = leat_fields_alloc(out, h->name.n + 1, err);
    if (!name)
        return LEAT_ENOMEM;
    memcpy(name, h->name.p, h->name.n);
    name[h->name.n] = '\0';
    leat_json_text(j, name, h->value);
    return LEAT_OK;
}

static void put_other(leat_json *j, size_t i, const leat_header *h)
{
    bool text = leat__utf8_valid(h->name) && leat__utf8_valid(h->value);

    leat_json_array(j, NULL);
    leat_json_int(j, NULL, (int64_t)i);
    if (text) {
        leat_json_text(j, NULL, h->name);
        leat_json_text(j, NULL, h->value);
    } else {
        leat_json_base64(j, NULL, h->name);
        leat_json_base64(j, NULL, h->value);
        leat_json_str(j, NULL, "base64");
    }
    leat_json_end(j);
}

/* The document within the document. */
static leat_code put_others(leat_json *j, const leat_msg *m, leat_error *err)
{
    leat_json *inner = leat_json_new(err);
    if (!inner)
        return LEAT_ENOMEM;
    leat_json_array(inner, NULL);
    for (size_t i = 0; i < m->header_count; i++)
        if (!leat__ce_is_extension(m, i))
            put_other(inner, i, &m->headers[i]);
    leat_json_end(inner);

    size_t n;
    const char *text = leat_json_done(inner, &n, err);
    if (text)
        leat_json_text(j, LEAT__CE_HEADERS, leat_mem(text, n));
    leat_json_free(inner);
    return text ? LEAT_OK : LEAT_ENOMEM;
}

static leat_code put_headers(leat_json *j, const leat_msg *m, leat_fields *out,
                             leat_error *err)
{
    leat_code rc = LEAT_OK;
    bool others = false;

    for (size_t i = 0; rc == LEAT_OK && i < m->header_count; i++) {
        if (leat__ce_is_extension(m, i))
            rc = put_extension(j, &m->headers[i], out, err);
        else
            others = true;
    }
    return rc == LEAT_OK && others ? put_others(j, m, err) : rc;
}

static void put_text(leat_json *j, const char *name, leat_bytes value)
{
    if (value.n > 0)
        leat_json_text(j, name, value);
}

static void put_attributes(leat_json *j, const leat_msg *m)
{
    char time[LEAT__CE_TIME];

    leat_json_str(j, "specversion", "1.0");
    put_text(j, "id", m->id);
    put_text(j, "source",
             m->source.n > 0 ? m->source : leat_str(LEAT__CE_SOURCE));
    put_text(j, "type", m->type.n > 0 ? m->type : leat_str(LEAT__CE_TYPE));
    put_text(j, "subject", m->subject);
    if (m->time_ms != 0) {
        leat__ce_time_format(time, m->time_ms);
        put_text(j, "time", leat_mem(time, sizeof time));
    }
    put_text(j, "partitionkey", m->key);
    put_text(j, "datacontenttype", m->content_type);
}

/* The JSON writer would make the newlines of an embedded body spaces, so that
 * body is put in behind the last member by hand. */
static leat_code append(leat__buf *doc, leat_bytes event,
                        const leat_bytes *body, leat_error *err)
{
    leat_code rc = LEAT_OK;
    if (doc->n > 1) /* behind the bracket and an event */
        rc = leat__buf_str(doc, ",", err);
    if (rc == LEAT_OK)
        rc = leat__buf_add(doc, event.p, event.n - 1, err);
    if (rc == LEAT_OK && body) {
        rc = leat__buf_str(doc, ",\"data\":", err);
        if (rc == LEAT_OK)
            rc = leat__buf_add(doc, body->p, body->n, err);
    }
    return rc == LEAT_OK ? leat__buf_str(doc, "}", err) : rc;
}

static leat_code put_event(leat__buf *doc, leat_json *j, const leat_codec *c,
                           const leat_msg *m, leat_fields *out, leat_error *err)
{
    size_t n;
    bool embed;
    leat_code rc = leat__ce_check(c, m, err);
    if (rc != LEAT_OK)
        return rc;
    leat_json_clear(j);
    leat_json_object(j, NULL);
    put_attributes(j, m);
    rc = put_headers(j, m, out, err);
    if (rc == LEAT_OK)
        rc = put_body(j, m, &embed, err);
    if (rc != LEAT_OK)
        return rc;
    leat_json_end(j);
    const char *text = leat_json_done(j, &n, err);
    return text ? append(doc, leat_mem(text, n), embed ? &m->body : NULL, err)
                : LEAT_ENOMEM;
}

static leat_code check_document(const leat_codec *c, size_t n, leat_error *err)
{
    if (n <= MAX_DOCUMENT)
        return LEAT_OK;
    return leat__fail(err, LEAT_ETOOBIG,
                      "codec %s: a document of %zu bytes or more, the limit is "
                      "%d: use another codec",
                      c->name, n, MAX_DOCUMENT);
}

/* The work is bounded before it begins. */
static leat_code check(const leat_codec *c, const leat_msg *m, size_t n,
                       leat_error *err)
{
    leat_code rc = leat__codec_check_count(c, n, err);
    size_t sum = 0;
    for (size_t i = 0; rc == LEAT_OK && i < n; i++) {
        if (__builtin_add_overflow(sum, m[i].body.n, &sum))
            sum = SIZE_MAX;
        for (size_t h = 0; h < m[i].header_count; h++)
            if (__builtin_add_overflow(sum, m[i].headers[h].name.n, &sum) ||
                __builtin_add_overflow(sum, m[i].headers[h].value.n, &sum))
                sum = SIZE_MAX;
        rc = check_document(c, sum, err);
    }
    return rc;
}

static leat_code write_document(leat__buf *doc, const leat_codec *c,
                                const leat_msg *m, size_t n, leat_fields *out,
                                leat_error *err)
{
    leat_json *j = leat_json_new(err);
    if (!j)
        return LEAT_ENOMEM;
    leat_code rc = leat__buf_str(doc, n > 1 ? "[" : "", err);
    for (size_t i = 0; rc == LEAT_OK && i < n; i++)
        rc = put_event(doc, j, c, &m[i], out, err);
    if (rc == LEAT_OK)
        rc = leat__buf_str(doc, n > 1 ? "]" : "", err);
    leat_json_free(j);
    return rc == LEAT_OK ? check_document(c, doc->n, err) : rc;
}

static leat_code put_fields(leat_bytes doc, bool batch, leat_fields *out,
                            leat_error *err)
{
    char *copy = leat_fields_alloc(out, doc.n, err);
    if (!copy)
        return LEAT_ENOMEM;
    memcpy(copy, doc.p, doc.n);
    leat_code rc = leat_fields_add(out, leat_str("content-type"),
                                   leat_str(batch ? BATCH_TYPE : EVENT_TYPE),
                                   err);
    return rc == LEAT_OK ? leat_fields_add(out, leat_str("data"),
                                           leat_mem(copy, doc.n), err)
                         : rc;
}

static leat_code encode(const leat_codec *c, const leat_msg *m, size_t n,
                        leat_fields *out, leat_error *err)
{
    leat__buf doc = { 0 };
    leat_code rc = check(c, m, n, err);
    if (rc == LEAT_OK)
        rc = write_document(&doc, c, m, n, out, err);
    if (rc == LEAT_OK)
        rc = put_fields(leat__buf_bytes(&doc), n > 1, out, err);
    leat__buf_release(&doc);
    return rc;
}

/* ---- decoding --------------------------------------------------------- */

/* One event being read; what it keeps is copied to the scratch memory of in or
 * stands in the fields. */
typedef struct reader {
    leat_fields *in;
    leat_error *err;
    leat__ce_event event;
    leat_header *headers; /* room for every member and extra field */
    const json_t *data, *base64, *others;
    leat_bytes data_span;
} reader;

static leat_code bad(const reader *r, const char *name, const char *what)
{
    char quoted[40];
    leat__escape(quoted, sizeof quoted, name, strlen(name));
    return leat__fail(r->err, LEAT_EDECODE, "cloudevent: member '%s' %s",
                      quoted, what);
}

static leat_code keep(reader *r, const char *p, size_t n, leat_bytes *out)
{
    char *copy = leat_fields_alloc(r->in, n, r->err);
    if (!copy)
        return LEAT_ENOMEM;
    memcpy(copy, p, n);
    *out = leat_mem(copy, n);
    return LEAT_OK;
}

static leat_code keep_string(reader *r, const json_t *v, leat_bytes *out)
{
    return keep(r, json_string_value(v), json_string_length(v), out);
}

static leat_code get_extension(reader *r, const char *name, const json_t *v,
                               leat_bytes span)
{
    leat_header *h = &r->headers[r->event.m->header_count];
    leat_code rc;

    if (json_is_object(v) || json_is_array(v))
        return bad(r, name, "is no plain value");
    rc = keep(r, name, strlen(name), &h->name);
    if (rc != LEAT_OK)
        return rc;
    h->value = span;
    if (json_is_string(v))
        rc = keep_string(r, v, &h->value);
    r->event.m->header_count++;
    return rc;
}

static leat_code get_attribute(reader *r, const char *name, const json_t *v)
{
    leat_bytes value;
    if (!json_is_string(v))
        return bad(r, name, "is not a string");
    leat_code rc = keep_string(r, v, &value);
    return rc == LEAT_OK
               ? leat__ce_set(&r->event, leat_str(name), value, r->err)
               : rc;
}

static leat_code get_member(reader *r, const char *name, const json_t *v,
                            leat_bytes span)
{
    if (json_is_null(v))
        return LEAT_OK;
    if (strcmp(name, "data") == 0) {
        r->data = v;
        r->data_span = span;
    } else if (strcmp(name, "data_base64") == 0) {
        r->base64 = v;
    } else if (strcmp(name, LEAT__CE_HEADERS) == 0) {
        r->others = v;
    } else if (leat__ce_is_attribute(leat_str(name))) {
        return get_attribute(r, name, v);
    } else {
        return get_extension(r, name, v, span);
    }
    return LEAT_OK;
}

static leat_code keep_base64(reader *r, const char *name, const json_t *v,
                             leat_bytes *out)
{
    if (!json_is_string(v))
        return bad(r, name, "is not a string");
    leat_bytes text = leat_mem(json_string_value(v), json_string_length(v));
    size_t n;
    void *p = leat_fields_alloc(r->in, leat__base64_decoded_max(text.n),
                                r->err);
    if (!p)
        return LEAT_ENOMEM;
    if (leat__base64_decode(p, &n, text, NULL) != LEAT_OK)
        return bad(r, name, "is not base64");
    *out = leat_mem(p, n);
    return LEAT_OK;
}

static leat_code get_body(reader *r)
{
    leat_msg *m = r->event.m;
    if (r->data && r->base64)
        return bad(r, "data", "is there beside data_base64");
    if (r->base64)
        return keep_base64(r, "data_base64", r->base64, &m->body);
    if (r->data && json_is_string(r->data) &&
        !leat__ce_is_json(m->content_type))
        return keep_string(r, r->data, &m->body);
    m->body = r->data_span;
    return LEAT_OK;
}

/* One item of leatheaders: [place, name, value] or with "base64" behind. */
static leat_code get_other(reader *r, const json_t *item, size_t *place,
                           leat_header *h)
{
    const json_t *name = json_array_get(item, 1);
    const json_t *value = json_array_get(item, 2);
    const char *coding = json_string_value(json_array_get(item, 3));
    double at = json_number_value(json_array_get(item, 0));
    size_t n = json_array_size(item);
    leat_code rc;

    if (!json_is_string(name) || !json_is_string(value) || n > 4 ||
        (n == 4 && (!coding || strcmp(coding, "base64") != 0)) ||
        !json_is_number(json_array_get(item, 0)) || !(at >= 0 && at < 1e9) ||
        at != (double)(size_t)at)
        return bad(r, LEAT__CE_HEADERS, "has an item that is no header");
    *place = (size_t)at;
    if (n == 4) {
        rc = keep_base64(r, LEAT__CE_HEADERS, name, &h->name);
        return rc == LEAT_OK
                   ? keep_base64(r, LEAT__CE_HEADERS, value, &h->value)
                   : rc;
    }
    rc = keep_string(r, name, &h->name);
    return rc == LEAT_OK ? keep_string(r, value, &h->value) : rc;
}

/* Merge the others into the extensions, each at its place. */
static leat_code merge_others(reader *r, const json_t *items)
{
    leat_msg *m = r->event.m;
    size_t more = json_array_size(items), all = m->header_count + more;
    size_t to = 0, from = 0;
    leat_header *h = leat_fields_alloc(r->in, all * sizeof *h, r->err);
    if (!h)
        return LEAT_ENOMEM;

    for (size_t i = 0; i < more; i++) {
        leat_header other;
        size_t place = 0;
        leat_code rc = get_other(r, json_array_get(items, i), &place, &other);
        if (rc != LEAT_OK)
            return rc;
        if (place < to || place - to > m->header_count - from)
            return bad(r, LEAT__CE_HEADERS, "has an item out of place");
        while (to < place)
            h[to++] = r->headers[from++];
        h[to++] = other;
    }
    while (to < all)
        h[to++] = r->headers[from++];
    m->headers = h;
    m->header_count = all;
    return LEAT_OK;
}

static leat_code get_others(reader *r)
{
    if (!r->others)
        return LEAT_OK;
    if (!json_is_string(r->others))
        return bad(r, LEAT__CE_HEADERS, "is not a string");
    json_error_t why;
    json_t *items = parse(
        leat_mem(json_string_value(r->others), json_string_length(r->others)),
        0, &why);
    if (!items && json_error_code(&why) == json_error_out_of_memory)
        return no_memory(r->err);
    leat_code rc = json_is_array(items)
                       ? merge_others(r, items)
                       : bad(r, LEAT__CE_HEADERS, "holds no JSON array");
    json_decref(items);
    return rc;
}

/* The parser keeps the order of members and refuses repeated ones, so the
 * k-th member it tells is the k-th span of the text. */
static leat_code get_members(reader *r, json_t *event, leat_bytes text)
{
    leat__json_span spans = leat__json_span_open(text);
    const char *name;
    json_t *v;

    json_object_foreach(event, name, v)
    {
        leat_bytes span;
        bool there = leat__json_span_next(&spans, &span);
        assert(there);
        (void)there;
        leat_code rc = get_member(r, name, v, span);
        if (rc != LEAT_OK)
            return rc;
    }
    return LEAT_OK;
}

/* A single event takes the fields beside it along; ce_* repeat what it says. */
static void get_extras(reader *r)
{
    const leat_bytes *pairs = leat_fields_pairs(r->in);
    leat_msg *m = r->event.m;

    for (size_t i = 0; i < leat_fields_count(r->in); i++) {
        leat_bytes name = pairs[2 * i];
        if (leat_bytes_eq(name, leat_str("data")) ||
            leat_bytes_eq(name, leat_str("content-type")) ||
            (name.n >= 3 && memcmp(name.p, "ce_", 3) == 0))
            continue;
        r->headers[m->header_count++] = (leat_header){ name, pairs[2 * i + 1] };
    }
}

static leat_code get_event(leat_fields *in, json_t *event, leat_bytes text,
                           bool extras, leat_msg *m, leat_error *err)
{
    reader r = { .in = in, .err = err, .event = { .m = m } };
    if (!json_is_object(event))
        return leat__fail(err, LEAT_EDECODE,
                          "cloudevent: the event is no JSON object");
    size_t room = json_object_size(event);
    if (extras)
        room += leat_fields_count(in);
    r.headers = leat_fields_alloc(in, room * sizeof *r.headers, err);
    if (!r.headers)
        return LEAT_ENOMEM;

    *m = (leat_msg){ .headers = r.headers };
    leat_code rc = get_members(&r, event, text);
    if (rc == LEAT_OK && extras)
        get_extras(&r);
    if (rc == LEAT_OK)
        rc = get_others(&r);
    if (rc == LEAT_OK)
        rc = get_body(&r);
    return rc == LEAT_OK ? leat__ce_check_required(&r.event, err) : rc;
}

static leat_code get_batch(leat_fields *in, json_t *events, leat_bytes text,
                           leat_msg *m, leat_error *err)
{
    leat__json_span spans = leat__json_span_open(text);
    leat_code rc = LEAT_OK;
    for (size_t i = 0; rc == LEAT_OK && i < json_array_size(events); i++) {
        leat_bytes span;
        bool there = leat__json_span_next(&spans, &span);
        assert(there);
        (void)there;
        rc = get_event(in, json_array_get(events, i), span, false, &m[i], err);
    }
    return rc;
}

/* How many events the document holds; 0 with *err filled if not as its content
 * type says. */
static size_t count_events(const leat_fields *in, enum leat__ce_mode mode,
                           const json_t *doc, leat_error *err)
{
    size_t n = json_array_size(doc);
    if (mode == LEAT__CE_JSON)
        return 1;
    if (n == 0 || n > MAX_BATCH)
        leat__fail(err, LEAT_EDECODE,
                   "cloudevent: a batch is a JSON array of 1 to %d events",
                   MAX_BATCH);
    else if (leat_fields_count(in) != 2)
        leat__fail(err, LEAT_EDECODE, "cloudevent: fields beside a batch");
    else
        return n;
    return 0;
}

static leat_code get_document(leat_fields *in, enum leat__ce_mode mode,
                              json_t *doc, leat_bytes text,
                              const leat_msg **out, size_t *n, leat_error *err)
{
    *n = count_events(in, mode, doc, err);
    if (*n == 0)
        return LEAT_EDECODE;
    leat_msg *m = leat_fields_alloc(in, *n * sizeof *m, err);
    if (!m)
        return LEAT_ENOMEM;
    *out = m;
    return mode == LEAT__CE_JSON ? get_event(in, doc, text, true, m, err)
                                 : get_batch(in, doc, text, m, err);
}

/* Exactly one field data, for a second one would be passed over. */
static leat_code find_document(const leat_fields *in, leat_bytes *text,
                               leat_error *err)
{
    const leat_bytes *pairs = leat_fields_pairs(in);
    size_t data = 0, types = 0;

    for (size_t i = 0; i < leat_fields_count(in); i++) {
        data += leat_bytes_eq(pairs[2 * i], leat_str("data"));
        types += leat_bytes_eq(pairs[2 * i], leat_str("content-type"));
    }
    *text = leat_fields_get(in, "data");
    if (data != 1 || types != 1)
        return leat__fail(err, LEAT_EDECODE,
                          "cloudevent: %zu fields data and %zu content-type, "
                          "there should be one each",
                          data, types);
    if (text->n > MAX_DOCUMENT)
        return leat__fail(err, LEAT_EDECODE,
                          "cloudevent: a document of %zu bytes, the limit is "
                          "%d",
                          text->n, MAX_DOCUMENT);
    return LEAT_OK;
}

leat_code leat__ce_decode_json(leat_fields *in, enum leat__ce_mode mode,
                               const leat_msg **m, size_t *n, leat_error *err)
{
    leat_bytes text;
    json_error_t why;
    leat_code rc = find_document(in, &text, err);
    if (rc != LEAT_OK)
        return rc;

    json_t *doc = parse(text, 0, &why);
    if (!doc && json_error_code(&why) == json_error_out_of_memory)
        return no_memory(err);
    if (!doc) /* the parser's own text quotes the payload */
        return leat__fail(err, LEAT_EDECODE,
                          "cloudevent: no JSON document: line %d, column %d",
                          why.line, why.column);
    rc = get_document(in, mode, doc, text, m, n, err);
    json_decref(doc);
    return rc;
}

const leat_codec leat_codec_ce_json = {
    .name = "ce-json",
    .max_batch = MAX_BATCH,
    .encode = encode,
    .decode = leat__ce_decode,
};
