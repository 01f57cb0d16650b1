/*
 * redowl_apart.c: a queue of redowl whose keys are in different slots.
 *
 * On a cluster that is every queue without a hash tag.  No script can have all
 * of its keys, so it is used command by command, as redowl does, in an order in
 * which a crash loses nothing:
 *
 *   send     HSET msg, RPUSH ready
 *   receive  LINDEX ready, HSET receipt, ZADD inflight, LREM ready
 *            who removed the id has the message, another one takes its receipt
 *            back; a crash in between leaves it in the list and in flight, and
 *            it comes twice
 *   ack      DEL msg, ZREM inflight, HDEL receipt: done with the first
 *   expired  LPUSH ready, ZREM inflight, HDEL receipt: two who do it at once
 *            bring it twice
 *
 * Times are by this machine's clock, as redowl's are.  A receive gives back
 * what expired; no reaper does.  Dead letters, delays and what needs them are
 * refused: a message would have to leave one list for another at once.
 */
#include "base/mem.h"
#include "base/system.h"
#include "queue/queue.h"
#include "queue/redowl_pack.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REAP = 100, LOST_RACES = 20, RECEIPT = 33 };

leat_code leat__queue_whole(const leat_queue *q, leat_error *err)
{
    if (!q->apart)
        return LEAT_OK;
    return leat__fail(err, LEAT_ENOTSUP,
                      "queue '%s': its keys are in different slots of the "
                      "cluster, so that it can only be sent to, received from "
                      "and acknowledged; a hash tag keeps them together: "
                      "'{%s}'",
                      q->name, q->name);
}

/* ---- commands --------------------------------------------------------- */

static void key_of(const leat_queue *q, leat__key *k, const char *what)
{
    q->profile->key(k, q->prefix, q->name, what);
}

/* Room for the key of a message: its id is up to LEAT__QUEUE_ID_MAX bytes, of
 * others' perhaps more, which are passed over. */
static bool msg_key(const leat_queue *q, leat__key *k, leat_bytes id)
{
    char what[LEAT__QUEUE_ID_MAX + 5];
    if (id.n == 0 || id.n > LEAT__QUEUE_ID_MAX || memchr(id.p, '\0', id.n))
        return false;
    snprintf(what, sizeof what, "msg:%.*s", (int)id.n, (const char *)id.p);
    key_of(q, k, what);
    return true;
}

/* Again as long as it takes where twice is as good as once.  The caller frees
 * *r, which may be NULL. */
static leat_code call(leat_queue *q, const leat_bytes *argv, size_t n,
                      bool idempotent, const char *shape, leat_reply **out,
                      leat_error *err)
{
    leat_reply *r = NULL;
    leat_code rc = leat_client_call(
        q->client, argv, n, &(leat_call_opts){ .idempotent = idempotent }, &r,
        err);
    if (rc == LEAT_OK)
        rc = leat__queue_expect(r, shape, err);
    if (rc == LEAT_OK && out)
        *out = r;
    else
        leat_reply_free(r);
    return rc;
}

/* One whose answer is a number. */
static leat_code count(leat_queue *q, const leat_bytes *argv, size_t n,
                       bool idempotent, int64_t *out, leat_error *err)
{
    leat_reply *r = NULL;
    leat_code rc = call(q, argv, n, idempotent, "i", &r, err);
    if (rc == LEAT_OK && out)
        *out = leat_reply_int(r);
    leat_reply_free(r);
    return rc;
}

/* ---- events ----------------------------------------------------------- */

static leat_code put_text(leat__buf *b, leat_bytes text)
{
    leat_code rc = leat__buf_add(b, &text.n, sizeof text.n, NULL);
    return rc == LEAT_OK ? leat__buf_add(b, text.p, text.n, NULL) : rc;
}

/* Without memory there is an event less; rc -1: it has none. */
static void tell(leat_queue *q, const char *type, leat_bytes id, int64_t rc)
{
    leat__buf event = { 0 }, told = { 0 };
    if (q->events[0] == '0')
        return;
    if (leat__owl_event(&event, type, leat_str(q->name), id, leat__date_ms(),
                        rc, NULL) == LEAT_OK &&
        put_text(&told, leat_str(q->name)) == LEAT_OK &&
        put_text(&told, leat__buf_bytes(&event)) == LEAT_OK)
        (void)leat__told_publish(q->opts.event_client ? q->opts.event_client
                                                      : q->client,
                                 q->profile, q->prefix, leat__buf_bytes(&told));
    leat__buf_release(&event);
    leat__buf_release(&told);
}

/* ---- sending ---------------------------------------------------------- */

