/*
 * topic_foreign.c: consumer groups of the server's own that leat did not make.
 *
 * One of the name of a leat group stands on the log; its owner gets all of its
 * messages, whatever leat's group does.
 */
#include "topic_help.h"
#include <leat/admin.h>

static const char *const LOGS[] = { "leat:{t/0}:log", "bare" };
static const char *const CURSORS[] = { "leat:{t/0}:cur:g", "" };

enum { N = 3 };

static leat_topic *topic_at(int bare)
{
    if (!bare)
        return topic_of(client, "t", 1);
    leat_error e = { 0 };
    leat_topic *t = leat_topic_open(client, "bare", NULL, &e);
    if (!t)
        fail_msg("cannot open the stream: %s", e.msg);
    assert_true(leat_topic_legacy(t));
    return t;
}

static void add_native(int bare)
{
    for (int i = 0; i < N; i++)
        redis_do(server,
                 "XADD %s * ce_specversion 1.0 ce_id %d ce_source / "
                 "ce_type t data x",
                 LOGS[bare], i);
}

static int64_t groups(int bare)
{
    return redis_int(server, "XINFO GROUPS %s", LOGS[bare]);
}

/* What the owner of the native group reads. */
static int64_t unread(int bare)
{
    redisReply *r = redis_raw(server, "XREADGROUP GROUP g me STREAMS %s >",
                              LOGS[bare]);
    int64_t n = r->type == REDIS_REPLY_ARRAY
                    ? (int64_t)r->element[0]->element[1]->elements
                    : 0;
    freeReplyObject(r);
    return n;
}

static void read_all(leat_topic *t, int n)
{
    leat_source *s = source_of(t, "g",
                               &(leat_topic_source_opts){ .start = "start" });
    for (int i = 0; i < n; i++)
        ack(next_of(s));
    must(leat_source_flush(s, LONG_MS, err));
    leat_source_close(s);
}

static void a_native_group_of_that_name_is_not_moved(void **state)
{
    (void)state;
    for (int bare = 0; bare < 2; bare++) {
        redis_flush(server);
        if (bare)
            add_native(bare);
        leat_topic *t = topic_at(bare);
        if (!bare)
            add_native(bare);
        redis_do(server, "XGROUP CREATE %s g 0", LOGS[bare]);
        read_all(t, N);
        must(leat_group_seek(client, leat_topic_name(t), "g", "end", NULL, NULL,
                             err));
        assert_int_equal(unread(bare), N);
        add_native(bare);
        read_all(t, N);
        must(leat_group_remove(client, leat_topic_name(t), "g", NULL, err));
        assert_int_equal(groups(bare), 1);
        assert_int_equal(unread(bare), N);
        leat_topic_close(t);
    }
}

static void leats_own_mirror_moves_and_goes(void **state)
{
    (void)state;
    leat_topic *t = topic_at(0);
    add_native(0);
    read_all(t, N);
    assert_int_equal(groups(0), 1);
    assert_int_equal(unread(0), 0);
    must(leat_group_remove(client, "t", "g", NULL, err));
    assert_int_equal(groups(0), 0);
    leat_topic_close(t);
}

/* The cursor of an earlier version does not say whose it is. */
static void an_old_mirror_is_known_by_its_place(void **state)
{
    (void)state;
    for (int foreign = 0; foreign < 2; foreign++) {
        redis_flush(server);
        leat_topic *t = topic_at(0);
        add_native(0);
        read_all(t, N);
        redis_do(server, "HDEL %s g", CURSORS[0]);
        if (foreign) /* somebody reads by it */
            redis_do(server, "XREADGROUP GROUP g me STREAMS %s 0", LOGS[0]);
        add_native(0);
        read_all(t, N);
        assert_int_equal(redis_int(server, "HGET %s g", CURSORS[0]), !foreign);
        assert_int_equal(unread(0), foreign ? N : 0);
        leat_topic_close(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(a_native_group_of_that_name_is_not_moved),
        topic_test(leats_own_mirror_moves_and_goes),
        topic_test(an_old_mirror_is_known_by_its_place),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
