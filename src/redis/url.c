/*
 * url.c: reading and printing Redis URLs.
 *
 *   scheme ":" ["//" [user [":" password] "@"] hosts ["/" path]] ["?" query]
 *
 * The text is cut first and decoded after, so that an escaped '/' or '@' never
 * separates anything.  Where a separator stands in a place that could be an
 * unescaped password (an '@' behind the hosts, two of them before) the text is
 * refused rather than guessed at: guessing sends a password to a wrong host.
 */
#include "redis/url.h"
#include "base/mem.h"
#include "redis/durability.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NEAR        2 /* letters that may differ in a "did you mean" */
#define WORD        32
#define MAX_WAIT_MS (INT64_C(24) * 3600 * 1000)

typedef struct span {
    const char *p;
    size_t n;
} span;

static const struct scheme {
    const char *name;
    leat__url_kind kind;
    bool tls;
} schemes[] = {
    { "redis", LEAT__URL_TCP, false },
    { "rediss", LEAT__URL_TCP, true },
    { "unix", LEAT__URL_UNIX, false },
    { "redis+sentinel", LEAT__URL_SENTINEL, false },
    { "rediss+sentinel", LEAT__URL_SENTINEL, true },
    { "redis+cluster", LEAT__URL_CLUSTER, false },
    { "rediss+cluster", LEAT__URL_CLUSTER, true },
    { "embedded", LEAT__URL_EMBEDDED, false },
    { "redis+unix", LEAT__URL_UNIX, false },
    { "redis+socket", LEAT__URL_UNIX, false },
};
#define SCHEMES (sizeof schemes / sizeof *schemes)

/* ---- text ------------------------------------------------------------- */

/* Cut s at the first of that byte: what is before is returned, s keeps what
 * is behind.  Without one, all is returned and s->p is NULL. */
static span cut(span *s, char at)
{
    const char *hit = s->n ? memchr(s->p, at, s->n) : NULL;
    span head = *s;
    if (!hit) {
        *s = (span){ NULL, 0 };
        return head;
    }
    head.n = (size_t)(hit - s->p);
    *s = (span){ hit + 1, s->n - head.n - 1 };
    return head;
}

static bool has(span s, char c)
{
    return s.n > 0 && memchr(s.p, c, s.n) != NULL;
}

static bool is(span s, const char *word)
{
    return strlen(word) == s.n && strncasecmp(s.p, word, s.n) == 0;
}

static bool starts(span s, const char *word)
{
    size_t n = strlen(word);
    return s.n >= n && memcmp(s.p, word, n) == 0;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Why s cannot be decoded, or NULL.  Control characters are welcome only in a
 * password and a user name. */
static const char *undecodable(span s, bool controls)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '%')
            continue;
        if (s.n - i < 3 || hex(s.p[i + 1]) < 0 || hex(s.p[i + 2]) < 0)
            return "'%' must be followed by two hexadecimal digits (write %25 "
                   "for '%' itself)";
        int c = hex(s.p[i + 1]) * 16 + hex(s.p[i + 2]);
        if (c == 0)
            return "%00 is not allowed";
        if (!controls && (c < 0x20 || c == 0x7f))
            return "an escaped control character is not allowed";
        i += 2;
    }
    return NULL;
}

/* Decode into new memory.  All is checked before the first byte is copied, so
 * no half of a secret is left behind. */
static leat_code decode(span s, const char *part, bool controls, char **out,
                        leat_error *err)
{
    const char *why = undecodable(s, controls);
    if (why)
        return leat__fail(err, LEAT_EINVAL, "url: %s: %s", part, why);

    char *d = leat__alloc(s.n + 1, err);
    if (!d)
        return LEAT_ENOMEM;
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '%') {
            d[n++] = (char)(hex(s.p[i + 1]) * 16 + hex(s.p[i + 2]));
            i += 2;
        } else {
            d[n++] = s.p[i];
        }
    }
    d[n] = '\0';
    *out = d;
    return LEAT_OK;
}

/* A decimal number from 0 to max without sign or blanks; -1 for others. */
static int64_t number(span s, int64_t max)
{
    int64_t v = 0;
    if (s.n == 0)
        return -1;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return -1;
        v = v * 10 + (s.p[i] - '0');
        if (v > max)
            return -1;
    }
    return v;
}

