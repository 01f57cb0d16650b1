/*
 * codec_support.h: messages by seed, and what the codec tests ask of them.
 */
#ifndef TESTS_UNIT_MESSAGE_CODEC_SUPPORT_H
#define TESTS_UNIT_MESSAGE_CODEC_SUPPORT_H

#include <leat/leat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- random, by seed -------------------------------------------------- */

typedef struct rng {
    uint64_t x;
} rng;

static inline uint64_t rng_next(rng *r)
{
    uint64_t z = (r->x += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static inline size_t rng_below(rng *r, size_t n)
{
    return (size_t)(rng_next(r) % n);
}

/* ---- random messages -------------------------------------------------- */

/* What an event of CloudEvents can carry, or anything. */
typedef enum kind { ANYTHING, EVENT } kind;

static inline leat_bytes some_bytes(rng *r, leat_fields *mem, size_t max)
{
    size_t n = rng_below(r, max + 1);
    unsigned char *p = leat_fields_alloc(mem, n + 1, NULL);
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)rng_next(r);
    return leat_mem(p, n);
}

/* UTF-8 without control characters, at least one character. */
static inline leat_bytes some_text(rng *r, leat_fields *mem, size_t max)
{
    static const char *const parts[] = { "a",
                                         "Z",
                                         "0",
                                         "-",
                                         " ",
                                         "\"",
                                         "\\",
                                         "/",
                                         "{",
                                         "\xc3\xa9",
                                         "\xe2\x82\xac",
                                         "\xf0\x9f\x98\x80" };
    size_t count = 1 + rng_below(r, max), n = 0;
    char *p = leat_fields_alloc(mem, count * 4, NULL);
    for (size_t i = 0; i < count; i++) {
        const char *s = parts[rng_below(r, sizeof parts / sizeof parts[0])];
        memcpy(p + n, s, strlen(s));
        n += strlen(s);
    }
    return leat_mem(p, n);
}

static inline leat_bytes some_string(rng *r, leat_fields *mem, kind k,
                                     bool required)
{
    if (!required && rng_below(r, 3) == 0)
        return leat_mem(NULL, 0);
    return k == EVENT ? some_text(r, mem, 12) : some_bytes(r, mem, 200);
}

static inline leat_bytes some_id(rng *r, leat_fields *mem, kind k)
{
    if (rng_below(r, 2))
        return some_string(r, mem, k, true);
    char *p = leat_fields_alloc(mem, 40, NULL);
    uint64_t a = rng_next(r), b = rng_next(r);
    snprintf(p, 40, "%08x-%04x-%04x-%04x-%012llx", (unsigned)(a >> 32),
             (unsigned)(a >> 16 & 0xffff), (unsigned)(a & 0xffff),
             (unsigned)(b >> 48),
             (unsigned long long)(b & UINT64_C(0xffffffffffff)));
    if (rng_below(r, 4) == 0) /* nearly one */
        p[rng_below(r, 36)] = "gA-0"[rng_below(r, 4)];
    return leat_mem(p, 36);
}

static inline leat_bytes some_name(rng *r, leat_fields *mem)
{
    static const char *const names[] = { "traceparent",
                                         "x",
                                         "n1",
                                         "X-Upper",
                                         "id",
                                         "time",
                                         "data",
                                         "leatheaders",
                                         "content-type",
                                         "ce_id",
                                         "h_x",
                                         "",
                                         "datacontenttype",
                                         "partitionkey" };
    if (rng_below(r, 4) == 0)
        return some_bytes(r, mem, 8);
    return leat_str(names[rng_below(r, sizeof names / sizeof names[0])]);
}

static inline void some_headers(rng *r, leat_fields *mem, leat_msg *m)
{
    size_t n = rng_below(r, 8);
    leat_header *h = leat_fields_alloc(mem, (n + 1) * sizeof *h, NULL);
    for (size_t i = 0; i < n; i++) {
        h[i].name = some_name(r, mem);
        h[i].value = rng_below(r, 2) ? some_text(r, mem, 10)
                                     : some_bytes(r, mem, 10);
    }
    m->headers = h;
    m->header_count = n;
}

static inline leat_bytes some_body(rng *r, leat_fields *mem)
{
    static const char *const documents[] = {
        "{\"a\": 1.0, \"b\":[1,\n2,{}]}",
        "123456789012345678901234567890",
        "\"text\"",
        "null",
        "true",
        " 1 ",
        "{\"a\":1,\"a\":2}",
        "1e999",
        "{\"\\u0000\":1}",
        "\"\\ud800\"",
        "[]",
        "\"a\\\"]}b\"",
        "{\"data\":{\"data\":\"}\"}}",
        "not json",
        "\n",
    };
    switch (rng_below(r, 4)) {
    case 0:
        return some_bytes(r, mem, 300);
    case 1:
        return some_text(r, mem, 40);
    case 2:
        return leat_mem("a\0b\x01\x7f", 5);
    default:
        return leat_str(
            documents[rng_below(r, sizeof documents / sizeof documents[0])]);
    }
}

static inline leat_msg some_msg(rng *r, leat_fields *mem, kind k)
{
    static const char *const types[] = { "",
                                         "application/json",
                                         "text/plain",
                                         "Text/Plain; charset=utf-8",
                                         "application/octet-stream",
                                         "application/vnd.x+JSON ; v=1" };
    leat_msg m = { .id = some_id(r, mem, k) };
    m.key = some_string(r, mem, k, false);
    m.type = some_string(r, mem, k, k == EVENT);
    m.source = some_string(r, mem, k, k == EVENT);
    m.subject = some_string(r, mem, k, false);
    m.content_type = leat_str(types[rng_below(r, 6)]);
    m.time_ms = (int64_t)rng_next(r);
    if (k == EVENT)
        m.time_ms = m.time_ms % INT64_C(60000000000000);
    if (rng_below(r, 4) == 0)
        m.time_ms = 0;
    some_headers(r, mem, &m);
    m.body = some_body(r, mem);
    return m;
}

/* ---- what is asked ---------------------------------------------------- */

static inline void assert_bytes(leat_bytes got, leat_bytes want)
{
    assert_int_equal(got.n, want.n);
    if (want.n > 0)
        assert_memory_equal(got.p, want.p, want.n);
}

static inline void assert_same(const leat_msg *got, const leat_msg *want)
{
    assert_bytes(got->id, want->id);
    assert_bytes(got->key, want->key);
    assert_bytes(got->type, want->type);
    assert_bytes(got->source, want->source);
    assert_bytes(got->subject, want->subject);
    assert_bytes(got->content_type, want->content_type);
    assert_true(got->time_ms == want->time_ms);
    assert_int_equal(got->header_count, want->header_count);
    for (size_t i = 0; i < want->header_count; i++) {
        assert_bytes(got->headers[i].name, want->headers[i].name);
        assert_bytes(got->headers[i].value, want->headers[i].value);
    }
    assert_bytes(got->body, want->body);
}

/* Encode, decode, compare. */
static inline void assert_comes_back(const leat_codec *c, leat_fields *f,
                                     const leat_msg *m, size_t n)
{
    const leat_msg *got = NULL;
    leat_error err = { 0 };
    size_t count = 0;

    leat_fields_clear(f);
    if (c->encode(c, m, n, f, &err) != LEAT_OK)
        fail_msg("%s: encode: %s", c->name, err.msg);
    if (c->decode(c, f, &got, &count, &err) != LEAT_OK)
        fail_msg("%s: decode: %s", c->name, err.msg);
    assert_int_equal(count, n);
    for (size_t i = 0; i < n; i++)
        assert_same(&got[i], &m[i]);
}

static inline void assert_field(const leat_fields *f, const char *name,
                                const char *value)
{
    leat_bytes got = leat_fields_get(f, name);
    if (!got.p)
        fail_msg("no field %s", name);
    assert_bytes(got, leat_str(value));
}

static inline leat_fields *new_fields(void)
{
    leat_fields *f = leat_fields_new(NULL);
    assert_non_null(f);
    return f;
}

static inline void add_field(leat_fields *f, const char *name,
                             const char *value)
{
    assert_int_equal(leat_fields_add(f, leat_str(name), leat_str(value), NULL),
                     LEAT_OK);
}

/* The fields are refused as undecodable, with words that say why. */
static inline void assert_refused(const leat_codec *c, leat_fields *f,
                                  const char *why)
{
    const leat_msg *m;
    leat_error err = { 0 };
    size_t n;
    assert_int_equal(c->decode(c, f, &m, &n, &err), LEAT_EDECODE);
    assert_int_equal(err.code, LEAT_EDECODE);
    if (!strstr(err.msg, why))
        fail_msg("'%s' does not say '%s'", err.msg, why);
}

#endif
