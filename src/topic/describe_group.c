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
#include "topic/look.h"
#include "topic/members.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    LEND_MS = 5000,
    COUNT_MAX = 10000,      /* entries read to count, in one partition  */
    COUNT_TOTAL = 100000,   /* in all partitions together               */
    COUNT_BYTES = 64 << 20, /* of entries, likewise                     */
    COUNT_PAGE = 100
};

typedef struct group_info {
    leat_group_info pub;
    leat_group_partition *list;
    leat__members members;
    leat__look *looks;
    leat__arena arena;
} group_info;

typedef struct look {
    leat__topic_at t;
    const char *group;
    group_info *x;
    leat_conn *conn;
    size_t counted, bytes; /* of the bounds                         */
} look;

/* ---- counting --------------------------------------------------------- */

/* Is it in a range?  Both ascend, so *s moves along. */
static bool is_settled(const char **s, leat__look_range *r, bool *have,
                       leat_position id)
{
    while (*have && leat__position_cmp(r->last, id) < 0)
        *have = leat__look_settled(s, r);
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
    leat__look_range range;
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
    y->have = leat__look_settled(&y->at, &y->range);
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
    const char *s = l->x->looks[i].settled;
    leat__look_range r;
    bool known = true;
    leat_code code = LEAT_OK;
    *out = 0;
    while (known && code == LEAT_OK && leat__look_settled(&s, &r)) {
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
    const leat__look *s = &l->x->looks[i];
    leat_code code = tally_entries(l, i, s->settled, s->cursor, s->log.last, &y,
                                   &known, err);
    p->lag = known ? y.all - y.settled : -1;
    p->settled = known ? y.settled : -1;
    return code;
}

static leat_code find_lag(look *l, uint32_t i, leat_group_partition *p,
                          leat_error *err)
{
    const leat__look *s = &l->x->looks[i];
    const leat__log_info *log = &s->log;
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

/* Between cursor and mark.  Where the mark is at the end, that is the lag. */
static leat_code find_in_flight(look *l, uint32_t i, leat_group_partition *p,
                                leat_error *err)
{
    const leat__look *s = &l->x->looks[i];
    tally y;
    bool known = true;
    p->in_flight = 0;
    if (p->lag == 0 || leat__position_cmp(s->mark, s->cursor) <= 0)
        return LEAT_OK;
    if (leat__position_cmp(s->mark, s->log.last) >= 0) {
        p->in_flight = p->lag;
        return LEAT_OK;
    }
    leat_code code = tally_entries(l, i, s->settled, s->cursor, s->mark, &y,
                                   &known, err);
    p->in_flight = known ? y.all - y.settled : -1;
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
    leat__free(x->members.list);
    leat__free(x->looks);
    leat__free(x);
}

/* -1 stays -1. */
static void add_up(int64_t *sum, int64_t n)
{
    *sum = *sum < 0 || n < 0 ? -1 : *sum + n;
}

static void sum_up(leat_group_info *g, const leat_group_partition *p)
{
    g->owned += p->nonce != NULL;
    add_up(&g->lag, p->lag);
    add_up(&g->in_flight, p->in_flight);
    add_up(&g->retries, p->retries);
    add_up(&g->due, p->due);
    add_up(&g->lanes, p->lanes);
    add_up(&g->parked, p->parked);
}

static leat_code fill_partition(look *l, uint32_t i, leat_error *err)
{
    group_info *x = l->x;
    const leat__look *s = &x->looks[i];
    leat_group_partition *p = &x->list[i];
    leat_group_member *m = leat__members_find(&x->members, s->nonce);
    int64_t parked = s->kept > s->waiting ? s->kept - s->waiting : 0;
    *p = (leat_group_partition){ .partition = i,
                                 .begun = s->begun,
                                 .cursor = s->cursor,
                                 .mark = s->mark,
                                 .last = s->log.last,
                                 .nonce = s->nonce,
                                 .owner = m ? m->name : NULL,
                                 .epoch = s->epoch,
                                 .retries = s->waiting,
                                 .due = s->due,
                                 .lanes = s->laned - parked,
                                 .parked = parked,
                                 .beat_age_ms = m ? m->beat_age_ms : -1,
                                 .reason = s->why,
                                 .changed_ms = s->when_ms > 0 ? s->when_ms
                                                              : 0 };
    if (m)
        m->partitions++;
    leat_code code = find_lag(l, i, p, err);
    if (code == LEAT_OK)
        code = find_in_flight(l, i, p, err);
    sum_up(&x->pub, p);
    return code;
}

static int by_name(const void *a, const void *b)
{
    const leat_group_member *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->nonce, y->nonce);
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
    const leat__members *m = &x->members;
    if (m->n)
        qsort(m->list, m->n, sizeof *m->list, by_name);
    x->pub.partition = x->list;
    x->pub.member = m->list;
    x->pub.members = m->n;
    x->pub.alive = m->alive;
    x->pub.paused_ms = m->paused_ms;
    return code;
}

static leat_code read_group(look *l, leat_error *err)
{
    l->conn = leat_client_lend(l->t.client, LEND_MS, err);
    if (!l->conn)
        return LEAT_ECONN;
    group_info *x = l->x;
    leat_code code = leat__group_there(&l->t, l->conn, l->group, err);
    if (code == LEAT_OK)
        code = leat__look_all(&l->t, l->conn, l->group, &x->arena, x->looks,
                              err);
    if (code == LEAT_OK)
        code = leat__members_read(&l->t, l->conn, l->group, &x->arena,
                                  &x->members, err);
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
    x->looks = x->list ? leat__calloc(n, sizeof *x->looks, err) : NULL;
    if (!x->looks || read_group(&l, err) != LEAT_OK) {
        leat_group_info_free(&x->pub);
        return NULL;
    }
    return &x->pub;
}