static size_t least(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* How many letters must be changed, added or dropped to make word of s. */
static size_t distance(span s, const char *word)
{
    size_t row[WORD + 1], w = strlen(word);
    if (s.n > WORD || w > WORD)
        return WORD;
    for (size_t j = 0; j <= w; j++)
        row[j] = j;
    for (size_t i = 1; i <= s.n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= w; j++) {
            size_t other = (size_t)((s.p[i - 1] | 0x20) !=
                                    (word[j - 1] | 0x20));
            size_t next = least(row[j] + 1, row[j - 1] + 1, diagonal + other);
            diagonal = row[j];
            row[j] = next;
        }
    }
    return row[w];
}

/* ---- scheme ----------------------------------------------------------- */

static leat_code check_bytes(span s, leat_error *err)
{
    if (s.n == 0)
        return leat__fail(err, LEAT_EINVAL,
                          "url: it is empty; write redis://host:port");
    if (s.n > LEAT__URL_MAX)
        return leat__fail(err, LEAT_EINVAL, "url: it is over %d bytes",
                          LEAT__URL_MAX);
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c <= 0x20 || c == 0x7f)
            return leat__fail(err, LEAT_EINVAL,
                              "url: byte %zu is a %s; write %%%02X if it is "
                              "meant",
                              i + 1, c == ' ' ? "space" : "control character",
                              c);
        if (c == '#')
            return leat__fail(err, LEAT_EINVAL,
                              "url: byte %zu is a '#'; write %%23 if it is "
                              "meant",
                              i + 1);
    }
    return LEAT_OK;
}

static leat_code no_scheme(span word, bool slashes, leat_error *err)
{
    for (size_t i = 0; slashes && i < SCHEMES; i++)
        if (distance(word, schemes[i].name) <= NEAR)
            return leat__fail(err, LEAT_EINVAL,
                              "url: the scheme is unknown; did you mean %s:%s",
                              schemes[i].name,
                              schemes[i].kind == LEAT__URL_EMBEDDED ? ""
                                                                    : "//");
    return leat__fail(err, LEAT_EINVAL,
                      "url: it starts with no known scheme; write "
                      "redis://host:port, rediss://, unix:///path, "
                      "redis+sentinel://, redis+cluster:// or embedded:");
}

/* The scheme, leaving in *s what follows its colon. */
static leat_code read_scheme(leat__url *u, span *s, const char **name,
                             leat_error *err)
{
    span word = cut(s, ':');
    for (size_t i = 0; s->p && i < SCHEMES; i++) {
        if (!is(word, schemes[i].name))
            continue;
        u->kind = schemes[i].kind;
        u->tls = schemes[i].tls;
        *name = schemes[i].name;
        return LEAT_OK;
    }
    return no_scheme(word, starts(*s, "//"), err);
}

/* ---- authority -------------------------------------------------------- */

static leat_code read_user(leat__url *u, span s, leat_error *err)
{
    span secret = s;
    span user = cut(&secret, ':');
    if (user.n == 0 && secret.n == 0)
        return leat__fail(err, LEAT_EINVAL,
                          "url: nothing stands before '@'; write "
                          "user:password@ or leave the '@' out");
    if (secret.p && secret.n == 0)
        return leat__fail(err, LEAT_EINVAL,
                          "url: the password is empty; leave the ':' before "
                          "'@' out if there is none");
    leat_code rc = LEAT_OK;
    if (user.n > 0)
        rc = decode(user, "user", true, &u->user, err);
    if (rc == LEAT_OK && secret.p)
        rc = decode(secret, "password", true, &u->password, err);
    return rc;
}

static leat_code read_port(span s, bool given, int usual, size_t nth, int *port,
                           leat_error *err)
{
    int64_t v = given ? number(s, 65535) : usual;
    if (v <= 0)
        return leat__fail(err, LEAT_EINVAL,
                          "url: the port of host %zu must be a number from 1 "
                          "to 65535 (or the password holds a '/', '?' or '@' "
                          "that must be percent-encoded)",
                          nth);
    *port = (int)v;
    return LEAT_OK;
}

