/*
 * cluster.c: the map of a cluster, and connections by key.
 *
 *   doubt ---> a thread waits for its turn, asks nodes until one answers
 *              with a map that has slots, replaces the map, ends
 *   MOVED ---> the one slot is changed at once, then doubt
 *   ASK   ---> remembered for that very key, for a moment
 *
 * ASK is believed by key and shortly: while a slot moves, its keys are here or
 * there one by one, and a command that went to the new node for a key that is
 * still at the old one would make the key a second time.
 *
 * The map may be old at any time, and the node that was asked may have an older
 * one than the others.  That costs a redirect and nothing else: no node serves
 * a slot that it believes to be another's.
 */
#include "redis/cluster.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "base/system.h"
#include "redis/dialer.h"
#include "redis/server_error.h"

#include <stdio.h>

enum {
    ASKS = 64,         /* keys remembered at a time                   */
    ASK_MS = 100,      /* that an ASK is believed                     */
    PAUSE_MS = 100,    /* between two readings of the map             */
    PAUSE_MOST = 2000, /* when they fail                              */
    SHARE_MS = 1000    /* at least, for one of several nodes          */
};

struct ask {
    uint64_t key;
    int64_t until_ns;
    leat__address to;
};

struct leat__cluster {
    leat_client *client;
    leat__sipkey seed; /* of the hashes of keys */
    pthread_mutex_t lock;
    leat__slots map;
    atomic_uint version;
    bool doubted, reading;
    int64_t next_ns; /* not before */
    int64_t pause_ms;
    unsigned turn; /* who is asked first */
    struct ask asks[ASKS];
    unsigned next_ask;
};

unsigned leat__cluster_version(leat__cluster *k)
{
    return atomic_load_explicit(&k->version, memory_order_acquire);
}

static void changed_locked(leat__cluster *k)
{
    atomic_fetch_add_explicit(&k->version, 1, memory_order_release);
}

/* ---- reading the map -------------------------------------------------- */

static leat_code no_slots(const leat__address *at, leat_error *err)
{
    char text[LEAT__ADDRESS_TEXT];
    return leat__fail(err, LEAT_EBUSY,
                      "%.100s belongs to a cluster in which nobody has a slot",
                      leat__address_text(at, text, sizeof text));
}

static bool has_slots(const leat__slots *m)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->nodes[i].slots > 0)
            return true;
    return false;
}

/* SHARDS where the server knows it.  What it refuses, or tells in a form that
 * is not understood, SLOTS may tell. */
static leat_code read_from(leat__cluster *k, leat_conn *conn,
                           const leat__address *at, leat__slots *m,
                           leat_error *err)
{
    const leat_reply *r;
    leat_bytes word = leat_str("CLUSTER");
    if (!k->client->opts.as_redis_6_0 &&
        leat_conn_call(conn, LEAT_ARGS(word, leat_str("SHARDS")), NULL, &r,
                       err) == LEAT_OK &&
        leat__slots_read_shards(m, r, at, k->client->url.tls, err) == LEAT_OK &&
        has_slots(m))
        return LEAT_OK;
    leat__slots_release(m);
    leat_code rc = leat_conn_call(conn, LEAT_ARGS(word, leat_str("SLOTS")),
                                  NULL, &r, err);
    if (rc == LEAT_OK)
        rc = leat__slots_read(m, r, at, err);
    if (rc == LEAT_OK && !has_slots(m)) {
        leat__slots_release(m);
        rc = no_slots(at, err);
    }
    return rc;
}

/* A connection for this question alone: whoever answers it need not be fit for
 * messages.  A replica will do. */
static leat_conn *greet(leat__cluster *k, const leat__address *at,
                        int64_t deadline_ns, leat_error *err)
{
    leat_client *c = k->client;
    leat__url_host host = { (char *)at->host, at->port };
    leat__conn_opts o = { .timeout_ms = leat__left_ms(deadline_ns) };
    leat__transport *t = leat__client_transport(c, &host, deadline_ns, err);
    leat_conn *conn = t ? leat__conn_new(t, &o, err) : NULL;
    if (t && !conn)
        t->ops->close(t);
    if (!conn)
        return NULL;
    int64_t left = leat__left_ms(deadline_ns);
    conn->timeout_ms = left > 0 ? left : 1;
    if (leat__handshake(conn, &c->login, err) == LEAT_OK)
        return conn;
    leat__conn_free(conn);
    return NULL;
}

