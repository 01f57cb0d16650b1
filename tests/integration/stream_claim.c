/*
 * stream_claim.c: what comes back: own entries, those of the dead, those that
 * are gone.  Each test of adoption runs twice, with XAUTOCLAIM and as on Redis
 * 6.0.
 */
#include "stream_help.h"
#include "support/tcpfault.h"

#include <pthread.h>
#include <stdlib.h>

static const leat_client_opts as_6_0 = { .as_redis_6_0 = true };

/* Another program's consumer reads n entries and dies. */
static void read_and_die(const char *consumer, int n)
{
    redisReply *r = redis_raw(
        server, "XREADGROUP GROUP g %s COUNT %d STREAMS s >", consumer, n);
    assert_non_null(r);
    freeReplyObject(r);
}

static void dead_with(int n)
{
    redis_do(server, "XGROUP CREATE s g 0 MKSTREAM");
    publish(0, n);
    read_and_die("dead", n);
    assert_int_equal(pending(), n);
}

static int64_t pending_of(const char *consumer)
{
    return redis_int(server, "XPENDING s g - + 100000 %s", consumer);
}

static int64_t consumers(void)
{
    return redis_int(server, "XINFO CONSUMERS s g");
}

/* ---- own -------------------------------------------------------------- */

static void a_name_finds_what_its_earlier_life_left(void **state)
{
    enum { LEFT = 250 }; /* several pages */
    (void)state;
    redis_do(server, "XGROUP CREATE s g 0 MKSTREAM");
    publish(0, LEFT);
    read_and_die("me", LEFT);
    publish(LEFT, 5);
    leat_source *q = subscribe(&(leat_stream_source_opts){
        .consumer = "me" }); /* nothing is idle for a minute */
    for (int i = 0; i < LEFT + 5; i++) {
        leat_delivery *d = next_of(q);
        assert_int_equal(number_of(d), i); /* the old ones first */
        assert_int_equal(leat_delivery_attempt(d), i < LEFT ? 2 : 1);
        ack(d);
    }
    flush(q);
    assert_int_equal(pending(), 0);
    assert_string_equal(leat_stream_consumer(q), "me");
    leat_source_close(q);
    assert_int_equal(consumers(), 1); /* a given name is kept */
}

static void more_is_left_than_may_be_in_flight(void **state)
{
    bool seen[30] = { false };
    (void)state;
    redis_do(server, "XGROUP CREATE s g 0 MKSTREAM");
    publish(0, 30);
    read_and_die("me", 30);
    leat_source *q = subscribe(
        &(leat_stream_source_opts){ .consumer = "me", .max_in_flight = 7 });
    receive_all(q, 30, seen, 30);
    flush(q);
    assert_int_equal(pending(), 0);
    leat_source_close(q);
}

/* ---- the dead --------------------------------------------------------- */

static void adopt(const leat_client_opts *copts)
{
    enum { LEFT = 230 };
    bool seen[LEFT] = { false };
    dead_with(LEFT);
    leat_client *c = open_client(url, copts);
    leat_source *q = subscribe_on(
        c, NULL, &(leat_stream_source_opts){ .idle_ms = 200, .claim_ms = 50 });
    for (int i = 0; i < LEFT; i++) {
        leat_delivery *d = next_of(q);
        assert_int_equal(leat_delivery_attempt(d), 2);
        assert_false(seen[number_of(d)]);
        seen[number_of(d)] = true;
        ack(d);
    }
    flush(q);
    assert_int_equal(pending(), 0);
    assert_int_equal(stats_of(q).adopted, LEFT);
    leat_source_close(q);
    leat_client_close(c);
}

static void entries_of_a_dead_consumer_are_adopted(void **state)
{
    (void)state;
    adopt(NULL);
}

static void entries_of_a_dead_consumer_are_adopted_on_redis_6_0(void **state)
{
    (void)state;
    adopt(&as_6_0);
}

/* A made-up name and what it held are found by others. */
static void a_subscriber_that_vanishes_is_replaced(void **state)
{
    (void)state;
    redis_do(server, "XGROUP CREATE s g 0 MKSTREAM");
    publish(0, 3);
    read_and_die("host-1-0123456789abcdef", 3);
    leat_source *q = subscribe(
        &(leat_stream_source_opts){ .idle_ms = 100, .claim_ms = 50 });
    for (int i = 0; i < 3; i++)
        ack(next_of(q));
    flush(q);
    wait_until(stats_of(q).removed == 1, LONG_MS);
    assert_int_equal(consumers(), 1);
    leat_source_close(q);
    assert_int_equal(consumers(), 0);
}

