/*
 * producer_send.c: from the backlog to the connection, and the answers noted.
 *
 * Everything here runs under `io`, on the sender or on a publishing thread, so
 * nothing is told here.  A verdict is noted for each message, in the order of
 * sending; when the connection breaks it asks for one for each that waits, and
 * what it calls not sent gets none: it is as if it had not been tried.
 *
 * So it is with what a server refuses because it does not have the partition
 * now (READONLY, MOVED, ASK) or cannot serve it yet (LOADING, CLUSTERDOWN and
 * the like): nothing more is sent on that connection, and the refused go first
 * on the next.  But once anything behind a refused message may have been done
 * there, it can no longer go in order: then the refusal is its outcome.
 *
 * Where replicas or the disk are to be waited for, a proof follows each batch
 * (proof.h), and the verdicts before it become final with its answer.
 */
#include "base/mem.h"
#include "base/system.h"
#include "redis/proof.h"
#include "redis/server_error.h"
#include "topic/producer.h"

#include <stdio.h>

enum { UNSENT_MOST = 256 * 1024 }; /* bytes that wait for the socket */

/* ---- answers ---------------------------------------------------------- */

static bool read_number(const char **p, const char *end, uint64_t *out)
{
    const char *start = *p;
    uint64_t v = 0;
    for (; *p < end && **p >= '0' && **p <= '9'; ++*p)
        v = v * 10 + (uint64_t)(**p - '0');
    *out = v;
    return *p > start;
}

/* Messages that were answered together mostly have the same millisecond. */
static bool read_ms(leat__producer *p, leat_bytes id)
{
    const char *at = id.p;
    if (!read_number(&at, at + id.n, &p->ms) || at == (char *)id.p + id.n ||
        *at++ != '-' || (size_t)(at - (char *)id.p) > sizeof p->ms_text)
        return false;
    p->ms_size = (size_t)(at - (char *)id.p);
    memcpy(p->ms_text, id.p, p->ms_size);
    return true;
}

static bool read_id(leat__producer *p, leat_bytes id, leat__verdict *v)
{
    const char *end = (const char *)id.p + id.n, *at;
    if ((p->ms_size == 0 || id.n <= p->ms_size ||
         memcmp(id.p, p->ms_text, p->ms_size) != 0) &&
        !read_ms(p, id))
        return false;
    v->ms = p->ms;
    at = (const char *)id.p + p->ms_size;
    return read_number(&at, end, &v->seq) && at == end;
}

static void note_failure(leat__verdict *v, const leat_error *e)
{
    v->code = e->code;
    v->retriable = e->retriable;
    v->text = leat__alloc(sizeof *e, NULL);
    if (v->text)
        *v->text = *e;
}

/* No id: a script found the log full. */
static __attribute__((noinline, cold)) void
no_id(const leat__producer *p, const leat_reply *r, leat__verdict *v)
{
    leat_error e;
    if (r->type == LEAT_REPLY_INT && leat__producer_scripted(p))
        leat__fail_retriable(
            &e, LEAT_EFULL, true,
            "topic '%s': a partition has its cap of %lld messages: let groups "
            "settle some that may be trimmed, or raise the cap",
            p->topic->name, (long long)leat_reply_int(r));
    else
        leat__fail(&e, LEAT_EUNKNOWN, "the server answered XADD without an id");
    note_failure(v, &e);
}

/* Its scripts were flushed since it got this one: on the next connection it is
 * told again. */
static bool forgotten(const leat_reply *r)
{
    return leat__server_error_is(leat_reply_bytes(r), "NOSCRIPT");
}

/* The server did not take it, and another, or the same one later, may. */
static bool refusal(const leat_reply *r, const leat_error *e)
{
    return r &&
           (e->code == LEAT_EREADONLY || e->code == LEAT_EBUSY || forgotten(r));
}

