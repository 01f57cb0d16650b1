/* error.h: filling the caller's error. */
#ifndef LEAT_BASE_ERROR_H
#define LEAT_BASE_ERROR_H

#include <leat/error.h>

/* Fill *err, which may be NULL, and return code.  Whether the same call may
 * succeed later follows from the code; leat__fail_retriable overrides it. */
leat_code leat__fail(leat_error *err, leat_code code, const char *fmt, ...)
    LEAT_PRINTF(3, 4);

leat_code leat__fail_retriable(leat_error *err, leat_code code, bool retriable,
                               const char *fmt, ...) LEAT_PRINTF(4, 5);

/* The same with ": " and the text of errno value `sys` at the end. */
leat_code leat__fail_errno(leat_error *err, leat_code code, int sys,
                           const char *fmt, ...) LEAT_PRINTF(4, 5);

/* Of something that worked before: whatever it is refused with now (a password
 * that is changed, a right that is taken away, a name that is not known, a key of
 * another type) is set right by somebody, and may then succeed.  Only what was
 * closed, or is a forked child's, stays so. */
void leat__error_weather(leat_error *err);

/* Keep the first of several: e, unless *first is one already or e is none. */
void leat__error_keep(leat_error *first, const leat_error *e);

/* What was kept, if anything, to *err, which may be NULL; then it is forgotten.
 * Its code. */
leat_code leat__error_take(leat_error *first, leat_error *err);

/* Copy text into out, control and non-ASCII bytes as \xNN, cut to the room. */
void leat__escape(char *out, size_t room, const void *text, size_t n);

#endif
