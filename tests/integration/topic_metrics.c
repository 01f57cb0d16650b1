/*
 * topic_metrics.c: what the metrics of a topic say after a run whose every step
 * is known, by their text, as a scraper reads it.
 */
#include "topic_help.h"

enum { MESSAGES = 10, DEAD = 3, POISON = 5, SLOW = 7 };

/* The wishes of a member that is quick to look. */
static leat_topic_source_opts quick(leat_metrics *m)
{
    return (leat_topic_source_opts){ .name = "alice",
                                     .order = LEAT_ORDER_NONE,
                                     .lease_ms = 1500,
                                     .block_ms = 200,
                                     .retry = { .max_attempts = 2,
                                                .backoff = LEAT_BACKOFF_FIXED,
                                                .delay_ms = 1 },
                                     .metrics = m };
}

static leat_topic *open_topic(leat_metrics *m, int partitions)
{
    leat_error e = { 0 };
    leat_topic *t = leat_topic_open(client, "orders",
                                    &(leat_topic_opts){
                                        .auto_create = true,
                                        .partitions = partitions,
                                        .metrics = m,
                                    },
                                    &e);
    if (!t)
        fail_msg("%s", e.msg);
    return t;
}

/* Message i in partition i % 2. */
static void publish_all(leat_topic *t)
{
    char body[16];
    for (int i = 0; i < MESSAGES; i++) {
        snprintf(body, sizeof body, "%d", i);
        leat_msg m = { .body = leat_str(body) };
        must(leat_topic_publish_to(t, (uint32_t)i % 2, &m, NULL, NULL, err));
    }
    must(leat_topic_flush(t, LONG_MS, err));
}

static leat_verdict handle(leat_ctx *x, void *arg)
{
    const leat_delivery *d = leat_ctx_delivery(x);
    (void)arg;
    switch (body_number(d)) {
    case DEAD:
        return leat_ctx_reject(x, "no such customer");
    case POISON:
        return leat_ctx_fail(x, "no answer");
    case SLOW:
        return leat_delivery_attempt(d) == 1 ? LEAT_NACK : LEAT_ACK;
    default:
        return LEAT_ACK;
    }
}

static bool has_line(leat_metrics *m, const char *line)
{
    char *text = leat_metrics_text(m, false, NULL);
    assert_non_null(text);
    const char *at = strstr(text, line);
    bool yes = at && (at == text || at[-1] == '\n') && at[strlen(line)] == '\n';
    leat_metrics_text_free(text);
    return yes;
}

static void expect(leat_metrics *m, const char *line)
{
    int64_t end = wait_now_ms() + LONG_MS;
    while (!has_line(m, line) && wait_now_ms() < end)
        wait_nap(5);
    if (!has_line(m, line)) {
        char *text = leat_metrics_text(m, false, NULL);
        fail_msg("no '%s' in\n%s", line, text);
    }
}

#define OF_TOPIC                                                               \
    "messaging_destination_name=\"orders\",messaging_system=\"leat\""
#define OF_GROUP "{messaging_consumer_group_name=\"g\"," OF_TOPIC "}"
#define BY(result)                                                             \
    "{messaging_consumer_group_name=\"g\"," OF_TOPIC ",result=\"" result "\"}"

static void expect_all(leat_metrics *m, const char *const *lines, size_t n)
{
    for (size_t i = 0; i < n; i++)
        expect(m, lines[i]);
}

