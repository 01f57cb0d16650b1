/*
 * conn_io.c: moving a connection's bytes, with deadlines.
 *
 * Every wait has a deadline: that of the command whose answer comes next.  It
 * counts from the flush, and adds the time for which it, and commands before it
 * that have no answer yet, told the server to block.  A wait that ends without
 * an answer breaks the connection.  Bytes are no answer: a server that sends
 * pushes without end, or a reply that never ends, stretches no deadline.
 */
#include "base/fork.h"
#include "base/mem.h"
#include "base/system.h"
#include "redis/bundle.h"
#include "redis/keys.h"
#include "redis/server_error.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

enum {
    IN_FIRST = 64 * 1024,
    IN_KEEP = 1024 * 1024, /* a larger receive buffer is given back */
    GATHER = 64
};

static leat_code fail_with(leat_conn *c, leat_error *err, leat_code code,
                           int sys, const char *what)
{
    leat_error e;
    if (c->t->why)
        e = *c->t->why;
    else if (sys)
        leat__fail_errno(&e, code, sys, "%s", what);
    else
        leat__fail(&e, code, "%s", what);
    if (err)
        *err = e;
    return leat__conn_break(c, &e);
}

/* The socket is shared with the parent: a byte from here would tear the
 * parent's stream apart. */
leat_code leat__conn_forked(const leat_conn *c, leat_error *err)
{
    if (c->forks == leat__fork_count())
        return LEAT_OK;
    return leat__fail(err, LEAT_EFORK,
                      "this connection belongs to the parent process, open "
                      "a client of your own after fork");
}

static leat_code own(const leat_conn *c, leat_error *err)
{
    if (!c->t)
        return leat__fail(err, LEAT_ECONN, "the connection was lost: %s",
                          c->why.msg);
    return leat__conn_forked(c, err);
}

/* Commands about to be flushed get the time by which they must be answered. */
static void stamp(leat_conn *c)
{
    if (c->stamped == c->tail)
        return;
    int64_t now = leat__now_ns();
    for (; c->stamped != c->tail; c->stamped++) {
        leat__pending *p = &c->ring[c->stamped & c->mask];
        c->blocked_ns += leat__pending_wait_ns(p);
        p->deadline_ns = now + c->blocked_ns + c->timeout_ms * 1000000;
    }
}

/* What the server said before it hung up is still worth hearing: it turns
 * unknowns into answers. */
static leat_code send_failed(leat_conn *c, int sys, leat_error *err)
{
    bool got = true;
    for (int i = 0; i < LEAT__READS_AT_ONCE && c->t && got && !c->held; i++)
        (void)leat__conn_read_some(c, false, &got, NULL);
    if (c->t)
        return fail_with(c, err, LEAT_ECONN, sys, "cannot send");
    if (err)
        *err = c->why;
    return c->why.code;
}

leat_code leat__conn_write_some(leat_conn *c, leat_error *err)
{
    if (c->bundle)
        return leat__bundle_expire(c, err);
    leat_code rc = own(c, err);
    if (rc != LEAT_OK)
        return rc;
    stamp(c);
    while (leat__outq_left(&c->out) > 0) {
        struct iovec v[GATHER];
        int pieces = leat__outq_gather(&c->out, v, GATHER);
        ssize_t n = c->t->ops->sendv(c->t, v, pieces);
        if (n > 0)
            leat__outq_sent(&c->out, (size_t)n);
        else if (n < 0 && errno == EINTR)
            continue;
        else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return LEAT_OK;
        else
            return send_failed(c, errno, err);
    }
    return LEAT_OK;
}

void leat__conn_write_early(leat_conn *c)
{
    struct iovec v[GATHER];
    if (c->bundle) {
        leat__bundle_write_early(c);
        return;
    }
    if (own(c, NULL) != LEAT_OK || leat__outq_left(&c->out) == 0)
        return;
    stamp(c);
    int pieces = leat__outq_gather(&c->out, v, GATHER);
    ssize_t n = c->t->ops->sendv(c->t, v, pieces);
    if (n > 0)
        leat__outq_sent(&c->out, (size_t)n);
}

