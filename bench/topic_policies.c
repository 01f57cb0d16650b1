/*
 * topic_policies.c: what a failure costs.
 *
 *   retry  a message fails, waits for a millisecond, is handed out once more
 *          and acknowledged
 *   dead   a message is rejected, and becomes a dead letter
 *
 * Beside the server's instructions stand those of three bare scripts, each for
 * a hundred messages at once: put by, find what is due, forget; and of one that
 * copies to another stream.  They count nothing, know no owner, and forget who
 * they work for.
 */
#include "topic.h"

#include <stdio.h>
#include <string.h>

enum { FAILURES = 5100 };

/* ---- ours ------------------------------------------------------------- */

static const leat_topic_source_opts failing = {
    .order = LEAT_ORDER_NONE,
    .retry = { .backoff = LEAT_BACKOFF_FIXED, .delay_ms = 1, .jitter = LEAT_NO }
};

/* True: that was its last settlement. */
static bool settle_retry(leat_delivery *d, bool *ok)
{
    bool first = leat_delivery_attempt(d) == 1;
    *ok = *ok && (first ? leat_delivery_fail(d, "not yet")
                        : leat_delivery_ack(d)) == LEAT_OK;
    return !first;
}

static bool settle_dead(leat_delivery *d, bool *ok)
{
    *ok = *ok && leat_delivery_reject(d, "never") == LEAT_OK;
    return true;
}

static bool settle_all(leat_source *s, int n,
                       bool (*settle)(leat_delivery *d, bool *ok))
{
    leat_delivery *d[BATCH];
    leat_error e;
    bool ok = true;
    for (int done = 0; ok && done < n;) {
        int got = leat_source_receive(s, d, BATCH, 10000, &e);
        if (got <= 0)
            return got < 0 ? complain(&e) : false;
        for (int i = 0; i < got; i++)
            done += settle(d[i], &ok);
    }
    return ok && (leat_source_flush(s, 10000, &e) == LEAT_OK || complain(&e));
}

bool policies_work(leat_topic *t, const char *group, const char *what, int n)
{
    leat_error e;
    leat_source *s = leat_topic_source(t, group, &failing, &e);
    if (!s)
        return complain(&e);
    bool ok = settle_all(
        s, n, strcmp(what, "dead") == 0 ? settle_dead : settle_retry);
    leat_source_close(s);
    return ok;
}

static bool ours_once(work *w, const char *what, int n)
{
    leat_client *c = open_client(w);
    leat_topic *t = open_topic(c, "bench", 1);
    bool ok = t && produce(t, w, n) && policies_work(t, "g", what, n);
    leat_topic_close(t);
    leat_client_close(c);
    return ok;
}

static bool retry_once(work *w, int n)
{
    return ours_once(w, "retry", n);
}

static bool dead_once(work *w, int n)
{
    return ours_once(w, "dead", n);
}

/* ---- as bare as can be ------------------------------------------------ */

#define BARE_CURSOR "{bench/0}:cur"
#define BARE_KEPT   "{bench/0}:kept"
#define BARE_DUE    "{bench/0}:due"
#define BARE_DEAD   "{bench/0}:dead"

/* KEYS log, cursor, kept, due, dead; ARGV ids. */
static const char put_by_lua[] =
    "for i, id in ipairs(ARGV) do "
    "local e = redis.call('XRANGE', KEYS[1], id, id)[1] "
    "redis.call('HSET', KEYS[3], id, cmsgpack.pack(e[2])) "
    "redis.call('ZADD', KEYS[4], 1, id) end "
    "redis.call('HSET', KEYS[2], 'c', ARGV[#ARGV]) return 1";
static const char due_lua[] =
    "local out = {} "
    "for i, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', '+inf', "
    "'LIMIT', 0, 100)) do "
    "out[i] = {id, cmsgpack.unpack(redis.call('HGET', KEYS[3], id))} end "
    "return {{KEYS[1], out}}";
static const char forget_lua[] =
    "for i, id in ipairs(ARGV) do "
    "redis.call('HDEL', KEYS[3], id) redis.call('ZREM', KEYS[4], id) end "
    "redis.call('HSET', KEYS[2], 'c', ARGV[#ARGV]) return 1";
static const char copy_lua[] =
    "for i, id in ipairs(ARGV) do "
    "local e = redis.call('XRANGE', KEYS[1], id, id)[1] "
    "redis.call('XADD', KEYS[5], '*', 'i', id, unpack(e[2])) end "
    "redis.call('HSET', KEYS[2], 'c', ARGV[#ARGV]) return 1";

