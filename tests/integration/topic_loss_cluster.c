/*
 * topic_loss_cluster.c: losses of a topic whose partitions are on several
 * nodes: those of one node are told and no others, and a partition that moves
 * loses nothing.
 */
#include "support/rig.h"
#include "topic_lossbook.h"

enum { SOON_MS = 60000, PARTITIONS = 6 };

static int node_of(uint32_t partition)
{
    return cluster_owner_of(rig, book_key(partition));
}

static redis_server *server_of(uint32_t partition)
{
    return cluster_node(rig, node_of(partition));
}

static book *open_empty(const leat_topic_opts *opts)
{
    assert_true(empty_rig());
    book *b = book_open(url, PARTITIONS, opts);
    b->where = server_of;
    return b;
}

static void what_one_node_loses_is_told(void **state)
{
    (void)state;
    book *b = open_empty(&(leat_topic_opts){ .republish_bytes = 6 << 20 });
    book_publish(b, 600);
    int node = node_of(0), there = 0;
    for (uint32_t p = 0; p < PARTITIONS; p++)
        there += node_of(p) == node ? 100 : 0;
    assert_true(redis_flush(cluster_node(rig, node)));
    wait_until(atomic_load(&b->told_lost) == there, SOON_MS);
    for (int i = 0; i < b->lost; i++)
        assert_int_equal(node_of(b->losses[i].partition), node);
    assert_int_equal(b->republished, (uint64_t)there);
    book_publish(b, 6);
    book_complete(b, NULL);
    book_free(b);
}

static void a_partition_that_moves_loses_nothing(void **state)
{
    (void)state;
    book *b = open_empty(NULL);
    struct book_load load;
    unsigned slot = cluster_slot(book_key(0));
    book_load_start(&load, b);
    for (int i = 0; i < 4; i++) {
        int from = node_of(0), to = (from + 1) % 3;
        book_wait_acked(b, 200);
        assert_true(cluster_move_begin(rig, slot, from, to));
        book_wait_acked(b, 50);
        while (cluster_move_keys(rig, slot, from, to, 10) > 0)
            ;
        book_wait_acked(b, 50);
        assert_true(cluster_move_end(rig, slot, from, to));
        book_wait_acked(b, 50);
    }
    book_load_stop(&load);
    assert_int_equal(b->lost, 0);
    assert_int_equal(book_audit(b, NULL), 0);
    print_message("# %d acknowledged, %d unknown\n", (int)b->acked,
                  (int)b->unknown);
    book_free(b);
}

/* ---- a group ---------------------------------------------------------- */

static void count_loss(void *arg, const leat_loss *loss)
{
    assert_string_equal(loss->group, "g");
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* Receive and acknowledge until an entry of that millisecond has come; 0: any
 * entry. */
static void read_up_to(leat_source *s, uint64_t ms)
{
    int64_t end = wait_now_ms() + SOON_MS;
    for (bool found = false; !found;) {
        leat_delivery *d = NULL;
        assert_true(wait_now_ms() < end);
        if (leat_source_receive(s, &d, 1, 500, NULL) <= 0)
            continue;
        found = ms == 0 || leat_delivery_position(d).ms == ms;
        assert_int_equal(leat_delivery_ack(d), LEAT_OK);
    }
    (void)leat_source_flush(s, SOON_MS, NULL);
}

/* As after a failover to a node that lacks the entries and whose clock is
 * behind; the connections to it end, and those to the others do not. */
static void replace_log(redis_server *node, const char *log)
{
    redisReply *r = redis_raw(node, "XRANGE %s - + COUNT 1", log);
    redisReply **f = r->element[0]->element[1]->element;
    assert_int_equal(r->element[0]->element[1]->elements, 4);
    assert_int_equal(redis_int(node, "DEL %s", log), 1);
    char id[64];
    redis_text(node, id, sizeof id, "XADD %s 5-1 %b %b %b %b", log, f[0]->str,
               f[0]->len, f[1]->str, f[1]->len, f[2]->str, f[2]->len, f[3]->str,
               f[3]->len);
    assert_string_equal(id, "5-1");
    freeReplyObject(r);
    assert_true(redis_int(node, "CLIENT KILL TYPE normal SKIPME yes") > 0);
}

static void a_member_goes_back_with_the_log_of_one_node(void **state)
{
    static const char log[] = "leat:{orders/0}:log";
    atomic_int losses = 0;
    leat_error e;
    (void)state;
    for (int i = 0; i < cluster_count(rig); i++)
        assert_true(redis_flush(cluster_node(rig, i)));
    leat_client *c = open_client(url, NULL);
    leat_topic *t = leat_topic_open(
        c, "orders", &(leat_topic_opts){ .auto_create = true, .partitions = 3 },
        &e);
    assert_non_null(t);
    leat_source *s = leat_topic_source(
        t, "g",
        &(leat_topic_source_opts){ .on_loss = count_loss, .loss_arg = &losses },
        &e);
    assert_non_null(s);
    must(leat_topic_publish_to(t, 0, &(leat_msg){ .body = leat_str("one") },
                               NULL, NULL, err));
    must(leat_topic_flush(t, SOON_MS, err));
    read_up_to(s, 0);
    replace_log(cluster_node(rig, cluster_owner_of(rig, log)), log);
    read_up_to(s, 5);
    assert_true(atomic_load(&losses) > 0);
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_node_loses_is_told),
        cmocka_unit_test(a_partition_that_moves_loses_nothing),
        cmocka_unit_test(a_member_goes_back_with_the_log_of_one_node),
    };
    rig_opts = (cluster_opts){ .replicas = -1 };
    return cmocka_run_group_tests(tests, start_rig, stop_rig);
}