static __attribute__((noinline, cold)) void
note_refused(const leat_reply *r, const leat_error *e, leat__verdict *v)
{
    leat_error again;
    if (r && forgotten(r)) {
        leat__fail_retriable(
            &again, LEAT_EBUSY, true,
            "the server has forgotten a script since it was sent");
        e = &again;
    }
    note_failure(v, e);
}

/* Verdicts that stand, but perhaps for a proof. */
static uint64_t stands(const leat__producer *p)
{
    return p->replied - p->refused;
}

static void on_added(void *arg, const leat_reply *r, const leat_error *e)
{
    leat__producer *p = arg;
    if (e && !r && e->code == LEAT_ECONN) {
        p->back++;
        return;
    }
    leat__verdict *v = &p->verdicts[p->replied++ & p->mask];
    v->code = LEAT_OK;
    p->refused = e && refusal(r, e) ? p->refused + 1 : 0;
    p->conn->stale |= p->refused > 0;
    if (e)
        note_refused(r, e, v);
    else if (r->type != LEAT_REPLY_STRING ||
             !read_id(p, leat_mem(r->s.p, r->s.n), v))
        no_id(p, r, v);
    if (!leat__proof_needed(p->conn, p->opts->replicas))
        p->sure = stands(p);
}

static leat__proof proof(const leat__producer *p)
{
    return leat__conn_proof(p->conn, p->opts->replicas, p->opts->replicas_ms);
}

/* What the server has, but not as safely as it should. */
static void doubt(leat__producer *p, const leat_error *e)
{
    for (; p->sure < stands(p); p->sure++) {
        leat__verdict *v = &p->verdicts[p->sure & p->mask];
        if (v->code == LEAT_OK)
            note_failure(v, e);
    }
}

static void on_proved(void *arg, const leat_reply *r, const leat_error *e)
{
    leat__producer *p = arg;
    leat__proof want = proof(p);
    leat_error few;
    if (leat__proof_check(&want, r, e, &few) == LEAT_OK)
        p->sure = stands(p);
    else
        doubt(p, &few);
}

const leat__verdict *leat__producer_refusal(const leat__producer *p)
{
    return p->refused ? &p->verdicts[stands(p) & p->mask] : NULL;
}

/* As if they had not been tried. */
static void take_back_refused(leat__producer *p)
{
    p->back += p->refused;
    for (; p->refused > 0; p->refused--) {
        leat__verdict *v = &p->verdicts[--p->replied & p->mask];
        leat__free(v->text);
        v->text = NULL;
    }
}

void leat__producer_broken(leat__producer *p)
{
    leat__proof want = proof(p);
    leat_error e;
    leat__proof_missing(&want, "the connection was lost", &e);
    doubt(p, &e);
    take_back_refused(p);
}

/* ---- sending ---------------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What is answered and not yet told takes no place in the window, but one among
 * the verdicts.  One place of the connection is kept for the proof, and one for
 * each ASKING. */
static uint64_t room(const leat__producer *p)
{
    const leat_conn *c = p->conn;
    uint64_t window = least((uint64_t)p->opts->window, c->window);
    uint64_t flight = p->next - p->replied, untold = p->next - p->head;
    uint64_t slots = c->window - leat__conn_waiting(c);
    if (leat__proof_needed(c, p->opts->replicas) && slots > 0)
        slots--;
    if (c->asking)
        slots /= 2;
    if (flight >= window)
        return 0;
    return least(least(window - flight, slots), p->mask + 1 - untold);
}

/* Something may have to wait for more: then linger_until_ns says how long. */
static bool lingers_locked(leat__producer *p)
{
    uint64_t queued = p->tail - p->next;
    if (p->opts->linger_ms == 0 || queued == 0 || p->next < p->hurry ||
        queued >= (uint64_t)p->opts->window / 2)
        return false;
    int64_t spare_ms = p->opts->timeout_ms - p->opts->linger_ms;
    int64_t until = leat__backlog_peek(&p->sent)->deadline_ns -
                    spare_ms * 1000000;
    if (leat__now_ns() >= until)
        return false;
    p->linger_until_ns = until;
    return true;
}

