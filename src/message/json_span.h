/*
 * json_span.h: where the values of a JSON text stand.
 *
 * A parser gives values; a payload has to come back byte for byte, its numbers
 * and spaces as they were.  So the text is parsed for its validity and walked
 * here for its spans.  On a text that is not valid the spans mean nothing, but
 * nothing outside it is read.
 */
#ifndef LEAT_MESSAGE_JSON_SPAN_H
#define LEAT_MESSAGE_JSON_SPAN_H

#include <leat/bytes.h>

typedef struct leat__json_span {
    const char *p, *end;
    bool object;
} leat__json_span;

/* Stand before the first element of the object or array that is the text. */
leat__json_span leat__json_span_open(leat_bytes text);

/* The next element's value, without the spaces around it; false at the end. */
bool leat__json_span_next(leat__json_span *s, leat_bytes *value);

#endif
