/* codec_ce_binary.c: CloudEvents in fields. */
#include "codec_support.h"
#include "message/ce.h"

static const leat_codec *const ce = &leat_codec_ce_binary;

static leat_fields *encoded(const leat_msg *m)
{
    leat_fields *f = new_fields();
    assert_int_equal(ce->encode(ce, m, 1, f, NULL), LEAT_OK);
    return f;
}

/* The fields as name=value lines, to be compared at a glance. */
static void assert_fields(const leat_fields *f, const char *want)
{
    char got[1024];
    size_t n = 0;
    for (size_t i = 0; i < leat_fields_count(f); i++) {
        const leat_bytes *p = leat_fields_pairs(f) + 2 * i;
        n += (size_t)snprintf(got + n, sizeof got - n, "%.*s=%.*s\n",
                              (int)p[0].n, (const char *)p[0].p, (int)p[1].n,
                              (const char *)p[1].p);
        assert_true(n < sizeof got);
    }
    assert_string_equal(got, want);
}

static void a_message_is_readable_fields(void **state)
{
    leat_header h[] = { { leat_str("traceparent"), leat_str("00-1-2-01") },
                        { leat_str("X-Shop"), leat_str("7") },
                        { leat_str("n"), leat_str("1") },
                        { leat_str("n"), leat_str("2") },
                        { leat_str("id"), leat_str("not the id") },
                        { leat_str("blank"), leat_str("") } };
    leat_msg m = { .id = leat_str("1"),
                   .key = leat_str("cust"),
                   .type = leat_str("placed"),
                   .source = leat_str("/shop"),
                   .subject = leat_str("order 7"),
                   .content_type = leat_str("text/plain"),
                   .time_ms = INT64_C(1700000000123),
                   .headers = h,
                   .header_count = 6,
                   .body = leat_str("hello") };
    leat_fields *f = encoded(&m);
    (void)state;
    assert_fields(f, "ce_specversion=1.0\n"
                     "ce_id=1\n"
                     "ce_source=/shop\n"
                     "ce_type=placed\n"
                     "ce_subject=order 7\n"
                     "ce_time=2023-11-14T22:13:20.123Z\n"
                     "ce_partitionkey=cust\n"
                     "content-type=text/plain\n"
                     "ce_traceparent=00-1-2-01\n"
                     "h_X-Shop=7\n"
                     "ce_n=1\n"
                     "h_n=2\n"
                     "h_id=not the id\n"
                     "h_blank=\n"
                     "data=hello\n");
    leat_fields_free(f);
}

static void what_an_event_must_have_is_filled_in(void **state)
{
    leat_msg m = { .id = leat_str("1") };
    leat_fields *f = encoded(&m);
    (void)state;
    assert_fields(f, "ce_specversion=1.0\n"
                     "ce_id=1\n"
                     "ce_source=/leat\n"
                     "ce_type=leat.message\n");
    leat_fields_free(f);
}

static leat_fields *foreign(void)
{
    leat_fields *f = new_fields();
    add_field(f, "ce_id", "1");
    add_field(f, "ce_source", "s");
    add_field(f, "ce_type", "t");
    add_field(f, "ce_specversion", "1.0");
    return f;
}

