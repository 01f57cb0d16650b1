/*
 * id.c: the ids of a stream's entries, "ms-seq", as text.
 */
#include "topic/window.h"

/* One or more digits from *at on, as a number; false: none, or too large. */
static bool number(leat_bytes text, size_t *at, uint64_t *out)
{
    const char *p = text.p;
    uint64_t v = 0;
    size_t i = *at;
    for (; i < text.n && p[i] >= '0' && p[i] <= '9'; i++) {
        uint64_t digit = (uint64_t)(p[i] - '0');
        if (v > (UINT64_MAX - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    bool some = i > *at;
    *at = i;
    *out = v;
    return some;
}

bool leat__id_parse(leat_bytes text, leat__id *out)
{
    leat__id id = { 0, 0 };
    size_t at = 0;
    if (!number(text, &at, &id.ms))
        return false;
    if (at < text.n) {
        if (((const char *)text.p)[at++] != '-')
            return false;
        if (!number(text, &at, &id.seq))
            return false;
    }
    if (at != text.n)
        return false;
    *out = id;
    return true;
}

static char *digits(char *to, uint64_t v)
{
    char room[20];
    size_t n = 0;
    do
        room[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n > 0)
        *to++ = room[--n];
    return to;
}

leat_bytes leat__id_format(leat__id id, char text[LEAT__ID_TEXT])
{
    char *end = digits(text, id.ms);
    *end++ = '-';
    end = digits(end, id.seq);
    *end = '\0';
    return leat_mem(text, (size_t)(end - text));
}
