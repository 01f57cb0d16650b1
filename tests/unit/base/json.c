/* json.c: what the writer writes is JSON, whatever it is given. */
#include "base/jsoncheck.h"
#include "support/allocfail.h"

#include <float.h>
#include <jansson.h>
#include <leat/json.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static leat_json *fresh(void)
{
    leat_json *j = leat_json_new(NULL);
    assert_non_null(j);
    return j;
}

/* Ends j's life: it holds exactly this text. */
static void finish(leat_json *j, const char *want)
{
    leat_error e;
    size_t n;
    const char *got = leat_json_done(j, &n, &e);
    assert_non_null(got);
    assert_string_equal(got, want);
    assert_int_equal(n, strlen(want));
    leat_json_free(j);
}

/* Ends j's life: it has failed, stays so, and a clear makes it good again. */
static void finish_failed(leat_json *j, leat_code code)
{
    leat_error first = { 0 }, later = { 0 };
    assert_null(leat_json_done(j, NULL, &first));
    assert_int_equal(first.code, code);
    assert_null(strstr(first.msg, "still open"));
    leat_json_end(j);
    leat_json_int(j, NULL, 1);
    assert_null(leat_json_done(j, NULL, &later));
    assert_string_equal(later.msg, first.msg);
    leat_json_clear(j);
    leat_json_int(j, NULL, 1);
    finish(j, "1");
}

static void commas_quotes_and_brackets_fall_into_place(void **state)
{
    leat_json *j = fresh();
    (void)state;
    leat_json_object(j, NULL);
    leat_json_str(j, "s", "text");
    leat_json_str(j, "none", NULL);
    leat_json_array(j, "a");
    leat_json_int(j, NULL, INT64_MIN);
    leat_json_bool(j, NULL, true);
    leat_json_object(j, NULL);
    leat_json_end(j);
    leat_json_array(j, NULL);
    leat_json_end(j);
    leat_json_end(j);
    leat_json_bool(j, "f", false);
    leat_json_raw(j, "r", leat_str(" {\"x\":\n[1]} "));
    leat_json_base64(j, "b", leat_mem("\0\xff", 2));
    leat_json_base64(j, "e", leat_mem(NULL, 0));
    leat_json_null(j, "n");
    leat_json_end(j);
    finish(j, "{\"s\":\"text\",\"none\":null,\"a\":[-9223372036854775808,true,"
              "{},[]],\"f\":false,\"r\": {\"x\": [1]} ,\"b\":\"AP8=\","
              "\"e\":\"\",\"n\":null}");
}

static void top_level_values_stand_on_lines(void **state)
{
    leat_json *j = fresh();
    (void)state;
    leat_json_int(j, NULL, 1);
    leat_json_object(j, NULL);
    leat_json_end(j);
    leat_json_raw(j, NULL, leat_str("[\r\n2]"));
    finish(j, "1\n{}\n[  2]");
    finish(fresh(), "");
}

static void strings_are_escaped_and_made_valid(void **state)
{
    leat_json *j = fresh();
    (void)state;
    leat_json_array(j, NULL);
    leat_json_text(j, NULL, leat_mem("a\0b\x1f\"\\\b\f\n\r\t/\x7f", 13));
    leat_json_str(j, NULL, "\xc3\xa9\xf0\x9f\x98\x80\xe2\x80\xa8");
    leat_json_text(j, NULL, leat_mem("x\xffy\xe2\x82", 5));
    leat_json_text(j, NULL, leat_mem(NULL, 0));
    leat_json_end(j);
    finish(j, "[\"a\\u0000b\\u001f\\\"\\\\\\b\\f\\n\\r\\t/\\u007f\","
              "\"\xc3\xa9\xf0\x9f\x98\x80\\u2028\","
              "\"x\xef\xbf\xbdy\xef\xbf\xbd\",\"\"]");
}

static size_t put_utf8(char *out, uint32_t cp)
{
    size_t n = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = n; i-- > 1; cp >>= 6)
        out[i] = (char)(0x80 | (cp & 0x3f));
    out[0] = (char)(lead[n] | cp);
    return n;
}

/* C1, bidi, invisible; jansson reads back what was written. */
static void what_misleads_a_terminal_is_written_by_number(void **state)
{
    static const uint32_t bad[] = { 0x7f,   0x80,   0x9b,   0x9f,    0x61c,
                                    0x200b, 0x200f, 0x2028, 0x202e,  0x2066,
                                    0x2069, 0xfeff, 0xfffb, 0xe0001, 0xe007f };
    static const uint32_t good[] = { 0x20,   0x7e,   0xa0,    0x200a,  0x2030,
                                     0x2070, 0xfffd, 0x1f600, 0x10ffff };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[8] = "";
        size_t n = put_utf8(text, bad[i]);
        leat_json *j = fresh();
        leat_json_array(j, NULL);
        leat_json_text(j, NULL, leat_mem(text, n));
        leat_json_end(j);
        const char *got = leat_json_done(j, NULL, NULL);
        assert_null(strstr(got, text));
        json_t *read = json_loads(got, 0, NULL);
        assert_string_equal(json_string_value(json_array_get(read, 0)), text);
        json_decref(read);
        leat_json_free(j);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char text[8] = "", want[16];
        size_t n = put_utf8(text, good[i]);
        leat_json *j = fresh();
        leat_json_text(j, NULL, leat_mem(text, n));
        snprintf(want, sizeof want, "\"%s\"", text);
        finish(j, want);
    }
}

