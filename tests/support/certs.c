/*
 * certs.c: keys, certificates and the files they are in.
 */
#include "support/certs.h"

#include <dirent.h>
#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PATH = 4096, HOUR = 3600, DAY = 24 * HOUR };

static FILE *open_file(const char *dir, const char *name, const char *suffix,
                       bool write)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/%s.%s", dir, name, suffix);
    int fd = open(path,
                  O_CLOEXEC | (write ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY),
                  0600);
    return fd < 0 ? NULL : fdopen(fd, write ? "w" : "r");
}

char *certs_dir(char *buf, size_t size)
{
    snprintf(buf, size, "/tmp/leat-r%d-XXXXXX", (int)getpid());
    return mkdtemp(buf);
}

void certs_remove(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    (void)rmdir(dir);
}

static X509 *load_cert(const char *dir, const char *name)
{
    FILE *f = open_file(dir, name, "crt", false);
    X509 *x = f ? PEM_read_X509(f, NULL, NULL, NULL) : NULL;
    if (f)
        (void)fclose(f);
    return x;
}

static EVP_PKEY *load_key(const char *dir, const char *name)
{
    FILE *f = open_file(dir, name, "key", false);
    EVP_PKEY *k = f ? PEM_read_PrivateKey(f, NULL, NULL, NULL) : NULL;
    if (f)
        (void)fclose(f);
    return k;
}

static bool save(const char *dir, const char *name, X509 *x, EVP_PKEY *k,
                 const char *password)
{
    FILE *f = open_file(dir, name, "crt", true);
    bool good = f && PEM_write_X509(f, x) == 1;
    if (f)
        good = fclose(f) == 0 && good;
    f = good ? open_file(dir, name, "key", true) : NULL;
    good = f && PEM_write_PrivateKey(f, k, password ? EVP_aes_128_cbc() : NULL,
                                     NULL, 0, NULL, (void *)password) == 1;
    if (f)
        good = fclose(f) == 0 && good;
    return good;
}

static bool extend(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool good = e && X509_add_ext(x, e, -1) == 1;
    X509_EXTENSION_free(e);
    return good;
}

static bool describe(X509 *x, const char *name, const cert_opts *o)
{
    char subject[128];
    uint64_t serial;
    snprintf(subject, sizeof subject, "leat test %s", name);
    return RAND_bytes((unsigned char *)&serial, sizeof serial) == 1 &&
           X509_set_version(x, X509_VERSION_3) == 1 &&
           ASN1_INTEGER_set_uint64(X509_get_serialNumber(x), serial >> 1) ==
               1 &&
           X509_gmtime_adj(X509_getm_notBefore(x),
                           o->from_s ? (long)o->from_s : -HOUR) &&
           X509_gmtime_adj(X509_getm_notAfter(x),
                           o->until_s ? (long)o->until_s : DAY) &&
           X509_NAME_add_entry_by_txt(
               X509_get_subject_name(x), "CN", MBSTRING_UTF8,
               (const unsigned char *)(o->subject ? o->subject : subject), -1,
               -1, 0) == 1;
}

static bool fill(X509 *x, EVP_PKEY *k, X509 *issuer, const char *name,
                 const cert_opts *o)
{
    return describe(x, name, o) && X509_set_pubkey(x, k) == 1 &&
           X509_set_issuer_name(x, X509_get_subject_name(issuer)) == 1 &&
           extend(x, issuer, NID_basic_constraints,
                  o->authority ? "critical,CA:TRUE" : "critical,CA:FALSE") &&
           extend(x, issuer, NID_subject_key_identifier, "hash") &&
           (!o->names || extend(x, issuer, NID_subject_alt_name, o->names));
}

bool certs_make(const char *dir, const char *name, const cert_opts *o)
{
    EVP_PKEY *own = o->key ? load_key(dir, o->key) : EVP_EC_gen("P-256");
    EVP_PKEY *sign = o->issuer ? load_key(dir, o->issuer) : own;
    X509 *issuer = o->issuer ? load_cert(dir, o->issuer) : NULL;
    X509 *x = X509_new();
    bool good = own && sign && x && (issuer || !o->issuer) &&
                fill(x, own, issuer ? issuer : x, name, o) &&
                X509_sign(x, sign, EVP_sha256()) > 0 &&
                save(dir, name, x, own, o->password);
    if (!good) {
        fprintf(stderr, "certs_make: %s/%s\n", dir, name);
        ERR_print_errors_fp(stderr);
    }
    X509_free(x);
    X509_free(issuer);
    if (sign != own)
        EVP_PKEY_free(sign);
    EVP_PKEY_free(own);
    return good;
}

bool certs_usual(const char *dir)
{
    return certs_make(dir, "ca", &(cert_opts){ .authority = true }) &&
           certs_make(dir, "server",
                      &(cert_opts){ .issuer = "ca",
                                    .names = "DNS:localhost,IP:127.0.0.1,"
                                             "IP:::1" }) &&
           certs_make(dir, "client", &(cert_opts){ .issuer = "ca" });
}
