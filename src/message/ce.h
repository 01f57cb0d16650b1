/*
 * ce.h: the rules of CloudEvents 1.0 that its two codecs share.
 */
#ifndef LEAT_MESSAGE_CE_H
#define LEAT_MESSAGE_CE_H

#include "message/codec.h"

/* What a message without one is sent with: an event has both. */
#define LEAT__CE_SOURCE "/leat"
#define LEAT__CE_TYPE   "leat.message"

/* The member of a JSON event for headers that cannot be extensions. */
#define LEAT__CE_HEADERS "leatheaders"

/* How an entry carries its event, told by its content type. */
enum leat__ce_mode {
    LEAT__CE_BINARY,
    LEAT__CE_JSON,
    LEAT__CE_JSON_BATCH,
    LEAT__CE_OTHER /* structured, in a format other than JSON */
};
enum leat__ce_mode leat__ce_mode(leat_bytes content_type);

/* Is this media type JSON: none given, anything/json or anything+json? */
bool leat__ce_is_json(leat_bytes content_type);

/* Is its top-level type text/? */
bool leat__ce_is_text(leat_bytes content_type);

/* LEAT_EINVAL naming the attribute that no event can carry: one that is not
 * text, a missing id, a time outside the years 0 to 9999. */
leat_code leat__ce_check(const leat_codec *c, const leat_msg *m,
                         leat_error *err);

/* Can header i be an extension attribute?  Its name is of a-z and 0-9 and no
 * attribute's, its value is text and not empty, no earlier header has that
 * name, and it is among the first 64. */
bool leat__ce_is_extension(const leat_msg *m, size_t i);

/* RFC 3339 in UTC with milliseconds, as 2026-01-31T12:00:00.000Z. */
enum { LEAT__CE_TIME = 24 };
void leat__ce_time_format(char out[LEAT__CE_TIME], int64_t ms);

/* False when it is no RFC 3339 time of the years 0 to 9999.  What is finer than
 * a millisecond is cut. */
bool leat__ce_time_parse(leat_bytes text, int64_t *ms);

/* Reading: one event as its attributes come in. */
typedef struct leat__ce_event {
    leat_msg *m;
    unsigned seen; /* bit by bit, the attributes that were there */
} leat__ce_event;

/* Is this an attribute of the envelope, "datacontenttype" among them? */
bool leat__ce_is_attribute(leat_bytes name);

/* Set that attribute from a value that lives as long as the message.  An empty
 * value is not given. */
leat_code leat__ce_set(leat__ce_event *e, leat_bytes name, leat_bytes value,
                       leat_error *err);

/* LEAT_EDECODE unless the four required attributes were there. */
leat_code leat__ce_check_required(const leat__ce_event *e, leat_error *err);

/* Decode an entry whose content type is a structured mode's. */
leat_code leat__ce_decode_json(leat_fields *in, enum leat__ce_mode mode,
                               const leat_msg **m, size_t *n, leat_error *err);

/* Decode an entry of whichever mode. */
leat_code leat__ce_decode(const leat_codec *c, leat_fields *in,
                          const leat_msg **m, size_t *n, leat_error *err);

#endif
