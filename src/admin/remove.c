/*
 * remove.c: removing a group, or a topic, and all that is known of it.
 *
 * Slot by slot, since a cluster keeps them in different places, each by a
 * script that compares the incarnation: whoever is late, or tries again after
 * a lost answer, removes no other of that name.
 *
 *   topic   mark_topic.lua -> identify.lua: nobody enters a group any more ->
 *           its groups -> unlog.lua of each partition -> not listed ->
 *           unmake.lua
 *   group   gone.lua -> ungroup.lua of each partition -> forget.lua
 *
 * The first step is a mark that nobody may join or make it any more, the last
 * takes that away: a run that was cut short is run again to the end, by
 * anybody, and until then the name is taken.
 *
 * Whoever still has the topic open may bring keys back: stop them first.  Those
 * who read it are asked for and in the way; those who write it are not known.
 */
#include "admin/group.h"
#include "base/mem.h"
#include "redis/script.h"
#include "redis/shape.h"
#include "topic/identity.h"
#include <leat/dlq.h>

#include <assert.h>
#include <string.h>

enum { LEND_MS = 5000, GROUPS_AT_ONCE = 100, STEPS = 1000000 };

typedef struct removal {
    leat_conn *conn;
    const leat__topic_at *topic;
} removal;

/* ---- a group ---------------------------------------------------------- */

/* One of them: its name may have been another's before, or be so soon. */
typedef struct which {
    const char *group, *u;
    bool mirror; /* also on the logs; else it goes with them */
} which;

static leat_code another(const removal *x, const which *w, leat_error *err)
{
    return leat__fail(err, LEAT_ESTALE,
                      "group '%s' of '%s' is another than the one to be "
                      "removed: it was removed and made again meanwhile",
                      w->group, x->topic->name);
}

/* A script of the group's own slot. */
static leat_code step(const removal *x, const which *w, const leat__script *s,
                      leat_error *err)
{
    const leat__topic_at *t = x->topic;
    leat__key key[5];
    leat_bytes keys[5];
    const leat_reply *r = NULL;
    const leat_bytes args[] = { leat_str(w->group), leat_str(w->u),
                                leat_str("gone") };
    leat__key_groups(&key[0], t->prefix, t->name);
    leat__key_group(&key[1], t->prefix, t->name, w->group);
    leat__key_members(&key[2], t->prefix, t->name, w->group);
    leat__key_beats(&key[3], t->prefix, t->name, w->group);
    leat__key_paused(&key[4], t->prefix, t->name, w->group);
    for (int i = 0; i < 5; i++)
        keys[i] = leat__key_bytes(&key[i]);
    leat_code rc = leat__script_call(x->conn, s, keys, 5, args, 3, &r, err);
    if (rc == LEAT_OK)
        rc = leat__reply_want(r, "i", LEAT_EUNKNOWN, "a removal", err);
    if (rc == LEAT_OK && leat_reply_int(r) != 1)
        rc = another(x, w, err);
    return rc;
}

/* What was found to be another group's. */
typedef struct ungrouped {
    bool another;
    leat_error err;
} ungrouped;

static void on_ungrouped(void *arg, const leat_reply *r, const leat_error *e)
{
    ungrouped *f = arg;
    leat_error odd;
    if (!e &&
        leat__reply_want(r, "i", LEAT_EUNKNOWN, "a removal", &odd) != LEAT_OK)
        e = &odd;
    if (e && f->err.code == LEAT_OK)
        f->err = *e;
    else if (!e && leat_reply_int(r) != 1)
        f->another = true;
}

