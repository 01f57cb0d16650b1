/*
 * errors.c: what the server refuses, for real where it can be had and as a
 * scripted reply where it cannot; each has one meaning to the caller.
 */
#include "support/badredis.h"
#include "support/server.h"

#include <stdlib.h>

static int start(void **state)
{
    static const char *const users[] = {
        "weak on >s3cr3t-canary ~k* +get +info", NULL
    };
    static const char *const config[] = { "busy-reply-threshold 50",
                                          "enable-debug-command yes", NULL };
    server_opts = (redis_opts){ .tcp = true, .users = users, .config = config };
    return start_server(state);
}

static leat_code call(leat_client *c, const char *a, const char *b,
                      const char *v, leat_error *e)
{
    leat_conn *conn = lend(c);
    leat_code rc = v ? leat_conn_call(
                           conn,
                           LEAT_ARGS(leat_str(a), leat_str(b), leat_str(v)),
                           NULL, NULL, e)
                     : leat_conn_call(conn, LEAT_ARGS(leat_str(a), leat_str(b)),
                                      NULL, NULL, e);
    leat_client_return(c, conn);
    return rc;
}

/* ---- the same for every reply ----------------------------------------- */

static const struct {
    const char *reply;
    leat_code code;
    bool retriable;
} injected[] = {
    { "-BUSY Redis is busy running a script\r\n", LEAT_EBUSY, true },
    { "-LOADING Redis is loading\r\n", LEAT_EBUSY, true },
    { "-MASTERDOWN Link with MASTER is down\r\n", LEAT_EBUSY, true },
    { "-READONLY You can't write\r\n", LEAT_EREADONLY, true },
    { "-NOSCRIPT No matching script\r\n", LEAT_ESERVER, false },
    { "-OOM command not allowed\r\n", LEAT_EFULL, true },
    { "-MISCONF Errors writing to the AOF file\r\n", LEAT_EFULL, true },
    { "-NOREPLICAS Not enough good replicas\r\n", LEAT_EFULL, true },
    { "-NOAUTH Authentication required.\r\n", LEAT_EAUTH, false },
    { "-WRONGPASS invalid username-password pair\r\n", LEAT_EAUTH, false },
    { "-NOPERM this user has no permissions\r\n", LEAT_EAUTH, false },
    { "-NOGROUP No such key\r\n", LEAT_ENOENT, false },
    { "-BUSYGROUP Consumer Group name exists\r\n", LEAT_EEXIST, false },
    { "-WRONGTYPE Operation against a key\r\n", LEAT_EINVAL, false },
    { "-ERR max number of clients reached\r\n", LEAT_EBUSY, true },
    { "-XYZ something new\r\n", LEAT_ESERVER, false },
    { "-LOADINGX is another word\r\n", LEAT_ESERVER, false },
    { "-\r\n", LEAT_ESERVER, false },
};

static const badredis_reply usual[] = {
    { "EVALSHA", "$16\r\n1763200000000000\r\n" },
    { "XAUTOCLAIM", "-NOGROUP No such key\r\n" },
    { "CHECK", "+sound\r\n" },
    { NULL, NULL },
};

static void
each_error_reply_means_one_thing_and_costs_no_connection(void **state)
{
    char bad_url[64];
    (void)state;
    for (size_t i = 0; i < sizeof injected / sizeof injected[0]; i++) {
        badredis *b = badredis_start(&(badredis_opts){
            .handshake = true, .replies = usual, .rest = injected[i].reply });
        leat_client *c = open_client(badredis_url(b, bad_url, sizeof bad_url),
                                     NULL);
        leat_conn *conn = lend(c);
        for (int k = 0; k < 1000; k++) {
            leat_error e = { 0 };
            const leat_reply *r;
            leat_code rc = leat_conn_call(
                conn, LEAT_ARGS(leat_str("OP"), leat_str("x")), NULL, &r, &e);
            if (rc != injected[i].code || e.retriable != injected[i].retriable)
                fail_msg("%s gave %s", injected[i].reply, leat_code_name(rc));
            must(leat_conn_call(conn, LEAT_ARGS(leat_str("CHECK")), NULL, &r,
                                err));
            assert_text(r, "sound");
        }
        leat_client_return(c, conn);
        assert_int_equal(badredis_connections(b), 1);
        leat_client_close(c);
        badredis_stop(b);
    }
}

