/*
 * topic_consume.c: reading and acknowledging a backlog.
 *
 * One thread receives up to a hundred and acknowledges each.  Beside it:
 *
 *   XREADGROUP and XACK of 100, two reads under way, which keeps what is
 *   unsettled in the server
 *   XREAD of 100 and one script that moves a cursor if a lease is ours, which
 *   is what a topic's member does, as bare as can be
 *
 * All read the same log, each round by a group of its own.
 */
#include "topic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FILL = 256, ROOM = BODY_MOST + 512, FIELDS = 8 };

/* ---- the backlog ------------------------------------------------------ */

/* Fields of an entry, as the server has them. */
typedef struct template
{
    redisReply *reply;
    int argc;
    const char *argv[2 * FIELDS + 3];
    size_t len[2 * FIELDS + 3];
}
template;

static bool template_of(const work *w, const char *key, template *t)
{
    t->reply = redis_raw(w->server, "XRANGE %s - + COUNT 1", key);
    if (!t->reply || t->reply->elements != 1)
        return false;
    const redisReply *fields = t->reply->element[0]->element[1];
    if (fields->elements > 2 * FIELDS)
        return false;
    t->argc = 3;
    for (size_t i = 0; i < fields->elements; i++, t->argc++) {
        t->argv[t->argc] = fields->element[i]->str;
        t->len[t->argc] = fields->element[i]->len;
    }
    return true;
}

static void add_copy(template *t, const char *key, int number, char *out,
                     size_t *n)
{
    char id[RAW_ID];
    t->argv[0] = "XADD";
    t->argv[1] = key;
    t->argv[2] = id;
    t->len[0] = 4;
    t->len[1] = strlen(key);
    t->len[2] = (size_t)snprintf(id, sizeof id, "%llu-%d",
                                 (unsigned long long)BACKLOG_MS + number / 100,
                                 number % 100);
    raw_encode(out, n, t->argc, t->argv, t->len);
}

static bool fill_partition(const work *w, template *t, const char *key,
                           int count)
{
    raw *r = raw_open(w->socket);
    char *out = malloc((size_t)FILL * ROOM);
    bool ok = r && out;
    for (int done = 0; ok && done < count;) {
        size_t n = 0;
        int first = done;
        for (; done < count && done < first + FILL; done++)
            add_copy(t, key, done, out, &n);
        ok = raw_write(r, out, n) && raw_lines(r, 2 * (uint64_t)(done - first));
    }
    free(out);
    raw_close(r);
    return ok;
}

/* Publish one, to have its fields. */
static bool publish_one(const work *w, const char *name, int partitions)
{
    leat_error e;
    leat_msg m = { .body = leat_mem(bench_body, (size_t)w->payload) };
    leat_client *c = open_client(w);
    leat_topic *t = open_topic(c, name, partitions);
    bool ok = t && leat_topic_publish_to(t, 0, &m, NULL, NULL, &e) == LEAT_OK &&
              leat_topic_flush(t, 10000, &e) == LEAT_OK;
    leat_topic_close(t);
    leat_client_close(c);
    return ok;
}

bool backlog(const work *w, const char *name, int partitions, int count)
{
    char key[64];
    template t = { 0 };
    snprintf(key, sizeof key, "leat:{%s/0}:log", name);
    bool ok = publish_one(w, name, partitions) && template_of(w, key, &t) &&
              redis_int(w->server, "DEL %s", key) == 1;
    for (int i = 0; ok && i < partitions; i++) {
        snprintf(key, sizeof key, "leat:{%s/%d}:log", name, i);
        ok = fill_partition(w, &t, key, count);
    }
    if (t.reply)
        freeReplyObject(t.reply);
    return ok;
}

/* ---- ours ------------------------------------------------------------- */

bool consume(leat_source *s, int count, int64_t *start_ns)
{
    leat_delivery *d[BATCH];
    leat_error e;
    *start_ns = 0;
    for (int got = 0; got < count;) {
        int n = leat_source_receive(s, d, BATCH, 10000, &e);
        if (n < 0)
            return complain(&e);
        if (n == 0)
            return false;
        if (*start_ns == 0)
            *start_ns = bench_now_ns();
        for (int i = 0; i < n; i++)
            if (leat_delivery_ack(d[i]) != LEAT_OK)
                return false;
        got += n;
    }
    return leat_source_flush(s, 10000, &e) == LEAT_OK || complain(&e);
}

static leat_source *open_source(leat_topic *t, work *w)
{
    char group[32];
    leat_error e;
    snprintf(group, sizeof group, "g%d", ++w->round);
    leat_source *s = t ? leat_topic_source(t, group, NULL, &e) : NULL;
    if (t && !s)
        complain(&e);
    return s;
}

double consume_rate(void *arg)
{
    work *w = arg;
    int64_t start = 0;
    leat_client *c = open_client(w);
    leat_topic *t = open_topic(c, "bench", 1);
    leat_source *s = open_source(t, w);
    bool ok = s && consume(s, w->count, &start);
    double took = (double)(bench_now_ns() - start) / 1e9;
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(c);
    return ok ? w->count / took : -1;
}

/* ---- ours, by the runner ---------------------------------------------- */

typedef struct handled {
    _Atomic int64_t first_ns, last_ns;
    _Atomic int n;
} handled;

