/*
 * meter.c: what a member of a group counts.
 */
#include "topic/consumer.h"

static leat_counter *counter(leat_metrics *m, const char *name,
                             const char *help, const leat_label *labels,
                             leat_error *err)
{
    return leat_metrics_counter(m, name, help, labels, 3, err);
}

leat_code leat__consumer_meters_init(consumer_meters *m, leat_metrics *r,
                                     const char *topic, const char *group,
                                     leat_error *err)
{
    const leat_label l[] = {
        { "messaging_system", "leat" },
        { "messaging_destination_name", topic },
        { "messaging_consumer_group_name", group },
    };
    if (!r)
        return LEAT_OK;
    m->consumed = counter(r, "leat_topic_consumed_messages_total",
                          "Messages handed out.", l, err);
    m->redelivered = counter(r, "leat_topic_redelivered_messages_total",
                             "Messages handed out again.", l, err);
    m->settled = counter(r, "leat_topic_settled_messages_total",
                         "Settlements taken by the server.", l, err);
    m->rejected = counter(r, "leat_topic_rejected_messages_total",
                          "Messages rejected.", l, err);
    m->stale = counter(r, "leat_topic_stale_settlements_total",
                       "Settlements refused: the partition is another's.", l,
                       err);
    m->undecodable = counter(r, "leat_topic_undecodable_messages_total",
                             "Entries that are no message.", l, err);
    m->rebalances = counter(r, "leat_rebalances_total",
                            "Partitions gained, handed over or lost.", l, err);
    m->losses = counter(r, "leat_group_losses_total",
                        "Times that a log was found to have lost what the "
                        "group had read.",
                        l, err);
    m->retries = counter(r, "leat_topic_retries_total",
                         "Messages put by for another try.", l, err);
    m->dead = counter(r, "leat_topic_dead_letters_total",
                      "Messages made dead letters.", l, err);
    m->in_flight = leat_metrics_gauge(r, "leat_group_in_flight_messages",
                                      "Messages read and unsettled.", l, 3,
                                      err);
    m->owned = leat_metrics_gauge(
        r, "leat_lease_owned", "Partitions owned by this member.", l, 3, err);
    m->lag = leat_metrics_gauge(r, "leat_group_lag_messages",
                                "Messages behind the cursors of the "
                                "partitions owned by this member.",
                                l, 3, err);
    m->settle_time = leat_metrics_histogram(
        r, "leat_settle_duration_seconds",
        "From a settlement to the server's answer.", l, 3, err);
    m->end_to_end = leat_metrics_histogram(
        r, "leat_end_to_end_seconds",
        "From the server's time of an entry to its being handed out.", l, 3,
        err);
    bool all = m->consumed && m->redelivered && m->settled && m->rejected &&
               m->stale && m->undecodable && m->rebalances && m->losses &&
               m->retries && m->dead &&
               m->in_flight && m->owned && m->lag && m->settle_time &&
               m->end_to_end;
    return all ? LEAT_OK : LEAT_ENOMEM;
}