static const leat_msg *decoded(leat_fields *f)
{
    const leat_msg *m = NULL;
    leat_error err = { 0 };
    size_t n;
    if (ce->decode(ce, f, &m, &n, &err) != LEAT_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(n, 1);
    return m;
}

static void nothing_of_a_strangers_entry_is_lost(void **state)
{
    leat_fields *f = foreign();
    (void)state;
    add_field(f, "ce_dataschema", "urn:x");
    add_field(f, "shard", "9");
    add_field(f, "ce_datacontenttype", "odd");
    add_field(f, "ce_Upper", "U");
    add_field(f, "data", "");
    const leat_msg *m = decoded(f);
    assert_int_equal(m->header_count, 4);
    assert_bytes(leat_msg_header(m, "dataschema"), leat_str("urn:x"));
    assert_bytes(leat_msg_header(m, "shard"), leat_str("9"));
    assert_bytes(leat_msg_header(m, "datacontenttype"), leat_str("odd"));
    assert_bytes(leat_msg_header(m, "Upper"), leat_str("U"));
    assert_int_equal(m->body.n, 0);

    leat_fields *again = new_fields();
    assert_comes_back(ce, again, m, 1);
    leat_fields_free(again);
    leat_fields_free(f);
}

static void what_is_no_event_is_refused_by_name(void **state)
{
    static const struct {
        const char *name, *value, *why;
    } cases[] = {
        { "ce_id", "2", "two values of id" },
        { "content-type", "\xff", "datacontenttype is not text" },
        { "content-type", "application/cloudevents+avro", "other than JSON" },
        { "content-type", "application/cloudevents", "other than JSON" },
        { "content-type", "Application/CloudEvents+JSON", "0 fields data" },
        { "ce_subject", "a\nb", "subject is not text" },
        { "ce_subject", "a\xc2\x85", "subject is not text" },
        { "ce_partitionkey", "\xed\xa0\x80", "partitionkey is not text" },
        { "ce_time", "yesterday", "time is not a date" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        leat_fields *f = foreign();
        add_field(f, cases[i].name, cases[i].value);
        assert_refused(ce, f, cases[i].why);
        leat_fields_free(f);
    }
    leat_fields *f = foreign();
    add_field(f, "data", "1");
    add_field(f, "data", "2");
    assert_refused(ce, f, "two fields data");
    leat_fields_free(f);
}

static void the_required_attributes_are_required(void **state)
{
    static const char *const names[] = { "specversion", "id", "source",
                                         "type" };
    (void)state;
    for (int left_out = 0; left_out < 4; left_out++)
        for (int empty = 0; empty < 2; empty++) {
            leat_fields *f = new_fields();
            char field[4][32], why[64];
            for (int i = 0; i < 4; i++) {
                snprintf(field[i], sizeof field[i], "ce_%s", names[i]);
                if (i != left_out || empty)
                    add_field(f, field[i], i == left_out ? "" : "1");
            }
            snprintf(why, sizeof why, "%s is missing or empty",
                     names[left_out]);
            assert_refused(ce, f, why);
            leat_fields_free(f);
        }
}

static void only_version_one_is_read(void **state)
{
    static const struct {
        const char *version;
        bool good;
    } cases[] = { { "1.0", true },  { "1.1", true },  { "1", true },
                  { "0.3", false }, { "2.0", false }, { "10", false },
                  { "v1", false } };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        leat_fields *f = new_fields();
        add_field(f, "ce_id", "1");
        add_field(f, "ce_source", "s");
        add_field(f, "ce_type", "t");
        add_field(f, "ce_specversion", cases[i].version);
        if (cases[i].good)
            decoded(f);
        else
            assert_refused(ce, f, "specversion");
        leat_fields_free(f);
    }
}

static void what_no_event_can_carry_is_refused_by_name(void **state)
{
    const leat_bytes bad = leat_mem("\xff", 1), id = leat_str("1");
    const struct {
        leat_msg m;
        const char *why;
    } cases[] = {
        { { .key = leat_str("k") }, "has no id" },
        { { .id = bad }, "the id is not text" },
        { { .id = id, .key = bad }, "the key is not text" },
        { { .id = id, .type = leat_str("a\tb") }, "the type is not text" },
        { { .id = id, .source = bad }, "the source is not text" },
        { { .id = id, .subject = bad }, "the subject is not text" },
        { { .id = id, .content_type = bad }, "the content type is not text" },
        { { .id = id, .time_ms = INT64_C(253402300800000) }, "outside the" },
        { { .id = id, .time_ms = INT64_C(-62167219200001) }, "outside the" },
        { { .id = id, .content_type = leat_str("application/CloudEvents+x") },
          "would be read as the event itself" },
    };
    leat_fields *f = new_fields();
    leat_error err;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(ce->encode(ce, &cases[i].m, 1, f, &err), LEAT_EINVAL);
        assert_non_null(strstr(err.msg, cases[i].why));
    }
    leat_fields_free(f);
}

