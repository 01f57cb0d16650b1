/*
 * topic_producer_faults.c: publishing while the server dies, hangs, and comes
 * back, and while connections are cut at awkward places.
 *
 * Whatever happens, every accepted message is told once, and what was told is
 * true (topic_told.h).
 */
#include "support/proxy.h"
#include "topic_told.h"

#include <pthread.h>

enum { SOON_MS = 60000, PARTITIONS = 3, BIG = 1000000, IMPATIENT_MS = 2000 };

/* ---- the rig ---------------------------------------------------------- */

struct rig {
    leat_client *client;
    leat_topic *topic;
    told *l;
};

/* An answer must come within timeout_ms; where that is short, opening may need
 * more than one try. */
static struct rig rig_open_for(int64_t timeout_ms, int count,
                               const leat_topic_opts *opts)
{
    leat_topic_opts o = opts ? *opts : (leat_topic_opts){ 0 };
    leat_error e = { 0 };
    struct rig r = { .l = told_new(count) };
    /* What a test before sent and nobody waited for may be still to be read. */
    redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    assert_true(redis_flush(server));
    leat_client_opts patient = { .max_retry_ms = 50,
                                 .connect_timeout_ms = SOON_MS,
                                 .timeout_ms = timeout_ms };
    r.client = open_client(url, &patient);
    o.auto_create = true;
    o.partitions = PARTITIONS;
    if (o.timeout_ms == 0)
        o.timeout_ms = SOON_MS;
    for (int try = 0; try < 20 && !r.topic; try++)
        r.topic = leat_topic_open(r.client, "t", &o, &e);
    if (!r.topic)
        fail_msg("cannot open: %s", e.msg);
    return r;
}

static struct rig rig_open(int count, const leat_topic_opts *opts)
{
    return rig_open_for(20000, count, opts);
}

static void rig_close(struct rig *r)
{
    leat_topic_close(r->topic);
    leat_client_close(r->client);
    print_message("# %d persisted, %d failed, %d unknown\n", r->l->ok,
                  r->l->failed, r->l->unknown);
    told_audit(r->l, server, PARTITIONS);
    told_free(r->l);
}

static void publish_range(struct rig *r, int from, int to)
{
    for (int i = from; i < to; i++)
        must(told_publish(r->l, r->topic, i, NULL, err));
}

static void settle(struct rig *r)
{
    leat_error e = { 0 };
    if (leat_topic_flush(r->topic, SOON_MS, &e) != LEAT_OK)
        fail_msg("flush: %s", e.msg);
}

/* Publish one and wait: the connection is there. */
static void connect_first(struct rig *r)
{
    publish_range(r, 0, 1);
    settle(r);
    assert_int_equal(r->l->ok, 1);
}

/* A thread that publishes the rest, in order, until it is through. */
static void *publish_rest(void *arg)
{
    struct rig *r = arg;
    for (int i = 1; i < r->l->count; i++)
        if (told_publish(r->l, r->topic, i, NULL, NULL) != LEAT_OK)
            return "refused";
    return NULL;
}

/* ---- the server ------------------------------------------------------- */

static void no_server_kill_breaks_a_promise(void **state)
{
    (void)state;
    struct rig r = rig_open(20000, NULL);
    pthread_t id;
    void *bad;
    connect_first(&r);
    assert_int_equal(pthread_create(&id, NULL, publish_rest, &r), 0);
    for (int kill = 1; kill <= 3; kill++) {
        int until = kill * 4000;
        wait_until(atomic_load(&r.l->all) > until, SOON_MS);
        redis_kill(server);
        assert_true(redis_restart(server));
    }
    pthread_join(id, &bad);
    assert_null(bad);
    settle(&r);
    assert_int_equal(r.l->failed, 0);
    assert_int_equal(r.l->all, r.l->count);
    rig_close(&r);
}

static void a_server_that_hangs_is_waited_for(void **state)
{
    (void)state;
    struct rig r = rig_open(3000, NULL);
    redis_pause(server);
    publish_range(&r, 0, r.l->count);
    assert_int_equal(r.l->all, 0);
    redis_resume(server);
    settle(&r);
    assert_int_equal(r.l->ok, r.l->count);
    rig_close(&r);
}

/* Paused while it works: the window's answers do not come in time. */
static void an_answer_that_does_not_come_is_unknown(void **state)
{
    (void)state;
    struct rig r = rig_open_for(IMPATIENT_MS, 2000,
                                &(leat_topic_opts){ .window = 512 });
    connect_first(&r);
    redis_pause(server);
    publish_range(&r, 1, r.l->count);
    wait_until(atomic_load(&r.l->unknown) > 0, SOON_MS);
    redis_resume(server);
    settle(&r);
    assert_int_equal(r.l->failed, 0);
    assert_int_equal(r.l->all, r.l->count);
    rig_close(&r);
}

