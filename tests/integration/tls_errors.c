/*
 * tls_errors.c: the matrix of good and bad certificates and peers, with the
 * error that a person sees.  Each row is printed.
 *
 * Real servers where a real one does it; a small TLS server of OpenSSL's for
 * what Redis would refuse to be configured with.
 */
#include "tls_help.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a peer ----------------------------------------------------------- */

enum manner { TLS, PLAIN, SILENT, HANG_UP };

struct peer {
    enum manner manner;
    SSL_CTX *ctx;
    int listen_fd, port;
    pthread_t thread;
};

static void read_to_the_end(int fd)
{
    char waste[1024];
    while (read(fd, waste, sizeof waste) > 0)
        ;
}

static void serve_tls(struct peer *p, int fd)
{
    char waste[256];
    SSL *ssl = SSL_new(p->ctx);
    SSL_set_fd(ssl, fd);
    if (SSL_accept(ssl) == 1)
        while (SSL_read(ssl, waste, sizeof waste) > 0)
            ;
    SSL_free(ssl);
    read_to_the_end(fd);
}

static void serve(struct peer *p, int fd)
{
    static const char plain[] = "-ERR unknown command\r\n";
    char byte;
    if (p->manner == TLS)
        serve_tls(p, fd);
    if (p->manner == PLAIN && write(fd, plain, sizeof plain - 1) > 0)
        read_to_the_end(fd);
    if (p->manner == SILENT)
        read_to_the_end(fd);
    if (p->manner == HANG_UP)
        (void)!read(fd, &byte, 1);
}

static void *run_peer(void *arg)
{
    struct peer *p = arg;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE); /* OpenSSL's sockets raise it */
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (int fd; (fd = accept4(p->listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
        serve(p, fd);
        close(fd);
    }
    return NULL;
}

static SSL_CTX *peer_ctx(const char *cert, bool old)
{
    char path[128];
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    snprintf(path, sizeof path, "%s/%s.crt", dir, cert);
    assert_int_equal(SSL_CTX_use_certificate_chain_file(ctx, path), 1);
    snprintf(path, sizeof path, "%s/%s.key", dir, cert);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, path, SSL_FILETYPE_PEM),
                     1);
    if (old) {
        assert_int_equal(SSL_CTX_set_min_proto_version(ctx, TLS1_VERSION), 1);
        assert_int_equal(SSL_CTX_set_max_proto_version(ctx, TLS1_1_VERSION), 1);
        assert_int_equal(SSL_CTX_set_cipher_list(ctx, "ALL:@SECLEVEL=0"), 1);
    }
    return ctx;
}

static void peer_start(struct peer *p, enum manner manner, const char *cert,
                       bool old)
{
    struct sockaddr_in a = { .sin_family = AF_INET };
    socklen_t len = sizeof a;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *p = (struct peer){ .manner = manner };
    p->ctx = manner == TLS ? peer_ctx(cert, old) : NULL;
    p->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(p->listen_fd, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(p->listen_fd, 16), 0);
    assert_int_equal(getsockname(p->listen_fd, (struct sockaddr *)&a, &len), 0);
    p->port = ntohs(a.sin_port);
    assert_int_equal(pthread_create(&p->thread, NULL, run_peer, p), 0);
}

static void peer_stop(struct peer *p)
{
    shutdown(p->listen_fd, SHUT_RDWR);
    pthread_join(p->thread, NULL);
    close(p->listen_fd);
    SSL_CTX_free(p->ctx);
}

/* ---- rows ------------------------------------------------------------- */

struct row {
    const char *what;
    const char *cert; /* of a peer; NULL: the real server */
    enum manner manner;
    bool old; /* the peer speaks TLS 1.1 at most */
    const char *host;
    /* For the client, names of the directory. */
    const char *ca, *ca_dir, *mine, *key, *as;
    bool insecure;
    int64_t connect_ms;
    leat_code code;
    const char *text[3]; /* what the error must say */
};

static int warnings;

static void on_log(void *arg, leat_level level, const char *line)
{
    (void)arg;
    warnings += level == LEAT_LOG_WARN && strstr(line, "insecure") != NULL;
}

static const char *path_of(char *buf, size_t size, const char *name)
{
    if (!name)
        return NULL;
    snprintf(buf, size, "%s/%s", dir, name);
    return buf;
}

