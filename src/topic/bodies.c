/*
 * bodies.c: bodies that are kept beside a log.
 *
 *   read:  small small LARGE small LARGE small LARGE ...
 *          '- window -'|'- held until their bodies are here -'| read again
 *
 * A large entry goes into the window with its body, so that nothing behind it
 * overtakes it, and so do those between it and the next.  Bodies are fetched a
 * few ahead of what is handed out and no more: what does not fit is left in the
 * log and read again when there is room, its entries are small.  A partition
 * with nothing else to hand out may always have one, so that no other keeps it
 * waiting.
 *
 * What users hold is theirs to bound; but when that is very much they get more
 * only slowly.
 *
 * An answer that does not come costs nothing: the entries are read again.  A
 * body that is gone makes a delivery with an error, which says so.
 */
#include "base/mem.h"
#include "base/system.h"
#include "redis/bundle.h"
#include "topic/consumer.h"

#define SLOW_NS INT64_C(1000000000)

enum {
    AHEAD = 4,             /* bodies in windows,           */
    AHEAD_BYTES = 8 << 20, /* and their bytes              */
    HELD_BYTES = 64 << 20  /* with those that users have   */
};

struct leat__bodies {
    part *p;
    uint64_t epoch;
    leat__print last;   /* of the last entry             */
    size_t n;           /* entries                       */
    leat__held *held[]; /* the first of them is a stub   */
};

/* ---- how many --------------------------------------------------------- */

static bool nothing_waits(const part *p)
{
    return !p->window ||
           leat__window_count(p->window) == leat__window_out(p->window);
}

static uint32_t room(const part *p, int64_t now_ns)
{
    const consumer *c = p->c;
    uint32_t ahead = atomic_load(&c->chunks.ahead);
    size_t bytes = atomic_load(&c->chunks.ahead_bytes);
    size_t each = c->body_size ? c->body_size : 1;
    if (atomic_load(&c->chunks.large_bytes) >= HELD_BYTES)
        return nothing_waits(p) && now_ns >= c->body_ns ? 1 : 0;
    if (ahead >= AHEAD || bytes >= AHEAD_BYTES)
        return nothing_waits(p) ? 1 : 0;
    size_t fit = (AHEAD_BYTES - bytes) / each;
    if (fit > AHEAD - ahead)
        fit = AHEAD - ahead;
    return fit > 0 ? (uint32_t)fit : 1;
}

bool leat__bodies_wait(const part *p)
{
    return p->bodies || (p->starved && room(p, leat__now_ns()) == 0);
}

/* ---- fetching --------------------------------------------------------- */

static void drop(leat__held **held, size_t n)
{
    for (size_t i = 0; i < n; i++)
        leat__held_drop(held[i]);
}

/* The stub's message, with the body that came for it. */
static leat__held *complete(consumer *c, leat__held *stub,
                            const leat_reply *value, leat_error *err)
{
    leat_bytes body = leat_reply_bytes(value);
    bool there = leat_reply_kind(value) == LEAT_REPLY_STRING;
    leat__held *h = leat__chunk_large(&c->chunks, c->topic->opts.codec, stub,
                                      there ? &body : NULL, err);
    if (h) {
        c->body_size = body.n;
        leat__held_drop(stub);
    }
    return h;
}

static void take_in(struct leat__bodies *b, const leat_reply *r)
{
    part *p = b->p;
    leat_reply_iter it = leat_reply_each(r);
    leat_error e;
    for (size_t i = 0; i < b->n; i++) {
        leat__held *h = b->held[i];
        if (!h->msg)
            h = complete(p->c, h, leat_reply_step(&it), &e);
        if (!h) {
            drop(b->held + i, b->n - i);
            leat__read_failed(p->c, p, &e);
            return;
        }
        leat__read_into(p, h);
    }
    leat__verify_read(p, b->last);
    leat__read_done(p);
}

static size_t count_stubs(const struct leat__bodies *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++)
        n += !b->held[i]->msg;
    return n;
}

static void on_bodies(void *arg, const leat_reply *r, const leat_error *e)
{
    struct leat__bodies *b = arg;
    part *p = b->p;
    leat_error strange;
    p->bodies = NULL;
    p->c->asked -= (uint32_t)b->n;
    if (!e && (leat_reply_len(r) != count_stubs(b) ||
               !leat__reply_fits(r, "[(o)]"))) {
        leat__fail(&strange, LEAT_EPROTO,
                   "the server answered HMGET strangely");
        e = &strange;
    }
    if (!e && leat__part_epoch(p) == b->epoch && !p->doubtful) {
        take_in(b, r);
    } else {
        drop(b->held, b->n);
        if (e)
            leat__read_failed(p->c, p, e);
    }
    leat__free(b);
}

static leat_code send_fetch(struct leat__bodies *b, leat_error *err)
{
    part *p = b->p;
    const leat_topic *t = p->c->topic;
    char ids[AHEAD][LEAT__ID_TEXT];
    leat_bytes argv[2 + AHEAD] = { leat_mem("HMGET", 5) };
    size_t n = 0;
    leat__key key;
    leat__key_part(&key, t->prefix, t->name, t->meta.legacy, p->index, "bodies",
                   NULL);
    argv[1] = leat__key_bytes(&key);
    for (size_t i = 0; i < b->n; i++) {
        if (b->held[i]->msg)
            continue;
        argv[2 + n] = leat__id_format(b->held[i]->id, ids[n]);
        n++;
    }
    leat__conn_confine(p->c->cmd, p->route);
    leat_code rc = leat_conn_send(
        p->c->cmd, argv, 2 + n, &(leat_send_opts){ .fn = on_bodies, .arg = b },
        err);
    leat__conn_confine(p->c->cmd, 0);
    return rc;
}

/* Fetch for these; false: they are still the caller's. */
static bool fetch(part *p, const leat__print *last, leat__held **held, size_t n)
{
    consumer *c = p->c;
    leat_error e;
    struct leat__bodies *b = leat__alloc(sizeof *b + n * sizeof *held, &e);
    if (!b || !c->cmd) {
        leat__free(b);
        return false;
    }
    b->p = p;
    b->epoch = leat__part_epoch(p);
    b->last = *last;
    b->n = n;
    memcpy(b->held, held, n * sizeof(leat__held *));
    p->bodies = b; /* before: the answer may be there at once */
    c->asked += (uint32_t)n;
    if (send_fetch(b, &e) == LEAT_OK)
        return true;
    p->bodies = NULL;
    c->asked -= (uint32_t)n;
    leat__free(b);
    leat__read_failed(c, p, &e);
    return false;
}

/* Up to and without the stub that is one too many. */
static size_t upto(leat__held *const *held, size_t n, uint32_t stubs)
{
    for (size_t i = 0; i < n; i++)
        if (!held[i]->msg && stubs-- == 0)
            return i;
    return n;
}

size_t leat__bodies_take(part *p, const leat_reply *entries, leat__held **held,
                         size_t n)
{
    int64_t now = leat__now_ns();
    size_t first = upto(held, n, 0), some = 0;
    if (first == n)
        return n;
    uint32_t may = room(p, now);
    p->starved = may == 0;
    p->caught_up = false;
    if (may > 0) {
        p->c->body_ns = now + SLOW_NS;
        some = upto(held + first, n - first, may);
        size_t end = first + some - 1;
        leat__print last = leat__verify_print(held[end]->id, entries, end);
        if (!fetch(p, &last, held + first, some))
            some = 0;
    }
    drop(held + first + some, n - first - some);
    return first;
}
