/*
 * stream_describe.c: which plain streams there are and what they hold, looking
 * at their messages, and removing one.
 */
#include "stream_help.h"
#include "support/allocfail.h"

static leat_stream_info *describe(leat_client *c, const char *name)
{
    leat_error e = { 0 };
    leat_stream_info *s = leat_stream_describe(c, name, &e);
    if (!s)
        fail_msg("%s: %s", leat_code_name(e.code), e.msg);
    return s;
}

/* The names, split by spaces. */
static void assert_names(const leat_stream_names_opts *o, const char *want)
{
    leat_error e = { 0 };
    char text[256] = "";
    leat_names *n = leat_stream_names(client, o, &e);
    if (!n)
        fail_msg("%s", e.msg);
    for (size_t i = 0; i < n->count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s",
                 i ? " " : "", n->name[i]);
    leat_names_free(n);
    assert_string_equal(text, want);
}

/* The lag of the group "g". */
static void assert_lag(leat_client *c, int64_t lag)
{
    leat_stream_info *s = describe(c, "s");
    assert_int_equal(s->groups, 1);
    assert_int_equal(s->group[0].lag, lag);
    leat_stream_info_free(s);
}

/* ---- names ------------------------------------------------------------ */

static void streams_are_listed_and_no_other_key(void **state)
{
    (void)state;
    assert_names(NULL, "");
    redis_do(server, "XADD orders 1-0 f v");
    redis_do(server, "XADD a:b 1-0 f v");
    redis_do(server, "SET text x");
    redis_do(server, "SADD set x");
    must(leat_topic_create(client, "t", NULL, err));
    redis_do(server, "XADD leat:{t/0}:log 1-0 f v");
    assert_names(NULL, "a:b orders");
    assert_names(&(leat_stream_names_opts){ .match = "o*" }, "orders");
    assert_names(&(leat_stream_names_opts){ .all = true },
                 "a:b leat:{t/0}:log orders");
    assert_names(&(leat_stream_names_opts){ .prefix = "a" },
                 "leat:{t/0}:log orders");
}

static void of_many_keys_every_stream_is_found_once(void **state)
{
    (void)state;
    redis_do(server, "EVAL %s 0",
             "for i = 1, 20000 do redis.call('SET', 'k' .. i, 'x') end "
             "for i = 1, 2500 do redis.call('XADD', 's' .. i, '*', 'f', 'v') "
             "end");
    leat_names *n = leat_stream_names(client, NULL, NULL);
    assert_non_null(n);
    assert_int_equal(n->count, 2500);
    assert_string_equal(n->name[0], "s1");
    assert_string_equal(n->name[2499], "s999");
    leat_names_free(n);
}

/* 512 bytes are a name, one more is none; nor is what has a zero in it. */
static void names_that_cannot_be_opened_are_left_out(void **state)
{
    (void)state;
    redis_do(server, "EVAL %s 0",
             "redis.call('XADD', string.rep('x', 512), '1-0', 'f', 'v') "
             "redis.call('XADD', string.rep('y', 513), '1-0', 'f', 'v') "
             "redis.call('XADD', 'z\\0z', '1-0', 'f', 'v')");
    leat_names *n = leat_stream_names(client, NULL, NULL);
    assert_int_equal(n->count, 1);
    assert_int_equal(strlen(n->name[0]), 512);
    leat_stream_info *s = describe(client, n->name[0]);
    assert_int_equal(s->entries, 1);
    leat_stream_info_free(s);
    leat_browse *b = leat_stream_browse(client, n->name[0], NULL, NULL);
    leat_seen seen;
    assert_int_equal(leat_browse_next(b, &seen, 0, NULL), 1);
    leat_browse_close(b);
    must(leat_stream_remove(client, n->name[0], NULL, err));
    leat_names_free(n);
    assert_names(NULL, "");
}

/* ---- one stream ------------------------------------------------------- */