static void everything_that_happened_is_counted_once(void **state)
{
    leat_error e = { 0 };
    leat_metrics *m = leat_metrics_new(NULL);
    leat_topic *t = open_topic(m, 2);
    leat_topic_source_opts o = quick(m);
    (void)state;
    publish_all(t);
    leat_run *r = leat_run_start(source_of(t, "g", &o), handle, NULL,
                                 &(leat_run_opts){ .metrics = m }, &e);
    assert_non_null(r);

    /* What is counted. */
    static const char *const counted[] = {
        "messaging_client_sent_messages_total{" OF_TOPIC ",result=\"ok\"} 10",
        "messaging_client_sent_messages_total{" OF_TOPIC
        ",result=\"failed\"} 0",
        "leat_topic_settled_messages_total" BY("ack") " 8",
        "leat_topic_settled_messages_total" BY("nack") " 3",
        "leat_topic_settled_messages_total" BY("reject") " 1",
        "leat_topic_retries_total" OF_GROUP " 2",
        "leat_topic_dead_letters_total" BY("rejected") " 1",
        "leat_topic_dead_letters_total" BY("failed") " 1",
        "leat_topic_dead_letters_total" BY("died") " 0",
        "leat_topic_consumed_messages_total" OF_GROUP " 12",
        "leat_topic_redelivered_messages_total" OF_GROUP " 2",
        "leat_topic_stale_settlements_total" OF_GROUP " 0",
        "leat_topic_undecodable_messages_total" OF_GROUP " 0",
        "leat_run_settled_messages_total" BY("ack") " 8",
        "leat_run_settled_messages_total" BY("nack") " 3",
        "leat_run_settled_messages_total" BY("reject") " 1",
        "messaging_process_duration_seconds_count" BY("ack") " 8",
        "messaging_process_duration_seconds_count" BY("nack") " 3",
        "leat_settle_duration_seconds_count" OF_GROUP " 12",
        "leat_end_to_end_seconds_count" OF_GROUP " 12",
    };
    expect_all(m, counted, sizeof counted / sizeof *counted);

    /* What is sampled. */
    static const char *const sampled[] = {
        "leat_topic_messages" OF_GROUP " 10",
        "leat_dlq_messages" OF_GROUP " 2",
        "leat_group_lag_messages" OF_GROUP " 0",
        "leat_group_oldest_seconds" OF_GROUP " 0",
        "leat_group_waiting_messages" OF_GROUP " 0",
        "leat_group_pending_messages" OF_GROUP " 0",
        "leat_group_in_flight_messages" OF_GROUP " 0",
        "leat_lease_owned" OF_GROUP " 2",
    };
    expect_all(m, sampled, sizeof sampled / sizeof *sampled);
    assert_false(has_line(m, "leat_topic_memory_bytes" OF_GROUP " 0"));
    assert_false(has_line(m, "leat_topic_memory_bytes" OF_GROUP " -1"));

    /* What is no longer ours to tell. */
    must(leat_run_stop(r, 0, err));
    expect(m, "leat_topic_messages" OF_GROUP " 0");
    expect(m, "leat_lease_owned" OF_GROUP " 0");
    expect(m, "leat_topic_memory_bytes" OF_GROUP " 0");
    expect(m, "leat_topic_consumed_messages_total" OF_GROUP " 12");
    leat_topic_close(t);
    leat_metrics_free(m);
}

static void what_waits_is_shown(void **state)
{
    leat_metrics *m = leat_metrics_new(NULL);
    leat_topic *t = open_topic(m, 1);
    leat_topic_source_opts o = quick(m);
    leat_delivery *d[3];
    (void)state;
    o.retry.delay_ms = 3600 * 1000;
    o.retry.max_delay_ms = o.retry.delay_ms;
    o.retry.jitter = LEAT_NO;
    add_many("orders", 0, 0, 3);
    leat_source *s = source_of(t, "g", &o);
    take_n(s, d, 3);
    assert_int_equal(leat_delivery_fail(d[0], "busy"), LEAT_OK);
    must(leat_source_flush(s, LONG_MS, err));

    static const char *const sampled[] = {
        "leat_group_waiting_messages" OF_GROUP " 1",
        "leat_group_pending_messages" OF_GROUP " 3",
        "leat_group_in_flight_messages" OF_GROUP " 2",
        "leat_group_lag_messages" OF_GROUP " 2",
        "leat_topic_retries_total" OF_GROUP " 1",
    };
    expect_all(m, sampled, sizeof sampled / sizeof *sampled);
    assert_int_equal(stats_of(s).retries, 1);
    ack(d[1]);
    ack(d[2]);
    expect(m, "leat_group_pending_messages" OF_GROUP " 1");
    expect(m, "leat_group_lag_messages" OF_GROUP " 0");
    leat_source_close(s);
    leat_topic_close(t);
    leat_metrics_free(m);
}

static void the_age_of_the_oldest_is_told_by_the_server_s_clock(void **state)
{
    leat_metrics *m = leat_metrics_new(NULL);
    leat_topic *t = open_topic(m, 2);
    leat_topic_source_opts o = quick(m);
    (void)state;
    /* As its id says, from 1970. */
    redis_do(server, "XADD leat:{orders/1}:log 1-1 a b");
    leat_source *s = source_of(t, "g", &o);
    leat_delivery *d = next_of(s);
    expect(m, "leat_topic_undecodable_messages_total" OF_GROUP " 1");
    wait_until(!has_line(m, "leat_group_oldest_seconds" OF_GROUP " 0") &&
                   !has_line(m, "leat_group_oldest_seconds" OF_GROUP " -1"),
               LONG_MS);
    ack(d);
    expect(m, "leat_group_oldest_seconds" OF_GROUP " 0");
    leat_source_close(s);
    leat_topic_close(t);
    leat_metrics_free(m);
}

