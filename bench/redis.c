/*
 * redis.c: the connection against the bare server.
 *
 * Raw is a loop that writes commands encoded beforehand and counts the lines
 * of the answers: as little as a client can do.  Ours builds every command and
 * decodes every answer.  Both keep the same number in flight, over the Unix
 * socket of one private server.
 */
#include "support/redis.h"
#include "bench.h"
#include "raw.h"

#include <leat/leat.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { XADD = 0, PING = 1, BODY = 100, ROOM = 256 };

struct work {
    redis_server *server;
    const char *socket;
    char url[256];
    int command;
    int window;
    int count;
};

static const char body[BODY + 1] =
    "0123456789012345678901234567890123456789012345678901234567890123456789"
    "012345678901234567890123456789";

/* ---- ours ------------------------------------------------------------- */

static bool send_one(leat_conn *conn, int command)
{
    if (command == PING)
        return leat_conn_send(conn, LEAT_ARGS(leat_str("PING")), NULL, NULL) ==
               LEAT_OK;
    return leat_conn_send(conn,
                          LEAT_ARGS(leat_mem("XADD", 4), leat_mem("bench", 5),
                                    leat_mem("*", 1), leat_mem("b", 1),
                                    leat_mem(body, BODY)),
                          NULL, NULL) == LEAT_OK;
}

static bool send_all(leat_client *c, const struct work *w)
{
    leat_conn *conn = leat_client_lend(c, 5000, NULL);
    bool ok = conn != NULL;
    for (int i = 0; ok && i < w->count; i++)
        ok = send_one(conn, w->command);
    ok = ok && leat_conn_drain(conn, 0, NULL) == LEAT_OK;
    leat_client_return(c, conn);
    return ok;
}

static double ours(void *arg)
{
    struct work *w = arg;
    leat_error e;
    leat_client *c = leat_client_open(
        w->url, &(leat_client_opts){ .window = w->window }, &e);
    if (!c) {
        fprintf(stderr, "%s\n", e.msg);
        return -1;
    }
    int64_t start = bench_now_ns();
    bool ok = send_all(c, w);
    double took = (double)(bench_now_ns() - start) / 1e9;
    leat_client_close(c);
    redis_int(w->server, "DEL bench");
    return ok ? w->count / took : -1;
}

/* ---- raw -------------------------------------------------------------- */

static size_t encode(char *out, int command)
{
    if (command == PING)
        return (size_t)snprintf(out, ROOM, "*1\r\n$4\r\nPING\r\n");
    return (size_t)snprintf(out, ROOM,
                            "*5\r\n$4\r\nXADD\r\n$5\r\nbench\r\n$1\r\n*\r\n"
                            "$1\r\nb\r\n$%d\r\n%s\r\n",
                            BODY, body);
}

static bool raw_all(raw *r, const struct work *w, const char *batch,
                    size_t size, int half)
{
    uint64_t per = w->command == PING ? 1 : 2; /* lines of an answer */
    for (int sent = 0; sent < w->count; sent += half)
        if (!raw_write(r, batch, size) ||
            (sent > 0 && !raw_lines(r, per * (uint64_t)half)))
            return false;
    return raw_lines(r, per * (uint64_t)half);
}

static double bare(void *arg)
{
    struct work *w = arg;
    int half = w->window / 2;
    char *batch = malloc((size_t)half * ROOM);
    size_t size = 0;
    for (int i = 0; batch && i < half; i++)
        size += encode(batch + size, w->command);

    raw *r = raw_open(w->socket);
    int64_t start = bench_now_ns();
    bool ok = r && batch && raw_all(r, w, batch, size, half);
    double took = (double)(bench_now_ns() - start) / 1e9;
    raw_close(r);
    free(batch);
    redis_int(w->server, "DEL bench");
    return ok ? w->count / took : -1;
}

/* ---- instructions ----------------------------------------------------- */

static int hiredis_xadd(const char *socket, int n)
{
    redisContext *c = redisConnectUnix(socket);
    void *r;
    const char *argv[] = { "XADD", "bench", "*", "b", body };
    const size_t len[] = { 4, 5, 1, 1, BODY };
    if (!c || c->err)
        return 1;
    for (int i = 0; i < n; i += 64) {
        for (int k = 0; k < 64; k++)
            redisAppendCommandArgv(c, 5, argv, len);
        for (int k = 0; k < 64; k++) {
            if (redisGetReply(c, &r) != REDIS_OK)
                return 1;
            freeReplyObject(r);
        }
    }
    redisFree(c);
    return 0;
}

/* What callgrind runs: its socket comes by the environment. */
static int work_main(const char *what, int n)
{
    struct work w = { .socket = getenv("BENCH_SOCKET"),
                      .window = 1024,
                      .count = n,
                      .command = strcmp(what, "ping") == 0 ? PING : XADD };
    if (!w.socket)
        return 64;
    if (strcmp(what, "hiredis") == 0)
        return hiredis_xadd(w.socket, n);
    snprintf(w.url, sizeof w.url, "unix://%s", w.socket);
    leat_client *c = leat_client_open(w.url, NULL, NULL);
    bool ok = c && send_all(c, &w);
    leat_client_close(c);
    return ok ? 0 : 1;
}

static bool instructions(const char *argv0, const char *socket)
{
    if (!bench_wants("redis.xadd.client"))
        return true;
    setenv("BENCH_SOCKET", socket, 1);
    fprintf(stderr, "redis.instructions: callgrind\n");
    double xadd = bench_instructions(argv0, "xadd", 10240);
    double hiredis = bench_instructions(argv0, "hiredis", 10240);
    return bench_count("redis.xadd.client", "instructions/cmd", xadd, "hiredis",
                       hiredis, 1700);
}

int main(int argc, char **argv)
{
    static const int windows[] = { 64, 256, 1024 };
    bool ok = true;

    if (argc == 4 && strcmp(argv[1], "--work") == 0)
        return work_main(argv[2], (int)strtol(argv[3], NULL, 10));
    bench_only(argc > 1 ? argv[1] : NULL);
    redis_server *s = redis_start(NULL);
    if (!s)
        return 69;
    struct work w = { .server = s, .socket = redis_socket(s) };
    redis_url_unix(s, w.url, sizeof w.url);
    bench_pin(redis_pid(s));
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        w.window = windows[i];
        w.count = 48 * 1024;
        w.command = XADD;
        ok &= bench_run(&(bench_pair){ "redis.xadd", "cmd/s", BODY, w.window,
                                       ours, bare, &w, 0.9, 25, false });
        w.command = PING;
        w.count = 96 * 1024;
        ok &= bench_run(&(bench_pair){ "redis.ping", "cmd/s", 0, w.window, ours,
                                       bare, &w, 0.9, 25, false });
    }
    ok &= instructions(argv[0], redis_socket(s));
    redis_stop(s);
    return ok ? 0 : 1;
}
