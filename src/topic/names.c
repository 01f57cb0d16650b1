/*
 * names.c: a list of names that is read page by page.
 */
#include "topic/names.h"
#include "base/mem.h"
#include "topic/describe.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 1000000 }; /* nobody reads such a list */

leat__names *leat__names_new(leat_error *err)
{
    return leat__zalloc(sizeof(leat__names), err);
}

void leat_names_free(leat_names *n)
{
    leat__names *x = (leat__names *)n;
    if (!x)
        return;
    leat__arena_release(&x->arena);
    leat__free(x->list);
    leat__free(x);
}

leat_code leat__names_add(leat__names *x, leat_bytes name, leat_error *err)
{
    if (x->pub.count == MAX_NAMES)
        return leat__fail(err, LEAT_ETOOBIG, "more than %d names", MAX_NAMES);
    if (x->pub.count == x->room) {
        size_t room = x->room ? x->room * 2 : 64;
        char **list = leat__realloc(x->list, room * sizeof *list, err);
        if (!list)
            return LEAT_ENOMEM;
        x->list = list;
        x->room = room;
    }
    char *copy = leat__arena_text(&x->arena, name, err);
    if (!copy)
        return LEAT_ENOMEM;
    x->list[x->pub.count++] = copy;
    return LEAT_OK;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

leat_names *leat__names_done(leat__names *x)
{
    size_t kept = 0;
    if (x->pub.count)
        qsort(x->list, x->pub.count, sizeof *x->list, by_text);
    for (size_t i = 0; i < x->pub.count; i++)
        if (kept == 0 || strcmp(x->list[kept - 1], x->list[i]) != 0)
            x->list[kept++] = x->list[i];
    x->pub.count = kept;
    x->pub.name = (const char *const *)x->list;
    return &x->pub;
}
