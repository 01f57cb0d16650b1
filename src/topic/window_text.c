/*
 * window_text.c: what the next owner must know of a window, as text.
 *
 *   settled    "ms-seq" or "ms-seq:ms-seq", joined by ",": the first and the
 *              last id of each run of entries that are done, behind the cursor
 *   attempts   "ms-seq=N", joined by ",": entries that are not done and were
 *              handed out N times, where N is not what the mark says (1 up to
 *              the mark, 0 behind it)
 *
 * Both ascend.  Ids cannot come in between later, so a run stays a run whatever
 * is deleted from the log.
 *
 * What was loaded is asked as its entries are read again; what is below the
 * last id that was read is forgotten, since its entry is gone from the log.
 * Until then a save writes it again behind what the ring says: an owner that
 * dies early takes nothing back.
 *
 * An entry of the ring needs 53 bytes at most: a range for every second one, or
 * an attempt for each.  What is not read again yet was within the ring of an
 * owner before.  So both texts together are bounded by 53 bytes for each of the
 * largest cap there ever was.
 */
#include "base/mem.h"
#include "topic/window_inside.h"

#include <assert.h>

enum { PIECE = 2 * LEAT__ID_TEXT }; /* the longest element, with its comma */

void leat__recall_release(leat__recall *r)
{
    leat__free(r->ranges);
    leat__free(r->tries);
    *r = (leat__recall){ 0 };
}

void leat__recall_entry(leat__recall *r, leat__entry *e)
{
    while (r->range_at < r->range_n &&
           leat__id_cmp(r->ranges[r->range_at].last, e->id) < 0)
        r->range_at++;
    while (r->tries_at < r->tries_n &&
           leat__id_cmp(r->tries[r->tries_at].id, e->id) < 0)
        r->tries_at++;
    if (r->range_at < r->range_n &&
        leat__id_cmp(r->ranges[r->range_at].first, e->id) <= 0) {
        e->state = LEAT__ENTRY_DONE;
        return;
    }
    e->attempts = 1;
    if (r->tries_at < r->tries_n &&
        leat__id_cmp(r->tries[r->tries_at].id, e->id) == 0)
        e->attempts = r->tries[r->tries_at].n;
}

/* ---- reading ---------------------------------------------------------- */

/* The text up to the next sep, which is taken away with it.  A sep at the very
 * end leaves an empty piece, so that it is refused. */
static leat_bytes cut(leat_bytes *text, char sep, bool *more)
{
    const char *p = text->p;
    const char *end = text->n > 0 ? memchr(p, sep, text->n) : NULL;
    leat_bytes piece = *text;
    *more = end != NULL;
    if (end) {
        piece.n = (size_t)(end - p);
        *text = leat_mem(end + 1, text->n - piece.n - 1);
    }
    return piece;
}

static size_t pieces(leat_bytes text)
{
    const char *p = text.p;
    size_t n = text.n > 0;
    for (size_t i = 0; i < text.n; i++)
        n += p[i] == ',';
    return n;
}

static bool parse_range(leat_bytes piece, leat__range *out)
{
    bool two;
    leat_bytes first = cut(&piece, ':', &two);
    if (!leat__id_parse(first, &out->first))
        return false;
    out->last = out->first;
    if (!two)
        return true;
    return leat__id_parse(piece, &out->last) &&
           leat__id_cmp(out->first, out->last) <= 0;
}

static bool parse_tries(leat_bytes piece, leat__tries *out)
{
    bool two;
    leat__id n;
    leat_bytes id = cut(&piece, '=', &two);
    if (!two || !leat__id_parse(id, &out->id))
        return false;
    /* A number is an id without a second half. */
    if (memchr(piece.p, '-', piece.n) || !leat__id_parse(piece, &n))
        return false;
    out->n = (uint32_t)n.ms;
    return n.ms <= UINT32_MAX;
}

