/* topic_group.c: members of a group share the partitions. */
#include "topic_help.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { LEASE_MS = 1500 };

static const leat_topic_source_opts quick = { .lease_ms = LEASE_MS,
                                              .block_ms = 200 };

/* A receive that finds nothing still drives the member. */
static void turn(leat_source *s)
{
    leat_delivery *d[64];
    int n = leat_source_receive(s, d, 64, 1, NULL);
    for (int i = 0; i < n; i++)
        ack(d[i]);
}

static uint32_t owned(leat_source *s)
{
    turn(s);
    return stats_of(s).partitions;
}

static void two_members_have_half_each(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 8);
    leat_source *a = source_of(t, "g", &quick);
    wait_until(owned(a) == 8, LONG_MS);
    leat_source *b = source_of(t, "g", &quick);
    wait_until(owned(a) == 4 && owned(b) == 4, LONG_MS);
    assert_int_equal(stats_of(a).members, 2);
    leat_source_close(b);
    wait_until(owned(a) == 8, LONG_MS);
    leat_source_close(a);
    leat_topic_close(t);
}

/* With a lease of an hour only the hand-over can explain it. */
static void who_leaves_hands_over_at_once(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 4);
    leat_topic_source_opts o = { .lease_ms = 3600 * 1000 };
    leat_source *a = source_of(t, "g", &o);
    wait_until(owned(a) == 4, LONG_MS);
    leat_source *b = source_of(t, "g", &o);
    wait_until(owned(a) == 2 && owned(b) == 2, LONG_MS);
    leat_source_close(a);
    wait_until(owned(b) == 4, LONG_MS);
    leat_source_close(b);
    leat_topic_close(t);
}

static void a_member_without_a_caller_keeps_its_partitions(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 2);
    leat_source *a = source_of(t, "g", &quick);
    wait_until(owned(a) == 2, LONG_MS);
    leat_source *b = source_of(
        t, "g",
        &(leat_topic_source_opts){ .lease_ms = LEASE_MS, .max_partitions = 1 });
    wait_until(owned(b) == 1, LONG_MS);
    uint64_t before = stats_of(a).rebalances;
    int64_t end = wait_now_ms() + 2 * LEASE_MS;
    while (wait_now_ms() < end)
        turn(b); /* nobody calls a meanwhile */
    assert_int_equal(stats_of(b).partitions, 1);
    assert_int_equal(stats_of(a).rebalances, before);
    leat_source_close(a);
    leat_source_close(b);
    leat_topic_close(t);
}

static void nobody_has_more_than_its_cap(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 8);
    leat_topic_source_opts o = quick;
    o.max_partitions = 3;
    leat_source *a = source_of(t, "g", &o);
    wait_until(owned(a) == 3, LONG_MS);
    leat_source *b = source_of(t, "g", &o);
    wait_until(owned(b) == 3, LONG_MS);
    assert_int_equal(owned(a), 3);
    leat_source *c = source_of(t, "g", &o);
    wait_until(owned(a) + owned(b) + owned(c) == 8, LONG_MS);
    leat_source_close(a);
    leat_source_close(b);
    leat_source_close(c);
    leat_topic_close(t);
}

/* ---- callbacks -------------------------------------------------------- */

struct seen {
    _Atomic int assigned, revoked, lost;
};

static void note(void *arg, leat_assign what, uint32_t partition,
                 uint64_t epoch)
{
    struct seen *n = arg;
    assert_true(partition < 4);
    assert_true(epoch > 0);
    (*(what == LEAT_ASSIGNED  ? &n->assigned
       : what == LEAT_REVOKED ? &n->revoked
                              : &n->lost))++;
}

static void each_change_is_told(void **state)
{
    struct seen a_saw = { 0 }, b_saw = { 0 };
    leat_topic_source_opts o = quick;
    (void)state;
    leat_topic *t = topic_of(client, "orders", 4);
    o.on_assign = note;
    o.assign_arg = &a_saw;
    leat_source *a = source_of(t, "g", &o);
    wait_until((turn(a), a_saw.assigned == 4), LONG_MS);
    o.assign_arg = &b_saw;
    leat_source *b = source_of(t, "g", &o);
    wait_until((turn(a), turn(b), b_saw.assigned == 2), LONG_MS);
    assert_int_equal(a_saw.revoked, 2);
    assert_int_equal(a_saw.lost, 0);
    for (int p = 0; p < 4; p++)
        redis_do(server, "HSET leat:{orders/%d}:lease:g e 1", p);
    wait_until((turn(a), turn(b), a_saw.lost == 2 && b_saw.lost == 2), LONG_MS);
    leat_source_close(a);
    leat_source_close(b);
    leat_topic_close(t);
}