static bool is_host_name(span s)
{
    if (s.n > 253)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = (char)(s.p[i] | 0x20);
        bool letter = c >= 'a' && c <= 'z';
        bool digit = s.p[i] >= '0' && s.p[i] <= '9';
        if (!letter && !digit && !strchr("-._", s.p[i]))
            return false;
    }
    return true;
}

/* "fe80::1" or "fe80::1%25eth0", already without brackets. */
static bool is_ipv6(span s)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr a;
    span zone = s;
    span address = cut(&zone, '%');
    if (address.n >= sizeof text)
        return false;
    memcpy(text, address.p, address.n);
    text[address.n] = '\0';
    if (inet_pton(AF_INET6, text, &a) != 1)
        return false;
    return !zone.p || (starts(zone, "25") && zone.n > 2 &&
                       is_host_name((span){ zone.p + 2, zone.n - 2 }));
}

static leat_code read_ipv6(leat__url_host *h, span s, int usual, size_t nth,
                           leat_error *err)
{
    span rest = { s.p + 1, s.n - 1 };
    span address = cut(&rest, ']');
    if (!rest.p || !is_ipv6(address))
        return leat__fail(err, LEAT_EINVAL,
                          "url: host %zu: an IPv6 address in brackets is "
                          "expected, as [::1]",
                          nth);
    if (rest.n > 0 && rest.p[0] != ':')
        return leat__fail(err, LEAT_EINVAL,
                          "url: host %zu: ':' and a port are expected behind "
                          "']'",
                          nth);
    span port = rest.n > 0 ? (span){ rest.p + 1, rest.n - 1 } : rest;
    leat_code rc = read_port(port, rest.n > 0, usual, nth, &h->port, err);
    if (rc != LEAT_OK)
        return rc;
    return decode(address, "host", false, &h->name, err);
}

static leat_code read_host(leat__url_host *h, span s, int usual, size_t nth,
                           leat_error *err)
{
    if (s.n > 0 && s.p[0] == '[')
        return read_ipv6(h, s, usual, nth, err);

    span port = s;
    span name = cut(&port, ':');
    if (has(port, ':'))
        return leat__fail(err, LEAT_EINVAL,
                          "url: host %zu has more than one ':'; an IPv6 "
                          "address goes in brackets, as [::1]:6379",
                          nth);
    if (name.n == 0)
        return leat__fail(err, LEAT_EINVAL,
                          "url: host %zu is empty; write localhost or an "
                          "address",
                          nth);
    if (!is_host_name(name))
        return leat__fail(err, LEAT_EINVAL,
                          "url: host %zu may hold letters, digits, '.', '-' "
                          "and '_' only",
                          nth);
    leat_code rc = read_port(port, port.p != NULL, usual, nth, &h->port, err);
    if (rc != LEAT_OK)
        return rc;
    return decode(name, "host", false, &h->name, err);
}

static leat_code read_hosts(leat__url *u, span s, leat_error *err)
{
    size_t count = 1;
    for (size_t i = 0; i < s.n; i++)
        count += s.p[i] == ',';
    if (count > 1 && u->kind == LEAT__URL_TCP)
        return leat__fail(err, LEAT_EINVAL,
                          "url: one host is expected; several belong to "
                          "redis+sentinel:// or redis+cluster://");
    if (count > LEAT__URL_HOSTS)
        return leat__fail(err, LEAT_EINVAL, "url: more than %d hosts",
                          LEAT__URL_HOSTS);
    u->hosts = leat__calloc(count, sizeof *u->hosts, err);
    if (!u->hosts)
        return LEAT_ENOMEM;
    u->host_count = count;

    int usual = u->kind == LEAT__URL_SENTINEL ? 26379 : 6379;
    leat_code rc = LEAT_OK;
    for (size_t i = 0; rc == LEAT_OK && i < count; i++)
        rc = read_host(&u->hosts[i], cut(&s, ','), usual, i + 1, err);
    return rc;
}

