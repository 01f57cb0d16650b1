/* resp.c: the decoder's promises, one vector or limit at a time. */
#include "resp_help.h"

#include <leat/system.h>

#include <locale.h>
#include <stdio.h>

typedef struct vector {
    const char *wire;
    const char *text; /* NULL: refused, with code */
    leat_code code;
} vector;

#define GOOD(wire, text)                                                       \
    {                                                                          \
        wire, text, LEAT_OK                                                    \
    }
#define WRONG(wire)                                                            \
    {                                                                          \
        wire, NULL, LEAT_EPROTO                                                \
    }
#define TOO_BIG(wire)                                                          \
    {                                                                          \
        wire, NULL, LEAT_ETOOBIG                                               \
    }
#define UNSUPPORTED(wire)                                                      \
    {                                                                          \
        wire, NULL, LEAT_ENOTSUP                                               \
    }

static void check_with(const leat__resp_limits *limits, const vector *v,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(v[i].wire);
        outcome o = decode_whole(limits, v[i].wire, len);
        if (o.code != v[i].code || (o.state == LEAT__RESP_MORE))
            fail_msg("state %d code %d of: %s", (int)o.state, (int)o.code,
                     v[i].wire);
        if (v[i].text) {
            assert_int_equal(o.state, LEAT__RESP_DONE);
            assert_int_equal(o.used, len);
            assert_int_equal(leat__buf_add(&o.text, "", 1, NULL), LEAT_OK);
            assert_string_equal(o.text.p, v[i].text);
        }
        outcome_release(&o);
        assert_cuts_do_not_matter(limits, v[i].wire, len);
    }
}

#define CHECK(limits, ...)                                                     \
    check_with(limits, (const vector[]){ __VA_ARGS__ },                        \
               sizeof((const vector[]){ __VA_ARGS__ }) / sizeof(vector))

static void every_resp2_type_is_decoded(void **state)
{
    (void)state;
    CHECK(NULL, GOOD("+PONG\r\n", "+4:PONG"), GOOD("+\r\n", "+0:"),
          GOOD("+a status of more than sixteen bytes\r\n",
               "+35:a status of more than sixteen bytes"),
          GOOD("+tab\there, and \x01\r\n", "+15:tab\there, and \x01"),
          GOOD("-ERR no such key\r\n", "-15:ERR no such key"),
          GOOD(":0\r\n", "0"), GOOD(":7\r\n", "7"), GOOD(":42\r\n", "42"),
          GOOD(":1763200000000\r\n", "1763200000000"), GOOD(":-1\r\n", "-1"),
          GOOD(":+5\r\n", "5"), GOOD(":-0\r\n", "0"),
          GOOD(":9223372036854775807\r\n", "9223372036854775807"),
          GOOD(":-9223372036854775808\r\n", "-9223372036854775808"),
          GOOD("$0\r\n\r\n", "$0:"), GOOD("$1\r\na\r\n", "$1:a"),
          GOOD("$15\r\n1763200000000-0\r\n", "$15:1763200000000-0"),
          GOOD("$4\r\na\r\nb\r\n", "$4:a\r\nb"), GOOD("$-1\r\n", "nil"),
          GOOD("*-1\r\n", "nil"), GOOD("*0\r\n", "[]"),
          GOOD("*1\r\n*0\r\n", "[[]]"),
          GOOD("*3\r\n:1\r\n$-1\r\n*2\r\n+a\r\n-b\r\n", "[1 nil [+1:a -1:b]]"),
          GOOD("*6\r\n+s\r\n-e\r\n(12\r\n$1\r\na\r\n:1\r\n_\r\n",
               "[+1:s -1:e (2:12 $1:a 1 nil]"),
          GOOD("*2\r\n*1\r\n*1\r\n*1\r\n$1\r\na\r\n$1\r\nb\r\n",
               "[[[[$1:a]]] $1:b]"));
}