static void live_entries_are_left_alone(const leat_client_opts *copts)
{
    dead_with(150);
    leat_client *c = open_client(url, copts);
    leat_source *q = subscribe_on(c, NULL,
                                  &(leat_stream_source_opts){ .claim_ms = 10 });
    publish(150, 1);
    leat_delivery *d = next_of(q);
    assert_int_equal(number_of(d), 150);
    /* Several passes look at all of them meanwhile. */
    assert_null(next_within(q, 200));
    assert_int_equal(pending_of("dead"), 150);
    ack(d);
    leat_source_close(q);
    leat_client_close(c);
}

static void what_is_not_idle_is_not_taken(void **state)
{
    (void)state;
    live_entries_are_left_alone(NULL);
    assert_true(redis_flush(server));
    live_entries_are_left_alone(&as_6_0);
}

/* A page at a time: in the middle of thousands the idle ones are found. */
static void a_long_pending_list_is_walked_in_pages(void **state)
{
    enum { LIVE = 3000, LEFT = 3 };
    (void)state;
    for (int v = 0; v < 2; v++) {
        assert_true(redis_flush(server));
        dead_with(LIVE + LEFT);
        redis_do(server, "CONFIG RESETSTAT");
        leat_client *c = open_client(url, v ? &as_6_0 : NULL);
        /* Only the last ones are idle long enough. */
        char id[64];
        redisReply *r = redis_raw(server, "XREVRANGE s + - COUNT %d", LEFT);
        for (size_t i = 0; i < r->elements; i++) {
            snprintf(id, sizeof id, "%s", r->element[i]->element[0]->str);
            redis_do(server, "XCLAIM s g dead 0 %s IDLE 7200000 JUSTID", id);
        }
        freeReplyObject(r);
        leat_source *q = subscribe_on(
            c, NULL, &(leat_stream_source_opts){ .idle_ms = 3600000 });
        for (int i = 0; i < LEFT; i++) {
            leat_delivery *d = next_of(q);
            assert_true(number_of(d) >= LIVE);
            ack(d);
        }
        flush(q);
        assert_int_equal(pending(), LIVE);
        leat_source_close(q);
        leat_client_close(c);
    }
}

/* ---- fencing ---------------------------------------------------------- */

static void a_stale_ack_is_refused(void **state)
{
    char id[48];
    leat_error e = { 0 };
    (void)state;
    publish(0, 1);
    leat_source *q = subscribe(&(leat_stream_source_opts){
        .idle_ms = 100, .claim_ms = 60000, .consumer = "slow" });
    leat_delivery *d = next_of(q);
    id_of(d, id);
    wait_until(leat_delivery_left_ms(d) == 0, LONG_MS);
    redis_do(server, "XCLAIM s g other 0 %s", id);
    ack(d);
    assert_code(leat_source_flush(q, LONG_MS, &e), LEAT_ESTALE);
    assert_non_null(strstr(e.msg, id));
    flush(q); /* told once */
    assert_int_equal(pending_of("other"), 1);
    assert_int_equal(stats_of(q).stale, 1);
    leat_source_close(q);
}

static void a_stale_extend_and_nack_are_refused(void **state)
{
    char id[48];
    leat_error e = { 0 };
    (void)state;
    publish(0, 1);
    leat_source *q = subscribe(
        &(leat_stream_source_opts){ .claim_ms = 60000, .consumer = "slow" });
    leat_delivery *d = next_of(q);
    redis_do(server, "XCLAIM s g other 0 %s", id_of(d, id));
    assert_code(leat_delivery_extend(d, 30000, &e), LEAT_ESTALE);
    assert_int_equal(leat_delivery_nack(d, 50), LEAT_OK);
    assert_code(leat_source_flush(q, LONG_MS, &e), LEAT_ESTALE);
    assert_int_equal(pending_of("other"), 1);
    leat_source_close(q);
}

static void every_ack_is_checked_where_asked_for(void **state)
{
    char id[48];
    leat_error e = { 0 };
    (void)state;
    publish(0, 1);
    leat_source *q = subscribe(
        &(leat_stream_source_opts){ .fence_all = true, .consumer = "slow" });
    leat_delivery *d = next_of(q);
    redis_do(server, "XCLAIM s g other 0 %s", id_of(d, id));
    ack(d);
    assert_code(leat_source_flush(q, LONG_MS, &e), LEAT_ESTALE);
    assert_int_equal(pending_of("other"), 1);
    leat_source_close(q);
}

