/*
 * backlog.h: encoded messages that wait to be sent, or for their outcome.
 *
 * Items stand one behind the other in blocks that never move.  One thread
 * appends, another walks behind it with spots of its own; both agree by a lock
 * of theirs on how many items there are, and nothing else needs one.
 */
#ifndef LEAT_TOPIC_BACKLOG_H
#define LEAT_TOPIC_BACKLOG_H

#include "base/error.h"
#include "topic/addition.h"
#include <leat/source.h>
#include <leat/topic.h>

typedef struct leat__item {
    leat_published_fn *fn;
    void *arg;
    int64_t deadline_ns; /* the appender's, as fn and arg */
    uint32_t size;
    uint16_t partition;
    uint16_t head; /* of the command, behind the count of its words; or that
                      it is a script's: enum leat__by                      */
    char bytes[];  /* the command */
} leat__item;

_Static_assert(LEAT_PARTITIONS_MAX <= UINT16_MAX,
               "they are counted in 16 bits");

/* A place between two items. */
typedef struct leat__spot {
    struct leat__block *block;
    size_t at;
} leat__spot;

typedef struct leat__backlog {
    struct leat__block *first, *last;
    struct leat__block *spare; /* some empty ones are kept */
    int spares;
} leat__backlog;

leat_code leat__backlog_init(leat__backlog *b, leat_error *err);
void leat__backlog_release(leat__backlog *b);

/* ---- appending; under the lock ---------------------------------------- */

/* A new item with room for size bytes, not part of it before the commit, which
 * may come with fewer.  NULL: no memory. */
leat__item *leat__backlog_room(leat__backlog *b, size_t size, leat_error *err);
void leat__backlog_commit(leat__backlog *b, const leat__item *item);

/* The end as it is now, and back to it: what was committed since is gone. */
leat__spot leat__backlog_end(const leat__backlog *b);
void leat__backlog_cut(leat__backlog *b, leat__spot end);

/* Free the blocks before this spot's; no other spot may stand there. */
void leat__backlog_drop(leat__backlog *b, leat__spot upto);

/* ---- walking ---------------------------------------------------------- */

/* The item at the spot; the caller knows that there is one. */
leat__item *leat__backlog_peek(leat__spot *s);

/* The same, and step over it. */
leat__item *leat__backlog_next(leat__spot *s);

#endif
