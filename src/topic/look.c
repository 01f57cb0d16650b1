/*
 * look.c: what there is to be seen of a topic's partitions.
 *
 * Plain commands in a pipeline, a dozen for each partition: a script would cost
 * the server several times as much.  So the facts of a partition are not of one
 * moment; its log is looked at before its cursor, and lag is never too high.
 */
#include "topic/look.h"
#include "redis/script.h"
#include "redis/shape.h"
#include "topic/ripen.h"

#include <stdlib.h>

enum {
    RATE_ENTRIES = 10,
    RATE_BYTES = 65536, /* of entries that are read for the rate */
    RATE_LEAST = 2
};

/* Of one call, and of one partition. */
typedef struct looking {
    const leat__topic_at *topic;
    leat_conn *conn;
    const char *group;
    leat__arena *arena;
    int64_t now_ms;
    leat_error first; /* failure, in a callback */
} looking;

typedef struct asked {
    looking *all;
    leat__look *to;
    uint32_t partition;
    int64_t log_bytes;
} asked;

static void keep_first(looking *x, const leat_error *err)
{
    if (x->first.code == LEAT_OK)
        x->first = *err;
}

/* Is there an answer of that shape?  If not, why is kept. */
static bool came(looking *x, const leat_reply *r, const leat_error *err,
                 const char *shape, const char *what)
{
    leat_error odd;
    err = leat__reply_odd(r, err, shape, what, &odd);
    if (err)
        keep_first(x, err);
    return !err;
}

/* ---- logs ------------------------------------------------------------- */

/* [id, [name, value, ...]], or nil. */
static leat_position entry_id(const leat_reply *entry)
{
    leat_position at = { 0 };
    if (leat_reply_len(entry) > 0)
        (void)leat__position_parse(leat_reply_bytes(leat_reply_at(entry, 0)),
                                   &at);
    return at;
}

/* XINFO brings the first and the last entry whole, which is the price of their
 * ids. */
bool leat__look_info(const leat_reply *r, leat__look *to)
{
    bool length = false, end = false;
    leat__pairs p = leat__pairs_of(r);
    leat__log_info *log = &to->log;
    leat_bytes name;
    const leat_reply *value = NULL;
    while (leat__pairs_next(&p, &name, &value)) {
        length |= leat_bytes_eq(name, leat_str("length")) &&
                  leat__reply_fits(value, "i");
        if (leat_bytes_eq(name, leat_str("length")))
            log->entries = leat_reply_int(value);
        else if (leat_bytes_eq(name, leat_str("entries-added")))
            log->added = leat_reply_int(value);
        else if (leat_bytes_eq(name, leat_str("first-entry")))
            log->first = entry_id(value);
        else if (leat_bytes_eq(name, leat_str("last-entry")))
            log->last = entry_id(value);
        else if (leat_bytes_eq(name, leat_str("max-deleted-entry-id")))
            (void)leat__position_parse(leat_reply_bytes(value), &log->deleted);
        else if (leat_bytes_eq(name, leat_str("last-generated-id")))
            end = leat__position_parse(leat_reply_bytes(value), &to->end);
    }
    return length && end;
}

static void on_info(void *arg, const leat_reply *r, const leat_error *err)
{
    const asked *a = arg;
    static const char none[] = "ERR no such key"; /* never written to */
    leat_bytes text = err ? leat_reply_bytes(r) : leat_mem(NULL, 0);
    a->to->log.added = -1;
    if (text.n >= sizeof none - 1 && memcmp(text.p, none, sizeof none - 1) == 0)
        a->to->log.added = 0;
    else if (came(a->all, r, err, "[(t_)]", "XINFO") &&
             !leat__look_info(r, a->to))
        (void)came(a->all, NULL, NULL, "_", "XINFO");
}

/* Nil: there is no such key.  A right that is missing is no failure. */
static void add_memory(int64_t *sum, const leat_reply *r, const leat_error *err)
{
    bool known = !err && *sum >= 0 &&
                 (leat_reply_kind(r) == LEAT_REPLY_NIL ||
                  leat__reply_fits(r, "i"));
    *sum = known ? *sum + leat_reply_int(r) : -1;
}

