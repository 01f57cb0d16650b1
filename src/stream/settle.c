/*
 * settle.c: settlements on their way to the server.
 *
 *   ack    XACK, while nobody else can have claimed the entry: for three
 *          quarters of idle_ms since it was read, taken or extended, on our own
 *          clock.  Later by ack.lua, which looks whose the entry is.
 *   nack   nothing at the server: the entry stays pending and is parked here
 *          until idle_ms is over.  With a delay idle.lua makes it look idle for
 *          so long that its threshold is reached when the delay is over; then
 *          it comes back to whoever looks first, and we look at once.
 *   release, nack now: as a nack whose delay is over.
 *
 * A command whose answer is lost is sent again: settling twice is settling
 * once.  What a second try finds gone may have been settled by the first; only
 * then an outcome can be unknown.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "redis/shape.h"
#include "stream/stream.h"

/* ---- outcomes --------------------------------------------------------- */

/* What one answer settled, counted under one lock. */
typedef struct tally {
    size_t messages, told, stale, deleted;
    leat_error bad;
} tally;

static bool settled(const leat_delivery *d)
{
    return atomic_load_explicit(&d->settled, memory_order_acquire);
}

/* Tell those who settled; the last of a batch gives it back.  Messages that
 * were never settled go with the source. */
static void finish(stream_source *s, stream_entry *e, const leat_error *err,
                   tally *t)
{
    stream_slot *slot = &e->batch->slots[e->first];
    uint32_t n = e->count;

    leat__stream_held_drop(&s->held, e->id);
    t->messages += n;
    if (err && err->code == LEAT_ESTALE)
        t->stale += n;
    if (err && t->bad.code == LEAT_OK)
        t->bad = *err;
    for (uint32_t i = 0; i < n; i++, slot++) {
        if (!settled(&slot->d))
            continue;
        t->told++;
        leat__source_settled(&s->base, &slot->d, err);
    }
}

static void finish_end(stream_source *s, const tally *t)
{
    leat_counter_add(s->meters.stale, t->stale);
    leat_counter_add(s->meters.deleted, t->deleted);
    leat_gauge_add(s->meters.in_flight, -(int64_t)t->messages);
    pthread_mutex_lock(&s->lock);
    s->unsettled -= t->messages;
    s->stats.stale += t->stale;
    s->stats.deleted += t->deleted;
    s->stats.settled += t->bad.code == LEAT_OK ? t->told : 0;
    leat__outcomes_came(&s->outcomes, t->told, &t->bad);
    pthread_mutex_unlock(&s->lock);
}

static void finish_chain(stream_source *s, stream_entry *e,
                         const leat_error *err)
{
    tally t = { 0 };
    for (stream_entry *next; e; e = next) {
        next = e->next;
        finish(s, e, err, &t);
    }
    finish_end(s, &t);
}

static void not_ours(const stream_entry *e, leat_error *out)
{
    if (e->doubt)
        leat__fail(out, LEAT_EUNKNOWN,
                   "entry %.*s is not pending here any more: settled by an "
                   "earlier try, or taken over by another consumer",
                   (int)e->text.n, (const char *)e->text.p);
    else
        leat__fail(out, LEAT_ESTALE,
                   "entry %.*s is not ours any more: it was idle for too long "
                   "and another consumer took it",
                   (int)e->text.n, (const char *)e->text.p);
}

/* ---- commands that failed --------------------------------------------- */

static void requeue(stream_source *s, stream_entry *e, bool doubt)
{
    pthread_mutex_lock(&s->lock);
    for (stream_entry *next; e; e = next) {
        next = e->next;
        e->doubt |= doubt;
        e->next = s->settled_first;
        s->settled_first = e;
        if (!s->settled_last)
            s->settled_last = e;
        if (s->settled_count++ == 0)
            s->settled_ns = leat__now_ns();
    }
    pthread_mutex_unlock(&s->lock);
}

