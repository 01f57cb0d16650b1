/*
 * group.c: a group that somebody sets right.
 */
#include "admin/group.h"
#include "base/mem.h"

enum { LEND_MS = 5000 };

leat_code leat__admin_open(leat__admin *a, leat_client *c, const char *topic,
                           const char *group, const char *prefix,
                           leat_error *err)
{
    *a = (leat__admin){ .group = group };
    leat_code code = leat__name_check("group", group, err);
    if (code == LEAT_OK)
        code = leat__topic_at_init(&a->topic, c, topic, prefix, err);
    if (code != LEAT_OK)
        return code;
    leat_error e = { 0 };
    a->conn = leat_client_lend(c, LEND_MS, &e);
    if (a->conn)
        return leat__group_there(&a->topic, a->conn, group, a->u, err);
    if (err)
        *err = e;
    return e.code;
}

void leat__admin_close(leat__admin *a)
{
    if (a->conn)
        leat_client_return(a->topic.client, a->conn);
    leat__free(a->members.list);
    leat__arena_release(&a->arena);
}

leat_code leat__admin_another(const leat__admin *a, leat_error *err)
{
    return leat__fail(
        err, LEAT_ESTALE,
        "group '%s' of '%s' was removed and made again meanwhile: "
        "nothing was done to the new one",
        a->group, a->topic.name);
}

leat_code leat__admin_idle(leat__admin *a, bool force, leat_error *err)
{
    leat__free(a->members.list);
    a->members = (leat__members){ 0 };
    leat_code code = leat__members_read(&a->topic, a->conn, a->group, &a->arena,
                                        &a->members, err);
    uint32_t n = a->members.alive;
    if (code != LEAT_OK || n == 0 || force)
        return code;
    return leat__fail(err, LEAT_EBUSY,
                      "group '%s' of '%s' has %u live member%s: stop %s, or "
                      "force it",
                      a->group, a->topic.name, n, n == 1 ? "" : "s",
                      n == 1 ? "it" : "them");
}
