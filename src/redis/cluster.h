/*
 * cluster.h: what a client knows of its cluster.
 *
 * One map of the slots for all connections of a client.  It is read when the
 * client opens and again whenever something speaks against it: a redirect, a
 * connection that fails, a cluster that is down.  Reading happens in a thread
 * of its own, one at a time and at a bounded rate; any node that is known may
 * be asked, for a dead one must not keep the map from being read.
 *
 * Threads: shared.
 */
#ifndef LEAT_REDIS_CLUSTER_H
#define LEAT_REDIS_CLUSTER_H

#include "redis/client.h"
#include "redis/slots.h"

typedef struct leat__cluster leat__cluster;

/* Read the map for the first time, from any of the URL's hosts. */
leat__cluster *leat__cluster_open(leat_client *c, int64_t deadline_ns,
                                  leat_error *err);
void leat__cluster_free(leat__cluster *k); /* NULL is accepted */

/* Grows with every change of the map. */
unsigned leat__cluster_version(leat__cluster *k);

/* The master of a slot.  LEAT_EBUSY: nobody serves it now. */
leat_code leat__cluster_owner(leat__cluster *k, unsigned slot,
                              leat__address *out, leat_error *err);

/* Fill up to room addresses of masters that serve slots; how many there are. */
size_t leat__cluster_masters(leat__cluster *k, leat__address *out, size_t room);
bool leat__cluster_is_master(leat__cluster *k, const leat__address *at);

/* All nodes, as leat_client_nodes gives them. */
void leat__cluster_nodes(leat__cluster *k, leat_node *out, size_t room,
                         size_t *n);

/* Something speaks against the map: read it again, soon. */
void leat__cluster_doubt(leat__cluster *k);

/* A node said who has a slot. */
void leat__cluster_moved(leat__cluster *k, const leat__redirect *to);

/* A plain connection was refused with this text; `key` is the hash of the key
 * it was made for, 0: none. */
void leat__cluster_refused(leat__cluster *k, const leat__address *by,
                           uint64_t key, leat_bytes text);

/* A connection to the master of this key, or where ASK has just pointed; to
 * any master; to this one.  All are made for keys: a replica is refused. */
leat_conn *leat__cluster_dial_key(leat__cluster *k, leat_bytes key,
                                  int64_t deadline_ns, leat_error *err);
leat_conn *leat__cluster_dial_any(leat__cluster *k, int64_t deadline_ns,
                                  leat_error *err);
leat_conn *leat__cluster_dial_at(leat__cluster *k, const leat__address *at,
                                 int64_t deadline_ns, leat_error *err);

#endif
