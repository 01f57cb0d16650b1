/*
 * queue.c: queues against the bare server.
 *
 *   bench-queue               everything
 *   bench-queue queue.both    what begins by that
 *
 * Raw is the leanest script cycle: a list of ids, a hash of bodies, an index of
 * deadlines; no lanes, no clock, no counters, no events.  Ours and raw run in
 * turn on one private server, over its Unix socket, one call at a time, with
 * the same payload and batch.
 */
#include "bench.h"
#include "raw.h"
#include "support/redis.h"

#include <leat/leat.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNT = 6000, BODY = 100, MOST = 100, WAKES = 200, CHUNK = 1 << 17 };

typedef struct work {
    redis_server *server;
    const char *socket;
    char url[256];
    int batch, count;
} work;

static char body[BODY];

static bool complain(const leat_error *e)
{
    fprintf(stderr, "%s\n", e->msg);
    return false;
}

static double rate(int count, int64_t start_ns)
{
    return count / ((double)(bench_now_ns() - start_ns) / 1e9);
}

/* ---- ours ------------------------------------------------------------- */

static leat_queue *open_queue(leat_client **c, const work *w)
{
    leat_error e;
    *c = leat_client_open(w->url, NULL, &e);
    leat_queue *q = *c ? leat_queue_open(*c, "bench", NULL, &e) : NULL;
    if (!q)
        complain(&e);
    return q;
}

static bool send_ours(leat_queue *q, int batch, int count)
{
    leat_error e;
    leat_msg m[MOST] = { 0 };
    for (int i = 0; i < batch; i++)
        m[i].body = leat_mem(body, BODY);
    for (int i = 0; i < count; i += batch)
        if (leat_queue_send_batch(q, m, (size_t)batch, NULL, NULL, &e) !=
            LEAT_OK)
            return complain(&e);
    return true;
}

static bool take_ours(leat_queue *q, int batch, int count)
{
    leat_error e;
    leat_bytes r[MOST];
    for (int done = 0; done < count;) {
        leat_queue_batch *b = leat_queue_receive(
            q, &(leat_receive_opts){ .max = batch, .wait_ms = 1000 }, &e);
        size_t n = b ? leat_queue_batch_count(b) : 0;
        if (!b)
            return complain(&e);
        for (size_t i = 0; i < n; i++)
            r[i] = leat_queue_batch_at(b, i)->receipt;
        bool ok = n == 0 || leat_queue_ack_batch(q, r, n, NULL, &e) == LEAT_OK;
        leat_queue_batch_free(b);
        if (!ok)
            return complain(&e);
        done += (int)n;
    }
    return true;
}

/* ---- raw -------------------------------------------------------------- */

static const char lean_send[] =
    "local list = {} "
    "for i = 1, #ARGV, 2 do list[#list + 1] = ARGV[i] end "
    "redis.call('HSET', KEYS[2], unpack(ARGV)) "
    "return redis.call('RPUSH', KEYS[1], unpack(list))";

static const char lean_take[] =
    "local ids = redis.call('LRANGE', KEYS[1], 0, ARGV[1] - 1) "
    "if #ids == 0 then return {} end "
    "redis.call('LTRIM', KEYS[1], #ids, -1) "
    "local t = redis.call('TIME') "
    "local due, args = t[1] * 1000 + 30000, {} "
    "for i = 1, #ids do args[2 * i - 1] = due args[2 * i] = ids[i] end "
    "redis.call('ZADD', KEYS[3], unpack(args)) "
    "return { ids, redis.call('HMGET', KEYS[2], unpack(ids)) }";

static const char lean_ack[] =
    "local n = 0 "
    "for i = 1, #ARGV do n = n + redis.call('ZREM', KEYS[3], ARGV[i]) end "
    "redis.call('HDEL', KEYS[2], unpack(ARGV)) "
    "return n";

typedef struct lean {
    redisContext *c;
    char sha[3][41];
    uint64_t next;
} lean;

static bool lean_open(lean *l, const work *w)
{
    static const char *const text[] = { lean_send, lean_take, lean_ack };
    *l = (lean){ .c = redisConnectUnix(w->socket) };
    for (int i = 0; i < 3 && l->c && !l->c->err; i++) {
        redisReply *r = redisCommand(l->c, "SCRIPT LOAD %s", text[i]);
        if (r && r->type == REDIS_REPLY_STRING)
            snprintf(l->sha[i], sizeof l->sha[i], "%s", r->str);
        freeReplyObject(r);
    }
    return l->c && !l->c->err;
}

static void lean_close(lean *l)
{
    redisFree(l->c);
}

