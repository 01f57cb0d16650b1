/*
 * plan.h: who should have which partition.
 *
 * Pure and the same for all who know the same: see plan.c.
 */
#ifndef LEAT_TOPIC_PLAN_H
#define LEAT_TOPIC_PLAN_H

#include "topic/group.h"

/* Who has a partition, if it is not the index of a member. */
enum {
    LEAT__PLAN_FREE = -1, /* nobody's                                      */
    LEAT__PLAN_HELD = -2, /* of one who leaves: to be somebody's soon      */
    LEAT__PLAN_SPARE = -3 /* out: `me` has it and is to give it up         */
};

typedef struct leat__plan {
    uint32_t partitions;
    int32_t *owner; /* [partitions]; changed by the making                 */
    size_t members;
    size_t me;              /* index, or `members`: we have no share          */
    const uint32_t *cap;    /* [members]; 0: no limit                         */
    uint32_t *have, *quota; /* [members], made here                        */

    /* Out: of the partitions that move, in ascending order, ours are those
     * from first up to, not including, end. */
    uint64_t first, end;
    uint64_t wanted; /* so many of them are anybody's                      */
} leat__plan;

/* Afterwards owner[p] is the index of a member that keeps it, SPARE for what we
 * give up, HELD for what others give up, FREE.  The n-th partition whose owner
 * is negative goes to us if first <= n < end. */
void leat__plan_make(leat__plan *plan);

#endif
