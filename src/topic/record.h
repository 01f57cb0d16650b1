/*
 * record.h: what a member says of itself, one field of the members' hash.
 *
 *   1 <beat> <born> <cap> <flags> <claims> <name>
 *
 *   beat    counts up with every beat
 *   born    orders the lives of one name; 0 until the server has set it, with a
 *           "+" before it when the record is to be made again (see beat.lua)
 *   cap     partitions it wants at most; 0: no limit
 *   flags   "-", or of "l" leaving and "s" stable name
 *   claims  "-", or the partitions it has: "0-3,7"
 *   name    to the end, escaped
 *
 * A record that starts otherwise is a newer version's.
 */
#ifndef LEAT_TOPIC_RECORD_H
#define LEAT_TOPIC_RECORD_H

#include "topic/group.h"

typedef struct leat__record {
    uint64_t beat, born;
    uint32_t cap;
    bool leaving, stable;
    leat_bytes claims, name; /* into the text; claims without the "-"       */
    leat_bytes rest;         /* all after the beat: changes with what it    */
                             /* says, not with being said again             */
} leat__record;

/* False: not a record of this version. */
bool leat__record_parse(leat_bytes text, leat__record *out);

/* Only how often it was said, and what comes after that. */
bool leat__record_head(leat_bytes text, uint64_t *beat, leat_bytes *rest);

/* Append; again: the "+". */
leat_code leat__record_format(leat__buf *b, const leat__record *r, bool again,
                              leat_error *err);

/* Take the next range, both ends included, off the front of claims; false at
 * the end.  Of a parsed record no range is upside down. */
bool leat__claims_next(leat_bytes *claims, uint32_t *lo, uint32_t *hi);

/* Append a range to claims that end below it. */
leat_code leat__claims_add(leat__buf *b, uint32_t lo, uint32_t hi,
                           leat_error *err);

#endif