static void on_log_memory(void *arg, const leat_reply *r, const leat_error *err)
{
    asked *a = arg;
    add_memory(&a->to->bytes, r, err);
    a->log_bytes = a->to->bytes;
}

static void on_memory(void *arg, const leat_reply *r, const leat_error *err)
{
    const asked *a = arg;
    add_memory(&a->to->bytes, r, err);
}

/* From the id of the oldest of the newest until now.  Ids may be ahead of the
 * clock, and a thousandth of a second is the least there is. */
static void on_newest(void *arg, const leat_reply *r, const leat_error *err)
{
    const asked *a = arg;
    if (!came(a->all, r, err, LEAT__SHAPE_ENTRIES, "XREVRANGE"))
        return;
    size_t n = leat_reply_len(r);
    if (n == 0)
        return;
    int64_t since = (int64_t)entry_id(leat_reply_at(r, n - 1)).ms;
    int64_t ms = a->all->now_ms - since;
    a->to->rate = (double)n * 1000 / (ms > 1 ? (double)ms : 1);
}

/* ---- a group ---------------------------------------------------------- */

/* The arena's copy; NULL where it is empty, or with the failure kept. */
static const char *keep_text(looking *x, leat_bytes b)
{
    leat_error err = { 0 };
    const char *s = b.n ? leat__arena_text(x->arena, b, &err) : NULL;
    if (b.n && !s)
        keep_first(x, &err);
    return s;
}

static void on_cursor(void *arg, const leat_reply *r, const leat_error *err)
{
    const asked *a = arg;
    leat__look *to = a->to;
    if (!came(a->all, r, err, "[oooooo]", "HMGET"))
        return;
    leat_reply_iter it = leat_reply_each(r);
    const leat_reply *c = leat_reply_step(&it), *n = leat_reply_step(&it);
    const leat_reply *m = leat_reply_step(&it), *s = leat_reply_step(&it);
    const leat_reply *t = leat_reply_step(&it);
    to->begun = leat__position_parse(leat_reply_bytes(c), &to->cursor);
    to->count_known = to->begun && leat_reply_bytes(n).n > 0;
    to->count = (uint64_t)leat_reply_int(n);
    if (!leat__position_parse(leat_reply_bytes(m), &to->mark))
        to->mark = to->cursor;
    to->settled = keep_text(a->all, leat_reply_bytes(s));
    to->attempts = keep_text(a->all, leat_reply_bytes(t));
    to->detached_ms = leat_reply_int(leat_reply_step(&it));
}

static void on_lease(void *arg, const leat_reply *r, const leat_error *err)
{
    const asked *a = arg;
    if (!came(a->all, r, err, "[oooo]", "HMGET"))
        return;
    leat_reply_iter it = leat_reply_each(r);
    const leat_reply *o = leat_reply_step(&it), *e = leat_reply_step(&it);
    const leat_reply *w = leat_reply_step(&it);
    a->to->nonce = keep_text(a->all, leat_reply_bytes(o));
    a->to->epoch = (uint64_t)leat_reply_int(e);
    a->to->why = keep_text(a->all, leat_reply_bytes(w));
    a->to->when_ms = leat_reply_int(leat_reply_step(&it));
}

/* ---- numbers ---------------------------------------------------------- */

static void number(const asked *a, int64_t *to, const leat_reply *r,
                   const leat_error *err)
{
    if (came(a->all, r, err, "i", "a count"))
        *to = leat_reply_int(r);
}

static void on_dead(void *arg, const leat_reply *r, const leat_error *err)
{
    const asked *a = arg;
    number(a, &a->to->dead, r, err);
}

static void on_later(void *arg, const leat_reply *r, const leat_error *err)
{
    const asked *a = arg;
    number(a, &a->to->later, r, err);
}

/* Fields and what is known of each. */
static void on_kept(void *arg, const leat_reply *r, const leat_error *err)
{
    const asked *a = arg;
    number(a, &a->to->kept, r, err);
    a->to->kept /= 2;
}

static void on_waiting(void *arg, const leat_reply *r, const leat_error *err)
{
    const asked *a = arg;
    number(a, &a->to->waiting, r, err);
}