static redisReply *lean_call(lean *l, int which, int argc, const char **argv,
                             const size_t *len)
{
    const char *all[6 + 2 * MOST] = { "EVALSHA",   l->sha[which], "3",
                                      "raw:ready", "raw:body",    "raw:due" };
    size_t sizes[6 + 2 * MOST] = { 7, 40, 1, 9, 8, 7 };
    for (int i = 0; i < argc; i++) {
        all[6 + i] = argv[i];
        sizes[6 + i] = len[i];
    }
    return redisCommandArgv(l->c, 6 + argc, all, sizes);
}

static bool send_raw(lean *l, int batch, int count)
{
    char ids[MOST][40];
    const char *argv[2 * MOST];
    size_t len[2 * MOST];
    for (int i = 0; i < count; i += batch) {
        for (int k = 0; k < batch; k++) {
            snprintf(ids[k], sizeof ids[k], "01234567-89ab-7cde-8f01-%012llx",
                     (unsigned long long)l->next++);
            argv[2 * k] = ids[k];
            len[2 * k] = 36;
            argv[2 * k + 1] = body;
            len[2 * k + 1] = BODY;
        }
        redisReply *r = lean_call(l, 0, 2 * batch, argv, len);
        bool ok = r && r->type == REDIS_REPLY_INTEGER;
        freeReplyObject(r);
        if (!ok)
            return false;
    }
    return true;
}

static bool take_raw(lean *l, int batch, int count)
{
    char max[16];
    const char *argv[MOST] = { max };
    size_t len[MOST];
    snprintf(max, sizeof max, "%d", batch);
    for (int done = 0; done < count;) {
        argv[0] = max;
        len[0] = strlen(max);
        redisReply *r = lean_call(l, 1, 1, argv, len);
        int n = r && r->elements == 2 ? (int)r->element[0]->elements : 0;
        for (int i = 0; i < n; i++) {
            argv[i] = r->element[0]->element[i]->str;
            len[i] = r->element[0]->element[i]->len;
        }
        if (n > 0)
            freeReplyObject(lean_call(l, 2, n, argv, len));
        freeReplyObject(r);
        if (n == 0 && l->c->err)
            return false;
        done += n;
    }
    return true;
}

/* ---- pairs ------------------------------------------------------------ */

typedef struct pair {
    work *w;
    leat_client *c;
    leat_queue *q;
    lean l;
} pair;

static double send_rate(void *arg)
{
    pair *p = arg;
    int64_t start = bench_now_ns();
    bool ok = send_ours(p->q, p->w->batch, p->w->count);
    double v = ok ? rate(p->w->count, start) : -1;
    return leat_queue_purge(p->q, false, NULL, NULL) == LEAT_OK ? v : -1;
}

static double send_raw_rate(void *arg)
{
    pair *p = arg;
    int64_t start = bench_now_ns();
    bool ok = send_raw(&p->l, p->w->batch, p->w->count);
    double v = ok ? rate(p->w->count, start) : -1;
    redis_int(p->w->server, "DEL raw:ready raw:body raw:due");
    return v;
}

static double take_rate(void *arg)
{
    pair *p = arg;
    if (!send_ours(p->q, MOST, p->w->count))
        return -1;
    int64_t start = bench_now_ns();
    return take_ours(p->q, p->w->batch, p->w->count) ? rate(p->w->count, start)
                                                     : -1;
}

static double take_raw_rate(void *arg)
{
    pair *p = arg;
    if (!send_raw(&p->l, MOST, p->w->count))
        return -1;
    int64_t start = bench_now_ns();
    return take_raw(&p->l, p->w->batch, p->w->count) ? rate(p->w->count, start)
                                                     : -1;
}

/* ---- both at once ----------------------------------------------------- */

typedef struct half {
    pair *p;
    lean l; /* of its own */
    bool ours, ok;
} half;

static void *receive_half(void *arg)
{
    half *h = arg;
    work *w = h->p->w;
    h->ok = h->ours ? take_ours(h->p->q, w->batch, w->count)
                    : take_raw(&h->l, w->batch, w->count);
    return NULL;
}

static double both(pair *p, bool ours)
{
    pthread_t t;
    half h = { .p = p, .ours = ours };
    if (!ours && !lean_open(&h.l, p->w))
        return -1;
    int64_t start = bench_now_ns();
    if (pthread_create(&t, NULL, receive_half, &h) != 0)
        return -1;
    bool ok = ours ? send_ours(p->q, p->w->batch, p->w->count)
                   : send_raw(&p->l, p->w->batch, p->w->count);
    pthread_join(t, NULL);
    double v = ok && h.ok ? rate(p->w->count, start) : -1;
    if (!ours)
        lean_close(&h.l);
    return v;
}

