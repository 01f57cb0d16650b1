/*
 * Nodes of a cluster that hang, are replaced, or are all gone: who has nothing
 * to do with it goes on, and the rest comes back.
 */
#include "cluster_count.h"

#include <pthread.h>

static void a_master_that_hangs_is_waited_for_by_nobody_else(void **state)
{
    (void)state;
    struct counter k[3];
    leat_client *c = open_client(url, &quick);
    leat_conn *conn = lend(c);
    leat__conn_impatient(conn);
    begin_counting(k, 3, "hang");
    count_more(conn, k, 3, 20);
    must(leat_conn_drain(conn, 0, err));
    redis_pause(cluster_node(rig, k[1].node));
    count_on(conn, &k[1]);
    struct counter others[2] = { k[0], k[2] };
    count_more(conn, others, 2, 50);
    assert_smooth(&others[0]);
    assert_smooth(&others[1]);
    /* Its own is told when its time is over. */
    int64_t end = wait_now_ms() + LONG_MS;
    while (k[1].under_way && wait_now_ms() < end)
        loop_once(conn, others, 2);
    assert_int_equal(k[1].unknown, 1);
    redis_resume(cluster_node(rig, k[1].node));
    count_more(conn, &k[1], 1, 20);
    must(leat_conn_drain(conn, 0, err));
    leat_client_return(c, conn);
    leat_client_close(c);
    assert_true(cluster_wait(rig, LONG_MS));
    assert_true(cluster_wait_replicas(rig, LONG_MS));
}

/* A planned failover loses nothing: what was acknowledged is there. */
static void a_planned_failover_loses_nothing(void **state)
{
    (void)state;
    struct counter k[3];
    leat_client *c = open_client(url, &quick);
    leat_conn *conn = lend(c);
    begin_counting(k, 3, "plan");
    count_more(conn, k, 3, 20);
    must(leat_conn_drain(conn, 0, err));
    int heir = cluster_replica_of(rig, k[0].node);
    assert_true(heir >= 0);
    assert_true(cluster_failover(rig, heir, LONG_MS));
    count_more(conn, k, 3, 20);
    must(leat_conn_drain(conn, 0, err));
    assert_int_equal(value_at(heir, k[0].key), k[0].last);
    assert_true(k[0].last >= k[0].done);
    assert_true(k[0].last <= k[0].done + k[0].unknown);
    leat_client_return(c, conn);

    /* A plain connection finds the new master, and the old is none. */
    leat_error e;
    leat_conn *plain = leat__client_dial_key(c, leat_str(k[0].key), INT64_MAX,
                                             &e);
    assert_non_null(plain);
    must(say(plain, "SET", k[0].key, "1", err));
    leat__conn_free(plain);
    leat_client_close(c);
}

static void a_lost_connection_tells_its_own_commands_only(void **state)
{
    (void)state;
    struct counter k[3];
    leat_client *c = open_client(url, &quick);
    leat_conn *conn = lend(c);
    begin_counting(k, 3, "lost");
    redis_server *s = cluster_node(rig, k[2].node);
    must(leat_conn_send(
        conn, LEAT_ARGS(leat_str("BLPOP"), leat_str(k[2].key), leat_str("0")),
        &(leat_send_opts){
            .fn = on_count, .arg = &k[2], .block_ms = 10 * LONG_MS },
        err));
    k[2].under_way = true;
    count_on(conn, &k[0]);
    must(leat_conn_flush(conn, err));
    char text[16384];
    wait_until(
        strstr(redis_text(s, text, sizeof text, "CLIENT LIST"), "cmd=blpop"),
        LONG_MS);
    redis_do(s, "CLIENT KILL TYPE normal");
    must(leat_conn_drain(conn, 0, err));
    assert_int_equal(k[2].unknown, 1);
    assert_int_equal(k[0].done, 1);
    count_more(conn, k, 3, 5);
    must(leat_conn_drain(conn, 0, err));
    leat_client_return(c, conn);
    leat_client_close(c);
}

