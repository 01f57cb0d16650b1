/*
 * names.h: a list of names that is read page by page.
 */
#ifndef LEAT_TOPIC_NAMES_H
#define LEAT_TOPIC_NAMES_H

#include "base/arena.h"
#include <leat/describe.h>

typedef struct leat__names {
    leat_names pub;
    char **list;
    size_t room;
    leat__arena arena;
} leat__names;

/* An empty one, for leat_names_free; NULL: no memory. */
leat__names *leat__names_new(leat_error *err);

/* LEAT_ETOOBIG: there are more than anybody reads. */
leat_code leat__names_add(leat__names *x, leat_bytes name, leat_error *err);

/* All are there: sort them, each once, since a scan may give one twice. */
leat_names *leat__names_done(leat__names *x);

#endif
