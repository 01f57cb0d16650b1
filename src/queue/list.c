/*
 * list.c: the names of all queues under a prefix.
 *
 * Each shard has a set of its queues, read a page at a time, of all shards side
 * by side: to read a large set at once would keep the server from everybody
 * else.  A scan tells of every name that is there from its beginning to its
 * end, of some more than once; so they are sorted, and told once.  Queues of
 * redowl are found by their keys: see redowl_find.h.
 */
#include "base/mem.h"
#include "queue/queue.h"
#include "queue/redowl_find.h"
#include "redis/client.h"
#include "redis/scan.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    PAGE = 500, /* names at a time, about             */
};

typedef struct names {
    char **p;
    size_t n, room;
    leat__junk junk;
    leat_error err;
} names;

typedef struct shard_scan {
    names *to;
    leat__key key;
    leat__scan scan;
} shard_scan;

static bool keep_name(names *s, leat_bytes name)
{
    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        char **p = leat__realloc(s->p, room * sizeof *p, &s->err);
        if (!p)
            return false;
        s->p = p;
        s->room = room;
    }
    char *copy = leat__zalloc(name.n + 1, &s->err);
    if (!copy)
        return false;
    memcpy(copy, name.p, name.n);
    s->p[s->n++] = copy;
    return true;
}

static bool add_name(names *s, leat_bytes name)
{
    if (leat__name_is(name))
        return keep_name(s, name);
    leat__junk_note(&s->junk, name);
    return true;
}

/* [next cursor, [name, ...]]; the cursor 0 is the end. */
static void on_page(void *arg, const leat_reply *r, const leat_error *e)
{
    shard_scan *s = arg;
    if (s->to->err.code != LEAT_OK)
        return;
    if (e) {
        s->to->err = *e;
        return;
    }
    const leat_reply *items;
    if (leat__scan_page(&s->scan, r, &items, &s->to->err) != LEAT_OK)
        return;
    leat_reply_iter page = leat_reply_each(items);
    for (const leat_reply *at; (at = leat_reply_step(&page));)
        if (!add_name(s->to, leat_reply_bytes(at)))
            return;
}

/* A page of each shard that has more; *more: does any? */
static leat_code ask_pages(leat_conn *conn, shard_scan *all, bool *more,
                           leat_error *err)
{
    char count[LEAT__NUMBER];
    leat_code rc = LEAT_OK;
    for (unsigned i = 0; rc == LEAT_OK && i < LEAT__QUEUE_SHARDS; i++) {
        shard_scan *s = &all[i];
        if (s->scan.over)
            continue;
        rc = leat_conn_send(
            conn,
            LEAT_ARGS(leat_str("SSCAN"), leat__key_bytes(&s->key),
                      leat_str(s->scan.cursor), leat_str("COUNT"),
                      leat__arg_int(count, PAGE)),
            &(leat_send_opts){ .fn = on_page, .arg = s }, err);
    }
    if (rc == LEAT_OK)
        rc = leat_conn_drain(conn, 0, err);
    *more = false;
    for (unsigned i = 0; i < LEAT__QUEUE_SHARDS; i++)
        *more |= !all[i].scan.over;
    return rc;
}

static leat_code ask_shards(leat_client *c, const char *prefix, names *s,
                            leat_error *err)
{
    shard_scan all[LEAT__QUEUE_SHARDS] = { 0 };
    for (unsigned i = 0; i < LEAT__QUEUE_SHARDS; i++) {
        all[i].to = s;
        leat__scan_begin(&all[i].scan, "the queues", c->opts.timeout_ms);
        leat__key_shard(&all[i].key, prefix, i, "queues");
    }
    leat_conn *conn = leat_client_lend(c, c->opts.timeout_ms, err);
    if (!conn)
        return err ? err->code : LEAT_ECONN;
    leat_code rc = LEAT_OK;
    bool more = true;
    while (rc == LEAT_OK && more && s->err.code == LEAT_OK)
        rc = ask_pages(conn, all, &more, err);
    leat_client_return(c, conn);
    if (rc == LEAT_OK && s->err.code != LEAT_OK) {
        rc = s->err.code;
        if (err)
            *err = s->err;
    }
    return rc;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static leat_code on_found(void *arg, leat_bytes name, leat_error *err)
{
    names *s = arg;
    if (keep_name(s, name))
        return LEAT_OK;
    if (err)
        *err = s->err;
    return s->err.code;
}

enum { PAGES = 100 }; /* between looks at whether it is over */

/* All keys of the server, which takes as long as there are many. */
static leat_code ask_keys(leat_client *c, const char *prefix, names *s,
                          leat_error *err)
{
    bool over = false;
    leat_code rc = LEAT_OK;
    leat__finder *f = leat__finder_new(c, prefix, err);
    if (!f)
        return LEAT_ENOMEM;
    for (int i = 0; rc == LEAT_OK && !over && i < LEAT__STEPS_MAX; i++)
        rc = leat__finder_step(f, PAGES, on_found, s, &over, err);
    leat__finder_free(f);
    return rc;
}

leat_code leat_queue_list(leat_client *c, const char *prefix,
                          leat_queue_name_fn *fn, void *arg, leat_error *err)
{
    return leat_queue_list_of(c, &(leat_queue_opts){ .prefix = prefix }, fn,
                              arg, err);
}

leat_code leat_queue_list_of(leat_client *c, const leat_queue_opts *opts,
                             leat_queue_name_fn *fn, void *arg, leat_error *err)
{
    names s = { 0 };
    const leat_queue_opts o = opts ? *opts : (leat_queue_opts){ 0 };
    leat_code rc = leat__client_own(c, err);
    if (rc == LEAT_OK)
        rc = leat__queue_check("all", &o, err);
    if (rc == LEAT_OK)
        rc = leat__queue_profile(o.profile)->shard
                 ? ask_keys(c, o.prefix, &s, err)
                 : ask_shards(c, o.prefix, &s, err);
    if (rc == LEAT_OK)
        leat__junk_tell(&s.junk, "the queues", &c->opts.log);
    if (rc == LEAT_OK && s.n > 0)
        qsort(s.p, s.n, sizeof *s.p, by_name);
    for (size_t i = 0; rc == LEAT_OK && i < s.n; i++)
        if (i == 0 || strcmp(s.p[i - 1], s.p[i]) != 0)
            fn(arg, s.p[i]);
    for (size_t i = 0; i < s.n; i++)
        leat__free(s.p[i]);
    leat__free(s.p);
    return rc;
}
