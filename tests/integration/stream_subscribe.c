/*
 * stream_subscribe.c: groups, deliveries and settlements of a plain stream.
 */
#include "stream_help.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

/* ---- groups ----------------------------------------------------------- */

static void a_new_group_starts_at_the_beginning(void **state)
{
    bool seen[3] = { false };
    (void)state;
    publish(0, 3);
    leat_source *q = subscribe(NULL);
    receive_all(q, 3, seen, 3);
    flush(q);
    assert_int_equal(pending(), 0);
    leat_source_close(q);
}

static void a_group_is_made_before_there_is_a_stream(void **state)
{
    bool seen[1] = { false };
    (void)state;
    leat_source *q = subscribe(NULL);
    assert_int_equal(redis_int(server, "EXISTS s"), 1);
    publish(0, 1);
    receive_all(q, 1, seen, 1);
    leat_source_close(q);
}

static void a_dollar_starts_with_what_comes(void **state)
{
    (void)state;
    publish(0, 3);
    leat_source *q = subscribe(&(leat_stream_source_opts){ .start = "$" });
    publish(3, 1);
    leat_delivery *d = next_of(q);
    assert_int_equal(number_of(d), 3);
    ack(d);
    leat_source_close(q);
}

static void an_id_starts_behind_it(void **state)
{
    bool seen[2] = { false };
    (void)state;
    redis_do(server, "XGROUP CREATE s other 0 MKSTREAM");
    publish(7, 1);
    char last[64];
    redisReply *r = redis_raw(server, "XREVRANGE s + - COUNT 1");
    snprintf(last, sizeof last, "%s", r->element[0]->element[0]->str);
    freeReplyObject(r);
    publish(0, 2);
    leat_source *q = subscribe(&(leat_stream_source_opts){ .start = last });
    receive_all(q, 2, seen, 2);
    leat_source_close(q);
}

static void a_time_starts_with_the_first_entry_from_then_on(void **state)
{
    (void)state;
    for (int i = 1; i <= 3; i++)
        redis_do(server, "XADD s %d000-5 f %d", i, i);
    leat_source *q = subscribe(&(leat_stream_source_opts){ .start = "@2000" });
    for (uint64_t ms = 2000; ms <= 3000; ms += 1000) {
        leat_delivery *d = next_of(q);
        assert_int_equal(leat_delivery_position(d).ms, ms);
        ack(d);
    }
    assert_null(next_within(q, 50));
    leat_source_close(q);
}

static void an_existing_group_keeps_its_place(void **state)
{
    bool seen[2] = { false };
    (void)state;
    publish(5, 1);
    redis_do(server, "XGROUP CREATE s g $");
    publish(0, 2);
    leat_source *q = subscribe(NULL);
    receive_all(q, 2, seen, 2);
    leat_source_close(q);
}

