/* id.c: entry ids, starts and consumer names. */
#include "stream/id.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

static void ids_are_read_and_written(void **state)
{
    static const struct {
        const char *text;
        uint64_t ms, seq;
    } good[] = {
        { "0-0", 0, 0 },
        { "1-2", 1, 2 },
        { "1700000000000-15", 1700000000000u, 15 },
        { "12345678-87654321", 12345678, 87654321 },
        { "1234567-123456789", 1234567, 123456789 },
        { "90817263540918273-4", 90817263540918273u, 4 },
        { "18446744073709551615-18446744073709551615", UINT64_MAX, UINT64_MAX },
    };
    leat_position id;
    char text[LEAT__STREAM_ID];
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(leat__stream_id_parse(leat_str(good[i].text), &id));
        assert_true(id.ms == good[i].ms && id.seq == good[i].seq);
        leat_bytes b = leat__stream_id_format(id, text);
        assert_true(leat_bytes_eq(b, leat_str(good[i].text)));
    }
}

static void what_is_no_id_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "-",
        "1",
        "1-",
        "-1",
        "1-2-3",
        "a-1",
        "1-b",
        "1 -2",
        "1-2 ",
        "+1-2",
        "1--2",
        "$",
        "18446744073709551616-0",
        "1234567/-1",
        "1234567:-1",
        "12345678\x80-1",
        "\x80"
        "2345678-1",
        "0-18446744073709551616",
        "99999999999999999999999-1",
    };
    leat_position id;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (leat__stream_id_parse(leat_str(bad[i]), &id))
            fail_msg("'%s' was read as an id", bad[i]);
    assert_false(leat__stream_id_parse(leat_mem("1-2", 2), &id));
}

static void the_id_after_is_the_next(void **state)
{
    leat_position id = { 5, 6, 0 };
    (void)state;
    id = leat__stream_id_after(id);
    assert_true(id.ms == 5 && id.seq == 7);
    id = leat__stream_id_after((leat_position){ 5, UINT64_MAX, 0 });
    assert_true(id.ms == 6 && id.seq == 0);
    id = leat__stream_id_after((leat_position){ UINT64_MAX, UINT64_MAX, 0 });
    assert_true(id.ms == UINT64_MAX && id.seq == UINT64_MAX);
}

static void starts_become_ids(void **state)
{
    static const char *const pairs[][2] = {
        { NULL, "0" },
        { "0", "0" },
        { "$", "$" },
        { "12-3", "12-3" },
        { "@0", "0-0" },
        { "@1", "0-18446744073709551615" },
        { "@1700000000000", "1699999999999-18446744073709551615" },
    };
    static const char *const bad[] = { "", "1", "-", "@", "@x", "@1-1", "now" };
    char out[LEAT__STREAM_ID];
    leat_error e;
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        assert_int_equal(leat__stream_start(pairs[i][0], out, &e), LEAT_OK);
        assert_string_equal(out, pairs[i][1]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(leat__stream_start(bad[i], out, &e), LEAT_EINVAL);
}

static void a_made_name_is_new_and_known_as_made(void **state)
{
    char a[LEAT__STREAM_CONSUMER], b[LEAT__STREAM_CONSUMER], pid[32];
    (void)state;
    assert_int_equal(leat__stream_consumer_make(a, NULL), LEAT_OK);
    assert_int_equal(leat__stream_consumer_make(b, NULL), LEAT_OK);
    assert_string_not_equal(a, b);
    snprintf(pid, sizeof pid, "-%ld-", (long)getpid());
    assert_non_null(strstr(a, pid));
    assert_true(leat__stream_consumer_made(leat_str(a)));
}

static void names_that_people_give_are_not_taken_for_made(void **state)
{
    static const char *const given[] = {
        "",
        "worker",
        "worker-1",
        "host-12",
        "host-12-0123456789abcde",
        "host-12-0123456789abcdeg",
        "host-12-0123456789ABCDEF",
        "host-x-0123456789abcdef",
        "host--0123456789abcdef",
        "-12-0123456789abcdef",
        "12-0123456789abcdef",
        "0123456789abcdef0123456789abcdef",
    };
    (void)state;
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        if (leat__stream_consumer_made(leat_str(given[i])))
            fail_msg("'%s' was taken for a made name", given[i]);
    assert_true(leat__stream_consumer_made(leat_str("h-1-0123456789abcdef")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_read_and_written),
        cmocka_unit_test(what_is_no_id_is_refused),
        cmocka_unit_test(the_id_after_is_the_next),
        cmocka_unit_test(starts_become_ids),
        cmocka_unit_test(a_made_name_is_new_and_known_as_made),
        cmocka_unit_test(names_that_people_give_are_not_taken_for_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
