/*
 * redowl_pack.h: a message as redowl writes it.
 *
 * To the script that sends it is "<length of attrs>\n<attrs><body>", and out of
 * those that hand it out comes "<receives> <created ms> <length of id> <length
 * of attrs>\n<id><attrs><body>", where body is base64 and attrs the JSON of Go:
 * an object of strings, its keys sorted by their bytes, or `null`.
 *
 * redowl knows a body and attributes.  What else leat's messages have becomes
 * the attributes leat-key, leat-type, leat-source, leat-subject,
 * leat-content-type and leat-time, if it is given.
 */
#ifndef LEAT_QUEUE_REDOWL_PACK_H
#define LEAT_QUEUE_REDOWL_PACK_H

#include "base/buf.h"
#include <leat/queue.h>

/* As queue_profile.check_send, size, pack and unpack say. */
leat_code leat__owl_check_send(const leat_msg *m, const leat_queue_send_opts *o,
                               leat_error *err);
size_t leat__owl_size(const leat_msg *m, size_t packed);
leat_code leat__owl_pack(leat__buf *b, leat_fields *f, const leat_msg *m,
                         leat_error *err);
leat_code leat__owl_unpack(leat_bytes member, leat_bytes value, bool fifo,
                           leat_fields *f, leat_queue_item *it,
                           leat_error *err);

/* What was packed, in its parts; false: it is none. */
bool leat__owl_parts(leat_bytes packed, leat_bytes *attrs, leat_bytes *body);

/* An event as redowl writes it; rc -1: it has none. */
leat_code leat__owl_event(leat__buf *b, const char *type, leat_bytes queue,
                          leat_bytes id, int64_t at_ms, int64_t rc,
                          leat_error *err);

#endif
