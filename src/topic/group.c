/*
 * group.c: one member's share in deciding who owns which partition.
 *
 * A member writes its record with every beat (record.h) and gets all records
 * back, read at one moment.  From them it knows who lives (view.c) and plans
 * who should have what (plan.c).  It then acts for itself only: it gives up
 * what it has above its quota, and takes what is free and named its own by the
 * plan.
 *
 *      TAKE taken          DRAIN         drained, or too late: HAND done
 *   none ----> taking ----> owned ----> draining ----> handing ----> none
 *          refused: none      ^   KEEP     |          failed: HAND again
 *                             +------------+
 *
 * Why it is safe: the lease decides, not the plan.  It is taken by
 * compare-and-set with an epoch that only rises, and everything an owner does
 * is checked against its nonce and epoch.  Two members with different plans
 * collide at the lease, and one is refused.
 *
 * Why it ends: whoever sees the same records makes the same plan, so that there
 * is one taker for every free partition.  A lease is given up to nobody in
 * particular: records are read all at once and only get newer, so whoever sees
 * a partition free sees the plan that names its taker, and a promise to one who
 * does not know of it could only get stuck.
 *
 * What is not known is tried again.  A TAKE without an answer may have
 * happened, or may happen yet: then the lease is ours, we do not know it, and
 * others are refused in our name.  So a partition for which a TAKE was ever
 * lost and that stays free in the records is taken once more, by us, plan or
 * not.  After a failover the server may know an older lease than its owner did,
 * in the name of a member that gave it up long ago: one who refuses us by its
 * name, lives, and says beat after beat that it has no such partition is taken
 * from as a dead one is.  A HAND without an answer is repeated with the same
 * epoch.  A beat is one more beat.
 *
 * After an outage nothing is dropped by the clock alone: nobody judged us if
 * nobody could look, and if somebody did, the lease says so to the next thing
 * we do; the consumer asks with every beat whether its leases are its own.
 *
 * A member that sees a later life of its stable name gives up all, without
 * draining, and leaves.
 *
 * After a crash stay: the record, which is judged dead after a lease and a
 * sixth and buried four leases later, when all others have judged for
 * themselves, or by a later life of our name when that leaves; and leases in
 * our name, which the plan's takers take.
 */
#include "topic/group.h"

#include "base/mem.h"
#include "topic/machine.h"

/* ---- making ----------------------------------------------------------- */

leat__group *leat__group_new(const leat__group_opts *o, leat_error *err)
{
    leat__group *g = leat__zalloc(sizeof *g, err);
    if (!g)
        return NULL;
    assert(o->partitions > 0 && o->lease_ns > 0);
    g->o = *o;
    leat__escape(g->name, sizeof g->name, o->name, strlen(o->name));
    g->o.name = g->name;
    g->view.self = o->self;
    g->view.lease_ns = o->lease_ns;
    g->view.suspect_ns = g->drain_ns = g->leave_ns = INT64_MAX;
    g->sent_ns = g->safe_ns = LONG_AGO;
    g->claims_stale = true;
    g->words = (o->partitions + 63) / 64;
    g->part = leat__calloc(o->partitions, sizeof *g->part, err);
    g->todo.w = leat__calloc(g->words, sizeof *g->todo.w, err);
    g->take.w = leat__calloc(g->words, sizeof *g->take.w, err);
    if (!g->part || !g->todo.w || !g->take.w) {
        leat__group_free(g);
        return NULL;
    }
    return g;
}

void leat__group_free(leat__group *g)
{
    if (!g)
        return;
    leat__view_release(&g->view);
    leat__free(g->part);
    leat__free(g->own);
    leat__free(g->note);
    leat__free(g->todo.w);
    leat__free(g->take.w);
    leat__buf_release(&g->record);
    leat__buf_release(&g->claims);
    leat__free(g);
}

/* ---- when to beat ----------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Large groups beat less often: every beat reads all records. */
static int64_t beat_every(const leat__group *g)
{
    return g->o.lease_ns / (g->members > 100 ? 3 : 6);
}

