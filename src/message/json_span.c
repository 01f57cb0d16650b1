/*
 * json_span.c: where the values of a JSON text stand.
 */
#include "message/json_span.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static const char *skip_spaces(const char *p, const char *end)
{
    while (p < end && is_space(*p))
        p++;
    return p;
}

/* p is at the opening quote; the result is behind the closing one. */
static const char *skip_string(const char *p, const char *end)
{
    for (p++; p < end; p++) {
        if (*p == '\\')
            p++;
        else if (*p == '"')
            return p + 1;
    }
    return end;
}

/* p is at the opening bracket; the result is behind its partner. */
static const char *skip_nested(const char *p, const char *end)
{
    size_t depth = 0;
    while (p < end) {
        char c = *p;
        if (c == '"') {
            p = skip_string(p, end);
            continue;
        }
        p++;
        if (c == '{' || c == '[')
            depth++;
        if ((c == '}' || c == ']') && --depth == 0)
            break;
    }
    return p;
}

static const char *skip_plain(const char *p, const char *end)
{
    while (p < end && *p != ',' && *p != '}' && *p != ']' && !is_space(*p))
        p++;
    return p;
}

static const char *skip_value(const char *p, const char *end)
{
    if (p == end)
        return p;
    if (*p == '"')
        return skip_string(p, end);
    if (*p == '{' || *p == '[')
        return skip_nested(p, end);
    return skip_plain(p, end);
}

leat__json_span leat__json_span_open(leat_bytes text)
{
    leat__json_span s = { .p = text.p };
    s.end = text.n > 0 ? s.p + text.n : s.p;
    s.p = skip_spaces(s.p, s.end);
    if (s.p < s.end)
        s.object = *s.p++ == '{';
    return s;
}

bool leat__json_span_next(leat__json_span *s, leat_bytes *value)
{
    const char *p = skip_spaces(s->p, s->end);
    if (p < s->end && *p == ',')
        p = skip_spaces(p + 1, s->end);
    if (s->object && p < s->end && *p == '"') {
        p = skip_spaces(skip_string(p, s->end), s->end);
        p = p < s->end ? skip_spaces(p + 1, s->end) : p; /* the colon */
    }
    s->p = skip_value(p, s->end);
    *value = leat_mem(p, (size_t)(s->p - p));
    return value->n > 0;
}
