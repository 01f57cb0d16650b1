/*
 * join.c: a group becomes one of a topic's.
 *
 *   leat:{<t>}:topic          string incarnation of the topic: identity.c
 *   leat:{<t>}:groups         set    names
 *   leat:{<t>}:group:<g>      hash   u       incarnation, 64 random bits
 *                                    joined  "1": it is noted beside all logs
 *                                    gone    "1": it is being removed
 *                                    and what its members share: settings.c
 *   leat:{<t>/<i>}:joined     hash   group -> incarnation
 *
 *   unknown --enter.lua--> known --joined.lua of each log, mark.lua--> joined
 *
 * Whoever trims a log learns of a group by its note, however old the names are
 * that it has read (trimming.lua), so a member is let in when all notes are
 * made.  A crash before leaves a group that is known: the next member makes the
 * notes again.  So does the first of a group that an earlier version made.
 *
 * A name may be used again.  The incarnation tells which group of that name is
 * meant, wherever something is removed, or is done late.  So does the topic's:
 * a join that was sent before its removal is refused after it.
 */
#include "topic/join.h"
#include "redis/script.h"
#include "redis/shape.h"
#include "topic/identity.h"
#include "topic/standing.h"

#include <string.h>

enum { LEND_MS = 10000, FACTS = 3 };

/* ---- the group -------------------------------------------------------- */

typedef struct joining {
    leat_topic *topic;
    const char *group;
    leat__key groups, key, id;
    char u[LEAT__INCARNATION + 1]; /* of the topic */
    bool joined;
    const leat_group_settings *set;
    leat__group_facts *out;
} joining;

static leat_code read_facts(joining *x, const leat_reply *r, leat_error *err)
{
    if (leat_reply_len(r) != FACTS + LEAT__SETTINGS ||
        !leat__reply_fits(r, "[(o)]"))
        return leat__fail(err, LEAT_EPROTO, "the group was answered strangely");
    leat_bytes state = leat_reply_bytes(leat_reply_at(r, 0));
    leat_bytes u = leat_reply_bytes(leat_reply_at(r, 1));
    if (leat_bytes_eq(state, leat_str("2")))
        return leat__fail(err, LEAT_EBUSY,
                          "group '%s' of '%s' is being removed: remove it "
                          "again, to the end, then join",
                          x->group, x->topic->name);
    if (u.n > LEAT__INCARNATION)
        return leat__fail(err, LEAT_EDECODE,
                          "group '%s' of '%s' was made by another version",
                          x->group, x->topic->name);
    if (u.n > 0)
        memcpy(x->out->u, u.p, u.n);
    x->out->u[u.n] = '\0';
    x->joined = leat_reply_bytes(leat_reply_at(r, 2)).n > 0;
    for (size_t i = 0; i < LEAT__SETTINGS; i++)
        (void)leat__settings_read(
            &x->out->set, leat__settings_name(i),
            leat_reply_bytes(leat_reply_at(r, FACTS + i)));
    return LEAT_OK;
}

/* EVAL with the body: groups are joined rarely, and the client's call knows
 * when to try again. */
static leat_code enter(joining *x, leat_error *err)
{
    const leat__script *s = &leat__script_topic_enter;
    char u[LEAT__INCARNATION + 1];
    leat_reply *r = NULL;
    enum { WORDS = 8, ALL = WORDS + 2 * LEAT__SETTINGS + 1 };
    char text[LEAT__SETTINGS][LEAT__SETTING_TEXT];
    leat_bytes argv[ALL] = { leat_str("EVAL"),
                             leat_mem(s->body, s->body_size),
                             leat_str("3"),
                             leat__key_bytes(&x->groups),
                             leat__key_bytes(&x->key),
                             leat__key_bytes(&x->id),
                             leat_str(x->group),
                             leat_str("") };
    leat__settings_pairs(x->set, argv + WORDS, text);
    leat_code rc = leat__incarnation_new(u, err);
    argv[WORDS - 1] = leat_str(u);
    argv[ALL - 1] = leat_str(x->u);
    if (rc == LEAT_OK)
        rc = leat_client_call(x->topic->client, argv, ALL,
                              &(leat_call_opts){ .idempotent = true }, &r, err);
    if (rc == LEAT_OK)
        rc = read_facts(x, r, err);
    leat_reply_free(r);
    return rc;
}

