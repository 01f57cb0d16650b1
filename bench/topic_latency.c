/*
 * topic_latency.c: from publishing in one process to receiving in another.
 *
 * At a steady rate, with the server idle in between.  Each round gives the
 * median and the 99th percentile of its messages, ours beside a bare XADD that
 * is answered and a blocked XREADGROUP.
 */
#include "crew.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 9 };

typedef struct latency {
    work *w;
    crew ours, raw;
    leat_topic *topic;
    raw *r;
    int per_second;
    double p50[2][ROUNDS], p99[2][ROUNDS];
} latency;

static bool send_ours(latency *y, char *body)
{
    leat_error e;
    leat_msg m = { .body = leat_mem(body, (size_t)y->w->payload) };
    snprintf(body, 21, "%020lld", (long long)bench_now_ns());
    return leat_topic_publish(y->topic, &m, NULL, NULL, &e) == LEAT_OK ||
           complain(&e);
}

static bool send_raw(latency *y, char *body)
{
    char out[BODY_MOST + 256];
    size_t n = 0, len[] = { 4, 3, 1, 1, 32, 1, (size_t)y->w->payload };
    const char *argv[] = { "XADD", "raw", "*", "a", body + 32, "b", body };
    snprintf(body, 21, "%020lld", (long long)bench_now_ns());
    raw_encode(out, &n, 7, argv, len);
    return raw_write(y->r, out, n) && raw_lines(y->r, 2);
}

/* One round: send at the rate and take what the consumer saw. */
static bool one_round(latency *y, bool ours, double *p50, double *p99)
{
    char body[BODY_MOST];
    crew_page *page = ours ? y->ours.page : y->raw.page;
    int64_t before = page->settled, step = 1000000000 / y->per_second;
    int64_t next = bench_now_ns();
    bool ok = true;
    memset(body, 'x', sizeof body);
    page->samples = 0;
    for (int i = 0; ok && i < y->w->count; i++, next += step) {
        struct timespec t = { next / 1000000000, next % 1000000000 };
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        ok = ours ? send_ours(y, body) : send_raw(y, body);
    }
    ok = ok && crew_await(ours ? &y->ours : &y->raw, before + y->w->count) > 0;
    int n = page->samples;
    if (!ok || n < y->w->count)
        return false;
    *p50 = bench_quantile(page->us, n, 0.5);
    *p99 = bench_quantile(page->us, n, 0.99);
    return true;
}

static bool rounds(latency *y)
{
    double unused;
    bool ok = one_round(y, true, &unused, &unused) &&
              one_round(y, false, &unused, &unused);
    for (int i = 0; ok && i < 2 * ROUNDS; i++) {
        int k = i / 2;
        bool ours = (i + k) % 2 == 0;
        ok = one_round(y, ours, &y->p50[!ours][k], &y->p99[!ours][k]);
    }
    return ok;
}

static bool report(latency *y, const char *what, double values[2][ROUNDS],
                   double target)
{
    char name[64];
    snprintf(name, sizeof name, "topic.latency.%s.%d", what, y->per_second);
    return bench_report(&(bench_pair){ .name = name,
                                       .unit = "us",
                                       .payload = y->w->payload,
                                       .target = target,
                                       .less = true },
                        values[0], values[1], ROUNDS);
}

static bool at_rate(latency *y, int per_second, int count)
{
    y->per_second = per_second;
    y->w->count = count;
    fprintf(stderr, "topic.latency: %d rounds at %d/s\n", ROUNDS, per_second);
    if (!rounds(y)) {
        memset(y->p50, 0, sizeof y->p50);
        memset(y->p99, 0, sizeof y->p99);
    }
    bool ok = report(y, "p50", y->p50, 1.15);
    return ok & report(y, "p99", y->p99, 1.5);
}

bool topic_latency(work *w)
{
    latency y = { .w = w };
    w->payload = 100;
    bool ok = crew_start(&y.ours, w, "bench", 1, 1) &&
              crew_start_raw(&y.raw, w, "raw");
    leat_client *c = open_client(w);
    y.topic = open_topic(c, "bench", 1);
    y.r = raw_open(w->socket);
    ok = ok && y.topic && y.r;
    if (ok) {
        y.ours.page->timed = y.raw.page->timed = true;
        ok = at_rate(&y, 1000, 500);
        ok &= at_rate(&y, 200, 200);
    }
    raw_close(y.r);
    leat_topic_close(y.topic);
    leat_client_close(c);
    crew_stop(&y.ours);
    crew_stop(&y.raw);
    return ok;
}
