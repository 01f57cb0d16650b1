/*
 * describe_group.c: how far a group is, and who its members are.
 *
 * Lag is a count of entries that are not settled.  The cursor c is known with
 * n, the number of entries ever added up to it, and s, what is settled behind
 * it.  In this order:
 *
 *   c is at the newest entry or behind it        0
 *   the whole log is behind c                    its length
 *   n and entries-added are known, and nothing
 *   behind c was deleted                         entries-added - n
 *   otherwise                                    entries behind c are counted
 *
 * less what is settled.  Counting reads entries whole, so it has bounds; beyond
 * them the answer is that nobody knows.
 */
#include "base/mem.h"
#include "topic/describe.h"
#include "topic/record.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    LEND_MS = 5000,
    COUNT_MAX = 10000,      /* entries read to count, in one partition  */
    COUNT_TOTAL = 100000,   /* in all partitions together               */
    COUNT_BYTES = 64 << 20, /* of entries, likewise                     */
    COUNT_PAGE = 100,
    MAX_MEMBERS = 100000
};

/* What a cursor and a lease say. */
typedef struct state {
    struct look *look;
    bool begun, count_known;
    leat_position cursor, mark;
    uint64_t count;
    const char *settled; /* in the arena */
    const char *nonce;   /* of the owner, in the arena; NULL: nobody */
    uint64_t epoch;
} state;

typedef struct group_info {
    leat_group_info pub;
    leat_group_partition *list;
    leat_group_member *members;
    size_t member_room;
    leat__log_info *logs;
    state *states;
    leat__arena arena;
} group_info;

typedef struct look {
    leat__topic_at t;
    const char *group;
    group_info *x;
    leat_conn *conn;
    leat_error first;      /* what went wrong first, in a callback  */
    size_t counted, bytes; /* of the bounds                         */
} look;

static void keep_first(look *l, const leat_error *err)
{
    if (l->first.code == LEAT_OK)
        l->first = *err;
}

/* ---- cursors and leases ----------------------------------------------- */

/* The arena's copy, or NULL with the failure kept. */
static const char *keep_text(look *l, leat_bytes b)
{
    leat_error err = { 0 };
    const char *s = leat__arena_text(&l->x->arena, b, &err);
    if (!s)
        keep_first(l, &err);
    return s;
}

static void on_cursor(void *arg, const leat_reply *r, const leat_error *err)
{
    state *s = arg;
    look *l = s->look;
    if (err) {
        keep_first(l, err);
        return;
    }
    if (leat_reply_len(r) != 4)
        return;
    const leat_reply *c = leat_reply_first(r), *n = leat_reply_next(c);
    const leat_reply *m = leat_reply_next(n), *settled = leat_reply_next(m);
    leat_bytes count = leat_reply_bytes(n);
    s->begun = leat__position_parse(leat_reply_bytes(c), &s->cursor);
    s->count_known = s->begun && count.n > 0;
    s->count = (uint64_t)leat_reply_int(n);
    if (!leat__position_parse(leat_reply_bytes(m), &s->mark))
        s->mark = s->cursor;
    s->settled = keep_text(l, leat_reply_bytes(settled));
}

static void on_lease(void *arg, const leat_reply *r, const leat_error *err)
{
    state *s = arg;
    look *l = s->look;
    if (err) {
        keep_first(l, err);
        return;
    }
    if (leat_reply_len(r) != 2)
        return;
    const leat_reply *owner = leat_reply_first(r);
    leat_bytes nonce = leat_reply_bytes(owner);
    s->epoch = (uint64_t)leat_reply_int(leat_reply_next(owner));
    if (nonce.n > 0)
        s->nonce = keep_text(l, nonce);
}

static leat_code ask_partition(look *l, uint32_t i, leat_error *err)
{
    const leat__topic_at *t = &l->t;
    leat__key cursor, lease;
    state *s = &l->x->states[i];
    s->look = l;
    leat__key_cursor(&cursor, t->prefix, t->name, t->meta.legacy, i, l->group);
    leat__key_lease(&lease, t->prefix, t->name, t->meta.legacy, i, l->group);
    leat_code code = leat_conn_send(
        l->conn,
        LEAT_ARGS(leat_str("HMGET"), leat__key_bytes(&cursor), leat_str("c"),
                  leat_str("n"), leat_str("m"), leat_str("s")),
        &(leat_send_opts){ .fn = on_cursor, .arg = s }, err);
    if (code != LEAT_OK)
        return code;
    return leat_conn_send(l->conn,
                          LEAT_ARGS(leat_str("HMGET"), leat__key_bytes(&lease),
                                    leat_str("o"), leat_str("e")),
                          &(leat_send_opts){ .fn = on_lease, .arg = s }, err);
}

