/*
 * describe.c: names of topics and groups, and what a topic holds.
 *
 * Sets are read by SSCAN, so that a registry of any size costs the server one
 * small step at a time; partitions by look.c.
 */
#include "topic/describe.h"
#include "base/mem.h"
#include "redis/client.h"
#include "redis/scan.h"
#include "redis/shape.h"
#include "topic/look.h"
#include "topic/names.h"

#include <stdio.h>

enum { LEND_MS = 5000 };

/* ---- positions -------------------------------------------------------- */

bool leat__position_parse(leat_bytes text, leat_position *out)
{
    leat__id id;
    if (!leat__id_parse(text, &id))
        return false;
    *out = (leat_position){ .ms = id.ms, .seq = id.seq };
    return true;
}

leat_bytes leat__position_format(leat_position at, char text[LEAT__ID_TEXT])
{
    return leat__id_format((leat__id){ .ms = at.ms, .seq = at.seq }, text);
}

leat_position leat__position_after(leat_position at)
{
    if (at.seq < UINT64_MAX)
        return (leat_position){ .ms = at.ms, .seq = at.seq + 1 };
    if (at.ms < UINT64_MAX)
        return (leat_position){ .ms = at.ms + 1 };
    return at;
}

leat_position leat__position_before(leat_position at)
{
    if (at.seq > 0)
        return (leat_position){ .ms = at.ms, .seq = at.seq - 1 };
    if (at.ms > 0)
        return (leat_position){ .ms = at.ms - 1, .seq = UINT64_MAX };
    return at;
}

/* ---- replies ---------------------------------------------------------- */

leat__pairs leat__pairs_of(const leat_reply *r)
{
    return (leat__pairs){ leat_reply_each(r), leat_reply_len(r) / 2 };
}

bool leat__pairs_next(leat__pairs *p, leat_bytes *name,
                      const leat_reply **value)
{
    if (p->left == 0)
        return false;
    p->left--;
    *name = leat_reply_bytes(leat_reply_step(&p->rest));
    *value = leat_reply_step(&p->rest);
    return true;
}

size_t leat__pairs_bytes(leat__pairs p)
{
    leat_bytes name;
    const leat_reply *value = NULL;
    size_t n = 0;
    while (leat__pairs_next(&p, &name, &value))
        n += name.n + leat_reply_bytes(value).n;
    return n;
}

char *leat__arena_text(leat__arena *a, leat_bytes b, leat_error *err)
{
    char *p = leat__arena_alloc(a, b.n + 1, err);
    if (!p)
        return NULL;
    if (b.n)
        memcpy(p, b.p, b.n);
    p[b.n] = '\0';
    return p;
}

/* ---- names ------------------------------------------------------------ */

static leat_code add_page(leat__names *x, leat__junk *junk,
                          const leat_reply *page, leat_error *err)
{
    leat_reply_iter it = leat_reply_each(page);
    leat_code code = LEAT_OK;
    for (const leat_reply *at;
         code == LEAT_OK && (at = leat_reply_step(&it));) {
        leat_bytes name = leat_reply_bytes(at);
        if (leat__name_is(name))
            code = leat__names_add(x, name, err);
        else
            leat__junk_note(junk, name);
    }
    return code;
}

static leat_code scan(leat_client *c, const leat__key *key, leat__names *x,
                      leat__junk *junk, leat_error *err)
{
    leat__scan s;
    const leat_call_opts again = { .idempotent = true };
    leat_code code = LEAT_OK;
    leat__scan_begin(&s, "the names", c->opts.timeout_ms);
    do {
        leat_reply *r = NULL;
        const leat_reply *page;
        code = leat_client_call(
            c,
            LEAT_ARGS(leat_str("SSCAN"), leat__key_bytes(key),
                      leat_str(s.cursor), leat_str("COUNT"), leat_str("500")),
            &again, &r, err);
        if (code == LEAT_OK)
            code = leat__scan_page(&s, r, &page, err);
        if (code == LEAT_OK)
            code = add_page(x, junk, page, err);
        leat_reply_free(r);
    } while (code == LEAT_OK && !s.over);
    return code;
}

