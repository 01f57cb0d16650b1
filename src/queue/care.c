/*
 * care.c: looking after a queue: figures, dead letters, purging, removing.
 *
 * What may be long is done in steps of at most LEAT_QUEUE_BATCH messages, each
 * one script, so that others get their turn; what was cut short goes on when it
 * is called again.
 */
#include "base/mem.h"
#include "base/system.h"
#include "queue/queue.h"
#include "redis/client.h"
#include "redis/scan.h"

#include <stdio.h>

enum { STEP = LEAT_QUEUE_BATCH, REDRIVE_STEP = 100 };

/* The first two numbers of an answer; the second may be a text. */
typedef struct pair {
    int64_t a, b;
    char text[32];
} pair;

#define PAIR                                                                   \
    "[i" LEAT__QUEUE_TOLD "]|[ii" LEAT__QUEUE_TOLD "]|[it" LEAT__QUEUE_TOLD    \
    "]|[iiii" LEAT__QUEUE_TOLD "]"

static leat_code read_pair(void *arg, const leat_reply *r, leat_error *err)
{
    pair *p = arg;
    leat_code rc = leat__queue_expect(r, PAIR, err);
    if (rc != LEAT_OK)
        return rc;
    *p = (pair){ .a = leat_reply_int(leat_reply_at(r, 0)) };
    const leat_reply *second = leat_reply_at(r, 1);
    leat_bytes text = leat_reply_bytes(second);
    p->b = leat_reply_int(second);
    if (text.n < sizeof p->text)
        memcpy(p->text, text.p ? text.p : "", text.n);
    return LEAT_OK;
}

/* A number of an answer below 0: why nothing was done. */
static leat_code refused(const char *name, int64_t why, leat_error *err)
{
    return why == -4 ? leat__queue_other(name, err)
                     : leat__queue_none(name, err);
}

/* As leat_queue_stats_get.  same: only of the very queue that was opened. */
static leat_code get_figures(leat_queue *q, bool same, leat_queue_stats *out,
                             leat_error *err);

/* ---- what expired ----------------------------------------------------- */

leat_code leat_queue_requeue_expired_once(leat_queue *q, int max, int64_t *n,
                                          leat_error *err)
{
    char number[LEAT__NUMBER];
    pair p = { 0 };
    leat_code rc = leat__queue_own(q, err);
    if (rc == LEAT_OK && max < 0)
        rc = leat__fail(err, LEAT_EINVAL,
                        "give back %d messages: not fewer "
                        "than none",
                        max);
    if (rc != LEAT_OK)
        return rc;
    max = max == 0 || max > STEP ? STEP : max;
    if (q->apart) {
        rc = leat__apart_expire(q, max, &p.a, err);
        if (n)
            *n = p.a;
        return rc;
    }
    leat_bytes args[] = { leat__arg_int(number, max),
                          leat_str(q->events),
                          leat_str(""),
                          leat_str("0"),
                          leat_str("1"),
                          leat_str(q->prefix) };
    rc = leat__queue_ask(q, q->profile->expire, args, 6, NULL, 0, read_pair, &p,
                         err);
    if (n)
        *n = p.a;
    return rc;
}

/* ---- redrive ---------------------------------------------------------- */

/* *looked is 0 where there are no more; a redowl queue may have ids whose
 * messages are gone. */
static leat_code redrive_step(leat_queue *q, int64_t max, int64_t *moved,
                              int64_t *looked, leat_error *err)
{
    char number[LEAT__NUMBER], most[LEAT__NUMBER];
    pair p = { 0 };
    queue_lane *lane = leat__lane_take(q, QUEUE_SEND, err);
    if (!lane)
        return LEAT_ENOMEM;
    leat_bytes args[] = { leat_str(q->name),
                          leat_str(lane->name),
                          leat__arg_int(number, (int64_t)lane->number),
                          leat_str(q->events),
                          leat__arg_int(most, max),
                          leat_str(q->who) };
    leat_code rc = leat__queue_ask(q, q->profile->redrive, args, 6, NULL, 0,
                                   read_pair, &p, err);
    leat__lane_give(q, QUEUE_SEND, lane, false);
    if (rc == LEAT_OK && p.a < 0)
        rc = refused(q->name, p.a, err);
    *moved = rc == LEAT_OK ? p.a : 0;
    *looked = rc == LEAT_OK ? p.b : 0;
    return rc;
}

