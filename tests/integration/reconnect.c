/*
 * reconnect.c: the server goes away and comes back.
 */
#include "support/proxy.h"

#include <stdlib.h>

static void nobody_there_is_told_at_once(void **state)
{
    leat_error e = { 0 };
    (void)state;
    int64_t before = wait_now_ms();
    assert_null(leat_client_open("redis://127.0.0.1:1", NULL, &e));
    assert_code(e.code, LEAT_ECONN);
    assert_true(e.retriable);
    assert_non_null(strstr(e.msg, "127.0.0.1:1"));
    assert_null(leat_client_open("unix:///nonexistent/socket", NULL, &e));
    assert_code(e.code, LEAT_ECONN);
    assert_null(leat_client_open("redis://no-such-host.invalid", NULL, &e));
    assert_code(e.code, LEAT_ECONN);
    assert_non_null(strstr(e.msg, "no-such-host.invalid"));
    assert_true(wait_now_ms() - before < 4000);
}

/* C8, in small: the door is shut, then opened. */
static void a_refused_client_backs_off_and_comes_back_within_2_s(void **state)
{
    enum { AWAY_MS = 8000 };
    leat_error e = { 0 };
    leat_metrics *m = leat_metrics_new(NULL);
    (void)state;
    leat_client *c = open_client(url, &(leat_client_opts){ .metrics = m });
    leat_counter *failures = leat_metrics_counter(
        m, "leat_redis_connect_failures_total",
        "Attempts to connect that failed.", NULL, 0, NULL);
    tcpfault_set_door(proxy, TCPFAULT_REFUSE);
    tcpfault_drop(proxy, 0, true);
    assert_null(leat_client_lend(c, AWAY_MS, &e));
    assert_code(e.code, LEAT_ECONN);
    uint64_t tries = leat_counter_get(failures);
    print_message("# %d attempts in %d s\n", (int)tries, AWAY_MS / 1000);
    /* The first second is for passing failures; then one a second. */
    assert_in_range(tries, 3, 10 + 2 * AWAY_MS / 1000);

    tcpfault_set_door(proxy, TCPFAULT_OPEN);
    int64_t before = wait_now_ms();
    leat_conn *conn = leat_client_lend(c, 10000, &e);
    assert_non_null(conn);
    assert_true(wait_now_ms() - before <= 2000);
    leat_client_return(c, conn);
    leat_client_close(c);
    leat_metrics_free(m);
}

/* Their turns to connect come at one a second; those they could not wait for
 * must not stand between the client and the server that is back. */