/* What an answer would have said is unknown; asking has changed nothing. */
static leat_code ask_node(leat__cluster *k, const leat__address *at,
                          int64_t deadline_ns, leat__slots *m, leat_error *err)
{
    leat_conn *conn = greet(k, at, deadline_ns, err);
    if (conn && read_from(k, conn, at, m, err) == LEAT_OK) {
        leat__conn_free(conn);
        return LEAT_OK;
    }
    leat__conn_free(conn);
    if (err->code == LEAT_EUNKNOWN)
        err->code = LEAT_ECONN;
    return err->code;
}

static bool same_map(const leat__slots *a, const leat__slots *b)
{
    if (a->count != b->count ||
        memcmp(a->owner, b->owner, sizeof a->owner) != 0)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->nodes[i].master != b->nodes[i].master ||
            !leat__address_same(&a->nodes[i].at, &b->nodes[i].at))
            return false;
    return true;
}

/* The new map takes the place of the old, which is left in *m. */
static void install(leat__cluster *k, leat__slots *m)
{
    pthread_mutex_lock(&k->lock);
    if (!same_map(&k->map, m))
        changed_locked(k);
    leat__slots old = k->map;
    k->map = *m;
    *m = old;
    pthread_mutex_unlock(&k->lock);
}

/* Everybody who may be asked: the nodes of the map, then the URL's hosts, each
 * time from another one on. */
static leat__address *candidates(leat__cluster *k, size_t *n, leat_error *err)
{
    const leat__url *u = &k->client->url;
    pthread_mutex_lock(&k->lock);
    size_t known = k->map.count, first = known ? k->turn++ % known : 0;
    leat__address *out = leat__calloc(known + u->host_count, sizeof *out, err);
    for (size_t i = 0; out && i < known; i++)
        out[i] = k->map.nodes[(first + i) % known].at;
    pthread_mutex_unlock(&k->lock);
    if (!out)
        return NULL;
    *n = known;
    for (size_t i = 0; i < u->host_count; i++) {
        leat__address a;
        bool seen = false;
        leat__address_set(&a, u->hosts[i].name, u->hosts[i].port);
        for (size_t j = 0; j < *n && !seen; j++)
            seen = leat__address_same(&out[j], &a);
        if (!seen)
            out[(*n)++] = a;
    }
    return out;
}

/* A node that hangs costs its share of the time, not all of it. */
static int64_t share(int64_t deadline_ns, size_t others)
{
    int64_t left = leat__left_ms(deadline_ns);
    int64_t mine = left / (int64_t)(others ? others : 1);
    if (mine < SHARE_MS)
        mine = SHARE_MS < left ? SHARE_MS : left;
    return leat__deadline_ns(mine);
}

static leat_code read_map(leat__cluster *k, int64_t deadline_ns,
                          leat_error *err)
{
    size_t n;
    leat__slots m;
    leat__address *at = candidates(k, &n, err);
    if (!at)
        return LEAT_ENOMEM;
    leat__slots_init(&m);
    leat_code rc = LEAT_ETIMEOUT;
    leat__fail(err, rc, "no node of the cluster was asked in time");
    for (size_t i = 0; i < n && rc != LEAT_OK; i++) {
        if (i > 0 && leat__left_ms(deadline_ns) == 0)
            break;
        rc = ask_node(k, &at[i], share(deadline_ns, n - i), &m, err);
    }
    if (rc == LEAT_OK)
        install(k, &m);
    leat__slots_release(&m);
    leat__free(at);
    return rc;
}

/* ---- when to read it -------------------------------------------------- */

static bool turn_came(leat__cluster *k)
{
    pthread_mutex_lock(&k->lock);
    int64_t next = k->next_ns;
    pthread_mutex_unlock(&k->lock);
    return leat__client_pause(k->client, leat__left_ms(next), INT64_MAX);
}

/* Is it to be read once more? */
static bool read_again(leat__cluster *k, bool ok, bool open)
{
    pthread_mutex_lock(&k->lock);
    k->pause_ms = ok ? PAUSE_MS : k->pause_ms * 2;
    if (k->pause_ms > PAUSE_MOST)
        k->pause_ms = PAUSE_MOST;
    k->next_ns = leat__deadline_ns(k->pause_ms);
    k->reading = open && ok && k->doubted;
    bool more = k->reading;
    pthread_mutex_unlock(&k->lock);
    return more;
}

