/*
 * meter.c: what a runner counts, by OpenTelemetry's messaging names.
 */
#include "run/run.h"

static const char *const verdicts[] = {
    [LEAT__SETTLE_ACK] = "ack",          [LEAT__SETTLE_NACK] = "nack",
    [LEAT__SETTLE_REJECT] = "reject",    [LEAT__SETTLE_RELEASE] = "release",
    [LEAT__SETTLE_COMMITTED] = "commit",
};

/* By result, and where the source has one, by group. */
static leat_code by_result(run_meters *m, leat_metrics *registry,
                           const leat_source *s, leat_error *err)
{
    leat_label labels[] = {
        { "messaging_system", "leat" },
        { "messaging_destination_name", s->name },
        { "result", NULL },
        { "messaging_consumer_group_name", s->group },
    };
    size_t n = s->group ? 4 : 3;
    for (int v = 0; v <= LEAT__SETTLE_COMMITTED; v++) {
        labels[2].value = verdicts[v];
        m->settled[v] = leat_metrics_counter(
            registry, "leat_run_settled_messages_total",
            "Messages settled, by the handler's verdict.", labels, n, err);
        m->process[v] = leat_metrics_histogram(
            registry, "messaging_process_duration_seconds",
            "Time a handler took for a message.", labels, n, err);
        if (!m->settled[v] || !m->process[v])
            return LEAT_ENOMEM;
    }
    return LEAT_OK;
}

leat_code leat__meters_init(run_meters *m, leat_metrics *registry,
                            const leat_source *s, leat_error *err)
{
    const leat_label labels[] = {
        { "messaging_system", "leat" },
        { "messaging_destination_name", s->name },
    };
    *m = (run_meters){ 0 };
    if (!registry)
        return LEAT_OK;
    m->consumed = leat_metrics_counter(
        registry, "messaging_client_consumed_messages_total",
        "Messages received.", labels, 2, err);
    m->stale = leat_metrics_counter(registry, "leat_run_stale_messages_total",
                                    "Deliveries found to be no longer ours.",
                                    labels, 2, err);
    m->in_flight = leat_metrics_gauge(registry, "leat_run_in_flight",
                                      "Messages received and unsettled.",
                                      labels, 2, err);
    if (!m->consumed || !m->stale || !m->in_flight)
        return LEAT_ENOMEM;
    return by_result(m, registry, s, err);
}
