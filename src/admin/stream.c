/*
 * stream.c: which plain streams there are, what they hold, and removing one.
 *
 *   <name>   stream   any key of that type; nothing else is kept of it
 *
 * Streams are in no registry: the server walks its keys, on a cluster each
 * master its own.  What leat keeps for its topics are streams, too, and left
 * out.
 */
#include "stream/stream.h"
#include "base/mem.h"
#include "base/system.h"
#include "message/name.h"
#include "redis/cluster.h"
#include "redis/scan.h"
#include "redis/script.h"
#include "redis/shape.h"
#include "topic/look.h"
#include "topic/names.h"
#include <leat/admin.h>

#include <stdio.h>

enum { MASTERS = 1024 }; /* of a cluster that is listed */

/* ---- names ------------------------------------------------------------ */

typedef struct listing {
    const leat_stream_names_opts *opts;
    leat__names *names;
    leat__junk junk;
    char own[LEAT__PREFIX_MAX + 2]; /* "leat:" */
} listing;

static bool is_name(leat_bytes b)
{
    return b.n > 0 && b.n <= LEAT__STREAM_NAME && !memchr(b.p, 0, b.n);
}

static bool is_own(const listing *x, leat_bytes b)
{
    size_t n = strlen(x->own);
    return !x->opts->all && b.n >= n && memcmp(b.p, x->own, n) == 0;
}

static leat_code add_page(listing *x, const leat_reply *page, leat_error *err)
{
    leat_reply_iter it = leat_reply_each(page);
    leat_code code = LEAT_OK;
    for (const leat_reply *at;
         code == LEAT_OK && (at = leat_reply_step(&it));) {
        leat_bytes name = leat_reply_bytes(at);
        if (!is_name(name))
            leat__junk_note(&x->junk, name);
        else if (!is_own(x, name))
            code = leat__names_add(x->names, name, err);
    }
    return code;
}

/* The streams of the one server behind conn. */
static leat_code walk(listing *x, leat_conn *conn, int64_t timeout_ms,
                      leat_error *err)
{
    leat__scan s;
    leat_code code;
    const char *match = x->opts->match ? x->opts->match : "*";
    leat__scan_begin(&s, "the keys", timeout_ms);
    do {
        const leat_reply *r = NULL;
        code = leat_conn_call(conn,
                              LEAT_ARGS(leat_str("SCAN"), leat_str(s.cursor),
                                        leat_str("MATCH"), leat_str(match),
                                        leat_str("COUNT"), leat_str("1000"),
                                        leat_str("TYPE"), leat_str("stream")),
                              NULL, &r, err);
        if (code == LEAT_OK)
            code = leat__reply_want(r, "[t[(t)]]", LEAT_EPROTO, "SCAN", err);
        if (code == LEAT_OK)
            code = add_page(x, leat_reply_at(r, 1), err);
        /* Each step is progress, also one that met no stream. */
        if (code == LEAT_OK)
            code = leat__scan_next(&s, leat_reply_bytes(leat_reply_at(r, 0)),
                                   true, err);
    } while (code == LEAT_OK && !s.over);
    return code;
}

static leat_code walk_cluster(listing *x, leat_client *c, leat_error *err)
{
    leat__address *at = leat__calloc(MASTERS, sizeof *at, err);
    if (!at)
        return LEAT_ENOMEM;
    leat_code code = LEAT_OK;
    size_t n = leat__cluster_masters(c->cluster, at, MASTERS);
    if (n > MASTERS)
        code = leat__fail(err, LEAT_ETOOBIG, "more than %d masters", MASTERS);
    for (size_t i = 0; i < n && code == LEAT_OK; i++) {
        leat_error e = { 0 };
        leat_conn *conn = leat__cluster_dial_at(
            c->cluster, &at[i], leat__deadline_ns(c->opts.timeout_ms), &e);
        code = conn ? walk(x, conn, c->opts.timeout_ms, &e) : e.code;
        if (conn)
            leat__conn_free(conn);
        if (code != LEAT_OK && err)
            *err = e;
    }
    leat__free(at);
    return code;
}

static leat_code walk_all(listing *x, leat_client *c, leat_error *err)
{
    leat_error e = { 0 };
    if (leat__client_clustered(c))
        return walk_cluster(x, c, err);
    leat_conn *conn = leat_client_lend(c, c->opts.timeout_ms, &e);
    leat_code code = conn ? walk(x, conn, c->opts.timeout_ms, &e) : e.code;
    if (conn)
        leat_client_return(c, conn);
    if (code != LEAT_OK && err)
        *err = e;
    return code;
}

