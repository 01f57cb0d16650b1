/*
 * producer_run.c: the sender, a producer's thread.
 *
 *   away --dial--> connected --broken--> away ...          until it is stopped
 *
 * Connected it sleeps in poll on the connection and its eventfd, reads answers,
 * sends what has gathered and tells outcomes.  Away it dials, with backoff, and
 * fails what has waited too long; what is younger goes out afterwards.
 *
 * A connection whose server refused for now, or has not got the partition any
 * more, is left once all is answered.  Where to dial next the client has learnt
 * from the refusal, so a partition that moved costs one connection.
 *
 * A publishing thread that writes by itself does not wake the sender, which
 * would then not notice that no answer comes.  So it looks once a second; after
 * a second without messages it says that it is asleep, and the next message
 * wakes it.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/thread.h"
#include "metrics/metrics.h"
#include "redis/client.h"
#include "topic/producer.h"
#include "topic/standing.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum {
    TICK_MS = 1000,
    DIAL_MS = 1000,   /* at least, though messages fail meanwhile */
    STABLE_MS = 5000, /* a connection that lived so long was a success */
    SOON_MS = 20,     /* until a look that was due while there was no room */
    ASKED_MS = 1000   /* then it is looked again who has the partition */
};

static _Thread_local const leat_topic *telling; /* whose outcomes */

bool leat__producer_inside(const leat_topic *t)
{
    return telling == t;
}

/* Until when to sleep, and what for. */
typedef struct nap {
    int fd; /* of the connection; -1: none */
    short events;
    int64_t until_ns; /* INT64_MAX: for ever */
    bool lingers;     /* for more messages to send */
    bool full;        /* is the window: answers come first  */
} nap;

void leat__producer_poke(leat__producer *p)
{
    uint64_t one = 1;
    if (atomic_exchange(&p->poked, true))
        return;
    ssize_t n = write(p->event, &one, sizeof one);
    (void)n; /* full means that it has been told already */
}

/* True: the connection has something. */
static bool sleep_on(leat__producer *p, const nap *z)
{
    struct pollfd f[2] = { { .fd = p->event, .events = POLLIN },
                           { .fd = z->fd, .events = z->events } };
    int64_t left = z->until_ns == INT64_MAX ? -1 : z->until_ns - leat__now_ns();
    if (z->until_ns != INT64_MAX && left < 0)
        left = 0;
    if (leat__sys->poll(leat__sys->arg, f, 2, left) <= 0)
        return false;
    if (f[0].revents) {
        uint64_t n;
        ssize_t got = read(p->event, &n, sizeof n);
        (void)got;
        atomic_store(&p->poked, false);
    }
    return f[1].revents != 0;
}

static bool stopping(leat__producer *p)
{
    pthread_mutex_lock(&p->lock);
    bool stop = p->stopping;
    pthread_mutex_unlock(&p->lock);
    return stop;
}

/* ---- telling ---------------------------------------------------------- */

/* What was told since the counts were last brought up to date. */
typedef struct tally {
    uint64_t n;
    size_t bytes;
    uint64_t by[LEAT__OUTCOMES];
    leat_error failed; /* the first without a callback */
} tally;

static void tell_failure(const leat__item *item, const leat_error *e, tally *y)
{
    y->by[e->code == LEAT_EUNKNOWN ? LEAT__UNKNOWN : LEAT__FAILED]++;
    if (item->fn)
        item->fn(item->arg, NULL, e);
    else if (y->failed.code == LEAT_OK)
        y->failed = *e;
}

static void tell_verdict(const leat__item *item, leat__verdict *v, tally *y)
{
    if (v->code == LEAT_OK) {
        leat_position at = { .ms = v->ms, .seq = v->seq };
        y->by[LEAT__SENT]++;
        if (item->fn)
            item->fn(item->arg, &at, NULL);
        return;
    }
    leat_error e;
    if (v->text)
        e = *v->text;
    else
        leat__fail_retriable(&e, v->code, v->retriable, "%s",
                             leat_code_text(v->code));
    leat__free(v->text);
    v->text = NULL;
    tell_failure(item, &e, y);
}

