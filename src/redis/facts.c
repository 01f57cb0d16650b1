/*
 * facts.c: what kind of server this is.
 *
 * All questions go out together.  None of them has to be answered: an ACL may
 * refuse each, and then the fallback that needs nothing is chosen.
 */
#include "redis/facts.h"
#include "base/system.h"
#include "redis/script.h"
#include "redis/server_error.h"
#include "redis/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set_text(char *out, size_t room, leat_bytes v)
{
    size_t n = v.n < room ? v.n : room - 1;
    memcpy(out, v.p, n);
    out[n] = '\0';
}

static int64_t number(leat_bytes v)
{
    char text[32];
    set_text(text, sizeof text, v);
    return strtoll(text, NULL, 10);
}

static void set_version(leat_server *s, leat_bytes v)
{
    set_text(s->version, sizeof s->version, v);
    char *at = s->version;
    int *parts[] = { &s->major, &s->minor, &s->patch };
    for (int i = 0; i < 3; i++) {
        *parts[i] = (int)strtol(at, &at, 10);
        if (*at == '.')
            at++;
    }
}

/* slave0, slave1, ... */
static bool names_replica(leat_bytes k)
{
    const char *p = k.p;
    return k.n > 5 && memcmp(p, "slave", 5) == 0 && p[5] >= '0' && p[5] <= '9';
}

/* The value of a name in ip=127.0.0.1,port=6380,state=online,offset=98,lag=1 */
static leat_bytes part_of(leat_bytes v, const char *name)
{
    const char *p = v.p, *end = p + v.n;
    size_t n = strlen(name);
    while (p < end) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        const char *stop = comma ? comma : end;
        if ((size_t)(stop - p) > n && memcmp(p, name, n) == 0 && p[n] == '=')
            return leat_mem(p + n + 1, (size_t)(stop - p) - n - 1);
        p = comma ? comma + 1 : end;
    }
    return leat_mem("", 0);
}

static void add_replica(leat_server *s, leat_bytes v)
{
    int64_t lag = number(part_of(v, "lag"));
    if (!leat_bytes_eq(part_of(v, "state"), leat_str("online")))
        return;
    s->replicas_online++;
    if (lag > s->replicas_lag_s)
        s->replicas_lag_s = lag;
}

static void set_field(leat_server *s, leat_bytes k, leat_bytes v)
{
    if (leat_bytes_eq(k, leat_str("redis_version")))
        set_version(s, v);
    else if (leat_bytes_eq(k, leat_str("role")))
        set_text(s->role, sizeof s->role, v);
    else if (leat_bytes_eq(k, leat_str("maxmemory_policy")))
        set_text(s->maxmemory_policy, sizeof s->maxmemory_policy, v);
    else if (leat_bytes_eq(k, leat_str("maxmemory")))
        s->maxmemory = number(v);
    else if (leat_bytes_eq(k, leat_str("used_memory")))
        s->used_memory = number(v);
    else if (leat_bytes_eq(k, leat_str("aof_enabled")))
        s->aof = number(v) != 0;
    else if (leat_bytes_eq(k, leat_str("loading")))
        s->loading = number(v) != 0;
    else if (leat_bytes_eq(k, leat_str("connected_slaves")))
        s->replicas = (int)number(v);
    else if (leat_bytes_eq(k, leat_str("aof_last_write_status")))
        s->aof_failed = !leat_bytes_eq(v, leat_str("ok"));
    else if (leat_bytes_eq(k, leat_str("rdb_last_bgsave_status")))
        s->saves_failed = !leat_bytes_eq(v, leat_str("ok"));
    else if (leat_bytes_eq(k, leat_str("cluster_enabled")))
        s->clustered = number(v) != 0;
    else if (names_replica(k))
        add_replica(s, v);
}

void leat__facts_info(leat_bytes text, leat_server *out)
{
    const char *p = text.p, *end = p + text.n;
    while (p < end) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        const char *stop = nl ? nl : end;
        const char *next = nl ? nl + 1 : end;
        if (stop > p && stop[-1] == '\r')
            stop--;
        const char *colon = memchr(p, ':', (size_t)(stop - p));
        if (colon)
            set_field(out, leat_mem(p, (size_t)(colon - p)),
                      leat_mem(colon + 1, (size_t)(stop - colon - 1)));
        p = next;
    }
}

