/*
 * proof.c: WAIT and WAITAOF.
 *
 *   WAIT n ms          how many replicas have it in memory
 *   WAITAOF 1 n ms     whether it is on the server's disk, and on how many
 *                      replicas' (Redis 7.2)
 */
#include "redis/proof.h"
#include "redis/bundle.h"

#include <stdio.h>

leat__proof leat__conn_proof(const leat_conn *c, int replicas, int64_t ms)
{
    leat__proof p = c->proof;
    if (replicas > p.replicas)
        p.replicas = replicas;
    if (ms > p.ms)
        p.ms = ms;
    return p;
}

leat_code leat__conn_wait_for(leat_conn *c, leat_bytes key,
                              const leat__proof *p, const leat_send_opts *opts,
                              leat_error *err)
{
    char n[LEAT__NUMBER], ms[LEAT__NUMBER];
    leat_send_opts o = opts ? *opts : (leat_send_opts){ 0 };
    leat_bytes replicas = leat__arg_int(n, p->replicas);
    leat_bytes time = leat__arg_int(ms, p->ms);

    leat_bytes aof[] = { leat_str("WAITAOF"), leat_str("1"), replicas, time };
    leat_bytes wait[] = { leat_str("WAIT"), replicas, time };
    const leat_bytes *argv = p->synced ? aof : wait;
    size_t words = p->synced ? 4 : 3;

    o.block_ms = p->ms;
    if (c->bundle)
        return leat__bundle_prove(c, key, argv, words, &o, err);
    return leat_conn_send(c, argv, words, &o, err);
}

/* "on 2 replicas", "on disk", "on disk and on 2 replicas'" */
static void place(const leat__proof *p, char *out, size_t room)
{
    char replicas[48] = "";
    if (p->replicas > 0)
        snprintf(replicas, sizeof replicas, "on %d replica%s%s", p->replicas,
                 p->replicas == 1 ? "" : "s", p->synced ? "' disks" : "");
    snprintf(out, room, "%s%s%s", p->synced ? "on disk" : "",
             p->synced && p->replicas > 0 ? " and " : "", replicas);
}

leat_code leat__proof_missing(const leat__proof *p, const char *why,
                              leat_error *err)
{
    char where[80];
    place(p, where, sizeof where);
    return leat__fail(err, LEAT_EUNKNOWN,
                      "written, but not known to be %s: %.120s", where, why);
}

leat_code leat__proof_check(const leat__proof *p, const leat_reply *r,
                            const leat_error *e, leat_error *err)
{
    if (e)
        return leat__proof_missing(p, e->msg, err);
    bool pair = p->synced && leat_reply_len(r) == 2;
    int64_t disks = pair ? leat_reply_int(leat_reply_at(r, 0)) : 0;
    int64_t n = leat_reply_int(pair ? leat_reply_at(r, 1) : r);
    if (p->synced && disks < 1)
        return leat__fail(err, LEAT_EUNKNOWN,
                          "written, but not on disk after %lld ms",
                          (long long)p->ms);
    if (n < p->replicas)
        return leat__fail(err, LEAT_EUNKNOWN,
                          "written, but only on %lld of %d replicas after "
                          "%lld ms",
                          (long long)n, p->replicas, (long long)p->ms);
    return LEAT_OK;
}