/* So many at once that a rate is kept evenly, ten times a second. */
static int64_t step_of(const leat_redrive_opts *o, int64_t left)
{
    int64_t step = REDRIVE_STEP;
    if (o->rate > 0 && o->rate / 10 < (double)step)
        step = o->rate < 10 ? 1 : (int64_t)(o->rate / 10);
    return left < step ? left : step;
}

static bool pace(leat_queue *q, const leat_redrive_opts *o, int64_t start_ns,
                 int64_t moved)
{
    if (o->rate <= 0)
        return true;
    double due = (double)start_ns + (double)moved / o->rate * 1e9;
    int64_t wait = (int64_t)((due - (double)leat__now_ns()) / 1e6);
    return wait <= 0 || leat__client_pause(q->client, wait, INT64_MAX);
}

leat_code leat_queue_redrive(leat_queue *q, const leat_redrive_opts *opts,
                             int64_t *moved, leat_error *err)
{
    leat_redrive_opts o = opts ? *opts : (leat_redrive_opts){ 0 };
    leat_queue_stats st = { 0 };
    int64_t done = 0, start = leat__now_ns();
    leat_code rc = leat__queue_whole(q, err);
    if (rc == LEAT_OK)
        rc = get_figures(q, true, &st, err);
    if (moved)
        *moved = 0;
    if (rc == LEAT_OK && (o.max < 0 || o.rate < 0))
        rc = leat__fail(err, LEAT_EINVAL, "a negative bound or rate");
    int64_t want = rc == LEAT_OK ? st.dead : 0;
    if (o.max > 0 && o.max < want)
        want = o.max;
    while (rc == LEAT_OK && done < want && !o.dry_run) {
        int64_t some = 0, looked = 0;
        rc = redrive_step(q, step_of(&o, want - done), &some, &looked, err);
        if (looked == 0)
            break; /* others were quicker, or it failed */
        done += some;
        if (!pace(q, &o, start, done))
            rc = leat__fail(err, LEAT_ECLOSED, "the client is closing");
    }
    if (moved)
        *moved = o.dry_run ? want : done;
    return rc;
}

/* ---- dropping --------------------------------------------------------- */

/* What is dropped, on behalf of a handle or of none. */
typedef struct dropping {
    queue_call call;
    const leat__script *script;
    char who[LEAT__QUEUE_WHO];
    int64_t dropped;
} dropping;

static leat_code drop_step(dropping *d, const char *what, const char *cursor,
                           const char *which, pair *p, leat_error *err)
{
    char step[LEAT__NUMBER];
    leat_bytes args[] = { leat_str(d->call.name),    leat_str(what),
                          leat__arg_int(step, STEP), leat_str(cursor),
                          leat_str(which),           leat_str(d->who) };
    d->call.script = d->script;
    d->call.args = args;
    d->call.n = 6;
    d->call.read = read_pair;
    d->call.arg = p;
    leat_code rc = leat__queue_call(&d->call, err);
    if (rc == LEAT_OK && p->a < 0)
        rc = refused(d->call.name, p->a, err);
    if (rc == LEAT_OK)
        d->dropped += p->a;
    return rc;
}

/* Those that were there: what comes in meanwhile is not chased for ever. */
static leat_code drop_list(dropping *d, const char *what, int64_t most,
                           leat_error *err)
{
    pair p = { .b = 1 };
    leat__steps steps;
    int64_t till = most < INT64_MAX - d->dropped ? d->dropped + most
                                                 : INT64_MAX;
    leat_code rc = LEAT_OK;
    leat__steps_begin(&steps, "the messages", d->call.client->opts.timeout_ms);
    while (rc == LEAT_OK && p.b > 0 && d->dropped < till) {
        rc = drop_step(d, what, "0", "0", &p, err);
        if (rc == LEAT_OK && p.b > 0)
            rc = leat__steps_next(&steps, p.a > 0, err);
    }
    return rc;
}

