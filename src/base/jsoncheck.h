/* jsoncheck.h: whether bytes are one JSON value. */
#ifndef LEAT_BASE_JSONCHECK_H
#define LEAT_BASE_JSONCHECK_H

#include <leat/bytes.h>

/* Exactly one value (RFC 8259) in valid UTF-8, white space around it allowed,
 * nested at most `depth` deep.  No allocation. */
bool leat__json_valid(leat_bytes text, int depth);

#endif
