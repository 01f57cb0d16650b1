/*
 * Nodes that no real cluster has: that point at each other, at nobody, or
 * nowhere; and servers that are no cluster.
 */
#include "redis/bundle_inside.h"
#include "support/badredis.h"
#include "support/leat.h"

enum { LONG_MS = 60000 };

/* A "cluster" of one node that has every slot; the map is written when the
 * port is known. */
static char map[256], refusal[128];
static badredis *bad;
static char url[256];

/* What it says to SET; where that ends with a colon, its port follows. */
static void start_bad(const char *says)
{
    static const badredis_reply replies[] = { { "CLUSTER", map },
                                              { "SET", refusal },
                                              { NULL, NULL } };
    bad = badredis_start(&(badredis_opts){
        .handshake = true, .replies = replies, .rest = "+OK\r\n" });
    assert_non_null(bad);
    snprintf(map, sizeof map,
             "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:%d\r\n",
             badredis_port(bad));
    bool colon = says[strlen(says) - 1] == ':';
    char port[16];
    snprintf(port, sizeof port, "%d", badredis_port(bad));
    snprintf(refusal, sizeof refusal, "%s%s\r\n", says, colon ? port : "");
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d",
             badredis_port(bad));
}

static int stop_bad(void **state)
{
    (void)state;
    badredis_stop(bad);
    bad = NULL;
    return 0;
}

static leat_code set_once(leat_client *c, leat_error *err)
{
    leat_conn *conn = lend(c);
    leat_code rc = leat_conn_call(
        conn, LEAT_ARGS(leat_str("SET"), leat_str("a"), leat_str("b")), NULL,
        NULL, err);
    leat_client_return(c, conn);
    return rc;
}

static void
nodes_that_point_in_a_circle_are_left_after_some_rounds(void **state)
{
    (void)state;
    leat_error e;
    start_bad("-MOVED 15495 127.0.0.1:");
    leat_client *c = open_client(url, NULL);
    assert_code(set_once(c, &e), LEAT_EREADONLY);
    assert_true(e.retriable);
    assert_int_equal(badredis_count(bad, "SET"), 6);
    leat_client_close(c);
}

static void an_endless_ask_ends_as_well(void **state)
{
    (void)state;
    leat_error e;
    start_bad("-ASK 15495 127.0.0.1:");
    leat_client *c = open_client(url, NULL);
    assert_code(set_once(c, &e), LEAT_EREADONLY);
    assert_int_equal(badredis_count(bad, "SET"), 6);
    assert_int_equal(badredis_count(bad, "ASKING"), 5);
    leat_client_close(c);
}

static void a_redirect_to_nobody_is_a_failure_to_connect(void **state)
{
    (void)state;
    leat_error e;
    start_bad("-MOVED 15495 127.0.0.1:1");
    leat_client *c = open_client(url, NULL);
    assert_code(set_once(c, &e), LEAT_ECONN);
    assert_true(e.retriable);
    assert_non_null(strstr(e.msg, "127.0.0.1:1"));
    assert_int_equal(badredis_count(bad, "SET"), 1);
    leat_client_close(c);
}

static void a_redirect_without_sense_is_told(void **state)
{
    (void)state;
    leat_error e;
    start_bad("-MOVED somewhere else");
    leat_client *c = open_client(url, NULL);
    assert_code(set_once(c, &e), LEAT_EREADONLY);
    assert_int_equal(badredis_count(bad, "SET"), 1);
    leat_client_close(c);
}

static void a_map_without_sense_is_refused(void **state)
{
    (void)state;
    leat_error e;
    start_bad("+OK");
    snprintf(map, sizeof map, "*1\r\n*3\r\n:0\r\n:99999\r\n*0\r\n");
    assert_null(leat_client_open(url, NULL, &e));
    assert_code(e.code, LEAT_EPROTO);
    assert_non_null(strstr(e.msg, "map"));
    snprintf(map, sizeof map, "*0\r\n");
    assert_null(leat_client_open(
        url, &(leat_client_opts){ .connect_timeout_ms = 200 }, &e));
    assert_true(e.retriable);
}

static void on_told(void *arg, const leat_reply *r, const leat_error *e)
{
    (void)r;
    *(leat_error *)arg = *e;
}

