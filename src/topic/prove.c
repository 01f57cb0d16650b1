/*
 * prove.c: what was saved or taken counts when it is known to be kept.
 *
 * Only where the client's durability needs more than the server's word:
 *
 *   save answered  ->  p->unproven        ->  proof answered  ->  told
 *   take answered  ->  p->gained, epoch   ->  proof answered  ->  ours, read
 *
 * A proof (proof.h) goes out when something waits for one and none is under
 * way; what is answered meanwhile waits for the next, so under load one stands
 * for many.  Answers come in the order of execution: whatever is answered
 * before the proof was executed before it.  On a cluster a proof speaks for one
 * node, so there every partition has its own.
 *
 * A proof says nothing of an earlier connection.  So when that is lost before
 * it came, the state is saved and the lease is taken anew.  Too few replicas
 * leave settlements unknown and the lease untaken, until there are enough.
 */
#include "base/system.h"
#include "redis/client.h"
#include "redis/proof.h"
#include "topic/consumer.h"

#define RETRY_NS INT64_C(50000000)

bool leat__prove_needed(const consumer *c)
{
    return c->cmd && leat__proof_needed(c->cmd, 0);
}

/* The heartbeat waits behind it on the same connection. */
static leat__proof proof(const consumer *c)
{
    leat__proof p = leat__conn_proof(c->cmd, 0, 0);
    if (p.ms > c->opts.lease_ms / 4)
        p.ms = c->opts.lease_ms / 4;
    return p;
}

static void enlist(part *p)
{
    consumer *c = p->c;
    if (p->listed)
        return;
    p->listed = true;
    p->next_unproven = c->unproven;
    c->unproven = p;
}

static void unlist(part *p)
{
    part **at = &p->c->unproven;
    while (*at && *at != p)
        at = &(*at)->next_unproven;
    if (*at)
        *at = p->next_unproven;
    p->listed = false;
}

void leat__prove_saved(part *p, settled_line *line)
{
    if (line->count == 0)
        return;
    if (p->unproven.last)
        p->unproven.last->next = line->first;
    else
        p->unproven.first = line->first;
    p->unproven.last = line->last;
    p->unproven.count += line->count;
    *line = (settled_line){ 0 };
    enlist(p);
}

void leat__prove_taken(part *p, uint64_t epoch)
{
    p->gained = epoch;
    enlist(p);
}

void leat__prove_forget(part *p)
{
    leat_error e;
    if (p->unproven.count == 0)
        return;
    leat__fail(&e, LEAT_EUNKNOWN,
               "saved, but the partition of '%s' was lost before it was "
               "known to be kept",
               p->c->topic->name);
    leat__line_tell(p->c, &p->unproven, &e);
}

/* e: NULL, or why not.  lost: nobody will ever know. */
static void conclude(part *p, const leat_error *e, bool lost)
{
    uint64_t gained = p->gained;
    p->gained = 0;
    if (gained && !e)
        leat__member_gained(p, gained);
    else if (gained)
        leat__member_not_gained(p);
    if (e && lost && leat__part_owned(p))
        leat__save_again(p, &p->unproven);
    else
        leat__line_tell(p->c, &p->unproven, e);
}

static void conclude_all(consumer *c, const leat_error *e, bool lost)
{
    while (c->unproven) {
        part *p = c->unproven;
        unlist(p);
        conclude(p, e, lost);
    }
}

static const leat_error *judge(consumer *c, const leat_reply *r,
                               const leat_error *e, leat_error *out)
{
    if (!r) {
        *out = *e;
        return out;
    }
    leat__proof want = proof(c);
    if (leat__proof_check(&want, r, e, out) == LEAT_OK)
        return NULL;
    leat__drive_failed(c, out, "keeping what is saved");
    return out;
}

static void on_proved_all(void *arg, const leat_reply *r, const leat_error *e)
{
    consumer *c = arg;
    leat_error why;
    c->proving = false;
    conclude_all(c, judge(c, r, e, &why), !r);
}

static void on_proved(void *arg, const leat_reply *r, const leat_error *e)
{
    part *p = arg;
    leat_error why;
    p->proving = false;
    unlist(p);
    conclude(p, judge(p->c, r, e, &why), !r);
}

static bool ask(consumer *c, leat_bytes key, leat_reply_fn *fn, void *arg)
{
    leat_error e;
    leat__proof want = proof(c);
    if (leat__conn_wait_for(c->cmd, key, &want,
                            &(leat_send_opts){ .fn = fn, .arg = arg },
                            &e) == LEAT_OK)
        return true;
    leat__drive_failed(c, &e, "asking for proof");
    c->prove_at_ns = leat__now_ns() + RETRY_NS;
    return false;
}

void leat__prove_step(consumer *c, int64_t now_ns)
{
    if (!c->unproven || !c->cmd || c->proving || now_ns < c->prove_at_ns)
        return;
    if (!leat__client_clustered(c->client)) {
        c->proving = ask(c, leat__key_bytes(&c->unproven->lease), on_proved_all,
                         c);
        return;
    }
    for (part *p = c->unproven; p; p = p->next_unproven)
        if (!p->proving &&
            !(p->proving = ask(c, leat__key_bytes(&p->lease), on_proved, p)))
            return;
}

/* Those of a cluster that wait for theirs are asked for when the next answer
 * comes: nothing is due. */
int64_t leat__prove_due(const consumer *c)
{
    const part *p = c->proving ? NULL : c->unproven;
    while (p && p->proving)
        p = p->next_unproven;
    return p ? c->prove_at_ns : INT64_MAX;
}

void leat__prove_reset(consumer *c)
{
    leat_error e;
    leat__fail(&e, LEAT_EUNKNOWN, "the connection was lost");
    c->proving = false;
    c->prove_at_ns = 0;
    conclude_all(c, &e, true);
}