/* Idle connections die unseen; the next borrower does not notice. */
static void a_node_that_restarts_is_found_again(void **state)
{
    (void)state;
    char key[32];
    leat_client *c = open_client(url, &quick);
    int node = cluster_owner_of(rig, "again");
    snprintf(key, sizeof key, "again");
    say_until_done(c, "SET", key, "1");
    redis_do(cluster_node(rig, node), "CLIENT KILL TYPE normal");
    leat_conn *conn = lend(c);
    must(say(conn, "SET", key, "2", err));
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void a_cluster_that_lost_slots_is_busy_until_they_are_back(void **state)
{
    (void)state;
    leat_error e;
    leat_code rc = LEAT_OK;
    leat_client *c = open_client(url, &quick);
    int count = cluster_count(rig), node = cluster_owner_of(rig, "down");
    int heir = cluster_replica_of(rig, node), other = -1;
    for (int i = 0; i < count; i++) {
        redis_do(cluster_node(rig, i),
                 "CONFIG SET cluster-require-full-coverage yes");
        if (i != node && cluster_is_master(rig, i))
            other = i;
    }
    char key[32];
    key_on(other, "down", key, sizeof key);
    redis_kill(cluster_node(rig, heir));
    redis_kill(cluster_node(rig, node));
    int64_t end = wait_now_ms() + LONG_MS;
    leat_conn *conn = lend(c);
    while (rc == LEAT_OK && wait_now_ms() < end)
        rc = say(conn, "SET", key, "1", &e);
    assert_code(rc, LEAT_EBUSY);
    assert_true(e.retriable);
    assert_true(redis_restart(cluster_node(rig, node)));
    assert_true(redis_restart(cluster_node(rig, heir)));
    say_until_done(c, "SET", key, "2");
    say_until_done(c, "SET", "down", "2");
    leat_client_return(c, conn);
    leat_client_close(c);
    assert_true(cluster_wait(rig, LONG_MS));
}

static void a_cluster_that_was_down_is_used_again(void **state)
{
    (void)state;
    leat_client *c = open_client(url, &quick);
    say_until_done(c, "SET", "all", "1");
    for (int i = 0; i < cluster_count(rig); i++)
        redis_kill(cluster_node(rig, i));
    leat_error e;
    assert_code(leat_client_call(c, LEAT_ARGS(leat_str("GET"), leat_str("all")),
                                 &(leat_call_opts){ .timeout_ms = 300 }, NULL,
                                 &e),
                LEAT_ECONN);
    assert_true(e.retriable);
    for (int i = 0; i < cluster_count(rig); i++)
        assert_true(redis_restart(cluster_node(rig, i)));
    say_until_done(c, "SET", "all", "2");
    leat_client_close(c);
}

/* Asks for a connection again and again, until it has one. */
static void *hurry(void *arg)
{
    leat_client *c = arg;
    leat_conn *conn = NULL;
    leat_error e;
    int64_t end = wait_now_ms() + 2 * LONG_MS;
    while (!conn && wait_now_ms() < end)
        conn = leat_client_lend(c, 200, &e);
    leat_client_return(c, conn);
    return conn;
}

/* Their turns to connect must not be taken from those of the nodes: each would
 * wait for one, and then have none for a node. */
static void callers_in_a_hurry_find_a_cluster_that_was_down(void **state)
{
    (void)state;
    pthread_t thread;
    void *found = NULL;
    leat_client *c = open_client(
        url, &(leat_client_opts){ .pool_size = 2,
                                  .max_retry_ms = 100,
                                  .connect_timeout_ms = 500 });
    leat_conn *conn = lend(c);
    for (int i = 0; i < cluster_count(rig); i++)
        redis_kill(cluster_node(rig, i));
    /* With this under way it is closed, and not lent again. */
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("GET"), leat_str("all")), NULL,
                        err));
    leat_client_return(c, conn);
    assert_int_equal(pthread_create(&thread, NULL, hurry, c), 0);
    wait_nap(2000); /* the turns it may have at once are used up */
    for (int i = 0; i < cluster_count(rig); i++)
        assert_true(redis_restart(cluster_node(rig, i)));
    pthread_join(thread, &found);
    assert_non_null(found);
    leat_client_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_connection_tells_its_own_commands_only),
        cmocka_unit_test(a_node_that_restarts_is_found_again),
        cmocka_unit_test(a_planned_failover_loses_nothing),
        cmocka_unit_test(a_master_that_hangs_is_waited_for_by_nobody_else),
        cmocka_unit_test(a_cluster_that_lost_slots_is_busy_until_they_are_back),
        cmocka_unit_test(a_cluster_that_was_down_is_used_again),
        cmocka_unit_test(callers_in_a_hurry_find_a_cluster_that_was_down),
    };
    rig_opts = (cluster_opts){ .node_timeout_ms = 2000, .partial = true };
    return cmocka_run_group_tests(tests, start_rig, stop_rig);
}