/* Its own passes do not take from a consumer what it still works on. */
static void what_is_in_flight_is_not_claimed_from_ourselves(void **state)
{
    (void)state;
    for (int v = 0; v < 2; v++) {
        assert_true(redis_flush(server));
        leat_client *c = open_client(url, v ? &as_6_0 : NULL);
        publish(0, 1);
        leat_source *q = subscribe_on(
            c, NULL,
            &(leat_stream_source_opts){ .idle_ms = 50, .claim_ms = 20 });
        leat_delivery *d = next_of(q);
        assert_null(next_within(q, 400));
        ack(d);
        flush(q);
        assert_int_equal(pending(), 0);
        leat_source_close(q);
        leat_client_close(c);
    }
}

/* ---- what is gone ----------------------------------------------------- */

struct lines {
    pthread_mutex_t lock;
    int deleted, healed;
};

static void on_line(void *arg, leat_level level, const char *line)
{
    struct lines *l = arg;
    (void)level;
    pthread_mutex_lock(&l->lock);
    l->deleted += strstr(line, "is deleted from the stream") != NULL;
    l->healed += strstr(line, "is made anew") != NULL;
    pthread_mutex_unlock(&l->lock);
}

static void delete_under_pending(const leat_client_opts *copts)
{
    struct lines lines = { .lock = PTHREAD_MUTEX_INITIALIZER };
    leat_stream_opts so = { .log = { .fn = on_line, .arg = &lines } };
    dead_with(10);
    redisReply *r = redis_raw(server, "XRANGE s - + COUNT 4");
    for (size_t i = 0; i < r->elements; i++)
        redis_do(server, "XDEL s %s", r->element[i]->element[0]->str);
    freeReplyObject(r);
    leat_client *c = open_client(url, copts);
    leat_source *q = subscribe_on(
        c, &so, &(leat_stream_source_opts){ .idle_ms = 100, .claim_ms = 50 });
    for (int i = 0; i < 6; i++) {
        leat_delivery *d = next_of(q);
        assert_true(number_of(d) >= 4);
        ack(d);
    }
    flush(q);
    wait_until(stats_of(q).deleted == 4, LONG_MS);
    assert_int_equal(pending(), 0);
    leat_source_close(q);
    assert_int_equal(lines.deleted, 4);
    leat_client_close(c);
}

static void deleted_entries_are_settled_and_reported(void **state)
{
    (void)state;
    delete_under_pending(NULL);
}

static void deleted_entries_are_settled_and_reported_on_redis_6_0(void **state)
{
    (void)state;
    delete_under_pending(&as_6_0);
}

static void a_deleted_entry_of_our_own_does_not_come_back(void **state)
{
    char id[48];
    (void)state;
    publish(0, 2);
    leat_source *q = subscribe(NULL);
    leat_delivery *d = next_of(q), *other = next_of(q);
    redis_do(server, "XDEL s %s", id_of(d, id));
    assert_int_equal(leat_delivery_nack(d, 10), LEAT_OK);
    wait_until(stats_of(q).deleted == 1, LONG_MS);
    wait_until(pending() == 1, LONG_MS);
    assert_null(next_within(q, 50));
    ack(other);
    leat_source_close(q);
}

static void a_lost_group_is_made_anew_from_its_start(void **state)
{
    struct lines lines = { .lock = PTHREAD_MUTEX_INITIALIZER };
    leat_stream_opts so = { .log = { .fn = on_line, .arg = &lines } };
    (void)state;
    leat_source *q = subscribe_on(client, &so, NULL);
    publish(0, 1);
    ack(next_of(q));
    flush(q);
    assert_true(redis_flush(server)); /* stream and group */
    publish(1, 2);
    for (int i = 1; i <= 2; i++) {
        leat_delivery *d = next_of(q);
        assert_int_equal(number_of(d), i);
        ack(d);
    }
    flush(q);
    redis_do(server, "XGROUP DESTROY s g"); /* the group alone */
    publish(3, 1);
    for (int i = 1; i <= 3; i++) {
        leat_delivery *d = next_of(q);
        assert_int_equal(number_of(d), i);
        ack(d);
    }
    leat_source_close(q);
    assert_true(lines.healed >= 2);
}

static void an_ack_in_a_lost_group_is_stale(void **state)
{
    leat_error e = { 0 };
    (void)state;
    publish(0, 1);
    leat_source *q = subscribe(&(leat_stream_source_opts){ .fence_all = true });
    leat_delivery *d = next_of(q);
    assert_true(redis_flush(server));
    ack(d);
    assert_code(leat_source_flush(q, LONG_MS, &e), LEAT_ESTALE);
    leat_source_close(q);
}

/* ---- names ------------------------------------------------------------ */

