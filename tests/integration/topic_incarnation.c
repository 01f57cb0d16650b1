/*
 * topic_incarnation.c: a name is not an identity.
 *
 * Groups and topics are removed and made again under one name, and what was
 * meant for the one is done late, to the other.
 */
#include "redis/script.h"
#include "topic/trim.h"
#include "topic_help.h"
#include <leat/admin.h>
#include <leat/dlq.h>

enum { FEW = 20 };

static const leat_topic_source_opts quick = { .lease_ms = 1500,
                                              .block_ms = 100 };

static void read_all(leat_source *s, int n)
{
    for (int i = 0; i < n; i++)
        ack(next_of(s));
    must(leat_source_flush(s, LONG_MS, err));
}

static void read_and_leave(leat_topic *t, const char *group, int n)
{
    leat_source *s = source_of(t, group, &quick);
    read_all(s, n);
    leat_source_close(s);
}

/* ---- a trim that comes late ------------------------------------------- */

/* Somebody who trims, with the names as they were when they were read. */
static struct {
    leat_conn *conn;
    leat__topic_at at;
    leat__trim_names names;
    leat__trim_result got;
} trimmer;

static void read_names(void)
{
    const leat_reply *r;
    must(leat_conn_call(
        trimmer.conn,
        LEAT_ARGS(leat_str("SMEMBERS"), leat_str("leat:{orders}:groups")), NULL,
        &r, err));
    must(leat__trim_names_read(&trimmer.names, r, err));
}

static void trimmer_open(void)
{
    leat_error e = { 0 };
    memset(&trimmer, 0, sizeof trimmer);
    must(leat__topic_at_init(&trimmer.at, client, "orders", NULL, err));
    trimmer.conn = leat_client_lend(client, LONG_MS, &e);
    assert_non_null(trimmer.conn);
    read_names();
}

static void trimmer_close(void)
{
    leat__trim_names_release(&trimmer.names);
    leat_client_return(client, trimmer.conn);
}

static void on_trimmed(void *arg, const leat_reply *r, const leat_error *e)
{
    (void)arg;
    assert_null(e);
    must(leat__trim_read(r, &trimmer.names, &trimmer.got, err));
}

/* All but one entry, of what no group holds back. */
static void trim(uint32_t partition, leat_abandoned abandoned)
{
    const leat__trim_how how = { .max_age_ms = -1,
                                 .max_entries = 1,
                                 .abandoned = abandoned,
                                 .abandoned_ms = 1,
                                 .most = LEAT__TRIM_PIECE };
    must(leat__trim_send(trimmer.conn, &trimmer.at, partition, &trimmer.names,
                         &how, &(leat_send_opts){ .fn = on_trimmed }, err));
    must(leat_conn_drain(trimmer.conn, 0, err));
}

static int64_t length(int partition)
{
    return redis_int(server, "XLEN leat:{orders/%d}:log", partition);
}

/* A member that may have one partition of two leaves the other unread. */
static void a_group_that_has_not_read_holds_back_a_late_trim(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 2);
    add_many("orders", 0, 0, FEW);
    add_many("orders", 1, 0, FEW);
    read_and_leave(t, "g", 2 * FEW);
    trimmer_open();
    leat_topic_source_opts one = quick;
    one.max_partitions = 1;
    leat_source *late = source_of(t, "late", &one);
    for (uint32_t i = 0; i < 2; i++) {
        trim(i, LEAT_ABANDONED_PIN);
        assert_true(trimmer.got.asks);
        assert_int_equal(length((int)i), FEW);
    }
    read_names();
    trim(0, LEAT_ABANDONED_PIN);
    trim(1, LEAT_ABANDONED_PIN);
    assert_false(trimmer.got.asks);
    assert_int_equal(length(0) + length(1), 2 * FEW);
    leat_source_close(late);
    trimmer_close();
    leat_topic_close(t);
}

