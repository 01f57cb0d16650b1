/*
 * pending.c: what of a group is handed out, put by or parked.
 *
 * Three places tell of it, in every partition:
 *
 *   the log between cursor and read mark   handed out, but for what is settled;
 *                                          attempts are 1 where the cursor says
 *                                          no other number
 *   due                                    put by, with its time
 *   lane                                   parked, but for the first of each
 *
 * An order over all of them needs all of them, so each page reads what there
 * is, ids and counts without messages, a bounded number a call and in all.  The
 * page after another is what is ordered behind its last one: whatever came or
 * went meanwhile, nothing that stayed is shown twice or left out.
 */
#include "admin/group.h"
#include "base/mem.h"
#include "redis/script.h"
#include "redis/shape.h"
#include "topic/look.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    LOOK_MAX = 100000, /* in all               */
    LOOK_PAGE = 200,   /* put by, in one call  */
    OUT_PAGE = 100,    /* of the log, likewise */
    LIMIT = 100,
    LIMIT_MAX = 10000,
    TOKEN = 96
};

typedef struct page {
    leat_pending_page pub;
    leat_pending *list;
    size_t n, room;
    leat__arena arena;
    char next[TOKEN];
} page;

typedef struct browsing {
    leat__admin admin;
    leat_pending_opts opts;
    page *x;
    leat__look *looks;
    int64_t now_ms;
} browsing;

const char *leat_pending_state_name(leat_pending_state s)
{
    static const char *const names[] = { "out", "retry", "parked" };
    return (unsigned)s < sizeof names / sizeof *names ? names[s] : "?";
}

/* ---- gathering -------------------------------------------------------- */

static leat_code add(browsing *b, const leat_pending *p, leat_error *err)
{
    page *x = b->x;
    if (x->n == x->room) {
        size_t room = x->room ? x->room * 2 : 64;
        leat_pending *list = leat__realloc(x->list, room * sizeof *list, err);
        if (!list)
            return LEAT_ENOMEM;
        x->list = list;
        x->room = room;
    }
    x->list[x->n++] = *p;
    return LEAT_OK;
}

static bool full(browsing *b)
{
    if (b->x->n >= LOOK_MAX)
        b->x->pub.whole = false;
    return !b->x->pub.whole;
}

/* The answer is the connection's until its next use. */
static leat_code call(browsing *b, uint32_t i, const char *which, int64_t rank,
                      const leat_reply **r, leat_error *err)
{
    enum { KEYS = 3 };
    static const char *const words[KEYS] = { "kept", "due", "lane" };
    const leat__topic_at *t = &b->admin.topic;
    leat__key key[KEYS];
    leat_bytes keys[KEYS];
    char from[LEAT__NUMBER], most[LEAT__NUMBER];
    for (size_t k = 0; k < KEYS; k++) {
        leat__key_part(&key[k], t->prefix, t->name, t->meta.legacy, i, words[k],
                       b->admin.group);
        keys[k] = leat__key_bytes(&key[k]);
    }
    const leat_bytes args[] = { leat_str(which), leat__arg_int(from, rank),
                                leat__arg_int(most, LOOK_PAGE) };
    leat_code code = leat__script_call(b->admin.conn,
                                       &leat__script_admin_pending, keys, KEYS,
                                       args, 3, r, err);
    if (code == LEAT_OK)
        code = leat__reply_want(*r, "[i(_)]", LEAT_EPROTO, "what is pending",
                                err);
    return code;
}

/* How many there were to look at, and the entries. */
typedef struct answer {
    leat_reply_iter entries;
    int64_t looked;
} answer;

static answer answer_of(const leat_reply *r)
{
    answer a = { .entries = leat_reply_each(r) };
    a.looked = leat_reply_int(leat_reply_step(&a.entries));
    return a;
}

static const leat_reply *next_entry(answer *a)
{
    return leat_reply_step(&a->entries);
}

/* ---- handed out ------------------------------------------------------- */

typedef struct told { /* by the cursor, beside the log */
    const char *settled, *attempts;
    leat__look_range range;
    bool have_range, have_try;
    leat_position tried;
    uint32_t tries;
} told;

