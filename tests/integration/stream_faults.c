/*
 * stream_faults.c: a subscriber whose connections and server come and go.
 *
 * Nothing is idle for a minute here, so whatever arrives again within a test
 * did not wait for that.
 */
#include "stream_help.h"
#include "support/tcpfault.h"

#include <stdlib.h>

static tcpfault *proxy;
static char proxied[64];
static leat_client *through; /* the proxy */

static int start(void **state)
{
    server_opts.aof = REDIS_AOF_ALWAYS;
    if (start_server(state) != 0)
        return -1;
    proxy = tcpfault_start(redis_socket(server), NULL);
    if (!proxy)
        return -1;
    snprintf(proxied, sizeof proxied, "redis://127.0.0.1:%d",
             tcpfault_port(proxy));
    return 0;
}

static int stop(void **state)
{
    tcpfault_stop(proxy);
    return stop_server(state);
}

static int open_both(void **state)
{
    if (open_one(state) != 0)
        return -1;
    tcpfault_clear(proxy);
    through = open_client(proxied, NULL);
    return 0;
}

static int close_both(void **state)
{
    leat_client_close(through);
    return close_one(state);
}

#define fault_test(name)                                                       \
    cmocka_unit_test_setup_teardown(name, open_both, close_both)

static int64_t blocked(void)
{
    char text[8192];
    redis_text(server, text, sizeof text, "INFO clients");
    const char *at = strstr(text, "blocked_clients:");
    return at ? strtol(at + 16, NULL, 10) : -1;
}

/* The next answer through the proxy is lost, with its connection. */
static int lose_next_answer(void)
{
    int rule = tcpfault_rule_add(proxy,
                                 &(tcpfault_rule){ .dir = TCPFAULT_DOWN,
                                                   .when = TCPFAULT_FRAME,
                                                   .action = TCPFAULT_RESET,
                                                   .times = 1 });
    assert_true(rule > 0);
    return rule;
}

/* Each answer takes its time, also those of a connection being made. */
static void a_slow_network_is_no_obstacle(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_stream *s = open_stream(through, NULL);
    leat_sink *k = leat_stream_sink(s, NULL, &e);
    assert_non_null(k);
    leat_source *q = subscribe_on(through, NULL, NULL);
    wait_until(blocked() == 1, LONG_MS);
    tcpfault_rule_add(proxy, &(tcpfault_rule){ .dir = TCPFAULT_DOWN,
                                               .when = TCPFAULT_FRAME,
                                               .action = TCPFAULT_DELAY,
                                               .ms = 60 });
    tcpfault_drop(proxy, 0, true);
    must(leat_sink_publish(k, &(leat_msg){ .body = leat_str("7") }, 1, NULL,
                           NULL, err));
    leat_delivery *d = next_of(q);
    assert_int_equal(number_of(d), 7);
    ack(d);
    flush(q);
    tcpfault_clear(proxy);
    must(leat_sink_flush(k, LONG_MS, err));
    leat_source_close(q);
    leat_sink_close(k);
    leat_stream_close(s);
}

/* ---- lost answers ----------------------------------------------------- */

/* C5 */
static void entries_of_a_lost_answer_arrive_without_waiting(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        assert_true(redis_flush(server));
        leat_source *q = subscribe_on(
            through, NULL, &(leat_stream_source_opts){ .block_ms = 15000 });
        wait_until(blocked() == 1, LONG_MS);
        int rule = lose_next_answer();
        redis_do(server, "EVAL %s 1 s",
                 "for i = 1, 3 do redis.call('XADD', KEYS[1], i .. '-1', 'f', "
                 "i) end");
        for (uint64_t i = 1; i <= 3; i++) {
            leat_delivery *d = next_of(q);
            assert_int_equal(leat_delivery_position(d).ms, i);
            /* The server counts the lost one, we do not: nobody saw it. */
            assert_int_equal(leat_delivery_attempt(d), 1);
            ack(d);
        }
        assert_int_equal(tcpfault_fired(proxy, rule), 1);
        tcpfault_clear(proxy);
        flush(q);
        assert_int_equal(pending(), 0);
        assert_null(next_within(q, 0));
        leat_source_close(q);
    }
}

