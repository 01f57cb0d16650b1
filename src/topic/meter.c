/*
 * meter.c: what a member of a group counts.
 *
 * Labels are the topic and the group, and where asked for the member's name and
 * the partition.  By partition are the counters and what is sampled, each
 * partition's made when it first is ours; timers are not, they are large.
 */
#include "base/mem.h"
#include "base/system.h"
#include "metrics/metrics.h"
#include "topic/consumer.h"

#include <stdio.h>

enum { LABELS = 6 }; /* one of them for the result */

/* What metrics are made with. */
typedef struct maker {
    leat_metrics *registry;
    leat_label labels[LABELS];
    size_t n;
    leat_error *err;
    bool failed;
} maker;

static void label(maker *k, const char *name, const char *value)
{
    k->labels[k->n++] = (leat_label){ name, value };
}

static leat_counter *counter(maker *k, const char *name, const char *help)
{
    leat_counter *c = leat_metrics_counter(k->registry, name, help, k->labels,
                                           k->n, k->err);
    k->failed |= c == NULL;
    return c;
}

static leat_counter *by_result(maker *k, const char *name, const char *help,
                               const char *result)
{
    label(k, "result", result);
    leat_counter *c = counter(k, name, help);
    k->n--;
    return c;
}

static leat_gauge *gauge(maker *k, const char *name, const char *help)
{
    leat_gauge *g = leat_metrics_gauge(k->registry, name, help, k->labels, k->n,
                                       k->err);
    k->failed |= g == NULL;
    return g;
}

static leat_histogram *timer(maker *k, const char *name, const char *help)
{
    leat_histogram *h = leat_metrics_histogram(k->registry, name, help,
                                               k->labels, k->n, k->err);
    k->failed |= h == NULL;
    return h;
}

static maker maker_of(const consumer *c, leat_error *err)
{
    maker k = { .registry = c->opts.metrics, .err = err };
    label(&k, "messaging_system", "leat");
    label(&k, "messaging_destination_name", c->topic->name);
    label(&k, "messaging_consumer_group_name", c->group);
    if (c->opts.metric_labels & LEAT_LABEL_CONSUMER)
        label(&k, "messaging_client_id", c->name);
    return k;
}

/* ---- of partitions ---------------------------------------------------- */

static void make_settled(maker *k, part_meters *m)
{
    static const char *const results[] = {
        [LEAT__SETTLE_ACK] = "ack",          [LEAT__SETTLE_NACK] = "nack",
        [LEAT__SETTLE_REJECT] = "reject",    [LEAT__SETTLE_RELEASE] = "release",
        [LEAT__SETTLE_COMMITTED] = "commit",
    };
    static const char *const whys[] = {
        [LEAT__DEAD_REJECTED] = "rejected",
        [LEAT__DEAD_FAILED] = "failed",
        [LEAT__DEAD_DIED] = "died",
        [LEAT__DEAD_UNREADABLE] = "unreadable",
    };
    for (int i = 0; i <= LEAT__SETTLE_COMMITTED; i++)
        m->settled[i] = by_result(k, "leat_topic_settled_messages_total",
                                  "Settlements taken by the server, by result.",
                                  results[i]);
    for (int i = 0; i < LEAT__DEADS; i++)
        m->dead[i] = by_result(k, "leat_topic_dead_letters_total",
                               "Messages made dead letters, by reason.",
                               whys[i]);
}

static void make_sampled(maker *k, part_meters *m)
{
    m->sampled[LEAT__SAMPLE_MESSAGES] = gauge(
        k, "leat_topic_messages", "Entries in the logs of owned partitions.");
    m->sampled[LEAT__SAMPLE_LAG] = gauge(
        k, "leat_group_lag_messages",
        "Messages behind the cursors of owned partitions; -1: unknown.");
    m->sampled[LEAT__SAMPLE_OLDEST] = gauge(
        k, "leat_group_oldest_seconds",
        "Age of the oldest message in the log that is not settled.");
    m->sampled[LEAT__SAMPLE_WAITING] = gauge(
        k, "leat_group_waiting_messages",
        "Messages put by for another try, or behind one that is.");
    m->sampled[LEAT__SAMPLE_DEAD] = gauge(
        k, "leat_dlq_messages",
        "Dead letters of owned partitions, of all "
        "groups.");
    m->sampled[LEAT__SAMPLE_BYTES] = gauge(
        k, "leat_topic_memory_bytes",
        "Memory of the logs, dead letters and messages put by of owned "
        "partitions, estimated; -1: unknown.");
}