static int64_t look_every(const leat__group *g)
{
    int64_t look = least(g->o.lease_ns / 12, 1000 * MS);
    int64_t crowd = g->members * 5 * MS;
    return least(look > crowd ? look : crowd, beat_every(g));
}

/* Between two beats at least, however much happens. */
static int64_t beat_gap(const leat__group *g)
{
    return least(10 * MS + g->members * MS, look_every(g));
}

static int64_t beat_at(const leat__group *g)
{
    if (g->beating)
        return INT64_MAX;
    if (g->asked)
        return g->now_ns;
    if (g->failed)
        return g->retry_ns;
    int64_t at = g->sent_ns + beat_every(g), soon = g->sent_ns + beat_gap(g);
    if (g->restless)
        at = least(at, g->sent_ns + look_every(g));
    if (g->dirty || g->hinted)
        at = least(at, soon);
    if (g->view.suspect_ns < at)
        at = g->view.suspect_ns > soon ? g->view.suspect_ns : soon;
    return at;
}

/* ---- owning ----------------------------------------------------------- */

static void changed(leat__group *g)
{
    g->claims_stale = g->dirty = g->replan = true;
}

/* There is room: it was made when the TAKE was given out. */
static void own_add(leat__group *g, uint32_t p, uint64_t epoch)
{
    assert(g->own_n < g->own_cap);
    g->own[g->own_n] = (struct own){ p, epoch, INT64_MAX };
    g->part[p].ref = (uint32_t)g->own_n++;
    g->part[p].state = OWNED;
    g->part[p].flags &= (uint8_t)~DRAINED;
    g->part[p].flags |= HAD;
    changed(g);
}

static void own_remove(leat__group *g, uint32_t p)
{
    struct part *x = &g->part[p];
    struct own last = g->own[--g->own_n];
    g->own[x->ref] = last;
    g->part[last.partition].ref = x->ref;
    x->ref = 0;
    x->state = NONE;
    bit_clear(&g->todo, p);
    changed(g);
}

/* ---- the end ---------------------------------------------------------- */

/* Without draining: our later life has them already, or is about to.  The
 * leases go before the record does, or whoever finds them in our name would
 * have to watch for a lease whether we live. */
static void hand_all(leat__group *g)
{
    bit_none(&g->take, g->words);
    for (size_t i = 0; i < g->own_n; i++)
        if (!(g->part[g->own[i].partition].flags & BUSY))
            to_do(g, g->own[i].partition, LEAT__GROUP_HAND);
}

/* Another life of our stable name. */
static bool is_namesake(const leat__group *g, const leat__peer *p)
{
    return g->o.stable && p->text.n > 0 && p->readable && p->rec.stable &&
           !is_self(g, p) && leat_bytes_eq(p->rec.name, leat_str(g->name));
}

static bool is_later(const leat__group *g, const leat__peer *p)
{
    return p->rec.born > g->born ||
           (p->rec.born == g->born &&
            leat__nonce_compare(&p->nonce, &g->o.self) > 0);
}

/* Is a later life of our name there?  Our own record may be gone. */
static bool outlived(const leat__group *g)
{
    for (size_t i = 0; i < g->view.n; i++)
        if (is_namesake(g, g->view.peers[i]) && is_later(g, g->view.peers[i]))
            return true;
    return false;
}

void leat__group_leave(leat__group *g, int64_t now_ns)
{
    g->now_ns = now_ns;
    if (g->leaving)
        return;
    g->leaving = g->dirty = g->replan = true;
    g->leave_ns = least(g->leave_ns, now_ns + g->o.drain_ns + g->o.lease_ns);
    bit_none(&g->take, g->words);
    for (size_t i = 0; i < g->own_n && !g->superseded; i++)
        leat__share_give(g, g->own[i].partition);
}

/* Nothing is ours and nothing may become ours. */
static bool through(const leat__group *g)
{
    if (!g->leaving && !g->superseded)
        return false;
    if (g->now_ns >= g->leave_ns)
        return true;
    return g->own_n == 0 && g->takes == 0 && g->hands == 0 && !g->beating;
}

/* ---- burying ---------------------------------------------------------- */

