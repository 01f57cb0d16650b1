/*
 * log.h: the library prints nothing; it tells a callback.
 *
 * A line is one sentence without newline, control characters escaped, and
 * never holds a password or a message body.
 */
#ifndef LEAT_LOG_H
#define LEAT_LOG_H

#include <leat/api.h>

LEAT_BEGIN

typedef enum leat_level {
    LEAT_LOG_OFF = 0,
    LEAT_LOG_ERROR,
    LEAT_LOG_WARN,
    LEAT_LOG_INFO,
    LEAT_LOG_DEBUG
} leat_level;

/* Called on whichever thread has something to say; must not call back into
 * the handle it speaks of. */
typedef void leat_log_fn(void *arg, leat_level level, const char *line);

typedef struct leat_logger {
    leat_log_fn *fn; /* NULL: silent */
    void *arg;
    leat_level level; /* the most talkative level wanted; 0: warnings */
} leat_logger;

/* "error", "warn", "info" or "debug". */
LEAT_API const char *leat_level_name(leat_level level);

LEAT_END
#endif
