/*
 * settle.c: messages that were received are done, hidden longer or given back.
 *
 * A receipt is taken apart here, so that one that is none, or another queue's,
 * never reaches the server.  Asked for again, an ack counts as done when the
 * message is gone and not by another receipt, a change when the server
 * remembers to have made it: see lua/ack.lua and lua/change.lua.
 */
#include "base/backoff.h"
#include "base/mem.h"
#include "queue/queue.h"

#include <stdio.h>

enum { HEAD = 8, EACH = 3 };

typedef struct settling {
    leat_queue *q;
    const leat_bytes *receipts;
    size_t n;
    leat_code *outcome; /* n */
    leat_bytes *args;
    size_t argc;
    size_t valid;
    int dead;     /* of them dead letters */
    bool several; /* receives some had    */
    leat_error first;
} settling;

static leat_code check(const leat_queue *q, leat_bytes receipt,
                       leat__receipt *r, leat_error *err)
{
    if (!q->profile->receipt(receipt, q->fifo, r))
        return leat__fail(err, LEAT_EINVAL,
                          "%zu bytes are no receipt of queue '%s'", receipt.n,
                          q->name);
    if (r->queue.n > 0 && !leat_bytes_eq(r->queue, leat_str(q->name)))
        return leat__fail(err, LEAT_EINVAL,
                          "a receipt of queue '%.*s' was given to queue '%s'",
                          (int)r->queue.n, (const char *)r->queue.p, q->name);
    return LEAT_OK;
}

leat_code leat_queue_receipt_check(const leat_queue *q, leat_bytes receipt,
                                   leat_error *err)
{
    leat__receipt r;
    return check(q, receipt, &r, err);
}

static void keep_first(settling *s, const leat_error *e)
{
    if (s->first.code == LEAT_OK)
        s->first = *e;
}

/* The receipts that are some; ids: and then their ids, and of a fifo queue the
 * groups, of which a dead letter blocks none. */
static void put_receipts(settling *s, bool ids)
{
    size_t from = s->argc, room = HEAD + s->n;
    for (size_t i = 0; i < s->n; i++) {
        leat_error e;
        leat__receipt r;
        s->outcome[i] = check(s->q, s->receipts[i], &r, &e);
        if (s->outcome[i] != LEAT_OK) {
            keep_first(s, &e);
            continue;
        }
        s->args[room + s->valid] = r.id;
        s->args[room + s->n + s->valid] = r.kind == 'v' ? r.group
                                                        : leat_str("");
        s->dead += r.kind == 'x';
        s->several |= r.kind == 'x' || r.receives > 1;
        s->args[from + s->valid++] = s->receipts[i];
    }
    s->argc = from + s->valid;
    for (size_t part = 0; ids && part < (s->q->fifo ? 2 : 1); part++)
        for (size_t i = 0; i < s->valid; i++)
            s->args[s->argc++] = s->args[room + part * s->n + i];
}

static leat_code read_settled(void *arg, const leat_reply *r, leat_error *err)
{
    settling *s = arg;
    bool each = false;
    leat_reply_iter it = leat_reply_each(r);
    leat_code rc = leat__queue_expect(r, "[(i)" LEAT__QUEUE_TOLD "]", err);
    if (rc == LEAT_OK)
        rc = leat__queue_each(it, s->valid, &each, err);
    for (size_t i = 0; rc == LEAT_OK && each && i < s->n; i++) {
        if (s->outcome[i] == LEAT_EINVAL)
            continue;
        bool done = leat_reply_int(leat_reply_step(&it)) == 1;
        s->outcome[i] = done ? LEAT_OK : LEAT_ESTALE;
    }
    return rc;
}

static void count_stale(settling *s)
{
    uint64_t n = 0;
    leat_error e;
    for (size_t i = 0; i < s->n; i++)
        n += s->outcome[i] == LEAT_ESTALE;
    if (n == 0)
        return;
    leat__fail(&e, LEAT_ESTALE,
               "queue '%s': the message is no longer this receipt's",
               s->q->name);
    keep_first(s, &e);
    leat_counter_add(s->q->meters.stale, n);
}

/* As many of them as one script takes. */
static leat_code settle_lot(settling *s, const leat__script *script,
                            char *again, int64_t deadline_ns, leat_error *err)
{
    leat_code rc = LEAT_OK;
    if (s->valid > 0)
        rc = leat__queue_ask(s->q, script, s->args, s->argc, again, deadline_ns,
                             read_settled, s, err);
    for (size_t i = 0; rc != LEAT_OK && i < s->n; i++)
        if (s->outcome[i] != LEAT_EINVAL)
            s->outcome[i] = rc;
    if (rc == LEAT_OK)
        count_stale(s);
    return rc;
}

static const char *const words[] = { "hide", "back", "free", "fail", "bury" };

static leat_bytes cut_reason(const char *reason)
{
    leat_bytes b = leat_str(reason ? reason : "");
    if (b.n > LEAT__REASON_MAX)
        b.n = LEAT__REASON_MAX;
    return b;
}

