/*
 * dialer.c: an attempt to connect, on a thread of its own.
 *
 * An attempt has two owners, the thread and who started it; the second to let
 * go frees it.
 */
#include "redis/dialer.h"
#include "base/mem.h"
#include "base/thread.h"
#include "redis/cluster.h"

#include <unistd.h>

struct job {
    leat_client *client;
    void (*fn)(void *);
    void *arg;
};

static void *run(void *arg)
{
    struct job j = *(struct job *)arg;
    leat__free(arg);
    j.fn(j.arg);
    leat__client_let_go(j.client);
    return NULL;
}

leat_code leat__client_spawn(leat_client *c, const char *name,
                             void (*fn)(void *), void *arg, leat_error *err)
{
    pthread_t t;
    struct job *j = leat__alloc(sizeof *j, err);
    if (!j)
        return LEAT_ENOMEM;
    *j = (struct job){ .client = c, .fn = fn, .arg = arg };
    leat_code rc = leat__client_hold(c, err);
    if (rc == LEAT_OK) {
        rc = leat__thread_start(&t, name, run, j, err);
        if (rc != LEAT_OK)
            leat__client_let_go(c);
    }
    if (rc == LEAT_OK)
        pthread_detach(t);
    else
        leat__free(j);
    return rc;
}

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
