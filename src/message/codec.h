/*
 * codec.h: what the codecs share.
 */
#ifndef LEAT_MESSAGE_CODEC_H
#define LEAT_MESSAGE_CODEC_H

#include "base/error.h"
#include <leat/message.h>

/* Bytes one field may have.  A reader refuses longer ones, so a codec does not
 * write them. */
enum { LEAT__FIELD_MAX = 64 << 20 };

/* As the native codec's encode for one message without id, which gets this one,
 * of 16 bytes: no text is made of it only to be read again. */
leat_code leat__native_encode(const leat_msg *m, const unsigned char *uuid,
                              leat_fields *out, leat_error *err);

/* LEAT_ETOOBIG for more than LEAT_HEADERS_MAX.  Asked where messages come in
 * from the program, and not of those that are only moved. */
leat_code leat__headers_refused(size_t n, leat_error *err);

static inline leat_code leat__check_headers(const leat_msg *m, leat_error *err)
{
    return m->header_count <= LEAT_HEADERS_MAX
               ? LEAT_OK
               : leat__headers_refused(m->header_count, err);
}

/* LEAT_EINVAL unless the codec can put n messages in one entry. */
leat_code leat__codec_check_count(const leat_codec *c, size_t n,
                                  leat_error *err);

/* LEAT_ETOOBIG when a field of n bytes could not be read back. */
leat_code leat__codec_check_size(const leat_codec *c, const char *field,
                                 size_t n, leat_error *err);

#endif