static double both_rate(void *arg)
{
    return both(arg, true);
}

static double both_raw_rate(void *arg)
{
    return both(arg, false);
}

static bool run_pairs(work *w)
{
    static const int batches[] = { 1, 10, 100 };
    pair p = { .w = w };
    p.q = open_queue(&p.c, w);
    bool ok = p.q && lean_open(&p.l, w);
    for (size_t i = 0; ok && i < 3; i++) {
        char name[3][32];
        int b = batches[i];
        w->batch = b;
        w->count = b == 1 ? COUNT / 4 : b == 10 ? COUNT : 4 * COUNT;
        snprintf(name[0], sizeof name[0], "queue.send.%d", b);
        snprintf(name[1], sizeof name[1], "queue.receive.%d", b);
        snprintf(name[2], sizeof name[2], "queue.both.%d", b);
        bench_pair all[] = {
            { .ours = send_rate, .raw = send_raw_rate },
            { .ours = take_rate,
              .raw = take_raw_rate,
              .target = b == 10 ? 0.9 : 0 },
            { .ours = both_rate, .raw = both_raw_rate },
        };
        for (int k = 0; k < 3; k++) {
            all[k].name = name[k];
            all[k].unit = "msg/s";
            all[k].payload = BODY;
            all[k].in_flight = b;
            all[k].arg = &p;
            ok &= bench_run(&all[k]);
        }
    }
    if (p.l.c)
        lean_close(&p.l);
    leat_queue_close(p.q);
    leat_client_close(p.c);
    return ok;
}

/* ---- waking ----------------------------------------------------------- */

/* From before a send to after the receive that waited for it. */
typedef struct wake {
    pair *p;
    _Atomic int64_t got_ns;
    atomic_bool waiting, stop;
} wake;

static void *wait_ours(void *arg)
{
    wake *k = arg;
    while (!k->stop) {
        k->waiting = true;
        leat_queue_batch *b = leat_queue_receive(
            k->p->q, &(leat_receive_opts){ .max = 1, .wait_ms = 200 }, NULL);
        int64_t now = bench_now_ns();
        if (b && leat_queue_batch_count(b) == 1) {
            leat_bytes r = leat_queue_batch_at(b, 0)->receipt;
            if (leat_queue_ack(k->p->q, r, NULL) == LEAT_OK)
                k->got_ns = now;
        }
        leat_queue_batch_free(b);
    }
    return NULL;
}

/* Raw: a list and BLPOP, which the server itself answers at once. */
static void *wait_raw(void *arg)
{
    wake *k = arg;
    redisContext *c = redisConnectUnix(k->p->w->socket);
    while (c && !c->err && !k->stop) {
        k->waiting = true;
        redisReply *r = redisCommand(c, "BLPOP raw:list 1");
        if (r && r->elements == 2)
            k->got_ns = bench_now_ns();
        freeReplyObject(r);
    }
    redisFree(c);
    return NULL;
}

static double wake_us(pair *p, bool ours)
{
    double us[WAKES];
    pthread_t t;
    wake k = { .p = p };
    if (pthread_create(&t, NULL, ours ? wait_ours : wait_raw, &k) != 0)
        return -1;
    for (int i = 0; i < WAKES; i++) {
        k.got_ns = 0;
        while (!k.waiting)
            usleep(100);
        usleep(2000);
        int64_t start = bench_now_ns();
        if (ours)
            send_ours(p->q, 1, 1);
        else
            freeReplyObject(redisCommand(p->l.c, "RPUSH raw:list x"));
        while (!k.got_ns && bench_now_ns() - start < 1000000000)
            usleep(20);
        us[i] = (double)(k.got_ns - start) / 1e3;
    }
    k.stop = true;
    pthread_join(t, NULL);
    return bench_median(us, WAKES);
}

static double wake_ours_us(void *arg)
{
    return wake_us(arg, true);
}

static double wake_raw_us(void *arg)
{
    return wake_us(arg, false);
}

static bool run_wakes(work *w)
{
    pair p = { .w = w };
    p.q = open_queue(&p.c, w);
    bool ok = p.q && lean_open(&p.l, w) &&
              bench_run(&(bench_pair){ .name = "queue.wake",
                                       .unit = "us",
                                       .ours = wake_ours_us,
                                       .raw = wake_raw_us,
                                       .arg = &p,
                                       .rounds = 5,
                                       .less = true });
    if (p.l.c)
        lean_close(&p.l);
    leat_queue_close(p.q);
    leat_client_close(p.c);
    return ok;
}

/* ---- instructions of the server --------------------------------------- */

