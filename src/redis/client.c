/*
 * client.c: opening a client and one connection of it.
 *
 * A new connection is usable when the socket is there, the login is done and
 * the server was looked at: each connection asks anew, because behind the same
 * address there may be another server than before.
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

static leat_client *client_new(leat_error *err)
{
    leat_client *c = leat__zalloc(sizeof *c, err);
    if (!c)
        return NULL;
    c->forks = leat__fork_count();
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

void leat__client_destroy(leat_client *c)
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

leat_code leat__client_own(const leat_client *c, leat_error *err)
{
    if (c->forks == leat__fork_count())
        return LEAT_OK;
    return leat__fail(err, LEAT_EFORK,
                      "this client belongs to the parent process, open one of "
                      "your own after fork");
}

leat__transport *leat__client_transport(leat_client *c,
                                        const leat__url_host *at,
                                        int64_t deadline_ns, leat_error *err)
{
    if (c->tls)
        return leat__transport_tls(c->tls, at->name, at->port, deadline_ns,
                                   err);
    return leat__transport_tcp(at->name, at->port, deadline_ns, err);
}

static leat__transport *open_socket(leat_client *c, int64_t deadline_ns,
                                    leat_error *err)
{
    const leat__url *u = &c->url;
    if (u->kind == LEAT__URL_UNIX)
        return leat__transport_unix(u->path, deadline_ns, err);
    if (leat__embedded_ensure(c->embedded, leat__left_ms(deadline_ns), err) !=
        LEAT_OK)
        return NULL;
    return leat__transport_unix(leat__embedded_socket(c->embedded), deadline_ns,
                                err);
}

/* At the start a server that is not good enough is told at once: it is a matter
 * of its configuration.  Later it may be a wrong one that a failover led to, or
 * be set right again: then it is tried for as long as somebody waits. */
static leat_code refuse(leat_client *c, const leat_error *e, leat_error *err)
{
    pthread_mutex_lock(&c->lock);
    bool later = c->opened, news = later && !c->refused;
    c->refused = true;
    pthread_mutex_unlock(&c->lock);
    if (news)
        leat__log(&c->opts.log, LEAT_LOG_WARN, "%s: %s", c->shown, e->msg);
    return leat__fail_retriable(err, e->code, later || e->retriable, "%s",
                                e->msg);
}

/* Say once what is weak here; what is unsafe is refused. */
static leat_code judge(leat_client *c, leat_conn *conn, const leat_server *s,
                       leat_error *err)
{
    leat_error e;
    leat_level level;
    if (leat__durability_judge(s, &c->demand, &e) != LEAT_OK)
        return refuse(c, &e, err);
    conn->proof = leat__durability_proof(s, &c->demand);
    pthread_mutex_lock(&c->lock);
    bool first = !c->warned, again = c->refused;
    c->warned = true;
    c->refused = false;
    c->server = *s;
    pthread_mutex_unlock(&c->lock);
    if (again)
        leat__log(&c->opts.log, LEAT_LOG_INFO,
                  "%s: the server keeps what was asked for again", c->shown);
    if (!first)
        return LEAT_OK;
    const char *remark = leat__durability_remark(s, &c->demand, &level);
    if (remark)
        leat__log(&c->opts.log, level, "%s", remark);
    if (!s->has_scripts)
        leat__log(&c->opts.log, LEAT_LOG_WARN,
                  "EVAL is refused: what moves messages needs scripts, allow "
                  "+eval +evalsha");
    return LEAT_OK;
}

/* During the start every answer must come within the connect timeout. */
static leat_code introduce(leat_client *c, leat_conn *conn, int64_t deadline_ns,
                           leat_error *err)
{
    leat_server s;
    int64_t left = leat__left_ms(deadline_ns);
    conn->timeout_ms = left > 0 ? left : 1;
    leat_code rc = leat__handshake(conn, &c->login, err);
    if (rc == LEAT_OK && c->sentinel)
        rc = leat__sentinel_verify(conn, err);
    if (rc == LEAT_OK)
        rc = leat__facts_ask(conn, c->opts.as_redis_6_0, c->demand.asked, &s,
                             err);
    if (rc == LEAT_OK)
        rc = judge(c, conn, &s, err);
    if (rc == LEAT_OK)
        conn->replica = strcmp(s.role, "slave") == 0;
    conn->stale = false; /* the key of a question may be another node's */
    conn->timeout_ms = c->opts.timeout_ms;
    return rc;
}