/* Room to receive into: move what is left to the front, or grow when a reply
 * fills the buffer, or give back what a large reply needed. */
static leat_code make_room(leat_conn *c, leat_error *err)
{
    size_t left = c->in_end - c->in_start;
    if (left == 0) {
        c->in_start = c->in_end = 0;
        if (c->in_cap > IN_KEEP) {
            leat__free(c->in);
            c->in = NULL;
            c->in_cap = 0;
        }
    }
    if (c->in_cap - c->in_end > c->in_cap / 4)
        return LEAT_OK;
    if (c->in_start > 0) {
        memmove(c->in, c->in + c->in_start, left);
        c->in_start = 0;
        c->in_end = left;
        return LEAT_OK;
    }
    if (c->in_cap > c->in_end)
        return LEAT_OK;
    size_t cap = c->in_cap ? c->in_cap * 2 : IN_FIRST;
    char *p = leat__realloc(c->in, cap, err);
    if (!p)
        return LEAT_ENOMEM;
    c->in = p;
    c->in_cap = cap;
    return LEAT_OK;
}

leat_code leat__conn_process(leat_conn *c, leat_error *err)
{
    if (c->held) {
        leat__resp_reset(&c->resp);
        c->held = false;
    }
    leat_error e; /* one for all replies: it is large */
    while (c->in_start < c->in_end) {
        size_t used;
        leat__resp_state st = leat__resp_decode(
            &c->resp, c->in + c->in_start, c->in_end - c->in_start, &used, &e);
        if (st == LEAT__RESP_MORE)
            return LEAT_OK;
        if (st == LEAT__RESP_BAD) {
            if (err)
                *err = e;
            return leat__conn_break(c, &e);
        }
        c->in_start += used;
        if (leat__conn_answer(c, c->resp.nodes) != LEAT_OK) {
            if (err)
                *err = c->why;
            return c->why.code;
        }
        if (c->hold) {
            c->hold = false;
            c->held = true;
            return LEAT_OK;
        }
        leat__resp_reset(&c->resp);
    }
    return LEAT_OK;
}

/* Nothing was received, with errno, or 0: the end. */
static leat_code nothing_came(leat_conn *c, ssize_t n, int sys, leat_error *err)
{
    if (n == 0)
        return fail_with(c, err, LEAT_ECONN, 0, "the server closed it");
    if (sys == EAGAIN || sys == EWOULDBLOCK || sys == EINTR)
        return LEAT_OK;
    return fail_with(c, err, LEAT_ECONN, sys, "cannot receive");
}

/* All that the transport has at hand is taken over, for poll would not tell of
 * it.  What came before an end is heard first. */
leat_code leat__conn_read_some(leat_conn *c, bool wait, bool *got,
                               leat_error *err)
{
    leat_error e;
    ssize_t n;
    *got = false;
    if (c->bundle)
        return leat__bundle_take(c, err);
    leat_code rc = own(c, err);
    if (rc != LEAT_OK)
        return rc;
    do {
        if (make_room(c, &e) != LEAT_OK) {
            if (err)
                *err = e;
            return leat__conn_break(c, &e);
        }
        n = c->t->ops->recv(c->t, c->in + c->in_end, c->in_cap - c->in_end,
                            wait && !*got);
        if (n > 0) {
            *got = true;
            c->in_end += (size_t)n;
        }
    } while (n > 0 && c->t->more);
    int sys = errno;
    if (*got)
        rc = leat__conn_process(c, err);
    if (n > 0 || rc != LEAT_OK || c->held)
        return rc;
    return nothing_came(c, n, sys, err);
}

/* Wait until the socket is ready; LEAT_ETIMEOUT leaves the connection as it
 * is. */