static leat_code read_authority(leat__url *u, span s, leat_error *err)
{
    span host = s;
    span user = cut(&host, '@');
    if (!host.p)
        host = user;
    else if (has(host, '@'))
        return leat__fail(err, LEAT_EINVAL,
                          "url: a second '@'; inside user or password write "
                          "%%40");
    else if (u->kind == LEAT__URL_EMBEDDED)
        return leat__fail(err, LEAT_EINVAL,
                          "url: an embedded server has no user and no "
                          "password");
    else {
        leat_code rc = read_user(u, user, err);
        if (rc != LEAT_OK)
            return rc;
    }

    if (u->kind != LEAT__URL_UNIX && u->kind != LEAT__URL_EMBEDDED)
        return read_hosts(u, host, err);
    if (host.n > 0)
        return leat__fail(err, LEAT_EINVAL,
                          "url: %s has no host; write three slashes before an "
                          "absolute path, as %s:///path",
                          u->kind == LEAT__URL_UNIX ? "unix" : "embedded",
                          u->kind == LEAT__URL_UNIX ? "unix" : "embedded");
    return LEAT_OK;
}

/* ---- path ------------------------------------------------------------- */

static leat_code read_db(leat__url *u, span s, leat_error *err)
{
    int64_t v = number(s, LEAT__URL_DB);
    if (v < 0)
        return leat__fail(err, LEAT_EINVAL,
                          "url: the database must be a number from 0 to %d",
                          LEAT__URL_DB);
    if (u->has_db)
        return leat__fail(err, LEAT_EINVAL,
                          "url: the database is given twice, in the path and "
                          "as a parameter");
    if (v > 0 && u->kind == LEAT__URL_CLUSTER)
        return leat__fail(err, LEAT_EINVAL,
                          "url: a cluster has only database 0");
    u->db = (int)v;
    u->has_db = true;
    return LEAT_OK;
}

static leat_code read_service(leat__url *u, span s, leat_error *err)
{
    span db = s;
    span name = cut(&db, '/');
    if (name.n == 0)
        return leat__fail(err, LEAT_EINVAL,
                          "url: the service name is missing; write "
                          "redis+sentinel://host/service");
    leat_code rc = decode(name, "service", false, &u->service, err);
    if (rc != LEAT_OK || db.n == 0)
        return rc;
    return read_db(u, db, err);
}

/* s starts with '/' or is empty. */
static leat_code read_path(leat__url *u, span s, leat_error *err)
{
    span inner = s.n > 0 ? (span){ s.p + 1, s.n - 1 } : s;
    switch (u->kind) {
    case LEAT__URL_SENTINEL:
        return read_service(u, inner, err);
    case LEAT__URL_UNIX:
        if (inner.n == 0)
            return leat__fail(err, LEAT_EINVAL,
                              "url: the path of the socket is missing; write "
                              "unix:///path/to/redis.sock");
        return decode(s, "path", false, &u->path, err);
    case LEAT__URL_EMBEDDED:
        if (inner.n == 0 && s.n > 0)
            return leat__fail(err, LEAT_EINVAL,
                              "url: '/' is no directory for a server; write "
                              "embedded: or embedded:///directory");
        return s.n ? decode(s, "directory", false, &u->path, err) : LEAT_OK;
    case LEAT__URL_TCP:
    case LEAT__URL_CLUSTER:
        break;
    }
    return inner.n ? read_db(u, inner, err) : LEAT_OK;
}

/* ---- query ------------------------------------------------------------ */

typedef struct param {
    const char *name;
    leat_code (*read)(leat__url *u, span value, leat_error *err);
    bool tls; /* means nothing without */
    bool sentinel;
    bool secret; /* the one list of those that are never shown */
} param;

static leat_code read_wait(span s, const char *part, int64_t *ms,
                           leat_error *err)
{
    int64_t unit = 1;
    if (s.n > 2 && memcmp(s.p + s.n - 2, "ms", 2) == 0) {
        s.n -= 2;
    } else if (s.n > 1 && s.p[s.n - 1] == 's') {
        s.n -= 1;
        unit = 1000;
    }
    int64_t v = number(s, MAX_WAIT_MS / unit);
    if (v <= 0)
        return leat__fail(err, LEAT_EINVAL,
                          "url: %s: a time from 1ms to 24 hours is expected, "
                          "as 500ms, 5s or plain milliseconds",
                          part);
    *ms = v * unit;
    return LEAT_OK;
}