static bool claimed(const leat__group *g, uint32_t partition)
{
    uint32_t lo, hi;
    for (size_t i = 0; i < g->view.n; i++) {
        const leat__peer *p = g->view.peers[i];
        leat_bytes claims = p->rec.claims;
        if (p->text.n == 0 || !p->readable || leat__peer_gone(p))
            continue;
        while (leat__claims_next(&claims, &lo, &hi))
            if (partition >= lo && partition <= hi)
                return true;
    }
    return false;
}

/* No lease is in its name any more: those were ours, or are a living one's. */
static bool succeeded(const leat__group *g, const leat__peer *p)
{
    leat_bytes claims = p->rec.claims;
    uint32_t lo, hi;
    while (leat__claims_next(&claims, &lo, &hi))
        for (uint32_t i = lo; i <= hi && i < g->o.partitions; i++)
            if (!(g->part[i].flags & HAD) && !claimed(g, i))
                return false;
    return true;
}

/* An earlier life of ours whose record would outlive us, and be taken for a
 * living one's for a lease.  Where a lease may be in its name the record stays:
 * a later life takes that from it at once, and by no other sign.  One that
 * lives after all has beaten since (bury.lua), or makes its record again. */
static const leat__peer *forerunner(leat__group *g)
{
    while (!g->superseded && g->now_ns < g->leave_ns && g->tidied < g->view.n) {
        const leat__peer *p = g->view.peers[g->tidied++];
        if (is_namesake(g, p) && !is_later(g, p) && succeeded(g, p))
            return p;
    }
    return NULL;
}

/* The first of the living does it; two who think they are do no harm. */
static void choose_burials(leat__group *g)
{
    bool first = true;
    g->bury_n = 0;
    for (size_t i = 0; i < g->view.n && first; i++) {
        const leat__peer *p = g->view.peers[i];
        if (is_self(g, p))
            break;
        first = !has_share(p);
    }
    for (size_t i = 0; i < g->view.n && first; i++) {
        leat__peer *p = g->view.peers[i];
        if (p->text.n > 0 && leat__peer_gone(p) && !is_self(g, p) &&
            g->now_ns - p->gone_ns >= BURY_AFTER * g->o.lease_ns &&
            g->bury_n < BURY_AT_ONCE)
            g->bury[g->bury_n++] = p;
    }
}

/* ---- what happened ---------------------------------------------------- */

/* Read our own record: does the beat count, who are we? */
static void know_self(leat__group *g, int64_t sent_ns)
{
    size_t at = leat__view_find(&g->view, &g->o.self);
    const leat__peer *p = at < SIZE_MAX ? g->view.peers[at] : NULL;
    g->registered = p && p->text.n > 0 && p->readable;
    if (!g->registered) {
        g->dirty = true;
        return;
    }
    g->born = p->rec.born;
    if (p->rec.beat > g->beat) /* not ours: it would silence us */
        g->beat = p->rec.beat;
    else if (p->rec.beat == g->beat)
        g->safe_ns = sent_ns;
}

leat_code leat__group_beat_done(leat__group *g, int64_t sent_ns, int64_t now_ns,
                                const leat__group_record *records, size_t n,
                                leat_error *err)
{
    struct leat__share_room r = { 0 };
    bool news = false;
    leat_code rc = leat__share_prepare(
        &r, g->o.partitions, g->view.n + g->view.waiting + n + 1, err);
    if (rc == LEAT_OK)
        rc = leat__view_look(&g->view, sent_ns, now_ns, records, n, &news, err);
    if (rc != LEAT_OK) {
        leat__free(r.owner);
        return rc;
    }
    g->now_ns = now_ns;
    g->beating = g->failed = false;
    know_self(g, sent_ns);
    if (!g->superseded && news && outlived(g)) {
        g->superseded = true;
        g->leave_ns = least(g->leave_ns, now_ns + g->o.lease_ns);
    }
    if (g->superseded) /* also what failed since the last look */
        hand_all(g);
    else if (news || g->replan || g->restless)
        leat__share_plan(g, &r);
    choose_burials(g);
    leat__free(r.owner);
    return LEAT_OK;
}