static told told_of(const leat__look *l)
{
    told t = { .settled = l->settled, .attempts = l->attempts };
    t.have_range = leat__look_settled(&t.settled, &t.range);
    t.have_try = leat__look_attempts(&t.attempts, &t.tried, &t.tries);
    return t;
}

static bool is_settled(told *t, leat_position id)
{
    while (t->have_range && leat__position_cmp(t->range.last, id) < 0)
        t->have_range = leat__look_settled(&t->settled, &t->range);
    return t->have_range && leat__position_cmp(t->range.first, id) <= 0;
}

static uint32_t tries_of(told *t, leat_position id)
{
    while (t->have_try && leat__position_cmp(t->tried, id) < 0)
        t->have_try = leat__look_attempts(&t->attempts, &t->tried, &t->tries);
    return t->have_try && leat__position_cmp(t->tried, id) == 0 ? t->tries : 1;
}

static leat_code add_out(browsing *b, uint32_t i, told *t, leat_position id,
                         leat_error *err)
{
    uint32_t tries = is_settled(t, id) ? 0 : tries_of(t, id);
    if (tries == 0) /* settled, or handed back before it was begun */
        return LEAT_OK;
    return add(b,
               &(leat_pending){ .partition = i,
                                .position = id,
                                .state = LEAT_PENDING_OUT,
                                .attempts = tries },
               err);
}

/* One page after *after; *more is false when it was the last. */
static leat_code out_page(browsing *b, uint32_t i, told *t,
                          leat_position *after, bool *more, leat_error *err)
{
    const leat__topic_at *at = &b->admin.topic;
    char from[LEAT__ID_TEXT], to[LEAT__ID_TEXT];
    const leat_reply *r = NULL;
    leat__key log;
    leat__key_log(&log, at->prefix, at->name, at->meta.legacy, i);
    leat_code code = leat_conn_call(
        b->admin.conn,
        LEAT_ARGS(leat_str("XRANGE"), leat__key_bytes(&log),
                  leat__position_format(leat__position_after(*after), from),
                  leat__position_format(b->looks[i].mark, to),
                  leat_str("COUNT"), leat_str("100")),
        NULL, &r, err);
    if (code == LEAT_OK)
        code = leat__reply_want(r, LEAT__SHAPE_ENTRIES, LEAT_EPROTO, "XRANGE",
                                err);
    size_t n = code == LEAT_OK ? leat_reply_len(r) : 0;
    leat_reply_iter it = leat_reply_each(n ? r : NULL);
    for (const leat_reply *e; code == LEAT_OK && (e = leat_reply_step(&it));) {
        if (leat__position_parse(leat_reply_bytes(leat_reply_at(e, 0)), after))
            code = add_out(b, i, t, *after, err);
    }
    *more = n == OUT_PAGE;
    return code;
}

static leat_code gather_out(browsing *b, uint32_t i, leat_error *err)
{
    const leat__look *l = &b->looks[i];
    leat_position after = l->cursor;
    told t = told_of(l);
    leat_code code = LEAT_OK;
    bool more = l->begun && l->nonce; /* without an owner nothing is out */
    while (more && code == LEAT_OK && !full(b) &&
           leat__position_cmp(after, l->mark) < 0)
        code = out_page(b, i, &t, &after, &more, err);
    return code;
}

/* ---- put by ----------------------------------------------------------- */

static leat_code keep_text(page *x, const leat_reply *r, const char **out,
                           leat_error *err)
{
    leat_bytes b = r ? leat_reply_bytes(r) : leat_mem(NULL, 0);
    *out = b.n ? leat__arena_text(&x->arena, b, err) : NULL;
    return b.n && !*out ? LEAT_ENOMEM : LEAT_OK;
}

/* {id, n, f, due, last_error, lane, replayed} */
static leat_code add_kept(browsing *b, uint32_t i, leat_pending_state state,
                          const leat_reply *e, leat_error *err)
{
    leat_pending p = { .partition = i, .state = state };
    leat_reply_iter it = leat_reply_each(e);
    leat_bytes id = leat_reply_bytes(leat_reply_step(&it));
    if (leat_reply_len(e) != 7 || !leat__position_parse(id, &p.position))
        return LEAT_OK; /* not ours */
    p.attempts = (uint32_t)leat_reply_int(leat_reply_step(&it));
    p.failures = (uint32_t)leat_reply_int(leat_reply_step(&it));
    p.due_ms = leat_reply_int(leat_reply_step(&it));
    leat_code code = keep_text(b->x, leat_reply_step(&it), &p.error, err);
    if (code == LEAT_OK)
        code = keep_text(b->x, leat_reply_step(&it), &p.lane, err);
    if (code == LEAT_OK)
        code = keep_text(b->x, leat_reply_step(&it), &p.origin, err);
    return code == LEAT_OK ? add(b, &p, err) : code;
}

