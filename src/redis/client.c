/*
 * client.c: opening a client, and what it tells of itself.
 */
#include "redis/client.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/thread.h"
#include "redis/bundle.h"
#include "redis/cluster.h"
#include "redis/facts.h"
#include "redis/sentinel.h"
#include "redis/waker.h"
#include "redis/watch.h"

#include <stdio.h>
#include <string.h>

enum {
    CONNECT_MS = 5000,
    TIMEOUT_MS = 5000,
    POOL = 16,
    MAX_RETRY_MS = 2000,
    MAX_MS = 24 * 3600 * 1000
};

static int64_t pick(int64_t own, int64_t url, int64_t def)
{
    int64_t v = own ? own : url ? url : def;
    return v > MAX_MS ? MAX_MS : v;
}

static leat_code set_text(char **out, const char *own, const char *url,
                          const char *def, leat_error *err)
{
    const char *s = own ? own : url ? url : def;
    *out = s ? leat__strdup(s, err) : NULL;
    return s && !*out ? LEAT_ENOMEM : LEAT_OK;
}

/* The server takes printable characters without blanks. */
static leat_code check_name(const char *name, leat_error *err)
{
    for (const char *s = name; *s; s++)
        if (*s < '!' || *s > '~')
            return leat__fail(err, LEAT_EINVAL,
                              "client name may hold no blanks and only "
                              "printable ASCII");
    return LEAT_OK;
}

static leat_code fill_demand(leat_client *c, leat_error *err)
{
    const leat__url *u = &c->url;
    leat_client_opts *o = &c->opts;
    bool own = o->durability != LEAT_EXECUTED || o->only_executed;
    if (!own)
        o->durability = u->durability;
    /* Of a class that is overruled the replicas are too. */
    if (o->replicas == 0 && (!own || o->durability == LEAT_REPLICATED))
        o->replicas = u->replicas;
    if (o->only_executed && o->durability != LEAT_EXECUTED)
        return leat__fail(err, LEAT_EINVAL,
                          "durability '%s' and only_executed contradict each "
                          "other",
                          leat_durability_name(o->durability));
    if ((unsigned)o->durability > LEAT_OUTBOX || o->replicas < 0 ||
        o->replicas_ms < 0)
        return leat__fail(err, LEAT_EINVAL,
                          "durability is a class from 0 to 4, replicas and "
                          "their time cannot be negative");
    if (o->replicas > 0 && o->durability != LEAT_REPLICATED)
        return leat__fail(err, LEAT_EINVAL,
                          "replicas mean nothing to durability '%s', ask for "
                          "'replicated'",
                          leat_durability_name(o->durability));
    if (o->durability == LEAT_REPLICATED && o->replicas == 0)
        o->replicas = 1;
    if (o->window > 0 && o->window < LEAT_WINDOW_MIN)
        o->window = LEAT_WINDOW_MIN;
    c->demand = (leat__demand){ .asked = o->durability,
                                .replicas = o->replicas,
                                .wait_ms = pick(o->replicas_ms, 0, 0),
                                .evicting = o->allow_eviction ||
                                            c->url.allow_eviction,
                                .weak = o->allow_weak };
    return LEAT_OK;
}

static leat_code fill_options(leat_client *c, const leat_client_opts *opts,
                              leat_error *err)
{
    const leat__url *u = &c->url;
    leat_client_opts *o = &c->opts;

    if (opts)
        *o = *opts;
    o->connect_timeout_ms = pick(o->connect_timeout_ms, u->connect_timeout_ms,
                                 CONNECT_MS);
    o->timeout_ms = pick(o->timeout_ms, u->timeout_ms, TIMEOUT_MS);
    o->pool_size = (int)pick(o->pool_size, u->pool_size, POOL);
    o->max_retry_ms = (int)pick(o->max_retry_ms, 0, MAX_RETRY_MS);
    o->resp2 = o->resp2 || u->protocol == 2;
    if (o->connect_timeout_ms < 0 || o->timeout_ms < 0 || o->pool_size < 0 ||
        o->max_retry_ms < 0 || o->window < 0)
        return leat__fail(err, LEAT_EINVAL,
                          "times, window and pool size cannot be negative");

    leat_code rc = fill_demand(c, err);
    if (rc == LEAT_OK)
        rc = set_text(&c->name, o->name, u->client_name, "leat", err);
    if (rc == LEAT_OK)
        rc = check_name(c->name, err);
    if (rc == LEAT_OK)
        rc = set_text(&c->user, o->user, u->user, NULL, err);
    if (rc == LEAT_OK)
        rc = set_text(&c->password, o->password, u->password, NULL, err);
    if (rc == LEAT_OK && u->kind == LEAT__URL_SENTINEL) {
        c->sentinel = leat__sentinel_new(c, o->sentinel_user,
                                         o->sentinel_password, err);
        rc = c->sentinel ? LEAT_OK : LEAT_ENOMEM;
    }
    o->name = o->user = o->password = NULL; /* the caller's */
    o->sentinel_user = o->sentinel_password = NULL;
    c->login = (leat__login){ .user = c->user,
                              .password = c->password,
                              .name = c->name,
                              .db = u->db,
                              .resp2 = o->resp2 };
    return rc;
}