static leat_code send_ungroup(const removal *x, const which *w, uint32_t i,
                              ungrouped *f, leat_error *err)
{
    static const char *const words[] = { "joined", "cur", NULL,  "lease",
                                         "kept",   "due", "lane" };
    enum { KEYS = sizeof words / sizeof *words };
    const leat__topic_at *t = x->topic;
    leat__key key[KEYS];
    leat_bytes keys[KEYS];
    for (int k = 0; k < KEYS; k++) {
        if (words[k])
            leat__key_part(&key[k], t->prefix, t->name, t->meta.legacy, i,
                           words[k], k == 0 ? NULL : w->group);
        else
            leat__key_log(&key[k], t->prefix, t->name, t->meta.legacy, i);
        keys[k] = leat__key_bytes(&key[k]);
    }
    const leat_bytes args[] = { leat_str(w->group), leat_str(w->u),
                                leat_str(w->mirror ? "1" : "") };
    return leat__script_send(
        x->conn, &leat__script_admin_ungroup, keys, KEYS, args, 3,
        &(leat_send_opts){ .fn = on_ungrouped, .arg = f }, err);
}

static leat_code ungroup(const removal *x, const which *w, leat_error *err)
{
    ungrouped f = { 0 };
    leat_code rc = LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && i < x->topic->meta.partitions; i++)
        rc = send_ungroup(x, w, i, &f, err);
    /* Also after a failure: what was sent is answered by then. */
    leat_code end = leat_conn_drain(x->conn, 0, rc == LEAT_OK ? err : NULL);
    if (rc == LEAT_OK)
        rc = end;
    if (rc == LEAT_OK && f.err.code != LEAT_OK) {
        rc = f.err.code;
        if (err)
            *err = f.err;
    }
    return rc == LEAT_OK && f.another ? another(x, w, err) : rc;
}

/* While it says that it is gone nobody joins it, so that what is on the
 * partitions is its own or nobody's. */
static leat_code unmake_group(const removal *x, const which *w, leat_error *err)
{
    leat_code rc = step(x, w, &leat__script_topic_mark, err);
    if (rc == LEAT_OK)
        rc = ungroup(x, w, err);
    return rc == LEAT_OK ? step(x, w, &leat__script_admin_forget, err) : rc;
}

/* Those of this group, not of a namesake before it. */
static leat_code clear_dead(leat_client *c, const char *topic,
                            const char *group, const char *u,
                            const char *prefix, leat_error *err)
{
    const leat_dlq_opts o = { .prefix = prefix };
    leat_error e = { 0 };
    leat_dlq *d = leat_dlq_open(c, topic, &o, &e);
    leat_code rc = e.code;
    if (d)
        rc = leat_dlq_clear(
            d, &(leat_dead_filter){ .group = group, .group_id = u }, NULL, NULL,
            &e);
    leat_dlq_close(d);
    if (rc != LEAT_OK && err)
        *err = e;
    return rc;
}

/* Whichever the caller means, if it says so. */
static leat_code check_id(const leat__admin *a, const char *id, leat_error *err)
{
    if (!id || strcmp(id, a->u) == 0)
        return LEAT_OK;
    return leat__fail(err, LEAT_ESTALE,
                      "group '%.60s' of '%.60s' has the id '%s', not '%.40s': "
                      "it stays",
                      a->group, a->topic.name, a->u, id);
}

/* Nothing, where a member lives.  u becomes the incarnation of the group. */
static leat_code remove_idle(leat_client *c, const char *topic,
                             const char *group, const leat_remove_opts *o,
                             char u[LEAT__INCARNATION + 1], leat_error *err)
{
    leat__admin a;
    leat_code rc = leat__admin_open(&a, c, topic, group, o->prefix, err);
    const removal x = { .conn = a.conn, .topic = &a.topic };
    if (rc == LEAT_OK)
        rc = check_id(&a, o->id, err);
    if (rc == LEAT_OK)
        rc = leat__admin_idle(&a, o->force, err);
    const which w = { .group = group, .u = a.u, .mirror = true };
    if (rc == LEAT_OK && !o->dry_run)
        rc = unmake_group(&x, &w, err);
    memcpy(u, a.u, sizeof a.u);
    leat__admin_close(&a); /* it may be the pool's only connection */
    return rc;
}

/* Dead letters may take a while to clear, and members come meanwhile, or the
 * group is another by then. */
