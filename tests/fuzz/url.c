/*
 * url.c: any bytes as a URL: parse, print, parse again.
 *
 * What is printed must be read again as the same, and neither it nor an error
 * may show the password.
 */
#include "redis/url.h"
#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool promise)
{
    if (!promise)
        abort();
}

static bool same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static void print(const leat__url *u, leat__buf *out)
{
    check(leat__url_print(u, out, NULL) == LEAT_OK);
    check(leat__buf_add(out, "", 1, NULL) == LEAT_OK);
}

static void compare(const leat__url *a, const leat__url *b)
{
    check(a->kind == b->kind && a->tls == b->tls && a->db == b->db);
    check(a->host_count == b->host_count);
    for (size_t i = 0; i < a->host_count; i++)
        check(same(a->hosts[i].name, b->hosts[i].name) &&
              a->hosts[i].port == b->hosts[i].port);
    check(same(a->path, b->path) && same(a->service, b->service));
    check(same(a->user, b->user) && same(a->client_name, b->client_name));
    check(!a->password == !b->password);
    check(a->timeout_ms == b->timeout_ms &&
          a->connect_timeout_ms == b->connect_timeout_ms);
    check(a->protocol == b->protocol && a->pool_size == b->pool_size);
    check(same(a->cafile, b->cafile) && same(a->cadir, b->cadir));
    check(same(a->cert, b->cert) && same(a->key, b->key));
    check(a->insecure == b->insecure);
    check(same(a->sentinel_user, b->sentinel_user));
    check(!a->sentinel_password == !b->sentinel_password);
}

/* Escapes make text longer, so the printed form may be over the limit. */
static void print_and_read_again(const leat__url *u)
{
    leat__buf text = { 0 }, again = { 0 };
    leat__url v;
    print(u, &text);
    leat_code rc = leat__url_parse(&v, leat_mem(text.p, text.n - 1), NULL);
    check(rc == LEAT_OK || text.n - 1 > LEAT__URL_MAX);
    if (rc == LEAT_OK) {
        compare(u, &v);
        check(!v.password || strcmp(v.password, "***") == 0);
        check(!v.sentinel_password || strcmp(v.sentinel_password, "***") == 0);
        print(&v, &again);
        check(strcmp(text.p, again.p) == 0);
        leat__url_release(&v);
    }
    leat__buf_release(&text);
    leat__buf_release(&again);
}

/* With a password put where one belongs, no message shows it. */
static void look_for_secret(const char *head, const uint8_t *data, size_t n)
{
    char text[256];
    leat__url u;
    leat_error err = { 0 };
    size_t h = strlen(head);
    n = n < sizeof text - h ? n : sizeof text - h;
    memcpy(text, head, h);
    if (n > 0)
        memcpy(text + h, data, n);
    if (memmem(data, n, "canary", 6)) /* the fuzzer found the word itself */
        return;
    if (leat__url_parse(&u, leat_mem(text, h + n), &err) == LEAT_OK)
        leat__url_release(&u);
    else
        check(!strstr(err.msg, "canary"));
}

/* Each secret lies in the text, behind the one before; and one in a parameter
 * is always found, whatever stands behind it. */
static void mask(const uint8_t *data, size_t n)
{
    static const char head[] = "redis+sentinel://h/s?sentinel_password=canary";
    char text[512];
    size_t h = sizeof head - 1, at = 0, from = 0;
    n = n < sizeof text - h ? n : sizeof text - h;
    memcpy(text, head, h);
    if (n > 0)
        memcpy(text + h, data, n);
    bool found = false;
    leat_bytes secret;
    while ((secret = leat_url_secret(leat_mem(text, h + n), &at)).n > 0) {
        size_t start = (size_t)((const char *)secret.p - text);
        check(start >= from && at == start + secret.n && at <= h + n);
        found = found || (start <= h - 6 && at >= h);
        from = at;
    }
    check(found);
    at = 0;
    for (size_t i = 0; leat_url_secret(leat_mem(data, n), &at).n > 0; i++)
        check(i <= n && at <= n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    leat__url u;
    leat_error err = { 0 };
    if (leat__url_parse(&u, leat_mem(data, n), &err) == LEAT_OK) {
        print_and_read_again(&u);
        leat__url_release(&u);
    } else {
        check(err.code == LEAT_EINVAL && err.msg[0]);
        check(strlen(err.msg) < sizeof err.msg - 1);
    }
    mask(data, n);
    look_for_secret("redis://u:s3cr3t-canary", data, n);
    look_for_secret("redis+sentinel://h/s?sentinel_password=s3cr3t-canary",
                    data, n);
    return 0;
}
