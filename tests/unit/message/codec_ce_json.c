/* codec_ce_json.c: CloudEvents as one JSON document. */
#include "codec_support.h"

static const leat_codec *const ce = &leat_codec_ce_json;

#define REQUIRED                                                               \
    "\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"s\",\"type\":\"t\""

static leat_msg plain_msg(const char *content_type, const char *body)
{
    return (leat_msg){ .id = leat_str("1"),
                       .source = leat_str("s"),
                       .type = leat_str("t"),
                       .content_type = leat_str(content_type),
                       .body = leat_str(body) };
}

static void assert_document(const leat_msg *m, size_t n, const char *type,
                            const char *want)
{
    leat_fields *f = new_fields();
    assert_int_equal(ce->encode(ce, m, n, f, NULL), LEAT_OK);
    assert_int_equal(leat_fields_count(f), 2);
    assert_field(f, "content-type", type);
    leat_bytes got = leat_fields_get(f, "data");
    if (!leat_bytes_eq(got, leat_str(want)))
        fail_msg("got  %.*s\nwant %s", (int)got.n, (const char *)got.p, want);
    leat_fields_free(f);
}

#define EVENT_TYPE "application/cloudevents+json"
#define BATCH_TYPE "application/cloudevents-batch+json"

static void a_message_is_this_document(void **state)
{
    leat_header h[] = { { leat_str("X-Shop"), leat_str("\"7\"") },
                        { leat_str("traceparent"), leat_str("00-1") },
                        { leat_mem("\xff", 1), leat_mem("\0", 1) } };
    leat_msg m = plain_msg("application/json", "{\"n\": 1.0}");
    (void)state;
    m.key = leat_str("cust");
    m.subject = leat_str("caf\xc3\xa9");
    m.time_ms = 1;
    m.headers = h;
    m.header_count = 3;
    assert_document(
        &m, 1, EVENT_TYPE,
        "{" REQUIRED ",\"subject\":\"caf\xc3\xa9\","
        "\"time\":\"1970-01-01T00:00:00.001Z\","
        "\"partitionkey\":\"cust\","
        "\"datacontenttype\":\"application/json\","
        "\"traceparent\":\"00-1\","
        "\"leatheaders\":\"[[0,\\\"X-Shop\\\",\\\"\\\\\\\"7\\\\\\\"\\\"],"
        "[2,\\\"/w==\\\",\\\"AA==\\\",\\\"base64\\\"]]\","
        "\"data\":{\"n\": 1.0}}");
}

static void more_messages_are_a_batch(void **state)
{
    leat_msg m[] = { plain_msg("", "1"), plain_msg("text/plain", "a\n\"b"),
                     plain_msg("", "") };
    (void)state;
    assert_document(m, 3, BATCH_TYPE,
                    "[{" REQUIRED ",\"data\":1},"
                    "{" REQUIRED ",\"datacontenttype\":\"text/plain\","
                    "\"data\":\"a\\n\\\"b\"},"
                    "{" REQUIRED "}]");
}

static void a_body_goes_where_its_type_says(void **state)
{
    static const struct {
        const char *type, *body, *member;
    } cases[] = {
        { "", "{\"a\":[1,\n 2]}", "\"data\":{\"a\":[1,\n 2]}" },
        { "", "no json", "\"data_base64\":\"bm8ganNvbg==\"" },
        { "application/json", "\"x\"", "\"data\":\"x\"" },
        { "APPLICATION/JSON; charset=utf-8", "[]", "\"data\":[]" },
        { "application/problem+json", "0", "\"data\":0" },
        { "text/json", "{}", "\"data\":{}" },
        { "application/json", "null", "\"data_base64\":\"bnVsbA==\"" },
        { "application/json", "{}\n", "\"data_base64\":\"e30K\"" },
        { "application/json", "{\"a\":1,\"a\":1}", "\"data_base64\":" },
        { "application/json", "1e999", "\"data_base64\":" },
        { "application/json", "12345678901234567890123.50",
          "\"data\":12345678901234567890123.50" },
        { "text/plain", "{}", "\"data\":\"{}\"" },
        { "text/plain", "\xff", "\"data_base64\":\"/w==\"" },
        { "application/xml", "<a/>", "\"data_base64\":\"PGEvPg==\"" },
    };
    leat_fields *f = new_fields();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        leat_msg m = plain_msg(cases[i].type, cases[i].body);
        assert_comes_back(ce, f, &m, 1);
        leat_bytes doc = leat_fields_get(f, "data");
        if (!memmem(doc.p, doc.n, cases[i].member, strlen(cases[i].member)))
            fail_msg("%.*s has no %s", (int)doc.n, (const char *)doc.p,
                     cases[i].member);
    }
    leat_fields_free(f);
}

