/*
 * pool_cluster.c: a pool over the queues of a cluster, whose shards are spread
 * over the nodes.
 */
#include "pool_help.h"
#include "support/rig.h"

enum { QUEUES = 40, EACH = 5 };

static leat_verdict fail_once(leat_ctx *x, void *arg)
{
    (void)arg;
    log_handled(x);
    bool again = leat_delivery_redelivered(leat_ctx_delivery(x));
    return body_is(x, "2") && !again ? LEAT_NACK : LEAT_ACK;
}

static void queues_of_all_nodes_are_served_in_their_order(void **state)
{
    (void)state;
    leat_queue *q[QUEUES];
    for (int i = 0; i < QUEUES; i++) {
        q[i] = queue_nr("q", i, NULL);
        send_many(q[i], 1, EACH);
    }
    log_clear();
    leat_pool *p = pool_of(fail_once, NULL,
                           &(leat_pool_opts){ .retry_ms = 50 });
    wait_until(log_count() == QUEUES * (EACH + 1), LONG_MS);
    stop(p);
    for (int i = 0; i < QUEUES; i++) {
        char name[16];
        snprintf(name, sizeof name, "q%d", i);
        assert_string_equal(log_of(name), "1 2 2 3 4 5");
        assert_int_equal(stats(q[i]).acked, EACH);
        conserved(q[i]);
        leat_queue_close(q[i]);
    }
}

static void a_queue_that_gets_work_later_is_served(void **state)
{
    (void)state;
    log_clear();
    leat_pool *p = pool_of(note, NULL, NULL);
    leat_queue *q = queue_of("late", NULL);
    for (int i = 1; i <= 3; i++) {
        send_many(q, i, 1);
        wait_until(log_count() == i, LONG_MS);
    }
    stop(p);
    assert_string_equal(log_of("late"), "1 2 3");
    leat_queue_close(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(queues_of_all_nodes_are_served_in_their_order),
        rig_test(a_queue_that_gets_work_later_is_served),
    };
    rig_opts = (cluster_opts){ .replicas = -1 };
    return cmocka_run_group_tests(tests, start_rig, stop_rig);
}
