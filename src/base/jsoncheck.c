/*
 * jsoncheck.c: a recogniser of JSON (RFC 8259).  It builds nothing; the depth
 * bounds its recursion.
 */
#include "base/jsoncheck.h"
#include "base/utf8.h"

struct in {
    const char *p, *end;
    int depth; /* how much deeper it may go */
};

static bool value(struct in *s);

static bool at(const struct in *s, char c)
{
    return s->p < s->end && *s->p == c;
}

static bool take(struct in *s, char c)
{
    bool here = at(s, c);
    s->p += here;
    return here;
}

static void space(struct in *s)
{
    while (at(s, ' ') || at(s, '\n') || at(s, '\t') || at(s, '\r'))
        s->p++;
}

static bool word(struct in *s, const char *w)
{
    while (*w)
        if (!take(s, *w++))
            return false;
    return true;
}

static bool digits(struct in *s)
{
    const char *from = s->p;
    while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return s->p > from;
}

static bool number(struct in *s)
{
    take(s, '-');
    if (!take(s, '0') && !digits(s))
        return false;
    if (take(s, '.') && !digits(s))
        return false;
    if (!take(s, 'e') && !take(s, 'E'))
        return true;
    if (!take(s, '+'))
        take(s, '-');
    return digits(s);
}

static bool hex4(struct in *s)
{
    for (int i = 0; i < 4; i++, s->p++)
        if (s->p == s->end || !strchr("0123456789abcdefABCDEF", *s->p) ||
            *s->p == '\0')
            return false;
    return true;
}

static bool escape(struct in *s)
{
    if (take(s, 'u'))
        return hex4(s);
    if (s->p == s->end || *s->p == '\0' || !strchr("\"\\/bfnrt", *s->p))
        return false;
    s->p++;
    return true;
}

static bool string(struct in *s)
{
    if (!take(s, '"'))
        return false;
    while (!take(s, '"')) {
        if (take(s, '\\')) {
            if (!escape(s))
                return false;
            continue;
        }
        leat_bytes rest = leat_mem(s->p, (size_t)(s->end - s->p));
        bool ok = rest.n > 0;
        if (!ok || leat__utf8_next(&rest, &ok) < 0x20 || !ok)
            return false;
        s->p = rest.p;
    }
    return true;
}

static bool member(struct in *s)
{
    space(s);
    if (!string(s))
        return false;
    space(s);
    return take(s, ':') && value(s);
}

/* What stands between brackets, after the opening one. */
static bool items(struct in *s, char end, bool (*item)(struct in *s))
{
    if (s->depth-- == 0)
        return false;
    space(s);
    if (!take(s, end)) {
        do {
            if (!item(s))
                return false;
        } while (take(s, ','));
        if (!take(s, end))
            return false;
    }
    s->depth++;
    return true;
}

static bool bare_value(struct in *s)
{
    if (take(s, '{'))
        return items(s, '}', member);
    if (take(s, '['))
        return items(s, ']', value);
    if (at(s, '"'))
        return string(s);
    if (at(s, 't'))
        return word(s, "true");
    if (at(s, 'f'))
        return word(s, "false");
    if (at(s, 'n'))
        return word(s, "null");
    return number(s);
}

static bool value(struct in *s)
{
    space(s);
    bool ok = bare_value(s);
    space(s);
    return ok;
}

bool leat__json_valid(leat_bytes text, int depth)
{
    struct in s = { text.p, NULL, depth };
    if (text.n == 0)
        return false;
    s.end = s.p + text.n;
    return value(&s) && s.p == s.end;
}