static void what_cannot_leave_in_time_fails_for_certain(void **state)
{
    (void)state;
    struct rig r = rig_open(500, &(leat_topic_opts){ .timeout_ms = 300 });
    connect_first(&r);
    tcpfault_set_door(proxy, TCPFAULT_REFUSE);
    tcpfault_drop(proxy, 0, true);
    publish_range(&r, 1, 400);
    settle(&r);
    /* Some may have left before the connection was known to be gone. */
    assert_int_equal(r.l->all, 400);
    assert_int_equal(r.l->ok, 1);
    assert_true(r.l->failed > 0);
    assert_code(r.l->m[399].code, LEAT_ETIMEOUT);
    assert_true(r.l->m[399].retriable);
    assert_non_null(strstr(r.l->last, "not sent within 300 ms"));
    tcpfault_set_door(proxy, TCPFAULT_OPEN);
    for (int i = 400; i < 500; i++) {
        publish_range(&r, i, i + 1);
        settle(&r);
    }
    assert_true(r.l->ok > 1);
    rig_close(&r);
}

static void closing_with_the_server_away_tells_everyone(void **state)
{
    (void)state;
    struct rig r = rig_open(1000, NULL);
    connect_first(&r);
    tcpfault_set_door(proxy, TCPFAULT_REFUSE);
    tcpfault_drop(proxy, 0, true);
    publish_range(&r, 1, 1000);
    leat_topic_close(r.topic);
    r.topic = NULL;
    assert_int_equal(r.l->all, 1000);
    assert_int_equal(r.l->ok, 1);
    assert_code(r.l->m[999].code, LEAT_ECLOSED);
    tcpfault_set_door(proxy, TCPFAULT_OPEN);
    rig_close(&r);
}

static void closing_while_the_server_hangs_calls_it_unknown(void **state)
{
    (void)state;
    struct rig r = rig_open(2000, &(leat_topic_opts){ .window = 512 });
    connect_first(&r);
    redis_pause(server);
    publish_range(&r, 1, 2000);
    leat_topic_close(r.topic);
    r.topic = NULL;
    assert_int_equal(r.l->all, 2000);
    assert_true(r.l->unknown > 0);
    assert_code(r.l->m[1999].code, LEAT_ECLOSED);
    redis_resume(server);
    rig_close(&r);
}

/* ---- connections ------------------------------------------------------ */

static void cuts_at_any_byte_keep_order_and_honesty(void **state)
{
    static const tcpfault_dir dirs[] = { TCPFAULT_UP, TCPFAULT_DOWN };
    (void)state;
    for (int round = 0; round < 8; round++) {
        struct rig r = rig_open(4000, &(leat_topic_opts){ .window = 600 });
        connect_first(&r);
        /* Connections after this one, each at another byte. */
        for (int k = 0; k < 6; k++)
            tcpfault_rule_add(
                proxy,
                &(tcpfault_rule){
                    .dir = dirs[(round + k) % 2],
                    .when = TCPFAULT_OFFSET,
                    .n = 20000u + (unsigned)(k * 7919 + round * 131),
                    .action = (round + k) % 3 ? TCPFAULT_RESET : TCPFAULT_CUT,
                    .times = 1 });
        publish_range(&r, 1, r.l->count);
        settle(&r);
        assert_int_equal(r.l->all, r.l->count);
        assert_int_equal(r.l->failed, 0);
        assert_true(tcpfault_count(proxy).fired > 0);
        tcpfault_clear(proxy);
        rig_close(&r);
    }
}

static void
answers_that_are_swallowed_are_unknown_and_the_rest_goes_on(void **state)
{
    (void)state;
    struct rig r = rig_open_for(IMPATIENT_MS, 3000,
                                &(leat_topic_opts){ .window = 512 });
    connect_first(&r);
    tcpfault_rule_add(proxy, &(tcpfault_rule){ .dir = TCPFAULT_DOWN,
                                               .when = TCPFAULT_OFFSET,
                                               .n = 10000,
                                               .action = TCPFAULT_BLACKHOLE,
                                               .times = 1 });
    publish_range(&r, 1, r.l->count);
    settle(&r);
    assert_true(r.l->unknown > 0);
    assert_int_equal(r.l->failed, 0);
    assert_int_equal(r.l->all, r.l->count);
    assert_true(r.l->ok > 1);
    tcpfault_clear(proxy);
    rig_close(&r);
}

/* After so many bytes nothing gets through. */
static void hold_after(uint64_t bytes)
{
    tcpfault_rule_add(proxy, &(tcpfault_rule){ .dir = TCPFAULT_UP,
                                               .when = TCPFAULT_OFFSET,
                                               .n = bytes,
                                               .action = TCPFAULT_HOLD,
                                               .times = 1 });
}

