/*
 * letters.c (fuzz): any reply as an entry of the dead letters.
 */
#include "admin/dlq.h"
#include "redis/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned sink; /* so that reading is not optimised away */

static void look(leat_bytes b)
{
    for (size_t i = 0; i < b.n; i++)
        sink ^= ((const unsigned char *)b.p)[i];
}

static void read_reply(const leat_reply *r)
{
    leat_dlq d = { .name = (char[]){ "t" }, .prefix = (char[]){ "leat" } };
    leat__letter x = { 0 };
    leat__dead_at at = { .partition = 1, .at = { .ms = 1, .seq = 1 } };
    leat_error e;
    if (leat__letter_read(&x, &d, at, r, &e) == LEAT_OK) {
        look(x.pub.error);
        look(x.pub.first_error);
        look(x.pub.last_error);
        for (size_t i = 0; i < x.pub.msg_count; i++)
            look(x.pub.msg[i].body);
        for (size_t i = 0; i < x.pub.extra_count; i++)
            look(x.pub.extra[i].value);
    }
    leat__letter_release(&x);
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