/* Again later, or never. */
static void failed(stream_source *s, stream_entry *e, const leat_error *err)
{
    leat_error gone;
    if (err->retriable) {
        requeue(s, e, err->code == LEAT_EUNKNOWN);
        leat__stream_refused(s, &s->links[0], err);
    } else if (leat__stream_nogroup(err)) {
        leat__fail(&gone, LEAT_ESTALE,
                   "the group '%s' of stream '%s' was removed", s->group_text,
                   s->base.name);
        finish_chain(s, e, &gone);
    } else {
        finish_chain(s, e, err);
    }
}

/* ---- acknowledge ------------------------------------------------------ */

static void on_xack(void *arg, const leat_reply *r, const leat_error *err)
{
    stream_entry *e = arg;
    stream_source *s = e->batch->source;
    leat_error odd;
    /* Nobody else had them: fewer means removed by hand. */
    if (!err &&
        leat__reply_want(r, "i", LEAT_EUNKNOWN, "XACK", &odd) != LEAT_OK)
        err = &odd;
    if (err)
        failed(s, e, err);
    else
        finish_chain(s, e, NULL);
}

/* Is there a number for each of n?  If not, nobody knows what was done. */
static bool answers(const leat_reply *r, size_t n, leat_error *why)
{
    if (leat_reply_len(r) == n && leat__reply_fits(r, "[(i)]"))
        return true;
    leat__fail(why, LEAT_EUNKNOWN, "the server answered EVALSHA strangely");
    return false;
}

static size_t chained(const stream_entry *e)
{
    size_t n = 0;
    for (; e; e = e->next)
        n++;
    return n;
}

/* One result for each entry of the chain, in order. */
static void on_ack(void *arg, const leat_reply *r, const leat_error *err)
{
    stream_entry *e = arg;
    stream_source *s = e->batch->source;
    leat_reply_iter it = leat_reply_each(r);
    tally t = { 0 };
    leat_error why;

    if (err || !answers(r, chained(e), &why)) {
        failed(s, e, err ? err : &why);
        return;
    }
    for (stream_entry *next; e; e = next) {
        next = e->next;
        bool acked = leat_reply_int(leat_reply_step(&it)) == 1;
        if (!acked)
            not_ours(e, &why);
        finish(s, e, acked ? NULL : &why, &t);
    }
    finish_end(s, &t);
}

static void send_xack(stream_source *s, stream_link *l, stream_entry *chain)
{
    leat_bytes argv[3 + STREAM_XACK] = { leat_str("XACK"), s->key, s->group };
    size_t n = 3;
    leat_error e;
    for (stream_entry *at = chain; at; at = at->next)
        argv[n++] = at->text;
    if (leat_conn_send(l->conn, argv, n, &(leat_send_opts){ on_xack, chain, 0 },
                       &e) != LEAT_OK)
        failed(s, chain, &e);
}

static void send_ack(stream_source *s, stream_link *l, stream_entry *chain)
{
    leat_bytes argv[2 + STREAM_CHUNK] = { s->group, s->consumer };
    size_t n = 2;
    leat_error e;
    for (stream_entry *at = chain; at; at = at->next)
        argv[n++] = at->text;
    if (leat__script_send(l->conn, &leat__script_stream_ack, &s->key, 1, argv,
                          n, &(leat_send_opts){ on_ack, chain, 0 },
                          &e) != LEAT_OK)
        failed(s, chain, &e);
}

/* ---- give back -------------------------------------------------------- */

enum { DONE = 1, DELETED = 2 };

static void come_back(stream_source *s, const stream_entry *e)
{
    int64_t now = leat__now_ns(), ready = now;
    if (e->delay_ms == INT64_MAX)
        ready = e->since_ns + s->idle_ns;
    else if (e->delay_ms > 0)
        ready = leat__deadline_ns(e->delay_ms);
    leat__stream_park(s, e->id, ready);
}

