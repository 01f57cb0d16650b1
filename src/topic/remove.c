/*
 * remove.c: removing a topic and all that is known of it.
 *
 * Key by key, since a cluster keeps them in different places, and by UNLINK,
 * since a log may be large.  The order lets a run that was cut short be run
 * again to the end: a group stays in the set of groups until its keys are gone,
 * the meta, which tells how many partitions there are, until all else is gone,
 * and the name stays listed until the meta is.
 *
 * Whoever still has the topic open may bring keys back: stop them first.
 */
#include "redis/script.h"
#include "topic/topic.h"

#include <stdio.h>
#include <string.h>

enum { LEND_MS = 5000, GROUPS_AT_ONCE = 100, STEPS = 1000000 };

typedef struct removal {
    leat_conn *conn;
    const char *prefix, *name;
    uint32_t partitions;
} removal;

static leat_code unlink_key(const removal *x, const leat__key *k,
                            leat_error *err)
{
    return leat_conn_send(
        x->conn, LEAT_ARGS(leat_str("UNLINK"), leat__key_bytes(k)), NULL, err);
}

/* All of one group but its name. */
static leat_code unlink_group(const removal *x, const char *group,
                              leat_error *err)
{
    leat__key k;
    leat_code rc = LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && i < x->partitions; i++) {
        leat__key_cursor(&k, x->prefix, x->name, false, i, group);
        rc = unlink_key(x, &k, err);
        leat__key_lease(&k, x->prefix, x->name, false, i, group);
        if (rc == LEAT_OK)
            rc = unlink_key(x, &k, err);
    }
    leat__key_members(&k, x->prefix, x->name, group);
    if (rc == LEAT_OK)
        rc = unlink_key(x, &k, err);
    return rc == LEAT_OK ? leat_conn_drain(x->conn, 0, err) : rc;
}

/* What is no name was not put there by us; it goes with the set. */
static leat_code remove_group(const removal *x, leat_bytes member,
                              leat_error *err)
{
    leat__key groups;
    char name[LEAT_NAME_MAX + 1];
    leat_code rc = LEAT_OK;
    leat__key_groups(&groups, x->prefix, x->name);
    if (member.n < sizeof name && !memchr(member.p, 0, member.n)) {
        memcpy(name, member.p, member.n);
        name[member.n] = '\0';
        if (leat__name_check("group", name, NULL) == LEAT_OK)
            rc = unlink_group(x, name, err);
    }
    if (rc == LEAT_OK)
        rc = leat_conn_send(
            x->conn,
            LEAT_ARGS(leat_str("SREM"), leat__key_bytes(&groups), member), NULL,
            err);
    return rc == LEAT_OK ? leat_conn_drain(x->conn, 0, err) : rc;
}

/* The reply is the connection's until its next use, so it is copied. */
static leat_code some_groups(const removal *x, leat_reply **out,
                             leat_error *err)
{
    char count[LEAT__NUMBER];
    const leat_reply *r;
    leat__key groups;
    leat__key_groups(&groups, x->prefix, x->name);
    leat_code rc = leat_conn_call(
        x->conn,
        LEAT_ARGS(leat_str("SRANDMEMBER"), leat__key_bytes(&groups),
                  leat__arg_int(count, GROUPS_AT_ONCE)),
        NULL, &r, err);
    if (rc != LEAT_OK)
        return rc;
    *out = leat__reply_copy(r, err);
    return *out ? LEAT_OK : LEAT_ENOMEM;
}

/* Groups join by name, so the set is small; while it is not empty it shrinks
 * with every step. */
static leat_code remove_groups(const removal *x, leat_error *err)
{
    leat_code rc = LEAT_OK;
    for (int step = 0; rc == LEAT_OK && step < STEPS; step++) {
        leat_reply *r;
        rc = some_groups(x, &r, err);
        if (rc != LEAT_OK)
            break;
        size_t n = leat_reply_len(r);
        const leat_reply *g = leat_reply_first(r);
        for (size_t i = 0; rc == LEAT_OK && i < n; i++, g = leat_reply_next(g))
            rc = remove_group(x, leat_reply_bytes(g), err);
        leat_reply_free(r);
        if (n == 0)
            break;
    }
    return rc;
}

static leat_code remove_logs(const removal *x, leat_error *err)
{
    leat__key k;
    leat_code rc = LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && i < x->partitions; i++) {
        leat__key_log(&k, x->prefix, x->name, false, i);
        rc = unlink_key(x, &k, err);
    }
    return rc == LEAT_OK ? leat_conn_drain(x->conn, 0, err) : rc;
}

static leat_code remove_meta(const removal *x, leat_error *err)
{
    leat__key k;
    leat__key_groups(&k, x->prefix, x->name);
    leat_code rc = unlink_key(x, &k, err);
    leat__key_meta(&k, x->prefix, x->name);
    if (rc == LEAT_OK)
        rc = unlink_key(x, &k, err);
    return rc == LEAT_OK ? leat_conn_drain(x->conn, 0, err) : rc;
}

/* *was: it was listed. */
static leat_code unlist(const removal *x, bool *was, leat_error *err)
{
    leat__key k;
    const leat_reply *r;
    leat__key_topics(&k, x->prefix);
    leat_code rc = leat_conn_call(
        x->conn,
        LEAT_ARGS(leat_str("SREM"), leat__key_bytes(&k), leat_str(x->name)),
        NULL, &r, err);
    *was = rc == LEAT_OK && leat_reply_int(r) > 0;
    return rc;
}

static leat_code remove_all(const removal *x, leat_error *err)
{
    bool was;
    leat_code rc = remove_groups(x, err);
    if (rc == LEAT_OK)
        rc = remove_logs(x, err);
    if (rc == LEAT_OK)
        rc = remove_meta(x, err);
    return rc == LEAT_OK ? unlist(x, &was, err) : rc;
}

/* Neither meta nor stream: an earlier run may have come so far. */
static leat_code remove_rest(const removal *x, const leat_error *none,
                             leat_error *err)
{
    bool was;
    leat_code rc = unlist(x, &was, err);
    if (rc != LEAT_OK || was)
        return rc;
    if (err)
        *err = *none;
    return none->code;
}

static leat_code refuse_legacy(const removal *x, leat_error *err)
{
    bool was;
    leat_code rc = unlist(x, &was, err);
    if (rc != LEAT_OK || was)
        return rc;
    return leat__fail(err, LEAT_EINVAL,
                      "'%s' is a plain stream, not a topic made by leat: if "
                      "nobody needs it, remove it with UNLINK",
                      x->name);
}

leat_code leat_topic_remove(leat_client *c, const char *name,
                            const char *prefix, leat_error *err)
{
    leat_error e;
    leat__topic_meta m;
    leat_code found, rc = leat__topic_check(prefix, name, err);
    if (rc != LEAT_OK)
        return rc;
    found = leat__topic_lookup(c, prefix, name, &m, &e);
    if (found != LEAT_OK && found != LEAT_ENOENT) {
        if (err)
            *err = e;
        return found;
    }
    removal x = { .conn = leat_client_lend(c, LEND_MS, err),
                  .prefix = prefix,
                  .name = name,
                  .partitions = found == LEAT_OK ? m.partitions : 0 };
    if (!x.conn)
        return err ? err->code : LEAT_ECONN;
    if (found == LEAT_ENOENT)
        rc = remove_rest(&x, &e, err);
    else if (m.legacy)
        rc = refuse_legacy(&x, err);
    else
        rc = remove_all(&x, err);
    leat_client_return(c, x.conn);
    return rc;
}
