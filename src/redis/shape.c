/*
 * shape.c: is an answer what was asked for?
 */
#include "redis/shape.h"

#include <string.h>

static bool is_text(const leat_reply *r)
{
    leat_reply_type t = leat_reply_kind(r);
    return t == LEAT_REPLY_STRING || t == LEAT_REPLY_STATUS;
}

static bool is_list(const leat_reply *r, char what)
{
    leat_reply_type t = leat_reply_kind(r);
    if (what == '{')
        return t == LEAT_REPLY_MAP;
    return t == LEAT_REPLY_ARRAY || t == LEAT_REPLY_SET || t == LEAT_REPLY_MAP;
}

static size_t digits(const char *p, const char *end)
{
    size_t n = 0;
    while (p + n < end && p[n] >= '0' && p[n] <= '9')
        n++;
    return n;
}

static bool is_id(leat_bytes b)
{
    const char *p = b.p, *end = p + b.n;
    size_t ms = digits(p, end);
    if (ms == 0 || p + ms == end || p[ms] != '-')
        return false;
    p += ms + 1;
    size_t seq = digits(p, end);
    return seq > 0 && p + seq == end;
}

/* Wholly a decimal number; leat_reply_int reads what is none as 0. */
static bool is_number(const leat_reply *r)
{
    if (leat_reply_kind(r) == LEAT_REPLY_INT)
        return true;
    leat_bytes b = leat_reply_bytes(r);
    if (!is_text(r) || b.n == 0)
        return false;
    const char *p = b.p, *end = p + b.n;
    p += p[0] == '-' && b.n > 1;
    if (p + digits(p, end) != end)
        return false;
    while (p < end && *p == '0')
        p++;
    return p == end || leat_reply_int(r) != 0;
}

static bool is_one(const leat_reply *r, char what)
{
    bool text = is_text(r), nil = leat_reply_kind(r) == LEAT_REPLY_NIL;
    leat_bytes b = leat_reply_bytes(r);
    switch (what) {
    case 'i':
        return is_number(r);
    case 'n':
        return is_number(r) || (text && b.n == 0);
    case 't':
        return text;
    case 'o':
        return text || nil;
    case 'd':
        return text && is_id(b);
    case 'e':
        return text && (b.n == 0 || is_id(b));
    case '0':
        return nil;
    default:
        return leat_reply_kind(r) != LEAT_REPLY_ERROR;
    }
}

/* Behind the part at p: a letter, or a list up to its end. */
static const char *behind(const char *p)
{
    size_t open = 0;
    do
        open += *p == '[' || *p == '{' ? 1 : *p == ']' || *p == '}' ? -1UL : 0;
    while (*p++ && open > 0);
    return p;
}

static bool ends(char c)
{
    return c == ']' || c == '}';
}

static bool fits(const leat_reply *r, const char *p);

/* Behind the ) of what is gone through again and again. */
static const char *behind_group(const char *p)
{
    while (*p != ')')
        p = behind(p);
    return p + 1;
}

static bool may_end(const char *p, const char *again)
{
    if (p == again)
        p = behind_group(p);
    return ends(*p) || *behind(p) == '?';
}

/* Each element against its part.  What is in ( ) is gone through again and
 * again, until there is one that its first part does not fit. */
static bool list_fits(const leat_reply *r, const char *p)
{
    const char *again = NULL;
    leat_reply_iter it = leat_reply_each(r);
    for (;;) {
        if (*p == '(')
            again = ++p;
        else if (*p == ')' && again)
            p = again;
        if (it.left == 0)
            return may_end(p, again);
        if (p == again && !fits(it.at, p)) {
            p = behind_group(p);
            again = NULL;
        }
        if (ends(*p) || !fits(leat_reply_step(&it), p))
            return false;
        p = behind(p);
        p += *p == '?';
    }
}

/* Recursion is as deep as the shape. */
static bool fits(const leat_reply *r, const char *p)
{
    if (*p == '[' || *p == '{')
        return is_list(r, *p) && list_fits(r, p + 1);
    return is_one(r, *p);
}

bool leat__reply_fits(const leat_reply *r, const char *shape)
{
    for (const char *p = shape; p; p = strchr(p, '|')) {
        p += p != shape;
        if (r && fits(r, p))
            return true;
    }
    return false;
}

leat_code leat__reply_want(const leat_reply *r, const char *shape,
                           leat_code code, const char *what, leat_error *err)
{
    if (leat__reply_fits(r, shape))
        return LEAT_OK;
    return leat__fail(err, code, "the server answered %s strangely", what);
}

const leat_error *leat__reply_odd(const leat_reply *r, const leat_error *e,
                                  const char *shape, const char *what,
                                  leat_error *odd)
{
    if (e || leat__reply_want(r, shape, LEAT_EPROTO, what, odd) == LEAT_OK)
        return e;
    return odd;
}
