/*
 * topic_cluster_failover.c: topics on a cluster of three masters and three
 * replicas, whose masters die, are replaced and come back.
 */
#include "topic_cluster_help.h"

enum { NODE_TIMEOUT_MS = 3000 };

static int open_whole(void **state)
{
    if (!cluster_wait(rig, LONG_MS) || !cluster_wait_replicas(rig, LONG_MS))
        return -1;
    return open_on_rig(state);
}

static void finish(writer *w, reader *r, leat_topic *t)
{
    int n = writer_stop(w);
    print_message("%d published, %d confirmed, %d failed, %d unknown: %s\n", n,
                  w->l->ok, w->l->failed, w->l->unknown, w->l->last);
    reader_sees_all(r, w->l);
    assert_int_equal(atomic_load(&r->disorder), 0);
    reader_stop(r);
    leat_topic_close(t);
    told_audit_cluster(w->l, PARTS);
    told_free(w->l);
}

/* Every partition that had messages has more. */
static void all_flow(reader *r)
{
    int from[PARTS];
    for (int p = 0; p < PARTS; p++)
        from[p] = atomic_load(&r->by_part[p]);
    for (int p = 0; p < PARTS; p++)
        if (from[p] > 0)
            wait_until(atomic_load(&r->by_part[p]) > from[p] + 5, LONG_MS);
}

static bool moved_from(int dead, const char *key)
{
    int now = cluster_owner_of(rig, key);
    return now >= 0 && now != dead;
}

/* Its replica has taken over, and it comes back as the replica of that one:
 * before there is one again nothing can be confirmed. */
static void come_back(int dead, const char *key)
{
    wait_until(moved_from(dead, key), LONG_MS);
    assert_true(cluster_wait(rig, LONG_MS));
    assert_true(redis_restart(cluster_node(rig, dead)));
    assert_true(cluster_wait(rig, LONG_MS));
    assert_true(cluster_wait_replicas(rig, LONG_MS));
}

/* A confirmed message is on a replica, so the new master has it. */
static void a_killed_master_takes_nothing_that_was_confirmed(void **state)
{
    writer w;
    reader r;
    int there[PARTS], from[PARTS];
    (void)state;
    leat_topic *t = open_topic(
        client, &(leat_topic_opts){ .replicas = 1, .replicas_ms = 500 });
    int part = 0; /* of a node that the group itself does not live on */
    while (node_of(part) == cluster_owner_of(rig, "leat:{t}:members:g"))
        part++;
    assert_in_range(part, 0, PARTS - 1);
    int dead = node_of(part);
    char key[64];
    log_key(key, sizeof key, part);
    reader_start(&r, t, "g", NULL);
    writer_start(&w, t);
    writer_confirms(&w, 1000);
    for (int p = 0; p < PARTS; p++) {
        there[p] = node_of(p);
        from[p] = atomic_load(&r.by_part[p]);
    }
    redis_kill(cluster_node(rig, dead));
    for (int p = 0; p < PARTS; p++)
        if (there[p] != dead && from[p] > 0)
            wait_until(atomic_load(&r.by_part[p]) > from[p] + 5, LONG_MS);
    come_back(dead, key);
    all_flow(&r);
    finish(&w, &r, t);
}

static void the_node_of_the_group_itself_may_die(void **state)
{
    writer w;
    reader r;
    (void)state;
    leat_topic *t = open_topic(
        client, &(leat_topic_opts){ .replicas = 1, .replicas_ms = 500 });
    int dead = cluster_owner_of(rig, "leat:{t}:members:g");
    reader_start(&r, t, "g", &(leat_topic_source_opts){ .lease_ms = 5000 });
    writer_start(&w, t);
    writer_confirms(&w, 1000);
    redis_kill(cluster_node(rig, dead));
    come_back(dead, "leat:{t}:members:g");
    all_flow(&r);
    finish(&w, &r, t);
}

static void a_failover_by_hand_is_followed_in_order(void **state)
{
    writer w;
    reader r;
    (void)state;
    leat_topic *t = open_topic(client, NULL);
    reader_start(&r, t, "g", NULL);
    writer_start(&w, t);
    writer_confirms(&w, 1000);
    int master = node_of(0), heir = cluster_replica_of(rig, master);
    assert_true(heir >= 0);
    assert_true(cluster_failover(rig, heir, LONG_MS));
    assert_int_equal(node_of(0), heir);
    all_flow(&r);
    assert_int_equal(atomic_load(&w.l->failed), 0);
    finish(&w, &r, t);
}

/* Masters first: a replica that comes back before its master may take its place
 * without having all that it had. */
static void all_go_and_come_back(void)
{
    bool master[CLUSTER_NODES];
    for (int i = 0; i < cluster_count(rig); i++)
        master[i] = cluster_is_master(rig, i);
    for (int i = 0; i < cluster_count(rig); i++)
        redis_kill(cluster_node(rig, i));
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < cluster_count(rig); i++)
            if (master[i] == (turn == 0))
                assert_true(redis_restart(cluster_node(rig, i)));
}

static void the_whole_cluster_may_go_and_come_back(void **state)
{
    writer w;
    reader r;
    (void)state;
    leat_topic *t = open_topic(client, NULL);
    reader_start(&r, t, "g", NULL);
    writer_start(&w, t);
    writer_confirms(&w, 1000);
    all_go_and_come_back();
    assert_true(cluster_wait(rig, LONG_MS));
    writer_confirms(&w, 500);
    all_flow(&r);
    finish(&w, &r, t);
}

/* What XREAD, XRANGE and scripts did on a server that is a replica. */
static void replicas_are_never_read(void **state)
{
    static const char *const words[] = { "cmdstat_xread:", "cmdstat_xrange:",
                                         "cmdstat_evalsha:", "cmdstat_hmget:" };
    writer w;
    reader r;
    (void)state;
    for (int i = 0; i < cluster_count(rig); i++)
        redis_do(cluster_node(rig, i), "CONFIG RESETSTAT");
    leat_topic *t = open_topic(client, NULL);
    reader_start(&r, t, "g", NULL);
    writer_start(&w, t);
    writer_confirms(&w, 500);
    finish(&w, &r, t);
    int replicas = 0;
    for (int i = 0; i < cluster_count(rig); i++) {
        redisReply *info = redis_raw(cluster_node(rig, i), "INFO commandstats");
        assert_non_null(info);
        bool replica = !cluster_is_master(rig, i);
        replicas += replica;
        for (int k = 0; replica && k < 4; k++)
            if (strstr(info->str, words[k]))
                fail_msg("node %d is a replica and was asked %s", i, words[k]);
        freeReplyObject(info);
    }
    assert_int_equal(replicas, 3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_whole, close_one)
    const struct CMUnitTest tests[] = {
        TEST(replicas_are_never_read),
        TEST(a_failover_by_hand_is_followed_in_order),
        TEST(a_killed_master_takes_nothing_that_was_confirmed),
        TEST(the_node_of_the_group_itself_may_die),
        TEST(the_whole_cluster_may_go_and_come_back),
    };
    rig_opts = (cluster_opts){ .node_timeout_ms = NODE_TIMEOUT_MS,
                               .partial = true,
                               .aof = REDIS_AOF_ALWAYS };
    return cmocka_run_group_tests(tests, start_rig, stop_rig);
}
