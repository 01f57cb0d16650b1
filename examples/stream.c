/*
 * stream.c: put a thousand messages on a stream, each confirmed, and work them
 * off with a group.
 *
 *   cc stream.c $(pkg-config --cflags --libs leat) -o stream
 *   ./stream redis://localhost        or: ./stream embedded:
 *
 * Each message is told how it ended: added, certainly not, or unknown.  Every
 * hundredth handling fails and is tried again after 10 ms.
 */
#include <leat/leat.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { COUNT = 1000 };

struct tally {
    atomic_int added, failed, unknown;
};

/* Runs on the sink's thread. */
static void on_added(void *arg, const leat_position *at, const leat_error *err)
{
    struct tally *t = arg;
    (void)at; /* the entry's id */
    if (!err)
        t->added++;
    else if (err->code == LEAT_EUNKNOWN)
        t->unknown++;
    else
        t->failed++;
}

static leat_code publish(leat_stream *orders, leat_error *err)
{
    struct tally t = { 0 };
    leat_sink *k = leat_stream_sink(orders, NULL, err);
    leat_code rc = k ? LEAT_OK : err->code;
    for (int i = 0; i < COUNT && rc == LEAT_OK; i++) {
        char body[32];
        snprintf(body, sizeof body, "{\"order\":%d}", i);
        leat_msg m = { .type = leat_str("order.placed"),
                       .body = leat_str(body) };
        rc = leat_sink_publish(k, &m, 1, on_added, &t, err);
    }
    if (rc == LEAT_OK)
        rc = leat_sink_flush(k, 10000, err);
    leat_sink_close(k);
    printf("%d added, %d failed, %d unknown\n", t.added, t.failed, t.unknown);
    return rc;
}

struct work {
    atomic_int handled, repeated;
};

/* Runs on the runner's threads. */
static leat_verdict bill(leat_ctx *x, void *arg)
{
    struct work *w = arg;
    if (leat_delivery_redelivered(leat_ctx_delivery(x)))
        w->repeated++;
    else if (leat_delivery_position(leat_ctx_delivery(x)).seq % 100 == 99)
        return leat_ctx_nack(x, 10);
    w->handled++;
    return LEAT_ACK;
}

static leat_code consume(leat_stream *orders, leat_error *err)
{
    struct work w = { 0 };
    leat_source *q = leat_stream_source(orders, "billing", NULL, err);
    leat_run *r = leat_run_start(q, bill, &w, NULL, err);
    if (!r)
        return err->code;
    for (int i = 0; i < 10000 && w.handled < COUNT; i++)
        usleep(1000);
    leat_code rc = leat_run_stop(r, 0, err);
    printf("%d handled, %s tried again\n", w.handled,
           w.repeated > 0 ? "some" : "none");
    return rc;
}

int main(int argc, char **argv)
{
    leat_error err;
    leat_client *c = leat_client_open(argc > 1 ? argv[1] : "embedded:", NULL,
                                      &err);
    leat_stream *orders = c ? leat_stream_open(c, "example-stream", NULL, &err)
                            : NULL;
    leat_code rc = orders ? publish(orders, &err) : err.code;
    if (rc == LEAT_OK)
        rc = consume(orders, &err);
    if (rc != LEAT_OK)
        fprintf(stderr, "stream: %s\n", err.msg);
    leat_stream_close(orders);
    leat_client_close(c);
    return rc == LEAT_OK ? 0 : 1;
}
