/*
 * slots.c: reading the map of a cluster.
 *
 *   SLOTS   [[first, last, master, replica...]...], node = [host, port, id...]
 *   SHARDS  [{slots: [first, last, ...], nodes: [{role, endpoint, ip, port,
 *            tls-port, health...}...]}...], maps as flat arrays in RESP2
 *
 * A host is NULL or empty where a node does not know its own address, and "?"
 * where it is to announce a name and has none: then the address it was asked
 * at, and its IP, are taken.
 */
#include "redis/slots.h"
#include "base/mem.h"
#include "redis/server_error.h"

#include <string.h>

void leat__slots_init(leat__slots *m)
{
    m->nodes = NULL;
    m->count = m->cap = 0;
    memset(m->owner, 0xff, sizeof m->owner);
}

void leat__slots_release(leat__slots *m)
{
    leat__free(m->nodes);
    leat__slots_init(m);
}

static bool set(leat__address *a, leat_bytes host, int64_t port)
{
    if (host.n == 0 || host.n >= sizeof a->host || port < 1 || port > 65535 ||
        memchr(host.p, 0, host.n))
        return false;
    memcpy(a->host, host.p, host.n);
    a->host[host.n] = '\0';
    a->port = (int)port;
    return true;
}

static leat_code bad(leat_error *err, const char *what)
{
    return leat__fail(err, LEAT_EPROTO, "the cluster's map has %s", what);
}

int leat__slots_find(const leat__slots *m, const leat__address *at)
{
    for (size_t i = 0; i < m->count; i++)
        if (leat__address_same(&m->nodes[i].at, at))
            return (int)i;
    return -1;
}

static leat_code grow(leat__slots *m, leat_error *err)
{
    if (m->count >= LEAT__SLOTS_NODES)
        return bad(err, "too many nodes");
    size_t cap = m->cap ? m->cap * 2 : 16;
    void *p = leat__realloc(m->nodes, cap * sizeof *m->nodes, err);
    if (!p)
        return LEAT_ENOMEM;
    m->nodes = p;
    m->cap = cap;
    return LEAT_OK;
}

/* The index of the node at this address, which is added where it is new. */
static leat_code add(leat__slots *m, const leat__slots_node *node, int *index,
                     leat_error *err)
{
    *index = leat__slots_find(m, &node->at);
    if (*index >= 0) {
        /* A master of one range may be named again with the next. */
        if (node->master) {
            m->nodes[*index].master = true;
            m->nodes[*index].primary = -1;
        }
        return LEAT_OK;
    }
    if (m->count == m->cap) {
        leat_code rc = grow(m, err);
        if (rc != LEAT_OK)
            return rc;
    }
    *index = (int)m->count;
    m->nodes[m->count++] = *node;
    return LEAT_OK;
}

static void give_slot(leat__slots *m, unsigned slot, int node)
{
    uint16_t old = m->owner[slot];
    if (old != LEAT__SLOTS_NONE)
        m->nodes[old].slots--;
    m->owner[slot] = (uint16_t)node;
    m->nodes[node].slots++;
}

static leat_code give_range(leat__slots *m, int64_t first, int64_t last,
                            int node, leat_error *err)
{
    if (first < 0 || last < first || last >= LEAT__SLOTS)
        return bad(err, "a range of slots that makes no sense");
    for (int64_t s = first; s <= last; s++) {
        if (m->owner[s] != LEAT__SLOTS_NONE)
            return bad(err, "two masters for a slot");
        give_slot(m, (unsigned)s, node);
    }
    return LEAT_OK;
}

leat_code leat__slots_move(leat__slots *m, unsigned slot,
                           const leat__address *to, leat_error *err)
{
    int index;
    leat__slots_node node = { .at = *to, .master = true, .primary = -1 };
    leat_code rc = add(m, &node, &index, err);
    if (rc == LEAT_OK)
        give_slot(m, slot, index);
    return rc;
}

const leat__slots_node *leat__slots_owner(const leat__slots *m, unsigned slot)
{
    uint16_t i = slot < LEAT__SLOTS ? m->owner[slot] : LEAT__SLOTS_NONE;
    return i == LEAT__SLOTS_NONE ? NULL : &m->nodes[i];
}

