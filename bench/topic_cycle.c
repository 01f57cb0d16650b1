/*
 * topic_cycle.c: producing and consuming at once.
 *
 * This process produces, others consume: one member beside one bare XREADGROUP
 * and XACK (G3), and four and eight members of a group beside one (G16).
 */
#include "crew.h"

#include <stdio.h>

enum { PARTITIONS = 8 };

typedef struct cycle {
    work *w;
    crew ours, raw;
    leat_topic *topic, *other;
    raw *r;
} cycle;

static double rate(const work *w, const crew *c, int64_t before, int64_t start)
{
    int64_t end = crew_await(c, before + w->count);
    return end > start ? w->count / ((double)(end - start) / 1e9) : -1;
}

/* What is read is not kept, so that every round finds the same. */
static void trim(const work *w, const char *topic, int partitions)
{
    for (int i = 0; i < partitions; i++)
        redis_int(w->server, "XTRIM leat:{%s/%d}:log MAXLEN 0", topic, i);
}

static double members_rate(const cycle *y, leat_topic *t, const crew *c)
{
    int64_t before = c->page->settled, start = bench_now_ns();
    if (!produce(t, y->w, y->w->count))
        return -1;
    double v = rate(y->w, c, before, start);
    trim(y->w, leat_topic_name(t), (int)leat_topic_partitions(t));
    return v;
}

/* ---- one and one ------------------------------------------------------ */

static double cycle_ours(void *arg)
{
    cycle *y = arg;
    return members_rate(y, y->topic, &y->ours);
}

static double cycle_raw(void *arg)
{
    cycle *y = arg;
    int64_t before = y->raw.page->settled, start = bench_now_ns();
    if (!produce_raw(y->r, "raw", y->w))
        return -1;
    double v = rate(y->w, &y->raw, before, start);
    redis_int(y->w->server, "XTRIM raw MAXLEN 0");
    return v;
}

static bool one_and_one(work *w, int payload)
{
    cycle y = { .w = w };
    w->payload = payload;
    w->count = 40 * WINDOW;
    bool ok = crew_start(&y.ours, w, "bench", 1, 1) &&
              crew_start_raw(&y.raw, w, "raw");
    leat_client *c = open_client(w);
    y.topic = open_topic(c, "bench", 1);
    y.r = raw_open(w->socket);
    ok = ok && y.topic && y.r &&
         bench_run(&(bench_pair){ .name = "topic.cycle",
                                  .unit = "msg/s",
                                  .payload = payload,
                                  .in_flight = WINDOW,
                                  .ours = cycle_ours,
                                  .raw = cycle_raw,
                                  .arg = &y,
                                  .target = 1.2,
                                  .rounds = 11 });
    raw_close(y.r);
    leat_topic_close(y.topic);
    leat_client_close(c);
    crew_stop(&y.ours);
    crew_stop(&y.raw);
    return ok;
}

bool topic_cycle(work *w)
{
    bool ok = one_and_one(w, 100);
    redis_flush(w->server);
    return ok & one_and_one(w, 1024);
}

/* ---- several and one -------------------------------------------------- */

static double one_member(void *arg)
{
    cycle *y = arg;
    return members_rate(y, y->other, &y->raw);
}

static bool several(work *w, int n)
{
    char name[32];
    cycle y = { .w = w };
    w->payload = 100;
    w->count = 40 * WINDOW;
    snprintf(name, sizeof name, "topic.members.%d", n);
    if (!bench_wants(name))
        return true;
    bool ok = crew_start(&y.ours, w, "many", PARTITIONS, n) &&
              crew_start(&y.raw, w, "one", PARTITIONS, 1);
    leat_client *c = open_client(w);
    y.topic = open_topic(c, "many", PARTITIONS);
    y.other = open_topic(c, "one", PARTITIONS);
    ok = ok && y.topic && y.other &&
         bench_run(&(bench_pair){ .name = name,
                                  .unit = "msg/s",
                                  .payload = w->payload,
                                  .in_flight = WINDOW,
                                  .ours = cycle_ours,
                                  .raw = one_member,
                                  .arg = &y,
                                  .target = 0.9 });
    leat_topic_close(y.topic);
    leat_topic_close(y.other);
    leat_client_close(c);
    crew_stop(&y.ours);
    crew_stop(&y.raw);
    return ok;
}

bool topic_members(work *w)
{
    bool ok = several(w, 4);
    redis_flush(w->server);
    return ok & several(w, 8);
}
