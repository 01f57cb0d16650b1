/*
 * identity.c: which topic of a name it is.
 *
 *   leat:topic:<t>         hash    u       incarnation, 64 random bits
 *                                  marked  "1": it is beside every log, and
 *                                          beside the groups
 *                                  gone    "1": the topic is being removed
 *   leat:{<t>/<i>}:id      string  u once more: scripts of a partition cannot
 *                                  read the hash, which is in another slot
 *   leat:{<t>}:topic       string  u once more, for the slot of the groups
 *
 *   absent --make.lua--> there --identify.lua of each id, mark_topic.lua-->
 *   marked --mark_topic.lua--> gone --identify.lua of the groups' to none,
 *   unlog.lua of each log, unmake.lua--> absent
 *
 * Scripts that are meant for one topic and no namesake compare the id first
 * (same.lua).  Publishing, reading and settling do not: there the lease's epoch
 * identifies, and what a producer sends to a name goes to who has it.
 *
 * The hash is right, the ids follow it.  A crash while they are written leaves
 * a topic that is not marked, and the next who opens it writes them again.  One
 * that is missing or an old topic's, because a server lost it or a late write
 * came after a removal, is found by whoever is refused for it: it looks at the
 * hash, and if that still says what it thought, it sets the id right.  The id
 * is replaced only where it is what was read there, so that a late one of these
 * does no harm.  The version before this one wrote none beside the groups: the
 * next join of such a topic does.
 *
 * The groups' id is the first to go in a removal, so that no group is entered
 * behind it.  Whoever writes it looks at the hash once more before it enters a
 * group: its writing may have come after the removal.
 *
 * A legacy topic has neither hash nor ids.  The id beside its groups has
 * another name than that beside its log, so that what a topic of that name has
 * left there is in the way of a join alone, which takes it away.
 */
#include "topic/identity.h"
#include "base/mem.h"
#include "base/system.h"
#include "redis/script.h"

#include <stdio.h>
#include <string.h>

enum {
    LEND_MS = 10000,
    TRIES = 3 /* others may write at the same time */
};

leat_code leat__incarnation_new(char out[LEAT__INCARNATION + 1],
                                leat_error *err)
{
    uint64_t any = 0;
    leat_code rc = leat__random(&any, sizeof any, err);
    snprintf(out, LEAT__INCARNATION + 1, "%016llx", (unsigned long long)any);
    return rc;
}

void leat__key_id(leat__key *k, const leat__topic_at *t, uint32_t partition)
{
    leat__key_part(k, t->prefix, t->name, t->meta.legacy, partition, "id",
                   NULL);
}

/* ---- beside every log, and the groups --------------------------------- */

/* One id, as far as is known. */
typedef struct mark {
    leat_error *failed; /* the first failure of all of them */
    char here[LEAT__INCARNATION + 1];
} mark;

static void take_id(char out[LEAT__INCARNATION + 1], const leat_reply *r)
{
    leat_bytes here = leat_reply_bytes(r);
    snprintf(out, LEAT__INCARNATION + 1, "%.*s", (int)here.n,
             here.n ? (const char *)here.p : "");
}

static void on_identified(void *arg, const leat_reply *r, const leat_error *e)
{
    mark *m = arg;
    if (!e)
        take_id(m->here, r);
    else if (m->failed->code == LEAT_OK)
        *m->failed = *e;
}

/* That behind the last partition's is the groups'. */
static void key_of(leat__key *k, const leat__topic_at *t, uint32_t i)
{
    if (i < t->meta.partitions)
        leat__key_id(k, t, i);
    else
        leat__key_topic(k, t->prefix, t->name);
}

static leat_code send_identify(const leat__topic_at *t, leat_conn *conn,
                               uint32_t i, mark *m, leat_error *err)
{
    leat__key key;
    key_of(&key, t, i);
    const leat_bytes k = leat__key_bytes(&key);
    const leat_bytes args[] = { leat_str(m->here), leat_str(t->meta.u) };
    return leat__script_send(conn, &leat__script_topic_identify, &k, 1, args, 2,
                             &(leat_send_opts){ .fn = on_identified, .arg = m },
                             err);
}

