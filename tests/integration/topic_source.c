/* topic_source.c: reading a topic as a member of a group. */
#include "topic_help.h"

#include <poll.h>
#include <stdlib.h>

static void a_new_group_reads_all_from_the_start_in_order(void **state)
{
    leat_delivery *d[300];
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, 300);
    leat_source *s = source_of(t, "g", NULL);
    take_n(s, d, 300);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(body_number(d[i]), i);
        assert_int_equal(leat_delivery_attempt(d[i]), 1);
        assert_false(leat_delivery_redelivered(d[i]));
        assert_int_equal(leat_delivery_partition(d[i]), 0);
        assert_true(leat_delivery_fence(d[i]) > 0);
        ack(d[i]);
    }
    must(leat_source_flush(s, LONG_MS, err));
    leat_source_close(s);
    leat_topic_close(t);
}

static void what_was_acknowledged_does_not_come_again(void **state)
{
    leat_delivery *d[10];
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, 10);
    leat_source *s = source_of(t, "g", NULL);
    take_n(s, d, 10);
    for (int i = 0; i < 6; i++)
        ack(d[i]);
    leat_source_close(s);

    s = source_of(t, "g", NULL);
    take_n(s, d, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(body_number(d[i]), 6 + i);
        ack(d[i]);
    }
    leat_source_close(s);
    leat_topic_close(t);
}

static void settled_out_of_order_the_rest_alone_comes_again(void **state)
{
    leat_delivery *d[10];
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, 10);
    leat_source *s = source_of(t, "g", NULL);
    take_n(s, d, 10);
    for (int i = 1; i < 10; i += 2)
        ack(d[i]);
    must(leat_source_flush(s, LONG_MS, err));
    leat_source_close(s);

    s = source_of(t, "g", NULL);
    take_n(s, d, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(body_number(d[i]), 2 * i);
        ack(d[i]);
    }
    nothing_of(s, 50);
    leat_source_close(s);
    leat_topic_close(t);
}

static void
what_is_given_back_comes_again_before_what_stands_behind(void **state)
{
    leat_delivery *d[5];
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, 5);
    leat_source *s = source_of(t, "g", NULL);
    take_n(s, d, 3);
    assert_int_equal(leat_delivery_nack(d[0], 1), LEAT_OK);
    ack(d[1]);
    nothing_of(s, 20); /* the third is still out: the line stands still */
    ack(d[2]);
    take_n(s, d, 1);
    assert_int_equal(body_number(d[0]), 0);
    assert_int_equal(leat_delivery_attempt(d[0]), 2);
    assert_true(leat_delivery_redelivered(d[0]));
    nothing_of(s, 20); /* it may fail once more: those behind wait for it */
    ack(d[0]);
    take_n(s, d, 2);
    assert_int_equal(body_number(d[0]), 3);
    assert_int_equal(body_number(d[1]), 4);
    for (int i = 0; i < 2; i++)
        ack(d[i]);
    must(leat_source_flush(s, LONG_MS, err));
    leat_source_close(s);
    leat_topic_close(t);
}

