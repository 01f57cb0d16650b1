/*
 * park.c: lanes that stand still behind a message that failed.
 *
 * In the order KEY a lane is a key's, in the order PARTITION there is one for
 * all, "*".  When a message of the log fails its lane stands still: it is in
 * p->blocks until the server says that nothing of it is kept any more.
 *
 *   KEY        what waits in the window, or is read while it stands still, is
 *              claimed and kept behind the one that failed: it leaves the ring,
 *              so a key that fails does not fill it
 *   PARTITION  nothing is handed out from the window (p->halted); what users
 *              give back stays there, but for what stands before the last one
 *              that failed: that is kept, so that all comes in order
 *
 * Steps of a lane are held until no user has anything of it any more.  Then
 * they go in the order of the log, and from then on the server hands the lane
 * out: only the first of it is ever due.
 *
 * A new owner asks for the lanes that stand still before it reads.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "topic/consumer.h"

#include <assert.h>

#define RETRY_NS INT64_C(50000000)

enum { PAGE = 1000 }; /* lanes asked for at once */

/* ---- steps of a lane -------------------------------------------------- */

/* In the order of the log. */
static void hold(leat__blocked *b, leat__step *s)
{
    leat__step **at = &b->held;
    while (*at && leat__id_cmp((*at)->id, s->id) < 0)
        at = &(*at)->next;
    s->next = *at;
    *at = s;
}

/* Behind what failed: not tried, nobody to be told. */
static leat__step *behind(part *p, uint64_t lane, leat__entry *e)
{
    leat__step *s = leat__settle_step(p, LEAT__STEP_KEEP, e->id, e->attempts,
                                      0);
    p->claimed++;
    if (!s)
        return NULL;
    s->lane = lane;
    s->entry = e;
    return s;
}

/* What waits of the key, at once: from here on nothing of it is handed out. */
static void claim_key(part *p, leat__blocked *b)
{
    uint64_t at = 0;
    leat__entry *e;
    leat__step *s, **end = &b->held;
    while ((e = leat__window_claim_lane(p->window, b->lane, &at))) {
        if (!(s = behind(p, b->lane, e)))
            return;
        while (*end && leat__id_cmp((*end)->id, s->id) < 0)
            end = &(*end)->next;
        s->next = *end;
        *end = s;
        b->steps++;
    }
}

static void claim_star(part *p, leat__blocked *b)
{
    uint64_t at = 0;
    leat__entry *e;
    while ((e = leat__window_claim_upto(p->window, b->last, &at))) {
        leat__step *s = behind(p, b->lane, e);
        if (!s)
            return;
        hold(b, s);
        b->steps++;
    }
}

/* Nothing of it is with a user. */
static void let_go(part *p, leat__blocked *b, int64_t since_ns)
{
    if (b->lane == LEAT__LANE_STAR && b->held)
        claim_star(p, b);
    leat__step *s = b->held;
    b->held = NULL;
    for (leat__step *next; s; s = next) {
        next = s->next;
        leat__settle_add(p, s, since_ns);
    }
}

static uint32_t users_have(const part *p, uint64_t lane)
{
    if (lane == LEAT__LANE_STAR)
        return leat__window_out(p->window) - p->claimed;
    return leat__window_lane_out(p->window, lane);
}

/* One that a user had came back and goes into the lane. */
static leat__blocked *stop(part *p, uint64_t lane)
{
    leat_error e;
    leat__blocked *b = leat__blocks_find(&p->blocks, lane);
    if (b) {
        b->out -= b->out > 0;
        return b;
    }
    b = leat__blocks_add(&p->blocks, lane, &e);
    if (!b) {
        leat__drive_failed(p->c, &e, "settling");
        leat__member_lost(p, leat__part_epoch(p));
        return NULL;
    }
    b->out = users_have(p, lane);
    if (lane == LEAT__LANE_STAR)
        p->halted = true;
    else
        claim_key(p, b);
    return b;
}

void leat__park(part *p, leat__step *s, int64_t since_ns)
{
    leat__blocked *b = stop(p, s->lane);
    if (!b) {
        if (s->handed)
            leat__line_add(&p->settled, &s->handed->d);
        leat__step_free(s);
        return;
    }
    if (leat__id_cmp(b->last, s->id) < 0)
        b->last = s->id;
    b->steps++;
    hold(b, s);
    if (b->out == 0)
        let_go(p, b, since_ns);
}

void leat__park_back(part *p, uint64_t lane, int64_t since_ns)
{
    leat__blocked *b = leat__blocks_find(&p->blocks, lane);
    if (!b || b->out == 0)
        return;
    if (--b->out == 0)
        let_go(p, b, since_ns);
}

