/* sentinel.c: what is read from a sentinel's replies, and whom to follow. */
#include "redis/resp.h"
#include "redis/sentinel_reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* ---- replies ---------------------------------------------------------- */

static leat__resp resp;

/* One whole reply, valid until the next. */
static const leat_reply *reply(const char *text)
{
    size_t used = 0;
    leat__resp_release(&resp);
    leat__resp_init(&resp, NULL);
    assert_int_equal(leat__resp_decode(&resp, text, strlen(text), &used, NULL),
                     LEAT__RESP_DONE);
    return resp.nodes;
}

static int drop(void **state)
{
    (void)state;
    leat__resp_release(&resp);
    return 0;
}

static void an_address_is_a_host_and_a_port(void **state)
{
    (void)state;
    leat__sentinel_answer a = { .epoch = 7 };
    assert_true(leat__sentinel_read_address(
        reply("*2\r\n$3\r\n::1\r\n$4\r\n6379\r\n"), &a));
    assert_int_equal(a.said, LEAT__SENTINEL_NAMED);
    assert_string_equal(a.at.host, "::1");
    assert_int_equal(a.at.port, 6379);
    assert_int_equal(a.epoch, 7);
}

static void nil_is_nobody(void **state)
{
    (void)state;
    leat__sentinel_answer a = { 0 };
    assert_true(leat__sentinel_read_address(reply("*-1\r\n"), &a));
    assert_int_equal(a.said, LEAT__SENTINEL_NOBODY);
    assert_true(leat__sentinel_read_address(reply("_\r\n"), &a));
    assert_int_equal(a.said, LEAT__SENTINEL_NOBODY);
}

static void anything_else_is_no_address(void **state)
{
    static const char *const bad[] = {
        "+OK\r\n",
        "*0\r\n",
        "*1\r\n$1\r\nh\r\n",
        "*2\r\n$0\r\n\r\n$1\r\n1\r\n",
        "*2\r\n$1\r\nh\r\n$1\r\n0\r\n",
        "*2\r\n$1\r\nh\r\n$2\r\n-1\r\n",
        "*2\r\n$1\r\nh\r\n$5\r\n65536\r\n",
        "*2\r\n$1\r\nh\r\n$2\r\n1x\r\n",
        "*2\r\n$2\r\nh\n\r\n$1\r\n1\r\n",
        "*2\r\n$2\r\nh\xc3\r\n$1\r\n1\r\n",
        "*2\r\n:1\r\n:1\r\n",
        "*3\r\n$1\r\nh\r\n$1\r\n1\r\n$1\r\n1\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        leat__sentinel_answer a = { 0 };
        if (leat__sentinel_read_address(reply(bad[i]), &a))
            fail_msg("'%s' is an address", bad[i]);
        assert_int_equal(a.said, LEAT__SENTINEL_SILENT);
    }
}

static void a_host_of_256_bytes_is_refused(void **state)
{
    (void)state;
    char text[300] = "*2\r\n$256\r\n";
    leat__sentinel_answer a = { 0 };
    size_t n = strlen(text);
    memset(text + n, 'h', 256);
    memcpy(text + n + 256, "\r\n$1\r\n1\r\n", sizeof "\r\n$1\r\n1\r\n");
    assert_false(leat__sentinel_read_address(reply(text), &a));
}

static void the_epoch_is_found_in_maps_and_in_lists(void **state)
{
    (void)state;
    assert_int_equal(leat__sentinel_read_epoch(reply(
                         "%2\r\n$2\r\nip\r\n$1\r\nh\r\n$12\r\nconfig-epoch\r\n"
                         "$2\r\n12\r\n")),
                     12);
    assert_int_equal(leat__sentinel_read_epoch(reply(
                         "*4\r\n$2\r\nip\r\n$1\r\nh\r\n$12\r\nconfig-epoch\r\n"
                         "$1\r\n3\r\n")),
                     3);
    assert_int_equal(leat__sentinel_read_epoch(
                         reply("*3\r\n$1\r\na\r\n$1\r\nb\r\n$12\r\nconfig-"
                               "epoch\r\n")),
                     0);
    assert_int_equal(leat__sentinel_read_epoch(
                         reply("*2\r\n$12\r\nconfig-epoch\r\n$2\r\n-5\r\n")),
                     0);
    assert_int_equal(leat__sentinel_read_epoch(reply("$1\r\n9\r\n")), 0);
    assert_int_equal(leat__sentinel_read_epoch(NULL), 0);
}

