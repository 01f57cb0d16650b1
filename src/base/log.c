/*
 * log.c: telling the user's callback.
 */
#include "base/log.h"
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINE = 512 };

const char *leat_level_name(leat_level level)
{
    static const char *const names[] = { "off", "error", "warn", "info",
                                         "debug" };
    return (unsigned)level <= LEAT_LOG_DEBUG ? names[level] : "?";
}

void leat__log(const leat_logger *l, leat_level level, const char *fmt, ...)
{
    char raw[LINE], line[LINE];
    va_list ap;

    if (!leat__log_wants(l, level))
        return;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    leat__escape(line, sizeof line, raw, strlen(raw));
    l->fn(l->arg, level, line);
}