static leat_code wait_ready(leat_conn *c, short events, int64_t deadline_ns,
                            leat_error *err)
{
    for (;;) {
        struct pollfd p = { .fd = c->t->fd, .events = events };
        int64_t left = deadline_ns == INT64_MAX ? -1
                                                : deadline_ns - leat__now_ns();
        if (deadline_ns != INT64_MAX && left < 0)
            left = 0;
        int n = leat__sys->poll(leat__sys->arg, &p, 1, left);
        if (n > 0)
            return LEAT_OK;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_with(c, err, LEAT_ECONN, errno, "cannot poll");
        return LEAT_ETIMEOUT;
    }
}

int64_t leat__conn_deadline(const leat_conn *c)
{
    if (c->bundle)
        return leat__bundle_deadline(c);
    return c->head != c->stamped ? c->ring[c->head & c->mask].deadline_ns
                                 : INT64_MAX;
}

static leat_code too_late(leat_conn *c, leat_error *err)
{
    leat_error e;
    leat__fail(&e, LEAT_ETIMEOUT, "no answer within %lld ms",
               (long long)c->timeout_ms);
    if (err)
        *err = e;
    return leat__conn_break(c, &e);
}

leat_code leat__conn_expire(leat_conn *c, leat_error *err)
{
    if (c->bundle)
        return leat__bundle_expire(c, err);
    return leat__now_ns() < leat__conn_deadline(c) ? LEAT_OK : too_late(c, err);
}

/* What is there already is read first, however late it is; then the deadline
 * holds, whatever else comes. */
static leat_code read_by_deadline(leat_conn *c, bool wait, bool *got,
                                  leat_error *err)
{
    leat_code rc = leat__conn_read_some(c, wait, got, err);
    return rc == LEAT_OK && *got && !c->held ? leat__conn_expire(c, err) : rc;
}

/* The answer that comes next must come by its deadline. */
static leat_code wait_answer(leat_conn *c, short events, leat_error *err)
{
    assert(c->head != c->stamped);
    leat_code rc = wait_ready(c, events, leat__conn_deadline(c), err);
    return rc == LEAT_ETIMEOUT ? too_late(c, err) : rc;
}

leat_code leat_conn_flush(leat_conn *c, leat_error *err)
{
    if (c->bundle)
        return leat__bundle_flush(c, err);
    leat_code rc = leat__conn_write_some(c, err);
    while (rc == LEAT_OK && leat__outq_left(&c->out) > 0) {
        bool got;
        rc = wait_answer(c, POLLIN | POLLOUT, err);
        if (rc == LEAT_OK)
            rc = read_by_deadline(c, false, &got, err);
        if (rc == LEAT_OK)
            rc = leat__conn_write_some(c, err);
    }
    return rc;
}

/* Once nothing is waited for, what else may have come can wait for the next
 * time: asking in vain costs as much as receiving. */
leat_code leat_conn_take(leat_conn *c, leat_error *err)
{
    if (c->bundle)
        return leat__bundle_take(c, err);
    bool got = true;
    leat_code rc = leat__conn_process(c, err);
    if (rc == LEAT_OK)
        rc = leat__conn_read_some(c, false, &got, err);
    for (int i = 1; i < LEAT__READS_AT_ONCE && rc == LEAT_OK && got &&
                    leat__conn_waiting(c) > 0;
         i++)
        rc = leat__conn_read_some(c, false, &got, err);
    if (rc == LEAT_OK)
        rc = leat__conn_write_some(c, err);
    return rc;
}

/* The read itself may wait, unless the deadline is nearer than that. */
static bool may_wait(const leat_conn *c)
{
    int64_t deadline = c->ring[c->head & c->mask].deadline_ns;
    return deadline - leat__now_ns() > LEAT__PATIENCE_NS;
}

