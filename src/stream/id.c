/*
 * id.c: entry ids and consumer names, as text.
 */
#include "stream/id.h"
#include "base/system.h"

#include <endian.h>
#include <stdio.h>
#include <unistd.h>

enum { NONCE = 8, NONCE_TEXT = 2 * NONCE };

/* Eight digits at once: an id is read for every message. */
static inline bool eight_digits(const char *p, uint64_t *v)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    x = le64toh(x) - 0x3030303030303030u;
    if ((x | (x + 0x7676767676767676u)) & 0x8080808080808080u)
        return false;
    x = x * 10 + (x >> 8);
    x = ((x & 0x000000ff000000ffu) * 0x000f424000000064u +
         ((x >> 16) & 0x000000ff000000ffu) * 0x0000271000000001u) >>
        32;
    *v = *v * 100000000 + x;
    return true;
}

/* Reads digits from *p; false: there are none, or too many.  Up to 19 digits
 * fit without a look at each. */
static bool get_number(const char **p, const char *end, uint64_t *out)
{
    const char *at = *p, *easy = end - at > 19 ? at + 19 : end;
    uint64_t v = 0;
    if (easy - at >= 8 && eight_digits(at, &v))
        at += 8;
    for (; at < easy && (unsigned char)(*at - '0') <= 9; at++)
        v = v * 10 + (uint64_t)(*at - '0');
    bool some = at > *p;
    for (; at < end && (unsigned char)(*at - '0') <= 9; at++)
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*at - '0'), &v))
            return false;
    *p = at;
    *out = v;
    return some;
}

bool leat__stream_id_parse(leat_bytes text, leat_position *id)
{
    const char *p = text.p, *end = p + text.n;
    id->index = 0;
    if (text.n == 0 || !get_number(&p, end, &id->ms) || p == end || *p != '-')
        return false;
    p++;
    return get_number(&p, end, &id->seq) && p == end;
}

leat_bytes leat__stream_id_format(leat_position id, char out[LEAT__STREAM_ID])
{
    int n = snprintf(out, LEAT__STREAM_ID, "%llu-%llu",
                     (unsigned long long)id.ms, (unsigned long long)id.seq);
    return leat_mem(out, (size_t)n);
}

leat_position leat__stream_id_after(leat_position id)
{
    if (id.seq < UINT64_MAX)
        id.seq++;
    else if (id.ms < UINT64_MAX)
        id = (leat_position){ .ms = id.ms + 1 };
    return id;
}

/* The group begins after the id it is given, so a time is the last id before
 * it. */
static leat_code start_at(const char *start, char out[LEAT__STREAM_ID],
                          leat_error *err)
{
    leat_position id = { 0 };
    const char *p = start + 1, *end = p + strlen(p);
    if (!get_number(&p, end, &id.ms) || p != end)
        return leat__fail(err, LEAT_EINVAL,
                          "start '%.60s' is no time, write \"@\" and "
                          "milliseconds since 1970",
                          start);
    if (id.ms > 0)
        id = (leat_position){ .ms = id.ms - 1, .seq = UINT64_MAX };
    leat__stream_id_format(id, out);
    return LEAT_OK;
}

leat_code leat__stream_start(const char *start, char out[LEAT__STREAM_ID],
                             leat_error *err)
{
    leat_position id;
    const char *s = start ? start : "0";
    if (s[0] == '@')
        return start_at(s, out, err);
    if (strcmp(s, "0") != 0 && strcmp(s, "$") != 0 &&
        !leat__stream_id_parse(leat_str(s), &id))
        return leat__fail(err, LEAT_EINVAL,
                          "start '%.60s' is none of \"0\", \"$\", an id "
                          "\"MS-SEQ\" and a time \"@MS\"",
                          s);
    snprintf(out, LEAT__STREAM_ID, "%s", s);
    return LEAT_OK;
}

leat_code leat__stream_consumer_make(char out[LEAT__STREAM_CONSUMER],
                                     leat_error *err)
{
    uint8_t nonce[NONCE];
    char host[65] = "";
    leat_code rc = leat__random(nonce, sizeof nonce, err);
    if (rc != LEAT_OK)
        return rc;
    if (gethostname(host, sizeof host - 1) != 0 || !host[0])
        snprintf(host, sizeof host, "localhost");
    int n = snprintf(out, LEAT__STREAM_CONSUMER, "%s-%ld-", host,
                     (long)getpid());
    for (int i = 0; i < NONCE; i++)
        n += snprintf(out + n, LEAT__STREAM_CONSUMER - (size_t)n, "%02x",
                      nonce[i]);
    return LEAT_OK;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool leat__stream_consumer_made(leat_bytes name)
{
    const char *s = name.p;
    size_t n = name.n;
    if (n < NONCE_TEXT + 4)
        return false;
    for (size_t i = n - NONCE_TEXT; i < n; i++)
        if (!is_hex(s[i]))
            return false;
    n -= NONCE_TEXT + 1;
    if (s[n] != '-')
        return false;
    size_t pid = n;
    while (n > 0 && s[n - 1] >= '0' && s[n - 1] <= '9')
        n--;
    return n < pid && n > 1 && s[n - 1] == '-';
}
