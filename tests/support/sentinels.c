/*
 * sentinels.c: a master, its replicas and their sentinels.
 */
#include "support/sentinels.h"
#include "support/wait.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVICE "shop"

enum { LINES = 16, LINE = 160, SETTLE_MS = 60000, FAILOVER_MS = 3000 };

struct sentinels {
    redis_server *server[SENTINELS_SERVERS];
    redis_server *sentinel[SENTINELS_COUNT];
    char password[64], sentinel_user[64], sentinel_password[64];
};

/* Lines of configuration, put together here and copied by redis_start. */
struct lines {
    char text[LINES][LINE];
    const char *list[LINES + 1];
    int n;
};

__attribute__((format(printf, 2, 3))) static void add(struct lines *l,
                                                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (l->n < LINES) {
        vsnprintf(l->text[l->n], LINE, format, args);
        l->list[l->n] = l->text[l->n];
        l->n++;
    }
    va_end(args);
}

static redis_server *start_server(sentinels *g, const sentinels_opts *o, int i)
{
    struct lines l = { 0 };
    add(&l, "repl-diskless-sync yes");
    add(&l, "repl-diskless-sync-delay 0");
    add(&l, "repl-ping-replica-period 1");
    if (o->password)
        add(&l, "masterauth %s", o->password);
    if (i > 0)
        add(&l, "replicaof 127.0.0.1 %d", redis_port(g->server[0]));
    for (size_t k = 0; o->config && o->config[k]; k++)
        add(&l, "%s", o->config[k]);
    return redis_start(&(redis_opts){ .tcp = true,
                                      .aof = o->aof,
                                      .password = o->password,
                                      .config = l.list });
}

static redis_server *start_sentinel(sentinels *g, const sentinels_opts *o)
{
    struct lines l = { 0 };
    add(&l, "sentinel monitor " SERVICE " 127.0.0.1 %d %d",
        redis_port(g->server[0]), SENTINELS_COUNT / 2 + 1);
    add(&l, "sentinel down-after-milliseconds " SERVICE " %lld",
        (long long)(o->down_after_ms ? o->down_after_ms : 1000));
    add(&l, "sentinel failover-timeout " SERVICE " %d", FAILOVER_MS);
    add(&l, "sentinel parallel-syncs " SERVICE " 2");
    if (o->password)
        add(&l, "sentinel auth-pass " SERVICE " %s", o->password);
    if (o->sentinel_user)
        add(&l, "sentinel sentinel-user %s", o->sentinel_user);
    if (o->sentinel_password)
        add(&l, "sentinel sentinel-pass %s", o->sentinel_password);
    return redis_start(&(redis_opts){ .tcp = true,
                                      .sentinel = true,
                                      .user = o->sentinel_user,
                                      .password = o->sentinel_password,
                                      .config = l.list });
}

/* The number behind a name in the reply of SENTINEL MASTER. */
static int64_t master_field(redis_server *s, const char *name)
{
    int64_t v = -1;
    redisReply *r = redis_raw(s, "SENTINEL MASTER " SERVICE);
    for (size_t i = 0; r && i + 1 < r->elements; i += 2)
        if (strcmp(r->element[i]->str, name) == 0)
            v = strtoll(r->element[i + 1]->str, NULL, 10);
    if (r)
        freeReplyObject(r);
    return v;
}

static bool knows_all(redis_server *s)
{
    return master_field(s, "num-slaves") == SENTINELS_SERVERS - 1 &&
           master_field(s, "num-other-sentinels") == SENTINELS_COUNT - 1;
}

static bool is_complete(void *arg)
{
    sentinels *g = arg;
    for (int i = 0; i < SENTINELS_COUNT; i++)
        if (!knows_all(g->sentinel[i]))
            return false;
    return sentinels_settled(g, SENTINELS_SERVERS - 1);
}

/* Sentinels look every ten seconds otherwise; before 7.0 they still do.  Four
 * publish periods pass before an old master is made a replica. */
static void hurry(redis_server *s)
{
    freeReplyObject(redis_raw(s, "SENTINEL DEBUG info-period 500 "
                                 "publish-period 300 ping-period 200 "
                                 "ask-period 200 election-timeout 2000"));
}

static void copy(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text ? text : "");
}

sentinels *sentinels_start(const sentinels_opts *opts)
{
    sentinels_opts o = opts ? *opts : (sentinels_opts){ 0 };
    sentinels *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    copy(g->password, sizeof g->password, o.password);
    copy(g->sentinel_user, sizeof g->sentinel_user, o.sentinel_user);
    copy(g->sentinel_password, sizeof g->sentinel_password,
         o.sentinel_password);
    for (int i = 0; i < SENTINELS_SERVERS; i++)
        if (!(g->server[i] = start_server(g, &o, i)))
            goto fail;
    for (int i = 0; i < SENTINELS_COUNT; i++) {
        if (!(g->sentinel[i] = start_sentinel(g, &o)))
            goto fail;
        hurry(g->sentinel[i]);
    }
    if (wait_for(is_complete, g, SETTLE_MS))
        return g;
    fprintf(stderr, "sentinels_start: they did not find each other\n");

fail:
    sentinels_stop(g);
    return NULL;
}

