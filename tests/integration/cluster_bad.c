/*
 * Nodes that no real cluster has: that point at each other, at nobody, or
 * nowhere; and servers that are no cluster.
 */
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
    assert_code(e.code, LEAT_EBUSY);
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
        cmocka_unit_test(a_server_that_is_no_cluster_is_told),
        cmocka_unit_test(a_database_but_the_first_is_refused),
        cmocka_unit_test(nobody_there_is_told_at_once),
        cmocka_unit_test_teardown(a_silent_node_does_not_hide_the_others,
                                  stop_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
