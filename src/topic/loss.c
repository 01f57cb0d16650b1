/*
 * loss.c: comparing what was acknowledged with what is there.
 *
 * Of each partition the last acknowledged messages are remembered (print.c).
 * A crash or a failover takes the newest entries of a log, FLUSHALL and DEL all
 * of them; what is written afterwards hides either.  So two are looked for: the
 * newest, and the one that was the newest at the look before (`seen`).
 *
 *   ... . . . . seen . . . . . newest
 *               |               '- there: no newer ones were lost
 *               '- there: it is the same log
 *
 * A new connection carries no message before both were looked for, in one round
 * trip for all partitions (leat__loss_check).  On one that lasts, `seen` is
 * looked for once a second while messages are sent, and every few seconds
 * otherwise; if it is missing the connection is given up, and the check decides
 * (judge.c).  All that are remembered are looked for then, so what is told is
 * exact, as far back as they reach.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "metrics/metrics.h"
#include "redis/client.h"
#include "redis/script.h"
#include "redis/shape.h"
#include "topic/loss_inside.h"
#include "topic/standing.h"

#include <stdio.h>
#include <string.h>

#define MOST "128" /* LEAT__PRINT_BYTES */

#define SOON_NS INT64_C(20000000)
#define LOOK_NS INT64_C(1000000000)
#define IDLE_NS INT64_C(5000000000)
#define CALM_NS INT64_C(60000000000)

enum {
    REMEMBER = 16384,        /* prints of a partition,                    */
    REMEMBER_ALL = 131072,   /* of all its partitions, if there are many, */
    REMEMBER_LEAST = 32,     /* but so many of each                       */
    HOLD_BYTES = 16 << 20,   /* for LEAT_OUTBOX                           */
    LOOK_MOST = 64,          /* partitions at once                        */
    ASK_MOST = 500,          /* ids in one call                           */
    ASK_BYTES = 4 << 20,     /* of entries in one call, about             */
    UNSENT_MOST = 16 * 1024, /* bytes before a look                       */
    BEFORE = 1,              /* arguments before the ids                  */
    FACTS = 5                /* before the entries in an answer           */
};

_Static_assert(LEAT__PRINT_BYTES == 128, "see MOST");

/* ---- life ------------------------------------------------------------- */

static uint32_t remember(const leat_topic_opts *o, uint32_t span)
{
    uint32_t each = REMEMBER_ALL / span;
    if (o->remember > 0)
        return (uint32_t)o->remember;
    if (each > REMEMBER)
        each = REMEMBER;
    return each > REMEMBER_LEAST ? each : REMEMBER_LEAST;
}

/* A producer of some of the partitions has its share. */
static size_t hold_bytes(const leat_topic *t, uint32_t span)
{
    size_t bytes = t->opts.republish_bytes;
    if (bytes == 0 && t->client->opts.durability == LEAT_OUTBOX)
        bytes = HOLD_BYTES;
    return bytes / t->meta.partitions * span +
           bytes % t->meta.partitions * span / t->meta.partitions;
}

static leat_code meter(leat__loss *l, leat_error *err)
{
    leat_metrics *registry = l->topic->opts.metrics;
    const leat_label labels[] = {
        { "messaging_system", "leat" },
        { "messaging_destination_name", l->topic->name },
    };
    if (!registry)
        return LEAT_OK;
    l->lost = leat_metrics_counter(registry, "leat_topic_lost_total",
                                   "Messages acknowledged and lost since.",
                                   labels, 2, err);
    l->republished = l->lost ? leat_metrics_counter(
                                   registry, "leat_topic_republished_total",
                                   "Lost messages that were published again.",
                                   labels, 2, err)
                             : NULL;
    return l->republished ? LEAT_OK : LEAT_ENOMEM;
}

