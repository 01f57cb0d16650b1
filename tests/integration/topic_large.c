/*
 * topic_large.c: bodies that are kept beside the log: as they were sent, in
 * order, a few at a time, and gone without harm.
 */
#include "support/tcpfault.h"
#include "topic_help.h"

#include <leat/describe.h>
#include <leat/run.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 64 * 1024, MIB = 1 << 20 };

static leat_topic *open_with(leat_client *c, const leat_topic_opts *opts)
{
    leat_topic_opts o = *opts;
    leat_error e = { 0 };
    o.auto_create = true;
    leat_topic *t = leat_topic_open(c, "t", &o, &e);
    if (!t)
        fail_msg("cannot open: %s", e.msg);
    return t;
}

/* Bodies of over 100 bytes are large ones. */
static leat_topic *open_small(leat_client *c)
{
    return open_with(c,
                     &(leat_topic_opts){ .retention = { .large_body = 100 } });
}

/* The i-th body: its number, then as many bytes of it as n says. */
static char *body_of(int i, size_t n)
{
    char *p = malloc(n + 16);
    assert_non_null(p);
    for (size_t at = 0; at < n && at < 26; at++)
        p[at] = (char)('a' + (at + (size_t)i) % 26);
    for (size_t at = 26; at < n; at *= 2)
        memcpy(p + at, p, at < n - at ? at : n - at);
    if (n >= 8)
        p[snprintf(p, 16, "%07d", i)] = ' ';
    return p;
}

static void publish(leat_topic *t, int i, size_t n)
{
    char *body = body_of(i, n);
    must(leat_topic_publish(
        t, &(leat_msg){ .key = leat_str("k"), .body = leat_mem(body, n) }, NULL,
        NULL, err));
    free(body);
}

static void flush(leat_topic *t)
{
    must(leat_topic_flush(t, LONG_MS, err));
}

static void assert_is(const leat_msg *m, int i, size_t n)
{
    char *body = body_of(i, n);
    assert_int_equal(m->body.n, n);
    if (n > 0)
        assert_memory_equal(m->body.p, body, n);
    free(body);
}

static int64_t bodies(void)
{
    return redis_int(server, "HLEN leat:{t/0}:bodies");
}

/* ---- sizes ------------------------------------------------------------ */

/* Bytes of a message that are not its body. */
static size_t around(leat_msg *m)
{
    leat_fields *f = leat_fields_new(NULL);
    size_t sum = 0;
    must(leat_codec_native.encode(&leat_codec_native, m, 1, f, err));
    for (size_t i = 0; i < 2 * leat_fields_count(f); i++)
        sum += leat_fields_pairs(f)[i].n;
    leat_fields_free(f);
    return sum - m->body.n;
}

