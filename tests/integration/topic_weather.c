/* topic_weather.c: a member of a group when the server or memory fails. */
#include "support/allocfail.h"
#include "support/tcpfault.h"
#include "topic_help.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static const leat_topic_source_opts quick = { .lease_ms = 2000,
                                              .block_ms = 200 };

/* ---- a ledger of what came and what was taken ------------------------- */

enum { MOST = 4000 };

static struct {
    int seen[MOST];
    bool acked[MOST]; /* with an outcome that was good */
} ledger;

static void take_and_ack(leat_source *s, int *left)
{
    leat_delivery *d[50];
    leat_error e = { 0 };
    int n = leat_source_receive(s, d, 50, 500, &e);
    if (n < 0 && !e.retriable)
        fail_msg("%s", e.msg);
    for (int i = 0; i < n; i++) {
        int k = body_number(d[i]);
        assert_in_range(k, 0, MOST - 1);
        *left -= ledger.seen[k]++ == 0;
        ack(d[i]);
    }
}

static void read_all(leat_source *s, int n, void (*harm)(int done))
{
    int left = n;
    int64_t end = wait_now_ms() + 3 * LONG_MS;
    memset(&ledger, 0, sizeof ledger);
    while (left > 0) {
        take_and_ack(s, &left);
        if (harm)
            harm(n - left);
        if (wait_now_ms() > end)
            fail_msg("%d of %d did not come", left, n);
    }
}

static void each_came_once(int n)
{
    for (int i = 0; i < n; i++)
        if (ledger.seen[i] != 1)
            fail_msg("%d came %d times", i, ledger.seen[i]);
}

static leat_source *joined(leat_topic *t)
{
    leat_source *s = source_of(t, "g", &quick);
    wait_until((nothing_of(s, 1), stats_of(s).partitions > 0), LONG_MS);
    return s;
}

/* ---- the server ------------------------------------------------------- */

static void kill_clients(int done)
{
    if (done % 3 == 0)
        redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
}

static void killed_connections_cost_nothing(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 2);
    leat_source *s = joined(t);
    add_many("orders", 0, 0, 400);
    add_many("orders", 1, 400, 400);
    read_all(s, 800, kill_clients);
    each_came_once(800); /* its lease lives on: nothing is handed out twice */
    must(leat_source_flush(s, LONG_MS, err));
    leat_source_close(s);
    leat_topic_close(t);
}

static void flush_scripts(int done)
{
    (void)done;
    redis_do(server, "SCRIPT FLUSH");
}

static void forgotten_scripts_are_sent_again(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, 500);
    leat_source *s = source_of(t, "g", &quick);
    read_all(s, 500, flush_scripts);
    each_came_once(500);
    must(leat_source_flush(s, LONG_MS, err));
    assert_int_equal(stats_of(s).settled, 500);
    leat_source_close(s);
    leat_topic_close(t);
}

static void pause_server(int done)
{
    static int last;
    if (done == last || done % 200 != 0)
        return;
    last = done;
    redis_pause(server);
    wait_nap(100);
    redis_resume(server);
}

static void a_paused_server_is_waited_for(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, 600);
    leat_source *s = source_of(t, "g", &quick);
    read_all(s, 600, pause_server);
    each_came_once(600);
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_lost_answer_is_told_as_soon_as_it_is_known(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add("orders", 0, "0");
    leat_source *s = source_of(t, "g", NULL);
    leat_delivery *d = next_of(s);
    redis_pause(server);
    ack(d);
    leat_error e = { 0 };
    assert_code(leat_source_flush(s, 50, &e), LEAT_ETIMEOUT);
    redis_resume(server);
    must(leat_source_flush(s, LONG_MS, err));
    assert_int_equal(stats_of(s).settled, 1);
    leat_source_close(s);
    leat_topic_close(t);
}

