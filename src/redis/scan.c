/* scan.c: loops that the server ends, and the ends of our own. */
#include "redis/scan.h"
#include "base/system.h"
#include "redis/shape.h"

#include <string.h>

void leat__steps_begin(leat__steps *s, const char *what, int64_t timeout_ms)
{
    *s = (leat__steps){ .what = what,
                        .timeout_ms = timeout_ms,
                        .deadline_ns = leat__deadline_ns(timeout_ms) };
}

leat_code leat__steps_next(leat__steps *s, bool progress, leat_error *err)
{
    if (++s->count >= LEAT__STEPS_MAX)
        return leat__fail(err, LEAT_EPROTO,
                          "%s have no end: the server asks for more after %d "
                          "steps",
                          s->what, LEAT__STEPS_MAX);
    if (progress)
        s->deadline_ns = leat__deadline_ns(s->timeout_ms);
    if (leat__left_ms(s->deadline_ns) > 0)
        return LEAT_OK;
    return leat__fail(err, LEAT_ETIMEOUT,
                      "%s did not end within %lld ms, after %u steps; a longer "
                      "timeout gives them more",
                      s->what, (long long)s->timeout_ms, s->count);
}

void leat__scan_begin(leat__scan *s, const char *what, int64_t timeout_ms)
{
    *s = (leat__scan){ .cursor = "0" };
    leat__steps_begin(&s->steps, what, timeout_ms);
}

static bool is_cursor(leat_bytes b)
{
    const char *p = b.p;
    for (size_t i = 0; i < b.n; i++)
        if (p[i] < '0' || p[i] > '9')
            return false;
    return b.n > 0 && b.n < LEAT__CURSOR_TEXT;
}

leat_code leat__scan_next(leat__scan *s, leat_bytes cursor, bool progress,
                          leat_error *err)
{
    if (!is_cursor(cursor))
        return leat__fail(err, LEAT_EPROTO,
                          "a scan of %s was answered strangely", s->steps.what);
    memcpy(s->cursor, cursor.p, cursor.n);
    s->cursor[cursor.n] = '\0';
    s->over = strcmp(s->cursor, "0") == 0;
    return s->over ? LEAT_OK : leat__steps_next(&s->steps, progress, err);
}

leat_code leat__scan_page(leat__scan *s, const leat_reply *r,
                          const leat_reply **items, leat_error *err)
{
    leat_code rc = leat__reply_want(r, "[t[(t)]]", LEAT_EPROTO, "a scan", err);
    if (rc != LEAT_OK)
        return rc;
    *items = leat_reply_at(r, 1);
    return leat__scan_next(s, leat_reply_bytes(leat_reply_at(r, 0)), false,
                           err);
}
