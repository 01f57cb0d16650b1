/*
 * line.h: which connections lead where, so that another thread can cut them.
 *
 * A connection is confined to its thread, and that thread may sleep in a read
 * for as long as the server keeps silent.  When the server is no longer the
 * right one, whoever finds out shuts the socket down: the owner sees the end of
 * the stream as an ordinary break, also inside a poll, and tells every waiting
 * command what is known of it.
 *
 * A connection leaves the list before its socket is closed, under the same
 * lock: a number that was closed may already be another socket.
 *
 * Threads: the list is shared.
 */
#ifndef LEAT_REDIS_LINE_H
#define LEAT_REDIS_LINE_H

#include "base/list.h"
#include <leat/redis.h>
#include <pthread.h>

typedef struct leat__address {
    char host[256]; /* as it was told; empty: a Unix socket */
    int port;
} leat__address;

typedef struct leat__lines {
    pthread_mutex_t lock;
    leat__list all;
} leat__lines;

/* In the connection. */
typedef struct leat__line {
    leat__link link;
    leat__lines *of; /* NULL: in none */
    leat__address at;
} leat__line;

/* Does a connection to this address stay?  Runs under the lock: it may neither
 * wait nor use a connection. */
typedef bool leat__keep_fn(const leat__address *at, void *arg);

void leat__lines_init(leat__lines *l);
void leat__lines_release(leat__lines *l);

/* A host that is too long is cut; NULL: none. */
void leat__address_set(leat__address *a, const char *host, int port);

/* "host:port", "[::1]:6379", for people.  Returns buf. */
enum { LEAT__ADDRESS_TEXT = 272 };
char *leat__address_text(const leat__address *a, char *buf, size_t size);
bool leat__address_same(const leat__address *a, const leat__address *b);

/* Enter a connection whose socket is open; leave it before it is closed.
 * Leaving twice, or what was never entered, is fine. */
void leat__line_enter(leat__lines *l, leat_conn *c, const leat__address *at);
void leat__line_leave(leat_conn *c);

/* Shut down every connection that keep does not want; how many. */
size_t leat__lines_cut(leat__lines *l, leat__keep_fn *keep, void *arg);

#endif
