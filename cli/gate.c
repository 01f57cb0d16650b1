/*
 * gate.c: how many messages are begun, for workers with a limit.
 *
 * A message that failed for the last time counts as finished, and one that is
 * tried again does not; which of the two it is, is known only when its verdict
 * is carried out.  So a failure holds its place until it is said to be a dead
 * letter, or comes again, or HOLD_MS have passed: others wait meanwhile.
 */
#include "exec.h"

#include <errno.h>
#include <time.h>

enum { HOLD_MS = 500 };

/* The place of this message is no longer held; false: it was not. */
static bool unhold_locked(gate *g, const gate_key *key)
{
    for (size_t i = 0; i < g->holding; i++) {
        const gate_key *k = &g->held[i].key;
        if (k->partition != key->partition || k->ms != key->ms ||
            k->seq != key->seq)
            continue;
        g->held[i] = g->held[--g->holding];
        return true;
    }
    return false;
}

bool gate_enter(gate *g, const gate_key *key)
{
    pthread_mutex_lock(&g->lock);
    if (key && unhold_locked(g, key))
        g->begun--;
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

void gate_hold(gate *g, const gate_key *key)
{
    pthread_mutex_lock(&g->lock);
    bool room = g->limit > 0 && g->holding < GATE_HOLDS;
    if (room)
        g->held[g->holding++] = (held_place){ *key, now_ns() };
    pthread_mutex_unlock(&g->lock);
    if (!room)
        gate_leave(g, false);
}

void gate_sweep(gate *g)
{
    int64_t before = now_ns() - HOLD_MS * (int64_t)1000000;
    pthread_mutex_lock(&g->lock);
    for (size_t i = g->holding; i-- > 0;) {
        if (g->held[i].since_ns > before)
            continue;
        g->held[i] = g->held[--g->holding];
        g->begun--;
        pthread_cond_broadcast(&g->changed);
    }
    pthread_mutex_unlock(&g->lock);
}

void gate_count(gate *g, const gate_key *key)
{
    pthread_mutex_lock(&g->lock);
    if (!unhold_locked(g, key))
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