static bool is_list(const leat_reply *r)
{
    leat_reply_type t = leat_reply_kind(r);
    return t == LEAT_REPLY_ARRAY || t == LEAT_REPLY_MAP;
}

/* The value of a name in a map, or in an array that alternates. */
static const leat_reply *field(const leat_reply *map, const char *name)
{
    leat_reply_iter it = leat_reply_each(is_list(map) ? map : NULL);
    for (const leat_reply *at; (at = leat_reply_step(&it));) {
        const leat_reply *value = leat_reply_step(&it);
        if (leat_bytes_eq(leat_reply_bytes(at), leat_str(name)))
            return value;
    }
    return NULL;
}

static bool is_text(const leat_reply *r)
{
    leat_reply_type t = leat_reply_kind(r);
    return t == LEAT_REPLY_STRING || t == LEAT_REPLY_STATUS;
}

/* The host, or the one that was asked where none is told. */
static leat_bytes host_of(const leat_reply *r, const leat_reply *ip,
                          const leat__address *asked)
{
    leat_bytes host = is_text(r) ? leat_reply_bytes(r) : leat_mem("", 0);
    if (leat_bytes_eq(host, leat_str("?")))
        host = is_text(ip) ? leat_reply_bytes(ip) : leat_mem("", 0);
    return host.n ? host : leat_str(asked->host);
}

/* One node of SLOTS: host, port, id, and since 7.0 a map with its ip. */
static leat_code slots_node(leat__slots *m, const leat_reply *r,
                            const leat__address *asked, int primary, int *index,
                            leat_error *err)
{
    leat__slots_node node = { .master = primary < 0, .primary = primary };
    if (!is_list(r) || leat_reply_len(r) < 2)
        return bad(err, "a node that is none");
    const leat_reply *host = leat_reply_at(r, 0);
    const leat_reply *port = leat_reply_at(r, 1);
    const leat_reply *ip = field(leat_reply_at(r, 3), "ip");
    if (!set(&node.at, host_of(host, ip, asked), leat_reply_int(port)))
        return bad(err, "an address that is none");
    return add(m, &node, index, err);
}

static leat_code slots_range(leat__slots *m, const leat_reply *r,
                             const leat__address *asked, leat_error *err)
{
    size_t n = is_list(r) ? leat_reply_len(r) : 0;
    if (n < 3)
        return bad(err, "a range without a master");
    leat_reply_iter it = leat_reply_each(r);
    const leat_reply *first = leat_reply_step(&it);
    const leat_reply *last = leat_reply_step(&it);
    int master = -1, replica = -1;
    leat_code rc = slots_node(m, leat_reply_step(&it), asked, -1, &master, err);
    if (rc == LEAT_OK)
        rc = give_range(m, leat_reply_int(first), leat_reply_int(last), master,
                        err);
    for (const leat_reply *at; rc == LEAT_OK && (at = leat_reply_step(&it));)
        rc = slots_node(m, at, asked, master, &replica, err);
    return rc;
}

leat_code leat__slots_read(leat__slots *m, const leat_reply *slots,
                           const leat__address *asked, leat_error *err)
{
    leat_code rc = is_list(slots) ? LEAT_OK : bad(err, "the wrong form");
    leat_reply_iter it = leat_reply_each(slots);
    for (const leat_reply *r; rc == LEAT_OK && (r = leat_reply_step(&it));)
        rc = slots_range(m, r, asked, err);
    if (rc != LEAT_OK)
        leat__slots_release(m);
    return rc;
}

static bool says(const leat_reply *r, const char *word)
{
    return is_text(r) && leat_bytes_eq(leat_reply_bytes(r), leat_str(word));
}

static bool shard_node(leat__slots_node *node, const leat_reply *r,
                       const leat__address *asked, bool tls)
{
    *node = (leat__slots_node){ .primary = -1 };
    const leat_reply *port = field(r, "port");
    const leat_reply *tls_port = field(r, "tls-port");
    if ((tls && tls_port) || !port)
        port = tls_port;
    node->master = says(field(r, "role"), "master");
    node->failing = !says(field(r, "health"), "online");
    return set(&node->at, host_of(field(r, "endpoint"), field(r, "ip"), asked),
               leat_reply_int(port));
}

