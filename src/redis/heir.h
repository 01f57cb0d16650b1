/*
 * heir.h: a connection that takes the place of one that was given up.
 *
 * What was sent on a connection that timed out may still lie before the server,
 * and is executed later than what is sent on the next: behind it, where order
 * matters.  So the heir has the old connection closed first; the server then
 * forgets what it has not yet read.
 * Threads: confined.
 */
#ifndef LEAT_REDIS_HEIR_H
#define LEAT_REDIS_HEIR_H

#include "redis/conn.h"

/* Who the last connection was; zeroed: there was none. */
typedef struct leat__heir {
    int64_t id;      /* as the server calls it; 0: not known           */
    char server[44]; /* run_id: numbers begin anew with another life   */
} leat__heir;

/* c is the connection from now on; whatever the one before sent and was not
 * executed yet never is.  A server that refuses the commands is as good as it
 * was.  LEAT_OK unless c broke. */
leat_code leat__heir_take(leat__heir *h, leat_conn *c, leat_error *err);

#endif