static leat_code not_ours(leat_error *err, const char *what, leat_bytes text)
{
    char shown[80];
    leat__escape(shown, sizeof shown, text.p, text.n);
    return leat__fail(err, LEAT_EDECODE,
                      "%s of a cursor are not written by leat: '%s': repair or "
                      "delete that field",
                      what, shown);
}

static leat_code read_ranges(leat__recall *r, leat_bytes text, leat_error *err)
{
    leat_bytes rest = text;
    bool more = text.n > 0;
    r->ranges = leat__calloc(pieces(text) + 1, sizeof *r->ranges, err);
    if (!r->ranges)
        return LEAT_ENOMEM;
    while (more) {
        leat__range *at = &r->ranges[r->range_n++];
        if (!parse_range(cut(&rest, ',', &more), at))
            return not_ours(err, "settled ranges", text);
        if (r->range_n > 1 && leat__id_cmp(at[-1].last, at->first) >= 0)
            return not_ours(err, "settled ranges", text);
    }
    return LEAT_OK;
}

static leat_code read_tries(leat__recall *r, leat_bytes text, leat_error *err)
{
    leat_bytes rest = text;
    bool more = text.n > 0;
    r->tries = leat__calloc(pieces(text) + 1, sizeof *r->tries, err);
    if (!r->tries)
        return LEAT_ENOMEM;
    while (more) {
        leat__tries *at = &r->tries[r->tries_n++];
        if (!parse_tries(cut(&rest, ',', &more), at))
            return not_ours(err, "attempts", text);
        if (r->tries_n > 1 && leat__id_cmp(at[-1].id, at->id) >= 0)
            return not_ours(err, "attempts", text);
    }
    return LEAT_OK;
}

static leat__id higher(leat__id a, leat__id b)
{
    return leat__id_cmp(a, b) < 0 ? b : a;
}

/* The mark is not below what is settled, also if somebody set the cursor by
 * hand; and behind it nothing was handed out. */
static void agree(leat__window *w)
{
    leat__recall *r = &w->recall;
    w->mark = higher(w->mark, w->cursor);
    if (r->range_n > 0)
        w->mark = higher(w->mark, r->ranges[r->range_n - 1].last);
    while (r->tries_n > 0 &&
           leat__id_cmp(r->tries[r->tries_n - 1].id, w->mark) > 0)
        r->tries_n--;
}

leat_code leat__window_load(leat__window *w, const leat__window_saved *saved,
                            leat_error *err)
{
    leat__recall r = { 0 };
    assert(w->head == w->tail);
    leat_code rc = read_ranges(&r, saved->settled, err);
    if (rc == LEAT_OK)
        rc = read_tries(&r, saved->attempts, err);
    if (rc != LEAT_OK) {
        leat__recall_release(&r);
        return rc;
    }
    leat__recall_release(&w->recall);
    leat__lanes_reset(w);
    w->recall = r;
    w->cursor = w->read = saved->cursor;
    w->mark = saved->mark;
    w->count = saved->count;
    w->count_known = saved->count_known;
    w->next = w->marked = w->tail;
    w->suspects = 0;
    w->turned = w->still = w->dirty = w->unmarked = false;
    agree(w);
    return LEAT_OK;
}

/* ---- writing ---------------------------------------------------------- */

/* Text grows in a buffer; `bad` is the first failure, after which nothing is
 * written any more. */
struct writer {
    leat__buf *buf;
    size_t from; /* where this text begins */
    leat_code bad;
    leat_error *err;
};

static void put(struct writer *o, leat_bytes text)
{
    memcpy(o->buf->p + o->buf->n, text.p, text.n);
    o->buf->n += text.n;
}

static void put_id(struct writer *o, leat__id id)
{
    char text[LEAT__ID_TEXT];
    put(o, leat__id_format(id, text));
}

