/*
 * server.h: the group fixture of a test program with one plain server:
 *
 *   return cmocka_run_group_tests(tests, start_server, stop_server);
 *
 * The tests use `server` and `url`.
 */
#ifndef SUPPORT_SERVER_H
#define SUPPORT_SERVER_H

#include "support/leat.h"

static __attribute__((unused)) redis_server *server;
static char url[256];

static inline int start_server(void **state)
{
    (void)state;
    server = redis_start(NULL);
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

#endif
