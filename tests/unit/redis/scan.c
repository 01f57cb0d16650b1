/* scan.c: loops that the server should end, and the ends of our own. */
#include "redis/scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { LONG_MS = 1000000 };

static void a_loop_has_its_last_step(void **state)
{
    leat__steps s;
    leat_error e = { 0 };
    (void)state;
    leat__steps_begin(&s, "the names", LONG_MS);
    for (int i = 1; i < LEAT__STEPS_MAX; i++)
        assert_int_equal(leat__steps_next(&s, false, &e), LEAT_OK);
    assert_int_equal(leat__steps_next(&s, true, &e), LEAT_EPROTO);
    assert_non_null(strstr(e.msg, "the names have no end"));
}

static void a_loop_ends_in_time_unless_it_gets_on(void **state)
{
    leat__steps s;
    leat_error e = { 0 };
    (void)state;
    leat__steps_begin(&s, "the names", LONG_MS);
    s.deadline_ns = 1; /* long ago */
    assert_int_equal(leat__steps_next(&s, true, &e), LEAT_OK);
    assert_int_equal(leat__steps_next(&s, false, &e), LEAT_OK);
    s.deadline_ns = 1;
    assert_int_equal(leat__steps_next(&s, false, &e), LEAT_ETIMEOUT);
}

static void only_a_number_is_a_cursor(void **state)
{
    static const char *const bad[] = { "", "-1", "7x", " 7",
                                       "123456789012345678901234" };
    leat__scan s;
    leat_error e = { 0 };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        leat__scan_begin(&s, "the names", LONG_MS);
        assert_int_equal(leat__scan_next(&s, leat_str(bad[i]), true, &e),
                         LEAT_EPROTO);
        assert_string_equal(s.cursor, "0");
    }
    assert_int_equal(
        leat__scan_next(&s, leat_str("12345678901234567890123"), true, &e),
        LEAT_OK);
    assert_false(s.over);
    assert_int_equal(leat__scan_next(&s, leat_str("0"), true, &e), LEAT_OK);
    assert_true(s.over);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_has_its_last_step),
        cmocka_unit_test(a_loop_ends_in_time_unless_it_gets_on),
        cmocka_unit_test(only_a_number_is_a_cursor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
