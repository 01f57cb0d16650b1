/*
 * embedded.h: a private redis-server that lives as long as somebody uses it.
 *
 * The first to attach to a directory starts the server, the last to leave ends
 * it, and it makes no difference in which way they leave.  Data stays in the
 * directory.
 *
 * Threads: shared, but for detach.  A forked child keeps the server alive too,
 * until it ends or runs another program.
 */
#ifndef LEAT_REDIS_EMBEDDED_H
#define LEAT_REDIS_EMBEDDED_H

#include "base/error.h"
#include <leat/log.h>

typedef struct leat__embedded leat__embedded;

/* Attach to the server of an absolute directory, which is created if new (NULL:
 * $XDG_STATE_HOME/leat/redis or ~/.local/state/leat/redis), starting the server
 * if there is none and waiting until it answers.  timeout_ms < 0 waits for
 * ever.  NULL on failure.  *log is copied and may be NULL. */
leat__embedded *leat__embedded_attach(const char *dir, const leat_logger *log,
                                      int64_t timeout_ms, leat_error *err);

/* Path of the Unix socket; owned by e. */
const char *leat__embedded_socket(const leat__embedded *e);
const char *leat__embedded_dir(const leat__embedded *e);

/* Before each reconnect: see that the server answers, starting it again if it
 * and its guardian are gone. */
leat_code leat__embedded_ensure(leat__embedded *e, int64_t timeout_ms,
                                leat_error *err);

/* Leave; NULL is accepted.  A forked child leaves for itself only. */
void leat__embedded_detach(leat__embedded *e);

#endif