/* A server that speaks TLS answers plain text with an alert of TLS, or, as
 * Redis does, hangs up without a word.  The second may be anything: it is only
 * a hint, and only as long as there was never a connection. */
static void hint_at_tls(leat_client *c, const leat_conn *conn, leat_error *e)
{
    const char *in = conn->in ? conn->in + conn->in_start : NULL;
    size_t n = conn->in_end - conn->in_start;
    pthread_mutex_lock(&c->lock);
    bool known = c->warned;
    pthread_mutex_unlock(&c->lock);
    if (c->tls || known || conn->t || conn->protocol == 3)
        return;
    if (in && n >= 2 && in[0] == 0x15 && in[1] == 3)
        leat__fail(e, LEAT_EPROTO, "the server speaks TLS, use rediss://");
    else if (n == 0 && conn->why.code == LEAT_ECONN)
        leat__fail(e, LEAT_ECONN,
                   "%.150s; if the server speaks TLS, use rediss://",
                   conn->why.msg);
}

/* Nothing of the user's was sent yet: what is lost here is a connection. */
static void as_connect_error(leat_error *e)
{
    if (e && (e->code == LEAT_EUNKNOWN || e->code == LEAT_EPROTO))
        e->code = LEAT_ECONN;
}

/* Before the first word is said: whoever cuts finds it from now on. */
static void enter(leat_client *c, leat_conn *conn, const leat__url_host *at)
{
    leat__address a;
    leat__address_set(&a, at ? at->name : NULL, at ? at->port : 0);
    leat__line_enter(&c->lines, conn, &a);
}

size_t leat__client_cut(leat_client *c, leat__keep_fn *keep, void *arg)
{
    return leat__lines_cut(&c->lines, keep, arg);
}

leat_conn *leat__client_dial_at(leat_client *c, const leat__url_host *at,
                                int64_t deadline_ns, leat_error *err)
{
    leat_error e;
    leat__conn_opts o = {
        .timeout_ms = c->opts.timeout_ms,
        .window = (uint32_t)c->opts.window,
        .limits = { .reply = c->opts.max_reply_bytes },
    };
    int64_t latest = leat__deadline_ns(c->opts.connect_timeout_ms);
    if (deadline_ns > latest)
        deadline_ns = latest;

    leat__transport *t = at ? leat__client_transport(c, at, deadline_ns, &e)
                            : open_socket(c, deadline_ns, &e);
    leat_conn *conn = t ? leat__conn_new(t, &o, &e) : NULL;
    if (t && !conn)
        t->ops->close(t);
    if (conn)
        enter(c, conn, at);
    if (conn && introduce(c, conn, deadline_ns, &e) != LEAT_OK) {
        if (!conn->t && conn->why.code == LEAT_EAUTH)
            e = conn->why; /* TLS 1.3 tells of it only now */
        if (at)
            hint_at_tls(c, conn, &e);
        leat__conn_free(conn);
        conn = NULL;
    }
    leat_counter_add(conn ? c->connects : c->failures, 1);
    if (!conn) {
        as_connect_error(&e);
        if (err)
            *err = e;
    }
    return conn;
}

/* What is wrong with the configuration is told when the client is opened.
 * Later it is weather. */
static leat_conn *dialed(leat_client *c, leat_conn *conn, leat_error *err)
{
    if (conn)
        return conn;
    pthread_mutex_lock(&c->lock);
    bool later = c->opened;
    pthread_mutex_unlock(&c->lock);
    if (later)
        leat__error_weather(err);
    return NULL;
}

leat_conn *leat__client_dial(leat_client *c, int64_t deadline_ns,
                             leat_error *err)
{
    leat_conn *conn;
    if (c->sentinel)
        conn = leat__sentinel_dial(c->sentinel, deadline_ns, err);
    else if (c->cluster)
        conn = leat__cluster_dial_any(c->cluster, deadline_ns, err);
    else
        conn = leat__client_dial_at(c, c->url.hosts, deadline_ns, err);
    return dialed(c, conn, err);
}

leat_conn *leat__client_dial_key(leat_client *c, leat_bytes key,
                                 int64_t deadline_ns, leat_error *err)
{
    if (!c->cluster)
        return leat__client_dial(c, deadline_ns, err);
    return dialed(c, leat__cluster_dial_key(c->cluster, key, deadline_ns, err),
                  err);
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
