/* resp_reply.c: reading replies, copying them, and writing commands. */
#include "resp_help.h"

#include <leat/system.h>

#include <stdio.h>

static leat__resp decoder;

static const leat_reply *reply(const char *wire)
{
    size_t used;
    leat__resp_release(&decoder);
    leat__resp_init(&decoder, NULL);
    assert_int_equal(
        leat__resp_decode(&decoder, wire, strlen(wire), &used, NULL),
        LEAT__RESP_DONE);
    return decoder.nodes;
}

static int release(void **state)
{
    (void)state;
    leat__resp_release(&decoder);
    return 0;
}

static void null_reads_as_a_null_reply(void **state)
{
    (void)state;
    assert_int_equal(leat_reply_kind(NULL), LEAT_REPLY_NIL);
    assert_int_equal(leat_reply_int(NULL), 0);
    assert_true(leat_reply_double(NULL) == 0.0);
    assert_int_equal(leat_reply_bytes(NULL).n, 0);
    assert_non_null(leat_reply_bytes(NULL).p);
    assert_int_equal(leat_reply_len(NULL), 0);
    leat_reply_iter none = leat_reply_each(NULL);
    assert_null(leat_reply_step(&none));
    assert_null(leat_reply_at(NULL, 0));
    leat_reply_free(NULL);
}

static void an_integer_is_read_from_numbers_and_from_decimal_text(void **state)
{
    (void)state;
    static const struct {
        const char *wire;
        int64_t i;
    } v[] = {
        { ":-5\r\n", -5 },
        { "#t\r\n", 1 },
        { "$2\r\n12\r\n", 12 },
        { "+-12\r\n", -12 },
        { "+007\r\n", 7 },
        { "$19\r\n9223372036854775807\r\n", INT64_MAX },
        { "$20\r\n-9223372036854775808\r\n", INT64_MIN },
        { "$19\r\n9223372036854775808\r\n", 0 },
        { "$20\r\n-9223372036854775809\r\n", 0 },
        { "$20\r\n99999999999999999999\r\n", 0 },
        { "$0\r\n\r\n", 0 },
        { "+-\r\n", 0 },
        { "+1x\r\n", 0 },
        { "+1 \r\n", 0 },
        { "+1.5\r\n", 0 },
        { ",1.5\r\n", 0 },
        { "(12\r\n", 0 },
        { "-12\r\n", 0 },
        { "*1\r\n:1\r\n", 0 },
    };
    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        assert_int_equal(leat_reply_int(reply(v[i].wire)), v[i].i);
}

static void a_double_is_read_from_numbers_and_from_text(void **state)
{
    (void)state;
    static const struct {
        const char *wire;
        double d;
    } v[] = {
        { ",1.5\r\n", 1.5 }, { ":-5\r\n", -5 },        { "#t\r\n", 1 },
        { "+2.5\r\n", 2.5 }, { "$3\r\n1e2\r\n", 100 }, { "$1\r\nx\r\n", 0 },
        { "$0\r\n\r\n", 0 }, { "*1\r\n:1\r\n", 0 },    { "-1\r\n", 0 },
    };
    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        assert_true(leat_reply_double(reply(v[i].wire)) == v[i].d);
}

static void bytes_are_what_has_text(void **state)
{
    (void)state;
    static const char *const with[] = { "+ab\r\n", "-ab\r\n", "$2\r\nab\r\n",
                                        "!2\r\nab\r\n", "=6\r\ntxt:ab\r\n" };
    static const char *const without[] = { ":1\r\n", "_\r\n", "#t\r\n",
                                           ",1\r\n", "*1\r\n+ab\r\n" };
    for (size_t i = 0; i < 5; i++) {
        leat_bytes b = leat_reply_bytes(reply(with[i]));
        assert_true(leat_bytes_eq(b, leat_str("ab")));
        assert_int_equal(leat_reply_bytes(reply(without[i])).n, 0);
    }
    leat_bytes b = leat_reply_bytes(reply("(12\r\n"));
    assert_true(leat_bytes_eq(b, leat_str("12")));
}