static void in_key_order_other_keys_flow_past_one_that_waits(void **state)
{
    leat_delivery *d[2];
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_keyed("orders", 0, "a", "1");
    leat_source *s = source_of(
        t, "g", &(leat_topic_source_opts){ .order = LEAT_ORDER_KEY });
    d[0] = next_of(s);
    assert_int_equal(leat_delivery_nack(d[0], 300), LEAT_OK);
    int64_t before = wait_now_ms();
    add_keyed("orders", 0, "a", "2");
    add_keyed("orders", 0, "b", "3");
    d[0] = next_of(s);
    assert_body(d[0], "3");
    ack(d[0]);
    leat_source_close(s);

    s = source_of(t, "g",
                  NULL); /* the delay is the group's, not the member's */
    d[0] = next_of(s);
    assert_true(wait_now_ms() - before >= 299);
    assert_body(d[0], "1");
    assert_int_equal(leat_delivery_attempt(d[0]), 2);
    ack(d[0]);
    d[1] = next_of(s);
    assert_body(d[1], "2");
    assert_int_equal(leat_delivery_attempt(d[1]), 1);
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_delay_is_kept(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add(leat_topic_name(t), 0, "x");
    leat_source *s = source_of(t, "g", NULL);
    leat_delivery *d = next_of(s);
    int64_t before = wait_now_ms();
    assert_int_equal(leat_delivery_nack(d, 120), LEAT_OK);
    d = next_of(s);
    assert_true(wait_now_ms() - before >= 119);
    ack(d);
    leat_source_close(s);
    leat_topic_close(t);
}

static void what_was_never_settled_comes_to_the_next_as_unbegun(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add("orders", 0, "x");
    leat_source *s = source_of(t, "g", NULL);
    (void)next_of(s);
    leat_source_close(s);
    s = source_of(t, "g", NULL);
    leat_delivery *d = next_of(s);
    assert_int_equal(leat_delivery_attempt(d), 1);
    ack(d);
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_rejected_message_is_counted_and_skipped(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, 2);
    leat_source *s = source_of(t, "g", NULL);
    assert_int_equal(leat_delivery_reject(next_of(s), "no good"), LEAT_OK);
    leat_delivery *d = next_of(s);
    assert_body(d, "1");
    ack(d);
    must(leat_source_flush(s, LONG_MS, err));
    assert_int_equal(stats_of(s).rejected, 1);
    assert_int_equal(stats_of(s).settled, 2);
    leat_source_close(s);
    leat_topic_close(t);
}

static void an_entry_that_is_no_message_comes_with_its_fields(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    redis_do(server, "XADD leat:{orders/0}:log * colour red size 7");
    add("orders", 0, "good");
    leat_source *s = source_of(t, "g", NULL);
    leat_delivery *d = next_of(s);
    const leat_error *why = leat_delivery_error(d);
    assert_non_null(why);
    assert_code(why->code, LEAT_EDECODE);
    leat_bytes colour = leat_msg_header(leat_delivery_msg(d), "colour");
    assert_int_equal(colour.n, 3);
    assert_memory_equal(colour.p, "red", 3);
    assert_int_equal(leat_delivery_reject(d, why->msg), LEAT_OK);
    d = next_of(s);
    assert_null(leat_delivery_error(d));
    assert_body(d, "good");
    ack(d);
    assert_int_equal(stats_of(s).undecodable, 1);
    leat_source_close(s);
    leat_topic_close(t);
}

static void no_more_than_the_limit_is_in_flight(void **state)
{
    leat_delivery *d[64];
    (void)state;
    leat_topic *t = topic_of(client, "orders", 2);
    add_many("orders", 0, 0, 100);
    add_many("orders", 1, 0, 100);
    leat_source *s = source_of(
        t, "g", &(leat_topic_source_opts){ .max_in_flight = 40, .batch = 16 });
    take_n(s, d, 40);
    nothing_of(s, 50);
    for (int i = 0; i < 40; i++)
        ack(d[i]);
    for (int left = 160; left > 0; left -= 20) {
        take_n(s, d, 20);
        for (int i = 0; i < 20; i++)
            ack(d[i]);
    }
    must(leat_source_flush(s, LONG_MS, err));
    assert_int_equal(stats_of(s).settled, 200);
    leat_source_close(s);
    leat_topic_close(t);
}

/* ---- starts ----------------------------------------------------------- */

static void first_is(leat_topic *t, const char *group, const char *start,
                     const char *body)
{
    leat_source *s = source_of(t, group,
                               &(leat_topic_source_opts){ .start = start });
    leat_delivery *d = next_of(s);
    assert_body(d, body);
    ack(d);
    leat_source_close(s);
}

static void a_new_group_starts_where_it_is_told(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    leat_error e = { 0 };
    redis_do(server, "XADD leat:{orders/0}:log 1000-0 x 1");
    redis_do(server, "XADD leat:{orders/0}:log 2000-0 x 2");
    add("orders", 0, "new");
    leat_source *s = source_of(t, "id",
                               &(leat_topic_source_opts){ .start = "1000-0" });
    assert_int_equal(leat_delivery_position(next_of(s)).ms, 2000);
    leat_source_close(s);
    s = source_of(t, "time", &(leat_topic_source_opts){ .start = "@2000" });
    assert_int_equal(leat_delivery_position(next_of(s)).ms, 2000);
    leat_source_close(s);
    s = source_of(t, "ms", &(leat_topic_source_opts){ .start = "1999" });
    assert_int_equal(leat_delivery_position(next_of(s)).ms, 2000);
    leat_source_close(s);
    first_is(t, "later", "@2001", "new");

    s = source_of(t, "end", &(leat_topic_source_opts){ .start = "end" });
    wait_until((nothing_of(s, 1), stats_of(s).partitions == 1), LONG_MS);
    add("orders", 0, "newest");
    leat_delivery *d = next_of(s);
    assert_body(d, "newest");
    leat_source_close(s);

    static const char *const bad[] = { "yesterday", "@1-1", "@", "1-2-3", "" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(leat_topic_source(
            t, "bad", &(leat_topic_source_opts){ .start = bad[i] }, &e));
        assert_code(e.code, LEAT_EINVAL);
    }
    leat_topic_close(t);
}

static void groups_read_independently(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add("orders", 0, "x");
    first_is(t, "a", NULL, "x");
    first_is(t, "b", NULL, "x");
    leat_topic_close(t);
}

static void a_bare_stream_is_read_as_a_topic_of_one_partition(void **state)
{
    (void)state;
    leat_error e = { 0 };
    redis_do(server, "XADD old * ce_id 1 ce_source /x ce_type t "
                     "ce_specversion 1.0 data hello");
    leat_topic *t = leat_topic_open(
        client, "old", &(leat_topic_opts){ .codec = &leat_codec_ce_binary },
        &e);
    assert_non_null(t);
    assert_true(leat_topic_legacy(t));
    first_is(t, "g", NULL, "hello");
    leat_topic_close(t);
}

/* ---- waiting ---------------------------------------------------------- */

static void a_waiting_receive_gets_what_arrives(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 3);
    leat_source *s = source_of(t, "g", NULL);
    wait_until((nothing_of(s, 1), stats_of(s).partitions == 3), LONG_MS);
    for (int i = 0; i < 30; i++) {
        add("orders", i % 3, "x");
        ack(next_of(s));
    }
    leat_source_close(s);
    leat_topic_close(t);
}

