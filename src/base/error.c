/*
 * error.c: codes, their texts, and filling the caller's error.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    const char *text;
    bool retriable;
} codes[LEAT_CODES_] = {
    [LEAT_OK] = { "LEAT_OK", "success", false },
    [LEAT_EUNKNOWN] = { "LEAT_EUNKNOWN", "it may have happened", true },
    [LEAT_EINVAL] = { "LEAT_EINVAL", "invalid argument", false },
    [LEAT_ENOMEM] = { "LEAT_ENOMEM", "out of memory", true },
    [LEAT_ENOENT] = { "LEAT_ENOENT", "does not exist", false },
    [LEAT_EEXIST] = { "LEAT_EEXIST", "exists already", false },
    [LEAT_ECONN] = { "LEAT_ECONN", "no connection", true },
    [LEAT_ETIMEOUT] = { "LEAT_ETIMEOUT", "timed out", true },
    [LEAT_EFULL] = { "LEAT_EFULL", "full", true },
    [LEAT_EBUSY] = { "LEAT_EBUSY", "the server is busy", true },
    [LEAT_EREADONLY] = { "LEAT_EREADONLY", "the server is a replica", true },
    [LEAT_EAUTH] = { "LEAT_EAUTH", "not permitted", false },
    [LEAT_ECONFLICT] = { "LEAT_ECONFLICT", "a watched key changed", true },
    [LEAT_ESERVER] = { "LEAT_ESERVER", "refused by the server", false },
    [LEAT_EPROTO] = { "LEAT_EPROTO", "protocol error", true },
    [LEAT_EDECODE] = { "LEAT_EDECODE", "undecodable message", false },
    [LEAT_ESTALE] = { "LEAT_ESTALE", "no longer ours", false },
    [LEAT_ETOOBIG] = { "LEAT_ETOOBIG", "over a limit", false },
    [LEAT_EUNSAFE] = { "LEAT_EUNSAFE", "the server keeps too little", false },
    [LEAT_ENOTSUP] = { "LEAT_ENOTSUP", "not supported", false },
    [LEAT_EFORK] = { "LEAT_EFORK", "used in a forked child", false },
    [LEAT_ECLOSED] = { "LEAT_ECLOSED", "closed", false },
    [LEAT_EIO] = { "LEAT_EIO", "system call failed", true },
};

static bool known(leat_code code)
{
    return (unsigned)code < LEAT_CODES_;
}

const char *leat_code_name(leat_code code)
{
    return known(code) ? codes[code].name : "LEAT_?";
}

const char *leat_code_text(leat_code code)
{
    return known(code) ? codes[code].text : "unknown code";
}

LEAT_PRINTF(4, 0)
static leat_code fill(leat_error *err, leat_code code, bool retriable,
                      const char *fmt, va_list ap)
{
    if (err) {
        err->code = code;
        err->retriable = retriable;
        vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    }
    return code;
}

leat_code leat__fail(leat_error *err, leat_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fill(err, code, known(code) && codes[code].retriable, fmt, ap);
    va_end(ap);
    return code;
}

leat_code leat__fail_retriable(leat_error *err, leat_code code, bool retriable,
                               const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fill(err, code, retriable, fmt, ap);
    va_end(ap);
    return code;
}

leat_code leat__fail_errno(leat_error *err, leat_code code, int sys,
                           const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fill(err, code, known(code) && codes[code].retriable, fmt, ap);
    va_end(ap);
    if (err) {
        size_t n = strlen(err->msg);
        char text[96];
        snprintf(err->msg + n, sizeof err->msg - n, ": %s",
                 strerror_r(sys, text, sizeof text));
    }
    return code;
}

void leat__error_weather(leat_error *err)
{
    if (err && err->code != LEAT_ECLOSED && err->code != LEAT_EFORK &&
        err->code != LEAT_ENOMEM)
        err->retriable = true;
}

void leat__error_keep(leat_error *first, const leat_error *e)
{
    if (first->code == LEAT_OK && e->code != LEAT_OK)
        *first = *e;
}

leat_code leat__error_take(leat_error *first, leat_error *err)
{
    leat_code code = first->code;
    if (code != LEAT_OK && err)
        *err = *first;
    *first = (leat_error){ 0 };
    return code;
}

void leat__escape(char *out, size_t room, const void *text, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    const unsigned char *s = text;
    size_t o = 0;

    if (room == 0)
        return;
    for (size_t i = 0; i < n && o + 5 <= room; i++) {
        if (s[i] >= 0x20 && s[i] < 0x7f) {
            out[o++] = (char)s[i];
            continue;
        }
        out[o++] = '\\';
        out[o++] = 'x';
        out[o++] = hex[s[i] >> 4];
        out[o++] = hex[s[i] & 15];
    }
    out[o] = '\0';
}
