/* script.c: scripts are called by their SHA, and survive being forgotten. */
#include "redis/script.h"
#include "support/server.h"

#include <stdlib.h>

static const leat__script append = {
    "tests/append", "b9705020f551c492b7692cdba607bbdb64837972",
    "return redis.call('RPUSH', KEYS[1], ARGV[1])", 44
};

static int flush(void **state)
{
    (void)state;
    redis_do(server, "SCRIPT FLUSH");
    return redis_flush(server) ? 0 : -1;
}

struct tally {
    int ok, failed;
};

static void count(void *arg, const leat_reply *r, const leat_error *e)
{
    struct tally *t = arg;
    (void)r;
    if (e)
        t->failed++;
    else
        t->ok++;
}

static void send_append(leat_conn *conn, int value, struct tally *t)
{
    char text[LEAT__NUMBER];
    leat_bytes key = leat_str("list"), arg = leat__arg_int(text, value);
    must(leat__script_send(conn, &append, &key, 1, &arg, 1,
                           &(leat_send_opts){ count, t, 0 }, err));
}

static void every_compiled_script_has_the_sha_the_server_computes(void **state)
{
    (void)state;
    for (const leat__script *const *s = leat__scripts; *s; s++) {
        char sha[64];
        redis_text(server, sha, sizeof sha, "SCRIPT LOAD %b", (*s)->body,
                   (*s)->body_size);
        assert_string_equal(sha, (*s)->sha);
    }
}

static void an_unknown_script_in_a_pipeline_is_sent_again_once(void **state)
{
    struct tally t = { 0 };
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    for (int i = 0; i < 100; i++) {
        send_append(conn, i, &t);
        must(leat_conn_send(conn, LEAT_ARGS(leat_str("PING")),
                            &(leat_send_opts){ count, &t, 0 }, err));
    }
    must(leat_conn_drain(conn, 0, err));
    assert_int_equal(t.ok, 200);
    assert_int_equal(t.failed, 0);
    assert_int_equal(redis_int(server, "LLEN list"), 100);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void
scripts_flushed_under_load_are_neither_lost_nor_repeated(void **state)
{
    struct tally t = { 0 };
    (void)state;
    leat_client *c = open_client(url, &(leat_client_opts){ .window = 32 });
    leat_conn *conn = lend(c);
    for (int i = 0; i < 5000; i++) {
        send_append(conn, i, &t);
        if (i % 50 == 0)
            redis_do(server, "SCRIPT FLUSH");
    }
    must(leat_conn_drain(conn, 0, err));
    assert_int_equal(t.ok, 5000);
    assert_int_equal(redis_int(server, "LLEN list"), 5000);
    redisReply *all = redis_raw(server, "LRANGE list 0 -1");
    static bool seen[5000];
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < all->elements; i++) {
        long v = strtol(all->element[i]->str, NULL, 10);
        assert_false(seen[v]);
        seen[v] = true;
    }
    freeReplyObject(all);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void a_script_inside_a_transaction_needs_no_second_try(void **state)
{
    struct tally t = { 0 };
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(leat_conn_begin(conn, err));
    send_append(conn, 1, &t);
    send_append(conn, 2, &t);
    must(leat_conn_exec(conn, err));
    assert_int_equal(t.ok, 2);
    assert_int_equal(redis_int(server, "LLEN list"), 2);
    leat_client_return(c, conn);
    leat_client_close(c);
}

/* The refusal comes when MULTI has left: sent again at once, the script would
 * be queued by the server as a part of the transaction. */
static void an_unknown_script_before_a_transaction_stays_outside(void **state)
{
    struct tally t = { 0 };
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    send_append(conn, 1, &t);
    must(leat_conn_begin(conn, err));
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("PING")),
                        &(leat_send_opts){ count, &t, 0 }, err));
    must(leat_conn_drain(conn, 0, err));
    must(leat_conn_exec(conn, err));
    assert_int_equal(t.ok, 2);
    assert_int_equal(t.failed, 0);
    assert_int_equal(redis_int(server, "LLEN list"), 1);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void arguments_of_any_bytes_arrive_as_they_are(void **state)
{
    static const leat__script echo = {
        "tests/echo", "bcdff5e20b3d665f7cd844350cdb0b0395946a66",
        "return ARGV[2]", 14
    };
    const leat_reply *r;
    leat_bytes args[] = { leat_str(""), leat_mem("a\0\r\n$5", 6) };
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(leat__script_call(conn, &echo, NULL, 0, args, 2, &r, err));
    assert_int_equal(leat_reply_bytes(r).n, 6);
    assert_memory_equal(leat_reply_bytes(r).p, args[1].p, 6);
    leat_client_return(c, conn);
    leat_client_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(
            every_compiled_script_has_the_sha_the_server_computes, flush),
        cmocka_unit_test_setup(
            an_unknown_script_in_a_pipeline_is_sent_again_once, flush),
        cmocka_unit_test_setup(
            scripts_flushed_under_load_are_neither_lost_nor_repeated, flush),
        cmocka_unit_test_setup(
            a_script_inside_a_transaction_needs_no_second_try, flush),
        cmocka_unit_test_setup(
            an_unknown_script_before_a_transaction_stays_outside, flush),
        cmocka_unit_test_setup(arguments_of_any_bytes_arrive_as_they_are,
                               flush),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
