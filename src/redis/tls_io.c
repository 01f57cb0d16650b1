/*
 * tls_io.c: the bytes of a TLS connection.
 *
 *   sendv -> plain -> SSL_write -> out -> socket
 *   recv  <-          SSL_read  <-        socket, read ahead inside OpenSSL
 *
 * Sending.  The pieces of a sendv become records of up to 16 KiB, a few at a
 * time, in `out`, and one write below sends them all.  A record counts as sent
 * once its last byte was taken by the socket, and not before: of a command in a
 * record that left in part the server has seen nothing, for it cannot open an
 * incomplete record.  So "not sent" stays certain, and "sent" means what it
 * means on a plain socket.  What is in `out` and did not leave is counted by
 * the next sendv, whose first bytes are the same; only sendv sends records, so
 * that none leaves without being counted.
 *
 * Receiving.  A recv makes at most one read below and then hands out all that
 * OpenSSL could open of it; where the caller's room ends first, `more` says so,
 * because poll cannot.  Tickets and the like are dealt with on the way; an
 * answer they need (a key update) waits in `out` for its turn.
 *
 * Closing sends nothing: the child of a fork closes too, and a close_notify
 * from there would end the parent's stream.  A peer that closes without one is
 * at its end as well; RESP says by itself whether an answer was whole.
 */
#include "base/mem.h"
#include "base/system.h"
#include "redis/tls_inside.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

typedef leat__tls_link tls_link;

static bool passing(int sys)
{
    return sys == EAGAIN || sys == EWOULDBLOCK || sys == EINTR;
}

/* ---- below OpenSSL ---------------------------------------------------- */

static int bio_read(BIO *b, char *buf, size_t n, size_t *got)
{
    tls_link *l = BIO_get_data(b);
    BIO_clear_retry_flags(b);
    if (!l->may_read) {
        BIO_set_retry_read(b);
        return 0;
    }
    l->may_read = false;
    ssize_t in = l->below->ops->recv(l->below, buf, n, l->wait);
    if (in > 0) {
        *got = (size_t)in;
        return 1;
    }
    if (in == 0)
        l->eof = true;
    else if (passing(errno))
        BIO_set_retry_read(b);
    else
        l->recv_sys = errno;
    return 0;
}

static int bio_write(BIO *b, const char *buf, size_t n, size_t *put)
{
    tls_link *l = BIO_get_data(b);
    size_t room = sizeof l->out - l->end;
    BIO_clear_retry_flags(b);
    if (room == 0) {
        BIO_set_retry_write(b);
        return 0;
    }
    if (n > room)
        n = room;
    memcpy(l->out + l->end, buf, n);
    l->end += n;
    l->made += n;
    *put = n;
    return 1;
}

static long bio_ctrl(BIO *b, int what, long number, void *arg)
{
    const tls_link *l = BIO_get_data(b);
    (void)number;
    (void)arg;
    if (what == BIO_CTRL_EOF)
        return l && l->eof;
    return what == BIO_CTRL_FLUSH;
}

BIO_METHOD *leat__tls_bio_method(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "leat");
    if (m && BIO_meth_set_read_ex(m, bio_read) == 1 &&
        BIO_meth_set_write_ex(m, bio_write) == 1 &&
        BIO_meth_set_ctrl(m, bio_ctrl) == 1)
        return m;
    BIO_meth_free(m);
    return NULL;
}

/* Write what is in `out`; false: not all of it, and send_sys is set unless the
 * socket is only full. */
