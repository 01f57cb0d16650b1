/*
 * server.h: the fixture of a test program with one server:
 *
 *   return cmocka_run_group_tests(tests, start_server, stop_server);
 *
 * The tests use `server` and `url`; `server_opts` may be set before.  Those
 * between open_one and close_one find the server empty, and use `client`.
 */
#ifndef SUPPORT_SERVER_H
#define SUPPORT_SERVER_H

#include "support/client.h"

static __attribute__((unused)) redis_server *server;
static __attribute__((unused)) redis_opts server_opts;

static inline int start_server(void **state)
{
    (void)state;
    server = redis_start(&server_opts);
    if (!server)
        return -1;
    redis_url(server, url, sizeof url);
    return 0;
}

static inline int stop_server(void **state)
{
    (void)state;
    redis_stop(server);
    return 0;
}

static inline int open_one(void **state)
{
    (void)state;
    return redis_flush(server) ? open_at_url() : -1;
}

/* Its only replica has said that it has all that was written. */
static inline bool replica_has_all(redis_server *s)
{
    long long have = -1, all = -2;
    char info[4096];
    redis_text(s, info, sizeof info, "INFO replication");
    const char *at = strstr(info, ",offset=");
    const char *end = strstr(info, "master_repl_offset:");
    return at && end && sscanf(at, ",offset=%lld", &have) == 1 &&
           sscanf(end, "master_repl_offset:%lld", &all) == 1 && have == all;
}

#endif