leat_code leat__conn_await(leat_conn *c, size_t in_flight, leat_error *err)
{
    if (c->bundle)
        return leat__bundle_await(c, in_flight, err);
    leat_code rc = leat__conn_process(c, err);
    if (rc == LEAT_OK)
        rc = leat_conn_flush(c, err);
    while (rc == LEAT_OK && !c->held && leat__conn_waiting(c) > in_flight) {
        bool got;
        rc = read_by_deadline(c, may_wait(c), &got, err);
        if (rc == LEAT_OK && leat__outq_left(&c->out) > 0)
            rc = leat_conn_flush(c, err);
        else if (rc == LEAT_OK && !got)
            rc = wait_answer(c, POLLIN, err);
    }
    return rc;
}

leat_code leat_conn_drain(leat_conn *c, size_t in_flight, leat_error *err)
{
    leat_code rc = leat__conn_await(c, in_flight, err);
    if (c->failed.code != LEAT_OK) {
        rc = c->failed.code;
        if (err)
            *err = c->failed;
        c->failed = (leat_error){ 0 };
    }
    return rc;
}

void leat__call_done(void *arg, const leat_reply *r, const leat_error *e)
{
    leat__call *call = arg;
    call->reply = r;
    if (e)
        call->err = *e;
    call->conn->hold = r != NULL;
}

leat_code leat__call_begin(leat_conn *c, leat_error *err)
{
    if (c->in_tx)
        return leat__fail(err, LEAT_EINVAL,
                          "inside a transaction use leat_conn_send: the reply "
                          "comes with leat_conn_exec");
    if (c->bundle)
        return leat__bundle_begin(c, err);
    leat_code rc = own(c, err);
    return rc == LEAT_OK ? leat__conn_process(c, err) : rc;
}

leat_code leat__call_wait(leat__call *call, const leat_reply **reply,
                          leat_error *err)
{
    if (call->conn->bundle)
        leat__bundle_finish(call->conn, call);
    else
        (void)leat__conn_await(call->conn, 0, NULL); /* call has the outcome */
    assert(call->reply || call->err.code != LEAT_OK);
    if (reply)
        *reply = call->reply;
    if (call->err.code != LEAT_OK && err)
        *err = call->err;
    return call->err.code;
}

static void name_key(const leat_bytes *argv, size_t n, leat_error *err)
{
    leat__keys k = leat__keys_of(argv, n);
    if (k.first < k.end)
        leat__error_name_key(err, argv[k.first]);
}

leat_code leat_conn_call(leat_conn *c, const leat_bytes *argv, size_t n,
                         const leat_send_opts *opts, const leat_reply **reply,
                         leat_error *err)
{
    leat__call call = { .conn = c };
    leat_send_opts o = { leat__call_done, &call, opts ? opts->block_ms : 0 };

    if (reply)
        *reply = NULL;
    leat_code rc = leat__call_begin(c, err);
    if (rc == LEAT_OK)
        rc = leat_conn_send(c, argv, n, &o, err);
    rc = rc == LEAT_OK ? leat__call_wait(&call, reply, err) : rc;
    if (rc == LEAT_EAUTH && err)
        name_key(argv, n, err);
    return rc;
}

leat_code leat_conn_listen(leat_conn *c, int64_t wait_ms, leat_error *err)
{
    if (c->bundle)
        return leat__bundle_listen(c, wait_ms, err);
    int64_t deadline = leat__deadline_ns(wait_ms);
    uint64_t before = c->pushes;
    bool got;

    leat_code rc = leat__conn_process(c, err);
    if (rc == LEAT_OK)
        rc = leat_conn_flush(c, err);
    while (rc == LEAT_OK && c->pushes == before) {
        rc = wait_ready(c, POLLIN, deadline, err);
        if (rc == LEAT_ETIMEOUT)
            return LEAT_OK;
        if (rc == LEAT_OK)
            rc = leat__conn_read_some(c, false, &got, err);
        if (leat__left_ms(deadline) == 0)
            return rc;
    }
    return rc;
}
