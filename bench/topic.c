/*
 * topic.c: topics against the bare server.
 *
 *   bench-topic              everything
 *   bench-topic topic.cycle  what begins by that
 *
 * Ours and raw run in turn on one private server, over its Unix socket, with
 * the same payload and the same number in flight.
 */
#include "topic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char bench_body[BODY_MOST];

static const struct {
    const char *name;
    bool (*fn)(work *w);
} parts[] = {
    { "topic.produce", topic_produce },
    { "topic.consume", topic_consume },
    { "topic.cycle", topic_cycle },
    { "topic.latency", topic_latency },
    { "topic.members", topic_members },
    { "topic.aof", topic_aof },
    { "topic.growth", topic_growth },
    { "topic.memory", topic_memory },
    { "topic.instructions", topic_instructions },
    { "topic.policies", topic_policies },
    { "topic.waiting", topic_waiting },
    { "topic.trim", topic_trim },
};

bool complain(const leat_error *e)
{
    fprintf(stderr, "%s\n", e->msg);
    return false;
}

leat_client *open_client(const work *w)
{
    leat_error e;
    leat_client *c = leat_client_open(w->url, NULL, &e);
    if (!c)
        complain(&e);
    return c;
}

leat_topic *open_topic(leat_client *c, const char *name, int partitions)
{
    leat_error e;
    leat_topic *t = NULL;
    if (c)
        t = leat_topic_open(c, name,
                            &(leat_topic_opts){ .auto_create = true,
                                                .partitions = partitions,
                                                .window = WINDOW },
                            &e);
    if (c && !t)
        complain(&e);
    return t;
}

/* Each part finds an empty server. */
static bool run_parts(work *w)
{
    bool ok = true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!bench_wants(parts[i].name))
            continue;
        redis_flush(w->server);
        ok &= parts[i].fn(w);
    }
    return ok;
}

int main(int argc, char **argv)
{
    memset(bench_body, 'x', sizeof bench_body);
    if (argc == 4 && strcmp(argv[1], "--work") == 0)
        return topic_work_main(argv[2], (int)strtol(argv[3], NULL, 10));
    if (argc == 5 && strcmp(argv[1], "--memory") == 0)
        return topic_memory_main(argv[2], argv[3],
                                 strcmp(argv[4], "empty") == 0);
    bench_only(argc > 1 ? argv[1] : NULL);
    redis_server *s = redis_start(NULL);
    if (!s)
        return 69;
    work w = { .server = s, .socket = redis_socket(s), .argv0 = argv[0] };
    redis_url_unix(s, w.url, sizeof w.url);
    bench_pin(redis_pid(s));
    bool ok = run_parts(&w);
    redis_stop(s);
    return ok ? 0 : 1;
}
