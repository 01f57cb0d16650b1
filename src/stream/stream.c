/*
 * stream.c: the handle, from which sources and sinks are opened.
 *
 *   <name>   stream   the messages; its groups are the server's own
 *
 * Leat keeps no other key for a plain stream: any program can read and write
 * it, and a crash leaves nothing behind but pending entries and, at worst, the
 * name of a consumer, which the others remove once nothing is pending there.
 */
#include "stream/stream.h"
#include "base/mem.h"
#include "base/system.h"
#include "redis/client.h"
#include "redis/shape.h"

enum {
    FIRST_RETRY_MS = 25,
    MAX_RETRY_MS = 500,
    ASKED_MS = 1000 /* then it is looked again who has the stream */
};

leat_code leat__stream_name_check(const char *name, leat_error *err)
{
    if (name && name[0] && strlen(name) <= LEAT__STREAM_NAME)
        return LEAT_OK;
    return leat__fail(err, LEAT_EINVAL,
                      "a stream needs a name, of at most %d bytes",
                      LEAT__STREAM_NAME);
}

/* The name may be anything: it is cut, and printed by who knows how. */
leat_code leat__stream_kind(const char *name, leat_bytes kind, leat_error *err)
{
    if (leat_bytes_eq(kind, leat_str("stream")))
        return LEAT_OK;
    if (leat_bytes_eq(kind, leat_str("none")))
        return leat__fail(err, LEAT_ENOENT, "there is no stream '%.100s'",
                          name);
    return leat__fail(err, LEAT_EINVAL, "the key '%.100s' is a %.*s, no stream",
                      name, kind.n > 40 ? 40 : (int)kind.n,
                      (const char *)kind.p);
}

leat_code leat__stream_there(leat_client *c, const char *name, leat_error *err)
{
    leat_reply *r = NULL;
    const leat_call_opts again = { .idempotent = true };
    leat_code rc = leat__stream_name_check(name, err);
    if (rc == LEAT_OK)
        rc = leat_client_call(c, LEAT_ARGS(leat_str("TYPE"), leat_str(name)),
                              &again, &r, err);
    if (rc == LEAT_OK)
        rc = leat__reply_want(r, "t", LEAT_EPROTO, "TYPE", err);
    if (rc == LEAT_OK)
        rc = leat__stream_kind(name, leat_reply_bytes(r), err);
    leat_reply_free(r);
    return rc;
}

leat_stream *leat_stream_open(leat_client *c, const char *name,
                              const leat_stream_opts *opts, leat_error *err)
{
    if (leat__stream_name_check(name, err) != LEAT_OK)
        return NULL;
    leat_stream *s = leat__zalloc(sizeof *s, err);
    if (!s)
        return NULL;
    s->client = c;
    s->codec = opts && opts->codec ? opts->codec : &leat_codec_native;
    s->log = opts ? opts->log : (leat_logger){ 0 };
    s->metrics = opts ? opts->metrics : NULL;
    leat__client_inherit(c, &s->log, &s->metrics);
    atomic_store(&s->refs, 1);
    s->name = leat__strdup(name, err);
    if (!s->name || leat__client_keep(c, LEAT__A_STREAM, err) != LEAT_OK) {
        leat__free(s->name);
        leat__free(s);
        return NULL;
    }
    return s;
}

void leat__stream_keep(leat_stream *s)
{
    atomic_fetch_add(&s->refs, 1);
}

void leat__stream_drop(leat_stream *s)
{
    if (atomic_fetch_sub(&s->refs, 1) > 1)
        return;
    leat_client *c = s->client;
    leat__free(s->name);
    leat__free(s);
    leat__client_drop(c, LEAT__A_STREAM);
}

/* One of the pool, or on a cluster one made for this key: what the pool lends
 * there leads to all nodes, and a read that waits would hold up the others. */
leat_conn *leat__stream_connect(leat_stream *s, int64_t wait_ms,
                                leat_error *err)
{
    leat_error e;
    leat__backoff wait = { .base_ms = FIRST_RETRY_MS, .cap_ms = MAX_RETRY_MS };
    int64_t deadline = leat__deadline_ns(wait_ms);
    if (!leat__client_clustered(s->client))
        return leat_client_lend(s->client, wait_ms, err);
    for (;;) {
        leat_conn *conn = leat__client_dial_key(s->client, leat_str(s->name),
                                                deadline, &e);
        if (conn)
            return conn;
        if (!e.retriable || leat__now_ns() >= deadline ||
            !leat__client_pause(s->client, leat__backoff_next_ms(&wait),
                                deadline))
            break;
    }
    if (err)
        *err = e;
    return NULL;
}

void leat__stream_disconnect(leat_stream *s, leat_conn *conn)
{
    if (leat__client_clustered(s->client))
        leat__conn_free(conn);
    else
        leat_client_return(s->client, conn);
}

bool leat__stream_asked_long(const leat_conn *conn, int64_t since_ns)
{
    return conn->asking &&
           leat__now_ns() - since_ns > (int64_t)ASKED_MS * 1000000;
}

void leat_stream_close(leat_stream *s)
{
    if (s)
        leat__stream_drop(s);
}

const char *leat_stream_name(const leat_stream *s)
{
    return s->name;
}
