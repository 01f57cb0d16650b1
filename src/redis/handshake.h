/* handshake.h: the first words on a new connection. */
#ifndef LEAT_REDIS_HANDSHAKE_H
#define LEAT_REDIS_HANDSHAKE_H

#include "redis/conn.h"

typedef struct leat__login {
    const char *user;     /* NULL: the default user     */
    const char *password; /* NULL: none is sent         */
    const char *name;     /* CLIENT SETNAME             */
    int db;
    bool resp2;
} leat__login;

/* Bytes of one reply before the login is done.  HELLO's is below 1 KiB, with a
 * few dozen modules below 8: whoever sends more is no server of ours, and what
 * it can make us keep ends here. */
enum { LEAT__LOGIN_REPLY_MAX = 64 * 1024 };

/* Agree on the protocol, log in, name the connection, select the database.
 * An error never repeats what the server said to a password: a server that
 * does not know the command quotes its arguments. */
leat_code leat__handshake(leat_conn *c, const leat__login *l, leat_error *err);

#endif