static void elements_are_walked_over_what_is_inside_them(void **state)
{
    (void)state;
    const leat_reply *r = reply("*3\r\n*2\r\n:1\r\n:2\r\n*0\r\n:3\r\n");
    assert_int_equal(leat_reply_len(r), 3);
    assert_int_equal(leat_reply_len(leat_reply_at(r, 1)), 0);
    assert_null(leat_reply_at(leat_reply_at(r, 1), 0));
    assert_int_equal(leat_reply_int(leat_reply_at(r, 2)), 3);
    assert_null(leat_reply_at(r, 3));
    assert_null(leat_reply_at(leat_reply_at(r, 2), 0));
}

static void a_walk_ends_at_the_last_element(void **state)
{
    (void)state;
    const leat_reply *r = reply("*3\r\n*2\r\n:1\r\n:2\r\n*0\r\n:3\r\n");
    leat_reply_iter it = leat_reply_each(r);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(it.left, 3 - i);
        assert_ptr_equal(leat_reply_step(&it), leat_reply_at(r, i));
    }
    for (int i = 0; i < 3; i++)
        assert_null(leat_reply_step(&it));
    leat_reply_iter leaf = leat_reply_each(leat_reply_at(r, 2));
    assert_null(leat_reply_step(&leaf));
    leat_reply_iter empty = leat_reply_each(leat_reply_at(r, 1));
    assert_null(leat_reply_step(&empty));
}

static const char tree[] = "*5\r\n$2\r\nab\r\n*2\r\n+cd\r\n:7\r\n-ef\r\n"
                           "(12\r\n$0\r\n\r\n";

static void a_copy_outlives_the_bytes_it_came_from(void **state)
{
    (void)state;
    char *wire = malloc(sizeof tree);
    assert_non_null(wire);
    memcpy(wire, tree, sizeof tree);
    leat_reply *copy = leat__reply_copy(reply(wire), NULL);
    assert_non_null(copy);
    memset(wire, 0xA5, sizeof tree);
    free(wire);
    leat__resp_release(&decoder);

    leat__buf text = { 0 };
    dump(&text, copy);
    assert_int_equal(leat__buf_add(&text, "", 1, NULL), LEAT_OK);
    assert_string_equal(text.p, "[$2:ab [+2:cd 7] -2:ef (2:12 $0:]");
    leat__buf_release(&text);

    /* A part of a copy is a view again until it is copied itself. */
    leat_reply *part = leat__reply_copy(leat_reply_at(copy, 1), NULL);
    assert_non_null(part);
    leat_reply_free((leat_reply *)leat_reply_at(copy, 1));
    leat_reply_free(copy);
    assert_int_equal(leat_reply_int(leat_reply_at(part, 1)), 7);
    leat_reply_free(part);
}

static void *no_memory(void *arg, void *old, size_t size)
{
    (void)arg;
    if (size == 0)
        free(old);
    return NULL;
}

static void a_copy_without_memory_is_null(void **state)
{
    (void)state;
    leat_error err;
    const leat_reply *r = reply(tree);
    leat_system sys = *leat_system_default();
    sys.alloc = no_memory;
    leat_system_set(&sys);
    leat_reply *copy = leat__reply_copy(r, &err);
    leat_system_set(NULL);
    assert_null(copy);
    assert_int_equal(err.code, LEAT_ENOMEM);
}

/* ---- commands --------------------------------------------------------- */

static void a_command_is_an_array_of_bulk_strings(void **state)
{
    (void)state;
    const leat_bytes argv[] = { leat_str("XADD"), leat_mem(NULL, 0),
                                leat_mem("a\0\r\n", 4) };
    static const char wire[] =
        "*3\r\n$4\r\nXADD\r\n$0\r\n\r\n$4\r\na\0\r\n\r\n";
    char out[64];
    assert_int_equal(leat__resp_command_size(argv, 3), sizeof wire - 1);
    assert_ptr_equal(leat__resp_command(out, argv, 3), out + sizeof wire - 1);
    assert_memory_equal(out, wire, sizeof wire - 1);
    assert_int_equal(leat__resp_command_size(NULL, 0), 4);
    assert_ptr_equal(leat__resp_command(out, NULL, 0), out + 4);
    assert_memory_equal(out, "*0\r\n", 4);
}

