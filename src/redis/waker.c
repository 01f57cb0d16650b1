/*
 * waker.c: one listening connection for many waiters.
 *
 *   channels   map: channel -> struct channel with its waiters
 *   thread     owns the connection: subscribes what is wanted, listens, and
 *              hints every waiter of a channel that spoke
 *
 * The thread sleeps in poll on the connection and on an eventfd, by which
 * others tell it that the set of channels changed or that the end has come.
 * After a lost connection everything is subscribed anew and every waiter is
 * hinted, for what was said meanwhile was not heard.
 */
#include "redis/waker.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/thread.h"
#include "redis/client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { RETRY_MS = 1000, PING_MS = 15000, BATCH = 64 };

/* Only the thread frees a channel, so it may look at one without the lock. */
struct channel {
    leat__list waiters;
    bool subscribed;
    size_t size;
    char name[];
};

struct leat__waiter {
    leat__link link;
    leat__waker *waker;
    struct channel *channel;
    pthread_cond_t hinted;
    bool hint;
    bool (*hears)(leat_bytes payload); /* NULL: everything */
    int told_fd;                       /* written to at each hint; -1: none */
};

struct leat__waker {
    leat_client *client;
    pthread_t thread;
    int event;
    pthread_mutex_t lock;
    leat__map channels;
    bool changed; /* what is to be listened to, since the thread looked */
    bool closing;
};

static leat_bytes name_of(const struct channel *ch)
{
    return leat_mem(ch->name, ch->size);
}

static void raise_event(int fd)
{
    uint64_t one = 1;
    ssize_t n = write(fd, &one, sizeof one);
    (void)n; /* full means that it has been told already */
}

static void tell_thread(leat__waker *w)
{
    raise_event(w->event);
}

/* Only then are all channels looked at: a message costs the same with many. */
static bool take_changed(leat__waker *w)
{
    pthread_mutex_lock(&w->lock);
    bool changed = w->changed;
    w->changed = false;
    pthread_mutex_unlock(&w->lock);
    return changed;
}

static void hint_locked(leat__waiter *q)
{
    q->hint = true;
    pthread_cond_signal(&q->hinted);
    if (q->told_fd >= 0)
        raise_event(q->told_fd);
}

static void hint_channel_locked(struct channel *ch)
{
    LEAT__LIST_EACH(&ch->waiters, at)
    hint_locked(LEAT__ITEM(at, leat__waiter, link));
}

static void message_locked(struct channel *ch, leat_bytes payload)
{
    LEAT__LIST_EACH(&ch->waiters, at)
    {
        leat__waiter *q = LEAT__ITEM(at, leat__waiter, link);
        if (!q->hears || q->hears(payload))
            hint_locked(q);
    }
}

static void on_message(void *arg, leat_bytes channel, leat_bytes payload)
{
    leat__waker *w = arg;
    pthread_mutex_lock(&w->lock);
    struct channel *ch = leat__map_get(&w->channels, channel);
    if (ch)
        message_locked(ch, payload);
    pthread_mutex_unlock(&w->lock);
}

/* Up to BATCH channels that are to be listened to (want) and are not, or the
 * other way round. */
static size_t collect(leat__waker *w, bool want, struct channel **out)
{
    size_t at = 0, n = 0;
    struct channel *ch;
    pthread_mutex_lock(&w->lock);
    while (n < BATCH && (ch = leat__map_next(&w->channels, &at, NULL)) != NULL)
        if (want == !leat__list_empty(&ch->waiters) && want == !ch->subscribed)
            out[n++] = ch;
    pthread_mutex_unlock(&w->lock);
    return n;
}

/* Before the confirmation a message could have been missed: look once. */
static void subscribed_locked(struct channel *ch)
{
    ch->subscribed = true;
    hint_channel_locked(ch);
}

/* A waiter may have come while the thread unsubscribed: then it stays. */
static void unsubscribed_locked(leat__waker *w, struct channel *ch)
{
    ch->subscribed = false;
    if (!leat__list_empty(&ch->waiters))
        return;
    leat__map_remove(&w->channels, name_of(ch));
    leat__free(ch);
}

