/*
 * receipts.c (fuzz): any text as a receipt, and as the name of a dead letter.
 */
#include "admin/dlq.h"
#include "queue/profile.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

/* A view is of the text, or empty. */
static void inside(leat_bytes b, leat_bytes text)
{
    const char *from = text.p, *p = b.p;
    must(b.n == 0 || (p >= from && p + b.n <= from + text.n));
}

static void receipt(const queue_profile *p, leat_bytes text, bool fifo)
{
    leat__receipt r = { 0 };
    if (!p->receipt(text, fifo, &r))
        return;
    inside(r.queue, text);
    inside(r.entry, text);
    inside(r.group, text);
    inside(r.id, text);
    inside(r.nonce, text);
}

/* What is taken for a place is written as it was read. */
static void place(leat_bytes text)
{
    char name[LEAT_DEAD_ID], again[LEAT_DEAD_ID];
    leat__dead_at at, back;
    leat_error e;
    if (text.n >= sizeof name)
        return;
    memcpy(name, text.p, text.n);
    name[text.n] = '\0';
    if (leat__dead_at_parse(name, &at, &e) != LEAT_OK)
        return;
    leat__dead_at_format(at, again);
    must(leat__dead_at_parse(again, &back, &e) == LEAT_OK);
    must(back.partition == at.partition && back.at.ms == at.at.ms &&
         back.at.seq == at.at.seq);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    leat_bytes text = leat_mem(data, size);
    for (int fifo = 0; fifo < 2; fifo++) {
        receipt(&leat__queue_native, text, fifo);
        receipt(&leat__queue_redowl, text, fifo);
    }
    if (size > 0)
        place(text);
    return 0;
}
