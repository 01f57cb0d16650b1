/*
 * queue_pairs.c: sending, receiving with acknowledging, and both at once.
 *
 * Beside the leanest scripts (G7: 0.9 of them at 10 a call), the usual ones
 * (1.25) and what rsmq sends (G12: 3).
 */
#include "queue.h"

#include <pthread.h>
#include <stdio.h>

enum { COUNT = 6000 };

typedef struct pair {
    work *w;
    ours mine;
    other lean, usual;
} pair;

static bool purge(pair *p)
{
    leat_error e;
    return leat_queue_purge(p->mine.q, false, NULL, &e) == LEAT_OK ||
           complain(&e);
}

static double send_rate(void *arg)
{
    pair *p = arg;
    int64_t start = bench_now_ns();
    bool ok = ours_send(&p->mine, p->w->batch, p->w->count);
    double v = ok ? rate(p->w->count, start) : -1;
    return purge(p) ? v : -1;
}

static double send_lean_rate(void *arg)
{
    pair *p = arg;
    int64_t start = bench_now_ns();
    bool ok = other_send(&p->lean, p->w->batch, p->w->count);
    double v = ok ? rate(p->w->count, start) : -1;
    other_clear(p->w);
    return v;
}

static double take_rate(void *arg)
{
    pair *p = arg;
    if (!ours_hold(&p->mine, HELD) || !ours_send(&p->mine, MOST, p->w->count))
        return -1;
    int64_t start = bench_now_ns();
    bool ok = ours_take(&p->mine, p->w->batch, p->w->count);
    double v = ok ? rate(p->w->count, start) : -1;
    return purge(p) ? v : -1;
}

static double other_rate(pair *p, other *o)
{
    if (!other_hold(o, HELD) || !other_send(o, MOST, p->w->count))
        return -1;
    int64_t start = bench_now_ns();
    bool ok = other_take(o, p->w->batch, p->w->count);
    double v = ok ? rate(p->w->count, start) : -1;
    other_clear(p->w);
    return v;
}

static double take_lean_rate(void *arg)
{
    pair *p = arg;
    return other_rate(p, &p->lean);
}

static double take_usual_rate(void *arg)
{
    pair *p = arg;
    return other_rate(p, &p->usual);
}

/* ---- both at once ----------------------------------------------------- */

/* Who receives has a connection of its own. */
typedef enum who { OURS, THE_LEAN, THE_RSMQ } who;

typedef struct half {
    pair *p;
    other own;
    who who;
    bool ok;
} half;

static void *receive_half(void *arg)
{
    half *h = arg;
    const work *w = h->p->w;
    if (h->who == OURS)
        h->ok = ours_take(&h->p->mine, w->batch, w->count);
    else if (h->who == THE_LEAN)
        h->ok = other_take(&h->own, w->batch, w->count);
    else
        h->ok = rsmq_take(&h->own, w->count);
    return NULL;
}

static bool send_half(pair *p, who by)
{
    if (by == OURS)
        return ours_send(&p->mine, p->w->batch, p->w->count);
    return by == THE_LEAN ? other_send(&p->lean, p->w->batch, p->w->count)
                          : rsmq_send(&p->lean, p->w->count);
}

static double both(pair *p, who by)
{
    pthread_t t;
    half h = { .p = p, .who = by };
    if ((by == THE_LEAN && !other_open(&h.own, p->w, LEAN)) ||
        (by == THE_RSMQ && !rsmq_open(&h.own, p->w)))
        return -1;
    int64_t start = bench_now_ns();
    if (pthread_create(&t, NULL, receive_half, &h) != 0)
        return -1;
    bool ok = send_half(p, by);
    pthread_join(t, NULL);
    double v = ok && h.ok ? rate(p->w->count, start) : -1;
    other_close(&h.own);
    return v;
}

static double both_rate(void *arg)
{
    return both(arg, OURS);
}

static double both_lean_rate(void *arg)
{
    return both(arg, THE_LEAN);
}

static double both_rsmq_rate(void *arg)
{
    return both(arg, THE_RSMQ);
}

/* ---- the parts -------------------------------------------------------- */

static bool open_pair(pair *p, work *w)
{
    p->w = w;
    return ours_open(&p->mine, w) && other_open(&p->lean, w, LEAN) &&
           other_open(&p->usual, w, USUAL);
}

static void close_pair(pair *p)
{
    other_close(&p->usual);
    other_close(&p->lean);
    ours_close(&p->mine);
}

static bool at_batch(pair *p, int batch)
{
    const struct {
        const char *name;
        bench_fn *ours, *raw;
        double target; /* at 10 a call */
    } all[] = {
        { "send", send_rate, send_lean_rate, 0 },
        { "receive", take_rate, take_lean_rate, 0.9 },
        { "both", both_rate, both_lean_rate, 0 },
        { "usual", take_rate, take_usual_rate, 1.25 },
    };
    bool ok = true;
    p->w->batch = batch;
    p->w->count = batch == 1 ? COUNT / 4 : batch == 10 ? COUNT : 4 * COUNT;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char name[40];
        snprintf(name, sizeof name, "queue.%s.%d", all[i].name, batch);
        if (bench_wants(name))
            ok &= bench_run(
                &(bench_pair){ .name = name,
                               .unit = "msg/s",
                               .payload = BODY,
                               .in_flight = batch,
                               .ours = all[i].ours,
                               .raw = all[i].raw,
                               .arg = p,
                               .target = batch == 10 ? all[i].target : 0 });
    }
    return ok;
}

bool queue_pairs(work *w)
{
    static const int batches[] = { 1, 10, 100 };
    pair p = { 0 };
    bool ok = open_pair(&p, w);
    for (size_t i = 0; ok && i < sizeof batches / sizeof *batches; i++)
        ok = at_batch(&p, batches[i]) && ok;
    close_pair(&p);
    return ok;
}

bool queue_rsmq(work *w)
{
    pair p = { 0 };
    w->batch = 10;
    w->count = COUNT / 3;
    bool ok = open_pair(&p, w) &&
              bench_run(&(bench_pair){ .name = "queue.rsmq",
                                       .unit = "msg/s",
                                       .payload = BODY,
                                       .in_flight = w->batch,
                                       .ours = both_rate,
                                       .raw = both_rsmq_rate,
                                       .arg = &p,
                                       .target = 3 });
    close_pair(&p);
    return ok;
}