static void a_deep_body_comes_back(void **state)
{
    enum { MOST = 3000 };
    char body[2 * MOST];
    leat_fields *f = new_fields();
    (void)state;
    for (size_t n = 999; n <= MOST; n = n == 1001 ? MOST : n + 1) {
        memset(body, '[', n);
        memset(body + n, ']', n);
        leat_msg m[2] = { plain_msg("", ""), plain_msg("", "1") };
        m[0].body = leat_mem(body, 2 * n);
        assert_comes_back(ce, f, m, 2);
        leat_bytes doc = leat_fields_get(f, "data");
        bool embedded = memmem(doc.p, doc.n, "\"data\":[", 8) != NULL;
        assert_true(embedded == (n <= 1000));
        if (n == MOST)
            break;
    }
    leat_fields_free(f);
}

/* ---- documents of others ---------------------------------------------- */

static leat_fields *entry(const char *type, const char *doc)
{
    leat_fields *f = new_fields();
    add_field(f, "content-type", type);
    add_field(f, "data", doc);
    return f;
}

static const leat_msg *decoded(leat_fields *f, size_t want)
{
    const leat_msg *m = NULL;
    leat_error err = { 0 };
    size_t n;
    if (ce->decode(ce, f, &m, &n, &err) != LEAT_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(n, want);
    return m;
}

static void members_of_others_become_headers(void **state)
{
    leat_fields *f = entry(
        "application/CloudEvents+JSON; charset=UTF-8",
        " { \"int\" : 123456789012345678901234567890 , " REQUIRED
        ", \"bool\": true, \"nothing\": null, \"real\":1.50,"
        "\"subject\":null,\"Upper\":\"\\u00e9\\u0000\",\"data\" : \t"
        "{ \"x\" : [ 1 , \"}]\\\"\" ] } ,\"last\":\"\"} ");
    (void)state;
    add_field(f, "shard", "9");
    add_field(f, "ce_id", "1");
    const leat_msg *m = decoded(f, 1);
    static const char *const want[][2] = {
        { "int", "123456789012345678901234567890" },
        { "bool", "true" },
        { "real", "1.50" },
        { "Upper", NULL },
        { "last", "" },
        { "shard", "9" },
    };
    assert_int_equal(m->header_count, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_bytes(m->headers[i].name, leat_str(want[i][0]));
        if (want[i][1])
            assert_bytes(m->headers[i].value, leat_str(want[i][1]));
    }
    assert_bytes(m->headers[3].value, leat_mem("\xc3\xa9\0", 3));
    assert_bytes(m->body, leat_str("{ \"x\" : [ 1 , \"}]\\\"\" ] }"));

    leat_fields *again = new_fields();
    assert_comes_back(ce, again, m, 1);
    leat_fields_free(again);
    leat_fields_free(f);
}

static void data_is_read_by_its_content_type(void **state)
{
    static const struct {
        const char *members, *body;
    } cases[] = {
        { "\"data\":\"x\"", "\"x\"" },
        { "\"data\":\"x\",\"datacontenttype\":\"text/plain\"", "x" },
        { "\"datacontenttype\":\"text/plain\",\"data\":{\"a\": 1}",
          "{\"a\": 1}" },
        { "\"data\":null", "" },
        { "\"data\":null,\"data_base64\":\"eA==\"", "x" },
        { "\"data_base64\":\"\"", "" },
    };
    char doc[256];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(doc, sizeof doc, "{" REQUIRED ",%s}", cases[i].members);
        leat_fields *f = entry(EVENT_TYPE, doc);
        assert_bytes(decoded(f, 1)->body, leat_str(cases[i].body));
        leat_fields_free(f);
    }
}

static void a_batch_of_others_is_read(void **state)
{
    leat_fields *f = entry("application/cloudevents-BATCH+json",
                           "[ {" REQUIRED ",\"data\":[1]} ,\n{" REQUIRED
                           ",\"data\" : 2 }]");
    (void)state;
    const leat_msg *m = decoded(f, 2);
    assert_bytes(m[0].body, leat_str("[1]"));
    assert_bytes(m[1].body, leat_str("2"));
    add_field(f, "shard", "9");
    assert_refused(ce, f, "fields beside a batch");
    leat_fields_free(f);
}

static void a_binary_entry_is_read_all_the_same(void **state)
{
    leat_msg m = plain_msg("text/plain", "hello");
    leat_fields *f = new_fields();
    (void)state;
    assert_int_equal(
        leat_codec_ce_binary.encode(&leat_codec_ce_binary, &m, 1, f, NULL),
        LEAT_OK);
    assert_same(decoded(f, 1), &m);
    leat_fields_free(f);
}

