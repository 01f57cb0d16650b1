/*
 * sentinel_reply.h: what sentinels say, and which of them to follow.
 *
 * Pure functions over replies.  A sentinel can be behind the others, cut off
 * from them, misconfigured, or not be a sentinel at all: whatever it sends is
 * read as an answer of one of three kinds, or refused.
 */
#ifndef LEAT_REDIS_SENTINEL_REPLY_H
#define LEAT_REDIS_SENTINEL_REPLY_H

#include "redis/line.h"

typedef enum leat__sentinel_said {
    LEAT__SENTINEL_SILENT = 0, /* was not asked, or gave no good answer */
    LEAT__SENTINEL_NOBODY,     /* does not know the service             */
    LEAT__SENTINEL_NAMED
} leat__sentinel_said;

typedef struct leat__sentinel_answer {
    leat__sentinel_said said;
    bool tried;       /* the address was dialled in vain: not again  */
    leat__address at; /* with NAMED                                  */
    int64_t epoch;    /* of the configuration it knows; 0: not told  */
} leat__sentinel_answer;

/* The master that was found and verified last. */
typedef struct leat__sentinel_known {
    bool is;
    leat__address at;
    int64_t epoch;
    uint64_t change; /* counts the masters */
} leat__sentinel_known;

typedef enum leat__sentinel_role {
    LEAT__ROLE_MASTER,
    LEAT__ROLE_REPLICA,
    LEAT__ROLE_OTHER /* a sentinel, or nothing that is known */
} leat__sentinel_role;

/* GET-MASTER-ADDR-BY-NAME.  False: neither an address nor "nobody". */
bool leat__sentinel_read_address(const leat_reply *r,
                                 leat__sentinel_answer *out);

/* The config-epoch of SENTINEL MASTER; 0 where there is none. */
int64_t leat__sentinel_read_epoch(const leat_reply *r);

/* SENTINEL REPLICAS: those that are not held to be down.  Fills up to room and
 * returns how many there are. */
size_t leat__sentinel_read_replicas(const leat_reply *r, leat_node *out,
                                    size_t room);

leat__sentinel_role leat__sentinel_read_role(const leat_reply *r);

/* Which of n answers to follow, of a service with so many sentinels; n: none
 * yet, ask the others, or all of them again a little later.
 *
 * Most must agree: of all sentinels while some were not asked, then of those
 * that named somebody.  So one that lies, or is behind, moves nobody, whatever
 * its epoch.  Right after a failover they differ for a second or two; then the
 * known master stays unless one of them knows of a later one.  An older epoch
 * than the known one is followed only when nobody names the known master any
 * more and most sentinels answered (they were set up anew). */
size_t leat__sentinel_choose(const leat__sentinel_known *known,
                             const leat__sentinel_answer *a, size_t n,
                             size_t sentinels);

#endif
