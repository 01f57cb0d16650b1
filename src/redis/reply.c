/*
 * reply.c: reading a reply.  Every call accepts NULL, which reads as a null
 * reply, so that a path of leat_reply_at needs one check at its end.
 */
#include "base/mem.h"
#include "redis/resp.h"

leat_reply_type leat_reply_kind(const leat_reply *r)
{
    return r ? (leat_reply_type)r->type : LEAT_REPLY_NIL;
}

static bool is_number_text(const leat_reply *r)
{
    leat_reply_type t = leat_reply_kind(r);
    return t == LEAT_REPLY_STRING || t == LEAT_REPLY_STATUS;
}

/* The whole of it as a decimal int64_t, else 0. */
static int64_t parse_int(const char *p, size_t n)
{
    bool minus = n > 0 && p[0] == '-';
    int64_t x = 0;
    for (size_t i = minus; i < n; i++) {
        int d = p[i] - '0';
        if (d < 0 || d > 9 || __builtin_mul_overflow(x, 10, &x) ||
            __builtin_add_overflow(x, minus ? -d : d, &x))
            return 0;
    }
    return x;
}

int64_t leat_reply_int(const leat_reply *r)
{
    leat_reply_type t = leat_reply_kind(r);
    if (t == LEAT_REPLY_INT || t == LEAT_REPLY_BOOL)
        return r->i;
    return is_number_text(r) ? parse_int(r->s.p, r->s.n) : 0;
}

double leat_reply_double(const leat_reply *r)
{
    leat_reply_type t = leat_reply_kind(r);
    double d = 0;
    if (t == LEAT_REPLY_DOUBLE)
        return r->d;
    if (t == LEAT_REPLY_INT || t == LEAT_REPLY_BOOL)
        return (double)r->i;
    if (is_number_text(r) && leat__resp_double(r->s.p, r->s.n, &d))
        return d;
    return 0;
}

static bool is_text(const leat_reply *r)
{
    leat_reply_type t = leat_reply_kind(r);
    return is_number_text(r) || t == LEAT_REPLY_ERROR || t == LEAT_REPLY_BIGNUM;
}

leat_bytes leat_reply_bytes(const leat_reply *r)
{
    return is_text(r) ? leat_mem(r->s.p, r->s.n) : leat_mem("", 0);
}

size_t leat_reply_len(const leat_reply *r)
{
    return r ? r->n : 0;
}

leat_reply_iter leat_reply_each(const leat_reply *r)
{
    size_t n = leat_reply_len(r);
    return (leat_reply_iter){ .at = n > 0 ? r + 1 : NULL, .left = n };
}

/* The last element does not move on: behind it may be no node. */
const leat_reply *leat_reply_step(leat_reply_iter *it)
{
    if (it->left == 0)
        return NULL;
    const leat_reply *e = it->at;
    if (--it->left > 0)
        it->at = e + e->span;
    return e;
}

const leat_reply *leat_reply_at(const leat_reply *r, size_t i)
{
    if (i >= leat_reply_len(r))
        return NULL;
    const leat_reply *e = r + 1;
    for (; i > 0; i--)
        e += e->span;
    return e;
}

/* The nodes, and behind them the text of each. */
leat_reply *leat__reply_copy(const leat_reply *r, leat_error *err)
{
    size_t nodes = r->span * sizeof *r, text = 0;
    for (uint32_t i = 0; i < r->span; i++)
        text += leat_reply_bytes(r + i).n;
    leat_reply *copy = leat__alloc(nodes + text, err);
    if (!copy)
        return NULL;
    memcpy(copy, r, nodes);
    char *p = (char *)copy + nodes;
    for (uint32_t i = 0; i < r->span; i++) {
        copy[i].owned = i == 0;
        if (!is_text(copy + i))
            continue;
        copy[i].s.p = memcpy(p, r[i].s.p, r[i].s.n);
        p += r[i].s.n;
    }
    return copy;
}

void leat_reply_free(leat_reply *r)
{
    if (r && r->owned)
        leat__free(r);
}