static leat_code drop_due(dropping *d, const char *which, leat_error *err)
{
    leat__scan s;
    leat_code rc = LEAT_OK;
    leat__scan_begin(&s, "the messages", d->call.client->opts.timeout_ms);
    while (rc == LEAT_OK && !s.over) {
        pair p = { 0 };
        rc = drop_step(d, "due", s.cursor, which, &p, err);
        if (rc == LEAT_OK)
            rc = leat__scan_next(&s, leat_str(p.text), p.a > 0, err);
    }
    return rc;
}

leat_code leat_queue_purge(leat_queue *q, bool dead, int64_t *dropped,
                           leat_error *err)
{
    dropping d = { .script = q->profile->drop,
                   .call = { .client = q->client,
                             .name = q->name,
                             .key = leat__key_bytes(&q->due) } };
    leat_queue_stats st;
    memcpy(d.who, q->who, sizeof d.who);
    leat_code rc = leat__queue_own(q, err);
    if (rc == LEAT_OK)
        rc = leat__queue_whole(q, err);
    if (rc == LEAT_OK)
        rc = drop_due(&d, dead ? "2" : "0", err);
    if (rc == LEAT_OK)
        rc = get_figures(q, true, &st, err);
    if (rc == LEAT_OK)
        rc = drop_list(&d, dead ? "dead" : "ready", dead ? st.dead : st.visible,
                       err);
    if (dropped)
        *dropped = d.dropped;
    return rc;
}

/* The queue that was there when it began.  Not there any more: the answer to
 * the last step was lost, or another one removed it meanwhile, which is as
 * good.  A queue that was made of that name since then is not touched. */
static leat_code drop_all(dropping *d, leat_error *err)
{
    pair p;
    leat_code rc = drop_step(d, "mark", "0", "0", &p, err);
    if (rc == LEAT_OK)
        rc = drop_due(d, "1", err);
    if (rc == LEAT_OK)
        rc = drop_list(d, "ready", INT64_MAX, err);
    if (rc == LEAT_OK)
        rc = drop_list(d, "dead", INT64_MAX, err);
    if (rc == LEAT_OK)
        rc = drop_step(d, "end", "0", "0", &p, err);
    return rc == LEAT_ENOENT ? LEAT_OK : rc;
}

/* Which one it is; the key stays the caller's. */
static leat_code begin_drop(dropping *d, leat_client *c, const char *name,
                            const leat_queue_opts *o, leat__key *due,
                            leat_error *err)
{
    pair p;
    leat_code rc = leat__queue_check_on(c, name, o, err);
    if (rc != LEAT_OK)
        return rc;
    const queue_profile *profile = leat__queue_profile(o->profile);
    profile->home(due, o->prefix, name);
    *d = (dropping){
        .script = profile->drop,
        .call = { .client = c, .name = name, .key = leat__key_bytes(due) }
    };
    rc = drop_step(d, "look", "0", "0", &p, err);
    if (rc == LEAT_OK)
        snprintf(d->who, sizeof d->who, "%.*s", LEAT__QUEUE_WHO - 1, p.text);
    return rc;
}

leat_code leat_queue_id(leat_client *c, const char *name,
                        const leat_queue_opts *opts, char id[LEAT_QUEUE_ID],
                        leat_error *err)
{
    _Static_assert((int)LEAT_QUEUE_ID == (int)LEAT__QUEUE_WHO, "");
    const leat_queue_opts o = opts ? *opts : (leat_queue_opts){ 0 };
    leat__key due;
    dropping d;
    leat_code rc = begin_drop(&d, c, name, &o, &due, err);
    if (rc == LEAT_OK)
        memcpy(id, d.who, sizeof d.who);
    return rc;
}

