/*
 * redowl_pack.c: a message as redowl writes it.
 */
#include "queue/redowl_pack.h"
#include "base/base64.h"
#include "base/utf8.h"
#include "queue/keys.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

enum { OWN = 6, HEAD = 11, NUMBERS = 4 };

static const char *const names[OWN] = {
    "leat-key",     "leat-type",         "leat-source",
    "leat-subject", "leat-content-type", "leat-time",
};

static leat_bytes *own_field(leat_msg *m, size_t i)
{
    leat_bytes *const all[OWN] = { &m->key,     &m->type,         &m->source,
                                   &m->subject, &m->content_type, NULL };
    return all[i];
}

/* ---- writing ---------------------------------------------------------- */

leat_code leat__owl_check_send(const leat_msg *m, const leat_queue_send_opts *o,
                               leat_error *err)
{
    if (o->dedup.n > 0 || o->group.n > 0)
        return leat__fail(err, LEAT_ENOTSUP,
                          "a message of a redowl queue has no %s",
                          o->group.n > 0 ? "group" : "dedup id");
    const unsigned char *p = m->id.p;
    bool fine = leat__utf8_valid(m->id);
    for (size_t i = 0; fine && i < m->id.n; i++)
        fine = p[i] >= ' ' && p[i] != 0x7f;
    if (!fine)
        return leat__fail(err, LEAT_EINVAL,
                          "a message id of a redowl queue is text");
    return LEAT_OK;
}

static int by_name(const void *a, const void *b)
{
    const leat_bytes *x = &((const leat_header *)a)->name;
    const leat_bytes *y = &((const leat_header *)b)->name;
    size_t n = x->n < y->n ? x->n : y->n;
    int d = n > 0 ? memcmp(x->p, y->p, n) : 0;
    return d ? d : (x->n > y->n) - (x->n < y->n);
}

/* The headers and leat's own, sorted; how many. */
static size_t collect(leat_header *all, leat_msg *m, char *time)
{
    size_t n = m->header_count;
    for (size_t i = 0; i < n; i++)
        all[i] = m->headers[i];
    for (size_t i = 0; i < OWN; i++) {
        const leat_bytes *own = own_field(m, i);
        if (own && own->n > 0)
            all[n++] = (leat_header){ leat_str(names[i]), *own };
    }
    if (m->time_ms != 0)
        all[n++] = (leat_header){ leat_str(names[OWN - 1]), leat_str(time) };
    if (n > 1)
        qsort(all, n, sizeof *all, by_name);
    return n;
}

static leat_code check_all(const leat_header *all, size_t n, leat_error *err)
{
    for (size_t i = 0; i < n; i++) {
        char quoted[80];
        const leat_bytes *name = &all[i].name;
        bool zero = name->n > 0 && memchr(name->p, '\0', name->n);
        bool text = !zero && leat__utf8_valid(*name) &&
                    leat__utf8_valid(all[i].value);
        bool twice = i > 0 && leat_bytes_eq(*name, all[i - 1].name);
        if (text && !twice)
            continue;
        leat__escape(quoted, sizeof quoted, name->p, name->n);
        return leat__fail(err, LEAT_EINVAL,
                          twice ? "two attributes '%s': redowl takes one"
                                : "attribute '%s' is no text, as redowl has it",
                          quoted);
    }
    return LEAT_OK;
}

/* As Go does: also what means something in HTML, and U+2028, U+2029. */
static leat_code add_escaped(leat__buf *b, const char *p, size_t n,
                             leat_error *err)
{
    unsigned char c = (unsigned char)*p;
    switch (c) {
    case '"':
        return leat__buf_str(b, "\\\"", err);
    case '\\':
        return leat__buf_str(b, "\\\\", err);
    case '\n':
        return leat__buf_str(b, "\\n", err);
    case '\r':
        return leat__buf_str(b, "\\r", err);
    case '\t':
        return leat__buf_str(b, "\\t", err);
    default:
        break;
    }
    if (n == 3)
        return leat__buf_str(b, p[2] == '\xa8' ? "\\u2028" : "\\u2029", err);
    return leat__buf_printf(b, err, "\\u%04x", c);
}

/* How many bytes at p are to be escaped together; 0: none. */
static size_t special(const char *p, const char *end)
{
    unsigned char c = (unsigned char)*p;
    if (c < ' ' || strchr("\"\\<>&", c))
        return 1;
    bool separator = c == 0xe2 && end - p >= 3 && p[1] == '\x80' &&
                     (p[2] == '\xa8' || p[2] == '\xa9');
    return separator ? 3 : 0;
}

