/*
 * resp.c (fuzz): a reply decoded whole and in pieces is the same.
 *
 *   byte 0   the limits and the size of the first piece
 *   byte 1   the size of the others
 *   rest     the wire
 *
 * Each piece is given in a block of its own, exactly as long as what came so
 * far, and the one before is freed: a stale view or a read too far is seen by
 * ASan.  Every node is then read through the public calls, and copied.
 */
#include "redis/resp.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static char *block(const char *p, size_t n)
{
    char *b = malloc(n ? n : 1);
    must(b);
    memcpy(b, p, n);
    return b;
}

static const leat__resp_limits limits[] = {
    { 0 },
    { .depth = 2, .elements = 6, .bulk = 120, .line = 20, .reply = 200 },
    { .depth = 32, .elements = 40, .line = 18 },
    { .reply = 24 },
};

static volatile unsigned sink; /* so that reading is not optimised away */

/* Walks like a caller: every element is reached and every span agrees. */
static const leat_reply *walk(const leat_reply *r)
{
    const leat_reply *behind = r + 1;
    leat_reply_iter it = leat_reply_each(r);
    leat_bytes b = leat_reply_bytes(r);
    sink += leat_reply_int(r) != 0 || leat_reply_double(r) > 0;
    for (size_t i = 0; i < b.n; i++)
        sink ^= ((const unsigned char *)b.p)[i];
    for (size_t i = 0; i < leat_reply_len(r); i++) {
        const leat_reply *e = leat_reply_step(&it);
        must(e == behind && e == leat_reply_at(r, i));
        behind = walk(e);
    }
    must(leat_reply_step(&it) == NULL && behind == r + r->span);
    must(leat_reply_at(r, leat_reply_len(r)) == NULL);
    return behind;
}

static void same(const leat_reply *a, const leat_reply *b)
{
    must(a->span == b->span);
    for (uint32_t i = 0; i < a->span; i++) {
        leat_bytes x = leat_reply_bytes(a + i), y = leat_reply_bytes(b + i);
        must(a[i].type == b[i].type && a[i].n == b[i].n);
        must(a[i].span == b[i].span && leat_bytes_eq(x, y));
        must(leat_reply_int(a + i) == leat_reply_int(b + i));
    }
}

static void check_copy(const leat_reply *r)
{
    leat_reply *copy = leat__reply_copy(r, NULL);
    must(copy != NULL);
    same(copy, r);
    leat_reply_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const leat__resp_limits *l = limits + data[0] % 4;
    size_t have = data[0] / 4, step = 1 + data[1], n = size - 2;
    const char *wire = (const char *)data + 2;
    leat__resp whole, pieces;
    leat_error why = { 0 }, why_pieces = { 0 };
    size_t used = 0, used_pieces = 0;

    leat__resp_init(&whole, l);
    leat__resp_state st = leat__resp_decode(&whole, wire, n, &used, &why);
    must(st != LEAT__RESP_DONE || used <= n);
    must(whole.cap <= n + 16 || whole.cap <= 2 * n);

    leat__resp_init(&pieces, l);
    leat__resp_state st_pieces;
    char *now = NULL;
    for (;;) {
        have = have < n ? have : n;
        char *next = block(wire, have);
        free(now);
        now = next;
        st_pieces = leat__resp_decode(&pieces, now, have, &used_pieces,
                                      &why_pieces);
        if (st_pieces != LEAT__RESP_MORE || have == n)
            break;
        have += step;
    }
    must(st == st_pieces && used == used_pieces && why.code == why_pieces.code);
    if (st == LEAT__RESP_DONE) {
        must(whole.count == whole.nodes->span);
        must(walk(whole.nodes) == whole.nodes + whole.count);
        same(whole.nodes, pieces.nodes);
        check_copy(pieces.nodes);
    }
    leat__resp_release(&whole);
    leat__resp_release(&pieces);
    free(now);
    return 0;
}
