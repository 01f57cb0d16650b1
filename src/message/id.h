/*
 * id.h: the ids of a stream's entries, as numbers and as text.
 */
#ifndef LEAT_MESSAGE_ID_H
#define LEAT_MESSAGE_ID_H

#include <leat/bytes.h>

typedef struct leat__id {
    uint64_t ms, seq;
} leat__id;

enum { LEAT__ID_TEXT = 44, LEAT__ID_NEXT = 15 };
bool leat__id_parse(leat_bytes text, leat__id *out); /* "ms-seq" or "ms" */

/* The same where ids follow each other: `before` is NULL or the text, of
 * LEAT__ID_NEXT bytes or more, of which *io is the id; mostly their
 * milliseconds agree. */
bool leat__id_parse_next(leat_bytes text, const char *before, leat__id *io);

leat_bytes leat__id_format(leat__id id, char text[LEAT__ID_TEXT]);

static inline int leat__id_cmp(leat__id a, leat__id b)
{
    if (a.ms != b.ms)
        return a.ms < b.ms ? -1 : 1;
    if (a.seq != b.seq)
        return a.seq < b.seq ? -1 : 1;
    return 0;
}

#endif
