/*
 * id.c: entry ids and consumer names, as text.
 */
#include "stream/id.h"
#include "base/system.h"
#include "message/id.h"

#include <stdio.h>
#include <unistd.h>

enum { NONCE = 8, NONCE_TEXT = 2 * NONCE };

bool leat__stream_id_parse(leat_bytes text, leat_position *out)
{
    leat__id id;
    if (text.n == 0 || !memchr(text.p, '-', text.n) ||
        !leat__id_parse(text, &id))
        return false;
    *out = (leat_position){ .ms = id.ms, .seq = id.seq };
    return true;
}

leat_bytes leat__stream_id_format(leat_position id, char out[LEAT__STREAM_ID])
{
    return leat__id_format((leat__id){ id.ms, id.seq }, out);
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
    leat__id at;
    if (strchr(start, '-') || !leat__id_parse(leat_str(start + 1), &at))
        return leat__fail(err, LEAT_EINVAL,
                          "start '%.60s' is no time, write \"@\" and "
                          "milliseconds since 1970",
                          start);
    if (at.ms > 0)
        at = (leat__id){ at.ms - 1, UINT64_MAX };
    (void)leat__id_format(at, out);
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
