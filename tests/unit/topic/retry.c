/* retry.c: what becomes of a message that failed, by policy. */
#include "topic/retry.h"
#include "support/leat.h"

static const leat_msg plain = { .body = { "x", 1 } };

static leat_retry policy(leat_retry r)
{
    leat_error e = { 0 };
    assert_int_equal(leat__retry_check(&r, &e), LEAT_OK);
    leat__retry_fill(&r);
    return r;
}

/* The delay after so many attempts, all of which failed. */
static int64_t delay(const leat_retry *r, uint32_t attempts, int64_t asked,
                     uint64_t chance)
{
    leat_failure f = { .msg = &plain, .attempts = attempts, .reason = "" };
    return leat__retry_delay(r, &f, attempts, asked, chance);
}

static void zero_is_five_attempts_from_one_second_to_a_minute(void **state)
{
    leat_retry r = policy((leat_retry){ 0 });
    (void)state;
    assert_int_equal(r.max_attempts, 5);
    assert_int_equal(r.delay_ms, 1000);
    assert_int_equal(r.max_delay_ms, 60000);
    assert_true(delay(&r, 4, -1, 0) >= 0);
    assert_int_equal(delay(&r, 5, -1, 0), -1);
    assert_int_equal(delay(&r, 6, -1, 0), -1);
}

static void delays_double_up_to_their_bound(void **state)
{
    static const int64_t want[] = { 100, 200, 400, 800, 1000, 1000 };
    leat_retry r = policy((leat_retry){ .max_attempts = -1,
                                        .delay_ms = 100,
                                        .max_delay_ms = 1000,
                                        .jitter = LEAT_NO });
    (void)state;
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(delay(&r, i + 1, -1, 12345), want[i]);
    assert_int_equal(delay(&r, UINT32_MAX - 1, -1, 0), 1000);
}

static void a_fixed_delay_stays(void **state)
{
    leat_retry r = policy((leat_retry){
        .backoff = LEAT_BACKOFF_FIXED, .delay_ms = 70, .jitter = LEAT_NO });
    (void)state;
    for (uint32_t i = 1; i < 5; i++)
        assert_int_equal(delay(&r, i, -1, i), 70);
}

static void jitter_is_any_time_up_to_the_delay(void **state)
{
    leat_retry r = policy(
        (leat_retry){ .backoff = LEAT_BACKOFF_FIXED, .delay_ms = 9 });
    bool seen[10] = { 0 };
    (void)state;
    for (uint64_t chance = 0; chance < 1000; chance++) {
        int64_t ms = delay(&r, 1, -1, chance * 0x9e3779b97f4a7c15U);
        assert_in_range(ms, 0, 9);
        seen[ms] = true;
    }
    for (int i = 0; i < 10; i++)
        assert_true(seen[i]);
}

static void what_the_handler_asks_for_goes_first_but_not_for_ever(void **state)
{
    leat_retry r = policy((leat_retry){ .max_attempts = 2 });
    (void)state;
    assert_int_equal(delay(&r, 1, 0, 7), 0);
    assert_int_equal(delay(&r, 1, 123456789, 7), 123456789);
    assert_int_equal(delay(&r, 2, 0, 7), -1);
    assert_true(delay(&r, 1, INT64_MAX, 7) < INT64_MAX / 1000000);
}

static void a_header_goes_before_the_policy(void **state)
{
    static const struct {
        const char *text;
        uint32_t limit;
    } cases[] = { { "0", 1 },          { "7", 8 },  { "999999999", 1000000000 },
                  { "1000000000", 5 }, { "-1", 5 }, { "", 5 },
                  { "3x", 5 },         { " 3", 5 } };
    leat_retry r = policy((leat_retry){ 0 });
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        leat_header h = { leat_str("maxRetries"), leat_str(cases[i].text) };
        leat_msg m = { .headers = &h, .header_count = 1 };
        assert_int_equal(leat__retry_limit(&r, &m), cases[i].limit);
    }
    r.max_attempts = -1;
    assert_int_equal(leat__retry_limit(&r, &plain), UINT32_MAX);
}

static int64_t own(void *arg, const leat_failure *f)
{
    return *(int64_t *)arg + (int64_t)f->attempts;
}

static void an_own_function_decides_alone(void **state)
{
    int64_t base = 10;
    leat_retry r = policy(
        (leat_retry){ .max_attempts = 1, .fn = own, .arg = &base });
    (void)state;
    assert_int_equal(delay(&r, 100, 5, 0), 110);
    base = -200;
    assert_int_equal(delay(&r, 1, 5, 0), -1);
    base = INT64_MAX - 1;
    assert_true(delay(&r, 1, 5, 0) < INT64_MAX / 1000000);
}

static void two_deaths_are_no_proof(void **state)
{
    leat_retry r = policy((leat_retry){ .max_attempts = 2 });
    (void)state;
    assert_false(leat__retry_deadly(&r, &plain, 2, 2));
    assert_true(leat__retry_deadly(&r, &plain, 3, 3));
    assert_false(leat__retry_deadly(&r, &plain, 9, 2));
    r.max_attempts = 5;
    assert_false(leat__retry_deadly(&r, &plain, 4, 4));
    assert_true(leat__retry_deadly(&r, &plain, 5, 3));
    r.max_attempts = -1;
    assert_false(leat__retry_deadly(&r, &plain, 1000, 1000));
}

static void what_is_out_of_range_is_named(void **state)
{
    static const struct {
        leat_retry r;
        const char *word;
    } bad[] = {
        { { .max_attempts = -2 }, "max_attempts" },
        { { .delay_ms = -1 }, "delay_ms" },
        { { .max_delay_ms = -5 }, "max_delay_ms" },
        { { .delay_ms = INT64_MAX }, "delay_ms" },
        { { .delay_ms = 10, .max_delay_ms = 9 }, "max_delay_ms" },
        { { .backoff = (leat_backoff_kind)3 }, "backoff" },
        { { .jitter = (leat_choice)3 }, "jitter" },
        { { .re_add = (leat_choice)3 }, "re_add" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        leat_retry r = bad[i].r;
        leat_error e = { 0 };
        assert_int_equal(leat__retry_check(&r, &e), LEAT_EINVAL);
        assert_non_null(strstr(e.msg, bad[i].word));
    }
    leat_retry long_one = policy((leat_retry){ .delay_ms = 120000 });
    assert_int_equal(long_one.max_delay_ms, 120000);
    leat_retry short_one = policy((leat_retry){ .max_delay_ms = 999 });
    assert_int_equal(short_one.delay_ms, 999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_is_five_attempts_from_one_second_to_a_minute),
        cmocka_unit_test(delays_double_up_to_their_bound),
        cmocka_unit_test(a_fixed_delay_stays),
        cmocka_unit_test(jitter_is_any_time_up_to_the_delay),
        cmocka_unit_test(what_the_handler_asks_for_goes_first_but_not_for_ever),
        cmocka_unit_test(a_header_goes_before_the_policy),
        cmocka_unit_test(an_own_function_decides_alone),
        cmocka_unit_test(two_deaths_are_no_proof),
        cmocka_unit_test(what_is_out_of_range_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
