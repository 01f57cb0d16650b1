/*
 * keys.h: the names of all keys of a topic, and of what may be a name.
 *
 *   leat:topics                    set     registry of topics
 *   leat:topic:<t>                 hash    what a topic is: meta.c
 *   leat:{<t>}:topic               string  incarnation of the topic: identity.c
 *   leat:{<t>}:groups              set     groups of the topic
 *   leat:{<t>}:group:<g>           hash    what a group is: join.c
 *   leat:{<t>}:members:<g>         hash    nonce -> record of a member
 *   leat:{<t>}:beats:<g>           hash    nonce -> its last beat, its lease
 *   leat:{<t>}:paused:<g>          string  since when the group is paused
 *   leat:{<t>/<i>}:log             stream  partition i
 *   leat:{<t>/<i>}:id              string  incarnation of the topic: identity.c
 *   leat:{<t>/<i>}:joined          hash    groups of the topic, which need not
 *                                          have read here -> incarnation
 *   leat:{<t>/<i>}:cur:<g>         hash    cursor of group g
 *   leat:{<t>/<i>}:lease:<g>       hash    who owns the partition
 *   leat:{<t>/<i>}:kept:<g>        hash    messages put by for group g, and
 *   leat:{<t>/<i>}:due:<g>         zset    when they are due, and
 *   leat:{<t>/<i>}:lane:<g>        zset    behind which they wait: kept.lua
 *   leat:{<t>/<i>}:dlq             stream  dead letters of all groups: move.lua
 *   leat:{<t>/<i>}:later           zset    delayed messages, by time, and
 *   leat:{<t>/<i>}:laters          hash    their fields, and
 *   leat:{<t>/<i>}:since           zset    by when they were sent: later.lua
 *   leat:{<t>/<i>}:bodies          hash    large bodies by entry id, and
 *   leat:{<t>/<i>}:large           zset    those ids, by their milliseconds
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
void leat__key_topic(leat__key *k, const char *prefix, const char *topic);
void leat__key_groups(leat__key *k, const char *prefix, const char *topic);
void leat__key_group(leat__key *k, const char *prefix, const char *topic,
                     const char *group);
void leat__key_members(leat__key *k, const char *prefix, const char *topic,
                       const char *group);
void leat__key_beats(leat__key *k, const char *prefix, const char *topic,
                     const char *group);
void leat__key_paused(leat__key *k, const char *prefix, const char *topic,
                      const char *group);
void leat__key_log(leat__key *k, const char *prefix, const char *topic,
                   bool legacy, uint32_t partition);
void leat__key_cursor(leat__key *k, const char *prefix, const char *topic,
                      bool legacy, uint32_t partition, const char *group);
void leat__key_lease(leat__key *k, const char *prefix, const char *topic,
                     bool legacy, uint32_t partition, const char *group);

/* Any other of a partition's keys, by the word in the list above; group is NULL
 * where it has none. */
void leat__key_part(leat__key *k, const char *prefix, const char *topic,
                    bool legacy, uint32_t partition, const char *word,
                    const char *group);

/* The words of the keys that a partition has beside its log for all groups, but
 * for its id; NULL after the last. */
extern const char *const leat__partition_words[];

#endif
