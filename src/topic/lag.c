/*
 * lag.c: how far this member's partitions are behind, as a gauge.
 *
 * Asked for with the heartbeat, and only where somebody measures: a server of
 * 7.0 or later tells how many entries a log ever had, the window how many of
 * them are behind the cursor.  An older server does not, and the gauge stays
 * at -1: unknown.
 */
#include "metrics/metrics.h"
#include "topic/consumer.h"

enum { ASKED_MAX = 64 }; /* partitions, with one beat */

static bool number_of(const leat_reply *facts, const char *name, int64_t *out)
{
    size_t n = leat_reply_len(facts);
    const leat_reply *at = n ? leat_reply_first(facts) : NULL;
    for (size_t i = 0; i + 1 < n; i += 2) {
        const leat_reply *value = leat_reply_next(at);
        if (leat_bytes_eq(leat_reply_bytes(at), leat_str(name))) {
            *out = leat_reply_int(value);
            return true;
        }
        at = leat_reply_next(value);
    }
    return false;
}

/* A log without an entry is no key, and no error to us. */
static void on_facts(void *arg, const leat_reply *r, const leat_error *e)
{
    part *p = arg;
    int64_t added;
    uint64_t behind;
    p->lag = -1;
    if (e)
        p->lag = e->code == LEAT_ESERVER ? 0 : -1;
    else if (p->window && leat__window_passed(p->window, &behind) &&
             number_of(r, "entries-added", &added))
        p->lag = added > (int64_t)behind ? added - (int64_t)behind : 0;
}

static void show(consumer *c)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < c->owned_count && sum >= 0; i++)
        sum = c->owned[i]->lag < 0 ? -1 : sum + c->owned[i]->lag;
    leat__gauge_set(c->meters.lag, sum);
}

void leat__lag_step(consumer *c)
{
    if (!c->meters.lag)
        return;
    show(c);
    for (uint32_t i = 0; i < c->owned_count && i < ASKED_MAX; i++) {
        part *p = c->owned[i];
        if (leat_conn_send(c->cmd,
                           LEAT_ARGS(leat_str("XINFO"), leat_str("STREAM"),
                                     leat__key_bytes(&p->log)),
                           &(leat_send_opts){ .fn = on_facts, .arg = p },
                           NULL) != LEAT_OK &&
            !c->clustered)
            return;
    }
}
