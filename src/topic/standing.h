/*
 * standing.h: what has become of a topic that is open.  See standing.c.
 *
 * Threads: all of it is shared.
 */
#ifndef LEAT_TOPIC_STANDING_H
#define LEAT_TOPIC_STANDING_H

#include "topic/topic.h"

enum { LEAT__STANDING_FIELDS = 4 };

/* The fields of the meta hash that tell, and their values in a row. */
void leat__standing_names(leat_bytes names[LEAT__STANDING_FIELDS]);
void leat__standing_take(leat_topic *t, leat_reply_iter *values);

/* Look soon: something says that it is another. */
void leat__standing_hurry(leat_topic *t);

/* The incarnation that it has as far as is known. */
void leat__standing_u(leat_topic *t, char out[LEAT__INCARNATION + 1]);

/* It may not be published to: LEAT_ENOENT, it was removed; LEAT_ESTALE, there
 * is another that this handle does not fit. */
leat_code leat__standing_refuse(const leat_topic *t, leat_error *err);

/* It is not there, and whoever opened it wants it to be. */
bool leat__standing_lost(const leat_topic *t);

/* Make it again as it was, on this connection or by the client. */
void leat__standing_restore(leat_topic *t, leat_conn *c);
void leat__standing_restore_wait(leat_topic *t);

static inline leat__standing leat__standing_of(const leat_topic *t)
{
    return atomic_load_explicit(&t->standing, memory_order_relaxed);
}

#endif