/* The id beside the groups is another's, or is missing.  Twice: if the first
 * writes it, the second sees whether the topic was removed before that. */
static leat_code enter_again(joining *x, leat_error *err)
{
    leat_topic *t = x->topic;
    leat__topic_at at = { .client = t->client,
                          .prefix = t->prefix,
                          .name = t->name,
                          .meta = t->meta };
    memcpy(at.meta.u, x->u, sizeof x->u);
    leat_code rc = leat__topic_same(&at, NULL, &x->id, err);
    if (rc == LEAT_OK)
        rc = leat__topic_same(&at, NULL, &x->id, err);
    return rc == LEAT_OK ? enter(x, err) : rc;
}

/* ---- the notes -------------------------------------------------------- */

static void on_noted(void *arg, const leat_reply *r, const leat_error *e)
{
    leat_error *first = arg;
    (void)r;
    if (e && first->code == LEAT_OK)
        *first = *e;
}

static leat_code note_all(const joining *x, leat_conn *conn, leat_error *err)
{
    const leat_topic *t = x->topic;
    leat_error failed = { 0 };
    leat_code rc = LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && i < t->meta.partitions; i++) {
        leat__key key, id;
        leat__key_part(&key, t->prefix, t->name, t->meta.legacy, i, "joined",
                       NULL);
        leat__key_part(&id, t->prefix, t->name, t->meta.legacy, i, "id", NULL);
        const leat_bytes keys[] = { leat__key_bytes(&key),
                                    leat__key_bytes(&id) };
        const leat_bytes args[] = { leat_str(x->group), leat_str(x->out->u),
                                    leat_str(x->u) };
        rc = leat__script_send(
            conn, &leat__script_topic_joined, keys, 2, args, 3,
            &(leat_send_opts){ .fn = on_noted, .arg = &failed }, err);
    }
    /* Also after a failure: what was sent is answered by then. */
    leat_code end = leat_conn_drain(conn, 0, rc == LEAT_OK ? err : NULL);
    if (rc == LEAT_OK)
        rc = end;
    if (rc == LEAT_OK && failed.code != LEAT_OK) {
        *err = failed;
        rc = failed.code;
    }
    return rc;
}

static leat_code finish(const joining *x, leat_conn *conn, leat_error *err)
{
    const leat_reply *r = NULL;
    const leat_bytes keys[] = { leat__key_bytes(&x->groups),
                                leat__key_bytes(&x->key) };
    const leat_bytes args[] = { leat_str(x->group), leat_str(x->out->u),
                                leat_str("joined") };
    leat_code rc = leat__script_call(conn, &leat__script_topic_mark, keys, 2,
                                     args, 3, &r, err);
    if (rc == LEAT_OK)
        rc = leat__reply_want(r, "i", LEAT_EUNKNOWN, "joining a group", err);
    if (rc == LEAT_OK && leat_reply_int(r) != 1)
        rc = leat__fail(err, LEAT_EBUSY,
                        "group '%s' of '%s' was removed while it was joined",
                        x->group, x->topic->name);
    return rc;
}

static leat_code note(const joining *x, leat_error *err)
{
    leat_conn *conn = leat_client_lend(x->topic->client, LEND_MS, err);
    if (!conn)
        return err->code;
    leat_code rc = note_all(x, conn, err);
    if (rc == LEAT_OK)
        rc = finish(x, conn, err);
    leat_client_return(x->topic->client, conn);
    return rc;
}

leat_code leat__group_join(leat_topic *t, const char *group,
                           const leat_group_settings *set,
                           leat__group_facts *out, leat_error *err)
{
    joining x = { .topic = t, .group = group, .set = set, .out = out };
    leat_error e = { 0 };
    *out = (leat__group_facts){ .set = *set };
    leat__standing_u(t, x.u);
    leat__key_groups(&x.groups, t->prefix, t->name);
    leat__key_group(&x.key, t->prefix, t->name, group);
    leat__key_topic(&x.id, t->prefix, t->name);
    leat_code rc = enter(&x, &e);
    if (rc == LEAT_ESTALE)
        rc = enter_again(&x, &e);
    if (rc == LEAT_OK && !x.joined)
        rc = note(&x, &e);
    if (rc != LEAT_OK && err)
        *err = e;
    return rc;
}