leat_code leat__apart_send(leat_queue *q, leat_bytes id, leat_bytes packed,
                           leat_error *err)
{
    leat__key msg, ready;
    char now[LEAT__NUMBER];
    leat_bytes attrs, body;
    if (!msg_key(q, &msg, id) || !leat__owl_parts(packed, &attrs, &body))
        return leat__fail(err, LEAT_EINVAL, "a message that is none");
    leat_code rc = count(q,
                         LEAT_ARGS(leat_str("HSET"), leat__key_bytes(&msg),
                                   leat_str("body"), body, leat_str("attrs"),
                                   attrs, leat_str("rc"), leat_str("0"),
                                   leat_str("created_at_ms"),
                                   leat__arg_int(now, leat__date_ms())),
                         true, NULL, err);
    key_of(q, &ready, "ready");
    if (rc == LEAT_OK)
        rc = count(q, LEAT_ARGS(leat_str("RPUSH"), leat__key_bytes(&ready), id),
                   false, NULL, err);
    if (rc == LEAT_OK)
        tell(q, "sent", id, -1);
    return rc;
}

/* ---- what expired ----------------------------------------------------- */

/* The receipt is of no use any more. */
static leat_code forget(leat_queue *q, leat_bytes receipt, leat_error *err)
{
    leat__key k;
    key_of(q, &k, "inflight");
    leat_code rc = count(
        q, LEAT_ARGS(leat_str("ZREM"), leat__key_bytes(&k), receipt), true,
        NULL, err);
    key_of(q, &k, "receipt");
    if (rc == LEAT_OK)
        rc = count(q, LEAT_ARGS(leat_str("HDEL"), leat__key_bytes(&k), receipt),
                   true, NULL, err);
    return rc;
}

/* The id that a receipt stands for, as a reply that the caller frees; nothing
 * in it: it is stale. */
static leat_code id_of(leat_queue *q, leat_bytes receipt, leat_reply **id,
                       leat_error *err)
{
    leat__key k;
    key_of(q, &k, "receipt");
    return call(q, LEAT_ARGS(leat_str("HGET"), leat__key_bytes(&k), receipt),
                true, "o", id, err);
}

static leat_code give_back(leat_queue *q, leat_bytes receipt, int64_t *n,
                           leat_error *err)
{
    leat__key k;
    leat_reply *r = NULL;
    int64_t there = 0;
    leat_code rc = id_of(q, receipt, &r, err);
    leat_bytes id = rc == LEAT_OK ? leat_reply_bytes(r) : leat_str("");
    bool known = msg_key(q, &k, id);
    if (rc == LEAT_OK && known)
        rc = count(q, LEAT_ARGS(leat_str("EXISTS"), leat__key_bytes(&k)), true,
                   &there, err);
    key_of(q, &k, "ready");
    if (rc == LEAT_OK && there)
        rc = count(q, LEAT_ARGS(leat_str("LPUSH"), leat__key_bytes(&k), id),
                   false, NULL, err);
    if (rc == LEAT_OK)
        rc = forget(q, receipt, err);
    if (rc == LEAT_OK && there) {
        tell(q, "requeued", id, -1);
        ++*n;
    }
    leat_reply_free(r);
    return rc;
}

/* The last first, as each goes to the head. */
leat_code leat__apart_expire(leat_queue *q, int max, int64_t *n,
                             leat_error *err)
{
    leat__key k;
    leat_reply *r = NULL;
    char now[LEAT__NUMBER], most[LEAT__NUMBER];
    key_of(q, &k, "inflight");
    leat_code rc = call(
        q,
        LEAT_ARGS(leat_str("ZRANGEBYSCORE"), leat__key_bytes(&k),
                  leat_str("-inf"), leat__arg_int(now, leat__date_ms()),
                  leat_str("LIMIT"), leat_str("0"), leat__arg_int(most, max)),
        true, "[(t)]", &r, err);
    for (size_t i = leat_reply_len(r); rc == LEAT_OK && i > 0; i--)
        rc = give_back(q, leat_reply_bytes(leat_reply_at(r, i - 1)), n, err);
    leat_reply_free(r);
    return rc;
}

/* ---- receiving -------------------------------------------------------- */

/* One that is taken: its receipt, and its value as owl_fetch.lua gives it. */
typedef struct taken {
    char receipt[RECEIPT];
    leat__buf value;
} taken;

static leat_bytes text_at(const leat_reply *r, size_t i)
{
    return leat_reply_bytes(leat_reply_at(r, i));
}

static int64_t number_at(const leat_reply *r, size_t i)
{
    char text[24];
    leat_bytes b = text_at(r, i);
    snprintf(text, sizeof text, "%.*s", (int)(b.n < 20 ? b.n : 0),
             b.n ? (const char *)b.p : "");
    int64_t v = strtoll(text, NULL, 10);
    return v > 0 ? v : 0;
}