leat_code leat__loss_new(leat_topic *t, uint32_t first, uint32_t span,
                         leat__loss **out, leat_error *err)
{
    *out = NULL;
    if (t->opts.remember < 0)
        return LEAT_OK;
    leat__loss *l = leat__zalloc(sizeof *l, err);
    if (!l)
        return LEAT_ENOMEM;
    l->topic = t;
    l->first = first;
    l->span = span;
    l->most = remember(&t->opts, span);
    l->most_bytes = hold_bytes(t, span);
    l->due_ns = INT64_MAX;
    l->calm_ns = LOOK_NS;
    l->by = leat__calloc(span, sizeof *l->by, err);
    l->all = l->by ? leat__calloc(span, sizeof *l->all, err) : NULL;
    if (!l->all || meter(l, err) != LEAT_OK) {
        leat__loss_free(l);
        return LEAT_ENOMEM;
    }
    *out = l;
    return LEAT_OK;
}

void leat__loss_free(leat__loss *l)
{
    if (!l)
        return;
    for (uint32_t i = 0; l->all && i < l->count; i++) {
        watch *w = l->all[i];
        leat__loss_give_up(w);
        for (uint32_t k = 0; k < leat__trail_count(&w->trail); k++)
            leat__loss_let_go(l, leat__trail_at(&w->trail, k));
        leat__trail_release(&w->trail);
        leat__free(w);
    }
    leat__free(l->all);
    leat__free(l->by);
    leat__free(l);
}

/* ---- what was acknowledged -------------------------------------------- */

static watch *watch_of(leat__loss *l, uint32_t partition)
{
    watch *w = l->by[partition - l->first];
    const leat_topic *t = l->topic;
    if (w)
        return w;
    w = leat__zalloc(sizeof *w, NULL);
    if (!w)
        return NULL;
    w->l = l;
    w->partition = partition;
    w->again_end = &w->again;
    leat__key_log(&w->log, t->prefix, t->name, t->meta.legacy, partition);
    leat__key_part(&w->id, t->prefix, t->name, t->meta.legacy, partition, "id",
                   NULL);
    leat__standing_u(l->topic, w->u);
    leat__trail_init(&w->trail, l->most);
    l->all[l->count++] = w;
    return l->by[partition - l->first] = w;
}

static leat_bytes fields_of(leat_bytes command, size_t head)
{
    const char *p = command.p;
    size_t skip = 3; /* "*5\r\n" at least */
    while (p[skip] != '\n')
        skip++;
    skip += 1 + head;
    return leat_mem(p + skip, command.n - skip);
}

/* The server has just said that it is there.  Without one that is `seen`
 * nothing is being looked for. */
static void see(watch *w, const leat__print *p)
{
    w->verified = true;
    w->seen = *p;
    w->seen.copy = NULL;
    w->counted = false;
}

/* Within one history ids only rise: all from this one on are lost. */
static void gone_back(watch *w, leat__id id)
{
    leat__trail *t = &w->trail;
    uint32_t n = 0, count = leat__trail_count(t), at = count;
    const leat__print **lost = leat__calloc(count, sizeof *lost, NULL);
    bool *flags = lost ? leat__calloc(count, sizeof *flags, NULL) : NULL;
    while (at > 0 && leat__id_cmp(leat__trail_at(t, at - 1)->id, id) >= 0)
        at--;
    for (; flags && at + n < count; n++) {
        flags[n] = true;
        lost[n] = leat__trail_at(t, at + n);
    }
    if (n > 0)
        leat__loss_lost(w, lost, n, !lost[0]->gap);
    if (flags)
        leat__trail_drop(t, flags, n);
    leat__free(flags);
    leat__free(lost);
    w->l->suspects = true; /* there may be more */
}

void leat__loss_note(leat__loss *l, uint32_t partition, leat_position at,
                     leat_bytes command, size_t head)
{
    watch *w = l ? watch_of(l, partition) : NULL;
    if (!w)
        return;
    leat__print forgotten, p = {
        .id = { at.ms, at.seq },
        .mark = leat__print_mark(fields_of(command, head)),
        .size = (uint32_t)command.n,
    };
    const leat__print *newest = leat__trail_newest(&w->trail);
    if (newest && leat__id_cmp(p.id, newest->id) <= 0)
        gone_back(w, p.id);
    if (l->most_bytes > 0)
        leat__loss_hold(w, &p, command, head);
    if (leat__trail_add(&w->trail, &p, &forgotten))
        leat__loss_let_go(l, &forgotten);
    if (!w->verified)
        see(w, &p);
    if (l->due_ns == INT64_MAX)
        l->due_ns = leat__now_ns() + LOOK_NS;
    l->noted++;
}