static void a_stream_is_described_as_it_is(void **state)
{
    (void)state;
    for (int i = 1; i <= 5; i++)
        redis_do(server, "XADD s %d-0 f v", i);
    redis_do(server, "XDEL s 1-0");
    leat_stream_info *s = describe(client, "s");
    assert_string_equal(s->name, "s");
    assert_int_equal(s->entries, 4);
    assert_int_equal(s->added, 5);
    assert_int_equal(s->first.ms, 2);
    assert_int_equal(s->last.ms, 5);
    assert_true(s->bytes > 0);
    assert_int_equal(s->groups, 0);
    leat_stream_info_free(s);
    leat_stream_info_free(NULL);
}

static void its_groups_tell_what_is_pending_and_what_is_to_come(void **state)
{
    (void)state;
    for (int i = 1; i <= 5; i++)
        redis_do(server, "XADD s %d-0 f v", i);
    redis_do(server, "XGROUP CREATE s a 0");
    redis_do(server, "XGROUP CREATE s b $");
    redis_do(server, "XREADGROUP GROUP a one COUNT 2 STREAMS s >");
    redis_do(server, "XREADGROUP GROUP a two COUNT 1 STREAMS s >");
    redis_do(server, "XACK s a 1-0");
    leat_stream_info *s = describe(client, "s");
    assert_int_equal(s->groups, 2);
    const leat_stream_group *a = &s->group[0], *b = &s->group[1];
    assert_string_equal(a->name.p, "a");
    assert_int_equal(a->consumers, 2);
    assert_int_equal(a->pending, 2);
    assert_int_equal(a->lag, 2);
    assert_int_equal(a->last.ms, 3);
    assert_string_equal(b->name.p, "b");
    assert_int_equal(b->consumers + b->pending + b->lag, 0);
    leat_stream_info_free(s);
}

/* The old protocol, and a server that never tells a lag: what is certain is
 * said, the rest is unknown. */
static void a_lag_that_nobody_knows_is_unknown(void **state)
{
    (void)state;
    for (int i = 1; i <= 5; i++)
        redis_do(server, "XADD s %d-0 f v", i);
    redis_do(server, "XGROUP CREATE s g 0");
    leat_client *old = open_client(url, &(leat_client_opts){ .resp2 = true });
    assert_lag(old, 5);
    redis_do(server, "XGROUP SETID s g 2-0"); /* how many that is, is lost */
    assert_lag(old, -1);
    assert_lag(client, -1);
    redis_do(server, "XGROUP SETID s g 5-0");
    assert_lag(client, 0);
    redis_do(server, "XGROUP SETID s g 1-0");
    redis_do(server, "XDEL s 1-0 3-0"); /* all that is there is to come */
    assert_lag(client, 3);
    redis_do(server, "XTRIM s MAXLEN 0");
    assert_lag(client, 0);
    leat_client_close(old);
}

