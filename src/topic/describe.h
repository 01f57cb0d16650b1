/*
 * describe.h: what those share who look at topics.
 */
#ifndef LEAT_TOPIC_DESCRIBE_H
#define LEAT_TOPIC_DESCRIBE_H

#include "base/arena.h"
#include "message/delivery.h"
#include "topic/keys.h"
#include "topic/topic.h"
#include "topic/window.h"
#include <leat/describe.h>

/* "MS-SEQ" or "MS"; false: it is neither. */
bool leat__position_parse(leat_bytes text, leat_position *out);

leat_bytes leat__position_format(leat_position at, char text[LEAT__ID_TEXT]);

/* The id after this one, and the one before; the ends stay where they are. */
leat_position leat__position_after(leat_position at);
leat_position leat__position_before(leat_position at);

static inline bool leat__position_zero(leat_position at)
{
    return at.ms == 0 && at.seq == 0;
}

/* What XINFO says of a log. */
typedef struct leat__log_info {
    int64_t entries;
    int64_t added; /* -1: not known */
    leat_position first, last;
    leat_position deleted; /* the newest that was deleted; zero: none, or not
                            * known */
} leat__log_info;

typedef struct leat__topic_at { /* a topic that was looked up */
    leat_client *client;
    const char *prefix, *name;
    leat__topic_meta meta;
} leat__topic_at;

/* Check the names and look the topic up.  LEAT_EBUSY: it is being removed;
 * `look` finds that, too. */
leat_code leat__topic_at_look(leat__topic_at *t, leat_client *c,
                              const char *name, const char *prefix,
                              leat_error *err);
leat_code leat__topic_at_init(leat__topic_at *t, leat_client *c,
                              const char *name, const char *prefix,
                              leat_error *err);

/* LEAT_ENOENT: the topic has no such group.  u, which may be NULL, becomes its
 * incarnation. */
leat_code leat__group_there(const leat__topic_at *t, leat_conn *conn,
                            const char *group, char u[LEAT__INCARNATION + 1],
                            leat_error *err);

/* Walk name, value, name, value of a map or a flat array. */
typedef struct leat__pairs {
    leat_reply_iter rest;
    size_t left;
} leat__pairs;

leat__pairs leat__pairs_of(const leat_reply *r);
bool leat__pairs_next(leat__pairs *p, leat_bytes *name,
                      const leat_reply **value);

/* Of all names and values that are left. */
size_t leat__pairs_bytes(leat__pairs p);

/* A copy with a zero after it. */
char *leat__arena_text(leat__arena *a, leat_bytes b, leat_error *err);

#endif
