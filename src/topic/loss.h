/*
 * loss.h: finding what was acknowledged and is gone.  See loss.c.
 *
 * Threads: the sender's, but for what is said to be under the producer's io.
 */
#ifndef LEAT_TOPIC_LOSS_H
#define LEAT_TOPIC_LOSS_H

#include "redis/conn.h"
#include "topic/topic.h"

typedef struct leat__loss leat__loss;

/* For `span` partitions from `first` on, as the topic's options say.  *out is
 * NULL where nothing is to be remembered, which all below accept. */
leat_code leat__loss_new(leat_topic *t, uint32_t first, uint32_t span,
                         leat__loss **out, leat_error *err);

/* What was to be published again and was not is told. */
void leat__loss_free(leat__loss *l);

/* A message was acknowledged.  Its fields are those of the command behind the
 * first `head` bytes that follow the count of arguments. */
void leat__loss_note(leat__loss *l, uint32_t partition, leat_position at,
                     leat_bytes command, size_t head);

/* Before a new connection is used: is everything still there?  Tells what is
 * not, and publishes it again if that is wished.  `server` names the server's
 * life.  LEAT_OK: the connection may be used; otherwise it may not. */
leat_code leat__loss_check(leat__loss *l, leat_conn *c, const char *server,
                           leat_error *err);

/* Under io: look now and then, on a connection that is in use; what seems to be
 * missing makes it stale, and `suspects` true until the next check.  Due, which
 * the sender may ask at any time: when the next look is. */
void leat__loss_look(leat__loss *l, leat_conn *c, int64_t now_ns);
bool leat__loss_suspects(const leat__loss *l);
int64_t leat__loss_due(const leat__loss *l);

#endif
