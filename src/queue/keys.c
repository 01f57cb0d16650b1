/*
 * keys.c: the names of all keys of a queue, and reading receipts.
 */
#include "queue/keys.h"
#include "base/crc16.h"

#include <string.h>

unsigned leat__queue_shard(const char *name)
{
    return leat__crc16(name, strlen(name)) % LEAT__QUEUE_SHARDS;
}

void leat__key_shard(leat__key *k, const char *prefix, unsigned shard,
                     const char *what)
{
    leat__key_put(k, "%s:{q/%u}:%s", leat__prefix_of(prefix), shard, what);
}

void leat__key_queue(leat__key *k, const char *prefix, const char *name,
                     const char *what)
{
    leat__key_put(k, "%s:{q/%u}:%s:%s", leat__prefix_of(prefix),
                  leat__queue_shard(name), name, what);
}

/* ---- receipts --------------------------------------------------------- */

/* Up to the next '/', which is skipped; false: there is none. */
static bool cut(leat_bytes *rest, leat_bytes *part)
{
    const char *p = rest->p;
    const char *slash = rest->n ? memchr(p, '/', rest->n) : NULL;
    if (!slash)
        return false;
    *part = leat_mem(p, (size_t)(slash - p));
    *rest = leat_mem(slash + 1, rest->n - part->n - 1);
    return true;
}

static bool number(leat_bytes text, int64_t max, int64_t *out)
{
    const char *p = text.p;
    int64_t v = 0;
    if (text.n == 0 || (text.n > 1 && p[0] == '0'))
        return false;
    for (size_t i = 0; i < text.n; i++) {
        if (p[i] < '0' || p[i] > '9' || v > (max - (p[i] - '0')) / 10)
            return false;
        v = v * 10 + (p[i] - '0');
    }
    *out = v;
    return true;
}

/* "<length>/<group>/", which may hold any bytes. */
static bool cut_group(leat_bytes *rest, leat_bytes *group)
{
    leat_bytes text;
    int64_t n;
    if (!cut(rest, &text) || !number(text, LEAT__GROUP_MAX, &n) ||
        rest->n < (size_t)n + 1 || ((const char *)rest->p)[n] != '/')
        return false;
    *group = leat_mem(rest->p, (size_t)n);
    *rest = leat_mem((const char *)rest->p + n + 1, rest->n - (size_t)n - 1);
    return true;
}

/* An id may hold a '/', the nonce behind it has none. */
static bool split_nonce(leat_bytes rest, leat__receipt *out)
{
    const char *p = rest.p;
    const char *slash = rest.n ? memrchr(p, '/', rest.n) : NULL;
    if (!slash || slash == p || slash == p + rest.n - 1)
        return false;
    out->id = leat_mem(p, (size_t)(slash - p));
    out->nonce = leat_mem(slash + 1, rest.n - out->id.n - 1);
    return out->id.n <= LEAT__QUEUE_ID_MAX;
}

bool leat__receipt_parse(leat_bytes text, bool fifo, leat__receipt *out)
{
    leat_bytes rest = text, kind, receives, sent;
    int64_t count;
    *out = (leat__receipt){ 0 };
    if (text.n > LEAT_RECEIPT_MAX || !cut(&rest, &kind) || kind.n != 1 ||
        !cut(&rest, &out->queue) || out->queue.n == 0)
        return false;
    out->kind = *(const char *)kind.p;
    const char *entry = rest.p;
    if ((out->kind != 'v' && out->kind != 'x') || !cut(&rest, &receives) ||
        !number(receives, UINT32_MAX, &count) || !cut(&rest, &sent) ||
        !number(sent, INT64_MAX, &out->sent_ms) ||
        (fifo && !cut_group(&rest, &out->group)) || !split_nonce(rest, out))
        return false;
    out->receives = (uint32_t)count;
    out->entry = leat_mem(entry,
                          (size_t)((const char *)out->nonce.p - 1 - entry));
    return true;
}