static void every_resp3_type_is_decoded(void **state)
{
    (void)state;
    CHECK(NULL, GOOD("_\r\n", "nil"), GOOD("#t\r\n", "true"),
          GOOD("#f\r\n", "false"), GOOD(",1.5\r\n", "~1.5"),
          GOOD(",-10\r\n", "~-10"), GOOD(",+.5\r\n", "~0.5"),
          GOOD(",5.\r\n", "~5"), GOOD(",1e3\r\n", "~1000"),
          GOOD(",1.5E+3\r\n", "~1500"), GOOD(",25e-1\r\n", "~2.5"),
          GOOD(",inf\r\n", "~inf"), GOOD(",-inf\r\n", "~-inf"),
          GOOD(",nan\r\n", "nan"), GOOD(",-nan\r\n", "nan"),
          GOOD("(3492890328409238509324850943850943825024385\r\n",
               "(43:3492890328409238509324850943850943825024385"),
          GOOD("(-1\r\n", "(2:-1"), GOOD("(+1\r\n", "(2:+1"),
          GOOD("!9\r\nERR a\r\nb!\r\n", "-9:ERR a\r\nb!"),
          GOOD("=7\r\ntxt:abc\r\n", "$3:abc"), GOOD("=4\r\nmkd:\r\n", "$0:"),
          GOOD("%0\r\n", "{}"), GOOD("~0\r\n", "set[]"),
          GOOD("%2\r\n+a\r\n:1\r\n+b\r\n%1\r\n:2\r\n_\r\n",
               "{+1:a 1 +1:b {2 nil}}"),
          GOOD("~2\r\n+a\r\n#t\r\n", "set[+1:a true]"),
          GOOD(">3\r\n+message\r\n$2\r\nch\r\n$1\r\nx\r\n",
               "push[+7:message $2:ch $1:x]"),
          GOOD(">0\r\n", "push[]"));
}

static void attributes_are_thrown_away_wherever_they_stand(void **state)
{
    (void)state;
    CHECK(NULL, GOOD("|1\r\n+ttl\r\n:3600\r\n+OK\r\n", "+2:OK"),
          GOOD("|0\r\n:1\r\n", "1"), GOOD("|0\r\n|0\r\n:1\r\n", "1"),
          GOOD("*2\r\n|1\r\n+k\r\n*2\r\n:8\r\n:9\r\n:1\r\n:2\r\n", "[1 2]"),
          GOOD("*2\r\n:1\r\n|2\r\n+a\r\n$1\r\nb\r\n+c\r\n$1\r\nd\r\n:2\r\n",
               "[1 2]"),
          GOOD("|1\r\n+a\r\n|1\r\n+in\r\n+ner\r\n$1\r\nb\r\n*1\r\n$1\r\nv\r\n",
               "[$1:v]"),
          GOOD("|1\r\n*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n$1\r\nv\r\n", "$1:v"),
          GOOD("|1\r\n+a\r\n+b\r\n>1\r\n+p\r\n", "push[+1:p]"),
          GOOD("%1\r\n+k\r\n|1\r\n+a\r\n+b\r\n*1\r\n$1\r\nv\r\n",
               "{+1:k [$1:v]}"),
          WRONG("|-1\r\n"), UNSUPPORTED("|?\r\n"));
}