static leat_names *names_of(leat_client *c, const leat__key *key,
                            leat_error *err)
{
    leat__junk junk = { 0 };
    leat__names *x = leat__names_new(err);
    if (!x)
        return NULL;
    if (scan(c, key, x, &junk, err) != LEAT_OK) {
        leat_names_free(&x->pub);
        return NULL;
    }
    leat__junk_tell(&junk, key->p, &c->opts.log);
    return leat__names_done(x);
}

leat_names *leat_topic_names(leat_client *c, const char *prefix,
                             leat_error *err)
{
    leat__key key;
    if (leat__prefix_check(prefix, err) != LEAT_OK)
        return NULL;
    leat__key_topics(&key, prefix);
    return names_of(c, &key, err);
}

leat_names *leat_group_names(leat_client *c, const char *topic,
                             const char *prefix, leat_error *err)
{
    leat__key key;
    if (leat__topic_check(prefix, topic, err) != LEAT_OK)
        return NULL;
    leat__key_groups(&key, prefix, topic);
    return names_of(c, &key, err);
}

/* ---- looking up ------------------------------------------------------- */

leat_code leat__topic_at_look(leat__topic_at *t, leat_client *c,
                              const char *name, const char *prefix,
                              leat_error *err)
{
    *t = (leat__topic_at){ .client = c, .prefix = prefix, .name = name };
    leat_code code = leat__topic_check(prefix, name, err);
    if (code == LEAT_OK)
        code = leat__topic_lookup(c, prefix, name, &t->meta, err);
    return code;
}

leat_code leat__topic_at_init(leat__topic_at *t, leat_client *c,
                              const char *name, const char *prefix,
                              leat_error *err)
{
    leat_code code = leat__topic_at_look(t, c, name, prefix, err);
    return code == LEAT_OK ? leat__topic_whole(name, &t->meta, err) : code;
}

static leat_code read_incarnation(const leat__topic_at *t, leat_conn *conn,
                                  const char *group,
                                  char u[LEAT__INCARNATION + 1],
                                  leat_error *err)
{
    leat__key key;
    const leat_reply *r = NULL;
    leat__key_group(&key, t->prefix, t->name, group);
    leat_code code = leat_conn_call(
        conn, LEAT_ARGS(leat_str("HGET"), leat__key_bytes(&key), leat_str("u")),
        NULL, &r, err);
    if (code != LEAT_OK)
        return code;
    code = leat__reply_want(r, "o", LEAT_EPROTO, "HGET", err);
    leat_bytes text = leat_reply_bytes(r);
    snprintf(u, LEAT__INCARNATION + 1, "%.*s", (int)text.n,
             text.n ? (const char *)text.p : "");
    return code;
}

leat_code leat__group_there(const leat__topic_at *t, leat_conn *conn,
                            const char *group, char u[LEAT__INCARNATION + 1],
                            leat_error *err)
{
    leat__key key;
    const leat_reply *r = NULL;
    leat__key_groups(&key, t->prefix, t->name);
    leat_code code = leat_conn_call(conn,
                                    LEAT_ARGS(leat_str("SISMEMBER"),
                                              leat__key_bytes(&key),
                                              leat_str(group)),
                                    NULL, &r, err);
    if (code == LEAT_OK)
        code = leat__reply_want(r, "i", LEAT_EPROTO, "SISMEMBER", err);
    if (code == LEAT_OK && leat_reply_int(r) == 0)
        code = leat__fail(err, LEAT_ENOENT, "topic '%s' has no group '%s'",
                          t->name, group);
    if (code == LEAT_OK && u)
        code = read_incarnation(t, conn, group, u, err);
    return code;
}

/* ---- a topic ---------------------------------------------------------- */

typedef struct topic_info {
    leat_topic_info pub;
    leat_partition_info *list;
    leat__look *looks;
    char *name;
    char id[LEAT__INCARNATION + 1];
    leat__arena arena;
} topic_info;

