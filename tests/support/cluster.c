/*
 * cluster.c: form, watch and change a private Redis Cluster.
 *
 * Everybody is introduced to everybody, which is quicker than waiting for
 * gossip, and gets its own configuration epoch before, so that none has to be
 * settled by a collision.  The bus listens on a random port as well: the usual
 * one, 10000 higher, may not exist.
 */
#include "support/cluster.h"
#include "base/crc16.h"
#include "support/wait.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    START_TRIES = 5,
    FORM_MS = 60000,
    ID = 64,
    MORE_LINES = 32,
};

struct node {
    redis_server *server;
    int bus;
    char id[ID];
    bool gone; /* removed */
};

struct cluster {
    cluster_opts opts;
    int count;
    struct node nodes[CLUSTER_NODES];
};

static bool complain(const char *what, const char *why)
{
    fprintf(stderr, "cluster: %s: %s\n", what, why);
    return false;
}

/* The answer was OK. */
#define said_ok(server, ...)                                                   \
    (strcmp(redis_text(server, (char[128]){ 0 }, 128, __VA_ARGS__), "OK") == 0)

static bool lives(const cluster *c, int i)
{
    return !c->nodes[i].gone && redis_alive(c->nodes[i].server);
}

/* One node */

static redis_server *start_server(const cluster *c, int bus)
{
    char timeout[64], port[64], auth[128], coverage[64];
    const char *lines[MORE_LINES] = { "cluster-enabled yes",
                                      "cluster-config-file nodes.conf",
                                      "cluster-replica-validity-factor 0",
                                      "cluster-allow-replica-migration no",
                                      "repl-diskless-sync-delay 0",
                                      timeout,
                                      port,
                                      coverage };
    size_t n = 8;
    snprintf(timeout, sizeof timeout, "cluster-node-timeout %lld",
             (long long)c->opts.node_timeout_ms);
    snprintf(port, sizeof port, "cluster-port %d", bus);
    snprintf(coverage, sizeof coverage, "cluster-require-full-coverage %s",
             c->opts.partial ? "no" : "yes");
    if (c->opts.password) {
        snprintf(auth, sizeof auth, "masterauth %s", c->opts.password);
        lines[n++] = auth;
    }
    for (size_t i = 0; c->opts.config && c->opts.config[i]; i++)
        if (n + 1 < MORE_LINES)
            lines[n++] = c->opts.config[i];
    return redis_start(&(redis_opts){ .tcp = true,
                                      .tls = c->opts.tls,
                                      .aof = c->opts.aof,
                                      .password = c->opts.password,
                                      .config = lines });
}

static bool start_node(cluster *c)
{
    struct node *x = &c->nodes[c->count];
    for (int i = 0; i < START_TRIES && !x->server; i++) {
        x->bus = redis_free_port();
        x->server = start_server(c, x->bus);
    }
    if (!x->server)
        return complain("start", "no node");
    c->count++;
    redis_text(x->server, x->id, sizeof x->id, "CLUSTER MYID");
    return said_ok(x->server, "CLUSTER SET-CONFIG-EPOCH %d", c->count);
}

/* By which clients and other nodes know it. */
static int port_of(const cluster *c, int i)
{
    return c->opts.tls ? redis_tls_port(c->nodes[i].server)
                       : redis_port(c->nodes[i].server);
}

static bool meet(cluster *c, int from, int to)
{
    return said_ok(c->nodes[from].server, "CLUSTER MEET 127.0.0.1 %d %d",
                   port_of(c, to), c->nodes[to].bus);
}

/* Looking */

int cluster_count(const cluster *c)
{
    return c->count;
}

redis_server *cluster_node(const cluster *c, int i)
{
    return c->nodes[i].server;
}

unsigned cluster_slot(const char *key)
{
    return leat__crc16_slot(leat_str(key));
}

/* By either of its ports: who asks without TLS is told that without. */
static int by_port(const cluster *c, long long port)
{
    for (int i = 0; i < c->count; i++)
        if (!c->nodes[i].gone &&
            (redis_port(c->nodes[i].server) == port || port_of(c, i) == port))
            return i;
    return -1;
}

