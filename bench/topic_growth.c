/*
 * topic_growth.c: the server's time for a call, small and large.
 *
 * Small is one partition of 10^4 entries and a group that is 10^3 behind; large
 * is 64 partitions with 10^6 entries and a group that is 10^5 behind.  What the
 * server says it spent on XADD, XREAD and the scripts is divided by messages.
 */
#include "topic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PASSES = 5 };

typedef struct size {
    const char *topic;
    int partitions, entries, behind; /* of one partition */
    int groups;                      /* read it in a pass */
} size;

typedef struct spent {
    double xadd, xread, save; /* microseconds a message */
} spent;

/* usec of INFO commandstats for one command. */
static double usec(const char *info, const char *command)
{
    char key[64];
    snprintf(key, sizeof key, "cmdstat_%s:", command);
    const char *p = strstr(info, key);
    p = p ? strstr(p, "usec=") : NULL;
    return p ? strtod(p + 5, NULL) : 0;
}

static bool read_stats(const work *w, int messages, spent *out)
{
    redisReply *r = redis_raw(w->server, "INFO commandstats");
    if (!r || !r->str)
        return false;
    out->xadd = usec(r->str, "xadd") / messages;
    out->xread = usec(r->str, "xread") / messages;
    out->save = usec(r->str, "evalsha") / messages;
    freeReplyObject(r);
    return true;
}

/* One group reads what it is behind. */
static bool catch_up(work *w, leat_topic *t, const size *z)
{
    char group[32], start[RAW_ID];
    int64_t began;
    int first = z->entries - z->behind - 1;
    leat_error e;
    snprintf(group, sizeof group, "g%d", ++w->round);
    snprintf(start, sizeof start, "%llu-%d",
             (unsigned long long)BACKLOG_MS + first / 100, first % 100);
    leat_topic_source_opts o = { .start = start, .max_in_flight = 8192 };
    leat_source *s = leat_topic_source(t, group, &o, &e);
    bool ok = s ? consume(s, z->behind * z->partitions, &began) : complain(&e);
    leat_source_close(s);
    return ok;
}

static bool read_pass(work *w, leat_topic *t, const size *z, spent *out)
{
    bool ok = true;
    redis_int(w->server, "CONFIG RESETSTAT");
    for (int i = 0; ok && i < z->groups; i++)
        ok = catch_up(w, t, z);
    return ok && read_stats(w, z->behind * z->partitions * z->groups, out);
}

static bool write_pass(work *w, leat_topic *t, spent *out)
{
    spent s = { 0 };
    redis_int(w->server, "CONFIG RESETSTAT");
    bool ok = produce(t, w, w->count) && read_stats(w, w->count, &s);
    out->xadd = s.xadd;
    return ok;
}

static bool pass(work *w, const size *z, spent *out)
{
    leat_client *c = open_client(w);
    leat_topic *t = open_topic(c, z->topic, z->partitions);
    bool ok = t && read_pass(w, t, z, out) && write_pass(w, t, out);
    for (int i = 0; i < z->partitions; i++) /* as it was */
        redis_int(w->server, "XTRIM leat:{%s/%d}:log MAXLEN = %d", z->topic, i,
                  z->entries);
    leat_topic_close(t);
    leat_client_close(c);
    return ok;
}

static bool report(const char *name, double *large, double *small)
{
    return bench_report(&(bench_pair){ .name = name,
                                       .unit = "us/msg",
                                       .payload = 100,
                                       .target = 1.3,
                                       .less = true },
                        large, small, PASSES);
}

bool topic_growth(work *w)
{
    static const size small = { "small", 1, 10000, 1000, 20 };
    static const size large = { "large", 64, 15625, 1562, 1 };
    double v[6][PASSES] = { { 0 } };
    spent s = { 0 };
    w->payload = 100;
    w->count = 20 * WINDOW;
    fprintf(stderr, "topic.growth: %d passes\n", PASSES);
    bool ok = backlog(w, small.topic, small.partitions, small.entries) &&
              backlog(w, large.topic, large.partitions, large.entries);
    for (int i = 0; ok && i < PASSES; i++) {
        ok = pass(w, &large, &s);
        v[0][i] = s.xadd, v[1][i] = s.xread, v[2][i] = s.save;
        ok = ok && pass(w, &small, &s);
        v[3][i] = s.xadd, v[4][i] = s.xread, v[5][i] = s.save;
    }
    ok &= report("topic.growth.xadd", v[0], v[3]);
    ok &= report("topic.growth.xread", v[1], v[4]);
    return ok & report("topic.growth.save", v[2], v[5]);
}
