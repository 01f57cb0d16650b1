/*
 * trim.h: one call of the script that trims a log.  See trim.c.
 *
 * Threads: confined.
 */
#ifndef LEAT_TOPIC_TRIM_H
#define LEAT_TOPIC_TRIM_H

#include "topic/describe.h"

enum {
    LEAT__TRIM_GROUPS = 1000, /* with more nothing is trimmed              */
    LEAT__TRIM_BULK = 5000,   /* entries a call, where nodes can be cut,   */
    LEAT__TRIM_PIECE = 250    /* and where they are counted                */
};

/* A group of the topic; after these others that the server has. */
typedef struct leat__trim_name {
    char text[LEAT_NAME_MAX + 1 + LEAT__INCARNATION + 1];
    char state;         /* as the script said last: '0' to '3'           */
    int64_t alarmed_ns; /* when that was logged; 0: never                */
    uint64_t held;      /* entries that go for it alone; trim_now.c      */
} leat__trim_name;

typedef struct leat__trim_names {
    leat__trim_name *list;
    size_t groups, all, room;
    size_t named; /* of these, up to the last reading: the others were not  */
                  /* among the groups then, as far as is known              */
} leat__trim_names;

void leat__trim_names_release(leat__trim_names *n);

/* From the answer to SMEMBERS.  What was noted of those that are still there
 * stays; `others` are kept as they are. */
leat_code leat__trim_names_read(leat__trim_names *n, const leat_reply *r,
                                leat_error *err);

/* What to keep, and how much to take away in this call. */
typedef struct leat__trim_how {
    int64_t max_age_ms;  /* -1: whatever the age                          */
    int64_t max_entries; /* -1: whatever the number                       */
    leat_forget forget;
    leat_abandoned abandoned;
    int64_t abandoned_ms;
    int64_t most; /* 0: only look                                         */
    bool bulk;    /* the server cuts up to an id                          */
    bool force;
} leat__trim_how;

/* By the topic's retention; false: everything is kept, and nobody watched. */
bool leat__trim_by(const leat_retention *r, bool bulk, leat__trim_how *out);

typedef struct leat__trim_result {
    int64_t taken, length;
    bool again; /* there may be more                                      */
    bool asks;  /* groups were not named: others has them now             */
    char holder[LEAT_NAME_MAX + 1];
    leat_position limit, cut; /* zero: none                               */
    leat_position want;       /* the cut, if no group held anything back  */
    int64_t wait_ms;          /* -1: not known                            */
} leat__trim_result;

leat_code leat__trim_send(leat_conn *c, const leat__topic_at *t,
                          uint32_t partition, const leat__trim_names *n,
                          const leat__trim_how *how, const leat_send_opts *o,
                          leat_error *err);

/* States go to the names. */
leat_code leat__trim_read(const leat_reply *r, leat__trim_names *n,
                          leat__trim_result *out, leat_error *err);

#endif
