/*
 * topic_producer_sweep.c: every allocation between opening a client and closing
 * it, failed once alone and once with all after it, around a topic that is
 * made, published to and removed.  What was told stays true, and nothing leaks.
 */
#include "support/allocfail.h"
#include "support/server.h"
#include "topic_told.h"

enum { MESSAGES = 40, FLUSH_MS = 30000, SHORT_MS = 20, HOUR_MS = 3600 * 1000 };

static long refused, persisted, others;
static leat_retention kept; /* of the topic */

static leat_topic *open_topic(leat_client *c, leat_metrics *m, int replicas)
{
    leat_topic_opts o = { .auto_create = true,
                          .partitions = 2,
                          .partitioner = LEAT_PARTITION_RING,
                          .timeout_ms = SHORT_MS,
                          .partition_header = true,
                          .replicas = replicas,
                          .replicas_ms = 1,
                          .retention = kept,
                          .metrics = m };
    return leat_topic_open(c, "t", &o, NULL);
}

static void publish_all(leat_topic *t, told *l)
{
    for (int i = 0; i < MESSAGES; i++) {
        leat_error e = { 0 };
        leat_code rc = told_publish(l, t, i, i % 2 ? "a" : "order-1", &e);
        if (rc == LEAT_OK)
            continue;
        refused++;
        assert_code(rc, LEAT_ENOMEM);
        assert_code(e.code, rc);
    }
}

static void work(void *arg)
{
    told *l = arg;
    leat_client *c = leat_client_open(
        url, &(leat_client_opts){ .timeout_ms = 300, .max_retry_ms = 5 }, NULL);
    leat_metrics *m = c ? leat_metrics_new(NULL) : NULL;
    leat_topic *t = m ? open_topic(c, m, l->count > MESSAGES ? 1 : 0) : NULL;
    leat_sink *k = t ? leat_topic_sink(t, NULL) : NULL;
    if (t) {
        leat_error e = { 0 };
        publish_all(t, l);
        if (kept.cap)
            (void)leat_topic_publish_later(
                t, &(leat_msg){ .key = leat_str("a"), .body = leat_str("0") },
                HOUR_MS, NULL, NULL, NULL);
        leat_code rc = leat_topic_flush(t, FLUSH_MS, &e);
        if (rc != LEAT_OK && !kept.cap)
            fail_msg("flush: %s", e.msg);
    }
    leat_sink_close(k);
    leat_topic_close(t);
    if (c)
        (void)leat_topic_remove(c, "gone", NULL, NULL);
    leat_metrics_free(m);
    leat_client_close(c);
}

static void sweep(int replicas, bool forever)
{
    refused = persisted = others = 0;
    for (long n = 1; n < ALLOC_FAIL_MOST; n++) {
        told *l = told_new(MESSAGES + replicas);
        if (kept.large_body)
            told_pad(l, 50);
        assert_true(redis_flush(server));
        redis_do(server, "HSET leat:topic:gone partitions 2 partitioner java");
        redis_do(server, "SADD leat:{gone}:groups g");
        long failed = alloc_fail_run(work, l, n, forever);
        told_audit(l, server, 2);
        persisted += l->ok;
        others += l->failed + l->unknown;
        told_free(l);
        if (failed == 0)
            break;
    }
    print_message("# %ld persisted, %ld not, %ld refused\n", persisted, others,
                  refused);
    assert_true(refused > 0);
}

static void any_one_allocation_may_fail(void **state)
{
    (void)state;
    sweep(0, false);
    assert_true(persisted > 0);
}

static void memory_may_end_at_any_allocation(void **state)
{
    (void)state;
    sweep(0, true);
    assert_true(others > 0);
}

/* Messages by scripts, large and small, and delayed ones that ripen. */
static void any_one_allocation_may_fail_where_scripts_add(void **state)
{
    (void)state;
    kept = (leat_retention){ .cap = 1000, .large_body = 40 };
    sweep(0, false);
    kept = (leat_retention){ 0 };
    assert_true(persisted > 0);
}

static void any_one_allocation_may_fail_while_replicas_are_awaited(void **state)
{
    (void)state;
    sweep(1, false);
    assert_int_equal(persisted, 0);
}

/* ---- losses ------------------------------------------------------------ */

struct losing {
    atomic_int told, republished;
};

static void on_loss(void *arg, const leat_loss *x)
{
    struct losing *l = arg;
    atomic_fetch_add(&l->told, (int)x->count);
    atomic_fetch_add(&l->republished, (int)x->republished);
}

static void publish_some(leat_topic *t, int n)
{
    for (int i = 0; i < n; i++)
        (void)leat_topic_publish(t, &(leat_msg){ .body = leat_str("x") }, NULL,
                                 NULL, NULL);
    (void)leat_topic_flush(t, FLUSH_MS, NULL);
}

/* Everything is taken away, and the connection with it. */
static void lose(void *arg)
{
    leat_client *c = leat_client_open(
        url, &(leat_client_opts){ .timeout_ms = 300, .max_retry_ms = 5 }, NULL);
    leat_topic_opts o = { .auto_create = true,
                          .timeout_ms = SHORT_MS,
                          .on_loss = on_loss,
                          .loss_arg = arg,
                          .republish_bytes = 10000 };
    leat_topic *t = c ? leat_topic_open(c, "t", &o, NULL) : NULL;
    if (t) {
        publish_some(t, 5);
        (void)redis_flush(server);
        redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
        publish_some(t, 5);
    }
    leat_topic_close(t);
    leat_client_close(c);
}

/* What was told is never more than was lost, and nothing leaks. */
static void memory_may_fail_while_a_loss_is_looked_into(void **state)
{
    int lost = 0, again = 0;
    (void)state;
    for (long n = 1; n < ALLOC_FAIL_MOST; n++) {
        struct losing l = { 0 };
        assert_true(redis_flush(server));
        long failed = alloc_fail_run(lose, &l, n, n % 4 == 0);
        assert_true(l.told <= 5 && l.republished <= l.told);
        lost += l.told;
        again += l.republished;
        if (failed == 0)
            break;
    }
    print_message("# %d told, %d published again\n", lost, again);
    assert_true(lost > again && again > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_one_allocation_may_fail),
        cmocka_unit_test(memory_may_end_at_any_allocation),
        cmocka_unit_test(any_one_allocation_may_fail_where_scripts_add),
        cmocka_unit_test(
            any_one_allocation_may_fail_while_replicas_are_awaited),
        cmocka_unit_test(memory_may_fail_while_a_loss_is_looked_into),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