static void a_structured_entry_is_read_all_the_same(void **state)
{
    leat_msg m = { .id = leat_str("1"),
                   .source = leat_str("s"),
                   .type = leat_str("t"),
                   .body = leat_str("{\"a\":1}") };
    leat_fields *f = new_fields();
    (void)state;
    assert_int_equal(
        leat_codec_ce_json.encode(&leat_codec_ce_json, &m, 1, f, NULL),
        LEAT_OK);
    assert_same(decoded(f), &m);
    leat_fields_free(f);
}

/* ---- time ------------------------------------------------------------- */

static void times_are_read_as_rfc_3339(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        { "1970-01-01T00:00:00.001Z", 1 },
        { "1969-12-31T23:59:59.999Z", -1 },
        { "2023-11-14T22:13:20Z", INT64_C(1700000000000) },
        { "2023-11-15t00:13:20.5+02:00", INT64_C(1700000000500) },
        { "2023-11-14T16:43:20.1239999-05:30", INT64_C(1700000000123) },
        { "2016-12-31T23:59:60Z", INT64_C(1483228800000) },
        { "2000-02-29T00:00:00z", INT64_C(951782400000) },
        { "0000-01-01T00:00:00Z", INT64_C(-62167219200000) },
        { "9999-12-31T23:59:59.999Z", INT64_C(253402300799999) },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t ms = 0;
        assert_true(leat__ce_time_parse(leat_str(cases[i].text), &ms));
        assert_true(ms == cases[i].ms);
    }
}

static void what_is_no_time_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "2023-11-14",
        "2023-11-14T22:13:20",
        "2023-11-14T22:13Z",
        "2023-11-14 22:13:20Z",
        "2023-13-14T22:13:20Z",
        "2023-00-14T22:13:20Z",
        "2023-02-29T22:13:20Z",
        "1900-02-29T22:13:20Z",
        "2023-04-31T22:13:20Z",
        "2023-11-14T24:13:20Z",
        "2023-11-14T22:60:20Z",
        "2023-11-14T22:13:61Z",
        "2023-11-14T22:13:20.Z",
        "2023-11-14T22:13:20Zz",
        "2023-11-14T22:13:20+24:00",
        "2023-11-14T22:13:20+0100",
        "2023-11-14T22:13:20+01:6",
        "+023-11-14T22:13:20Z",
        "0000-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "1700000000",
    };
    int64_t ms;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (leat__ce_time_parse(leat_str(texts[i]), &ms))
            fail_msg("'%s' was taken for a time", texts[i]);
}

/* The calendar repeats after 400 years. */
static void every_day_of_400_years_comes_back(void **state)
{
    const int64_t first = INT64_C(-62167219200000), day = 86400000;
    const uint64_t span = UINT64_C(253402300800000) - (uint64_t)first;
    char text[LEAT__CE_TIME];
    int64_t got;
    rng r = { 11 };
    (void)state;
    for (int64_t d = 0; d < 2 * 146097; d++) {
        int64_t ms = first + d * day;
        if (d >= 146097)
            ms = first + (int64_t)(rng_next(&r) % span);
        leat__ce_time_format(text, ms);
        assert_true(leat__ce_time_parse(leat_mem(text, sizeof text), &got));
        assert_true(got == ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_readable_fields),
        cmocka_unit_test(what_an_event_must_have_is_filled_in),
        cmocka_unit_test(nothing_of_a_strangers_entry_is_lost),
        cmocka_unit_test(what_is_no_event_is_refused_by_name),
        cmocka_unit_test(the_required_attributes_are_required),
        cmocka_unit_test(only_version_one_is_read),
        cmocka_unit_test(what_no_event_can_carry_is_refused_by_name),
        cmocka_unit_test(a_structured_entry_is_read_all_the_same),
        cmocka_unit_test(times_are_read_as_rfc_3339),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(every_day_of_400_years_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
