/*
 * waker.h: waiting for something to happen, without polling for it.
 *
 * One connection of a client listens to as many channels as there are waiters.
 * A message is only a hint: it can be lost, so a waiter also comes back after
 * its own poll floor and looks for itself.
 *
 * Threads: everything here is shared; a waiter is waited on by one thread.
 */
#ifndef LEAT_REDIS_WAKER_H
#define LEAT_REDIS_WAKER_H

#include "base/error.h"
#include <leat/redis.h>

typedef struct leat__waker leat__waker;
typedef struct leat__waiter leat__waiter;

/* The client's waker, started at first use; owned by the client. */
leat__waker *leat__client_waker(leat_client *c, leat_error *err);
void leat__waker_close(leat__waker *w);

/* Wait for messages on a channel.  A waiter is hinted at once when the channel
 * is listened to, and whenever messages may have been missed. */
leat__waiter *leat__waiter_open(leat__waker *w, leat_bytes channel,
                                leat_error *err);
void leat__waiter_close(leat__waiter *q);

/* Only what fn says yes to is a hint; NULL: everything. */
void leat__waiter_hears(leat__waiter *q, bool (*fn)(leat_bytes payload));

/* True: hinted since the last call.  False: nothing for floor_ms. */
bool leat__waiter_wait(leat__waiter *q, int64_t floor_ms);

/* Hints also make this eventfd readable; it is borrowed.  Only a wait of 0 ms
 * then tells whether there was one. */
void leat__waiter_tell(leat__waiter *q, int event_fd);

/* Hint it from here, to end its wait. */
void leat__waiter_poke(leat__waiter *q);

#endif
