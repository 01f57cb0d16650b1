/*
 * trim.c: one call of the script that trims a log, as tend.c and trim_now.c
 * make it.
 *
 * The script (trimming.lua) has to be given the keys of all groups.  Their
 * names are in another slot, so they are read before, and a group may join
 * between.  It is not overlooked: before it is told that it has joined, it is
 * noted beside every log (join.c), and with its cursor it gets a group of the
 * server's own there.  The script compares both with the names it was given.
 * One that it was not told of it asks about, and the names are read again.
 * What is still not among them is no group of the topic, but one that somebody
 * made by hand, or what a removal or a crash has left: it goes among the
 * `others`, and is named as known from then on, a noted one with its
 * incarnation, so that a later group of that name is asked about again.
 */
#include "topic/trim.h"
#include "base/mem.h"
#include "redis/script.h"
#include "redis/shape.h"
#include "topic/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIXED_KEYS = 5, FIXED_ARGS = 10 };

/* ---- names ------------------------------------------------------------ */

void leat__trim_names_release(leat__trim_names *n)
{
    leat__free(n->list);
    *n = (leat__trim_names){ 0 };
}

static leat_code grow(leat__trim_names *n, leat_error *err)
{
    if (n->all < n->room)
        return LEAT_OK;
    if (n->all >= LEAT__TRIM_GROUPS)
        return leat__fail(err, LEAT_ETOOBIG,
                          "more than %d groups: nothing is trimmed",
                          LEAT__TRIM_GROUPS);
    size_t room = n->room ? n->room * 2 : 8;
    leat__trim_name *list = leat__realloc(n->list, room * sizeof *list, err);
    if (!list)
        return LEAT_ENOMEM;
    n->list = list;
    n->room = room;
    return LEAT_OK;
}

static leat_code add(leat__trim_names *n, const leat__trim_name *new,
                     leat_error *err)
{
    leat_code rc = grow(n, err);
    if (rc == LEAT_OK)
        n->list[n->all++] = *new;
    return rc;
}

static const leat__trim_name *find(const leat__trim_names *n, size_t from,
                                   size_t to, const char *text)
{
    for (size_t i = from; i < to; i++)
        if (strcmp(n->list[i].text, text) == 0)
            return &n->list[i];
    return NULL;
}

/* What is no name was not put there by us. */
static bool to_name(leat_bytes b, leat__trim_name *out)
{
    *out = (leat__trim_name){ .state = '0' };
    if (!leat__name_is(b))
        return false;
    memcpy(out->text, b.p, b.n);
    return true;
}

/* "<name>" or "<name> <incarnation>". */
static bool to_other(leat_bytes b, leat__trim_name *out)
{
    const char *space = b.n ? memchr(b.p, ' ', b.n) : NULL;
    size_t name = space ? (size_t)(space - (const char *)b.p) : b.n;
    if (b.n >= sizeof out->text || memchr(b.p, 0, b.n) ||
        !to_name(leat_mem(b.p, name), out))
        return false;
    memcpy(out->text, b.p, b.n);
    return true;
}

/* Is it, without its incarnation, among the groups? */
static bool among_groups(const leat__trim_names *n, const char *other)
{
    char name[LEAT_NAME_MAX + 1];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(other, " "), other);
    return find(n, 0, n->groups, name);
}

static leat_code add_groups(leat__trim_names *n, const leat__trim_names *old,
                            const leat_reply *r, leat_error *err)
{
    leat_code rc = LEAT_OK;
    leat_reply_iter it = leat_reply_each(r);
    for (const leat_reply *at; rc == LEAT_OK && (at = leat_reply_step(&it));) {
        leat__trim_name new;
        if (!to_name(leat_reply_bytes(at), &new))
            continue;
        const leat__trim_name *was = find(old, 0, old->groups, new.text);
        rc = add(n, was ? was : &new, err);
    }
    n->groups = n->all;
    return rc;
}

