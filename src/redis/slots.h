/*
 * slots.h: which node of a cluster has which keys, as a node tells it.
 *
 * Pure functions over replies: CLUSTER SLOTS, which every cluster knows, and
 * CLUSTER SHARDS of Redis 7, which also tells who is failing.  A reply comes
 * from outside: what does not fit the bounds below is refused as a whole.
 */
#ifndef LEAT_REDIS_SLOTS_H
#define LEAT_REDIS_SLOTS_H

#include "base/crc16.h"
#include "base/error.h"
#include "redis/line.h"

enum {
    LEAT__SLOTS_NODES = 4096, /* of one cluster */
    LEAT__SLOTS_NONE = UINT16_MAX
};

typedef struct leat__slots_node {
    leat__address at;
    bool master;
    bool failing; /* by the word of the node that was asked */
    int primary;  /* of a replica: the index of its master, or -1 */
    int slots;    /* that it serves */
} leat__slots_node;

typedef struct leat__slots {
    leat__slots_node *nodes;
    size_t count, cap;
    uint16_t owner[LEAT__SLOTS]; /* index of its master, or NONE */
} leat__slots;

void leat__slots_init(leat__slots *m);
void leat__slots_release(leat__slots *m);

/* Fill m, which is empty, from the reply of the node `asked`: a node without a
 * name is on the same host.  tls: prefer the TLS ports that SHARDS tells.  On
 * failure m is empty again; LEAT_EPROTO: not such a reply. */
leat_code leat__slots_read(leat__slots *m, const leat_reply *slots,
                           const leat__address *asked, leat_error *err);
leat_code leat__slots_read_shards(leat__slots *m, const leat_reply *shards,
                                  const leat__address *asked, bool tls,
                                  leat_error *err);

/* The master of a slot; NULL: nobody serves it. */
const leat__slots_node *leat__slots_owner(const leat__slots *m, unsigned slot);

/* The node at this address, or -1. */
int leat__slots_find(const leat__slots *m, const leat__address *at);

/* This node has the slot from now on; it is added where it is new. */
leat_code leat__slots_move(leat__slots *m, unsigned slot,
                           const leat__address *to, leat_error *err);

/* "MOVED 3999 10.0.0.1:6381" or "ASK ...", as the node `asked` said it. */
typedef struct leat__redirect {
    bool ask;
    unsigned slot;
    leat__address to;
} leat__redirect;

bool leat__redirect_read(leat__redirect *out, leat_bytes text,
                         const leat__address *asked);

#endif