static leat_client *open_row(const struct row *r, int port, leat_error *e)
{
    char at[128], ca[128], ca_dir[128], mine[128], key[128];
    snprintf(at, sizeof at, "rediss://%s:%d", r->host ? r->host : "localhost",
             port);
    leat_client_opts o = {
        .connect_timeout_ms = r->connect_ms ? r->connect_ms : LONG_MS,
        .timeout_ms = LONG_MS,
        .log = { .fn = on_log, .level = LEAT_LOG_WARN },
        .tls = { .ca_file = path_of(ca, sizeof ca, r->ca),
                 .ca_dir = path_of(ca_dir, sizeof ca_dir, r->ca_dir),
                 .cert = path_of(mine, sizeof mine, r->mine),
                 .key = path_of(key, sizeof key, r->key),
                 .host = r->as,
                 .insecure = r->insecure },
    };
    return leat_client_open(at, &o, e);
}

/* The directory and the port are different in each run. */
static void print_row(const struct row *r, int port, const leat_error *e)
{
    char text[sizeof e->msg], number[16], *at;
    snprintf(text, sizeof text, "%s", e->msg);
    snprintf(number, sizeof number, ":%d", port);
    while ((at = strstr(text, dir)) != NULL)
        memmove(at, at + strlen(dir) + 1, strlen(at + strlen(dir) + 1) + 1);
    if ((at = strstr(text, number)) != NULL)
        memmove(at, at + strlen(number), strlen(at + strlen(number)) + 1);
    print_message("# %-34s %s%s%s\n", r->what,
                  r->code == LEAT_OK ? "good" : leat_code_name(e->code),
                  r->code == LEAT_OK ? "" : ": ", text);
}

static void check_row(const struct row *r, int port)
{
    leat_error e = { 0 };
    int before = warnings;
    leat_client *c = open_row(r, port, &e);
    print_row(r, port, &e);
    assert_int_equal(warnings - before, r->insecure);
    if (r->code == LEAT_OK && !c)
        fail_msg("%s: %s", r->what, e.msg);
    if (r->code != LEAT_OK && c)
        fail_msg("%s: it is accepted", r->what);
    if (c)
        must(leat_client_call(c, LEAT_ARGS(leat_str("PING")), NULL, NULL, err));
    leat_client_close(c);
    assert_code(e.code, r->code);
    for (int i = 0; i < 3 && r->text[i]; i++)
        if (!strstr(e.msg, r->text[i]))
            fail_msg("%s: no '%s' in '%s'", r->what, r->text[i], e.msg);
}

static void check_rows(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct peer p;
        const struct row *r = &rows[i];
        if (!r->cert) {
            check_row(r, redis_tls_port(server));
            continue;
        }
        peer_start(&p, r->manner, r->cert, r->old);
        check_row(r, p.port);
        peer_stop(&p);
    }
}

#define CHECK(rows) check_rows(rows, sizeof(rows) / sizeof(rows)[0])

/* ---- the matrix ------------------------------------------------------- */

static void a_server_that_can_be_verified_is_accepted(void **state)
{
    static const struct row rows[] = {
        { .what = "by its name", .ca = "ca.crt" },
        { .what = "by its address", .ca = "ca.crt", .host = "127.0.0.1" },
        { .what = "by a full name's dot", .ca = "ca.crt", .as = "localhost." },
        { .what = "by a directory", .ca_dir = "." },
        { .what = "its own certificate named", .ca = "server.crt" },
        { .what = "another name allowed",
          .ca = "ca.crt",
          .host = "127.0.0.1",
          .as = "localhost" },
        { .what = "with a certificate of ours",
          .ca = "ca.crt",
          .mine = "client.crt",
          .key = "client.key" },
        { .what = "certificate and key in a file",
          .ca = "ca.crt",
          .mine = "both.crt" },
        { .what = "insecure, other authority",
          .ca = "other.crt",
          .insecure = true },
    };
    (void)state;
    CHECK(rows);
}

static void the_system_authorities_are_used_where_none_is_named(void **state)
{
    static const struct row rows[] = { { .what = "by the system's" } };
    char ca[128];
    (void)state;
    assert_int_equal(
        setenv("SSL_CERT_FILE", path_of(ca, sizeof ca, "ca.crt"), 1), 0);
    CHECK(rows);
    unsetenv("SSL_CERT_FILE");
}

