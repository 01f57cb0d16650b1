/* conn.c: one connection against a real server: commands, pipelines,
 * transactions, subscriptions, over both protocols and both kinds of socket. */
#include "support/leat.h"

#include <stdlib.h>

static redis_server *server;
static char tcp_url[256], unix_url[256];

static int start(void **state)
{
    (void)state;
    server = redis_start(&(redis_opts){ .tcp = true });
    if (!server)
        return -1;
    redis_url(server, tcp_url, sizeof tcp_url);
    redis_url_unix(server, unix_url, sizeof unix_url);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    redis_stop(server);
    return 0;
}

static int flush(void **state)
{
    (void)state;
    return redis_flush(server) ? 0 : -1;
}

static void a_command_is_answered_over_tcp_and_unix(void **state)
{
    const char *urls[] = { tcp_url, unix_url };
    (void)state;
    for (int i = 0; i < 4; i++) {
        const leat_reply *r;
        leat_client *c = open_client(urls[i % 2],
                                     &(leat_client_opts){ .resp2 = i > 1 });
        leat_conn *conn = lend(c);
        must(leat_conn_call(conn,
                            LEAT_ARGS(leat_str("ECHO"), leat_mem("a\0b", 3)),
                            NULL, &r, err));
        assert_int_equal(leat_reply_bytes(r).n, 3);
        assert_memory_equal(leat_reply_bytes(r).p, "a\0b", 3);
        leat_client_return(c, conn);
        leat_client_close(c);
    }
}

struct seen {
    int count, bad;
    int64_t last;
};

static void in_order(void *arg, const leat_reply *r, const leat_error *e)
{
    struct seen *s = arg;
    s->count++;
    if (e || leat_reply_int(r) != s->last + 1)
        s->bad++;
    s->last = leat_reply_int(r);
}

static void a_pipeline_wider_than_its_window_is_answered_in_order(void **state)
{
    struct seen s = { 0 };
    (void)state;
    leat_client *c = open_client(unix_url, &(leat_client_opts){ .window = 64 });
    leat_conn *conn = lend(c);
    for (int i = 0; i < 20000; i++) {
        must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str("n")),
                            &(leat_send_opts){ in_order, &s, 0 }, err));
        assert_true(leat_conn_in_flight(conn) <= 64);
    }
    must(leat_conn_drain(conn, 0, err));
    assert_int_equal(s.count, 20000);
    assert_int_equal(s.bad, 0);
    leat_client_return(c, conn);
    leat_client_close(c);
}

/* Both sides' socket buffers fill up: without reading while it writes, the
 * client and the server would wait for each other. */
static void
large_commands_and_large_replies_do_not_block_each_other(void **state)
{
    enum { SIZE = 4 * 1024 * 1024, TIMES = 8 };
    struct seen s = { 0 };
    (void)state;
    char *big = malloc(SIZE);
    memset(big, 'x', SIZE);
    leat_client *c = open_client(unix_url, NULL);
    leat_conn *conn = lend(c);
    for (int i = 0; i < TIMES; i++) {
        must(leat_conn_send(conn,
                            LEAT_ARGS(leat_str("ECHO"), leat_mem(big, SIZE)),
                            &(leat_send_opts){ NULL, &s, 0 }, err));
    }
    must(leat_conn_drain(conn, 0, err));
    const leat_reply *r;
    must(leat_conn_call(conn, LEAT_ARGS(leat_str("ECHO"), leat_mem(big, SIZE)),
                        NULL, &r, err));
    assert_int_equal(leat_reply_bytes(r).n, SIZE);
    assert_memory_equal(leat_reply_bytes(r).p, big, SIZE);
    leat_client_return(c, conn);
    leat_client_close(c);
    free(big);
}

static void a_server_error_is_an_ordinary_result(void **state)
{
    leat_error e = { 0 };
    const leat_reply *r;
    (void)state;
    leat_client *c = open_client(unix_url, NULL);
    leat_conn *conn = lend(c);
    assert_code(
        leat_conn_call(conn, LEAT_ARGS(leat_str("NOSUCH")), NULL, &r, &e),
        LEAT_ESERVER);
    assert_int_equal(leat_reply_kind(r), LEAT_REPLY_ERROR);
    assert_non_null(strstr(e.msg, "unknown command"));
    must(leat_conn_call(conn, LEAT_ARGS(leat_str("PING")), NULL, &r, err));
    assert_text(r, "PONG");
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void a_failure_without_callback_is_told_by_drain_once(void **state)
{
    leat_error e = { 0 };
    (void)state;
    redis_do(server, "SET text abc");
    leat_client *c = open_client(unix_url, NULL);
    leat_conn *conn = lend(c);
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str("text")),
                        NULL, err));
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str("n")), NULL,
                        err));
    assert_code(leat_conn_drain(conn, 0, &e), LEAT_ESERVER);
    assert_non_null(strstr(e.msg, "not an integer"));
    must(leat_conn_drain(conn, 0, err));
    leat_client_return(c, conn);
    leat_client_close(c);
}

