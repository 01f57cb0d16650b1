/*
 * trim_now.c: trimming a topic because somebody asks for it.
 *
 * The same script as the owners' (trim.c), called until it says that there is
 * no more, partition by partition.  A dry run calls it once for each to learn
 * what may go, and counts that; what a group holds back is counted likewise.
 * Counting is by pieces, too, and leaves the messages on the server.
 */
#include "base/mem.h"
#include "redis/scan.h"
#include "redis/script.h"
#include "redis/shape.h"
#include "topic/identity.h"
#include "topic/trim.h"

#include <string.h>

enum { LEND_MS = 5000, COUNT_PIECE = 500, NAMES_TRIES = 3 };

/* What one run knows. */
typedef struct run {
    leat__topic_at at;
    leat_conn *conn;
    leat__trim_names names;
    leat__trim_how how;
    bool dry;
    leat_trimmed *out;
} run;

/* ---- counting --------------------------------------------------------- */

/* Entries from `from` to `to`, both included, `most` at most. */
static leat_code count_range(const run *x, uint32_t partition,
                             leat_position from, leat_position to, int64_t most,
                             int64_t *out, leat_error *err)
{
    char a[LEAT__ID_TEXT], b[LEAT__ID_TEXT], n[LEAT__NUMBER];
    leat__key log;
    leat_code rc = LEAT_OK;
    bool more = true;
    leat__key_log(&log, x->at.prefix, x->at.name, x->at.meta.legacy, partition);
    *out = 0;
    while (more && *out < most) {
        const leat_reply *r;
        const leat_bytes key = leat__key_bytes(&log);
        const leat_bytes args[] = { leat__position_format(from, a),
                                    leat__position_format(to, b),
                                    leat__arg_int(n, COUNT_PIECE) };
        rc = leat__script_call(x->conn, &leat__script_topic_count, &key, 1,
                               args, 3, &r, err);
        if (rc == LEAT_OK)
            rc = leat__reply_want(r, "[iei]", LEAT_EPROTO, "a count", err);
        if (rc != LEAT_OK)
            break;
        *out += leat_reply_int(leat_reply_at(r, 0));
        more = leat_reply_int(leat_reply_at(r, 2)) == 1;
        if (!leat__position_parse(leat_reply_bytes(leat_reply_at(r, 1)), &from))
            break;
        from = leat__position_after(from);
    }
    if (*out > most)
        *out = most;
    return rc;
}

static leat_position higher(leat_position a, leat_position b)
{
    return leat__position_cmp(a, b) > 0 ? a : b;
}

/* ---- one call --------------------------------------------------------- */

static leat_code read_names(run *x, leat_error *err)
{
    const leat_reply *r;
    leat__key key;
    leat__key_groups(&key, x->at.prefix, x->at.name);
    leat_code rc = leat_conn_call(
        x->conn, LEAT_ARGS(leat_str("SMEMBERS"), leat__key_bytes(&key)), NULL,
        &r, err);
    return rc == LEAT_OK ? leat__trim_names_read(&x->names, r, err) : rc;
}

typedef struct answer {
    leat__trim_names *names;
    leat__trim_result got;
    leat_error err;
} answer;

static void on_answer(void *arg, const leat_reply *r, const leat_error *e)
{
    answer *a = arg;
    if (e)
        a->err = *e;
    else
        (void)leat__trim_read(r, a->names, &a->got, &a->err);
}

static leat_code call_once(run *x, uint32_t partition, leat__trim_result *out,
                           leat_error *err)
{
    answer a = { .names = &x->names };
    leat_code rc = LEAT_OK;
    *out = a.got;
    for (int i = 0; rc == LEAT_OK && (i == 0 || a.got.asks); i++) {
        if (i == NAMES_TRIES)
            return leat__fail(err, LEAT_EBUSY,
                              "groups of '%s' come faster than they can be "
                              "read: try again",
                              x->at.name);
        if (i > 0)
            rc = read_names(x, err);
        if (rc == LEAT_OK)
            rc = leat__trim_send(
                x->conn, &x->at, partition, &x->names, &x->how,
                &(leat_send_opts){ .fn = on_answer, .arg = &a }, err);
        if (rc == LEAT_OK)
            rc = leat_conn_drain(x->conn, 0, err);
        if (rc == LEAT_OK && a.err.code != LEAT_OK) {
            rc = a.err.code;
            if (err)
                *err = a.err;
        }
    }
    *out = a.got;
    return rc;
}

static leat_code call(run *x, uint32_t partition, leat__trim_result *out,
                      leat_error *err)
{
    leat__key id;
    leat_code rc = call_once(x, partition, out, err);
    if (rc != LEAT_ESTALE)
        return rc;
    leat__key_id(&id, &x->at, partition);
    rc = leat__topic_same(&x->at, x->conn, &id, err);
    return rc == LEAT_OK ? call_once(x, partition, out, err) : rc;
}

/* ---- one partition ---------------------------------------------------- */

