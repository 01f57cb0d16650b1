/*
 * opened.h: the fields of one entry as messages, for those who look at entries
 * and do not know who wrote them.
 *
 *   leat_bytes *pairs = leat__opened_room(&o, count, err);
 *   ... fill in name, value, name, value ...
 *   leat__opened_decode(&o, err);
 *
 * What cannot be decoded is shown as it is: its fields are the headers of one
 * message, as in a delivery that cannot be decoded.
 */
#ifndef LEAT_MESSAGE_OPENED_H
#define LEAT_MESSAGE_OPENED_H

#include "base/error.h"
#include <leat/message.h>

/* Zero-initialised but for codec; msg and what it points to live until the
 * next decode, and as long as what the pairs point to. */
typedef struct leat__opened {
    const leat_codec *codec; /* NULL: native, else CloudEvents */

    const leat_msg *msg;
    size_t count;
    const leat_codec *by; /* that has decoded it; NULL: none could */
    leat_error why;       /* then: why                             */

    leat_bytes *pairs;
    size_t fields, room;
    leat_fields *made;
    leat_header *headers;
    size_t header_room;
    leat_msg raw;
} leat__opened;

void leat__opened_release(leat__opened *o);

/* Room for so many fields of the next entry; NULL: no memory. */
leat_bytes *leat__opened_room(leat__opened *o, size_t count, leat_error *err);

/* LEAT_EDECODE is no failure here. */
leat_code leat__opened_decode(leat__opened *o, leat_error *err);

/* As it is, because it is known that it cannot be decoded. */
leat_code leat__opened_raw(leat__opened *o, const char *why, leat_error *err);

#endif
