/*
 * members.h: the members of a group, as one sees them who is none.
 */
#ifndef LEAT_TOPIC_MEMBERS_H
#define LEAT_TOPIC_MEMBERS_H

#include "topic/describe.h"

/* Of a group: beat.lua lets no more in. */
enum { LEAT__MEMBERS_MAX = 10000 };

/* Sorted by nonce; texts are in the arena, the list is leat__free's. */
typedef struct leat__members {
    leat_group_member *list;
    uint32_t n, alive;
    int64_t paused_ms; /* since when the group is; 0: it is not */
    size_t room;
} leat__members;

leat_code leat__members_read(const leat__topic_at *t, leat_conn *conn,
                             const char *group, leat__arena *arena,
                             leat__members *out, leat_error *err);

leat_group_member *leat__members_find(const leat__members *m,
                                      const char *nonce);

#endif
