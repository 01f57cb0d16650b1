/*
 * pack.h: a message as one value.
 *
 *   varint length of k, varint length of a, k, a, b
 *
 * where k, a and b are the fields of the native codec, checksum included.
 * Threads: confined.
 */
#ifndef LEAT_QUEUE_PACK_H
#define LEAT_QUEUE_PACK_H

#include "base/buf.h"
#include <leat/message.h>

/* Append the value of m, whose id and time are filled in, to b.  f is scratch
 * memory. */
leat_code leat__queue_pack(leat__buf *b, leat_fields *f, const leat_msg *m,
                           leat_error *err);

/* The message in a value; it lives in the value and in f, to which more
 * messages may be read.  LEAT_EDECODE: it is none. */
leat_code leat__queue_unpack(leat_bytes value, leat_fields *f, leat_msg *m,
                             leat_error *err);

#endif
