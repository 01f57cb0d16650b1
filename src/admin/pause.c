/*
 * pause.c: a group hands out nothing, until it is resumed.
 *
 * A key beside the members' records says so; every beat brings it along, and
 * the members' channel asks for a beat now.
 */
#include "admin/group.h"
#include "redis/script.h"
#include "redis/shape.h"

static leat_code set_paused(leat_client *c, const char *topic,
                            const char *group, const char *prefix,
                            const char *yes, leat_error *err)
{
    leat__admin a;
    leat__key paused, members, key;
    const leat_reply *r = NULL;
    leat_code code = leat__admin_open(&a, c, topic, group, prefix, err);
    if (code == LEAT_OK) {
        leat__key_paused(&paused, prefix, topic, group);
        leat__key_members(&members, prefix, topic, group);
        leat__key_group(&key, prefix, topic, group);
        const leat_bytes keys[] = { leat__key_bytes(&paused),
                                    leat__key_bytes(&key) };
        const leat_bytes args[] = { leat_str(yes), leat__key_bytes(&members),
                                    leat_str(a.u) };
        code = leat__script_call(a.conn, &leat__script_admin_pause, keys, 2,
                                 args, 3, &r, err);
    }
    if (code == LEAT_OK)
        code = leat__reply_want(r, "i", LEAT_EUNKNOWN, "a pause", err);
    if (code == LEAT_OK && leat_reply_int(r) < 0)
        code = leat__admin_another(&a, err);
    leat__admin_close(&a);
    return code;
}

leat_code leat_group_pause(leat_client *c, const char *topic, const char *group,
                           const char *prefix, leat_error *err)
{
    return set_paused(c, topic, group, prefix, "1", err);
}

leat_code leat_group_resume(leat_client *c, const char *topic,
                            const char *group, const char *prefix,
                            leat_error *err)
{
    return set_paused(c, topic, group, prefix, "0", err);
}