leat_bytes leat__queue_delay(char text[LEAT__NUMBER], int64_t ms)
{
    if (ms >= 0)
        return leat__arg_int(text, ms);
    int n = snprintf(text, LEAT__NUMBER, "~%u",
                     (unsigned)(leat__chance() % 1000000));
    return leat_mem(text, (size_t)n);
}

/* What a script is told before the receipts. */
static void put_head(settling *s, const queue_order *o, const queue_lane *lane,
                     char *again, char number[LEAT__NUMBER],
                     char ms[LEAT__NUMBER])
{
    leat_queue *q = s->q;
    leat_bytes *a = s->args, fifo = leat_str(q->fifo ? "1" : "0");
    a[s->argc++] = leat_str(q->name);
    if (o->ack && q->profile->kept) {
        a[s->argc++] = leat_str(leat__queue_telling(q));
        a[s->argc++] = leat_str(again);
        a[s->argc++] = fifo;
        s->argc++; /* the number of dead letters, when it is known */
        return;
    }
    a[s->argc++] = leat_str(lane ? lane->name : "");
    a[s->argc++] = leat__arg_int(number, lane ? (int64_t)lane->number : 0);
    if (o->ack) {
        a[s->argc++] = leat_str(leat__queue_telling(q));
        return;
    }
    a[s->argc++] = leat_str(q->events);
    a[s->argc++] = fifo;
    a[s->argc++] = leat_str(words[o->how]);
    /* Of redowl a negative one is a time that is over. */
    a[s->argc++] = q->profile->kept ? leat__queue_delay(ms, o->ms)
                                    : leat__arg_int(ms, o->ms);
    a[s->argc++] = cut_reason(o->reason);
}

static leat_code send_lot(settling *s, const queue_order *o,
                          const queue_lane *lane, leat_error *err)
{
    char again[] = "0", number[LEAT__NUMBER], ms[LEAT__NUMBER];
    char dead[LEAT__NUMBER + 1];
    const queue_profile *p = s->q->profile;
    bool known = o->ack && p->kept; /* what the receipt says */
    put_head(s, o, lane, again, number, ms);
    size_t count = s->argc - 1;
    put_receipts(s, known);
    if (known) {
        snprintf(dead, sizeof dead, "%d%s", s->dead, s->several ? "+" : "");
        s->args[count] = leat_str(dead);
    }
    return settle_lot(s, o->ack ? p->ack : p->change, known ? again : NULL,
                      o->deadline_ns, err);
}

/* outcome: of n, or NULL. */
static void tell_all(leat_code *outcome, size_t n, leat_code rc)
{
    for (size_t i = 0; outcome && i < n; i++)
        outcome[i] = rc;
}

/* Without scripts, one by one. */
static leat_code settle_apart(leat_queue *q, const queue_order *o,
                              const leat_bytes *receipts, size_t n,
                              leat_code *outcome, leat_error *err)
{
    leat_code first = LEAT_OK;
    for (size_t i = 0; i < n; i++) {
        leat_error e;
        leat_code rc = leat__apart_settle(q, o, receipts[i], &e);
        if (outcome)
            outcome[i] = rc;
        if (rc == LEAT_OK || first != LEAT_OK)
            continue;
        first = rc;
        if (err)
            *err = e;
    }
    return first;
}

/* To hide twice is as good as once, and so is an ack by a receipt that tells
 * the message; the rest is done once: see change.lua, owl_ack.lua. */
static leat_code one_lot(leat_queue *q, const queue_order *o,
                         const leat_bytes *receipts, size_t n,
                         leat_code *outcome, leat_bytes *args, leat_error *err)
{
    settling s = {
        .q = q, .receipts = receipts, .n = n, .outcome = outcome, .args = args
    };
    queue_lane *lane = NULL;
    if (o->ack ? !q->profile->kept : o->how != QUEUE_HIDE) {
        lane = leat__lane_take(q, QUEUE_CHANGE, err);
        if (!lane) {
            tell_all(outcome, n, LEAT_ENOMEM);
            return LEAT_ENOMEM;
        }
    }
    leat_code rc = send_lot(&s, o, lane, err);
    if (lane)
        leat__lane_give(q, QUEUE_CHANGE, lane, false);
    if (rc == LEAT_OK && s.first.code != LEAT_OK) {
        rc = s.first.code;
        if (err)
            *err = s.first;
    }
    return rc;
}