static leat_code read_states(look *l, leat_error *err)
{
    leat_code code = LEAT_OK;
    for (uint32_t i = 0; i < l->t.meta.partitions && code == LEAT_OK; i++)
        code = ask_partition(l, i, err);
    leat_error drained = { 0 };
    leat_code end = leat_conn_drain(l->conn, 0, &drained);
    if (code != LEAT_OK)
        return code;
    if (end == LEAT_OK && l->first.code != LEAT_OK) {
        drained = l->first;
        end = drained.code;
    }
    if (end != LEAT_OK && err)
        *err = drained;
    return end;
}

/* ---- counting --------------------------------------------------------- */

/* What is settled behind the cursor: "id" or "id:id", split by commas. */
typedef struct range {
    leat_position first, last;
} range;

static bool next_range(const char **s, range *out)
{
    if (!*s || !**s)
        return false;
    size_t n = strcspn(*s, ","), colon = strcspn(*s, ":,");
    bool good = leat__position_parse(leat_mem(*s, colon), &out->first);
    out->last = out->first;
    if (good && colon < n)
        good = leat__position_parse(leat_mem(*s + colon + 1, n - colon - 1),
                                    &out->last);
    *s += n + ((*s)[n] == ',');
    return good;
}

/* Is it in a range?  Both ascend, so *s moves along. */
static bool is_settled(const char **s, range *r, bool *have, leat_position id)
{
    while (*have && leat__position_cmp(r->last, id) < 0)
        *have = next_range(s, r);
    return *have && leat__position_cmp(r->first, id) <= 0;
}

static size_t entry_bytes(const leat_reply *entry)
{
    leat__pairs p = leat__pairs_of(leat_reply_at(entry, 1));
    leat_bytes name;
    const leat_reply *value = NULL;
    size_t n = 0;
    while (leat__pairs_next(&p, &name, &value))
        n += name.n + leat_reply_bytes(value).n;
    return n;
}

typedef struct tally {
    int64_t all, settled; /* all includes the settled */
    const char *at;
    range range;
    bool have;
} tally;

/* One page of entries after *after; false when it was the last. */
static leat_code tally_page(look *l, const leat__key *key, tally *y,
                            leat_position *after, leat_position to, bool *more,
                            leat_error *err)
{
    char from[LEAT__ID_TEXT], until[LEAT__ID_TEXT];
    const leat_reply *r = NULL;
    leat_code code = leat_conn_call(
        l->conn,
        LEAT_ARGS(leat_str("XRANGE"), leat__key_bytes(key),
                  leat__position_format(leat__position_after(*after), from),
                  leat__position_format(to, until), leat_str("COUNT"),
                  leat_str("100")),
        NULL, &r, err);
    if (code != LEAT_OK)
        return code;
    size_t n = leat_reply_len(r);
    const leat_reply *entry = n ? leat_reply_first(r) : NULL;
    for (size_t i = 0; i < n; i++) {
        (void)leat__position_parse(leat_reply_bytes(leat_reply_first(entry)),
                                   after);
        y->all++;
        y->settled += is_settled(&y->at, &y->range, &y->have, *after);
        l->bytes += entry_bytes(entry);
        if (i + 1 < n)
            entry = leat_reply_next(entry);
    }
    l->counted += n;
    *more = n == COUNT_PAGE;
    return LEAT_OK;
}

/* Count the entries after `after` up to `to`; *known is false beyond the
 * bounds. */
static leat_code tally_entries(look *l, uint32_t i, const char *settled,
                               leat_position after, leat_position to, tally *y,
                               bool *known, leat_error *err)
{
    leat__key key;
    bool more = true;
    leat_code code = LEAT_OK;
    leat__key_log(&key, l->t.prefix, l->t.name, l->t.meta.legacy, i);
    *y = (tally){ .at = settled };
    y->have = next_range(&y->at, &y->range);
    while (more && code == LEAT_OK) {
        *known = y->all < COUNT_MAX && l->counted < COUNT_TOTAL &&
                 l->bytes < COUNT_BYTES;
        if (!*known)
            return LEAT_OK;
        code = tally_page(l, &key, y, &after, to, &more, err);
    }
    return code;
}

/* How many entries the ranges hold: a single id is one, a run is counted. */
static leat_code count_settled(look *l, uint32_t i, int64_t *out,
                               leat_error *err)
{
    const char *s = l->x->states[i].settled;
    range r;
    bool known = true;
    leat_code code = LEAT_OK;
    *out = 0;
    while (known && code == LEAT_OK && next_range(&s, &r)) {
        if (leat__position_cmp(r.first, r.last) == 0) {
            ++*out;
            continue;
        }
        tally y;
        code = tally_entries(l, i, NULL, leat__position_before(r.first), r.last,
                             &y, &known, err);
        *out += y.all;
    }
    if (!known)
        *out = -1;
    return code;
}

