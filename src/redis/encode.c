/*
 * encode.c: writing commands, as RESP arrays of bulk strings.
 *
 * The room is measured first and the bytes are then written without a check,
 * because every command of every program passes here.
 */
#include "redis/resp.h"

static const char pairs[] = "0001020304050607080910111213141516171819"
                            "2021222324252627282930313233343536373839"
                            "4041424344454647484950515253545556575859"
                            "6061626364656667686970717273747576777879"
                            "8081828384858687888990919293949596979899";

static inline size_t digits(size_t n)
{
    size_t d = 1;
    for (; n >= 100; n /= 100)
        d += 2;
    return d + (n >= 10);
}

static char *put_long_head(char *p, size_t n)
{
    char *end = p + digits(n), *q = end;
    for (; n >= 100; n /= 100)
        memcpy(q -= 2, pairs + n % 100 * 2, 2);
    if (n >= 10)
        memcpy(q - 2, pairs + n * 2, 2);
    else
        q[-1] = (char)('0' + n);
    memcpy(end, "\r\n", 2);
    return end + 2;
}

/* type, n in decimal, CR LF. */
static inline char *put_head(char *p, char type, size_t n)
{
    *p++ = type;
    if (n >= 100)
        return put_long_head(p, n);
    if (n >= 10) {
        memcpy(p, pairs + n * 2, 2);
        p++;
    } else {
        *p = (char)('0' + n);
    }
    memcpy(p + 1, "\r\n", 2);
    return p + 3;
}

/* memcpy, with what most arguments are (names, numbers, ids) in line: two
 * words that may overlap.  NULL is accepted when n is 0. */
static inline __attribute__((always_inline)) char *
put_bytes(char *p, const char *s, size_t n)
{
    uint64_t a, b;
    uint32_t c, e;
    if (n > 16) {
        memcpy(p, s, n);
    } else if (n >= 8) {
        memcpy(&a, s, 8);
        memcpy(&b, s + n - 8, 8);
        memcpy(p, &a, 8);
        memcpy(p + n - 8, &b, 8);
    } else if (n >= 4) {
        memcpy(&c, s, 4);
        memcpy(&e, s + n - 4, 4);
        memcpy(p, &c, 4);
        memcpy(p + n - 4, &e, 4);
    } else if (n > 0) {
        p[0] = s[0];
        p[n / 2] = s[n / 2];
        p[n - 1] = s[n - 1];
    }
    return p + n;
}

/* Adds a bulk of n bytes to *all; false when that is beyond all memory, which
 * also keeps the sum of the short ones from ever overflowing. */
static bool add_long_bulk(size_t *all, size_t n)
{
    if (__builtin_add_overflow(*all, n, all) || *all > SIZE_MAX / 2)
        return false;
    *all += 1 + digits(n) + 2 + 2;
    return true;
}

size_t leat__resp_command_size(const leat_bytes *argv, size_t n)
{
    size_t all = 1 + digits(n) + 2;
    for (size_t i = 0; i < n; i++) {
        size_t len = argv[i].n;
        if (len < 100)
            all += len + (len < 10 ? 6 : 7);
        else if (!add_long_bulk(&all, len))
            return SIZE_MAX;
    }
    return all;
}

char *leat__resp_array_head(char *p, size_t n)
{
    return put_head(p, '*', n);
}

static inline __attribute__((always_inline)) char *
put_bulk(char *p, const void *bytes, size_t n)
{
    p = put_bytes(put_head(p, '$', n), bytes, n);
    memcpy(p, "\r\n", 2);
    return p + 2;
}

char *leat__resp_bulk(char *p, const void *bytes, size_t n)
{
    return put_bulk(p, bytes, n);
}

char *leat__resp_command(char *p, const leat_bytes *argv, size_t n)
{
    p = put_head(p, '*', n);
    for (size_t i = 0; i < n; i++)
        p = put_bulk(p, argv[i].p, argv[i].n);
    return p;
}
