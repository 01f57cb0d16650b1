/*
 * keys.c: the names of all keys of a topic.
 *
 * The part in braces is what a cluster hashes: a partition with its cursors and
 * leases is one unit, the groups and members of a topic are another.
 */
#include "topic/keys.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

LEAT_PRINTF(2, 3) static void put(leat__key *k, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(k->p, sizeof k->p, fmt, ap);
    va_end(ap);
    assert(n > 0 && (size_t)n < sizeof k->p); /* names were checked */
    k->n = (size_t)n;
}

static const char *of(const char *prefix)
{
    return prefix && *prefix ? prefix : "leat";
}

void leat__key_topics(leat__key *k, const char *prefix)
{
    put(k, "%s:topics", of(prefix));
}

void leat__key_meta(leat__key *k, const char *prefix, const char *topic)
{
    put(k, "%s:topic:%s", of(prefix), topic);
}

void leat__key_groups(leat__key *k, const char *prefix, const char *topic)
{
    put(k, "%s:{%s}:groups", of(prefix), topic);
}

void leat__key_members(leat__key *k, const char *prefix, const char *topic,
                       const char *group)
{
    put(k, "%s:{%s}:members:%s", of(prefix), topic, group);
}

void leat__key_beats(leat__key *k, const char *prefix, const char *topic,
                     const char *group)
{
    put(k, "%s:{%s}:beats:%s", of(prefix), topic, group);
}

void leat__key_paused(leat__key *k, const char *prefix, const char *topic,
                      const char *group)
{
    put(k, "%s:{%s}:paused:%s", of(prefix), topic, group);
}

void leat__key_log(leat__key *k, const char *prefix, const char *topic,
                   bool legacy, uint32_t partition)
{
    if (legacy)
        put(k, "%s", topic);
    else
        put(k, "%s:{%s/%u}:log", of(prefix), topic, partition);
}

void leat__key_part(leat__key *k, const char *prefix, const char *topic,
                    bool legacy, uint32_t partition, const char *word,
                    const char *group)
{
    const char *colon = group ? ":" : "", *of_group = group ? group : "";
    if (legacy)
        put(k, "%s:{%s}:%s%s%s", of(prefix), topic, word, colon, of_group);
    else
        put(k, "%s:{%s/%u}:%s%s%s", of(prefix), topic, partition, word, colon,
            of_group);
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

const char *const leat__group_words[] = { "cur", "lease", "kept",
                                          "due", "lane",  NULL };
const char *const leat__partition_words[] = { "dlq",   "later",  "laters",
                                              "since", "bodies", "large",
                                              NULL };
