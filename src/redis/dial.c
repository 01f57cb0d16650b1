/*
 * dial.c: one connection to one server.
 *
 * It is usable when the socket is there, the login is done and the server was
 * looked at: each connection asks anew, because behind the same address there
 * may be another server than before.
 */
#include "base/log.h"
#include "base/system.h"
#include "redis/client.h"
#include "redis/facts.h"
#include "redis/sentinel.h"

#include <string.h>

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
