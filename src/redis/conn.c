/*
 * conn.c: one connection to one server.
 *
 *   send ->  out: encoded bytes  ->  socket  ->  in: received bytes  -> answer
 *            ring: a leat__pending for each command, in order of sending
 *
 * A command is queued as bytes in `out` and as an entry in the ring.  Answers
 * come in the order of the commands, so the head of the ring is always whose
 * answer comes next.  An entry knows the stream offset behind its last byte:
 * when the connection breaks, a command whose offset the socket did not take
 * cannot have been executed (the server saw no whole command) and is
 * LEAT_ECONN; every other is LEAT_EUNKNOWN.
 *
 * States: open (t is set) -> broken (t is NULL), never back.  Whatever makes an
 * answer doubtful breaks it: a deadline, a reply that nobody asked for, bytes
 * that are not RESP.  So a late answer cannot be taken for another's.
 */
#include "redis/conn.h"
#include "base/fork.h"
#include "base/mem.h"
#include "base/system.h"
#include "redis/bundle.h"
#include "redis/cluster.h"
#include "redis/server_error.h"

#include <string.h>
#include <sys/epoll.h>

enum {
    DEFAULT_WINDOW = 1024,
    MAX_WINDOW = 1 << 20,
    AUTO_FLUSH = 32 * 1024,         /* queued bytes that start a write       */
    MAX_COMMAND = 512 * 1024 * 1024 /* the server takes no more in one piece */
};

static uint32_t ring_size(uint32_t window)
{
    uint32_t n = 16;
    while (n < window)
        n *= 2;
    return n;
}

leat_conn *leat__conn_new(leat__transport *t, const leat__conn_opts *opts,
                          leat_error *err)
{
    leat_conn *c = leat__zalloc(sizeof *c, err);
    if (!c)
        return NULL;

    c->window = opts->window ? opts->window : DEFAULT_WINDOW;
    if (c->window > MAX_WINDOW)
        c->window = MAX_WINDOW;
    c->mask = ring_size(c->window) - 1;
    c->ring = leat__calloc((size_t)c->mask + 1, sizeof *c->ring, err);
    if (!c->ring) {
        leat__free(c);
        return NULL;
    }
    c->forks = leat__fork_count();
    c->protocol = 2;
    c->born_ns = leat__now_ns();
    c->timeout_ms = opts->timeout_ms;
    leat__resp_init(&c->resp, &opts->limits);
    c->t = t;
    return c;
}

void leat__conn_free(leat_conn *c)
{
    if (!c)
        return;
    if (c->bundle) {
        leat__bundle_free(c);
        return;
    }
    leat_error e;
    leat__fail(&e, LEAT_ECLOSED, "the connection was closed");
    if (c->forks == leat__fork_count())
        leat__conn_break(c, &e);
    else if (c->t)
        c->t->ops->close(c->t);
    leat__resp_release(&c->resp);
    leat__outq_release(&c->out);
    leat__free(c->in);
    leat__free(c->ring);
    leat__free(c->tx);
    leat__free(c->home);
    leat__free(c);
}

bool leat__conn_clean(const leat_conn *c)
{
    if (c->bundle)
        return leat__bundle_clean(c);
    return c->t && !c->stale && leat__conn_waiting(c) == 0 &&
           c->in_start == c->in_end && leat__outq_left(&c->out) == 0 &&
           !c->in_tx && c->tx_count == 0 && c->subscriptions == 0;
}

void leat__conn_tell(leat_conn *c, leat_reply_fn *fn, void *arg,
                     const leat_reply *r, const leat_error *e)
{
    if (fn)
        fn(arg, r, e);
    else if (e && c->failed.code == LEAT_OK)
        c->failed = *e;
}

/* What is known of a command of which `end` bytes had to leave. */
static void outcome(const leat_conn *c, uint64_t end, const leat_error *cause,
                    leat_error *e)
{
    if (end <= c->out.sent)
        leat__fail(e, LEAT_EUNKNOWN, "sent, no answer: %s", cause->msg);
    else
        leat__fail(e, LEAT_ECONN, "not sent: %s", cause->msg);
}

/* Commands of a transaction whose EXEC did not leave whole are certainly not
 * done, whatever else of them has left. */
