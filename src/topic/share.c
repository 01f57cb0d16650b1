/*
 * share.c: what a member should have, and what it does to get there.
 *
 * Reads what all claim, has the plan made, and sets what is to be given out:
 * TAKE for what is free and ours by the plan, DRAIN and HAND for what is not,
 * KEEP for what was to go and stays.
 */
#include "topic/machine.h"

#include "base/mem.h"

leat_code leat__share_prepare(struct leat__share_room *r, uint32_t partitions,
                              size_t members, leat_error *err)
{
    r->owner = leat__alloc((partitions + 3 * members) * sizeof *r->owner, err);
    if (!r->owner)
        return LEAT_ENOMEM;
    r->have = (uint32_t *)r->owner + partitions;
    r->cap = r->have + members;
    r->quota = r->cap + members;
    return LEAT_OK;
}

/* What one record claims.  as: its index, or HELD, or for the dead FREE, which
 * leaves a note of whom it is to be taken from. */
static void claim(leat__group *g, struct leat__share_room *r,
                  const leat__peer *peer, int32_t as, uint32_t at)
{
    leat_bytes claims = peer->rec.claims;
    uint32_t lo, hi;
    while (leat__claims_next(&claims, &lo, &hi)) {
        for (uint32_t p = lo; p <= hi && p < g->o.partitions; p++) {
            if (as == LEAT__PLAN_FREE && g->part[p].state == NONE)
                g->part[p].ref = at + 1;
            else if (as != LEAT__PLAN_FREE && r->owner[p] < 0)
                r->owner[p] = as;
        }
    }
}

static void clear_claims(leat__group *g, struct leat__share_room *r)
{
    for (uint32_t p = 0; p < g->o.partitions; p++) {
        r->owner[p] = LEAT__PLAN_FREE;
        if (g->part[p].state == NONE)
            g->part[p].ref = 0;
    }
}

/* As what the claims of another count: its index, HELD, or FREE if it is dead.
 * Its index is the next one if it has a share. */
static int32_t standing(const leat__peer *p, size_t members)
{
    if (has_share(p))
        return (int32_t)members;
    return leat__peer_gone(p) ? LEAT__PLAN_FREE : LEAT__PLAN_HELD;
}

/* Two that claim the same: one was judged dead by the other.  It is silent to
 * us, too, and what it claims is the other's. */
static void survey_others(leat__group *g, struct leat__share_room *r)
{
    size_t members = 0;
    for (size_t i = 0; i < g->view.n; i++) {
        const leat__peer *p = g->view.peers[i];
        if (p->text.n == 0 || !p->readable)
            continue;
        if (!is_self(g, p))
            claim(g, r, p, standing(p, members), (uint32_t)i);
        members += is_self(g, p) ? !g->leaving : has_share(p);
    }
}

/* Who shares, in the order of nonces; and how many live. */
static void survey_members(leat__group *g, struct leat__share_room *r,
                           leat__plan *plan)
{
    plan->members = 0;
    plan->me = SIZE_MAX;
    g->members = 0;
    g->sure = true;
    for (size_t i = 0; i < g->view.n; i++) {
        const leat__peer *p = g->view.peers[i];
        bool self = is_self(g, p);
        if (p->text.n == 0 || leat__peer_gone(p) ||
            (self ? g->leaving : p->readable && p->rec.leaving))
            continue;
        g->members++;
        if (!p->readable || (!self && !has_share(p)))
            continue;
        if (self)
            plan->me = plan->members;
        else if (!p->proven)
            g->sure = false;
        r->cap[plan->members++] = self ? g->o.cap : p->rec.cap;
    }
}

/* Read all claims into r and plan; of ourselves what is, not what we said. */
static void survey(leat__group *g, struct leat__share_room *r, leat__plan *plan)
{
    clear_claims(g, r);
    survey_members(g, r, plan);
    survey_others(g, r);
    int32_t me = plan->me < plan->members ? (int32_t)plan->me
                                          : LEAT__PLAN_SPARE;
    for (size_t i = 0; i < g->own_n; i++)
        r->owner[g->own[i].partition] = me;
}

/* It lives, and has said often enough since that it does not have it. */
static bool unaware(const leat__group *g, const leat__peer *p,
                    const struct note *n)
{
    return p->readable && n->beat > 0 && p->rec.beat >= n->beat + UNCLAIMED &&
           g->now_ns - n->since_ns >= UNCLAIMED * g->o.lease_ns;
}