/* The owners of all slots in the eyes of node i; false: it does not say. */
static bool owners(cluster *c, int i, int8_t out[LEAT__SLOTS])
{
    memset(out, -1, LEAT__SLOTS);
    redisReply *r = redis_raw(c->nodes[i].server, "CLUSTER SLOTS");
    bool ok = r && r->type == REDIS_REPLY_ARRAY;
    for (size_t k = 0; ok && k < r->elements; k++) {
        redisReply **range = r->element[k]->element;
        int owner = by_port(c, range[2]->element[1]->integer);
        for (long long s = range[0]->integer; s <= range[1]->integer; s++)
            out[s] = (int8_t)owner;
    }
    if (r)
        freeReplyObject(r);
    return ok;
}

int cluster_owner(cluster *c, unsigned slot, int asked)
{
    int8_t map[LEAT__SLOTS];
    for (int i = asked < 0 ? 0 : asked; i < c->count; i++) {
        if (lives(c, i) && owners(c, i, map))
            return map[slot];
        if (asked >= 0)
            break;
    }
    return -1;
}

int cluster_owner_of(cluster *c, const char *key)
{
    return cluster_owner(c, cluster_slot(key), -1);
}

/* The value of "name:" in an INFO text; empty: it has none. */
static char *field(redis_server *s, const char *command, const char *name,
                   char *out, size_t size)
{
    char text[8192], key[64];
    snprintf(key, sizeof key, "\n%s:", name);
    text[0] = '\n';
    redis_text(s, text + 1, sizeof text - 1, command);
    char *p = strstr(text, key);
    snprintf(out, size, "%.*s", p ? (int)strcspn(p + strlen(key), "\r\n") : 0,
             p ? p + strlen(key) : "");
    return out;
}

static bool field_is(redis_server *s, const char *command, const char *name,
                     const char *value)
{
    char got[128];
    return strcmp(field(s, command, name, got, sizeof got), value) == 0;
}

bool cluster_is_master(cluster *c, int i)
{
    return lives(c, i) &&
           field_is(c->nodes[i].server, "INFO replication", "role", "master");
}

/* The number of its master, or -1. */
static int master_of(cluster *c, int i)
{
    char port[32];
    if (!lives(c, i) || cluster_is_master(c, i))
        return -1;
    field(c->nodes[i].server, "INFO replication", "master_port", port,
          sizeof port);
    return by_port(c, atoll(port));
}

int cluster_replica_of(cluster *c, int master)
{
    for (int i = 0; i < c->count; i++)
        if (i != master && master_of(c, i) == master)
            return i;
    return -1;
}

bool cluster_agrees(cluster *c)
{
    int8_t first[LEAT__SLOTS], map[LEAT__SLOTS];
    bool have = false;
    for (int i = 0; i < c->count; i++) {
        if (!lives(c, i))
            continue;
        if (!field_is(c->nodes[i].server, "CLUSTER INFO", "cluster_state",
                      "ok") ||
            !owners(c, i, map))
            return false;
        if (have && memcmp(first, map, sizeof map) != 0)
            return false;
        memcpy(first, map, sizeof map);
        have = true;
    }
    return have && (c->opts.partial || !memchr(first, -1, sizeof first));
}

bool cluster_replicas_online(cluster *c)
{
    for (int i = 0; i < c->count; i++) {
        int master = master_of(c, i);
        if (!lives(c, i) || cluster_is_master(c, i))
            continue;
        if (master < 0 || !lives(c, master) ||
            !field_is(c->nodes[i].server, "INFO replication",
                      "master_link_status", "up"))
            return false;
        char text[8192], mine[32];
        snprintf(mine, sizeof mine, "port=%d,state=online", port_of(c, i));
        redis_text(c->nodes[master].server, text, sizeof text,
                   "INFO replication");
        if (!strstr(text, mine))
            return false;
    }
    return true;
}

static bool wait_true(cluster *c, bool (*look)(cluster *), int64_t ms,
                      const char *what)
{
    int64_t end = wait_now_ms() + ms;
    while (!look(c)) {
        if (wait_now_ms() > end)
            return look(c) || complain(what, "not in time");
        wait_nap(10);
    }
    return true;
}

bool cluster_wait(cluster *c, int64_t ms)
{
    return wait_true(c, cluster_agrees, ms, "agreement");
}

bool cluster_wait_replicas(cluster *c, int64_t ms)
{
    return wait_true(c, cluster_replicas_online, ms, "replicas");
}

/* Forming */