static void a_lost_answer_of_an_ack_is_no_trouble(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        leat_stream_source_opts o = { .fence_all = round % 2,
                                      .block_ms = 15000 };
        leat_error e = { 0 };
        assert_true(redis_flush(server));
        publish(0, 1);
        leat_source *q = subscribe_on(through, NULL, &o);
        leat_delivery *d = next_of(q);
        wait_until(blocked() == 1, LONG_MS);
        lose_next_answer();
        ack(d);
        leat_code rc = leat_source_flush(q, LONG_MS, &e);
        /* The fenced one finds its entry gone and cannot say by whom. */
        if (rc != LEAT_OK && !(o.fence_all && rc == LEAT_EUNKNOWN))
            fail_msg("%s: %s", leat_code_name(rc), e.msg);
        tcpfault_clear(proxy);
        assert_int_equal(pending(), 0);
        assert_null(next_within(q, 0));
        leat_source_close(q);
    }
}

/* The claim of a nacked entry is lost: it is ours, and nobody has it. */
static void a_lost_answer_of_a_claim_is_found_again(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        assert_true(redis_flush(server));
        publish(0, 1);
        leat_source *q = subscribe_on(
            through, NULL, &(leat_stream_source_opts){ .block_ms = 15000 });
        leat_delivery *d = next_of(q);
        assert_int_equal(leat_delivery_nack(d, 100), LEAT_OK);
        flush(q);
        wait_until(blocked() == 1, LONG_MS);
        lose_next_answer(); /* most often that of the claim */
        d = next_of(q);
        assert_int_equal(number_of(d), 0);
        assert_true(leat_delivery_attempt(d) >= 2);
        tcpfault_clear(proxy);
        ack(d);
        flush(q);
        assert_int_equal(pending(), 0);
        leat_source_close(q);
    }
}

/* ---- weather ---------------------------------------------------------- */

/* Every entry once, as nothing comes back by idleness, and every settlement
 * with an outcome.  No oftener than the client's budget of connects allows. */
static void
nothing_is_delivered_twice_or_lost_while_connections_drop(void **state)
{
    enum { WAVES = 20, EACH = 100, N = WAVES * EACH };
    static bool seen[N];
    memset(seen, 0, sizeof seen);
    (void)state;
    leat_source *q = subscribe_on(
        through, NULL,
        &(leat_stream_source_opts){ .batch = 20, .connections = 2 });
    for (int i = 0; i < WAVES; i++) {
        publish(i * EACH, EACH);
        receive_all(q, 5 * i, seen, N);
        tcpfault_drop(proxy, 0, i % 2);
        receive_all(q, EACH - 5 * i, seen, N);
        if (i % 4 == 0)
            tcpfault_drop(proxy, 0, true);
    }
    flush(q);
    assert_int_equal(pending(), 0);
    assert_null(next_within(q, 0));
    leat_source_close(q);
}

static void a_restarted_server_is_found_again(void **state)
{
    enum { N = 40 };
    bool seen[N] = { false };
    (void)state;
    leat_source *q = subscribe(NULL);
    for (int i = 0; i < N; i += 10) {
        publish(i, 10);
        leat_delivery *held[5];
        for (int k = 0; k < 5; k++) {
            held[k] = next_of(q);
            assert_false(seen[number_of(held[k])]);
            seen[number_of(held[k])] = true;
        }
        redis_kill(server);
        for (int k = 0; k < 5; k++)
            ack(held[k]); /* goes when the server is back */
        assert_true(redis_restart(server));
        receive_all(q, 5, seen, N);
        flush(q);
        assert_int_equal(pending(), 0);
    }
    leat_source_close(q);
}

