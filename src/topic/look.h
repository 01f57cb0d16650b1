/*
 * look.h: what there is to be seen of a topic's partitions.
 */
#ifndef LEAT_TOPIC_LOOK_H
#define LEAT_TOPIC_LOOK_H

#include "topic/describe.h"

/* Of a partition; what is not known is -1. */
typedef struct leat__look {
    int64_t now_ms; /* by the server's clock                                */
    leat__log_info log;
    leat_position end; /* the last id ever given                            */
    int64_t bytes, dead, later;
    double rate; /* messages a second that come in                          */

    /* Of a group, if one was named.  Texts are in the arena. */
    bool begun, count_known;
    leat_position cursor, mark;
    uint64_t count;      /* entries ever added up to the cursor, if known  */
    const char *settled; /* see window_text.c                              */
    const char *attempts;
    int64_t detached_ms; /* since when its messages are not kept; 0: they are */
    const char *nonce;   /* of the owner; NULL: nobody                        */
    uint64_t epoch;
    const char *why; /* it has that owner; NULL: not known                  */
    int64_t when_ms;
    int64_t kept;    /* messages put by                                     */
    int64_t waiting; /* of these, for their time; the first of lanes, too   */
    int64_t due;     /* of these, so many for nothing more                  */
    int64_t laned;   /* in lanes, the first of each included                */
} leat__look;

/* One for each partition.  With a group what is known of that, without one what
 * is told of the topic: bytes, dead, later and rate. */
leat_code leat__look_all(const leat__topic_at *t, leat_conn *conn,
                         const char *group, leat__arena *arena, leat__look *out,
                         leat_error *err);

/* What XINFO STREAM says of a log: `log` and `end`.  False: not even that. */
bool leat__look_info(const leat_reply *r, leat__look *to);

/* The next of "id", "id:id", split by commas: what is settled.  False at the
 * end, and where it is no range. */
typedef struct leat__look_range {
    leat_position first, last;
} leat__look_range;

bool leat__look_settled(const char **text, leat__look_range *out);

/* The next of "id=N": how often it was handed out. */
bool leat__look_attempts(const char **text, leat_position *id, uint32_t *n);

#endif