/* The message of a receipt that is ours; *there false: it is gone. */
static leat_code read_message(leat_queue *q, leat_bytes id, taken *t,
                              bool *there, leat_error *err)
{
    leat__key k;
    leat_reply *r = NULL;
    int64_t rc_now = 0;
    *there = false;
    if (!msg_key(q, &k, id))
        return LEAT_OK;
    leat_code rc = call(q,
                        LEAT_ARGS(leat_str("HMGET"), leat__key_bytes(&k),
                                  leat_str("body"), leat_str("attrs"),
                                  leat_str("created_at_ms")),
                        true, "[ooo]", &r, err);
    *there = rc == LEAT_OK &&
             (leat_reply_kind(leat_reply_at(r, 0)) != LEAT_REPLY_NIL ||
              leat_reply_kind(leat_reply_at(r, 2)) != LEAT_REPLY_NIL);
    if (*there)
        rc = count(q,
                   LEAT_ARGS(leat_str("HINCRBY"), leat__key_bytes(&k),
                             leat_str("rc"), leat_str("1")),
                   false, &rc_now, err);
    if (*there && rc == LEAT_OK) {
        leat_bytes attrs = text_at(r, 1), body = text_at(r, 0);
        rc = leat__buf_printf(&t->value, err,
                              "%" PRId64 " %" PRId64 " %zu %zu\n", rc_now,
                              number_at(r, 2), id.n, attrs.n);
        const leat_bytes parts[] = { id, attrs, body };
        for (size_t i = 0; rc == LEAT_OK && i < 3; i++)
            rc = leat__buf_add(&t->value, parts[i].p, parts[i].n, err);
        if (rc == LEAT_OK)
            tell(q, "received", id, rc_now);
    }
    leat_reply_free(r);
    return rc;
}

/* In flight first, then out of the list; *ours: it was there. */
static leat_code claim(leat_queue *q, leat_bytes id, leat_bytes receipt,
                       int64_t hide_ms, bool *ours, leat_error *err)
{
    leat__key k;
    char until[LEAT__NUMBER];
    int64_t n = 0;
    key_of(q, &k, "receipt");
    leat_code rc = count(
        q, LEAT_ARGS(leat_str("HSET"), leat__key_bytes(&k), receipt, id), true,
        NULL, err);
    key_of(q, &k, "inflight");
    if (rc == LEAT_OK)
        rc = count(q,
                   LEAT_ARGS(leat_str("ZADD"), leat__key_bytes(&k),
                             leat__arg_int(until, leat__date_ms() + hide_ms),
                             receipt),
                   true, NULL, err);
    key_of(q, &k, "ready");
    if (rc == LEAT_OK)
        rc = count(
            q,
            LEAT_ARGS(leat_str("LREM"), leat__key_bytes(&k), leat_str("1"), id),
            false, &n, err);
    *ours = rc == LEAT_OK && n > 0;
    if (rc == LEAT_OK && n == 0)
        rc = forget(q, receipt, err);
    return rc;
}

/* *over: the list is empty. */
static leat_code take_next(leat_queue *q, int64_t hide_ms, taken *t, bool *got,
                           bool *over, leat_error *err)
{
    leat__key k;
    leat_reply *r = NULL;
    bool ours = false;
    *got = *over = false;
    key_of(q, &k, "ready");
    leat_code rc = q->profile->id(NULL, t->receipt, err);
    if (rc == LEAT_OK)
        rc = call(
            q,
            LEAT_ARGS(leat_str("LINDEX"), leat__key_bytes(&k), leat_str("0")),
            true, "o", &r, err);
    if (rc != LEAT_OK)
        return rc;
    leat_bytes id = leat_reply_bytes(r), receipt = leat_str(t->receipt);
    *over = leat_reply_kind(r) == LEAT_REPLY_NIL;
    if (!*over)
        rc = claim(q, id, receipt, hide_ms, &ours, err);
    if (rc == LEAT_OK && ours)
        rc = read_message(q, id, t, got, err);
    if (rc == LEAT_OK && ours && !*got)
        rc = forget(q, receipt, err); /* an id without message */
    leat_reply_free(r);
    return rc;
}

static leat_queue_batch *batch_of(leat_queue *q, const taken *t, size_t n,
                                  leat_error *err)
{
    leat_bytes *parts = leat__calloc(2 * n + 1, sizeof *parts, err);
    if (!parts)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        parts[2 * i] = leat_str(t[i].receipt);
        parts[2 * i + 1] = leat__buf_bytes(&t[i].value);
    }
    leat_queue_batch *b = leat__batch_of(q->profile, parts, n, err);
    leat__free(parts);
    return b;
}