void leat__facts_config(leat_bytes k, leat_bytes v, leat_server *s)
{
    s->config_seen = true;
    if (leat_bytes_eq(k, leat_str("appendfsync")))
        set_text(s->appendfsync, sizeof s->appendfsync, v);
    else if (leat_bytes_eq(k, leat_str("no-appendfsync-on-rewrite")))
        s->no_sync_on_rewrite = leat_bytes_eq(v, leat_str("yes"));
    else if (leat_bytes_eq(k, leat_str("min-replicas-to-write")))
        s->min_replicas = (int)number(v);
    else if (leat_bytes_eq(k, leat_str("min-replicas-max-lag")))
        s->min_replicas_lag_s = number(v);
    else if (leat_bytes_eq(k, leat_str("save")))
        s->snapshots = v.n > 0;
}

bool leat__facts_evicts(const leat_server *s)
{
    return s->maxmemory_policy[0] &&
           strcmp(s->maxmemory_policy, "noeviction") != 0;
}

struct asking {
    leat_server *out;
    int64_t date_us; /* ours, when the question left */
    bool refused_claim;
    bool refused_waitaof;
    leat_error odd; /* the first answer that makes no sense */
};

/* Is there an answer of that shape? */
static bool came(struct asking *a, const leat_reply *r, const leat_error *e,
                 const char *shape, const char *what)
{
    leat_error odd;
    e = leat__reply_odd(r, e, shape, what, &odd);
    if (e == &odd && a->odd.code == LEAT_OK)
        a->odd = odd;
    return !e;
}

static void on_info(void *arg, const leat_reply *r, const leat_error *e)
{
    struct asking *a = arg;
    if (came(a, r, e, "t", "INFO"))
        leat__facts_info(leat_reply_bytes(r), a->out);
}

/* An array with nil for each command that is not there. */
static void on_commands(void *arg, const leat_reply *r, const leat_error *e)
{
    struct asking *a = arg;
    if (!came(a, r, e, "[__]", "COMMAND INFO"))
        return;
    a->out->has_xautoclaim = leat_reply_kind(leat_reply_at(r, 0)) !=
                             LEAT_REPLY_NIL;
    a->out->has_waitaof = leat_reply_kind(leat_reply_at(r, 1)) !=
                          LEAT_REPLY_NIL;
}

/* On a stream that is not there it answers NOGROUP, unless it may not run. */
static void on_claim(void *arg, const leat_reply *r, const leat_error *e)
{
    struct asking *a = arg;
    (void)r;
    a->refused_claim = e && e->code == LEAT_EAUTH;
}

static void on_config(void *arg, const leat_reply *r, const leat_error *e)
{
    struct asking *a = arg;
    if (!came(a, r, e, "[(tt)]", "CONFIG GET"))
        return;
    leat_reply_iter it = leat_reply_each(r);
    while (it.left >= 2) {
        leat_bytes name = leat_reply_bytes(leat_reply_step(&it));
        leat__facts_config(name, leat_reply_bytes(leat_reply_step(&it)),
                           a->out);
    }
}

/* Behind no write they answer at once, unless they may not run. */
static void on_wait(void *arg, const leat_reply *r, const leat_error *e)
{
    struct asking *a = arg;
    (void)r;
    a->out->wait_refused = e && e->code == LEAT_EAUTH;
}

static void on_waitaof(void *arg, const leat_reply *r, const leat_error *e)
{
    struct asking *a = arg;
    (void)r;
    a->refused_waitaof = e != NULL;
}

static void on_probe(void *arg, const leat_reply *r, const leat_error *e)
{
    struct asking *a = arg;
    if (!came(a, r, e, "i", "the probe"))
        return;
    int64_t ours = (a->date_us + leat__date_ms() * 1000) / 2;
    a->out->has_scripts = true;
    a->out->clock_skew_ms = (leat_reply_int(r) - ours) / 1000;
}

