/* Which arguments are keys, and that they share a slot. */
#include "redis/keys.h"
#include "base/crc16.h"
#include "support/leat.h"

#include <ctype.h>

enum { WORDS = 16 };

static size_t split(char *text, leat_bytes *out)
{
    size_t n = 0;
    for (char *w; (w = strsep(&text, " ")) != NULL && n < WORDS;)
        out[n++] = leat_str(w);
    return n;
}

/* The keys of a command, with blanks between them. */
static const char *keys_of(const char *command)
{
    static char out[256];
    char text[256];
    leat_bytes argv[WORDS];
    snprintf(text, sizeof text, "%s", command);
    size_t n = split(text, argv), at = 0;
    leat__keys k = leat__keys_of(argv, n);
    out[0] = 0;
    if (k.also)
        at += (size_t)snprintf(out, sizeof out, "%s ",
                               (const char *)argv[k.also].p);
    for (size_t i = k.first; i < k.end; i += k.step)
        at += (size_t)snprintf(out + at, sizeof out - at, "%s ",
                               (const char *)argv[i].p);
    if (at)
        out[at - 1] = 0;
    return out;
}

static void the_first_argument_is_the_key_of_most_commands(void **state)
{
    (void)state;
    assert_string_equal(keys_of("GET a"), "a");
    assert_string_equal(keys_of("set a b"), "a");
    assert_string_equal(keys_of("XADD log * f v"), "log");
    assert_string_equal(keys_of("SOMETHING.NEW a b c"), "a");
    assert_string_equal(keys_of("GET"), "");
    assert_string_equal(keys_of(""), "");
}

static void commands_without_keys_have_none(void **state)
{
    (void)state;
    static const char *const none[] = {
        "PING",           "INFO server",
        "CLUSTER SLOTS",  "WAIT 1 2",
        "PUBLISH c m",    "SUBSCRIBE c",
        "CONFIG GET x",   "CLIENT ID",
        "SCRIPT LOAD x",  "TIME",
        "COMMAND INFO x", "DBSIZE",
        "HELLO 3",        "AUTH x",
        "SELECT 0",       "ROLE",
        "ECHO x",         "WAITAOF 1 1 1",
        "ASKING",         "UNWATCH",
        "EVAL x 0 a",     "FCALL f 0 a",
        "XINFO HELP",     "ACL LIST",
        "SCAN 0",         "KEYS *",
        "MULTI",          "EXEC",
        "FLUSHALL",       "PSUBSCRIBE a",
        "MEMORY DOCTOR",  "QUIT",
        "EVAL x -1 a",    "EVALSHA x many a",
        "XREAD COUNT 1",  "RESET",
    };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (*keys_of(none[i]))
            fail_msg("%s: %s", none[i], keys_of(none[i]));
}