/* Does each know each, and has shaken hands? */
static bool all_known(cluster *c)
{
    for (int i = 0; i < c->count; i++) {
        char text[16384];
        if (!lives(c, i))
            continue;
        redis_text(c->nodes[i].server, text, sizeof text, "CLUSTER NODES");
        if (strstr(text, "handshake"))
            return false;
        for (int k = 0; k < c->count; k++)
            if (!c->nodes[k].gone && !strstr(text, c->nodes[k].id))
                return false;
    }
    return true;
}

static bool give_slots(cluster *c)
{
    int n = c->opts.masters;
    for (int i = 0; i < n; i++)
        if (!said_ok(c->nodes[i].server, "CLUSTER ADDSLOTSRANGE %d %d",
                     i * LEAT__SLOTS / n, (i + 1) * LEAT__SLOTS / n - 1))
            return complain("slots", "refused");
    return true;
}

static bool make_replicas(cluster *c)
{
    for (int i = c->opts.masters; i < c->count; i++)
        if (!said_ok(c->nodes[i].server, "CLUSTER REPLICATE %s",
                     c->nodes[i % c->opts.masters].id))
            return complain("replicate", "refused");
    return true;
}

static bool form(cluster *c)
{
    for (int i = 0; i < c->count; i++)
        for (int k = i + 1; k < c->count; k++)
            if (!meet(c, i, k))
                return complain("meet", "refused");
    return give_slots(c) && wait_true(c, all_known, FORM_MS, "acquaintance") &&
           make_replicas(c) && cluster_wait(c, FORM_MS) &&
           cluster_wait_replicas(c, FORM_MS);
}

cluster *cluster_start(const cluster_opts *opts)
{
    cluster *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    if (opts)
        c->opts = *opts;
    cluster_opts *o = &c->opts;
    if (o->masters == 0)
        o->masters = 3;
    o->replicas = o->replicas < 0 ? 0 : o->replicas ? o->replicas : 1;
    if (o->node_timeout_ms == 0)
        o->node_timeout_ms = 15000;
    int all = o->masters * (1 + o->replicas);
    bool ok = all <= CLUSTER_NODES;
    while (ok && c->count < all)
        ok = start_node(c);
    if (ok && form(c))
        return c;
    cluster_stop(c);
    return NULL;
}

void cluster_stop(cluster *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->count; i++)
        redis_stop(c->nodes[i].server);
    free(c);
}

static size_t add_address(const cluster *c, int i, char *buf, size_t size)
{
    int n = snprintf(buf, size, "127.0.0.1:%d", port_of(c, i));
    return (size_t)n < size ? (size_t)n : size - 1;
}

static size_t add_head(const cluster *c, char *buf, size_t size)
{
    const char *p = c->opts.password;
    int n = snprintf(buf, size, "redis%s+cluster://%s%s%s",
                     c->opts.tls ? "s" : "", p ? ":" : "", p ? p : "",
                     p ? "@" : "");
    return (size_t)n < size ? (size_t)n : size - 1;
}

char *cluster_url(const cluster *c, char *buf, size_t size)
{
    size_t at = add_head(c, buf, size);
    bool first = true;
    for (int i = 0; i < c->count; i++) {
        if (c->nodes[i].gone)
            continue;
        if (!first && at + 1 < size)
            buf[at++] = ',';
        at += add_address(c, i, buf + at, size - at);
        first = false;
    }
    return buf;
}

char *cluster_url_of(const cluster *c, int i, char *buf, size_t size)
{
    size_t at = add_head(c, buf, size);
    add_address(c, i, buf + at, size - at);
    return buf;
}

/* Changing */

bool cluster_failover(cluster *c, int replica, int64_t ms)
{
    int64_t end = wait_now_ms() + ms;
    /* The replica may not have heard its master yet: ask until it is one. */
    for (int64_t asked = 0; !cluster_is_master(c, replica); wait_nap(10)) {
        if (wait_now_ms() > end)
            return complain("failover", "not in time");
        if (wait_now_ms() - asked < 2000)
            continue;
        asked = wait_now_ms();
        (void)said_ok(c->nodes[replica].server, "CLUSTER FAILOVER");
    }
    return cluster_wait(c, end - wait_now_ms());
}