static void what_is_not_resp_is_refused(void **state)
{
    (void)state;
    CHECK(
        NULL, WRONG("PONG\r\n"), WRONG("\r\n"), WRONG("\x01"), WRONG("\xff"),
        WRONG("$-2\r\n"), WRONG("$-10\r\n"), WRONG("$--\r\n"), WRONG("*-2\r\n"),
        WRONG("$+1\r\na\r\n"), WRONG("$ 1\r\na\r\n"), WRONG("$01\r\na\r\n"),
        WRONG("$00\r\n\r\n"), WRONG("$1 \r\na\r\n"), WRONG("$1x\r\n"),
        WRONG("$12x\r\n"), WRONG("$123x\r\n"), WRONG("$\r\n"), WRONG("$a\r\n"),
        WRONG("*\r\n"), WRONG("*01\r\n"), WRONG("$18446744073709551616\r\n"),
        WRONG("$99999999999999999999\r\n"), WRONG("$1\n"), WRONG("$1\ra"),
        WRONG("$100\ra"), WRONG("$1\r\naXX"), WRONG("$1\r\na\rX"),
        WRONG("$1\r\nab\r\n"), WRONG("*1\r\n$1\r\nab\r\n"), WRONG(":\r\n"),
        WRONG(":-\r\n"), WRONG(":+-1\r\n"), WRONG(":1.5\r\n"), WRONG(":01\r\n"),
        WRONG(":9223372036854775808\r\n"), WRONG(":-9223372036854775809\r\n"),
        WRONG(":1\n"), WRONG(":1\rx"), WRONG("+OK\n"), WRONG("+O\nK\r\n"),
        WRONG("+O\rK\r\n"), WRONG("+a status of more than sixteen bytes\n"),
        WRONG("+a status of more than sixteen bytes\rx"), WRONG("+\r\r\n"),
        WRONG("_x\r\n"), WRONG("#\r\n"), WRONG("#x\r\n"), WRONG("#tt\r\n"),
        WRONG("(\r\n"), WRONG("(-\r\n"), WRONG("(1x\r\n"), WRONG("=-1\r\n"),
        WRONG("=3\r\ntxt\r\n"), WRONG("=4\r\ntxtx\r\n"), WRONG("!-1\r\n"),
        WRONG("%-1\r\n"), WRONG("~-1\r\n"), WRONG(">-1\r\n"),
        WRONG("*1\r\n>1\r\n+a\r\n"), WRONG("|1\r\n>0\r\n"));
}

static void what_is_not_a_double_is_refused(void **state)
{
    (void)state;
    CHECK(NULL, WRONG(",\r\n"), WRONG(",-\r\n"), WRONG(",.\r\n"),
          WRONG(",1x\r\n"), WRONG(",1e\r\n"), WRONG(",1e+\r\n"),
          WRONG(",1ex\r\n"), WRONG(",0x10\r\n"), WRONG(", 1\r\n"),
          WRONG(",1,5\r\n"), WRONG(",infinity\r\n"), WRONG(",Inf\r\n"));
    char digits[400];
    memset(digits, '1', sizeof digits);
    double d;
    assert_true(leat__resp_double(digits, 300, &d));
    assert_true(d > 1e299);
    assert_false(leat__resp_double(digits, 341, &d));
}

static void a_double_does_not_depend_on_the_locale(void **state)
{
    (void)state;
    double d = 0;
    /* Where no such locale is installed this still runs, in "C". */
    setlocale(LC_ALL, "de_DE.UTF-8");
    assert_true(leat__resp_double("1.5", 3, &d));
    setlocale(LC_ALL, "C");
    assert_true(d > 1.4 && d < 1.6);
}

static void streamed_values_are_refused_as_not_supported(void **state)
{
    (void)state;
    CHECK(NULL, WRONG("$1x3\r\nabcd"), WRONG("$12x\r\nabcd"),
          WRONG("$123x\r\nabcd"), WRONG("$012\r\nabcdefghijkl\r\n"));
    CHECK(NULL, UNSUPPORTED("$?\r\n"), UNSUPPORTED("*?\r\n"),
          UNSUPPORTED("%?\r\n"), UNSUPPORTED("~?\r\n"), UNSUPPORTED(">?\r\n"));
}