/* 6.0 takes one pattern at a time. */
static leat_code ask_config(leat_conn *c, struct asking *a, leat_error *err)
{
    static const char *const patterns[] = { "*appendfsync*", "min-replicas-*",
                                            "save" };
    leat_code rc = LEAT_OK;
    for (size_t i = 0; rc == LEAT_OK && i < 3; i++)
        rc = leat_conn_send(c,
                            LEAT_ARGS(leat_str("CONFIG"), leat_str("GET"),
                                      leat_str(patterns[i])),
                            &(leat_send_opts){ on_config, a, 0 }, err);
    return rc;
}

static leat_code ask_newer(leat_conn *c, struct asking *a, leat_error *err)
{
    leat_code rc = leat_conn_send(
        c,
        LEAT_ARGS(leat_str("COMMAND"), leat_str("INFO"), leat_str("xautoclaim"),
                  leat_str("waitaof")),
        &(leat_send_opts){ on_commands, a, 0 }, err);
    if (rc == LEAT_OK)
        rc = leat_conn_send(c,
                            LEAT_ARGS(leat_str("XAUTOCLAIM"),
                                      leat_str("leat:probe"), leat_str("probe"),
                                      leat_str("probe"), leat_str("0"),
                                      leat_str("0")),
                            &(leat_send_opts){ on_claim, a, 0 }, err);
    return rc;
}

static leat_code ask_proof(leat_conn *c, struct asking *a, bool as_redis_6_0,
                           leat_durability asked, leat_error *err)
{
    leat_code rc = LEAT_OK;
    if (asked == LEAT_REPLICATED)
        rc = leat_conn_send(
            c, LEAT_ARGS(leat_str("WAIT"), leat_str("0"), leat_str("1")),
            &(leat_send_opts){ on_wait, a, 0 }, err);
    if (rc == LEAT_OK && !as_redis_6_0 &&
        (asked == LEAT_SYNCED || asked == LEAT_REPLICATED))
        rc = leat_conn_send(c,
                            LEAT_ARGS(leat_str("WAITAOF"), leat_str("0"),
                                      leat_str("0"), leat_str("1")),
                            &(leat_send_opts){ on_waitaof, a, 0 }, err);
    return rc;
}

static leat_code ask(leat_conn *c, struct asking *a, bool as_redis_6_0,
                     leat_durability asked, leat_error *err)
{
    leat_code rc = leat_conn_send(c, LEAT_ARGS(leat_str("INFO")),
                                  &(leat_send_opts){ on_info, a, 0 }, err);
    if (rc == LEAT_OK)
        rc = ask_config(c, a, err);
    if (rc == LEAT_OK)
        rc = leat__script_send(c, &leat__script_redis_probe, NULL, 0, NULL, 0,
                               &(leat_send_opts){ on_probe, a, 0 }, err);
    if (rc == LEAT_OK && !as_redis_6_0)
        rc = ask_newer(c, a, err);
    if (rc == LEAT_OK)
        rc = ask_proof(c, a, as_redis_6_0, asked, err);
    return rc == LEAT_OK ? leat_conn_drain(c, 0, err) : rc;
}

leat_code leat__facts_ask(leat_conn *c, bool as_redis_6_0,
                          leat_durability asked, leat_server *out,
                          leat_error *err)
{
    struct asking a = { .out = out, .date_us = leat__date_ms() * 1000 };
    *out = (leat_server){ 0 };
    leat_code rc = ask(c, &a, as_redis_6_0, asked, err);
    if (rc == LEAT_OK && a.odd.code != LEAT_OK) {
        rc = a.odd.code;
        if (err)
            *err = a.odd;
    }
    if (rc != LEAT_OK)
        return rc;
    out->protocol = c->protocol;
    if (a.refused_claim)
        out->has_xautoclaim = false;
    if (a.refused_waitaof)
        out->has_waitaof = false;
    if (out->loading)
        return leat__fail(err, LEAT_EBUSY, "the server is loading its data");
    return LEAT_OK;
}