/* What would go without the groups, and is still there. */
static leat_code count_held(run *x, uint32_t partition,
                            const leat__trim_result *now, leat_error *err)
{
    const leat_position gone = higher(now->limit, now->cut);
    int64_t held = 0, old = 0;
    leat_code rc = LEAT_OK;
    if (now->holder[0] == '\0')
        return LEAT_OK;
    if (leat__position_cmp(now->want, gone) > 0)
        rc = count_range(x, partition, leat__position_after(gone), now->want,
                         INT64_MAX, &old, err);
    if (x->how.max_entries >= 0)
        held = now->length - x->how.max_entries;
    held = held > old ? held : old;
    if (held <= 0)
        return rc;
    x->out->held += (uint64_t)held;
    for (size_t i = 0; i < x->names.all; i++)
        if (strcmp(x->names.list[i].text, now->holder) == 0)
            x->names.list[i].held += (uint64_t)held;
    return rc;
}

/* How many would go.  What is behind the limit is held; the number counts only
 * up to it. */
static leat_code count_dry(run *x, uint32_t partition, leat__trim_result *r,
                           leat_error *err)
{
    const leat_position start = { 0 };
    int64_t old = 0, many = 0;
    leat_code rc = LEAT_OK;
    if (!leat__position_zero(r->cut))
        rc = count_range(x, partition, start, r->cut, INT64_MAX, &old, err);
    int64_t over = x->how.max_entries >= 0 ? r->length - x->how.max_entries : 0;
    if (rc == LEAT_OK && over > old)
        rc = count_range(x, partition, start, higher(r->limit, r->cut), over,
                         &many, err);
    r->taken = many > old ? many : old;
    r->length -= r->taken;
    return rc;
}

static leat_code trim_one(run *x, uint32_t partition, leat_error *err)
{
    leat__trim_result r;
    leat__steps steps;
    leat_code rc = LEAT_OK;
    leat__steps_begin(&steps, "the entries to trim", LEND_MS);
    do {
        rc = call(x, partition, &r, err);
        if (rc == LEAT_OK && x->dry)
            rc = count_dry(x, partition, &r, err);
        if (rc == LEAT_OK)
            x->out->removed += (uint64_t)r.taken;
        if (rc == LEAT_OK && r.again)
            rc = leat__steps_next(&steps, r.taken > 0, err);
    } while (rc == LEAT_OK && r.again);
    if (rc == LEAT_OK)
        x->out->left += (uint64_t)r.length;
    if (rc == LEAT_OK && !x->how.force)
        rc = count_held(x, partition, &r, err);
    return rc;
}

static void name_holder(run *x)
{
    uint64_t most = 0;
    for (size_t i = 0; i < x->names.all; i++) {
        const leat__trim_name *g = &x->names.list[i];
        if (g->held <= most)
            continue;
        most = g->held;
        memcpy(x->out->holder, g->text, sizeof x->out->holder);
        x->out->holder_held = most;
    }
}

/* ---- the whole -------------------------------------------------------- */

static leat_code plan(run *x, const leat_trim_opts *o, leat_error *err)
{
    const leat_retention *r = &x->at.meta.retention;
    leat_server server;
    bool bulk = leat_client_server(x->at.client, &server, NULL) == LEAT_OK &&
                server.has_xautoclaim;
    if (o->max_age_ms < 0 || o->max_entries < -1)
        return leat__fail(err, LEAT_EINVAL,
                          "an age cannot be negative, nor a number but for -1: "
                          "keep none");
    (void)leat__trim_by(r, bulk, &x->how);
    if (o->max_age_ms || o->max_entries) {
        x->how.forget = LEAT_FORGET_NEVER;
        x->how.max_age_ms = o->max_age_ms ? o->max_age_ms : -1;
        x->how.max_entries = o->max_entries == -1 ? 0
                             : o->max_entries     ? o->max_entries
                                                  : -1;
    } else if (!r->max_age_ms && !r->max_entries && !r->forget) {
        return leat__fail(err, LEAT_EINVAL,
                          "topic '%s' keeps everything: say how many entries, "
                          "or how old ones, are to stay",
                          x->at.name);
    }
    x->how.force = o->force;
    x->dry = o->dry_run;
    if (x->dry)
        x->how.most = 0;
    return LEAT_OK;
}

leat_code leat_topic_trim(leat_client *c, const char *name,
                          const leat_trim_opts *opts, leat_trimmed *out,
                          leat_error *err)
{
    const leat_trim_opts o = opts ? *opts : (leat_trim_opts){ 0 };
    leat_trimmed result = { 0 };
    run x = { .out = &result };
    leat_code rc = leat__topic_at_init(&x.at, c, name, o.prefix, err);
    if (rc == LEAT_OK)
        rc = plan(&x, &o, err);
    if (rc != LEAT_OK)
        return rc;
    leat_error e;
    x.conn = leat_client_lend(c, LEND_MS, &e);
    if (!x.conn) {
        if (err)
            *err = e;
        return e.code;
    }
    rc = read_names(&x, err);
    for (uint32_t i = 0; rc == LEAT_OK && i < x.at.meta.partitions; i++)
        rc = trim_one(&x, i, err);
    name_holder(&x);
    leat_client_return(c, x.conn);
    leat__trim_names_release(&x.names);
    if (out)
        *out = result;
    return rc;
}
