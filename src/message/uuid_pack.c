/*
 * uuid_pack.c: the text of a UUID in 16 bytes.
 *
 * Nearly every id is a UUID, and this is done once for each message sent and
 * received: so sixteen digits are worked on at a time, in the compiler's
 * vectors, which are registers where the machine has them.
 */
#include "message/uuid_pack.h"

typedef unsigned char v16 __attribute__((vector_size(16)));
typedef signed char s16 __attribute__((vector_size(16)));
typedef uint32_t w4 __attribute__((vector_size(16)));
typedef uint64_t d2 __attribute__((vector_size(16)));

enum { TO_LETTER = 'a' - '0' - 10 }; /* from where a digit would stand */

static inline v16 load(const void *p)
{
    v16 v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* The values of sixteen digits; what is no digit marks *bad. */
static inline v16 values(v16 digits, s16 *bad)
{
    s16 letter = (s16)digits > '9';
    s16 n = (s16)(digits - '0' - ((v16)letter & TO_LETTER));
    *bad |= (n < 0) | (n > 15) | (letter & (n < 10));
    return (v16)n;
}

static inline v16 digits(v16 values)
{
    return values + '0' + ((v16)((s16)values > 9) & TO_LETTER);
}

static inline uint32_t four(const char *p)
{
    uint32_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

/* The dashes are left out: 8 4 4 and 4 12 digits. */
bool leat__uuid_pack(leat_bytes text, unsigned char out[LEAT__UUID_BYTES])
{
    const char *s = text.p;
    s16 bad = { 0 };

    if (text.n != LEAT__UUID_TEXT || s[8] != '-' || s[13] != '-' ||
        s[18] != '-' || s[23] != '-')
        return false;
    w4 first = { four(s), four(s + 4), four(s + 9), four(s + 14) };
    w4 second = { four(s + 19), four(s + 24), four(s + 28), four(s + 32) };
    v16 a = values((v16)first, &bad), b = values((v16)second, &bad);
    v16 high = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18,
                                       20, 22, 24, 26, 28, 30);
    v16 low = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19,
                                      21, 23, 25, 27, 29, 31);
    v16 packed = high << 4 | low;
    memcpy(out, &packed, sizeof packed);
    d2 marks = (d2)bad;
    return (marks[0] | marks[1]) == 0;
}

void leat__uuid_unpack(const unsigned char *packed, char text[LEAT__UUID_TEXT])
{
    char all[32];
    v16 p = load(packed), high = p >> 4, low = p & 15;
    v16 a = digits(__builtin_shufflevector(high, low, 0, 16, 1, 17, 2, 18, 3,
                                           19, 4, 20, 5, 21, 6, 22, 7, 23));
    v16 b = digits(__builtin_shufflevector(high, low, 8, 24, 9, 25, 10, 26, 11,
                                           27, 12, 28, 13, 29, 14, 30, 15, 31));
    memcpy(all, &a, sizeof a);
    memcpy(all + 16, &b, sizeof b);
    memcpy(text, all, 8);
    memcpy(text + 9, all + 8, 4);
    memcpy(text + 14, all + 12, 4);
    memcpy(text + 19, all + 16, 4);
    memcpy(text + 24, all + 20, 4);
    memcpy(text + 28, all + 24, 8);
    text[8] = text[13] = text[18] = text[23] = '-';
}
