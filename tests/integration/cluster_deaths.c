/*
 * Each master of a cluster dies in turn, by kill -9, while its keys and those
 * of the others are counted up.
 */
#include "cluster_count.h"

/* A machine so slow that a living master was replaced as well disturbs the
 * others; then only the count is looked at. */
static void assert_undisturbed(const struct counter *k)
{
    if (cluster_is_master(rig, k->node))
        assert_smooth(k);
}

static void one_dies(leat_conn *conn, int round)
{
    struct counter k[3];
    char name[16];
    snprintf(name, sizeof name, "death%d", round);
    begin_counting(k, 3, name);
    count_more(conn, k, 3, 20);
    must(leat_conn_drain(conn, 0, err));

    struct counter dead = k[round];
    struct counter others[2] = { k[(round + 1) % 3], k[(round + 2) % 3] };
    count_on(conn, &dead);
    redis_kill(cluster_node(rig, dead.node));
    count_more(conn, others, 2, 50);
    must(leat_conn_drain(conn, 0, err));
    assert_undisturbed(&others[0]);
    assert_undisturbed(&others[1]);

    /* Its replica takes over. */
    count_more(conn, &dead, 1, 20);
    must(leat_conn_drain(conn, 0, err));
    count_more(conn, others, 2, 5);
    must(leat_conn_drain(conn, 0, err));
    assert_undisturbed(&others[0]);
    assert_undisturbed(&others[1]);
    assert_true(redis_restart(cluster_node(rig, dead.node)));
    assert_true(cluster_wait(rig, LONG_MS));
    assert_true(cluster_wait_replicas(rig, LONG_MS));
}

static void the_death_of_a_master_disturbs_no_other_slot(void **state)
{
    (void)state;
    leat_client *c = open_client(url, &quick);
    leat_conn *conn = lend(c);
    leat__conn_impatient(conn);
    for (int round = 0; round < 3; round++)
        one_dies(conn, round);
    leat_client_return(c, conn);
    leat_client_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_death_of_a_master_disturbs_no_other_slot),
    };
    rig_opts = (cluster_opts){ .node_timeout_ms = 2000, .partial = true };
    return cmocka_run_group_tests(tests, start_rig, stop_rig);
}
