/*
 * judge.h: which of the messages that are not in a log any more are lost.
 *
 * Pure code.  An entry that was acknowledged can be missing because somebody
 * trimmed or deleted it, which is no loss, or because the log has gone back to
 * an earlier state or begun anew, which is: a crash before it was on disk, a
 * replica that was promoted without it, FLUSHALL, DEL.
 */
#ifndef LEAT_TOPIC_JUDGE_H
#define LEAT_TOPIC_JUDGE_H

#include "topic/print.h"

/* What the log says of itself. */
typedef struct leat__log_facts {
    bool there;
    uint64_t length;
    leat__id last;    /* id ever given                                     */
    leat__id first;   /* entry; with length > 0                            */
    bool counted;     /* the next two are known: Redis 7                   */
    uint64_t added;   /* entries, ever                                     */
    leat__id deleted; /* the highest id that was deleted singly            */
} leat__log_facts;

typedef enum leat__seen {
    LEAT__SEEN_SAME = 0,
    LEAT__SEEN_GONE,
    LEAT__SEEN_OTHER /* another entry has that id                          */
} leat__seen;

/* Acknowledged messages, oldest first, and whether each was found. */
typedef struct leat__case {
    leat__log_facts facts;
    bool moved; /* another server answers, or another life of it, than when  */
                /* they were acknowledged                                    */
    bool counted;
    uint64_t added;    /* what facts.added was while prints[verified] was    */
                       /* seen in the log, if counted                        */
    uint32_t verified; /* == n: none was                                     */
    uint32_t n;
    const leat__print **prints;
    const leat__seen *seen;
} leat__case;

/* Set lost[i]; how many are. */
uint32_t leat__judge(const leat__case *c, bool *lost);

/* The next run of lost ones from `from` on: its first, one behind its last, and
 * whether no more can have been lost before or within it.  False: none. */
bool leat__judge_run(const leat__case *c, const bool *lost, uint32_t from,
                     uint32_t *first, uint32_t *end, bool *exact);

#endif