struct replies {
    int count;
    int64_t value[8];
    leat_code code[8];
};

static void keep(void *arg, const leat_reply *r, const leat_error *e)
{
    struct replies *s = arg;
    s->value[s->count] = leat_reply_int(r);
    s->code[s->count++] = e ? e->code : LEAT_OK;
}

static void send_incr(leat_conn *conn, const char *key, struct replies *s)
{
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str(key)),
                        &(leat_send_opts){ keep, s, 0 }, err));
}

static void a_transaction_gives_each_command_its_own_reply(void **state)
{
    (void)state;
    for (int resp2 = 0; resp2 < 2; resp2++) {
        struct replies s = { 0 };
        redis_do(server, "DEL n");
        redis_do(server, "SET text abc");
        leat_client *c = open_client(unix_url,
                                     &(leat_client_opts){ .resp2 = resp2 });
        leat_conn *conn = lend(c);
        must(leat_conn_begin(conn, err));
        send_incr(conn, "n", &s);
        send_incr(conn, "text", &s);
        send_incr(conn, "n", &s);
        assert_int_equal(s.count, 0);
        must(leat_conn_exec(conn, err));
        assert_int_equal(s.count, 3);
        assert_int_equal(s.value[0], 1);
        assert_code(s.code[1], LEAT_ESERVER);
        assert_int_equal(s.value[2], 2);
        leat_client_return(c, conn);
        leat_client_close(c);
    }
}

static void a_watched_key_that_changes_stops_the_transaction(void **state)
{
    struct replies s = { 0 };
    leat_error e = { 0 };
    (void)state;
    leat_client *c = open_client(unix_url, NULL);
    leat_conn *conn = lend(c);
    leat_bytes key = leat_str("n");
    must(leat_conn_watch(conn, &key, 1, err));
    redis_do(server, "SET n 41");
    must(leat_conn_begin(conn, err));
    send_incr(conn, "n", &s);
    assert_code(leat_conn_exec(conn, &e), LEAT_ECONFLICT);
    assert_true(e.retriable);
    assert_code(s.code[0], LEAT_ECONFLICT);
    assert_int_equal(redis_int(server, "GET n"), 41);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void a_transaction_with_a_refused_command_does_nothing(void **state)
{
    struct replies s = { 0 };
    leat_error e = { 0 };
    (void)state;
    leat_client *c = open_client(unix_url, NULL);
    leat_conn *conn = lend(c);
    must(leat_conn_begin(conn, err));
    send_incr(conn, "n", &s);
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("NOSUCH")),
                        &(leat_send_opts){ keep, &s, 0 }, err));
    assert_code(leat_conn_exec(conn, &e), LEAT_ESERVER);
    assert_non_null(strstr(e.msg, "unknown command"));
    assert_int_equal(s.count, 2);
    assert_code(s.code[0], LEAT_ESERVER);
    assert_int_equal(redis_int(server, "EXISTS n"), 0);
    leat_client_return(c, conn);
    leat_client_close(c);
}

/* Then the server runs what follows one by one: to call that a failure would
 * be a lie. */