static void keys_are_escaped_too(void **state)
{
    leat_json *j = fresh();
    (void)state;
    leat_json_object(j, NULL);
    leat_json_int(j, "a\"\xff", 1);
    leat_json_end(j);
    finish(j, "{\"a\\\"\xef\xbf\xbd\":1}");
}

static void assert_double(double v, const char *want)
{
    leat_json *j = fresh();
    leat_json_double(j, NULL, v);
    finish(j, want);
}

static void doubles_are_short_and_exact(void **state)
{
    (void)state;
    assert_double(0.1, "0.1");
    assert_double(1, "1");
    assert_double(-0.0, "-0");
    assert_double(1.0 / 3, "0.3333333333333333");
    assert_double(0.1 + 0.2, "0.30000000000000004");
    assert_double(1e22, "1e+22");
    assert_double(DBL_MAX, "1.7976931348623157e+308");
    assert_double(5e-324, "5e-324");
    assert_double(NAN, "null");
    assert_double(INFINITY, "null");
    assert_double(-INFINITY, "null");
}

static void every_double_comes_back(void **state)
{
    (void)state;
    srand(3);
    for (int i = 0; i < 5000; i++) {
        uint64_t bits = (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^
                        (uint64_t)rand();
        double v;
        memcpy(&v, &bits, sizeof v);
        leat_json *j = fresh();
        leat_json_double(j, NULL, v);
        const char *text = leat_json_done(j, NULL, NULL);
        assert_non_null(text);
        if (isfinite(v))
            assert_true(strtod(text, NULL) == v);
        leat_json_free(j);
    }
}

static void the_locale_does_not_leak_in(void **state)
{
    (void)state;
    const char *comma[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "ps_AF.UTF-8" };
    for (size_t i = 0; i < 3; i++)
        if (setlocale(LC_NUMERIC, comma[i]))
            assert_double(-1.5, "-1.5");
    setlocale(LC_NUMERIC, "C");
}

static void a_misplaced_key_fails_the_text(void **state)
{
    leat_json *j = fresh();
    (void)state;
    leat_json_int(j, "key", 1);
    finish_failed(j, LEAT_EINVAL);
    j = fresh();
    leat_json_object(j, NULL);
    leat_json_int(j, NULL, 1);
    finish_failed(j, LEAT_EINVAL);
    j = fresh();
    leat_json_array(j, NULL);
    leat_json_object(j, "k");
    finish_failed(j, LEAT_EINVAL);
}

static void an_end_without_a_begin_fails_the_text(void **state)
{
    leat_json *j = fresh();
    (void)state;
    leat_json_end(j);
    finish_failed(j, LEAT_EINVAL);
}

static void raw_bytes_that_are_no_json_fail_the_text(void **state)
{
    const char *bad[] = {
        "",        " ",        "{",           "}",          "[1,]",     "[,1]",
        "{\"a\"}", "{\"a\":}", "{a:1}",       "{\"a\":1,}", "01",       "+1",
        ".5",      "1.",       "1e",          "--1",        "-",        "1 2",
        "tru",     "truex",    "nul",         "NaN",        "'a'",      "\"a",
        "\"\n\"",  "\"\\x\"",  "\"\\u12g4\"", "\"\\u12",    "\"\xff\"", "\"\\",
        "[1 2]",   "[1",       "[[1]",        "{\"a\":1",   "[1}",      "/**/1"
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        leat_json *j = fresh();
        leat_json_raw(j, NULL, leat_str(bad[i]));
        finish_failed(j, LEAT_EINVAL);
    }
    assert_false(leat__json_valid(leat_mem("1\0", 2), 64));
    assert_false(leat__json_valid(leat_mem("\"\\\0\"", 4), 64));
    assert_false(leat__json_valid(leat_mem("\"\\u000\0\"", 8), 64));
}

static void raw_json_of_every_kind_is_let_in(void **state)
{
    const char *good[] = { "0",
                           "-0.5e+10",
                           "1E-2",
                           "[]",
                           "{}",
                           " [ 1 , \"\\u00e9\\/\\\\\" , { \"a\" : null } ] ",
                           "true",
                           "\"\xc3\xa9\"",
                           "[[[[]]],{\"\":{}}]" };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        leat_json *j = fresh();
        leat_json_raw(j, NULL, leat_str(good[i]));
        finish(j, good[i]);
    }
}