leat_code leat__queue_settle(leat_queue *q, const queue_order *o,
                             const leat_bytes *receipts, size_t n,
                             leat_code *outcome, leat_error *err)
{
    leat_error e;
    leat_code rc = leat__queue_own(q, err);
    if (rc != LEAT_OK)
        tell_all(outcome, n, rc);
    if (rc != LEAT_OK || n == 0)
        return rc;
    if (q->apart && (o->ack || o->how != QUEUE_BURY))
        return settle_apart(q, o, receipts, n, outcome, err);
    size_t most = q->fifo ? LEAT__QUEUE_LOT : LEAT_QUEUE_BATCH;
    size_t lot = n < most ? n : most;
    leat_bytes *args = leat__calloc(HEAD + EACH * lot, sizeof *args, err);
    leat_code *own = outcome ? NULL : leat__calloc(n, sizeof *own, err);
    if (!args || (!outcome && !own)) {
        rc = LEAT_ENOMEM;
        tell_all(outcome, n, rc);
    }
    for (size_t i = 0; args && (outcome || own) && i < n; i += lot) {
        size_t some = n - i < lot ? n - i : lot;
        leat_code one = one_lot(q, o, receipts + i, some,
                                (outcome ? outcome : own) + i, args, &e);
        if (one != LEAT_OK && rc == LEAT_OK) {
            rc = one;
            if (err)
                *err = e;
        }
    }
    leat__free(args);
    leat__free(own);
    if (!o->ack && (o->how == QUEUE_HIDE || o->how == QUEUE_FAIL))
        leat__reaper_tell(q, o->ms > 0 ? o->ms : 0);
    return rc;
}

/* ---- the verbs -------------------------------------------------------- */

leat_code leat__queue_ack(leat_queue *q, const leat_bytes *receipts, size_t n,
                          int64_t deadline_ns, leat_code *outcome,
                          leat_error *err)
{
    queue_order o = { .ack = true, .deadline_ns = deadline_ns };
    leat_code rc = leat__queue_settle(q, &o, receipts, n, outcome, err);
    uint64_t done = n;
    for (size_t i = 0; outcome && i < n; i++)
        done -= outcome[i] != LEAT_OK;
    if (rc == LEAT_OK || outcome)
        leat_counter_add(q->meters.acked, done);
    return rc;
}

leat_code leat__queue_change(leat_queue *q, queue_change how,
                             const leat_bytes *receipts, size_t n, int64_t ms,
                             int64_t deadline_ns, leat_code *outcome,
                             leat_error *err)
{
    queue_order o = { .how = how, .ms = ms, .deadline_ns = deadline_ns };
    return leat__queue_settle(q, &o, receipts, n, outcome, err);
}

leat_code leat_queue_ack_batch(leat_queue *q, const leat_bytes *receipts,
                               size_t n, leat_code *outcome, leat_error *err)
{
    return leat__queue_ack(q, receipts, n, 0, outcome, err);
}

leat_code leat_queue_ack(leat_queue *q, leat_bytes receipt, leat_error *err)
{
    return leat__queue_ack(q, &receipt, 1, 0, NULL, err);
}

leat_code leat_queue_change_batch(leat_queue *q, const leat_bytes *receipts,
                                  size_t n, int64_t ms, leat_code *outcome,
                                  leat_error *err)
{
    const queue_profile *p = q->profile;
    if (ms < p->hide_min_ms || ms > p->hide_max_ms)
        return leat__fail(err, LEAT_EINVAL,
                          "a visibility of %lld ms: use %lld to %lld hours",
                          (long long)ms, (long long)(p->hide_min_ms / 3600000),
                          (long long)(p->hide_max_ms / 3600000));
    return leat__queue_change(q, ms == 0 ? QUEUE_BACK : QUEUE_HIDE, receipts, n,
                              ms, 0, outcome, err);
}

leat_code leat_queue_change_visibility(leat_queue *q, leat_bytes receipt,
                                       int64_t ms, leat_error *err)
{
    return leat_queue_change_batch(q, &receipt, 1, ms, NULL, err);
}

/* A queue without a policy gives it back at once. */
queue_order leat__queue_failed(const leat_queue *q, int64_t delay_ms,
                               const char *reason)
{
    bool at_once = delay_ms == 0 || (delay_ms < 0 && !q->profile->kept);
    return (queue_order){ .how = at_once ? QUEUE_BACK : QUEUE_FAIL,
                          .ms = at_once ? 0 : delay_ms,
                          .reason = reason };
}

leat_code leat_queue_nack(leat_queue *q, leat_bytes receipt, int64_t delay_ms,
                          const char *reason, leat_error *err)
{
    queue_order o = leat__queue_failed(q, delay_ms, reason);
    if (delay_ms < -1 || delay_ms > LEAT_VISIBILITY_MAX_MS)
        return leat__fail(err, LEAT_EINVAL,
                          "a delay of %lld ms: use 0 to 12 hours, or -1 for "
                          "the queue's policy",
                          (long long)delay_ms);
    return leat__queue_settle(q, &o, &receipt, 1, NULL, err);
}

leat_code leat_queue_reject(leat_queue *q, leat_bytes receipt,
                            const char *reason, leat_error *err)
{
    queue_order o = { .how = QUEUE_BURY, .reason = reason };
    return leat__queue_settle(q, &o, &receipt, 1, NULL, err);
}
