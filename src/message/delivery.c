/*
 * delivery.c: reading a delivery, and its way back to the source.
 */
#include "message/delivery.h"
#include "base/system.h"
#include "message/source.h"

#include <assert.h>

const leat_msg *leat_delivery_msg(const leat_delivery *d)
{
    return &d->msg;
}

leat_position leat_delivery_position(const leat_delivery *d)
{
    return d->position;
}

leat_bytes leat_delivery_from(const leat_delivery *d)
{
    return d->from;
}

uint32_t leat_delivery_attempt(const leat_delivery *d)
{
    return d->attempt;
}

bool leat_delivery_redelivered(const leat_delivery *d)
{
    return d->redelivered;
}

leat_bytes leat_delivery_replayed_from(const leat_delivery *d)
{
    return d->replayed;
}

int32_t leat_delivery_partition(const leat_delivery *d)
{
    return (int32_t)d->partition - 1;
}

uint64_t leat_delivery_fence(const leat_delivery *d)
{
    return d->fence;
}

int64_t leat_delivery_left_ms(const leat_delivery *d)
{
    int64_t deadline = atomic_load_explicit(&d->deadline_ns,
                                            memory_order_relaxed);
    return deadline == INT64_MAX ? -1 : leat__left_ms(deadline);
}

const leat_error *leat_delivery_error(const leat_delivery *d)
{
    return d->error;
}

leat_code leat__delivery_settle(leat_delivery *d, const leat__settlement *how)
{
    if (atomic_exchange_explicit(&d->settled, true, memory_order_acq_rel))
        return LEAT_ESTALE;
    d->source->ops->settle(d->source, d, how);
    return LEAT_OK;
}

void leat__delivery_keep(leat_delivery *d)
{
    atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
}

void leat__delivery_drop(leat_delivery *d)
{
    unsigned had = atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel);
    assert(had > 0);
    if (had == 1)
        d->source->ops->recycle(d->source, d);
}

leat_code leat_delivery_ack(leat_delivery *d)
{
    static const leat__settlement ack = { .verdict = LEAT__SETTLE_ACK };
    return leat__delivery_settle(d, &ack);
}

leat_code leat_delivery_nack(leat_delivery *d, int64_t delay_ms)
{
    if (delay_ms < 0)
        return LEAT_EINVAL;
    return leat__delivery_settle(
        d, &(leat__settlement){ .verdict = LEAT__SETTLE_NACK,
                                .delay_ms = delay_ms });
}

leat_code leat_delivery_fail(leat_delivery *d, const char *reason)
{
    return leat__delivery_settle(
        d, &(leat__settlement){ .verdict = LEAT__SETTLE_NACK,
                                .by_policy = true,
                                .reason = reason });
}

leat_code leat_delivery_reject(leat_delivery *d, const char *reason)
{
    return leat__delivery_settle(
        d, &(leat__settlement){ .verdict = LEAT__SETTLE_REJECT,
                                .reason = reason });
}

leat_code leat_delivery_extend(leat_delivery *d, int64_t ms, leat_error *err)
{
    leat_code outcome = LEAT_OK;
    if (ms <= 0)
        return leat__fail(err, LEAT_EINVAL,
                          "extend by %lld ms: at least 1 is needed",
                          (long long)ms);
    leat_code rc = leat__source_extend(d->source, &d, 1, ms, &outcome, err);
    if (rc != LEAT_OK)
        return rc;
    if (outcome == LEAT_ESTALE)
        return leat__fail(err, LEAT_ESTALE,
                          "extend: the delivery is no longer ours");
    if (outcome != LEAT_OK)
        return leat__fail(err, outcome, "extend: %s", leat_code_text(outcome));
    return LEAT_OK;
}

int leat__position_cmp(leat_position a, leat_position b)
{
    if (a.ms != b.ms)
        return a.ms < b.ms ? -1 : 1;
    if (a.seq != b.seq)
        return a.seq < b.seq ? -1 : 1;
    return (a.index > b.index) - (a.index < b.index);
}