#define REPLICA(port, flags, n)                                                \
    "*6\r\n$2\r\nip\r\n$1\r\nh\r\n$4\r\nport\r\n$1\r\n" port                   \
    "\r\n$5\r\nflags\r\n$" n "\r\n" flags "\r\n"

static void replicas_that_are_down_are_left_out(void **state)
{
    (void)state;
    leat_node nodes[4];
    const leat_reply *r = reply(
        "*4\r\n" REPLICA("1", "slave", "5") REPLICA("2", "s_down,slave", "12")
            REPLICA("3", "slave,s_downer", "14") "*1\r\n$2\r\nip\r\n");
    assert_int_equal(leat__sentinel_read_replicas(r, nodes, 4), 2);
    assert_int_equal(nodes[0].port, 1);
    assert_int_equal(nodes[1].port, 3);
    assert_string_equal(nodes[0].host, "h");
    assert_false(nodes[0].master);
    assert_int_equal(leat__sentinel_read_replicas(r, nodes, 1), 2);
    assert_int_equal(leat__sentinel_read_replicas(r, NULL, 0), 2);
    assert_int_equal(leat__sentinel_read_replicas(NULL, nodes, 4), 0);
}

static void a_role_is_the_first_word(void **state)
{
    (void)state;
    assert_int_equal(
        leat__sentinel_read_role(reply("*3\r\n$6\r\nmaster\r\n:1\r\n*0\r\n")),
        LEAT__ROLE_MASTER);
    assert_int_equal(leat__sentinel_read_role(reply("*1\r\n$5\r\nslave\r\n")),
                     LEAT__ROLE_REPLICA);
    assert_int_equal(
        leat__sentinel_read_role(reply("*1\r\n$8\r\nsentinel\r\n")),
        LEAT__ROLE_OTHER);
    assert_int_equal(leat__sentinel_read_role(reply("*0\r\n")),
                     LEAT__ROLE_OTHER);
    assert_int_equal(leat__sentinel_read_role(reply(":1\r\n")),
                     LEAT__ROLE_OTHER);
}

static void an_address_is_printed_as_in_a_URL(void **state)
{
    (void)state;
    char text[LEAT__ADDRESS_TEXT];
    leat__address a;
    leat__address_set(&a, "Redis-1.example", 6379);
    assert_string_equal(leat__address_text(&a, text, sizeof text),
                        "Redis-1.example:6379");
    leat__address b = { "redis-1.EXAMPLE", 6379 };
    assert_true(leat__address_same(&a, &b));
    b.port = 6380;
    assert_false(leat__address_same(&a, &b));
    leat__address_set(&a, "fe80::1", 1);
    assert_string_equal(leat__address_text(&a, text, sizeof text),
                        "[fe80::1]:1");
}

/* ---- whom to follow --------------------------------------------------- */

/* Servers are ports here.  An answer is port and epoch, 0: silent; a negative
 * port was tried. */
struct said {
    int port, epoch;
};

static size_t choose(struct said known, size_t sentinels, size_t n,
                     const struct said *said)
{
    leat__sentinel_known k = {
        known.port != 0, { "h", known.port }, known.epoch, 1
    };
    leat__sentinel_answer a[8] = { 0 };
    for (size_t i = 0; i < n; i++) {
        int port = said[i].port;
        a[i].said = port ? LEAT__SENTINEL_NAMED : LEAT__SENTINEL_SILENT;
        a[i].tried = port < 0;
        a[i].at = (leat__address){ "h", port < 0 ? -port : port };
        a[i].epoch = said[i].epoch;
    }
    return leat__sentinel_choose(&k, a, n, sentinels);
}

#define CHOOSE(known_port, known_epoch, sentinels, ...)                        \
    choose((struct said){ known_port, known_epoch }, sentinels,                \
           sizeof((struct said[]){ __VA_ARGS__ }) / sizeof(struct said),       \
           (struct said[]){ __VA_ARGS__ })

static void most_of_those_that_answer_are_followed(void **state)
{
    (void)state;
    assert_int_equal(CHOOSE(0, 0, 3, { 1, 1 }, { 2, 3 }, { 1, 2 }), 0);
    assert_int_equal(CHOOSE(0, 0, 3, { 0, 0 }, { 2, 0 }, { 0, 0 }), 1);
    assert_int_equal(CHOOSE(0, 0, 3, { 0, 0 }, { 0, 0 }, { 0, 0 }), 3);
    assert_int_equal(CHOOSE(0, 0, 1, { 1, 0 }), 0);
    assert_int_equal(CHOOSE(0, 0, 5, { 1, 1 }, { 1, 1 }, { 1, 1 }), 0);
}

