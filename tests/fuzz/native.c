/*
 * native.c (fuzz): any entry to the native codec.
 *
 * The first byte says whether the checksum is made right: without that nothing
 * behind it would ever be reached, with it nothing before it.
 */
#include "codec.h"

#include "base/crc32c.h"

static void seal(const leat_fields *f)
{
    leat_bytes k = leat_fields_get(f, "k"), a = leat_fields_get(f, "a"),
               b = leat_fields_get(f, "b");
    unsigned char *p = (unsigned char *)a.p;
    if (a.n < 6)
        return;
    uint32_t crc = leat__crc32c(0, k.p, k.n);
    crc = leat__crc32c(crc, p + 5, a.n - 5);
    crc = leat__crc32c(crc, b.p, b.n);
    for (int i = 0; i < 4; i++)
        p[1 + i] = (unsigned char)(crc >> 8 * i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    input in = { data + 1, size - 1 };
    leat_fields *f = take_entry(&in);
    const leat_codec *c = &leat_codec_native;
    const leat_msg *m;
    size_t n;

    if (data[0] & 1)
        seal(f);
    leat_code rc = c->decode(c, f, &m, &n, NULL);
    must(rc == LEAT_OK || rc == LEAT_EDECODE);
    if (rc == LEAT_OK)
        check_again(c, m, n);
    free_entry(f);
    return 0;
}