/* A server program that is the real one under callgrind. */
static bool write_wrapper(const char *path, const char *out)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    fprintf(f,
            "#!/bin/sh\n"
            "for p in \"$REAL_SERVER\" redis-server valkey-server "
            "redis-check-rdb; do\n"
            "    p=$(command -v \"${p:-none}\") && break\n"
            "done\n"
            "d=$(dirname \"$0\")\n"
            "ln -sf \"$p\" \"$d/redis-server\"\n"
            "exec valgrind -q --tool=callgrind --callgrind-out-file=%s "
            "\"$d/redis-server\" \"$@\"\n",
            out);
    return fclose(f) == 0 && chmod(path, 0700) == 0;
}

static bool cycle_ours(work *w, int n)
{
    pair p = { .w = w };
    p.q = open_queue(&p.c, w);
    bool ok = p.q && send_ours(p.q, w->batch, n) && take_ours(p.q, w->batch, n);
    leat_queue_close(p.q);
    leat_client_close(p.c);
    return ok;
}

static bool cycle_raw(work *w, int n)
{
    lean l;
    bool ok = lean_open(&l, w) && send_raw(&l, w->batch, n) &&
              take_raw(&l, w->batch, n);
    lean_close(&l);
    return ok;
}

static double server_run(bool (*once)(work *, int), int batch, int n,
                         const char *out)
{
    redis_server *s = redis_start(&(redis_opts){ .start_ms = 60000 });
    work w = { .server = s, .batch = batch };
    if (!s)
        return -1;
    w.socket = redis_socket(s);
    redis_url_unix(s, w.url, sizeof w.url);
    bool ok = once(&w, n);
    redis_shutdown(s);
    redis_stop(s);
    double total = ok ? bench_callgrind_total(out) : -1;
    if (getenv("BENCH_KEEP"))
        fprintf(stderr, "%s\n", out);
    else
        unlink(out);
    return total;
}

static double server_cost(bool (*once)(work *, int), int batch, const char *out)
{
    int n = 200 * batch;
    n = n > 4000 ? 4000 : n;
    double one = server_run(once, batch, n, out);
    double three = server_run(once, batch, 3 * n, out);
    return one < 0 || three < 0 ? -1 : (three - one) / (2.0 * n);
}

/* The cycle of 10 a call has a target; the others are for the record. */
static bool count_cycle(int batch, const char *out)
{
    char name[40];
    snprintf(name, sizeof name, "queue.instructions.%d", batch);
    if (!bench_wants(name))
        return true;
    double ours = server_cost(cycle_ours, batch, out);
    double bare = server_cost(cycle_raw, batch, out);
    return bench_count(name, "instructions/msg", ours, "raw", bare,
                       batch == 10 ? 1.10 * 62900 : 1e9);
}

static bool run_instructions(work *w)
{
    char dir[] = "/tmp/leat-bench-XXXXXX", path[64], out[64], link[64];
    const char *real = getenv("LEAT_REDIS_SERVER");
    bool ok = true;
    (void)w;
    setenv("REAL_SERVER", real ? real : "", 1);
    if (!mkdtemp(dir))
        return false;
    snprintf(path, sizeof path, "%s/run", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    snprintf(link, sizeof link, "%s/redis-server", dir);
    fprintf(stderr, "queue.instructions: callgrind\n");
    if (write_wrapper(path, out)) {
        setenv("LEAT_REDIS_SERVER", path, 1);
        ok = count_cycle(10, out);
        ok &= count_cycle(1, out);
        ok &= count_cycle(100, out);
    }
    setenv("LEAT_REDIS_SERVER", getenv("REAL_SERVER"), 1);
    unlink(path);
    unlink(link);
    if (!getenv("BENCH_KEEP"))
        rmdir(dir);
    return ok;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        bool (*fn)(work *w);
    } parts[] = { { "queue.send", run_pairs },
                  { "queue.wake", run_wakes },
                  { "queue.instructions", run_instructions } };
    memset(body, 'x', sizeof body);
    bench_only(argc > 1 ? argv[1] : NULL);
    redis_server *s = redis_start(NULL);
    if (!s)
        return 69;
    work w = { .server = s, .socket = redis_socket(s) };
    redis_url_unix(s, w.url, sizeof w.url);
    bench_pin(redis_pid(s));
    bool ok = true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        bool pairs = i == 0 && (bench_wants("queue.receive") ||
                                bench_wants("queue.both"));
        if (!bench_wants(parts[i].name) && !pairs)
            continue;
        redis_flush(s);
        ok &= parts[i].fn(&w);
    }
    redis_stop(s);
    return ok ? 0 : 1;
}
