/*
 * heir.c: closing the connection before.
 *
 * Only on the same life of the same server does a number name the same
 * connection; after a restart it may be somebody else's, and the old one is
 * gone anyway.
 */
#include "redis/heir.h"
#include "redis/script.h"

#include <string.h>

/* The value of "run_id:" in the text of INFO; false: there is none. */
static bool run_id(leat_bytes info, char *out, size_t room)
{
    static const char key[] = "\nrun_id:";
    const char *p = info.n ? memmem(info.p, info.n, key, sizeof key - 1) : NULL;
    if (!p)
        return false;
    p += sizeof key - 1;
    const char *end = (const char *)info.p + info.n;
    size_t n = 0;
    while (p + n < end && p[n] != '\r' && p[n] != '\n' && n + 1 < room)
        n++;
    memcpy(out, p, n);
    out[n] = '\0';
    return n > 0;
}

static void on_info(void *arg, const leat_reply *r, const leat_error *e)
{
    leat__heir *h = arg;
    if (e || !run_id(leat_reply_bytes(r), h->server, sizeof h->server))
        h->server[0] = '\0';
}

static void on_id(void *arg, const leat_reply *r, const leat_error *e)
{
    leat__heir *h = arg;
    h->id = e ? 0 : leat_reply_int(r);
}

static void ignore(void *arg, const leat_reply *r, const leat_error *e)
{
    (void)arg;
    (void)r;
    (void)e;
}

static leat_code ask(leat__heir *h, leat_conn *c, leat_error *err)
{
    leat_code rc = leat_conn_send(
        c, LEAT_ARGS(leat_str("INFO"), leat_str("server")),
        &(leat_send_opts){ .fn = on_info, .arg = h }, err);
    if (rc == LEAT_OK)
        rc = leat_conn_send(c, LEAT_ARGS(leat_str("CLIENT"), leat_str("ID")),
                            &(leat_send_opts){ .fn = on_id, .arg = h }, err);
    return rc == LEAT_OK ? leat_conn_drain(c, 0, err) : rc;
}

static leat_code end_other(leat_conn *c, int64_t id, leat_error *err)
{
    char number[LEAT__NUMBER];
    leat_code rc = leat_conn_send(c,
                                  LEAT_ARGS(leat_str("CLIENT"),
                                            leat_str("KILL"), leat_str("ID"),
                                            leat__arg_int(number, id)),
                                  &(leat_send_opts){ .fn = ignore }, err);
    return rc == LEAT_OK ? leat_conn_drain(c, 0, err) : rc;
}

leat_code leat__heir_take(leat__heir *h, leat_conn *c, leat_error *err)
{
    leat__heir now = { 0 };
    leat_code rc = ask(&now, c, err);
    if (rc != LEAT_OK)
        return rc; /* h stays: there is still one to be closed */
    bool same = h->id > 0 && now.server[0] &&
                strcmp(h->server, now.server) == 0;
    if (same && h->id != now.id)
        rc = end_other(c, h->id, err);
    if (rc == LEAT_OK)
        *h = now;
    return rc;
}