static leat_code change(leat__waker *w, leat_conn *conn, bool want, size_t *n,
                        leat_error *err)
{
    struct channel *set[BATCH];
    leat_bytes names[BATCH];
    *n = collect(w, want, set);
    if (*n == 0)
        return LEAT_OK;
    for (size_t i = 0; i < *n; i++)
        names[i] = name_of(set[i]);
    leat_code rc = want ? leat_conn_subscribe(conn, false, names, *n, err)
                        : leat_conn_unsubscribe(conn, false, names, *n, err);
    if (rc != LEAT_OK)
        return rc;
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < *n; i++) {
        if (want)
            subscribed_locked(set[i]);
        else
            unsubscribed_locked(w, set[i]);
    }
    pthread_mutex_unlock(&w->lock);
    return rc;
}

static leat_code adjust(leat__waker *w, leat_conn *conn, leat_error *err)
{
    size_t on = 0, off = 0;
    leat_code rc = LEAT_OK;
    if (!take_changed(w))
        return rc;
    do {
        rc = change(w, conn, true, &on, err);
        if (rc == LEAT_OK)
            rc = change(w, conn, false, &off, err);
    } while (rc == LEAT_OK && on + off > 0);
    return rc;
}

static bool is_closing(leat__waker *w)
{
    pthread_mutex_lock(&w->lock);
    bool closing = w->closing;
    pthread_mutex_unlock(&w->lock);
    return closing;
}

/* Sleep until there is something to do.  After a long silence a PING finds out
 * whether the other side is still there. */
static leat_code listen_once(leat__waker *w, leat_conn *conn, leat_error *err)
{
    struct pollfd p[] = { { .fd = leat_conn_fd(conn), .events = POLLIN },
                          { .fd = w->event, .events = POLLIN } };
    int n = leat__sys->poll(leat__sys->arg, p, 2, (int64_t)PING_MS * 1000000);
    if (n < 0 && errno != EINTR)
        return leat__fail_errno(err, LEAT_EIO, errno, "cannot poll");
    if (n == 0)
        return leat_conn_call(conn, LEAT_ARGS(leat_str("PING")), NULL, NULL,
                              err);
    if (n > 0 && p[1].revents) {
        uint64_t told;
        ssize_t got = read(w->event, &told, sizeof told);
        (void)got;
    }
    return n > 0 && p[0].revents ? leat_conn_listen(conn, 0, err) : LEAT_OK;
}

/* Nothing is heard from now on, and what was said may have been missed. */
static void lost(leat__waker *w)
{
    size_t at = 0;
    struct channel *ch;
    pthread_mutex_lock(&w->lock);
    while ((ch = leat__map_next(&w->channels, &at, NULL)) != NULL) {
        ch->subscribed = false;
        hint_channel_locked(ch);
    }
    w->changed = true;
    pthread_mutex_unlock(&w->lock);
}

static void serve(leat__waker *w, leat_conn *conn)
{
    leat_error e;
    leat_code rc = LEAT_OK;
    leat_conn_on_push(conn, on_message, w);
    while (rc == LEAT_OK && !is_closing(w)) {
        rc = adjust(w, conn, &e);
        if (rc == LEAT_OK)
            rc = listen_once(w, conn, &e);
    }
    if (rc != LEAT_OK)
        leat__log(&w->client->opts.log, LEAT_LOG_INFO, "waker: %s", e.msg);
}

static void *run(void *arg)
{
    leat__waker *w = arg;
    while (!is_closing(w)) {
        leat_error e;
        leat_conn *conn = leat__client_connect(w->client, INT64_MAX, &e);
        if (conn) {
            serve(w, conn);
            leat__conn_free(conn);
            lost(w);
        } else if (!is_closing(w)) {
            leat__log(&w->client->opts.log, LEAT_LOG_WARN, "waker: %s", e.msg);
            leat__client_pause(w->client, RETRY_MS, INT64_MAX);
        }
    }
    return NULL;
}

static leat__waker *waker_open(leat_client *c, leat_error *err)
{
    leat__waker *w = leat__zalloc(sizeof *w, err);
    if (!w)
        return NULL;
    w->client = c;
    w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->event < 0) {
        leat__fail_errno(err, LEAT_EIO, errno, "eventfd");
        leat__free(w);
        return NULL;
    }
    pthread_mutex_init(&w->lock, NULL);
    if (leat__thread_start(&w->thread, "leat-waker", run, w, err) != LEAT_OK) {
        pthread_mutex_destroy(&w->lock);
        close(w->event);
        leat__free(w);
        return NULL;
    }
    return w;
}