/* ---- asking ----------------------------------------------------------- */

static bool read_number(leat_bytes text, uint64_t *out)
{
    leat__id id;
    bool ok = leat__id_parse(text, &id);
    *out = ok ? id.ms : 0;
    return ok;
}

/* {} where there is no stream, and nothing of what was asked for then. */
static leat_code check_answer(const leat_reply *r, size_t asked,
                              leat_error *err)
{
    leat_code rc = leat__reply_want(r, LEAT__SHAPE_THERE, LEAT_EPROTO,
                                    "a look at a log", err);
    size_t n = leat_reply_len(r);
    if (rc == LEAT_OK && n > 0 && n != FACTS + asked)
        rc = leat__fail(err, LEAT_EPROTO,
                        "the server answered of %zu entries "
                        "where %zu were asked for",
                        n - FACTS, asked);
    return rc;
}

static void read_facts(const leat_reply *r, leat__log_facts *f)
{
    *f = (leat__log_facts){ .there = leat_reply_len(r) >= FACTS };
    if (!f->there)
        return;
    leat_reply_iter it = leat_reply_each(r);
    f->length = (uint64_t)leat_reply_int(leat_reply_step(&it));
    (void)leat__id_parse(leat_reply_bytes(leat_reply_step(&it)), &f->last);
    (void)leat__id_parse(leat_reply_bytes(leat_reply_step(&it)), &f->first);
    f->counted = read_number(leat_reply_bytes(leat_reply_step(&it)), &f->added);
    f->counted &= leat__id_parse(leat_reply_bytes(leat_reply_step(&it)),
                                 &f->deleted);
}

/* What the i-th id of the answer was found to be. */
static leat__seen look_at(const leat_reply *r, size_t i, const leat__print *p)
{
    const leat_reply *at = leat_reply_at(r, FACTS + i);
    leat_bytes begins = at ? leat_reply_bytes(at) : leat_mem("", 0);
    if (begins.n == 0)
        return LEAT__SEEN_GONE;
    return leat__print_mark(begins) == p->mark ? LEAT__SEEN_SAME
                                               : LEAT__SEEN_OTHER;
}

/* Arguments of there.lua, for a number of entries and of their bytes. */
typedef struct question {
    leat_bytes args[BEFORE + ASK_MOST];
    char text[ASK_MOST][LEAT__ID_TEXT];
    uint32_t n;
    size_t bytes;
} question;

static void question_begin(question *q)
{
    q->args[0] = leat_str(MOST);
    q->n = 0;
    q->bytes = 0;
}

static bool question_add(question *q, const leat__print *p)
{
    if (q->n == ASK_MOST || (q->n > 0 && q->bytes + p->size > ASK_BYTES))
        return false;
    q->args[BEFORE + q->n] = leat__id_format(p->id, q->text[q->n]);
    q->bytes += p->size;
    q->n++;
    return true;
}

/* ---- the check: one round trip ---------------------------------------- */

static size_t asked_of(const watch *w)
{
    return (size_t)w->verified + (leat__trail_newest(&w->trail) != NULL);
}

static void on_facts(void *arg, const leat_reply *r, const leat_error *e)
{
    watch *w = arg;
    size_t i = 0;
    w->code = e ? e->code : check_answer(r, asked_of(w), NULL);
    if (w->code != LEAT_OK)
        return;
    read_facts(r, &w->facts);
    w->was = w->verified ? look_at(r, i++, &w->seen) : LEAT__SEEN_SAME;
    const leat__print *newest = leat__trail_newest(&w->trail);
    w->is = newest ? look_at(r, i, newest) : LEAT__SEEN_SAME;
}

static leat_code send_facts(watch *w, leat_conn *c, leat_error *err)
{
    char text[2][LEAT__ID_TEXT];
    const leat_bytes key = leat__key_bytes(&w->log);
    const leat__print *newest = leat__trail_newest(&w->trail);
    leat_bytes args[BEFORE + 2] = { leat_str(MOST) };
    size_t n = BEFORE;
    w->code = LEAT_OK;
    w->was = w->is = LEAT__SEEN_SAME;
    if (w->verified)
        args[n++] = leat__id_format(w->seen.id, text[0]);
    if (newest)
        args[n++] = leat__id_format(newest->id, text[1]);
    if (n == BEFORE)
        return LEAT_OK;
    return leat__script_send(c, &leat__script_topic_there, &key, 1, args, n,
                             &(leat_send_opts){ .fn = on_facts, .arg = w },
                             err);
}

