/*
 * retry.c: what becomes of a message that failed.
 *
 *   failure told  ->  attempts at the limit, or the user's function says so:
 *                     a dead letter at once
 *                 ->  else it waits: as long as the handler asked for, or as
 *                     the policy says
 *
 * The policy's delay is the same each time or doubles with every failure, up to
 * a bound, and with jitter it is any time up to that: what failed together does
 * not come back together.
 *
 * A handler that dies tells nothing.  After two deaths a message may be the
 * cause or only have been beside it, so the third try is made alone
 * (deliver.c); whoever dies then was killed by it.
 */
#include "topic/retry.h"
#include "base/backoff.h"

#include <string.h>

enum { ATTEMPTS = 5 };

static leat_code out_of_range(leat_error *err, const char *what, int64_t v,
                              int64_t low)
{
    return leat__fail(err, LEAT_EINVAL,
                      "retry.%s is %lld, it is from %lld to "
                      "%lld",
                      what, (long long)v, (long long)low,
                      (long long)LEAT__DELAY_MOST_MS);
}

leat_code leat__retry_check(const leat_retry *r, leat_error *err)
{
    if (r->max_attempts < -1)
        return leat__fail(err, LEAT_EINVAL,
                          "retry.max_attempts is %d: it is a number, 0 for "
                          "unset, or -1 for no limit",
                          r->max_attempts);
    if ((unsigned)r->backoff > LEAT_BACKOFF_FIXED)
        return leat__fail(err, LEAT_EINVAL, "retry.backoff %d is none",
                          (int)r->backoff);
    if ((unsigned)r->jitter > LEAT_NO)
        return leat__fail(err, LEAT_EINVAL,
                          "retry.jitter is %d: LEAT_YES or "
                          "LEAT_NO",
                          (int)r->jitter);
    if ((unsigned)r->re_add > LEAT_NO)
        return leat__fail(err, LEAT_EINVAL,
                          "retry.re_add is %d: LEAT_YES or "
                          "LEAT_NO",
                          (int)r->re_add);
    if (r->delay_ms < 0 || r->delay_ms > LEAT__DELAY_MOST_MS)
        return out_of_range(err, "delay_ms", r->delay_ms, 0);
    if (r->max_delay_ms < 0 || r->max_delay_ms > LEAT__DELAY_MOST_MS)
        return out_of_range(err, "max_delay_ms", r->max_delay_ms, 0);
    if (r->max_delay_ms && r->max_delay_ms < r->delay_ms)
        return out_of_range(err, "max_delay_ms", r->max_delay_ms, r->delay_ms);
    return LEAT_OK;
}

void leat__retry_fill(leat_retry *r)
{
    if (r->max_attempts == 0)
        r->max_attempts = ATTEMPTS;
    if (r->backoff == LEAT_BACKOFF_UNSET)
        r->backoff = LEAT_BACKOFF_EXPONENTIAL;
    if (r->jitter == LEAT_UNSET)
        r->jitter = LEAT_YES;
    if (r->re_add == LEAT_UNSET)
        r->re_add = LEAT_NO;
    leat__backoff_fill(&r->delay_ms, &r->max_delay_ms);
}

/* Digits only; what is no number says nothing. */
static bool number(leat_bytes text, uint32_t *out)
{
    uint64_t v = 0;
    const char *p = text.p;
    for (size_t i = 0; i < text.n; i++) {
        if (p[i] < '0' || p[i] > '9' || i >= 9)
            return false;
        v = v * 10 + (uint64_t)(p[i] - '0');
    }
    *out = (uint32_t)v;
    return text.n > 0;
}

uint32_t leat__retry_limit(const leat_retry *r, const leat_msg *m)
{
    uint32_t own;
    if (number(leat_msg_header(m, "maxRetries"), &own))
        return own + 1;
    return r->max_attempts < 0 ? UINT32_MAX : (uint32_t)r->max_attempts;
}

static int64_t by_policy(const leat_retry *r, uint32_t failures,
                         uint64_t chance)
{
    int64_t ms = r->delay_ms;
    if (r->backoff == LEAT_BACKOFF_EXPONENTIAL)
        for (uint32_t i = 1; i < failures && ms < r->max_delay_ms; i++)
            ms *= 2;
    if (ms > r->max_delay_ms)
        ms = r->max_delay_ms;
    return r->jitter == LEAT_NO ? ms : (int64_t)(chance % ((uint64_t)ms + 1));
}

int64_t leat__retry_delay(const leat_retry *r, const leat_failure *f,
                          uint32_t failures, int64_t asked_ms, uint64_t chance)
{
    if (r->fn) {
        int64_t ms = r->fn(r->arg, f);
        return ms < 0                     ? -1
               : ms < LEAT__DELAY_MOST_MS ? ms
                                          : LEAT__DELAY_MOST_MS;
    }
    if (f->attempts >= leat__retry_limit(r, f->msg))
        return -1;
    if (asked_ms >= 0)
        return asked_ms < LEAT__DELAY_MOST_MS ? asked_ms : LEAT__DELAY_MOST_MS;
    return by_policy(r, failures, chance);
}

bool leat__retry_deadly(const leat_retry *r, const leat_msg *m,
                        uint32_t attempts, uint32_t deaths)
{
    return deaths >= LEAT__DEATHS_MAX && attempts >= leat__retry_limit(r, m);
}