leat__waker *leat__client_waker(leat_client *c, leat_error *err)
{
    if (leat__client_own(c, err) != LEAT_OK)
        return NULL;
    pthread_mutex_lock(&c->lock);
    if (!c->waker && !c->closing)
        c->waker = waker_open(c, err);
    else if (!c->waker)
        leat__fail(err, LEAT_ECLOSED, "the client is closed");
    leat__waker *w = c->waker;
    pthread_mutex_unlock(&c->lock);
    return w;
}

void leat__waker_close(leat__waker *w)
{
    size_t at = 0;
    struct channel *ch;
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_mutex_unlock(&w->lock);
    tell_thread(w);
    pthread_join(w->thread, NULL);
    while ((ch = leat__map_next(&w->channels, &at, NULL)) != NULL)
        leat__free(ch);
    leat__map_release(&w->channels);
    pthread_mutex_destroy(&w->lock);
    close(w->event);
    leat__free(w);
}

/* The channel's struct, made where it is new. */
static struct channel *channel_locked(leat__waker *w, leat_bytes name,
                                      leat_error *err)
{
    struct channel *ch = leat__map_get(&w->channels, name);
    if (ch)
        return ch;
    ch = leat__zalloc(sizeof *ch + name.n, err);
    if (!ch)
        return NULL;
    leat__list_init(&ch->waiters);
    ch->size = name.n;
    memcpy(ch->name, name.p, name.n);
    if (leat__map_put(&w->channels, name, ch, NULL, err) != LEAT_OK) {
        leat__free(ch);
        return NULL;
    }
    return ch;
}

leat__waiter *leat__waiter_open(leat__waker *w, leat_bytes channel,
                                leat_error *err)
{
    if (channel.n == 0) {
        leat__fail(err, LEAT_EINVAL, "a channel needs a name");
        return NULL;
    }
    leat__waiter *q = leat__zalloc(sizeof *q, err);
    if (!q)
        return NULL;
    if (leat__cond_init(&q->hinted, err) != LEAT_OK) {
        leat__free(q);
        return NULL;
    }
    q->waker = w;
    q->told_fd = -1;
    pthread_mutex_lock(&w->lock);
    q->channel = channel_locked(w, channel, err);
    if (q->channel) {
        leat__list_push(&q->channel->waiters, &q->link);
        q->hint = q->channel->subscribed;
        w->changed = true;
    }
    pthread_mutex_unlock(&w->lock);
    if (!q->channel) {
        pthread_cond_destroy(&q->hinted);
        leat__free(q);
        return NULL;
    }
    tell_thread(w);
    return q;
}

void leat__waiter_close(leat__waiter *q)
{
    if (!q)
        return;
    leat__waker *w = q->waker;
    pthread_mutex_lock(&w->lock);
    leat__link_remove(&q->link);
    w->changed = true;
    pthread_mutex_unlock(&w->lock);
    tell_thread(w);
    pthread_cond_destroy(&q->hinted);
    leat__free(q);
}

void leat__waiter_hears(leat__waiter *q, bool (*fn)(leat_bytes payload))
{
    pthread_mutex_lock(&q->waker->lock);
    q->hears = fn;
    pthread_mutex_unlock(&q->waker->lock);
}

bool leat__waiter_wait(leat__waiter *q, int64_t floor_ms)
{
    int64_t deadline = leat__deadline_ns(floor_ms);
    pthread_mutex_lock(&q->waker->lock);
    while (!q->hint && leat__now_ns() < deadline)
        leat__cond_wait(&q->hinted, &q->waker->lock, deadline);
    bool hinted = q->hint;
    q->hint = false;
    pthread_mutex_unlock(&q->waker->lock);
    return hinted;
}

void leat__waiter_tell(leat__waiter *q, int event_fd)
{
    pthread_mutex_lock(&q->waker->lock);
    q->told_fd = event_fd;
    if (q->hint)
        raise_event(event_fd);
    pthread_mutex_unlock(&q->waker->lock);
}

void leat__waiter_poke(leat__waiter *q)
{
    pthread_mutex_lock(&q->waker->lock);
    hint_locked(q);
    pthread_mutex_unlock(&q->waker->lock);
}