static void make_parts(maker *k, part_meters *m)
{
    m->consumed = counter(k, "leat_topic_consumed_messages_total",
                          "Messages handed out.");
    m->redelivered = counter(k, "leat_topic_redelivered_messages_total",
                             "Messages handed out again.");
    m->stale = counter(k, "leat_topic_stale_settlements_total",
                       "Settlements refused: the partition is another's.");
    m->undecodable = counter(k, "leat_topic_undecodable_messages_total",
                             "Entries that are no message.");
    m->losses = counter(k, "leat_group_losses_total",
                        "Times that a log was found to have lost what the "
                        "group had read.");
    m->retries = counter(k, "leat_topic_retries_total",
                         "Messages put by for another try.");
    make_settled(k, m);
    make_sampled(k, m);
}

/* Where the registry has no room for more, nothing is counted of it. */
void leat__part_meters_init(part *p)
{
    consumer *c = p->c;
    char index[16];
    p->meters = &c->meters.parts;
    if (!c->opts.metrics || !(c->opts.metric_labels & LEAT_LABEL_PARTITION))
        return;
    part_meters *m = leat__zalloc(sizeof *m, NULL);
    if (!m)
        return;
    maker k = maker_of(c, NULL);
    snprintf(index, sizeof index, "%u", p->index);
    label(&k, "messaging_destination_partition_id", index);
    make_parts(&k, m);
    if (k.failed) {
        leat__free(m);
        return;
    }
    p->meters = m;
    p->own_meters = true;
}

void leat__part_meters_release(part *p)
{
    if (p->own_meters)
        leat__free(p->meters);
}

/* ---- of the member ---------------------------------------------------- */

leat_code leat__consumer_meters_init(consumer *c, leat_error *err)
{
    consumer_meters *m = &c->meters;
    maker k = maker_of(c, err);
    if (!k.registry)
        return LEAT_OK;
    if (!(c->opts.metric_labels & LEAT_LABEL_PARTITION))
        make_parts(&k, &m->parts);
    m->rebalances = counter(&k, "leat_rebalances_total",
                            "Partitions gained, handed over or lost.");
    m->in_flight = gauge(&k, "leat_group_in_flight_messages",
                         "Messages read and unsettled.");
    m->owned = gauge(&k, "leat_lease_owned",
                     "Partitions owned by this member.");
    m->pending = gauge(&k, "leat_group_pending_messages",
                       "Messages handed out and unsettled, or put by; -1: "
                       "unknown.");
    m->settle_time = timer(&k, "leat_settle_duration_seconds",
                           "From a settlement to the server's answer.");
    m->end_to_end = timer(&k, "leat_end_to_end_seconds",
                          "From the server's time of an entry to its being "
                          "handed out.");
    return k.failed ? LEAT_ENOMEM : LEAT_OK;
}

static void count_each(leat_delivery *const *out, int n)
{
    for (int i = 0; i < n; i++) {
        const part_meters *m = ((const handed *)out[i])->part->meters;
        leat__counter_add(m->consumed, 1);
        if (out[i]->redelivered)
            leat__counter_add(m->redelivered, 1);
        if (out[i]->error)
            leat__counter_add(m->undecodable, 1);
    }
}

static void count_all(const part_meters *m, leat_delivery *const *out, int n)
{
    uint64_t again = 0, bad = 0;
    for (int i = 0; i < n; i++) {
        again += out[i]->redelivered;
        bad += out[i]->error != NULL;
    }
    leat__counter_add(m->consumed, (uint64_t)n);
    if (again)
        leat__counter_add(m->redelivered, again);
    if (bad)
        leat__counter_add(m->undecodable, bad);
}

void leat__meter_out(consumer *c, leat_delivery *const *out, int n)
{
    int64_t date = leat__date_ms();
    for (int i = 0; i < n; i++)
        leat__histogram_record(c->meters.end_to_end,
                               (date - (int64_t)out[i]->position.ms) * 1000000);
    if (c->opts.metric_labels & LEAT_LABEL_PARTITION)
        count_each(out, n);
    else
        count_all(&c->meters.parts, out, n);
}
