/*
 * queue_growth.c: many other queues cost nothing (G15).
 *
 * One queue among 1,000 and 10,000, each of which has a message that waits and
 * one in flight, beside one alone: a message sent, received and acknowledged,
 * and a look for what expired.  The others are written as they would be there,
 * by a script of the bench.
 */
#include "queue.h"

#include <stdio.h>
#include <string.h>

enum { COUNT = 2000, TICKS = 500 };

typedef struct growth {
    work alone, among;
    redis_server *crowd;
    ours mine, one_of_many;
} growth;

/* As src/queue/keys.h has them; in the shard of the queue that is measured. */
static const char others[] =
    "for i = 1, ARGV[1] do "
    "  local q = 'other' .. i "
    "  local k = KEYS[1] .. q "
    "  redis.call('HSET', k .. ':conf', 'created', 1, 'hide', 30000, "
    "    'receives', 0, 'ttl', 0, 'max', 1048576, 'delay', 0) "
    "  redis.call('RPUSH', k .. ':ready', '0/1700000000000/0190-' .. i) "
    "  redis.call('HSET', k .. ':body', '0190-' .. i, 'x', '0191-' .. i, 'x') "
    "  redis.call('ZADD', KEYS[1] .. 'due', 9000000000000, "
    "    'v/' .. q .. '/1/1700000000000/0191-' .. i .. "
    "    '/0123456789abcdef.' .. i) "
    "  redis.call('ZADD', KEYS[1] .. 'work', i, q) "
    "  redis.call('SADD', KEYS[1] .. 'queues', q) "
    "end return 1";

static bool fill(const growth *g, const char *tag, int n)
{
    return redis_int(g->crowd, "EVAL %s 1 %s %d", others, tag, n) == 1;
}

/* "leat:{q/N}:" of the queue `bench`, by what is there. */
static bool find_tag(redis_server *s, char *tag, size_t size)
{
    for (int i = 0; i < 64; i++) {
        snprintf(tag, size, "leat:{q/%d}:", i);
        if (redis_int(s, "EXISTS %sbench:conf", tag) == 1)
            return true;
    }
    return false;
}

static double cycle(const ours *o)
{
    ours copy = *o;
    int64_t start = bench_now_ns();
    bool ok = ours_send(&copy, 10, COUNT) && ours_take(&copy, 10, COUNT);
    return ok ? rate(COUNT, start) : -1;
}

static double tick(const ours *o)
{
    leat_error e;
    int64_t n, start = bench_now_ns();
    for (int i = 0; i < TICKS; i++)
        if (leat_queue_requeue_expired_once(o->q, 100, &n, &e) != LEAT_OK)
            return complain(&e) - 1;
    return rate(TICKS, start);
}

static double cycle_among(void *arg)
{
    return cycle(&((growth *)arg)->one_of_many);
}

static double cycle_alone(void *arg)
{
    return cycle(&((growth *)arg)->mine);
}

static double tick_among(void *arg)
{
    return tick(&((growth *)arg)->one_of_many);
}

static double tick_alone(void *arg)
{
    return tick(&((growth *)arg)->mine);
}

static bool report(growth *g, const char *what, int n, bench_fn *among,
                   bench_fn *alone)
{
    char name[48];
    snprintf(name, sizeof name, "queue.growth.%s.%d", what, n);
    return !bench_wants(name) || bench_run(&(bench_pair){ .name = name,
                                                          .unit = "1/s",
                                                          .ours = among,
                                                          .raw = alone,
                                                          .arg = g,
                                                          .target = 0.5 });
}

bool queue_growth(work *w)
{
    static const int sizes[] = { 1000, 10000 };
    char tag[32];
    growth g = { .alone = *w };
    bool ok = true;
    g.crowd = redis_start(NULL);
    if (!g.crowd)
        return false;
    work_on(&g.among, g.crowd);
    bench_pin(redis_pid(g.crowd));
    ok = ours_open(&g.mine, &g.alone) && ours_open(&g.one_of_many, &g.among) &&
         find_tag(g.crowd, tag, sizeof tag);
    for (size_t i = 0; ok && i < 2; i++) {
        ok = fill(&g, tag, sizes[i]);
        ok = ok && report(&g, "message", sizes[i], cycle_among, cycle_alone);
        ok &= report(&g, "tick", sizes[i], tick_among, tick_alone);
    }
    ours_close(&g.mine);
    ours_close(&g.one_of_many);
    redis_stop(g.crowd);
    return ok;
}
