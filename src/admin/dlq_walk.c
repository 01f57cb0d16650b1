/*
 * dlq_walk.c: all dead letters of a topic, merged over its partitions.
 *
 * Each partition is a page of entries, and what is not read yet is between two
 * ids.  The next one is that with the lowest id among the pages, or with the
 * highest; of equal ids that of the lower partition is the lower, so that every
 * dead letter has one place in the order and a walk can go on behind any.
 *
 * The end is where the stream ended when its first page was read: what dies
 * while somebody replays is not replayed by the same walk.
 */
#include "admin/dlq.h"
#include "base/mem.h"

#include <assert.h>

enum {
    FIRST_PAGE = 16,       /* entries, before it is known how large they are */
    PAGES_ENTRIES = 1024,  /* in all pages, at least one each                */
    PAGES_BYTES = 4 << 20, /* likewise                                       */
};

static const leat_position highest = { .ms = UINT64_MAX, .seq = UINT64_MAX };

typedef struct part {
    uint32_t number;
    leat_position lo, hi; /* what is not read yet, both included          */
    bool over;            /* it is empty                                  */
    bool begun;           /* the end is fixed                             */
    leat_reply *page;
    const leat_reply *entry; /* the next of the page                      */
    leat_reply_iter rest;    /* those behind it                            */
    leat_position id;        /* its id                                    */
    size_t left;             /* entries of the page, with this one        */
} part;

struct leat_dlq_walk {
    leat_dlq *dlq;
    leat_dead_filter filter;
    char *group, *group_id, *error;
    void *key;
    bool back;
    part *parts;
    size_t count;
    size_t page; /* entries to ask for */
    part *shown; /* whose entry was given out */
    leat__letter letter;
};

const leat__letter *leat__dlq_walk_letter(const leat_dlq_walk *w)
{
    return &w->letter;
}

/* ---- pages ------------------------------------------------------------ */

static void drop_page(part *p)
{
    leat_reply_free(p->page);
    p->page = NULL;
    p->entry = NULL;
    p->left = 0;
}

/* Look at the entry at hand; false: it has no id. */
static bool look(part *p)
{
    return leat_reply_len(p->entry) >= 2 &&
           leat__position_parse(leat_reply_bytes(leat_reply_at(p->entry, 0)),
                                &p->id);
}

static size_t bytes_of(const leat_reply *page)
{
    size_t sum = 0;
    leat_reply_iter it = leat_reply_each(page);
    for (const leat_reply *e; (e = leat_reply_step(&it));) {
        leat_bytes name;
        const leat_reply *value = NULL;
        leat__pairs p = leat__pairs_of(leat_reply_at(e, 1));
        while (leat__pairs_next(&p, &name, &value))
            sum += name.n + leat_reply_bytes(value).n;
    }
    return sum;
}

static size_t clamp(size_t n, size_t most)
{
    return n < 1 ? 1 : n > most ? most : n;
}

/* As many as had room in a page if all were like these. */
static void resize(leat_dlq_walk *w, size_t n, size_t bytes)
{
    size_t most = clamp(PAGES_ENTRIES / w->count, LEAT__DLQ_PAGE);
    size_t room = clamp(PAGES_BYTES / w->count, LEAT__DLQ_BYTES);
    size_t fit = bytes / n ? room / (bytes / n) : most;
    w->page = clamp(fit, clamp(2 * w->page, most));
}

static leat_code range(leat_dlq_walk *w, part *p, bool back, size_t count,
                       leat_reply **out, leat_error *err)
{
    char lo[LEAT__ID_TEXT], hi[LEAT__ID_TEXT];
    leat_bytes low = leat__position_format(p->lo, lo),
               high = leat__position_format(p->hi, hi);
    return leat__dlq_range(w->dlq, p->number, back, back ? high : low,
                           back ? low : high, count, out, err);
}

/* The newest there is now is the last to be shown. */
static leat_code fix_end(leat_dlq_walk *w, part *p, leat_error *err)
{
    leat_reply *r = NULL;
    leat_code code = range(w, p, true, 1, &r, err);
    if (code != LEAT_OK)
        return code;
    if (leat_reply_len(r) > 0)
        (void)leat__position_parse(
            leat_reply_bytes(leat_reply_at(leat_reply_at(r, 0), 0)), &p->hi);
    leat_reply_free(r);
    p->begun = true;
    return LEAT_OK;
}

