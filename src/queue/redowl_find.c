/*
 * redowl_find.c: which queues of redowl there are.
 */
#include "queue/redowl_find.h"
#include "base/mem.h"
#include "base/system.h"
#include "queue/profile.h"
#include "redis/client.h"
#include "redis/cluster.h"
#include "redis/scan.h"
#include "redis/shape.h"

#include <stdio.h>
#include <string.h>

enum { PAGE = 1000 /* keys looked at, about */, NODES_MAX = 1000 };

struct leat__finder {
    leat_client *client;
    leat__key head;     /* "<prefix>:"                            */
    leat__key pattern;  /* of all keys that may tell of a queue   */
    leat__scan scan;    /* of the node that is read               */
    leat_conn *conn;    /* to it, on a cluster                    */
    size_t node, nodes; /* which one of how many; 0: none is read */
    leat__address at[NODES_MAX];
};

/* ---- names ------------------------------------------------------------ */

/* The prefix, with what means something in a pattern escaped; then ready,
 * receipt, inflight, dlq and dlq_inflight, and nothing that is a message's: ids
 * are hexadecimal. */
static void make_pattern(leat__key *k, const char *prefix)
{
    char text[2 * LEAT_REDOWL_PREFIX_MAX + 1];
    size_t n = 0;
    for (const char *p = prefix; *p && n + 2 < sizeof text; p++) {
        if (strchr("*?[]^\\", *p))
            text[n++] = '\\';
        text[n++] = *p;
    }
    text[n] = '\0';
    leat__key_put(k, "%s:*:[rid]*[yqt]", text);
}

/* A queue of leat's own in the same namespace: "{q/<shard>}:<name>". */
static bool is_native(leat_bytes name)
{
    return name.n > 3 && memcmp(name.p, "{q/", 3) == 0;
}

/* The name that the key is of; false: of none. */
static bool name_of(const leat__finder *f, leat_bytes key, leat_bytes *name)
{
    static const char *const ends[] = { ":ready", ":inflight", ":dlq",
                                        ":dlq_inflight", ":receipt" };
    if (key.n <= f->head.n || memcmp(key.p, f->head.p, f->head.n) != 0)
        return false;
    const char *p = (const char *)key.p + f->head.n;
    size_t n = key.n - f->head.n;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t end = strlen(ends[i]);
        if (n > end && n - end <= LEAT_REDOWL_NAME_MAX &&
            memcmp(p + n - end, ends[i], end) == 0) {
            *name = leat_mem(p, n - end);
            return !is_native(*name) && !memchr(p, '\0', n);
        }
    }
    return false;
}

static leat_code tell(const leat__finder *f, leat_bytes key, leat__found_fn *fn,
                      void *arg, leat_error *err)
{
    char text[LEAT_REDOWL_NAME_MAX + 1];
    leat_bytes name;
    if (!name_of(f, key, &name))
        return LEAT_OK;
    memcpy(text, name.p, name.n);
    text[name.n] = '\0';
    /* What leat would not open is somebody else's key. */
    if (leat__queue_redowl.check(text, &(leat_queue_opts){ 0 }, NULL) !=
        LEAT_OK)
        return LEAT_OK;
    return fn(arg, name, err);
}

/* ---- pages ------------------------------------------------------------ */

static leat_code read_page(leat__finder *f, leat_conn *conn, leat__found_fn *fn,
                           void *arg, leat_error *err)
{
    char count[LEAT__NUMBER];
    const leat_reply *r, *items;
    leat_code rc = leat_conn_call(
        conn,
        LEAT_ARGS(leat_str("SCAN"), leat_str(f->scan.cursor), leat_str("MATCH"),
                  leat__key_bytes(&f->pattern), leat_str("COUNT"),
                  leat__arg_int(count, PAGE)),
        NULL, &r, err);
    if (rc == LEAT_OK)
        rc = leat__reply_want(r, "[t[(t)]]", LEAT_EPROTO, "SCAN", err);
    if (rc == LEAT_OK)
        rc = leat__scan_page(&f->scan, r, &items, err);
    if (rc != LEAT_OK)
        return rc;
    leat_reply_iter it = leat_reply_each(items);
    for (const leat_reply *at; rc == LEAT_OK && (at = leat_reply_step(&it));)
        rc = tell(f, leat_reply_bytes(at), fn, arg, err);
    return rc;
}

/* Every page is progress, however few of its keys are a queue's. */
static void begin_node(leat__finder *f)
{
    leat__scan_begin(&f->scan, "the keys", INT32_MAX);
}

static void begin_round(leat__finder *f)
{
    leat__conn_free(f->conn);
    f->conn = NULL;
    f->node = 0;
    f->nodes = 1;
    if (leat__client_clustered(f->client)) {
        f->nodes = leat__cluster_masters(f->client->cluster, f->at, NODES_MAX);
        f->nodes = f->nodes < NODES_MAX ? f->nodes : NODES_MAX;
    }
    begin_node(f);
}

/* Lent, or on a cluster one of our own. */
static leat_conn *node_conn(leat__finder *f, leat_error *err)
{
    int64_t ms = f->client->opts.timeout_ms;
    if (!leat__client_clustered(f->client))
        return leat_client_lend(f->client, ms, err);
    if (!f->conn)
        f->conn = leat__cluster_dial_at(f->client->cluster, &f->at[f->node],
                                        leat__deadline_ns(ms), err);
    return f->conn;
}

static leat_code one_page(leat__finder *f, leat__found_fn *fn, void *arg,
                          leat_error *err)
{
    leat_error e = { 0 };
    leat_conn *conn = node_conn(f, &e);
    leat_code rc = conn ? read_page(f, conn, fn, arg, &e) : e.code;
    if (conn && conn != f->conn)
        leat_client_return(f->client, conn);
    if (rc != LEAT_OK && err)
        *err = e;
    return rc;
}

leat_code leat__finder_step(leat__finder *f, int pages, leat__found_fn *fn,
                            void *arg, bool *over, leat_error *err)
{
    leat_code rc = LEAT_OK;
    *over = false;
    if (f->nodes == 0)
        begin_round(f);
    for (int i = 0; rc == LEAT_OK && i < pages && f->node < f->nodes; i++) {
        rc = one_page(f, fn, arg, err);
        if (rc != LEAT_OK || !f->scan.over)
            continue;
        leat__conn_free(f->conn);
        f->conn = NULL;
        f->node++;
        begin_node(f);
    }
    *over = rc == LEAT_OK && f->node >= f->nodes;
    if (rc != LEAT_OK || *over)
        f->nodes = 0;
    return rc;
}

/* ---- its life --------------------------------------------------------- */

leat__finder *leat__finder_new(leat_client *c, const char *prefix,
                               leat_error *err)
{
    leat__finder *f = leat__zalloc(sizeof *f, err);
    if (!f)
        return NULL;
    prefix = leat__profile_prefix(&leat__queue_redowl, prefix);
    f->client = c;
    leat__key_put(&f->head, "%s:", prefix);
    make_pattern(&f->pattern, prefix);
    return f;
}

void leat__finder_free(leat__finder *f)
{
    if (f)
        leat__conn_free(f->conn);
    leat__free(f);
}