/* How many are to go now; they count as given to the connection. */
static uint64_t take(leat__producer *p)
{
    p->linger_until_ns = 0;
    pthread_mutex_lock(&p->lock);
    uint64_t n = p->tail - p->next, most = room(p);
    p->full = n > most;
    if (n > most)
        n = most;
    if (n > 0 && lingers_locked(p))
        n = 0;
    p->next += n;
    pthread_mutex_unlock(&p->lock);
    return n;
}

static void give_back(leat__producer *p, uint64_t n)
{
    pthread_mutex_lock(&p->lock);
    p->next -= n;
    pthread_mutex_unlock(&p->lock);
}

/* A script's call, the first of its kind on this connection: with its text. */
static __attribute__((noinline, cold)) bool push_whole(leat__producer *p,
                                                       const leat__item *item)
{
    leat_bytes command = leat_mem(item->bytes, item->size);
    size_t room = leat__addition_whole_room(command);
    char *to = p->conn->asking && leat__conn_ask(p->conn, NULL) != LEAT_OK
                   ? NULL
                   : leat__outq_room(&p->conn->out, room, NULL);
    p->no_memory = !to;
    if (!to)
        return false;
    leat__conn_push(p->conn, leat__addition_whole(to, command),
                    &(leat__pending){ .fn = on_added, .arg = p });
    p->taught |= 1u << item->head;
    return true;
}

static bool push(leat__producer *p)
{
    leat__spot s = p->sent;
    const leat__item *item = leat__backlog_next(&s);
    if (item->head < LEAT__BY_XADD && !(p->taught & 1u << item->head)) {
        bool ok = push_whole(p, item);
        if (ok)
            p->sent = s;
        return ok;
    }
    char *to = p->conn->asking && leat__conn_ask(p->conn, NULL) != LEAT_OK
                   ? NULL
                   : leat__outq_room(&p->conn->out, item->size, NULL);
    p->no_memory = !to;
    if (!to)
        return false;
    memcpy(to, item->bytes, item->size);
    leat__conn_push(p->conn, item->size,
                    &(leat__pending){ .fn = on_added, .arg = p });
    p->sent = s;
    return true;
}

/* A proof that cannot be queued leaves the batch unconfirmed: the next one, or
 * the end of the connection, speaks for it.  So the connection ends. */
static void push_proof(leat__producer *p)
{
    leat__proof want = proof(p);
    leat_error e;
    if (leat__conn_wait_for(p->conn, leat_mem("", 0), &want,
                            &(leat_send_opts){ .fn = on_proved, .arg = p },
                            &e) != LEAT_OK)
        leat__conn_break(p->conn, &e);
}

/* Queue as much as may wait for the socket; false: there is no memory. */
static bool push_some(leat__producer *p, uint64_t n, uint64_t *pushed)
{
    uint64_t i = 0;
    while (i < n && leat__outq_left(&p->conn->out) < UNSENT_MOST && push(p))
        i++;
    if (i < n)
        give_back(p, n - i);
    if (i > 0 && leat__proof_needed(p->conn, p->opts->replicas))
        push_proof(p);
    *pushed = i;
    return i == n || !p->no_memory;
}

bool leat__producer_send(leat__producer *p)
{
    leat_conn *c = p->conn;
    while (c->t && !c->stale && leat__outq_left(&c->out) < UNSENT_MOST) {
        uint64_t n = take(p), pushed;
        bool memory = push_some(p, n, &pushed);
        if (leat__outq_left(&c->out) > 0)
            (void)leat__conn_write_some(c, NULL);
        if (!c->t || !memory || leat__outq_left(&c->out) > 0)
            return false;
        if (pushed == n)
            return true;
    }
    return false;
}
