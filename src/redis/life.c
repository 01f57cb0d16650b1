/*
 * life.c: how long a client lives.
 *
 * It is closed by its user, and over with the last connection that comes back,
 * the last thread that needs it and the last that waits for it.
 */
#include "base/fork.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/thread.h"
#include "redis/client.h"

leat_code leat__client_own(const leat_client *c, leat_error *err)
{
    if (c->forks == leat__fork_count())
        return LEAT_OK;
    return leat__fail(err, LEAT_EFORK,
                      "this client belongs to the parent process, open one of "
                      "your own after fork");
}

/* The last one out frees the client, once it is closed. */
void leat__client_unlock(leat_client *c)
{
    bool last = c->closing && c->total == 0 && c->waiting == 0 &&
                c->helpers == 0;
    pthread_mutex_unlock(&c->lock);
    if (last)
        c->destroy(c);
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
    leat__client_unlock(c);
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
