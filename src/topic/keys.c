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

void leat__key_groups(leat__key *k, const char *prefix, const char *topic)
{
    leat__key_put(k, "%s:{%s}:groups", leat__prefix_of(prefix), topic);
}

void leat__key_members(leat__key *k, const char *prefix, const char *topic,
                       const char *group)
{
    leat__key_put(k, "%s:{%s}:members:%s", leat__prefix_of(prefix), topic,
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

static void of_group(leat__key *k, const char *prefix, const char *topic,
                     bool legacy, uint32_t partition, const char *what,
                     const char *group)
{
    if (legacy)
        leat__key_put(k, "%s:{%s}:%s:%s", leat__prefix_of(prefix), topic, what,
                      group);
    else
        leat__key_put(k, "%s:{%s/%u}:%s:%s", leat__prefix_of(prefix), topic,
                      partition, what, group);
}

void leat__key_cursor(leat__key *k, const char *prefix, const char *topic,
                      bool legacy, uint32_t partition, const char *group)
{
    of_group(k, prefix, topic, legacy, partition, "cur", group);
}

void leat__key_lease(leat__key *k, const char *prefix, const char *topic,
                     bool legacy, uint32_t partition, const char *group)
{
    of_group(k, prefix, topic, legacy, partition, "lease", group);
}
