/*
 * url_secret.c: which parts of a URL's text are secrets.
 *
 * What is looked at may be damaged, or no URL at all: it is shown in an error
 * for that very reason.  So nothing is parsed here.  What could be a password
 * is one: from the first ':' behind the scheme to the last '@', or without an
 * '@' what stands for a port and is none; and all values of parameters but
 * those that are known to be none, for the name of another may be misspelt, or
 * it may be the rest of a password with an '&' in it.
 */
#include "redis/url.h"

#include <string.h>
#include <strings.h>

enum { SECRETS = 16 }; /* in one text; with more, all from there on is one */

typedef struct range {
    size_t from, to;
} range;

typedef struct ranges {
    range all[SECRETS];
    size_t count;
} ranges;

static void add(ranges *r, size_t from, size_t to)
{
    if (from >= to)
        return;
    if (r->count < SECRETS)
        r->all[r->count++] = (range){ from, to };
    else
        r->all[SECRETS - 1].to = SIZE_MAX;
}

/* The text of a port that can be one. */
static bool is_port(const char *s, size_t n)
{
    unsigned value = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9' || i >= 5)
            return false;
        value = value * 10 + (unsigned)(s[i] - '0');
    }
    return n > 0 && value <= UINT16_MAX;
}

/* user:password whose '@' was forgotten: the password may be anything, so that
 * all behind it is, up to what find_params looks at. */
static void find_odd_port(leat_bytes text, const char *start, ranges *r)
{
    const char *s = text.p, *end = s + text.n;
    const char *query = memchr(start, '?', (size_t)(end - start));
    const char *stop = query ? query : end, *last;
    for (const char *at = start; at < stop; at = last) {
        const char *v6 = *at == '[' ? memchr(at, ']', (size_t)(stop - at))
                                    : NULL;
        const char *from = v6 ? v6 : at;
        const char *colon = memchr(from, ':', (size_t)(stop - from));
        if (!colon)
            return;
        last = colon + 1;
        while (last < stop && *last != ',' && *last != '/')
            last++;
        if (!is_port(colon + 1, (size_t)(last - colon) - 1)) {
            add(r, (size_t)(colon + 1 - s), (size_t)(stop - s));
            return;
        }
        if (last < stop && *last == '/')
            return; /* a path, or a service */
        last++;
    }
}

/* user:password@, where a name alone may be a password that lost its colon. */
static void find_login(leat_bytes text, ranges *r)
{
    const char *s = text.p, *end = s + text.n;
    if (text.n >= 9 && strncasecmp(s, "embedded:", 9) == 0)
        return;
    const char *start = memmem(s, text.n, "://", 3);
    bool scheme = start != NULL;
    start = start ? start + 3 : s;
    if (start < end && *start == '/') /* unix:///path */
        return;
    const char *at = memrchr(start, '@', (size_t)(end - start));
    if (!at && scheme)
        find_odd_port(text, start, r);
    if (!at)
        return;
    const char *colon = memchr(start, ':', (size_t)(at - start));
    add(r, (size_t)((colon ? colon + 1 : start) - s), (size_t)(at - s));
}

static void find_params(leat_bytes text, ranges *r)
{
    const char *s = text.p, *end = s + text.n;
    const char *at = text.n ? memchr(s, '?', text.n) : NULL;
    while (at) {
        const char *name = at + 1;
        const char *stop = memchr(name, '&', (size_t)(end - name));
        const char *last = stop ? stop : end;
        const char *eq = memchr(name, '=', (size_t)(last - name));
        leat_bytes is = leat_mem(name, (size_t)((eq ? eq : last) - name));
        const char *from = eq ? eq + 1 : name;
        if (!leat__url_may_show(is))
            add(r, (size_t)(from - s), (size_t)(last - s));
        at = stop;
    }
}

/* Several that overlap are one. */
static range merged(const ranges *r, range one)
{
    for (bool grown = true; grown;) {
        grown = false;
        for (size_t i = 0; i < r->count; i++) {
            const range *x = &r->all[i];
            if (x->from <= one.to && x->to > one.to && x->to > one.from) {
                one.to = x->to;
                grown = true;
            }
        }
    }
    return one;
}

leat_bytes leat_url_secret(leat_bytes text, size_t *at)
{
    ranges r = { .count = 0 };
    range best = { SIZE_MAX, SIZE_MAX };
    find_login(text, &r);
    find_params(text, &r);
    for (size_t i = 0; i < r.count; i++)
        if (r.all[i].from >= *at && r.all[i].from < best.from)
            best = r.all[i];
    if (best.from >= text.n)
        return leat_mem(NULL, 0);
    best = merged(&r, best);
    if (best.to > text.n)
        best.to = text.n;
    *at = best.to;
    return leat_mem((const char *)text.p + best.from, best.to - best.from);
}
