/*
 * handles.c: what is open of a client, and closing it.
 *
 * Topics, queues and all else that is opened from a client counts here until it
 * is closed.  A client that is closed before them stays, opens nothing more,
 * and ends with the last of them: a wrong order costs an error in the log, not
 * memory that is gone.
 */
#include "base/log.h"
#include "redis/client.h"
#include "redis/waker.h"
#include "redis/watch.h"

#include <stdio.h>
#include <string.h>

enum { LIST = 160 };

static const struct {
    const char *one, *many;
} words[LEAT__HANDLES_] = {
    [LEAT__A_TOPIC] = { "topic", "topics" },
    [LEAT__A_QUEUE] = { "queue", "queues" },
    [LEAT__A_STREAM] = { "stream", "streams" },
    [LEAT__A_POOL] = { "pool", "pools" },
    [LEAT__A_WATCH] = { "queue watch", "queue watches" },
    [LEAT__A_BROWSE] = { "browse", "browses" },
    [LEAT__A_DLQ] = { "dead-letter list", "dead-letter lists" },
    [LEAT__A_CONN] = { "lent connection", "lent connections" },
};

static int open_locked(const leat_client *c)
{
    int n = 0;
    for (int i = 0; i < LEAT__HANDLES_; i++)
        n += c->handles[i];
    return n;
}

leat_code leat__client_keep(leat_client *c, leat__handle what, leat_error *err)
{
    leat_code rc = leat__client_own(c, err);
    if (rc != LEAT_OK)
        return rc;
    pthread_mutex_lock(&c->lock);
    bool closed = c->closed;
    c->handles[what] += !closed;
    pthread_mutex_unlock(&c->lock);
    return closed ? leat__fail(err, LEAT_ECLOSED,
                               "the client is closed, open another one")
                  : LEAT_OK;
}

void leat__client_inherit(const leat_client *c, leat_logger *log,
                          leat_metrics **metrics)
{
    if (!log->fn)
        *log = c->opts.log;
    if (metrics && !*metrics)
        *metrics = c->opts.metrics;
}

/* ---- closing ---------------------------------------------------------- */

static void finish(leat_client *c)
{
    leat__waker_close(c->waker);
    leat__watch_close(c->watch);
    leat__client_end(c);
}

/* In a forked child the lock may be held by nobody who is left. */
void leat__client_drop(leat_client *c, leat__handle what)
{
    if (!c || leat__client_own(c, NULL) != LEAT_OK)
        return;
    pthread_mutex_lock(&c->lock);
    c->handles[what]--;
    bool last = c->closed && open_locked(c) == 0;
    if (last)
        leat__client_ending_locked(c);
    pthread_mutex_unlock(&c->lock);
    if (last)
        finish(c);
}

/* "1 topic, 2 queues"; lent connections only where they are the caller's, as
 * what is open lends some, too. */
static void list_locked(const leat_client *c, char out[LIST])
{
    size_t at = 0;
    int n[LEAT__HANDLES_];
    memcpy(n, c->handles, sizeof n);
    if (open_locked(c) == 0) {
        n[LEAT__A_CONN] = c->total;
        for (const leat_conn *conn = c->idle; conn; conn = conn->next)
            n[LEAT__A_CONN]--;
    }
    out[0] = '\0';
    for (int i = 0; i < LEAT__HANDLES_ && at < LIST; i++)
        if (n[i] > 0)
            at += (size_t)snprintf(out + at, LIST - at, "%s%d %s",
                                   at ? ", " : "", n[i],
                                   n[i] == 1 ? words[i].one : words[i].many);
}

/* Once the lock is free another thread may close the last handle, and the
 * client with it: what is said is copied before. */
void leat_client_close(leat_client *c)
{
    char list[LIST];
    if (!c || leat__client_own(c, NULL) != LEAT_OK)
        return;
    leat_logger log = c->opts.log;
    pthread_mutex_lock(&c->lock);
    bool again = c->closed;
    list_locked(c, list);
    c->closed = true;
    bool last = open_locked(c) == 0;
    if (last)
        leat__client_ending_locked(c);
    pthread_mutex_unlock(&c->lock);
    if (list[0] && !again)
        leat__log(&log, LEAT_LOG_ERROR,
                  "the client was closed before what was opened from it: %s; "
                  "it stays until the last is closed: close them first",
                  list);
    if (last)
        finish(c);
}
