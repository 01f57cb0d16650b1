/*
 * line.c: which connections lead where.
 */
#include "redis/line.h"
#include "redis/conn.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

void leat__lines_init(leat__lines *l)
{
    pthread_mutex_init(&l->lock, NULL);
    leat__list_init(&l->all);
}

void leat__lines_release(leat__lines *l)
{
    pthread_mutex_destroy(&l->lock);
}

void leat__address_set(leat__address *a, const char *host, int port)
{
    *a = (leat__address){ .port = port };
    snprintf(a->host, sizeof a->host, "%s", host ? host : "");
}

char *leat__address_text(const leat__address *a, char *buf, size_t size)
{
    bool v6 = strchr(a->host, ':') != NULL;
    snprintf(buf, size, "%s%s%s:%d", v6 ? "[" : "", a->host, v6 ? "]" : "",
             a->port);
    return buf;
}

bool leat__address_same(const leat__address *a, const leat__address *b)
{
    return a->port == b->port && strcasecmp(a->host, b->host) == 0;
}

void leat__line_enter(leat__lines *l, leat_conn *c, const leat__address *at)
{
    c->line.at = *at;
    c->line.of = l;
    pthread_mutex_lock(&l->lock);
    leat__list_push(&l->all, &c->line.link);
    pthread_mutex_unlock(&l->lock);
}

void leat__line_leave(leat_conn *c)
{
    leat__lines *l = c->line.of;
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    leat__link_remove(&c->line.link);
    pthread_mutex_unlock(&l->lock);
    c->line.of = NULL;
}

size_t leat__lines_cut(leat__lines *l, leat__keep_fn *keep, void *arg)
{
    size_t n = 0;
    pthread_mutex_lock(&l->lock);
    LEAT__LIST_EACH(&l->all, at)
    {
        leat_conn *c = LEAT__ITEM(at, leat_conn, line.link);
        if (keep(&c->line.at, arg))
            continue;
        (void)shutdown(c->t->fd, SHUT_RDWR);
        n++;
    }
    pthread_mutex_unlock(&l->lock);
    return n;
}
