/*
 * ripen.h: delayed messages go to the log when their time has come.
 *
 * ripe.lua moves them; somebody has to run it.  Every owner of a partition
 * does, whatever its group, and a producer that has delayed messages, as long
 * as it is open.  Two at once do no harm.  The answer says when the next is
 * due; others may have added an earlier one by then, so it is looked every
 * second or so.
 * Threads: confined.
 */
#ifndef LEAT_TOPIC_RIPEN_H
#define LEAT_TOPIC_RIPEN_H

#include "redis/conn.h"
#include "topic/topic.h"

/* One partition. */
typedef struct leat__ripe {
    leat_topic *topic;
    uint32_t partition;
    bool out;        /* the script is under way                            */
    bool enough;     /* not again when nothing waits                       */
    int64_t due_ns;  /* when it is to be run                               */
    int64_t soon_ns; /* one that was added since it was sent is due        */
    int64_t calm_ns; /* how far apart looks are                            */
} leat__ripe;

/* Run it once.  The answer sets due_ns. */
leat_code leat__ripe_send(leat__ripe *r, leat_conn *c, leat_error *err);

/* One is due in so long. */
void leat__ripe_soon(leat__ripe *r, int64_t ms);

/* How far apart looks are where so many partitions are looked at. */
int64_t leat__ripe_calm(uint32_t partitions);

/* Those of a producer. */
typedef struct leat__ripening {
    leat_topic *topic;
    leat__ripe **of;
    uint32_t count, cap, most, turn;
} leat__ripening;

void leat__ripening_init(leat__ripening *r, leat_topic *t, uint32_t most);
void leat__ripening_release(leat__ripening *r);

/* A message waits in that partition, for so long.  Without memory the owners
 * have to do. */
void leat__ripening_add(leat__ripening *r, uint32_t partition, int64_t ms);

/* Run what is due, on a connection that has room for it. */
void leat__ripening_step(leat__ripening *r, leat_conn *c, int64_t now_ns);
int64_t leat__ripening_due(const leat__ripening *r);

#endif