leat_code leat__trim_names_read(leat__trim_names *n, const leat_reply *r,
                                leat_error *err)
{
    leat__trim_names new = { 0 };
    leat_code rc = leat__reply_want(r, "[(t)]", LEAT_EPROTO, "SMEMBERS", err);
    if (rc == LEAT_OK)
        rc = add_groups(&new, n, r, err);
    for (size_t i = n->groups; rc == LEAT_OK && i < n->all; i++)
        if (!among_groups(&new, n->list[i].text))
            rc = add(&new, &n->list[i], err);
    if (rc != LEAT_OK) {
        leat__trim_names_release(&new);
        return rc;
    }
    leat__trim_names_release(n);
    *n = new;
    n->named = n->all;
    return LEAT_OK;
}

/* ---- the call --------------------------------------------------------- */

bool leat__trim_by(const leat_retention *r, bool bulk, leat__trim_how *out)
{
    *out = (leat__trim_how){
        .max_age_ms = r->max_age_ms ? r->max_age_ms : -1,
        .max_entries = r->max_entries ? r->max_entries : -1,
        .forget = r->forget,
        .abandoned = r->abandoned,
        .abandoned_ms = r->abandoned_ms ? r->abandoned_ms : LEAT__ABANDONED_MS,
        .most = bulk ? LEAT__TRIM_BULK : LEAT__TRIM_PIECE,
        .bulk = bulk,
    };
    return r->max_age_ms || r->max_entries || r->forget || r->abandoned;
}

/* The words of a call, and the memory of its keys. */
typedef struct words {
    leat__key *keys;
    leat_bytes *argv;
    size_t nkeys, nargs;
} words;

static void add_keys(words *w, const leat__topic_at *t, uint32_t partition,
                     const leat__trim_names *n)
{
    const char *p = t->prefix;
    bool legacy = t->meta.legacy;
    leat__key *k = w->keys;
    leat__key_log(k++, p, t->name, legacy, partition);
    leat__key_part(k++, p, t->name, legacy, partition, "bodies", NULL);
    leat__key_part(k++, p, t->name, legacy, partition, "large", NULL);
    leat__key_part(k++, p, t->name, legacy, partition, "joined", NULL);
    for (size_t i = 0; i < n->groups; i++) {
        const char *group = n->list[i].text;
        leat__key_cursor(k++, p, t->name, legacy, partition, group);
        leat__key_lease(k++, p, t->name, legacy, partition, group);
    }
    leat__key_id(k++, t, partition);
    w->nkeys = (size_t)(k - w->keys);
    for (size_t i = 0; i < w->nkeys; i++)
        w->argv[i] = leat__key_bytes(&w->keys[i]);
}

static leat_bytes number_or_none(char text[LEAT__NUMBER], int64_t v)
{
    return v < 0 ? leat_mem("", 0) : leat__arg_int(text, v);
}

static leat_code send_words(leat_conn *c, words *w, const leat__trim_names *n,
                            const leat__trim_how *how,
                            const leat__topic_meta *meta,
                            const leat_send_opts *o, leat_error *err)
{
    char text[FIXED_ARGS][LEAT__NUMBER];
    leat_bytes *args = w->argv + w->nkeys;
    size_t i = 0;
    args[i++] = number_or_none(text[0], how->max_age_ms);
    args[i++] = number_or_none(text[1], how->max_entries);
    args[i++] = leat_str(leat_forget_name(how->forget));
    args[i++] = leat_str(leat_abandoned_name(how->abandoned));
    args[i++] = leat__arg_int(text[2], how->abandoned_ms);
    args[i++] = leat_str(LEAT__LEASE_KEEP);
    args[i++] = leat__arg_int(text[3], how->most);
    args[i++] = leat_str(how->force ? "force" : meta->legacy ? "others" : "");
    args[i++] = leat__arg_int(text[4], (int64_t)n->groups);
    for (size_t k = 0; k < n->named; k++)
        args[i++] = leat_str(n->list[k].text);
    args[i++] = leat_str(meta->u);
    return leat__script_send(
        c, how->bulk ? &leat__script_topic_trim : &leat__script_topic_trim60,
        w->argv, w->nkeys, args, i, o, err);
}

