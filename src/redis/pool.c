/*
 * pool.c: lending a client's connections.
 *
 * At most pool_size are open, counted from before the first byte is sent until
 * after the last is closed.  Who finds none waits for one to come back.  While
 * the server is away, each waiter tries by itself, with full jitter, and all of
 * them share one budget: a thousand threads do not make a thousand attempts.
 */
#include "base/fork.h"
#include "base/log.h"
#include "base/system.h"
#include "base/thread.h"
#include "redis/bundle.h"

#include <poll.h>

enum { FIRST_RETRY_MS = 25 };

/* An idle connection has nothing to say: whatever can be read from it is its
 * end, or a reply that belongs to nobody. */
static bool sound(leat_conn *conn)
{
    if (conn->bundle)
        return leat__bundle_sound(conn);
    struct pollfd p = { .fd = leat_conn_fd(conn), .events = POLLIN };
    return leat__conn_clean(conn) &&
           leat__sys->poll(leat__sys->arg, &p, 1, 0) == 0;
}

static void drop_locked(leat_client *c, leat_conn *conn)
{
    leat__conn_free(conn);
    c->total--;
    pthread_cond_signal(&c->freed);
}

/* The last one out frees the client, once it is closed. */
static void unlock_and_end(leat_client *c)
{
    bool last = c->closing && c->total == 0 && c->waiting == 0 &&
                c->helpers == 0;
    pthread_mutex_unlock(&c->lock);
    if (last)
        leat__client_destroy(c);
}

leat_code leat__client_hold(leat_client *c, leat_error *err)
{
    pthread_mutex_lock(&c->lock);
    bool closing = c->closing;
    c->helpers += !closing;
    pthread_mutex_unlock(&c->lock);
    return closing ? leat__fail(err, LEAT_ECLOSED, "the client is closed")
                   : LEAT_OK;
}

void leat__client_let_go(leat_client *c)
{
    pthread_mutex_lock(&c->lock);
    c->helpers--;
    unlock_and_end(c);
}

/* It is looked at without the lock, being nobody else's: what is found may have
 * a cluster's map read again, by a thread that holds the client. */
static leat_conn *take_idle_locked(leat_client *c)
{
    while (c->idle) {
        leat_conn *conn = c->idle;
        c->idle = conn->next;
        conn->next = NULL;
        pthread_mutex_unlock(&c->lock);
        bool good = sound(conn);
        pthread_mutex_lock(&c->lock);
        if (good)
            return conn;
        drop_locked(c, conn);
    }
    return NULL;
}

/* An idle connection, or the right to open one (NULL, LEAT_OK). */
static leat_code reserve(leat_client *c, int64_t deadline_ns, leat_conn **out,
                         leat_error *err)
{
    leat_code rc = LEAT_OK;
    pthread_mutex_lock(&c->lock);
    c->waiting++;
    for (;;) {
        *out = NULL;
        if (c->closing) {
            rc = leat__fail(err, LEAT_ECLOSED, "the client is closed");
            break;
        }
        if ((*out = take_idle_locked(c)) != NULL)
            break;
        if (c->total < c->opts.pool_size) {
            c->total++;
            break;
        }
        if (!leat__cond_wait(&c->freed, &c->lock, deadline_ns)) {
            rc = leat__fail(err, LEAT_ETIMEOUT,
                            "all %d connections of the pool are lent",
                            c->opts.pool_size);
            break;
        }
    }
    c->waiting--;
    unlock_and_end(c);
    return rc;
}

bool leat__client_pause(leat_client *c, int64_t ms, int64_t deadline_ns)
{
    int64_t until = leat__deadline_ns(ms);
    if (until > deadline_ns)
        until = deadline_ns;
    pthread_mutex_lock(&c->lock);
    while (!c->closing && leat__now_ns() < until)
        leat__cond_wait(&c->ended, &c->lock, until);
    bool open = !c->closing;
    pthread_mutex_unlock(&c->lock);
    return open;
}

/* Wait for a turn to connect.  A turn that comes too late is left to others:
 * callers with little time would otherwise pile up turns that nobody uses, and
 * shut the client out long after the server is back. */
static leat_code await_turn(leat_client *c, int64_t deadline_ns,
                            leat_error *err)
{
    int64_t turn = leat__budget_take(&c->budget, leat__now_ns());
    if (turn == 0)
        return LEAT_OK;
    bool late = turn > leat__left_ms(deadline_ns);
    if (late)
        leat__budget_give(&c->budget);
    if (!leat__client_pause(c, turn, deadline_ns))
        return leat__fail(err, LEAT_ECLOSED, "the client is closing");
    if (late)
        return leat__fail(err, LEAT_ECONN,
                          "not connected to %s: too many attempts failed, the "
                          "next would come too late, wait longer",
                          c->shown);
    return LEAT_OK;
}

static leat_conn *dial(leat_client *c, bool bundle, int64_t deadline_ns,
                       leat_error *err)
{
    return bundle ? leat__bundle_open(c, deadline_ns, err)
                  : leat__client_dial(c, deadline_ns, err);
}