static void what_is_no_document_is_refused_by_name(void **state)
{
    static const struct {
        const char *type, *doc, *why;
    } cases[] = {
        { EVENT_TYPE, "", "no JSON document: line 1" },
        { EVENT_TYPE, "{", "no JSON document: line 1" },
        { EVENT_TYPE, "{} x", "no JSON document" },
        { EVENT_TYPE, "1", "no JSON document" },
        { EVENT_TYPE, "[]", "no JSON object" },
        { EVENT_TYPE, "{}", "specversion is missing" },
        { EVENT_TYPE, "{" REQUIRED ",\"id\":\"2\"}", "no JSON document" },
        { EVENT_TYPE, "{" REQUIRED ",\"data\":1,\"data_base64\":\"\"}",
          "beside data_base64" },
        { EVENT_TYPE, "{" REQUIRED ",\"data_base64\":\"x\"}",
          "'data_base64' is not base64" },
        { EVENT_TYPE, "{" REQUIRED ",\"data_base64\":1}",
          "'data_base64' is not a string" },
        { EVENT_TYPE, "{" REQUIRED ",\"subject\":1}",
          "'subject' is not a string" },
        { EVENT_TYPE, "{" REQUIRED ",\"subject\":\"\\u0001\"}",
          "subject is not text" },
        { EVENT_TYPE, "{" REQUIRED ",\"x\":{}}", "'x' is no plain value" },
        { EVENT_TYPE, "{" REQUIRED ",\"time\":\"now\"}", "no" },
        { EVENT_TYPE, "{" REQUIRED ",\"leatheaders\":1}", "not a string" },
        { EVENT_TYPE, "{" REQUIRED ",\"leatheaders\":\"{}\"}",
          "no JSON array" },
        { EVENT_TYPE, "{" REQUIRED ",\"leatheaders\":\"[\"}", "no JSON array" },
        { EVENT_TYPE, "{" REQUIRED ",\"leatheaders\":\"[1]\"}", "no header" },
        { EVENT_TYPE,
          "{" REQUIRED ",\"leatheaders\":\"[[1,\\\"a\\\",\\\"b\\\"]]\"}",
          "out of place" },
        { EVENT_TYPE,
          "{" REQUIRED ",\"leatheaders\":\"[[0.5,\\\"a\\\",\\\"b\\\"]]\"}",
          "no header" },
        { EVENT_TYPE,
          "{" REQUIRED ",\"leatheaders\":\"[[-1,\\\"a\\\",\\\"b\\\"]]\"}",
          "no header" },
        { EVENT_TYPE,
          "{" REQUIRED ",\"leatheaders\":"
          "\"[[0,\\\"a\\\",\\\"b\\\",\\\"hex\\\"]]\"}",
          "no header" },
        { BATCH_TYPE, "[]", "1 to 1000 events" },
        { BATCH_TYPE, "{" REQUIRED "}", "1 to 1000 events" },
        { BATCH_TYPE, "[1]", "no JSON object" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        leat_fields *f = entry(cases[i].type, cases[i].doc);
        assert_refused(ce, f, cases[i].why);
        leat_fields_free(f);
    }
    leat_fields *f = entry(EVENT_TYPE, "{" REQUIRED "}");
    decoded(f, 1);
    add_field(f, "data", "{}");
    assert_refused(ce, f, "2 fields data");
    leat_fields_free(f);
}

static void an_error_does_not_quote_the_payload(void **state)
{
    leat_fields *f = entry(EVENT_TYPE, "{" REQUIRED ",\"data\":secret}");
    const leat_msg *m;
    leat_error err;
    size_t n;
    (void)state;
    assert_int_equal(ce->decode(ce, f, &m, &n, &err), LEAT_EDECODE);
    assert_null(strstr(err.msg, "secret"));
    leat_fields_free(f);
}

static void a_document_over_the_limit_is_refused(void **state)
{
    enum { LIMIT = 16 << 20 };
    char *p = test_malloc(LIMIT + 1);
    leat_fields *f = new_fields();
    leat_error err;
    (void)state;
    memset(p, 'x', LIMIT + 1);
    leat_msg m = plain_msg("text/plain", "");
    m.body = leat_mem(p, LIMIT);
    assert_int_equal(ce->encode(ce, &m, 1, f, &err), LEAT_ETOOBIG);

    leat_fields_clear(f);
    add_field(f, "content-type", EVENT_TYPE);
    leat_bytes doc = leat_mem(p, LIMIT + 1);
    assert_int_equal(leat_fields_add(f, leat_str("data"), doc, NULL), LEAT_OK);
    assert_refused(ce, f, "the limit is");
    leat_fields_free(f);
    test_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_this_document),
        cmocka_unit_test(more_messages_are_a_batch),
        cmocka_unit_test(a_body_goes_where_its_type_says),
        cmocka_unit_test(a_deep_body_comes_back),
        cmocka_unit_test(members_of_others_become_headers),
        cmocka_unit_test(data_is_read_by_its_content_type),
        cmocka_unit_test(a_batch_of_others_is_read),
        cmocka_unit_test(a_binary_entry_is_read_all_the_same),
        cmocka_unit_test(what_is_no_document_is_refused_by_name),
        cmocka_unit_test(an_error_does_not_quote_the_payload),
        cmocka_unit_test(a_document_over_the_limit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
