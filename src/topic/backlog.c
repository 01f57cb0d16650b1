/*
 * backlog.c: encoded messages, in blocks.
 */
#include "topic/backlog.h"
#include "base/mem.h"

#include <stdatomic.h>

enum { BLOCK = 64 * 1024, SPARES = 16, ALIGN = 16 };

/* `end` is read by who walks while the other appends.  It compares it only with
 * the end of an item it knows to be there and to be followed by another, so
 * that an older or newer value makes no difference. */
struct leat__block {
    struct leat__block *next;
    size_t cap;
    _Atomic size_t end;
    _Alignas(ALIGN) char bytes[];
};

static size_t end_of(const struct leat__block *b)
{
    return atomic_load_explicit(&b->end, memory_order_relaxed);
}

static void set_end(struct leat__block *b, size_t end)
{
    atomic_store_explicit(&b->end, end, memory_order_relaxed);
}

static size_t footprint(size_t size)
{
    return (offsetof(leat__item, bytes) + size + ALIGN - 1) &
           ~(size_t)(ALIGN - 1);
}

static struct leat__block *new_block(leat__backlog *b, size_t n,
                                     leat_error *err)
{
    struct leat__block *k = b->spare;
    if (k && n <= BLOCK) {
        b->spare = k->next;
        b->spares--;
    } else {
        size_t cap = n > BLOCK ? n : BLOCK;
        k = leat__alloc(sizeof *k + cap, err);
        if (!k)
            return NULL;
        k->cap = cap;
    }
    k->next = NULL;
    atomic_init(&k->end, 0);
    return k;
}

static void retire(leat__backlog *b, struct leat__block *k)
{
    if (k->cap != BLOCK || b->spares == SPARES) {
        leat__free(k);
        return;
    }
    k->next = b->spare;
    b->spare = k;
    b->spares++;
}

static void free_chain(struct leat__block *k)
{
    while (k) {
        struct leat__block *next = k->next;
        leat__free(k);
        k = next;
    }
}

leat_code leat__backlog_init(leat__backlog *b, leat_error *err)
{
    *b = (leat__backlog){ 0 };
    b->first = b->last = new_block(b, 0, err);
    return b->first ? LEAT_OK : LEAT_ENOMEM;
}

void leat__backlog_release(leat__backlog *b)
{
    free_chain(b->first);
    free_chain(b->spare);
    *b = (leat__backlog){ 0 };
}

leat__item *leat__backlog_room(leat__backlog *b, size_t size, leat_error *err)
{
    struct leat__block *k = b->last;
    size_t n = footprint(size);
    if (k->cap - end_of(k) < n) {
        k = new_block(b, n, err);
        if (!k)
            return NULL;
        b->last->next = k;
        b->last = k;
    }
    return (leat__item *)(void *)(k->bytes + end_of(k));
}

void leat__backlog_commit(leat__backlog *b, const leat__item *item)
{
    set_end(b->last, end_of(b->last) + footprint(item->size));
}

leat__spot leat__backlog_end(const leat__backlog *b)
{
    return (leat__spot){ b->last, end_of(b->last) };
}

void leat__backlog_cut(leat__backlog *b, leat__spot end)
{
    struct leat__block *k = end.block->next;
    while (k) {
        struct leat__block *next = k->next;
        retire(b, k);
        k = next;
    }
    end.block->next = NULL;
    b->last = end.block;
    set_end(end.block, end.at);
}

void leat__backlog_drop(leat__backlog *b, leat__spot upto)
{
    while (b->first != upto.block) {
        struct leat__block *k = b->first;
        b->first = k->next;
        retire(b, k);
    }
}

leat__item *leat__backlog_peek(leat__spot *s)
{
    while (s->at == end_of(s->block)) {
        s->block = s->block->next;
        s->at = 0;
    }
    return (leat__item *)(void *)(s->block->bytes + s->at);
}

leat__item *leat__backlog_next(leat__spot *s)
{
    leat__item *item = leat__backlog_peek(s);
    s->at += footprint(item->size);
    return item;
}