static void a_refused_multi_tells_what_each_command_did(void **state)
{
    struct replies s = { 0 };
    leat_error e = { 0 };
    (void)state;
    freeReplyObject(
        redis_raw(server, "ACL SETUSER single on >x ~* &* +@all -multi"));
    leat_client *c = open_client(
        unix_url, &(leat_client_opts){ .user = "single", .password = "x" });
    leat_conn *conn = lend(c);
    must(leat_conn_begin(conn, err));
    send_incr(conn, "n", &s);
    assert_code(leat_conn_exec(conn, &e), LEAT_EUNKNOWN);
    assert_non_null(strstr(e.msg, "MULTI"));
    assert_int_equal(s.count, 1);
    assert_code(s.code[0], LEAT_OK);
    assert_int_equal(s.value[0], 1);
    assert_int_equal(redis_int(server, "GET n"), 1);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void a_discarded_transaction_does_nothing(void **state)
{
    struct replies s = { 0 };
    const leat_reply *r;
    (void)state;
    leat_client *c = open_client(unix_url, NULL);
    leat_conn *conn = lend(c);
    must(leat_conn_begin(conn, err));
    send_incr(conn, "n", &s);
    must(leat_conn_discard(conn, err));
    assert_code(s.code[0], LEAT_ECLOSED);
    must(leat_conn_call(conn, LEAT_ARGS(leat_str("EXISTS"), leat_str("n")),
                        NULL, &r, err));
    assert_int_equal(leat_reply_int(r), 0);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void
a_connection_returned_inside_a_transaction_is_not_lent_again(void **state)
{
    (void)state;
    leat_client *c = open_client(unix_url, NULL);
    leat_conn *conn = lend(c);
    must(leat_conn_begin(conn, err));
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("PING")), NULL, err));
    leat_client_return(c, conn);
    const leat_reply *r;
    conn = lend(c);
    must(leat_conn_call(conn, LEAT_ARGS(leat_str("PING")), NULL, &r, err));
    assert_text(r, "PONG");
    leat_client_return(c, conn);
    leat_client_close(c);
}

struct heard {
    int count;
    char channel[32], payload[32];
};

static void hear(void *arg, leat_bytes channel, leat_bytes payload)
{
    struct heard *h = arg;
    h->count++;
    snprintf(h->channel, sizeof h->channel, "%.*s", (int)channel.n,
             (const char *)channel.p);
    snprintf(h->payload, sizeof h->payload, "%.*s", (int)payload.n,
             (const char *)payload.p);
}

static void a_subscriber_hears_channels_and_patterns(void **state)
{
    (void)state;
    for (int resp2 = 0; resp2 < 2; resp2++) {
        struct heard h = { 0 };
        leat_client *c = open_client(unix_url,
                                     &(leat_client_opts){ .resp2 = resp2 });
        leat_conn *conn = lend(c);
        leat_bytes names[] = { leat_str("a"), leat_str("b") };
        leat_bytes pattern = leat_str("news.*");
        leat_conn_on_push(conn, hear, &h);
        must(leat_conn_subscribe(conn, false, names, 2, err));
        must(leat_conn_subscribe(conn, true, &pattern, 1, err));
        assert_int_equal(redis_int(server, "PUBLISH b hello"), 1);
        must(leat_conn_listen(conn, 2000, err));
        assert_string_equal(h.channel, "b");
        assert_string_equal(h.payload, "hello");
        assert_int_equal(redis_int(server, "PUBLISH news.x hot"), 1);
        must(leat_conn_listen(conn, 2000, err));
        assert_string_equal(h.channel, "news.x");
        assert_int_equal(h.count, 2);

        must(leat_conn_unsubscribe(conn, false, names, 2, err));
        must(leat_conn_unsubscribe(conn, true, &pattern, 1, err));
        const leat_reply *r;
        must(leat_conn_call(conn, LEAT_ARGS(leat_str("PING")), NULL, &r, err));
        assert_text(r, "PONG");
        leat_client_return(c, conn);
        leat_client_close(c);
    }
}