leat_queue_batch *leat__apart_take(leat_queue *q, int max, int64_t hide_ms,
                                   leat_error *err)
{
    int64_t back = 0;
    size_t n = 0;
    bool got = false, over = false;
    taken *t = leat__calloc((size_t)max, sizeof *t, err);
    leat_code rc = t ? leat__apart_expire(q, REAP, &back, err) : LEAT_ENOMEM;
    for (int lost = 0; rc == LEAT_OK && n < (size_t)max && lost < LOST_RACES;) {
        rc = take_next(q, hide_ms, &t[n], &got, &over, err);
        if (over)
            break;
        n += got;
        lost += !got;
    }
    leat_queue_batch *b = NULL;
    if (rc == LEAT_OK || n > 0)
        b = batch_of(q, t, n, err);
    for (size_t i = 0; t && i < (size_t)max; i++)
        leat__buf_release(&t[i].value);
    leat__free(t);
    return b;
}

/* ---- settling --------------------------------------------------------- */

static leat_code ack(leat_queue *q, leat_bytes id, leat_bytes receipt,
                     leat_error *err)
{
    leat__key k;
    int64_t n = 0;
    leat_code rc = LEAT_OK;
    if (msg_key(q, &k, id))
        rc = count(q, LEAT_ARGS(leat_str("DEL"), leat__key_bytes(&k)), false,
                   &n, err);
    if (rc != LEAT_OK)
        return rc;
    (void)!forget(q, receipt, NULL); /* or it expires, and finds nothing */
    if (n == 0)
        return leat__fail(err, LEAT_ESTALE, "queue '%s': the message is gone",
                          q->name);
    tell(q, "acked", id, -1);
    return LEAT_OK;
}

static leat_code hide(leat_queue *q, leat_bytes receipt, int64_t ms,
                      leat_error *err)
{
    leat__key k;
    char until[LEAT__NUMBER];
    key_of(q, &k, "inflight");
    return count(q,
                 LEAT_ARGS(leat_str("ZADD"), leat__key_bytes(&k),
                           leat__arg_int(until, leat__date_ms() + ms), receipt),
                 true, NULL, err);
}

static leat_code uncount(leat_queue *q, leat_bytes id, leat_error *err)
{
    leat__key k;
    if (!msg_key(q, &k, id))
        return LEAT_OK;
    return count(q,
                 LEAT_ARGS(leat_str("HINCRBY"), leat__key_bytes(&k),
                           leat_str("rc"), leat_str("-1")),
                 false, NULL, err);
}

leat_code leat__apart_settle(leat_queue *q, const queue_order *o,
                             leat_bytes receipt, leat_error *err)
{
    leat_reply *r = NULL;
    int64_t n = 0;
    leat_code rc = leat_queue_receipt_check(q, receipt, err);
    if (rc == LEAT_OK)
        rc = id_of(q, receipt, &r, err);
    leat_bytes id = rc == LEAT_OK ? leat_reply_bytes(r) : leat_str("");
    if (rc == LEAT_OK && id.n == 0)
        rc = leat__fail(err, LEAT_ESTALE,
                        "queue '%s': the message is no longer this receipt's",
                        q->name);
    if (rc == LEAT_OK && o->how == QUEUE_FREE && !o->ack)
        rc = uncount(q, id, err);
    if (rc == LEAT_OK && o->ack)
        rc = ack(q, id, receipt, err);
    else if (rc == LEAT_OK && (o->how == QUEUE_HIDE || o->how == QUEUE_FAIL))
        rc = hide(q, receipt, o->ms, err);
    else if (rc == LEAT_OK)
        rc = give_back(q, receipt, &n, err);
    leat_reply_free(r);
    return rc;
}

/* ---- figures ---------------------------------------------------------- */

leat_code leat__apart_stats(leat_queue *q, leat_queue_stats *out,
                            leat_error *err)
{
    static const char *const keys[] = { "ready", "dlq", "inflight" };
    int64_t n[3] = { 0 };
    leat_code rc = LEAT_OK;
    for (size_t i = 0; rc == LEAT_OK && i < 3; i++) {
        leat__key k;
        key_of(q, &k, keys[i]);
        rc = count(
            q,
            LEAT_ARGS(leat_str(i < 2 ? "LLEN" : "ZCARD"), leat__key_bytes(&k)),
            true, &n[i], err);
    }
    *out = (leat_queue_stats){
        .visible = n[0], .dead = n[1], .in_flight = n[2], .oldest_ms = -1
    };
    return rc;
}
