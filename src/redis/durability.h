/*
 * durability.h: what a server keeps, judged by what was seen of it.
 *
 * Pure: a leat_server in, words out.  What could not be seen is no yes.
 */
#ifndef LEAT_REDIS_DURABILITY_H
#define LEAT_REDIS_DURABILITY_H

#include "base/log.h"
#include "redis/conn.h"

/* What a client asks of every server that it meets. */
typedef struct leat__demand {
    leat_durability asked;
    int replicas;    /* with LEAT_REPLICATED */
    int64_t wait_ms; /* for proof; 0: what the server needs */
    bool evicting;   /* it may be */
    bool weak;       /* it may lack what is asked */
} leat__demand;

typedef enum leat__lack {
    LEAT__LACKS_NOTHING = 0,
    LEAT__LACKS_NOW, /* replicas, which may be on their way */
    LEAT__LACKS      /* until somebody changes the server */
} leat__lack;

/* Does the server give this class?  If not, why: what is, and what to set. */
leat__lack leat__durability_lack(const leat_server *s, leat_durability d,
                                 int replicas, char *why, size_t room);

/* LEAT_EUNSAFE: the server is not to be used.  Retriable where it lacks only
 * replicas that may come. */
leat_code leat__durability_judge(const leat_server *s, const leat__demand *d,
                                 leat_error *err);

/* What has to follow each write so that its acknowledgement is of the class
 * asked for. */
leat__proof leat__durability_proof(const leat_server *s, const leat__demand *d);

void leat__durability_describe(const leat_server *s, const leat__demand *d,
                               leat_durability_report *out);

/* What to say once of a server that is used; NULL: nothing. */
const char *leat__durability_remark(const leat_server *s, const leat__demand *d,
                                    leat_level *level);

/* By name or by number; false: there is none. */
bool leat__durability_parse(leat_bytes text, leat_durability *out);

#endif
