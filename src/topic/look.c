/*
 * look.c: what there is to be seen of a topic's partitions.
 */
#include "topic/look.h"
#include "redis/script.h"

#include <stdlib.h>

#define RATE_ENTRIES "10"
#define RATE_BYTES   "65536"

enum { ALL_KEYS = 4, GROUP_KEYS = 9, ALL_FACTS = 12, GROUP_FACTS = 26 };

const char *const leat__group_words[] = { "cur", "lease", "kept",
                                          "due", "lane",  NULL };
const char *const leat__partition_words[] = { "dlq",    "later", "laters",
                                              "bodies", "large", NULL };

/* ---- reading an answer ------------------------------------------------ */

typedef struct asked {
    leat__look *to;
    leat__arena *arena;
    leat_error *first;
} asked;

/* The facts in turn. */
typedef struct facts {
    const leat_reply *at;
    size_t left;
    leat__arena *arena;
    leat_error *err;
} facts;

static const leat_reply *next_fact(facts *f)
{
    const leat_reply *r = f->at;
    if (f->left > 1)
        f->at = leat_reply_next(f->at);
    f->left--;
    return r;
}

static int64_t next_int(facts *f)
{
    const leat_reply *r = next_fact(f);
    return leat_reply_bytes(r).n > 0 ? leat_reply_int(r) : -1;
}

static bool next_id(facts *f, leat_position *out)
{
    *out = (leat_position){ 0 };
    return leat__position_parse(leat_reply_bytes(next_fact(f)), out);
}

/* NULL where it is empty, or there is no memory for it. */
static const char *next_text(facts *f)
{
    leat_bytes b = leat_reply_bytes(next_fact(f));
    return b.n > 0 ? leat__arena_text(f->arena, b, f->err) : NULL;
}

static void read_log(facts *f, leat__look *to)
{
    to->now_ms = next_int(f);
    to->log.entries = next_int(f);
    to->log.added = next_int(f);
    (void)next_id(f, &to->log.first);
    (void)next_id(f, &to->log.last);
    (void)next_id(f, &to->end);
    (void)next_id(f, &to->log.deleted);
    to->bytes = next_int(f);
    to->dead = next_int(f);
    to->later = next_int(f);
    to->newest = next_int(f);
    to->newest_ms = next_int(f);
}

static void read_group(facts *f, leat__look *to)
{
    (void)next_fact(f);
    to->begun = next_id(f, &to->cursor);
    if (!next_id(f, &to->mark))
        to->mark = to->cursor;
    int64_t count = next_int(f);
    to->count_known = to->begun && count >= 0;
    to->count = to->count_known ? (uint64_t)count : 0;
    to->settled = next_text(f);
    to->attempts = next_text(f);
    to->nonce = next_text(f);
    int64_t epoch = next_int(f);
    to->epoch = epoch > 0 ? (uint64_t)epoch : 0;
    to->why = next_text(f);
    to->when_ms = next_int(f);
    to->kept = next_int(f);
    to->waiting = next_int(f);
    to->due = next_int(f);
    to->laned = next_int(f);
}

static void keep_first(leat_error *first, const leat_error *err)
{
    if (first->code == LEAT_OK)
        *first = *err;
}

static void on_look(void *arg, const leat_reply *r, const leat_error *err)
{
    const asked *a = arg;
    leat_error e = { 0 };
    size_t n = err ? 0 : leat_reply_len(r);
    if (err) {
        keep_first(a->first, err);
        return;
    }
    if (n != ALL_FACTS && n != GROUP_FACTS) {
        leat__fail(&e, LEAT_EPROTO, "the server answered EVALSHA strangely");
        keep_first(a->first, &e);
        return;
    }
    facts f = { leat_reply_first(r), n, a->arena, &e };
    *a->to = (leat__look){ 0 };
    read_log(&f, a->to);
    if (n == GROUP_FACTS)
        read_group(&f, a->to);
    if (e.code != LEAT_OK)
        keep_first(a->first, &e);
}

/* ---- asking ----------------------------------------------------------- */

static leat_code ask(const leat__topic_at *t, leat_conn *conn, uint32_t i,
                     const char *group, asked *a, leat_error *err)
{
    static const char *const words[] = { "log",   "bodies", "dlq",
                                         "later", "cur",    "lease",
                                         "kept",  "due",    "lane" };
    leat__key key[GROUP_KEYS];
    leat_bytes keys[GROUP_KEYS];
    size_t n = group ? GROUP_KEYS : ALL_KEYS;
    for (size_t k = 0; k < n; k++) {
        leat__key_part(&key[k], t->prefix, t->name, t->meta.legacy, i, words[k],
                       k < ALL_KEYS ? NULL : group);
        keys[k] = leat__key_bytes(&key[k]);
    }
    leat__key_log(&key[0], t->prefix, t->name, t->meta.legacy, i);
    keys[0] = leat__key_bytes(&key[0]);
    const leat_bytes args[] = { leat_str(RATE_ENTRIES), leat_str(RATE_BYTES) };
    return leat__script_send(conn, &leat__script_topic_look, keys, n, args, 2,
                             &(leat_send_opts){ .fn = on_look, .arg = a }, err);
}

leat_code leat__look_all(const leat__topic_at *t, leat_conn *conn,
                         const char *group, leat__arena *arena, leat__look *out,
                         leat_error *err)
{
    leat_error first = { 0 }, drained = { 0 };
    leat_code code = LEAT_OK;
    size_t n = t->meta.partitions;
    asked *all = leat__arena_alloc(arena, n * sizeof *all, err);
    if (!all)
        return LEAT_ENOMEM;
    for (uint32_t i = 0; i < n && code == LEAT_OK; i++) {
        all[i] = (asked){ &out[i], arena, &first };
        code = ask(t, conn, i, group, &all[i], err);
    }
    /* Also after a failure: the callbacks point to our stack. */
    leat_code end = leat_conn_drain(conn, 0, &drained);
    if (code != LEAT_OK)
        return code;
    if (end == LEAT_OK && first.code != LEAT_OK) {
        drained = first;
        end = first.code;
    }
    if (end != LEAT_OK && err)
        *err = drained;
    return end;
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
