/*
 * topic_trim.c: a log is trimmed while it is read.
 *
 * Of a million entries all but a thousand go: by the owner of the partition,
 * once the topic's retention says so, and by leat_topic_trim.  Meanwhile
 * messages are sent and received one by one.  The longest call of the server is
 * what stalls everybody; how long a message took at most stands beside it.  Of
 * three times the best counts: the machine may stall anybody by itself.
 */
#include "topic.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    ENTRIES = 1000000,
    STAY = 1000,
    STALL_US = 5000,
    GIVE_UP_S = 120,
    TIMES = 3
};

/* ---- what the server says --------------------------------------------- */

static void watch_calls(const work *w)
{
    redis_int(w->server, "CONFIG SET slowlog-log-slower-than 200");
    redis_int(w->server, "CONFIG SET slowlog-max-len 100000");
    redis_int(w->server, "SLOWLOG RESET");
}

/* Microseconds of the longest call since; at least the threshold. */
static double longest_call(const work *w)
{
    double most = 200;
    redisReply *r = redis_raw(w->server, "SLOWLOG GET 100000");
    for (size_t i = 0; r && i < r->elements; i++) {
        const redisReply *e = r->element[i];
        if (e->elements > 2 && (double)e->element[2]->integer > most)
            most = (double)e->element[2]->integer;
    }
    if (r)
        freeReplyObject(r);
    redis_int(w->server, "CONFIG SET slowlog-log-slower-than -1");
    return most;
}

/* ---- one by one ------------------------------------------------------- */

/* Send one and wait for it; milliseconds, or negative. */
static double ping(leat_topic *t, leat_source *s)
{
    leat_error e;
    leat_delivery *d;
    leat_msg m = { .body = leat_mem(bench_body, 100) };
    int64_t start = bench_now_ns();
    if (leat_topic_publish_to(t, 0, &m, NULL, NULL, &e) != LEAT_OK ||
        leat_source_receive(s, &d, 1, 10000, &e) != 1 ||
        leat_delivery_ack(d) != LEAT_OK)
        return -1;
    return (double)(bench_now_ns() - start) / 1e6;
}

/* What begins it; run beside the pings. */
typedef void *trim_fn(void *client);

static void *by_owner(void *client)
{
    leat_error e;
    leat_retention r = { .max_entries = STAY };
    if (leat_topic_alter(client, "bench", NULL, &r, &e) != LEAT_OK)
        complain(&e);
    return NULL;
}

static void *by_call(void *client)
{
    leat_error e;
    leat_trim_opts o = { .max_entries = STAY };
    if (leat_topic_trim(client, "bench", &o, NULL, &e) != LEAT_OK)
        complain(&e);
    return NULL;
}

/* Until the log is short; the worst of the pings, or negative. */
static double ping_until_short(const work *w, leat_topic *t, leat_source *s)
{
    double worst = 0;
    int64_t end = bench_now_ns() + GIVE_UP_S * INT64_C(1000000000);
    while (redis_int(w->server, "XLEN " LOG_KEY) > ENTRIES / 10) {
        double ms = ping(t, s);
        if (ms < 0 || bench_now_ns() > end)
            return -1;
        worst = ms > worst ? ms : worst;
    }
    return worst;
}

static double trim_and_ping(work *w, leat_client *c, leat_topic *t,
                            leat_source *s, trim_fn *trim)
{
    pthread_t thread;
    watch_calls(w);
    if (pthread_create(&thread, NULL, trim, c) != 0)
        return -1;
    double worst = ping_until_short(w, t, s);
    pthread_join(thread, NULL);
    return worst;
}

/* Its group begins where the log ends when the partition is its own. */
static bool owns(leat_source *s)
{
    leat_topic_source_stats v = { 0 };
    leat_delivery *d;
    leat_error e;
    for (int i = 0; i < 200 && v.partitions == 0; i++) {
        if (leat_source_receive(s, &d, 1, 50, &e) != 0)
            return false;
        leat_topic_source_stats_get(s, &v);
    }
    return v.partitions == 1;
}

/* The longest call in microseconds, and the slowest ping. */
static bool once(work *w, trim_fn *trim, double *longest, double *worst)
{
    leat_error e;
    if (!redis_flush(w->server) || !backlog(w, "bench", 1, ENTRIES))
        return false;
    leat_client *c = open_client(w);
    leat_topic *t = open_topic(c, "bench", 1);
    leat_topic_source_opts o = { .start = "end" };
    leat_source *s = t ? leat_topic_source(t, "g", &o, &e) : NULL;
    *worst = s && owns(s) && ping(t, s) >= 0 ? trim_and_ping(w, c, t, s, trim)
                                             : -1;
    *longest = longest_call(w);
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(c);
    return *worst >= 0;
}

static bool measure(work *w, const char *name, trim_fn *trim)
{
    char ping_name[64];
    double longest[TIMES], worst[TIMES];
    bool ok = true;
    if (!bench_wants(name))
        return true;
    fprintf(stderr, "%s: %d entries, %d times\n", name, ENTRIES, TIMES);
    w->payload = 100;
    for (int i = 0; ok && i < TIMES; i++)
        ok = once(w, trim, &longest[i], &worst[i]);
    if (ok) {
        snprintf(ping_name, sizeof ping_name, "%s.slowest", name);
        bench_figure(ping_name, 0, "ms", bench_quantile(worst, TIMES, 0));
    }
    return bench_count(name, "us", ok ? bench_quantile(longest, TIMES, 0) : -1,
                       NULL, 0, STALL_US);
}

bool topic_trim(work *w)
{
    bool ok = measure(w, "topic.trim.owner", by_owner);
    return ok & measure(w, "topic.trim.call", by_call);
}