static void a_long_error_line_is_cut_and_a_broken_one_breaks(void **state)
{
    static char line[60 * 1024 + 4];
    char bad_url[64];
    leat_error e = { 0 };
    (void)state;
    memset(line, 'E', sizeof line);
    line[0] = '-';
    memcpy(line + sizeof line - 3, "\r\n", 3);
    badredis *b = badredis_start(
        &(badredis_opts){ .handshake = true, .replies = usual, .rest = line });
    leat_client *c = open_client(badredis_url(b, bad_url, sizeof bad_url),
                                 NULL);
    assert_code(call(c, "OP", "x", NULL, &e), LEAT_ESERVER);
    assert_true(strlen(e.msg) < sizeof e.msg);
    leat_client_close(c);
    badredis_stop(b);

    /* A line feed in the text is the start of something that is not RESP. */
    b = badredis_start(&(badredis_opts){
        .handshake = true, .replies = usual, .rest = "-ERR a\r\nb\r\n" });
    c = open_client(badredis_url(b, bad_url, sizeof bad_url), NULL);
    for (int i = 0; i < 20; i++)
        assert_code(call(c, "OP", "x", NULL, &e), LEAT_ESERVER);
    assert_true(badredis_connections(b) >= 20);
    leat_client_close(c);
    badredis_stop(b);
}

/* ---- the real ones ---------------------------------------------------- */

static void a_busy_server_is_waited_for_and_nothing_runs_twice(void **state)
{
    (void)state;
    leat_client *c = open_client(url, NULL);
    redis_do(server, "DEL n");
    leat_conn *hog = lend(c);
    must(leat_conn_send(hog,
                        LEAT_ARGS(leat_str("EVAL"),
                                  leat_str("while true do end"), leat_str("0")),
                        NULL, err));
    must(leat_conn_flush(hog, err));
    leat_conn *conn = lend(c); /* opened before it is busy */
    leat_error e = { 0 };
    leat_code rc;
    do
        rc = leat_conn_call(conn, LEAT_ARGS(leat_str("INCR"), leat_str("n")),
                            NULL, NULL, &e);
    while (rc == LEAT_OK); /* until the threshold is passed */
    assert_code(rc, LEAT_EBUSY);
    assert_true(e.retriable);
    leat_client_return(c, conn);

    int64_t before = redis_int(server, "SCRIPT KILL");
    (void)before;
    leat_reply *r;
    int64_t n = redis_int(server, "GET n");
    must(leat_client_call(c, LEAT_ARGS(leat_str("INCR"), leat_str("n")), NULL,
                          &r, err));
    assert_int_equal(leat_reply_int(r), (n < 0 ? 0 : n) + 1);
    leat_reply_free(r);
    leat_conn_drain(hog, 0, NULL);
    leat_client_return(c, hog);
    leat_client_close(c);
}

static void a_full_server_refuses_writes_and_takes_them_again(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_client *c = open_client(url, NULL);
    redis_do(server, "CONFIG SET maxmemory 1");
    assert_code(call(c, "SET", "k", "v", &e), LEAT_EFULL);
    assert_true(e.retriable);
    redis_do(server, "CONFIG SET maxmemory 0");
    assert_code(call(c, "SET", "k", "v", &e), LEAT_OK);

    redis_do(server, "CONFIG SET min-replicas-to-write 1");
    assert_code(call(c, "SET", "k", "v", &e), LEAT_EFULL);
    redis_do(server, "CONFIG SET min-replicas-to-write 0");
    leat_client_close(c);
}

static void a_demoted_server_is_told_and_its_connection_not_kept(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_conn *first = lend(c);
    int before = leat_conn_fd(first);
    (void)before;
    redis_do(server, "CONFIG RESETSTAT");
    redis_do(server, "REPLICAOF 127.0.0.1 1");
    assert_code(
        leat_conn_call(first,
                       LEAT_ARGS(leat_str("SET"), leat_str("k"), leat_str("v")),
                       NULL, NULL, &e),
        LEAT_EREADONLY);
    assert_true(e.retriable);
    leat_client_return(c, first);
    redis_do(server, "REPLICAOF NO ONE");
    assert_code(call(c, "SET", "k", "v", &e), LEAT_OK);
    assert_true(redis_accepted(server) >= 1);
    leat_client_close(c);
}