static leat_code fetch(leat_dlq_walk *w, part *p, leat_error *err)
{
    size_t asked = w->page;
    leat_code code = range(w, p, w->back, asked, &p->page, err);
    if (code != LEAT_OK)
        return code;
    p->left = leat_reply_len(p->page);
    p->over = p->left < asked;
    if (p->left == 0) {
        drop_page(p);
        return LEAT_OK;
    }
    p->rest = leat_reply_each(p->page);
    p->entry = leat_reply_step(&p->rest);
    if (!look(p)) {
        drop_page(p);
        return leat__fail(err, LEAT_EPROTO,
                          "the server answered XRANGE strangely");
    }
    resize(w, p->left, bytes_of(p->page));
    if (p->begun || p->over || w->back)
        return LEAT_OK;
    code = fix_end(w, p, err);
    if (code != LEAT_OK)
        drop_page(p); /* read again, and then fixed */
    return code;
}

static leat_code refill(leat_dlq_walk *w, leat_error *err)
{
    leat_code code = LEAT_OK;
    for (size_t i = 0; i < w->count && code == LEAT_OK; i++)
        if (w->parts[i].left == 0 && !w->parts[i].over)
            code = fetch(w, &w->parts[i], err);
    return code;
}

/* The entry at hand is done with. */
static void pass(leat_dlq_walk *w, part *p)
{
    if (leat__position_cmp(p->lo, p->hi) >= 0 ||
        leat__position_cmp(p->id, w->back ? p->lo : p->hi) == 0)
        p->over = true;
    if (w->back)
        p->hi = leat__position_before(p->id);
    else
        p->lo = leat__position_after(p->id);
    if (--p->left == 0) {
        drop_page(p);
        return;
    }
    p->entry = leat_reply_step(&p->rest);
    if (!look(p)) {
        drop_page(p); /* read again from here */
        p->over = false;
    }
}

/* ---- which ------------------------------------------------------------ */

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c);
}

static bool same_letters(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (lower(a[i]) != lower(b[i]))
            return false;
    return true;
}

static bool contains(leat_bytes text, const char *word)
{
    size_t n = strlen(word);
    if (n == 0)
        return true;
    for (size_t i = 0; i + n <= text.n; i++)
        if (same_letters((const char *)text.p + i, word, n))
            return true;
    return false;
}

static bool has_key(const leat_dead *x, leat_bytes key)
{
    for (size_t i = 0; !x->damaged && i < x->msg_count; i++)
        if (leat_bytes_eq(x->msg[i].key, key))
            return true;
    return false;
}

static bool matches(const leat_dead_filter *f, const leat_dead *x)
{
    return (!f->group || strcmp(f->group, x->group) == 0) &&
           (!f->group_id || strcmp(f->group_id, x->group_id) == 0) &&
           (!f->error || contains(x->error, f->error)) &&
           (!f->key.p || has_key(x, f->key));
}

/* ---- the next one ----------------------------------------------------- */

static part *best_of(leat_dlq_walk *w)
{
    part *best = NULL;
    for (size_t i = 0; i < w->count; i++) {
        part *p = &w->parts[i];
        int order = best && p->left ? leat__position_cmp(p->id, best->id) : 0;
        if (p->left && (!best || (w->back ? order >= 0 : order < 0)))
            best = p;
    }
    return best;
}

int leat_dlq_walk_next(leat_dlq_walk *w, leat_dead *out, leat_error *err)
{
    for (;;) {
        if (w->shown)
            pass(w, w->shown);
        w->shown = NULL;
        if (refill(w, err) != LEAT_OK)
            return -1;
        part *p = best_of(w);
        if (!p)
            return 0;
        leat__dead_at at = { .partition = p->number, .at = p->id };
        if (leat__letter_read(&w->letter, w->dlq, at, p->entry, err) != LEAT_OK)
            return -1;
        w->shown = p;
        if (matches(&w->filter, &w->letter.pub)) {
            *out = w->letter.pub;
            return 1;
        }
    }
}

/* ---- opening ---------------------------------------------------------- */

void leat_dlq_walk_close(leat_dlq_walk *w)
{
    if (!w)
        return;
    for (size_t i = 0; w->parts && i < w->count; i++)
        drop_page(&w->parts[i]);
    leat__letter_release(&w->letter);
    leat__free(w->parts);
    leat__free(w->group);
    leat__free(w->group_id);
    leat__free(w->error);
    leat__free(w->key);
    leat__free(w);
}

