/*
 * call.c: one script, asked until it is answered.
 *
 * Every script of a queue can be asked again when its answer was lost.  Those
 * that bring messages in or hand them out do that by lanes: a lane is a name of
 * 64 random bits, has one call under way, and the server keeps the number of
 * its last call for 60 to 77 minutes (only calls that did something are noted;
 * see lane.lua).  The same number again is answered as before, a smaller one,
 * which was held up on an old connection, does nothing.  There are as many
 * lanes as calls at a time, so what they leave on the server does not grow with
 * the messages.
 *
 * A call whose outcome stays unknown leaves its lane in doubt: the next receive
 * on it asks for the same number, and so finds what was taken and never came.
 */
#include "base/backoff.h"
#include "base/mem.h"
#include "base/system.h"
#include "queue/queue.h"
#include "redis/client.h"
#include "redis/proof.h"

#include <stdio.h>
#include <string.h>

enum { FIRST_RETRY_MS = 10, MAX_RETRY_MS = 200, TRIES = 3 };

/* ---- one try ---------------------------------------------------------- */

/* Redis 6 wraps what a command inside a script was refused with. */
static void unwrap(const queue_call *c, leat_error *e)
{
    bool refused = e->code == LEAT_ESERVER || e->code == LEAT_EINVAL;
    if (refused && strstr(e->msg, "WRONGTYPE"))
        leat__fail(e, LEAT_EDECODE,
                   "a key of queue '%s' holds something else than it should: "
                   "see who wrote to %.*s",
                   c->name, (int)c->key.n, (const char *)c->key.p);
    else if (e->code == LEAT_ESERVER && strstr(e->msg, "OOM command"))
        leat__fail(e, LEAT_EFULL, "the server's memory is full");
    else if (e->code == LEAT_ESERVER && strstr(e->msg, "READONLY"))
        leat__fail(e, LEAT_EREADONLY, "the server is a replica");
}

static void on_answer(void *arg, const leat_reply *r, const leat_error *e)
{
    queue_answer *a = arg;
    a->answered = true;
    if (e) {
        a->rc = e->code;
        a->err = *e;
        unwrap(a->call, &a->err);
        a->rc = a->err.code;
    } else {
        a->rc = a->call->read(a->call->arg, r, &a->err);
        if (a->rc == LEAT_EPROTO && !a->call->looks)
            a->rc = leat__fail(&a->err, LEAT_EUNKNOWN,
                               "a script of queue '%s' was answered strangely, "
                               "what it did is not known",
                               a->call->name);
    }
    if (a->rc == LEAT_OK && a->early)
        a->rc = leat__proof_missing(&a->want, "the script was sent anew",
                                    &a->err);
}

/* A server that has forgotten the script gets it once more, behind the proof,
 * which then speaks of what was there before. */
static void on_proof(void *arg, const leat_reply *r, const leat_error *e)
{
    queue_answer *a = arg;
    leat_error few;
    a->early = !a->answered;
    if (leat__proof_check(&a->want, r, e, &few) != LEAT_OK &&
        a->rc == LEAT_OK) {
        a->rc = few.code;
        a->err = few;
    }
}

size_t leat__queue_keys(leat_client *client, leat_bytes due, leat__key *whole,
                        leat_bytes keys[LEAT__QUEUE_KEYS])
{
    keys[0] = due;
    if (!leat__client_clustered(client))
        return 1;
    const char *last = memrchr(due.p, ':', due.n);
    leat__key_put(whole, "%.*s:whole", (int)(last - (const char *)due.p),
                  (const char *)due.p);
    keys[1] = leat__key_bytes(whole);
    return 2;
}

static leat_code send_one(leat_conn *conn, queue_answer *a, leat_error *err)
{
    const queue_call *c = a->call;
    leat__key whole;
    leat_bytes own[LEAT__QUEUE_KEYS];
    bool given = c->key_count > 0;
    size_t n = given ? c->key_count
                     : leat__queue_keys(c->client, c->key, &whole, own);
    const leat_bytes *keys = given ? c->keys : own;
    leat_code rc = leat__script_send(conn, c->script, keys, n, c->args, c->n,
                                     &(leat_send_opts){ on_answer, a, 0 }, err);
    a->want = leat__conn_proof(conn, 0, 0);
    if (rc == LEAT_OK && leat__proof_needed(conn, 0)) {
        leat_error e;
        if (leat__conn_wait_for(conn, c->key, &a->want,
                                &(leat_send_opts){ on_proof, a, 0 },
                                &e) != LEAT_OK)
            leat__conn_break(conn, &e);
    }
    return rc;
}