/* A thousand partitions, the most there are, are noted before it is let in. */
static void a_group_is_noted_beside_every_log_at_the_maximum(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", LEAT_PARTITIONS_MAX);
    leat_source *s = source_of(t, "g", &quick);
    for (int i = 0; i < LEAT_PARTITIONS_MAX; i++)
        if (redis_int(server, "HEXISTS leat:{orders/%d}:joined g", i) != 1)
            fail_msg("not beside log %d", i);
    leat_source_close(s);
    leat_topic_close(t);
}

/* It was let in half way, or an earlier version made it. */
static void notes_that_are_missing_are_made_by_the_next_member(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    redis_do(server, "SADD leat:{orders}:groups g");
    read_and_leave(t, "g", 0);
    assert_int_equal(redis_int(server, "HEXISTS leat:{orders/0}:joined g"), 1);
    assert_int_equal(redis_int(server, "HEXISTS leat:{orders}:group:g u"), 0);
    leat_topic_close(t);
}

static void a_late_trim_does_not_bring_a_removed_group_back(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, FEW);
    read_and_leave(t, "g", FEW);
    read_and_leave(t, "gone", FEW);
    trimmer_open();
    must(leat_group_remove(client, "orders", "gone", NULL, err));
    trim(0, LEAT_ABANDONED_DETACH);
    trim(0, LEAT_ABANDONED_ALARM);
    assert_int_equal(redis_int(server, "EXISTS leat:{orders/0}:cur:gone"), 0);
    trimmer_close();
    leat_topic_close(t);
}

/* What a crash has left of it is asked about once, and bounds nothing; a group
 * that takes that name is asked about again. */
static void a_note_of_no_group_is_asked_about_once(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, FEW);
    read_and_leave(t, "g", FEW);
    redis_do(server, "HSET leat:{orders/0}:joined left 0123456789abcdef");
    trimmer_open();
    trim(0, LEAT_ABANDONED_PIN);
    assert_true(trimmer.got.asks);
    read_names();
    redis_do(server, "HSET leat:{orders/0}:joined left fedcba9876543210");
    trim(0, LEAT_ABANDONED_PIN);
    assert_true(trimmer.got.asks);
    read_names();
    trim(0, LEAT_ABANDONED_PIN);
    assert_false(trimmer.got.asks);
    assert_int_equal(length(0), 1);
    trimmer_close();
    leat_topic_close(t);
}

/* ---- removing --------------------------------------------------------- */

static void id_of(char out[64], const char *group)
{
    leat_error e = { 0 };
    leat_group_info *g = leat_group_describe(client, "orders", group, NULL, &e);
    assert_non_null(g);
    snprintf(out, 64, "%s", g->id);
    leat_group_info_free(g);
}

/* The answer was lost, another made a group of that name, and the removal is
 * asked for again. */
static void a_removal_tried_again_spares_the_namesake(void **state)
{
    char first[64], second[64];
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, FEW);
    read_and_leave(t, "g", FEW);
    id_of(first, "g");
    assert_int_equal(strlen(first), 16);
    const leat_remove_opts o = { .id = first };
    must(leat_group_remove(client, "orders", "g", &o, err));
    read_and_leave(t, "g", FEW);
    id_of(second, "g");
    assert_string_not_equal(first, second);
    assert_int_equal(leat_group_remove(client, "orders", "g", &o, &e),
                     LEAT_ESTALE);
    assert_int_equal(redis_int(server, "EXISTS leat:{orders/0}:cur:g"), 1);
    assert_int_equal(redis_int(server, "SISMEMBER leat:{orders}:groups g"), 1);
    leat_topic_close(t);
}

