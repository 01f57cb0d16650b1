/*
 * slots.c (fuzz): any reply as the map of a cluster, any text as a redirect.
 *
 *   byte 0   0: CLUSTER SLOTS, 1: SHARDS, 2: SHARDS with TLS, 3: a redirect,
 *            4: a command whose keys are looked for
 *   rest     the wire; of a command its words, with zeros between them
 */
#include "redis/slots.h"
#include "redis/keys.h"
#include "redis/resp.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static const leat__address asked = { .host = "asked", .port = 1 };

/* Every slot has an owner that is there, and the counts agree. */
static void check(const leat__slots *m)
{
    int slots = 0, owned = 0;
    for (size_t i = 0; i < m->count; i++) {
        const leat__slots_node *n = &m->nodes[i];
        must(n->at.port > 0 && n->at.port < 65536 && n->at.host[0]);
        must(n->primary < (int)m->count);
        slots += n->slots;
    }
    for (unsigned i = 0; i < LEAT__SLOTS; i++) {
        must(m->owner[i] == LEAT__SLOTS_NONE || m->owner[i] < m->count);
        owned += m->owner[i] != LEAT__SLOTS_NONE;
    }
    must(slots == owned);
}

static void read_map(const char *p, size_t n, int how)
{
    static leat__slots m;
    leat__resp d;
    leat_error e;
    size_t used;
    leat__resp_init(&d, &(leat__resp_limits){ 0 });
    leat__slots_init(&m);
    if (leat__resp_decode(&d, p, n, &used, &e) == LEAT__RESP_DONE) {
        leat_code rc = how ? leat__slots_read_shards(&m, d.nodes, &asked,
                                                     how == 2, &e)
                           : leat__slots_read(&m, d.nodes, &asked, &e);
        must(rc == LEAT_OK || m.count == 0);
        check(&m);
    }
    leat__slots_release(&m);
    leat__resp_release(&d);
}

static void find_keys(const char *p, size_t n)
{
    leat_bytes argv[32], key;
    size_t words = 0;
    int slot;
    while (n > 0 && words < 32) {
        const char *zero = memchr(p, 0, n);
        size_t len = zero ? (size_t)(zero - p) : n;
        argv[words++] = leat_mem(p, len);
        p += zero ? len + 1 : len;
        n -= zero ? len + 1 : len;
    }
    leat__keys k = leat__keys_of(argv, words);
    must(k.end <= words && k.step > 0);
    leat_error e;
    if (leat__keys_slot(argv, words, &slot, &key, &e) == LEAT_OK)
        must(slot >= -1 && slot < LEAT__SLOTS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    leat__redirect to;
    if (size == 0)
        return 0;
    const char *p = (const char *)data + 1;
    if (data[0] % 5 < 3)
        read_map(p, size - 1, data[0] % 5);
    else if (data[0] % 5 == 4)
        find_keys(p, size - 1);
    else if (leat__redirect_read(&to, leat_mem(p, size - 1), &asked))
        must(to.slot < LEAT__SLOTS && to.to.port > 0 && to.to.host[0]);
    return 0;
}
