/*
 * records.c (fuzz): any text as what a member says of itself.
 */
#include "topic/record.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    leat_bytes text = leat_mem(data, size), rest;
    leat__record r, again;
    leat__buf b = { 0 };
    uint32_t lo, hi;
    uint64_t beat;
    bool ok = leat__record_parse(text, &r);
    bool head = leat__record_head(text, &beat, &rest);
    must(!ok || (head && beat == r.beat));
    if (!ok)
        return 0;
    leat_bytes claims = r.claims;
    for (size_t n = 0; leat__claims_next(&claims, &lo, &hi); n++)
        must(lo <= hi && n <= size);
    must(leat__record_format(&b, &r, false, NULL) == LEAT_OK);
    must(leat__record_parse(leat__buf_bytes(&b), &again));
    must(again.beat == r.beat && again.born == r.born && again.cap == r.cap &&
         again.leaving == r.leaving && again.stable == r.stable &&
         leat_bytes_eq(again.claims, r.claims) &&
         leat_bytes_eq(again.name, r.name));
    leat__buf_release(&b);
    return 0;
}