leat_code leat_queue_remove(leat_client *c, const char *name,
                            const leat_queue_opts *opts, leat_error *err)
{
    const leat_queue_opts o = opts ? *opts : (leat_queue_opts){ 0 };
    leat__key due;
    dropping d;
    leat_code rc = begin_drop(&d, c, name, &o, &due, err);
    if (rc == LEAT_OK && o.id && strcmp(o.id, d.who) != 0)
        rc = leat__fail(err, LEAT_ESTALE,
                        "queue '%s' is another than the one to be removed: it "
                        "stays",
                        name);
    return rc == LEAT_OK ? drop_all(&d, err) : rc;
}

/* ---- figures ---------------------------------------------------------- */

/* What is over and was not given back yet: see stats.lua. */
typedef struct overdue {
    int64_t flying, worn, late, sent_ms, looked;
} overdue;

typedef struct figures {
    leat_queue *q;
    leat_queue_stats *out;
    overdue page, over; /* of the last look, of all; sent_ms 0: none */
    int64_t now_ms;
    bool other; /* than the queue that was opened */
} figures;

static int64_t counter(const leat_reply *stat, const char *name)
{
    leat_reply_iter it = leat_reply_each(stat);
    for (const leat_reply *at; (at = leat_reply_step(&it));) {
        const leat_reply *value = leat_reply_step(&it);
        if (leat_bytes_eq(leat_reply_bytes(at), leat_str(name)))
            return leat_reply_int(value);
    }
    return 0;
}

static void count(leat_queue_stats *o, const leat_reply *stat)
{
    int64_t dead_flight = counter(stat, "drecv") - counter(stat, "dacked") -
                          counter(stat, "dback");
    o->sent = counter(stat, "sent");
    o->received = counter(stat, "recv");
    o->in_flight = o->received - counter(stat, "acked") -
                   counter(stat, "back") + counter(stat, "fly");
    o->acked = counter(stat, "acked") + counter(stat, "dacked");
    o->requeued = counter(stat, "requeued");
    o->to_dead = counter(stat, "dead");
    o->expired = counter(stat, "expired");
    o->redriven = counter(stat, "redriven");
    o->purged = counter(stat, "purged");
    o->lost = counter(stat, "lost");
    o->delayed = counter(stat, "late");
    o->dead += dead_flight;
}

/* "<receives>/<sent>/...", or nothing: -1. */
static int64_t age(leat_bytes entry, int64_t now_ms)
{
    const char *slash = entry.n ? memchr(entry.p, '/', entry.n) : NULL;
    if (!slash)
        return -1;
    int64_t sent = 0;
    const char *end = (const char *)entry.p + entry.n;
    for (const char *p = slash + 1; p < end && *p >= '0' && *p <= '9'; p++)
        sent = sent * 10 + (*p - '0');
    return now_ms > sent ? now_ms - sent : 0;
}

/* The rest of an answer; other profiles have none. */
static void read_overdue(overdue *o, leat_reply_iter *it)
{
    int64_t all[5] = { 0 };
    for (size_t i = 0; i < 5; i++) {
        const leat_reply *at = leat_reply_step(it);
        all[i] = at ? leat_reply_int(at) : 0;
    }
    *o = (overdue){ all[0], all[1], all[2], all[3], all[4] };
}

static void add_overdue(overdue *all, const overdue *page)
{
    all->flying += page->flying;
    all->worn += page->worn;
    all->late += page->late;
    if (page->sent_ms > 0 &&
        (all->sent_ms == 0 || page->sent_ms < all->sent_ms))
        all->sent_ms = page->sent_ms;
    all->looked = page->looked;
}

#define STATS "[[(t_)][(t_)]iiio"

