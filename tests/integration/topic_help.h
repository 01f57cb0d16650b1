/*
 * topic_help.h: topics in a test's words.  Entries are written from the side,
 * so that what reads is tested without what publishes.
 */
#ifndef TOPIC_HELP_H
#define TOPIC_HELP_H

#include "support/server.h"

enum { LONG_MS = 60000 };

/* A test with a client of its own and an empty server. */
#define topic_test(name)                                                       \
    cmocka_unit_test_setup_teardown(name, open_one, close_one)

static inline leat_topic *topic_of(leat_client *c, const char *name,
                                   int partitions)
{
    leat_error e = { 0 };
    leat_topic *t = leat_topic_open(
        c, name,
        &(leat_topic_opts){ .auto_create = true, .partitions = partitions },
        &e);
    if (!t)
        fail_msg("cannot open topic '%s': %s", name, e.msg);
    return t;
}

static inline leat_source *source_of(leat_topic *t, const char *group,
                                     const leat_topic_source_opts *o)
{
    leat_error e = { 0 };
    leat_source *s = leat_topic_source(t, group, o, &e);
    if (!s)
        fail_msg("cannot join group '%s': %s", group, e.msg);
    return s;
}

/* Append one message to a partition, and say its position. */
static inline void add_keyed(const char *topic, int partition, const char *key,
                             const char *body)
{
    leat_error e = { 0 };
    leat_fields *f = leat_fields_new(&e);
    leat_msg m = { .id = leat_str(body),
                   .key = leat_str(key),
                   .time_ms = 1,
                   .body = leat_str(body) };
    leat_bytes argv[16] = { leat_str("XADD") };
    char log[128];
    snprintf(log, sizeof log, "leat:{%s/%d}:log", topic, partition);
    argv[1] = leat_str(log);
    argv[2] = leat_str("*");
    must(leat_codec_native.encode(&leat_codec_native, &m, 1, f, err));
    size_t n = 2 * leat_fields_count(f);
    memcpy(argv + 3, leat_fields_pairs(f), n * sizeof *argv);
    must(leat_client_call(client, argv, 3 + n, NULL, NULL, err));
    leat_fields_free(f);
}

static inline void add(const char *topic, int partition, const char *body)
{
    add_keyed(topic, partition, "", body);
}

/* n messages "0", "1", ... */
static inline void add_many(const char *topic, int partition, int from, int n)
{
    char body[16];
    for (int i = from; i < from + n; i++) {
        snprintf(body, sizeof body, "%d", i);
        add(topic, partition, body);
    }
}

/* One delivery; the test fails if none comes. */
static inline leat_delivery *next_of(leat_source *s)
{
    leat_delivery *d = NULL;
    leat_error e = { 0 };
    int64_t end = wait_now_ms() + LONG_MS;
    bool late = false; /* once more after the end: we may not have run */
    while (!late) {
        late = wait_now_ms() >= end;
        int n = leat_source_receive(s, &d, 1, 1000, &e);
        if (n == 1)
            return d;
        if (n < 0 && !e.retriable)
            break;
    }
    fail_msg("nothing came: %s", e.msg);
    return NULL;
}

/* Exactly n deliveries. */
static inline void take_n(leat_source *s, leat_delivery **out, int n)
{
    leat_error e = { 0 };
    int64_t end = wait_now_ms() + LONG_MS;
    for (int have = 0; have < n;) {
        int got = leat_source_receive(s, out + have, n - have, 500, &e);
        if (got > 0)
            have += got;
        else if (wait_now_ms() > end)
            fail_msg("only %d of %d came: %s", have, n, e.msg);
    }
}

/* Nothing comes; looks for as long as it takes to be sure enough. */
static inline void nothing_of(leat_source *s, int64_t ms)
{
    leat_delivery *d;
    leat_error e = { 0 };
    int n = leat_source_receive(s, &d, 1, ms, &e);
    if (n != 0)
        fail_msg("got %d", n);
}

#define assert_body(d, text)                                                   \
    do {                                                                       \
        leat_bytes body_ = leat_delivery_msg(d)->body;                         \
        assert_int_equal(body_.n, strlen(text));                               \
        assert_memory_equal(body_.p, text, body_.n);                           \
    } while (0)

static inline void ack(leat_delivery *d)
{
    assert_int_equal(leat_delivery_ack(d), LEAT_OK);
}

static inline leat_topic_source_stats stats_of(leat_source *s)
{
    leat_topic_source_stats st;
    leat_topic_source_stats_get(s, &st);
    return st;
}

#endif
