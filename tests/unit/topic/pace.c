/* pace.c: how often an idle member looks. */
#include "topic/pace.h"
#include "support/leat.h"

static void each_empty_look_doubles_the_wait_up_to_the_limit(void **state)
{
    leat__pace p = leat__pace_start(10, 65);
    const int64_t want[] = { 20, 40, 65, 65 };
    (void)state;
    assert_int_equal(p.ms, 10);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        leat__pace_empty(&p);
        assert_int_equal(p.ms, want[i]);
    }
}

static void a_message_makes_it_short_again(void **state)
{
    leat__pace p = leat__pace_start(10, 1000);
    (void)state;
    leat__pace_empty(&p);
    leat__pace_empty(&p);
    leat__pace_busy(&p);
    assert_int_equal(p.ms, 10);
}

static void without_a_limit_it_stays_short(void **state)
{
    leat__pace p = leat__pace_start(50, 0);
    (void)state;
    leat__pace_empty(&p);
    assert_int_equal(p.ms, 50);
}

static void the_longest_wait_does_not_overflow(void **state)
{
    leat__pace p = leat__pace_start(10, INT64_MAX);
    (void)state;
    for (int i = 0; i < 70; i++)
        leat__pace_empty(&p);
    assert_int_equal(p.ms, INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_empty_look_doubles_the_wait_up_to_the_limit),
        cmocka_unit_test(a_message_makes_it_short_again),
        cmocka_unit_test(without_a_limit_it_stays_short),
        cmocka_unit_test(the_longest_wait_does_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
