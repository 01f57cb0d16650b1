/*
 * topic_again.c: messages that fail and are published again, for their group
 * alone, instead of being kept.
 */
#include "support/tcpfault.h"
#include "topic_help.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static leat_topic_source_opts opts(int attempts)
{
    return (leat_topic_source_opts){
        .retry = { .max_attempts = attempts,
                   .backoff = LEAT_BACKOFF_FIXED,
                   .delay_ms = 30,
                   .jitter = LEAT_NO,
                   .re_add = LEAT_YES },
    };
}

static void publish(leat_topic *t, const char *body)
{
    leat_header h = { leat_str("colour"), leat_str("red") };
    must(leat_topic_publish(t,
                            &(leat_msg){ .id = leat_str("the-first"),
                                         .key = leat_str("k"),
                                         .headers = &h,
                                         .header_count = 1,
                                         .body = leat_str(body) },
                            NULL, NULL, err));
    must(leat_topic_flush(t, LONG_MS, err));
}

static bool header_is(const leat_delivery *d, const char *name,
                      const char *value)
{
    return leat_bytes_eq(leat_msg_header(leat_delivery_msg(d), name),
                         leat_str(value));
}

static int64_t length(const char *what)
{
    return redis_int(server, "%s leat:{t/0}:%s",
                     strcmp(what, "later") == 0 ? "ZCARD" : "XLEN", what);
}

static void fail_it(leat_delivery *d, const char *why)
{
    assert_code(leat_delivery_fail(d, why), LEAT_OK);
}

static void a_failed_message_comes_again_as_a_new_one(void **state)
{
    leat_topic_source_opts o = opts(5);
    char count[16];
    (void)state;
    leat_topic *t = topic_of(client, "t", 1);
    leat_source *s = source_of(t, "g", &o);
    publish(t, "x");
    leat_delivery *d = next_of(s);
    leat_position first = leat_delivery_position(d);
    fail_it(d, "no");
    for (int i = 1; i < 4; i++) {
        d = next_of(s);
        snprintf(count, sizeof count, "%d", i);
        assert_body(d, "x");
        assert_int_equal(leat_delivery_attempt(d), i + 1);
        assert_true(leat_delivery_redelivered(d));
        assert_true(header_is(d, "retryCount", count));
        assert_true(header_is(d, "originalMessageId", "the-first"));
        assert_true(header_is(d, "retryGroup", "g"));
        assert_true(header_is(d, "colour", "red"));
        assert_int_equal(leat_delivery_msg(d)->header_count, 4);
        assert_true(leat_delivery_position(d).ms > first.ms);
        assert_false(
            leat_bytes_eq(leat_delivery_msg(d)->id, leat_str("the-first")));
        if (i < 3)
            fail_it(d, "no");
        else
            ack(d);
    }
    nothing_of(s, 100);
    must(leat_source_flush(s, LONG_MS, err));
    assert_int_equal(length("log"), 4);
    assert_int_equal(length("dlq"), 0);
    assert_int_equal(stats_of(s).retries, 3);
    leat_source_close(s);
    leat_topic_close(t);
}

static void it_is_a_dead_letter_after_so_many_attempts_in_all(void **state)
{
    leat_topic_source_opts o = opts(3);
    (void)state;
    leat_topic *t = topic_of(client, "t", 1);
    leat_source *s = source_of(t, "g", &o);
    publish(t, "x");
    for (int i = 0; i < 3; i++)
        fail_it(next_of(s), "bad");
    must(leat_source_flush(s, LONG_MS, err));
    wait_until(length("dlq") == 1, LONG_MS);
    nothing_of(s, 60);
    redisReply *r = redis_raw(server, "XRANGE leat:{t/0}:dlq - +");
    const redisReply *f = r->element[0]->element[1];
    assert_string_equal(f->element[4]->str, "n");
    assert_string_equal(f->element[5]->str, "3");
    assert_string_equal(f->element[6]->str, "f");
    assert_string_equal(f->element[7]->str, "3");
    for (size_t i = 0; i < f->elements; i++)
        assert_string_not_equal(f->element[i]->str, "@again");
    freeReplyObject(r);
    assert_int_equal(length("later"), 0);
    leat_source_close(s);
    leat_topic_close(t);
}

/* Headers are anybody's to write. */
static void what_a_producer_writes_is_for_every_group(void **state)
{
    const leat_header forged[] = {
        { leat_str("retryGroup"), leat_str("elsewhere") },
        { leat_str("retryGroup"), leat_str("g") },
        { leat_str("@again"), leat_str("elsewhere") },
        { leat_str("retryCount"), leat_str("7") },
    };
    const leat_codec *const codecs[] = { &leat_codec_native,
                                         &leat_codec_ce_binary,
                                         &leat_codec_ce_json };
    (void)state;
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        redis_flush(server);
        leat_topic *t = leat_topic_open(
            client, "t",
            &(leat_topic_opts){
                .auto_create = true, .partitions = 1, .codec = codecs[i] },
            NULL);
        assert_non_null(t);
        leat_source *s = source_of(t, "g", NULL),
                    *other = source_of(t, "h", NULL);
        for (size_t n = 0; n + 1 < sizeof forged / sizeof *forged; n++) {
            const leat_header both[] = { forged[n], forged[3] };
            must(leat_topic_publish(t,
                                    &(leat_msg){ .id = leat_str("x"),
                                                 .headers = both,
                                                 .header_count = 2,
                                                 .body = leat_str("x") },
                                    NULL, NULL, err));
            must(leat_topic_flush(t, LONG_MS, err));
            leat_delivery *d = next_of(s), *e = next_of(other);
            assert_int_equal(leat_delivery_attempt(d), 1);
            assert_int_equal(leat_delivery_attempt(e), 1);
            assert_int_equal(leat_delivery_msg(e)->header_count, 2);
            ack(d);
            ack(e);
        }
        leat_source_close(other);
        leat_source_close(s);
        leat_topic_close(t);
    }
}