/* A replica may lack what its master has.  Who may not ask is not told. */
typedef struct role {
    bool replica;
    leat_error odd;
} role;

static void on_role(void *arg, const leat_reply *r, const leat_error *e)
{
    role *x = arg;
    if (leat__reply_odd(r, e, "[t(_)]", "ROLE", &x->odd))
        return;
    x->replica = !leat_bytes_eq(leat_reply_bytes(leat_reply_at(r, 0)),
                                leat_str("master"));
}

static leat_code ask_all(leat__loss *l, leat_conn *c, leat_error *err)
{
    role x = { 0 };
    leat_code rc = leat_conn_send(c, LEAT_ARGS(leat_str("ROLE")),
                                  &(leat_send_opts){ .fn = on_role, .arg = &x },
                                  err);
    for (uint32_t i = 0; rc == LEAT_OK && i < l->count; i++)
        rc = send_facts(l->all[i], c, err);
    leat_error e;
    leat_code end = leat_conn_drain(c, 0, &e);
    if (rc == LEAT_OK && end != LEAT_OK && err)
        *err = e;
    if (rc == LEAT_OK)
        rc = end;
    if (rc == LEAT_OK && x.odd.code != LEAT_OK) {
        rc = x.odd.code;
        if (err)
            *err = x.odd;
    }
    if (rc == LEAT_OK && x.replica)
        rc = leat__fail(err, LEAT_EREADONLY, "the server is a replica");
    return rc;
}

/* ---- the check: all that is remembered -------------------------------- */

/* What one partition's case is made of. */
typedef struct inquiry {
    leat__case c;
    const leat__print **prints;
    leat__seen *seen;
    bool *flags;
    leat__print extra; /* `seen`, where the trail has it no more */
    uint32_t from;     /* the first is no print of the trail     */
    question q;
} inquiry;

/* Those behind `seen` if it is there; else all, and it as well. */
static void choose_prints(inquiry *q, const watch *w)
{
    const leat__trail *t = &w->trail;
    uint32_t count = leat__trail_count(t), skip = 0;
    if (w->verified) {
        uint32_t upto = leat__trail_upto(t, w->seen.id);
        q->c.verified = upto > 0 ? upto - 1 : 0;
        if (w->was == LEAT__SEEN_SAME) {
            skip = upto;
            q->c.verified = 0;
        } else if (upto == 0) {
            q->extra = w->seen;
            q->extra.gap = true;
            q->prints[q->c.n++] = &q->extra;
            q->from = 1;
        }
    }
    for (uint32_t i = skip; i < count; i++)
        q->prints[q->c.n++] = leat__trail_at(t, i);
    if (!w->verified)
        q->c.verified = q->c.n;
}

static leat_code look_for(inquiry *q, watch *w, leat_conn *c, leat_error *err)
{
    const leat_bytes key = leat__key_bytes(&w->log);
    const leat_reply *r;
    for (uint32_t at = 0; at < q->c.n;) {
        question_begin(&q->q);
        while (at + q->q.n < q->c.n &&
               question_add(&q->q, q->prints[at + q->q.n]))
            ;
        leat_code rc = leat__script_call(c, &leat__script_topic_there, &key, 1,
                                         q->q.args, BEFORE + q->q.n, &r, err);
        if (rc == LEAT_OK)
            rc = check_answer(r, q->q.n, err);
        if (rc != LEAT_OK)
            return rc;
        read_facts(r, &q->c.facts);
        for (uint32_t i = 0; i < q->q.n; i++)
            q->seen[at + i] = look_at(r, i, q->prints[at + i]);
        at += q->q.n;
    }
    return LEAT_OK;
}

static void tell_runs(const inquiry *q, watch *w)
{
    uint32_t first, end;
    bool exact;
    for (uint32_t at = 0;
         leat__judge_run(&q->c, q->flags, at, &first, &end, &exact); at = end)
        leat__loss_lost(w, q->prints + first, end - first, exact);
}

