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

/* Called on whichever thread has something to say, yours or one of leat's, by
 * several at once.  It may publish, send and look at statistics, also by the
 * handle it speaks of; it must not close, stop, flush or receive by that, and
 * what waits here is waited for.  What it causes may be logged, too. */
typedef void leat_log_fn(void *arg, leat_level level, const char *line);

/* It must live until everything that was opened with it is closed. */
typedef struct leat_logger {
    leat_log_fn *fn; /* NULL: the client's; of a client: silent */
    void *arg;
    leat_level level; /* the most talkative level wanted; 0: warnings */
} leat_logger;

/* "error", "warn", "info" or "debug". */
LEAT_API const char *leat_level_name(leat_level level);

LEAT_END
#endif