static void an_interrupt_ends_a_receive_or_the_next(void **state)
{
    leat_delivery *d;
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    leat_source *s = source_of(t, "g", NULL);
    leat_source_interrupt(s);
    int64_t before = wait_now_ms();
    assert_int_equal(leat_source_receive(s, &d, 1, LONG_MS, NULL), 0);
    assert_true(wait_now_ms() - before < LONG_MS / 2);
    leat_source_close(s);
    leat_topic_close(t);
}

static void
the_descriptor_tells_that_a_receive_would_find_something(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    leat_source *s = source_of(t, "g", NULL);
    struct pollfd p = { .fd = leat_source_fd(s), .events = POLLIN };
    assert_true(p.fd >= 0);
    assert_int_equal(poll(&p, 1, 20), 0);
    add("orders", 0, "x");
    assert_int_equal(poll(&p, 1, LONG_MS), 1);
    leat_delivery *d = NULL;
    assert_int_equal(leat_source_receive(s, &d, 1, 0, NULL), 1);
    assert_body(d, "x");
    ack(d);
    wait_until(poll(&p, 1, 0) == 0, LONG_MS);
    leat_source_close(s);
    leat_topic_close(t);
}

static void settlements_go_out_also_if_nobody_receives(void **state)
{
    (void)state;
    char buf[64];
    leat_topic *t = topic_of(client, "orders", 1);
    add("orders", 0, "x");
    leat_source *s = source_of(t, "g", NULL);
    leat_delivery *d = next_of(s);
    leat_position at = leat_delivery_position(d);
    char id[64];
    snprintf(id, sizeof id, "%llu-%llu", (unsigned long long)at.ms,
             (unsigned long long)at.seq);
    ack(d);
    wait_until(strcmp(redis_text(server, buf, sizeof buf,
                                 "HGET leat:{orders/0}:cur:g c"),
                      id) == 0,
               LONG_MS);
    leat_source_close(s);
    leat_topic_close(t);
}

