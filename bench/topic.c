/*
 * topic.c: topics against the bare server.
 *
 * Produce: one thread publishes messages to one partition and waits for all
 * outcomes, beside a loop that writes the same XADDs, encoded beforehand, with
 * the same number in flight.  Ours makes an id and a checksum for each, encodes
 * it, reads its position and calls its callback.
 */
#include "bench.h"
#include "support/redis.h"

#include <leat/leat.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { WINDOW = 1024, MOST = 1024, ROOM = MOST + 512 };

struct work {
    redis_server *server;
    const char *socket;
    char url[256];
    int payload;
    int count;
};

static char body[MOST];

static void forget(const struct work *w)
{
    redis_int(w->server, "FLUSHALL");
}

/* ---- ours ------------------------------------------------------------- */

static void on_published(void *arg, const leat_position *at,
                         const leat_error *err)
{
    if (!err && at->ms > 0)
        ++*(int *)arg;
}

static bool publish(leat_topic *t, const struct work *w, int n)
{
    leat_error e;
    int told = 0;
    leat_msg m = { .body = leat_mem(body, (size_t)w->payload) };
    bool ok = true;
    for (int i = 0; ok && i < n; i++)
        ok = leat_topic_publish(t, &m, on_published, &told, &e) == LEAT_OK;
    ok = ok && leat_topic_flush(t, 60000, &e) == LEAT_OK;
    if (!ok)
        fprintf(stderr, "%s\n", e.msg);
    return ok && told == n;
}

/* The clock starts once a first message has made the connection. */
static double produce(leat_client *c, const struct work *w)
{
    leat_topic_opts o = { .auto_create = true, .window = WINDOW };
    leat_topic *t = c ? leat_topic_open(c, "bench", &o, NULL) : NULL;
    bool ok = t && publish(t, w, 1);
    int64_t start = bench_now_ns();
    ok = ok && publish(t, w, w->count);
    double took = (double)(bench_now_ns() - start) / 1e9;
    leat_topic_close(t);
    return ok ? w->count / took : -1;
}

static double produce_ours(void *arg)
{
    struct work *w = arg;
    leat_client *c = leat_client_open(w->url, NULL, NULL);
    double rate = produce(c, w);
    leat_client_close(c);
    forget(w);
    return rate;
}

/* ---- raw -------------------------------------------------------------- */

static int raw_connect(const char *path)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The fields that our codec makes: 32 bytes of attributes, and the body. */
static size_t encode(char *out, int payload)
{
    int n = snprintf(out, ROOM,
                     "*7\r\n$4\r\nXADD\r\n$18\r\nleat:{bench/0}:log\r\n"
                     "$1\r\n*\r\n$1\r\na\r\n$32\r\n%032d\r\n"
                     "$1\r\nb\r\n$%d\r\n",
                     7, payload);
    memcpy(out + n, body, (size_t)payload);
    memcpy(out + n + payload, "\r\n", 2);
    return (size_t)(n + payload + 2);
}

static bool write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t w = write(fd, p, n);
        if (w <= 0)
            return false;
        p += w;
        n -= (size_t)w;
    }
    return true;
}

/* An answer has two lines. */
static bool read_lines(int fd, uint64_t *lines, uint64_t until)
{
    static char in[65536];
    while (*lines < until) {
        ssize_t n = read(fd, in, sizeof in);
        if (n <= 0)
            return false;
        for (const char *p = in;
             (p = memchr(p, '\n', (size_t)(in + n - p))) != NULL; p++)
            ++*lines;
    }
    return true;
}

static bool raw_all(int fd, const struct work *w, const char *batch,
                    size_t size, int half)
{
    uint64_t lines = 0;
    int sent = 0;
    while (sent < w->count) {
        if (!write_all(fd, batch, size))
            return false;
        sent += half;
        if (!read_lines(fd, &lines, 2 * (uint64_t)(sent - half)))
            return false;
    }
    return read_lines(fd, &lines, 2 * (uint64_t)sent);
}

static double produce_raw(void *arg)
{
    struct work *w = arg;
    int half = WINDOW / 2;
    char *batch = malloc((size_t)half * ROOM);
    size_t size = 0;
    for (int i = 0; batch && i < half; i++)
        size += encode(batch + size, w->payload);

    int fd = raw_connect(w->socket);
    int64_t start = bench_now_ns();
    bool ok = fd >= 0 && batch && raw_all(fd, w, batch, size, half);
    double took = (double)(bench_now_ns() - start) / 1e9;
    if (fd >= 0)
        close(fd);
    free(batch);
    forget(w);
    return ok ? w->count / took : -1;
}

static bool bench_produce(struct work *w)
{
    static const int payloads[] = { 100, 1024 };
    bool ok = true;
    for (size_t i = 0; i < sizeof payloads / sizeof payloads[0]; i++) {
        w->payload = payloads[i];
        w->count = 48 * 1024;
        ok &= bench_run(&(bench_pair){ "topic.produce", "msg/s", w->payload,
                                       WINDOW, produce_ours, produce_raw, w,
                                       0.9, 25 });
    }
    return ok;
}

/* ---- instructions ----------------------------------------------------- */

/* What callgrind runs: its socket comes by the environment. */
static int work_main(const char *what, int n)
{
    struct work w = { .socket = getenv("BENCH_SOCKET"),
                      .payload = 100,
                      .count = n };
    if (!w.socket || strcmp(what, "produce") != 0)
        return 64;
    snprintf(w.url, sizeof w.url, "unix://%s", w.socket);
    leat_client *c = leat_client_open(w.url, NULL, NULL);
    double rate = produce(c, &w);
    leat_client_close(c);
    return rate > 0 ? 0 : 1;
}

static bool instructions(const char *argv0, const char *socket)
{
    setenv("BENCH_SOCKET", socket, 1);
    fprintf(stderr, "topic.instructions: callgrind\n");
    return bench_count("topic.produce.client", "instructions/msg",
                       bench_instructions(argv0, "produce", 10240), NULL, 0,
                       2000);
}

int main(int argc, char **argv)
{
    memset(body, 'x', sizeof body);
    if (argc == 4 && strcmp(argv[1], "--work") == 0)
        return work_main(argv[2], (int)strtol(argv[3], NULL, 10));
    redis_server *s = redis_start(NULL);
    if (!s)
        return 69;
    struct work w = { .server = s, .socket = redis_socket(s) };
    redis_url_unix(s, w.url, sizeof w.url);
    bench_pin(redis_pid(s));
    bool ok = bench_produce(&w);
    ok &= instructions(argv[0], redis_socket(s));
    redis_stop(s);
    return ok ? 0 : 1;
}
