/*
 * tls_help.h: the group fixture of a test program with one server that speaks
 * TLS, by the names that support/server.h has for a plain one, and a look
 * inside a connection to it.
 */
#ifndef TLS_HELP_H
#define TLS_HELP_H

#include "redis/conn.h"
#include "redis/tls_inside.h"
#include "support/certs.h"
#include "support/leat.h"

enum { LONG_MS = 60000 };

static char dir[64]; /* of the certificates */
static redis_server *server;
static char url[256];

static inline int start_server(void **state)
{
    (void)state;
    if (!certs_dir(dir, sizeof dir) || !certs_usual(dir))
        return -1;
    server = redis_start(&(redis_opts){ .tls = dir, .tcp = true });
    if (!server)
        return -1;
    redis_url_tls(server, url, sizeof url);
    return 0;
}

static inline int stop_server(void **state)
{
    (void)state;
    redis_stop(server);
    certs_remove(dir);
    return 0;
}

static inline SSL *ssl_of(const leat_conn *conn)
{
    return ((leat__tls_link *)conn->t)->ssl;
}

#endif
