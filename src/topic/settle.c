/*
 * settle.c: what becomes of a message that was handed out.
 *
 *              of the log           kept
 *   ack        done                 a step `done`
 *   reject     a step `dead`        the same
 *   failure    a step `keep`, its   the same, in its lane
 *              lane stands still;
 *              or `dead`, as the
 *              policy says
 *              with re_add a step   the same
 *              `again`
 *   release    back into the        a step `keep`, due at once
 *              window, or, if its
 *              lane stands still,
 *              a step `keep`
 *
 * An entry of the window stays OUT until a save carries its step, and is done
 * in that one: the server never hears that it is settled without hearing where
 * it went.  Where there is no memory for a step the partition is given up and
 * taken anew: what was settled is handed out again.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "metrics/metrics.h"
#include "topic/consumer.h"
#include "topic/retry.h"

#include <stdio.h>
#include <string.h>

/* ---- steps ------------------------------------------------------------ */

leat__step *leat__settle_step(part *p, leat__step_what what, leat__id id,
                              uint32_t n, uint32_t f)
{
    leat_error e;
    leat__step *s = leat__zalloc(sizeof *s, &e);
    if (!s) {
        leat__drive_failed(p->c, &e, "settling");
        leat__member_lost(p, leat__part_epoch(p));
        return NULL;
    }
    s->what = what;
    s->id = id;
    s->n = n;
    s->f = f;
    return s;
}

void leat__settle_add(part *p, leat__step *s, int64_t since_ns)
{
    leat__moves_add(&p->moves, s);
    leat__save_soon(p, since_ns);
}

/* The same message, whatever it was handed out from. */
static leat__step *step_of(handed *h, leat__step_what what, uint32_t n,
                           uint32_t f)
{
    part *p = h->part;
    leat__id id = { h->d.position.ms, h->d.position.seq };
    leat__step *s = leat__settle_step(p, what, id, n, f);
    if (!s) {
        if (!atomic_load_explicit(&h->out, memory_order_relaxed))
            leat__line_add(&p->settled, &h->d); /* to hear that it is lost */
        return NULL;
    }
    s->handed = h;
    s->kept = h->kept;
    if (h->kept) {
        h->kept->state = KEPT_LEAVES;
        s->lane = h->kept->lane;
    } else {
        s->entry = h->entry;
        s->entry->claimed = true;
        p->claimed++;
    }
    return s;
}

static uint64_t lane_of_log(const part *p, const handed *h)
{
    return p->order == LEAT_ORDER_PARTITION ? LEAT__LANE_STAR
           : p->order == LEAT_ORDER_KEY     ? h->entry->lane
                                            : 0;
}

/* Its lane has one fewer out, if it stands still. */
static void back(handed *h, int64_t since_ns)
{
    part *p = h->part;
    if (!h->kept && p->blocks.count > 0)
        leat__park_back(p, lane_of_log(p, h), since_ns);
}

/* ---- dead letters ----------------------------------------------------- */

static leat_failure failure_of(const part *p, leat__id id, const leat_msg *msg,
                               uint32_t attempts, const char *reason)
{
    return (leat_failure){ .topic = p->c->topic->name,
                           .group = p->c->group,
                           .partition = p->index,
                           .position = { id.ms, id.seq, 0 },
                           .msg = msg,
                           .attempts = attempts,
                           .reason = reason };
}

static void put_error(leat__step *s, leat_bytes text)
{
    size_t n = text.n < LEAT__ERROR_MAX ? text.n : LEAT__ERROR_MAX;
    const char *end = n > 0 ? memchr(text.p, '\0', n) : NULL;
    if (end)
        n = (size_t)(end - (const char *)text.p);
    if (n > 0)
        memcpy(s->error, text.p, n);
    s->error[n] = '\0';
}

