/*
 * topic_waiting.c: what waits costs nothing to those who do not.
 *
 * A group with 100,000 messages put by until tomorrow, on a partition with as
 * many delayed ones, consumes as one without; counted by callgrind, on the
 * client's side and the server's.
 */
#include "topic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAITING = 100000, CHUNK = 10000, CONSUMED = 10200 };

/* As kept.lua has them, and delayed ones; ARGV from, count. */
static const char fill_lua[] =
    "local now = redis.call('TIME')[1] * 1000 "
    "local t = now + 86400000 "
    "local packed = cmsgpack.pack({'k', 'key', 'b', 'body'}) "
    "local meta = cmsgpack.pack({1, 1, now, now, 'why', 'why', '', t, "
    "'', ''}) "
    "for base = ARGV[1], ARGV[1] + ARGV[2] - 1, 1000 do "
    "local kept, due, laters = {}, {}, {} "
    "for i = base, base + 999 do "
    "local id, n = '1-' .. string.format('%.0f', i), #due "
    "kept[2 * n + 1], kept[2 * n + 2] = id, packed "
    "kept[2 * n + 3], kept[2 * n + 4] = id .. 'm', meta "
    "laters[n + 1], laters[n + 2] = id, packed "
    "due[n + 1], due[n + 2] = t + i, id end "
    "redis.call('HSET', KEYS[1], unpack(kept)) "
    "redis.call('ZADD', KEYS[2], unpack(due)) "
    "redis.call('ZADD', KEYS[3], unpack(due)) "
    "redis.call('HSET', KEYS[4], unpack(laters)) end return 1";

static bool fill_chunk(raw *r, const char *kept, const char *due, int from)
{
    char out[2048], begin[16], count[16];
    size_t n = 0;
    snprintf(begin, sizeof begin, "%d", from);
    snprintf(count, sizeof count, "%d", CHUNK);
    const char *argv[] = { "EVAL",
                           fill_lua,
                           "4",
                           kept,
                           due,
                           "leat:{bench/0}:later",
                           "leat:{bench/0}:laters",
                           begin,
                           count };
    raw_encode(out, &n, 9, argv, NULL);
    return raw_write(r, out, n) && raw_lines(r, 1);
}

bool waiting_fill(const work *w, const char *group)
{
    char kept[80], due[80];
    snprintf(kept, sizeof kept, "leat:{bench/0}:kept:%s", group);
    snprintf(due, sizeof due, "leat:{bench/0}:due:%s", group);
    raw *r = raw_open(w->socket);
    bool ok = r != NULL;
    for (int i = 0; ok && i < WAITING; i += CHUNK)
        ok = fill_chunk(r, kept, due, i);
    raw_close(r);
    return ok;
}

/* Consume n that are there. */
static bool consume_once(work *w, int n, bool waiting)
{
    int64_t start;
    leat_error e;
    bool ok = backlog(w, "bench", 1, n) && (!waiting || waiting_fill(w, "g")) &&
              server_count_anew(w->server);
    leat_client *c = ok ? open_client(w) : NULL;
    leat_topic *t = open_topic(c, "bench", 1);
    leat_source *s = t ? leat_topic_source(t, "g", NULL, &e) : NULL;
    ok = s && consume(s, n, &start);
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(c);
    return ok;
}

/* Without this the server tidies its tables now and then, by the clock, which
 * under callgrind runs fast. */
static void no_housework(const work *w)
{
    redis_int(w->server, "CONFIG SET activerehashing no");
}

static bool with_once(work *w, int n)
{
    no_housework(w);
    return consume_once(w, n, true);
}

static bool without_once(work *w, int n)
{
    no_housework(w);
    return consume_once(w, n, false);
}

static bool client_side(work *w)
{
    const char *name = "topic.waiting.client";
    if (!bench_wants(name))
        return true;
    setenv("BENCH_SOCKET", w->socket, 1);
    w->payload = 100;
    if (!redis_flush(w->server) || !backlog(w, "bench", 1, 3 * CONSUMED))
        return false;
    double without = bench_instructions(w->argv0, "consume", CONSUMED);
    double with = bench_instructions(w->argv0, "waiting", CONSUMED);
    return bench_count(name, "instructions/msg", with, "without", without,
                       1.02 * without);
}

static bool server_side(void)
{
    const char *name = "topic.waiting.server";
    if (!bench_wants(name))
        return true;
    double without = topic_server_cost(without_once);
    double with = topic_server_cost(with_once);
    return bench_count(name, "instructions/msg", with, "without", without,
                       1.02 * without);
}

bool topic_waiting(work *w)
{
    fprintf(stderr, "topic.waiting: callgrind\n");
    bool ok = client_side(w);
    return ok & server_side();
}
