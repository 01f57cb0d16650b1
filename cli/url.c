/*
 * url.c: URLs as the command shows and hides them.
 *
 * Which part of a URL is a secret only the library says (leat_url_secret), also
 * of one that is damaged.  Schemes are read in any case.
 */
#include "cli.h"

#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>

bool url_is_embedded(const char *url)
{
    return strncasecmp(url, "embedded:", 9) == 0;
}

bool url_is_tls(const char *url)
{
    return strncasecmp(url, "rediss:", 7) == 0 ||
           strncasecmp(url, "rediss+", 7) == 0;
}

/* A name alone is masked, since it may be a password that lost its colon, but
 * is no reason to refuse a file. */
bool url_has_secret(const char *url)
{
    size_t at = 0;
    leat_bytes secret;
    while ((secret = leat_url_secret(leat_str(url), &at)).n > 0) {
        const char *s = secret.p;
        if (s > url && strchr(":=&", s[-1]))
            return true;
    }
    return false;
}

/* user:password@, or the parameter: what the server itself is told. */
bool url_has_login(const char *url)
{
    const char *start = strstr(url, "://"), *query = strchr(url, '?');
    start = start ? start + 3 : url;
    size_t n = query && query > start ? (size_t)(query - start) : strlen(start);
    const char *at = memchr(start, '@', n);
    if (at && memchr(start, ':', (size_t)(at - start)))
        return true;
    for (; query; query = strchr(query + 1, '&'))
        if (strncasecmp(query + 1, "password=", 9) == 0)
            return true;
    return false;
}

/* As it stands there, and as the server is told it. */
static void add_both(leat_bytes secret)
{
    const char *s = secret.p;
    char *plain = grab(secret.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < secret.n; i++) {
        bool escaped = s[i] == '%' && secret.n - i > 2 &&
                       isxdigit((unsigned char)s[i + 1]) &&
                       isxdigit((unsigned char)s[i + 2]);
        char two[3] = { s[i + escaped], s[i + 2 * escaped], '\0' };
        plain[n++] = escaped ? (char)strtoul(two, NULL, 16) : s[i];
        i += escaped ? 2 : 0;
    }
    secret_add(s, secret.n);
    if (n != secret.n)
        secret_add(plain, n);
    explicit_bzero(plain, n);
    free(plain);
}

void secret_add_url(const char *url)
{
    size_t at = 0;
    leat_bytes secret;
    while ((secret = leat_url_secret(leat_str(url), &at)).n > 0)
        add_both(secret);
}

char *url_hide(char *url)
{
    size_t at = 0;
    leat_bytes secret;
    char *whole = copy(url);
    while ((secret = leat_url_secret(leat_str(whole), &at)).n > 0)
        memset(url + ((const char *)secret.p - whole), '*', secret.n);
    return whole;
}

char *url_mask(const char *url)
{
    char *out = NULL;
    size_t n = 0, at = 0, from = 0;
    leat_bytes secret;
    FILE *f = open_memstream(&out, &n);
    if (!f)
        return copy("***");
    while ((secret = leat_url_secret(leat_str(url), &at)).n > 0) {
        fwrite(url + from, 1, (size_t)((const char *)secret.p - url) - from, f);
        fputs("***", f);
        from = at;
    }
    fputs(url + from, f);
    fclose(f);
    char *shown = printable(out, n);
    free(out);
    return shown;
}

/* ---- the environment -------------------------------------------------- */

bool variable_is_secret(const char *variable)
{
    static const char *const names[] = { "LEAT_PASSWORD=", "LEAT_URL=",
                                         "REDISCLI_AUTH=" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (strncmp(variable, names[i], n) == 0)
            return strcmp(names[i], "LEAT_URL=") != 0 ||
                   url_has_secret(variable + n);
    }
    return false;
}

void environment_hide(void)
{
    for (size_t i = 0; environ[i];) {
        char *name = variable_is_secret(environ[i])
                         ? copy_n(environ[i], strcspn(environ[i], "="))
                         : NULL;
        if (name)
            unsetenv(name); /* what is behind it moves here */
        else
            i++;
        free(name);
    }
}