/* "a" is in the upper half of the slots, "b" in the lower. */
static void a_node_that_is_away_is_waited_for_or_not_as_wished(void **state)
{
    (void)state;
    leat_error e = { 0 };
    start_bad("+OK");
    snprintf(map, sizeof map,
             "*2\r\n*3\r\n:0\r\n:8191\r\n*2\r\n$0\r\n\r\n:%d\r\n"
             "*3\r\n:8192\r\n:16383\r\n*2\r\n$0\r\n\r\n:1\r\n",
             badredis_port(bad));
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    leat_bytes set[] = { leat_str("SET"), leat_str("a"), leat_str("1") };
    must(leat_conn_send(conn, set, 3,
                        &(leat_send_opts){ .fn = on_told, .arg = &e }, err));
    must(leat_conn_drain(conn, 0, err));
    assert_code(e.code, LEAT_ECONN);
    assert_non_null(strstr(e.msg, "not connected to 127.0.0.1:1"));

    leat__conn_impatient(conn);
    assert_code(leat_conn_send(conn, set, 3, NULL, &e), LEAT_ECONN);
    assert_true(e.retriable);
    assert_non_null(strstr(e.msg, "not connected to 127.0.0.1:1"));
    set[1] = leat_str("b");
    must(leat_conn_call(conn, set, 3, NULL, NULL, err));
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void count_ok(void *arg, const leat_reply *r, const leat_error *e)
{
    (void)r;
    *(int *)arg += e == NULL;
}

static void set_a(leat_conn *conn, int *ok)
{
    must(leat_conn_send(
        conn, LEAT_ARGS(leat_str("SET"), leat_str("a"), leat_str("1")),
        &(leat_send_opts){ .fn = count_ok, .arg = ok }, err));
    must(leat_conn_flush(conn, err));
}

/* The old node refuses the first of two commands and is slow with the second;
 * a third must not overtake it, neither here nor there. */
static void what_follows_a_moved_command_waits_for_those_before_it(void **state)
{
    (void)state;
    static char moved[64];
    static const badredis_step slow[] = {
        { .command = "SET", .send = moved },
        { .command = "SET", .then = BADREDIS_HOLD },
    };
    static const badredis_reply replies[] = { { "CLUSTER", map },
                                              { "EVALSHA", ":1\r\n" },
                                              { "XAUTOCLAIM", "-NOGROUP\r\n" },
                                              { NULL, NULL } };
    int ok = 0;
    start_bad("+OK"); /* the new node */
    snprintf(moved, sizeof moved, "-MOVED 15495 127.0.0.1:%d\r\n",
             badredis_port(bad));
    badredis *old = badredis_start(&(badredis_opts){
        .handshake = true, .replies = replies, .steps = slow, .nsteps = 2 });
    assert_non_null(old);
    snprintf(map, sizeof map,
             "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:%d\r\n",
             badredis_port(old));
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d",
             badredis_port(old));
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    set_a(conn, &ok);
    set_a(conn, &ok);
    int64_t end = wait_now_ms() + LONG_MS;
    while (ok < 1 && wait_now_ms() < end)
        must(leat_conn_take(conn, err));
    assert_int_equal(ok, 1);
    set_a(conn, &ok);
    assert_false(leat__list_empty(&conn->bundle->held));
    assert_int_equal(leat_conn_in_flight(conn), 2);
    badredis_stop(old); /* the second is lost; the third goes its way */
    while (leat_conn_in_flight(conn) > 0 && wait_now_ms() < end)
        must(leat_conn_take(conn, err));
    assert_int_equal(leat_conn_in_flight(conn), 0);
    assert_true(leat__list_empty(&conn->bundle->held));
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void a_server_that_is_no_cluster_is_told(void **state)
{
    (void)state;
    leat_error e;
    redis_server *s = redis_start(&(redis_opts){ .tcp = true });
    assert_non_null(s);
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", redis_port(s));
    assert_null(leat_client_open(url, NULL, &e));
    assert_code(e.code, LEAT_ESERVER);
    assert_false(e.retriable);
    assert_non_null(strstr(e.msg, "cluster"));
    redis_stop(s);
}

static void a_database_but_the_first_is_refused(void **state)
{
    (void)state;
    leat_error e;
    assert_null(leat_client_open("redis+cluster://127.0.0.1:1/3", NULL, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "database"));
}

static void nobody_there_is_told_at_once(void **state)
{
    (void)state;
    leat_error e;
    assert_null(
        leat_client_open("redis+cluster://127.0.0.1:1,127.0.0.1:2", NULL, &e));
    assert_code(e.code, LEAT_ECONN);
}

/* One that takes the connection and never says a word costs a share of the
 * time, not all of it. */
static void a_silent_node_does_not_hide_the_others(void **state)
{
    (void)state;
    leat_error e;
    static const badredis_step hold[] = { { .then = BADREDIS_HOLD } };
    badredis *silent = badredis_start(
        &(badredis_opts){ .steps = hold, .nsteps = 1 });
    assert_non_null(silent);
    start_bad("+OK");
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d,127.0.0.1:%d",
             badredis_port(silent), badredis_port(bad));
    leat_client *c = open_client(
        url, &(leat_client_opts){ .connect_timeout_ms = LONG_MS / 20 });
    assert_code(set_once(c, &e), LEAT_OK);
    leat_client_close(c);
    badredis_stop(silent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(
            nodes_that_point_in_a_circle_are_left_after_some_rounds, stop_bad),
        cmocka_unit_test_teardown(an_endless_ask_ends_as_well, stop_bad),
        cmocka_unit_test_teardown(a_redirect_to_nobody_is_a_failure_to_connect,
                                  stop_bad),
        cmocka_unit_test_teardown(a_redirect_without_sense_is_told, stop_bad),
        cmocka_unit_test_teardown(a_map_without_sense_is_refused, stop_bad),
        cmocka_unit_test_teardown(
            a_node_that_is_away_is_waited_for_or_not_as_wished, stop_bad),
        cmocka_unit_test_teardown(
            what_follows_a_moved_command_waits_for_those_before_it, stop_bad),
        cmocka_unit_test(a_server_that_is_no_cluster_is_told),
        cmocka_unit_test(a_database_but_the_first_is_refused),
        cmocka_unit_test(nobody_there_is_told_at_once),
        cmocka_unit_test_teardown(a_silent_node_does_not_hide_the_others,
                                  stop_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
