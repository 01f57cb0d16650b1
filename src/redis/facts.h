/* facts.h: what kind of server this is. */
#ifndef LEAT_REDIS_FACTS_H
#define LEAT_REDIS_FACTS_H

#include "redis/conn.h"

/* Ask, in one round trip, and fill *out.  What the ACL refuses stays zero or
 * empty; whether it refuses WAIT and WAITAOF is tried where `asked` needs them.
 * LEAT_EBUSY: the server is still loading its data. */
leat_code leat__facts_ask(leat_conn *c, bool as_redis_6_0,
                          leat_durability asked, leat_server *out,
                          leat_error *err);

/* The part of it that is the text of INFO. */
void leat__facts_info(leat_bytes text, leat_server *out);

/* One line of CONFIG GET. */
void leat__facts_config(leat_bytes name, leat_bytes value, leat_server *out);

/* Does this server throw data away when its memory is full? */
bool leat__facts_evicts(const leat_server *s);

#endif