/* What is missing is of no more use, lost or not. */
static void forget_missing(inquiry *q, watch *w)
{
    for (uint32_t i = q->from; i < q->c.n; i++) {
        q->flags[i] = q->seen[i] != LEAT__SEEN_SAME;
        if (q->flags[i])
            leat__loss_let_go(w->l, (leat__print *)q->prints[i]);
    }
    leat__trail_drop(&w->trail, q->flags + q->from, q->c.n - q->from);
}

/* The newest is there, and with it the same log as far as it is remembered. */
static void verify(watch *w, const leat__log_facts *f)
{
    const leat__print *newest = leat__trail_newest(&w->trail);
    w->verified = false;
    if (newest)
        see(w, newest);
    w->counted = f->counted;
    w->added = f->added;
}

/* Is the log another topic's by now?  Then what is missing was removed with the
 * one before it, and nothing of that is told or sent again.  Who may not ask
 * does not know. */
static leat_code of_namesake(watch *w, leat_conn *c, bool *is, leat_error *err)
{
    leat_error e;
    const leat_reply *r;
    leat_code rc = leat_conn_call(
        c, LEAT_ARGS(leat_str("GET"), leat__key_bytes(&w->id)), NULL, &r, &e);
    if (rc != LEAT_OK && e.retriable) {
        if (err)
            *err = e;
        return rc;
    }
    leat_bytes u = rc == LEAT_OK ? leat_reply_bytes(r) : leat_mem("", 0);
    *is = u.n > 0 && u.n < sizeof w->u && !leat_bytes_eq(u, leat_str(w->u));
    if (*is) {
        memcpy(w->u, u.p, u.n);
        w->u[u.n] = '\0';
    }
    return LEAT_OK;
}

static leat_code inquire(watch *w, leat_conn *c, bool moved, leat_error *err)
{
    uint32_t room = leat__trail_count(&w->trail) + 1;
    inquiry *q = leat__zalloc(sizeof *q, err);
    leat_code rc = q ? LEAT_OK : LEAT_ENOMEM;
    if (!q)
        return rc;
    q->prints = leat__calloc(room, sizeof *q->prints, err);
    q->seen = q->prints ? leat__calloc(room, sizeof *q->seen, err) : NULL;
    q->flags = q->seen ? leat__calloc(room, sizeof *q->flags, err) : NULL;
    rc = q->flags ? LEAT_OK : LEAT_ENOMEM;
    if (rc == LEAT_OK) {
        choose_prints(q, w);
        q->c.facts = w->facts;
        q->c.moved = moved;
        q->c.counted = w->counted;
        q->c.added = w->added;
        q->c.prints = q->prints;
        q->c.seen = q->seen;
        rc = look_for(q, w, c, err);
    }
    bool removed = false;
    if (rc == LEAT_OK && leat__judge(&q->c, q->flags) > 0) {
        w->l->suspects = false; /* it is certain */
        rc = of_namesake(w, c, &removed, err);
    }
    if (rc == LEAT_OK) {
        if (!removed)
            tell_runs(q, w);
        forget_missing(q, w);
        verify(w, &q->c.facts);
    }
    leat__free(q->flags);
    leat__free(q->seen);
    leat__free(q->prints);
    leat__free(q);
    return rc;
}

/* Who may not look can still publish. */
static leat_code cannot_look(leat__loss *l, leat_code code, leat_error *err)
{
    leat_error e;
    leat__fail(&e, code, "cannot look for lost messages: %s",
               leat_code_text(code));
    if (e.retriable) {
        if (err)
            *err = e;
        return code;
    }
    if (!l->blind)
        leat__log(&l->topic->opts.log, LEAT_LOG_WARN,
                  "topic '%s': a loss would not be noticed: the server refuses "
                  "to tell what is there (%s); allow EVALSHA, EVAL, EXISTS, "
                  "XINFO and XRANGE",
                  l->topic->name, leat_code_text(code));
    l->blind = true;
    return LEAT_OK;
}

static leat_code check_one(watch *w, leat_conn *c, bool moved, leat_error *err)
{
    if (w->code != LEAT_OK)
        return cannot_look(w->l, w->code, err);
    if (w->was != LEAT__SEEN_SAME || w->is != LEAT__SEEN_SAME)
        return inquire(w, c, moved, err);
    if (leat__trail_newest(&w->trail))
        verify(w, &w->facts);
    return LEAT_OK;
}

