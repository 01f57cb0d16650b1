/*
 * stream.c: publisher and subscriber of a plain stream against the bare server.
 *
 * Raw writes commands encoded beforehand and does as little as a client can
 * with the answers: it counts those of XADD, and of XREADGROUP it finds the ids
 * for the XACK of the batch, which it sends with the next read, one read ahead.
 * Both sides carry the same fields, those of a native message of 100 bytes,
 * over the Unix socket of one private server.
 */
#include "bench.h"
#include "support/redis.h"

#include <leat/leat.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BODY = 100, BATCH = 100, ROOM = 512, IN = 1 << 20 };

struct work {
    redis_server *server;
    const char *socket;
    char url[256];
    int window, count;
    char add[ROOM]; /* the raw XADD */
    size_t add_size;
    size_t fields; /* bytes of an entry's fields in a reply */
};

static char body[BODY];

static const leat_msg message = {
    .body = { body, BODY },
};

/* ---- sockets ---------------------------------------------------------- */

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

/* ---- raw: publish ----------------------------------------------------- */

/* "$n\r\n", for n below 1000 */
static char *put_size(char *p, long n)
{
    *p++ = '$';
    if (n >= 100)
        *p++ = (char)('0' + n / 100);
    if (n >= 10)
        *p++ = (char)('0' + n / 10 % 10);
    *p++ = (char)('0' + n % 10);
    memcpy(p, "\r\n", 2);
    return p + 2;
}

/* One message as the codec writes it, once as a command, once measured as it
 * comes back. */
