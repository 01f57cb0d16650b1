/*
 * json.h: writing JSON.
 *
 * A leat_json is a growing text; commas, quotes and escapes are its business.
 * A failure (no memory, an end without a begin) sticks: look once, at the end.
 *
 * Threads: confined.
 */
#ifndef LEAT_JSON_H
#define LEAT_JSON_H

#include <leat/bytes.h>
#include <leat/error.h>

LEAT_BEGIN

typedef struct leat_json leat_json;

LEAT_API leat_json *leat_json_new(leat_error *err);
LEAT_API void leat_json_free(leat_json *j);
LEAT_API void leat_json_clear(leat_json *j);

/* Inside an object every value has a key; inside an array and at the top key
 * is NULL.  Top-level values are separated by newlines. */
LEAT_API void leat_json_object(leat_json *j, const char *key);
LEAT_API void leat_json_array(leat_json *j, const char *key);
LEAT_API void leat_json_end(leat_json *j);
LEAT_API void leat_json_str(leat_json *j, const char *key, const char *s);

/* UTF-8 text as a string; bytes that are not UTF-8 become U+FFFD. */
LEAT_API void leat_json_text(leat_json *j, const char *key, leat_bytes b);
LEAT_API void leat_json_base64(leat_json *j, const char *key, leat_bytes b);
LEAT_API void leat_json_int(leat_json *j, const char *key, int64_t v);
LEAT_API void leat_json_double(leat_json *j, const char *key, double v);
LEAT_API void leat_json_bool(leat_json *j, const char *key, bool v);
LEAT_API void leat_json_null(leat_json *j, const char *key);

/* A value that is JSON already. */
LEAT_API void leat_json_raw(leat_json *j, const char *key, leat_bytes json);

/* The finished text, owned by j and ended by a zero.  NULL on failure, also
 * when something is still open. */
LEAT_API const char *leat_json_done(leat_json *j, size_t *n, leat_error *err);

LEAT_END
#endif