static void a_name_is_removed_only_when_nothing_is_pending(void **state)
{
    leat_error e = { 0 };
    (void)state;
    publish(0, 2);
    leat_source *q = subscribe(NULL);
    (void)next_of(q);
    leat_source_close(q);
    assert_int_equal(consumers(), 1); /* it still has the entries */
    assert_int_equal(pending(), 2);

    q = subscribe(&(leat_stream_source_opts){ .consumer = "other" });
    ack(next_of(q));
    ack(next_of(q));
    flush(q);
    leat_stream *s = open_stream(client, NULL);
    leat_source *third = leat_stream_source(s, "g", NULL, &e);
    wait_until(consumers() >= 2, LONG_MS);
    leat_source_close(third);
    leat_stream_close(s);
    leat_source_close(q);
    assert_int_equal(pending(), 0);
}

static void names_of_others_are_not_ours_to_remove(void **state)
{
    (void)state;
    redis_do(server, "XGROUP CREATE s g 0 MKSTREAM");
    redis_do(server, "XGROUP CREATECONSUMER s g worker-1");
    redis_do(server, "XGROUP CREATECONSUMER s g host-1-0123456789abcdef");
    leat_source *q = subscribe(
        &(leat_stream_source_opts){ .idle_ms = 20, .claim_ms = 20 });
    wait_until(stats_of(q).removed == 1, LONG_MS);
    assert_int_equal(pending(), 0);
    leat_source_close(q);
    assert_int_equal(consumers(), 1); /* worker-1 */
}

/* Between the look and the step another consumer takes it: that one lives. */
static void what_another_took_meanwhile_is_its_own(void **state)
{
    enum { STEPS = 3 };
    char at[64], id[64];
    (void)state;
    for (int n = 1; n <= STEPS; n++) {
        redis_flush(server);
        dead_with(1);
        redisReply *r = redis_raw(server, "XPENDING s g - + 1");
        snprintf(id, sizeof id, "%s", r->element[0]->element[0]->str);
        freeReplyObject(r);
        tcpfault *f = tcpfault_start(redis_socket(server), NULL);
        assert_non_null(f);
        snprintf(at, sizeof at, "redis://127.0.0.1:%d", tcpfault_port(f));
        leat_client *c = open_client(at, &as_6_0);
        leat_source *q = subscribe_on(
            c, NULL,
            &(leat_stream_source_opts){ .consumer = "me", .claim_ms = 20 });
        int rule = tcpfault_rule_add(f,
                                     &(tcpfault_rule){ .when = TCPFAULT_COMMAND,
                                                       .command = "EVALSHA",
                                                       .n = (uint64_t)n,
                                                       .action = TCPFAULT_HOLD,
                                                       .times = 1 });
        redis_do(server, "XCLAIM s g dead 0 %s IDLE 3600000", id);
        wait_until(tcpfault_fired(f, rule) == 1 || pending_of("me") == 1,
                   LONG_MS);
        bool held = tcpfault_fired(f, rule) == 1 && pending_of("dead") == 1;
        if (held)
            redis_do(server, "XCLAIM s g other 0 %s", id);
        tcpfault_counts before = tcpfault_count(f);
        tcpfault_release(f);
        if (held) {
            wait_until(tcpfault_count(f).up > before.up, LONG_MS);
            assert_null(next_within(q, 200));
            assert_int_equal(pending_of("other"), 1);
        }
        assert_true(held || n > 1);
        leat_source_close(q);
        leat_client_close(c);
        tcpfault_stop(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        stream_test(a_name_finds_what_its_earlier_life_left),
        stream_test(more_is_left_than_may_be_in_flight),
        stream_test(entries_of_a_dead_consumer_are_adopted),
        stream_test(entries_of_a_dead_consumer_are_adopted_on_redis_6_0),
        stream_test(a_subscriber_that_vanishes_is_replaced),
        stream_test(what_is_not_idle_is_not_taken),
        stream_test(what_another_took_meanwhile_is_its_own),
        stream_test(a_long_pending_list_is_walked_in_pages),
        stream_test(a_stale_ack_is_refused),
        stream_test(a_stale_extend_and_nack_are_refused),
        stream_test(every_ack_is_checked_where_asked_for),
        stream_test(what_is_in_flight_is_not_claimed_from_ourselves),
        stream_test(deleted_entries_are_settled_and_reported),
        stream_test(deleted_entries_are_settled_and_reported_on_redis_6_0),
        stream_test(a_deleted_entry_of_our_own_does_not_come_back),
        stream_test(a_lost_group_is_made_anew_from_its_start),
        stream_test(an_ack_in_a_lost_group_is_stale),
        stream_test(a_name_is_removed_only_when_nothing_is_pending),
        stream_test(names_of_others_are_not_ours_to_remove),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
