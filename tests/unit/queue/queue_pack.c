/* queue_pack.c: messages as values, and the hash of contents. */
#include "base/sha256.h"
#include "queue/pack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void a_message_survives_packing(void **state)
{
    leat_header h = { leat_str("n"), leat_mem("\0v", 2) };
    leat_msg m[] = { { .id = leat_str("1"), .time_ms = 5 },
                     { .id = leat_str("2"),
                       .time_ms = 5,
                       .key = leat_str("key"),
                       .body = leat_mem("a\0b", 3) },
                     { .id = leat_str("3"),
                       .time_ms = 5,
                       .headers = &h,
                       .header_count = 1,
                       .body = leat_str("x") } };
    leat_fields *f = leat_fields_new(NULL);
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        leat__buf b = { 0 };
        leat_msg got;
        assert_int_equal(leat__queue_pack(&b, f, &m[i], NULL), LEAT_OK);
        leat_fields_clear(f);
        assert_int_equal(leat__queue_unpack(leat__buf_bytes(&b), f, &got, NULL),
                         LEAT_OK);
        assert_true(leat_bytes_eq(got.id, m[i].id));
        assert_true(leat_bytes_eq(got.key, m[i].key));
        assert_true(leat_bytes_eq(got.body, m[i].body));
        assert_int_equal(got.header_count, m[i].header_count);
        leat__buf_release(&b);
    }
    leat_fields_free(f);
}

static void a_damaged_value_is_never_half_read(void **state)
{
    leat_fields *f = leat_fields_new(NULL);
    leat__buf b = { 0 };
    leat_msg got, m = { .id = leat_str("id"),
                        .time_ms = 1,
                        .key = leat_str("k"),
                        .body = leat_str("body") };
    (void)state;
    assert_int_equal(leat__queue_pack(&b, f, &m, NULL), LEAT_OK);
    for (size_t i = 0; i < b.n; i++) {
        char *part = malloc(i ? i : 1);
        memcpy(part, b.p, i);
        leat_fields_clear(f);
        assert_int_equal(leat__queue_unpack(leat_mem(part, i), f, &got, NULL),
                         LEAT_EDECODE);
        free(part);
        b.p[i] ^= 0x20;
        leat_fields_clear(f);
        assert_int_equal(leat__queue_unpack(leat__buf_bytes(&b), f, &got, NULL),
                         LEAT_EDECODE);
        b.p[i] ^= 0x20;
    }
    leat__buf_release(&b);
    leat_fields_free(f);
}

/* The examples of FIPS 180-4, and one of every length around a block. */
static void sha256_is_the_standards(void **state)
{
    char out[LEAT__SHA256_TEXT + 1], a[130];
    (void)state;
    leat__sha256_hex(leat_str("abc"), out);
    assert_string_equal(out, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9c"
                             "b410ff61f20015ad");
    leat__sha256_hex(leat_str(""), out);
    assert_string_equal(out, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934c"
                             "a495991b7852b855");
    leat__sha256_hex(leat_str("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmno"
                              "mnopnopq"),
                     out);
    assert_string_equal(out, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167"
                             "f6ecedd419db06c1");
    memset(a, 'a', sizeof a);
    leat__sha256_hex(leat_mem(a, 119), out);
    assert_string_equal(out, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4a"
                             "f952f7ea6584dcfb");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_survives_packing),
        cmocka_unit_test(a_damaged_value_is_never_half_read),
        cmocka_unit_test(sha256_is_the_standards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
