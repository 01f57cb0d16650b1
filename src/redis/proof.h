/*
 * proof.h: that what the server said it has done is also kept.
 *
 * A proof is a command behind the writes, WAIT or WAITAOF, on the same
 * connection: it speaks of all that this connection wrote before and of nothing
 * else.  So it is worth nothing on another one.  Its answer is a count; too
 * few, or none at all, leaves the writes unknown.
 */
#ifndef LEAT_REDIS_PROOF_H
#define LEAT_REDIS_PROOF_H

#include "redis/conn.h"

/* What writes on this connection need: the class that the client asked for,
 * and at least so many replicas for at least so long. */
leat__proof leat__conn_proof(const leat_conn *c, int replicas, int64_t ms);

static inline bool leat__proof_needed(const leat_conn *c, int replicas)
{
    return c->proof.synced || c->proof.replicas > 0 || replicas > 0;
}

/* Queue the command, to the server that has the key. */
leat_code leat__conn_wait_for(leat_conn *c, leat_bytes key,
                              const leat__proof *p, const leat_send_opts *opts,
                              leat_error *err);

/* Is this answer the proof?  If not, LEAT_EUNKNOWN and why. */
leat_code leat__proof_check(const leat__proof *p, const leat_reply *r,
                            const leat_error *e, leat_error *err);

/* LEAT_EUNKNOWN for writes whose proof can no longer come. */
leat_code leat__proof_missing(const leat__proof *p, const char *why,
                              leat_error *err);

#endif