leat_names *leat_stream_names(leat_client *c,
                              const leat_stream_names_opts *opts,
                              leat_error *err)
{
    const leat_stream_names_opts o = opts ? *opts
                                          : (leat_stream_names_opts){ 0 };
    listing x = { .opts = &o };
    if (leat__prefix_check(o.prefix, err) != LEAT_OK)
        return NULL;
    snprintf(x.own, sizeof x.own, "%s:", leat__prefix_of(o.prefix));
    x.names = leat__names_new(err);
    if (!x.names)
        return NULL;
    if (walk_all(&x, c, err) != LEAT_OK) {
        leat_names_free(&x.names->pub);
        return NULL;
    }
    leat__junk_tell(&x.junk, "the keys", &c->opts.log);
    return leat__names_done(x.names);
}

/* ---- one stream ------------------------------------------------------- */

typedef struct stream_info {
    leat_stream_info pub;
    leat_stream_group *list;
    leat__look look;
    leat__arena arena;
    leat_error first; /* failure, in a callback */
} stream_info;

void leat_stream_info_free(leat_stream_info *s)
{
    stream_info *x = (stream_info *)s;
    if (!x)
        return;
    leat__arena_release(&x->arena);
    leat__free(x->list);
    leat__free(x);
}

/* Is there an answer of that shape?  If not, the first reason is kept; the
 * later ones only follow from it. */
static bool came(stream_info *x, const leat_reply *r, const leat_error *err,
                 const char *shape, const char *what)
{
    leat_error odd;
    err = leat__reply_odd(r, err, shape, what, &odd);
    if (err && x->first.code == LEAT_OK)
        x->first = *err;
    return !err;
}

static void on_type(void *arg, const leat_reply *r, const leat_error *err)
{
    stream_info *x = arg;
    if (came(x, r, err, "t", "TYPE"))
        (void)leat__stream_kind(x->pub.name, leat_reply_bytes(r), &x->first);
}

static void on_info(void *arg, const leat_reply *r, const leat_error *err)
{
    stream_info *x = arg;
    x->look.log.added = -1;
    if (came(x, r, err, "[(t_)]", "XINFO") && !leat__look_info(r, &x->look))
        (void)came(x, NULL, NULL, "_", "XINFO");
}

/* A right that is missing is no failure. */
static void on_memory(void *arg, const leat_reply *r, const leat_error *err)
{
    stream_info *x = arg;
    x->pub.bytes = !err && leat__reply_fits(r, "i") ? leat_reply_int(r) : -1;
}

/* Before Redis 7, and where it lost count, the server does not say.  Then it is
 * certain only at either end. */
static int64_t lag_of(const stream_info *x, const leat_stream_group *g)
{
    const leat__look *l = &x->look;
    if (g->lag >= 0)
        return g->lag;
    if (l->log.entries == 0 || leat__position_cmp(g->last, l->log.last) >= 0)
        return 0;
    return leat__position_cmp(g->last, l->log.first) < 0 ? l->log.entries : -1;
}

static bool read_group(stream_info *x, const leat_reply *r,
                       leat_stream_group *g)
{
    leat__pairs p = leat__pairs_of(r);
    leat_bytes name;
    const leat_reply *value = NULL;
    int found = 0;
    g->lag = -1;
    while (leat__pairs_next(&p, &name, &value)) {
        bool number = leat__reply_fits(value, "i");
        if (leat_bytes_eq(name, leat_str("name"))) {
            leat_bytes is = leat_reply_bytes(value);
            const char *copy = leat__arena_text(&x->arena, is, &x->first);
            g->name = leat_mem(copy, is.n);
            found += copy != NULL;
        } else if (leat_bytes_eq(name, leat_str("consumers")) && number) {
            g->consumers = leat_reply_int(value);
        } else if (leat_bytes_eq(name, leat_str("pending")) && number) {
            g->pending = leat_reply_int(value);
            found++;
        } else if (leat_bytes_eq(name, leat_str("lag")) && number) {
            g->lag = leat_reply_int(value);
        } else if (leat_bytes_eq(name, leat_str("last-delivered-id"))) {
            found += leat__position_parse(leat_reply_bytes(value), &g->last);
        }
    }
    g->lag = lag_of(x, g);
    return found == 3;
}

