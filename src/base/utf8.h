/* utf8.h: taking UTF-8 apart. */
#ifndef LEAT_BASE_UTF8_H
#define LEAT_BASE_UTF8_H

#include <leat/bytes.h>

enum { LEAT__UTF8_BAD = 0xfffd };

/* Take one code point from the front of *b, which is not empty.  Bytes that
 * are not UTF-8 give LEAT__UTF8_BAD and *ok false; of a broken sequence as much
 * is taken as could have begun a good one, so that text behind it survives. */
uint32_t leat__utf8_next(leat_bytes *b, bool *ok);

/* No overlong forms, no surrogates, nothing above U+10FFFF. */
bool leat__utf8_valid(leat_bytes b);

/* A terminal takes it for a command (C0, DEL, C1), or it reorders, breaks or
 * hides what stands beside it. */
bool leat__utf8_misleads(uint32_t cp);

#endif