leat_code leat_group_remove(leat_client *c, const char *topic,
                            const char *group, const leat_remove_opts *opts,
                            leat_error *err)
{
    leat_remove_opts o = opts ? *opts : (leat_remove_opts){ 0 };
    char u[LEAT__INCARNATION + 1], again[LEAT__INCARNATION + 1];
    leat_remove_opts look = o;
    leat_code rc = LEAT_OK;
    look.dry_run = true;
    if (o.dead && !o.dry_run) {
        rc = remove_idle(c, topic, group, &look, u, err);
        if (rc == LEAT_OK)
            rc = clear_dead(c, topic, group, u, o.prefix, err);
        o.id = u;
    }
    return rc == LEAT_OK ? remove_idle(c, topic, group, &o, again, err) : rc;
}

/* ---- a topic ---------------------------------------------------------- */

static leat_code unlist_group(const removal *x, leat_bytes member,
                              leat_error *err)
{
    const leat_reply *r;
    leat__key groups;
    leat__key_groups(&groups, x->topic->prefix, x->topic->name);
    return leat_conn_call(
        x->conn, LEAT_ARGS(leat_str("SREM"), leat__key_bytes(&groups), member),
        NULL, &r, err);
}

/* What is no name was not put there by us.  One that went meanwhile is gone. */
static leat_code remove_group(const removal *x, leat_bytes member,
                              leat_error *err)
{
    char name[LEAT_NAME_MAX + 1], u[LEAT__INCARNATION + 1];
    if (member.n >= sizeof name || memchr(member.p, 0, member.n))
        return unlist_group(x, member, err);
    memcpy(name, member.p, member.n);
    name[member.n] = '\0';
    if (leat__name_check("group", name, NULL) != LEAT_OK)
        return unlist_group(x, member, err);
    leat_code rc = leat__group_there(x->topic, x->conn, name, u, err);
    if (rc == LEAT_OK)
        rc = unmake_group(x, &(which){ .group = name, .u = u }, err);
    return rc == LEAT_ENOENT || rc == LEAT_ESTALE ? LEAT_OK : rc;
}

/* The reply is the connection's until its next use, so it is copied. */
static leat_code some_groups(const removal *x, leat_reply **out,
                             leat_error *err)
{
    char count[LEAT__NUMBER];
    const leat_reply *r;
    leat__key groups;
    leat__key_groups(&groups, x->topic->prefix, x->topic->name);
    leat_code rc = leat_conn_call(
        x->conn,
        LEAT_ARGS(leat_str("SRANDMEMBER"), leat__key_bytes(&groups),
                  leat__arg_int(count, GROUPS_AT_ONCE)),
        NULL, &r, err);
    if (rc == LEAT_OK)
        rc = leat__reply_want(r, "[(t)]", LEAT_EPROTO, "SRANDMEMBER", err);
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
        leat_reply_iter it = leat_reply_each(r);
        for (const leat_reply *g; rc == LEAT_OK && (g = leat_reply_step(&it));)
            rc = remove_group(x, leat_reply_bytes(g), err);
        leat_reply_free(r);
        if (n == 0)
            break;
    }
    return rc;
}

static leat_code not_that_one(const removal *x, leat_error *err)
{
    return leat__fail(err, LEAT_ESTALE,
                      "the topic '%s' that was to be removed is gone: one of "
                      "that name was made since, and stays",
                      x->topic->name);
}

/* A script on the topic's hash; what is gone is said to the first. */
static leat_code topic_step(const removal *x, const leat__script *s,
                            leat_error *err)
{
    const leat__topic_at *t = x->topic;
    leat__key key;
    const leat_reply *r = NULL;
    leat__key_meta(&key, t->prefix, t->name);
    const leat_bytes k = leat__key_bytes(&key);
    const leat_bytes args[] = { leat_str(t->meta.u), leat_str("gone") };
    leat_code rc = leat__script_call(x->conn, s, &k, 1, args, 2, &r, err);
    return rc == LEAT_OK && leat_reply_int(r) != 1 ? not_that_one(x, err) : rc;
}