static bool encode(struct work *w)
{
    leat_fields *f = leat_fields_new(NULL);
    leat_msg m = message;
    m.id = leat_str("018f7c1e-7b2a-7c3d-8e4f-5a6b7c8d9e0f");
    m.time_ms = 1700000000000;
    if (!f ||
        leat_codec_native.encode(&leat_codec_native, &m, 1, f, NULL) != LEAT_OK)
        return false;
    size_t n = leat_fields_count(f);
    char *p = w->add;
    p += snprintf(p, ROOM, "*%zu\r\n$4\r\nXADD\r\n$5\r\nbench\r\n$1\r\n*\r\n",
                  3 + 2 * n);
    char *fields = p;
    for (size_t i = 0; i < 2 * n; i++) {
        leat_bytes b = leat_fields_pairs(f)[i];
        p = put_size(p, (long)b.n);
        memcpy(p, b.p, b.n);
        memcpy(p + b.n, "\r\n", 2);
        p += b.n + 2;
    }
    w->add_size = (size_t)(p - w->add);
    w->fields = (size_t)(p - fields) +
                (size_t)snprintf(NULL, 0, "*%zu\r\n", 2 * n);
    leat_fields_free(f);
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

static bool raw_publish_all(const struct work *w)
{
    int half = w->window / 2, sent = 0;
    uint64_t lines = 0;
    char *batch = malloc((size_t)half * w->add_size);
    int fd = raw_connect(w->socket);
    bool ok = batch && fd >= 0;
    for (int i = 0; ok && i < half; i++)
        memcpy(batch + (size_t)i * w->add_size, w->add, w->add_size);
    while (ok && sent < w->count) {
        int n = w->count - sent < half ? w->count - sent : half;
        ok = write_all(fd, batch, (size_t)n * w->add_size) &&
             read_lines(fd, &lines, 2 * (uint64_t)sent);
        sent += n;
    }
    ok = ok && read_lines(fd, &lines, 2 * (uint64_t)sent);
    if (fd >= 0)
        close(fd);
    free(batch);
    return ok;
}

static double raw_publish(void *arg)
{
    struct work *w = arg;
    int64_t start = bench_now_ns();
    bool ok = raw_publish_all(w);
    double took = (double)(bench_now_ns() - start) / 1e9;
    redis_int(w->server, "DEL bench");
    return ok ? w->count / took : -1;
}

/* ---- raw: read -------------------------------------------------------- */

struct in {
    int fd;
    char *p;
    size_t start, end;
};

static bool fill(struct in *in)
{
    if (in->start > IN / 2) {
        memmove(in->p, in->p + in->start, in->end - in->start);
        in->end -= in->start;
        in->start = 0;
    }
    ssize_t n = read(in->fd, in->p + in->end, IN - in->end);
    if (n > 0)
        in->end += (size_t)n;
    return n > 0;
}

/* The number in the next line; *ok is false when the server is gone. */
static long line(struct in *in, bool *ok)
{
    char *nl;
    while (!(nl = memchr(in->p + in->start, '\n', in->end - in->start)))
        if (!fill(in)) {
            *ok = false;
            return -1;
        }
    char *at = in->p + in->start + 1;
    bool minus = *at == '-';
    long v = 0;
    for (at += minus; *at >= '0' && *at <= '9'; at++)
        v = v * 10 + (*at - '0');
    in->start = (size_t)(nl + 1 - in->p);
    return minus ? -v : v;
}

static char *bytes(struct in *in, size_t n, bool *ok)
{
    while (*ok && in->end - in->start < n)
        *ok = fill(in);
    char *at = in->p + in->start;
    in->start += n;
    return at;
}

/* One reply of XREADGROUP; the XACK for it goes to out. */
static int read_reply(struct in *in, const struct work *w, char *out,
                      size_t *size, bool *ok)
{
    *size = 0;
    if (line(in, ok) < 0) /* *-1: nothing came */
        return 0;
    (void)line(in, ok); /* *2 */
    (void)line(in, ok); /* $5 */
    (void)bytes(in, 7, ok);
    long n = line(in, ok);
    char *p = out + snprintf(out, ROOM,
                             "*%ld\r\n$4\r\nXACK\r\n$5\r\nbench\r\n$1\r\n"
                             "g\r\n",
                             3 + n);
    for (long i = 0; *ok && i < n; i++) {
        (void)line(in, ok); /* *2 */
        long id = line(in, ok);
        p = put_size(p, id);
        char *at = bytes(in, (size_t)id + 2, ok);
        if (!*ok)
            break;
        memcpy(p, at, (size_t)id + 2);
        p += id + 2;
        (void)bytes(in, w->fields, ok);
    }
    *size = (size_t)(p - out);
    return (int)n;
}

static const char get[] = "*11\r\n$10\r\nXREADGROUP\r\n$5\r\nGROUP\r\n$1\r\n"
                          "g\r\n$1\r\nc\r\n$5\r\nCOUNT\r\n$3\r\n100\r\n"
                          "$5\r\nBLOCK\r\n$4\r\n1000\r\n$7\r\nSTREAMS\r\n"
                          "$5\r\nbench\r\n$1\r\n>\r\n";
enum { GET = sizeof get - 1 };

/* Two reads in flight; the XACK of a batch leaves with the read after next.
 * With a backlog (`reads` is how many it takes) until all is acknowledged,
 * otherwise until all has come: the last XACK would wait behind a read. */
static bool raw_loop(struct in *in, const struct work *w, char *out, int reads)
{
    bool backlog = reads > 0, ok = true;
    long got = 0, acked = 0;
    ok = write_all(in->fd, get, GET) && write_all(in->fd, get, GET);
    reads -= 2;
    while (ok && (got < w->count || (backlog && acked < w->count))) {
        size_t size;
        if (in->start == in->end && !(ok = fill(in)))
            break;
        if (in->p[in->start] == ':') {
            acked += line(in, &ok);
            continue;
        }
        got += read_reply(in, w, out, &size, &ok);
        if (backlog ? reads-- > 0 : got < w->count) {
            memcpy(out + size, get, GET);
            size += GET;
        }
        ok = ok && write_all(in->fd, out, size);
    }
    return ok;
}

static bool raw_consume_all(const struct work *w, int reads)
{
    struct in in = { .fd = raw_connect(w->socket), .p = malloc(IN) };
    char *out = malloc(BATCH * 64 + GET + 64);
    bool ok = in.fd >= 0 && in.p && out && raw_loop(&in, w, out, reads);
    if (in.fd >= 0)
        close(in.fd);
    free(in.p);
    free(out);
    return ok;
}

static void new_group(const struct work *w)
{
    redis_int(w->server, "XGROUP DESTROY bench g");
    redis_int(w->server, "XGROUP CREATE bench g 0 MKSTREAM");
}

static double raw_consume(void *arg)
{
    struct work *w = arg;
    new_group(w);
    int64_t start = bench_now_ns();
    bool ok = raw_consume_all(w, w->count / BATCH);
    double took = (double)(bench_now_ns() - start) / 1e9;
    return ok ? w->count / took : -1;
}

/* ---- ours ------------------------------------------------------------- */

static leat_client *open_client(const struct work *w)
{
    leat_error e;
    leat_client *c = leat_client_open(
        w->url, &(leat_client_opts){ .window = w->window }, &e);
    if (!c)
        fprintf(stderr, "%s\n", e.msg);
    return c;
}

static void on_confirm(void *arg, const leat_position *at,
                       const leat_error *err)
{
    int *confirmed = arg;
    (void)at;
    *confirmed += !err;
}

static bool publish_all(leat_client *c, const struct work *w, int64_t *start)
{
    int confirmed = 0;
    leat_stream *s = leat_stream_open(c, "bench", NULL, NULL);
    leat_sink *k = leat_stream_sink(
        s, &(leat_stream_sink_opts){ .window = w->window }, NULL);
    bool ok = k != NULL;
    *start = bench_now_ns();
    for (int i = 0; ok && i < w->count; i++)
        ok = leat_sink_publish(k, &message, 1, on_confirm, &confirmed, NULL) ==
             LEAT_OK;
    ok = ok && leat_sink_flush(k, 60000, NULL) == LEAT_OK;
    leat_sink_close(k);
    leat_stream_close(s);
    return ok && confirmed == w->count;
}

static double publish(void *arg)
{
    struct work *w = arg;
    int64_t start = 0;
    leat_client *c = open_client(w);
    bool ok = c && publish_all(c, w, &start);
    double took = (double)(bench_now_ns() - start) / 1e9;
    leat_client_close(c);
    redis_int(w->server, "DEL bench");
    return ok ? w->count / took : -1;
}

static bool consume_all(leat_client *c, const struct work *w, bool flush,
                        int64_t *end)
{
    leat_delivery *d[BATCH];
    leat_stream *s = leat_stream_open(c, "bench", NULL, NULL);
    leat_source *q = leat_stream_source(s, "g", NULL, NULL);
    int got = 0, n = q ? 0 : -1;
    while (n >= 0 && got < w->count) {
        n = leat_source_receive(q, d, BATCH, 5000, NULL);
        for (int i = 0; i < n; i++)
            n = leat_delivery_ack(d[i]) == LEAT_OK ? n : -1;
        got += n;
    }
    bool ok = got == w->count;
    if (flush)
        ok = ok && leat_source_flush(q, 60000, NULL) == LEAT_OK;
    *end = bench_now_ns();
    leat_source_close(q);
    leat_stream_close(s);
    return ok;
}

static double consume(void *arg)
{
    struct work *w = arg;
    int64_t end = 0;
    new_group(w);
    leat_client *c = open_client(w);
    int64_t start = bench_now_ns();
    bool ok = c && consume_all(c, w, true, &end);
    leat_client_close(c);
    return ok ? w->count / ((double)(end - start) / 1e9) : -1;
}

/* ---- both at once, in two processes ----------------------------------- */

static pid_t producer(const struct work *w, bool raw)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    if (raw)
        _exit(raw_publish_all(w) ? 0 : 1);
    int64_t start;
    leat_client *c = open_client(w);
    _exit(c && publish_all(c, w, &start) ? 0 : 1);
}