/* What the options say goes before the URL.  TLS that is asked for in the
 * options alone is a mistake that would send passwords in plain text. */
static leat_code set_tls(leat_client *c, leat_error *err)
{
    const leat__url *u = &c->url;
    leat_tls_opts *o = &c->opts.tls, none = { 0 };
    if (!u->tls && (o->ca_file || o->ca_dir || o->cert || o->key || o->host))
        return leat__fail(err, LEAT_EINVAL,
                          "TLS options and a URL without TLS, use rediss://");
    if (u->tls) {
        bool own = o->ca_file || o->ca_dir;
        o->ca_file = own ? o->ca_file : u->cafile;
        o->ca_dir = own ? o->ca_dir : u->cadir;
        own = o->cert || o->key;
        o->cert = own ? o->cert : u->cert;
        o->key = own ? o->key : u->key;
        o->insecure = o->insecure || u->insecure;
        c->tls = leat__tls_new(o, err);
        if (!c->tls)
            return LEAT_EINVAL;
        if (o->insecure)
            leat__log(&c->opts.log, LEAT_LOG_WARN,
                      "insecure: the server's certificate is not verified, "
                      "anybody on the way can read and change everything");
    }
    *o = none; /* the caller's */
    return LEAT_OK;
}

static leat_code print_url(leat_client *c, leat_error *err)
{
    leat__buf b = { 0 };
    leat_code rc = leat__url_print(&c->url, &b, err);
    if (rc == LEAT_OK)
        rc = leat__buf_add(&b, "", 1, err);
    c->shown = b.p;
    return rc;
}

static void count_into(leat_client *c)
{
    leat_metrics *m = c->opts.metrics;
    c->connects = leat_metrics_counter(m, "leat_redis_connects_total",
                                       "Connections opened to Redis.", NULL, 0,
                                       NULL);
    c->failures = leat_metrics_counter(m, "leat_redis_connect_failures_total",
                                       "Attempts to connect that failed.", NULL,
                                       0, NULL);
}

/* Free what is left once nothing is lent. */
static void destroy(leat_client *c)
{
    leat__cluster_free(c->cluster);
    leat__embedded_detach(c->embedded);
    leat__sentinel_free(c->sentinel);
    leat__lines_release(&c->lines);
    leat__tls_free(c->tls);
    leat__url_release(&c->url);
    leat__free_secret(c->password);
    leat__free(c->user);
    leat__free(c->name);
    leat__free(c->shown);
    pthread_cond_destroy(&c->ended);
    pthread_cond_destroy(&c->freed);
    pthread_mutex_destroy(&c->lock);
    leat__free(c);
}

static leat_client *client_new(leat_error *err)
{
    leat_client *c = leat__zalloc(sizeof *c, err);
    if (!c)
        return NULL;
    c->forks = leat__fork_count();
    c->destroy = destroy;
    if (leat__cond_init(&c->freed, err) != LEAT_OK)
        goto no_freed;
    if (leat__cond_init(&c->ended, err) != LEAT_OK)
        goto no_ended;
    pthread_mutex_init(&c->lock, NULL);
    leat__lines_init(&c->lines);
    return c;

no_ended:
    pthread_cond_destroy(&c->freed);
no_freed:
    leat__free(c);
    return NULL;
}

/* A bundle opens a connection to each master: its turns are more. */
static leat_code know_cluster(leat_client *c, int64_t deadline_ns,
                              leat_error *err)
{
    if (c->cluster)
        return LEAT_OK;
    c->cluster = leat__cluster_open(c, deadline_ns, err);
    if (!c->cluster)
        return LEAT_ECONN;
    int turns = c->opts.pool_size *
                (int)leat__cluster_masters(c->cluster, NULL, 0);
    leat__budget_init(&c->budget, turns, 2 * turns);
    return LEAT_OK;
}

static leat_conn *first_try(leat_client *c, int64_t deadline_ns,
                            leat_error *err)
{
    if (!leat__client_clustered(c))
        return leat__client_dial(c, deadline_ns, err);
    return know_cluster(c, deadline_ns, err) == LEAT_OK
               ? leat__bundle_open(c, deadline_ns, err)
               : NULL;
}