static leat_code count_behind(look *l, uint32_t i, leat_group_partition *p,
                              leat_error *err)
{
    tally y;
    bool known = true;
    const state *s = &l->x->states[i];
    leat_code code = tally_entries(l, i, s->settled, s->cursor,
                                   l->x->logs[i].last, &y, &known, err);
    p->lag = known ? y.all - y.settled : -1;
    p->settled = known ? y.settled : -1;
    return code;
}

static leat_code find_lag(look *l, uint32_t i, leat_group_partition *p,
                          leat_error *err)
{
    const state *s = &l->x->states[i];
    const leat__log_info *log = &l->x->logs[i];
    int64_t behind = -1;
    if (log->entries == 0 || leat__position_cmp(s->cursor, log->last) >= 0)
        return LEAT_OK;
    if (leat__position_cmp(s->cursor, log->first) < 0)
        behind = log->entries;
    else if (s->count_known && log->added >= 0 &&
             leat__position_cmp(log->deleted, s->cursor) <= 0)
        behind = log->added - (int64_t)s->count;
    if (behind < 0)
        return count_behind(l, i, p, err);
    leat_code code = count_settled(l, i, &p->settled, err);
    p->lag = p->settled < 0 || p->settled > behind ? -1 : behind - p->settled;
    return code;
}

/* ---- members ---------------------------------------------------------- */

/* A record that cannot be read is a newer version's member. */
static leat_code read_record(group_info *x, leat_bytes text,
                             leat_group_member *m, leat_error *err)
{
    leat__record r = { 0 };
    m->readable = leat__record_parse(text, &r);
    m->born_ms = (int64_t)(r.born / 1000);
    m->leaving = r.leaving;
    m->name = leat__arena_text(&x->arena, r.name, err);
    return m->name ? LEAT_OK : LEAT_ENOMEM;
}

static leat_code add_member(group_info *x, leat_bytes nonce, leat_bytes text,
                            leat_error *err)
{
    if (x->pub.members == MAX_MEMBERS)
        return leat__fail(err, LEAT_ETOOBIG, "more than %d members",
                          MAX_MEMBERS);
    if (x->pub.members == x->member_room) {
        size_t room = x->member_room ? x->member_room * 2 : 16;
        leat_group_member *m = leat__realloc(x->members, room * sizeof *m, err);
        if (!m)
            return LEAT_ENOMEM;
        x->members = m;
        x->member_room = room;
    }
    leat_group_member m = { 0 };
    leat_code code = read_record(x, text, &m, err);
    m.nonce = leat__arena_text(&x->arena, nonce, err);
    if (code != LEAT_OK || !m.nonce)
        return LEAT_ENOMEM;
    x->members[x->pub.members++] = m;
    return LEAT_OK;
}

static leat_code add_members(group_info *x, const leat_reply *page,
                             leat_error *err)
{
    leat__pairs p = leat__pairs_of(page);
    leat_bytes nonce;
    const leat_reply *text = NULL;
    leat_code code = LEAT_OK;
    while (code == LEAT_OK && leat__pairs_next(&p, &nonce, &text))
        code = add_member(x, nonce, leat_reply_bytes(text), err);
    return code;
}

static int by_nonce(const void *a, const void *b)
{
    return strcmp(((const leat_group_member *)a)->nonce,
                  ((const leat_group_member *)b)->nonce);
}

static int by_name(const void *a, const void *b)
{
    const leat_group_member *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->nonce, y->nonce);
}

/* A scan may give a field twice; afterwards they are sorted by nonce. */
static void drop_twins(group_info *x)
{
    uint32_t kept = 0;
    if (x->pub.members)
        qsort(x->members, x->pub.members, sizeof *x->members, by_nonce);
    for (uint32_t i = 0; i < x->pub.members; i++)
        if (kept == 0 || by_nonce(&x->members[kept - 1], &x->members[i]) != 0)
            x->members[kept++] = x->members[i];
    x->pub.members = kept;
}

static leat_code read_members(look *l, leat_error *err)
{
    char cursor[24] = "0";
    leat__key key;
    leat_code code;
    leat__key_members(&key, l->t.prefix, l->t.name, l->group);
    do {
        const leat_reply *r = NULL;
        code = leat_conn_call(l->conn,
                              LEAT_ARGS(leat_str("HSCAN"),
                                        leat__key_bytes(&key), leat_str(cursor),
                                        leat_str("COUNT"), leat_str("200")),
                              NULL, &r, err);
        if (code != LEAT_OK || leat_reply_len(r) < 2)
            break;
        leat_bytes next = leat_reply_bytes(leat_reply_first(r));
        snprintf(cursor, sizeof cursor, "%.*s", (int)next.n,
                 (const char *)next.p);
        code = add_members(l->x, leat_reply_at(r, 1), err);
    } while (code == LEAT_OK && strcmp(cursor, "0") != 0);
    drop_twins(l->x);
    return code;
}

