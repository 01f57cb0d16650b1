/*
 * tls.c: whom a client trusts, who it is, and its sessions.
 *
 * TLS 1.2 and up.  The chain is verified against the authorities that the
 * options name, or the system's; the name against the certificate's.  There is
 * no way to go on without: only `insecure` leaves both out, and says so.
 *
 * A private key that others can read is refused, as a password file is: owner
 * only, or root's and readable by a group, as Debian keeps those in
 * /etc/ssl/private.
 *
 * Sessions.  A server hands out tickets (TLS 1.3 with its first answers); the
 * newest is kept for each host and port and offered at the next connect, which
 * is then a shorter handshake without certificates.  That is no way around the
 * verification: a session is only kept by the leat__tls whose rules it passed,
 * and only used for the same host and port.  A failed handshake forgets it.
 */
#include "base/mem.h"
#include "redis/tls_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_AHEAD = 4 * LEAT__TLS_SEALED };

leat_code leat__tls_fail(leat_error *err, const char *what)
{
    unsigned long e = ERR_peek_error();
    const char *text = ERR_reason_error_string(e);
    if (e == 0 || ERR_GET_REASON(e) == ERR_R_MALLOC_FAILURE)
        return leat__fail(err, LEAT_ENOMEM, "no memory to %s", what);
    return leat__fail(err, LEAT_EIO, "cannot %s: %s", what,
                      text ? text : "OpenSSL gives no reason");
}

/* ---- files ------------------------------------------------------------ */

static leat_code unreadable(leat_error *err, const char *what, const char *path,
                            int sys)
{
    return leat__fail_errno(err, LEAT_EINVAL, sys, "cannot read the %s '%s'",
                            what, path);
}

/* Look at a file before OpenSSL does, whose errors do not say which. */
static leat_code look(const char *what, const char *path, bool dir,
                      struct stat *st, leat_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return unreadable(err, what, path, errno);
    int rc = fstat(fd, st);
    int sys = errno;
    close(fd);
    if (rc != 0)
        return unreadable(err, what, path, sys);
    if (dir && !S_ISDIR(st->st_mode))
        return unreadable(err, what, path, ENOTDIR);
    if (!dir && S_ISDIR(st->st_mode))
        return unreadable(err, what, path, EISDIR);
    return LEAT_OK;
}

static leat_code no_memory_or(leat_error *err, const char *what,
                              const char *path, const char *todo)
{
    if (ERR_GET_REASON(ERR_peek_error()) == ERR_R_MALLOC_FAILURE)
        return leat__tls_fail(err, "read certificates");
    return leat__fail(err, LEAT_EINVAL, "the %s '%s' %s", what, path, todo);
}

static leat_code trust(SSL_CTX *ctx, const leat_tls_opts *o, leat_error *err)
{
    struct stat st;
    leat_code rc = LEAT_OK;
    if (o->ca_file)
        rc = look("CA file", o->ca_file, false, &st, err);
    if (rc == LEAT_OK && o->ca_file &&
        SSL_CTX_load_verify_file(ctx, o->ca_file) != 1)
        rc = no_memory_or(err, "CA file", o->ca_file,
                          "holds no certificate in PEM form");
    if (rc == LEAT_OK && o->ca_dir)
        rc = look("CA directory", o->ca_dir, true, &st, err);
    if (rc == LEAT_OK && o->ca_dir &&
        SSL_CTX_load_verify_dir(ctx, o->ca_dir) != 1)
        rc = leat__tls_fail(err, "use the CA directory");
    if (!o->ca_file && !o->ca_dir && !o->insecure &&
        SSL_CTX_set_default_verify_paths(ctx) != 1)
        rc = leat__tls_fail(err, "use the system's certificates");
    return rc;
}

static leat_code key_is_private(const char *path, leat_error *err)
{
    struct stat st = { 0 };
    leat_code rc = look("key", path, false, &st, err);
    if (rc != LEAT_OK)
        return rc;
    mode_t loose = st.st_uid == 0 ? 037 : 077;
    if (st.st_mode & loose)
        return leat__fail(err, LEAT_EINVAL,
                          "the key '%s' can be read by others, chmod 600 it",
                          path);
    return LEAT_OK;
}

/* Nobody is there to be asked for a password. */
static int no_password(char *buf, int size, int writing, void *arg)
{
    (void)buf;
    (void)size;
    (void)writing;
    *(bool *)arg = true;
    return -1;
}

static leat_code use_key(SSL_CTX *ctx, const leat_tls_opts *o, leat_error *err)
{
    const char *key = o->key ? o->key : o->cert;
    bool locked = false;
    leat_code rc = key_is_private(key, err);
    if (rc != LEAT_OK)
        return rc;
    SSL_CTX_set_default_passwd_cb(ctx, no_password);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, &locked);
    ERR_clear_error();
    int got = SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM);
    bool other = ERR_GET_REASON(ERR_peek_last_error()) ==
                 X509_R_KEY_VALUES_MISMATCH;
    SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
    if (locked)
        return leat__fail(err, LEAT_EINVAL,
                          "the key '%s' is encrypted, name one that is not",
                          key);
    if (got != 1 && !other && !o->key)
        return no_memory_or(err, "certificate", key,
                            "comes without a key, name it with key");
    if (got != 1 && !other)
        return no_memory_or(err, "key", key, "holds no key in PEM form");
    if (got != 1 || SSL_CTX_check_private_key(ctx) != 1)
        return leat__fail(err, LEAT_EINVAL,
                          "the key '%s' does not belong to the certificate "
                          "'%s'",
                          key, o->cert);
    return LEAT_OK;
}