static void on_idle(void *arg, const leat_reply *r, const leat_error *err)
{
    stream_entry *e = arg;
    stream_source *s = e->batch->source;
    leat_reply_iter it = leat_reply_each(r);
    tally t = { 0 };
    leat_error why;

    if (err || !answers(r, chained(e), &why)) {
        failed(s, e, err ? err : &why);
        return;
    }
    for (stream_entry *next; e; e = next) {
        next = e->next;
        stream_entry kept = *e;
        int64_t what = leat_reply_int(leat_reply_step(&it));
        if (what != DONE && what != DELETED)
            not_ours(e, &why);
        t.deleted += what == DELETED;
        finish(s, e, what == DONE || what == DELETED ? NULL : &why, &t);
        if (what == DONE)
            come_back(s, &kept);
    }
    finish_end(s, &t);
}

/* What was not tried does not count as an attempt. */
static void idle_args(const stream_source *s, const stream_entry *e,
                      leat_bytes *argv, char idle[LEAT__NUMBER],
                      char count[LEAT__NUMBER])
{
    int64_t ms = s->opts.idle_ms;
    if (e->delay_ms > 0)
        ms = e->delay_ms < ms ? ms - e->delay_ms : 0;
    argv[0] = e->text;
    argv[1] = leat__arg_int(idle, ms);
    argv[2] = leat__arg_int(count, e->tried ? -1 : (int64_t)e->attempt - 1);
}

static void send_idle(stream_source *s, stream_link *l, stream_entry *chain)
{
    leat_bytes argv[2 + 3 * STREAM_CHUNK] = { s->group, s->consumer };
    char idle[STREAM_CHUNK][LEAT__NUMBER], count[STREAM_CHUNK][LEAT__NUMBER];
    size_t n = 0;
    leat_error e;
    for (stream_entry *at = chain; at; at = at->next, n++)
        idle_args(s, at, &argv[2 + 3 * n], idle[n], count[n]);
    if (leat__script_send(l->conn, &leat__script_stream_idle, &s->key, 1, argv,
                          2 + 3 * n, &(leat_send_opts){ on_idle, chain, 0 },
                          &e) != LEAT_OK)
        failed(s, chain, &e);
}

/* ---- sorting ---------------------------------------------------------- */

typedef void send_fn(stream_source *s, stream_link *l, stream_entry *chain);

/* Entries that travel in one command. */
typedef struct bundle {
    send_fn *send;
    size_t most;
    stream_entry *first, *last;
    size_t count;
} bundle;

static void bundle_go(stream_source *s, stream_link *l, bundle *b)
{
    stream_entry *chain = b->first;
    b->first = b->last = NULL;
    b->count = 0;
    if (chain)
        b->send(s, l, chain);
}

static void bundle_add(stream_source *s, stream_link *l, bundle *b,
                       stream_entry *e)
{
    e->next = NULL;
    if (b->last)
        b->last->next = e;
    else
        b->first = e;
    b->last = e;
    if (++b->count == b->most)
        bundle_go(s, l, b);
}

/* Nothing to send: it stays pending, or is settled already. */
static void finish_here(stream_source *s, stream_entry *e)
{
    stream_entry kept = *e;
    e->next = NULL;
    finish_chain(s, e, NULL);
    if (kept.nacked)
        come_back(s, &kept);
}

static stream_entry *take_settled(stream_source *s)
{
    pthread_mutex_lock(&s->lock);
    stream_entry *e = s->settled_first;
    s->settled_first = s->settled_last = NULL;
    s->settled_count = 0;
    pthread_mutex_unlock(&s->lock);
    return e;
}

/* Scripts never go with a read: one that the server has to be told in full
 * would be told behind it, and wait. */