/* All that are not over, in one round trip. */
static void exchange(leat_conn *conn, queue_answer *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (a[i].over)
            continue;
        a[i].rc = LEAT_EUNKNOWN;
        a[i].answered = a[i].early = false;
        leat_error e;
        leat_code rc = send_one(conn, &a[i], &e);
        if (rc != LEAT_OK) {
            a[i].rc = rc;
            a[i].err = e;
        }
    }
    (void)leat_conn_drain(conn, 0, NULL); /* on_answer was told */
}

static void ask_once(leat_client *client, queue_answer *a, size_t n,
                     int64_t deadline_ns)
{
    leat_error e;
    leat_conn *conn = leat_client_lend(client, leat__left_ms(deadline_ns), &e);
    for (size_t i = 0; !conn && i < n; i++) {
        if (a[i].over)
            continue;
        a[i].rc = e.code;
        a[i].err = e;
    }
    if (!conn)
        return;
    int64_t usual = conn->timeout_ms, left = leat__left_ms(deadline_ns);
    if (left < usual)
        conn->timeout_ms = left > 0 ? left : 1;
    exchange(conn, a, n);
    conn->timeout_ms = usual;
    leat_client_return(client, conn);
}

static bool worth_asking_again(leat_code rc)
{
    return rc == LEAT_EUNKNOWN || rc == LEAT_ECONN || rc == LEAT_EBUSY ||
           rc == LEAT_EREADONLY;
}

/* Those that are over now; whether there are others.  A later try that failed
 * says nothing of one before whose answer was lost: that one may have been
 * done, or may arrive yet.  After it only success is certain, and what passes
 * is waited for. */
static bool more_to_ask(queue_answer *a, size_t n)
{
    bool more = false;
    for (size_t i = 0; i < n; i++) {
        if (a[i].over)
            continue;
        if (a[i].rc == LEAT_EUNKNOWN) {
            a[i].unknown = a[i].err;
            if (a[i].call->again)
                *a[i].call->again = '1';
        }
        bool doubt = a[i].unknown.code != LEAT_OK && a[i].rc != LEAT_OK;
        a[i].over = !worth_asking_again(a[i].rc) &&
                    !(doubt && a[i].err.retriable);
        more |= !a[i].over;
        if (doubt) {
            a[i].err = a[i].unknown;
            a[i].rc = a[i].unknown.code;
        }
    }
    return more;
}

void leat__queue_calls(leat_client *client, queue_answer *a, size_t n,
                       int64_t deadline_ns)
{
    int most = client->opts.max_retry_ms;
    leat__backoff wait = { .base_ms = FIRST_RETRY_MS,
                           .cap_ms = most < MAX_RETRY_MS ? most
                                                         : MAX_RETRY_MS };
    do
        ask_once(client, a, n, deadline_ns);
    while (
        more_to_ask(a, n) && leat__now_ns() < deadline_ns &&
        leat__client_pause(client, leat__backoff_next_ms(&wait), deadline_ns));
}

leat_code leat__queue_call(const queue_call *c, leat_error *err)
{
    queue_answer a = { .call = c };
    int64_t deadline = c->deadline_ns;
    if (deadline == 0)
        deadline = leat__deadline_ns(TRIES * c->client->opts.timeout_ms);
    leat__queue_calls(c->client, &a, 1, deadline);
    if (a.rc != LEAT_OK && err)
        *err = a.err;
    return a.rc;
}

typedef struct telling {
    leat_queue *q;
    queue_read_fn *read;
    void *arg;
    leat__buf told;
} telling;

static leat_code read_and_tell(void *arg, const leat_reply *r, leat_error *err)
{
    telling *t = arg;
    leat_code rc = t->read(t->arg, r, err);
    t->told.n = 0;
    if (rc == LEAT_OK && leat__told_copy(t->q, &t->told, r, NULL) != LEAT_OK)
        t->told.n = 0; /* an event less */
    return rc;
}

leat_code leat__queue_ask(leat_queue *q, const leat__script *s,
                          const leat_bytes *args, size_t n, char *again,
                          int64_t deadline_ns, queue_read_fn *read, void *arg,
                          leat_error *err)
{
    leat_code whole = leat__queue_whole(q, err);
    if (whole != LEAT_OK)
        return whole;
    telling t = { .q = q, .read = read, .arg = arg };
    bool tells = q->events[0] == '1' || q->events[0] == '3';
    leat_code rc = leat__queue_call(
        &(queue_call){ .client = q->client,
                       .name = q->name,
                       .key = leat__key_bytes(&q->due),
                       .script = s,
                       .args = args,
                       .n = n,
                       .again = again,
                       .deadline_ns = deadline_ns,
                       .looks = s == q->profile->stats || s == q->profile->peek,
                       .read = tells ? read_and_tell : read,
                       .arg = tells ? &t : arg },
        err);
    if (t.told.n > 0)
        (void)leat__told_publish(q->opts.event_client, q->profile, q->prefix,
                                 leat__buf_bytes(&t.told));
    leat__buf_release(&t.told);
    return rc;
}

