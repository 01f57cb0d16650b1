/*
 * meter.c: what a queue handle counts.
 */
#include "queue/queue.h"

leat_code leat__queue_meters(leat_queue *q, leat_error *err)
{
    queue_meters *m = &q->meters;
    leat_metrics *r = q->opts.metrics;
    const leat_label l[] = { { "messaging_system", "leat" },
                             { "messaging_destination_name", q->name } };
    if (!r)
        return LEAT_OK;
    m->sent = leat_metrics_counter(r, "leat_queue_sent_messages_total",
                                   "Messages sent.", l, 2, err);
    m->received = leat_metrics_counter(r, "leat_queue_received_messages_total",
                                       "Messages received.", l, 2, err);
    m->acked = leat_metrics_counter(r, "leat_queue_acked_messages_total",
                                    "Messages acknowledged.", l, 2, err);
    m->stale = leat_metrics_counter(r, "leat_queue_stale_receipts_total",
                                    "Receipts refused as stale.", l, 2, err);
    m->requeued = leat_metrics_counter(
        r, "leat_queue_requeued_messages_total",
        "Messages that came back, as the queue counts them.", l, 2, err);
    m->dead = leat_metrics_counter(
        r, "leat_queue_dead_messages_total",
        "Messages that became dead letters, as the queue counts them.", l, 2,
        err);
    m->visible = leat_metrics_gauge(r, "leat_queue_visible_messages",
                                    "Messages to be received.", l, 2, err);
    m->in_flight = leat_metrics_gauge(r, "leat_queue_in_flight_messages",
                                      "Messages received and unsettled.", l, 2,
                                      err);
    m->delayed = leat_metrics_gauge(r, "leat_queue_delayed_messages",
                                    "Messages whose delay is not over.", l, 2,
                                    err);
    m->letters = leat_metrics_gauge(r, "leat_queue_dead_letters",
                                    "Dead letters that the queue keeps.", l, 2,
                                    err);
    m->oldest = leat_metrics_gauge(r, "leat_queue_oldest_seconds",
                                   "Age of the message that is served next.", l,
                                   2, err);
    bool all = m->sent && m->received && m->acked && m->stale && m->requeued &&
               m->dead && m->visible && m->delayed && m->in_flight &&
               m->letters && m->oldest;
    return all ? LEAT_OK : LEAT_ENOMEM;
}
