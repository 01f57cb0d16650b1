/*
 * tls.h: TLS under a connection, another implementation of transport.h.
 *
 * A leat__tls is made once for each client from its options: what it trusts,
 * who it is, and the last session with each server, so that a reconnect need
 * not prove everything anew.  See tls.c for the trust and tls_io.c for the
 * bytes.
 * Threads: leat__tls is shared, a transport is confined.
 */
#ifndef LEAT_REDIS_TLS_H
#define LEAT_REDIS_TLS_H

#include "redis/transport.h"
#include <leat/redis.h>

typedef struct leat__tls leat__tls;

/* Read the files the options name.  LEAT_ENOTSUP: built without TLS. */
leat__tls *leat__tls_new(const leat_tls_opts *opts, leat_error *err);

/* After the last of its transports.  NULL is accepted. */
void leat__tls_free(leat__tls *tls);

/* Connect, shake hands and verify, all before deadline_ns.  LEAT_EAUTH: one
 * side does not believe the other, and trying again is no use. */
leat__transport *leat__transport_tls(leat__tls *tls, const char *host, int port,
                                     int64_t deadline_ns, leat_error *err);

#endif
