/*
 * keys.h: the names of all keys of a topic, and of what may be a name.
 *
 *   leat:topics                    set     registry of topics
 *   leat:topic:<t>                 hash    meta: partitions, partitioner,
 *                                          created, updated
 *   leat:{<t>}:groups              set     groups of the topic
 *   leat:{<t>}:members:<g>         hash    nonce -> record of a member
 *   leat:{<t>/<i>}:log             stream  partition i
 *   leat:{<t>/<i>}:cur:<g>         hash    cursor of group g
 *   leat:{<t>/<i>}:lease:<g>       hash    who owns the partition
 *
 * Of a legacy topic, a bare stream <t>, the log is <t> itself and the tag of
 * cursor and lease is {<t>}, which is the same slot.  The channel on which a
 * change of a group is told is the name of its members' key.
 */
#ifndef LEAT_TOPIC_KEYS_H
#define LEAT_TOPIC_KEYS_H

#include "message/name.h"
#include <leat/topic.h>

/* NULL or empty is "leat"; names are checked before. */
void leat__key_topics(leat__key *k, const char *prefix);
void leat__key_meta(leat__key *k, const char *prefix, const char *topic);
void leat__key_groups(leat__key *k, const char *prefix, const char *topic);
void leat__key_members(leat__key *k, const char *prefix, const char *topic,
                       const char *group);
void leat__key_log(leat__key *k, const char *prefix, const char *topic,
                   bool legacy, uint32_t partition);
void leat__key_cursor(leat__key *k, const char *prefix, const char *topic,
                      bool legacy, uint32_t partition, const char *group);
void leat__key_lease(leat__key *k, const char *prefix, const char *topic,
                     bool legacy, uint32_t partition, const char *group);

#endif
