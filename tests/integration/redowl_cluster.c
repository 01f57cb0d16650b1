/*
 * redowl_cluster.c: queues of redowl on a cluster, where only a hash tag in its
 * name keeps the keys of a queue together.
 */
#include "redowl_help.h"
#include "support/rig.h"

#include <pthread.h>
#include <stdatomic.h>

static void a_name_without_tag_is_refused(void **state)
{
    (void)state;
    leat_error e;
    leat_queue_opts o = { .profile = LEAT_QUEUE_REDOWL };
    const char *const bad[] = { "orders", "{}orders", "orders}", "{orders" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(leat_queue_open(client, bad[i], &o, &e));
        assert_code(e.code, LEAT_EINVAL);
        assert_non_null(strstr(e.msg, "hash tag"));
        assert_code(leat_queue_remove(client, bad[i], &o, &e), LEAT_EINVAL);
    }
}

/* On every node, so that a step that is told elsewhere is one that fails. */
static void every_step_works_with_a_tag(void **state)
{
    (void)state;
    for (int i = 0; i < 9; i++) {
        char name[32];
        snprintf(name, sizeof name, "{orders%d}", i);
        leat_queue *q = owl(name, (leat_queue_opts){ .max_receives = 1 });
        send_many(q, 1, 2);
        leat_queue_batch *b = take_one(q);
        must(leat_queue_change_visibility(q, item(b)->receipt, 0, err));
        leat_queue_batch_free(b);
        b = take_one(q);
        assert_item(item(b), "2");
        ack(q, b);
        leat_queue_batch_free(b);
        int64_t moved;
        must(leat_queue_redrive(q, NULL, &moved, err));
        assert_int_equal(moved, 1);
        leat_queue_batch_free(
            take(q, &(leat_receive_opts){ .visibility_ms = 20 }));
        wait_until(stats(q).visible == 1, LONG_MS);
        leat_queue_close(q);
        leat_queue_opts o = { .profile = LEAT_QUEUE_REDOWL };
        must(leat_queue_remove(client, name, &o, err));
    }
}

static void *receive_one(void *arg)
{
    return take_one(arg);
}

static void a_wait_ends_whichever_node_it_is_told_by(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        char name[32];
        pthread_t t;
        void *b;
        snprintf(name, sizeof name, "a{%d}", i);
        leat_queue *q = owl(name, (leat_queue_opts){ 0 });
        pthread_create(&t, NULL, receive_one, q);
        send_text(q, "x");
        pthread_join(t, &b);
        leat_queue_batch_free(b);
        leat_queue_close(q);
    }
}

/* ---- a slot that moves key by key while it is used --------------------- */

enum { MANY = 2000 };

typedef struct traffic {
    leat_queue *q;
    atomic_int sent, done;
    atomic_bool stop, quiet;
    atomic_char times[MANY];
} traffic;

static void *send_on(void *arg)
{
    traffic *t = arg;
    char text[16];
    for (int i = 0; i < MANY && !t->quiet;) {
        snprintf(text, sizeof text, "%d", i);
        leat_code rc = leat_queue_send(
            t->q, &(leat_msg){ .body = leat_str(text) }, NULL, NULL, NULL);
        if (rc == LEAT_OK)
            t->sent = ++i;
        wait_nap(1);
    }
    return NULL;
}

/* Each third is left to expire once. */
static void *receive_on(void *arg)
{
    traffic *t = arg;
    while (!t->stop) {
        leat_queue_batch *b = leat_queue_receive(
            t->q,
            &(leat_receive_opts){
                .max = 5, .wait_ms = 20, .visibility_ms = 200 },
            NULL);
        for (size_t i = 0; b && i < leat_queue_batch_count(b); i++) {
            const leat_queue_item *it = leat_queue_batch_at(b, i);
            if ((number(it) % 3 == 0 && it->receives == 1) ||
                leat_queue_ack(t->q, it->receipt, NULL) != LEAT_OK)
                continue;
            t->times[number(it)]++;
            t->done++;
        }
        leat_queue_batch_free(b);
    }
    return NULL;
}

static void a_queue_moves_with_its_slot_and_loses_nothing(void **state)
{
    (void)state;
    static traffic t;
    pthread_t sender, receiver;
    t.q = owl("{moving}", (leat_queue_opts){ 0 });
    unsigned slot = cluster_slot("{moving}");
    pthread_create(&sender, NULL, send_on, &t);
    wait_until(t.sent >= 60, LONG_MS);
    pthread_create(&receiver, NULL, receive_on, &t);
    for (int i = 0; i < 3; i++) {
        int before = t.done;
        int from = cluster_owner(rig, slot, -1), to = (from + 1) % 3;
        assert_true(cluster_move_begin(rig, slot, from, to));
        for (int k = 0; k < 200; k++)
            if (cluster_move_keys(rig, slot, from, to, 1) <= 0)
                break;
        assert_true(cluster_move_keys(rig, slot, from, to, 100000) >= 0);
        assert_true(cluster_move_end(rig, slot, from, to));
        wait_until(t.done > before || t.done == MANY, LONG_MS);
    }
    t.quiet = true;
    pthread_join(sender, NULL);
    wait_until(t.done >= t.sent, LONG_MS);
    t.stop = true;
    pthread_join(receiver, NULL);
    for (int i = 0; i < t.sent; i++)
        assert_int_equal(t.times[i], 1);
    leat_queue_stats s = stats(t.q);
    assert_int_equal(s.visible + s.in_flight, 0);
    print_message("# %d sent and done\n", t.sent);
    leat_queue_close(t.q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(a_name_without_tag_is_refused),
        rig_test(every_step_works_with_a_tag),
        rig_test(a_wait_ends_whichever_node_it_is_told_by),
        rig_test(a_queue_moves_with_its_slot_and_loses_nothing),
    };
    rig_opts = (cluster_opts){ .replicas = -1 };
    return cmocka_run_group_tests(tests, start_rig, stop_rig);
}