static leat_code add_text(leat__buf *b, leat_bytes text, leat_error *err)
{
    const char *p = text.p, *end = p + text.n;
    leat_code rc = leat__buf_add(b, "\"", 1, err);
    while (rc == LEAT_OK && p < end) {
        const char *from = p;
        while (p < end && special(p, end) == 0)
            p++;
        rc = leat__buf_add(b, from, (size_t)(p - from), err);
        if (rc == LEAT_OK && p < end) {
            size_t n = special(p, end);
            rc = add_escaped(b, p, n, err);
            p += n;
        }
    }
    return rc == LEAT_OK ? leat__buf_add(b, "\"", 1, err) : rc;
}

static leat_code add_attrs(leat__buf *b, const leat_header *all, size_t n,
                           leat_error *err)
{
    if (n == 0)
        return leat__buf_str(b, "null", err);
    leat_code rc = LEAT_OK;
    for (size_t i = 0; rc == LEAT_OK && i < n; i++) {
        rc = leat__buf_add(b, i > 0 ? "," : "{", 1, err);
        if (rc == LEAT_OK)
            rc = add_text(b, all[i].name, err);
        if (rc == LEAT_OK)
            rc = leat__buf_add(b, ":", 1, err);
        if (rc == LEAT_OK)
            rc = add_text(b, all[i].value, err);
    }
    return rc == LEAT_OK ? leat__buf_add(b, "}", 1, err) : rc;
}

static leat_code add_body(leat__buf *b, leat_bytes body, leat_error *err)
{
    size_t n = leat__base64_encoded(body.n);
    leat_code rc = leat__buf_reserve(b, n, err);
    if (rc != LEAT_OK || n == 0)
        return rc;
    leat__base64_encode(b->p + b->n, body);
    b->n += n;
    return LEAT_OK;
}

size_t leat__owl_size(const leat_msg *m, size_t packed)
{
    size_t attrs = packed - HEAD - leat__base64_encoded(m->body.n);
    return m->body.n > attrs ? m->body.n : attrs;
}

leat_code leat__owl_pack(leat__buf *b, leat_fields *f, const leat_msg *m,
                         leat_error *err)
{
    char head[HEAD + 1], time[24];
    leat_msg own = *m;
    size_t at = b->n;
    leat_fields_clear(f);
    leat_header *all = leat_fields_alloc(
        f, (m->header_count + OWN) * sizeof *all, err);
    if (!all)
        return LEAT_ENOMEM;
    snprintf(time, sizeof time, "%lld", (long long)m->time_ms);
    size_t n = collect(all, &own, time);
    leat_code rc = check_all(all, n, err);
    if (rc == LEAT_OK)
        rc = leat__buf_add(b, "           ", HEAD, err);
    if (rc == LEAT_OK)
        rc = add_attrs(b, all, n, err);
    if (rc != LEAT_OK)
        return rc;
    snprintf(head, sizeof head, "%010u\n", (unsigned)(b->n - at - HEAD));
    memcpy(b->p + at, head, HEAD);
    return add_body(b, m->body, err);
}

bool leat__owl_parts(leat_bytes packed, leat_bytes *attrs, leat_bytes *body)
{
    const char *p = packed.p;
    size_t n = packed.n >= HEAD ? strtoul(p, NULL, 10) : SIZE_MAX;
    if (packed.n < HEAD || n > packed.n - HEAD)
        return false;
    *attrs = leat_mem(p + HEAD, n);
    *body = leat_mem(p + HEAD + n, packed.n - HEAD - n);
    return true;
}

leat_code leat__owl_event(leat__buf *b, const char *type, leat_bytes queue,
                          leat_bytes id, int64_t at_ms, int64_t rc,
                          leat_error *err)
{
    leat_code ok = leat__buf_printf(b, err,
                                    "{\"type\":\"%s\",\"queue\":", type);
    if (ok == LEAT_OK)
        ok = add_text(b, queue, err);
    if (ok == LEAT_OK)
        ok = leat__buf_str(b, ",\"message_id\":", err);
    if (ok == LEAT_OK)
        ok = add_text(b, id, err);
    if (ok == LEAT_OK)
        ok = leat__buf_printf(b, err, ",\"at_unix_ms\":%lld", (long long)at_ms);
    if (ok == LEAT_OK && rc >= 0)
        ok = leat__buf_printf(b, err, ",\"extra\":{\"rc\":\"%lld\"}",
                              (long long)rc);
    return ok == LEAT_OK ? leat__buf_str(b, "}", err) : ok;
}

/* ---- reading ---------------------------------------------------------- */