leat_code leat__trim_send(leat_conn *c, const leat__topic_at *t,
                          uint32_t partition, const leat__trim_names *n,
                          const leat__trim_how *how, const leat_send_opts *o,
                          leat_error *err)
{
    size_t keys = FIXED_KEYS + 2 * n->groups;
    words w = { .keys = leat__calloc(keys, sizeof *w.keys, err) };
    w.argv = w.keys
                 ? leat__calloc(keys + FIXED_ARGS + n->all, sizeof *w.argv, err)
                 : NULL;
    leat_code rc = LEAT_ENOMEM;
    if (w.argv) {
        add_keys(&w, t, partition, n);
        rc = send_words(c, &w, n, how, &t->meta, o, err);
    }
    leat__free(w.argv);
    leat__free(w.keys);
    return rc;
}

/* ---- the answer ------------------------------------------------------- */

static leat_code read_others(const leat_reply *r, leat__trim_names *n,
                             leat_error *err)
{
    leat_code rc = LEAT_OK;
    leat_reply_iter it = leat_reply_each(r);
    (void)leat_reply_step(&it);
    for (const leat_reply *at; rc == LEAT_OK && (at = leat_reply_step(&it));) {
        leat__trim_name new;
        if (to_other(leat_reply_bytes(at), &new) &&
            !find(n, 0, n->all, new.text))
            rc = add(n, &new, err);
    }
    return rc;
}

enum { FACTS = 8 }; /* before the states */

static void read_states(const leat_reply *r, leat__trim_names *n)
{
    size_t states = leat_reply_len(r) - FACTS;
    for (size_t i = 0; i < states && i < n->groups; i++) {
        leat_bytes s = leat_reply_bytes(leat_reply_at(r, FACTS + i));
        n->list[i].state = s.n == 1 ? *(const char *)s.p : '0';
    }
}

leat_code leat__trim_read(const leat_reply *r, leat__trim_names *n,
                          leat__trim_result *out, leat_error *err)
{
    *out = (leat__trim_result){ .wait_ms = -1 };
    const leat_reply *first = leat_reply_at(r, 0);
    if (leat_bytes_eq(leat_reply_bytes(first), leat_str("?")) &&
        leat__reply_fits(r, "[(t)]")) {
        out->asks = true;
        return read_others(r, n, err);
    }
    leat_code rc = leat__reply_want(r, "[iiiteene(t)]", LEAT_EPROTO, "a trim",
                                    err);
    if (rc != LEAT_OK)
        return rc;
    leat_bytes holder = leat_reply_bytes(leat_reply_at(r, 3));
    leat_bytes wait = leat_reply_bytes(leat_reply_at(r, 6));
    out->taken = leat_reply_int(first);
    out->again = leat_reply_int(leat_reply_at(r, 1)) == 1;
    out->length = leat_reply_int(leat_reply_at(r, 2));
    if (holder.n <= LEAT_NAME_MAX && holder.n > 0)
        memcpy(out->holder, holder.p, holder.n);
    (void)leat__position_parse(leat_reply_bytes(leat_reply_at(r, 4)),
                               &out->limit);
    (void)leat__position_parse(leat_reply_bytes(leat_reply_at(r, 5)),
                               &out->cut);
    if (wait.n > 0)
        out->wait_ms = leat_reply_int(leat_reply_at(r, 6));
    (void)leat__position_parse(leat_reply_bytes(leat_reply_at(r, 7)),
                               &out->want);
    read_states(r, n);
    return LEAT_OK;
}
