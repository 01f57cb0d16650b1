/*
 * sample.c: what gauges say of this member's partitions: how long, how old and
 * how large they are, and how far the group is behind.
 *
 * Asked for with the heartbeat, and only where somebody measures: one script a
 * partition, for ASKED_MAX of them at most every EVERY_NS.  Of more partitions
 * the gauges are the older the more there are.
 *
 * The lag is what a log ever had without what is behind the cursor, which the
 * window counts.  A server before 7.0 does not tell how many entries a log ever
 * had, and the lag is -1: unknown.  The sum over partitions is unknown where
 * one of them is.
 */
#include "metrics/metrics.h"
#include "topic/consumer.h"

#include <string.h>

enum { ASKED_MAX = 64, SECOND_MS = 1000 };
#define EVERY_NS INT64_C(2000000000)

/* ---- showing ---------------------------------------------------------- */

static void set(const part_meters *m, int what, int64_t v)
{
    if (what == LEAT__SAMPLE_OLDEST && v > 0)
        v /= SECOND_MS;
    leat__gauge_set(m->sampled[what], v);
}

/* The oldest of all, and of the rest the sum. */
static int64_t total(const consumer *c, int what)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < c->owned_count; i++) {
        int64_t v = c->owned[i]->sampled[what];
        if (v < 0)
            return -1;
        if (what != LEAT__SAMPLE_OLDEST)
            sum += v;
        else if (v > sum)
            sum = v;
    }
    return sum;
}

/* Handed out and not settled: by the windows, and by what was put by. */
static int64_t pending(const consumer *c)
{
    int64_t sum = total(c, LEAT__SAMPLE_WAITING);
    for (uint32_t i = 0; i < c->owned_count && sum >= 0; i++)
        if (c->owned[i]->window)
            sum += leat__window_out(c->owned[i]->window) - c->owned[i]->claimed;
    return sum;
}

static void show(consumer *c)
{
    bool apart = c->opts.metric_labels & LEAT_LABEL_PARTITION;
    for (int k = 0; k < LEAT__SAMPLES && !apart; k++)
        set(&c->meters.parts, k, total(c, k));
    leat__gauge_set(c->meters.pending, pending(c));
}

void leat__sample_forget(part *p)
{
    for (int k = 0; k < LEAT__SAMPLES && p->own_meters; k++)
        set(p->meters, k, 0);
}

void leat__sample_end(consumer *c)
{
    for (uint32_t i = 0; c->parts && i < c->partitions; i++)
        if (c->parts[i])
            leat__sample_forget(c->parts[i]);
    for (int k = 0; k < LEAT__SAMPLES; k++)
        set(&c->meters.parts, k, 0);
    leat__gauge_set(c->meters.pending, 0);
    leat__gauge_set(c->meters.owned, 0);
    leat__gauge_set(c->meters.in_flight, 0);
}

/* ---- asking ----------------------------------------------------------- */

static int64_t lag(const part *p, int64_t added)
{
    uint64_t behind;
    if (added < 0 || !leat__window_passed(p->window, &behind))
        return -1;
    return added > (int64_t)behind ? added - (int64_t)behind : 0;
}

/* {length, added, age, kept, dead, bytes} */
static void take_in(part *p, const leat_reply *r)
{
    int64_t v[6];
    leat_reply_iter it = leat_reply_each(r);
    for (size_t i = 0; i < 6; i++)
        v[i] = leat_reply_int(leat_reply_step(&it));
    p->sampled[LEAT__SAMPLE_MESSAGES] = v[0];
    p->sampled[LEAT__SAMPLE_LAG] = lag(p, v[1]);
    p->sampled[LEAT__SAMPLE_OLDEST] = v[2];
    p->sampled[LEAT__SAMPLE_WAITING] = v[3];
    p->sampled[LEAT__SAMPLE_DEAD] = v[4];
    p->sampled[LEAT__SAMPLE_BYTES] = v[5];
    for (int k = 0; k < LEAT__SAMPLES && p->own_meters; k++)
        set(p->meters, k, p->sampled[k]);
}

/* What was known before stays where there is no answer. */
static void on_sample(void *arg, const leat_reply *r, const leat_error *e)
{
    part *p = arg;
    consumer *c = p->c;
    leat_error odd;
    c->sampling--;
    e = leat__reply_odd(r, e, "[iiiiii]", "a sample", &odd);
    if (e == &odd)
        leat__drive_failed(c, e, "measuring a partition");
    if (!e && p->window && !p->gone && p->sample_epoch == leat__part_epoch(p))
        take_in(p, r);
    if (c->sampling == 0)
        show(c);
}

static leat__id after(leat__id id)
{
    if (id.seq == UINT64_MAX)
        return (leat__id){ id.ms + 1, 0 };
    return (leat__id){ id.ms, id.seq + 1 };
}

static leat_code ask(part *p)
{
    consumer *c = p->c;
    char id[LEAT__ID_TEXT];
    const leat_bytes keys[] = { leat__key_bytes(&p->log),
                                leat__key_bytes(&p->kept_key),
                                leat__key_bytes(&p->dlq_key),
                                leat__key_bytes(&p->bodies_key) };
    const leat_bytes from = leat__id_format(
        after(leat__window_cursor(p->window)), id);
    p->sample_epoch = leat__part_epoch(p);
    c->sampling++; /* before: the answer may be there at once */
    leat_code rc = leat__script_send(
        c->cmd, &leat__script_topic_sample, keys, 4, &from, 1,
        &(leat_send_opts){ .fn = on_sample, .arg = p }, NULL);
    if (rc != LEAT_OK)
        c->sampling--;
    return rc;
}

void leat__sample_step(consumer *c, int64_t now_ns)
{
    if (!c->meters.owned)
        return;
    show(c);
    if (now_ns < c->sample_ns || c->sampling > 0)
        return;
    c->sample_ns = now_ns + EVERY_NS;
    uint32_t n = c->owned_count < ASKED_MAX ? c->owned_count : ASKED_MAX;
    for (uint32_t i = 0; i < n; i++) {
        part *p = c->owned[c->sample_turn++ % c->owned_count];
        if (!p->gone && p->window && ask(p) != LEAT_OK && !c->clustered)
            return;
    }
}
