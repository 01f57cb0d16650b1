/*
 * stream_help.h: streams in a test's words.
 */
#ifndef TESTS_STREAM_HELP_H
#define TESTS_STREAM_HELP_H

#include "support/server.h"

#include <stdlib.h>

enum { LONG_MS = 60000 };

#define stream_test(name)                                                      \
    cmocka_unit_test_setup_teardown(name, open_one, close_one)

static inline leat_stream *open_stream(leat_client *c,
                                       const leat_stream_opts *opts)
{
    leat_error e = { 0 };
    leat_stream *s = leat_stream_open(c, "s", opts, &e);
    if (!s)
        fail_msg("open: %s", e.msg);
    return s;
}

/* A source of its own handle. */
static inline leat_source *subscribe_on(leat_client *c,
                                        const leat_stream_opts *so,
                                        const leat_stream_source_opts *opts)
{
    leat_error e = { 0 };
    leat_stream *s = open_stream(c, so);
    leat_source *q = leat_stream_source(s, "g", opts, &e);
    leat_stream_close(s);
    if (!q)
        fail_msg("subscribe: %s: %s", leat_code_name(e.code), e.msg);
    return q;
}

static inline leat_source *subscribe(const leat_stream_source_opts *opts)
{
    return subscribe_on(client, NULL, opts);
}

/* n messages whose bodies are from, from + 1, ... */
static inline void publish(int from, int n)
{
    leat_error e = { 0 };
    leat_stream *s = open_stream(client, NULL);
    leat_sink *k = leat_stream_sink(s, NULL, &e);
    if (!k)
        fail_msg("sink: %s", e.msg);
    for (int i = from; i < from + n; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        must(leat_sink_publish(k, &(leat_msg){ .body = leat_str(text) }, 1,
                               NULL, NULL, err));
    }
    must(leat_sink_flush(k, LONG_MS, err));
    leat_sink_close(k);
    leat_stream_close(s);
}

/* The next delivery, through whatever failures pass. */
static inline leat_delivery *next_within(leat_source *q, int64_t ms)
{
    leat_error e = { 0 };
    leat_delivery *d = NULL;
    int64_t end = wait_now_ms() + ms;
    do {
        int n = leat_source_receive(q, &d, 1, 50, &e);
        if (n == 1)
            return d;
        if (n < 0 && !e.retriable)
            fail_msg("receive: %s: %s", leat_code_name(e.code), e.msg);
    } while (wait_now_ms() < end);
    return NULL;
}

static inline leat_delivery *next_of(leat_source *q)
{
    leat_delivery *d = next_within(q, LONG_MS);
    if (!d)
        fail_msg("nothing to receive");
    return d;
}

static inline int number_of(const leat_delivery *d)
{
    char text[16] = "";
    leat_bytes b = leat_delivery_msg(d)->body;
    assert_true(b.n > 0 && b.n < sizeof text);
    memcpy(text, b.p, b.n);
    return (int)strtol(text, NULL, 10);
}

static inline char *id_of(const leat_delivery *d, char text[48])
{
    leat_position p = leat_delivery_position(d);
    snprintf(text, 48, "%llu-%llu", (unsigned long long)p.ms,
             (unsigned long long)p.seq);
    return text;
}

static inline void ack(leat_delivery *d)
{
    assert_int_equal(leat_delivery_ack(d), LEAT_OK);
}

static inline void flush(leat_source *q)
{
    must(leat_source_flush(q, LONG_MS, err));
}

/* Entries pending in the group. */
static inline int64_t pending(void)
{
    redisReply *r = redis_raw(server, "XPENDING s g");
    int64_t n = r && r->elements > 0 ? r->element[0]->integer : -1;
    freeReplyObject(r);
    return n;
}

static inline leat_stream_stats stats_of(leat_source *q)
{
    leat_stream_stats st;
    leat_stream_stats_get(q, &st);
    return st;
}

/* Receive n messages, each number below max at most once, and acknowledge. */
static inline void receive_all(leat_source *q, int n, bool *seen, int max)
{
    for (int i = 0; i < n; i++) {
        leat_delivery *d = next_of(q);
        int number = number_of(d);
        assert_true(number >= 0 && number < max);
        assert_false(seen[number]);
        seen[number] = true;
        ack(d);
    }
}

#endif
