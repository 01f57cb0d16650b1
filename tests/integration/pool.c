/* pool.c: lending connections, to many threads, and never to a child. */
#include "support/badredis.h"
#include "support/crosstalk.h"
#include "support/server.h"
#include "support/tcpfault.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_full_pool_makes_the_next_wait_and_then_fail(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_client *c = open_client(url, &(leat_client_opts){ .pool_size = 2 });
    leat_conn *a = lend(c), *b = lend(c);
    int64_t before = wait_now_ms();
    assert_null(leat_client_lend(c, 50, &e));
    assert_code(e.code, LEAT_ETIMEOUT);
    assert_non_null(strstr(e.msg, "2 connections"));
    assert_true(wait_now_ms() - before >= 49);
    leat_client_return(c, a);
    leat_conn *again = leat_client_lend(c, 0, &e);
    assert_ptr_equal(again, a);
    leat_client_return(c, again);
    leat_client_return(c, b);
    leat_client_close(c);
}

static void many_threads_share_few_connections_without_cross_talk(void **state)
{
    (void)state;
    redis_do(server, "CONFIG RESETSTAT");
    leat_client *c = open_client(url, &(leat_client_opts){ .pool_size = 4 });
    assert_no_crosstalk(
        &(crosstalk){ .client = c, .threads = 12, .times = 300 });
    leat_client_close(c);
    assert_in_range(redis_accepted(server), 1, 5);
}

static void a_connection_the_server_closed_is_replaced_unseen(void **state)
{
    const leat_reply *r;
    (void)state;
    leat_client *c = open_client(url, NULL);
    for (int i = 0; i < 20; i++) {
        redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
        leat_conn *conn = lend(c);
        must(leat_conn_call(conn, LEAT_ARGS(leat_str("PING")), NULL, &r, err));
        assert_text(r, "PONG");
        leat_client_return(c, conn);
    }
    leat_client_close(c);
}

static void a_client_closes_while_connections_are_lent(void **state)
{
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    leat_client_close(c);
    must(leat_conn_call(conn, LEAT_ARGS(leat_str("PING")), NULL, NULL, err));
    leat_client_return(c, conn);
}

static void *wait_for_one(void *arg)
{
    leat_error e = { 0 };
    leat_conn *conn = leat_client_lend(arg, 20000, &e);
    return conn ? NULL : (void *)(intptr_t)e.code;
}

static void a_close_wakes_those_who_wait(void **state)
{
    pthread_t t;
    void *code;
    (void)state;
    leat_client *c = open_client(url, &(leat_client_opts){ .pool_size = 1 });
    leat_conn *conn = lend(c);
    assert_int_equal(pthread_create(&t, NULL, wait_for_one, c), 0);
    wait_nap(20);
    leat_client_close(c);
    pthread_join(t, &code);
    assert_code((leat_code)(intptr_t)code, LEAT_ECLOSED);
    leat_client_return(c, conn);
}

/* A12: the child gets an error, and not a byte of the parent's stream. */
static int child_result(leat_client *c, leat_conn *conn)
{
    leat_error e = { 0 };
    if (leat_conn_call(conn, LEAT_ARGS(leat_str("PING")), NULL, NULL, &e) !=
        LEAT_EFORK)
        return 1;
    if (leat_client_lend(c, 100, &e) || e.code != LEAT_EFORK)
        return 2;
    if (leat_client_call(c, LEAT_ARGS(leat_str("PING")), NULL, NULL, &e) !=
        LEAT_EFORK)
        return 3;
    leat_client_return(c, conn);
    leat_client_close(c);
    leat_client *own = leat_client_open(url, NULL, &e);
    if (!own)
        return 4;
    if (leat_client_call(own, LEAT_ARGS(leat_str("PING")), NULL, NULL, &e) !=
        LEAT_OK)
        return 5;
    leat_client_close(own);
    return 0;
}

static void a_forked_child_is_refused_and_the_parent_unharmed(void **state)
{
    const leat_reply *r;
    (void)state;
    for (int i = 0; i < 5; i++) {
        int status;
        leat_client *c = open_client(url, NULL);
        leat_conn *conn = lend(c);
        must(leat_conn_send(
            conn, LEAT_ARGS(leat_str("ECHO"), leat_str("before")), NULL, err));
        must(leat_conn_flush(conn, err));
        pid_t pid = fork();
        if (pid == 0)
            _exit(child_result(c, conn));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        must(leat_conn_call(conn,
                            LEAT_ARGS(leat_str("ECHO"), leat_str("parent")),
                            NULL, &r, err));
        assert_text(r, "parent");
        leat_client_return(c, conn);
        leat_client_close(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_pool_makes_the_next_wait_and_then_fail),
        cmocka_unit_test(many_threads_share_few_connections_without_cross_talk),
        cmocka_unit_test(a_connection_the_server_closed_is_replaced_unseen),
        cmocka_unit_test(a_client_closes_while_connections_are_lent),
        cmocka_unit_test(a_close_wakes_those_who_wait),
        cmocka_unit_test(a_forked_child_is_refused_and_the_parent_unharmed),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