/* With a window of two, nearly every command waits for an answer first. */
static void a_client_with_a_small_window_reads_all(void **state)
{
    leat_delivery *d[50];
    (void)state;
    leat_client *small = open_client(url, &(leat_client_opts){ .window = 2 });
    leat_topic *t = topic_of(small, "orders", 3);
    for (int p = 0; p < 3; p++)
        add_many("orders", p, 0, 500);
    leat_source *s = source_of(t, "g", NULL);
    for (int left = 1500; left > 0; left -= 50) {
        take_n(s, d, 50);
        for (int i = 0; i < 50; i++)
            ack(d[i]);
    }
    must(leat_source_flush(s, LONG_MS, err));
    assert_int_equal(stats_of(s).settled, 1500);
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(small);
}

/* ---- the lease -------------------------------------------------------- */

static void an_extended_delivery_is_kept(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add("orders", 0, "x");
    leat_source *s = source_of(t, "g", NULL);
    leat_delivery *d = next_of(s);
    int64_t left = leat_delivery_left_ms(d);
    assert_in_range(left, 1, 15000);
    must(leat_delivery_extend(d, 15000, err));
    assert_true(leat_delivery_left_ms(d) >= left);
    ack(d);
    leat_source_close(s);
    leat_topic_close(t);
}

static void an_owner_whose_lease_was_taken_settles_nothing(void **state)
{
    leat_error e = { 0 };
    char before[64], after[64];
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add("orders", 0, "x");
    leat_source *s = source_of(t, "g", NULL);
    leat_delivery *d = next_of(s);
    redis_text(server, before, sizeof before, "HGET leat:{orders/0}:cur:g c");
    redis_do(server, "HSET leat:{orders/0}:lease:g o "
                     "00000000000000000000000000000001");
    ack(d);
    assert_code(leat_source_flush(s, LONG_MS, &e), LEAT_ESTALE);
    redis_text(server, after, sizeof after, "HGET leat:{orders/0}:cur:g c");
    assert_string_equal(before, after);
    assert_true(stats_of(s).stale >= 1);
    leat_source_close(s);
    leat_topic_close(t);
}

static void an_owner_whose_lease_was_deleted_takes_it_again(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add("orders", 0, "x");
    leat_source *s = source_of(t, "g",
                               &(leat_topic_source_opts){ .lease_ms = 1000 });
    leat_delivery *d = next_of(s);
    uint64_t fence = leat_delivery_fence(d);
    redis_do(server, "DEL leat:{orders/0}:lease:g");
    ack(d);
    d = next_of(s);
    assert_body(d, "x"); /* the settlement was refused */
    assert_true(leat_delivery_fence(d) > fence);
    ack(d);
    leat_source_close(s);
    leat_topic_close(t);
}

static int refusals(void)
{
    char stats[4096];
    redis_text(server, stats, sizeof stats, "INFO errorstats");
    const char *at = strstr(stats, "NOREPLICAS:count=");
    return at ? (int)strtol(strchr(at, '=') + 1, NULL, 10) : 0;
}

/* Does the server know that all was handed out? */
static bool marked(void)
{
    return redis_int(server,
                     "EVAL %s 2 leat:{orders/0}:cur:g leat:{orders/0}:log",
                     "local last = redis.call('XREVRANGE', KEYS[2], '+', '-', "
                     "'COUNT', 1)[1] "
                     "return redis.call('HGET', KEYS[1], 'm') == last[1] and 1 "
                     "or 0") == 1;
}

