/*
 * id.c: the ids of a stream's entries, "ms-seq", as text.
 */
#include "message/id.h"

#include <string.h>

enum { SAFE_DIGITS = 19 }; /* so many fit in a uint64_t, whatever they are */

static inline unsigned digit(char c)
{
    return (unsigned)(unsigned char)c - '0';
}

/* One or more digits from *at on, as a number; false: none, or too large. */
static inline bool number(const char **at, const char *end, uint64_t *out)
{
    const char *p = *at;
    const char *safe = end - p > SAFE_DIGITS ? p + SAFE_DIGITS : end;
    uint64_t v = 0;
    for (; p < safe && digit(*p) < 10; p++)
        v = v * 10 + digit(*p);
    for (; p < end && digit(*p) < 10; p++)
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, digit(*p), &v))
            return false;
    bool some = p > *at;
    *at = p;
    *out = v;
    return some;
}

bool leat__id_parse(leat_bytes text, leat__id *out)
{
    leat__id id = { 0, 0 };
    if (text.n == 0)
        return false;
    const char *p = text.p, *end = p + text.n;
    if (!number(&p, end, &id.ms))
        return false;
    if (p < end && (*p++ != '-' || !number(&p, end, &id.seq)))
        return false;
    if (p != end)
        return false;
    *out = id;
    return true;
}

/* Milliseconds of this age have thirteen digits. */
bool leat__id_parse_next(leat_bytes text, const char *before, leat__id *io)
{
    enum { AGE = LEAT__ID_NEXT - 1 }; /* with the dash */
    const char *p = text.p;
    uint64_t seq = 0;
    if (!before || text.n <= AGE || text.n > AGE + SAFE_DIGITS ||
        memcmp(p, before, AGE) != 0 || p[AGE - 1] != '-')
        return leat__id_parse(text, io);
    for (size_t i = AGE; i < text.n; i++) {
        if (digit(p[i]) > 9)
            return false;
        seq = seq * 10 + digit(p[i]);
    }
    io->seq = seq;
    return true;
}

/* Two digits at a time, from the end. */
static char *digits(char *to, uint64_t v)
{
    char room[20], *p = room + sizeof room;
    for (; v >= 100; v /= 100) {
        *--p = (char)('0' + v % 10);
        *--p = (char)('0' + v / 10 % 10);
    }
    *--p = (char)('0' + v % 10);
    if (v >= 10)
        *--p = (char)('0' + v / 10);
    size_t n = (size_t)(room + sizeof room - p);
    memcpy(to, p, n);
    return to + n;
}

leat_bytes leat__id_format(leat__id id, char text[LEAT__ID_TEXT])
{
    char *end = digits(text, id.ms);
    *end++ = '-';
    end = digits(end, id.seq);
    *end = '\0';
    return leat_mem(text, (size_t)(end - text));
}