void leat__group_lease(leat__group *g, int64_t lease_ns, int64_t judge_ns)
{
    assert(lease_ns > 0 && judge_ns >= lease_ns);
    g->o.lease_ns = lease_ns;
    g->view.lease_ns = judge_ns;
}

void leat__group_beat_failed(leat__group *g, int64_t now_ns)
{
    g->now_ns = now_ns;
    g->beating = false;
    g->failed = true;
    g->retry_ns = now_ns + least(g->o.lease_ns / 12, 250 * MS);
}

/* An answer to a TAKE: when that was sent, or INT64_MAX if none was. */
static int64_t take_answered(leat__group *g, uint32_t p, int64_t now_ns)
{
    struct part *x = &g->part[p];
    g->now_ns = now_ns;
    assert(p < g->o.partitions);
    if (x->state != TAKING)
        return INT64_MAX;
    int64_t sent_ns = g->taking[x->ref].sent_ns;
    struct taking last = g->taking[--g->takes];
    g->taking[x->ref] = last;
    g->part[last.partition].ref = x->ref;
    x->ref = 0;
    x->state = NONE;
    x->flags &= (uint8_t)~BUSY;
    return sent_ns;
}

/* Whether an answer to a HAND is expected still. */
static bool hand_answered(leat__group *g, uint32_t p, int64_t now_ns)
{
    struct part *x = &g->part[p];
    g->now_ns = now_ns;
    assert(p < g->o.partitions);
    if (!(x->flags & BUSY) || x->state == TAKING)
        return false;
    x->flags &= (uint8_t)~BUSY;
    g->hands--;
    return x->state == HANDING;
}

static void doubt(leat__group *g, uint32_t p)
{
    struct part *x = &g->part[p];
    x->flags |= DOUBT;
    x->flags &= (uint8_t)~ANSWERED;
    x->idle = FREE_FOR - 1;
    g->restless = true;
}

/* An answer that took longer than half a lease is from before a pause, in which
 * we may have been judged: the lease may be another's already, and the beats
 * that make us safe again came after it.  We take it anew. */
void leat__group_taken(leat__group *g, uint32_t p, uint64_t epoch,
                       int64_t now_ns)
{
    int64_t sent_ns = take_answered(g, p, now_ns);
    if (sent_ns == INT64_MAX)
        return;
    g->part[p].flags |= ANSWERED;
    own_add(g, p, epoch);
    if (g->leaving && !g->superseded)
        to_do(g, p, LEAT__GROUP_DRAIN);
    else if (g->superseded)
        to_do(g, p, LEAT__GROUP_HAND);
    else if (now_ns - sent_ns > g->o.lease_ns / 2) {
        to_do(g, p, LEAT__GROUP_DROP);
        doubt(g, p);
    }
}

/* Without memory for a note we try again at every look. */
static void note(leat__group *g, uint32_t p, const leat__nonce *owner)
{
    size_t at = leat__view_find(&g->view, owner);
    uint64_t beat = at == SIZE_MAX ? 0 : g->view.peers[at]->rec.beat;
    if (g->part[p].flags & NOTED) {
        for (size_t i = 0; i < g->note_n; i++) {
            struct note *n = &g->note[i];
            if (n->partition == p &&
                memcmp(&n->owner, owner, sizeof *owner) != 0)
                *n = (struct note){ p, *owner, beat, g->now_ns };
        }
        return;
    }
    if (g->note_n == g->note_cap) {
        size_t cap = g->note_cap * 2 + 16;
        struct note *more = leat__realloc(g->note, cap * sizeof *more, NULL);
        if (!more)
            return;
        g->note = more;
        g->note_cap = cap;
    }
    g->note[g->note_n++] = (struct note){ p, *owner, beat, g->now_ns };
    g->part[p].flags |= NOTED;
}

void leat__group_take_refused(leat__group *g, uint32_t p,
                              const leat__nonce *owner, int64_t now_ns)
{
    if (take_answered(g, p, now_ns) == INT64_MAX)
        return;
    g->part[p].flags |= ANSWERED;
    g->part[p].idle = 0;
    g->restless = true;
    leat__view_named(&g->view, owner, now_ns);
    note(g, p, owner);
}