static void on_unlogged(void *arg, const leat_reply *r, const leat_error *e)
{
    leat_error *first = arg;
    (void)r;
    if (e && first->code == LEAT_OK)
        *first = *e;
}

static leat_code send_unlog(const removal *x, uint32_t i, leat_error *failed,
                            leat_error *err)
{
    enum { KEYS_MOST = 10 };
    const leat__topic_at *t = x->topic;
    const leat_bytes u = leat_str(t->meta.u);
    leat__key key[KEYS_MOST];
    leat_bytes keys[KEYS_MOST];
    size_t n = 0;
    leat__key_log(&key[n++], t->prefix, t->name, false, i);
    for (const char *const *w = leat__partition_words; *w; w++)
        leat__key_part(&key[n++], t->prefix, t->name, false, i, *w, NULL);
    leat__key_id(&key[n++], t, i);
    assert(n <= KEYS_MOST);
    for (size_t k = 0; k < n; k++)
        keys[k] = leat__key_bytes(&key[k]);
    return leat__script_send(
        x->conn, &leat__script_admin_unlog, keys, n, &u, 1,
        &(leat_send_opts){ .fn = on_unlogged, .arg = failed }, err);
}

/* A partition that was removed before, or lost its id, gets it again first, so
 * that what producers have brought back goes, too.  That is answered before it
 * is removed: a late removal finds no id that was put there for it. */
static leat_code remove_logs(const removal *x, leat_error *err)
{
    leat_error failed = { 0 };
    leat_code rc = leat__identify_logs(x->topic, x->conn, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < x->topic->meta.partitions; i++)
        rc = send_unlog(x, i, &failed, err);
    /* Also after a failure: what was sent is answered by then. */
    leat_code end = leat_conn_drain(x->conn, 0, rc == LEAT_OK ? err : NULL);
    if (rc == LEAT_OK)
        rc = end;
    if (rc != LEAT_OK || failed.code == LEAT_OK)
        return rc;
    if (failed.code == LEAT_ESTALE)
        return not_that_one(x, err);
    if (err)
        *err = failed;
    return failed.code;
}

static leat_code in_list(const removal *x, const char *command, bool *was,
                         leat_error *err)
{
    leat__key k;
    const leat_reply *r;
    leat__key_topics(&k, x->topic->prefix);
    leat_code rc = leat_conn_call(x->conn,
                                  LEAT_ARGS(leat_str(command),
                                            leat__key_bytes(&k),
                                            leat_str(x->topic->name)),
                                  NULL, &r, err);
    if (rc == LEAT_OK)
        rc = leat__reply_want(r, "i", LEAT_EUNKNOWN, command, err);
    *was = rc == LEAT_OK && leat_reply_int(r) > 0;
    return rc;
}

/* *was: it was listed; in a dry run it stays so. */
static leat_code unlist(const removal *x, bool dry, bool *was, leat_error *err)
{
    return in_list(x, dry ? "SISMEMBER" : "SREM", was, err);
}

/* The name goes from the list while it is still taken: a second try, after a
 * lost answer, meets nobody else's. */
static leat_code remove_all(const removal *x, leat_error *err)
{
    bool was;
    leat_code rc = topic_step(x, &leat__script_topic_mark_topic, err);
    if (rc == LEAT_OK)
        rc = leat__identify_none(x->topic, x->conn, err);
    if (rc == LEAT_OK)
        rc = remove_groups(x, err);
    if (rc == LEAT_OK)
        rc = remove_logs(x, err);
    if (rc == LEAT_OK)
        rc = unlist(x, false, &was, err);
    return rc == LEAT_OK ? topic_step(x, &leat__script_admin_unmake, err) : rc;
}

/* Somebody made it just now, and it was listed. */
static leat_code list_again(const removal *x, leat_error *err)
{
    bool was;
    leat__key k;
    const leat_reply *r;
    leat__key_meta(&k, x->topic->prefix, x->topic->name);
    leat_code rc = leat_conn_call(
        x->conn, LEAT_ARGS(leat_str("EXISTS"), leat__key_bytes(&k)), NULL, &r,
        err);
    return rc == LEAT_OK && leat_reply_int(r) > 0
               ? in_list(x, "SADD", &was, err)
               : rc;
}

