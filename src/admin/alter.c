/*
 * alter.c: changing what the members of a group share.  See topic/settings.c.
 */
#include "admin/group.h"
#include "redis/script.h"
#include "topic/settings.h"

static leat_code set(leat__admin *a, const leat_group_settings *s,
                     leat_error *err)
{
    enum { WORDS = 3 };
    const leat__topic_at *t = &a->topic;
    char text[LEAT__SETTINGS][LEAT__SETTING_TEXT];
    leat__key groups, key, members;
    const leat_reply *r = NULL;
    leat__key_groups(&groups, t->prefix, t->name);
    leat__key_group(&key, t->prefix, t->name, a->group);
    leat__key_members(&members, t->prefix, t->name, a->group);
    const leat_bytes keys[] = { leat__key_bytes(&groups),
                                leat__key_bytes(&key) };
    leat_bytes args[WORDS + 2 * LEAT__SETTINGS] = { leat_str(a->group),
                                                    leat_str(a->u),
                                                    leat__key_bytes(&members) };
    leat__settings_pairs(s, args + WORDS, text);
    leat_code code = leat__script_call(a->conn, &leat__script_admin_alter, keys,
                                       2, args, WORDS + 2 * LEAT__SETTINGS, &r,
                                       err);
    if (code == LEAT_OK && leat_reply_int(r) != 1)
        code = leat__admin_another(a, err);
    return code;
}

leat_code leat_group_alter(leat_client *c, const char *topic, const char *group,
                           const char *prefix, const leat_group_settings *s,
                           leat_error *err)
{
    leat__admin a = { 0 };
    leat_group_settings to = *s;
    leat_code code = leat__settings_init(&to, err);
    if (code != LEAT_OK)
        return code;
    code = leat__admin_open(&a, c, topic, group, prefix, err);
    if (code == LEAT_OK)
        code = set(&a, &to, err);
    leat__admin_close(&a);
    return code;
}