void leat__group_take_failed(leat__group *g, uint32_t p, int64_t now_ns)
{
    if (take_answered(g, p, now_ns) < INT64_MAX)
        doubt(g, p);
}

void leat__group_drained(leat__group *g, uint32_t p, int64_t now_ns)
{
    struct part *x = &g->part[p];
    g->now_ns = now_ns;
    if (x->state != DRAINING || (x->flags & DRAINED))
        return;
    x->flags |= DRAINED;
    to_do(g, p, LEAT__GROUP_HAND);
}

void leat__group_hand_done(leat__group *g, uint32_t p, int64_t now_ns)
{
    if (hand_answered(g, p, now_ns))
        own_remove(g, p);
}

void leat__group_hand_failed(leat__group *g, uint32_t p, int64_t now_ns)
{
    if (hand_answered(g, p, now_ns))
        g->restless = true;
}

void leat__group_fenced(leat__group *g, uint32_t p, uint64_t epoch,
                        int64_t now_ns)
{
    g->now_ns = now_ns;
    if (owned(&g->part[p]) && own_of(g, p)->epoch == epoch) {
        own_remove(g, p);
        g->hinted = true;
    }
}

void leat__group_hint(leat__group *g, int64_t now_ns)
{
    g->now_ns = now_ns;
    g->hinted = true;
}

void leat__group_beat_now(leat__group *g)
{
    g->asked = true;
}

/* ---- what is to be done ----------------------------------------------- */

static leat_code list_claims(leat__group *g)
{
    uint32_t n = g->o.partitions;
    leat_code rc = LEAT_OK;
    g->claims.n = 0;
    for (uint32_t p = 0, lo; p < n && rc == LEAT_OK; p++) {
        if (!owned(&g->part[p]))
            continue;
        for (lo = p; p + 1 < n && owned(&g->part[p + 1]);)
            p++;
        rc = leat__claims_add(&g->claims, lo, p, NULL);
    }
    g->claims_stale = rc != LEAT_OK;
    return rc;
}

/* Without memory we try again a little later. */
static bool beat(leat__group *g, leat__group_action *a)
{
    leat__record r = { .beat = g->beat + 1,
                       .born = g->born,
                       .cap = g->o.cap,
                       .leaving = g->leaving || g->superseded,
                       .stable = g->o.stable,
                       .name = leat_str(g->name) };
    g->record.n = 0;
    g->asked = g->hinted = false;
    leat_code rc = g->claims_stale ? list_claims(g) : LEAT_OK;
    r.claims = leat__buf_bytes(&g->claims);
    if (rc == LEAT_OK)
        rc = leat__record_format(&g->record, &r, g->born && !g->registered,
                                 NULL);
    if (rc != LEAT_OK) {
        leat__group_beat_failed(g, g->now_ns);
        return false;
    }
    g->beat++;
    g->beating = true;
    g->dirty = false;
    g->sent_ns = g->now_ns;
    a->what = LEAT__GROUP_BEAT;
    a->record = leat__buf_bytes(&g->record);
    return true;
}

/* Hand over what drained for too long, and note the next that will. */
static void end_drains(leat__group *g)
{
    g->drain_ns = INT64_MAX;
    for (size_t i = 0; i < g->own_n; i++) {
        const struct own *o = &g->own[i];
        if (g->part[o->partition].state != DRAINING)
            continue;
        if (o->drain_ns <= g->now_ns)
            to_do(g, o->partition, LEAT__GROUP_HAND);
        else
            g->drain_ns = least(g->drain_ns, o->drain_ns);
    }
}

