/*
 * topic_produce.c: publishing.
 *
 * One thread publishes messages to one partition and waits for all outcomes,
 * beside a loop that writes the same XADDs, encoded beforehand, with the same
 * number in flight.  Ours makes an id and a checksum for each, encodes it,
 * reads its position and calls its callback.
 */
#include "topic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = BODY_MOST + 512, HALF = WINDOW / 2 };

static void on_published(void *arg, const leat_position *at,
                         const leat_error *err)
{
    if (!err && at->ms > 0)
        ++*(int *)arg;
}

bool produce(leat_topic *t, const work *w, int n)
{
    leat_error e;
    int told = 0;
    leat_msg m = { .body = leat_mem(bench_body, (size_t)w->payload) };
    leat_code rc = LEAT_OK;
    for (int i = 0; rc == LEAT_OK && i < n; i++)
        rc = leat_topic_publish(t, &m, on_published, &told, &e);
    if (rc == LEAT_OK)
        rc = leat_topic_flush(t, 60000, &e);
    return rc == LEAT_OK ? told == n : complain(&e);
}

/* The clock starts once a first message has made the connection. */
double produce_rate(void *arg)
{
    work *w = arg;
    leat_client *c = open_client(w);
    leat_topic *t = open_topic(c, "bench", 1);
    bool ok = t && produce(t, w, 1);
    int64_t start = bench_now_ns();
    ok = ok && produce(t, w, w->count);
    double took = (double)(bench_now_ns() - start) / 1e9;
    leat_topic_close(t);
    leat_client_close(c);
    redis_flush(w->server);
    return ok ? w->count / took : -1;
}

/* ---- raw -------------------------------------------------------------- */

/* The fields that our codec makes: 32 bytes of attributes, and the body. */
static void encode(char *out, size_t *n, const char *key, int payload)
{
    char attributes[33];
    const char *argv[] = { "XADD", key, "*", "a", attributes, "b", bench_body };
    size_t len[] = { 4, strlen(key), 1, 1, 32, 1, (size_t)payload };
    snprintf(attributes, sizeof attributes, "%032d", 7);
    raw_encode(out, n, 7, argv, len);
}

bool produce_raw(raw *r, const char *key, const work *w)
{
    char *batch = malloc((size_t)HALF * ROOM);
    size_t size = 0;
    for (int i = 0; batch && i < HALF; i++)
        encode(batch, &size, key, w->payload);
    bool ok = batch != NULL;
    for (int sent = 0; ok && sent < w->count; sent += HALF)
        ok = raw_write(r, batch, size) &&
             (sent == 0 || raw_lines(r, 2 * (uint64_t)HALF));
    free(batch);
    return ok && raw_lines(r, 2 * (uint64_t)HALF);
}

double produce_raw_rate(void *arg)
{
    work *w = arg;
    raw *r = raw_open(w->socket);
    int64_t start = bench_now_ns();
    bool ok = r && produce_raw(r, LOG_KEY, w);
    double took = (double)(bench_now_ns() - start) / 1e9;
    raw_close(r);
    redis_flush(w->server);
    return ok ? w->count / took : -1;
}

bool topic_produce(work *w)
{
    static const int payloads[] = { 100, 1024 };
    bool ok = true;
    for (size_t i = 0; i < sizeof payloads / sizeof payloads[0]; i++) {
        w->payload = payloads[i];
        w->count = 48 * 1024;
        ok &= bench_run(&(bench_pair){ .name = "topic.produce",
                                       .unit = "msg/s",
                                       .payload = w->payload,
                                       .in_flight = WINDOW,
                                       .ours = produce_rate,
                                       .raw = produce_raw_rate,
                                       .arg = w,
                                       .target = 0.9,
                                       .rounds = 25 });
    }
    return ok;
}