static void on_groups(void *arg, const leat_reply *r, const leat_error *err)
{
    stream_info *x = arg;
    size_t n = leat_reply_len(r);
    if (!came(x, r, err, "[([(t_)])]|[({(t_)})]", "XINFO") || n == 0)
        return;
    x->list = leat__calloc(n, sizeof *x->list, &x->first);
    leat_reply_iter it = leat_reply_each(r);
    for (const leat_reply *g; x->list && (g = leat_reply_step(&it));)
        if (!read_group(x, g, &x->list[x->pub.groups++]))
            (void)came(x, NULL, NULL, "_", "XINFO");
    x->pub.group = x->list;
}

static leat_code ask(stream_info *x, leat_conn *conn, leat_error *err)
{
    const leat_bytes key = leat_str(x->pub.name);
    const struct {
        leat_bytes argv[3];
        size_t n;
        leat_reply_fn *fn;
    } all[] = {
        { { leat_str("TYPE"), key }, 2, on_type },
        { { leat_str("XINFO"), leat_str("STREAM"), key }, 3, on_info },
        { { leat_str("XINFO"), leat_str("GROUPS"), key }, 3, on_groups },
        { { leat_str("MEMORY"), leat_str("USAGE"), key }, 3, on_memory },
    };
    leat_code code = LEAT_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all && code == LEAT_OK; i++)
        code = leat_conn_send(conn, all[i].argv, all[i].n,
                              &(leat_send_opts){ .fn = all[i].fn, .arg = x },
                              err);
    /* Also after a failure: the answers come to where we are. */
    leat_code end = leat_conn_drain(conn, 0, code == LEAT_OK ? err : NULL);
    if (code == LEAT_OK)
        code = end;
    if (code == LEAT_OK && x->first.code != LEAT_OK) {
        code = x->first.code;
        if (err)
            *err = x->first;
    }
    return code;
}

static leat_code look(stream_info *x, leat_client *c, const char *name,
                      leat_error *err)
{
    leat_error e = { 0 };
    x->pub.name = leat__arena_text(&x->arena, leat_str(name), err);
    if (!x->pub.name)
        return LEAT_ENOMEM;
    leat_conn *conn = leat_client_lend(c, c->opts.timeout_ms, &e);
    leat_code code = conn ? ask(x, conn, &e) : e.code;
    if (conn)
        leat_client_return(c, conn);
    x->pub.entries = x->look.log.entries;
    x->pub.added = x->look.log.added;
    x->pub.first = x->look.log.first;
    x->pub.last = x->look.log.last;
    if (code != LEAT_OK && err)
        *err = e;
    return code;
}

leat_stream_info *leat_stream_describe(leat_client *c, const char *name,
                                       leat_error *err)
{
    if (leat__stream_name_check(name, err) != LEAT_OK)
        return NULL;
    stream_info *x = leat__zalloc(sizeof *x, err);
    if (x && look(x, c, name, err) != LEAT_OK) {
        leat_stream_info_free(&x->pub);
        return NULL;
    }
    return x ? &x->pub : NULL;
}

/* ---- removing --------------------------------------------------------- */

static leat_code refuse_own(const char *name, const char *prefix,
                            leat_error *err)
{
    const char *own = leat__prefix_of(prefix);
    size_t n = strlen(own);
    if (strncmp(name, own, n) != 0 || name[n] != ':')
        return LEAT_OK;
    return leat__fail(err, LEAT_EINVAL,
                      "'%.100s' is a part of a topic: remove the topic instead",
                      name);
}

static leat_code unmake(leat_conn *conn, const char *name, leat_error *err)
{
    const leat_reply *r = NULL;
    const leat_bytes key = leat_str(name);
    leat_code code = leat__script_call(conn, &leat__script_admin_unstream, &key,
                                       1, NULL, 0, &r, err);
    if (code == LEAT_OK)
        code = leat__reply_want(r, "t", LEAT_EUNKNOWN, "a removal", err);
    return code == LEAT_OK ? leat__stream_kind(name, leat_reply_bytes(r), err)
                           : code;
}

leat_code leat_stream_remove(leat_client *c, const char *name,
                             const char *prefix, leat_error *err)
{
    leat_error e = { 0 };
    leat_code code = leat__stream_name_check(name, &e);
    if (code == LEAT_OK)
        code = leat__prefix_check(prefix, &e);
    if (code == LEAT_OK)
        code = refuse_own(name, prefix, &e);
    leat_conn *conn = code == LEAT_OK
                          ? leat_client_lend(c, c->opts.timeout_ms, &e)
                          : NULL;
    code = conn ? unmake(conn, name, &e) : e.code;
    if (conn)
        leat_client_return(c, conn);
    if (code != LEAT_OK && err)
        *err = e;
    return code;
}