/* Where no more than a removal was behind a suspicion, there will be others:
 * they are looked into less and less often. */
static void calm(leat__loss *l)
{
    if (l->suspects)
        l->calm_ns = l->calm_ns * 2 < CALM_NS ? l->calm_ns * 2 : CALM_NS;
    l->suspects = false;
    l->due_ns = l->count > 0 ? leat__now_ns() + l->calm_ns : INT64_MAX;
}

/* Where each command would have to ask for permission, the key is on its way to
 * another server; the next connection leads there, and is checked. */
leat_code leat__loss_check(leat__loss *l, leat_conn *c, const char *server,
                           leat_error *err)
{
    if (!l || c->asking)
        return LEAT_OK;
    bool moved = strcmp(l->server, server) != 0;
    for (uint32_t i = 0; i < l->count; i++)
        l->all[i]->looking = false;
    leat_code rc = l->count > 0 ? ask_all(l, c, err) : LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && i < l->count; i++)
        rc = check_one(l->all[i], c, moved, err);
    if (rc == LEAT_OK)
        rc = leat__loss_again(l, c, err);
    if (rc != LEAT_OK)
        return rc;
    snprintf(l->server, sizeof l->server, "%s", server);
    calm(l);
    return LEAT_OK;
}

/* ---- looking now and then --------------------------------------------- */

static void on_look(void *arg, const leat_reply *r, const leat_error *e)
{
    watch *w = arg;
    leat__log_facts f;
    w->looking = false;
    if (e || check_answer(r, 1, NULL) != LEAT_OK)
        return;
    if (look_at(r, 0, &w->seen) != LEAT__SEEN_SAME) {
        w->l->suspects = true;
        return;
    }
    w->l->calm_ns = LOOK_NS;
    read_facts(r, &f);
    w->seen = w->then;
    w->counted = f.counted;
    w->added = f.added;
}

static bool send_look(watch *w, leat_conn *c)
{
    char text[LEAT__ID_TEXT];
    const leat_bytes key = leat__key_bytes(&w->log);
    const leat__print *newest = leat__trail_newest(&w->trail);
    if (w->looking || !newest || !w->verified)
        return true;
    w->then = *newest;
    w->then.copy = NULL;
    const leat_bytes args[] = { leat_str(MOST),
                                leat__id_format(w->seen.id, text) };
    w->looking = true; /* before: a failure may be told at once */
    if (leat__script_send(c, &leat__script_topic_there, &key, 1, args, 2,
                          &(leat_send_opts){ .fn = on_look, .arg = w },
                          NULL) == LEAT_OK)
        return true;
    w->looking = false;
    return false;
}

/* A look must not wait for the socket. */
static bool roomy(const leat_conn *c)
{
    return c->t && leat__conn_waiting(c) + 1 < c->window &&
           leat__outq_left(&c->out) < UNSENT_MOST;
}

static bool is_due(leat__loss *l, const leat_conn *c, int64_t now_ns)
{
    if (l->blind || now_ns < l->due_ns)
        return false;
    if (!roomy(c)) {
        l->due_ns = now_ns + SOON_NS;
        return false;
    }
    bool idle = l->noted == l->looked;
    int64_t pause = idle && l->calm_ns < IDLE_NS ? IDLE_NS : l->calm_ns;
    l->due_ns = now_ns + pause;
    l->looked = l->noted;
    return true;
}

void leat__loss_look(leat__loss *l, leat_conn *c, int64_t now_ns)
{
    if (!l)
        return;
    if (l->suspects)
        c->stale = true;
    if (c->asking || c->stale || !is_due(l, c, now_ns))
        return;
    for (uint32_t i = 0; i < l->count && i < LOOK_MOST; i++)
        if (!roomy(c) || !send_look(l->all[l->turn++ % l->count], c))
            return;
}

bool leat__loss_suspects(const leat__loss *l)
{
    return l && l->suspects;
}

int64_t leat__loss_due(const leat__loss *l)
{
    return l && !l->blind ? l->due_ns : INT64_MAX;
}