/* More than all buffers on the way hold. */
static void a_slow_server_is_waited_for(void **state)
{
    (void)state;
    struct rig r = rig_open(301, NULL);
    connect_first(&r);
    hold_after(BIG);
    told_pad(r.l, 100000);
    publish_range(&r, 1, r.l->count);
    assert_code(leat_topic_flush(r.topic, 20, NULL), LEAT_ETIMEOUT);
    tcpfault_release(proxy);
    settle(&r);
    assert_int_equal(r.l->ok, r.l->count);
    tcpfault_clear(proxy);
    rig_close(&r);
}

/* The last of what was given to the connection is still here when it breaks:
 * it was not sent, and goes out on the next. */
static void what_did_not_leave_goes_out_on_the_next_connection(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        struct rig r = rig_open(61, NULL);
        connect_first(&r);
        hold_after(BIG);
        told_pad(r.l, BIG);
        uint64_t held = tcpfault_count(proxy).fired;
        publish_range(&r, 1, r.l->count);
        wait_until(tcpfault_count(proxy).fired > held, SOON_MS);
        assert_code(leat_topic_flush(r.topic, 100, NULL), LEAT_ETIMEOUT);
        tcpfault_clear(proxy);
        tcpfault_drop(proxy, 0, round % 2);
        settle(&r);
        assert_int_equal(r.l->all, r.l->count);
        assert_int_equal(r.l->failed, 0);
        assert_true(r.l->unknown > 0);
        assert_true(r.l->ok > 1);
        rig_close(&r);
    }
}

static int64_t in_log(void)
{
    int64_t n = 0;
    for (int i = 0; i < PARTITIONS; i++)
        n += redis_int(server, "XLEN leat:{t/%d}:log", i);
    return n;
}

/* What is on its way when a connection is given up must not arrive behind what
 * the next one brings. */
static void what_is_late_on_an_old_connection_never_arrives(void **state)
{
    (void)state;
    struct rig r = rig_open_for(IMPATIENT_MS, 61, NULL);
    connect_first(&r);
    tcpfault_rule_add(proxy, &(tcpfault_rule){ .dir = TCPFAULT_UP,
                                               .when = TCPFAULT_COMMAND,
                                               .command = "XADD",
                                               .n = 1,
                                               .action = TCPFAULT_HOLD,
                                               .times = 1 });
    publish_range(&r, 1, 21);
    settle(&r);
    assert_int_equal(r.l->unknown, 20);
    publish_range(&r, 21, 41);
    settle(&r);
    assert_int_equal(in_log(), 21);
    uint64_t up = tcpfault_count(proxy).up;
    tcpfault_release(proxy);
    publish_range(&r, 41, 61);
    settle(&r);
    wait_until(tcpfault_count(proxy).up > up, SOON_MS);
    wait_nap(50); /* for what should not come, and would come at once */
    assert_int_equal(in_log(), 41);
    assert_int_equal(r.l->unknown, 20);
    tcpfault_clear(proxy);
    rig_close(&r);
}

static void replicas_that_cannot_be_counted_are_unknown(void **state)
{
    (void)state;
    struct rig r = rig_open(
        2000, &(leat_topic_opts){ .replicas = 1, .replicas_ms = 5 });
    tcpfault_rule_add(proxy, &(tcpfault_rule){ .dir = TCPFAULT_UP,
                                               .when = TCPFAULT_COMMAND,
                                               .command = "WAIT",
                                               .n = 2,
                                               .action = TCPFAULT_CUT,
                                               .times = 3 });
    publish_range(&r, 0, r.l->count);
    settle(&r);
    assert_int_equal(r.l->ok, 0);
    assert_int_equal(r.l->failed, 0);
    assert_int_equal(r.l->unknown, r.l->count);
    tcpfault_clear(proxy);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_server_kill_breaks_a_promise),
        cmocka_unit_test(a_server_that_hangs_is_waited_for),
        cmocka_unit_test(an_answer_that_does_not_come_is_unknown),
        cmocka_unit_test(what_cannot_leave_in_time_fails_for_certain),
        cmocka_unit_test(closing_with_the_server_away_tells_everyone),
        cmocka_unit_test(closing_while_the_server_hangs_calls_it_unknown),
        cmocka_unit_test(cuts_at_any_byte_keep_order_and_honesty),
        cmocka_unit_test(
            answers_that_are_swallowed_are_unknown_and_the_rest_goes_on),
        cmocka_unit_test(a_slow_server_is_waited_for),
        cmocka_unit_test(what_did_not_leave_goes_out_on_the_next_connection),
        cmocka_unit_test(what_is_late_on_an_old_connection_never_arrives),
        cmocka_unit_test(replicas_that_cannot_be_counted_are_unknown),
    };
    server_opts.aof = REDIS_AOF_ALWAYS;
    return cmocka_run_group_tests(tests, start_proxy, stop_proxy);
}
