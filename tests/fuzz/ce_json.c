/*
 * ce_json.c (fuzz): any document to the CloudEvents codec of JSON.
 *
 * The first byte says what the rest is: an event, a batch, a body to be
 * carried as JSON, or an entry as codec.h tells.
 */
#include "codec.h"

#define EVENT "application/cloudevents+json"
#define BATCH "application/cloudevents-batch+json"

static void decode(leat_fields *f)
{
    const leat_codec *c = &leat_codec_ce_json;
    const leat_msg *m;
    size_t n;
    leat_code rc = c->decode(c, f, &m, &n, NULL);
    must(rc == LEAT_OK || rc == LEAT_EDECODE);
    if (rc == LEAT_OK)
        check_again(c, m, n);
}

static void decode_document(const char *type, const uint8_t *p, size_t n)
{
    leat_fields *f = leat_fields_new(NULL);
    char *block = malloc(n ? n : 1);
    must(f && block);
    memcpy(block, p, n);
    must(leat_fields_add(f, leat_str("content-type"), leat_str(type), NULL) ==
         LEAT_OK);
    must(leat_fields_add(f, leat_str("data"), leat_mem(block, n), NULL) ==
         LEAT_OK);
    decode(f);
    free(block);
    leat_fields_free(f);
}

static void carry_body(const uint8_t *p, size_t n)
{
    leat_msg m = { .id = leat_str("1"),
                   .source = leat_str("s"),
                   .type = leat_str("t"),
                   .content_type = leat_str("application/json"),
                   .body = leat_mem(p, n) };
    check_again(&leat_codec_ce_json, &m, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    switch (data[0] % 4) {
    case 0:
        decode_document(EVENT, data + 1, size - 1);
        break;
    case 1:
        decode_document(BATCH, data + 1, size - 1);
        break;
    case 2:
        carry_body(data + 1, size - 1);
        break;
    default: {
        input in = { data + 1, size - 1 };
        leat_fields *f = take_entry(&in);
        decode(f);
        free_entry(f);
    }
    }
    return 0;
}
