/* durability_cluster.c: on a cluster each node is proven for itself. */
#include "queue/keys.h"
#include "support/rig.h"
#include "topic_help.h"

#include <stdatomic.h>

enum { MASTERS = 2, PARTITIONS = 8, EACH = 20, PAUSED = 1 };

static int owner[PARTITIONS]; /* of each partition */

static int start_nodes(void **state)
{
    static const char *const config[] = { "repl-diskless-sync-delay 0",
                                          "min-replicas-to-write 1",
                                          "min-replicas-max-lag 3600",
                                          "repl-timeout 3600", NULL };
    rig_opts = (cluster_opts){ .masters = MASTERS,
                               .node_timeout_ms = 600000,
                               .aof = REDIS_AOF_ALWAYS,
                               .config = config };
    if (start_rig(state) != 0)
        return -1;
    client = open_client(url,
                         &(leat_client_opts){ .durability = LEAT_REPLICATED,
                                              .replicas_ms = 500 });
    for (int p = 0; p < PARTITIONS; p++) {
        char key[64];
        snprintf(key, sizeof key, "leat:{t/%d}:log", p);
        owner[p] = cluster_owner_of(rig, key);
    }
    return 0;
}

static int stop_nodes(void **state)
{
    close_one(state);
    return stop_rig(state);
}

static redis_server *paused_replica(void)
{
    return cluster_node(rig, MASTERS + PAUSED);
}

/* ---- publishing ------------------------------------------------------- */

static void on_published(void *arg, const leat_position *at,
                         const leat_error *err)
{
    (void)at;
    atomic_store((atomic_int *)arg, err ? (int)err->code : (int)LEAT_OK);
}

static leat_code publish(leat_topic *t, uint32_t partition)
{
    atomic_int code = -1;
    must(leat_topic_publish_to(t, partition,
                               &(leat_msg){ .body = leat_str("x") },
                               on_published, &code, err));
    must(leat_topic_flush(t, LONG_MS, err));
    return (leat_code)atomic_load(&code);
}

/* Half a second may be too short for a machine that is busy otherwise. */
static void publish_well(leat_topic *t, uint32_t partition)
{
    int64_t end = wait_now_ms() + LONG_MS;
    leat_code rc = LEAT_EUNKNOWN;
    while (rc == LEAT_EUNKNOWN && wait_now_ms() < end)
        rc = publish(t, partition);
    assert_code(rc, LEAT_OK);
}

static void only_what_the_lagging_node_has_is_unknown(void **state)
{
    int bad = 0;
    (void)state;
    leat_topic *t = topic_of(client, "t", PARTITIONS);
    for (uint32_t p = 0; p < PARTITIONS; p++)
        publish_well(t, p);
    redis_pause(paused_replica());
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        bad += owner[p] == PAUSED;
        if (owner[p] == PAUSED)
            assert_code(publish(t, p), LEAT_EUNKNOWN);
        else
            publish_well(t, p);
    }
    assert_in_range(bad, 1, PARTITIONS - 1);
    redis_resume(paused_replica());
    for (uint32_t p = 0; p < PARTITIONS; p++)
        publish_well(t, p);
    leat_topic_close(t);
}

/* ---- consuming -------------------------------------------------------- */

/* The first of that node that is not yet settled; NULL: none. */
static leat_delivery *pick(leat_delivery **d, int n, bool paused)
{
    for (int i = 0; i < n; i++) {
        leat_delivery *x = d[i];
        if (!x || (owner[leat_delivery_partition(x)] == PAUSED) != paused)
            continue;
        d[i] = NULL;
        return x;
    }
    return NULL;
}

/* Settle one after the other until one is known to be kept. */
static void settle_well(leat_source *s, leat_delivery **d, int n, bool paused)
{
    leat_code rc = LEAT_EUNKNOWN;
    while (rc == LEAT_EUNKNOWN) {
        leat_delivery *x = pick(d, n, paused);
        assert_non_null(x);
        ack(x);
        rc = leat_source_flush(s, LONG_MS, NULL);
    }
    assert_code(rc, LEAT_OK);
}

static void settlements_are_proven_node_by_node(void **state)
{
    enum { ALL = PARTITIONS * EACH };
    leat_delivery *d[ALL];
    (void)state;
    leat_topic *t = topic_of(client, "s", PARTITIONS);
    for (int p = 0; p < PARTITIONS; p++) {
        char key[64];
        snprintf(key, sizeof key, "leat:{s/%d}:log", p);
        owner[p] = cluster_owner_of(rig, key);
        add_many("s", p, 0, EACH);
    }
    leat_source *s = source_of(t, "g", NULL);
    take_n(s, d, ALL);
    redis_pause(paused_replica());
    settle_well(s, d, ALL, false);
    ack(pick(d, ALL, true));
    assert_code(leat_source_flush(s, LONG_MS, NULL), LEAT_EUNKNOWN);
    settle_well(s, d, ALL, false);
    redis_resume(paused_replica());
    settle_well(s, d, ALL, true);
    leat_source_close(s);
    leat_topic_close(t);
}

/* ---- queues ----------------------------------------------------------- */

static leat_queue *queue_of(leat_client *c, int number)
{
    char name[16];
    leat_error e = { 0 };
    snprintf(name, sizeof name, "q%d", number);
    leat_queue *q = leat_queue_open(
        c, name, &(leat_queue_opts){ .no_reaper = true, .no_events = true },
        &e);
    if (!q)
        fail_msg("cannot open queue '%s': %s", name, e.msg);
    return q;
}

static leat_code send_to(leat_queue *q)
{
    return leat_queue_send(q, &(leat_msg){ .body = leat_str("x") }, NULL, NULL,
                           NULL);
}

static int owner_of_queue(int number)
{
    char name[16], key[64];
    snprintf(name, sizeof name, "q%d", number);
    snprintf(key, sizeof key, "leat:{q/%u}:due", leat__queue_shard(name));
    return cluster_owner_of(rig, key);
}

/* A node that has forgotten the script is asked for the proof first. */
static void a_script_that_was_forgotten_is_proven_for_itself(void **state)
{
    enum { QUEUES = 6 };
    leat_queue *q[QUEUES];
    int bad = 0;
    (void)state;
    leat_client *soon = open_client(
        url, &(leat_client_opts){ .durability = LEAT_REPLICATED,
                                  .replicas_ms = 500,
                                  .timeout_ms = 1000 });
    for (int i = 0; i < QUEUES; i++) {
        q[i] = queue_of(client, i);
        assert_code(send_to(q[i]), LEAT_OK);
        leat_queue_close(q[i]);
        q[i] = queue_of(soon, i);
    }
    wait_until(replica_has_all(cluster_node(rig, PAUSED)), LONG_MS);
    redis_pause(paused_replica());
    for (int i = 0; i < QUEUES; i++) {
        if (owner_of_queue(i) != PAUSED)
            continue;
        redis_do(cluster_node(rig, PAUSED), "SCRIPT FLUSH");
        assert_code(send_to(q[i]), LEAT_EUNKNOWN);
        bad++;
    }
    redis_resume(paused_replica());
    assert_in_range(bad, 1, QUEUES - 1);
    for (int i = 0; i < QUEUES; i++)
        leat_queue_close(q[i]);
    leat_client_close(soon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_the_lagging_node_has_is_unknown),
        cmocka_unit_test(settlements_are_proven_node_by_node),
        cmocka_unit_test(a_script_that_was_forgotten_is_proven_for_itself),
    };
    return cmocka_run_group_tests(tests, start_nodes, stop_nodes);
}
