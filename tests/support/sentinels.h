/*
 * sentinels.h: a master, its replicas and their sentinels, for tests.
 *
 *   sentinels *g = sentinels_start(NULL);          one and two, three of them
 *   leat_client_open(sentinels_url(g, url, sizeof url), NULL, &err);
 *   redis_kill(sentinels_server(g, 0));            the first master is 0
 *   wait_until(sentinels_master(g) > 0, 60000);
 *
 * Each is a redis_server of support/redis.h on a random port of 127.0.0.1, and
 * ends with the test program as they do.  The service is called "shop".
 *
 * Threads: confined.
 */
#ifndef SUPPORT_SENTINELS_H
#define SUPPORT_SENTINELS_H

#include "support/redis.h"

enum { SENTINELS_SERVERS = 3, SENTINELS_COUNT = 3 };

typedef struct sentinels sentinels;

typedef struct sentinels_opts {
    int64_t down_after_ms; /* 0: 1 s                                     */
    redis_aof aof;
    const char *password;          /* of the servers                     */
    const char *sentinel_user;     /* of the sentinels                   */
    const char *sentinel_password; /* of sentinel_user, or without it    */
    const char *const *config;     /* more lines for each server, as
                                      "min-replicas-to-write 1"; ends with
                                      NULL                               */
} sentinels_opts;

/* Start all and wait until every sentinel knows every other and all servers.
 * NULL after saying why on stderr.  opts may be NULL and is not kept. */
sentinels *sentinels_start(const sentinels_opts *opts);
void sentinels_stop(sentinels *g); /* NULL is fine */

/* The servers and sentinels, from 0, owned by g.  They may be killed, paused
 * and started again. */
redis_server *sentinels_server(sentinels *g, int i);
redis_server *sentinels_sentinel(sentinels *g, int i);

/* Which server sentinel i names; -1: none of ours, or it does not answer. */
int sentinels_named(sentinels *g, int i);

/* Which server the living sentinels all name; -1: they do not agree. */
int sentinels_master(sentinels *g);

/* They agree, that server holds itself to be the master, and so many replicas
 * are linked to it and known to be well. */
bool sentinels_settled(sentinels *g, int replicas);

/* Have a sentinel replace the master; false: not now, ask again. */
bool sentinels_failover(sentinels *g);

/* "redis+sentinel://[:password@]127.0.0.1:p1,127.0.0.1:p2,.../shop", with the
 * sentinels' login.  Returns buf; 400 bytes are plenty. */
char *sentinels_url(sentinels *g, char *buf, size_t size);

#endif
