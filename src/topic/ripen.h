/*
 * ripen.h: delayed messages go to the log when their time has come.
 *
 * ripe.lua moves them; somebody has to run it.  Every owner of a partition
 * does, whatever its group, and every producer, as long as it is open; whoever
 * looks at a topic does it first.  Two at once do no harm.  The answer says
 * when the next is due; others may have added an earlier one by then, so it is
 * looked every second or so, by a producer every five where nothing waits.
 * Threads: confined.
 */
#ifndef LEAT_TOPIC_RIPEN_H
#define LEAT_TOPIC_RIPEN_H

#include "redis/conn.h"
#include "topic/describe.h"

/* One partition. */
typedef struct leat__ripe {
    leat_topic *topic;
    uint32_t partition;
    bool out;          /* the script is under way                            */
    int64_t due_ns;    /* when it is to be run                               */
    int64_t soon_ns;   /* one that was added since it was sent is due        */
    int64_t calm_ns;   /* how far apart looks are                            */
    int64_t idle_ns;   /* and where nothing waits                            */
    int64_t *first_ns; /* the first that is due of several; NULL: it is one */
} leat__ripe;

/* Run it once.  The answer sets due_ns. */
leat_code leat__ripe_send(leat__ripe *r, leat_conn *c, leat_error *err);

/* One is due in so long. */
void leat__ripe_soon(leat__ripe *r, int64_t ms);

/* How far apart looks are where so many partitions are looked at. */
int64_t leat__ripe_calm(uint32_t partitions);

/* Move what is due of these partitions, as much as a call each does, for one
 * who looks at the topic.  A user or a server that may not does not hinder him:
 * nothing is told. */
void leat__ripe_look(const leat__topic_at *t, leat_conn *c, uint32_t first,
                     uint32_t count);

/* Those of a producer, `count` from `first` on. */
typedef struct leat__ripening {
    leat__ripe *of;
    uint32_t first, count, turn;
    int64_t first_ns; /* when the first of them is due */
} leat__ripening;

leat_code leat__ripening_init(leat__ripening *r, leat_topic *t, uint32_t first,
                              uint32_t count, leat_error *err);
void leat__ripening_release(leat__ripening *r);

/* A message waits in that partition, for so long. */
void leat__ripening_add(leat__ripening *r, uint32_t partition, int64_t ms);

/* Run what is due, on a connection that has room for it. */
void leat__ripening_step(leat__ripening *r, leat_conn *c, int64_t now_ns);
int64_t leat__ripening_due(const leat__ripening *r);

#endif
