/* topic_retry.c: messages that fail, their next try, and dead letters. */
#include "topic_help.h"

#include <stdlib.h>

static const leat_retry quick = { .max_attempts = 3,
                                  .backoff = LEAT_BACKOFF_FIXED,
                                  .delay_ms = 5,
                                  .no_jitter = true };

static leat_source *open_quick(leat_topic *t, const char *group)
{
    return source_of(
        t, group,
        &(leat_topic_source_opts){ .order = LEAT_ORDER_NONE, .retry = quick });
}

/* The number that a command answers. */
static int64_t ask(const char *command, const char *key)
{
    leat_reply *r = NULL;
    must(leat_client_call(client, LEAT_ARGS(leat_str(command), leat_str(key)),
                          NULL, &r, err));
    int64_t n = leat_reply_int(r);
    leat_reply_free(r);
    return n;
}

/* The dead letters of a partition; free the reply. */
static leat_reply *dead_letters(const char *topic, int partition)
{
    leat_reply *r = NULL;
    char key[128];
    snprintf(key, sizeof key, "leat:{%s/%d}:dlq", topic, partition);
    must(leat_client_call(client,
                          LEAT_ARGS(leat_str("XRANGE"), leat_str(key),
                                    leat_str("-"), leat_str("+")),
                          NULL, &r, err));
    return r;
}

/* A field of the i-th. */
static leat_bytes field(const leat_reply *letters, size_t i, const char *name)
{
    const leat_reply *list = leat_reply_at(leat_reply_at(letters, i), 1);
    for (size_t k = 0; list && k + 1 < leat_reply_len(list); k += 2)
        if (leat_bytes_eq(leat_reply_bytes(leat_reply_at(list, k)),
                          leat_str(name)))
            return leat_reply_bytes(leat_reply_at(list, k + 1));
    fail_msg("letter %zu has no field %s", i, name);
    return leat_mem("", 0);
}

#define assert_field(r, i, name, text)                                         \
    do {                                                                       \
        leat_bytes f_ = field(r, i, name);                                     \
        if (!leat_bytes_eq(f_, leat_str(text)))                                \
            fail_msg("%s is '%.*s', not '%s'", name, (int)f_.n,                \
                     (const char *)f_.p, text);                                \
    } while (0)

static void fail_one(leat_delivery *d, const char *why)
{
    assert_int_equal(leat_delivery_fail(d, why), LEAT_OK);
}

static void nothing_is_left(leat_source *s)
{
    leat_topic_source_stats st;
    must(leat_source_flush(s, LONG_MS, err));
    leat_topic_source_stats_get(s, &st);
    assert_int_equal(ask("HLEN", "leat:{orders/0}:kept:g"), 0);
    assert_int_equal(ask("ZCARD", "leat:{orders/0}:due:g"), 0);
    assert_int_equal(ask("ZCARD", "leat:{orders/0}:lane:g"), 0);
}

/* ---- retries ---------------------------------------------------------- */

static void what_fails_comes_again_with_its_attempts_counted(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add("orders", 0, "x");
    leat_source *s = open_quick(t, "g");
    for (uint32_t i = 1; i <= 2; i++) {
        leat_delivery *d = next_of(s);
        assert_body(d, "x");
        assert_int_equal(leat_delivery_attempt(d), i);
        fail_one(d, "not yet");
    }
    leat_delivery *d = next_of(s);
    assert_int_equal(leat_delivery_attempt(d), 3);
    ack(d);
    nothing_is_left(s);
    assert_int_equal(ask("XLEN", "leat:{orders/0}:dlq"), 0);
    leat_topic_source_stats st;
    leat_topic_source_stats_get(s, &st);
    assert_int_equal(st.retries, 2);
    assert_int_equal(st.dead, 0);
    leat_source_close(s);
    leat_topic_close(t);
}

static void at_the_limit_it_is_a_dead_letter(void **state)
{
    static const char *const why[] = { "first", "second", "third" };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_keyed("orders", 0, "k", "x");
    leat_source *s = open_quick(t, "g");
    for (int i = 0; i < 3; i++)
        fail_one(next_of(s), why[i]);
    nothing_is_left(s);
    leat_reply *r = dead_letters("orders", 0);
    assert_int_equal(leat_reply_len(r), 1);
    assert_field(r, 0, "g", "g");
    assert_field(r, 0, "n", "3");
    assert_field(r, 0, "f", "3");
    assert_field(r, 0, "fe", "first");
    assert_field(r, 0, "le", "third");
    leat_reply_free(r);
    nothing_of(s, 50);
    leat_source_close(s);
    leat_topic_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(what_fails_comes_again_with_its_attempts_counted),
        topic_test(at_the_limit_it_is_a_dead_letter),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