static leat_code read_text(span s, const char *part, bool controls, char **out,
                           leat_error *err)
{
    if (*out)
        return leat__fail(err, LEAT_EINVAL, "url: the %s is given twice", part);
    if (s.n == 0)
        return leat__fail(err, LEAT_EINVAL, "url: the %s is empty", part);
    return decode(s, part, controls, out, err);
}

static leat_code read_client_name(leat__url *u, span s, leat_error *err)
{
    leat_code rc = read_text(s, "client_name", false, &u->client_name, err);
    if (rc != LEAT_OK)
        return rc;
    for (const char *c = u->client_name; *c; c++)
        if (*c < 0x21 || *c > 0x7e)
            return leat__fail(err, LEAT_EINVAL,
                              "url: client_name may hold printable ASCII "
                              "without spaces only: the server refuses others");
    return LEAT_OK;
}

static leat_code read_param_user(leat__url *u, span s, leat_error *err)
{
    return read_text(s, "user", true, &u->user, err);
}

static leat_code read_password(leat__url *u, span s, leat_error *err)
{
    return read_text(s, "password", true, &u->password, err);
}

static leat_code read_timeout(leat__url *u, span s, leat_error *err)
{
    return read_wait(s, "timeout", &u->timeout_ms, err);
}

static leat_code read_connect_timeout(leat__url *u, span s, leat_error *err)
{
    return read_wait(s, "connect_timeout", &u->connect_timeout_ms, err);
}

static leat_code read_protocol(leat__url *u, span s, leat_error *err)
{
    int64_t v = number(s, 3);
    if (v < 2)
        return leat__fail(err, LEAT_EINVAL, "url: protocol must be 2 or 3");
    u->protocol = (int)v;
    return LEAT_OK;
}

static leat_code read_pool_size(leat__url *u, span s, leat_error *err)
{
    int64_t v = number(s, 10000);
    if (v <= 0)
        return leat__fail(err, LEAT_EINVAL,
                          "url: pool_size must be a number from 1 to 10000");
    u->pool_size = (int)v;
    return LEAT_OK;
}

static leat_code read_durability(leat__url *u, span s, leat_error *err)
{
    if (!leat__durability_parse(leat_mem(s.p, s.n), &u->durability))
        return leat__fail(err, LEAT_EINVAL,
                          "url: durability must be executed, logged, synced, "
                          "replicated or outbox");
    return LEAT_OK;
}

static leat_code read_replicas(leat__url *u, span s, leat_error *err)
{
    int64_t v = number(s, 1000);
    if (v <= 0)
        return leat__fail(err, LEAT_EINVAL,
                          "url: replicas must be a number from 1 to 1000");
    u->replicas = (int)v;
    return LEAT_OK;
}

static leat_code read_cafile(leat__url *u, span s, leat_error *err)
{
    return read_text(s, "cafile", false, &u->cafile, err);
}

static leat_code read_cadir(leat__url *u, span s, leat_error *err)
{
    return read_text(s, "cadir", false, &u->cadir, err);
}

static leat_code read_cert(leat__url *u, span s, leat_error *err)
{
    return read_text(s, "cert", false, &u->cert, err);
}

static leat_code read_key(leat__url *u, span s, leat_error *err)
{
    return read_text(s, "key", false, &u->key, err);
}

static leat_code read_switch(span s, const char *name, bool *out,
                             leat_error *err)
{
    if (!is(s, "true") && !is(s, "false") && !is(s, "1") && !is(s, "0"))
        return leat__fail(err, LEAT_EINVAL, "url: %s must be true or false",
                          name);
    *out = is(s, "true") || is(s, "1");
    return LEAT_OK;
}

static leat_code read_allow_eviction(leat__url *u, span s, leat_error *err)
{
    return read_switch(s, "allow_eviction", &u->allow_eviction, err);
}

static leat_code read_insecure(leat__url *u, span s, leat_error *err)
{
    return read_switch(s, "insecure", &u->insecure, err);
}

static leat_code read_sentinel_user(leat__url *u, span s, leat_error *err)
{
    return read_text(s, "sentinel_user", true, &u->sentinel_user, err);
}

static leat_code read_sentinel_password(leat__url *u, span s, leat_error *err)
{
    return read_text(s, "sentinel_password", true, &u->sentinel_password, err);
}

