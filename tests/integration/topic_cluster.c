/*
 * topic_cluster.c: topics on a cluster of three masters, where nobody dies:
 * partitions are spread, move, and keep their order.
 */
#include "topic_cluster_help.h"

static leat_client *client;

static int start_rig(void **state)
{
    (void)state;
    rig = cluster_start(&(cluster_opts){ .replicas = -1 });
    if (!rig)
        return -1;
    cluster_url(rig, url, sizeof url);
    return 0;
}

static int stop_rig(void **state)
{
    (void)state;
    cluster_stop(rig);
    return 0;
}

static int open_one(void **state)
{
    if (empty_rig(state) != 0)
        return -1;
    client = open_client(url, NULL);
    return 0;
}

static int close_one(void **state)
{
    (void)state;
    leat_client_close(client);
    client = NULL;
    return 0;
}

/* ---- spread ----------------------------------------------------------- */

static void partitions_are_spread_and_read_by_one_group(void **state)
{
    int at[CLUSTER_NODES] = { 0 }, nodes = 0;
    (void)state;
    for (int p = 0; p < PARTS; p++)
        at[node_of(p)]++;
    for (int i = 0; i < cluster_count(rig); i++) {
        print_message("node %d has %d of %d partitions\n", i, at[i], PARTS);
        nodes += at[i] > 0;
    }
    assert_in_range(nodes, 2, 3);

    told *l = told_new(1200);
    reader r;
    leat_topic *t = open_topic(client, NULL);
    reader_start(&r, t, "g", NULL);
    for (int i = 0; i < l->count; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i % KEYS);
        must(told_publish(l, t, i, key, err));
    }
    must(leat_topic_flush(t, LONG_MS, err));
    assert_int_equal(l->ok, 1200);
    reader_sees_all(&r, l);
    assert_int_equal(atomic_load(&r.disorder), 0);
    must(leat_source_flush(r.source, LONG_MS, err));
    reader_stop(&r);
    leat_topic_close(t);
    told_audit_cluster(l, PARTS);
    told_free(l);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_one, close_one)
    const struct CMUnitTest tests[] = {
        TEST(partitions_are_spread_and_read_by_one_group),
    };
    return cmocka_run_group_tests(tests, start_rig, stop_rig);
}
