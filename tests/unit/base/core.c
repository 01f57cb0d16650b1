/* core.c: buffers, arenas, errors: what everything else stands on. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void a_buffer_keeps_what_was_added(void **state)
{
    leat__buf b = { 0 };
    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(leat__buf_printf(&b, NULL, "%d,", i), LEAT_OK);
    assert_memory_equal(b.p, "0,1,2,3,", 8);
    assert_memory_equal(b.p + b.n - 4, "999,", 4);
    leat__buf_release(&b);
}

static void a_cleared_arena_allocates_nothing_for_the_same_again(void **state)
{
    leat__arena a = { 0 };
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_non_null(leat__arena_alloc(&a, 1000, NULL));
    leat__arena_clear(&a);
    void *block = a.block;
    for (int i = 0; i < 50; i++)
        assert_non_null(leat__arena_alloc(&a, 1000, NULL));
    assert_ptr_equal(a.block, block);
    leat__arena_release(&a);
}

static void an_error_escapes_and_cuts_what_it_quotes(void **state)
{
    char out[12];
    (void)state;
    leat__escape(out, sizeof out, "a\r\nb\0c", 6);
    assert_string_equal(out, "a\\x0d\\x0a");
    leat_error e;
    assert_int_equal(leat__fail(&e, LEAT_ECONN, "host %s", "x"), LEAT_ECONN);
    assert_true(e.retriable);
    assert_string_equal(e.msg, "host x");
}

static void every_code_has_a_name_and_a_text(void **state)
{
    (void)state;
    for (int c = 0; c < LEAT_CODES_; c++) {
        assert_memory_equal(leat_code_name(c), "LEAT_", 5);
        assert_true(strlen(leat_code_text(c)) > 3);
    }
    assert_string_equal(leat_code_name(LEAT_CODES_), "LEAT_?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_keeps_what_was_added),
        cmocka_unit_test(a_cleared_arena_allocates_nothing_for_the_same_again),
        cmocka_unit_test(an_error_escapes_and_cuts_what_it_quotes),
        cmocka_unit_test(every_code_has_a_name_and_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
