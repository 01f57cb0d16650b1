/*
 * dialer.h: connecting in the background.
 *
 * An event loop cannot wait for a server that does not answer.  Each attempt
 * is a thread of its own, which ends with it; who asked is told through an
 * eventfd and fetches the result.  An attempt that nobody waits for any more is
 * dropped, and cleans up after itself.
 */
#ifndef LEAT_REDIS_DIALER_H
#define LEAT_REDIS_DIALER_H

#include "redis/client.h"
#include "redis/slots.h"

/* Run fn(arg) on a thread of its own.  Until it returns the client lives, also
 * when it is closed meanwhile. */
leat_code leat__client_spawn(leat_client *c, const char *name,
                             void (*fn)(void *), void *arg, leat_error *err);

typedef struct leat__dial leat__dial;

/* Connect to this master; event_fd is written to when it is decided. */
leat__dial *leat__dial_start(leat_client *c, const leat__address *at,
                             int64_t deadline_ns, int event_fd,
                             leat_error *err);

/* The same, to whoever has this key, which is copied. */
leat__dial *leat__dial_start_key(leat_client *c, leat_bytes key,
                                 int64_t deadline_ns, int event_fd,
                                 leat_error *err);

/* Is it decided?  Then *conn, or NULL with *why, and the attempt is gone. */
bool leat__dial_fetch(leat__dial *d, leat_conn **conn, leat_error *why);

/* Nobody waits any more. */
void leat__dial_drop(leat__dial *d);

#endif
