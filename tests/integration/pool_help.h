/*
 * pool_help.h: pools of workers in a test's words.
 *
 * A log keeps, in the order handled, which queue had which message: "a 1".
 */
#ifndef POOL_HELP_H
#define POOL_HELP_H

#include "queue_help.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { LOG_MAX = 20000, LOG_LINE = 32 };

typedef struct pool_log {
    pthread_mutex_t lock;
    int n;
    char line[LOG_MAX][LOG_LINE];
} pool_log;

static pool_log handled = { .lock = PTHREAD_MUTEX_INITIALIZER };

static inline int log_count(void)
{
    pthread_mutex_lock(&handled.lock);
    int n = handled.n;
    pthread_mutex_unlock(&handled.lock);
    return n;
}

static inline void log_clear(void)
{
    pthread_mutex_lock(&handled.lock);
    handled.n = 0;
    pthread_mutex_unlock(&handled.lock);
}

static inline void log_handled(const leat_ctx *x)
{
    leat_bytes from = leat_delivery_from(leat_ctx_delivery(x));
    leat_bytes body = leat_ctx_msg(x)->body;
    pthread_mutex_lock(&handled.lock);
    if (handled.n < LOG_MAX)
        snprintf(handled.line[handled.n++], LOG_LINE, "%.*s %.*s", (int)from.n,
                 (const char *)from.p, (int)body.n, (const char *)body.p);
    pthread_mutex_unlock(&handled.lock);
}

static inline leat_verdict note(leat_ctx *x, void *arg)
{
    (void)arg;
    log_handled(x);
    return LEAT_ACK;
}

static inline bool body_is(const leat_ctx *x, const char *text)
{
    return leat_bytes_eq(leat_ctx_msg(x)->body, leat_str(text));
}

static inline leat_pool *pool_of(leat_handler_fn *fn, void *arg,
                                 const leat_pool_opts *o)
{
    leat_error e = { 0 };
    leat_pool *p = leat_pool_start(client, fn, arg, o, &e);
    if (!p)
        fail_msg("cannot start a pool: %s", e.msg);
    return p;
}

static inline void stop(leat_pool *p)
{
    must(leat_pool_stop(p, 0, err));
}

/* "name0", "name1", ... */
static inline leat_queue *queue_nr(const char *name, int i,
                                   const leat_queue_opts *o)
{
    char text[64];
    snprintf(text, sizeof text, "%s%d", name, i);
    return queue_of(text, o);
}

/* What the log says of a queue, its messages joined: "1 2 3". */
static inline const char *log_of(const char *queue)
{
    static char out[16 * LOG_MAX];
    size_t n = 0, q = strlen(queue);
    out[0] = '\0';
    pthread_mutex_lock(&handled.lock);
    for (int i = 0; i < handled.n; i++) {
        const char *l = handled.line[i];
        if (strncmp(l, queue, q) == 0 && l[q] == ' ')
            n += (size_t)snprintf(out + n, sizeof out - n, "%s%s", n ? " " : "",
                                  l + q + 1);
    }
    pthread_mutex_unlock(&handled.lock);
    return out;
}

#endif