/* Drop the notes of what is no longer free; what is left is taken from its
 * owner if that is dead by now, or does not know that it is. */
static void heed_notes(leat__group *g, const struct leat__share_room *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < g->note_n; i++) {
        struct note n = g->note[i];
        struct part *x = &g->part[n.partition];
        size_t at = leat__view_find(&g->view, &n.owner);
        if (x->state != NONE || r->owner[n.partition] != LEAT__PLAN_FREE ||
            at == SIZE_MAX) {
            x->flags &= (uint8_t)~NOTED;
            continue;
        }
        const leat__peer *owner = g->view.peers[at];
        if (leat__peer_gone(owner) || unaware(g, owner, &n)) {
            x->ref = (uint32_t)at + 1;
            x->flags &= (uint8_t)~NOTED;
            continue;
        }
        g->note[kept++] = n;
    }
    g->note_n = kept;
}

static void want(leat__group *g, uint32_t p, size_t *noted)
{
    struct part *x = &g->part[p];
    g->restless = true;
    if (x->flags & BUSY)
        return;
    if (x->flags & NOTED) {
        size_t turns = (g->note_n + REFUSED_AT_ONCE - 1) / REFUSED_AT_ONCE;
        size_t k = (*noted)++ / REFUSED_AT_ONCE;
        if (turns > 1 && k % turns != g->turn % turns)
            return;
    }
    bit_set(&g->take, p);
}

/* May it be ours since a TAKE was lost?  It stays free though it is another's
 * to take.  A TAKE that was answered settles it, unless the lost one arrives
 * only after that. */
static bool doubtful(struct part *x)
{
    if (!(x->flags & DOUBT))
        return false;
    if (x->idle < FREE_FOR_LONG)
        x->idle++;
    return x->idle >= (x->flags & ANSWERED ? FREE_FOR_LONG : FREE_FOR);
}

static void choose_takes(leat__group *g, const leat__plan *plan)
{
    uint64_t nth = 0;
    size_t noted = 0;
    for (uint32_t p = 0; p < plan->partitions; p++) {
        int32_t owner = plan->owner[p];
        bool ours = nth >= plan->first && nth < plan->end;
        bool wanted = nth < plan->wanted;
        nth += owner < 0;
        if (owner != LEAT__PLAN_FREE || !wanted) {
            g->part[p].idle = 0;
            continue;
        }
        if (ours || doubtful(&g->part[p]))
            want(g, p, &noted);
        else if (g->part[p].flags & DOUBT)
            g->restless = true;
    }
    g->turn++;
}

void leat__share_give(leat__group *g, uint32_t p)
{
    const struct part *x = &g->part[p];
    if (x->flags & BUSY)
        return;
    if (x->state == OWNED)
        to_do(g, p, LEAT__GROUP_DRAIN);
    else if (x->state == HANDING || (x->flags & DRAINED) ||
             own_of(g, p)->drain_ns <= g->now_ns)
        to_do(g, p, LEAT__GROUP_HAND);
}

/* What is handed over already goes on; the rest as the plan says. */
static void choose_gives(leat__group *g, const leat__plan *plan)
{
    for (size_t i = 0; i < g->own_n; i++) {
        uint32_t p = g->own[i].partition;
        bool spare = plan->owner[p] == LEAT__PLAN_SPARE;
        if (spare && g->part[p].state == OWNED && !g->sure && !g->leaving)
            g->restless = true; /* the one it is for may be dead */
        else if (spare || g->part[p].state == HANDING)
            leat__share_give(g, p);
        else if (g->part[p].state == DRAINING)
            to_do(g, p, LEAT__GROUP_KEEP);
    }
}

/* While our record is not there, others do not count on us: we keep what we
 * have and take nothing. */
void leat__share_plan(leat__group *g, struct leat__share_room *r)
{
    leat__plan plan = { .partitions = g->o.partitions,
                        .owner = r->owner,
                        .have = r->have,
                        .cap = r->cap,
                        .quota = r->quota };
    g->replan = g->restless = false;
    bit_none(&g->todo, g->words);
    bit_none(&g->take, g->words);
    survey(g, r, &plan);
    if (!g->registered && !g->leaving) {
        g->replan = true;
        return;
    }
    leat__plan_make(&plan);
    heed_notes(g, r);
    if (plan.me < plan.members)
        choose_takes(g, &plan);
    choose_gives(g, &plan);
    g->restless |= g->todo.count > 0 || g->takes > 0 || g->hands > 0;
}