void leat__stream_settle_send(stream_source *s, stream_link *l)
{
    bundle plain = { .send = send_xack, .most = STREAM_XACK };
    bundle fenced = { .send = send_ack, .most = STREAM_CHUNK };
    bundle back = { .send = send_idle, .most = STREAM_CHUNK };
    stream_link *side = &s->links[0];
    int64_t now = leat__now_ns();

    if (s->retry_ns > now || !l->conn || !side->conn)
        return;
    for (stream_entry *e = take_settled(s), *next; e; e = next) {
        next = e->next;
        if (e->nacked ? e->delay_ms == INT64_MAX : e->committed)
            finish_here(s, e);
        else if (e->nacked)
            bundle_add(s, side, &back, e);
        else if (now < e->since_ns + s->safe_ns)
            bundle_add(s, l, &plain, e);
        else
            bundle_add(s, side, &fenced, e);
    }
    bundle_go(s, l, &plain);
    bundle_go(s, side, &fenced);
    bundle_go(s, side, &back);
}

/* ---- the end ---------------------------------------------------------- */

static void release_entry(stream_source *s, stream_entry *e)
{
    e->nacked = true;
    e->tried = e->handed;
    e->delay_ms = -1;
    e->left = 0;
    e->next = NULL;
    requeue(s, e, false);
}

void leat__stream_settle_release(stream_source *s)
{
    for (stream_batch *b = s->newest; b; b = b->older)
        for (size_t i = 0; i < b->entry_count; i++)
            if (b->entries[i].left > 0)
                release_entry(s, &b->entries[i]);
}

void leat__stream_settle_abort(stream_source *s, const leat_error *err)
{
    leat_error unknown;
    leat__fail(&unknown, LEAT_EUNKNOWN, "sent, no answer: %s", err->msg);
    for (stream_entry *e = take_settled(s), *next; e; e = next) {
        next = e->next;
        e->next = NULL;
        finish_chain(s, e, e->doubt ? &unknown : err);
    }
    while (s->extends) {
        stream_extend *x = s->extends;
        s->extends = x->next;
        leat__free(x);
    }
}

/* ---- extend ----------------------------------------------------------- */

static void extend_done(stream_extend *x, const leat_error *err)
{
    stream_source *s = x->s;
    if (err)
        x->err = *err;
    pthread_mutex_lock(&s->lock);
    x->done = true;
    bool abandoned = x->abandoned;
    pthread_cond_broadcast(&s->extended);
    pthread_mutex_unlock(&s->lock);
    if (abandoned)
        leat__free(x);
}

static void on_extend(void *arg, const leat_reply *r, const leat_error *err)
{
    stream_extend *x = arg;
    leat_reply_iter it = leat_reply_each(r);
    leat_error why;
    if (!err && !answers(r, x->n, &why))
        err = &why;
    for (size_t i = 0; !err && i < x->n; i++) {
        bool kept = leat_reply_int(leat_reply_step(&it)) == DONE;
        stream_entry *e = leat__stream_held_get(&x->s->held, x->id[i]);
        x->outcome[i] = kept ? LEAT_OK : LEAT_ESTALE;
        if (kept && e && e != LEAT__STREAM_PARKED)
            e->since_ns = x->sent_ns;
    }
    extend_done(x, err);
}

static void send_extend(stream_source *s, stream_link *l, stream_extend *x)
{
    leat_bytes argv[2 + 3 * STREAM_CHUNK] = { s->group, s->consumer };
    char id[STREAM_CHUNK][LEAT__STREAM_ID];
    leat_error e;
    size_t n = 2;
    for (size_t i = 0; i < x->n; i++) {
        argv[n++] = leat__stream_id_format(x->id[i], id[i]);
        argv[n++] = leat_str("0");
        argv[n++] = leat_str("-1");
    }
    x->sent_ns = leat__now_ns();
    if (leat__script_send(l->conn, &leat__script_stream_idle, &s->key, 1, argv,
                          n, &(leat_send_opts){ on_extend, x, 0 },
                          &e) != LEAT_OK)
        extend_done(x, &e);
}

void leat__stream_extend_send(stream_source *s, stream_link *l)
{
    pthread_mutex_lock(&s->lock);
    stream_extend *x = s->extends;
    s->extends = NULL;
    pthread_mutex_unlock(&s->lock);
    for (stream_extend *next; x; x = next) {
        next = x->next;
        send_extend(s, l, x);
    }
}