static void every_size_up_to_the_limit_arrives_and_none_above(void **state)
{
    enum { MOST = 200000 };
    leat_msg m = { .id = leat_str("i"), .time_ms = 1, .body = leat_str("x") };
    const size_t limit = MOST - around(&m);
    const size_t sizes[] = { 0, 1, LIMIT, LIMIT + 1, limit, limit + 1 };
    (void)state;
    leat_topic *t = open_with(client,
                              &(leat_topic_opts){ .max_message = MOST });
    for (int i = 0; i < 6; i++) {
        char *body = body_of(i, sizes[i]);
        m.body = leat_mem(body, sizes[i]);
        assert_code(leat_topic_publish(t, &m, NULL, NULL, NULL),
                    i < 5 ? LEAT_OK : LEAT_ETOOBIG);
        free(body);
    }
    flush(t);
    assert_int_equal(bodies(), 2);
    leat_source *s = source_of(t, "g", NULL);
    for (int i = 0; i < 5; i++) {
        leat_delivery *d = next_of(s);
        assert_null(leat_delivery_error(d));
        assert_is(leat_delivery_msg(d), i, sizes[i]);
        ack(d);
    }
    nothing_of(s, 20);
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_large_body_is_beside_the_log_and_the_entry_names_it(void **state)
{
    (void)state;
    leat_topic *t = open_small(client);
    publish(t, 0, 101);
    flush(t);
    redisReply *r = redis_raw(server, "XRANGE leat:{t/0}:log - +");
    const redisReply *entry = r->element[0], *f = entry->element[1];
    const char *id = entry->element[0]->str;
    assert_int_equal(f->elements, 6);
    assert_string_equal(f->element[4]->str, "@large");
    assert_string_equal(f->element[5]->str, "b");
    assert_int_equal(redis_int(server, "HSTRLEN leat:{t/0}:bodies %s", id),
                     101);
    assert_int_equal(redis_int(server, "ZSCORE leat:{t/0}:large %s", id),
                     strtoll(id, NULL, 10));
    freeReplyObject(r);
    leat_topic_close(t);
}

static void nothing_goes_beside_the_log_where_that_is_not_wished(void **state)
{
    (void)state;
    leat_topic *t = open_with(
        client, &(leat_topic_opts){ .retention = { .large_body = -1 } });
    publish(t, 0, 2 * LIMIT);
    flush(t);
    leat_topic_close(t);
    redis_do(server, "XADD bare * a b");
    t = leat_topic_open(client, "bare", NULL, NULL);
    assert_true(leat_topic_legacy(t));
    publish(t, 0, 2 * LIMIT);
    flush(t);
    assert_int_equal(redis_int(server, "EXISTS leat:{t/0}:bodies "
                                       "leat:{bare}:bodies"),
                     0);
    leat_topic_close(t);
}

static void other_codecs_are_read_as_they_were_sent(void **state)
{
    const leat_codec *codecs[] = { &leat_codec_ce_binary, &leat_codec_ce_json };
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_true(redis_flush(server));
        leat_topic *t = open_with(client,
                                  &(leat_topic_opts){ .codec = codecs[i] });
        leat_header h = { leat_str("big"), leat_str("v") };
        char *body = body_of(i, 3 * LIMIT);
        leat_msg m = { .key = leat_str("key"),
                       .headers = &h,
                       .header_count = 1,
                       .body = leat_mem(body, 3 * LIMIT) };
        must(leat_topic_publish(t, &m, NULL, NULL, err));
        flush(t);
        assert_int_equal(bodies(), 1);
        leat_source *s = source_of(t, "g", NULL);
        leat_delivery *d = next_of(s);
        assert_is(leat_delivery_msg(d), i, 3 * LIMIT);
        assert_true(leat_bytes_eq(leat_delivery_msg(d)->key, m.key));
        assert_true(leat_bytes_eq(leat_msg_header(leat_delivery_msg(d), "big"),
                                  h.value));
        ack(d);
        leat_source_close(s);
        leat_topic_close(t);
        free(body);
    }
}

/* ---- reading ---------------------------------------------------------- */

/* Every third is a large one. */
static size_t size_of(int i)
{
    return i % 3 ? 20 : 150;
}

static void read_all(leat_topic *t, const char *group, leat_order order, int n)
{
    leat_delivery *d[16];
    leat_error e;
    leat_source *s = source_of(
        t, group, &(leat_topic_source_opts){ .order = order, .batch = 7 });
    int64_t end = wait_now_ms() + LONG_MS;
    for (int at = 0; at < n;) {
        int got = leat_source_receive(s, d, 16, 500, &e);
        assert_true(got >= 0 && wait_now_ms() < end);
        for (int i = 0; i < got; i++, at++) {
            assert_null(leat_delivery_error(d[i]));
            assert_int_equal(leat_delivery_attempt(d[i]), 1);
            assert_is(leat_delivery_msg(d[i]), at, size_of(at));
            ack(d[i]);
        }
    }
    nothing_of(s, 20);
    must(leat_source_flush(s, LONG_MS, err));
    leat_source_close(s);
}

static void large_and_small_come_in_the_order_of_the_log(void **state)
{
    enum { N = 400 };
    (void)state;
    leat_topic *t = open_small(client);
    for (int i = 0; i < N; i++)
        publish(t, i, size_of(i));
    flush(t);
    read_all(t, "a", LEAT_ORDER_PARTITION, N);
    read_all(t, "b", LEAT_ORDER_KEY, N);
    read_all(t, "c", LEAT_ORDER_NONE, N);
    leat_topic_close(t);
}

