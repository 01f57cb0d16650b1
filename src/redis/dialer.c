/*
 * dialer.c: connecting where the topology leads, at once or on a thread of its
 * own.
 *
 * Such an attempt has two owners, the thread and who started it; the second
 * to let go frees it.
 */
#include "redis/dialer.h"
#include "base/mem.h"
#include "redis/cluster.h"
#include "redis/sentinel.h"

#include <unistd.h>

/* What is wrong with the configuration is told when the client is opened.
 * Later it is weather. */
static leat_conn *dialed(leat_client *c, leat_conn *conn, leat_error *err)
{
    if (conn)
        return conn;
    pthread_mutex_lock(&c->lock);
    bool later = c->opened;
    pthread_mutex_unlock(&c->lock);
    if (later)
        leat__error_weather(err);
    return NULL;
}

leat_conn *leat__client_dial(leat_client *c, int64_t deadline_ns,
                             leat_error *err)
{
    leat_conn *conn;
    if (c->sentinel)
        conn = leat__sentinel_dial(c->sentinel, deadline_ns, err);
    else if (c->cluster)
        conn = leat__cluster_dial_any(c->cluster, deadline_ns, err);
    else
        conn = leat__client_dial_at(c, c->url.hosts, deadline_ns, err);
    return dialed(c, conn, err);
}

leat_conn *leat__client_dial_key(leat_client *c, leat_bytes key,
                                 int64_t deadline_ns, leat_error *err)
{
    if (!c->cluster)
        return leat__client_dial(c, deadline_ns, err);
    return dialed(c, leat__cluster_dial_key(c->cluster, key, deadline_ns, err),
                  err);
}

/* ---- in the background ------------------------------------------------ */

struct leat__dial {
    pthread_mutex_t lock;
    leat_client *client;
    leat__address at;
    int64_t deadline_ns;
    int event_fd;
    bool decided, dropped;
    leat_conn *conn;
    leat_error why;
    size_t key_size; /* 0: it is for `at` */
    char key[];
};

static void dial_free(leat__dial *d)
{
    leat__conn_free(d->conn);
    pthread_mutex_destroy(&d->lock);
    leat__free(d);
}

static void attempt(void *arg)
{
    leat__dial *d = arg;
    leat_error e = { 0 };
    leat_conn *conn = d->key_size
                          ? leat__client_dial_key(d->client,
                                                  leat_mem(d->key, d->key_size),
                                                  d->deadline_ns, &e)
                          : leat__cluster_dial_at(d->client->cluster, &d->at,
                                                  d->deadline_ns, &e);
    pthread_mutex_lock(&d->lock);
    d->conn = conn;
    d->why = e;
    d->decided = true;
    bool mine = d->dropped;
    uint64_t one = 1;
    if (!mine) {
        ssize_t n = write(d->event_fd, &one, sizeof one);
        (void)n; /* full means that it has been told already */
    }
    pthread_mutex_unlock(&d->lock);
    if (mine)
        dial_free(d);
}

static leat__dial *start(leat_client *c, const leat__address *at,
                         leat_bytes key, int64_t deadline_ns, int event_fd,
                         leat_error *err)
{
    leat__dial *d = leat__zalloc(sizeof *d + key.n, err);
    if (!d)
        return NULL;
    pthread_mutex_init(&d->lock, NULL);
    d->client = c;
    if (at)
        d->at = *at;
    d->deadline_ns = deadline_ns;
    d->event_fd = event_fd;
    d->key_size = key.n;
    if (key.n)
        memcpy(d->key, key.p, key.n);
    if (leat__client_spawn(c, "leat-dial", attempt, d, err) == LEAT_OK)
        return d;
    dial_free(d);
    return NULL;
}

leat__dial *leat__dial_start(leat_client *c, const leat__address *at,
                             int64_t deadline_ns, int event_fd, leat_error *err)
{
    return start(c, at, leat_mem(NULL, 0), deadline_ns, event_fd, err);
}

leat__dial *leat__dial_start_key(leat_client *c, leat_bytes key,
                                 int64_t deadline_ns, int event_fd,
                                 leat_error *err)
{
    return start(c, NULL, key, deadline_ns, event_fd, err);
}

bool leat__dial_fetch(leat__dial *d, leat_conn **conn, leat_error *why)
{
    pthread_mutex_lock(&d->lock);
    bool decided = d->decided;
    pthread_mutex_unlock(&d->lock);
    if (!decided)
        return false;
    *conn = d->conn;
    *why = d->why;
    d->conn = NULL;
    dial_free(d);
    return true;
}

void leat__dial_drop(leat__dial *d)
{
    pthread_mutex_lock(&d->lock);
    d->dropped = true;
    bool mine = d->decided;
    pthread_mutex_unlock(&d->lock);
    if (mine)
        dial_free(d);
}