void leat__park_read(part *p, leat__entry *e)
{
    leat__blocked *b = e->lane ? leat__blocks_find(&p->blocks, e->lane) : NULL;
    if (!b)
        return;
    leat__window_claim(p->window, e);
    leat__step *s = behind(p, e->lane, e);
    if (!s)
        return;
    b->steps++;
    if (b->out > 0)
        hold(b, s);
    else
        leat__settle_add(p, s, leat__now_ns());
}

void leat__park_empty(part *p, uint64_t lane)
{
    leat__blocked *b = leat__blocks_find(&p->blocks, lane);
    if (!b || b->steps > 0 || b->out > 0)
        return;
    leat__blocks_remove(&p->blocks, b);
    if (lane == LEAT__LANE_STAR)
        p->halted = false;
}

void leat__park_forget(part *p, settled_line *open)
{
    uint32_t at = 0;
    leat__blocked *b;
    while ((b = leat__blocks_next(&p->blocks, &at)))
        for (leat__step *s = b->held, *next; s; s = next) {
            next = s->next;
            if (s->handed)
                leat__line_add(open, &s->handed->d);
            leat__step_free(s);
        }
    leat__blocks_release(&p->blocks);
    p->halted = false;
}

/* ---- what the owner before left --------------------------------------- */

static void take_page(part *p, const leat_reply *r)
{
    leat_error e;
    leat_reply_iter it = leat_reply_each(r);
    (void)leat_reply_step(&it);
    for (const leat_reply *at; (at = leat_reply_step(&it));) {
        uint64_t lane;
        if (!leat__lane_parse(leat_reply_bytes(at), &lane) || lane == 0)
            continue;
        if (!leat__blocks_add(&p->blocks, lane, &e)) {
            leat__drive_failed(p->c, &e, "reading lanes");
            p->lanes_at_ns = leat__now_ns() + RETRY_NS;
            return;
        }
        p->lane_last = lane;
        p->halted |= lane == LEAT__LANE_STAR &&
                     p->order == LEAT_ORDER_PARTITION;
    }
    p->lanes_known = leat_reply_int(leat_reply_at(r, 0)) == 0;
}

static void on_lanes(void *arg, const leat_reply *r, const leat_error *e)
{
    part *p = arg;
    p->lanes_asked = false;
    if (leat__part_epoch(p) != p->lanes_epoch)
        return;
    leat_error odd;
    e = leat__reply_odd(r, e, "[]|[i(t)]", "the lanes", &odd);
    if (e) {
        leat__drive_failed(p->c, e, "reading lanes");
        p->lanes_at_ns = leat__now_ns() + RETRY_NS;
    } else if (leat_reply_len(r) == 0) {
        leat__member_lost(p, p->lanes_epoch);
    } else {
        take_page(p, r);
    }
}

static void ask(part *p)
{
    leat_error e;
    consumer *c = p->c;
    char epoch[LEAT__NUMBER], page[LEAT__NUMBER], last[LEAT__LANE_TEXT];
    const leat_bytes keys[] = { leat__key_bytes(&p->lease),
                                leat__key_bytes(&p->lane_key) };
    p->lanes_epoch = leat__part_epoch(p);
    const leat_bytes args[] = { leat_str(c->nonce),
                                leat__arg_int(epoch, (int64_t)p->lanes_epoch),
                                leat__lane_format(p->lane_last, last),
                                leat__arg_int(page, PAGE) };
    p->lanes_asked = true; /* before: the answer may be there at once */
    if (leat__script_send(c->cmd, &leat__script_topic_lanes, keys, 2, args, 4,
                          &(leat_send_opts){ .fn = on_lanes, .arg = p },
                          &e) == LEAT_OK)
        return;
    p->lanes_asked = false;
    p->lanes_at_ns = leat__now_ns() + RETRY_NS;
    leat__drive_failed(c, &e, "reading lanes");
}

static bool to_ask(const part *p)
{
    return !p->lanes_known && !p->lanes_asked && !p->gone;
}

void leat__park_step(consumer *c, int64_t now_ns)
{
    for (uint32_t i = 0; c->cmd && i < c->owned_count; i++) {
        part *p = c->owned[i];
        if (to_ask(p) && now_ns >= p->lanes_at_ns)
            ask(p);
    }
}

int64_t leat__park_due(const consumer *c)
{
    int64_t due = INT64_MAX;
    for (uint32_t i = 0; i < c->owned_count; i++)
        if (to_ask(c->owned[i]) && c->owned[i]->lanes_at_ns < due)
            due = c->owned[i]->lanes_at_ns;
    return due;
}
