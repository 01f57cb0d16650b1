/*
 * retry.h: what becomes of a message that failed.
 *
 * Pure but for a retry function of the user's own.
 */
#ifndef LEAT_TOPIC_RETRY_H
#define LEAT_TOPIC_RETRY_H

#include "base/error.h"
#include <leat/topic.h>

enum { LEAT__DEATHS_MAX = 3 }; /* then nobody dies of it any more */

#define LEAT__DELAY_MOST_MS                                                    \
    (INT64_C(3650) * 86400000) /* ten years are enough */

/* LEAT_EINVAL, saying what is out of range; and the defaults for what is
 * unset. */
leat_code leat__retry_check(const leat_retry *r, leat_error *err);
void leat__retry_fill(leat_retry *r);

/* How often a message may be handed out: its own header maxRetries, or what the
 * policy says; UINT32_MAX: without limit. */
uint32_t leat__retry_limit(const leat_retry *r, const leat_msg *m);

/* Told of a failure, the failures-th of this message: milliseconds until the
 * next try, or -1: a dead letter.  asked_ms is what the handler wants, or
 * negative where it leaves that to the policy; chance is any number. */
int64_t leat__retry_delay(const leat_retry *r, const leat_failure *f,
                          uint32_t failures, int64_t asked_ms, uint64_t chance);

/* Handed out so often and not heard of so often: is that enough? */
bool leat__retry_deadly(const leat_retry *r, const leat_msg *m,
                        uint32_t attempts, uint32_t deaths);

#endif
