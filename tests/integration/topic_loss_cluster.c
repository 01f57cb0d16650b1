/*
 * topic_loss_cluster.c: losses of a topic whose partitions are on several
 * nodes: those of one node are told and no others, and a partition that moves
 * loses nothing.
 */
#include "support/cluster.h"
#include "topic_lossbook.h"

enum { SOON_MS = 60000, PARTITIONS = 6 };

static cluster *rig;
static char url[256];

static int start(void **state)
{
    (void)state;
    rig = cluster_start(&(cluster_opts){ .replicas = -1 });
    if (!rig)
        return -1;
    cluster_url(rig, url, sizeof url);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    cluster_stop(rig);
    return 0;
}

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
    for (int i = 0; i < cluster_count(rig); i++)
        assert_true(redis_flush(cluster_node(rig, i)));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_node_loses_is_told),
        cmocka_unit_test(a_partition_that_moves_loses_nothing),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
