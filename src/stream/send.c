/*
 * send.c: the publisher's thread: one connection, its commands and answers.
 *
 * It sends what there is when nothing is in flight, and half a window while
 * something is: so a lone message leaves at once, and under load the server
 * works on one half while the other is written.
 *
 * A command whose last byte did not leave is sent again on the next connection,
 * until its time is over.  So is one that was refused because the stream is
 * elsewhere (READONLY, MOVED, ASK) or cannot be served now (LOADING,
 * CLUSTERDOWN and the like), unless something behind it may have been done:
 * then it could only come out of order, and the refusal is its outcome.
 * Nothing else ever is sent again.
 *
 * Where the durability asks for it, a proof (proof.h) follows what was sent,
 * and what was added before it is told with its answer.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "redis/proof.h"
#include "stream/sink.h"

#include <poll.h>
#include <unistd.h>

enum { LEND_MS = 2000, PAUSE_MS = 50 }; /* a slow network needs some */

/* ---- outcomes --------------------------------------------------------- */

static void count(sink_lane *l, const leat_error *err)
{
    stream_sink *k = l->k;
    leat_counter *c = !err                         ? k->sent
                      : err->code == LEAT_EUNKNOWN ? k->unknown
                                                   : k->failed;
    leat_counter_add(c, 1);
}

static void finish(sink_lane *l, sink_record *r, const leat_position *at,
                   const leat_error *err)
{
    count(l, err);
    if (r->fn) {
        r->fn(r->arg, at, err);
    } else if (err) {
        pthread_mutex_lock(&l->lock);
        leat__error_keep(&l->bad, err);
        pthread_mutex_unlock(&l->lock);
    }
    l->done++;
    l->done_bytes += r->size;
    r->block->done++;
}

/* Blocks whose records are all answered are used again. */
static void give_back_locked(sink_lane *l)
{
    while (l->oldest && l->oldest->done == l->oldest->count) {
        sink_block *b = l->oldest;
        if (b == l->newest) {
            b->used = b->count = b->done = 0;
            return;
        }
        l->oldest = b->next;
        if (l->spare || b->cap > SINK_BLOCK) {
            leat__free(b);
        } else {
            b->next = NULL;
            l->spare = b;
        }
    }
}

static void publish_outcomes(sink_lane *l)
{
    if (l->done == 0)
        return;
    pthread_mutex_lock(&l->lock);
    l->finished += l->done;
    l->bytes -= l->done_bytes;
    give_back_locked(l);
    if (l->waiting > 0)
        pthread_cond_broadcast(&l->told);
    pthread_mutex_unlock(&l->lock);
    l->done = l->done_bytes = 0;
}

static void fail_all(sink_lane *l, sink_queue *q, const leat_error *err)
{
    for (sink_record *r = q->first, *next; r; r = next) {
        next = r->next;
        finish(l, r, NULL, err);
    }
    *q = (sink_queue){ 0 };
}

/* Certainly not done.  Nothing more is sent here. */
static bool to_go_again(sink_lane *l, sink_record *record, const leat_reply *r,
                        const leat_error *err)
{
    if (err && err->code == LEAT_ECONN) {
        leat__sink_push(&l->back, record); /* it did not leave */
        return true;
    }
    if (!err || !r || (err->code != LEAT_EREADONLY && err->code != LEAT_EBUSY))
        return false;
    leat__sink_push(&l->refused, record);
    l->conn->stale = true;
    l->why = *err;
    return true;
}

static void on_added(void *arg, const leat_reply *r, const leat_error *err)
{
    sink_record *record = arg;
    sink_lane *l = record->lane;
    leat_position at;
    leat_error odd;

    if (to_go_again(l, record, r, err))
        return;
    fail_all(l, &l->refused, &l->why);
    if (!err && !leat__stream_id_parse(leat_reply_bytes(r), &at)) {
        leat__fail(&odd, LEAT_EUNKNOWN,
                   "stream '%s': XADD was answered by no id", l->k->base.name);
        err = &odd;
    }
    if (!err && leat__proof_needed(l->conn, 0)) {
        record->at = at;
        leat__sink_push(&l->unproven, record);
        return;
    }
    finish(l, record, err ? NULL : &at, err);
}

/* err: NULL, or why nobody knows whether they are kept. */
static void tell_unproven(sink_lane *l, const leat_error *err)
{
    for (sink_record *r = l->unproven.first, *next; r; r = next) {
        next = r->next;
        finish(l, r, err ? NULL : &r->at, err);
    }
    l->unproven = (sink_queue){ 0 };
}