static const param params[] = {
    { "db", read_db, false, false, false },
    { "user", read_param_user, false, false, false },
    { "password", read_password, false, false, true },
    { "client_name", read_client_name, false, false, false },
    { "timeout", read_timeout, false, false, false },
    { "connect_timeout", read_connect_timeout, false, false, false },
    { "protocol", read_protocol, false, false, false },
    { "pool_size", read_pool_size, false, false, false },
    { "durability", read_durability, false, false, false },
    { "replicas", read_replicas, false, false, false },
    { "allow_eviction", read_allow_eviction, false, false, false },
    { "cafile", read_cafile, true, false, false },
    { "cadir", read_cadir, true, false, false },
    { "cert", read_cert, true, false, false },
    { "key", read_key, true, false, false },
    { "insecure", read_insecure, true, false, false },
    { "sentinel_user", read_sentinel_user, false, true, false },
    { "sentinel_password", read_sentinel_password, false, true, true },
};
#define PARAMS (sizeof params / sizeof *params)

bool leat__url_may_show(leat_bytes name)
{
    for (size_t i = 0; i < PARAMS; i++)
        if (is((span){ name.p, name.n }, params[i].name))
            return !params[i].secret;
    return false;
}

/* The name may be shown: a plain word, and not what an unescaped '&' left of
 * the password before it. */
static bool is_showable(span name, bool after_secret)
{
    if (name.n == 0 || name.n > WORD || after_secret)
        return false;
    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] != '_' && (name.p[i] < 'a' || name.p[i] > 'z'))
            return false;
    return true;
}

static leat_code unknown_param(span name, size_t nth, bool showable,
                               leat_error *err)
{
    const char *near = NULL;
    size_t best = NEAR + 1;
    for (size_t i = 0; i < PARAMS; i++) {
        size_t d = distance(name, params[i].name);
        if (d < best && d < strlen(params[i].name)) {
            best = d;
            near = params[i].name;
        }
    }
    if (!showable)
        return leat__fail(err, LEAT_EINVAL,
                          "url: parameter %zu is not name=value with a known "
                          "name; an '&' in a value must be written %%26",
                          nth);
    return leat__fail(err, LEAT_EINVAL,
                      "url: the parameter '%.*s' is unknown%s%s", (int)name.n,
                      name.p, near ? "; did you mean " : "", near ? near : "");
}

static leat_code read_param(leat__url *u, span value, const param *p,
                            unsigned *seen, leat_error *err)
{
    unsigned bit = 1u << (p - params);
    if (*seen & bit)
        return leat__fail(err, LEAT_EINVAL,
                          "url: the parameter '%s' is given twice", p->name);
    *seen |= bit;
    if (p->tls && !u->tls)
        return leat__fail(err, LEAT_EINVAL,
                          "url: the parameter '%s' needs TLS; write rediss in "
                          "place of redis",
                          p->name);
    if (p->sentinel && u->kind != LEAT__URL_SENTINEL)
        return leat__fail(err, LEAT_EINVAL,
                          "url: the parameter '%s' belongs to "
                          "redis+sentinel://",
                          p->name);
    if (u->kind == LEAT__URL_EMBEDDED &&
        (p->read == read_password || p->read == read_param_user))
        return leat__fail(err, LEAT_EINVAL,
                          "url: an embedded server has no user and no "
                          "password");
    return p->read(u, value, err);
}

static leat_code read_query(leat__url *u, span s, leat_error *err)
{
    unsigned seen = 0;
    bool after_secret = false;
    for (size_t nth = 1; s.p && s.n > 0; nth++) {
        span value = cut(&s, '&');
        span name = cut(&value, '=');
        const param *p = NULL;
        for (size_t i = 0; value.p && i < PARAMS; i++)
            if (is(name, params[i].name))
                p = &params[i];
        if (!p)
            return unknown_param(
                name, nth, value.p && is_showable(name, after_secret), err);
        leat_code rc = read_param(u, value, p, &seen, err);
        if (rc != LEAT_OK)
            return rc;
        after_secret = p->secret;
    }
    return LEAT_OK;
}

/* ---- the whole -------------------------------------------------------- */

