/*
 * tend.h: what the owner of a partition does for the whole topic.
 *
 * Threads: the driver's.
 */
#ifndef LEAT_TOPIC_TEND_H
#define LEAT_TOPIC_TEND_H

#include "topic/consumer.h"
#include "topic/trim.h"

struct leat__tend {
    leat__trim_names names;
    leat__topic_at at;
    int64_t next_ns;    /* when there is something to do                   */
    int64_t often_ns;   /* between two trims, with something to trim       */
    int64_t policy_ns;  /* between two looks at the policy                 */
    int64_t names_ns;   /* when they were read; 0: they are to be read     */
    uint32_t out;       /* trims under way                                 */
    bool asking, bulk;  /* for names; the server cuts up to an id          */
    bool blind;         /* the server does not count entries: no gap shows */
    uint32_t look_turn; /* of gap.c                                        */
    leat_counter *trimmed, *lost, *forgotten;
    leat_gauge *abandoned;
};

#endif