/* Nobody settles it, and nothing else happens that would be saved. */
static void a_hand_out_that_was_refused_for_now_is_saved_later(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    leat_source *s = source_of(t, "g", NULL);
    wait_until(stats_of(s).partitions == 1, LONG_MS);
    add("orders", 0, "one");
    redis_do(server, "CONFIG SET min-replicas-to-write 1");
    leat_delivery *d = next_of(s);
    wait_until(refusals() >= 3, LONG_MS);
    redis_do(server, "CONFIG SET min-replicas-to-write 0");
    wait_until(marked(), LONG_MS);
    ack(d);
    leat_source_close(s);
    leat_topic_close(t);
}

/* Reads that the server saw while nothing came for so long. */
static int64_t reads_while_idle(leat_source *s, int64_t ms)
{
    static char stats[65536];
    redis_do(server, "CONFIG RESETSTAT");
    nothing_of(s, ms);
    redis_text(server, stats, sizeof stats, "INFO commandstats");
    const char *calls = strstr(stats, "cmdstat_xread:calls=");
    return calls ? strtoll(calls + strlen("cmdstat_xread:calls="), NULL, 10)
                 : 0;
}

static void an_idle_member_of_many_partitions_looks_less_often(void **state)
{
    (void)state;
    enum { PARTITIONS = 130, POLL_MS = 400, WINDOW_MS = 1000 };
    leat_topic *t = topic_of(client, "wide", PARTITIONS);
    leat_source *s = source_of(
        t, "g", &(leat_topic_source_opts){ .idle_poll_ms = POLL_MS });
    int64_t end = wait_now_ms() + LONG_MS, reads;
    while ((reads = reads_while_idle(s, WINDOW_MS)) > 6)
        if (wait_now_ms() > end)
            fail_msg("%d reads in a second", (int)reads);
    for (int i = 0; i < PARTITIONS; i += 43) {
        add("wide", i, "x");
        leat_delivery *d = next_of(s);
        assert_int_equal(leat_delivery_partition(d), i);
        ack(d);
    }
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_negative_poll_is_refused(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    assert_null(leat_topic_source(
        t, "g", &(leat_topic_source_opts){ .idle_poll_ms = -1 }, &e));
    assert_int_equal(e.code, LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "idle_poll_ms"));
    leat_topic_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(a_new_group_reads_all_from_the_start_in_order),
        topic_test(what_was_acknowledged_does_not_come_again),
        topic_test(settled_out_of_order_the_rest_alone_comes_again),
        topic_test(what_is_given_back_comes_again_before_what_stands_behind),
        topic_test(in_key_order_other_keys_flow_past_one_that_waits),
        topic_test(a_delay_is_kept),
        topic_test(what_was_never_settled_comes_to_the_next_as_unbegun),
        topic_test(a_rejected_message_is_counted_and_skipped),
        topic_test(an_entry_that_is_no_message_comes_with_its_fields),
        topic_test(no_more_than_the_limit_is_in_flight),
        topic_test(a_new_group_starts_where_it_is_told),
        topic_test(groups_read_independently),
        topic_test(a_bare_stream_is_read_as_a_topic_of_one_partition),
        topic_test(a_waiting_receive_gets_what_arrives),
        topic_test(an_interrupt_ends_a_receive_or_the_next),
        topic_test(the_descriptor_tells_that_a_receive_would_find_something),
        topic_test(settlements_go_out_also_if_nobody_receives),
        topic_test(a_client_with_a_small_window_reads_all),
        topic_test(an_extended_delivery_is_kept),
        topic_test(an_owner_whose_lease_was_taken_settles_nothing),
        topic_test(an_owner_whose_lease_was_deleted_takes_it_again),
        topic_test(a_hand_out_that_was_refused_for_now_is_saved_later),
        topic_test(an_idle_member_of_many_partitions_looks_less_often),
        topic_test(a_negative_poll_is_refused),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
