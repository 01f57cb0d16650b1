/*
 * queue.c: queues against the bare server.
 *
 *   bench-queue               everything
 *   bench-queue queue.both    what begins by that
 *
 * Ours and the others run in turn on one private server, over its Unix socket,
 * one call at a time, with the same payload and batch.
 */
#include "queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char bench_body[BODY];

static const struct {
    const char *name[4]; /* what it prints begins by one of these */
    bool (*fn)(work *w);
} parts[] = {
    { { "queue.send", "queue.receive", "queue.both", "queue.usual" },
      queue_pairs },
    { { "queue.rsmq" }, queue_rsmq },
    { { "queue.wake" }, queue_wake },
    { { "queue.growth" }, queue_growth },
    { { "queue.instructions" }, queue_instructions },
};

bool complain(const leat_error *e)
{
    fprintf(stderr, "%s\n", e->msg);
    return false;
}

double rate(int count, int64_t start_ns)
{
    return count / ((double)(bench_now_ns() - start_ns) / 1e9);
}

void work_on(work *w, redis_server *s)
{
    w->server = s;
    w->socket = redis_socket(s);
    redis_url_unix(s, w->url, sizeof w->url);
}

/* ---- ours ------------------------------------------------------------- */

bool ours_open(ours *o, const work *w)
{
    leat_error e;
    o->c = leat_client_open(w->url, NULL, &e);
    o->q = o->c ? leat_queue_open(o->c, "bench", NULL, &e) : NULL;
    return o->q || complain(&e);
}

void ours_close(ours *o)
{
    leat_queue_close(o->q);
    leat_client_close(o->c);
}

bool ours_send(ours *o, int batch, int count)
{
    leat_error e;
    leat_msg m[MOST] = { 0 };
    for (int i = 0; i < batch; i++)
        m[i].body = leat_mem(bench_body, BODY);
    for (int i = 0; i < count; i += batch)
        if (leat_queue_send_batch(o->q, m, (size_t)batch, NULL, NULL, &e) !=
            LEAT_OK)
            return complain(&e);
    return true;
}

bool ours_hold(ours *o, int count)
{
    enum { HOLD_MS = 3600 * 1000 };
    leat_error e;
    if (count == 0)
        return true;
    if (!ours_send(o, count, count))
        return false;
    leat_queue_batch *b = leat_queue_receive(
        o->q, &(leat_receive_opts){ .max = count, .visibility_ms = HOLD_MS },
        &e);
    bool ok = b && leat_queue_batch_count(b) == (size_t)count;
    leat_queue_batch_free(b);
    return ok || complain(&e);
}

bool ours_take(ours *o, int batch, int count)
{
    leat_error e;
    leat_bytes r[MOST];
    for (int done = 0; done < count;) {
        leat_queue_batch *b = leat_queue_receive(
            o->q, &(leat_receive_opts){ .max = batch, .wait_ms = 1000 }, &e);
        size_t n = b ? leat_queue_batch_count(b) : 0;
        if (!b)
            return complain(&e);
        for (size_t i = 0; i < n; i++)
            r[i] = leat_queue_batch_at(b, i)->receipt;
        bool ok = n == 0 ||
                  leat_queue_ack_batch(o->q, r, n, NULL, &e) == LEAT_OK;
        leat_queue_batch_free(b);
        if (!ok)
            return complain(&e);
        done += (int)n;
    }
    return true;
}

/* ---- parts ------------------------------------------------------------ */

static bool wanted(size_t part)
{
    for (size_t i = 0; i < 4 && parts[part].name[i]; i++)
        if (bench_wants(parts[part].name[i]))
            return true;
    return false;
}

/* Each part finds an empty server. */
static bool run_parts(work *w)
{
    bool ok = true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!wanted(i))
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
        return queue_work_main(argv[2], (int)strtol(argv[3], NULL, 10));
    bench_only(argc > 1 ? argv[1] : NULL);
    redis_server *s = redis_start(NULL);
    if (!s)
        return 69;
    work w = { .argv0 = argv[0] };
    work_on(&w, s);
    bench_pin(redis_pid(s));
    bool ok = run_parts(&w);
    redis_stop(s);
    return ok ? 0 : 1;
}