/* A refused connection is told at once: at the start it is more likely a wrong
 * address than a passing failure.  A server that loads is waited for. */
static leat_code first_connection(leat_client *c, leat_error *err)
{
    int64_t deadline = leat__deadline_ns(c->opts.connect_timeout_ms);
    leat__backoff wait = { .base_ms = 20, .cap_ms = 200 };
    leat_error e;
    for (;;) {
        leat_conn *conn = first_try(c, deadline, &e);
        if (conn) {
            c->total = 1;
            c->idle = conn;
            return LEAT_OK;
        }
        if (e.code != LEAT_EBUSY || !e.retriable ||
            leat__left_ms(deadline) == 0)
            break;
        leat__sleep_ms(leat__backoff_next_ms(&wait));
    }
    if (err)
        *err = e;
    return e.code;
}

leat_client *leat_client_open(const char *url, const leat_client_opts *opts,
                              leat_error *err)
{
    if (!url) {
        leat__fail(err, LEAT_EINVAL, "no URL was given");
        return NULL;
    }
    leat_client *c = client_new(err);
    if (!c)
        return NULL;
    if (leat__url_parse(&c->url, leat_str(url), err) != LEAT_OK ||
        print_url(c, err) != LEAT_OK || fill_options(c, opts, err) != LEAT_OK ||
        set_tls(c, err) != LEAT_OK)
        goto fail;
    count_into(c);
    leat__budget_init(&c->budget, c->opts.pool_size, 2 * c->opts.pool_size);
    if (c->url.kind == LEAT__URL_EMBEDDED) {
        c->embedded = leat__embedded_attach(c->url.path, &c->opts.log,
                                            c->opts.connect_timeout_ms, err);
        if (!c->embedded)
            goto fail;
    }
    if (first_connection(c, err) != LEAT_OK)
        goto fail;
    if (c->sentinel && !(c->watch = leat__watch_open(c, err))) {
        leat_client_close(c); /* there is a connection already */
        return NULL;
    }
    pthread_mutex_lock(&c->lock);
    c->opened = true;
    pthread_mutex_unlock(&c->lock);
    return c;

fail:
    leat_client_close(c); /* a thread of it may still run */
    return NULL;
}

bool leat__client_clustered(const leat_client *c)
{
    return c->url.kind == LEAT__URL_CLUSTER;
}

leat_topology leat_client_topology(const leat_client *c)
{
    return c->url.kind == LEAT__URL_CLUSTER    ? LEAT_CLUSTER
           : c->url.kind == LEAT__URL_SENTINEL ? LEAT_SENTINEL
                                               : LEAT_SINGLE;
}

int64_t leat_client_sentinel_epoch(leat_client *c)
{
    return c->sentinel ? leat__sentinel_now(c->sentinel).epoch : -1;
}

leat_code leat_client_nodes(leat_client *c, leat_node *out, size_t room,
                            size_t *n, leat_error *err)
{
    leat_code rc = leat__client_own(c, err);
    if (rc != LEAT_OK)
        return rc;
    if (c->sentinel)
        return leat__sentinel_nodes(c->sentinel, out, room, n, err);
    if (c->cluster) {
        leat__cluster_nodes(c->cluster, out, room, n);
        return LEAT_OK;
    }
    *n = 1;
    if (room == 0)
        return LEAT_OK;
    const leat__url *u = &c->url;
    const char *where = u->host_count ? u->hosts[0].name : u->path;
    *out = (leat_node){ .port = u->host_count ? u->hosts[0].port : 0,
                        .primary = -1 };
    snprintf(out->host, sizeof out->host, "%s", where ? where : "embedded");
    pthread_mutex_lock(&c->lock);
    out->master = strcmp(c->server.role, "master") == 0;
    pthread_mutex_unlock(&c->lock);
    return LEAT_OK;
}

const char *leat_client_url(const leat_client *c)
{
    return c->shown;
}

leat_code leat_client_server(leat_client *c, leat_server *out, leat_error *err)
{
    leat_code rc = leat__client_own(c, err);
    if (rc != LEAT_OK)
        return rc;
    pthread_mutex_lock(&c->lock);
    *out = c->server;
    pthread_mutex_unlock(&c->lock);
    return LEAT_OK;
}

leat_code leat_client_durability(leat_client *c, leat_durability_report *out,
                                 leat_error *err)
{
    leat_server s;
    leat_code rc = leat_client_server(c, &s, err);
    if (rc == LEAT_OK)
        leat__durability_describe(&s, &c->demand, out);
    return rc;
}
