/*
 * backoff.c: waiting before trying again.
 */
#include "base/backoff.h"
#include "base/system.h"

/* A jitter need not be secret: where the system has no randomness, the clock
 * will do. */
uint64_t leat__chance(void)
{
    uint64_t v;
    if (leat__random(&v, sizeof v, NULL) != LEAT_OK)
        v = (uint64_t)leat__now_ns() * UINT64_C(0x9e3779b97f4a7c15) >> 16;
    return v;
}

static int64_t limit(const leat__backoff *b)
{
    int64_t ms = b->base_ms > 0 ? b->base_ms : 1;
    int64_t cap = b->cap_ms > 0 ? b->cap_ms : 1;
    for (unsigned i = 0; i < b->attempt && ms < cap; i++)
        ms = ms > cap / 2 ? cap : ms * 2;
    return ms < cap ? ms : cap;
}

int64_t leat__backoff_next_ms(leat__backoff *b)
{
    int64_t max = limit(b);
    if (b->attempt < 64)
        b->attempt++;
    int64_t ms = (int64_t)(leat__chance() % ((uint64_t)max + 1));
    return ms > 0 ? ms : 1;
}

void leat__backoff_fill(int64_t *delay_ms, int64_t *max_delay_ms)
{
    enum { DELAY_MS = 1000, DELAY_MAX_MS = 60 * 1000 };
    const int64_t delay = *delay_ms, most = *max_delay_ms;
    if (delay == 0)
        *delay_ms = most && most < DELAY_MS ? most : DELAY_MS;
    if (most == 0)
        *max_delay_ms = delay > DELAY_MAX_MS ? delay : DELAY_MAX_MS;
}

void leat__backoff_reset(leat__backoff *b)
{
    b->attempt = 0;
}

void leat__budget_init(leat__budget *b, int rate, int burst)
{
    b->gap_ns = rate > 0 ? 1000000000 / rate : 0;
    b->slack_ns = b->gap_ns * ((burst > 0 ? burst : 1) - 1);
    atomic_init(&b->next_ns, INT64_MIN);
}

/* next_ns is when the next turn is due were there no burst.  A turn may be
 * taken slack_ns before it is due; an unused past does not pile up. */
int64_t leat__budget_take(leat__budget *b, int64_t now_ns)
{
    int64_t due = atomic_load_explicit(&b->next_ns, memory_order_relaxed), mine;
    if (b->gap_ns == 0)
        return 0;
    do
        mine = due > now_ns ? due : now_ns;
    while (!atomic_compare_exchange_weak_explicit(
        &b->next_ns, &due, mine + b->gap_ns, memory_order_relaxed,
        memory_order_relaxed));
    int64_t wait = mine - b->slack_ns - now_ns;
    return wait <= 0 ? 0 : (wait + 999999) / 1000000;
}

/* Those behind it keep the times they were told; the next one comes sooner. */
void leat__budget_give(leat__budget *b)
{
    atomic_fetch_sub_explicit(&b->next_ns, b->gap_ns, memory_order_relaxed);
}