static void on_proved(void *arg, const leat_reply *r, const leat_error *e)
{
    sink_lane *l = arg;
    leat__proof want = leat__conn_proof(l->conn, 0, 0);
    leat_error few;
    bool kept = leat__proof_check(&want, r, e, &few) == LEAT_OK;
    tell_unproven(l, kept ? NULL : &few);
}

/* ---- sending ---------------------------------------------------------- */

static sink_record *pop(sink_queue *q)
{
    sink_record *r = q->first;
    q->first = r->next;
    if (!q->first)
        q->last = NULL;
    q->count--;
    return r;
}

static size_t window(const sink_lane *l)
{
    size_t own = (size_t)l->k->opts.window, most = l->conn->window;
    if (leat__proof_needed(l->conn, 0))
        most--; /* a place for the proof */
    return own < most ? own : most;
}

/* Copy commands into the connection's buffer, as many as the window takes. */
static void send_some(sink_lane *l)
{
    size_t max = window(l);
    if (l->conn->asking && max > 1)
        max--; /* for ASKING */
    while (l->unsent.first && leat__conn_waiting(l->conn) < max) {
        sink_record *r = l->unsent.first;
        char *p = leat__conn_ask(l->conn, NULL) == LEAT_OK
                      ? leat__outq_room(&l->conn->out, r->size, NULL)
                      : NULL;
        if (!p)
            return; /* what is in flight will make room */
        memcpy(p, r->bytes, r->size);
        leat__conn_push(
            l->conn, r->size,
            &(leat__pending){ .fn = on_added, .arg = pop(&l->unsent) });
    }
}

/* Without the proof nothing that was sent could be told: so it ends. */
static void send_proof(sink_lane *l)
{
    leat__proof want = leat__conn_proof(l->conn, 0, 0);
    leat_error e;
    if (leat__conn_wait_for(l->conn, leat_str(l->k->stream->name), &want,
                            &(leat_send_opts){ .fn = on_proved, .arg = l },
                            &e) != LEAT_OK)
        leat__conn_break(l->conn, &e);
}

static void send_due(sink_lane *l)
{
    size_t half = window(l) / 2;
    size_t in_flight = leat_conn_in_flight(l->conn);
    bool go = in_flight == 0 || l->unsent.count >= (half ? half : 1);
    size_t before = l->unsent.count;
    if (go && !l->conn->stale)
        send_some(l);
    if (l->unsent.count < before && leat__proof_needed(l->conn, 0))
        send_proof(l);
    (void)leat__conn_write_some(l->conn, NULL);
}

static void put_first(sink_lane *l, sink_queue *q)
{
    if (!q->first)
        return;
    q->last->next = l->unsent.first;
    q->count += l->unsent.count;
    if (l->unsent.last)
        q->last = l->unsent.last;
    l->unsent = *q;
    *q = (sink_queue){ 0 };
}

/* What never left goes first again, and what was refused before it. */
static void lost(sink_lane *l)
{
    leat_error e;
    leat__proof want = leat__conn_proof(l->conn, 0, 0);
    leat__stream_disconnect(l->k->stream, l->conn);
    l->conn = NULL;
    leat__proof_missing(&want, "the connection was lost", &e);
    tell_unproven(l, &e);
    put_first(l, &l->back);
    if (l->refused.first)
        l->retry_ns = leat__deadline_ns(PAUSE_MS);
    put_first(l, &l->refused);
}

static void expire(sink_lane *l, int64_t now)
{
    leat_error e;
    if (!l->unsent.first || l->unsent.first->deadline_ns > now)
        return;
    leat__fail(&e, LEAT_ETIMEOUT, "stream '%s': not sent, %s%.140s",
               l->k->base.name, l->why.msg[0] ? "" : "the server was away",
               l->why.msg);
    while (l->unsent.first && l->unsent.first->deadline_ns <= now)
        finish(l, pop(&l->unsent), NULL, &e);
}

/* ---- receiving -------------------------------------------------------- */

static int64_t answer_due(const leat_conn *c)
{
    return c->head != c->stamped ? c->ring[c->head & c->mask].deadline_ns
                                 : INT64_MAX;
}