/* Who still doubts after a failure asks again; nobody else needs to know. */
static void reader(void *arg)
{
    leat__cluster *k = arg;
    bool ok, open;
    do {
        leat_error e;
        open = turn_came(k);
        pthread_mutex_lock(&k->lock);
        k->doubted = false;
        pthread_mutex_unlock(&k->lock);
        int64_t ms = k->client->opts.connect_timeout_ms;
        ok = open && read_map(k, leat__deadline_ns(ms), &e) == LEAT_OK;
        if (open && !ok)
            leat__log(&k->client->opts.log, LEAT_LOG_INFO,
                      "the cluster's map cannot be read: %s", e.msg);
    } while (read_again(k, ok, open));
}

void leat__cluster_doubt(leat__cluster *k)
{
    pthread_mutex_lock(&k->lock);
    k->doubted = true;
    bool start = !k->reading;
    if (start)
        k->reading = true;
    pthread_mutex_unlock(&k->lock);
    if (!start ||
        leat__client_spawn(k->client, "leat-map", reader, k, NULL) == LEAT_OK)
        return;
    pthread_mutex_lock(&k->lock);
    k->reading = false; /* the next doubt tries again */
    pthread_mutex_unlock(&k->lock);
}

leat__cluster *leat__cluster_open(leat_client *c, int64_t deadline_ns,
                                  leat_error *err)
{
    leat_error e;
    leat__cluster *k = leat__zalloc(sizeof *k, err);
    if (!k)
        return NULL;
    k->client = c;
    k->pause_ms = PAUSE_MS;
    leat__slots_init(&k->map);
    pthread_mutex_init(&k->lock, NULL);
    leat_code rc = leat__random(&k->seed, sizeof k->seed, &e);
    if (rc == LEAT_OK)
        rc = read_map(k, deadline_ns, &e);
    if (rc == LEAT_OK)
        return k;
    if (err)
        *err = e;
    leat__cluster_free(k);
    return NULL;
}

void leat__cluster_free(leat__cluster *k)
{
    if (!k)
        return;
    leat__slots_release(&k->map);
    pthread_mutex_destroy(&k->lock);
    leat__free(k);
}

/* ---- asking the map --------------------------------------------------- */

leat_code leat__cluster_owner(leat__cluster *k, unsigned slot,
                              leat__address *out, leat_error *err)
{
    pthread_mutex_lock(&k->lock);
    const leat__slots_node *node = leat__slots_owner(&k->map, slot);
    if (node)
        *out = node->at;
    pthread_mutex_unlock(&k->lock);
    if (node)
        return LEAT_OK;
    leat__cluster_doubt(k);
    return leat__fail(err, LEAT_EBUSY, "no node of the cluster has slot %u",
                      slot);
}

size_t leat__cluster_masters(leat__cluster *k, leat__address *out, size_t room)
{
    size_t n = 0;
    pthread_mutex_lock(&k->lock);
    for (size_t i = 0; i < k->map.count; i++) {
        if (k->map.nodes[i].slots == 0)
            continue;
        if (n < room)
            out[n] = k->map.nodes[i].at;
        n++;
    }
    pthread_mutex_unlock(&k->lock);
    return n;
}

bool leat__cluster_is_master(leat__cluster *k, const leat__address *at)
{
    pthread_mutex_lock(&k->lock);
    int i = leat__slots_find(&k->map, at);
    bool yes = i >= 0 && k->map.nodes[i].slots > 0;
    pthread_mutex_unlock(&k->lock);
    return yes;
}

void leat__cluster_nodes(leat__cluster *k, leat_node *out, size_t room,
                         size_t *n)
{
    pthread_mutex_lock(&k->lock);
    *n = k->map.count;
    for (size_t i = 0; i < k->map.count && i < room; i++) {
        const leat__slots_node *node = &k->map.nodes[i];
        out[i] = (leat_node){ .port = node->at.port,
                              .master = node->master,
                              .slots = node->slots,
                              .primary = node->primary };
        snprintf(out[i].host, sizeof out[i].host, "%s", node->at.host);
    }
    pthread_mutex_unlock(&k->lock);
}

/* ---- redirects -------------------------------------------------------- */