static bool push(tls_link *l)
{
    while (l->start < l->end && l->send_sys == 0) {
        struct iovec v = { l->out + l->start, l->end - l->start };
        ssize_t n = l->below->ops->sendv(l->below, &v, 1);
        if (n > 0) {
            l->start += (size_t)n;
            l->left += (uint64_t)n;
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else if (n < 0 && passing(errno)) {
            return false;
        } else {
            l->send_sys = n < 0 ? errno : EPIPE;
        }
    }
    if (l->start < l->end)
        return false;
    l->start = l->end = 0;
    return true;
}

/* ---- receiving -------------------------------------------------------- */

/* After a call of OpenSSL that failed: false, and only later there is more; or
 * true, it is over. */
static bool ended(tls_link *l, int rc)
{
    int what = SSL_get_error(l->ssl, rc);
    if (what == SSL_ERROR_WANT_READ || what == SSL_ERROR_WANT_WRITE)
        return false;
    l->over = true;
    if (what == SSL_ERROR_ZERO_RETURN || l->eof || l->recv_sys) {
        l->over_sys = what == SSL_ERROR_ZERO_RETURN || l->eof ? 0 : l->recv_sys;
        leat__tls_explain_end(l, l->over_sys);
    } else {
        l->over_sys = EPROTO;
        leat__tls_explain(l);
    }
    ERR_clear_error();
    return true;
}

static ssize_t tell_end(tls_link *l)
{
    errno = l->over_sys;
    return l->over_sys ? -1 : 0;
}

static ssize_t tls_recv(leat__transport *t, void *buf, size_t n, bool wait)
{
    tls_link *l = (tls_link *)t;
    size_t got = 0, some;
    int rc = 1;

    t->wants = POLLIN;
    t->more = false;
    if (l->over)
        return tell_end(l);
    l->wait = wait;
    l->may_read = true;
    ERR_clear_error();
    while (got < n &&
           (rc = SSL_read_ex(l->ssl, (char *)buf + got, n - got, &some)) == 1) {
        got += some;
        if (!SSL_has_pending(l->ssl))
            break;
    }
    l->spoken = l->spoken || got > 0;
    bool end = rc != 1 && ended(l, rc);
    if (l->record_count == 0 && l->end > l->start)
        (void)push(l);
    if (got > 0) {
        t->more = end || (rc == 1 && SSL_has_pending(l->ssl));
        return (ssize_t)got;
    }
    if (end)
        return tell_end(l);
    if (l->end > l->start)
        t->wants = POLLIN | POLLOUT;
    errno = EAGAIN;
    return -1;
}

/* ---- sending ---------------------------------------------------------- */

typedef struct cursor {
    const struct iovec *v;
    int left;    /* pieces */
    size_t into; /* bytes of the first that are done */
} cursor;

static void skip(cursor *c, size_t n)
{
    while (c->left > 0 && n >= c->v->iov_len - c->into) {
        n -= c->v->iov_len - c->into;
        c->v++;
        c->left--;
        c->into = 0;
    }
    assert(c->left > 0 || n == 0);
    c->into += n;
}

/* The next bytes for one record: where they lie if they lie together, else
 * gathered. */
static const char *next_record(tls_link *l, cursor *c, size_t *n)
{
    *n = 0;
    if (c->left == 0)
        return NULL;
    const char *here = (const char *)c->v->iov_base + c->into;
    size_t size = c->v->iov_len - c->into;
    if (size >= LEAT__TLS_RECORD || c->left == 1) {
        *n = size < LEAT__TLS_RECORD ? size : LEAT__TLS_RECORD;
        skip(c, *n);
        return here;
    }
    while (c->left > 0 && *n < LEAT__TLS_RECORD) {
        size_t room = LEAT__TLS_RECORD - *n;
        size = c->v->iov_len - c->into;
        size = size < room ? size : room;
        memcpy(l->plain + *n, (const char *)c->v->iov_base + c->into, size);
        *n += size;
        skip(c, size);
    }
    return l->plain;
}

static bool roomy(const tls_link *l)
{
    return l->record_count < LEAT__TLS_RECORDS &&
           sizeof l->out - l->end >= LEAT__TLS_SEALED;
}

/* Encrypt what is not yet.  With room for a whole record OpenSSL has nothing
 * to wait for: if it fails, it is over. */
static void seal(tls_link *l, const struct iovec *v, int pieces)
{
    cursor c = { v, pieces, 0 };
    skip(&c, l->sealed);
    while (roomy(l)) {
        size_t n, put;
        const char *p = next_record(l, &c, &n);
        if (n == 0)
            return;
        ERR_clear_error();
        int rc = SSL_write_ex(l->ssl, p, n, &put);
        if (rc != 1) {
            if (!ended(l, rc))
                leat__tls_explain(l);
            l->send_sys = EPROTO;
            return;
        }
        assert(put == n);
        l->records[l->record_count++] = (leat__tls_record){ l->made, n };
        l->sealed += n;
    }
}

/* Plain bytes whose records have left since the last time. */
static size_t count_sent(tls_link *l)
{
    size_t n = 0, i = 0;
    while (i < l->record_count && l->records[i].end <= l->left)
        n += l->records[i++].plain;
    l->record_count -= i;
    memmove(l->records, l->records + i, l->record_count * sizeof *l->records);
    l->sealed -= n;
    return n;
}

static ssize_t tls_sendv(leat__transport *t, const struct iovec *v, int pieces)
{
    tls_link *l = (tls_link *)t;
    t->wants = POLLOUT;
    if (l->send_sys == 0)
        seal(l, v, pieces);
    (void)push(l);
    size_t sent = count_sent(l);
    if (sent > 0)
        return (ssize_t)sent;
    errno = l->send_sys ? l->send_sys : EAGAIN;
    return -1;
}

/* ---- a connection's life ---------------------------------------------- */

static void tls_close(leat__transport *t)
{
    tls_link *l = (tls_link *)t;
    if (l->ssl) {
        /* Otherwise OpenSSL takes the session for a bad one. */
        SSL_set_shutdown(l->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
        SSL_free(l->ssl);
    }
    l->below->ops->close(l->below);
    leat__free(l);
}

static const leat__transport_ops ops = {
    .recv = tls_recv,
    .sendv = tls_sendv,
    .close = tls_close,
};

static bool is_address(const char *name)
{
    struct in6_addr room;
    return inet_pton(AF_INET, name, &room) == 1 ||
           inet_pton(AF_INET6, name, &room) == 1;
}

/* Whom to expect.  The date is the system table's. */
static bool expect(tls_link *l)
{
    X509_VERIFY_PARAM *p = SSL_get0_param(l->ssl);
    X509_VERIFY_PARAM_set_time(p, (time_t)(leat__date_ms() / 1000));
    X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (is_address(l->name))
        return X509_VERIFY_PARAM_set1_ip_asc(p, l->name) == 1;
    return SSL_set1_host(l->ssl, l->name) == 1 &&
           SSL_set_tlsext_host_name(l->ssl, l->name) == 1;
}

static bool set_ssl(tls_link *l)
{
    l->ssl = SSL_new(l->tls->ctx);
    if (!l->ssl)
        return false;
    SSL_set_app_data(l->ssl, l);
    SSL_set_connect_state(l->ssl);
    BIO *b = BIO_new(l->tls->bio);
    if (!b)
        return false;
    BIO_set_data(b, l);
    BIO_set_init(b, 1);
    SSL_set_bio(l->ssl, b, b);
    return expect(l);
}

/* The name without the dot that ends a full one: certificates have none. */
static void set_name(tls_link *l, const char *host)
{
    const char *name = l->tls->host ? l->tls->host : host;
    size_t n = strlen(name);
    if (n > 0 && name[n - 1] == '.')
        n--;
    snprintf(l->name, sizeof l->name, "%.*s", (int)n, name);
}

static tls_link *link_new(leat__tls *tls, const char *host, int port,
                          leat__transport *below, leat_error *err)
{
    tls_link *l = leat__zalloc(sizeof *l, err);
    if (!l)
        return NULL;
    l->t.ops = &ops;
    l->t.fd = below->fd;
    l->tls = tls;
    l->below = below;
    set_name(l, host);
    snprintf(l->where, sizeof l->where, "%.256s:%d", host, port);
    ERR_clear_error();
    if (leat__tls_place_get(tls, l->where, &l->place, err) != LEAT_OK)
        goto fail;
    if (set_ssl(l)) {
        leat__tls_resume(l);
        return l;
    }
    leat__tls_fail(err, "set up a TLS connection");

fail:
    ERR_clear_error();
    SSL_free(l->ssl);
    leat__free(l);
    return NULL;
}

static leat_code wait_for(tls_link *l, short events, int64_t deadline_ns,
                          leat_error *err)
{
    for (;;) {
        struct pollfd p = { .fd = l->t.fd, .events = events };
        int64_t left = leat__left_ms(deadline_ns);
        int n = leat__sys->poll(leat__sys->arg, &p, 1, left * 1000000);
        if (n > 0)
            return LEAT_OK;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return leat__fail_errno(err, LEAT_ECONN, errno, "cannot poll");
        return leat__fail(err, LEAT_ETIMEOUT,
                          "%s: the TLS handshake was not answered in time; if "
                          "the server does not speak TLS, use redis://",
                          l->where);
    }
}

/* One step: *done, or poll for *events. */
static leat_code step(tls_link *l, bool *done, short *events, leat_error *err)
{
    ERR_clear_error();
    l->may_read = true;
    int rc = SSL_do_handshake(l->ssl);
    bool end = rc != 1 && ended(l, rc);
    bool sent = push(l); /* an alert of ours, too */
    if (!end && l->send_sys) {
        leat__tls_explain_end(l, l->send_sys);
        end = true;
    }
    if (end) {
        if (err)
            *err = l->why;
        return l->why.code;
    }
    *done = rc == 1 && sent;
    *events = (short)((rc != 1 ? POLLIN : 0) | (sent ? 0 : POLLOUT));
    return LEAT_OK;
}

static leat_code shake(tls_link *l, int64_t deadline_ns, leat_error *err)
{
    bool done = false;
    short events = 0;
    leat_code rc = step(l, &done, &events, err);
    while (rc == LEAT_OK && !done) {
        rc = wait_for(l, events, deadline_ns, err);
        if (rc == LEAT_OK)
            rc = step(l, &done, &events, err);
    }
    if (rc != LEAT_OK)
        leat__tls_forget(l);
    l->shaken = rc == LEAT_OK;
    return rc;
}

leat__transport *leat__transport_tls(leat__tls *tls, const char *host, int port,
                                     int64_t deadline_ns, leat_error *err)
{
    leat__transport *below = leat__transport_tcp(host, port, deadline_ns, err);
    if (!below)
        return NULL;
    tls_link *l = link_new(tls, host, port, below, err);
    if (!l) {
        below->ops->close(below);
        return NULL;
    }
    if (shake(l, deadline_ns, err) == LEAT_OK)
        return &l->t;
    tls_close(&l->t);
    return NULL;
}
