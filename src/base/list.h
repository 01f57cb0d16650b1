/*
 * list.h: a doubly linked list whose links live in what is listed.
 *
 *   struct job { leat__link link; int n; };
 *   leat__list jobs;
 *   leat__list_init(&jobs);
 *   leat__list_push(&jobs, &job->link);
 *   struct job *first = LEAT__ITEM(leat__list_first(&jobs), struct job, link);
 *
 * A link is in one list or in none.  Threads: confined.
 */
#ifndef LEAT_BASE_LIST_H
#define LEAT_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct leat__link {
    struct leat__link *next, *prev; /* NULL: in no list */
} leat__link;

/* A ring through its own head. */
typedef struct leat__list {
    leat__link head;
} leat__list;

/* The struct around a member.  The link must not be NULL. */
#define LEAT__ITEM(link, type, member)                                         \
    ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* The item may be unlinked or freed inside the loop. */
#define LEAT__LIST_EACH(l, at)                                                 \
    for (leat__link *at = (l)->head.next, *at##_next = at->next;               \
         at != &(l)->head; at = at##_next, at##_next = at->next)

static inline void leat__list_init(leat__list *l)
{
    l->head.next = l->head.prev = &l->head;
}

static inline bool leat__list_empty(const leat__list *l)
{
    return l->head.next == &l->head;
}

static inline bool leat__link_linked(const leat__link *k)
{
    return k->next != NULL;
}

static inline void leat__link_insert_before(leat__link *at, leat__link *k)
{
    k->next = at;
    k->prev = at->prev;
    at->prev->next = k;
    at->prev = k;
}

/* At the end; at the front. */
static inline void leat__list_push(leat__list *l, leat__link *k)
{
    leat__link_insert_before(&l->head, k);
}

static inline void leat__list_push_front(leat__list *l, leat__link *k)
{
    leat__link_insert_before(l->head.next, k);
}

/* Does nothing to a link in no list, provided it was zeroed. */
static inline void leat__link_remove(leat__link *k)
{
    if (!k->next)
        return;
    k->prev->next = k->next;
    k->next->prev = k->prev;
    k->next = k->prev = NULL;
}

/* NULL when empty. */
static inline leat__link *leat__list_first(const leat__list *l)
{
    return leat__list_empty(l) ? NULL : l->head.next;
}

static inline leat__link *leat__list_last(const leat__list *l)
{
    return leat__list_empty(l) ? NULL : l->head.prev;
}

/* Unlink the first and return it; NULL when empty. */
static inline leat__link *leat__list_pop(leat__list *l)
{
    leat__link *k = leat__list_first(l);
    if (k)
        leat__link_remove(k);
    return k;
}

/* Everything in `from` to the end of l, which leaves `from` empty. */
static inline void leat__list_move_all(leat__list *l, leat__list *from)
{
    if (leat__list_empty(from))
        return;
    from->head.next->prev = l->head.prev;
    l->head.prev->next = from->head.next;
    from->head.prev->next = &l->head;
    l->head.prev = from->head.prev;
    leat__list_init(from);
}

#endif