void sentinels_stop(sentinels *g)
{
    if (!g)
        return;
    for (int i = 0; i < SENTINELS_COUNT; i++)
        redis_stop(g->sentinel[i]);
    for (int i = 0; i < SENTINELS_SERVERS; i++)
        redis_stop(g->server[i]);
    free(g);
}

redis_server *sentinels_server(sentinels *g, int i)
{
    return g->server[i];
}

redis_server *sentinels_sentinel(sentinels *g, int i)
{
    return g->sentinel[i];
}

static int by_port(sentinels *g, long port)
{
    for (int i = 0; i < SENTINELS_SERVERS; i++)
        if (redis_port(g->server[i]) == port)
            return i;
    return -1;
}

int sentinels_named(sentinels *g, int i)
{
    int named = -1;
    redisReply *r = redis_raw(g->sentinel[i],
                              "SENTINEL GET-MASTER-ADDR-BY-NAME " SERVICE);
    if (r && r->type == REDIS_REPLY_ARRAY && r->elements == 2)
        named = by_port(g, strtol(r->element[1]->str, NULL, 10));
    if (r)
        freeReplyObject(r);
    return named;
}

int sentinels_master(sentinels *g)
{
    int master = -1;
    for (int i = 0; i < SENTINELS_COUNT; i++) {
        if (!redis_alive(g->sentinel[i]))
            continue;
        int named = sentinels_named(g, i);
        if (named < 0 || (master >= 0 && named != master))
            return -1;
        master = named;
    }
    return master;
}

/* ROLE of a master: "master", offset, [[ip, port, offset] ...]. */
static bool leads(redis_server *s, int replicas)
{
    redisReply *r = redis_raw(s, "ROLE");
    bool ok = r && r->type == REDIS_REPLY_ARRAY && r->elements == 3 &&
              strcmp(r->element[0]->str, "master") == 0 &&
              r->element[2]->elements >= (size_t)replicas;
    if (r)
        freeReplyObject(r);
    return ok;
}

static const char *text_field(const redisReply *r, const char *name)
{
    for (size_t i = 0; i + 1 < r->elements; i += 2)
        if (strcmp(r->element[i]->str, name) == 0)
            return r->element[i + 1]->str;
    return "";
}

/* A replica that is to be promoted must have been seen as one by all: whoever
 * has seen it as a master last makes it a replica again. */
static bool sees_replicas(redis_server *s, int replicas)
{
    int good = 0;
    redisReply *all = redis_raw(s, "SENTINEL SLAVES " SERVICE);
    for (size_t i = 0; all && i < all->elements; i++) {
        const redisReply *r = all->element[i];
        good += strcmp(text_field(r, "flags"), "slave") == 0 &&
                strcmp(text_field(r, "role-reported"), "slave") == 0 &&
                strcmp(text_field(r, "master-link-status"), "ok") == 0;
    }
    if (all)
        freeReplyObject(all);
    return good >= replicas;
}

static bool all_see_replicas(sentinels *g, int replicas)
{
    for (int i = 0; i < SENTINELS_COUNT; i++)
        if (redis_alive(g->sentinel[i]) &&
            !sees_replicas(g->sentinel[i], replicas))
            return false;
    return true;
}

bool sentinels_settled(sentinels *g, int replicas)
{
    int master = sentinels_master(g);
    return master >= 0 && redis_alive(g->server[master]) &&
           leads(g->server[master], replicas) && all_see_replicas(g, replicas);
}

bool sentinels_failover(sentinels *g)
{
    char text[128];
    for (int i = 0; i < SENTINELS_COUNT; i++)
        if (redis_alive(g->sentinel[i]))
            return strcmp(redis_text(g->sentinel[i], text, sizeof text,
                                     "SENTINEL FAILOVER " SERVICE),
                          "OK") == 0;
    return false;
}

char *sentinels_url(sentinels *g, char *buf, size_t size)
{
    char who[128] = "", login[192] = "";
    if (g->password[0])
        snprintf(who, sizeof who, ":%s@", g->password);
    if (g->sentinel_password[0])
        snprintf(login, sizeof login, "?%s%s%ssentinel_password=%s",
                 g->sentinel_user[0] ? "sentinel_user=" : "", g->sentinel_user,
                 g->sentinel_user[0] ? "&" : "", g->sentinel_password);
    snprintf(
        buf, size,
        "redis+sentinel://%s127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/" SERVICE
        "%s",
        who, redis_port(g->sentinel[0]), redis_port(g->sentinel[1]),
        redis_port(g->sentinel[2]), login);
    return buf;
}