static leat_code gather_kept(browsing *b, uint32_t i, leat_pending_state state,
                             leat_error *err)
{
    leat_code code = LEAT_OK;
    bool more = b->looks[i].kept > 0;
    for (int64_t rank = 0; more && code == LEAT_OK && !full(b);) {
        const leat_reply *r = NULL, *e;
        code = call(b, i, leat_pending_state_name(state), rank, &r, err);
        if (code != LEAT_OK)
            break;
        answer a = answer_of(r);
        more = a.looked == LOOK_PAGE;
        rank += a.looked;
        while (code == LEAT_OK && (e = next_entry(&a)))
            code = add_kept(b, i, state, e, err);
    }
    return code;
}

static leat_code gather(browsing *b, leat_error *err)
{
    leat_code code = LEAT_OK;
    for (uint32_t i = 0; i < b->admin.topic.meta.partitions && code == LEAT_OK;
         i++) {
        if (b->opts.one && b->opts.partition != i)
            continue;
        code = gather_out(b, i, err);
        if (code == LEAT_OK)
            code = gather_kept(b, i, LEAT_PENDING_RETRY, err);
        if (code == LEAT_OK)
            code = gather_kept(b, i, LEAT_PENDING_PARKED, err);
    }
    return code;
}

/* ---- ordering --------------------------------------------------------- */

static int by_position(const void *a, const void *b)
{
    const leat_pending *x = a, *y = b;
    if (x->partition != y->partition)
        return x->partition < y->partition ? -1 : 1;
    return leat__position_cmp(x->position, y->position);
}

static int by_age(const void *a, const void *b)
{
    const leat_pending *x = a, *y = b;
    int c = leat__position_cmp(x->position, y->position);
    if (c != 0)
        return c;
    return (x->partition > y->partition) - (x->partition < y->partition);
}

static int by_attempts(const void *a, const void *b)
{
    const leat_pending *x = a, *y = b;
    if (x->attempts != y->attempts)
        return x->attempts > y->attempts ? -1 : 1;
    return by_age(a, b);
}

typedef int order_fn(const void *a, const void *b);

static order_fn *order_of(leat_pending_sort s)
{
    return s == LEAT_PENDING_BY_ATTEMPTS   ? by_attempts
           : s == LEAT_PENDING_BY_POSITION ? by_position
                                           : by_age;
}

/* What changed its place while we looked was seen twice. */
static void drop_twins(page *x)
{
    size_t kept = 0;
    if (x->n > 1)
        qsort(x->list, x->n, sizeof *x->list, by_position);
    for (size_t i = 0; i < x->n; i++)
        if (kept == 0 || by_position(&x->list[kept - 1], &x->list[i]) != 0)
            x->list[kept++] = x->list[i];
    x->n = kept;
}

/* "<attempts>:<partition>:<id>" of the last on a page. */
static void write_token(const leat_pending *p, char out[TOKEN])
{
    snprintf(out, TOKEN, "%u:%u:%llu-%llu", p->attempts, p->partition,
             (unsigned long long)p->position.ms,
             (unsigned long long)p->position.seq);
}

/* A number up to `most` and the character behind it, which are taken off. */
static bool next_number(const char **s, char behind, uint64_t most,
                        uint64_t *out)
{
    char *end = NULL;
    if (**s < '0' || **s > '9')
        return false;
    errno = 0;
    *out = strtoull(*s, &end, 10);
    bool good = errno == 0 && *end == behind && *out <= most;
    *s = end + (*end != '\0');
    return good;
}

