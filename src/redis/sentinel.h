/*
 * sentinel.h: the master of a service, as its sentinels tell.
 *
 * What a sentinel says is a rumour until the server itself has answered ROLE:
 * a connection is handed out only by a server that holds itself to be the
 * master, named by a sentinel that is not behind the others.
 *
 * Threads: shared.
 */
#ifndef LEAT_REDIS_SENTINEL_H
#define LEAT_REDIS_SENTINEL_H

#include "redis/client.h"
#include "redis/sentinel_reply.h"

/* For the sentinels of the client's URL; the login is instead of the URL's and
 * may be NULL.  Opens nothing. */
leat__sentinel *leat__sentinel_new(leat_client *c, const char *user,
                                   const char *password, leat_error *err);
void leat__sentinel_free(leat__sentinel *s); /* NULL is fine */

/* Ask, dial, verify.  LEAT_ENOENT: no sentinel knows the service; other errors
 * say who named whom and what came of it. */
leat_conn *leat__sentinel_dial(leat__sentinel *s, int64_t deadline_ns,
                               leat_error *err);

/* The master and its replicas; see leat_client_nodes. */
leat_code leat__sentinel_nodes(leat__sentinel *s, leat_node *out, size_t room,
                               size_t *n, leat_error *err);

/* Is the server behind this connection a master?  LEAT_ECONN: it is not. */
leat_code leat__sentinel_verify(leat_conn *conn, leat_error *err);

/* For watch.c, which keeps its connections to the sentinels and lists them;
 * NULL: in no list. */
leat_conn *leat__sentinel_connect(leat__sentinel *s, size_t i,
                                  leat__lines *list, int64_t deadline_ns,
                                  leat_error *err);
leat_code leat__sentinel_ask(leat__sentinel *s, size_t i, leat_conn *conn,
                             int64_t deadline_ns, leat__sentinel_answer *out,
                             leat_error *err);
leat__sentinel_known leat__sentinel_now(leat__sentinel *s);

/* Follow an answer that was chosen while `known` held: dial, verify, and if it
 * is another master than before say so and cut what leads elsewhere.  NULL
 * with *err: not this one. */
leat_conn *leat__sentinel_follow(leat__sentinel *s,
                                 const leat__sentinel_known *known,
                                 const leat__sentinel_answer *a, size_t i,
                                 int64_t deadline_ns, leat_error *err);

/* It is the known one, by a newer configuration. */
void leat__sentinel_confirm(leat__sentinel *s, const leat__sentinel_answer *a);

#endif
