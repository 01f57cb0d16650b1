/*
 * stream.c: put a thousand messages on a Redis stream in one pipeline, then
 * read them back.
 *
 *   cc stream.c $(pkg-config --cflags --libs leat) -o stream
 *   ./stream redis://localhost        or: ./stream embedded:
 *
 * Each message is told how it ended: added, certainly not, or unknown.
 */
#include <leat/leat.h>
#include <stdio.h>

enum { COUNT = 1000 };

struct tally {
    int added, failed, unknown;
};

static void on_added(void *arg, const leat_reply *reply, const leat_error *err)
{
    struct tally *t = arg;
    (void)reply;
    if (!err)
        t->added++;
    else if (err->code == LEAT_EUNKNOWN)
        t->unknown++;
    else
        t->failed++;
}

/* XADD orders * field value ...: the fields are the codec's. */
static leat_code add(leat_conn *conn, leat_fields *f, const leat_msg *m,
                     struct tally *t, leat_error *err)
{
    leat_bytes argv[16] = { leat_str("XADD"), leat_str("orders"),
                            leat_str("*") };
    leat_fields_clear(f);
    leat_code rc = leat_codec_native.encode(&leat_codec_native, m, 1, f, err);
    if (rc != LEAT_OK)
        return rc;
    size_t n = 2 * leat_fields_count(f);
    for (size_t i = 0; i < n; i++)
        argv[3 + i] = leat_fields_pairs(f)[i];
    return leat_conn_send(conn, argv, 3 + n,
                          &(leat_send_opts){ .fn = on_added, .arg = t }, err);
}

static leat_code write_all(leat_conn *conn, leat_fields *f, leat_error *err)
{
    struct tally t = { 0 };
    leat_code rc = LEAT_OK;
    for (int i = 0; i < COUNT && rc == LEAT_OK; i++) {
        char id[32], body[32];
        snprintf(id, sizeof id, "order-%d", i);
        snprintf(body, sizeof body, "{\"order\":%d}", i);
        leat_msg m = { .id = leat_str(id),
                       .type = leat_str("order.placed"),
                       .body = leat_str(body) };
        rc = add(conn, f, &m, &t, err);
    }
    if (rc == LEAT_OK)
        rc = leat_conn_drain(conn, 0, err);
    printf("%d added, %d failed, %d unknown\n", t.added, t.failed, t.unknown);
    return rc;
}

/* An entry is [id, [field, value, ...]]. */
static leat_code show(const leat_reply *entry, leat_fields *f, leat_error *err)
{
    const leat_reply *pairs = leat_reply_at(entry, 1);
    const leat_msg *m;
    size_t n;
    leat_code rc = LEAT_OK;
    leat_fields_clear(f);
    for (size_t i = 0; i + 1 < leat_reply_len(pairs) && rc == LEAT_OK; i += 2)
        rc = leat_fields_add(f, leat_reply_bytes(leat_reply_at(pairs, i)),
                             leat_reply_bytes(leat_reply_at(pairs, i + 1)),
                             err);
    if (rc == LEAT_OK)
        rc = leat_codec_native.decode(&leat_codec_native, f, &m, &n, err);
    if (rc == LEAT_OK)
        printf("%.*s: %.*s\n", (int)m->id.n, (const char *)m->id.p,
               (int)m->body.n, (const char *)m->body.p);
    return rc;
}

static leat_code read_last(leat_conn *conn, leat_fields *f, leat_error *err)
{
    const leat_reply *r;
    leat_code rc = leat_conn_call(
        conn,
        LEAT_ARGS(leat_str("XREVRANGE"), leat_str("orders"), leat_str("+"),
                  leat_str("-"), leat_str("COUNT"), leat_str("3")),
        NULL, &r, err);
    for (size_t i = 0; rc == LEAT_OK && i < leat_reply_len(r); i++)
        rc = show(leat_reply_at(r, i), f, err);
    return rc;
}

int main(int argc, char **argv)
{
    leat_error err;
    leat_client *c = leat_client_open(argc > 1 ? argv[1] : "embedded:", NULL,
                                      &err);
    leat_conn *conn = c ? leat_client_lend(c, 5000, &err) : NULL;
    leat_fields *f = conn ? leat_fields_new(&err) : NULL;
    leat_code rc = f ? write_all(conn, f, &err) : err.code;
    if (rc == LEAT_OK)
        rc = read_last(conn, f, &err);
    if (rc != LEAT_OK)
        fprintf(stderr, "stream: %s\n", err.msg);
    leat_fields_free(f);
    if (c)
        leat_client_return(c, conn);
    leat_client_close(c);
    return rc == LEAT_OK ? 0 : 1;
}
