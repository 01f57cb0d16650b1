/*
 * retention.c (fuzz): any reply as the retention of a topic.
 */
#include "topic/retention.h"
#include "redis/resp.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

/* What is taken for one is sound, and what is not is quoted. */
static void read_reply(const leat_reply *r)
{
    leat_retention x;
    leat_bytes bad = leat_mem(NULL, 0);
    leat_error e;
    if (leat__retention_read(leat_reply_each(r), &x, &bad))
        must(leat__retention_check(&x, &e) == LEAT_OK);
    else
        must(bad.n == 0 || bad.p != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    leat__resp d;
    size_t used;
    leat__resp_init(&d, &(leat__resp_limits){ .reply = 1 << 20 });
    if (leat__resp_decode(&d, (const char *)data, size, &used, NULL) ==
        LEAT__RESP_DONE)
        read_reply(d.nodes);
    leat__resp_release(&d);
    return 0;
}
