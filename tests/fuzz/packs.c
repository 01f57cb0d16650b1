/*
 * packs.c (fuzz): any bytes as a message of a queue, native or redowl's.
 *
 *   byte 0   bit 0: redowl, bit 1: fifo
 *   rest     the member, a zero, the value
 */
#include "queue/profile.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned sink; /* so that reading is not optimised away */

static void look(leat_bytes b)
{
    for (size_t i = 0; i < b.n; i++)
        sink ^= ((const unsigned char *)b.p)[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    leat_error e;
    leat_queue_item it = { 0 };
    leat__receipt r;
    if (size == 0)
        return 0;
    const queue_profile *p = data[0] & 1 ? &leat__queue_redowl
                                         : &leat__queue_native;
    bool fifo = data[0] & 2;
    const uint8_t *zero = memchr(data + 1, 0, size - 1);
    size_t n = zero ? (size_t)(zero - data) - 1 : size - 1;
    leat_bytes member = leat_mem(data + 1, n);
    leat_bytes value = zero ? leat_mem(zero + 1, size - n - 2)
                            : leat_mem(data, 0);
    leat_fields *f = leat_fields_new(&e);
    if (f && p->unpack(member, value, fifo, f, &it, &e) == LEAT_OK) {
        look(it.msg.body);
        look(it.msg.key);
        look(it.receipt);
        look(it.group);
        for (size_t i = 0; i < it.msg.header_count; i++) {
            look(it.msg.headers[i].name);
            look(it.msg.headers[i].value);
        }
    }
    leat_fields_free(f);
    if (p->receipt(member, fifo, &r)) {
        look(r.queue);
        look(r.id);
        look(r.group);
        look(r.nonce);
    }
    return 0;
}
