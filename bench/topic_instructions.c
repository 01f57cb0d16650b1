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
#include <sys/stat.h>
#include <sys/wait.h>
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

bool server_count_anew(const work *w)
{
    char pid[16];
    int status = 0;
    snprintf(pid, sizeof pid, "%d", redis_pid(w->server));
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(2, 1); /* stdout is the bench's */
        execlp("callgrind_control", "callgrind_control", "-z", pid,
               (char *)NULL);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* The server's instructions from its start to its end; negative: failed. */
static double server_run(server_fn *once, int n, const char *out)
{
    redis_server *s = redis_start(&(redis_opts){ .start_ms = 60000 });
    work w = { .server = s, .payload = 100 };
    if (!s)
        return -1;
    w.socket = redis_socket(s);
    redis_url_unix(s, w.url, sizeof w.url);
    bool ok = once(&w, n);
    redis_shutdown(s);
    redis_stop(s);
    double total = ok ? bench_callgrind_total(out) : -1;
    unlink(out);
    return total;
}

static double server_cost(server_fn *once, const char *out)
{
    enum { N = 5 * WINDOW };
    double one = server_run(once, N, out);
    double three = server_run(once, 3 * N, out);
    return one < 0 || three < 0 ? -1 : (three - one) / (2.0 * N);
}

double server_instructions(server_fn *once)
{
    char dir[] = "/tmp/leat-bench-XXXXXX", path[64], out[64], link[64];
    char real[4096];
    const char *given = getenv("LEAT_REDIS_SERVER");
    double cost = -1;
    snprintf(real, sizeof real, "%s", given ? given : "");
    setenv("REAL_SERVER", real, 1);
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/run", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    snprintf(link, sizeof link, "%s/redis-server", dir);
    if (write_wrapper(path, out)) {
        setenv("LEAT_REDIS_SERVER", path, 1);
        cost = server_cost(once, out);
    }
    setenv("LEAT_REDIS_SERVER", real, 1);
    unlink(path);
    unlink(link);
    rmdir(dir);
    return cost;
}

static bool server_side(void)
{
    if (!bench_wants("topic.instructions.server"))
        return true;
    return bench_count("topic.instructions.server", "instructions/msg",
                       server_instructions(topic_once), "raw",
                       server_instructions(raw_once), 0.85 * 25070);
}

bool topic_instructions(work *w)
{
    fprintf(stderr, "topic.instructions: callgrind\n");
    bool ok = client_side(w);
    return ok & server_side();
}