/* What follows the scheme's colon, without the query. */
static leat_code read_place(leat__url *u, span s, const char *scheme,
                            leat_error *err)
{
    if (s.n == 0 && u->kind == LEAT__URL_EMBEDDED)
        return LEAT_OK;
    if (!starts(s, "//"))
        return leat__fail(
            err, LEAT_EINVAL, "url: '//' is expected behind %s:, as %s", scheme,
            u->kind == LEAT__URL_EMBEDDED ? "embedded:///directory"
            : u->kind == LEAT__URL_UNIX   ? "unix:///path"
                                          : "redis://host:port");
    span path = { s.p + 2, s.n - 2 };
    span authority = cut(&path, '/');
    if (path.p) {
        path.p--;
        path.n++;
    }
    if (has(path, '@'))
        return leat__fail(err, LEAT_EINVAL,
                          "url: an '@' behind the host; in a path write %%40, "
                          "and if the password holds a '/' write %%2F");
    leat_code rc = read_authority(u, authority, err);
    return rc == LEAT_OK ? read_path(u, path, err) : rc;
}

static leat_code read_all(leat__url *u, span s, leat_error *err)
{
    const char *scheme = NULL;
    leat_code rc = check_bytes(s, err);
    if (rc == LEAT_OK)
        rc = read_scheme(u, &s, &scheme, err);
    if (rc != LEAT_OK)
        return rc;

    span query = s;
    span place = cut(&query, '?');
    if (has(query, '@'))
        return leat__fail(err, LEAT_EINVAL,
                          "url: an '@' behind the '?'; in a value write %%40, "
                          "and if the password holds a '?' write %%3F");
    rc = read_place(u, place, scheme, err);
    return rc == LEAT_OK ? read_query(u, query, err) : rc;
}

leat_code leat__url_parse(leat__url *u, leat_bytes text, leat_error *err)
{
    memset(u, 0, sizeof *u);
    leat_code rc = read_all(u, (span){ text.p, text.n }, err);
    if (rc != LEAT_OK)
        leat__url_release(u);
    return rc;
}

void leat__url_release(leat__url *u)
{
    for (size_t i = 0; u->hosts && i < u->host_count; i++)
        leat__free(u->hosts[i].name);
    leat__free(u->hosts);
    leat__free(u->path);
    leat__free(u->service);
    leat__free(u->user);
    leat__free_secret(u->password);
    leat__free(u->client_name);
    leat__free(u->cafile);
    leat__free(u->cadir);
    leat__free(u->cert);
    leat__free(u->key);
    leat__free(u->sentinel_user);
    leat__free_secret(u->sentinel_password);
    memset(u, 0, sizeof *u);
}

/* ---- printing --------------------------------------------------------- */

/* Escape all but what stands for itself in a URL, and what `also` says. */
static leat_code put(leat__buf *b, const char *s, const char *also,
                     leat_error *err)
{
    leat_code rc = LEAT_OK;
    for (; rc == LEAT_OK && *s; s++) {
        span one = { s, 1 };
        if (is_host_name(one) || strchr(also, *s))
            rc = leat__buf_add(b, s, 1, err);
        else
            rc = leat__buf_printf(b, err, "%%%02X", (unsigned char)*s);
    }
    return rc;
}

static leat_code put_host(leat__buf *b, const leat__url_host *h,
                          leat_error *err)
{
    bool v6 = strchr(h->name, ':') != NULL;
    leat_code rc = leat__buf_str(b, v6 ? "[" : "", err);
    if (rc == LEAT_OK)
        rc = put(b, h->name, ":", err);
    if (rc == LEAT_OK)
        rc = leat__buf_printf(b, err, "%s:%d", v6 ? "]" : "", h->port);
    return rc;
}

static leat_code put_authority(const leat__url *u, leat__buf *b,
                               leat_error *err)
{
    leat_code rc = LEAT_OK;
    if (u->user)
        rc = put(b, u->user, "", err);
    if (rc == LEAT_OK && u->password)
        rc = leat__buf_str(b, ":***", err);
    if (rc == LEAT_OK && (u->user || u->password))
        rc = leat__buf_str(b, "@", err);
    for (size_t i = 0; rc == LEAT_OK && i < u->host_count; i++) {
        rc = leat__buf_str(b, i ? "," : "", err);
        if (rc == LEAT_OK)
            rc = put_host(b, &u->hosts[i], err);
    }
    return rc;
}

