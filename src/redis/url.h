/*
 * url.h: where a Redis is, and how to speak to it, from one line of text.
 *
 *   redis://user:password@host:port/db        rediss://... with TLS
 *   unix:///path/to/socket?db=N               also redis+unix, redis+socket
 *   redis+sentinel://h1,h2:26379/service/db   rediss+sentinel://...
 *   redis+cluster://h1,h2:6379                rediss+cluster://...
 *   embedded:  or  embedded:///directory      a private server of ours
 *
 * Query parameters: db, user, password, client_name, timeout, connect_timeout
 * (500ms, 5s, or plain milliseconds), protocol (2 or 3), pool_size, durability
 * (executed, logged, synced, replicated, outbox or 0 to 4), replicas,
 * allow_eviction, with TLS cafile, cadir, cert, key, insecure, and for the
 * sentinels' own login sentinel_user, sentinel_password.  Any other is refused:
 * a misspelt option that is silently ignored is found too late.
 *
 * No error message quotes any part of the text but the name of a parameter,
 * for a URL that is damaged may carry its password anywhere.
 */
#ifndef LEAT_REDIS_URL_H
#define LEAT_REDIS_URL_H

#include "base/buf.h"
#include "base/error.h"
#include <leat/redis.h>

#define LEAT__URL_MAX   4096  /* bytes of text             */
#define LEAT__URL_HOSTS 64    /* of a cluster or sentinels */
#define LEAT__URL_DB    16383 /* the highest database      */

typedef enum leat__url_kind {
    LEAT__URL_TCP = 0,
    LEAT__URL_UNIX,
    LEAT__URL_SENTINEL,
    LEAT__URL_CLUSTER,
    LEAT__URL_EMBEDDED
} leat__url_kind;

typedef struct leat__url_host {
    char *name; /* without the brackets of an IPv6 address */
    int port;
} leat__url_host;

/* Strings are NULL and numbers 0 where the text says nothing, except that db
 * is then 0 and has_db false. */
typedef struct leat__url {
    leat__url_kind kind;
    bool tls;
    leat__url_host *hosts; /* TCP has one; UNIX and EMBEDDED none   */
    size_t host_count;
    char *path;    /* UNIX: the socket; EMBEDDED: directory or NULL */
    char *service; /* SENTINEL                                      */
    int db;
    bool has_db;
    char *user;
    char *password; /* wiped on release */
    char *client_name;
    int64_t connect_timeout_ms;
    int64_t timeout_ms;
    int protocol; /* 2 or 3 */
    int pool_size;
    leat_durability durability;
    int replicas;
    bool allow_eviction;
    char *cafile, *cadir, *cert, *key;
    bool insecure;
    char *sentinel_user;
    char *sentinel_password; /* wiped on release */
} leat__url;

/* Fill *u, whose old contents are not looked at.  On failure it is empty and
 * needs no release. */
leat_code leat__url_parse(leat__url *u, leat_bytes text, leat_error *err);

/* Append the normal form, in which every password reads "***". */
leat_code leat__url_print(const leat__url *u, leat__buf *out, leat_error *err);

/* May the value of this parameter be shown?  Of one that is known and no
 * secret, whatever its value is. */
bool leat__url_may_show(leat_bytes name);

/* Free the contents, wiping the passwords; an empty or zeroed one is fine. */
void leat__url_release(leat__url *u);

#endif