static void open_brackets_are_told_and_can_still_be_closed(void **state)
{
    leat_json *j = fresh();
    leat_error e;
    (void)state;
    leat_json_array(j, NULL);
    assert_null(leat_json_done(j, NULL, &e));
    assert_int_equal(e.code, LEAT_EINVAL);
    leat_json_end(j);
    finish(j, "[]");
}

static void depth_is_bounded(void **state)
{
    char raw[131];
    leat_json *j = fresh();
    (void)state;
    for (int i = 0; i < 64; i++)
        leat_json_array(j, NULL);
    for (int i = 0; i < 64; i++)
        leat_json_end(j);
    assert_non_null(leat_json_done(j, NULL, NULL));
    leat_json_clear(j);
    for (int i = 0; i < 65; i++)
        leat_json_array(j, NULL);
    finish_failed(j, LEAT_ETOOBIG);

    memset(raw, '[', 65);
    memset(raw + 65, ']', 65);
    raw[130] = '\0';
    assert_false(leat__json_valid(leat_mem(raw, 130), 64));
    assert_true(leat__json_valid(leat_mem(raw + 1, 128), 64));
    j = fresh();
    leat_json_array(j, NULL);
    leat_json_raw(j, NULL, leat_mem(raw + 1, 128));
    finish_failed(j, LEAT_EINVAL);
}

/* Another implementation agrees on what JSON is, for broken texts too. */
static void the_check_agrees_with_jansson(void **state)
{
    const char *seed = "{\"a\":[1,-2.5e3,true,null,\"x\\n\\u0041\"],\"b\":{}}";
    char text[64] = "";
    size_t n = strlen(seed);
    (void)state;
    srand(11);
    for (int i = 0; i < 20000; i++) {
        memcpy(text, seed, n);
        for (int k = rand() % 3; k >= 0; k--)
            text[rand() % n] = "{}[]\",:\\0-1e.tn u"[rand() % 17];
        json_error_t e;
        json_t *v = json_loadb(text, n, JSON_DECODE_ANY, &e);
        bool ok = v || strstr(e.text, "real number overflow") ||
                  strstr(e.text, "too big");
        /* jansson refuses these, which the grammar allows */
        bool its_own = strstr(text, "\\u") != NULL;
        if (!its_own || v)
            assert_int_equal(leat__json_valid(leat_mem(text, n), 64), ok);
        json_decref(v);
    }
}

static void null_writers_are_quiet(void **state)
{
    leat_error e;
    (void)state;
    leat_json_object(NULL, NULL);
    leat_json_int(NULL, "a", 1);
    leat_json_base64(NULL, "a", leat_str("x"));
    leat_json_raw(NULL, "a", leat_str("1"));
    leat_json_end(NULL);
    leat_json_clear(NULL);
    assert_null(leat_json_done(NULL, NULL, &e));
    assert_int_equal(e.code, LEAT_ENOMEM);
    leat_json_free(NULL);
}

static void write_with_failures(void *arg)
{
    char big[300];
    leat_error e = { 0 };
    leat_json *j = leat_json_new(&e);
    (void)arg;
    memset(big, '"', sizeof big);
    leat_json_object(j, NULL);
    leat_json_text(j, "text", leat_mem(big, sizeof big));
    leat_json_base64(j, "bytes", leat_mem(big, sizeof big));
    leat_json_raw(j, "raw", leat_str("[1]"));
    leat_json_double(j, "d", 1.5);
    leat_json_end(j);
    const char *text = leat_json_done(j, NULL, &e);
    assert_true(text || e.code == LEAT_ENOMEM);
    assert_true(!text || leat__json_valid(leat_str(text), 64));
    alloc_fail_heal();
    if (j) {
        leat_json_clear(j);
        leat_json_int(j, NULL, 7);
        assert_string_equal(leat_json_done(j, NULL, NULL), "7");
    }
    leat_json_free(j);
}

static void a_writer_survives_every_lack_of_memory(void **state)
{
    (void)state;
    alloc_fail_sweep(write_with_failures, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_quotes_and_brackets_fall_into_place),
        cmocka_unit_test(top_level_values_stand_on_lines),
        cmocka_unit_test(strings_are_escaped_and_made_valid),
        cmocka_unit_test(what_misleads_a_terminal_is_written_by_number),
        cmocka_unit_test(keys_are_escaped_too),
        cmocka_unit_test(doubles_are_short_and_exact),
        cmocka_unit_test(every_double_comes_back),
        cmocka_unit_test(the_locale_does_not_leak_in),
        cmocka_unit_test(a_misplaced_key_fails_the_text),
        cmocka_unit_test(an_end_without_a_begin_fails_the_text),
        cmocka_unit_test(raw_bytes_that_are_no_json_fail_the_text),
        cmocka_unit_test(raw_json_of_every_kind_is_let_in),
        cmocka_unit_test(open_brackets_are_told_and_can_still_be_closed),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(the_check_agrees_with_jansson),
        cmocka_unit_test(null_writers_are_quiet),
        cmocka_unit_test(a_writer_survives_every_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
