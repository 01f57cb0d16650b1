/*
 * alter.c: changing what the members of a group share.  See topic/settings.c.
 */
#include "admin/group.h"
#include "redis/script.h"
#include "redis/shape.h"
#include "topic/settings.h"

/* The server has both; what is unset was not asked for. */
static leat_code too_long(const leat__admin *a, const leat_group_settings *s,
                          leat_error *err)
{
    return leat__fail(
        err, LEAT_EINVAL, "%s %lld would be %s of group '%.60s': give both",
        s->delay_ms ? "delay_ms" : "max_delay_ms",
        (long long)(s->delay_ms ? s->delay_ms : s->max_delay_ms),
        s->delay_ms ? "above the max_delay_ms" : "below the delay_ms",
        a->group);
}

static leat_code set(leat__admin *a, const char *u,
                     const leat_group_settings *s, leat_error *err)
{
    enum { WORDS = 3, PAIRS = 2 * LEAT__SETTINGS };
    const leat__topic_at *t = &a->topic;
    char text[2][LEAT__SETTINGS][LEAT__SETTING_TEXT];
    leat__key groups, key, members;
    const leat_reply *r = NULL;
    leat_group_settings usual = { 0 };
    leat__key_groups(&groups, t->prefix, t->name);
    leat__key_group(&key, t->prefix, t->name, a->group);
    leat__key_members(&members, t->prefix, t->name, a->group);
    const leat_bytes keys[] = { leat__key_bytes(&groups),
                                leat__key_bytes(&key) };
    leat_bytes args[WORDS + 2 * PAIRS] = { leat_str(a->group), leat_str(u),
                                           leat__key_bytes(&members) };
    leat__settings_fill(&usual);
    leat__settings_pairs(s, args + WORDS, text[0]);
    leat__settings_pairs(&usual, args + WORDS + PAIRS, text[1]);
    leat_code code = leat__script_call(a->conn, &leat__script_admin_alter, keys,
                                       2, args, WORDS + 2 * PAIRS, &r, err);
    if (code == LEAT_OK)
        code = leat__reply_want(r, "i", LEAT_EUNKNOWN, "an alteration", err);
    if (code != LEAT_OK)
        return code;
    int64_t done = leat_reply_int(r);
    return done == 1   ? LEAT_OK
           : done == 2 ? too_long(a, s, err)
                       : leat__admin_another(a, err);
}

leat_code leat_group_alter(leat_client *c, const char *topic, const char *group,
                           const leat_group_settings *s,
                           const leat_alter_opts *opts, leat_error *err)
{
    leat__admin a = { 0 };
    const leat_alter_opts o = opts ? *opts : (leat_alter_opts){ 0 };
    leat_code code = leat__settings_check(s, err);
    if (code != LEAT_OK)
        return code;
    code = leat__admin_open(&a, c, topic, group, o.prefix, err);
    if (code == LEAT_OK)
        code = set(&a, o.id ? o.id : a.u, s, err);
    leat__admin_close(&a);
    return code;
}