/* Data and cursor survive: appendfsync always. */
static void a_restarted_server_is_found_again(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_delivery *d[1];
    redis_server *mine = redis_start(&(redis_opts){ .aof = REDIS_AOF_ALWAYS });
    assert_non_null(mine);
    char where[256];
    leat_client *other = open_client(redis_url(mine, where, sizeof where),
                                     NULL);
    leat_client *was = client;
    client = other;
    leat_topic *t = topic_of(other, "orders", 1);
    add_many("orders", 0, 0, 100);
    leat_source *s = source_of(t, "g", &quick);
    int left = 100;
    memset(&ledger, 0, sizeof ledger);
    while (left > 60)
        take_and_ack(s, &left);
    must(leat_source_flush(s, LONG_MS, err));
    redis_kill(mine);
    while (leat_source_receive(s, d, 1, 100, &e) >= 0)
        ;
    assert_true(e.retriable);
    assert_true(redis_restart(mine));
    int64_t end = wait_now_ms() + 3 * LONG_MS;
    while (left > 0 && wait_now_ms() < end)
        take_and_ack(s, &left);
    assert_int_equal(left, 0);
    each_came_once(100);
    leat_source_close(s);
    leat_topic_close(t);
    client = was;
    leat_client_close(other);
    redis_stop(mine);
}

/* Each answer takes its time, also those of a connection being made. */
static void a_slow_network_is_no_obstacle(void **state)
{
    (void)state;
    char slow[64];
    tcpfault *proxy = tcpfault_start(redis_socket(server), NULL);
    assert_non_null(proxy);
    snprintf(slow, sizeof slow, "redis://127.0.0.1:%d", tcpfault_port(proxy));
    leat_client *c = open_client(slow, NULL);
    leat_topic *t = topic_of(c, "orders", 1);
    leat_source *s = source_of(t, "g", NULL);
    wait_until((nothing_of(s, 1), stats_of(s).partitions == 1), LONG_MS);
    tcpfault_rule_add(proxy, &(tcpfault_rule){ .dir = TCPFAULT_DOWN,
                                               .when = TCPFAULT_FRAME,
                                               .action = TCPFAULT_DELAY,
                                               .ms = 100 });
    tcpfault_drop(proxy, 0, true);
    add_many("orders", 0, 0, 50);
    read_all(s, 50, NULL);
    must(leat_source_flush(s, LONG_MS, err));
    tcpfault_clear(proxy);
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(c);
    tcpfault_stop(proxy);
}

/* At maxmemory nothing is published, but what is there is read and settled. */
static void a_full_server_still_takes_settlements(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    leat_source *s = joined(t);
    add_many("orders", 0, 0, 50);
    redis_do(server, "CONFIG SET maxmemory 1");
    read_all(s, 50, NULL);
    must(leat_source_flush(s, LONG_MS, err));
    leat_source_close(s);
    s = source_of(t, "g", &quick);
    wait_until((nothing_of(s, 1), stats_of(s).partitions == 1), LONG_MS);
    nothing_of(s, 20);
    leat_source_close(s);
    redis_do(server, "CONFIG SET maxmemory 0");
    leat_topic_close(t);
}

/* It may be the group that settles what fills it. */
static void a_full_server_takes_a_new_group(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, 50);
    redis_do(server, "CONFIG SET maxmemory 1");
    leat_source *s = source_of(t, "g", &quick);
    read_all(s, 50, NULL);
    must(leat_source_flush(s, LONG_MS, err));
    leat_source_close(s);
    redis_do(server, "CONFIG SET maxmemory 0");
    assert_int_equal(redis_int(server, "SISMEMBER leat:{orders}:groups g"), 1);
    leat_topic_close(t);
}

/* ---- the runner ------------------------------------------------------- */

static struct {
    _Atomic int handled, retried;
    _Atomic int last[8]; /* by key */
    _Atomic int bad;
} run_saw;

static leat_verdict handle(leat_ctx *x, void *arg)
{
    const leat_msg *m = leat_ctx_msg(x);
    const leat_delivery *d = leat_ctx_delivery(x);
    int key = ((const char *)m->key.p)[0] - 'a', n = body_number(d);
    (void)arg;
    if (n % 97 == 0 && leat_delivery_attempt(d) == 1) {
        run_saw.retried++;
        return leat_ctx_nack(x, 1);
    }
    if (run_saw.last[key] >= n)
        run_saw.bad++;
    run_saw.last[key] = n;
    run_saw.handled++;
    return LEAT_ACK;
}