static void limits_are_kept_to_the_last_byte(void **state)
{
    (void)state;
    char wire[300];
    CHECK((&(leat__resp_limits){ .depth = 2 }),
          GOOD("*1\r\n*1\r\n:1\r\n", "[[1]]"), GOOD("*1\r\n*0\r\n", "[[]]"),
          TOO_BIG("*1\r\n*1\r\n*0\r\n"), TOO_BIG("*1\r\n*1\r\n*1\r\n:1\r\n"),
          TOO_BIG("*1\r\n|1\r\n*1\r\n"));
    CHECK((&(leat__resp_limits){ .elements = 4 }),
          GOOD("*3\r\n:1\r\n:2\r\n:3\r\n", "[1 2 3]"), TOO_BIG("*4\r\n"),
          GOOD("*1\r\n%1\r\n:1\r\n:2\r\n", "[{1 2}]"), TOO_BIG("%2\r\n"),
          TOO_BIG("%4\r\n"), TOO_BIG("%9223372036854775807\r\n"),
          TOO_BIG("%9223372036854775808\r\n"),
          TOO_BIG("*9999999999999999999\r\n"), TOO_BIG("*4294967299\r\n"),
          GOOD("|2\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n", "5"), TOO_BIG("|3\r\n"),
          TOO_BIG("*2\r\n*2\r\n:1\r\n:2\r\n:3\r\n"));
    CHECK((&(leat__resp_limits){ .elements = 1 }), GOOD(":1\r\n", "1"),
          TOO_BIG("*1\r\n"));
    CHECK((&(leat__resp_limits){ .line = 1 }), /* which is read as 16 */
          GOOD("+1234567890123456\r\n", "+16:1234567890123456"),
          GOOD("-1234567890123456\r\n", "-16:1234567890123456"),
          TOO_BIG("+12345678901234567\r\n"), TOO_BIG("-12345678901234567"),
          WRONG("+1234567890123456\n"));
    CHECK((&(leat__resp_limits){ .line = 30 }),
          GOOD("+123456789012345678901234567890\r\n",
               "+30:123456789012345678901234567890"),
          TOO_BIG("+1234567890123456789012345678901"));
    CHECK((&(leat__resp_limits){ .reply = 8 }), GOOD("$2\r\nab\r\n", "$2:ab"),
          TOO_BIG("$3\r\n"), TOO_BIG("$99\r\n"), TOO_BIG("+1234567"),
          TOO_BIG("*9\r\n:1\r\n:"), GOOD("+12345\r\n", "+5:12345"),
          TOO_BIG("+123456\r\n"));
    snprintf(wire, sizeof wire, "$100\r\n%0100d\r\n", 0);
    CHECK((&(leat__resp_limits){ .bulk = 100 }), TOO_BIG("$101\r\n"),
          TOO_BIG("$101\r\nabcd"), TOO_BIG("$1010\r\nabcd"),
          TOO_BIG("=9223372036854775807\r\n"),
          TOO_BIG("$9999999999999999999\r\n"));
    outcome o = decode_whole(&(leat__resp_limits){ .bulk = 100 }, wire, 108);
    assert_int_equal(o.state, LEAT__RESP_DONE);
    outcome_release(&o);
}

static void limits_beyond_what_can_be_are_cut(void **state)
{
    (void)state;
    leat__resp d;
    leat__resp_init(&d, &(leat__resp_limits){ .depth = 1000,
                                              .bulk = UINT64_MAX,
                                              .reply = UINT64_MAX });
    assert_int_equal(d.limits.depth, LEAT__RESP_MAX_DEPTH);
    assert_int_equal(d.limits.bulk, PTRDIFF_MAX - 2);
    leat__resp_init(&d, &(leat__resp_limits){ .bulk = 1 });
    assert_int_equal(d.limits.bulk, 99);
    CHECK((&(leat__resp_limits){ .bulk = UINT64_MAX }),
          TOO_BIG("$9223372036854775806\r\n"));
}

static void nesting_goes_as_deep_as_the_limit_and_no_deeper(void **state)
{
    (void)state;
    char wire[40 * 4 + 8];
    const leat__resp_limits deep = { .depth = LEAT__RESP_MAX_DEPTH };
    for (size_t depth = 1; depth < 40; depth++) {
        size_t n = 0;
        for (size_t i = 0; i < depth; i++, n += 4)
            memcpy(wire + n, i % 2 ? "*1\r\n" : "~1\r\n", 4);
        memcpy(wire + n, "$0\r\n\r\n", 6);
        outcome o = decode_whole(&deep, wire, n + 6);
        assert_int_equal(o.state, depth <= LEAT__RESP_MAX_DEPTH
                                      ? LEAT__RESP_DONE
                                      : LEAT__RESP_BAD);
        outcome_release(&o);
        assert_cuts_do_not_matter(&deep, wire, n + 6);
        assert_cuts_do_not_matter(NULL, wire, n + 6);
    }
}

