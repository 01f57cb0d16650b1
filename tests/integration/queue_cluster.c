/*
 * queue_cluster.c: queues on a cluster.  Each shard is one slot, so that the
 * queues of one process are spread over the nodes.
 */
#include "queue/keys.h"
#include "queue_help.h"
#include "support/rig.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { QUEUES = 12, EACH = 20 };

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
        wait_until(stats(q[i]).requeued == 1, LONG_MS);
        leat_queue_close(q[i]);
    }
}

/* A slot moves to another node and is used again. */
static void a_queue_moves_with_its_slot(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    unsigned slot = cluster_slot("leat:{q/41}:due");
    int from = cluster_owner(rig, slot, -1), to = (from + 1) % 3;
    int got = 0;
    send_many(q, 0, 50);
    assert_true(cluster_move_begin(rig, slot, from, to));
    assert_true(cluster_move_keys(rig, slot, from, to, 100000) >= 0);
    assert_true(cluster_move_end(rig, slot, from, to));
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

/* ---- a slot that moves key by key while it is used --------------------- */

enum { BUSY = 3, MOVES = 4, MOST = 20000 };

/* Queues of one shard: plain, of groups, and with delays. */
typedef struct traffic {
    leat_queue *q;
    int kind;
    pthread_t sender, receiver;
    atomic_int sent, acked, refused;
    atomic_bool quiet, stop;
    atomic_char state[MOST]; /* 1 sent, 2 perhaps, 3 done, 4 done twice */
} traffic;

static traffic lines[BUSY];

static void *send_on(void *arg)
{
    traffic *t = arg;
    char text[16];
    for (int i = 0; i < MOST && !t->quiet; i++) {
        snprintf(text, sizeof text, "%d", i);
        leat_queue_send_opts o = { .group = leat_str(i % 2 ? "a" : "b"),
                                   .delay_ms = t->kind == 2 ? 20 : 0 };
        t->state[i] = 2;
        leat_code rc = leat_queue_send(
            t->q, &(leat_msg){ .body = leat_str(text) }, &o, NULL, NULL);
        t->sent += rc == LEAT_OK;
        t->refused += rc != LEAT_OK;
        wait_nap(3);
    }
    return NULL;
}

/* Some are left to expire, on the first receive. */
static void work_on(traffic *t, const leat_queue_batch *b)
{
    for (size_t i = 0; i < leat_queue_batch_count(b); i++) {
        const leat_queue_item *it = leat_queue_batch_at(b, i);
        int k = number(it);
        if (k % (t->kind == 1 ? 40 : 5) == 0 && it->receives == 1)
            continue;
        if (leat_queue_ack(t->q, it->receipt, NULL) != LEAT_OK)
            continue;
        t->state[k] = t->state[k] == 3 ? 4 : 3;
        t->acked++;
    }
}

static void *receive_on(void *arg)
{
    traffic *t = arg;
    while (!t->stop) {
        leat_queue_batch *b = leat_queue_receive(
            t->q,
            &(leat_receive_opts){
                .max = 5, .wait_ms = 20, .visibility_ms = 300 },
            NULL);
        if (b)
            work_on(t, b);
        leat_queue_batch_free(b);
    }
    return NULL;
}

static void start_lines(void)
{
    int n = 0;
    char name[32];
    for (int i = 0; n < BUSY; i++) {
        snprintf(name, sizeof name, "busy%d", i);
        if (leat__queue_shard(name) != leat__queue_shard("orders"))
            continue;
        traffic *t = &lines[n];
        t->kind = n++;
        t->q = queue_of(name, &(leat_queue_opts){ .fifo = t->kind == 1 });
        pthread_create(&t->sender, NULL, send_on, t);
        pthread_create(&t->receiver, NULL, receive_on, t);
    }
}

static int acked_by_all(void)
{
    int least = INT_MAX;
    for (int i = 0; i < BUSY; i++)
        least = lines[i].acked < least ? lines[i].acked : least;
    return least;
}

/* Key by key, and while half of them are there everybody has his try. */
static void move_slowly(unsigned slot)
{
    int from = cluster_owner(rig, slot, -1), to = (from + 1) % 3, n = 0, k;
    assert_true(cluster_move_begin(rig, slot, from, to));
    while ((k = cluster_move_keys(rig, slot, from, to, 1)) > 0) {
        wait_nap(++n == 5 ? 100 : 5);
        assert_true(n < 1000);
    }
    assert_int_equal(k, 0);
    assert_true(cluster_move_end(rig, slot, from, to));
}

static void finish(traffic *t)
{
    leat_queue_stats s = { 0 };
    pthread_join(t->sender, NULL);
    int64_t end = wait_now_ms() + LONG_MS;
    do {
        wait_nap(20);
        s = stats(t->q);
    } while (s.acked < s.sent && wait_now_ms() < end);
    t->stop = true;
    pthread_join(t->receiver, NULL);
    s = stats(t->q);
    assert_int_equal(s.acked, s.sent);
    assert_int_equal(s.lost, 0);
    assert_true(s.sent >= t->sent && s.sent <= t->sent + t->refused);
    for (int i = 0; i < MOST; i++)
        assert_int_not_equal(t->state[i], 4);
    conserved(t->q);
    print_message("# %d sent, %d refused\n", (int)t->sent, (int)t->refused);
    leat_queue_close(t->q);
}

static void a_slot_that_moves_under_traffic_loses_nothing(void **state)
{
    (void)state;
    unsigned slot = cluster_slot("leat:{q/41}:due");
    start_lines();
    for (int i = 1; i <= MOVES; i++) {
        int before = acked_by_all();
        wait_until(acked_by_all() >= before + 10, LONG_MS);
        move_slowly(slot);
    }
    int before = acked_by_all();
    wait_until(acked_by_all() >= before + 10, LONG_MS);
    for (int i = 0; i < BUSY; i++)
        lines[i].quiet = true;
    for (int i = 0; i < BUSY; i++)
        finish(&lines[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(queues_of_all_shards_work),
        rig_test(lists_and_removal_reach_all_nodes),
        rig_test(a_wait_ends_wherever_the_queue_lives),
        rig_test(what_expires_comes_back_on_every_node),
        rig_test(a_queue_moves_with_its_slot),
        rig_test(a_slot_that_moves_under_traffic_loses_nothing),
    };
    rig_opts = (cluster_opts){ .replicas = -1 };
    return cmocka_run_group_tests(tests, start_rig, stop_rig);
}