static void what_cannot_be_is_told_by_the_call(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_stream *s = open_stream(client, NULL);
    assert_null(leat_stream_source(
        s, "g", &(leat_stream_source_opts){ .start = "yesterday" }, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "yesterday"));
    assert_null(leat_stream_source(s, "", NULL, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_null(leat_stream_source(
        s, "g", &(leat_stream_source_opts){ .batch = -1 }, &e));
    assert_code(e.code, LEAT_EINVAL);
    redis_do(server, "SET s text");
    assert_null(leat_stream_source(s, "g", NULL, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_null(leat_stream_open(client, "", NULL, &e));
    assert_code(e.code, LEAT_EINVAL);
    leat_stream_close(s);
}

static void a_second_subscription_of_a_handle_is_refused(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_stream *s = open_stream(client, NULL);
    leat_source *q = leat_stream_source(s, "g", NULL, &e);
    assert_non_null(q);
    assert_null(leat_stream_source(s, "other", NULL, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "subscribed already"));
    leat_source_close(q);
    q = leat_stream_source(s, "other", NULL, &e);
    assert_non_null(q);
    leat_stream_close(s);
    leat_source_close(q);
}

/* ---- deliveries ------------------------------------------------------- */

static void a_delivery_says_what_it_is(void **state)
{
    (void)state;
    publish(4, 1);
    leat_source *q = subscribe(NULL);
    leat_delivery *d = next_of(q);
    assert_true(leat_bytes_eq(leat_delivery_from(d), leat_str("s")));
    assert_int_equal(leat_delivery_attempt(d), 1);
    assert_false(leat_delivery_redelivered(d));
    assert_null(leat_delivery_error(d));
    assert_int_equal(leat_delivery_fence(d), 0);
    assert_in_range(leat_delivery_left_ms(d), 1, 60000);
    assert_int_equal(leat_delivery_msg(d)->id.n, 36);
    assert_true(leat_delivery_msg(d)->time_ms > 0);
    ack(d);
    leat_source_close(q);
}

static void every_codec_goes_through(void **state)
{
    const char *names[] = { "native", "ce", "ce-json" };
    leat_header h = { leat_str("colour"), leat_str("green") };
    leat_error e = { 0 };
    (void)state;
    for (int i = 0; i < 3; i++) {
        leat_stream_opts o = { .codec = leat_codec_find(names[i]) };
        assert_true(redis_flush(server));
        leat_stream *s = open_stream(client, &o);
        leat_sink *k = leat_stream_sink(s, NULL, &e);
        leat_source *q = leat_stream_source(s, "g", NULL, &e);
        assert_non_null(k);
        assert_non_null(q);
        must(leat_sink_publish(k,
                               &(leat_msg){ .id = leat_str("x1"),
                                            .type = leat_str("t"),
                                            .source = leat_str("/here"),
                                            .headers = &h,
                                            .header_count = 1,
                                            .body = leat_str("{\"a\":1}") },
                               1, NULL, NULL, err));
        leat_delivery *d = next_of(q);
        const leat_msg *m = leat_delivery_msg(d);
        assert_null(leat_delivery_error(d));
        assert_true(leat_bytes_eq(m->id, leat_str("x1")));
        assert_true(leat_bytes_eq(m->body, leat_str("{\"a\":1}")));
        assert_true(
            leat_bytes_eq(leat_msg_header(m, "colour"), leat_str("green")));
        ack(d);
        leat_sink_close(k);
        leat_source_close(q);
        leat_stream_close(s);
    }
}

static void an_undecodable_entry_harms_no_other(void **state)
{
    bool seen[4] = { false };
    (void)state;
    publish(0, 2);
    redis_do(server, "XADD s * colour green size 7");
    publish(2, 2);
    leat_source *q = subscribe(NULL);
    for (int i = 0; i < 5; i++) {
        leat_delivery *d = next_of(q);
        const leat_msg *m = leat_delivery_msg(d);
        if (!leat_delivery_error(d)) {
            seen[number_of(d)] = true;
            ack(d);
            continue;
        }
        assert_code(leat_delivery_error(d)->code, LEAT_EDECODE);
        assert_int_equal(m->header_count, 2);
        assert_int_equal(m->body.n, 0);
        assert_true(
            leat_bytes_eq(leat_msg_header(m, "colour"), leat_str("green")));
        assert_true(leat_bytes_eq(leat_msg_header(m, "size"), leat_str("7")));
        assert_int_equal(leat_delivery_reject(d, "no message"), LEAT_OK);
    }
    flush(q);
    for (int i = 0; i < 4; i++)
        assert_true(seen[i]);
    assert_int_equal(pending(), 0);
    assert_int_equal(stats_of(q).undecodable, 1);
    leat_source_close(q);
}

/* Three messages in one entry, as a topic packs them. */
static void a_packed_entry_is_acknowledged_by_its_last_message(void **state)
{
    leat_error e = { 0 };
    leat_msg m[3] = { 0 };
    leat_fields *f = leat_fields_new(&e);
    leat_delivery *d[3];
    leat_bytes argv[16] = { leat_str("XADD"), leat_str("s"), leat_str("*") };
    (void)state;
    for (int i = 0; i < 3; i++) {
        m[i].id = leat_str("id");
        m[i].body = leat_str(i == 0 ? "0" : i == 1 ? "1" : "2");
    }
    must(leat_codec_native.encode(&leat_codec_native, m, 3, f, err));
    for (size_t i = 0; i < 2 * leat_fields_count(f); i++)
        argv[3 + i] = leat_fields_pairs(f)[i];
    must(leat_client_call(client, argv, 3 + 2 * leat_fields_count(f), NULL,
                          NULL, err));
    leat_fields_free(f);

    leat_source *q = subscribe(
        &(leat_stream_source_opts){ .nack_at_once = true });
    for (uint32_t i = 0; i < 3; i++) {
        d[i] = next_of(q);
        assert_int_equal(number_of(d[i]), i);
        assert_int_equal(leat_delivery_position(d[i]).index, i);
    }
    ack(d[0]);
    ack(d[2]);
    assert_int_equal(pending(), 1);
    assert_int_equal(leat_delivery_nack(d[1], 0), LEAT_OK);
    for (int i = 0; i < 3; i++) {
        d[i] = next_of(q);
        assert_int_equal(leat_delivery_attempt(d[i]), 2);
    }
    for (int i = 0; i < 3; i++)
        ack(d[i]);
    flush(q);
    assert_int_equal(pending(), 0);
    leat_source_close(q);
}

static void many_messages_arrive_once_over_several_connections(void **state)
{
    enum { N = 5000 };
    static bool seen[N];
    memset(seen, 0, sizeof seen);
    (void)state;
    leat_source *q = subscribe(&(leat_stream_source_opts){ .connections = 3 });
    publish(0, N);
    receive_all(q, N, seen, N);
    flush(q);
    assert_int_equal(pending(), 0);
    assert_null(next_within(q, 20));
    assert_int_equal(stats_of(q).received, N);
    assert_int_equal(stats_of(q).settled, N);
    leat_source_close(q);
}

static void no_more_is_in_flight_than_allowed(void **state)
{
    leat_delivery *d[8];
    leat_error e = { 0 };
    (void)state;
    publish(0, 20);
    leat_source *q = subscribe(
        &(leat_stream_source_opts){ .max_in_flight = 8, .batch = 5 });
    for (int i = 0; i < 8; i++)
        d[i] = next_of(q);
    assert_int_equal(leat_source_receive(q, d, 1, 50, &e), 0);
    assert_int_equal(pending(), 8);
    for (int i = 0; i < 8; i++)
        ack(d[i]);
    for (int i = 8; i < 20; i++)
        ack(next_of(q));
    flush(q);
    leat_source_close(q);
}

/* ---- settling --------------------------------------------------------- */

static void a_settlement_is_taken_once(void **state)
{
    (void)state;
    publish(0, 1);
    leat_source *q = subscribe(NULL);
    leat_delivery *d = next_of(q);
    ack(d);
    assert_int_equal(leat_delivery_ack(d), LEAT_ESTALE);
    flush(q);
    leat_source_close(q);
}

static void an_ack_is_sent_although_nobody_receives(void **state)
{
    (void)state;
    publish(0, 1);
    leat_source *q = subscribe(NULL);
    ack(next_of(q));
    wait_until(pending() == 0, LONG_MS);
    leat_source_close(q);
}

static void a_plain_nack_comes_back_after_the_idle_time(void **state)
{
    (void)state;
    publish(0, 1);
    leat_source *q = subscribe(&(leat_stream_source_opts){ .idle_ms = 400 });
    int64_t before = wait_now_ms();
    assert_int_equal(leat_delivery_nack(next_of(q), 0), LEAT_OK);
    flush(q);
    assert_int_equal(pending(), 1);
    leat_delivery *d = next_of(q);
    assert_true(wait_now_ms() - before >= 300); /* read before we counted */
    assert_int_equal(leat_delivery_attempt(d), 2);
    assert_true(leat_delivery_redelivered(d));
    ack(d);
    flush(q);
    assert_int_equal(pending(), 0);
    leat_source_close(q);
}

static void a_delayed_nack_comes_back_after_the_delay(void **state)
{
    (void)state;
    publish(0, 1);
    leat_source *q = subscribe(NULL); /* idle for a minute otherwise */
    for (uint32_t attempt = 1; attempt <= 3; attempt++) {
        leat_delivery *d = next_of(q);
        assert_int_equal(leat_delivery_attempt(d), attempt);
        int64_t before = wait_now_ms();
        assert_int_equal(leat_delivery_nack(d, 100), LEAT_OK);
        flush(q);
        d = next_of(q);
        assert_true(wait_now_ms() - before >= 100);
        assert_int_equal(leat_delivery_attempt(d), ++attempt);
        assert_int_equal(leat_stream_nack_now(d), LEAT_OK);
    }
    leat_source_close(q);
}

/* A delay longer than the idle time is kept up by renewing. */
static void a_long_delay_outlasts_the_idle_time(void **state)
{
    (void)state;
    publish(0, 1);
    leat_source *q = subscribe(
        &(leat_stream_source_opts){ .idle_ms = 300, .claim_ms = 50 });
    int64_t before = wait_now_ms();
    assert_int_equal(leat_delivery_nack(next_of(q), 1000), LEAT_OK);
    leat_delivery *d = next_of(q);
    assert_true(wait_now_ms() - before >= 1000);
    assert_int_equal(leat_delivery_attempt(d), 2);
    ack(d);
    leat_source_close(q);
}

static void a_nack_now_comes_back_at_once(void **state)
{
    (void)state;
    publish(0, 1);
    leat_source *q = subscribe(NULL);
    for (uint32_t i = 1; i <= 20; i++) {
        leat_delivery *d = next_of(q); /* idle_ms is a minute */
        assert_int_equal(leat_delivery_attempt(d), i);
        assert_int_equal(leat_stream_nack_now(d), LEAT_OK);
    }
    ack(next_of(q));
    flush(q);
    assert_int_equal(pending(), 0);
    assert_int_equal(stats_of(q).redelivered, 20);
    leat_source_close(q);
}

static void nacks_without_delay_come_back_at_once_where_chosen(void **state)
{
    (void)state;
    publish(0, 1);
    leat_source *q = subscribe(
        &(leat_stream_source_opts){ .nack_at_once = true });
    assert_int_equal(leat_delivery_nack(next_of(q), 0), LEAT_OK);
    leat_delivery *d = next_of(q);
    assert_int_equal(leat_delivery_attempt(d), 2);
    ack(d);
    leat_source_close(q);
}

static void extending_keeps_a_message_from_the_others(void **state)
{
    (void)state;
    publish(0, 1);
    leat_stream_source_opts o = { .idle_ms = 3000, .claim_ms = 50 };
    leat_source *q = subscribe(&o);
    leat_delivery *d = next_of(q);
    leat_source *other = subscribe(&o);
    int64_t end = wait_now_ms() + 4000;
    while (wait_now_ms() < end) {
        must(leat_delivery_extend(d, 3000, err));
        assert_null(next_within(other, 50));
    }
    leat_error e = { 0 };
    assert_int_equal(leat_delivery_extend(d, 3001, &e), LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "idle_ms"));
    ack(d);
    flush(q);
    assert_int_equal(pending(), 0);
    leat_source_close(other);
    leat_source_close(q);
}

/* ---- the rest of a source --------------------------------------------- */

static void *interrupts(void *q)
{
    leat_source_interrupt(q);
    return NULL;
}

static void an_interrupt_before_a_receive_ends_that(void **state)
{
    leat_error e = { 0 };
    leat_delivery *d;
    (void)state;
    leat_source *q = subscribe(NULL);
    leat_source_interrupt(q);
    int64_t before = wait_now_ms();
    assert_int_equal(leat_source_receive(q, &d, 1, LONG_MS, &e), 0);
    assert_true(wait_now_ms() - before < LONG_MS / 2);
    leat_source_close(q);
}

static void an_interrupt_ends_a_receive(void **state)
{
    leat_delivery *d;
    leat_error e = { 0 };
    pthread_t t;
    (void)state;
    leat_source *q = subscribe(NULL);
    int64_t before = wait_now_ms();
    assert_int_equal(pthread_create(&t, NULL, interrupts, q), 0);
    assert_int_equal(leat_source_receive(q, &d, 1, 60000, &e), 0);
    assert_true(wait_now_ms() - before < 50000);
    pthread_join(t, NULL);
    leat_source_close(q);
}

static bool readable(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    return poll(&p, 1, 0) > 0;
}

static void the_descriptor_is_readable_while_something_is_ready(void **state)
{
    (void)state;
    leat_source *q = subscribe(NULL);
    int fd = leat_source_fd(q);
    assert_true(fd >= 0);
    assert_false(readable(fd));
    publish(0, 2);
    wait_until(readable(fd), LONG_MS);
    ack(next_of(q));
    ack(next_of(q));
    wait_until(!readable(fd), LONG_MS);
    leat_source_close(q);
}

static void closing_gives_back_what_was_not_settled(void **state)
{
    (void)state;
    publish(0, 10);
    leat_source *q = subscribe(&(leat_stream_source_opts){ .consumer = "me" });
    for (int i = 0; i < 5; i++)
        (void)next_of(q);
    wait_until(stats_of(q).in_flight == 10, LONG_MS);
    leat_source_close(q);
    assert_int_equal(pending(), 10);
    leat_source *other = subscribe(NULL); /* idle for a minute otherwise */
    for (int i = 0; i < 10; i++) {
        leat_delivery *d = next_of(other);
        /* what was never handed out has not been tried */
        assert_int_equal(leat_delivery_attempt(d), number_of(d) < 5 ? 2 : 1);
        ack(d);
    }
    flush(other);
    assert_int_equal(pending(), 0);
    leat_source_close(other);
}

static void metrics_tell_what_was_done(void **state)
{
    leat_error e = { 0 };
    leat_metrics *m = leat_metrics_new(&e);
    leat_stream_opts o = { .metrics = m };
    (void)state;
    leat_stream *s = open_stream(client, &o);
    leat_sink *k = leat_stream_sink(s, NULL, &e);
    leat_source *q = leat_stream_source(s, "g", NULL, &e);
    must(leat_sink_publish(k, &(leat_msg){ .body = leat_str("0") }, 1, NULL,
                           NULL, err));
    must(leat_sink_flush(k, LONG_MS, err));
    assert_int_equal(leat_stream_nack_now(next_of(q)), LEAT_OK);
    leat_delivery *d = next_of(q);
    char *text = leat_metrics_text(m, false, &e);
#define IN_GROUP                                                               \
    "{messaging_consumer_group_name=\"g\",messaging_destination_name=\"s\","   \
    "messaging_system=\"leat\"} "
    const char *lines[] = {
        "messaging_client_sent_messages_total{messaging_destination_name=\"s\","
        "messaging_system=\"leat\"} 1\n",
        "messaging_client_consumed_messages_total" IN_GROUP "2\n",
        "leat_stream_redelivered_messages_total" IN_GROUP "1\n",
        "leat_stream_in_flight" IN_GROUP "1\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (!strstr(text, lines[i]))
            fail_msg("no %s in\n%s", lines[i], text);
    leat_metrics_text_free(text);
    ack(d);
    leat_sink_close(k);
    leat_source_close(q);
    leat_stream_close(s);
    leat_metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        stream_test(a_new_group_starts_at_the_beginning),
        stream_test(a_group_is_made_before_there_is_a_stream),
        stream_test(a_dollar_starts_with_what_comes),
        stream_test(an_id_starts_behind_it),
        stream_test(a_time_starts_with_the_first_entry_from_then_on),
        stream_test(an_existing_group_keeps_its_place),
        stream_test(what_cannot_be_is_told_by_the_call),
        stream_test(a_second_subscription_of_a_handle_is_refused),
        stream_test(a_delivery_says_what_it_is),
        stream_test(every_codec_goes_through),
        stream_test(an_undecodable_entry_harms_no_other),
        stream_test(a_packed_entry_is_acknowledged_by_its_last_message),
        stream_test(many_messages_arrive_once_over_several_connections),
        stream_test(no_more_is_in_flight_than_allowed),
        stream_test(a_settlement_is_taken_once),
        stream_test(an_ack_is_sent_although_nobody_receives),
        stream_test(a_plain_nack_comes_back_after_the_idle_time),
        stream_test(a_delayed_nack_comes_back_after_the_delay),
        stream_test(a_long_delay_outlasts_the_idle_time),
        stream_test(a_nack_now_comes_back_at_once),
        stream_test(nacks_without_delay_come_back_at_once_where_chosen),
        stream_test(extending_keeps_a_message_from_the_others),
        stream_test(an_interrupt_ends_a_receive),
        stream_test(an_interrupt_before_a_receive_ends_that),
        stream_test(the_descriptor_is_readable_while_something_is_ready),
        stream_test(closing_gives_back_what_was_not_settled),
        stream_test(metrics_tell_what_was_done),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
