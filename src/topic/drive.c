/*
 * drive.c: who drives a consumer, and one turn of it.
 *
 * The driver is the one thread that may use the connections and the windows.  A
 * thread that waits in receive or flush drives itself, so a message goes from
 * the socket to its user without a change of threads.  While nobody does, the
 * background thread drives whenever something is due: a beat, settlements that
 * waited long enough, answers, partitions to hand over.  It lets go as soon as
 * another thread wants the role.
 *
 * Lost connections are made again here, with growing pauses.  Everything that
 * was under way has been told by then, and is sent again by its own part.
 */
#include "base/log.h"
#include "base/system.h"
#include "base/thread.h"
#include "metrics/metrics.h"
#include "redis/bundle.h"
#include "redis/conn.h"
#include "topic/consumer.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

enum { WAKE, CMD, BLK, FDS = BLK + LEAT__BLOCK_MAX }; /* in the poll */

#define AFTER_NS LEAT__LINGER_NS
#define LATE_NS  INT64_C(1000000000)

/* ---- the role --------------------------------------------------------- */

void leat__drive_poke(consumer *c)
{
    uint64_t one = 1;
    ssize_t n = write(c->wake_fd, &one, sizeof one);
    (void)n; /* full means that it is poked already */
}

void leat__drive_take(consumer *c)
{
    pthread_mutex_lock(&c->lock);
    c->wanting++;
    while (c->driving) {
        leat__drive_poke(c);
        leat__cond_wait(&c->role_free, &c->lock, INT64_MAX);
    }
    c->wanting--;
    c->driving = true;
    pthread_mutex_unlock(&c->lock);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When something must be done, whoever drives. */
static int64_t due(const consumer *c)
{
    int64_t at = earlier(leat__group_due(c->machine), leat__save_due(c));
    if (!c->cmd)
        return c->connect_ns;
    at = earlier(at, earlier(leat__prove_due(c), leat__verify_due(c)));
    at = earlier(at, earlier(leat__kept_due(c), leat__park_due(c)));
    at = earlier(at, leat__ripen_due(c));
    at = earlier(at, leat__tend_due(c));
    at = earlier(at, leat__conn_deadline(c->cmd));
    if (c->waits)
        return earlier(at, leat__wait_due(c));
    return earlier(at, c->blk ? leat__conn_deadline(c->blk) : c->connect_ns);
}

/* Answers to scripts are waited for by the background thread, too: reads can
 * wait for the next receive. */
static bool answers_due(const consumer *c)
{
    return c->cmd && leat_conn_in_flight(c->cmd) > 0;
}

/* Whoever took messages settles them soon and may come back for more: until
 * then the background thread sleeps. */
void leat__drive_give(consumer *c)
{
    int64_t at = due(c), soon = leat__now_ns() + AFTER_NS;
    bool busy = answers_due(c) || atomic_load(&c->fd_wanted) ||
                atomic_load(&c->inbox) != NULL;
    pthread_mutex_lock(&c->lock);
    c->driving = false;
    c->nap_ns = AFTER_NS;
    c->due_ns = busy || at < soon ? soon : at;
    if (c->wanting > 0)
        pthread_cond_signal(&c->role_free);
    else if (c->sleeps_until_ns > c->due_ns)
        pthread_cond_signal(&c->background);
    pthread_mutex_unlock(&c->lock);
}

/* ---- connections ------------------------------------------------------ */

void leat__drive_failed(consumer *c, const leat_error *e, const char *what)
{
    c->why = *e;
    if (c->said == e->code)
        return;
    c->said = e->code;
    leat__log(&c->log, LEAT_LOG_WARN, "'%s', group '%s': %s fails: %s",
              c->topic->name, c->group, what, e->msg);
}

void leat__drive_refused(consumer *c, const leat_error *e)
{
    c->refused = *e;
    leat__error_weather(&c->refused);
}

static void on_id(void *arg, const leat_reply *r, const leat_error *e)
{
    consumer *c = arg;
    c->blk_id = e ? 0 : leat_reply_int(r);
}

static void close_conn(consumer *c, leat_conn **conn)
{
    leat_conn *gone = *conn;
    *conn = NULL;
    leat_client_return(c->client, gone);
}

/* Both: what is read counts only if it comes from the server that the commands
 * go to, and a new connection may lead to another. */
static void hang_up(consumer *c)
{
    close_conn(c, &c->blk);
    c->taught = false;
    if (c->cmd)
        c->cmd->stale = true; /* the next is to be a new one */
    close_conn(c, &c->cmd);
    leat__prove_reset(c);
    c->connect_ns = leat__now_ns();
}

static bool open_conn(consumer *c, leat_conn **conn)
{
    leat_error e;
    if (*conn)
        return true;
    if (leat__now_ns() < c->connect_ns)
        return false;
    *conn = leat_client_lend(c->client, 0, &e); /* one try */
    if (*conn) {
        leat__conn_impatient(*conn);
        leat__backoff_reset(&c->backoff);
        if (conn == &c->cmd)
            leat__member_reconnected(c);
        return true;
    }
    leat__drive_failed(c, &e, "connecting");
    if (!e.retriable)
        c->final = e;
    c->connect_ns = leat__deadline_ns(leat__backoff_next_ms(&c->backoff));
    return false;
}

static void ignore(void *arg, const leat_reply *r, const leat_error *e)
{
    (void)arg;
    (void)r;
    (void)e;
}

/* What was handed out is told by one try: a server that does not know the
 * script would ask for another, and we may be dead by then. */
static void teach(consumer *c)
{
    const leat__script *s = &leat__script_topic_save;
    if (c->taught || c->clustered)
        return;
    c->taught = leat_conn_send(c->cmd,
                               LEAT_ARGS(leat_str("SCRIPT"), leat_str("LOAD"),
                                         leat_mem(s->body, s->body_size)),
                               &(leat_send_opts){ .fn = ignore },
                               NULL) == LEAT_OK;
}

/* The connection of reads is new.  One from the pool may be older than that of
 * the commands: another will do.  If it leads elsewhere, so should they. */
static void begin_reads(consumer *c)
{
    leat__read_reset(c);
    if (!leat__conn_leads(c->cmd, 0, c->blk)) {
        bool moved = !leat__address_same(&c->cmd->line.at, &c->blk->line.at);
        c->blk->stale = true;
        if (moved)
            hang_up(c);
        else
            close_conn(c, &c->blk);
        return;
    }
    (void)leat_conn_send(c->blk, LEAT_ARGS(leat_str("CLIENT"), leat_str("ID")),
                         &(leat_send_opts){ .fn = on_id, .arg = c }, NULL);
}

static bool connect_all(consumer *c)
{
    bool had = c->cmd != NULL;
    if (open_conn(c, &c->cmd))
        teach(c);
    if (!c->cmd || c->waits || c->blk)
        return c->cmd != NULL;
    if (!open_conn(c, &c->blk))
        return true;
    if (had) /* is it still the same server? */
        leat__verify_all(c);
    begin_reads(c);
    return c->cmd != NULL;
}

/* A connection that broke has told everybody; it is let go. */
static void check(consumer *c, leat_code rc, const leat_error *e)
{
    if (rc == LEAT_OK)
        return;
    leat__drive_failed(c, e, "the connection");
    hang_up(c);
}

static void flush(consumer *c, leat_conn **conn)
{
    leat_error e;
    if (*conn)
        check(c, leat_conn_flush(*conn, &e), &e);
}

bool leat__drive_flush(consumer *c)
{
    flush(c, &c->cmd);
    if (c->cmd)
        flush(c, &c->blk);
    if (c->waits)
        leat__wait_flush(c);
    return c->cmd != NULL;
}

/* come: there is something to be taken. */
static void take(consumer *c, leat_conn **conn, bool come)
{
    leat_error e;
    if (*conn && come)
        check(c, leat_conn_take(*conn, &e), &e);
    if (*conn)
        check(c, leat__conn_expire(*conn, &e), &e);
}

/* ---- one turn --------------------------------------------------------- */

static void drain_event(int fd)
{
    uint64_t n;
    ssize_t got = read(fd, &n, sizeof n);
    (void)got;
}

/* Somebody wants something of the driver that it must not sleep through. */
static bool wanted(consumer *c)
{
    return atomic_load(&c->beat_wanted) || atomic_load(&c->inbox) != NULL;
}

static nfds_t what_to_poll(const consumer *c, struct pollfd *p)
{
    p[WAKE] = (struct pollfd){ .fd = c->wake_fd, .events = POLLIN };
    p[CMD] = (struct pollfd){ .fd = c->cmd ? leat_conn_fd(c->cmd) : -1,
                              .events = POLLIN };
    if (c->waits)
        return BLK + leat__wait_fds(c, p + BLK);
    p[BLK] = (struct pollfd){ .fd = c->blk ? leat_conn_fd(c->blk) : -1,
                              .events = POLLIN };
    return BLK + 1;
}

/* revents say which connections have something to be taken. */
static void sleep_in_poll(consumer *c, int64_t until_ns, struct pollfd *p)
{
    nfds_t n = what_to_poll(c, p);
    atomic_store(&c->polling, true);
    int64_t left = until_ns - leat__now_ns();
    if (left < 0 || wanted(c))
        left = 0;
    if (leat__sys->poll(leat__sys->arg, p, n, left) < 0)
        for (nfds_t i = 0; i < n; i++)
            p[i].revents = 0;
    atomic_store(&c->polling, false);
    if (p[WAKE].revents)
        drain_event(c->wake_fd);
}

static void do_what_is_due(consumer *c)
{
    int64_t now = leat__now_ns();
    leat__deliver_settled(c);
    leat__member_sweep(c);
    leat__member_step(c, now);
    leat__member_sweep(c);
    leat__verify_step(c, now);
    leat__park_step(c, now);
    leat__kept_step(c, now);
    leat__read_step(c, now);
    leat__ripen_step(c, now);
    leat__save_step(c, now);
    leat__prove_step(c, now);
    leat__tend_step(c, now);
    atomic_store_explicit(&c->counts.in_flight, c->in_rings,
                          memory_order_relaxed);
    leat__gauge_set(c->meters.in_flight, c->in_rings);
    (void)leat__drive_flush(c);
}

void leat__drive(consumer *c, int64_t deadline_ns)
{
    struct pollfd come[FDS];
    if (!connect_all(c)) {
        leat__deliver_settled(c);
        sleep_in_poll(c, earlier(deadline_ns, c->connect_ns), come);
        return;
    }
    do_what_is_due(c);
    sleep_in_poll(c, earlier(deadline_ns, due(c)), come);
    take(c, &c->cmd, come[CMD].revents);
    if (c->waits)
        leat__wait_take(c, come + BLK);
    else
        take(c, &c->blk, come[BLK].revents);
    leat__member_sweep(c);
}

/* ---- the background thread -------------------------------------------- */

/* For who polls on the descriptor: readable while a receive would find
 * something. */
static void say_ready(consumer *c)
{
    int64_t due_ns = INT64_MAX;
    uint64_t one = 1;
    bool ready = leat__deliver_ready(c, leat__now_ns(), &due_ns);
    if (ready == c->ready_said)
        return;
    c->ready_said = ready;
    if (!ready)
        drain_event(c->ready_fd);
    else if (write(c->ready_fd, &one, sizeof one) < 0)
        c->ready_said = false;
}

static bool has_work(const consumer *c)
{
    return answers_due(c) || due(c) <= leat__now_ns() ||
           atomic_load(&c->inbox) != NULL;
}

/* Drive until there is nothing to do or somebody else wants to. */
static void drive_a_while(consumer *c)
{
    bool go_on = true;
    while (go_on) {
        int64_t until = leat__now_ns() + LATE_NS;
        if (atomic_load(&c->fd_wanted))
            (void)leat__deliver_ready(c, leat__now_ns(), &until);
        leat__drive(c, until);
        if (atomic_load(&c->fd_wanted))
            say_ready(c);
        go_on = has_work(c) || atomic_load(&c->fd_wanted);
        pthread_mutex_lock(&c->lock);
        go_on = go_on && c->wanting == 0 && !c->ending;
        pthread_mutex_unlock(&c->lock);
    }
}

/* While another drives, naps that grow: a caller that comes and goes all the
 * time need not wake us each time it goes. */
static bool sleep_until_due_locked(consumer *c)
{
    if (c->driving || c->wanting > 0) {
        c->sleeps_until_ns = leat__now_ns() + c->nap_ns;
        c->nap_ns = earlier(c->nap_ns * 2, LATE_NS);
        leat__cond_wait(&c->background, &c->lock, c->sleeps_until_ns);
    } else if (leat__now_ns() < c->due_ns) {
        c->sleeps_until_ns = c->due_ns;
        leat__cond_wait(&c->background, &c->lock, c->due_ns);
    } else {
        return false;
    }
    c->sleeps_until_ns = 0;
    return true;
}

void *leat__drive_background(void *arg)
{
    consumer *c = arg;
    pthread_mutex_lock(&c->lock);
    while (!c->ending) {
        if (sleep_until_due_locked(c))
            continue;
        c->driving = true;
        pthread_mutex_unlock(&c->lock);
        drive_a_while(c);
        int64_t at = due(c);
        pthread_mutex_lock(&c->lock);
        c->driving = false;
        c->due_ns = atomic_load(&c->inbox) ? 0 : at;
        if (c->wanting > 0)
            pthread_cond_signal(&c->role_free);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}
