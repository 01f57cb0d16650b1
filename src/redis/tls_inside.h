/*
 * tls_inside.h: what tls.c, tls_io.c and tls_error.c know of each other.
 */
#ifndef LEAT_REDIS_TLS_INSIDE_H
#define LEAT_REDIS_TLS_INSIDE_H

#include "base/map.h"
#include "redis/tls.h"

#include <openssl/ssl.h>
#include <pthread.h>

enum {
    LEAT__TLS_PLACES = 1024,      /* servers whose sessions are kept        */
    LEAT__TLS_RECORD = 16 * 1024, /* plain bytes of one record              */
    LEAT__TLS_SEALED = LEAT__TLS_RECORD + 512, /* the same, encrypted       */
    LEAT__TLS_RECORDS = 4                      /* written by one call       */
};

/* One server, and the newest session that it offered. */
typedef struct leat__tls_place {
    SSL_SESSION *session; /* guarded by leat__tls.lock; NULL: none */
} leat__tls_place;

struct leat__tls {
    SSL_CTX *ctx;
    BIO_METHOD *bio;
    char *host; /* the name to verify; NULL: the one dialled */
    bool insecure;
    bool has_cert;

    pthread_mutex_t lock;
    leat__map places; /* "host:port" to leat__tls_place */
};

/* A record that was encrypted and has not wholly left. */
typedef struct leat__tls_record {
    uint64_t end; /* of its bytes in the stream to the socket */
    size_t plain; /* bytes that it holds                      */
} leat__tls_record;

/* One connection. */
typedef struct leat__tls_link {
    leat__transport t; /* first: it is what others see */
    leat__transport *below;
    leat__tls *tls;
    leat__tls_place *place;
    SSL *ssl;
    char name[256];  /* that the certificate must bear    */
    char where[280]; /* host:port, for people             */
    leat_error why;  /* the failure that t.why points to  */
    bool judged;     /* why says what is wrong with a certificate */

    bool asked;  /* the server wants a certificate and we have none */
    bool shaken; /* the handshake is done                           */
    bool spoken; /* data has come                                   */
    bool over;   /* nothing will be received any more, for: */
    int over_sys;

    bool wait, may_read; /* for the one read below that a recv makes */
    bool eof;
    int recv_sys, send_sys; /* what failed below; 0: nothing */

    leat__tls_record records[LEAT__TLS_RECORDS];
    size_t record_count;
    size_t sealed;       /* plain bytes in records            */
    uint64_t made, left; /* bytes ever put into out, and sent */
    size_t start, end;   /* of what is in out                 */
    char plain[LEAT__TLS_RECORD];
    char out[LEAT__TLS_RECORDS * LEAT__TLS_SEALED];
} leat__tls_link;

/* How OpenSSL reads and writes through a link; NULL: no memory. */
BIO_METHOD *leat__tls_bio_method(void);

/* The place of a server.  *out is NULL, with LEAT_OK, where there are too many:
 * its sessions are not kept. */
leat_code leat__tls_place_get(leat__tls *tls, const char *where,
                              leat__tls_place **out, leat_error *err);

/* Try the last session of this place, or forget it. */
void leat__tls_resume(leat__tls_link *l);
void leat__tls_forget(leat__tls_link *l);

/* OpenSSL failed a call of ours for its own reasons. */
leat_code leat__tls_fail(leat_error *err, const char *what);

/* Note what is wrong with a certificate, while it is looked at. */
void leat__tls_judge(leat__tls_link *l, X509_STORE_CTX *chain);

/* OpenSSL has ended the connection: say why in l->why. */
void leat__tls_explain(leat__tls_link *l);

/* The peer has closed it, or the system: the same. */
void leat__tls_explain_end(leat__tls_link *l, int sys);

#endif