static void on_due(void *arg, const leat_reply *r, const leat_error *err)
{
    const asked *a = arg;
    number(a, &a->to->due, r, err);
}

static void on_laned(void *arg, const leat_reply *r, const leat_error *err)
{
    const asked *a = arg;
    number(a, &a->to->laned, r, err);
}

/* ---- asking ----------------------------------------------------------- */

/* A command with the key of that word, and words before and behind it. */
typedef struct question {
    const char *before[2]; /* NULL: none                                    */
    const char *word;
    const char *behind[6];
    leat_reply_fn *fn;
} question;

static const question of_topic[] = {
    { { "XINFO", "STREAM" }, "log", { NULL }, on_info },
    { { "MEMORY", "USAGE" }, "log", { NULL }, on_log_memory },
    { { "MEMORY", "USAGE" }, "bodies", { NULL }, on_memory },
    { { "XLEN", NULL }, "dlq", { NULL }, on_dead },
    { { "ZCARD", NULL }, "later", { NULL }, on_later },
};

static const question of_group[] = {
    { { "XINFO", "STREAM" }, "log", { NULL }, on_info },
    { { "HMGET", NULL }, "cur", { "c", "n", "m", "s", "t", "x" }, on_cursor },
    { { "HMGET", NULL }, "lease", { "o", "e", "w", "v" }, on_lease },
    { { "HLEN", NULL }, "kept", { NULL }, on_kept },
    { { "ZCARD", NULL }, "due", { NULL }, on_waiting },
    { { "ZCARD", NULL }, "lane", { NULL }, on_laned },
};

static void key_of(const looking *x, uint32_t i, const char *word,
                   leat__key *key)
{
    const leat__topic_at *t = x->topic;
    bool all = strcmp(word, "log") == 0;
    for (const char *const *w = leat__partition_words; *w && !all; w++)
        all = strcmp(word, *w) == 0;
    if (strcmp(word, "log") == 0)
        leat__key_log(key, t->prefix, t->name, t->meta.legacy, i);
    else
        leat__key_part(key, t->prefix, t->name, t->meta.legacy, i, word,
                       all ? NULL : x->group);
}

static leat_code ask(asked *a, const question *q, leat_error *err)
{
    leat_bytes argv[9];
    leat__key key;
    size_t n = 0;
    for (size_t k = 0; k < 2 && q->before[k]; k++)
        argv[n++] = leat_str(q->before[k]);
    key_of(a->all, a->partition, q->word, &key);
    argv[n++] = leat__key_bytes(&key);
    for (size_t k = 0; k < 6 && q->behind[k]; k++)
        argv[n++] = leat_str(q->behind[k]);
    return leat_conn_send(a->all->conn, argv, n,
                          &(leat_send_opts){ .fn = q->fn, .arg = a }, err);
}

static leat_code ask_due(asked *a, leat_error *err)
{
    char now[LEAT__NUMBER];
    leat__key key;
    key_of(a->all, a->partition, "due", &key);
    return leat_conn_send(a->all->conn,
                          LEAT_ARGS(leat_str("ZCOUNT"), leat__key_bytes(&key),
                                    leat_str("-inf"),
                                    leat__arg_int(now, a->all->now_ms)),
                          &(leat_send_opts){ .fn = on_due, .arg = a }, err);
}

static leat_code ask_partition(asked *a, leat_error *err)
{
    const question *q = a->all->group ? of_group : of_topic;
    size_t n = a->all->group ? sizeof of_group / sizeof *of_group
                             : sizeof of_topic / sizeof *of_topic;
    leat_code code = LEAT_OK;
    for (size_t i = 0; i < n && code == LEAT_OK; i++)
        code = ask(a, &q[i], err);
    return code == LEAT_OK && a->all->group ? ask_due(a, err) : code;
}

