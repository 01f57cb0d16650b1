/*
 * sentinel.c: any bytes as the replies of a sentinel.
 *
 * Each reply in the bytes is read as every kind of answer.  What is taken for
 * an address can be printed and dialled.
 */
#include "redis/resp.h"
#include "redis/sentinel_reply.h"

#include <stdlib.h>
#include <string.h>

enum { NODES = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool promise)
{
    if (!promise)
        abort();
}

static void check_host(const char *host, size_t room, int port)
{
    size_t n = strnlen(host, room);
    check(n > 0 && n < room && port >= 1 && port <= 65535);
    for (size_t i = 0; i < n; i++)
        check(host[i] > ' ' && host[i] < 0x7f);
}

static void read_all(const leat_reply *r, leat__sentinel_answer *a)
{
    leat_node nodes[NODES];
    a->epoch = leat__sentinel_read_epoch(r);
    check(a->epoch >= 0);
    if (!leat__sentinel_read_address(r, a))
        a->said = LEAT__SENTINEL_SILENT;
    if (a->said == LEAT__SENTINEL_NAMED)
        check_host(a->at.host, sizeof a->at.host, a->at.port);
    size_t n = leat__sentinel_read_replicas(r, nodes, NODES);
    check(n <= leat_reply_len(r));
    for (size_t i = 0; i < n && i < NODES; i++)
        check_host(nodes[i].host, sizeof nodes[i].host, nodes[i].port);
    check(leat__sentinel_read_role(r) <= LEAT__ROLE_OTHER);
}

/* Whoever is chosen has named somebody. */
static void check_choice(const leat__sentinel_answer *a, size_t n)
{
    leat__sentinel_known known = { .is = n > 1, .epoch = 1 };
    if (known.is)
        known.at = a[n - 1].at;
    size_t k = leat__sentinel_choose(&known, a, n, n);
    check(k == n || (k < n && a[k].said == LEAT__SENTINEL_NAMED));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    leat__resp resp;
    leat__sentinel_answer a[8] = { 0 };
    size_t answers = 0;
    leat__resp_init(&resp, &(leat__resp_limits){ .reply = 1 << 20 });
    while (n > 0 && answers < 8) {
        size_t used = 0;
        if (leat__resp_decode(&resp, (const char *)data, n, &used, NULL) !=
            LEAT__RESP_DONE)
            break;
        read_all(resp.nodes, &a[answers++]);
        leat__resp_reset(&resp);
        data += used;
        n -= used;
    }
    check_choice(a, answers);
    leat__resp_release(&resp);
    return 0;
}
