/* log.h: telling the user's callback. */
#ifndef LEAT_BASE_LOG_H
#define LEAT_BASE_LOG_H

#include <leat/log.h>

static inline bool leat__log_wants(const leat_logger *l, leat_level level)
{
    return l && l->fn && level <= (l->level ? l->level : LEAT_LOG_WARN);
}

/* One line; control characters are escaped.  Never pass a secret. */
void leat__log(const leat_logger *l, leat_level level, const char *fmt, ...)
    LEAT_PRINTF(3, 4);

#endif