#define OF_MEMBER(partition)                                                   \
    "{messaging_client_id=\"alice\",messaging_consumer_group_name=\"g\","      \
    "messaging_destination_name=\"orders\","                                   \
    "messaging_destination_partition_id=\"" partition                          \
    "\",messaging_system=\"leat\"}"

static void partition_and_member_are_labels_where_wished(void **state)
{
    leat_error e = { 0 };
    leat_metrics *m = leat_metrics_new(NULL);
    leat_topic *t = open_topic(m, 2);
    leat_topic_source_opts o = quick(m);
    (void)state;
    o.metric_labels = LEAT_LABEL_PARTITION | LEAT_LABEL_CONSUMER;
    add_many("orders", 0, 100, 4);
    add_many("orders", 1, 200, 2);
    redis_do(server, "XADD leat:{orders/1}:log * a b");
    leat_run *r = leat_run_start(source_of(t, "g", &o), handle, NULL, NULL, &e);
    assert_non_null(r);
    static const char *const lines[] = {
        "leat_topic_consumed_messages_total" OF_MEMBER("0") " 4",
        "leat_topic_consumed_messages_total" OF_MEMBER("1") " 3",
        "leat_topic_undecodable_messages_total" OF_MEMBER("0") " 0",
        "leat_topic_undecodable_messages_total" OF_MEMBER("1") " 1",
        "leat_topic_messages" OF_MEMBER("0") " 4",
        "leat_topic_messages" OF_MEMBER("1") " 3",
        "leat_dlq_messages" OF_MEMBER("0") " 0",
        "leat_dlq_messages" OF_MEMBER("1") " 1",
        "leat_lease_owned{messaging_client_id=\"alice\","
        "messaging_consumer_group_name=\"g\"," OF_TOPIC "} 2",
    };
    expect_all(m, lines, sizeof lines / sizeof *lines);
    must(leat_run_stop(r, 0, err));
    expect(m, "leat_topic_messages" OF_MEMBER("0") " 0");
    expect(m, "leat_topic_consumed_messages_total" OF_MEMBER("0") " 4");

    o.metric_labels = 4;
    assert_null(leat_topic_source(t, "g", &o, &e));
    assert_int_equal(e.code, LEAT_EINVAL);
    leat_topic_close(t);
    leat_metrics_free(m);
}

/* In every label, whatever a client, a topic and a member count. */
static void no_metric_tells_a_secret(void **state)
{
    static const char canary[] = "canary-7f3a91c2";
    char at[256], login[320];
    leat_error e = { 0 };
    (void)state;
    redis_url(server, at, sizeof at);
    const char *place = strstr(at, "://") + 3;
    snprintf(login, sizeof login, "%.*sapp:%s@%s", (int)(place - at), at,
             canary, place);
    redis_do(server, "ACL SETUSER app on >%s ~* &* +@all", canary);
    leat_metrics *m = leat_metrics_new(&e);
    leat_client *c = open_client(login, &(leat_client_opts){ .metrics = m });
    leat_topic *t = leat_topic_open(
        c, "orders", &(leat_topic_opts){ .auto_create = true, .metrics = m },
        &e);
    leat_source *s = source_of(
        t, "g",
        &(leat_topic_source_opts){ .metrics = m,
                                   .metric_labels = LEAT_LABEL_PARTITION |
                                                    LEAT_LABEL_CONSUMER });
    add_many("orders", 0, 0, 1);
    ack(next_of(s));
    for (int openmetrics = 0; openmetrics < 2; openmetrics++) {
        char *text = leat_metrics_text(m, openmetrics, &e);
        assert_non_null(text);
        assert_non_null(strstr(text, "leat_redis"));
        assert_null(strstr(text, canary));
        leat_metrics_text_free(text);
    }
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(c);
    leat_metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(everything_that_happened_is_counted_once),
        topic_test(what_waits_is_shown),
        topic_test(the_age_of_the_oldest_is_told_by_the_server_s_clock),
        topic_test(partition_and_member_are_labels_where_wished),
        topic_test(no_metric_tells_a_secret),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
