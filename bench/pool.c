/*
 * pool.c: a pool of workers over few and over many queues.
 *
 *   bench-pool               everything
 *   bench-pool pool.rate     what begins by that
 *
 * The rate of 10 workers over 100, 1,000 and 10,000 queues beside that over
 * one, in turn on one private server, over its Unix socket: the same messages,
 * sent before the pool starts, and handlers that do nothing.  A queue with
 * almost nothing costs as much to serve as one with a batch, so 10,000 queues
 * of 4 are a figure of their own, without target.  Then what 10,000 idle queues
 * cost.
 */
#include "bench.h"
#include "support/redis.h"

#include <leat/leat.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum {
    COUNT = 40000,
    DEEP = 320000,
    BODY = 100,
    MOST = 100,
    MANY = 10000,
    IDLE_MS = 4000
};

typedef struct work {
    redis_server *server;
    char url[256];
    int queues, messages;
    leat_client *client;
    atomic_int done;
} work;

static char body[BODY];

static bool complain(const leat_error *e)
{
    fprintf(stderr, "%s\n", e->msg);
    return false;
}

static void nap(int64_t us)
{
    nanosleep(&(struct timespec){ .tv_sec = us / 1000000,
                                  .tv_nsec = us % 1000000 * 1000 },
              NULL);
}

static leat_verdict count(leat_ctx *x, void *arg)
{
    (void)x;
    work *w = arg;
    atomic_fetch_add_explicit(&w->done, 1, memory_order_relaxed);
    return LEAT_ACK;
}

/* To n queues in turn. */
static bool fill(work *w, int n, int messages)
{
    leat_error e;
    int each = messages / n;
    leat_msg m[MOST] = { 0 };
    for (int i = 0; i < MOST; i++)
        m[i].body = leat_mem(body, BODY);
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "q%d", i);
        leat_queue *q = leat_queue_open(
            w->client, name, &(leat_queue_opts){ .no_reaper = true }, &e);
        if (!q)
            return complain(&e);
        leat_code rc = LEAT_OK;
        for (int sent = 0; rc == LEAT_OK && sent < each;) {
            int k = each - sent < MOST ? each - sent : MOST;
            rc = leat_queue_send_batch(q, m, (size_t)k, NULL, NULL, &e);
            sent += k;
        }
        leat_queue_close(q);
        if (rc != LEAT_OK)
            return complain(&e);
    }
    return true;
}

/* Until all are settled, on the server too. */
static double rate(work *w, int queues)
{
    leat_error e = { 0 };
    redis_flush(w->server);
    atomic_store(&w->done, 0);
    if (!fill(w, queues, w->messages))
        return -1;
    int64_t start = bench_now_ns();
    leat_pool *p = leat_pool_start(w->client, count, w, NULL, &e);
    while (p && atomic_load(&w->done) < w->messages)
        nap(200);
    if (!p || leat_pool_stop(p, 0, &e) != LEAT_OK) {
        complain(&e);
        return -1;
    }
    return w->messages / ((double)(bench_now_ns() - start) / 1e9);
}

static double many(void *arg)
{
    work *w = arg;
    return rate(w, w->queues);
}

static double one(void *arg)
{
    return rate(arg, 1);
}

static bool run_rates(work *w)
{
    static const struct {
        const char *name;
        int queues, messages, rounds;
        double target;
    } all[] = {
        { "pool.rate.100", 100, COUNT, 5, 0.8 },
        { "pool.rate.1000", 1000, COUNT, 5, 0.8 },
        { "pool.rate.10000", MANY, DEEP, 3, 0.8 },
        { "pool.rate.10000.of4", MANY, COUNT, 3, 0 },
    };
    bool ok = true;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!bench_wants(all[i].name))
            continue;
        w->queues = all[i].queues;
        w->messages = all[i].messages;
        ok &= bench_run(&(bench_pair){ .name = all[i].name,
                                       .unit = "msg/s",
                                       .payload = BODY,
                                       .ours = many,
                                       .raw = one,
                                       .arg = w,
                                       .target = all[i].target,
                                       .rounds = all[i].rounds });
    }
    return ok;
}

/* ---- idle ------------------------------------------------------------- */

static double own_cpu(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

static double info(work *w, const char *section, const char *field)
{
    redisReply *r = redis_raw(w->server, "INFO %s", section);
    const char *at = r && r->str ? strstr(r->str, field) : NULL;
    double v = at ? strtod(at + strlen(field), NULL) : -1;
    freeReplyObject(r);
    return v;
}

static double server_cpu(work *w)
{
    return info(w, "cpu", "used_cpu_user:") + info(w, "cpu", "used_cpu_sys:");
}

/* A pool that knows 10,000 queues which have nothing. */
static bool run_idle(work *w)
{
    leat_error e = { 0 };
    redis_flush(w->server);
    double empty = info(w, "memory", "used_memory:");
    leat_pool *p = leat_pool_start(w->client, count, w, NULL, &e);
    if (!p)
        return complain(&e);
    nap(100000);
    double before = (double)mallinfo2().uordblks;
    atomic_store(&w->done, 0);
    bool ok = fill(w, MANY, MANY);
    while (ok && atomic_load(&w->done) < MANY)
        nap(1000);
    nap(500000);
    double held = (double)mallinfo2().uordblks - before;
    double full = info(w, "memory", "used_memory:") - empty;
    double own = own_cpu(), theirs = server_cpu(w);
    nap(IDLE_MS * 1000);
    own = (own_cpu() - own) / IDLE_MS * 1e5;
    theirs = (server_cpu(w) - theirs) / IDLE_MS * 1e5;
    ok &= bench_count("pool.idle.cpu", "% of a core", own, "server", theirs, 1);
    bench_figure("pool.idle.memory.server", 0, "bytes/queue", full / MANY);
    bench_figure("pool.idle.memory.pool", 0, "bytes/queue", held / MANY);
    return leat_pool_stop(p, 0, &e) == LEAT_OK && ok;
}

int main(int argc, char **argv)
{
    memset(body, 'x', sizeof body);
    bench_only(argc > 1 ? argv[1] : NULL);
    redis_server *s = redis_start(NULL);
    if (!s)
        return 69;
    work w = { .server = s };
    redis_url_unix(s, w.url, sizeof w.url);
    bench_pin(redis_pid(s));
    leat_error e;
    w.client = leat_client_open(w.url, NULL, &e);
    bool ok = w.client || complain(&e);
    if (ok && bench_wants("pool.rate"))
        ok &= run_rates(&w);
    if (w.client && bench_wants("pool.idle"))
        ok &= run_idle(&w);
    leat_client_close(w.client);
    redis_stop(s);
    return ok ? 0 : 1;
}
