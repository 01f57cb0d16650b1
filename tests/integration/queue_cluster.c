/*
 * queue_cluster.c: queues on a cluster.  Each shard is one slot, so that the
 * queues of one process are spread over the nodes.
 */
#include "queue_help.h"
#include "support/cluster.h"

#include <pthread.h>
#include <stdatomic.h>

enum { QUEUES = 12, EACH = 20 };

static cluster *nodes;

static int start(void **state)
{
    (void)state;
    nodes = cluster_start(&(cluster_opts){ .replicas = -1 });
    if (!nodes)
        return -1;
    cluster_url(nodes, url, sizeof url);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    cluster_stop(nodes);
    return 0;
}

static int open_all(void **state)
{
    (void)state;
    for (int i = 0; i < cluster_count(nodes); i++)
        redis_do(cluster_node(nodes, i), "FLUSHALL");
    client = open_client(url, NULL);
    return 0;
}

#define cluster_test(name)                                                     \
    cmocka_unit_test_setup_teardown(name, open_all, close_one)

static void queues_of_all_shards_work(void **state)
{
    (void)state;
    leat_queue *q[QUEUES];
    char name[16];
    for (int i = 0; i < QUEUES; i++) {
        snprintf(name, sizeof name, "q%d", i);
        q[i] = queue_of(
            name, &(leat_queue_opts){ .fifo = i % 3 == 0, .max_receives = 2 });
        for (int k = 0; k < EACH; k++)
            send_group(q[i], k % 2 ? "a" : "b", "x");
    }
    for (int i = 0; i < QUEUES; i++) {
        for (int k = 0; k < EACH; k++) {
            leat_queue_batch *b = take_one(q[i]);
            ack(q[i], b);
            leat_queue_batch_free(b);
        }
        assert_int_equal(stats(q[i]).acked, EACH);
        conserved(q[i]);
        leat_queue_close(q[i]);
    }
}

static void count_name(void *arg, const char *name)
{
    (void)name;
    (*(int *)arg)++;
}

static void lists_and_removal_reach_all_nodes(void **state)
{
    (void)state;
    char name[16];
    int n = 0;
    for (int i = 0; i < QUEUES; i++) {
        snprintf(name, sizeof name, "q%d", i);
        leat_queue *q = queue_of(name, NULL);
        send_text(q, "x");
        leat_queue_close(q);
    }
    must(leat_queue_list(client, NULL, count_name, &n, err));
    assert_int_equal(n, QUEUES);
    for (int i = 0; i < QUEUES; i++) {
        snprintf(name, sizeof name, "q%d", i);
        must(leat_queue_remove(client, name, NULL, err));
    }
    n = 0;
    must(leat_queue_list(client, NULL, count_name, &n, err));
    assert_int_equal(n, 0);
}

static void *receive_one(void *arg)
{
    return leat_queue_receive(arg, &(leat_receive_opts){ .wait_ms = LONG_MS },
                              NULL);
}

/* The node that is listened to need not be the queue's. */
static void a_wait_ends_wherever_the_queue_lives(void **state)
{
    (void)state;
    char name[16];
    for (int i = 0; i < QUEUES; i++) {
        pthread_t t;
        void *b;
        snprintf(name, sizeof name, "q%d", i);
        leat_queue *q = queue_of(name, NULL);
        assert_int_equal(pthread_create(&t, NULL, receive_one, q), 0);
        send_text(q, "x");
        pthread_join(t, &b);
        assert_non_null(b);
        assert_int_equal(leat_queue_batch_count(b), 1);
        leat_queue_batch_free(b);
        leat_queue_close(q);
    }
}

static void what_expires_comes_back_on_every_node(void **state)
{
    (void)state;
    leat_queue *q[QUEUES];
    char name[16];
    for (int i = 0; i < QUEUES; i++) {
        snprintf(name, sizeof name, "q%d", i);
        q[i] = queue_of(name, NULL);
        send_text(q[i], "x");
        leat_queue_batch_free(
            take(q[i], &(leat_receive_opts){ .visibility_ms = 50 }));
    }
    for (int i = 0; i < QUEUES; i++) {
        wait_until(stats(q[i]).visible == 1, LONG_MS);
        leat_queue_close(q[i]);
    }
}

/* A slot moves to another node, key by key, while it is used. */
static void a_moving_slot_loses_and_doubles_nothing(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    unsigned slot = cluster_slot("leat:{q/41}:due");
    int from = cluster_owner(nodes, slot, -1), to = (from + 1) % 3;
    int got = 0;
    send_many(q, 0, 50);
    assert_true(cluster_move_begin(nodes, slot, from, to));
    assert_true(cluster_move_keys(nodes, slot, from, to, 100000) >= 0);
    assert_true(cluster_move_end(nodes, slot, from, to));
    send_many(q, 50, 50);
    while (got < 100) {
        leat_queue_batch *b = take(
            q, &(leat_receive_opts){ .max = 10, .wait_ms = LONG_MS });
        got += (int)leat_queue_batch_count(b);
        ack(q, b);
        leat_queue_batch_free(b);
    }
    assert_int_equal(stats(q).acked, 100);
    conserved(q);
    leat_queue_close(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(queues_of_all_shards_work),
        cluster_test(lists_and_removal_reach_all_nodes),
        cluster_test(a_wait_ends_wherever_the_queue_lives),
        cluster_test(what_expires_comes_back_on_every_node),
        cluster_test(a_moving_slot_loses_and_doubles_nothing),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
