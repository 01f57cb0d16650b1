/*
 * lookup.h: the addresses of a host, before a deadline.
 */
#ifndef LEAT_REDIS_LOOKUP_H
#define LEAT_REDIS_LOOKUP_H

#include "base/error.h"
#include <netdb.h>

/* Names being looked up at once in this process, among them those that nobody
 * waits for any more.  One beyond waits for its turn. */
#define LEAT__LOOKUPS_MAX 32

/* Bytes of a host's name; a DNS name has at most 253. */
#define LEAT__HOST_MAX 255

/* The addresses of host for a stream socket to port, for freeaddrinfo.
 * LEAT_ECONN: there are none, or the name is over LEAT__HOST_MAX;
 * LEAT_ETIMEOUT: the deadline passed. */
leat_code leat__lookup(const char *host, int port, int64_t deadline_ns,
                       struct addrinfo **out, leat_error *err);

#endif
