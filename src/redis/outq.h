/*
 * outq.h: bytes waiting to be written, in blocks that never move, so that a
 * command is encoded in place and a flush is one gathered write.
 */
#ifndef LEAT_REDIS_OUTQ_H
#define LEAT_REDIS_OUTQ_H

#include "base/error.h"
#include <sys/uio.h>

typedef struct leat__outq {
    struct leat__outq_block *head, *tail; /* oldest first                  */
    struct leat__outq_block *spare;       /* one empty block is kept       */
    uint64_t queued;                      /* bytes ever put in             */
    uint64_t sent;                        /* bytes ever taken out          */
} leat__outq;

/* Room for n bytes in one piece; NULL: no memory.  Commit what was written
 * there before the next call. */
char *leat__outq_room(leat__outq *q, size_t n, leat_error *err);
void leat__outq_commit(leat__outq *q, size_t n);

/* Describe the oldest bytes in at most max pieces; returns how many. */
int leat__outq_gather(const leat__outq *q, struct iovec *v, int max);

/* The first n bytes have been written. */
void leat__outq_sent(leat__outq *q, size_t n);

void leat__outq_release(leat__outq *q);

static inline uint64_t leat__outq_left(const leat__outq *q)
{
    return q->queued - q->sent;
}

#endif
