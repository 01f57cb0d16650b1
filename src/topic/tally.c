/*
 * tally.c: how many entries of a log there are between two places.
 *
 * The cursor c of a group is known with n, the number of entries ever added up
 * to it.  What is behind it is, in this order:
 *
 *   c is at the newest entry or behind it        0
 *   the whole log is behind c                    its length
 *   n and entries-added are known, and nothing
 *   behind c was deleted                         entries-added - n
 *   otherwise                                    entries behind c are counted
 *
 * Counting reads entries whole, so it has bounds; beyond them the answer is
 * that nobody knows.
 */
#include "topic/tally.h"
#include "redis/shape.h"

enum {
    COUNT_MAX = 10000,      /* entries read to count, in one partition  */
    COUNT_TOTAL = 100000,   /* in all partitions together               */
    COUNT_BYTES = 64 << 20, /* of entries, likewise                     */
    COUNT_PAGE = 100
};

int64_t leat__tally_behind(const leat__look *l)
{
    const leat__log_info *log = &l->log;
    if (log->entries == 0 || leat__position_cmp(l->cursor, log->last) >= 0)
        return 0;
    if (leat__position_cmp(l->cursor, log->first) < 0)
        return log->entries;
    int64_t behind = -1;
    if (l->count_known && log->added >= 0 &&
        leat__position_cmp(log->deleted, l->cursor) <= 0)
        behind = log->added - (int64_t)l->count;
    return behind > 0 ? behind : -1;
}

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
    return leat__pairs_bytes(leat__pairs_of(leat_reply_at(entry, 1)));
}

typedef struct walk {
    leat__tallies *x;
    leat__key log;
    leat_position after, to;
    const char *at; /* in the ranges */
    leat__look_range range;
    bool have;
    leat__tally *out;
} walk;

/* One page of entries after w->after; *more is false when it was the last. */
static leat_code count_page(walk *w, bool *more, leat_error *err)
{
    char from[LEAT__ID_TEXT], until[LEAT__ID_TEXT];
    const leat_reply *r = NULL;
    leat_code code = leat_conn_call(
        w->x->conn,
        LEAT_ARGS(leat_str("XRANGE"), leat__key_bytes(&w->log),
                  leat__position_format(leat__position_after(w->after), from),
                  leat__position_format(w->to, until), leat_str("COUNT"),
                  leat_str("100")),
        NULL, &r, err);
    if (code == LEAT_OK)
        code = leat__reply_want(r, LEAT__SHAPE_ENTRIES, LEAT_EPROTO, "XRANGE",
                                err);
    if (code != LEAT_OK)
        return code;
    size_t n = leat_reply_len(r);
    leat_reply_iter it = leat_reply_each(r);
    for (const leat_reply *entry; (entry = leat_reply_step(&it));) {
        (void)leat__position_parse(leat_reply_bytes(leat_reply_at(entry, 0)),
                                   &w->after);
        w->out->all++;
        w->out->settled += is_settled(&w->at, &w->range, &w->have, w->after);
        w->x->bytes += entry_bytes(entry);
    }
    w->x->counted += n;
    *more = n == COUNT_PAGE;
    return LEAT_OK;
}

leat_code leat__tally_count(leat__tallies *x, uint32_t i, const char *settled,
                            leat_position after, leat_position to,
                            leat__tally *out, leat_error *err)
{
    const leat__topic_at *t = x->topic;
    walk w = { .x = x, .after = after, .to = to, .at = settled, .out = out };
    bool more = leat__position_cmp(after, to) < 0;
    leat_code code = LEAT_OK;
    leat__key_log(&w.log, t->prefix, t->name, t->meta.legacy, i);
    *out = (leat__tally){ .known = true };
    w.have = leat__look_settled(&w.at, &w.range);
    while (more && code == LEAT_OK && out->known) {
        out->known = out->all < COUNT_MAX && x->counted < COUNT_TOTAL &&
                     x->bytes < COUNT_BYTES;
        if (out->known)
            code = count_page(&w, &more, err);
    }
    return code;
}

/* A single id is one, a run is counted. */
leat_code leat__tally_settled(leat__tallies *x, uint32_t i, const char *settled,
                              leat_position after, int64_t *out,
                              leat_error *err)
{
    leat__look_range r;
    leat__tally y = { .known = true };
    leat_code code = LEAT_OK;
    *out = 0;
    while (y.known && code == LEAT_OK && leat__look_settled(&settled, &r)) {
        if (leat__position_cmp(r.last, after) <= 0)
            continue;
        if (leat__position_cmp(r.first, r.last) == 0) {
            ++*out;
            continue;
        }
        leat_position from = leat__position_before(r.first);
        if (leat__position_cmp(from, after) < 0)
            from = after;
        code = leat__tally_count(x, i, NULL, from, r.last, &y, err);
        *out += y.all;
    }
    if (!y.known)
        *out = -1;
    return code;
}