/* The cursor of the other group goes over what is not for it. */
static void other_groups_never_see_it(void **state)
{
    leat_topic_source_opts o = opts(5);
    char cursor[64], last[64];
    (void)state;
    leat_topic *t = topic_of(client, "t", 1);
    leat_source *s = source_of(t, "g", &o), *other = source_of(t, "h", NULL);
    for (int i = 0; i < 5; i++)
        publish(t, "x");
    for (int i = 0; i < 5; i++) {
        ack(next_of(other));
        fail_it(next_of(s), "no");
    }
    for (int i = 0; i < 5; i++) {
        leat_delivery *d = next_of(s);
        assert_int_equal(leat_delivery_attempt(d), 2);
        ack(d);
    }
    nothing_of(other, 50);
    redisReply *r = redis_raw(server, "XREVRANGE leat:{t/0}:log + - COUNT 1");
    snprintf(last, sizeof last, "%s", r->element[0]->element[0]->str);
    freeReplyObject(r);
    wait_until(strcmp(redis_text(server, cursor, sizeof cursor,
                                 "HGET leat:{t/0}:cur:h c"),
                      last) == 0,
               LONG_MS);
    assert_int_equal(stats_of(other).received, 5);
    leat_source_close(other);
    leat_source *late = source_of(t, "late", NULL);
    for (int i = 0; i < 5; i++)
        ack(next_of(late));
    nothing_of(late, 20);
    leat_source_close(late);
    leat_source_close(s);
    leat_topic_close(t);
}

/* A large body goes with it, and what stands behind flows meanwhile. */
static void order_is_not_kept_and_large_bodies_are(void **state)
{
    enum { SIZE = 200000 };
    static char body[SIZE];
    leat_topic_source_opts o = opts(5);
    (void)state;
    memset(body, 'y', SIZE);
    leat_topic *t = topic_of(client, "t", 1);
    leat_source *s = source_of(t, "g", &o);
    must(leat_topic_publish(t, &(leat_msg){ .body = leat_mem(body, SIZE) },
                            NULL, NULL, err));
    publish(t, "behind");
    fail_it(next_of(s), "no");
    leat_delivery *d = next_of(s);
    assert_body(d, "behind");
    ack(d);
    d = next_of(s);
    assert_int_equal(leat_delivery_msg(d)->body.n, SIZE);
    assert_memory_equal(leat_delivery_msg(d)->body.p, body, SIZE);
    assert_int_equal(redis_int(server, "HLEN leat:{t/0}:bodies"), 2);
    ack(d);
    leat_source_close(s);
    leat_topic_close(t);
}

static void what_is_no_message_is_kept_as_it_is(void **state)
{
    leat_topic_source_opts o = opts(2);
    (void)state;
    leat_topic *t = topic_of(client, "t", 1);
    leat_source *s = source_of(t, "g", &o);
    redis_do(server, "XADD leat:{t/0}:log * not ours");
    leat_delivery *d = next_of(s);
    assert_non_null(leat_delivery_error(d));
    leat_position at = leat_delivery_position(d);
    fail_it(d, "what is this");
    d = next_of(s);
    assert_int_equal(leat_delivery_position(d).ms, at.ms);
    fail_it(d, "what is this");
    wait_until(length("dlq") == 1, LONG_MS);
    assert_int_equal(length("log"), 1);
    leat_source_close(s);
    leat_topic_close(t);
}

/* Each message has one successor, whatever becomes of the answers. */
static void a_cut_connection_makes_no_second_one(void **state)
{
    enum { N = 60 };
    leat_topic_source_opts o = opts(2);
    char through[64];
    (void)state;
    tcpfault *proxy = tcpfault_start(redis_socket(server), NULL);
    snprintf(through, sizeof through, "redis://127.0.0.1:%d",
             tcpfault_port(proxy));
    leat_client *c = open_client(through,
                                 &(leat_client_opts){ .max_retry_ms = 5 });
    leat_topic *t = topic_of(c, "t", 1);
    leat_source *s = source_of(t, "g", &o);
    for (int i = 0; i < N; i++) {
        add("t", 0, "x");
        leat_delivery *d = next_of(s);
        while (leat_delivery_attempt(d) == 2) { /* one of before */
            ack(d);
            d = next_of(s);
        }
        if (i % 2)
            assert_true(tcpfault_rule_add(
                            proxy, &(tcpfault_rule){ .dir = TCPFAULT_UP,
                                                     .when = TCPFAULT_COMMAND,
                                                     .command = "EVALSHA",
                                                     .plus = (uint64_t)i * 10,
                                                     .after = i % 4 == 1,
                                                     .action = TCPFAULT_RESET,
                                                     .times = 1 }) > 0);
        fail_it(d, "no");
        must(leat_source_flush(s, LONG_MS, err));
        tcpfault_clear(proxy);
    }
    wait_until(length("later") == 0, LONG_MS);
    assert_int_equal(redis_int(server, "EXISTS leat:{t/0}:since"), 0);
    assert_int_equal(length("log"), 2 * N);
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(c);
    tcpfault_stop(proxy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(a_failed_message_comes_again_as_a_new_one),
        topic_test(it_is_a_dead_letter_after_so_many_attempts_in_all),
        topic_test(other_groups_never_see_it),
        topic_test(what_a_producer_writes_is_for_every_group),
        topic_test(order_is_not_kept_and_large_bodies_are),
        topic_test(what_is_no_message_is_kept_as_it_is),
        topic_test(a_cut_connection_makes_no_second_one),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