/* "<number> <number> <number> <number>\n" off the front. */
static bool cut_numbers(leat_bytes *rest, int64_t *out)
{
    const char *p = rest->p, *end = p + rest->n;
    for (int i = 0; i < NUMBERS; i++) {
        int64_t v = 0;
        const char *from = p;
        for (; p < end && *p >= '0' && *p <= '9' && p - from < 18; p++)
            v = v * 10 + (*p - '0');
        if (p == from || p == end || *p++ != (i < NUMBERS - 1 ? ' ' : '\n'))
            return false;
        out[i] = v;
    }
    *rest = leat_mem(p, (size_t)(end - p));
    return true;
}

static bool cut(leat_bytes *rest, int64_t n, leat_bytes *out)
{
    if (n < 0 || (uint64_t)n > rest->n)
        return false;
    *out = leat_mem(rest->p, (size_t)n);
    *rest = leat_mem((const char *)rest->p + n, rest->n - (size_t)n);
    return true;
}

static leat_bytes keep(char **to, const char *p, size_t n)
{
    leat_bytes out = leat_mem(*to, n);
    memcpy(*to, p, n);
    *to += n;
    return out;
}

/* True: it is one of leat's own, and taken. */
static bool take_own(leat_msg *m, leat_bytes name, leat_bytes value)
{
    for (size_t i = 0; i < OWN; i++) {
        if (!leat_bytes_eq(name, leat_str(names[i])))
            continue;
        leat_bytes *own = own_field(m, i);
        char text[24];
        if (own) {
            *own = value;
        } else {
            snprintf(text, sizeof text, "%.*s", (int)value.n,
                     (const char *)value.p);
            m->time_ms = strtoll(text, NULL, 10);
        }
        return true;
    }
    return false;
}

/* What is decoded is no longer than the text. */
static leat_code read_object(json_t *o, size_t room, leat_fields *f,
                             leat_msg *m, leat_error *err)
{
    const char *name;
    json_t *v;
    char *to = leat_fields_alloc(f, room, err);
    leat_header *h = leat_fields_alloc(f, json_object_size(o) * sizeof *h + 1,
                                       err);
    if (!to || !h)
        return LEAT_ENOMEM;
    m->headers = h;
    json_object_foreach(o, name, v)
    {
        if (!json_is_string(v))
            return leat__fail(err, LEAT_EDECODE,
                              "an attribute of the message is no string");
        leat_bytes n = keep(&to, name, strlen(name));
        leat_bytes value = keep(&to, json_string_value(v),
                                json_string_length(v));
        if (!take_own(m, n, value))
            h[m->header_count++] = (leat_header){ n, value };
    }
    return LEAT_OK;
}

static leat_code read_attrs(leat_bytes text, leat_fields *f, leat_msg *m,
                            leat_error *err)
{
    json_error_t why;
    if (leat_bytes_eq(text, leat_str("null")) || text.n == 0)
        return LEAT_OK;
    json_t *o = json_loadb(text.p, text.n, JSON_ALLOW_NUL, &why);
    leat_code rc;
    if (!o && json_error_code(&why) == json_error_out_of_memory)
        rc = leat__fail(err, LEAT_ENOMEM, "no memory for attributes");
    else if (!json_is_object(o))
        rc = leat__fail(err, LEAT_EDECODE,
                        "the attributes of the message are no JSON object");
    else
        rc = read_object(o, text.n, f, m, err);
    json_decref(o);
    return rc;
}

static leat_code read_body(leat_bytes text, leat_fields *f, leat_msg *m,
                           leat_error *err)
{
    size_t n = 0;
    if (text.n == 0)
        return LEAT_OK;
    void *p = leat_fields_alloc(f, leat__base64_decoded_max(text.n) + 1, err);
    if (!p)
        return LEAT_ENOMEM;
    leat_code rc = leat__base64_decode(p, &n, text, NULL);
    if (rc != LEAT_OK)
        return leat__fail(err, LEAT_EDECODE,
                          "the body of the message is no base64");
    m->body = leat_mem(p, n);
    return LEAT_OK;
}

leat_code leat__owl_unpack(leat_bytes member, leat_bytes value, bool fifo,
                           leat_fields *f, leat_queue_item *it, leat_error *err)
{
    leat_bytes rest = value, id, attrs;
    int64_t v[NUMBERS];
    (void)member;
    (void)fifo;
    if (!cut_numbers(&rest, v) || !cut(&rest, v[2], &id) ||
        !cut(&rest, v[3], &attrs))
        return leat__fail(err, LEAT_EPROTO,
                          "the server gave a message that is none");
    leat_msg m = { .id = id, .time_ms = v[1] };
    it->receives = v[0] < UINT32_MAX ? (uint32_t)v[0] : UINT32_MAX;
    it->sent_ms = v[1];
    leat_code rc = read_attrs(attrs, f, &m, err);
    if (rc == LEAT_OK)
        rc = read_body(rest, f, &m, err);
    it->msg = rc == LEAT_OK ? m : (leat_msg){ .id = id };
    return rc;
}