static void tell_pending(leat_conn *c, const leat_error *cause, bool exec_left)
{
    leat_error e;
    while (c->head != c->tail) {
        leat__pending *p = &c->ring[c->head++ & c->mask];
        bool queued = p->kind == LEAT__CALL_QUEUED;
        outcome(c, queued && !exec_left ? UINT64_MAX : p->end, cause, &e);
        leat__script_forget(p->script);
        if (p->kind == LEAT__CALL_EXEC && c->tx_error.code == LEAT_OK)
            c->tx_error = e;
        if (p->kind != LEAT__CALL_MULTI && p->kind != LEAT__CALL_EXEC)
            leat__conn_tell(c, p->fn, p->arg, NULL, &e);
    }
}

static bool exec_left(const leat_conn *c)
{
    for (uint32_t i = c->head; i != c->tail; i++) {
        const leat__pending *p = &c->ring[i & c->mask];
        if (p->kind == LEAT__CALL_EXEC)
            return p->end <= c->out.sent;
    }
    return false;
}

leat_code leat__conn_break(leat_conn *c, const leat_error *cause)
{
    if (c->bundle)
        return leat__bundle_break(c, cause);
    if (!c->t)
        return cause->code;
    /* Before it is closed: where a forked child has the socket too, it would
     * stay watched and could no longer be named. */
    if (c->home && c->home->epoll)
        (void)epoll_ctl(c->home->epoll, EPOLL_CTL_DEL, c->t->fd, NULL);
    leat__line_leave(c);
    c->t->ops->close(c->t);
    c->t = NULL;
    c->why = *cause;

    bool left = exec_left(c);
    leat_error e;
    outcome(c, left ? 0 : UINT64_MAX, cause, &e);
    leat__tx_abort(c, &e);
    tell_pending(c, cause, left);
    return c->why.code;
}

static void ignore(void *arg, const leat_reply *r, const leat_error *e)
{
    (void)arg;
    (void)r;
    (void)e;
}

/* Before MULTI it holds until EXEC. */
leat_code leat__conn_ask(leat_conn *c, leat_error *err)
{
    static const char text[] = "*1\r\n$6\r\nASKING\r\n";
    if (!c->asking || c->in_tx)
        return LEAT_OK;
    char *p = leat__outq_room(&c->out, sizeof text - 1, err);
    if (!p)
        return LEAT_ENOMEM;
    memcpy(p, text, sizeof text - 1);
    leat__conn_push(c, sizeof text - 1, &(leat__pending){ .fn = ignore });
    return LEAT_OK;
}

static leat_code make_ready(leat_conn *c, leat_error *err)
{
    if (c->bundle)
        return leat__bundle_ready(c, err);
    if (!c->t)
        return leat__fail(err, LEAT_ECONN, "the connection was lost: %s",
                          c->why.msg);

    /* Read until half is free: the server works on the rest meanwhile. */
    return leat__conn_await(c, c->window / 2, err);
}

leat_code leat__conn_ready(leat_conn *c, leat_error *err)
{
    if (c->t && leat__conn_waiting(c) + c->asking < c->window)
        return LEAT_OK;
    return make_ready(c, err);
}

leat_code leat__conn_command_size(const leat_bytes *argv, size_t n,
                                  size_t *size, leat_error *err)
{
    *size = leat__resp_command_size(argv, n);
    if (n > 0 && *size <= MAX_COMMAND)
        return LEAT_OK;
    return leat__fail(err, n ? LEAT_ETOOBIG : LEAT_EINVAL,
                      "a command of %zu arguments and %zu bytes", n, *size);
}

void leat__conn_push(leat_conn *c, size_t size, const leat__pending *p)
{
    leat__pending *slot = &c->ring[c->tail++ & c->mask];
    leat__outq_commit(&c->out, size);
    *slot = *p;
    slot->end = c->out.queued;
    c->tx_sent += p->kind == LEAT__CALL_QUEUED;
}

bool leat__conn_roomy(const leat_conn *c)
{
    if (c->bundle)
        return !c->in_tx && leat__conn_waiting(c) + 1 < c->window / 2;
    return c->t && !c->in_tx && leat__conn_waiting(c) + 1 < c->window / 2 &&
           leat__outq_left(&c->out) < AUTO_FLUSH / 2;
}