/* Those that are not right yet; *sent says how many they were. */
static leat_code identify_some(const leat__topic_at *t, leat_conn *conn,
                               mark *m, uint32_t n, uint32_t *sent,
                               leat_error *err)
{
    leat_error failed = { 0 };
    leat_code rc = LEAT_OK;
    *sent = 0;
    for (uint32_t i = 0; rc == LEAT_OK && i < n; i++) {
        if (strcmp(m[i].here, t->meta.u) == 0)
            continue;
        m[i].failed = &failed;
        rc = send_identify(t, conn, i, &m[i], err);
        ++*sent;
    }
    /* Also after a failure: what was sent is answered by then. */
    leat_code end = leat_conn_drain(conn, 0, rc == LEAT_OK ? err : NULL);
    if (rc == LEAT_OK)
        rc = end;
    if (rc == LEAT_OK && failed.code != LEAT_OK) {
        rc = failed.code;
        if (err)
            *err = failed;
    }
    return rc;
}

static leat_code identify_first(const leat__topic_at *t, leat_conn *conn,
                                uint32_t n, leat_error *err)
{
    uint32_t sent = 1;
    if (!t->meta.u[0])
        return LEAT_OK;
    mark *m = leat__calloc(n, sizeof *m, err);
    if (!m)
        return LEAT_ENOMEM;
    leat_code rc = LEAT_OK;
    for (int i = 0; rc == LEAT_OK && sent > 0 && i <= TRIES; i++)
        rc = identify_some(t, conn, m, n, &sent, err);
    leat__free(m);
    if (rc == LEAT_OK && sent > 0)
        rc = leat__fail(err, LEAT_EBUSY,
                        "topic '%s' is made and removed by others at the same "
                        "time",
                        t->name);
    return rc;
}

leat_code leat__identify_logs(const leat__topic_at *t, leat_conn *conn,
                              leat_error *err)
{
    return identify_first(t, conn, t->meta.partitions, err);
}

static leat_code identify_all(const leat__topic_at *t, leat_conn *conn,
                              leat_error *err)
{
    return identify_first(t, conn, t->meta.partitions + 1, err);
}

/* What is there and not ours stays: a late one of these does no harm, and
 * whoever means us is refused all the same. */
leat_code leat__identify_none(const leat__topic_at *t, leat_conn *conn,
                              leat_error *err)
{
    leat__key key;
    const leat_reply *r = NULL;
    if (!t->meta.u[0])
        return LEAT_OK;
    leat__key_topic(&key, t->prefix, t->name);
    const leat_bytes k = leat__key_bytes(&key);
    const leat_bytes args[] = { leat_str(t->meta.u), leat_str("") };
    return leat__script_call(conn, &leat__script_topic_identify, &k, 1, args, 2,
                             &r, err);
}

static leat_code note_marked(const leat__topic_at *t, leat_conn *conn,
                             leat_error *err)
{
    leat__key key;
    const leat_reply *r = NULL;
    leat__key_meta(&key, t->prefix, t->name);
    const leat_bytes k = leat__key_bytes(&key);
    const leat_bytes args[] = { leat_str(t->meta.u), leat_str("marked") };
    leat_code rc = leat__script_call(conn, &leat__script_topic_mark_topic, &k,
                                     1, args, 2, &r, err);
    if (rc == LEAT_OK && leat_reply_int(r) != 1)
        rc = leat__fail(err, LEAT_ESTALE,
                        "topic '%s' was removed while it was made", t->name);
    return rc;
}

leat_code leat__topic_mark(const leat__topic_at *t, leat_error *err)
{
    leat_error e = { 0 };
    if (!t->meta.u[0] || t->meta.marked)
        return LEAT_OK;
    leat_conn *conn = leat_client_lend(t->client, LEND_MS, &e);
    leat_code rc = conn ? identify_all(t, conn, &e) : e.code;
    if (rc == LEAT_OK)
        rc = note_marked(t, conn, &e);
    if (conn)
        leat_client_return(t->client, conn);
    if (rc != LEAT_OK && err)
        *err = e;
    return rc;
}

