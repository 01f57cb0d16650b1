/* queue_redowl.c: a message as redowl writes it, and the names it takes. */
#include "queue/profile.h"
#include "queue/redowl_pack.h"
#include "support/allocfail.h"

#include <stdio.h>
#include <string.h>

static leat_fields *fields;

static int begin(void **state)
{
    (void)state;
    fields = leat_fields_new(NULL);
    return fields ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    leat_fields_free(fields);
    return 0;
}

/* Behind the ten digits of its length. */
static void packs(const leat_msg *m, const char *want)
{
    leat__buf b = { 0 };
    assert_int_equal(leat__owl_pack(&b, fields, m, NULL), LEAT_OK);
    assert_int_equal(b.n, strlen(want) + 11);
    assert_memory_equal(b.p + 11, want, strlen(want));
    leat__buf_release(&b);
}

static void attributes_are_sorted_by_their_bytes(void **state)
{
    (void)state;
    leat_header h[] = { { leat_str("b"), leat_str("1") },
                        { leat_str("B"), leat_str("2") },
                        { leat_str("\xc3\xa9"), leat_str("3") },
                        { leat_str("ba"), leat_str("4") },
                        { leat_str(""), leat_str("5") } };
    packs(&(leat_msg){ .headers = h, .header_count = 5 },
          "{\"\":\"5\",\"B\":\"2\",\"b\":\"1\",\"ba\":\"4\",\"\xc3\xa9\":"
          "\"3\"}");
    packs(&(leat_msg){ .body = leat_str("abcd") }, "nullYWJjZA==");
}

static void only_what_go_escapes_is_escaped(void **state)
{
    (void)state;
    leat_header h = { leat_str("k"),
                      leat_mem("\0\x1f\x7f'/\xe2\x80\xa7\xe2\x80\xa9\xf0\x9f"
                               "\x98\x80",
                               15) };
    packs(&(leat_msg){ .headers = &h, .header_count = 1 },
          "{\"k\":\"\\u0000\\u001f\x7f'/\xe2\x80\xa7\\u2029\xf0\x9f\x98\x80"
          "\"}");
}

static leat_code unpack(const char *text, leat_queue_item *it)
{
    *it = (leat_queue_item){ 0 };
    return leat__owl_unpack(leat_str("-"), leat_str(text), false, fields, it,
                            NULL);
}

static void a_message_is_read_back(void **state)
{
    (void)state;
    leat_queue_item it;
    assert_int_equal(unpack("3 1700000000000 2 29\nid{\"a\":\"\\u003c\","
                            "\"leat-key\":\"k\"}aGk=",
                            &it),
                     LEAT_OK);
    assert_int_equal(it.receives, 3);
    assert_int_equal(it.sent_ms, 1700000000000);
    assert_true(leat_bytes_eq(it.msg.id, leat_str("id")));
    assert_true(leat_bytes_eq(it.msg.key, leat_str("k")));
    assert_true(leat_bytes_eq(it.msg.body, leat_str("hi")));
    assert_int_equal(it.msg.header_count, 1);
    assert_true(leat_bytes_eq(leat_msg_header(&it.msg, "a"), leat_str("<")));
}

static void what_is_no_message_is_told(void **state)
{
    (void)state;
    leat_queue_item it;
    static const char *const none[] = { "",           "1 2 3",     "1 2 3 4",
                                        "1 2 9 0\nx", "a 2 0 0\n", "1 2 0 9\nx",
                                        "-1 2 0 0\n" };
    static const char *const bad[] = { "1 2 1 0\ni*", "1 2 1 2\ni[]",
                                       "1 2 1 7\ni{\"a\":1}", "1 2 1 1\ni{" };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(unpack(none[i], &it), LEAT_EPROTO);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(unpack(bad[i], &it), LEAT_EDECODE);
        assert_true(leat_bytes_eq(it.msg.id, leat_str("i")));
        assert_int_equal(it.msg.header_count, 0);
    }
}

static void both_ways(void *arg)
{
    (void)arg;
    leat__buf b = { 0 };
    leat_header h = { leat_str("k"), leat_str("<v>") };
    leat_queue_item it = { 0 };
    leat_fields *f = leat_fields_new(NULL);
    if (f) {
        (void)!leat__owl_pack(&b, f,
                              &(leat_msg){ .headers = &h,
                                           .header_count = 1,
                                           .body = leat_str("body") },
                              NULL);
        (void)!leat__owl_unpack(leat_str("-"),
                                leat_str("3 1 2 11\nid{\"a\":\"\\n\"}aGk="),
                                false, f, &it, NULL);
    }
    leat_fields_free(f);
    leat__buf_release(&b);
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    alloc_fail_sweep(both_ways, NULL);
}

static leat_code slot_of(const char *prefix, const char *name)
{
    leat__key k;
    leat__queue_redowl.home(&k, prefix, name);
    return leat__queue_one_slot(&k, name, NULL);
}

static void a_hash_tag_is_what_redis_takes_for_one(void **state)
{
    (void)state;
    assert_int_equal(slot_of(NULL, "{a}"), LEAT_OK);
    assert_int_equal(slot_of(NULL, "x{a}y{}"), LEAT_OK);
    assert_int_equal(slot_of(NULL, "{}{a}"), LEAT_EINVAL);
    assert_int_equal(slot_of(NULL, "}a{"), LEAT_EINVAL);
    assert_int_equal(slot_of(NULL, "a"), LEAT_EINVAL);
    assert_int_equal(slot_of("{p}", "a"), LEAT_OK);
    assert_int_equal(slot_of("{p", "a}"), LEAT_OK);
    assert_int_equal(slot_of("{}", "{a}"), LEAT_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes_are_sorted_by_their_bytes),
        cmocka_unit_test(only_what_go_escapes_is_escaped),
        cmocka_unit_test(a_message_is_read_back),
        cmocka_unit_test(what_is_no_message_is_told),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(a_hash_tag_is_what_redis_takes_for_one),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
