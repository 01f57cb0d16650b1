/* id.c: ids of entries as text. */
#include "message/id.h"
#include "support/allocfail.h"

#include <string.h>

static bool parse(const char *text, leat__id *id)
{
    /* A block without a terminator, so that reading past it is seen. */
    char room[64];
    size_t n = strlen(text);
    memcpy(room, text, n);
    return leat__id_parse(leat_mem(room, n), id);
}

static void assert_id(const char *text, uint64_t ms, uint64_t seq)
{
    leat__id id = { 7, 7 };
    assert_true(parse(text, &id));
    assert_true(id.ms == ms && id.seq == seq);
}

static void an_id_is_two_numbers_or_one(void **state)
{
    (void)state;
    assert_id("0-0", 0, 0);
    assert_id("5", 5, 0);
    assert_id("1700000000000-12", 1700000000000, 12);
    assert_id("007-01", 7, 1);
    assert_id("18446744073709551615-18446744073709551615", UINT64_MAX,
              UINT64_MAX);
}

static void what_is_no_id_is_refused_and_changes_nothing(void **state)
{
    static const char *const bad[] = {
        "",
        "-",
        "1-",
        "-1",
        "+1-1",
        "1--1",
        "1-1-1",
        "a-1",
        "1-a",
        " 1-1",
        "1-1 ",
        "18446744073709551616-0",
        "0-18446744073709551616",
        "99999999999999999999999",
    };
    leat__id id = { 7, 8 };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (parse(bad[i], &id))
            fail_msg("'%s' was read", bad[i]);
    assert_false(leat__id_parse(leat_mem(NULL, 0), &id));
    assert_false(leat__id_parse(leat_mem("1-1\0", 4), &id));
    assert_true(id.ms == 7 && id.seq == 8);
}

static void what_is_written_is_read_again(void **state)
{
    static const uint64_t some[] = {
        0, 1, 9, 10, 99, 1700000000000, 10000000000000000000U, UINT64_MAX
    };
    enum { N = sizeof some / sizeof *some };
    (void)state;
    for (int i = 0; i < N * N; i++) {
        leat__id id = { some[i / N], some[i % N] }, again;
        char text[LEAT__ID_TEXT];
        leat_bytes b = leat__id_format(id, text);
        assert_ptr_equal(b.p, text);
        assert_int_equal(b.n, strlen(text));
        assert_true(leat__id_parse(b, &again));
        assert_int_equal(leat__id_cmp(id, again), 0);
    }
}

static void ids_are_ordered_by_both_numbers(void **state)
{
    leat__id a = { 1, 9 }, b = { 2, 1 }, c = { 2, 3 };
    (void)state;
    assert_true(leat__id_cmp(a, b) < 0 && leat__id_cmp(b, a) > 0);
    assert_true(leat__id_cmp(b, c) < 0 && leat__id_cmp(c, b) > 0);
    assert_true(leat__id_cmp(c, c) == 0);
}

/* Whatever stands before, the text alone says which id it is. */
static void an_id_behind_another_is_read_as_by_itself(void **state)
{
    static const char *const texts[] = {
        "1700000000000-0",
        "1700000000000-12",
        "1700000000001-3",
        "170000000000-345",
        "1700000000000-",
        "1700000000000-1x",
        "1700000000000x12",
        "17000000000000-12",
        "1700000000000-18446744073709551615",
        "1700000000000-18446744073709551616",
    };
    enum { N = sizeof texts / sizeof *texts };
    (void)state;
    for (size_t i = 0; i < N * N; i++) {
        const char *before = texts[i / N], *text = texts[i % N];
        leat__id io = { 0, 0 }, alone = { 0, 0 };
        if (!leat__id_parse(leat_str(before), &io) ||
            strlen(before) < LEAT__ID_NEXT)
            before = NULL;
        bool ok = leat__id_parse(leat_str(text), &alone);
        assert_int_equal(leat__id_parse_next(leat_str(text), before, &io), ok);
        assert_true(!ok || leat__id_cmp(io, alone) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_is_two_numbers_or_one),
        cmocka_unit_test(what_is_no_id_is_refused_and_changes_nothing),
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(ids_are_ordered_by_both_numbers),
        cmocka_unit_test(an_id_behind_another_is_read_as_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