/* Room for one more element, and the comma before it; false: there is none. */
static bool begin(struct writer *o)
{
    if (o->bad == LEAT_OK)
        o->bad = leat__buf_reserve(o->buf, PIECE, o->err);
    if (o->bad != LEAT_OK)
        return false;
    if (o->buf->n > o->from)
        put(o, leat_mem(",", 1));
    return true;
}

static void put_range(struct writer *o, leat__id first, leat__id last)
{
    if (!begin(o))
        return;
    put_id(o, first);
    if (leat__id_cmp(first, last) == 0)
        return;
    put(o, leat_mem(":", 1));
    put_id(o, last);
}

static void put_tries(struct writer *o, leat__id id, uint32_t n)
{
    char text[LEAT__ID_TEXT];
    if (!begin(o))
        return;
    put_id(o, id);
    leat_bytes number = leat__id_format((leat__id){ n, 0 }, text);
    put(o, leat_mem("=", 1));
    put(o, leat_mem(text, number.n - 2)); /* without "-0" */
}

static leat__id after(leat__id id)
{
    id.seq++;
    id.ms += id.seq == 0;
    return id;
}

/* The ranges that were loaded and not read again yet.  The first of them may
 * have been read in part: the run of the ring that ends there, from *open on if
 * it is not NULL, and its rest are one. */
static void put_unread_ranges(const leat__window *w, struct writer *o,
                              const leat__id *open)
{
    const leat__recall *r = &w->recall;
    size_t i = r->range_at;
    while (i < r->range_n && leat__id_cmp(r->ranges[i].last, w->read) <= 0)
        i++;
    if (i < r->range_n && leat__id_cmp(r->ranges[i].first, w->read) <= 0) {
        put_range(o, open ? *open : after(w->read), r->ranges[i].last);
        open = NULL;
        i++;
    }
    if (open)
        put_range(o, *open, w->read);
    for (; i < r->range_n; i++)
        put_range(o, r->ranges[i].first, r->ranges[i].last);
}

static void put_settled(const leat__window *w, struct writer *o)
{
    const leat__slot *first = NULL, *last = NULL;
    for (uint64_t p = w->head; p < w->marked; p++) {
        const leat__slot *s = leat__slot_at(w, p);
        if (s->e.state == LEAT__ENTRY_DONE) {
            first = first ? first : s;
            last = s;
        } else if (first) {
            put_range(o, first->e.id, last->e.id);
            first = NULL;
        }
    }
    if (first && w->marked < w->tail) {
        put_range(o, first->e.id, last->e.id);
        first = NULL;
    }
    put_unread_ranges(w, o, first ? &first->e.id : NULL);
}

static void put_attempts(leat__window *w, struct writer *o)
{
    const leat__recall *r = &w->recall;
    for (uint64_t p = w->head; p < w->marked; p++) {
        leat__slot *s = leat__slot_at(w, p);
        s->told = s->e.attempts;
        if (s->e.state != LEAT__ENTRY_DONE && s->told != 1)
            put_tries(o, s->e.id, s->told);
    }
    for (size_t i = r->tries_at; i < r->tries_n; i++)
        if (leat__id_cmp(r->tries[i].id, w->read) > 0 && r->tries[i].n != 1)
            put_tries(o, r->tries[i].id, r->tries[i].n);
}

leat_code leat__window_save(leat__window *w, leat__buf *buf,
                            leat__window_saved *out, leat_error *err)
{
    struct writer o = { .buf = buf, .err = err };
    buf->n = 0;
    put_settled(w, &o);
    size_t middle = o.from = buf->n;
    put_attempts(w, &o);
    if (o.bad != LEAT_OK)
        return o.bad;
    *out = (leat__window_saved){
        .cursor = w->cursor,
        .mark = w->mark,
        .count = w->count,
        .count_known = w->count_known,
        .settled = leat_mem(buf->p, middle),
        .attempts = leat_mem(buf->n > middle ? buf->p + middle : NULL,
                             buf->n - middle),
    };
    w->dirty = w->unmarked = false;
    return LEAT_OK;
}
