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

/* Did an ACL refuse a command, a key or a channel? */
bool leat__error_is_noperm(const leat_error *err);

/* Where it refused a key, name the one that was used; of several the first. */
void leat__error_name_key(leat_error *err, leat_bytes key);

#endif
