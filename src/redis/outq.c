/*
 * outq.c: bytes waiting to be written.
 */
#include "redis/outq.h"
#include "base/mem.h"

enum { BLOCK = 64 * 1024 };

struct leat__outq_block {
    struct leat__outq_block *next;
    size_t start, end, cap;
    char bytes[];
};

static struct leat__outq_block *new_block(leat__outq *q, size_t n,
                                          leat_error *err)
{
    struct leat__outq_block *b = q->spare;
    if (b && b->cap >= n) {
        q->spare = NULL;
    } else {
        size_t cap = n > BLOCK ? n : BLOCK;
        b = leat__alloc(sizeof *b + cap, err);
        if (!b)
            return NULL;
        b->cap = cap;
    }
    b->start = b->end = 0;
    b->next = NULL;
    if (q->tail)
        q->tail->next = b;
    else
        q->head = b;
    return q->tail = b;
}

char *leat__outq_room(leat__outq *q, size_t n, leat_error *err)
{
    struct leat__outq_block *b = q->tail;
    if (!b || b->cap - b->end < n)
        b = new_block(q, n, err);
    return b ? b->bytes + b->end : NULL;
}

void leat__outq_commit(leat__outq *q, size_t n)
{
    q->tail->end += n;
    q->queued += n;
}

int leat__outq_gather(const leat__outq *q, struct iovec *v, int max)
{
    int n = 0;
    for (struct leat__outq_block *b = q->head; b && n < max; b = b->next) {
        if (b->end > b->start)
            v[n++] = (struct iovec){ b->bytes + b->start, b->end - b->start };
    }
    return n;
}

/* A block of the usual size is kept for the next command; larger ones held a
 * large body and go. */
static void retire(leat__outq *q, struct leat__outq_block *b)
{
    if (!q->spare && b->cap == BLOCK)
        q->spare = b;
    else
        leat__free(b);
}

void leat__outq_sent(leat__outq *q, size_t n)
{
    q->sent += n;
    while (q->head) {
        struct leat__outq_block *b = q->head;
        size_t here = b->end - b->start;
        if (n < here) {
            b->start += n;
            return;
        }
        n -= here;
        q->head = b->next;
        if (!q->head)
            q->tail = NULL;
        retire(q, b);
    }
}

void leat__outq_release(leat__outq *q)
{
    while (q->head) {
        struct leat__outq_block *b = q->head;
        q->head = b->next;
        leat__free(b);
    }
    leat__free(q->spare);
    q->spare = NULL;
    q->tail = NULL;
}