static void a_large_one_that_comes_while_a_read_waits_is_read(void **state)
{
    (void)state;
    leat_topic *t = open_small(client);
    leat_source *s = source_of(t, "g", NULL);
    nothing_of(s, 20);
    for (int i = 0; i < 20; i++) {
        publish(t, i, size_of(i));
        flush(t);
        leat_delivery *d = next_of(s);
        assert_is(leat_delivery_msg(d), i, size_of(i));
        ack(d);
    }
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_body_that_is_gone_is_an_error_and_the_rest_goes_on(void **state)
{
    (void)state;
    leat_topic *t = open_small(client);
    for (int i = 0; i < 9; i++)
        publish(t, i, size_of(i));
    flush(t);
    redisReply *r = redis_raw(server, "XRANGE leat:{t/0}:log - +");
    redis_do(server, "HDEL leat:{t/0}:bodies %s",
             r->element[3]->element[0]->str);
    freeReplyObject(r);
    leat_source *s = source_of(t, "g", NULL);
    for (int i = 0; i < 9; i++) {
        leat_delivery *d = next_of(s);
        const leat_error *why = leat_delivery_error(d);
        if (i != 3) {
            assert_null(why);
            assert_is(leat_delivery_msg(d), i, size_of(i));
            ack(d);
            continue;
        }
        assert_non_null(why);
        assert_string_equal(why->msg, "its large body is gone");
        assert_code(leat_delivery_reject(d, why->msg), LEAT_OK);
    }
    must(leat_source_flush(s, LONG_MS, err));
    leat_source_close(s);
    leat_topic_close(t);
}

/* Whatever the codec, one without its body is no message. */
static void a_body_that_is_gone_stays_so_when_it_is_tried_again(void **state)
{
    (void)state;
    leat_topic *t = open_with(
        client, &(leat_topic_opts){ .retention = { .large_body = 100 },
                                    .codec = &leat_codec_ce_binary });
    publish(t, 0, 5000);
    flush(t);
    redis_do(server, "DEL leat:{t/0}:bodies");
    leat_source *s = source_of(t, "g", NULL);
    for (uint32_t i = 1; i <= 2; i++) {
        leat_delivery *d = next_of(s);
        assert_int_equal(leat_delivery_attempt(d), i);
        assert_non_null(leat_delivery_error(d));
        assert_string_equal(leat_delivery_error(d)->msg,
                            "its large body is gone");
        assert_code(leat_delivery_nack(d, 0), LEAT_OK);
    }
    must(leat_source_flush(s, LONG_MS, err));
    leat_source_close(s);
    leat_topic_close(t);
}

static void who_browses_sees_large_bodies(void **state)
{
    leat_seen seen;
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = open_small(client);
    for (int i = 0; i < 30; i++)
        publish(t, i, size_of(i));
    flush(t);
    redisReply *r = redis_raw(server, "XRANGE leat:{t/0}:log - +");
    redis_do(server, "HDEL leat:{t/0}:bodies %s",
             r->element[6]->element[0]->str);
    freeReplyObject(r);
    leat_browse *b = leat_browse_open(client, "t", NULL, &e);
    assert_non_null(b);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(leat_browse_next(b, &seen, 0, &e), 1);
        if (i == 6) {
            assert_non_null(seen.error);
            assert_string_equal(seen.error->msg, "its large body is gone");
            continue;
        }
        assert_null(seen.error);
        assert_is(seen.msg, i, size_of(i));
    }
    assert_int_equal(leat_browse_next(b, &seen, 0, &e), 0);
    leat_browse_close(b);
    leat_topic_close(t);
}

/* ---- faults ----------------------------------------------------------- */

/* The answer with the bodies is cut at many places, each time in the middle of
 * the work. */
static void bodies_that_are_cut_off_are_fetched_again(void **state)
{
    enum { N = 60 };
    char through[64];
    (void)state;
    tcpfault *proxy = tcpfault_start(redis_socket(server), NULL);
    snprintf(through, sizeof through, "redis://127.0.0.1:%d",
             tcpfault_port(proxy));
    leat_client *c = open_client(through,
                                 &(leat_client_opts){ .max_retry_ms = 5 });
    leat_topic *t = open_small(c);
    for (int i = 0; i < N; i++)
        publish(t, i, 3000);
    flush(t);
    leat_source *s = source_of(t, "g", NULL);
    for (int i = 0; i < N; i++) {
        int rule = tcpfault_rule_add(proxy,
                                     &(tcpfault_rule){ .dir = TCPFAULT_UP,
                                                       .when = TCPFAULT_COMMAND,
                                                       .command = "HMGET",
                                                       .plus = (uint64_t)i,
                                                       .after = i % 2,
                                                       .action = TCPFAULT_RESET,
                                                       .times = 1 });
        assert_true(rule > 0);
        leat_delivery *d = next_of(s);
        assert_is(leat_delivery_msg(d), i, 3000);
        ack(d);
        tcpfault_clear(proxy);
    }
    nothing_of(s, 20);
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(c);
    tcpfault_stop(proxy);
}