static void an_absent_server_is_told_once_and_does_not_end_it(void **state)
{
    leat_error e = { 0 };
    leat_delivery *d;
    bool seen[1] = { false };
    int failures = 0;
    (void)state;
    leat_source *q = subscribe(NULL);
    redis_kill(server);
    wait_until(leat_source_receive(q, &d, 1, 20, &e) < 0, LONG_MS);
    assert_true(e.retriable);
    for (int i = 0; i < 20; i++)
        failures += leat_source_receive(q, &d, 1, 20, &e) < 0;
    assert_true(failures <= 1);
    assert_true(redis_restart(server));
    publish(0, 1);
    receive_all(q, 1, seen, 1);
    leat_source_close(q);
}

/* As long as a silent server is not given up, settlements wait; then they are
 * sent again. */
static void a_paused_server_delays_and_loses_nothing(void **state)
{
    bool seen[10] = { false };
    leat_error e = { 0 };
    (void)state;
    leat_client *c = open_client(url, &(leat_client_opts){ .timeout_ms = 300 });
    publish(0, 10);
    leat_source *q = subscribe_on(c, NULL, NULL);
    leat_delivery *d[5];
    for (int i = 0; i < 5; i++) {
        d[i] = next_of(q);
        seen[number_of(d[i])] = true;
    }
    redis_pause(server);
    for (int i = 0; i < 5; i++)
        ack(d[i]);
    leat_code rc = leat_source_flush(q, 700, &e);
    redis_resume(server);
    assert_code(rc, LEAT_ETIMEOUT);
    receive_all(q, 5, seen, 10);
    flush(q);
    assert_int_equal(pending(), 0);
    leat_source_close(q);
    leat_client_close(c);
}

static void closing_without_a_server_is_quick_and_tells_everyone(void **state)
{
    (void)state;
    publish(0, 5);
    leat_source *q = subscribe(NULL);
    leat_delivery *d[5];
    for (int i = 0; i < 5; i++)
        d[i] = next_of(q);
    redis_kill(server);
    for (int i = 0; i < 4; i++)
        ack(d[i]);
    int64_t before = wait_now_ms();
    leat_source_close(q);
    assert_true(wait_now_ms() - before < 20000);
    assert_true(redis_restart(server));
}

static void a_right_that_is_taken_away_is_told_and_waited_for(void **state)
{
    leat_error e = { 0 };
    leat_delivery *d;
    (void)state;
    redis_do(server, "ACL SETUSER reader on >pw ~* &* +@all");
    leat_client *c = open_client(
        url, &(leat_client_opts){ .user = "reader", .password = "pw" });
    leat_source *q = subscribe_on(c, NULL, NULL);
    redis_do(server, "ACL SETUSER reader -xreadgroup");
    publish(0, 1); /* ends the read that waits */
    wait_until(leat_source_receive(q, &d, 1, 20, &e) < 0, LONG_MS);
    assert_code(e.code, LEAT_EAUTH);
    assert_true(e.retriable);
    redis_do(server, "ACL SETUSER reader +xreadgroup");
    wait_until(leat_source_receive(q, &d, 1, 20, &e) == 1, LONG_MS);
    ack(d);
    leat_source_close(q);
    leat_client_close(c);
    redis_do(server, "ACL DELUSER reader");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        fault_test(a_slow_network_is_no_obstacle),
        fault_test(entries_of_a_lost_answer_arrive_without_waiting),
        fault_test(a_lost_answer_of_an_ack_is_no_trouble),
        fault_test(a_lost_answer_of_a_claim_is_found_again),
        fault_test(nothing_is_delivered_twice_or_lost_while_connections_drop),
        fault_test(a_restarted_server_is_found_again),
        fault_test(an_absent_server_is_told_once_and_does_not_end_it),
        fault_test(a_paused_server_delays_and_loses_nothing),
        fault_test(closing_without_a_server_is_quick_and_tells_everyone),
        fault_test(a_right_that_is_taken_away_is_told_and_waited_for),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