static void commands_with_several_keys_name_them_all(void **state)
{
    (void)state;
    static const char *const both[][2] = {
        { "MGET a b c", "a b c" },
        { "del a b", "a b" },
        { "UNLINK a b", "a b" },
        { "EXISTS a b", "a b" },
        { "TOUCH a b", "a b" },
        { "WATCH a b", "a b" },
        { "MSET a 1 b 2", "a b" },
        { "MSETNX a 1 b 2", "a b" },
        { "RENAME a b", "a b" },
        { "RENAMENX a b", "a b" },
        { "COPY a b REPLACE", "a b" },
        { "SMOVE a b m", "a b" },
        { "LMOVE a b LEFT RIGHT", "a b" },
        { "BLMOVE a b LEFT RIGHT 0", "a b" },
        { "RPOPLPUSH a b", "a b" },
        { "BRPOPLPUSH a b 0", "a b" },
        { "BLPOP a b 0", "a b" },
        { "BRPOP a b 0", "a b" },
        { "BZPOPMIN a b 0", "a b" },
        { "BZPOPMAX a 0", "a" },
        { "BITOP AND d a b", "d a b" },
        { "PFMERGE d a", "d a" },
        { "SDIFFSTORE d a b", "d a b" },
        { "SUNION a b", "a b" },
        { "ZUNIONSTORE d 2 a b WEIGHTS 1 2", "d a b" },
        { "ZINTERSTORE d 1 a", "d a" },
        { "ZDIFFSTORE d 1 a", "d a" },
        { "ZUNION 2 a b WITHSCORES", "a b" },
        { "ZINTERCARD 2 a b LIMIT 1", "a b" },
        { "SINTERCARD 2 a b", "a b" },
        { "LMPOP 2 a b LEFT", "a b" },
        { "BLMPOP 0 2 a b LEFT", "a b" },
        { "ZMPOP 1 a MIN", "a" },
        { "BZMPOP 0 1 a MIN", "a" },
        { "ZRANGESTORE d a 0 1", "d a" },
        { "GEOSEARCHSTORE d a x", "d a" },
        { "LCS a b LEN", "a b" },
        { "EVAL script 2 a b arg", "a b" },
        { "EVAL_RO script 1 a arg", "a" },
        { "EVALSHA sha 1 a arg", "a" },
        { "evalsha_ro sha 1 a", "a" },
        { "FCALL f 2 a b c", "a b" },
        { "FCALL_RO f 1 a", "a" },
        { "EVAL script 9 a b", "a b" },
        { "XGROUP CREATE a g $", "a" },
        { "XINFO STREAM a", "a" },
        { "OBJECT ENCODING a", "a" },
        { "MEMORY USAGE a", "a" },
        { "XREAD COUNT 2 BLOCK 0 STREAMS a b 0 0", "a b" },
        { "XREAD streams a $", "a" },
        { "XREADGROUP GROUP g c COUNT 1 STREAMS a b > >", "a b" },
        { "XREADGROUP GROUP STREAMS STREAMS STREAMS a >", "a" },
        { "MIGRATE host 1 a 0 1", "a" },
    };
    for (size_t i = 0; i < sizeof both / sizeof *both; i++)
        if (strcmp(keys_of(both[i][0]), both[i][1]) != 0)
            fail_msg("%s: %s", both[i][0], keys_of(both[i][0]));
}

static void a_name_with_a_zero_in_it_is_another_name(void **state)
{
    (void)state;
    leat_bytes argv[] = { leat_mem("PING\0x", 6), leat_str("a") };
    assert_int_equal(leat__keys_of(argv, 2).first, 1);
    argv[0] = leat_mem("PIN", 3);
    assert_int_equal(leat__keys_of(argv, 2).first, 1);
}

static void keys_must_share_a_slot_and_are_named_if_not(void **state)
{
    (void)state;
    leat_error e;
    leat_bytes key;
    int slot;
    must(leat__keys_slot(
        LEAT_ARGS(leat_str("MGET"), leat_str("{x}a"), leat_str("{x}b")), &slot,
        &key, err));
    assert_int_equal(slot, leat__crc16_slot(leat_str("x")));
    assert_true(leat_bytes_eq(key, leat_str("{x}a")));
    must(leat__keys_slot(LEAT_ARGS(leat_str("PING")), &slot, &key, err));
    assert_int_equal(slot, -1);
    assert_int_equal(key.n, 0);

    assert_code(
        leat__keys_slot(LEAT_ARGS(leat_str("ZUNIONSTORE"), leat_str("d\n"),
                                  leat_str("1"), leat_str("foo")),
                        &slot, &key, &e),
        LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "'d\\x0a' and 'foo'"));
    assert_non_null(strstr(e.msg, "12182"));
    assert_non_null(strstr(e.msg, "{tag}"));
    assert_false(e.retriable);
}

static void long_keys_are_cut_in_the_message(void **state)
{
    (void)state;
    char a[600];
    int slot;
    leat_error e;
    memset(a, 1, sizeof a);
    leat_bytes keys[] = { leat_mem(a, sizeof a), leat_str("b") };
    assert_code(leat__keys_same(keys, 2, &slot, &e), LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "{tag}"));
    must(leat__keys_same(keys, 0, &slot, err));
    assert_int_equal(slot, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_argument_is_the_key_of_most_commands),
        cmocka_unit_test(commands_without_keys_have_none),
        cmocka_unit_test(commands_with_several_keys_name_them_all),
        cmocka_unit_test(a_name_with_a_zero_in_it_is_another_name),
        cmocka_unit_test(keys_must_share_a_slot_and_are_named_if_not),
        cmocka_unit_test(long_keys_are_cut_in_the_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