static leat_verdict handle(leat_ctx *x, void *arg)
{
    handled *h = arg;
    (void)x;
    if (h->n++ == 0)
        h->first_ns = bench_now_ns();
    return LEAT_ACK;
}

static double run_rate(work *w)
{
    handled h = { 0 };
    leat_error e;
    leat_client *c = open_client(w);
    leat_topic *t = open_topic(c, "bench", 1);
    leat_source *s = open_source(t, w);
    leat_run *r = s ? leat_run_start(s, handle, &h, NULL, &e) : NULL;
    int64_t give_up = bench_now_ns() + INT64_C(60000000000);
    while (r && h.n < w->count && bench_now_ns() < give_up)
        nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
    double took = (double)(bench_now_ns() - h.first_ns) / 1e9;
    bool ok = r && h.n >= w->count;
    (void)!leat_run_stop(r, 5000, &e);
    leat_topic_close(t);
    leat_client_close(c);
    return ok ? w->count / took : -1;
}

static bool measure_run(work *w)
{
    enum { ROUNDS = 5 };
    double rate[ROUNDS];
    if (!bench_wants("topic.consume.run"))
        return true;
    for (int i = 0; i < ROUNDS; i++)
        if ((rate[i] = run_rate(w)) <= 0)
            return false;
    bench_figure("topic.consume.run", w->payload, "msg/s",
                 bench_median(rate, ROUNDS));
    return true;
}

/* ---- raw -------------------------------------------------------------- */

double consume_raw_rate(void *arg)
{
    work *w = arg;
    raw_reader g;
    char group[32];
    snprintf(group, sizeof group, "r%d", ++w->round);
    redis_int(w->server, "XGROUP CREATE " LOG_KEY " %s 0", group);
    raw *r = raw_open(w->socket);
    int64_t start = bench_now_ns();
    bool ok = r && raw_reader_start(&g, r, LOG_KEY, group, "c", 0);
    for (int got = 0, n; ok && got < w->count; got += n) {
        n = raw_reader_next(&g, got + 2 * BATCH < w->count, NULL, NULL);
        ok = n > 0;
    }
    ok = ok && raw_reader_end(&g);
    double took = (double)(bench_now_ns() - start) / 1e9;
    raw_close(r);
    redis_int(w->server, "XGROUP DESTROY " LOG_KEY " %s", group);
    return ok ? w->count / took : -1;
}

static const char settle_lua[] =
    "if redis.call('HGET', KEYS[1], 'o') ~= ARGV[1] then return 0 end "
    "redis.call('HSET', KEYS[2], 'c', ARGV[2]) return 1";

/* The next read, and the settlement of what was read. */
static bool xread_send(raw *r, const char *sha, const char *last, bool settle,
                       bool more)
{
    char out[1024];
    size_t n = 0;
    const char *read[] = { "XREAD", "COUNT", "100", "STREAMS", LOG_KEY, last };
    const char *eval[] = { "EVALSHA",       sha,     "2", "{bench/0}:lease",
                           "{bench/0}:cur", "owner", last };
    if (more)
        raw_encode(out, &n, 6, read, NULL);
    if (settle)
        raw_encode(out, &n, 7, eval, NULL);
    return raw_write(r, out, n);
}

static bool xread_all(raw *r, const char *sha, int count)
{
    raw_batch b;
    bool ok = xread_send(r, sha, "0", false, true);
    for (int got = 0, n; ok && got < count; got += n) {
        n = raw_entries(r, &b, NULL, NULL);
        ok = n > 0 && (got == 0 || raw_lines(r, 1)) &&
             xread_send(r, sha, b.last, true, got + n < count);
    }
    return ok && raw_lines(r, 1);
}

static double consume_xread_rate(void *arg)
{
    work *w = arg;
    char sha[64];
    redis_text(w->server, sha, sizeof sha, "SCRIPT LOAD %s", settle_lua);
    redis_int(w->server, "HSET {bench/0}:lease o owner");
    raw *r = raw_open(w->socket);
    int64_t start = bench_now_ns();
    bool ok = r && xread_all(r, sha, w->count);
    double took = (double)(bench_now_ns() - start) / 1e9;
    raw_close(r);
    return ok ? w->count / took : -1;
}

/* ---- what is measured ------------------------------------------------- */

static bool pairs(work *w)
{
    bench_pair p = { .name = "topic.consume",
                     .unit = "msg/s",
                     .payload = w->payload,
                     .ours = consume_rate,
                     .raw = consume_raw_rate,
                     .arg = w,
                     .target = 1.7,
                     .rounds = 15 };
    bool ok = bench_run(&p);
    p.name = "topic.consume.xread";
    p.raw = consume_xread_rate;
    p.target = 0.9;
    return ok & bench_run(&p);
}

bool topic_consume(work *w)
{
    static const int payloads[] = { 100, 1024 };
    bool ok = true;
    w->count = 60000;
    for (size_t i = 0; i < sizeof payloads / sizeof payloads[0]; i++) {
        w->payload = payloads[i];
        redis_flush(w->server);
        ok &= backlog(w, "bench", 1, w->count);
        ok &= pairs(w);
        ok &= measure_run(w);
    }
    return ok;
}
