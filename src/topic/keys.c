/*
 * keys.c: the names of all keys of a topic.
 *
 * The part in braces is what a cluster hashes: a partition with its cursors and
 * leases is one unit, the groups and members of a topic are another.
 */
#include "topic/keys.h"

void leat__key_topics(leat__key *k, const char *prefix)
{
    leat__key_put(k, "%s:topics", leat__prefix_of(prefix));
}

void leat__key_meta(leat__key *k, const char *prefix, const char *topic)
{
    leat__key_put(k, "%s:topic:%s", leat__prefix_of(prefix), topic);
}

void leat__key_topic(leat__key *k, const char *prefix, const char *topic)
{
    leat__key_put(k, "%s:{%s}:topic", leat__prefix_of(prefix), topic);
}

void leat__key_groups(leat__key *k, const char *prefix, const char *topic)
{
    leat__key_put(k, "%s:{%s}:groups", leat__prefix_of(prefix), topic);
}

void leat__key_group(leat__key *k, const char *prefix, const char *topic,
                     const char *group)
{
    leat__key_put(k, "%s:{%s}:group:%s", leat__prefix_of(prefix), topic, group);
}

void leat__key_members(leat__key *k, const char *prefix, const char *topic,
                       const char *group)
{
    leat__key_put(k, "%s:{%s}:members:%s", leat__prefix_of(prefix), topic,
                  group);
}

void leat__key_beats(leat__key *k, const char *prefix, const char *topic,
                     const char *group)
{
    leat__key_put(k, "%s:{%s}:beats:%s", leat__prefix_of(prefix), topic, group);
}

void leat__key_paused(leat__key *k, const char *prefix, const char *topic,
                      const char *group)
{
    leat__key_put(k, "%s:{%s}:paused:%s", leat__prefix_of(prefix), topic,
                  group);
}

void leat__key_log(leat__key *k, const char *prefix, const char *topic,
                   bool legacy, uint32_t partition)
{
    if (legacy)
        leat__key_put(k, "%s", topic);
    else
        leat__key_put(k, "%s:{%s/%u}:log", leat__prefix_of(prefix), topic,
                      partition);
}

void leat__key_part(leat__key *k, const char *prefix, const char *topic,
                    bool legacy, uint32_t partition, const char *word,
                    const char *group)
{
    const char *colon = group ? ":" : "", *of_group = group ? group : "";
    if (legacy)
        leat__key_put(k, "%s:{%s}:%s%s%s", leat__prefix_of(prefix), topic, word,
                      colon, of_group);
    else
        leat__key_put(k, "%s:{%s/%u}:%s%s%s", leat__prefix_of(prefix), topic,
                      partition, word, colon, of_group);
}

void leat__key_cursor(leat__key *k, const char *prefix, const char *topic,
                      bool legacy, uint32_t partition, const char *group)
{
    leat__key_part(k, prefix, topic, legacy, partition, "cur", group);
}

void leat__key_lease(leat__key *k, const char *prefix, const char *topic,
                     bool legacy, uint32_t partition, const char *group)
{
    leat__key_part(k, prefix, topic, legacy, partition, "lease", group);
}

const char *const leat__partition_words[] = { "dlq",    "later",  "laters",
                                              "since",  "bodies", "large",
                                              "joined", NULL };