static bool succeeded(pid_t pid)
{
    int status = 0;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static double raw_cycle(void *arg)
{
    struct work *w = arg;
    redis_int(w->server, "DEL bench");
    new_group(w);
    int64_t start = bench_now_ns();
    pid_t pid = producer(w, true);
    bool ok = raw_consume_all(w, 0);
    double took = (double)(bench_now_ns() - start) / 1e9;
    return succeeded(pid) && ok ? w->count / took : -1;
}

static double cycle(void *arg)
{
    struct work *w = arg;
    int64_t end = 0;
    redis_int(w->server, "DEL bench");
    new_group(w);
    int64_t start = bench_now_ns();
    pid_t pid = producer(w, false);
    leat_client *c = open_client(w);
    bool ok = c && consume_all(c, w, false, &end);
    leat_client_close(c);
    return succeeded(pid) && ok ? w->count / ((double)(end - start) / 1e9) : -1;
}

/* ---- instructions ----------------------------------------------------- */

/* What callgrind runs: its socket comes by the environment. */
static int work_main(const char *what, int n)
{
    struct work w = { .socket = getenv("BENCH_SOCKET"),
                      .window = 1024,
                      .count = n };
    int64_t when;
    if (!w.socket)
        return 64;
    snprintf(w.url, sizeof w.url, "unix://%s", w.socket);
    leat_client *c = open_client(&w);
    bool ok = c &&
              (strcmp(what, "publish") == 0 ? publish_all(c, &w, &when)
                                            : consume_all(c, &w, true, &when));
    leat_client_close(c);
    return ok ? 0 : 1;
}

/* Bounds against regressions; the aim is 2,000 and 1,500.  What the runs of
 * publish leave is what those of consume read. */
static bool instructions(const char *argv0, struct work *w)
{
    enum { N = 10000 };
    setenv("BENCH_SOCKET", w->socket, 1);
    fprintf(stderr, "stream.instructions: callgrind\n");
    redis_int(w->server, "DEL bench");
    new_group(w);
    double out = bench_instructions(argv0, "publish", N);
    double in = bench_instructions(argv0, "consume", N);
    bool ok = bench_count("stream.publish.client", "instructions/msg", out,
                          NULL, 0, 2800);
    return bench_count("stream.consume.client", "instructions/msg", in, NULL, 0,
                       2800) &&
           ok;
}

int main(int argc, char **argv)
{
    bool ok = true;
    memset(body, 'x', sizeof body);
    if (argc == 4 && strcmp(argv[1], "--work") == 0)
        return work_main(argv[2], (int)strtol(argv[3], NULL, 10));
    redis_server *s = redis_start(NULL);
    struct work w = { .server = s, .window = 1024, .count = 48000 };
    if (!s || !encode(&w))
        return 69;
    w.socket = redis_socket(s);
    redis_url_unix(s, w.url, sizeof w.url);
    bench_pin(redis_pid(s));
    ok &= bench_run(&(bench_pair){ "stream.publish", "msg/s", BODY, w.window,
                                   publish, raw_publish, &w, 0.9, 15, false });
    ok &= raw_publish_all(&w); /* a backlog, read again and again */
    ok &= bench_run(&(bench_pair){ "stream.consume", "msg/s", BODY, 200,
                                   consume, raw_consume, &w, 0.9, 15, false });
    ok &= bench_run(&(bench_pair){ "stream.cycle", "msg/s", BODY, w.window,
                                   cycle, raw_cycle, &w, 0.85, 15, false });
    ok &= instructions(argv[0], &w);
    redis_stop(s);
    return ok ? 0 : 1;
}