/* A master that died may still be named beside its heir: the sound one. */
static leat_code shard_master(leat__slots *m, const leat_reply *nodes,
                              const leat__address *asked, bool tls, int *master,
                              leat_error *err)
{
    leat__slots_node best = { 0 }, node;
    leat_reply_iter it = leat_reply_each(nodes);
    for (const leat_reply *r; (r = leat_reply_step(&it));) {
        if (!shard_node(&node, r, asked, tls))
            return bad(err, "an address that is none");
        if (node.master && (!best.master || (best.failing && !node.failing)))
            best = node;
    }
    *master = -1;
    return best.master ? add(m, &best, master, err) : LEAT_OK;
}

static leat_code shard_others(leat__slots *m, const leat_reply *nodes,
                              const leat__address *asked, bool tls, int master,
                              leat_error *err)
{
    leat_code rc = LEAT_OK;
    leat_reply_iter it = leat_reply_each(nodes);
    for (const leat_reply *r; rc == LEAT_OK && (r = leat_reply_step(&it));) {
        leat__slots_node node;
        int index;
        if (!shard_node(&node, r, asked, tls))
            return bad(err, "an address that is none");
        node.master = false;
        node.primary = master;
        rc = add(m, &node, &index, err);
    }
    return rc;
}

static leat_code shard(leat__slots *m, const leat_reply *r,
                       const leat__address *asked, bool tls, leat_error *err)
{
    const leat_reply *slots = field(r, "slots"), *nodes = field(r, "nodes");
    if (!is_list(slots) || !is_list(nodes) || leat_reply_len(slots) % 2)
        return bad(err, "a shard that is none");
    int master = -1;
    leat_code rc = shard_master(m, nodes, asked, tls, &master, err);
    leat_reply_iter it = leat_reply_each(slots);
    while (rc == LEAT_OK && master >= 0 && it.left > 0) {
        int64_t first = leat_reply_int(leat_reply_step(&it));
        int64_t last = leat_reply_int(leat_reply_step(&it));
        rc = give_range(m, first, last, master, err);
    }
    if (rc == LEAT_OK)
        rc = shard_others(m, nodes, asked, tls, master, err);
    return rc;
}

leat_code leat__slots_read_shards(leat__slots *m, const leat_reply *shards,
                                  const leat__address *asked, bool tls,
                                  leat_error *err)
{
    leat_code rc = is_list(shards) ? LEAT_OK : bad(err, "the wrong form");
    leat_reply_iter it = leat_reply_each(shards);
    for (const leat_reply *r; rc == LEAT_OK && (r = leat_reply_step(&it));)
        rc = shard(m, r, asked, tls, err);
    if (rc != LEAT_OK)
        leat__slots_release(m);
    return rc;
}

/* Decimal digits up to `end`; -1: something else, or too many. */
static int64_t digits(const char *p, const char *end)
{
    int64_t v = 0;
    if (p == end || end - p > 6)
        return -1;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9')
            return -1;
        v = v * 10 + (*p - '0');
    }
    return v;
}

bool leat__redirect_read(leat__redirect *out, leat_bytes text,
                         const leat__address *asked)
{
    out->ask = leat__server_error_is(text, "ASK");
    if (!out->ask && !leat__server_error_is(text, "MOVED"))
        return false;
    const char *p = (const char *)text.p + (out->ask ? 3 : 5);
    const char *end = (const char *)text.p + text.n;
    if (p == end)
        return false;
    p++;
    const char *gap = memchr(p, ' ', (size_t)(end - p));
    const char *colon = gap ? memrchr(gap, ':', (size_t)(end - gap)) : NULL;
    int64_t slot = gap ? digits(p, gap) : -1;
    if (slot < 0 || slot >= LEAT__SLOTS || !colon)
        return false;
    out->slot = (unsigned)slot;
    leat_bytes host = leat_mem(gap + 1, (size_t)(colon - gap - 1));
    if (host.n == 0 || leat_bytes_eq(host, leat_str("?")))
        host = leat_str(asked->host);
    return set(&out->to, host, digits(colon + 1, end));
}