leat_code leat__settle_pack(leat__buf *to, leat_bytes b, leat_error *err)
{
    leat_code rc = leat__buf_printf(to, err, "%zu:", b.n);
    return rc == LEAT_OK ? leat__buf_add(to, b.p, b.n, err) : rc;
}

/* What the user wants to be kept with it; without memory it goes without. */
static void ask_extra(const consumer *c, const leat_failure *f, leat__step *s)
{
    leat_error e;
    leat_fields *extra = c->opts.dead_fn ? leat_fields_new(&e) : NULL;
    leat_code rc = LEAT_OK;
    if (!extra)
        return;
    c->opts.dead_fn(c->opts.dead_arg, f, extra);
    leat_bytes error = leat_fields_get(extra, "error");
    if (error.p)
        put_error(s, error);
    const leat_bytes *pairs = leat_fields_pairs(extra);
    for (size_t i = 0; i < 2 * leat_fields_count(extra) && rc == LEAT_OK; i++)
        rc = leat__settle_pack(&s->extra, pairs[i], &e);
    if (rc != LEAT_OK)
        s->extra.n = 0;
    leat_fields_free(extra);
}

static void log_dead(const consumer *c, const leat_failure *f)
{
    leat__log(&c->log, LEAT_LOG_WARN,
              "'%s' %u: %llu-%llu is a dead letter of group '%s' after %u "
              "attempts: %s",
              f->topic, f->partition, (unsigned long long)f->position.ms,
              (unsigned long long)f->position.seq, f->group, f->attempts,
              f->reason[0] ? f->reason : "no reason given");
}

static void fill_dead(const consumer *c, leat__step *s, const leat_failure *f)
{
    s->why = f->died       ? LEAT__DEAD_DIED
             : f->rejected ? LEAT__DEAD_REJECTED
                           : LEAT__DEAD_FAILED;
    put_error(s, leat_str(f->reason[0] ? f->reason : "no reason given"));
    log_dead(c, f);
    ask_extra(c, f, s);
}

static void bury(handed *h, const leat_failure *f, uint32_t failures,
                 int64_t since_ns)
{
    leat__step *s = step_of(h, LEAT__STEP_DEAD, h->d.attempt,
                            failures + h->again);
    if (!s)
        return;
    fill_dead(h->part->c, s, f);
    back(h, since_ns);
    leat__settle_add(h->part, s, since_ns);
}

/* ---- failures --------------------------------------------------------- */

/* Of this message, not of those that it follows. */
static uint32_t failures_of(const handed *h)
{
    return (h->kept ? h->kept->f : 0) + 1;
}

/* A jitter need not be secret. */
static uint64_t chance(void)
{
    uint64_t v;
    return leat__random(&v, sizeof v, NULL) == LEAT_OK
               ? v
               : (uint64_t)leat__now_ns();
}

/* Of the log: into its lane, behind which nothing is handed out any more. */
static void keep(handed *h, leat__step *s, int64_t since_ns)
{
    part *p = h->part;
    if (s->kept) {
        leat__kept_fall_back(p, s->lane);
        leat__settle_add(p, s, since_ns);
        return;
    }
    s->lane = lane_of_log(p, h);
    if (s->lane)
        leat__park(p, s, since_ns);
    else
        leat__settle_add(p, s, since_ns);
}

/* A new message takes its place.  False: that cannot be made. */
static bool again(handed *h, uint32_t failures, int64_t delay_ms,
                  int64_t since_ns)
{
    leat__buf fields = { 0 };
    if (!leat__again_pack(h, &fields)) {
        leat__buf_release(&fields);
        return false;
    }
    leat__step *s = step_of(h, LEAT__STEP_AGAIN, h->d.attempt, failures);
    if (!s) {
        leat__buf_release(&fields);
        return true;
    }
    s->failure = true;
    s->delay_ms = delay_ms;
    s->extra = fields;
    back(h, since_ns);
    leat__settle_add(h->part, s, since_ns);
    return true;
}