static leat_code put_path(const leat__url *u, leat__buf *b, leat_error *err)
{
    leat_code rc = LEAT_OK;
    if (u->path)
        return put(b, u->path, "/", err);
    if (u->service) {
        rc = leat__buf_str(b, "/", err);
        if (rc == LEAT_OK)
            rc = put(b, u->service, "", err);
    }
    if (rc == LEAT_OK && u->db > 0 && u->kind != LEAT__URL_EMBEDDED)
        rc = leat__buf_printf(b, err, "/%d", u->db);
    return rc;
}

static leat_code put_number(leat__buf *b, const char *name, int64_t v,
                            const char *unit, char *sep, leat_error *err)
{
    if (v == 0)
        return LEAT_OK;
    leat_code rc = leat__buf_printf(b, err, "%c%s=%lld%s", *sep, name,
                                    (long long)v, unit);
    *sep = '&';
    return rc;
}

static leat_code put_text(leat__buf *b, const char *name, const char *s,
                          char *sep, leat_error *err)
{
    if (!s)
        return LEAT_OK;
    leat_code rc = leat__buf_printf(b, err, "%c%s=", *sep, name);
    *sep = '&';
    return rc == LEAT_OK ? put(b, s, "/", err) : rc;
}

static leat_code put_query(const leat__url *u, leat__buf *b, leat_error *err)
{
    bool local = u->kind == LEAT__URL_UNIX || u->kind == LEAT__URL_EMBEDDED;
    char sep = '?';
    leat_code rc = put_number(b, "db", local ? u->db : 0, "", &sep, err);
    if (rc == LEAT_OK)
        rc = put_text(b, "client_name", u->client_name, &sep, err);
    if (rc == LEAT_OK)
        rc = put_number(b, "timeout", u->timeout_ms, "ms", &sep, err);
    if (rc == LEAT_OK)
        rc = put_number(b, "connect_timeout", u->connect_timeout_ms, "ms", &sep,
                        err);
    if (rc == LEAT_OK)
        rc = put_number(b, "protocol", u->protocol, "", &sep, err);
    if (rc == LEAT_OK)
        rc = put_number(b, "pool_size", u->pool_size, "", &sep, err);
    if (rc == LEAT_OK && u->durability != LEAT_EXECUTED)
        rc = put_text(b, "durability", leat_durability_name(u->durability),
                      &sep, err);
    if (rc == LEAT_OK)
        rc = put_number(b, "replicas", u->replicas, "", &sep, err);
    if (rc == LEAT_OK && u->allow_eviction)
        rc = put_text(b, "allow_eviction", "true", &sep, err);
    if (rc == LEAT_OK)
        rc = put_text(b, "cafile", u->cafile, &sep, err);
    if (rc == LEAT_OK)
        rc = put_text(b, "cadir", u->cadir, &sep, err);
    if (rc == LEAT_OK)
        rc = put_text(b, "cert", u->cert, &sep, err);
    if (rc == LEAT_OK)
        rc = put_text(b, "key", u->key, &sep, err);
    if (rc == LEAT_OK && u->insecure)
        rc = put_text(b, "insecure", "true", &sep, err);
    if (rc == LEAT_OK)
        rc = put_text(b, "sentinel_user", u->sentinel_user, &sep, err);
    if (rc == LEAT_OK && u->sentinel_password)
        rc = leat__buf_printf(b, err, "%csentinel_password=***", sep);
    return rc;
}

leat_code leat__url_print(const leat__url *u, leat__buf *out, leat_error *err)
{
    const struct scheme *s = schemes;
    while (s->kind != u->kind || s->tls != u->tls)
        s++;
    bool bare = u->kind == LEAT__URL_EMBEDDED && !u->path;
    leat_code rc = leat__buf_printf(out, err, "%s:%s", s->name,
                                    bare ? "" : "//");
    if (rc == LEAT_OK)
        rc = put_authority(u, out, err);
    if (rc == LEAT_OK)
        rc = put_path(u, out, err);
    return rc == LEAT_OK ? put_query(u, out, err) : rc;
}