void leat_topic_info_free(leat_topic_info *t)
{
    topic_info *x = (topic_info *)t;
    if (!x)
        return;
    leat__free(x->list);
    leat__free(x->looks);
    leat__free(x->name);
    leat__arena_release(&x->arena);
    leat__free(x);
}

static leat_code read_topic(const leat__topic_at *t, topic_info *x,
                            leat_error *err)
{
    leat_conn *conn = leat_client_lend(t->client, LEND_MS, err);
    if (!conn)
        return err ? err->code : LEAT_ECONN;
    leat__key groups;
    const leat_reply *r = NULL;
    leat_code code = leat__look_all(t, conn, NULL, &x->arena, x->looks, err);
    leat__key_groups(&groups, t->prefix, t->name);
    if (code == LEAT_OK)
        code = leat_conn_call(
            conn, LEAT_ARGS(leat_str("SCARD"), leat__key_bytes(&groups)), NULL,
            &r, err);
    if (code == LEAT_OK)
        code = leat__reply_want(r, "i", LEAT_EPROTO, "SCARD", err);
    if (code == LEAT_OK)
        x->pub.groups = leat_reply_int(r);
    leat_client_return(t->client, conn);
    return code;
}

static void fill_partition(topic_info *x, uint32_t i)
{
    const leat__look *l = &x->looks[i];
    leat_topic_info *sum = &x->pub;
    leat_partition_info *p = &x->list[i];
    *p = (leat_partition_info){ .partition = i,
                                .entries = l->log.entries,
                                .added = l->log.added,
                                .first = l->log.first,
                                .last = l->log.last,
                                .bytes = l->bytes,
                                .rate = l->rate,
                                .dead = l->dead,
                                .delayed = l->later };
    sum->entries += p->entries;
    sum->dead += p->dead;
    sum->delayed += p->delayed;
    sum->bytes = sum->bytes < 0 || p->bytes < 0 ? -1 : sum->bytes + p->bytes;
    sum->rate = sum->rate < 0 || p->rate < 0 ? -1 : sum->rate + p->rate;
    if (p->entries > 0 && (leat__position_zero(sum->first) ||
                           leat__position_cmp(p->first, sum->first) < 0))
        sum->first = p->first;
    if (leat__position_cmp(p->last, sum->last) > 0)
        sum->last = p->last;
}

static void fill_topic(topic_info *x, const leat__topic_meta *meta)
{
    x->pub.name = x->name;
    x->pub.partitions = meta->partitions;
    x->pub.partitioner = meta->partitioner;
    x->pub.partitioner_name = leat__partitioner_name(meta->partitioner);
    x->pub.legacy = meta->legacy;
    x->pub.created_ms = meta->created_ms;
    x->pub.updated_ms = meta->updated_ms;
    x->pub.partition = x->list;
    x->pub.retention = meta->retention;
    x->pub.id = x->id;
    memcpy(x->id, meta->u, sizeof x->id);
    x->pub.removing = meta->gone;
    for (uint32_t i = 0; i < meta->partitions; i++)
        fill_partition(x, i);
}

leat_topic_info *leat_topic_describe(leat_client *c, const char *name,
                                     const char *prefix, leat_error *err)
{
    leat__topic_at t;
    if (leat__topic_at_look(&t, c, name, prefix, err) != LEAT_OK)
        return NULL;
    topic_info *x = leat__zalloc(sizeof *x, err);
    if (!x)
        return NULL;
    size_t n = t.meta.partitions;
    x->name = leat__strdup(name, err);
    x->list = x->name ? leat__calloc(n, sizeof *x->list, err) : NULL;
    x->looks = x->list ? leat__calloc(n, sizeof *x->looks, err) : NULL;
    if (!x->looks || read_topic(&t, x, err) != LEAT_OK) {
        leat_topic_info_free(&x->pub);
        return NULL;
    }
    fill_topic(x, &t.meta);
    return &x->pub;
}

bool leat_partitioner_find(const char *name, leat_partitioner *out)
{
    return leat__partitioner_find(leat_str(name), out);
}
