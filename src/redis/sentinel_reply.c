/*
 * sentinel_reply.c: what sentinels say, and which of them to follow.
 */
#include "redis/sentinel_reply.h"

#include <string.h>

static bool is_text(const leat_reply *r, const char *word)
{
    return leat_bytes_eq(leat_reply_bytes(r), leat_str(word));
}

/* A host that can be printed and looked up. */
static bool read_host(const leat_reply *r, char *out, size_t room)
{
    leat_bytes b = leat_reply_bytes(r);
    const unsigned char *s = b.p;
    if (b.n == 0 || b.n >= room)
        return false;
    for (size_t i = 0; i < b.n; i++)
        if (s[i] <= ' ' || s[i] >= 0x7f)
            return false;
    memcpy(out, s, b.n);
    out[b.n] = '\0';
    return true;
}

static bool read_port(const leat_reply *r, int *out)
{
    int64_t port = leat_reply_int(r);
    if (port < 1 || port > 65535)
        return false;
    *out = (int)port;
    return true;
}

bool leat__sentinel_read_address(const leat_reply *r,
                                 leat__sentinel_answer *out)
{
    *out = (leat__sentinel_answer){ .epoch = out->epoch };
    if (leat_reply_kind(r) == LEAT_REPLY_NIL) {
        out->said = LEAT__SENTINEL_NOBODY;
        return true;
    }
    if (leat_reply_kind(r) != LEAT_REPLY_ARRAY || leat_reply_len(r) != 2 ||
        !read_host(leat_reply_at(r, 0), out->at.host, sizeof out->at.host) ||
        !read_port(leat_reply_at(r, 1), &out->at.port))
        return false;
    out->said = LEAT__SENTINEL_NAMED;
    return true;
}

/* RESP2 has no maps: both are key, value, key, value. */
static const leat_reply *field(const leat_reply *r, const char *name)
{
    leat_reply_type t = leat_reply_kind(r);
    if (t != LEAT_REPLY_ARRAY && t != LEAT_REPLY_MAP)
        return NULL;
    leat_reply_iter it = leat_reply_each(r);
    for (const leat_reply *key; (key = leat_reply_step(&it));) {
        const leat_reply *value = leat_reply_step(&it);
        if (is_text(key, name))
            return value;
    }
    return NULL;
}

int64_t leat__sentinel_read_epoch(const leat_reply *r)
{
    int64_t epoch = leat_reply_int(field(r, "config-epoch"));
    return epoch > 0 ? epoch : 0;
}

/* "slave,s_down": a list of words. */
static bool has_flag(leat_bytes flags, const char *word)
{
    size_t n = strlen(word);
    const char *p = flags.p;
    for (size_t at = 0; at + n <= flags.n; at++)
        if ((at == 0 || p[at - 1] == ',') && memcmp(p + at, word, n) == 0 &&
            (at + n == flags.n || p[at + n] == ','))
            return true;
    return false;
}

static bool read_replica(const leat_reply *r, leat_node *out)
{
    leat_bytes flags = leat_reply_bytes(field(r, "flags"));
    *out = (leat_node){ 0 };
    return !has_flag(flags, "s_down") && !has_flag(flags, "o_down") &&
           read_host(field(r, "ip"), out->host, sizeof out->host) &&
           read_port(field(r, "port"), &out->port);
}

size_t leat__sentinel_read_replicas(const leat_reply *r, leat_node *out,
                                    size_t room)
{
    size_t n = 0;
    if (leat_reply_kind(r) != LEAT_REPLY_ARRAY)
        return 0;
    leat_reply_iter it = leat_reply_each(r);
    for (const leat_reply *one; (one = leat_reply_step(&it));) {
        leat_node node;
        if (read_replica(one, &node)) {
            if (n < room)
                out[n] = node;
            n++;
        }
    }
    return n;
}

leat__sentinel_role leat__sentinel_read_role(const leat_reply *r)
{
    const leat_reply *name = leat_reply_kind(r) == LEAT_REPLY_ARRAY
                                 ? leat_reply_at(r, 0)
                                 : r;
    if (is_text(name, "master"))
        return LEAT__ROLE_MASTER;
    return is_text(name, "slave") || is_text(name, "replica")
               ? LEAT__ROLE_REPLICA
               : LEAT__ROLE_OTHER;
}

static bool names_known(const leat__sentinel_known *known,
                        const leat__sentinel_answer *a)
{
    return known->is && a->said == LEAT__SENTINEL_NAMED &&
           leat__address_same(&known->at, &a->at);
}

static size_t votes(const leat__sentinel_answer *a, size_t n,
                    const leat__address *at, int64_t epoch)
{
    size_t v = 0;
    for (size_t i = 0; i < n; i++)
        v += a[i].said == LEAT__SENTINEL_NAMED && a[i].epoch >= epoch &&
             leat__address_same(&a[i].at, at);
    return v;
}

/* The answer with the highest epoch that most of them stand for, or n: one
 * alone moves neither the address nor the epoch. */
static size_t agreed(const leat__sentinel_answer *a, size_t n, size_t voters)
{
    size_t best = n;
    for (size_t i = 0; i < n; i++)
        if (a[i].said == LEAT__SENTINEL_NAMED &&
            2 * votes(a, n, &a[i].at, a[i].epoch) > voters &&
            (best == n || a[i].epoch > a[best].epoch))
            best = i;
    return best;
}

/* They differ, and there is no most: the known master stays unless somebody
 * knows of a later one. */
static size_t stays(const leat__sentinel_known *known,
                    const leat__sentinel_answer *a, size_t n)
{
    size_t same = n;
    for (size_t i = 0; i < n; i++) {
        if (a[i].said != LEAT__SENTINEL_NAMED || a[i].tried)
            continue;
        if (!names_known(known, &a[i]) && a[i].epoch > known->epoch)
            return n;
        if (same == n && names_known(known, &a[i]))
            same = i;
    }
    return same;
}

size_t leat__sentinel_choose(const leat__sentinel_known *known,
                             const leat__sentinel_answer *a, size_t n,
                             size_t sentinels)
{
    size_t answered = 0;
    bool vouched = false;
    for (size_t i = 0; i < n; i++) {
        answered += a[i].said == LEAT__SENTINEL_NAMED;
        vouched |= names_known(known, &a[i]);
    }
    bool all = n >= sentinels;
    size_t best = agreed(a, n, all ? answered : sentinels);
    if (best == n)
        return all ? stays(known, a, n) : n;
    if (a[best].tried)
        return n;
    if (!known->is || names_known(known, &a[best]) ||
        a[best].epoch > known->epoch)
        return best;
    return !vouched && 2 * answered > sentinels ? best : n;
}
