/*
 * watch.h: a thread that follows the master of a service.
 *
 * It stays connected to the sentinels and asks them every second; a message on
 * +switch-master makes it ask at once.  When another server has become the
 * master and says so itself, the connections that lead elsewhere are cut.
 */
#ifndef LEAT_REDIS_WATCH_H
#define LEAT_REDIS_WATCH_H

#include "base/error.h"
#include <leat/redis.h>

typedef struct leat__watch leat__watch;

/* For a client with sentinels.  close waits for the thread, two seconds at
 * most; NULL is fine. */
leat__watch *leat__watch_open(leat_client *c, leat_error *err);
void leat__watch_close(leat__watch *w);

#endif