leat_code leat_conn_send(leat_conn *c, const leat_bytes *argv, size_t n,
                         const leat_send_opts *opts, leat_error *err)
{
    size_t size;
    if (c->bundle)
        return leat__bundle_send(c, argv, n, opts, err);
    leat_code rc = leat__conn_command_size(argv, n, &size, err);
    if (rc == LEAT_OK)
        rc = leat__conn_ready(c, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat__tx_reserve(c, err);
    if (rc == LEAT_OK && c->asking)
        rc = leat__conn_ask(c, err);
    char *p = rc == LEAT_OK ? leat__outq_room(&c->out, size, err) : NULL;
    if (!p)
        return LEAT_ENOMEM;

    leat__resp_command(p, argv, n);
    leat__conn_push(c, size,
                    &(leat__pending){
                        .fn = opts ? opts->fn : NULL,
                        .arg = opts ? opts->arg : NULL,
                        .block_ms = opts ? opts->block_ms : 0,
                        .kind = c->in_tx ? LEAT__CALL_QUEUED : LEAT__CALL_PLAIN,
                    });
    /* Half a window goes out while the server works on the other half.  A
     * failure here reaches the command through its callback. */
    if (c->tail - c->stamped >= c->window / 2 ||
        leat__outq_left(&c->out) >= AUTO_FLUSH)
        (void)leat__conn_write_some(c, NULL);
    return LEAT_OK;
}

static leat_code unasked(leat_conn *c, const char *what)
{
    leat_error e;
    leat__fail(&e, LEAT_EPROTO, "the server sent %s", what);
    return leat__conn_break(c, &e);
}

void leat__conn_refused(leat_conn *c, leat_bytes text, const leat_error *e)
{
    bool elsewhere = e->code == LEAT_EREADONLY;
    if (elsewhere)
        c->stale = true; /* another server has it: not to be lent again */
    if (c->home && (elsewhere || leat__server_error_is(text, "CLUSTERDOWN")))
        leat__cluster_refused(c->home->cluster, &c->line.at, c->home->key,
                              text);
}

/* An ordinary command's answer.  A script the server has forgotten is sent
 * again with its body and answered then. */
static void answer_plain(leat_conn *c, leat__pending *p, const leat_reply *r)
{
    if (r->type != LEAT_REPLY_ERROR) {
        leat__script_forget(p->script);
        leat__conn_tell(c, p->fn, p->arg, r, NULL);
        return;
    }
    leat_bytes text = leat_mem(r->s.p, r->s.n);
    if (p->script && leat__server_error_is(text, "NOSCRIPT") &&
        leat__script_resend(c, p))
        return;
    leat_error e;
    leat__server_error(&e, text);
    if (e.code == LEAT_EAUTH && p->script)
        leat__error_name_key(&e, leat__script_key(p->script));
    leat__conn_refused(c, text, &e);
    leat__script_forget(p->script);
    leat__conn_tell(c, p->fn, p->arg, r, &e);
}

leat_code leat__conn_answer(leat_conn *c, const leat_reply *r)
{
    if ((r->type == LEAT_REPLY_PUSH || r->type == LEAT_REPLY_ARRAY) &&
        leat__pubsub_take(c, r))
        return LEAT_OK;
    if (r->type == LEAT_REPLY_PUSH)
        return LEAT_OK; /* of a kind we did not ask for: RESP3 allows it */
    if (c->head == c->tail)
        return unasked(c, "a reply that nobody asked for");
    leat__pending *p = &c->ring[c->head & c->mask];
    if (p->end > c->out.sent)
        return unasked(c, "a reply before the command");

    leat__pending here = *p; /* a resend may use the slot again */
    c->head++;
    c->blocked_ns -= leat__pending_wait_ns(p);
    if (here.kind == LEAT__CALL_QUEUED)
        leat__tx_queued(c, &here, r);
    else if (here.kind == LEAT__CALL_MULTI && r->type == LEAT_REPLY_ERROR)
        leat__tx_refused(c, r);
    else if (here.kind == LEAT__CALL_EXEC)
        leat__tx_finish(c, r);
    else
        answer_plain(c, &here, r);
    return c->t ? LEAT_OK : c->why.code;
}

int leat_conn_fd(const leat_conn *c)
{
    if (c->bundle)
        return leat__bundle_fd(c);
    return c->t ? c->t->fd : -1;
}

size_t leat_conn_in_flight(const leat_conn *c)
{
    return leat__conn_waiting(c);
}
