/*
 * codec.c: the codecs by name, and the limits they share.
 */
#include "message/codec.h"

static const leat_codec *const codecs[] = {
    &leat_codec_native,
    &leat_codec_ce_binary,
    &leat_codec_ce_json,
};

const leat_codec *leat_codec_find(const char *name)
{
    for (size_t i = 0; name && i < sizeof codecs / sizeof codecs[0]; i++)
        if (strcmp(codecs[i]->name, name) == 0)
            return codecs[i];
    return NULL;
}

leat_code leat__headers_refused(size_t n, leat_error *err)
{
    return leat__fail(err, LEAT_ETOOBIG,
                      "a message of %zu headers, the limit is %d: put them "
                      "into the body",
                      n, LEAT_HEADERS_MAX);
}

leat_code leat__codec_check_count(const leat_codec *c, size_t n,
                                  leat_error *err)
{
    if (n >= 1 && n <= c->max_batch)
        return LEAT_OK;
    return leat__fail(err, LEAT_EINVAL,
                      "codec %s: %zu messages in one entry, it carries 1 to "
                      "%zu",
                      c->name, n, c->max_batch);
}

leat_code leat__codec_check_size(const leat_codec *c, const char *field,
                                 size_t n, leat_error *err)
{
    if (n <= LEAT__FIELD_MAX)
        return LEAT_OK;
    return leat__fail(err, LEAT_ETOOBIG,
                      "codec %s: field %s of %zu bytes, the limit is %d: send "
                      "less at once",
                      c->name, field, n, LEAT__FIELD_MAX);
}