/* Every length up to a few thousand, and around each power of ten: nothing is
 * written before or behind the room, and the decoder reads back the same. */
static void every_length_is_written_exactly(void **state)
{
    (void)state;
    enum { MOST = 1100 };
    static char body[MOST], out[MOST + 64], command[MOST + 64];
    for (size_t i = 0; i < MOST; i++)
        body[i] = (char)(i * 7);
    for (size_t n = 0; n < MOST; n++) {
        memset(out, '#', sizeof out);
        leat_bytes b = leat_mem(body, n);
        size_t room = leat__resp_command_size(&b, 1) - 4, used = 0;
        assert_ptr_equal(leat__resp_bulk(out + 8, body, n), out + 8 + room);
        assert_memory_equal(out, "########", 8);
        char *end = leat__resp_command(command, &b, 1);
        assert_int_equal(end - command, room + 4);
        assert_memory_equal(command + 4, out + 8, room);
        assert_int_equal(out[8 + room], '#');
        leat__resp_reset(&decoder);
        assert_int_equal(
            leat__resp_decode(&decoder, out + 8, room, &used, NULL),
            LEAT__RESP_DONE);
        assert_int_equal(used, room);
        assert_true(leat_bytes_eq(leat_reply_bytes(decoder.nodes), b));
    }
}

static void every_count_is_written_in_decimal(void **state)
{
    (void)state;
    char out[32], want[32];
    for (size_t n = 1;; n *= 10) {
        for (size_t m = n - 1; m <= n + 1; m++) {
            char *end = leat__resp_array_head(out, m);
            int len = snprintf(want, sizeof want, "*%zu\r\n", m);
            assert_int_equal(end - out, len);
            assert_memory_equal(out, want, (size_t)len);
        }
        if (n > SIZE_MAX / 10)
            break;
    }
    assert_ptr_equal(leat__resp_array_head(out, SIZE_MAX), out + 23);
    assert_memory_equal(out, "*18446744073709551615\r\n", 23);
}

static void a_size_that_does_not_fit_is_said(void **state)
{
    (void)state;
    const leat_bytes huge[] = { leat_mem("", SIZE_MAX / 2),
                                leat_mem("", SIZE_MAX / 2), leat_str("x") };
    assert_int_equal(leat__resp_command_size(huge, 3), SIZE_MAX);
    const leat_bytes edge[] = { leat_mem("", SIZE_MAX / 2 - 100),
                                leat_mem("", 100), leat_mem("", SIZE_MAX) };
    assert_true(leat__resp_command_size(edge, 1) < SIZE_MAX);
    assert_int_equal(leat__resp_command_size(edge, 2), SIZE_MAX);
    assert_int_equal(leat__resp_command_size(edge + 1, 2), SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_reads_as_a_null_reply),
        cmocka_unit_test(an_integer_is_read_from_numbers_and_from_decimal_text),
        cmocka_unit_test(a_double_is_read_from_numbers_and_from_text),
        cmocka_unit_test(bytes_are_what_has_text),
        cmocka_unit_test(elements_are_walked_over_what_is_inside_them),
        cmocka_unit_test(a_walk_ends_at_the_last_element),
        cmocka_unit_test(a_copy_outlives_the_bytes_it_came_from),
        cmocka_unit_test(a_copy_without_memory_is_null),
        cmocka_unit_test(a_command_is_an_array_of_bulk_strings),
        cmocka_unit_test(every_length_is_written_exactly),
        cmocka_unit_test(every_count_is_written_in_decimal),
        cmocka_unit_test(a_size_that_does_not_fit_is_said),
    };
    leat__resp_init(&decoder, NULL);
    return cmocka_run_group_tests(tests, NULL, release);
}
