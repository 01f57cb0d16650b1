/*
 * certs.h: certificates for tests, made by OpenSSL's library on the spot.
 *
 *   certs_make(dir, "ca", &(cert_opts){ .authority = true });
 *   certs_make(dir, "server", &(cert_opts){
 *       .issuer = "ca", .names = "DNS:localhost,IP:127.0.0.1" });
 *
 * writes dir/server.crt and dir/server.key (mode 0600), with a P-256 key.
 * certs_usual makes the set that redis_start expects in its option tls.
 */
#ifndef SUPPORT_CERTS_H
#define SUPPORT_CERTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cert_opts {
    const char *issuer;   /* another name of the directory; NULL: itself */
    const char *names;    /* subjectAltName; NULL: none                  */
    const char *subject;  /* the common name; NULL: "leat test NAME"     */
    bool authority;       /* may sign others                             */
    int64_t from_s;       /* valid from so many seconds after now; 0: an
                            hour ago                                    */
    int64_t until_s;      /* until then; 0: for a day                    */
    const char *key;      /* use the key of this name instead of a new one */
    const char *password; /* encrypt the key                            */
} cert_opts;

/* A new directory for them, which certs_remove removes with what is in it; one
 * that a killed test left is swept like a server's (redis.c).  NULL on
 * failure, else buf. */
char *certs_dir(char *buf, size_t size);
void certs_remove(const char *dir);

/* False after saying why on stderr. */
bool certs_make(const char *dir, const char *name, const cert_opts *opts);

/* ca, server (for localhost, 127.0.0.1 and ::1) and client, signed by ca. */
bool certs_usual(const char *dir);

#endif
