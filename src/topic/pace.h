/*
 * pace.h: how long to wait before partitions are looked at in turn.
 *
 * Up to 64 partitions wait inside the server and are told at once.  Where a
 * member has more, it looks at them in turn.  While messages come the waits are
 * as short as can be; each one that brings nothing doubles the next, up to the
 * limit.  The first message makes them short again.
 */
#ifndef LEAT_TOPIC_PACE_H
#define LEAT_TOPIC_PACE_H

#include <stdint.h>

typedef struct leat__pace {
    int64_t least_ms, most_ms; /* most below least: always least */
    int64_t ms;                /* the next wait                  */
} leat__pace;

static inline leat__pace leat__pace_start(int64_t least_ms, int64_t most_ms)
{
    return (leat__pace){ least_ms, most_ms, least_ms };
}

static inline void leat__pace_empty(leat__pace *p)
{
    int64_t most = p->most_ms > p->least_ms ? p->most_ms : p->least_ms;
    p->ms = p->ms < most / 2 ? 2 * p->ms : most;
}

static inline void leat__pace_busy(leat__pace *p)
{
    p->ms = p->least_ms;
}

#endif