static void replies_that_follow_each_other_are_told_apart(void **state)
{
    (void)state;
    static const char wire[] = "+OK\r\n$1\r\na\r\n*1\r\n:1\r\n:2\r\n";
    static const size_t lengths[] = { 5, 7, 8, 4 };
    leat__resp d;
    const char *p = wire;
    leat__resp_init(&d, NULL);
    for (size_t i = 0; i < 4; i++) {
        size_t used = 0, left = sizeof wire - 1 - (size_t)(p - wire);
        assert_int_equal(leat__resp_decode(&d, p, left, &used, NULL),
                         LEAT__RESP_DONE);
        assert_int_equal(used, lengths[i]);
        leat__resp_reset(&d);
        p += used;
    }
    leat__resp_release(&d);
}

static void a_reset_forgets_what_was_open(void **state)
{
    (void)state;
    leat__resp d;
    size_t used = 0;
    leat__resp_init(&d, NULL);
    assert_int_equal(leat__resp_decode(&d, "|1\r\n*1\r\n?", 9, &used, NULL),
                     LEAT__RESP_BAD);
    leat__resp_reset(&d);
    assert_int_equal(
        leat__resp_decode(&d, "*1\r\n*1\r\n$1\r\na\r\n", 15, &used, NULL),
        LEAT__RESP_DONE);
    assert_int_equal(used, 15);
    assert_int_equal(d.nodes[0].span, 3);
    leat__resp_release(&d);
}

static void a_refusal_says_where_and_why(void **state)
{
    (void)state;
    leat__resp d;
    leat_error err;
    size_t used;
    leat__resp_init(&d, NULL);
    assert_int_equal(leat__resp_decode(&d, "*1\r\n$?\r\n", 8, &used, &err),
                     LEAT__RESP_BAD);
    assert_string_equal(err.msg, "reply refused at byte 4: streamed values "
                                 "are not supported");
    assert_int_equal(leat__resp_decode(&d, "*1\r\n$?\r\n", 8, &used, NULL),
                     LEAT__RESP_BAD);
    leat__resp_release(&d);
}

/* ---- memory ----------------------------------------------------------- */

static struct {
    leat_system sys;
    size_t fail_at; /* the call that fails, from 1; 0: none */
    size_t calls;
    size_t asked; /* the largest size asked for           */
    long live;    /* blocks                               */
} heap;

static void *counted_alloc(void *arg, void *old, size_t size)
{
    (void)arg;
    if (size == 0) {
        heap.live--;
        free(old);
        return NULL;
    }
    if (++heap.calls == heap.fail_at)
        return NULL;
    if (size > heap.asked)
        heap.asked = size;
    heap.live += old == NULL;
    return realloc(old, size);
}

static int heap_begin(void **state)
{
    (void)state;
    memset(&heap, 0, sizeof heap);
    heap.sys = *leat_system_default();
    heap.sys.alloc = counted_alloc;
    leat_system_set(&heap.sys);
    return 0;
}

static int heap_end(void **state)
{
    (void)state;
    leat_system_set(NULL);
    return heap.live != 0;
}

static void an_announced_length_costs_no_memory(void **state)
{
    (void)state;
    static const char *const wires[] = { "*1000000\r\n", "$60000000\r\n",
                                         "%500000\r\n",
                                         "*9\r\n*9999\r\n~9\r\n=9999999\r\n" };
    for (size_t i = 0; i < 4; i++) {
        leat__resp d;
        size_t used;
        leat__resp_init(&d, NULL);
        assert_int_equal(
            leat__resp_decode(&d, wires[i], strlen(wires[i]), &used, NULL),
            LEAT__RESP_MORE);
        leat__resp_release(&d);
    }
    assert_true(heap.asked < 64 * 1024);
}

/* An array of n integers. */
static char *ints(uint32_t n, size_t *len)
{
    char *wire = malloc(16 + (size_t)n * 4);
    assert_non_null(wire);
    *len = (size_t)snprintf(wire, 16, "*%u\r\n", n);
    for (uint32_t i = 0; i < n; i++, *len += 4)
        memcpy(wire + *len, ":1\r\n", 4);
    return wire;
}