static void a_server_that_cannot_be_verified_is_refused(void **state)
{
    static const struct row rows[] = {
        { .what = "another authority",
          .ca = "other.crt",
          .code = LEAT_EAUTH,
          .text = { "signed by 'leat test ca'", "not trusted", "cafile" } },
        { .what = "no authority of the system's",
          .code = LEAT_EAUTH,
          .text = { "signed by 'leat test ca'", "not trusted", "cafile" } },
        { .what = "an authority of the same name",
          .ca = "twin.crt",
          .code = LEAT_EAUTH,
          .text = { "the server's certificate" } },
        { .what = "signed by itself",
          .cert = "self",
          .ca = "ca.crt",
          .code = LEAT_EAUTH,
          .text = { "signed by itself", "cafile" } },
        { .what = "another host",
          .cert = "elsewhere",
          .ca = "ca.crt",
          .code = LEAT_EAUTH,
          .text = { "not for 'localhost'",
                    "db.example, *.example.org, 10.1.2.3", "connect by" } },
        { .what = "another address",
          .cert = "elsewhere",
          .ca = "ca.crt",
          .host = "127.0.0.1",
          .code = LEAT_EAUTH,
          .text = { "not for '127.0.0.1'", "10.1.2.3" } },
        { .what = "a common name alone",
          .cert = "nameless",
          .ca = "ca.crt",
          .code = LEAT_EAUTH,
          .text = { "not for 'localhost' but for old.example" } },
        { .what = "a hundred names",
          .cert = "many",
          .ca = "ca.crt",
          .code = LEAT_EAUTH,
          .text = { "not for 'localhost' but for host-0.example", ", ...",
                    "connect by one of these" } },
        { .what = "expired",
          .cert = "expired",
          .ca = "ca.crt",
          .code = LEAT_EAUTH,
          .text = { "the server's certificate expired on 20", " UTC",
                    "renew it" } },
        { .what = "not yet valid",
          .cert = "early",
          .ca = "ca.crt",
          .code = LEAT_EAUTH,
          .text = { "the server's certificate is valid only from 20", " UTC",
                    "clock" } },
        { .what = "its authority expired",
          .cert = "orphan",
          .ca = "late.crt",
          .code = LEAT_EAUTH,
          .text = { "authority's certificate 'leat test late' expired on "
                    "20" } },
        { .what = "signed by one that may not",
          .cert = "usurped",
          .ca = "ca.crt",
          .code = LEAT_EAUTH,
          .text = { "the server's certificate" } },
    };
    (void)state;
    CHECK(rows);
}

static void a_peer_that_speaks_otherwise_is_refused(void **state)
{
    static const struct row rows[] = {
        { .what = "TLS 1.1 at most",
          .cert = "server",
          .old = true,
          .ca = "ca.crt",
          .code = LEAT_ECONN,
          .text = { "does not speak TLS 1.2 or 1.3", "tls-protocols" } },
        { .what = "plain text, insecure too",
          .cert = "",
          .manner = PLAIN,
          .insecure = true,
          .code = LEAT_ECONN,
          .text = { "does not speak TLS here", "redis://" } },
        { .what = "plain text",
          .cert = "",
          .manner = PLAIN,
          .ca = "ca.crt",
          .code = LEAT_ECONN,
          .text = { "does not speak TLS here", "redis://" } },
        { .what = "not a word",
          .cert = "",
          .manner = SILENT,
          .ca = "ca.crt",
          .connect_ms = 300,
          .code = LEAT_ETIMEOUT,
          .text = { "TLS handshake was not answered in time", "redis://" } },
        { .what = "an end",
          .cert = "",
          .manner = HANG_UP,
          .ca = "ca.crt",
          .code = LEAT_ECONN,
          .text = { "during the TLS handshake", "is it a TLS port?" } },
    };
    (void)state;
    CHECK(rows);
}

