/* fingerprint.c: what differs from case to case is not seen. */
#include "support/leat.h"

static void prints(const char *error, const char *wanted)
{
    char out[LEAT_DEAD_PRINT];
    assert_ptr_equal(leat_dead_fingerprint(leat_str(error), out), out);
    assert_string_equal(out, wanted);
}

static void numbers_are_one(void **state)
{
    (void)state;
    prints("order 17 failed", "order <n> failed");
    prints("order 4711 failed", "order <n> failed");
    prints("cannot reach 10.0.0.7:5432", "cannot reach <n>.<n>.<n>.<n>:<n>");
    prints("worker7 took 12ms", "worker<n> took <n>ms");
    prints("-5", "-<n>");
    prints("42", "<n>");
    prints("20261116", "<n>");
}

static void hexadecimal_is_one_and_words_are_words(void **state)
{
    (void)state;
    prints("at 0x7ffc12", "at <hex>");
    prints("at 0XAB", "at <hex>");
    prints("sum deadbeef01", "sum <hex>");
    prints("sum 9f86d081884c7d659a2feaa0c55ad015", "sum <hex>");
    prints("the facade decade effaced", "the facade decade effaced");
    prints("abc1", "abc<n>");
    prints("0x", "<n>x");
    prints("0xyz", "<n>xyz");
}

static void uuids_are_one(void **state)
{
    (void)state;
    prints("user 0190a6e0-1b2c-7d3e-8f40-51627384a5b6 unknown",
           "user <uuid> unknown");
    prints("user 0190A6E0-1B2C-7D3E-8F40-51627384A5B6", "user <uuid>");
    prints("0190a6e0-1b2c-7d3e-8f40-51627384a5b", /* one short */
           "<hex>-<n>b<n>c-<n>d<n>e-<n>f<n>-<hex>");
}

static void quoted_parts_are_one(void **state)
{
    (void)state;
    prints("no user 'ann' in \"users\"", "no user <text> in <text>");
    prints("column `a b c` is 7", "column <text> is <n>");
    prints("no user ''", "no user <text>");
    prints("can't open what isn't there", "can't open what isn't there");
    prints("can't find 'it's here'", "can't find <text>");
    prints("it said 'never", "it said 'never");
    prints("'", "'");
}

static void white_space_is_one_blank(void **state)
{
    (void)state;
    prints("  a \t\r\n b\x01\x7f ", "a b");
    prints("", "");
    prints("   ", "");
}

static void other_letters_stay(void **state)
{
    (void)state;
    prints("größe 5 überschritten", "größe <n> überschritten");
    prints("l'été 'a'", "l'été <text>");
}

static void zeros_and_lengths_are_no_matter(void **state)
{
    (void)state;
    char out[LEAT_DEAD_PRINT], long_text[1000];
    leat_dead_fingerprint(leat_mem("a\0b", 3), out);
    assert_string_equal(out, "a b");
    leat_dead_fingerprint(leat_mem(NULL, 0), out);
    assert_string_equal(out, "");
    memset(long_text, 'x', sizeof long_text);
    leat_dead_fingerprint(leat_mem(long_text, sizeof long_text), out);
    assert_int_equal(strlen(out), LEAT_DEAD_PRINT - 1);
}

/* Cut in the middle of a letter, it ends before it. */
static void no_half_letter_is_left(void **state)
{
    (void)state;
    for (int shift = 0; shift < 4; shift++) {
        char out[LEAT_DEAD_PRINT], text[400] = "---";
        for (int i = 0; i < 90; i++)
            memcpy(text + shift + 3 * i, "€", 4);
        leat_dead_fingerprint(leat_str(text), out);
        size_t n = strlen(out) - (size_t)shift;
        assert_int_equal(n % 3, 0);
        assert_in_range(n, LEAT_DEAD_PRINT - 9, LEAT_DEAD_PRINT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_one),
        cmocka_unit_test(hexadecimal_is_one_and_words_are_words),
        cmocka_unit_test(uuids_are_one),
        cmocka_unit_test(quoted_parts_are_one),
        cmocka_unit_test(white_space_is_one_blank),
        cmocka_unit_test(other_letters_stay),
        cmocka_unit_test(zeros_and_lengths_are_no_matter),
        cmocka_unit_test(no_half_letter_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