static void a_wrong_password_fails_at_once_and_is_not_repeated(void **state)
{
    static const char *const bad[] = { "wrong-s3cr3t-canary", "" };
    (void)state;
    for (int resp2 = 0; resp2 < 2; resp2++) {
        leat_error e = { 0 };
        int64_t before = wait_now_ms();
        leat_client *c = leat_client_open(
            url,
            &(leat_client_opts){
                .user = "weak", .password = bad[0], .resp2 = resp2 },
            &e);
        assert_null(c);
        assert_code(e.code, LEAT_EAUTH);
        assert_false(e.retriable);
        assert_null(strstr(e.msg, "s3cr3t-canary"));
        assert_true(wait_now_ms() - before < 1000);
    }
}

/* A server that does not know AUTH quotes its arguments in the error. */
static void a_password_quoted_by_the_server_is_not_passed_on(void **state)
{
    static const badredis_reply telltale[] = {
        { "HELLO", "-ERR unknown command 'HELLO', with args beginning with: "
                   "'3' 'AUTH' 'default' 's3cr3t-canary'\r\n" },
        { "AUTH", "-ERR unknown command 'AUTH', with args beginning with: "
                  "'s3cr3t-canary'\r\n" },
        { NULL, NULL },
    };
    char bad_url[64];
    leat_error e = { 0 };
    (void)state;
    badredis *b = badredis_start(&(badredis_opts){ .replies = telltale });
    badredis_url(b, bad_url, sizeof bad_url);
    assert_null(leat_client_open(
        bad_url, &(leat_client_opts){ .password = "s3cr3t-canary" }, &e));
    assert_code(e.code, LEAT_EAUTH);
    assert_null(strstr(e.msg, "canary"));
    badredis_stop(b);
}

static void a_user_with_few_rights_can_do_those(void **state)
{
    leat_error e = { 0 };
    (void)state;
    redis_do(server, "SET k1 v");
    leat_client *c = open_client(
        url,
        &(leat_client_opts){ .user = "weak", .password = "s3cr3t-canary" });
    assert_code(call(c, "GET", "k1", NULL, &e), LEAT_OK);
    assert_code(call(c, "SET", "k1", "v", &e), LEAT_EAUTH);
    assert_code(call(c, "GET", "other", NULL, &e), LEAT_EAUTH);
    assert_false(e.retriable);
    leat_server s;
    must(leat_client_server(c, &s, err));
    assert_false(s.has_xautoclaim);
    assert_false(s.has_scripts);
    leat_client_close(c);
}

static void too_many_clients_is_a_passing_failure(void **state)
{
    leat_error e = { 0 };
    (void)state;
    redis_do(server, "CONFIG SET maxclients 1");
    assert_null(leat_client_open(
        url, &(leat_client_opts){ .connect_timeout_ms = 200 }, &e));
    assert_true(e.retriable);
    assert_true(e.code == LEAT_EBUSY || e.code == LEAT_ECONN);
    redis_do(server, "CONFIG SET maxclients 1000");
    leat_client_close(open_client(url, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            each_error_reply_means_one_thing_and_costs_no_connection),
        cmocka_unit_test(a_long_error_line_is_cut_and_a_broken_one_breaks),
        cmocka_unit_test(a_busy_server_is_waited_for_and_nothing_runs_twice),
        cmocka_unit_test(a_full_server_refuses_writes_and_takes_them_again),
        cmocka_unit_test(a_demoted_server_is_told_and_its_connection_not_kept),
        cmocka_unit_test(a_wrong_password_fails_at_once_and_is_not_repeated),
        cmocka_unit_test(a_password_quoted_by_the_server_is_not_passed_on),
        cmocka_unit_test(a_user_with_few_rights_can_do_those),
        cmocka_unit_test(too_many_clients_is_a_passing_failure),
    };
    return cmocka_run_group_tests(tests, start, stop_server);
}