/* ---- a partition with work is handed over ----------------------------- */

static void what_is_in_hand_is_finished_before_the_hand_over(void **state)
{
    leat_delivery *d[8];
    (void)state;
    leat_topic *t = topic_of(client, "orders", 2);
    add_many("orders", 0, 0, 4);
    add_many("orders", 1, 0, 4);
    leat_topic_source_opts o = { .lease_ms = 3600 * 1000,
                                 .drain_ms = 3600 * 1000 };
    leat_source *a = source_of(t, "g", &o);
    take_n(a, d, 8);
    leat_source *b = source_of(t, "g", &o);
    wait_until((turn(b), stats_of(b).members == 2), LONG_MS);
    for (int i = 0; i < 20; i++)
        turn(b);
    assert_int_equal(stats_of(b).partitions, 0);
    for (int i = 0; i < 8; i++)
        ack(d[i]);
    wait_until(owned(a) == 1 && owned(b) == 1, LONG_MS);
    must(leat_source_flush(a, LONG_MS, err));
    assert_int_equal(stats_of(a).settled, 8);
    assert_int_equal(stats_of(b).received, 0);
    leat_source_close(a);
    leat_source_close(b);
    leat_topic_close(t);
}

static void a_handler_that_drains_too_long_loses_its_partition(void **state)
{
    leat_delivery *d[2];
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 2);
    add("orders", 0, "x");
    add("orders", 1, "x");
    leat_topic_source_opts o = { .lease_ms = 3600 * 1000, .drain_ms = 50 };
    leat_source *a = source_of(t, "g", &o);
    take_n(a, d, 2);
    leat_source *b = source_of(t, "g", &o);
    leat_delivery *again = next_of(b);
    assert_int_equal(leat_delivery_attempt(again), 2);
    int moved = leat_delivery_partition(again);
    ack(again);
    must(leat_source_flush(b, LONG_MS, err));
    for (int i = 0; i < 2; i++) {
        bool stale = leat_delivery_partition(d[i]) == moved;
        ack(d[i]);
        if (stale)
            assert_code(leat_source_flush(a, LONG_MS, &e), LEAT_ESTALE);
        else
            must(leat_source_flush(a, LONG_MS, err));
    }
    leat_source_close(a);
    leat_source_close(b);
    leat_topic_close(t);
}

/* ---- names ------------------------------------------------------------ */

static void a_stable_name_takes_the_place_of_its_earlier_life(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 4);
    leat_topic_source_opts o = { .lease_ms = 3600 * 1000, .name = "worker-1" };
    leat_source *a = source_of(t, "g", &o);
    wait_until(owned(a) == 4, LONG_MS);
    leat_source *b = source_of(t, "g", &o);
    wait_until(owned(b) == 4, LONG_MS);
    wait_until(owned(a) == 0, LONG_MS);
    leat_source_close(a);
    leat_source_close(b);
    leat_topic_close(t);
}

static void bad_options_are_refused_with_their_limits(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    assert_null(leat_topic_source(t, "no spaces", NULL, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_null(leat_topic_source(
        t, "g", &(leat_topic_source_opts){ .lease_ms = 10 }, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "lease_ms"));
    assert_null(leat_topic_source(
        t, "g", &(leat_topic_source_opts){ .max_in_flight = -1 }, &e));
    assert_code(e.code, LEAT_EINVAL);
    leat_topic_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(two_members_have_half_each),
        topic_test(who_leaves_hands_over_at_once),
        topic_test(a_member_without_a_caller_keeps_its_partitions),
        topic_test(nobody_has_more_than_its_cap),
        topic_test(each_change_is_told),
        topic_test(what_is_in_hand_is_finished_before_the_hand_over),
        topic_test(a_handler_that_drains_too_long_loses_its_partition),
        topic_test(a_stable_name_takes_the_place_of_its_earlier_life),
        topic_test(bad_options_are_refused_with_their_limits),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
