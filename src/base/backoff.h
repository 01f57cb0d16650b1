/*
 * backoff.h: how long to wait before trying again, and how many may try.
 */
#ifndef LEAT_BASE_BACKOFF_H
#define LEAT_BASE_BACKOFF_H

#include <leat/api.h>
#include <stdatomic.h>

/* Full jitter: a random time up to a limit that doubles with each attempt, so
 * that those who failed together do not come back together.
 * Threads: confined. */
typedef struct leat__backoff {
    int64_t base_ms, cap_ms; /* at least 1             */
    unsigned attempt;        /* since the last reset   */
} leat__backoff;

/* From 1 to min(cap, base * 2^attempt); counts the attempt. */
int64_t leat__backoff_next_ms(leat__backoff *b);

/* The delays of a policy that are unset, which is 0: the first is 1 s, and they
 * are doubled up to 60 s. */
void leat__backoff_fill(int64_t *delay_ms, int64_t *max_delay_ms);

/* Any number.  It need not be secret. */
uint64_t leat__chance(void);

/* Only after a stable period: a connection that is lost at once was no
 * success. */
void leat__backoff_reset(leat__backoff *b);

/* A token bucket that hands out turns: `burst` at once, then `rate` a second,
 * each caller told when its own comes.  Threads: shared. */
typedef struct leat__budget {
    int64_t gap_ns;   /* between two turns; 0: no limit              */
    int64_t slack_ns; /* how far behind a full bucket may lag        */
    _Atomic int64_t next_ns;
} leat__budget;

/* rate 0: no limit; burst at least 1. */
void leat__budget_init(leat__budget *b, int rate, int burst);

/* Take a turn; milliseconds to wait for it, rounded up.  It is taken in any
 * case: who cannot wait so long gives it back. */
int64_t leat__budget_take(leat__budget *b, int64_t now_ns);
void leat__budget_give(leat__budget *b);

#endif