static leat_code introduce(SSL_CTX *ctx, const leat_tls_opts *o,
                           leat_error *err)
{
    struct stat st;
    if (!o->cert && o->key)
        return leat__fail(err, LEAT_EINVAL,
                          "there is a key and no certificate, name both");
    if (!o->cert)
        return LEAT_OK;
    leat_code rc = look("certificate", o->cert, false, &st, err);
    if (rc != LEAT_OK)
        return rc;
    if (SSL_CTX_use_certificate_chain_file(ctx, o->cert) != 1)
        return no_memory_or(err, "certificate", o->cert,
                            "holds no certificate in PEM form");
    return use_key(ctx, o, err);
}

/* ---- sessions --------------------------------------------------------- */

leat_code leat__tls_place_get(leat__tls *tls, const char *where,
                              leat__tls_place **out, leat_error *err)
{
    leat_code rc = LEAT_OK;
    leat_bytes name = leat_str(where);
    pthread_mutex_lock(&tls->lock);
    *out = leat__map_get(&tls->places, name);
    if (!*out && tls->places.count < LEAT__TLS_PLACES) {
        leat__tls_place *p = leat__zalloc(sizeof *p, err);
        rc = p ? leat__map_put(&tls->places, name, p, NULL, err) : LEAT_ENOMEM;
        if (rc != LEAT_OK)
            leat__free(p);
        else
            *out = p;
    }
    pthread_mutex_unlock(&tls->lock);
    return rc;
}

static void replace(leat__tls_link *l, SSL_SESSION *with)
{
    pthread_mutex_lock(&l->tls->lock);
    SSL_SESSION *old = l->place->session;
    l->place->session = with;
    pthread_mutex_unlock(&l->tls->lock);
    SSL_SESSION_free(old);
}

/* 1: the session is ours now. */
static int on_session(SSL *ssl, SSL_SESSION *s)
{
    leat__tls_link *l = SSL_get_app_data(ssl);
    if (!l || !l->place)
        return 0;
    replace(l, s);
    return 1;
}

void leat__tls_resume(leat__tls_link *l)
{
    if (!l->place)
        return;
    pthread_mutex_lock(&l->tls->lock);
    if (l->place->session)
        (void)SSL_set_session(l->ssl, l->place->session);
    pthread_mutex_unlock(&l->tls->lock);
}

void leat__tls_forget(leat__tls_link *l)
{
    if (l->place)
        replace(l, NULL);
}

/* ---- the context ------------------------------------------------------ */

static int on_verify(int good, X509_STORE_CTX *chain)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(chain,
                                          SSL_get_ex_data_X509_STORE_CTX_idx());
    leat__tls_link *l = ssl ? SSL_get_app_data(ssl) : NULL;
    if (!good && l)
        leat__tls_judge(l, chain);
    return good;
}

/* Called only where we have none to give. */
static int on_asked(SSL *ssl, X509 **cert, EVP_PKEY **key)
{
    leat__tls_link *l = SSL_get_app_data(ssl);
    (void)cert;
    (void)key;
    if (l)
        l->asked = true;
    return 0;
}

/* Renegotiation, which only TLS 1.2 has, is refused: a read then never needs a
 * write first. */
static leat_code set_rules(leat__tls *tls, leat_error *err)
{
    SSL_CTX *ctx = tls->ctx;
    if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
        return leat__tls_fail(err, "ask for TLS 1.2");
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_default_read_buffer_len(ctx, READ_AHEAD);
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ctx),
                                X509_V_FLAG_PARTIAL_CHAIN);
    if (tls->insecure)
        SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
    else
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, on_verify);
    SSL_CTX_set_client_cert_cb(ctx, on_asked);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT |
                                            SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ctx, on_session);
    return LEAT_OK;
}

leat__tls *leat__tls_new(const leat_tls_opts *opts, leat_error *err)
{
    static const leat_tls_opts none = { 0 };
    const leat_tls_opts *o = opts ? opts : &none;
    leat__tls *tls = leat__zalloc(sizeof *tls, err);
    if (!tls)
        return NULL;
    pthread_mutex_init(&tls->lock, NULL);
    tls->insecure = o->insecure;
    tls->has_cert = o->cert != NULL;

    /* Threads of ours may still run while the process exits. */
    (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    ERR_clear_error();
    tls->ctx = SSL_CTX_new(TLS_client_method());
    tls->bio = leat__tls_bio_method();
    if (!tls->ctx || !tls->bio) {
        leat__tls_fail(err, "set up TLS");
        goto fail;
    }
    if (o->host && !(tls->host = leat__strdup(o->host, err)))
        goto fail;
    if (set_rules(tls, err) != LEAT_OK || trust(tls->ctx, o, err) != LEAT_OK ||
        introduce(tls->ctx, o, err) != LEAT_OK)
        goto fail;
    return tls;

fail:
    ERR_clear_error();
    leat__tls_free(tls);
    return NULL;
}

void leat__tls_free(leat__tls *tls)
{
    size_t at = 0;
    leat__tls_place *p;
    if (!tls)
        return;
    while ((p = leat__map_next(&tls->places, &at, NULL)) != NULL) {
        SSL_SESSION_free(p->session);
        leat__free(p);
    }
    leat__map_release(&tls->places);
    SSL_CTX_free(tls->ctx);
    BIO_meth_free(tls->bio);
    leat__free(tls->host);
    pthread_mutex_destroy(&tls->lock);
    leat__free(tls);
}