static leat_conn *connect_by(leat_client *c, bool bundle, int64_t deadline_ns,
                             leat_error *err)
{
    leat__backoff wait = { .base_ms = FIRST_RETRY_MS,
                           .cap_ms = c->opts.max_retry_ms };
    leat_error e;
    for (;;) {
        /* A bundle takes a turn for each node; one for itself would be the
         * one that a node lacks, again and again. */
        if (!bundle && await_turn(c, deadline_ns, err) != LEAT_OK)
            return NULL;
        leat_conn *conn = dial(c, bundle, deadline_ns, &e);
        if (conn)
            return conn;
        if (wait.attempt == 0)
            leat__log(&c->opts.log, LEAT_LOG_INFO, "%s: %s", c->shown, e.msg);
        bool more = e.retriable && leat__now_ns() < deadline_ns;
        if (!more ||
            !leat__client_pause(c, leat__backoff_next_ms(&wait), deadline_ns)) {
            if (err)
                *err = e;
            return NULL;
        }
    }
}

leat_conn *leat__client_connect(leat_client *c, int64_t deadline_ns,
                                leat_error *err)
{
    return connect_by(c, false, deadline_ns, err);
}

leat_conn *leat_client_lend(leat_client *c, int64_t wait_ms, leat_error *err)
{
    int64_t deadline = leat__deadline_ns(wait_ms);
    leat_conn *conn = NULL;

    if (leat__client_own(c, err) != LEAT_OK ||
        reserve(c, deadline, &conn, err) != LEAT_OK || conn)
        return conn;

    /* Without time to wait there is still the time of one try. */
    bool bundle = c->cluster != NULL;
    conn = wait_ms == 0 ? dial(c, bundle, INT64_MAX, err)
                        : connect_by(c, bundle, deadline, err);
    if (!conn) {
        pthread_mutex_lock(&c->lock);
        c->total--;
        pthread_cond_signal(&c->freed);
        unlock_and_end(c);
    }
    return conn;
}

void leat_client_return(leat_client *c, leat_conn *conn)
{
    if (!conn)
        return;
    if (leat__client_own(c, NULL) != LEAT_OK) {
        leat__conn_free(conn);
        return;
    }
    pthread_mutex_lock(&c->lock);
    if (!c->closing && leat__conn_clean(conn)) {
        conn->failed = (leat_error){ 0 }; /* the next borrower's it is not */
        leat_conn_on_push(conn, NULL, NULL);
        conn->next = c->idle;
        c->idle = conn;
        pthread_cond_signal(&c->freed);
    } else {
        drop_locked(c, conn);
    }
    unlock_and_end(c);
}

void leat__client_ending_locked(leat_client *c)
{
    c->closing = true;
    c->waiting++; /* the last connection may return meanwhile */
    pthread_cond_broadcast(&c->freed);
    pthread_cond_broadcast(&c->ended);
}

void leat__client_end(leat_client *c)
{
    pthread_mutex_lock(&c->lock);
    c->waiting--;
    while (c->idle) {
        leat_conn *conn = c->idle;
        c->idle = conn->next;
        drop_locked(c, conn);
    }
    unlock_and_end(c);
}

/* May this failure be tried again on another connection?  What certainly did
 * not happen may; what is unknown only if twice is as good as once. */
static bool again(const leat_error *e, bool idempotent)
{
    if (e->code == LEAT_EUNKNOWN)
        return idempotent;
    return e->code == LEAT_ECONN || e->code == LEAT_EBUSY ||
           e->code == LEAT_EREADONLY;
}

static leat_code call_once(leat_client *c, const leat_bytes *argv, size_t n,
                           int64_t block_ms, int64_t deadline_ns,
                           leat_reply **reply, leat_error *err)
{
    const leat_reply *r;
    leat_conn *conn = leat_client_lend(c, leat__left_ms(deadline_ns), err);
    if (!conn)
        return err->code;
    leat_send_opts o = { .block_ms = block_ms };
    int64_t usual = conn->timeout_ms, left = leat__left_ms(deadline_ns);
    if (left < usual)
        conn->timeout_ms = left > 0 ? left : 1;
    leat_code rc = leat_conn_call(conn, argv, n, &o, &r, err);
    conn->timeout_ms = usual;
    if (rc == LEAT_OK && reply && !(*reply = leat__reply_copy(r, err)))
        rc = leat__fail(err, LEAT_EUNKNOWN,
                        "done, but no memory for the reply");
    leat_client_return(c, conn);
    return rc;
}

leat_code leat_client_call(leat_client *c, const leat_bytes *argv, size_t n,
                           const leat_call_opts *opts, leat_reply **reply,
                           leat_error *err)
{
    leat_call_opts o = opts ? *opts : (leat_call_opts){ 0 };
    leat__backoff wait = { .base_ms = FIRST_RETRY_MS,
                           .cap_ms = c->opts.max_retry_ms };
    int64_t ms = o.timeout_ms ? o.timeout_ms : c->opts.timeout_ms;
    int64_t deadline = leat__deadline_ns(ms + o.block_ms);
    leat_error e, lost = { 0 };

    if (reply)
        *reply = NULL;
    for (;;) {
        leat_code rc = call_once(c, argv, n, o.block_ms, deadline, reply, &e);
        if (rc == LEAT_OK)
            return rc;
        if (rc == LEAT_EUNKNOWN)
            lost = e;
        if (!again(&e, o.idempotent) || leat__now_ns() >= deadline ||
            !leat__client_pause(c, leat__backoff_next_ms(&wait), deadline))
            break;
    }
    if (lost.code != LEAT_OK) /* what failed later says nothing of that try */
        e = lost;
    if (err)
        *err = e;
    return e.code;
}