/* ---- answers ---------------------------------------------------------- */

leat_code leat__queue_expect(const leat_reply *r, const char *shape,
                             leat_error *err)
{
    return leat__reply_want(r, shape, LEAT_EPROTO, "a script of a queue", err);
}

leat_code leat__queue_each(leat_reply_iter it, size_t n, bool *each,
                           leat_error *err)
{
    size_t numbers = 0;
    for (const leat_reply *at; (at = leat_reply_step(&it));) {
        int64_t v = leat_reply_int(at);
        if (leat_reply_kind(at) == LEAT_REPLY_ARRAY)
            continue; /* events */
        if (v != 0 && v != 1)
            return leat__queue_expect(NULL, "_", err);
        numbers++;
    }
    *each = numbers > 0;
    return numbers == 0 || numbers == n ? LEAT_OK
                                        : leat__queue_expect(NULL, "_", err);
}

leat_code leat__queue_none(const char *name, leat_error *err)
{
    return leat__fail(err, LEAT_ENOENT, "there is no queue '%s'", name);
}

leat_code leat__queue_other(const char *name, leat_error *err)
{
    return leat__fail(err, LEAT_ENOENT,
                      "queue '%s' was removed and made anew: open it again",
                      name);
}

leat_code leat__queue_refused(const leat_queue *q, const leat_reply *r,
                              leat_error *err)
{
    switch (leat_reply_int(leat_reply_at(r, 0))) {
    case -1:
        return leat__fail(err, LEAT_ENOENT,
                          "there is no queue '%s' any more: open it anew to "
                          "make it",
                          q->name);
    case -2:
        return leat__fail(err, LEAT_ETOOBIG,
                          "message %lld is over the %lld bytes that queue '%s' "
                          "takes",
                          (long long)leat_reply_int(leat_reply_at(r, 1)),
                          (long long)leat_reply_int(leat_reply_at(r, 2)),
                          q->name);
    case -4:
        return leat__queue_other(q->name, err);
    case -3:
        return leat__fail(err, LEAT_EINVAL,
                          "queue '%s' was removed and made anew with other "
                          "settings: open it again",
                          q->name);
    default:
        return leat__queue_expect(NULL, "_", err);
    }
}

/* ---- lanes ------------------------------------------------------------ */

leat_code leat__queue_nonce(char out[LEAT__QUEUE_NONCE], leat_error *err)
{
    unsigned char r[LEAT__QUEUE_NONCE / 2];
    leat_code rc = leat__random(r, sizeof r, err);
    for (size_t i = 0; rc == LEAT_OK && i < sizeof r; i++)
        snprintf(out + 2 * i, 3, "%02x", r[i]);
    return rc;
}

static queue_lane *lane_new(leat_error *err)
{
    char name[LEAT__QUEUE_NONCE];
    if (leat__queue_nonce(name, err) != LEAT_OK)
        return NULL;
    queue_lane *l = leat__zalloc(sizeof *l, err);
    if (l)
        memcpy(l->name, name, sizeof name);
    return l;
}

/* One in doubt may bring as many messages as were asked for then. */
static queue_lane *fitting_locked(leat_queue *q, queue_line line, int max)
{
    for (queue_lane **at = &q->lanes[line]; *at; at = &(*at)->next) {
        queue_lane *l = *at;
        if (l->doubt && l->max > max)
            continue;
        *at = l->next;
        return l;
    }
    return NULL;
}

queue_lane *leat__lane_take_for(leat_queue *q, queue_line line, int max,
                                leat_error *err)
{
    pthread_mutex_lock(&q->lock);
    queue_lane *l = fitting_locked(q, line, max);
    pthread_mutex_unlock(&q->lock);
    if (!l)
        l = lane_new(err);
    if (l && !l->doubt) {
        l->number++;
        l->max = max;
        l->asked_ns = leat__now_ns();
    }
    return l;
}

queue_lane *leat__lane_take(leat_queue *q, queue_line line, leat_error *err)
{
    return leat__lane_take_for(q, line, 0, err);
}

void leat__lane_give(leat_queue *q, queue_line line, queue_lane *lane,
                     bool doubt)
{
    lane->doubt = doubt;
    pthread_mutex_lock(&q->lock);
    lane->next = q->lanes[line];
    q->lanes[line] = lane;
    pthread_mutex_unlock(&q->lock);
}

void leat__lanes_free(queue_lane *lane)
{
    while (lane) {
        queue_lane *next = lane->next;
        leat__free(lane);
        lane = next;
    }
}