static leat_code read_stats(void *arg, const leat_reply *r, leat_error *err)
{
    figures *f = arg;
    queue_conf conf;
    leat_code rc = leat__queue_expect(r, STATS "]|" STATS "iiini]", err);
    leat_reply_iter it = leat_reply_each(r);
    if (rc == LEAT_OK)
        rc = leat__conf_read(leat_reply_step(&it), &conf, err);
    if (rc != LEAT_OK)
        return rc;
    if (f->q->profile->kept) {
        if (!conf.there || conf.gone)
            return leat__queue_none(f->q->name, err);
        f->other = strcmp(conf.who, f->q->who) != 0;
        leat__queue_learn(f->q, &conf);
    }
    leat_queue_stats *o = f->out;
    const leat_reply *stat = leat_reply_step(&it);
    f->now_ms = leat_reply_int(leat_reply_step(&it));
    const leat_reply *ready = leat_reply_step(&it);
    const leat_reply *dead = leat_reply_step(&it);
    *o = (leat_queue_stats){ .visible = leat_reply_int(ready),
                             .dead = leat_reply_int(dead),
                             .created_ms = conf.created_ms,
                             .paused_ms = conf.paused_ms };
    count(o, stat);
    if (conf.kept.fifo) /* ready holds groups: what is nowhere else */
        o->visible = o->sent - o->acked - o->in_flight - o->delayed - o->dead -
                     o->expired - o->purged - o->lost;
    o->oldest_ms = age(leat_reply_bytes(leat_reply_step(&it)), f->now_ms);
    read_overdue(&f->page, &it);
    return LEAT_OK;
}

static int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most < 0 ? 0 : most;
}

/* What is over is where it will be once it was given back.  The looks were not
 * one: there are no more than the counters say. */
static void count_overdue(figures *f)
{
    leat_queue_stats *o = f->out;
    int64_t flying = at_most(f->over.flying, o->in_flight);
    int64_t worn = at_most(f->over.worn, flying);
    int64_t late = at_most(f->over.late, o->delayed);
    o->in_flight -= flying;
    o->delayed -= late;
    o->dead += worn;
    o->visible += flying - worn + late;
    int64_t age_ms = f->now_ms - f->over.sent_ms;
    if (f->over.sent_ms > 0 && age_ms > o->oldest_ms)
        o->oldest_ms = age_ms;
}

static void put_settings(leat_queue *q, leat_queue_stats *out)
{
    pthread_mutex_lock(&q->lock);
    out->settings = q->kept;
    pthread_mutex_unlock(&q->lock);
}

/* Of one whose keys are in several slots. */
static leat_code apart_figures(leat_queue *q, leat_queue_stats *out,
                               leat_error *err)
{
    leat_code rc = leat__apart_stats(q, out, err);
    if (rc == LEAT_OK)
        put_settings(q, out);
    return rc;
}

static leat_code get_figures(leat_queue *q, bool same, leat_queue_stats *out,
                             leat_error *err)
{
    figures f = { .q = q, .out = out };
    char looked[LEAT__NUMBER];
    leat__steps steps;
    *out = (leat_queue_stats){ .oldest_ms = -1 };
    leat_code rc = leat__queue_own(q, err);
    if (rc == LEAT_OK && q->apart)
        return apart_figures(q, out, err);
    leat__steps_begin(&steps, "the deadlines", q->client->opts.timeout_ms);
    do {
        leat_bytes args[] = { leat_str(q->name),
                              leat__arg_int(looked, f.over.looked) };
        if (rc == LEAT_OK)
            rc = leat__queue_ask(q, q->profile->stats, args, 2, NULL, 0,
                                 read_stats, &f, err);
        if (rc == LEAT_OK)
            add_overdue(&f.over, &f.page);
        if (rc == LEAT_OK && f.over.looked > 0)
            rc = leat__steps_next(&steps, true, err);
    } while (rc == LEAT_OK && f.over.looked > 0);
    if (rc == LEAT_OK && same && f.other)
        rc = leat__queue_other(q->name, err);
    if (rc != LEAT_OK)
        return rc;
    count_overdue(&f);
    put_settings(q, out);
    return LEAT_OK;
}

leat_code leat_queue_stats_get(leat_queue *q, leat_queue_stats *out,
                               leat_error *err)
{
    return get_figures(q, false, out, err);
}
