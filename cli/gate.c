/*
 * gate.c: how many messages are begun, for workers with a limit.
 */
#include "exec.h"

#include <errno.h>
#include <time.h>

bool gate_enter(gate *g)
{
    pthread_mutex_lock(&g->lock);
    while (((g->limit && g->begun >= g->limit) || g->shut) && !g->stopping)
        pthread_cond_wait(&g->changed, &g->lock);
    bool good = !g->stopping;
    if (good)
        g->begun++;
    pthread_mutex_unlock(&g->lock);
    return good;
}

void gate_leave(gate *g, bool finished)
{
    pthread_mutex_lock(&g->lock);
    if (finished)
        g->finished++;
    else
        g->begun--;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

void gate_count(gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->begun++;
    g->finished++;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

bool gate_reached(gate *g)
{
    pthread_mutex_lock(&g->lock);
    bool yes = g->shut || (g->limit && g->finished >= g->limit);
    pthread_mutex_unlock(&g->lock);
    return yes;
}

void gate_stop(gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->stopping = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

void gate_pause(gate *g, int64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ms / 1000;
    pthread_mutex_lock(&g->lock);
    while (!g->stopping &&
           pthread_cond_timedwait(&g->changed, &g->lock, &until) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&g->lock);
}
