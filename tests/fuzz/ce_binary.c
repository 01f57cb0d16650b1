/* ce_binary.c (fuzz): any entry to the CloudEvents codec of fields. */
#include "codec.h"

#include "message/ce.h"

/* A structured entry may hold what only a structured one can. */
static const leat_codec *carrier(const leat_msg *m, size_t n)
{
    bool plain = n == 1 && leat__ce_mode(m->content_type) == LEAT__CE_BINARY;
    return plain ? &leat_codec_ce_binary : &leat_codec_ce_json;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = { data, size };
    leat_fields *f = take_entry(&in);
    const leat_codec *c = &leat_codec_ce_binary;
    const leat_msg *m;
    size_t n;

    leat_code rc = c->decode(c, f, &m, &n, NULL);
    must(rc == LEAT_OK || rc == LEAT_EDECODE);
    if (rc == LEAT_OK)
        check_again(carrier(m, n), m, n);
    free_entry(f);
    return 0;
}
