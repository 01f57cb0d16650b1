/*
 * meter.c: what a subscriber counts, by OpenTelemetry's messaging names where
 * there are such.
 */
#include "stream/stream.h"

static leat_counter *counter(stream_source *s, const char *name,
                             const char *help, leat_error *err)
{
    const leat_label labels[] = {
        { "messaging_system", "leat" },
        { "messaging_destination_name", s->stream->name },
        { "messaging_consumer_group_name", s->group_text },
    };
    return leat_metrics_counter(s->stream->metrics, name, help, labels, 3, err);
}

static leat_gauge *gauge(stream_source *s, const char *name, const char *help,
                         leat_error *err)
{
    const leat_label labels[] = {
        { "messaging_system", "leat" },
        { "messaging_destination_name", s->stream->name },
        { "messaging_consumer_group_name", s->group_text },
    };
    return leat_metrics_gauge(s->stream->metrics, name, help, labels, 3, err);
}

leat_code leat__stream_meters(stream_source *s, leat_error *err)
{
    stream_meters *m = &s->meters;
    if (!s->stream->metrics)
        return LEAT_OK;
    m->consumed = counter(s, "messaging_client_consumed_messages_total",
                          "Messages received.", err);
    m->redelivered = counter(s, "leat_stream_redelivered_messages_total",
                             "Messages received not for the first time.", err);
    m->deleted = counter(s, "leat_stream_deleted_messages_total",
                         "Pending entries that were deleted from the stream.",
                         err);
    m->undecodable = counter(s, "leat_stream_undecodable_messages_total",
                             "Entries that are no message.", err);
    m->stale = counter(s, "leat_stream_stale_messages_total",
                       "Settlements refused: no longer ours.", err);
    m->adopted = counter(s, "leat_stream_adopted_messages_total",
                         "Entries taken over from other consumers.", err);
    m->in_flight = gauge(s, "leat_stream_in_flight",
                         "Messages read and unsettled.", err);
    if (!m->consumed || !m->redelivered || !m->deleted || !m->undecodable ||
        !m->stale || !m->adopted || !m->in_flight)
        return LEAT_ENOMEM;
    return LEAT_OK;
}