static void count(leat__producer *p, const tally *y)
{
    for (int i = 0; i < LEAT__OUTCOMES; i++)
        if (y->by[i] > 0)
            leat__counter_add(p->outcomes[i], y->by[i]);
    leat__gauge_add(p->queued, -(int64_t)y->n);
}

/* Their places are free. */
static void settle(leat__producer *p, const tally *y)
{
    if (y->n == 0)
        return;
    count(p, y);
    pthread_mutex_lock(&p->lock);
    p->head += y->n;
    p->bytes -= y->bytes;
    if (p->next < p->head)
        p->next = p->head; /* they were never sent */
    leat__backlog_drop(&p->backlog, p->told);
    if (y->failed.code != LEAT_OK && p->failed.code == LEAT_OK)
        p->failed = y->failed;
    if (p->waiting > 0 &&
        leat__quota_roomy(p->tail - p->head, p->bytes, p->opts))
        pthread_cond_broadcast(&p->room);
    if (p->head >= p->flush_at) {
        p->flush_at = UINT64_MAX;
        pthread_cond_broadcast(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
    if (p->quota)
        leat__quota_give(p->quota, y->n, y->bytes);
}

/* A topic's callbacks never run beside each other. */
static void begin_telling(leat__producer *p)
{
    if (p->quota)
        pthread_mutex_lock(&p->quota->telling);
}

static void end_telling(leat__producer *p, const tally *y)
{
    if (p->quota)
        pthread_mutex_unlock(&p->quota->telling);
    settle(p, y);
}

/* One that a script has added.  What waits beside the log has no place there
 * that could be looked for, but will be due. */
static __attribute__((noinline, cold)) void
note_script(leat__producer *p, const leat__item *item, const leat__verdict *v)
{
    leat_bytes command = leat_mem(item->bytes, item->size);
    if (item->head == LEAT__BY_ADD) {
        leat__loss_note(p->loss, item->partition,
                        (leat_position){ .ms = v->ms, .seq = v->seq }, command,
                        leat__addition_head(command));
        return;
    }
    pthread_mutex_lock(&p->io);
    leat__ripening_add(&p->ripening, item->partition,
                       leat__addition_delay(command));
    pthread_mutex_unlock(&p->io);
}

static void note(leat__producer *p, const leat__item *item,
                 const leat__verdict *v)
{
    if (v->code != LEAT_OK)
        return;
    if (item->head < LEAT__BY_XADD)
        note_script(p, item, v);
    else
        leat__loss_note(p->loss, item->partition,
                        (leat_position){ .ms = v->ms, .seq = v->seq },
                        leat_mem(item->bytes, item->size), item->head);
}

/* Tell all verdicts below `until`.  Only this thread moves head. */
static void tell(leat__producer *p, uint64_t until)
{
    tally y = { 0 };
    if (p->head == until)
        return;
    begin_telling(p);
    for (uint64_t i = p->head; i < until; i++) {
        const leat__item *item = leat__backlog_next(&p->told);
        y.n++;
        y.bytes += item->size;
        note(p, item, &p->verdicts[i & p->mask]);
        tell_verdict(item, &p->verdicts[i & p->mask], &y);
    }
    end_telling(p, &y);
}

/* What was accepted while there was a connection counts from its loss. */
static int64_t next_deadline(leat__producer *p)
{
    int64_t deadline = leat__backlog_peek(&p->told)->deadline_ns;
    return deadline ? deadline : p->lost_ns;
}

/* Fail what is queued, with nothing under way: up to the first whose time is
 * not yet over. */
static void fail_queued(leat__producer *p, int64_t now_ns, const leat_error *e)
{
    tally y = { 0 };
    pthread_mutex_lock(&p->lock);
    uint64_t n = p->tail - p->head;
    pthread_mutex_unlock(&p->lock);
    begin_telling(p);
    while (n-- > 0 && next_deadline(p) <= now_ns) {
        const leat__item *item = leat__backlog_next(&p->told);
        y.n++;
        y.bytes += item->size;
        tell_failure(item, e, &y);
    }
    end_telling(p, &y);
}

/* ---- away ------------------------------------------------------------- */

/* When the first of those that wait fails; INT64_MAX: none waits. */
static int64_t first_deadline(leat__producer *p)
{
    pthread_mutex_lock(&p->lock);
    bool any = p->tail > p->head;
    pthread_mutex_unlock(&p->lock);
    return any ? next_deadline(p) : INT64_MAX;
}

static void expire(leat__producer *p)
{
    leat_error e;
    int64_t now = leat__now_ns();
    if (first_deadline(p) > now)
        return;
    leat__fail(&e, LEAT_ETIMEOUT, "not sent within %lld ms: %.160s",
               (long long)p->opts->timeout_ms, p->why.msg);
    fail_queued(p, now, &e);
}

static void pause_for(leat__producer *p, int64_t ms)
{
    int64_t until = leat__deadline_ns(ms);
    while (!stopping(p) && leat__now_ns() < until) {
        int64_t first = first_deadline(p);
        nap z = { .fd = -1, .until_ns = first < until ? first : until };
        (void)sleep_on(p, &z);
        expire(p);
    }
}

/* A try that hangs must not keep messages long after their time. */
static leat_conn *dial(leat__producer *p)
{
    const leat_topic *t = p->topic;
    int64_t least = leat__deadline_ns(DIAL_MS), first = first_deadline(p);
    leat__key log;
    leat__key_log(&log, t->prefix, t->name, t->meta.legacy, p->first);
    return leat__client_dial_key(p->client, leat__key_bytes(&log),
                                 first > least ? first : least, &p->why);
}

static void install(leat__producer *p, leat_conn *c)
{
    p->since_ns = leat__now_ns();
    pthread_mutex_lock(&p->io);
    p->conn = c;
    p->sent = p->told;
    p->replied = p->sure = p->head;
    p->back = p->refused = 0;
    p->no_memory = false;
    p->taught = 0;
    pthread_mutex_unlock(&p->io);
    pthread_mutex_lock(&p->lock);
    p->connected = true;
    p->since = p->head;
    p->awaited = p->tail > p->head;
    pthread_mutex_unlock(&p->lock);
}

static void connect_once(leat__producer *p)
{
    int64_t turn = leat__budget_take(&p->client->budget, leat__now_ns());
    pause_for(p, turn);
    expire(p);
    if (stopping(p))
        return;
    leat_conn *c = dial(p);
    if (c &&
        (leat__heir_take(&p->heir, c, &p->why) != LEAT_OK ||
         leat__loss_check(p->loss, c, p->heir.server, &p->why) != LEAT_OK)) {
        leat__conn_free(c);
        c = NULL;
    }
    expire(p);
    if (c)
        install(p, c);
    else
        pause_for(p, leat__backoff_next_ms(&p->wait));
}

static void say_lost(const leat__producer *p, bool elsewhere)
{
    const leat_topic *t = p->topic;
    char which[32] = "";
    if (p->span < t->meta.partitions)
        snprintf(which, sizeof which, " %u", p->first);
    leat__log(&p->opts->log, elsewhere ? LEAT_LOG_INFO : LEAT_LOG_WARN,
              "topic '%s'%s: the connection was %s: %s", t->name, which,
              elsewhere ? "left" : "lost", p->conn->why.msg);
}

/* The connection is of no more use; all its verdicts have been told.  What did
 * not leave is queued as before; if the connection was good for nothing, its
 * time goes on, and the next one is not tried at once. */
static void drop(leat__producer *p)
{
    bool elsewhere = p->conn->why.code == LEAT_EREADONLY;
    bool good = p->head > p->since;
    say_lost(p, elsewhere);
    if (p->lost_ns == 0 || !p->awaited || good)
        p->lost_ns = leat__deadline_ns(p->opts->timeout_ms);
    pthread_mutex_lock(&p->io);
    p->why = p->conn->why;
    leat__conn_free(p->conn);
    p->conn = NULL;
    pthread_mutex_lock(&p->lock);
    p->connected = false;
    p->next -= p->back;
    assert(p->next == p->head);
    pthread_mutex_unlock(&p->lock);
    pthread_mutex_unlock(&p->io);
    if (leat__now_ns() - p->since_ns > STABLE_MS * INT64_C(1000000) ||
        (elsewhere && good))
        leat__backoff_reset(&p->wait);
    if (!elsewhere || !good)
        pause_for(p, leat__backoff_next_ms(&p->wait));
}

/* ---- connected -------------------------------------------------------- */

/* Where we were sent for the time of a move, others say better after it. */
static void look_again(leat__producer *p)
{
    if (p->conn->asking &&
        leat__now_ns() - p->since_ns > ASKED_MS * INT64_C(1000000))
        p->conn->stale = true;
}

/* What is sent follows what is known. */
static void look_at_policy(leat__producer *p, int64_t now_ns)
{
    leat_retention r;
    if (now_ns < p->policy_ns)
        return;
    p->policy_ns = now_ns + TICK_MS * INT64_C(1000000);
    leat__topic_retention(p->topic, &r);
    pthread_mutex_lock(&p->lock);
    leat__producer_policy_locked(p, &r);
    pthread_mutex_unlock(&p->lock);
}

/* The topic is gone and to be made again; once for each look. */
static bool lost_anew(leat__producer *p)
{
    unsigned looks = atomic_load(&p->topic->looks);
    if (!leat__standing_lost(p->topic) || looks == p->lost_looks)
        return false;
    p->lost_looks = looks;
    return true;
}

/* What is kept of the topic may have been changed.  It must not wait for the
 * socket; on a cluster it is kept elsewhere. */
static void look_at_retention(leat__producer *p)
{
    leat_conn *c = p->conn;
    if (leat__client_clustered(p->client) || c->stale ||
        leat__conn_waiting(c) + 1 >= c->window || leat__outq_left(&c->out) > 0)
        return;
    if (lost_anew(p))
        leat__standing_restore(p->topic, c);
    else if (leat__retention_due(p->topic, leat__now_ns(), LEAT__RETENTION_NS))
        leat__retention_ask(p->topic, c);
}

static void look_elsewhere(leat__producer *p)
{
    if (!leat__client_clustered(p->client))
        return;
    if (leat__retention_due(p->topic, leat__now_ns(), LEAT__RETENTION_NS))
        leat__retention_wait(p->topic);
    if (lost_anew(p))
        leat__standing_restore_wait(p->topic);
}

/* A server that refused, or has become a replica, will not do: end it when all
 * is answered, and look whether there is another.  Without memory to send it is
 * no connection either. */
static void leave_useless(leat__producer *p)
{
    leat_error e;
    leat_conn *c = p->conn;
    const leat__verdict *v = leat__producer_refusal(p);
    if (!c->t || leat__conn_waiting(c) > 0 || (!c->stale && !p->no_memory))
        return;
    if (leat__loss_suspects(p->loss))
        leat__fail(&e, LEAT_ECONN, "an acknowledged message is missing");
    else if (v)
        leat__fail_retriable(&e, v->code, v->retriable, "%s",
                             v->text ? v->text->msg : leat_code_text(v->code));
    else if (c->stale)
        leat__fail(&e, LEAT_EREADONLY, "%s",
                   c->asking ? "the partition is moving"
                             : "the server is a replica");
    else
        leat__fail(&e, LEAT_ENOMEM, "no memory to send");
    leat__conn_break(c, &e);
}

static nap plan_nap(const leat__producer *p)
{
    const leat_conn *c = p->conn;
    nap z = { .fd = leat_conn_fd(c),
              .events = POLLIN,
              .until_ns = leat__conn_deadline(c) };
    if (leat__outq_left(&c->out) > 0)
        z.events |= POLLOUT;
    z.full = p->full && leat__conn_waiting(c) > 0;
    z.lingers = p->linger_until_ns != 0;
    if (z.lingers && p->linger_until_ns < z.until_ns)
        z.until_ns = p->linger_until_ns;
    return z;
}

/* Delayed ones may have been told of just now. */
static int64_t ripe_at(leat__producer *p)
{
    pthread_mutex_lock(&p->io);
    int64_t at = leat__ripening_due(&p->ripening);
    pthread_mutex_unlock(&p->io);
    return at;
}

/* With messages waiting, and nothing that will wake us for them, there is no
 * time to sleep. */
static void shorten(leat__producer *p, nap *z, bool sent_all)
{
    pthread_mutex_lock(&p->lock);
    bool idle = p->tail == p->head, new = p->tail != p->seen;
    bool fresh = sent_all && p->tail > p->next && !z->full;
    p->seen = p->tail;
    p->asleep = idle && !new && !p->stopping;
    bool for_ever = p->asleep;
    if (p->stopping)
        z->until_ns = 0;
    pthread_mutex_unlock(&p->lock);

    int64_t most = INT64_MAX;
    if (z->events & POLLOUT || z->lingers)
        most = leat__deadline_ns(TICK_MS);
    else if (fresh)
        most = 0;
    else if (!for_ever)
        most = leat__deadline_ns(TICK_MS);
    int64_t look = leat__loss_due(p->loss);
    most = look < most ? look : most;
    look = ripe_at(p);
    most = look < most ? look : most;
    int64_t soon = leat__deadline_ns(SOON_MS);
    look = leat__retention_at(p->topic, LEAT__RETENTION_NS);
    look = look < soon ? soon : look;
    most = look < most ? look : most;
    if (most < z->until_ns)
        z->until_ns = most;
}

/* One round: answers in, messages out, outcomes told. */
static void turn(leat__producer *p, bool readable, nap *z)
{
    bool got, sent = false;
    pthread_mutex_lock(&p->io);
    leat_conn *c = p->conn;
    if (c->t && readable)
        (void)leat__conn_read_some(c, false, &got, NULL);
    if (c->t)
        (void)leat__conn_expire(c, NULL);
    if (c->t && leat__outq_left(&c->out) > 0)
        (void)leat__conn_write_some(c, NULL);
    look_again(p);
    int64_t now = leat__now_ns();
    if (c->t)
        leat__loss_look(p->loss, c, now);
    if (c->t)
        leat__ripening_step(&p->ripening, c, now);
    look_at_policy(p, now);
    if (c->t)
        look_at_retention(p);
    if (c->t)
        sent = leat__producer_send(p);
    leave_useless(p);
    bool broken = !c->t;
    if (broken)
        leat__producer_broken(p);
    uint64_t until = p->sure;
    *z = plan_nap(p);
    pthread_mutex_unlock(&p->io);

    tell(p, until);
    if (broken)
        drop(p);
    else
        shorten(p, z, sent);
}

void *leat__producer_run(void *arg)
{
    leat__producer *p = arg;
    bool readable = false;
    telling = p->topic;
    while (!stopping(p)) {
        nap z = { .fd = -1 };
        if (!p->conn) {
            connect_once(p);
            readable = false;
            continue;
        }
        turn(p, readable, &z);
        look_elsewhere(p);
        readable = p->conn && sleep_on(p, &z);
    }
    return NULL;
}

void leat__producer_finish(leat__producer *p)
{
    leat_error e;
    if (p->conn) {
        leat__fail(&e, LEAT_ECLOSED, "the topic was closed");
        leat__conn_break(p->conn, &e);
        leat__producer_broken(p);
        tell(p, p->sure);
        leat__conn_free(p->conn);
        p->conn = NULL;
        p->next -= p->back;
    }
    leat__fail(&e, LEAT_ECLOSED, "not sent before the topic was closed: %.120s",
               p->why.msg);
    fail_queued(p, INT64_MAX, &e);
    leat__loss_free(p->loss);
    p->loss = NULL;
}