/* The larger they are, the fewer are looked at. */
static leat_code ask_rate(asked *a, leat_error *err)
{
    int64_t entries = a->to->log.entries, most = RATE_ENTRIES;
    char count[LEAT__NUMBER];
    leat__key key;
    if (entries == 0 || a->log_bytes < 0) {
        a->to->rate = entries == 0 ? 0 : -1;
        return LEAT_OK;
    }
    int64_t each = a->log_bytes / entries + 1;
    if (most > RATE_BYTES / each)
        most = RATE_BYTES / each;
    a->to->rate = -1;
    if (most < RATE_LEAST)
        return LEAT_OK;
    key_of(a->all, a->partition, "log", &key);
    return leat_conn_send(
        a->all->conn,
        LEAT_ARGS(leat_str("XREVRANGE"), leat__key_bytes(&key), leat_str("+"),
                  leat_str("-"), leat_str("COUNT"), leat__arg_int(count, most)),
        &(leat_send_opts){ .fn = on_newest, .arg = a }, err);
}

/* Ask all partitions and wait for the answers, also after a failure: they come
 * to where we are. */
static leat_code ask_all(looking *x, asked *all, size_t n,
                         leat_code (*fn)(asked *, leat_error *),
                         leat_error *err)
{
    leat_error drained = { 0 };
    leat_code code = LEAT_OK;
    for (size_t i = 0; i < n && code == LEAT_OK; i++)
        code = fn(&all[i], err);
    leat_code end = leat_conn_drain(x->conn, 0, &drained);
    if (code != LEAT_OK)
        return code;
    if (end == LEAT_OK && x->first.code != LEAT_OK) {
        drained = x->first;
        end = x->first.code;
    }
    if (end != LEAT_OK && err)
        *err = drained;
    return end;
}

static leat_code read_clock(looking *x, leat_error *err)
{
    const leat_reply *r = NULL;
    leat_code code = leat_conn_call(x->conn, LEAT_ARGS(leat_str("TIME")), NULL,
                                    &r, err);
    if (code == LEAT_OK)
        code = leat__reply_want(r, "[ii]", LEAT_EPROTO, "TIME", err);
    if (code == LEAT_OK)
        x->now_ms = leat_reply_int(leat_reply_at(r, 0)) * 1000 +
                    leat_reply_int(leat_reply_at(r, 1)) / 1000;
    return code;
}

leat_code leat__look_all(const leat__topic_at *t, leat_conn *conn,
                         const char *group, leat__arena *arena, leat__look *out,
                         leat_error *err)
{
    looking x = { .topic = t, .conn = conn, .group = group, .arena = arena };
    size_t n = t->meta.partitions;
    asked *all = leat__arena_alloc(arena, n * sizeof *all, err);
    if (!all)
        return LEAT_ENOMEM;
    leat__ripe_look(t, conn, 0, t->meta.partitions);
    leat_code code = read_clock(&x, err);
    for (uint32_t i = 0; i < n; i++) {
        out[i] = (leat__look){ .now_ms = x.now_ms };
        all[i] = (asked){ .all = &x, .to = &out[i], .partition = i };
    }
    if (code == LEAT_OK)
        code = ask_all(&x, all, n, ask_partition, err);
    if (code == LEAT_OK && !group)
        code = ask_all(&x, all, n, ask_rate, err);
    return code;
}

/* ---- the texts of a cursor -------------------------------------------- */

bool leat__look_settled(const char **text, leat__look_range *out)
{
    const char *s = *text;
    if (!s || !*s)
        return false;
    size_t n = strcspn(s, ","), colon = strcspn(s, ":,");
    bool good = leat__position_parse(leat_mem(s, colon), &out->first);
    out->last = out->first;
    if (good && colon < n)
        good = leat__position_parse(leat_mem(s + colon + 1, n - colon - 1),
                                    &out->last);
    *text = s + n + (s[n] == ',');
    return good;
}

bool leat__look_attempts(const char **text, leat_position *id, uint32_t *n)
{
    const char *s = *text;
    if (!s || !*s)
        return false;
    size_t len = strcspn(s, ","), equals = strcspn(s, "=,");
    bool good = equals < len && leat__position_parse(leat_mem(s, equals), id);
    *n = good ? (uint32_t)strtoul(s + equals + 1, NULL, 10) : 0;
    *text = s + len + (s[len] == ',');
    return good;
}
