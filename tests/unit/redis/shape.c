/* shape.c: answers, and what was asked for. */
#include "redis/shape.h"
#include "redis/resp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bool fits(const char *wire, const char *shape)
{
    leat__resp d;
    size_t used;
    leat__resp_init(&d, &(leat__resp_limits){ 0 });
    assert_int_equal(leat__resp_decode(&d, wire, strlen(wire), &used, NULL),
                     LEAT__RESP_DONE);
    bool yes = leat__reply_fits(d.nodes, shape);
    leat__resp_release(&d);
    return yes;
}

static const struct {
    const char *wire, *shape;
    bool fits;
} cases[] = {
    { ":1\r\n", "i", true },
    { "$2\r\n-7\r\n", "i", true },
    { "$1\r\n-\r\n", "i", false },
    { "$0\r\n\r\n", "i", false },
    { "$0\r\n\r\n", "n", true },
    { "$20\r\n99999999999999999990\r\n", "i", false },
    { "$2\r\n00\r\n", "i", true },
    { "$1\r\nx\r\n", "n", false },
    { "+OK\r\n", "t", true },
    { ":1\r\n", "t", false },
    { "$-1\r\n", "t", false },
    { "$-1\r\n", "o", true },
    { "$-1\r\n", "0", true },
    { "*0\r\n", "0", false },
    { "-ERR\r\n", "_", false },
    { "$3\r\n1-2\r\n", "d", true },
    { "$2\r\n1-\r\n", "d", false },
    { "$1\r\n1\r\n", "d", false },
    { "$4\r\n1-2x\r\n", "d", false },
    { "$0\r\n\r\n", "d", false },
    { "$0\r\n\r\n", "e", true },
    { "*0\r\n", "[]", true },
    { "*1\r\n:1\r\n", "[]", false },
    { "*0\r\n", "[i]", false },
    { "*2\r\n:1\r\n:2\r\n", "[ii]", true },
    { "*2\r\n:1\r\n:2\r\n", "[i]", false },
    { "*0\r\n", "[(i)]", true },
    { "*3\r\n:1\r\n:2\r\n:3\r\n", "[i(i)]", true },
    { "*3\r\n:1\r\n:2\r\n+a\r\n", "[i(i)]", false },
    { "*2\r\n+a\r\n:1\r\n", "[(t_)]", true },
    { "*3\r\n+a\r\n:1\r\n+b\r\n", "[(t_)]", false },
    { "%1\r\n+a\r\n:1\r\n", "[(t_)]", true },
    { "%1\r\n+a\r\n:1\r\n", "{(t_)}", true },
    { "*2\r\n+a\r\n:1\r\n", "{(t_)}", false },
    { "*1\r\n*2\r\n+a\r\n*0\r\n", "0|[([t_])]|{(t_)}", true },
    { "*1\r\n*0\r\n", "0|[([t_])]|{(t_)}", false },
    { "$-1\r\n", "0|[([t_])]|{(t_)}", true },
    { "*1\r\n:1\r\n", "[i[(tt)]?]", true },
    { "*2\r\n:1\r\n*2\r\n+a\r\n+b\r\n", "[i[(tt)]?]", true },
    { "*2\r\n:1\r\n*1\r\n+a\r\n", "[i[(tt)]?]", false },
    { "*3\r\n:1\r\n:1\r\n*0\r\n", "[(i)[(tt)]?]", true },
    { "*1\r\n*0\r\n", "[(i)[(tt)]?]", true },
    { "*2\r\n*0\r\n*0\r\n", "[(i)[(tt)]?]", false },
    { "*2\r\n*0\r\n:1\r\n", "[(i)[(tt)]?]", false },
    { "*1\r\n:1\r\n", "[(i)t]", false },
    { "*2\r\n:1\r\n+a\r\n", "[(i)t]", true },
    { "*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n+a\r\n+b\r\n", LEAT__SHAPE_ENTRIES,
      true },
    { "*1\r\n*2\r\n$3\r\n1-1\r\n*1\r\n+a\r\n", LEAT__SHAPE_ENTRIES, false },
    { "*1\r\n*2\r\n$3\r\n1-1\r\n$-1\r\n", LEAT__SHAPE_ENTRIES, false },
};

static void an_answer_fits_a_shape_or_not(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (fits(cases[i].wire, cases[i].shape) != cases[i].fits)
            fail_msg("%s: %s", cases[i].shape, cases[i].wire);
}

static void no_answer_fits_nothing(void **state)
{
    (void)state;
    leat_error e = { 0 };
    assert_false(leat__reply_fits(NULL, "_"));
    assert_false(leat__reply_fits(NULL, "0"));
    assert_int_equal(leat__reply_want(NULL, "[]", LEAT_EUNKNOWN, "a save", &e),
                     LEAT_EUNKNOWN);
    assert_string_equal(e.msg, "the server answered a save strangely");
}

static void a_failure_is_told_before_a_shape(void **state)
{
    (void)state;
    leat_error odd, e = { .code = LEAT_ECONN };
    assert_ptr_equal(leat__reply_odd(NULL, &e, "i", "a look", &odd), &e);
    assert_ptr_equal(leat__reply_odd(NULL, NULL, "i", "a look", &odd), &odd);
    assert_int_equal(odd.code, LEAT_EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_fits_a_shape_or_not),
        cmocka_unit_test(no_answer_fits_nothing),
        cmocka_unit_test(a_failure_is_told_before_a_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
