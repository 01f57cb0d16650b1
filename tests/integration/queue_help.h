/*
 * queue_help.h: queues in a test's words.
 */
#ifndef QUEUE_HELP_H
#define QUEUE_HELP_H

#define CLIENT_TIMEOUT_MS 20000 /* a script may take long on a busy machine */
#include "support/server.h"

enum { LONG_MS = 60000 };

/* A test with a client of its own and an empty server. */
#define queue_test(name)                                                       \
    cmocka_unit_test_setup_teardown(name, open_one, close_one)

static inline leat_queue *queue_of(const char *name, const leat_queue_opts *o)
{
    leat_error e = { 0 };
    leat_queue *q = leat_queue_open(client, name, o, &e);
    if (!q)
        fail_msg("cannot open queue '%s': %s", name, e.msg);
    return q;
}

static inline void send_text(leat_queue *q, const char *text)
{
    must(leat_queue_send(q, &(leat_msg){ .body = leat_str(text) }, NULL, NULL,
                         err));
}

static inline void send_group(leat_queue *q, const char *group,
                              const char *text)
{
    leat_queue_send_opts o = { .group = leat_str(group) };
    must(leat_queue_send(q, &(leat_msg){ .body = leat_str(text) }, &o, NULL,
                         err));
}

/* n messages "from", ... */
static inline void send_many(leat_queue *q, int from, int n)
{
    char text[16];
    for (int i = from; i < from + n; i++) {
        snprintf(text, sizeof text, "%d", i);
        send_text(q, text);
    }
}

static inline leat_queue_batch *take(leat_queue *q, const leat_receive_opts *o)
{
    leat_error e = { 0 };
    leat_queue_batch *b = leat_queue_receive(q, o, &e);
    if (!b)
        fail_msg("cannot receive: %s: %s", leat_code_name(e.code), e.msg);
    return b;
}

/* One message, waiting long enough; the test fails if none comes. */
static inline leat_queue_batch *take_one(leat_queue *q)
{
    leat_queue_batch *b = take(
        q, &(leat_receive_opts){ .max = 1, .wait_ms = LONG_MS });
    if (leat_queue_batch_count(b) != 1)
        fail_msg("nothing came");
    return b;
}

static inline leat_queue_batch *take_dead(leat_queue *q)
{
    leat_queue_batch *b = take(
        q, &(leat_receive_opts){ .max = 1, .wait_ms = LONG_MS, .dead = true });
    if (leat_queue_batch_count(b) != 1)
        fail_msg("no dead letter came");
    return b;
}

static inline const leat_queue_item *item(const leat_queue_batch *b)
{
    return leat_queue_batch_at(b, 0);
}

/* The number that its body is. */
static inline int number(const leat_queue_item *it)
{
    leat_bytes body = it->msg.body;
    char text[16];
    snprintf(text, sizeof text, "%.*s", (int)body.n, (const char *)body.p);
    return (int)strtol(text, NULL, 10);
}

static inline void nothing(leat_queue *q)
{
    leat_queue_batch *b = take(q, NULL);
    assert_int_equal(leat_queue_batch_count(b), 0);
    leat_queue_batch_free(b);
}

#define assert_item(it, text)                                                  \
    do {                                                                       \
        leat_bytes body_ = (it)->msg.body;                                     \
        assert_int_equal(body_.n, strlen(text));                               \
        assert_memory_equal(body_.p, text, body_.n);                           \
    } while (0)

static inline void ack(leat_queue *q, const leat_queue_batch *b)
{
    for (size_t i = 0; i < leat_queue_batch_count(b); i++)
        must(leat_queue_ack(q, leat_queue_batch_at(b, i)->receipt, err));
}

static inline leat_queue_stats stats(leat_queue *q)
{
    leat_queue_stats st;
    must(leat_queue_stats_get(q, &st, err));
    return st;
}

/* I6: what was sent is somewhere. */
static inline void conserved(leat_queue *q)
{
    leat_queue_stats s = stats(q);
    int64_t found = s.acked + s.visible + s.in_flight + s.delayed + s.dead +
                    s.expired + s.purged + s.lost;
    if (found != s.sent)
        fail_msg("sent %lld, found %lld: acked %lld visible %lld in flight "
                 "%lld delayed %lld dead %lld expired %lld purged %lld",
                 (long long)s.sent, (long long)found, (long long)s.acked,
                 (long long)s.visible, (long long)s.in_flight,
                 (long long)s.delayed, (long long)s.dead, (long long)s.expired,
                 (long long)s.purged);
}

/* The lease is that of a process which died with it a moment ago: our own
 * reaper leaves the shard alone for three seconds. */
static inline void the_reaper_has_died(void)
{
    assert_int_equal(
        redis_int(server, "EVAL %s 0",
                  "local t = redis.call('TIME') "
                  "redis.call('SET', 'leat:{q/41}:reaper', 'dead ' .. "
                  "(t[1] * 1000 + math.floor(t[2] / 1000) + 2900)) return 1"),
        1);
}

/* A thread that waits for a message, and notes when it came. */
typedef struct patient {
    leat_queue *q;
    int64_t came_ms;
} patient;

static inline void *be_patient(void *arg)
{
    patient *p = arg;
    leat_queue_batch *b = take_one(p->q);
    p->came_ms = wait_now_ms();
    ack(p->q, b);
    leat_queue_batch_free(b);
    return NULL;
}

#endif