typedef struct bare {
    raw *r;
    char put_by[48], due[48], forget[48], copy[48]; /* of SCRIPT LOAD */
    raw_batch batch;
} bare;

static bool bare_open(bare *b, const work *w)
{
    redis_text(w->server, b->put_by, sizeof b->put_by, "SCRIPT LOAD %s",
               put_by_lua);
    redis_text(w->server, b->due, sizeof b->due, "SCRIPT LOAD %s", due_lua);
    redis_text(w->server, b->forget, sizeof b->forget, "SCRIPT LOAD %s",
               forget_lua);
    redis_text(w->server, b->copy, sizeof b->copy, "SCRIPT LOAD %s", copy_lua);
    b->r = raw_open(w->socket);
    return b->r != NULL;
}

/* The script, with the ids of the batch. */
static bool bare_send(bare *b, const char *sha, bool ids)
{
    char out[RAW_IDS + 1024];
    size_t n = 0;
    const char *argv[] = { "EVALSHA",   sha,       "5",      LOG_KEY,
                           BARE_CURSOR, BARE_KEPT, BARE_DUE, BARE_DEAD };
    raw_encode(out, &n, 8, argv, NULL);
    if (ids) { /* more than the head says */
        char head[16];
        size_t old = strlen("*8\r\n");
        size_t size = (size_t)snprintf(head, sizeof head, "*%d\r\n",
                                       8 + b->batch.n);
        memmove(out + size, out + old, n - old);
        memcpy(out, head, size);
        n += size - old;
        memcpy(out + n, b->batch.ids, b->batch.size);
        n += b->batch.size;
    }
    return raw_write(b->r, out, n);
}

static bool bare_do(bare *b, const char *sha)
{
    return bare_send(b, sha, true) && raw_lines(b->r, 1);
}

static bool bare_read(bare *b, const char *last)
{
    char out[256];
    size_t n = 0;
    const char *read[] = { "XREAD", "COUNT", "100", "STREAMS", LOG_KEY, last };
    raw_encode(out, &n, 6, read, NULL);
    return raw_write(b->r, out, n) &&
           raw_entries(b->r, &b->batch, NULL, NULL) > 0;
}

static bool bare_retry(bare *b)
{
    return bare_do(b, b->put_by) && bare_send(b, b->due, false) &&
           raw_entries(b->r, &b->batch, NULL, NULL) > 0 &&
           bare_do(b, b->forget);
}

static bool bare_dead(bare *b)
{
    return bare_do(b, b->copy);
}

static bool bare_once(work *w, int n, bool (*batch)(bare *b))
{
    bare b = { 0 };
    char last[RAW_ID] = "0";
    w->count = n;
    bool ok = bare_open(&b, w) && produce_raw(b.r, LOG_KEY, w);
    for (int done = 0; ok && done < n; done += b.batch.n) {
        ok = bare_read(&b, last);
        memcpy(last, b.batch.last, sizeof last);
        ok = ok && batch(&b);
    }
    raw_close(b.r);
    return ok;
}

static bool bare_retry_once(work *w, int n)
{
    return bare_once(w, n, bare_retry);
}

static bool bare_dead_once(work *w, int n)
{
    return bare_once(w, n, bare_dead);
}

/* ---- what is measured ------------------------------------------------- */

static bool client_side(work *w, const char *name, const char *what,
                        double target)
{
    if (!bench_wants(name))
        return true;
    setenv("BENCH_SOCKET", w->socket, 1);
    w->payload = 100;
    return redis_flush(w->server) && backlog(w, "bench", 1, 3 * FAILURES) &&
           bench_count(name, "instructions/msg",
                       bench_instructions(w->argv0, what, FAILURES), NULL, 0,
                       target);
}

/* As often as the bare scripts, at most. */
static bool server_side(const char *name, topic_fn *ours, topic_fn *peer,
                        double times)
{
    if (!bench_wants(name))
        return true;
    double raw_cost = topic_server_cost(peer);
    return bench_count(name, "instructions/msg", topic_server_cost(ours), "raw",
                       raw_cost, times * raw_cost);
}

bool topic_policies(work *w)
{
    fprintf(stderr, "topic.policies: callgrind\n");
    bool ok = client_side(w, "topic.policies.retry", "retry", 8000);
    ok &= client_side(w, "topic.policies.dead", "dead", 5000);
    ok &= server_side("topic.policies.retry.server", retry_once,
                      bare_retry_once, 2.5);
    return ok & server_side("topic.policies.dead.server", dead_once,
                            bare_dead_once, 2.5);
}
