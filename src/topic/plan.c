/*
 * plan.c: the balanced, sticky target.
 *
 * Every member makes the plan for itself, from records that it read all at
 * once, with the members in the order of their nonces.  So two that know the
 * same plan the same, and no one has to lead.
 *
 * What moves is what is free, what members have above their quotas (their
 * highest numbers), and what those have who leave.  It is dealt out in
 * ascending order: the first so many to the first member below its quota, and
 * so on.  While the moves are carried out, in whatever order, the plan stays
 * the same: a partition that is handed over turns from spare to free, one that
 * is taken leaves the list together with one place of its taker, and the quotas
 * do not change by moves towards them (see odd_ones).
 */
#include "topic/plan.h"

#include <assert.h>

static uint32_t room(const uint32_t *cap, size_t i, uint32_t level)
{
    return cap[i] != 0 && cap[i] < level ? cap[i] : level;
}

static uint64_t placed(const uint32_t *cap, size_t members, uint32_t level)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < members; i++)
        sum += room(cap, i, level);
    return sum;
}

/* The highest level to which all can be filled, as far as their caps go. */
static uint32_t level_of(uint32_t partitions, const uint32_t *cap,
                         size_t members)
{
    uint32_t lo = 0, hi = partitions;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo + 1) / 2;
        if (placed(cap, members, mid) <= partitions)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

/* One more each for as many as there are left over: first for those who have
 * more than the level already, then for the others, both in order.  By order
 * and not by how many they have: who gives up its surplus stays above the level
 * until it has its quota, so that its claim to an odd one outlives the way
 * there. */
static uint64_t odd_ones(uint64_t left, uint32_t level, bool above,
                         const uint32_t *have, const uint32_t *cap,
                         size_t members, uint32_t *quota)
{
    for (size_t i = 0; i < members && left > 0; i++) {
        if ((have[i] > level) != above || room(cap, i, level + 1) == level ||
            quota[i] != level)
            continue;
        quota[i]++;
        left--;
    }
    return left;
}

void leat__plan_quota(uint32_t partitions, const uint32_t *have,
                      const uint32_t *cap, size_t members, uint32_t *quota)
{
    uint32_t level = level_of(partitions, cap, members);
    uint64_t left = partitions - placed(cap, members, level);
    for (size_t i = 0; i < members; i++)
        quota[i] = room(cap, i, level);
    left = odd_ones(left, level, true, have, cap, members, quota);
    (void)odd_ones(left, level, false, have, cap, members, quota);
}

static void count(leat__plan *plan)
{
    for (size_t i = 0; i < plan->members; i++)
        plan->have[i] = 0;
    for (uint32_t p = 0; p < plan->partitions; p++) {
        if (plan->owner[p] < 0)
            continue;
        assert((size_t)plan->owner[p] < plan->members);
        plan->have[plan->owner[p]]++;
    }
}

/* Of each member above its quota the highest numbers; have is counted down to
 * what they keep. */
static void mark_spare(leat__plan *plan)
{
    for (uint32_t p = plan->partitions; p-- > 0;) {
        int32_t i = plan->owner[p];
        if (i < 0 || plan->have[i] <= plan->quota[i])
            continue;
        plan->have[i]--;
        plan->owner[p] = (size_t)i == plan->me ? LEAT__PLAN_SPARE
                                               : LEAT__PLAN_HELD;
    }
}

void leat__plan_make(leat__plan *plan)
{
    count(plan);
    leat__plan_quota(plan->partitions, plan->have, plan->cap, plan->members,
                     plan->quota);
    mark_spare(plan);
    plan->first = plan->end = plan->wanted = 0;
    for (size_t i = 0; i < plan->members; i++) {
        if (i == plan->me)
            plan->first = plan->wanted;
        plan->wanted += plan->quota[i] - plan->have[i];
        if (i == plan->me)
            plan->end = plan->wanted;
    }
}