/* All know the newest epoch. */
static bool one_epoch(cluster *c)
{
    char first[32] = "", here[32];
    for (int i = 0; i < c->count; i++) {
        if (!lives(c, i))
            continue;
        field(c->nodes[i].server, "CLUSTER INFO", "cluster_current_epoch", here,
              sizeof here);
        if (first[0] && strcmp(first, here) != 0)
            return false;
        memcpy(first, here, sizeof first);
    }
    return true;
}

/* The new owner takes the next epoch that it knows of: one that has not heard
 * of the move before would take the same, and its slot might be lost again. */
bool cluster_move_begin(cluster *c, unsigned slot, int from, int to)
{
    if (!wait_true(c, one_epoch, FORM_MS, "one epoch"))
        return false;
    return (said_ok(c->nodes[to].server, "CLUSTER SETSLOT %u IMPORTING %s",
                    slot, c->nodes[from].id) &&
            said_ok(c->nodes[from].server, "CLUSTER SETSLOT %u MIGRATING %s",
                    slot, c->nodes[to].id)) ||
           complain("move", "refused");
}

static bool move_bytes(cluster *c, const void *key, size_t n, int from, int to)
{
    int port = port_of(c, to);
    const char *p = c->opts.password;
    redisReply *r = p ? redis_raw(c->nodes[from].server,
                                  "MIGRATE 127.0.0.1 %d %b 0 10000 AUTH %s",
                                  port, key, n, p)
                      : redis_raw(c->nodes[from].server,
                                  "MIGRATE 127.0.0.1 %d %b 0 10000", port, key,
                                  n);
    bool ok = r && r->type == REDIS_REPLY_STATUS;
    if (!ok)
        complain("migrate", r && r->str ? r->str : "no answer");
    if (r)
        freeReplyObject(r);
    return ok;
}

bool cluster_move_key(cluster *c, const char *key, int from, int to)
{
    return move_bytes(c, key, strlen(key), from, to);
}

int cluster_move_keys(cluster *c, unsigned slot, int from, int to, int most)
{
    redisReply *r = redis_raw(c->nodes[from].server,
                              "CLUSTER GETKEYSINSLOT %u %d", slot, most);
    int n = r && r->type == REDIS_REPLY_ARRAY ? (int)r->elements : -1;
    for (int i = 0; i < n; i++)
        if (!move_bytes(c, r->element[i]->str, r->element[i]->len, from, to))
            n = -1;
    if (r)
        freeReplyObject(r);
    return n;
}

/* The target first: a slot that nobody claims would be nobody's.  The others
 * hear of it by gossip too; they are told so that it is quick. */
bool cluster_move_end(cluster *c, unsigned slot, int from, int to)
{
    const char *id = c->nodes[to].id;
    bool ok = said_ok(c->nodes[to].server, "CLUSTER SETSLOT %u NODE %s", slot,
                      id) &&
              said_ok(c->nodes[from].server, "CLUSTER SETSLOT %u NODE %s", slot,
                      id);
    for (int i = 0; ok && i < c->count; i++)
        if (i != to && i != from && cluster_is_master(c, i))
            (void)said_ok(c->nodes[i].server, "CLUSTER SETSLOT %u NODE %s",
                          slot, id);
    return ok || complain("move", "the end was refused");
}

bool cluster_move(cluster *c, unsigned slot, int to)
{
    int from = cluster_owner(c, slot, -1), n;
    if (from == to)
        return true;
    if (from < 0 || !cluster_move_begin(c, slot, from, to))
        return false;
    while ((n = cluster_move_keys(c, slot, from, to, 100)) > 0)
        ;
    return n == 0 && cluster_move_end(c, slot, from, to);
}

int cluster_add(cluster *c)
{
    if (c->count == CLUSTER_NODES || !start_node(c))
        return -1;
    int mine = c->count - 1;
    for (int i = 0; i < mine; i++)
        if (lives(c, i) && !meet(c, i, mine))
            return -1;
    return wait_true(c, all_known, FORM_MS, "acquaintance") &&
                   cluster_wait(c, FORM_MS)
               ? mine
               : -1;
}

/* All others at once: one that still knew it would tell the rest again. */
bool cluster_remove(cluster *c, int i)
{
    bool ok = true;
    for (int k = 0; k < c->count; k++)
        if (k != i && lives(c, k))
            ok = said_ok(c->nodes[k].server, "CLUSTER FORGET %s",
                         c->nodes[i].id) &&
                 ok;
    c->nodes[i].gone = true;
    redis_kill(c->nodes[i].server);
    return ok;
}