static void do_own(leat__group *g, leat__group_action *a)
{
    uint32_t p = bit_take(&g->todo, g->words);
    struct part *x = &g->part[p];
    struct own *o = own_of(g, p);
    a->what = (leat__group_do)x->todo;
    a->partition = p;
    a->epoch = o->epoch;
    switch (a->what) {
    case LEAT__GROUP_DRAIN:
        x->state = DRAINING;
        o->drain_ns = g->now_ns + g->o.drain_ns;
        g->drain_ns = least(g->drain_ns, o->drain_ns);
        break;
    case LEAT__GROUP_KEEP:
        x->state = OWNED;
        x->flags &= (uint8_t)~DRAINED;
        break;
    case LEAT__GROUP_HAND:
        x->state = HANDING;
        x->flags |= BUSY;
        g->hands++;
        break;
    default:
        assert(a->what == LEAT__GROUP_DROP);
        own_remove(g, p);
    }
}

/* Room for owning all that is being taken. */
static bool room_to_own(leat__group *g)
{
    size_t need = g->own_n + g->takes + 1;
    if (need <= g->own_cap)
        return true;
    size_t cap = need + need / 2 + 4;
    struct own *more = leat__realloc(g->own, cap * sizeof *more, NULL);
    if (!more)
        return false;
    g->own = more;
    g->own_cap = cap;
    return true;
}

/* A plan is acted on while it is fresh: who was paused in between has to look
 * again before it takes from one it judged dead. */
static bool may_take(leat__group *g)
{
    if (g->take.count == 0 || g->takes >= TAKES_AT_ONCE)
        return false;
    if (g->now_ns - g->view.sent_ns > g->o.lease_ns / 3) {
        bit_none(&g->take, g->words);
        g->hinted = g->replan = true;
        return false;
    }
    if (room_to_own(g))
        return true;
    bit_none(&g->take, g->words);
    g->restless = g->replan = true;
    return false;
}

static void do_take(leat__group *g, leat__group_action *a)
{
    uint32_t p = bit_take(&g->take, g->words);
    struct part *x = &g->part[p];
    a->what = LEAT__GROUP_TAKE;
    a->partition = p;
    a->from_dead = x->ref > 0;
    if (a->from_dead) {
        const leat__peer *peer = g->view.peers[x->ref - 1];
        a->from = peer->nonce;
        a->superseded = peer->superseded;
    }
    x->state = TAKING;
    x->flags |= BUSY;
    x->ref = (uint32_t)g->takes;
    g->taking[g->takes++] = (struct taking){ p, g->now_ns };
}

static void do_bury(const leat__peer *p, leat__group_action *a)
{
    a->what = LEAT__GROUP_BURY;
    a->other = p->nonce;
    a->record = leat__buf_bytes(&p->text);
}

leat__group_action leat__group_next(leat__group *g, int64_t now_ns)
{
    leat__group_action a = { .what = LEAT__GROUP_NOTHING };
    g->now_ns = now_ns;
    if (g->out)
        return a;
    if (now_ns >= g->drain_ns)
        end_drains(g);
    if (through(g)) {
        const leat__peer *before = forerunner(g);
        if (before)
            do_bury(before, &a);
        else
            a.what = LEAT__GROUP_LEAVE;
        g->out = !before;
    } else if (beat_at(g) <= now_ns && beat(g, &a)) {
        return a;
    } else if (g->todo.count > 0) {
        do_own(g, &a);
    } else if (may_take(g)) {
        do_take(g, &a);
    } else if (g->bury_n > 0) {
        do_bury(g->bury[--g->bury_n], &a);
    }
    return a;
}

int64_t leat__group_due(const leat__group *g)
{
    if (g->out)
        return INT64_MAX;
    if (g->todo.count > 0 || g->bury_n > 0 || through(g) ||
        (g->take.count > 0 && g->takes < TAKES_AT_ONCE))
        return g->now_ns;
    int64_t at = least(beat_at(g), g->drain_ns);
    return least(at, g->leave_ns);
}

/* ---- what is the case ------------------------------------------------- */

int64_t leat__group_safe_until(const leat__group *g)
{
    return g->safe_ns + g->o.lease_ns;
}

bool leat__group_owns(const leat__group *g, uint32_t p)
{
    return p < g->o.partitions && owned(&g->part[p]);
}

uint32_t leat__group_owned(const leat__group *g)
{
    return (uint32_t)g->own_n;
}

uint32_t leat__group_members(const leat__group *g)
{
    return g->members;
}
