/*
 * shape.h: is an answer what was asked for?
 *
 * A shape is a text, read from left to right:
 *
 *   i      a whole number: an integer, or a text that is one
 *   n      as i, or an empty text: not known
 *   t      a text
 *   o      a text, or nil: there is none
 *   d      the id of an entry: 1-2
 *   e      as d, or an empty text
 *   0      nil
 *   _      anything, but an error
 *   [ab]   a list of exactly these
 *   [a(b)] a list that goes on with any number of these; of pairs [(t_)]
 *   [ab?]  its last element may be missing
 *   {(ab)} as [(ab)], but only RESP3's map
 *   a|b    one or the other, outside of lists
 *
 * What has another shape is never read as "nothing there": it is LEAT_EPROTO of
 * a question, and LEAT_EUNKNOWN of what may have been done.
 */
#ifndef LEAT_REDIS_SHAPE_H
#define LEAT_REDIS_SHAPE_H

#include "base/error.h"
#include <leat/redis.h>

bool leat__reply_fits(const leat_reply *r, const char *shape);

/* LEAT_OK if it fits, else `code`; `what` was asked, for the message. */
leat_code leat__reply_want(const leat_reply *r, const char *shape,
                           leat_code code, const char *what, leat_error *err);

/* For callbacks: e if there is one, else NULL if it fits, else *odd, filled
 * with LEAT_EPROTO. */
const leat_error *leat__reply_odd(const leat_reply *r, const leat_error *e,
                                  const char *shape, const char *what,
                                  leat_error *odd);

/* Of XRANGE and XREVRANGE: [id, [name, value, ...]]... */
#define LEAT__SHAPE_ENTRIES "[([d[(tt)]])]"

/* Of XREAD and XREADGROUP, but for the entries themselves. */
#define LEAT__SHAPE_READ "0|[([t_])]|{(t_)}"

#endif