/* Neither meta nor stream: a name that is only listed. */
static leat_code remove_rest(const removal *x, bool dry, const leat_error *none,
                             leat_error *err)
{
    bool was;
    leat_code rc = unlist(x, dry, &was, err);
    if (rc == LEAT_OK && was && !dry)
        rc = list_again(x, err);
    if (rc != LEAT_OK || was)
        return rc;
    if (err)
        *err = *none;
    return none->code;
}

static leat_code refuse_legacy(const removal *x, bool dry, leat_error *err)
{
    bool was;
    leat_code rc = unlist(x, dry, &was, err);
    if (rc != LEAT_OK || was)
        return rc;
    return leat__fail(err, LEAT_EINVAL,
                      "'%s' is a plain stream, not a topic made by leat: if "
                      "nobody needs it, leat_stream_remove removes it",
                      x->topic->name);
}

/* LEAT_EBUSY if a member of one of these groups lives. */
static leat_code check_idle(const removal *x, const leat_names *n,
                            leat_error *err)
{
    leat_code rc = LEAT_OK;
    for (size_t i = 0; n && rc == LEAT_OK && i < n->count; i++) {
        leat__admin a = { .topic = *x->topic,
                          .group = n->name[i],
                          .conn = x->conn };
        if (leat__name_check("group", a.group, NULL) == LEAT_OK)
            rc = leat__admin_idle(&a, false, err);
        a.conn = NULL; /* not its own */
        leat__admin_close(&a);
    }
    return rc;
}

static leat_code remove_found(const removal *x, const leat_remove_opts *o,
                              const leat_names *groups, leat_error *err)
{
    const leat__topic_at *t = x->topic;
    if (t->meta.legacy)
        return refuse_legacy(x, o->dry_run, err);
    if (o->id && strcmp(o->id, t->meta.u) != 0)
        return leat__fail(err, LEAT_ESTALE,
                          "topic '%.100s' has the id '%s', not '%.40s': it "
                          "stays",
                          t->name, t->meta.u, o->id);
    leat_code rc = o->force ? LEAT_OK : check_idle(x, groups, err);
    return rc == LEAT_OK && !o->dry_run ? remove_all(x, err) : rc;
}

leat_code leat_topic_remove_with(leat_client *c, const char *topic,
                                 const leat_remove_opts *opts, leat_error *err)
{
    const leat_remove_opts o = opts ? *opts : (leat_remove_opts){ 0 };
    leat_error e = { 0 }, bad = { 0 };
    leat__topic_at t;
    leat_names *groups = NULL;
    removal x = { .topic = &t };
    leat_code found = leat__topic_at_look(&t, c, topic, o.prefix, &e);
    if (found != LEAT_OK && found != LEAT_ENOENT)
        bad = e;
    /* Before a connection is lent, which may be the pool's only one. */
    if (found == LEAT_OK && !o.force)
        groups = leat_group_names(c, topic, o.prefix, &bad);
    if (bad.code == LEAT_OK)
        x.conn = leat_client_lend(c, LEND_MS, &bad);
    if (bad.code == LEAT_OK && found == LEAT_ENOENT)
        (void)!remove_rest(&x, o.dry_run, &e, &bad);
    else if (bad.code == LEAT_OK)
        (void)!remove_found(&x, &o, groups, &bad);
    if (x.conn)
        leat_client_return(c, x.conn);
    leat_names_free(groups);
    if (bad.code != LEAT_OK && err)
        *err = bad;
    return bad.code;
}

leat_code leat_topic_remove(leat_client *c, const char *name,
                            const char *prefix, leat_error *err)
{
    return leat_topic_remove_with(c, name,
                                  &(leat_remove_opts){ .prefix = prefix }, err);
}
