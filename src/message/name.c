/*
 * name.c: what may be the name of a topic, a group, a queue or a prefix.
 *
 * Names become parts of keys, so the characters that structure a key (':',
 * '/', braces) and all that looks different from what it is are left out.
 */
#include "message/name.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool allowed(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

static bool fine(const char *name, size_t n, size_t max)
{
    if (n == 0 || n > max || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!allowed(name[i]))
            return false;
    return true;
}

static leat_code check(const char *what, const char *name, size_t max,
                       leat_error *err)
{
    if (!name)
        return leat__fail(err, LEAT_EINVAL, "no %s name was given", what);
    size_t n = strlen(name);
    if (fine(name, n, max))
        return LEAT_OK;
    char quoted[80];
    leat__escape(quoted, sizeof quoted, name, n);
    return leat__fail(
        err, LEAT_EINVAL,
        "%s name '%s' of %zu bytes: use 1 to %zu letters, digits, "
        "'.', '_' or '-', and not '.' or '..' alone",
        what, quoted, n, max);
}

leat_code leat__name_check(const char *what, const char *name, leat_error *err)
{
    return check(what, name, LEAT_NAME_MAX, err);
}

bool leat__name_is(leat_bytes name)
{
    char text[LEAT_NAME_MAX + 1] = "";
    if (name.n == 0 || name.n > LEAT_NAME_MAX || memchr(name.p, 0, name.n))
        return false;
    memcpy(text, name.p, name.n);
    return fine(text, name.n, LEAT_NAME_MAX);
}

void leat__junk_note(leat__junk *j, leat_bytes member)
{
    if (j->count++ == 0)
        leat__escape(j->first, sizeof j->first, member.p, member.n);
}

void leat__junk_tell(const leat__junk *j, const char *registry,
                     const leat_logger *log)
{
    if (j->count > 0)
        leat__log(log, LEAT_LOG_WARN,
                  "%s: passed over %llu that cannot be names, as '%s': another "
                  "program wrote there",
                  registry, (unsigned long long)j->count, j->first);
}

leat_code leat__prefix_check(const char *prefix, leat_error *err)
{
    if (!prefix || !*prefix)
        return LEAT_OK;
    return check("prefix", prefix, LEAT__PREFIX_MAX, err);
}

const char *leat__prefix_of(const char *prefix)
{
    return prefix && *prefix ? prefix : "leat";
}

void leat__key_put(leat__key *k, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(k->p, sizeof k->p, fmt, ap);
    va_end(ap);
    assert(n > 0 && (size_t)n < sizeof k->p);
    k->n = (size_t)n;
}
