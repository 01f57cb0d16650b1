/*
 * topic_instructions.c: what a message costs, counted by callgrind.
 *
 * The client's side: this program runs itself with --work.  The server's: the
 * server runs under callgrind.  Each is the difference of two runs of different
 * length, so that what is done once does not count.
 */
#include "topic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGES = 10200 };

/* ---- the client's side ------------------------------------------------ */

/* What callgrind runs: its socket comes by the environment. */
int topic_work_main(const char *what, int n)
{
    int64_t start;
    char group[32];
    leat_error e;
    work w = { .socket = getenv("BENCH_SOCKET"), .payload = 100, .count = n };
    if (!w.socket)
        return 64;
    snprintf(w.url, sizeof w.url, "unix://%s", w.socket);
    snprintf(group, sizeof group, "work%d", (int)getpid());
    leat_client *c = open_client(&w);
    leat_topic *t = open_topic(c, "bench", 1);
    bool ok = t != NULL;
    if (ok && strcmp(what, "produce") == 0) {
        ok = produce(t, &w, n);
    } else if (ok &&
               (strcmp(what, "retry") == 0 || strcmp(what, "dead") == 0)) {
        ok = policies_work(t, group, what, n);
    } else if (ok) {
        if (strcmp(what, "waiting") == 0)
            ok = waiting_fill(&w, group);
        leat_source *s = leat_topic_source(t, group, NULL, &e);
        ok = ok && (s ? consume(s, n, &start) : complain(&e));
        leat_source_close(s);
    }
    leat_topic_close(t);
    leat_client_close(c);
    return ok ? 0 : 1;
}

static bool client_side(work *w)
{
    bool ok = true;
    setenv("BENCH_SOCKET", w->socket, 1);
    w->payload = 100;
    if (bench_wants("topic.instructions.produce"))
        ok &= bench_count("topic.instructions.produce", "instructions/msg",
                          bench_instructions(w->argv0, "produce", MESSAGES),
                          NULL, 0, 2000);
    if (bench_wants("topic.instructions.consume"))
        ok &= redis_flush(w->server) && backlog(w, "bench", 1, 3 * MESSAGES) &&
              bench_count("topic.instructions.consume", "instructions/msg",
                          bench_instructions(w->argv0, "consume", MESSAGES),
                          NULL, 0, 1500);
    return ok;
}

/* ---- the server's side ------------------------------------------------ */

/* Produce n, then consume them. */
static bool topic_once(work *w, int n)
{
    int64_t start;
    leat_error e;
    leat_client *c = open_client(w);
    leat_topic *t = open_topic(c, "bench", 1);
    bool ok = t && produce(t, w, n);
    leat_source *s = ok ? leat_topic_source(t, "g", NULL, &e) : NULL;
    ok = s && consume(s, n, &start);
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(c);
    return ok;
}

static bool raw_once(work *w, int n)
{
    w->count = n;
    redis_int(w->server, "XGROUP CREATE " LOG_KEY " r1 $ MKSTREAM");
    raw *r = raw_open(w->socket);
    bool ok = r && produce_raw(r, LOG_KEY, w);
    raw_close(r);
    w->round = 0;
    return ok && consume_raw_rate(w) > 0;
}

/* What a topic's work is given, of the server that is counted. */
static bool as_topic(redis_server *server, void *arg, int n)
{
    topic_fn *const *once = arg;
    work w = { .server = server,
               .payload = 100,
               .socket = redis_socket(server) };
    redis_url_unix(server, w.url, sizeof w.url);
    return (*once)(&w, n);
}

double topic_server_cost(topic_fn *once)
{
    return server_instructions(as_topic, &once, 5 * WINDOW);
}

static bool server_side(void)
{
    if (!bench_wants("topic.instructions.server"))
        return true;
    return bench_count("topic.instructions.server", "instructions/msg",
                       topic_server_cost(topic_once), "raw",
                       topic_server_cost(raw_once), 0.85 * 25070);
}

bool topic_instructions(work *w)
{
    fprintf(stderr, "topic.instructions: callgrind\n");
    bool ok = client_side(w);
    return ok & server_side();
}