/* ---- memory ----------------------------------------------------------- */

static int64_t resident_kib(void)
{
    char line[128];
    long long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    while (kib < 0 && fgets(line, sizeof line, f))
        (void)sscanf(line, "VmRSS: %lld", &kib);
    fclose(f);
    return kib;
}

enum { MANY = 200 };

/* 200 messages of nearly a MiB, and nothing of them left in this process. */
static leat_topic *with_many(void)
{
    leat_topic *t = open_with(
        client, &(leat_topic_opts){ .max_queued_bytes = 4 * MIB });
    for (int i = 0; i < MANY; i++)
        publish(t, i, MIB - 1000);
    flush(t);
    leat_topic_close(t);
    t = open_with(client, &(leat_topic_opts){ 0 });
    malloc_trim(0);
    return t;
}

static void who_takes_one_at_a_time_has_few_in_memory(void **state)
{
    int64_t most = 0;
    (void)state;
    leat_topic *t = with_many();
    int64_t before = resident_kib();
    leat_source *s = source_of(t, "g", NULL);
    for (int i = 0; i < MANY; i++) {
        leat_delivery *d = next_of(s);
        int64_t now = resident_kib() - before;
        most = now > most ? now : most;
        assert_is(leat_delivery_msg(d), i, MIB - 1000);
        ack(d);
    }
    print_message("# %lld KiB more at most\n", (long long)most);
    assert_true(most < 40 * 1024);
    leat_source_close(s);
    leat_topic_close(t);
}

struct gate {
    atomic_bool open;
    atomic_int handled, begun;
};

static leat_verdict slow(leat_ctx *x, void *arg)
{
    struct gate *g = arg;
    atomic_fetch_add(&g->begun, 1);
    while (!atomic_load(&g->open) && !leat_ctx_cancelled(x))
        wait_nap(1);
    atomic_fetch_add(&g->handled, 1);
    return LEAT_ACK;
}

/* The runner would take 256: it gets about 64 MiB, and then more slowly. */
static void a_slow_handler_does_not_fill_the_memory(void **state)
{
    struct gate g = { 0 };
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = with_many();
    int64_t before = resident_kib();
    leat_source *s = source_of(t, "g", NULL);
    leat_run *r = leat_run_start(s, slow, &g, NULL, &e);
    assert_non_null(r);
    wait_until(stats_of(s).received >= 60, LONG_MS);
    int64_t grown = resident_kib() - before;
    print_message("# %lld KiB more with %llu received\n", (long long)grown,
                  (unsigned long long)stats_of(s).received);
    if (!SANITIZED) /* whose own shadow of the memory counts too */
        assert_true(grown < 110 * 1024);
    assert_true(stats_of(s).received < MANY / 2);
    atomic_store(&g.open, true);
    wait_until(atomic_load(&g.handled) == MANY, LONG_MS);
    must(leat_run_stop(r, 0, err));
    leat_topic_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(every_size_up_to_the_limit_arrives_and_none_above),
        topic_test(a_large_body_is_beside_the_log_and_the_entry_names_it),
        topic_test(nothing_goes_beside_the_log_where_that_is_not_wished),
        topic_test(other_codecs_are_read_as_they_were_sent),
        topic_test(large_and_small_come_in_the_order_of_the_log),
        topic_test(a_large_one_that_comes_while_a_read_waits_is_read),
        topic_test(a_body_that_is_gone_is_an_error_and_the_rest_goes_on),
        topic_test(a_body_that_is_gone_stays_so_when_it_is_tried_again),
        topic_test(who_browses_sees_large_bodies),
        topic_test(bodies_that_are_cut_off_are_fetched_again),
        topic_test(who_takes_one_at_a_time_has_few_in_memory),
        topic_test(a_slow_handler_does_not_fill_the_memory),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