static void failed(handed *h, int64_t since_ns)
{
    consumer *c = h->part->c;
    leat__id id = { h->d.position.ms, h->d.position.seq };
    leat_failure f = failure_of(h->part, id, &h->d.msg, h->d.attempt,
                                h->reason);
    uint32_t failures = failures_of(h);
    f.rejected = h->verdict == LEAT__SETTLE_REJECT;
    int64_t delay = f.rejected ? -1
                               : leat__retry_delay(&c->opts.retry, &f,
                                                   failures + h->again,
                                                   h->delay_ms, chance());
    if (delay < 0) {
        bury(h, &f, failures, since_ns);
        return;
    }
    if (c->opts.retry.re_add == LEAT_YES && again(h, failures, delay, since_ns))
        return;
    leat__step *s = step_of(h, LEAT__STEP_KEEP, h->d.attempt - h->again,
                            failures);
    if (!s)
        return;
    s->failure = true;
    s->delay_ms = delay;
    put_error(s, leat_str(h->reason[0] ? h->reason : "no reason given"));
    keep(h, s, since_ns);
}

/* ---- given back ------------------------------------------------------- */

static bool lane_stands(const handed *h)
{
    const part *p = h->part;
    return p->order == LEAT_ORDER_KEY && p->blocks.count > 0 &&
           h->entry->lane != 0 && leat__blocks_find(&p->blocks, h->entry->lane);
}

static void released(handed *h, bool told, int64_t since_ns)
{
    part *p = h->part;
    uint32_t n = h->d.attempt - h->again - 1;
    if (!h->kept && !lane_stands(h)) {
        leat__window_back(p->window, h->entry, true);
        back(h, since_ns);
        if (told)
            leat__line_add(&p->settled, &h->d);
        leat__save_soon(p, since_ns);
        return;
    }
    leat__step *s = step_of(h, LEAT__STEP_KEEP, n, h->kept ? h->kept->f : 0);
    if (!s)
        return;
    if (!told)
        s->handed = NULL;
    if (!h->kept)
        h->entry->attempts--;
    keep(h, s, since_ns);
}

void leat__settle_release(handed *h)
{
    released(h, false, leat__now_ns());
}

/* ---- one settlement --------------------------------------------------- */

static void acked(handed *h, int64_t since_ns)
{
    part *p = h->part;
    if (h->kept) {
        leat__step *s = step_of(h, LEAT__STEP_DONE, h->d.attempt, h->kept->f);
        if (s)
            leat__settle_add(p, s, since_ns);
        return;
    }
    leat__window_done(p->window, h->entry);
    back(h, since_ns);
    leat__save_soon(p, since_ns);
    leat__line_add(&p->settled, &h->d);
}

void leat__settle_one(handed *h, int64_t since_ns)
{
    switch (h->verdict) {
    case LEAT__SETTLE_ACK:
    case LEAT__SETTLE_COMMITTED:
        acked(h, since_ns);
        break;
    case LEAT__SETTLE_REJECT:
    case LEAT__SETTLE_NACK:
        failed(h, since_ns);
        break;
    case LEAT__SETTLE_RELEASE:
        released(h, true, since_ns);
        break;
    }
}

/* ---- who may be what kills -------------------------------------------- */

bool leat__settle_deadly(part *p, const leat__held *held, uint32_t n,
                         uint32_t f)
{
    return leat__retry_deadly(&p->c->opts.retry, held->msg, n, n - f);
}