static void a_large_reply_does_not_keep_its_memory_for_ever(void **state)
{
    (void)state;
    leat__resp d;
    size_t len, used;
    char *wire = ints(70000, &len);
    leat__resp_init(&d, NULL);
    assert_int_equal(leat__resp_decode(&d, wire, len, &used, NULL),
                     LEAT__RESP_DONE);
    assert_int_equal(d.nodes[0].span, 70001);
    leat__resp_reset(&d);
    assert_true(d.cap > 70000); /* the next may be as large */
    assert_int_equal(leat__resp_decode(&d, "+OK\r\n", 5, &used, NULL),
                     LEAT__RESP_DONE);
    leat__resp_reset(&d);
    assert_int_equal(d.cap, 0);
    leat__resp_release(&d);
    free(wire);
}

static void a_steady_state_allocates_nothing(void **state)
{
    (void)state;
    leat__resp d;
    size_t len, used;
    char *wire = ints(100, &len);
    leat__resp_init(&d, NULL);
    for (int i = 0; i < 10; i++) {
        if (i == 1)
            heap.calls = 0;
        assert_int_equal(leat__resp_decode(&d, wire, len, &used, NULL),
                         LEAT__RESP_DONE);
        leat__resp_reset(&d);
    }
    assert_int_equal(heap.calls, 0);
    leat__resp_release(&d);
    free(wire);
}

/* The n-th allocation fails, for every n; what failed can be done again, both
 * from the beginning and from where it stopped. */
static void a_failed_allocation_is_reported_and_survived(void **state)
{
    (void)state;
    size_t len, used, fails = 0;
    char *wire = ints(100, &len);
    for (size_t n = 1;; n++) {
        leat__resp d;
        leat_error err = { 0 };
        leat__resp_init(&d, NULL);
        heap.calls = 0;
        heap.fail_at = n;
        leat__resp_state st = leat__resp_decode(&d, wire, len, &used, &err);
        heap.fail_at = 0;
        if (st == LEAT__RESP_BAD) {
            assert_int_equal(err.code, LEAT_ENOMEM);
            if (n % 2)
                leat__resp_reset(&d);
            st = leat__resp_decode(&d, wire, len, &used, NULL);
            fails++;
        }
        assert_int_equal(st, LEAT__RESP_DONE);
        assert_int_equal(d.count, 101);
        leat__resp_release(&d);
        if (heap.calls < n)
            break;
    }
    assert_int_equal(fails, 4); /* 16, 32, 64, 128 nodes */
    free(wire);
}

static void lack_of_memory_before_a_line_does_not_lose_its_end(void **state)
{
    (void)state;
    leat__resp d;
    leat_error err;
    size_t used;
    leat__resp_init(&d, NULL);
    heap.fail_at = 1;
    assert_int_equal(leat__resp_decode(&d, "+OK\r\n+OK", 8, &used, &err),
                     LEAT__RESP_BAD);
    assert_int_equal(leat__resp_decode(&d, "+OK\r\n+OK", 8, &used, &err),
                     LEAT__RESP_DONE);
    assert_int_equal(used, 5);
    leat__resp_release(&d);
}

#define TEST(f)      cmocka_unit_test(f)
#define HEAP_TEST(f) cmocka_unit_test_setup_teardown(f, heap_begin, heap_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_resp2_type_is_decoded),
        TEST(every_resp3_type_is_decoded),
        TEST(attributes_are_thrown_away_wherever_they_stand),
        TEST(what_is_not_resp_is_refused),
        TEST(what_is_not_a_double_is_refused),
        TEST(a_double_does_not_depend_on_the_locale),
        TEST(streamed_values_are_refused_as_not_supported),
        TEST(limits_are_kept_to_the_last_byte),
        TEST(limits_beyond_what_can_be_are_cut),
        TEST(nesting_goes_as_deep_as_the_limit_and_no_deeper),
        TEST(replies_that_follow_each_other_are_told_apart),
        TEST(a_reset_forgets_what_was_open),
        TEST(a_refusal_says_where_and_why),
        HEAP_TEST(an_announced_length_costs_no_memory),
        HEAP_TEST(a_large_reply_does_not_keep_its_memory_for_ever),
        HEAP_TEST(a_steady_state_allocates_nothing),
        HEAP_TEST(a_failed_allocation_is_reported_and_survived),
        HEAP_TEST(lack_of_memory_before_a_line_does_not_lose_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
