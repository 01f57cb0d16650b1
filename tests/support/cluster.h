/*
 * cluster.h: a real Redis Cluster of one's own, for tests.
 *
 * Nodes 0 .. masters-1 begin as masters with equal shares of the slots; then
 * come the replicas, node i of master i % masters.  Each is a redis_server on a
 * random port of 127.0.0.1, cleaned up as such; kill, pause and restart them
 * with its functions.  The cluster is formed by the rig itself.
 *
 * node_timeout_ms decides when a dead master is replaced.  A small one on a
 * loaded machine replaces living ones: leave the default where nobody dies.
 *
 * Functions that return bool say why on stderr when it is false.
 * Threads: a cluster is confined.
 */
#ifndef SUPPORT_CLUSTER_H
#define SUPPORT_CLUSTER_H

#include "support/redis.h"

typedef struct cluster cluster;

enum { CLUSTER_NODES = 16 };

typedef struct cluster_opts {
    int masters;             /* 0: 3                                   */
    int replicas;            /* of each master; -1: none, 0: 1         */
    int64_t node_timeout_ms; /* 0: 15 s                                */
    bool partial;            /* go on while some slots have no master  */
    redis_aof aof;
    const char *password;
    const char *tls; /* directory of certificates, see certs.h         */
    const char *const *config; /* more lines for each, NULL-terminated   */
} cluster_opts;

/* Start, form, and wait until all agree and the replicas are online.  NULL
 * after saying why on stderr. */
cluster *cluster_start(const cluster_opts *opts);
void cluster_stop(cluster *c); /* NULL is fine */

int cluster_count(const cluster *c);
redis_server *cluster_node(const cluster *c, int i);

/* "redis+cluster://127.0.0.1:p0,127.0.0.1:p1,..." of all nodes, or of one; with
 * tls "rediss+cluster://" and the ports for it, without parameters. */
char *cluster_url(const cluster *c, char *buf, size_t size);
char *cluster_url_of(const cluster *c, int i, char *buf, size_t size);

unsigned cluster_slot(const char *key);

/* The node that has the slot, by the word of node `asked` (-1: any that
 * lives); -1: none. */
int cluster_owner(cluster *c, unsigned slot, int asked);
int cluster_owner_of(cluster *c, const char *key);

/* Is it a master by its own word?  A replica of master i, or -1. */
bool cluster_is_master(cluster *c, int i);
int cluster_replica_of(cluster *c, int master);

/* All living nodes are well and name the same owners.  The second waits. */
bool cluster_agrees(cluster *c);
bool cluster_wait(cluster *c, int64_t ms);

/* Every living master has its living replicas online. */
bool cluster_replicas_online(cluster *c);
bool cluster_wait_replicas(cluster *c, int64_t ms);

/* CLUSTER FAILOVER to a replica; waits until it is the master for all. */
bool cluster_failover(cluster *c, int replica, int64_t ms);

/* Move a slot, in steps: begin, keys, end.  Between them clients are asked to
 * look at the other node for keys that have moved.  `keys` moves at most so
 * many and returns how many it moved, -1: failed. */
bool cluster_move_begin(cluster *c, unsigned slot, int from, int to);
int cluster_move_keys(cluster *c, unsigned slot, int from, int to, int most);
bool cluster_move_key(cluster *c, const char *key, int from, int to);
bool cluster_move_end(cluster *c, unsigned slot, int from, int to);

/* All three. */
bool cluster_move(cluster *c, unsigned slot, int to);

/* A new master without slots; its number, or -1.  Remove: all others forget
 * it, and it ends; its slots must have moved before. */
int cluster_add(cluster *c);
bool cluster_remove(cluster *c, int i);

#endif
