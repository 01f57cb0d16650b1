/*
 * dlq_count.c: how many dead letters there are, by group and by error.
 *
 * Groups are few, and errors are told apart by their fingerprints, at most
 * LEAT_DEAD_ERRORS of them: the memory is bounded however many died.
 */
#include "admin/dlq.h"
#include "base/map.h"
#include "base/mem.h"

#include <stdlib.h>

typedef struct counts {
    leat_dead_counts pub;
    leat_dead_group *group; /* what the public lists are made of */
    leat_dead_error *error;
    leat__arena arena;
    leat__map by_group, by_error; /* to what is in the arena, while counting */
} counts;

void leat_dead_counts_free(leat_dead_counts *n)
{
    counts *x = (counts *)n; /* its first member */
    if (!x)
        return;
    leat__map_release(&x->by_group);
    leat__map_release(&x->by_error);
    leat__arena_release(&x->arena);
    leat__free(x->group);
    leat__free(x->error);
    leat__free(x);
}

/* ---- one more --------------------------------------------------------- */

/* Of zeros, of that size, under this name; NULL: no memory. */
static void *enter(counts *x, leat__map *m, const char *name, size_t size,
                   const char **copy, leat_error *err)
{
    void *p = leat__arena_alloc(&x->arena, size, err);
    *copy = p ? leat__arena_text(&x->arena, leat_str(name), err) : NULL;
    if (!*copy || leat__map_put(m, leat_str(name), p, NULL, err) != LEAT_OK)
        return NULL;
    memset(p, 0, size);
    return p;
}

/* The walk gives the oldest first. */
static void span(int64_t ms, int64_t *first, int64_t *last)
{
    if (*first == 0)
        *first = ms;
    *last = ms;
}

static leat_code count_group(counts *x, const leat_dead *d, leat_error *err)
{
    const char *name = NULL;
    leat_dead_group *g = leat__map_get(&x->by_group, leat_str(d->group));
    if (!g) {
        g = enter(x, &x->by_group, d->group, sizeof *g, &name, err);
        if (!g)
            return LEAT_ENOMEM;
        g->group = name;
    }
    g->count++;
    span(d->dead_ms, &g->first_ms, &g->last_ms);
    return LEAT_OK;
}

static leat_dead_error *new_error(counts *x, const char *print, leat_error *err)
{
    const char *name = NULL;
    leat_dead_error *e = enter(x, &x->by_error, print, sizeof *e, &name, err);
    char *id = e ? leat__arena_alloc(&x->arena, LEAT_DEAD_ID, err) : NULL;
    if (!id)
        return NULL;
    e->fingerprint = name;
    e->newest = id;
    return e;
}

static leat_code count_error(counts *x, const leat_dead *d, leat_error *err)
{
    char print[LEAT_DEAD_PRINT];
    leat_dead_fingerprint(d->error, print);
    leat_dead_error *e = leat__map_get(&x->by_error, leat_str(print));
    if (!e && x->by_error.count == LEAT_DEAD_ERRORS) {
        x->pub.other++;
        return LEAT_OK;
    }
    if (!e && !(e = new_error(x, print, err)))
        return LEAT_ENOMEM;
    e->count++;
    memcpy((char *)e->newest, d->id, strlen(d->id) + 1); /* ours */
    span(d->dead_ms, &e->first_ms, &e->last_ms);
    return LEAT_OK;
}

/* ---- the lists -------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const leat_dead_group *x = a, *y = b;
    return strcmp(x->group, y->group);
}

static int by_count(const void *a, const void *b)
{
    const leat_dead_error *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return strcmp(x->fingerprint, y->fingerprint);
}

static void *list_of(const leat__map *m, size_t size, leat_error *err)
{
    char *list = leat__calloc(m->count + 1, size, err);
    size_t at = 0, n = 0;
    for (void *v; list && (v = leat__map_next(m, &at, NULL)); n++)
        memcpy(list + n * size, v, size);
    return list;
}

static leat_code publish(counts *x, leat_error *err)
{
    x->group = list_of(&x->by_group, sizeof *x->group, err);
    x->error = x->group ? list_of(&x->by_error, sizeof *x->error, err) : NULL;
    if (!x->error)
        return LEAT_ENOMEM;
    qsort(x->group, x->by_group.count, sizeof *x->group, by_name);
    qsort(x->error, x->by_error.count, sizeof *x->error, by_count);
    x->pub.groups = x->by_group.count;
    x->pub.group = x->group;
    x->pub.errors = x->by_error.count;
    x->pub.error = x->error;
    return LEAT_OK;
}

static leat_code count_all(counts *x, leat_dlq_walk *w, leat_error *err)
{
    leat_dead d;
    int got;
    while ((got = leat_dlq_walk_next(w, &d, err)) == 1) {
        x->pub.total++;
        if (count_group(x, &d, err) != LEAT_OK ||
            count_error(x, &d, err) != LEAT_OK)
            return LEAT_ENOMEM;
    }
    return got == 0 ? publish(x, err) : LEAT_ESERVER;
}

leat_dead_counts *leat_dlq_count(leat_dlq *d, const leat_dead_filter *filter,
                                 leat_error *err)
{
    leat_dlq_walk_opts o = { .filter = filter ? *filter
                                              : (leat_dead_filter){ 0 } };
    leat_dlq_walk *w = leat_dlq_walk_open(d, &o, err);
    counts *x = w ? leat__zalloc(sizeof *x, err) : NULL;
    if (x && count_all(x, w, err) != LEAT_OK) {
        leat_dead_counts_free(&x->pub);
        x = NULL;
    }
    leat_dlq_walk_close(w);
    return x ? &x->pub : NULL;
}