static void impatient_callers_do_not_shut_the_client_out(void **state)
{
    leat_error e = { 0 };
    leat_conn *conn = NULL;
    (void)state;
    leat_client *c = open_client(url, &(leat_client_opts){ .pool_size = 1 });
    tcpfault_set_door(proxy, TCPFAULT_REFUSE);
    tcpfault_drop(proxy, 0, true);
    for (int i = 0; i < 100; i++) {
        assert_null(leat_client_lend(c, 20, &e));
        assert_code(e.code, LEAT_ECONN);
        assert_true(e.retriable);
    }
    /* A server so near that it answers after the deadline would hide it. */
    tcpfault_rule_add(proxy, &(tcpfault_rule){ .dir = TCPFAULT_DOWN,
                                               .when = TCPFAULT_OFFSET,
                                               .action = TCPFAULT_DELAY,
                                               .ms = 5 });
    tcpfault_set_door(proxy, TCPFAULT_OPEN);
    wait_until((conn = leat_client_lend(c, 50, &e)) != NULL, 4000);
    tcpfault_clear(proxy);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void a_peer_that_accepts_and_says_nothing_is_left_in_time(void **state)
{
    leat_error e = { 0 };
    (void)state;
    tcpfault_set_door(proxy, TCPFAULT_HANG_NEW);
    int64_t before = wait_now_ms();
    assert_null(leat_client_open(
        url, &(leat_client_opts){ .connect_timeout_ms = 200 }, &e));
    assert_in_range(wait_now_ms() - before, 190, 1500);
    assert_true(e.retriable);
    tcpfault_set_door(proxy, TCPFAULT_OPEN);
}

static void a_restarted_server_is_found_again_with_its_data(void **state)
{
    (void)state;
    leat_client *c = open_client(url, NULL);
    for (int i = 1; i <= 5; i++) {
        leat_reply *r;
        must(leat_client_call(c, LEAT_ARGS(leat_str("INCR"), leat_str("n")),
                              NULL, &r, err));
        assert_int_equal(leat_reply_int(r), i);
        leat_reply_free(r);
        redis_kill(server);
        assert_true(redis_restart(server));
    }
    leat_client_close(c);
}

enum { CLIENTS = 500, BACK_MS = 5000 };

/* Cut all off; ms until the last is back. */
static int64_t come_back(leat_client **c)
{
    redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    int64_t before = wait_now_ms();
    for (int i = 0; i < CLIENTS; i++) {
        leat_conn *conn = lend(c[i]);
        must(
            leat_conn_call(conn, LEAT_ARGS(leat_str("PING")), NULL, NULL, err));
        leat_client_return(c[i], conn);
    }
    return wait_now_ms() - before;
}

/* C11: all at once, after a cut.  The best of a few, as the machine may be
 * busy. */
static void five_hundred_clients_come_back_together(void **state)
{
    static leat_client *c[CLIENTS];
    int64_t took = INT64_MAX;
    (void)state;
    char direct[256];
    redis_url(server, direct, sizeof direct);
    for (int i = 0; i < CLIENTS; i++)
        c[i] = open_client(direct, NULL);
    for (int i = 0; i < 5 && took > BACK_MS; i++)
        took = come_back(c);
    print_message("# the last after %d ms\n", (int)took);
    assert_true(took <= BACK_MS);
    for (int i = 0; i < CLIENTS; i++)
        leat_client_close(c[i]);
}

/* B9: connections killed, scripts flushed and the server paused under load.
 * What was acknowledged is there; what certainly failed is not. */
static void a_harassed_pipeline_tells_the_truth(void **state)
{
    enum { N = 3000 };
    static leat_code said[N];
    (void)state;
    char direct[256];
    redis_url(server, direct, sizeof direct);
    redis_do(server, "DEL set");
    leat_client *c = open_client(direct, NULL);
    for (int i = 0; i < N; i++) {
        char text[16];
        leat_error e = { 0 };
        leat_conn *conn = lend(c);
        if (i % 40 == 20)
            redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
        if (i % 500 == 250)
            redis_do(server, "CLIENT PAUSE 20 ALL");
        snprintf(text, sizeof text, "%d", i);
        said[i] = leat_conn_call(
            conn, LEAT_ARGS(leat_str("SADD"), leat_str("set"), leat_str(text)),
            NULL, NULL, &e);
        leat_client_return(c, conn);
    }
    int lied = 0;
    for (int i = 0; i < N; i++) {
        int64_t there = redis_int(server, "SISMEMBER set %d", i);
        lied += (said[i] == LEAT_OK && !there) ||
                (said[i] != LEAT_OK && said[i] != LEAT_EUNKNOWN && there);
    }
    assert_int_equal(lied, 0);
    leat_client_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_there_is_told_at_once),
        cmocka_unit_test(a_refused_client_backs_off_and_comes_back_within_2_s),
        cmocka_unit_test(impatient_callers_do_not_shut_the_client_out),
        cmocka_unit_test(a_peer_that_accepts_and_says_nothing_is_left_in_time),
        cmocka_unit_test(a_restarted_server_is_found_again_with_its_data),
        cmocka_unit_test(five_hundred_clients_come_back_together),
        cmocka_unit_test(a_harassed_pipeline_tells_the_truth),
    };
    server_opts.aof = REDIS_AOF_ALWAYS;
    return cmocka_run_group_tests(tests, start_proxy, stop_proxy);
}
