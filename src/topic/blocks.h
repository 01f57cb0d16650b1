/*
 * blocks.h: the lanes of a partition that stand still.
 *
 * A lane is a number, see leat__lane_of; the text of it is what the server has.
 * Threads: confined.
 */
#ifndef LEAT_TOPIC_BLOCKS_H
#define LEAT_TOPIC_BLOCKS_H

#include "base/error.h"
#include "message/id.h"
#include <leat/topic.h>

/* 0: no lane.  A key's is odd. */
#define LEAT__LANE_STAR UINT64_C(2) /* of the whole partition */

enum { LEAT__LANE_TEXT = 17 }; /* 16 digits and the end */

/* The same in every process: lanes are kept by the server. */
uint64_t leat__lane_of(leat_bytes key);
leat_bytes leat__lane_format(uint64_t lane, char text[LEAT__LANE_TEXT]);
bool leat__lane_parse(leat_bytes text, uint64_t *lane);

struct leat__step;

typedef struct leat__blocked {
    uint64_t lane;
    uint32_t out;   /* messages of it that users have                    */
    uint32_t steps; /* that bring messages into it, not known to be done */
    leat__id last;  /* STAR: the last one that failed                    */
    struct leat__step *held; /* by id; until nothing is out              */
} leat__blocked;

/* Zero-initialised is empty. */
typedef struct leat__blocks {
    leat__blocked *slots;
    uint32_t count;
    uint32_t cap; /* 0, or a power of two */
} leat__blocks;

/* NULL: it flows.  Valid until the next add or remove. */
leat__blocked *leat__blocks_find(const leat__blocks *b, uint64_t lane);

/* The block of this lane, made if there is none; NULL: no memory. */
leat__blocked *leat__blocks_add(leat__blocks *b, uint64_t lane,
                                leat_error *err);
void leat__blocks_remove(leat__blocks *b, leat__blocked *one);

/* Each once: start with *at = 0, end at NULL. */
leat__blocked *leat__blocks_next(const leat__blocks *b, uint32_t *at);
void leat__blocks_release(leat__blocks *b);

#endif