static leat_code read_token(const char *text, leat_pending *out,
                            leat_error *err)
{
    const char *s = text;
    uint64_t attempts, partition, ms, seq;
    if (!next_number(&s, ':', UINT32_MAX, &attempts) ||
        !next_number(&s, ':', UINT32_MAX, &partition) ||
        !next_number(&s, '-', UINT64_MAX, &ms) ||
        !next_number(&s, '\0', UINT64_MAX, &seq))
        return leat__fail(err, LEAT_EINVAL,
                          "'%.60s' is not the end of a page: give `next` of "
                          "the page before",
                          text);
    *out = (leat_pending){ .attempts = (uint32_t)attempts,
                           .partition = (uint32_t)partition,
                           .position = { .ms = ms, .seq = seq } };
    return LEAT_OK;
}

/* The page is a part of the list, which moves to its front. */
static void cut_page(browsing *b, const leat_pending *after)
{
    page *x = b->x;
    order_fn *order = order_of(b->opts.sort);
    size_t from = 0, most = (size_t)b->opts.limit;
    x->pub.total = (int64_t)x->n;
    if (x->n > 1)
        qsort(x->list, x->n, sizeof *x->list, order);
    while (after && from < x->n && order(&x->list[from], after) <= 0)
        from++;
    size_t n = x->n - from < most ? x->n - from : most;
    if (from + n < x->n) {
        write_token(&x->list[from + n - 1], x->next);
        x->pub.next = x->next;
    }
    if (from > 0 && n > 0)
        memmove(x->list, x->list + from, n * sizeof *x->list);
    for (size_t i = 0; i < n; i++)
        x->list[i].age_ms = b->now_ms - (int64_t)x->list[i].position.ms;
    x->pub.count = n;
    x->pub.item = x->list;
}

/* ---- the whole -------------------------------------------------------- */

void leat_pending_free(leat_pending_page *p)
{
    page *x = (page *)p;
    if (!x)
        return;
    leat__arena_release(&x->arena);
    leat__free(x->list);
    leat__free(x);
}

static leat_code check_opts(browsing *b, leat_pending *after, leat_error *err)
{
    leat_pending_opts *o = &b->opts;
    uint32_t n = b->admin.topic.meta.partitions;
    o->limit = o->limit ? o->limit : LIMIT;
    if (o->limit < 0 || o->limit > LIMIT_MAX)
        return leat__fail(err, LEAT_EINVAL, "limit is %d, it is from 1 to %d",
                          o->limit, LIMIT_MAX);
    if (o->one && o->partition >= n)
        return leat__fail(err, LEAT_EINVAL, "'%s' has no partition %u, only %u",
                          b->admin.topic.name, o->partition, n);
    if ((unsigned)o->sort > LEAT_PENDING_BY_POSITION)
        return leat__fail(err, LEAT_EINVAL, "sort %d is none", (int)o->sort);
    return o->after ? read_token(o->after, after, err) : LEAT_OK;
}

static leat_code browse(browsing *b, const leat_pending *after, leat_error *err)
{
    leat__admin *a = &b->admin;
    b->x = leat__zalloc(sizeof *b->x, err);
    b->looks = leat__calloc(a->topic.meta.partitions, sizeof *b->looks, err);
    if (!b->x || !b->looks)
        return LEAT_ENOMEM;
    b->x->pub.whole = true;
    leat_code code = leat__look_all(&a->topic, a->conn, a->group, &a->arena,
                                    b->looks, err);
    if (code == LEAT_OK) {
        b->now_ms = b->looks[0].now_ms;
        code = gather(b, err);
    }
    if (code != LEAT_OK)
        return code;
    drop_twins(b->x);
    cut_page(b, after);
    return LEAT_OK;
}

leat_pending_page *leat_pending_list(leat_client *c, const char *topic,
                                     const char *group,
                                     const leat_pending_opts *opts,
                                     leat_error *err)
{
    browsing b = { .opts = opts ? *opts : (leat_pending_opts){ 0 } };
    leat_pending after = { 0 };
    leat_code code = leat__admin_open(&b.admin, c, topic, group, b.opts.prefix,
                                      err);
    if (code == LEAT_OK)
        code = check_opts(&b, &after, err);
    if (code == LEAT_OK)
        code = browse(&b, b.opts.after ? &after : NULL, err);
    leat__admin_close(&b.admin);
    leat__free(b.looks);
    if (code == LEAT_OK)
        return &b.x->pub;
    leat_pending_free(b.x ? &b.x->pub : NULL);
    return NULL;
}
