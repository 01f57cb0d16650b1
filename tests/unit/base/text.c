/* text.c: UTF-8 and base64. */
#include "base/base64.h"
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void utf8_is_accepted_up_to_its_edges(void **state)
{
    const char *good[] = { "",
                           "plain",
                           "\x7f",
                           "\xc2\x80",
                           "\xdf\xbf",
                           "\xe0\xa0\x80",
                           "\xed\x9f\xbf",
                           "\xee\x80\x80",
                           "\xef\xbf\xbf",
                           "\xf0\x90\x80\x80",
                           "\xf4\x8f\xbf\xbf" };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(leat__utf8_valid(leat_str(good[i])));
    assert_true(leat__utf8_valid(leat_mem("a\0b", 3)));
}

static void utf8_is_refused_past_its_edges(void **state)
{
    const char *bad[] = { "\x80",         "\xc0\x80",
                          "\xc1\xbf",     "\xe0\x9f\xbf",
                          "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                          "\xf5\x80",     "\xf4\x90\x80\x80",
                          "\xff",         "\xc3",
                          "\xe2\x82",     "\xf0\x9f\x98",
                          "ok\xc3(",      "\xe2(\xa1" };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(leat__utf8_valid(leat_str(bad[i])));
}

static void every_code_point_is_read_back(void **state)
{
    (void)state;
    for (uint32_t cp = 0x10000; cp < 0x110000; cp += 0xfff) {
        unsigned char s[4] = { (unsigned char)(0xf0 | cp >> 18),
                               (unsigned char)(0x80 | (cp >> 12 & 63)),
                               (unsigned char)(0x80 | (cp >> 6 & 63)),
                               (unsigned char)(0x80 | (cp & 63)) };
        leat_bytes b = leat_mem(s, 4);
        bool ok;
        assert_int_equal(leat__utf8_next(&b, &ok), cp);
        assert_true(ok);
        assert_int_equal(b.n, 0);
    }
}

/* Unicode's own example of replacing maximal parts, chapter 3.9. */
static void broken_utf8_costs_as_little_as_it_must(void **state)
{
    leat_bytes b = leat_str("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63");
    const uint32_t want[] = {
        0x61, 0xfffd, 0xfffd, 0xfffd, 0x62, 0xfffd, 0x63
    };
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        bool ok;
        assert_int_equal(leat__utf8_next(&b, &ok), want[i]);
        assert_int_equal(ok, want[i] != 0xfffd);
    }
    assert_int_equal(b.n, 0);
}

/* The vectors of RFC 4648, section 10. */
static void base64_gives_the_published_values(void **state)
{
    static const struct {
        const char *plain, *coded;
    } v[] = { { "", "" },
              { "f", "Zg==" },
              { "fo", "Zm8=" },
              { "foo", "Zm9v" },
              { "foob", "Zm9vYg==" },
              { "fooba", "Zm9vYmE=" },
              { "foobar", "Zm9vYmFy" } };
    (void)state;
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        char out[16] = "";
        size_t n;
        leat__base64_encode(out, leat_str(v[i].plain));
        assert_string_equal(out, v[i].coded);
        assert_int_equal(leat__base64_encoded(strlen(v[i].plain)),
                         strlen(v[i].coded));
        assert_int_equal(
            leat__base64_decode(out, &n, leat_str(v[i].coded), NULL), LEAT_OK);
        assert_int_equal(n, strlen(v[i].plain));
        assert_memory_equal(out, v[i].plain, n);
    }
}

static void base64_brings_every_byte_back(void **state)
{
    unsigned char in[256], out[256];
    char text[344];
    size_t n;
    (void)state;
    for (int i = 0; i < 256; i++)
        in[i] = (unsigned char)(255 - i);
    for (size_t len = 250; len <= 256; len++) {
        leat__base64_encode(text, leat_mem(in, len));
        leat_bytes b = leat_mem(text, leat__base64_encoded(len));
        assert_int_equal(leat__base64_decode(out, &n, b, NULL), LEAT_OK);
        assert_int_equal(n, len);
        assert_memory_equal(out, in, len);
    }
}

static void base64_that_is_not_the_one_encoding_is_refused(void **state)
{
    const char *bad[] = { "Z",    "Zg",   "Zg=",   "Zh==",     "Zm9=",
                          "Zg=a", "====", "Z===",  "=Zg=",     "Zm9v\n",
                          "Zm-v", "Zm_v", "Zm 9v", "Zg==Zg==", "Zm9vZ===" };
    char out[16];
    size_t n;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        leat_error e;
        assert_int_equal(leat__base64_decode(out, &n, leat_str(bad[i]), &e),
                         LEAT_EDECODE);
        assert_int_equal(n, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_is_accepted_up_to_its_edges),
        cmocka_unit_test(utf8_is_refused_past_its_edges),
        cmocka_unit_test(every_code_point_is_read_back),
        cmocka_unit_test(broken_utf8_costs_as_little_as_it_must),
        cmocka_unit_test(base64_gives_the_published_values),
        cmocka_unit_test(base64_brings_every_byte_back),
        cmocka_unit_test(base64_that_is_not_the_one_encoding_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