/* ---- the whole -------------------------------------------------------- */

void leat_group_info_free(leat_group_info *g)
{
    group_info *x = (group_info *)g;
    if (!x)
        return;
    leat__arena_release(&x->arena);
    leat__free(x->list);
    leat__free(x->members);
    leat__free(x->logs);
    leat__free(x->states);
    leat__free(x);
}

static leat_group_member *find_member(group_info *x, const char *nonce)
{
    const leat_group_member key = { .nonce = nonce };
    return nonce && x->pub.members
               ? bsearch(&key, x->members, x->pub.members, sizeof key, by_nonce)
               : NULL;
}

static leat_code fill_partition(look *l, uint32_t i, leat_error *err)
{
    group_info *x = l->x;
    const state *s = &x->states[i];
    leat_group_partition *p = &x->list[i];
    leat_group_member *m = find_member(x, s->nonce);
    *p = (leat_group_partition){ .partition = i,
                                 .begun = s->begun,
                                 .cursor = s->cursor,
                                 .mark = s->mark,
                                 .last = x->logs[i].last,
                                 .nonce = s->nonce,
                                 .owner = m ? m->name : NULL,
                                 .epoch = s->epoch };
    if (m)
        m->partitions++;
    x->pub.owned += s->nonce != NULL;
    leat_code code = find_lag(l, i, p, err);
    if (p->lag < 0)
        x->pub.lag = -1;
    else if (x->pub.lag >= 0)
        x->pub.lag += p->lag;
    return code;
}

static leat_code fill(look *l, leat_error *err)
{
    group_info *x = l->x;
    leat_code code = LEAT_OK;
    x->pub.topic = leat__arena_text(&x->arena, leat_str(l->t.name), err);
    x->pub.group = leat__arena_text(&x->arena, leat_str(l->group), err);
    if (!x->pub.topic || !x->pub.group)
        return LEAT_ENOMEM;
    x->pub.partitions = l->t.meta.partitions;
    for (uint32_t i = 0; i < x->pub.partitions && code == LEAT_OK; i++)
        code = fill_partition(l, i, err);
    if (x->pub.members)
        qsort(x->members, x->pub.members, sizeof *x->members, by_name);
    x->pub.partition = x->list;
    x->pub.member = x->members;
    return code;
}

static leat_code check_there(look *l, leat_error *err)
{
    leat__key key;
    const leat_reply *r = NULL;
    leat__key_groups(&key, l->t.prefix, l->t.name);
    leat_code code = leat_conn_call(l->conn,
                                    LEAT_ARGS(leat_str("SISMEMBER"),
                                              leat__key_bytes(&key),
                                              leat_str(l->group)),
                                    NULL, &r, err);
    if (code == LEAT_OK && leat_reply_int(r) == 0)
        code = leat__fail(err, LEAT_ENOENT, "topic '%s' has no group '%s'",
                          l->t.name, l->group);
    return code;
}

static leat_code read_group(look *l, leat_error *err)
{
    l->conn = leat_client_lend(l->t.client, LEND_MS, err);
    if (!l->conn)
        return LEAT_ECONN;
    leat_code code = check_there(l, err);
    if (code == LEAT_OK)
        code = leat__log_infos(&l->t, l->conn, l->x->logs, err);
    if (code == LEAT_OK)
        code = read_states(l, err);
    if (code == LEAT_OK)
        code = read_members(l, err);
    if (code == LEAT_OK)
        code = fill(l, err);
    leat_client_return(l->t.client, l->conn);
    return code;
}

leat_group_info *leat_group_describe(leat_client *c, const char *topic,
                                     const char *group, const char *prefix,
                                     leat_error *err)
{
    look l = { .group = group };
    if (leat__name_check("group", group, err) != LEAT_OK ||
        leat__topic_at_init(&l.t, c, topic, prefix, err) != LEAT_OK)
        return NULL;
    group_info *x = l.x = leat__zalloc(sizeof *x, err);
    if (!x)
        return NULL;
    size_t n = l.t.meta.partitions;
    x->list = leat__calloc(n, sizeof *x->list, err);
    x->logs = x->list ? leat__calloc(n, sizeof *x->logs, err) : NULL;
    x->states = x->logs ? leat__calloc(n, sizeof *x->states, err) : NULL;
    if (!x->states || read_group(&l, err) != LEAT_OK) {
        leat_group_info_free(&x->pub);
        return NULL;
    }
    return &x->pub;
}
