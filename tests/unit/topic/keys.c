/* keys.c: names of topics, and the keys made of them. */
#include "topic/keys.h"
#include "base/crc16.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define assert_key(k, text)                                                    \
    do {                                                                       \
        assert_int_equal((k)->n, strlen(text));                                \
        assert_memory_equal((k)->p, text, strlen(text));                       \
    } while (0)

static void keys_are_named_as_the_design_says(void **state)
{
    leat__key k;
    (void)state;
    leat__key_topics(&k, NULL);
    assert_key(&k, "leat:topics");
    leat__key_meta(&k, "", "orders");
    assert_key(&k, "leat:topic:orders");
    leat__key_topic(&k, NULL, "orders");
    assert_key(&k, "leat:{orders}:topic");
    leat__key_groups(&k, NULL, "orders");
    assert_key(&k, "leat:{orders}:groups");
    leat__key_members(&k, NULL, "orders", "billing");
    assert_key(&k, "leat:{orders}:members:billing");
    leat__key_log(&k, NULL, "orders", false, 3);
    assert_key(&k, "leat:{orders/3}:log");
    leat__key_cursor(&k, "app", "orders", false, 3, "billing");
    assert_key(&k, "app:{orders/3}:cur:billing");
    leat__key_lease(&k, "app", "orders", false, 16383, "billing");
    assert_key(&k, "app:{orders/16383}:lease:billing");
}

static void a_legacy_topic_is_its_stream(void **state)
{
    leat__key k;
    (void)state;
    leat__key_log(&k, "app", "orders", true, 0);
    assert_key(&k, "orders");
    unsigned slot = leat__crc16_slot(leat__key_bytes(&k));
    leat__key_cursor(&k, "app", "orders", true, 0, "g");
    assert_key(&k, "app:{orders}:cur:g");
    assert_int_equal(leat__crc16_slot(leat__key_bytes(&k)), slot);
    leat__key_lease(&k, "app", "orders", true, 0, "g");
    assert_key(&k, "app:{orders}:lease:g");
    assert_int_equal(leat__crc16_slot(leat__key_bytes(&k)), slot);
}

static void the_keys_of_a_partition_share_a_slot(void **state)
{
    leat__key log, cursor, lease;
    (void)state;
    leat__key_log(&log, NULL, "t", false, 7);
    leat__key_cursor(&cursor, NULL, "t", false, 7, "g");
    leat__key_lease(&lease, NULL, "t", false, 7, "g");
    assert_int_equal(leat__crc16_slot(leat__key_bytes(&log)),
                     leat__crc16_slot(leat__key_bytes(&cursor)));
    assert_int_equal(leat__crc16_slot(leat__key_bytes(&log)),
                     leat__crc16_slot(leat__key_bytes(&lease)));
}

static void the_longest_names_fit(void **state)
{
    char prefix[LEAT__PREFIX_MAX + 1], name[LEAT_NAME_MAX + 1];
    leat__key k;
    (void)state;
    memset(prefix, 'p', LEAT__PREFIX_MAX);
    memset(name, 'n', LEAT_NAME_MAX);
    prefix[LEAT__PREFIX_MAX] = name[LEAT_NAME_MAX] = '\0';
    assert_int_equal(leat__prefix_check(prefix, NULL), LEAT_OK);
    assert_int_equal(leat__name_check("topic", name, NULL), LEAT_OK);
    leat__key_lease(&k, prefix, name, false, UINT32_MAX, name);
    assert_int_equal(k.n, LEAT__PREFIX_MAX + 2 * LEAT_NAME_MAX +
                              strlen(":{/4294967295}:lease:"));
}

static void names_of_other_characters_are_refused(void **state)
{
    char longer[LEAT_NAME_MAX + 2];
    const char *bad[] = { "",    ".",    "..",   "a b",         "a:b", "a/b",
                          "{a}", "a\nb", "a%sb", "caf\xc3\xa9", longer };
    (void)state;
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        leat_error e = { 0 };
        assert_int_equal(leat__name_check("topic", bad[i], &e), LEAT_EINVAL);
        assert_false(e.retriable);
        assert_non_null(strstr(e.msg, "topic name '"));
        assert_non_null(strstr(e.msg, "letters, digits"));
        assert_null(strchr(e.msg, '\n'));
    }
    leat_error e = { 0 };
    assert_int_equal(leat__name_check("group", NULL, &e), LEAT_EINVAL);
    assert_string_equal(e.msg, "no group name was given");
}

static void names_of_allowed_characters_are_taken(void **state)
{
    const char *good[] = { "a", "...", "A.b_c-9", "-", "_", "0" };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(leat__name_check("topic", good[i], NULL), LEAT_OK);
}

static void a_prefix_may_be_left_out_but_not_be_long(void **state)
{
    char longer[LEAT__PREFIX_MAX + 2];
    (void)state;
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(leat__prefix_check(NULL, NULL), LEAT_OK);
    assert_int_equal(leat__prefix_check("", NULL), LEAT_OK);
    assert_int_equal(leat__prefix_check("my-app", NULL), LEAT_OK);
    assert_int_equal(leat__prefix_check(longer, NULL), LEAT_EINVAL);
    assert_int_equal(leat__prefix_check("a:b", NULL), LEAT_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_named_as_the_design_says),
        cmocka_unit_test(a_legacy_topic_is_its_stream),
        cmocka_unit_test(the_keys_of_a_partition_share_a_slot),
        cmocka_unit_test(the_longest_names_fit),
        cmocka_unit_test(names_of_other_characters_are_refused),
        cmocka_unit_test(names_of_allowed_characters_are_taken),
        cmocka_unit_test(a_prefix_may_be_left_out_but_not_be_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