static leat_code copy_filter(leat_dlq_walk *w, const leat_dead_filter *f,
                             leat_error *err)
{
    w->filter = *f;
    if (f->group && !(w->group = leat__strdup(f->group, err)))
        return LEAT_ENOMEM;
    if (f->group_id && !(w->group_id = leat__strdup(f->group_id, err)))
        return LEAT_ENOMEM;
    if (f->error && !(w->error = leat__strdup(f->error, err)))
        return LEAT_ENOMEM;
    if (f->key.p && !(w->key = leat__alloc(f->key.n + 1, err)))
        return LEAT_ENOMEM;
    if (f->key.p && f->key.n)
        memcpy(w->key, f->key.p, f->key.n);
    w->filter.group = w->group;
    w->filter.group_id = w->group_id;
    w->filter.error = w->error;
    w->filter.key = leat_mem(w->key, f->key.n);
    return LEAT_OK;
}

static leat_code check_filter(const leat_dlq *d, const leat_dead_filter *f,
                              leat_error *err)
{
    if (f->one && f->partition >= d->at.meta.partitions)
        return leat__fail(err, LEAT_EINVAL,
                          "topic '%s' has no partition %u: they are 0 to %u",
                          d->name, f->partition, d->at.meta.partitions - 1);
    if (f->since_ms < 0 || f->until_ms < 0)
        return leat__fail(err, LEAT_EINVAL, "times are since 1970");
    return f->group ? leat__name_check("group", f->group, err) : LEAT_OK;
}

/* Behind this one in the order of all. */
static void begin_after(const leat_dlq_walk *w, part *p, leat__dead_at after)
{
    bool with = w->back ? p->number < after.partition
                        : p->number > after.partition;
    leat_position at = after.at;
    if (w->back) {
        p->over = p->over || (!with && leat__position_zero(at));
        at = with ? at : leat__position_before(at);
        if (leat__position_cmp(at, p->hi) < 0)
            p->hi = at;
    } else {
        p->over = p->over || (!with && leat__position_cmp(at, highest) == 0);
        at = with ? at : leat__position_after(at);
        if (leat__position_cmp(at, p->lo) > 0)
            p->lo = at;
    }
    p->over = p->over || leat__position_cmp(p->lo, p->hi) > 0;
}

static void set_bounds(part *p, const leat_dead_filter *f)
{
    p->lo = (leat_position){ .ms = (uint64_t)f->since_ms };
    p->hi = highest;
    if (f->until_ms > 0)
        p->hi.ms = (uint64_t)f->until_ms - 1;
    p->over = leat__position_cmp(p->lo, p->hi) > 0;
}

static leat_code add_parts(leat_dlq_walk *w, const char *after, leat_error *err)
{
    leat__dead_at behind = { 0 };
    const leat_dead_filter *f = &w->filter;
    if (after && leat__dead_at_parse(after, &behind, err) != LEAT_OK)
        return LEAT_EINVAL;
    w->count = f->one ? 1 : w->dlq->at.meta.partitions;
    assert(w->count > 0);
    w->parts = leat__calloc(w->count, sizeof *w->parts, err);
    if (!w->parts)
        return LEAT_ENOMEM;
    for (size_t i = 0; i < w->count; i++) {
        part *p = &w->parts[i];
        p->number = f->one ? f->partition : (uint32_t)i;
        set_bounds(p, f);
        if (after)
            begin_after(w, p, behind);
    }
    w->page = clamp(PAGES_ENTRIES / w->count, FIRST_PAGE);
    return LEAT_OK;
}

leat_dlq_walk *leat_dlq_walk_open(leat_dlq *d, const leat_dlq_walk_opts *opts,
                                  leat_error *err)
{
    leat_dlq_walk_opts o = opts ? *opts : (leat_dlq_walk_opts){ 0 };
    if (check_filter(d, &o.filter, err) != LEAT_OK)
        return NULL;
    leat_dlq_walk *w = leat__zalloc(sizeof *w, err);
    if (!w)
        return NULL;
    w->dlq = d;
    w->back = o.newest_first;
    w->letter.opened.codec = d->opts.codec;
    if (copy_filter(w, &o.filter, err) != LEAT_OK ||
        add_parts(w, o.after, err) != LEAT_OK) {
        leat_dlq_walk_close(w);
        return NULL;
    }
    return w;
}
