/*
 * id.h: entry ids and consumer names, as text.  Pure functions.
 */
#ifndef LEAT_STREAM_ID_H
#define LEAT_STREAM_ID_H

#include "base/error.h"
#include "message/id.h"
#include <leat/source.h>

enum { LEAT__STREAM_ID = LEAT__ID_TEXT, LEAT__STREAM_CONSUMER = 128 };

/* "MS-SEQ", both decimal; false: not an id.  The index is 0. */
bool leat__stream_id_parse(leat_bytes text, leat_position *id);

/* Written into out, which the result points to. */
leat_bytes leat__stream_id_format(leat_position id, char out[LEAT__STREAM_ID]);

/* The smallest id after it; the largest stays. */
leat_position leat__stream_id_after(leat_position id);

/* What XGROUP CREATE wants for a start: "0", "$", "MS-SEQ" or "@MS".  NULL is
 * "0". */
leat_code leat__stream_start(const char *start, char out[LEAT__STREAM_ID],
                             leat_error *err);

/* A new name, "host-pid-nonce", and whether a name is of that form: only such
 * are removed when their owner is dead. */
leat_code leat__stream_consumer_make(char out[LEAT__STREAM_CONSUMER],
                                     leat_error *err);
bool leat__stream_consumer_made(leat_bytes name);

#endif
