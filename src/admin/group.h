/*
 * group.h: a group that somebody sets right, looked up and with a connection.
 */
#ifndef LEAT_ADMIN_GROUP_H
#define LEAT_ADMIN_GROUP_H

#include "topic/members.h"
#include <leat/admin.h>

typedef struct leat__admin {
    leat__topic_at topic;
    const char *group;
    char u[LEAT__INCARNATION + 1]; /* of the group, when it was looked up */
    leat_conn *conn;
    leat__arena arena;
    leat__members members;
} leat__admin;

/* Check the names and look both up.  LEAT_ENOENT: there is no such topic, or no
 * such group of it.  Close it also after a failure. */
leat_code leat__admin_open(leat__admin *a, leat_client *c, const char *topic,
                           const char *group, const char *prefix,
                           leat_error *err);
void leat__admin_close(leat__admin *a);

/* LEAT_ESTALE: it is another of its name by now. */
leat_code leat__admin_another(const leat__admin *a, leat_error *err);

/* Read the members; LEAT_EBUSY if one lives, unless force. */
leat_code leat__admin_idle(leat__admin *a, bool force, leat_error *err);

#endif
