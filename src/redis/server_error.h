/* server_error.h: what an error reply means to the caller. */
#ifndef LEAT_REDIS_SERVER_ERROR_H
#define LEAT_REDIS_SERVER_ERROR_H

#include "base/error.h"
#include <leat/bytes.h>

/* Fill *err from the text of an error reply and return its code, never
 * LEAT_OK.  The text is quoted, escaped and cut. */
leat_code leat__server_error(leat_error *err, leat_bytes text);

/* Does the error text begin with this word ("NOSCRIPT")? */
bool leat__server_error_is(leat_bytes text, const char *word);

#endif