static void files_that_are_of_no_use_are_named(void **state)
{
    static const struct row rows[] = {
        { .what = "no CA file",
          .ca = "nowhere.crt",
          .code = LEAT_EINVAL,
          .text = { "CA file '", "nowhere.crt'", "No such file" } },
        { .what = "a CA file without one",
          .ca = "client.key",
          .code = LEAT_EINVAL,
          .text = { "client.key' holds no certificate in PEM form" } },
        { .what = "no CA directory",
          .ca_dir = "nowhere",
          .code = LEAT_EINVAL,
          .text = { "CA directory '", "nowhere'", "No such file" } },
        { .what = "a CA directory that is a file",
          .ca_dir = "ca.crt",
          .code = LEAT_EINVAL,
          .text = { "CA directory '", "Not a directory" } },
        { .what = "a CA file that is a directory",
          .ca = ".",
          .code = LEAT_EINVAL,
          .text = { "CA file '", "Is a directory" } },
        { .what = "no certificate of ours",
          .ca = "ca.crt",
          .mine = "nowhere.crt",
          .code = LEAT_EINVAL,
          .text = { "certificate '", "nowhere.crt'", "No such file" } },
        { .what = "a certificate that is none",
          .ca = "ca.crt",
          .mine = "client.key",
          .code = LEAT_EINVAL,
          .text = { "client.key' holds no certificate in PEM form" } },
        { .what = "no key",
          .ca = "ca.crt",
          .mine = "client.crt",
          .key = "nowhere.key",
          .code = LEAT_EINVAL,
          .text = { "key '", "nowhere.key'", "No such file" } },
        { .what = "a certificate without its key",
          .ca = "ca.crt",
          .mine = "client.crt",
          .code = LEAT_EINVAL,
          .text = { "client.crt' comes without a key" } },
        { .what = "a key without its certificate",
          .ca = "ca.crt",
          .key = "client.key",
          .code = LEAT_EINVAL,
          .text = { "a key and no certificate" } },
        { .what = "the key of another",
          .ca = "ca.crt",
          .mine = "client.crt",
          .key = "server.key",
          .code = LEAT_EINVAL,
          .text = { "server.key' does not belong to the certificate",
                    "client.crt" } },
        { .what = "a key that others can read",
          .ca = "ca.crt",
          .mine = "client.crt",
          .key = "loose.key",
          .code = LEAT_EINVAL,
          .text = { "loose.key' can be read by others", "chmod 600" } },
        { .what = "a key with a password",
          .ca = "ca.crt",
          .mine = "locked.crt",
          .key = "locked.key",
          .code = LEAT_EINVAL,
          .text = { "locked.key' is encrypted" } },
    };
    (void)state;
    CHECK(rows);
}

/* TLS 1.2 refuses within the handshake, 1.3 with the first answer. */
static void a_server_that_wants_to_know_us_says_so(void **state)
{
    static const struct row rows[] = {
        { .what = "none is given",
          .ca = "ca.crt",
          .code = LEAT_EAUTH,
          .text = { "asks for a certificate of ours", "cert and key" } },
        { .what = "one from elsewhere",
          .ca = "ca.crt",
          .mine = "stranger.crt",
          .key = "stranger.key",
          .code = LEAT_EAUTH,
          .text = { "does not trust who signed our certificate",
                    "tls-ca-cert-file" } },
        { .what = "the right one",
          .ca = "ca.crt",
          .mine = "client.crt",
          .key = "client.key" },
    };
    static const char *const versions[] = { "TLSv1.2", "TLSv1.3" };
    (void)state;
    redis_do(server, "CONFIG SET tls-auth-clients yes");
    for (size_t i = 0; i < 2; i++) {
        redis_do(server, "CONFIG SET tls-protocols %s", versions[i]);
        print_message("# with %s, where certificates are asked for:\n",
                      versions[i]);
        CHECK(rows);
    }
    redis_do(server, "CONFIG SET tls-protocols %s", "");
    redis_do(server, "CONFIG SET tls-auth-clients no");
}

/* ---- mixed up --------------------------------------------------------- */

static void open_badly(const char *at, const leat_client_opts *o,
                       const char *what, leat_error *e)
{
    leat_client *c = leat_client_open(at, o, e);
    print_message("# %-34s %s: %s\n", what, leat_code_name(e->code), e->msg);
    assert_null(c);
}

/* What it sends is random, and a line break in it makes Redis answer: one of
 * the two errors, and both say what to do. */
static void tls_to_a_plain_port_is_refused(void **state)
{
    char at[128];
    leat_error e = { 0 };
    (void)state;
    snprintf(at, sizeof at, "rediss://localhost:%d?cafile=%s/ca.crt",
             redis_port(server), dir);
    for (int i = 0; i < 5; i++) {
        open_badly(at, &(leat_client_opts){ .connect_timeout_ms = 200 },
                   "TLS to a plain port", &e);
        assert_true(e.code == LEAT_ECONN || e.code == LEAT_ETIMEOUT);
        assert_non_null(strstr(e.msg, "redis://"));
    }
}

static void plain_text_to_a_tls_port_is_explained(void **state)
{
    char at[128];
    leat_error e = { 0 };
    (void)state;
    snprintf(at, sizeof at, "redis://localhost:%d", redis_tls_port(server));
    open_badly(at, NULL, "plain text to a TLS port", &e);
    assert_code(e.code, LEAT_ECONN);
    assert_non_null(strstr(e.msg, "rediss://"));
}

