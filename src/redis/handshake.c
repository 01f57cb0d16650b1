/*
 * handshake.c: the first words on a new connection.
 *
 *   HELLO 3 [AUTH user password] SETNAME name   one round trip, Redis 6.0
 *   AUTH, CLIENT SETNAME                        where HELLO is not to be had
 *   SELECT db                                   unless 0
 */
#include "redis/handshake.h"
#include "redis/server_error.h"

#include <ctype.h>
#include <stdio.h>

/* The first word of an error, if it is one of Redis's capital words. */
static void error_word(leat_bytes text, char *out, size_t room)
{
    const char *s = text.p;
    size_t n = 0;
    while (n < text.n && n + 1 < room && isupper((unsigned char)s[n])) {
        out[n] = s[n];
        n++;
    }
    out[n] = '\0';
}

static leat_code refused(const leat_reply *r, leat_error *err)
{
    char word[32];
    leat_code code = leat__server_error(err, leat_reply_bytes(r));
    error_word(leat_reply_bytes(r), word, sizeof word);
    if (code == LEAT_EAUTH || code == LEAT_ESERVER)
        return leat__fail(err, LEAT_EAUTH,
                          "the server refused the login (%s), check user and "
                          "password",
                          word[0] ? word : "no reason given");
    return code;
}

/* HELLO is missing before 6.0, can be renamed, and can be forbidden. */
static bool hello_is_missing(const leat_reply *r)
{
    leat_bytes t = leat_reply_bytes(r);
    return leat__server_error_is(t, "NOPROTO") ||
           leat__server_error_is(t, "NOPERM") ||
           leat__server_error_is(t, "ERR unknown command") ||
           leat__server_error_is(t, "ERR unknown command,") ||
           leat__server_error_is(t, "ERR unsupported protocol");
}

static leat_code hello(leat_conn *c, const leat__login *l, bool *missing,
                       leat_error *err)
{
    leat_bytes argv[8];
    size_t n = 0;
    const leat_reply *r;

    argv[n++] = leat_str("HELLO");
    argv[n++] = leat_str("3");
    if (l->user || l->password) {
        argv[n++] = leat_str("AUTH");
        argv[n++] = leat_str(l->user ? l->user : "default");
        argv[n++] = leat_str(l->password);
    }
    argv[n++] = leat_str("SETNAME");
    argv[n++] = leat_str(l->name);
    leat_code rc = leat_conn_call(c, argv, n, NULL, &r, err);
    *missing = r && r->type == LEAT_REPLY_ERROR && hello_is_missing(r);
    if (rc == LEAT_OK)
        c->protocol = 3;
    else if (r)
        rc = refused(r, err);
    return rc;
}

static leat_code auth(leat_conn *c, const leat__login *l, leat_error *err)
{
    leat_bytes argv[3] = { leat_str("AUTH") };
    size_t n = 1;
    const leat_reply *r;

    if (!l->user && !l->password)
        return LEAT_OK;
    if (l->user)
        argv[n++] = leat_str(l->user);
    argv[n++] = leat_str(l->password);
    leat_code rc = leat_conn_call(c, argv, n, NULL, &r, err);
    return r && rc != LEAT_OK ? refused(r, err) : rc;
}

/* A name is a comfort: a server that forbids it is no reason to stop. */
static leat_code set_name(leat_conn *c, const char *name, leat_error *err)
{
    leat_code rc = leat_conn_call(
        c, LEAT_ARGS(leat_str("CLIENT"), leat_str("SETNAME"), leat_str(name)),
        NULL, NULL, err);
    return c->t ? LEAT_OK : rc;
}

static leat_code select_db(leat_conn *c, int db, leat_error *err)
{
    char text[16];
    if (db == 0)
        return LEAT_OK;
    snprintf(text, sizeof text, "%d", db);
    return leat_conn_call(c, LEAT_ARGS(leat_str("SELECT"), leat_str(text)),
                          NULL, NULL, err);
}

static leat_code log_in(leat_conn *c, const leat__login *l, leat_error *err)
{
    bool missing = true;
    leat_code rc = LEAT_OK;

    if (!l->resp2)
        rc = hello(c, l, &missing, err);
    if (missing) {
        rc = auth(c, l, err);
        if (rc == LEAT_OK)
            rc = set_name(c, l->name, err);
    }
    return rc == LEAT_OK ? select_db(c, l->db, err) : rc;
}

leat_code leat__handshake(leat_conn *c, const leat__login *l, leat_error *err)
{
    leat__resp_limits usual = c->resp.limits;
    c->resp.limits.reply = c->resp.limits.bulk = LEAT__LOGIN_REPLY_MAX;
    leat_code rc = log_in(c, l, err);
    c->resp.limits = usual;
    return rc;
}