static void one_alone_moves_nobody_whatever_its_epoch(void **state)
{
    (void)state;
    assert_int_equal(CHOOSE(0, 0, 3, { 9, 99 }, { 1, 1 }, { 1, 1 }), 1);
    assert_int_equal(CHOOSE(1, 1, 3, { 9, 99 }, { 1, 1 }, { 1, 1 }), 1);
    assert_int_equal(CHOOSE(1, 1, 3, { 9, 99 }), 1);
    /* nor the epoch: the next failover would look old */
    assert_int_equal(CHOOSE(1, 1, 3, { 1, 99 }, { 1, 2 }, { 1, 2 }), 1);
}

static void without_agreement_nobody_is_followed(void **state)
{
    (void)state;
    assert_int_equal(CHOOSE(0, 0, 3, { 1, 1 }, { 2, 3 }, { 3, 2 }), 3);
    assert_int_equal(CHOOSE(0, 0, 2, { 1, 1 }, { 2, 3 }), 2);
    assert_int_equal(CHOOSE(1, 1, 2, { 1, 1 }, { 2, 3 }), 2);
    assert_int_equal(CHOOSE(0, 0, 5, { 1, 1 }, { 1, 1 }), 2);
}

static void the_known_master_stays_among_equals(void **state)
{
    (void)state;
    assert_int_equal(CHOOSE(2, 4, 2, { 1, 4 }, { 2, 4 }), 1);
    assert_int_equal(CHOOSE(2, 4, 2, { 1, 4 }, { 2, 3 }), 1);
    assert_int_equal(CHOOSE(2, 4, 3, { 1, 3 }, { 3, 3 }, { 2, 1 }), 2);
}

static void a_newer_one_replaces_it(void **state)
{
    (void)state;
    assert_int_equal(CHOOSE(2, 4, 3, { 2, 4 }, { 1, 5 }, { 1, 5 }), 1);
    assert_int_equal(CHOOSE(2, 4, 3, { 1, 5 }, { 1, 5 }), 0);
    assert_int_equal(CHOOSE(2, 4, 3, { 1, 5 }, { 0, 0 }, { 0, 0 }), 0);
}

static void an_older_one_needs_most_sentinels_and_no_contradiction(void **state)
{
    (void)state;
    assert_int_equal(CHOOSE(2, 4, 3, { 1, 3 }, { 0, 0 }, { 0, 0 }), 3);
    assert_int_equal(CHOOSE(2, 4, 3, { 1, 3 }, { 1, 3 }), 0);
    assert_int_equal(CHOOSE(2, 4, 3, { 1, 3 }, { 1, 3 }, { -2, 4 }), 3);
    assert_int_equal(CHOOSE(2, 4, 1, { 1, 4 }), 0);
    assert_int_equal(CHOOSE(2, 4, 2, { 1, 4 }, { 0, 0 }), 2);
}

static void what_was_tried_is_not_followed_again(void **state)
{
    (void)state;
    assert_int_equal(CHOOSE(0, 0, 3, { -1, 9 }, { -1, 9 }, { 2, 3 }), 3);
    assert_int_equal(CHOOSE(2, 4, 2, { -1, 9 }, { 2, 4 }), 1);
    assert_int_equal(CHOOSE(2, 4, 3, { -2, 4 }, { -2, 4 }, { -2, 4 }), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_a_host_and_a_port),
        cmocka_unit_test(nil_is_nobody),
        cmocka_unit_test(anything_else_is_no_address),
        cmocka_unit_test(a_host_of_256_bytes_is_refused),
        cmocka_unit_test(the_epoch_is_found_in_maps_and_in_lists),
        cmocka_unit_test(replicas_that_are_down_are_left_out),
        cmocka_unit_test(a_role_is_the_first_word),
        cmocka_unit_test(an_address_is_printed_as_in_a_URL),
        cmocka_unit_test(most_of_those_that_answer_are_followed),
        cmocka_unit_test(one_alone_moves_nobody_whatever_its_epoch),
        cmocka_unit_test(without_agreement_nobody_is_followed),
        cmocka_unit_test(the_known_master_stays_among_equals),
        cmocka_unit_test(a_newer_one_replaces_it),
        cmocka_unit_test(
            an_older_one_needs_most_sentinels_and_no_contradiction),
        cmocka_unit_test(what_was_tried_is_not_followed_again),
    };
    return cmocka_run_group_tests_name("sentinel", tests, NULL, drop);
}
