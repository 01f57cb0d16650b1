/*
 * settings.h: what the members of a group share.  See settings.c.
 */
#ifndef LEAT_TOPIC_SETTINGS_H
#define LEAT_TOPIC_SETTINGS_H

#include "topic/topic.h"

enum {
    LEAT__SETTINGS = 8,
    LEAT__SETTING_TEXT = 24,
    LEAT__LEASE_MS = 15000,
    LEAT__LEASE_LEAST_MS = 300,
    LEAT__LEASE_MOST_MS = 86400000
};

/* LEAT_EINVAL for what makes no sense; and the defaults for what is unset. */
leat_code leat__settings_check(const leat_group_settings *s, leat_error *err);
void leat__settings_fill(leat_group_settings *s);

/* Of a member's options, and into them. */
leat_group_settings leat__settings_of(const leat_topic_source_opts *o);
void leat__settings_apply(const leat_group_settings *s,
                          leat_topic_source_opts *o);

/* The fields of the group's hash: names and values in turn, whose text is in
 * `text`; of what is unset "". */
void leat__settings_pairs(const leat_group_settings *s,
                          leat_bytes pairs[2 * LEAT__SETTINGS],
                          char text[LEAT__SETTINGS][LEAT__SETTING_TEXT]);
const char *leat__settings_name(size_t i);

/* One field; false: it is none, out of range or a newer version's, and *s stays
 * as it is. */
bool leat__settings_read(leat_group_settings *s, const char *name,
                         leat_bytes value);

/* LEAT_EINVAL: the member's options ask for what the group has not. */
leat_code leat__settings_agree(const leat_topic_source_opts *asked,
                               const leat_group_settings *has,
                               const char *topic, const char *group,
                               leat_error *err);

bool leat__settings_same(const leat_group_settings *a,
                         const leat_group_settings *b);

/* "partition", "key" or "none". */
const char *leat__order_name(leat_order o);

#endif