static void tls_options_without_tls_are_refused(void **state)
{
    char at[128], ca[128];
    leat_error e = { 0 };
    (void)state;
    snprintf(at, sizeof at, "redis://localhost:%d", redis_port(server));
    open_badly(at,
               &(leat_client_opts){
                   .tls = { .ca_file = path_of(ca, sizeof ca, "ca.crt") } },
               "TLS options without TLS", &e);
    assert_code(e.code, LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "rediss://"));
}

/* ---- */

static bool link_by_hash(const char *name)
{
    char path[128], target[64];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "re");
    X509 *x = f ? PEM_read_X509(f, NULL, NULL, NULL) : NULL;
    if (f)
        (void)fclose(f);
    if (!x)
        return false;
    snprintf(target, sizeof target, "%s", name);
    snprintf(path, sizeof path, "%s/%08lx.0", dir, X509_subject_name_hash(x));
    X509_free(x);
    return symlink(target, path) == 0;
}

static bool join(const char *a, const char *b, const char *out)
{
    static const char *const suffix[] = { "crt", "key" };
    const char *names[] = { a, b };
    char path[128], text[8192];
    snprintf(path, sizeof path, "%s/%s", dir, out);
    FILE *to = fopen(path, "we");
    for (int i = 0; to && i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s.%s", dir, names[i], suffix[i]);
        FILE *from = fopen(path, "re");
        if (!from)
            break;
        (void)fwrite(text, 1, fread(text, 1, sizeof text, from), to);
        (void)fclose(from);
    }
    snprintf(path, sizeof path, "%s/%s", dir, out);
    return to && fclose(to) == 0 && chmod(path, 0600) == 0;
}

static const char *hundred_names(void)
{
    static char names[4000];
    size_t n = 0;
    for (int i = 0; i < 100; i++)
        n += (size_t)snprintf(names + n, sizeof names - n,
                              "%sDNS:host-%d.example", i ? "," : "", i);
    return names;
}

enum { DAY = 24 * 3600 };

static bool make_bad_ones(void)
{
    static const char here[] = "DNS:localhost,IP:127.0.0.1";
    const struct {
        const char *name;
        cert_opts o;
    } all[] = {
        { "other", { .authority = true } },
        { "twin", { .authority = true, .subject = "leat test ca" } },
        { "stranger", { .issuer = "other" } },
        { "self", { .names = here } },
        { "elsewhere",
          { .issuer = "ca",
            .names = "DNS:db.example,DNS:*.example.org,IP:10.1.2.3" } },
        { "nameless", { .issuer = "ca", .subject = "old.example" } },
        { "many", { .issuer = "ca", .names = hundred_names() } },
        { "expired",
          { .issuer = "ca",
            .names = here,
            .from_s = -30 * DAY,
            .until_s = -DAY } },
        { "early",
          { .issuer = "ca",
            .names = here,
            .from_s = DAY,
            .until_s = 9 * DAY } },
        { "late", { .authority = true, .from_s = -30 * DAY, .until_s = -DAY } },
        { "orphan", { .issuer = "late", .names = here } },
        { "usurped", { .issuer = "client", .names = here } },
        { "locked", { .issuer = "ca", .password = "secret" } },
        { "loose", { .issuer = "ca" } },
    };
    char path[128];
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!certs_make(dir, all[i].name, &all[i].o))
            return false;
    snprintf(path, sizeof path, "%s/loose.key", dir);
    return chmod(path, 0644) == 0 && link_by_hash("ca.crt") &&
           join("client", "client", "both.crt");
}

static int start(void **state)
{
    return start_server(state) == 0 && make_bad_ones() ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_can_be_verified_is_accepted),
        cmocka_unit_test(the_system_authorities_are_used_where_none_is_named),
        cmocka_unit_test(a_server_that_cannot_be_verified_is_refused),
        cmocka_unit_test(a_peer_that_speaks_otherwise_is_refused),
        cmocka_unit_test(files_that_are_of_no_use_are_named),
        cmocka_unit_test(a_server_that_wants_to_know_us_says_so),
        cmocka_unit_test(tls_to_a_plain_port_is_refused),
        cmocka_unit_test(plain_text_to_a_tls_port_is_explained),
        cmocka_unit_test(tls_options_without_tls_are_refused),
    };
    return cmocka_run_group_tests(tests, start, stop_server);
}
