/*
 * join.h: a group becomes one of a topic's.  See join.c.
 */
#ifndef LEAT_TOPIC_JOIN_H
#define LEAT_TOPIC_JOIN_H

#include "topic/settings.h"

/* Of a topic: enter.lua lets no more in. */
enum { LEAT__GROUPS_MAX = 10000 };

/* What a group is. */
typedef struct leat__group_facts {
    char u[LEAT__INCARNATION + 1]; /* "": an earlier version made it       */
    leat_group_settings set;
} leat__group_facts;

/* Make the group unless it is there, with these settings unless it has some,
 * and note it beside every log.  LEAT_EBUSY: it is being removed.  LEAT_ESTALE:
 * the topic is another by now, or gone, or a log has no id yet. */
leat_code leat__group_join(leat_topic *t, const char *group,
                           const leat_group_settings *set,
                           leat__group_facts *out, leat_error *err);

#endif
