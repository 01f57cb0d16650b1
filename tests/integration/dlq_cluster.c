/*
 * dlq_cluster.c: dead letters of a topic whose partitions are on three masters,
 * also while one of them moves.
 */
#include "dlq_help.h"
#include "support/rig.h"

enum { PARTS = 12, EACH = 50 };

static int begin(void **state)
{
    if (open_on_rig(state) != 0)
        return -1;
    make_dlq(PARTS);
    for (int p = 0; p < PARTS; p++)
        bury_many((grave){ .partition = p, .key = "k", .error = "no" },
                  p * EACH, EACH);
    return 0;
}

#define dlq_test(name) cmocka_unit_test_setup_teardown(name, begin, close_dlq)

static uint64_t total(void)
{
    leat_dead_counts *n = leat_dlq_count(dlq, NULL, NULL);
    assert_non_null(n);
    uint64_t sum = n->total;
    leat_dead_counts_free(n);
    return sum;
}

static int64_t kept_count(void)
{
    int64_t n = 0;
    for (int p = 0; p < PARTS; p++) {
        char key[128];
        part_key(key, sizeof key, p, "due", "g");
        n += ask_int("ZCARD", key);
    }
    return n;
}

static void they_are_walked_replayed_and_removed_on_all_nodes(void **state)
{
    leat_dlq_sum sum;
    int seen[PARTS] = { 0 };
    leat_dead x;
    uint64_t then = 0;
    (void)state;
    leat_dlq_walk *w = leat_dlq_walk_open(dlq, NULL, NULL);
    assert_non_null(w);
    while (leat_dlq_walk_next(w, &x, NULL) == 1) {
        seen[x.partition]++;
        assert_true((uint64_t)x.dead_ms >= then);
        then = (uint64_t)x.dead_ms;
    }
    leat_dlq_walk_close(w);
    for (int p = 0; p < PARTS; p++)
        assert_int_equal(seen[p], EACH);
    must(leat_dlq_replay_all(dlq, NULL, &(leat_dlq_move_opts){ .limit = 200 },
                             &sum, err));
    assert_int_equal(sum.done, 200);
    assert_int_equal(kept_count(), 200);
    must(leat_dlq_replay_all(
        dlq, NULL, &(leat_dlq_move_opts){ .limit = 200, .republish = true },
        &sum, err));
    assert_int_equal(sum.done, 200);
    must(leat_dlq_clear(dlq, NULL, NULL, &sum, err));
    assert_int_equal(sum.done, PARTS * EACH - 400);
    assert_int_equal(total(), 0);
    int64_t log = 0;
    for (int p = 0; p < PARTS; p++)
        log += length_of(p, "log");
    assert_int_equal(log, PARTS * EACH + 200);
}

static void one_is_edited_where_it_is(void **state)
{
    char id[LEAT_DEAD_ID];
    const char *ids[] = { id };
    (void)state;
    for (int p = 0; p < PARTS; p++) {
        newest_dead(p, id);
        must(leat_dlq_edit(
            dlq, id, &(leat_dead_edit){ .body = leat_str("new") }, id, err));
        leat_dead *x = dead_of(dlq, id);
        assert_bytes(x->msg->body, "new");
        leat_dead_free(x);
        must(leat_dlq_replay(dlq, ids, 1, NULL, NULL, err));
    }
    assert_int_equal(kept_count(), PARTS);
}

/* What is asked of the slot meanwhile is asked of both. */
typedef struct moving {
    unsigned slot;
    int from, to, steps;
} moving;

/* A few keys of the slot go with every dead letter that is told. */
static bool move_on(void *arg, const leat_dlq_step *s)
{
    moving *m = arg;
    (void)s;
    if (m->steps++ % 10 == 0)
        (void)cluster_move_keys(rig, m->slot, m->from, m->to, 1);
    return true;
}

static void a_slot_that_moves_meanwhile_loses_nothing(void **state)
{
    leat_dlq_sum sum;
    (void)state;
    moving m = { .slot = cluster_slot("leat:{t/3}:dlq") };
    m.from = cluster_owner(rig, m.slot, -1);
    m.to = (m.from + 1) % 3;
    assert_true(cluster_move_begin(rig, m.slot, m.from, m.to));
    leat_error e = { 0 };
    /* A script over keys of which some have gone is refused until all have;
     * this one does not wait for that. */
    leat_client *hasty = open_client(url,
                                     &(leat_client_opts){ .timeout_ms = 500 });
    leat_dlq *d = leat_dlq_open(hasty, "t", NULL, NULL);
    assert_non_null(d);
    leat_code rc = leat_dlq_replay_all(
        d, NULL, &(leat_dlq_move_opts){ .fn = move_on, .arg = &m }, &sum, &e);
    leat_dlq_close(d);
    leat_client_close(hasty);
    while (cluster_move_keys(rig, m.slot, m.from, m.to, 10) > 0)
        continue;
    assert_true(cluster_move_end(rig, m.slot, m.from, m.to));
    print_message("# %s, %lu done before the end of the move\n",
                  leat_code_name(rc), (unsigned long)sum.done);
    assert_int_equal(total() + (uint64_t)kept_count(), PARTS * EACH);
    must(leat_dlq_replay_all(dlq, NULL, NULL, &sum, err));
    assert_int_equal(total(), 0);
    assert_int_equal(kept_count(), PARTS * EACH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        dlq_test(they_are_walked_replayed_and_removed_on_all_nodes),
        dlq_test(one_is_edited_where_it_is),
        dlq_test(a_slot_that_moves_meanwhile_loses_nothing),
    };
    rig_opts = (cluster_opts){ .replicas = -1 };
    return cmocka_run_group_tests(tests, start_rig, stop_rig);
}