/* A step of a removal that is carried out when the name is another's. */
static void a_late_step_of_a_removal_spares_the_namesake(void **state)
{
    char first[64];
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, FEW);
    read_and_leave(t, "g", FEW);
    id_of(first, "g");
    must(leat_group_remove(client, "orders", "g", NULL, err));
    read_and_leave(t, "g", FEW);
    leat_conn *conn = leat_client_lend(client, LONG_MS, &e);
    const leat_reply *r;
    const leat_bytes keys[] = {
        leat_str("leat:{orders/0}:joined"), leat_str("leat:{orders/0}:cur:g"),
        leat_str("leat:{orders/0}:log"),    leat_str("leat:{orders/0}:lease:g"),
        leat_str("leat:{orders/0}:kept:g"), leat_str("leat:{orders/0}:due:g"),
        leat_str("leat:{orders/0}:lane:g")
    };
    const leat_bytes args[] = { leat_str("g"), leat_str(first), leat_str("1") };
    must(leat__script_call(conn, &leat__script_admin_ungroup, keys, 7, args, 3,
                           &r, err));
    assert_int_equal(leat_reply_int(r), 0);
    assert_int_equal(redis_int(server, "EXISTS leat:{orders/0}:cur:g"), 1);
    leat_client_return(client, conn);
    leat_topic_close(t);
}

/* A removal that was cut short lets nobody in before it is run to the end. */
static void nobody_joins_a_group_that_is_being_removed(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    read_and_leave(t, "g", 0);
    redis_do(server, "HSET leat:{orders}:group:g gone 1");
    assert_null(leat_topic_source(t, "g", &quick, &e));
    assert_int_equal(e.code, LEAT_EBUSY);
    must(leat_group_remove(client, "orders", "g", NULL, err));
    read_and_leave(t, "g", 0);
    leat_topic_close(t);
}

/* ---- dead letters ----------------------------------------------------- */

static void a_dead_letter_is_not_replayed_into_a_namesake(void **state)
{
    leat_error e = { 0 };
    leat_dlq_sum sum = { 0 };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, 1);
    leat_source *s = source_of(t, "g", &quick);
    assert_int_equal(leat_delivery_reject(next_of(s), "bad"), LEAT_OK);
    must(leat_source_flush(s, LONG_MS, err));
    leat_source_close(s);
    must(leat_group_remove(client, "orders", "g", NULL, err));
    read_and_leave(t, "g", 1);
    leat_dlq *d = leat_dlq_open(client, "orders", NULL, &e);
    (void)!leat_dlq_replay_all(d, NULL, NULL, &sum, &e);
    assert_int_equal(sum.done, 0);
    assert_int_equal(redis_int(server, "EXISTS leat:{orders/0}:kept:g"), 0);
    assert_int_equal(redis_int(server, "XLEN leat:{orders/0}:dlq"), 1);
    leat_dlq_close(d);
    leat_topic_close(t);
}

/* Removing a group with its dead letters leaves those of a namesake that was
 * removed before it, without them. */
static void dead_letters_go_with_their_own_group(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    for (int i = 0; i < 2; i++) {
        add_many("orders", 0, i, 1);
        leat_source *s = source_of(t, "g", &quick);
        for (int k = 0; k <= i; k++)
            assert_int_equal(leat_delivery_reject(next_of(s), "bad"), LEAT_OK);
        must(leat_source_flush(s, LONG_MS, err));
        leat_source_close(s);
        assert_int_equal(redis_int(server, "XLEN leat:{orders/0}:dlq"),
                         i == 0 ? 1 : 3);
        const leat_remove_opts o = { .dead = i == 1 };
        must(leat_group_remove(client, "orders", "g", &o, err));
    }
    assert_int_equal(redis_int(server, "XLEN leat:{orders/0}:dlq"), 1);
    leat_topic_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(a_group_that_has_not_read_holds_back_a_late_trim),
        topic_test(a_group_is_noted_beside_every_log_at_the_maximum),
        topic_test(notes_that_are_missing_are_made_by_the_next_member),
        topic_test(a_late_trim_does_not_bring_a_removed_group_back),
        topic_test(a_note_of_no_group_is_asked_about_once),
        topic_test(a_removal_tried_again_spares_the_namesake),
        topic_test(a_late_step_of_a_removal_spares_the_namesake),
        topic_test(nobody_joins_a_group_that_is_being_removed),
        topic_test(a_dead_letter_is_not_replayed_into_a_namesake),
        topic_test(dead_letters_go_with_their_own_group),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
