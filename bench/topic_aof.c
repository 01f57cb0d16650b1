/*
 * topic_aof.c: what an append-only file costs, beside what it costs raw.
 *
 * Each side is its rate on a server with appendfsync everysec divided by its
 * rate on one without a file.  A reader of a group writes to the file for each
 * entry; a topic's reader writes one script for a hundred.
 */
#include "topic.h"

#include <stdio.h>

typedef struct aof {
    work *none;
    work file;
    bench_fn *ours, *raw;
} aof;

static double share(aof *a, bench_fn *fn)
{
    double with = fn(&a->file), without = fn(a->none);
    return with > 0 && without > 0 ? with / without : -1;
}

static double ours_share(void *arg)
{
    aof *a = arg;
    return share(a, a->ours);
}

static double raw_share(void *arg)
{
    aof *a = arg;
    return share(a, a->raw);
}

static bool produce_pair(aof *a)
{
    a->ours = produce_rate;
    a->raw = produce_raw_rate;
    return bench_run(&(bench_pair){ .name = "topic.aof.produce",
                                    .unit = "aof/none",
                                    .payload = 100,
                                    .ours = ours_share,
                                    .raw = raw_share,
                                    .arg = a,
                                    .target = 0.95,
                                    .rounds = 11 });
}

/* The second line is G2 with a file: rate against rate. */
static bool consume_pair(aof *a)
{
    a->ours = consume_rate;
    a->raw = consume_raw_rate;
    bench_pair p = { .name = "topic.aof.consume",
                     .unit = "aof/none",
                     .payload = 100,
                     .ours = ours_share,
                     .raw = raw_share,
                     .arg = a,
                     .target = 0.95,
                     .rounds = 11 };
    redis_flush(a->none->server);
    redis_flush(a->file.server);
    bool ok = backlog(a->none, "bench", 1, a->none->count) &&
              backlog(&a->file, "bench", 1, a->file.count) && bench_run(&p);
    p.name = "topic.aof.rate";
    p.unit = "msg/s";
    p.ours = consume_rate;
    p.raw = consume_raw_rate;
    p.arg = &a->file;
    p.target = 2.5;
    return ok & bench_run(&p);
}

bool topic_aof(work *w)
{
    redis_server *s = redis_start(&(redis_opts){ .aof = REDIS_AOF_EVERYSEC });
    if (!s)
        return false;
    w->payload = 100;
    w->count = 40 * WINDOW;
    aof a = { .none = w, .file = *w };
    a.file.server = s;
    a.file.socket = redis_socket(s);
    redis_url_unix(s, a.file.url, sizeof a.file.url);
    bench_pin(redis_pid(s));
    bool ok = produce_pair(&a);
    ok &= consume_pair(&a);
    redis_stop(s);
    return ok;
}