static void a_quiet_listen_ends_in_time_and_is_no_failure(void **state)
{
    leat_bytes name = leat_str("quiet");
    (void)state;
    leat_client *c = open_client(unix_url, NULL);
    leat_conn *conn = lend(c);
    must(leat_conn_subscribe(conn, false, &name, 1, err));
    int64_t before = wait_now_ms();
    must(leat_conn_listen(conn, 30, err));
    assert_true(wait_now_ms() - before >= 29);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void a_blocking_command_may_take_longer_than_the_timeout(void **state)
{
    const leat_reply *r;
    (void)state;
    /* The server looks at its blocked clients ten times a second: the timeout
     * must be well over 100 ms. */
    leat_client *c = open_client(unix_url,
                                 &(leat_client_opts){ .timeout_ms = 300 });
    leat_conn *conn = lend(c);
    must(leat_conn_call(conn,
                        LEAT_ARGS(leat_str("XREAD"), leat_str("BLOCK"),
                                  leat_str("600"), leat_str("STREAMS"),
                                  leat_str("s"), leat_str("$")),
                        &(leat_send_opts){ .block_ms = 600 }, &r, err));
    assert_int_equal(leat_reply_kind(r), LEAT_REPLY_NIL);

    /* The commands behind it wait for it, and are not late for that. */
    must(leat_conn_send(conn,
                        LEAT_ARGS(leat_str("XREAD"), leat_str("BLOCK"),
                                  leat_str("500"), leat_str("STREAMS"),
                                  leat_str("s"), leat_str("$")),
                        &(leat_send_opts){ .block_ms = 500 }, err));
    must(leat_conn_call(conn, LEAT_ARGS(leat_str("PING")), NULL, &r, err));
    assert_text(r, "PONG");
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void the_connection_has_its_name_and_its_database(void **state)
{
    char url[300], list[2048];
    (void)state;
    for (int resp2 = 0; resp2 < 2; resp2++) {
        snprintf(url, sizeof url, "%s?db=3&client_name=billing%d", unix_url,
                 resp2);
        leat_client *c = open_client(url,
                                     &(leat_client_opts){ .resp2 = resp2 });
        redis_text(server, list, sizeof list, "CLIENT LIST");
        char want[32];
        snprintf(want, sizeof want, "name=billing%d ", resp2);
        char *line = strstr(list, want);
        assert_non_null(line);
        assert_non_null(strstr(line, " db=3 "));
        leat_client_close(c);
    }
}

static void a_reply_to_a_call_is_the_callers_to_keep(void **state)
{
    leat_reply *a, *b;
    (void)state;
    leat_client *c = open_client(unix_url, NULL);
    must(leat_client_call(c, LEAT_ARGS(leat_str("ECHO"), leat_str("one")), NULL,
                          &a, err));
    must(leat_client_call(c, LEAT_ARGS(leat_str("ECHO"), leat_str("two")), NULL,
                          &b, err));
    leat_client_close(c);
    assert_text(a, "one");
    assert_text(b, "two");
    leat_reply_free(a);
    leat_reply_free(b);
}

static void count_unknown(void *arg, const leat_reply *r, const leat_error *e)
{
    (void)r;
    *(int *)arg += e && e->code == LEAT_EUNKNOWN;
}

/* Whoever asked is told at once, not while the next one has it. */
static void a_connection_with_answers_under_way_is_not_lent_again(void **state)
{
    (void)state;
    int unknown = 0;
    leat_client *c = open_client(unix_url,
                                 &(leat_client_opts){ .pool_size = 1 });
    leat_conn *conn = lend(c);
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str("n")),
                        &(leat_send_opts){ count_unknown, &unknown, 0 }, err));
    must(leat_conn_flush(conn, err));
    leat_client_return(c, conn);
    assert_int_equal(unknown, 1);
    conn = lend(c);
    must(leat_conn_call(conn, LEAT_ARGS(leat_str("PING")), NULL, NULL, err));
    assert_int_equal(unknown, 1);
    leat_client_return(c, conn);
    leat_client_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_with_answers_under_way_is_not_lent_again),
        cmocka_unit_test_setup(a_command_is_answered_over_tcp_and_unix, flush),
        cmocka_unit_test_setup(
            a_pipeline_wider_than_its_window_is_answered_in_order, flush),
        cmocka_unit_test_setup(
            large_commands_and_large_replies_do_not_block_each_other, flush),
        cmocka_unit_test_setup(a_server_error_is_an_ordinary_result, flush),
        cmocka_unit_test_setup(a_failure_without_callback_is_told_by_drain_once,
                               flush),
        cmocka_unit_test_setup(a_transaction_gives_each_command_its_own_reply,
                               flush),
        cmocka_unit_test_setup(a_watched_key_that_changes_stops_the_transaction,
                               flush),
        cmocka_unit_test_setup(
            a_transaction_with_a_refused_command_does_nothing, flush),
        cmocka_unit_test_setup(a_refused_multi_tells_what_each_command_did,
                               flush),
        cmocka_unit_test_setup(a_discarded_transaction_does_nothing, flush),
        cmocka_unit_test_setup(
            a_connection_returned_inside_a_transaction_is_not_lent_again,
            flush),
        cmocka_unit_test_setup(a_subscriber_hears_channels_and_patterns, flush),
        cmocka_unit_test_setup(a_quiet_listen_ends_in_time_and_is_no_failure,
                               flush),
        cmocka_unit_test_setup(
            a_blocking_command_may_take_longer_than_the_timeout, flush),
        cmocka_unit_test_setup(the_connection_has_its_name_and_its_database,
                               flush),
        cmocka_unit_test_setup(a_reply_to_a_call_is_the_callers_to_keep, flush),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