void leat__cluster_moved(leat__cluster *k, const leat__redirect *to)
{
    pthread_mutex_lock(&k->lock);
    const leat__slots_node *now = leat__slots_owner(&k->map, to->slot);
    if ((!now || !leat__address_same(&now->at, &to->to)) &&
        leat__slots_move(&k->map, to->slot, &to->to, NULL) == LEAT_OK)
        changed_locked(k);
    pthread_mutex_unlock(&k->lock);
    leat__cluster_doubt(k);
}

static void asked(leat__cluster *k, uint64_t key, const leat__address *to)
{
    pthread_mutex_lock(&k->lock);
    struct ask *a = &k->asks[k->next_ask++ % ASKS];
    *a = (struct ask){ .key = key,
                       .until_ns = leat__deadline_ns(ASK_MS),
                       .to = *to };
    pthread_mutex_unlock(&k->lock);
}

/* Where ASK pointed for this key a moment ago.  It is believed once. */
static bool recall(leat__cluster *k, uint64_t key, leat__address *to)
{
    bool found = false;
    pthread_mutex_lock(&k->lock);
    for (size_t i = 0; i < ASKS; i++) {
        struct ask *a = &k->asks[i];
        if (a->key != key || a->until_ns == 0)
            continue;
        if (leat__now_ns() < a->until_ns) {
            *to = a->to;
            found = true;
        }
        a->until_ns = 0;
    }
    pthread_mutex_unlock(&k->lock);
    return found;
}

void leat__cluster_refused(leat__cluster *k, const leat__address *by,
                           uint64_t key, leat_bytes text)
{
    leat__redirect to;
    if (!leat__redirect_read(&to, text, by))
        leat__cluster_doubt(k);
    else if (!to.ask)
        leat__cluster_moved(k, &to);
    else if (key)
        asked(k, key, &to.to);
}

/* ---- connections ------------------------------------------------------ */

static leat_code settle(leat__cluster *k, leat_conn *conn,
                        const leat__address *at, uint64_t key, leat_error *err)
{
    char text[LEAT__ADDRESS_TEXT];
    if (conn->replica)
        return leat__fail(err, LEAT_ECONN,
                          "%.100s is a replica, its master is looked for",
                          leat__address_text(at, text, sizeof text));
    conn->home = leat__alloc(sizeof *conn->home, err);
    if (!conn->home)
        return LEAT_ENOMEM;
    *conn->home = (leat__home){ .cluster = k, .key = key };
    return LEAT_OK;
}

static leat_conn *dial(leat__cluster *k, const leat__address *at, uint64_t key,
                       int64_t deadline_ns, leat_error *err)
{
    leat__url_host host = { (char *)at->host, at->port };
    leat_conn *conn = leat__client_dial_at(k->client, &host, deadline_ns, err);
    if (conn && settle(k, conn, at, key, err) != LEAT_OK) {
        leat__conn_free(conn);
        conn = NULL;
    }
    if (!conn)
        leat__cluster_doubt(k);
    return conn;
}

leat_conn *leat__cluster_dial_at(leat__cluster *k, const leat__address *at,
                                 int64_t deadline_ns, leat_error *err)
{
    return dial(k, at, 0, deadline_ns, err);
}

leat_conn *leat__cluster_dial_key(leat__cluster *k, leat_bytes key,
                                  int64_t deadline_ns, leat_error *err)
{
    leat__address at;
    uint64_t hash = leat__siphash13(k->seed, key) | 1;
    bool asking = recall(k, hash, &at);
    if (!asking &&
        leat__cluster_owner(k, leat__crc16_slot(key), &at, err) != LEAT_OK)
        return NULL;
    leat_conn *conn = dial(k, &at, hash, deadline_ns, err);
    if (conn)
        conn->asking = asking;
    return conn;
}

leat_conn *leat__cluster_dial_any(leat__cluster *k, int64_t deadline_ns,
                                  leat_error *err)
{
    leat__address at[16];
    size_t n = leat__cluster_masters(k, at, 16);
    leat_conn *conn = NULL;
    pthread_mutex_lock(&k->lock);
    size_t first = k->turn++;
    pthread_mutex_unlock(&k->lock);
    if (n > 16)
        n = 16;
    if (n == 0)
        leat__fail(err, LEAT_EBUSY, "no node of the cluster has a slot");
    for (size_t i = 0; i < n && !conn; i++)
        if (i == 0 || leat__left_ms(deadline_ns) > 0)
            conn = dial(k, &at[(first + i) % n], 0, share(deadline_ns, n - i),
                        err);
    return conn;
}