static void what_is_no_stream_is_said(void **state)
{
    leat_error e = { 0 };
    (void)state;
    redis_do(server, "SET text x");
    assert_null(leat_stream_describe(client, "none", &e));
    assert_code(e.code, LEAT_ENOENT);
    assert_null(leat_stream_describe(client, "text", &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "'text' is a string"));
    assert_null(leat_stream_describe(client, "", &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_null(leat_stream_browse(client, "none", NULL, &e));
    assert_code(e.code, LEAT_ENOENT);
    assert_null(leat_stream_browse(client, "text", NULL, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_null(leat_stream_names(
        client, &(leat_stream_names_opts){ .prefix = "a b" }, &e));
    assert_code(e.code, LEAT_EINVAL);
}

static void what_may_not_be_asked_is_unknown_or_refused(void **state)
{
    leat_error e = { 0 };
    (void)state;
    redis_do(server, "XADD s 1-0 f v");
    redis_do(server, "ACL SETUSER guest on nopass ~s +@all -memory");
    leat_client *guest = open_client(
        url, &(leat_client_opts){ .user = "guest", .password = "x" });
    leat_stream_info *s = describe(guest, "s");
    assert_int_equal(s->bytes, -1);
    assert_int_equal(s->entries, 1);
    leat_stream_info_free(s);
    assert_null(leat_stream_describe(guest, "other", &e));
    assert_code(e.code, LEAT_EAUTH);
    leat_client_close(guest);
    redis_do(server, "ACL DELUSER guest");
}

/* ---- looking and removing --------------------------------------------- */

/* A topic of the same name has its messages elsewhere. */
static void a_stream_is_looked_at_beside_a_topic_of_its_name(void **state)
{
    leat_error e = { 0 };
    leat_seen seen;
    (void)state;
    must(leat_topic_create(client, "s", NULL, err));
    for (int i = 0; i < 3; i++)
        publish(i, 1);
    leat_browse *b = leat_stream_browse(client, "s",
                                        &(leat_browse_opts){ .last = 2 }, &e);
    assert_non_null(b);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(leat_browse_next(b, &seen, 0, &e), 1);
        assert_true(
            leat_bytes_eq(seen.msg->body, leat_str(i == 1 ? "1" : "2")));
        assert_null(seen.error);
    }
    assert_int_equal(leat_browse_next(b, &seen, 0, &e), 0);
    leat_browse_close(b);
    b = leat_browse_open(client, "s", NULL, &e);
    assert_int_equal(leat_browse_next(b, &seen, 0, &e), 0);
    leat_browse_close(b);
    assert_null(leat_stream_browse(
        client, "s", &(leat_browse_opts){ .one = true, .partition = 1 }, &e));
    assert_code(e.code, LEAT_EINVAL);
}

static void only_a_stream_is_removed(void **state)
{
    (void)state;
    redis_do(server, "XADD s 1-0 f v");
    redis_do(server, "XGROUP CREATE s g 0");
    redis_do(server, "SET text x");
    redis_do(server, "XADD leat:{t/0}:log 1-0 f v");
    assert_code(leat_stream_remove(client, "text", NULL, NULL), LEAT_EINVAL);
    assert_code(leat_stream_remove(client, "leat:{t/0}:log", NULL, NULL),
                LEAT_EINVAL);
    assert_code(leat_stream_remove(client, "none", NULL, NULL), LEAT_ENOENT);
    assert_code(leat_stream_remove(client, "", NULL, NULL), LEAT_EINVAL);
    assert_int_equal(redis_int(server, "DBSIZE"), 3);
    must(leat_stream_remove(client, "s", NULL, err));
    assert_int_equal(redis_int(server, "EXISTS s"), 0);
    assert_code(leat_stream_remove(client, "s", NULL, NULL), LEAT_ENOENT);
    must(leat_stream_remove(client, "leat:{t/0}:log", "other", err));
    assert_int_equal(redis_int(server, "DBSIZE"), 1);
}

/* Its time is short: calls that may be repeated are, until it is over. */
static void look_at_everything(void *arg)
{
    leat_seen seen;
    (void)arg;
    const leat_client_opts o = { .timeout_ms = 60, .connect_timeout_ms = 500 };
    leat_client *c = leat_client_open(url, &o, NULL);
    if (!c)
        return;
    leat_names_free(leat_stream_names(c, NULL, NULL));
    leat_stream_info_free(leat_stream_describe(c, "s", NULL));
    leat_browse *b = leat_stream_browse(c, "s", NULL, NULL);
    if (b)
        (void)leat_browse_next(b, &seen, 0, NULL);
    leat_browse_close(b);
    (void)!leat_stream_remove(c, "none", NULL, NULL);
    leat_client_close(c);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    redis_do(server, "XADD s 1-0 f v");
    redis_do(server, "XGROUP CREATE s g 0");
    alloc_fail_sweep(look_at_everything, NULL);
    assert_names(NULL, "s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        stream_test(streams_are_listed_and_no_other_key),
        stream_test(of_many_keys_every_stream_is_found_once),
        stream_test(names_that_cannot_be_opened_are_left_out),
        stream_test(a_stream_is_described_as_it_is),
        stream_test(its_groups_tell_what_is_pending_and_what_is_to_come),
        stream_test(a_lag_that_nobody_knows_is_unknown),
        stream_test(what_is_no_stream_is_said),
        stream_test(what_may_not_be_asked_is_unknown_or_refused),
        stream_test(a_stream_is_looked_at_beside_a_topic_of_its_name),
        stream_test(only_a_stream_is_removed),
        stream_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