static void serve(sink_lane *l)
{
    leat_error e;
    leat_code rc = leat_conn_take(l->conn, &e);
    if (leat__stream_asked_long(l->conn, l->since_ns))
        l->conn->stale = true;
    if (rc == LEAT_OK && answer_due(l->conn) <= leat__now_ns()) {
        leat__fail(&e, LEAT_ETIMEOUT, "no answer in time");
        rc = leat__conn_break(l->conn, &e);
    }
    bool demoted = rc == LEAT_OK && l->conn->stale &&
                   leat_conn_in_flight(l->conn) == 0;
    if (rc == LEAT_OK && !demoted)
        return;
    leat__log(&l->k->stream->log, LEAT_LOG_INFO, "stream '%s': %s",
              l->k->base.name, demoted ? "it is elsewhere" : e.msg);
    lost(l);
}

/* ---- the loop --------------------------------------------------------- */

static void take_queue(sink_lane *l)
{
    pthread_mutex_lock(&l->lock);
    sink_queue fresh = l->queue;
    l->queue = (sink_queue){ 0 };
    pthread_mutex_unlock(&l->lock);
    if (!fresh.first)
        return;
    if (l->unsent.last)
        l->unsent.last->next = fresh.first;
    else
        l->unsent.first = fresh.first;
    l->unsent.last = fresh.last;
    l->unsent.count += fresh.count;
}

/* How many more messages end the sleep: answers do anyway. */
static size_t wake_at(const sink_lane *l)
{
    if (!l->conn || leat_conn_in_flight(l->conn) == 0)
        return 1;
    size_t half = window(l) / 2;
    return half > l->unsent.count ? half - l->unsent.count : SIZE_MAX;
}

static bool fall_asleep(sink_lane *l)
{
    size_t at = wake_at(l);
    pthread_mutex_lock(&l->lock);
    l->wake_at = at;
    l->asleep = !l->abort && l->queue.count < at;
    bool sleeps = l->asleep;
    pthread_mutex_unlock(&l->lock);
    return sleeps;
}

static void wake_up(sink_lane *l, bool event)
{
    uint64_t told;
    pthread_mutex_lock(&l->lock);
    l->asleep = false;
    pthread_mutex_unlock(&l->lock);
    if (event && read(l->event, &told, sizeof told) < 0)
        return; /* told twice: no harm */
}

static void sleep_until(sink_lane *l, int64_t due)
{
    struct pollfd p[2] = { { .fd = l->event, .events = POLLIN } };
    nfds_t n = 1;
    if (l->conn) {
        short out = leat__outq_left(&l->conn->out) > 0 ? POLLOUT : 0;
        p[n++] = (struct pollfd){ .fd = leat_conn_fd(l->conn),
                                  .events = (short)(POLLIN | out) };
        if (leat_conn_fd(l->conn) < 0)
            due = 0; /* it broke while we wrote */
    }
    int64_t left = due == INT64_MAX ? -1 : due - leat__now_ns();
    if (due != INT64_MAX && left < 0)
        left = 0;
    if (!fall_asleep(l))
        left = 0;
    int got = leat__sys->poll(leat__sys->arg, p, n, left);
    wake_up(l, got > 0 && p[0].revents);
}

/* An idle connection that is lost is replaced when there is something to
 * send. */
static void connect_lane(sink_lane *l, int64_t now)
{
    leat_error e;
    if (l->conn || !l->unsent.first || now < l->retry_ns)
        return;
    l->conn = leat__stream_connect(l->k->stream, LEND_MS, &e);
    l->since_ns = leat__now_ns();
    if (l->conn)
        l->why = (leat_error){ 0 };
    else if (!e.retriable)
        fail_all(l, &l->unsent, &e);
}

static void round_trip(sink_lane *l)
{
    int64_t now = leat__now_ns(), due = INT64_MAX;
    take_queue(l);
    if (!l->conn)
        expire(l, now);
    connect_lane(l, now);
    if (l->conn) {
        send_due(l);
        due = answer_due(l->conn);
    } else {
        expire(l, now);
    }
    if (due == INT64_MAX && l->unsent.first) /* no server, or no memory */
        due = now + (int64_t)PAUSE_MS * 1000000;
    publish_outcomes(l);
    sleep_until(l, due);
    if (l->conn)
        serve(l);
    publish_outcomes(l);
}

static bool aborted(sink_lane *l)
{
    pthread_mutex_lock(&l->lock);
    bool abort = l->abort;
    pthread_mutex_unlock(&l->lock);
    return abort;
}

void *leat__stream_send(void *lane)
{
    sink_lane *l = lane;
    leat_error e;
    while (!aborted(l))
        round_trip(l);
    take_queue(l);
    if (l->conn)
        lost(l);
    leat__fail(&e, LEAT_ECLOSED, "stream '%s': the sink was closed first",
               l->k->base.name);
    fail_all(l, &l->unsent, &e);
    publish_outcomes(l);
    return NULL;
}