/* ---- whose is it? ----------------------------------------------------- */

/* By the connection, or by one of the client's; the reply is the caller's. */
static leat_code ask(const leat__topic_at *t, leat_conn *conn,
                     const leat_bytes *argv, size_t n, leat_reply **out,
                     leat_error *err)
{
    const leat_reply *r = NULL;
    if (!conn)
        return leat_client_call(t->client, argv, n,
                                &(leat_call_opts){ .idempotent = true }, out,
                                err);
    leat_code rc = leat_conn_call(conn, argv, n, NULL, &r, err);
    if (rc == LEAT_OK && !(*out = leat__reply_copy(r, err)))
        rc = LEAT_ENOMEM;
    return rc;
}

static leat_code compare(const leat__topic_at *t, const leat_reply *r,
                         leat_error *err)
{
    leat_bytes u = leat_reply_bytes(leat_reply_at(r, 0));
    bool gone = leat_reply_kind(leat_reply_at(r, 1)) != LEAT_REPLY_NIL;
    bool there = leat_reply_kind(leat_reply_at(r, 2)) != LEAT_REPLY_NIL;
    if (t->meta.legacy && !there)
        return LEAT_OK;
    if (gone || !there)
        return leat__fail(err, LEAT_ESTALE,
                          "topic '%s' was removed meanwhile: nothing was done",
                          t->name);
    if (!t->meta.legacy && leat_bytes_eq(u, leat_str(t->meta.u)))
        return LEAT_OK;
    return leat__fail(err, LEAT_ESTALE,
                      "topic '%s' was removed and made again meanwhile: "
                      "nothing was done to the new one",
                      t->name);
}

static leat_code look(const leat__topic_at *t, leat_conn *conn, leat_error *err)
{
    leat__key key;
    leat_reply *r = NULL;
    leat__key_meta(&key, t->prefix, t->name);
    const leat_bytes argv[] = { leat_str("HMGET"), leat__key_bytes(&key),
                                leat_str("u"), leat_str("gone"),
                                leat_str("partitions") };
    leat_code rc = ask(t, conn, argv, 5, &r, err);
    if (rc == LEAT_OK)
        rc = compare(t, r, err);
    leat_reply_free(r);
    return rc;
}

/* What is there is put into here. */
static leat_code identify(const leat__topic_at *t, leat_conn *conn,
                          const leat__key *id, char here[LEAT__INCARNATION + 1],
                          leat_error *err)
{
    const leat__script *s = &leat__script_topic_identify;
    leat_reply *r = NULL;
    const leat_bytes argv[] = {
        leat_str("EVAL"), leat_mem(s->body, s->body_size),
        leat_str("1"),    leat__key_bytes(id),
        leat_str(here),   leat_str(t->meta.u)
    };
    leat_code rc = ask(t, conn, argv, 6, &r, err);
    if (rc == LEAT_OK)
        take_id(here, r);
    leat_reply_free(r);
    return rc;
}

/* What is found is read before the hash is: what that says by then is right, or
 * the id is not what was read any more. */
leat_code leat__topic_same(const leat__topic_at *t, leat_conn *conn,
                           const leat__key *id, leat_error *err)
{
    char here[LEAT__INCARNATION + 1] = "";
    leat_reply *r = NULL;
    leat_code rc = ask(t, conn, LEAT_ARGS(leat_str("GET"), leat__key_bytes(id)),
                       &r, err);
    if (rc == LEAT_OK)
        take_id(here, r);
    leat_reply_free(r);
    if (rc == LEAT_OK)
        rc = look(t, conn, err);
    if (rc == LEAT_OK && strcmp(here, t->meta.u) != 0)
        rc = identify(t, conn, id, here, err);
    return rc;
}