static void run_in_order(leat_order order, leat_lanes lanes)
{
    leat_error e = { 0 };
    char key[2] = "", body[16];
    memset(&run_saw, 0, sizeof run_saw);
    leat_topic *t = topic_of(client, "orders", 3);
    for (int i = 1; i <= 600; i++) {
        key[0] = (char)('a' + i % 8);
        snprintf(body, sizeof body, "%d", i);
        add_keyed("orders", i % 8 % 3, key, body);
    }
    leat_topic_source_opts o = quick;
    o.order = order;
    leat_run *r = leat_run_start(source_of(t, "g", &o), handle, NULL,
                                 &(leat_run_opts){ .lanes = lanes }, &e);
    assert_non_null(r);
    wait_until(run_saw.handled == 600, LONG_MS);
    must(leat_run_stop(r, 0, err));
    assert_int_equal(run_saw.bad, 0);
    assert_int_equal(run_saw.retried, 6);
    leat_topic_close(t);
}

static void a_runner_keeps_the_order_of_partitions(void **state)
{
    (void)state;
    run_in_order(LEAT_ORDER_PARTITION, LEAT_LANES_SOURCE);
}

static void a_runner_keeps_the_order_of_keys(void **state)
{
    (void)state;
    run_in_order(LEAT_ORDER_KEY, LEAT_LANES_SOURCE);
}

/* ---- memory ----------------------------------------------------------- */

/* Tolerates any failure; whatever was handed out is settled. */
static void a_short_life(void *arg)
{
    leat_error e = { 0 };
    leat_delivery *d[16];
    (void)arg;
    leat_client *c = leat_client_open(url, NULL, &e);
    leat_topic *t = c ? leat_topic_open(c, "orders", NULL, &e) : NULL;
    leat_source *s = t ? leat_topic_source(t, "g", &quick, &e) : NULL;
    for (int i = 0; s && i < 40; i++) {
        int n = leat_source_receive(s, d, 16, 10, &e);
        for (int k = 0; k < n; k++) {
            ledger.seen[body_number(d[k])]++;
            ack(d[k]);
        }
        if (n > 0)
            break;
    }
    if (s)
        (void)leat_source_flush(s, 1000, &e);
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(c);
}

/* What was acknowledged is gone, everything else is still there: in the end
 * each came at least once. */
static void no_failed_allocation_crashes_or_loses(void **state)
{
    (void)state;
    memset(&ledger, 0, sizeof ledger);
    leat_topic_close(topic_of(client, "orders", 1));
    alloc_fail_install(ALLOC_FAIL_NEVER, false);
    a_short_life(NULL);
    long calls = atomic_load(&alloc_fail_state.calls) + 5;
    alloc_fail_remove();
    assert_in_range(calls, 20, MOST - 1);
    for (long n = 1; n <= calls; n++) {
        add_many("orders", 0, (int)n, 1);
        alloc_fail_install(n, n % 2 == 0);
        a_short_life(NULL);
        long live = atomic_load(&alloc_fail_state.live);
        alloc_fail_remove();
        if (live != 0)
            fail_msg("%ld blocks are left when allocation %ld failed", live, n);
    }
    /* Whoever could not even say goodbye is dead to the next after a lease. */
    leat_topic *t = topic_of(client, "orders", 1);
    leat_source *s = source_of(t, "g", &quick);
    int64_t end = wait_now_ms() + LONG_MS;
    int left = 0;
    for (long n = 1; n <= calls; n++)
        while (ledger.seen[n] == 0) {
            take_and_ack(s, &left);
            if (wait_now_ms() > end)
                fail_msg("%ld is lost", n);
        }
    leat_source_close(s);
    leat_topic_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(killed_connections_cost_nothing),
        topic_test(forgotten_scripts_are_sent_again),
        topic_test(a_paused_server_is_waited_for),
        topic_test(a_lost_answer_is_told_as_soon_as_it_is_known),
        topic_test(a_restarted_server_is_found_again),
        topic_test(a_slow_network_is_no_obstacle),
        topic_test(a_full_server_still_takes_settlements),
        topic_test(a_full_server_takes_a_new_group),
        topic_test(a_runner_keeps_the_order_of_partitions),
        topic_test(a_runner_keeps_the_order_of_keys),
        topic_test(no_failed_allocation_crashes_or_loses),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