/* Where it waits, or in the window: nobody has to tell. */
void leat__settle_died(part *p, leat__entry *e, leat__kept *k)
{
    char reason[64];
    const leat__held *held = k ? k->held : e->user;
    uint32_t n = k ? k->n : e->attempts, f = k ? k->f : 0;
    leat__step *s = leat__settle_step(p, LEAT__STEP_DEAD, held->id, n, f);
    if (!s)
        return;
    snprintf(reason, sizeof reason, "its handler died %u times", n - f);
    leat_failure why = failure_of(p, held->id, held->msg, n, reason);
    why.died = true;
    fill_dead(p->c, s, &why);
    if (k) {
        k->state = KEPT_LEAVES;
        s->lane = k->lane;
    } else {
        leat__window_claim(p->window, e);
        p->claimed++;
    }
    s->entry = e;
    s->kept = k;
    leat__settle_add(p, s, leat__now_ns());
}

void leat__settle_suspects(part *p)
{
    uint64_t at = 0;
    leat__entry *e;
    p->c->careful = true;
    while ((e = leat__window_suspect(p->window, &at)))
        if (e->state == LEAT__ENTRY_WAITING &&
            leat__settle_deadly(p, e->user, e->attempts, 0))
            leat__settle_died(p, e, NULL);
}

/* ---- with a save ------------------------------------------------------ */

void leat__settle_carry(part *p)
{
    leat__step *s;
    while ((s = leat__moves_number(&p->moves))) {
        if (s->entry) {
            leat__window_done(p->window, s->entry);
            s->entry = NULL;
            p->claimed--;
        }
        if (s->handed) {
            leat__line_add(&p->settled, &s->handed->d);
            s->handed = NULL;
        }
    }
}

static void count_step(const part *p, const leat__step *s)
{
    consumer *c = p->c;
    if (s->what == LEAT__STEP_DEAD) {
        leat__count_add(&c->counts.dead, 1);
        leat__counter_add(p->meters->dead[s->why], 1);
    } else if (s->failure) {
        leat__count_add(&c->counts.retries, 1);
        leat__counter_add(p->meters->retries, 1);
    }
}

/* When something of it, or behind it, is to be fetched. */
static void look_after(part *p, const leat__step *s, int64_t now_ns)
{
    if (s->what == LEAT__STEP_AGAIN)
        leat__ripe_soon(&p->ripe, s->delay_ms);
    if (s->what == LEAT__STEP_KEEP)
        leat__kept_look(p, now_ns + s->delay_ms * 1000000);
    else if (s->what != LEAT__STEP_BEGIN && s->lane != 0)
        leat__kept_look(p, now_ns);
}

static void step_done(part *p, leat__step *s, int64_t now_ns)
{
    leat__blocked *b = s->lane && s->what == LEAT__STEP_KEEP && !s->kept
                           ? leat__blocks_find(&p->blocks, s->lane)
                           : NULL;
    if (b)
        b->steps--;
    count_step(p, s);
    look_after(p, s, now_ns);
    if (s->what == LEAT__STEP_KEEP && !s->kept)
        p->kept.total++;
    if (!s->kept)
        return;
    if (s->what != LEAT__STEP_BEGIN)
        leat__kept_drop(p, s->kept);
    else if (s->kept->begin == s)
        s->kept->begin = NULL;
    if (s->what == LEAT__STEP_DONE || s->what == LEAT__STEP_DEAD ||
        s->what == LEAT__STEP_AGAIN)
        p->kept.total -= p->kept.total > 0;
}

void leat__settle_carried(part *p, uint64_t upto)
{
    int64_t now = leat__now_ns();
    leat__step *s;
    while ((s = leat__moves_confirmed(&p->moves, upto))) {
        step_done(p, s, now);
        leat__step_free(s);
    }
    if (leat__moves_ready(&p->moves)) /* there was no room for it before */
        leat__save_soon(p, 0);
}

void leat__settle_forget(part *p, settled_line *open)
{
    leat__step *s;
    leat__park_forget(p, open);
    while ((s = leat__moves_drop(&p->moves))) {
        if (s->handed)
            leat__line_add(open, &s->handed->d);
        leat__step_free(s);
    }
    p->moves = (leat__moves){ 0 };
    p->claimed = 0;
    leat__kept_forget(p);
}
