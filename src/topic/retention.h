/*
 * retention.h: what is kept of a topic, on the server and in a handle.  See
 * retention.c.
 *
 * Threads: all of it is shared.
 */
#ifndef LEAT_TOPIC_RETENTION_H
#define LEAT_TOPIC_RETENTION_H

#include <leat/redis.h>
#include <leat/topic.h>
#include <stdatomic.h>

enum {
    LEAT__RETENTION_FIELDS = 8,
    LEAT__RETENTION_NUMBER = 24 /* bytes of a value's text */
};

/* What a handle knows of it.  One writer at a time, any number of readers,
 * none of which waits: it is looked at with every message. */
typedef struct leat__retention_seen {
    _Atomic uint32_t version; /* odd while it is being written */
    _Atomic int64_t value[LEAT__RETENTION_FIELDS];
    _Atomic int64_t read_ns; /* when it was asked for, about      */
    atomic_bool warned;      /* that what was read makes no sense */
} leat__retention_seen;

void leat__retention_get(leat__retention_seen *s, leat_retention *out);
void leat__retention_set(leat__retention_seen *s, const leat_retention *r);

/* What was read at the open is known from now on. */
void leat__retention_begin(leat_topic *t);

bool leat__retention_same(const leat_retention *a, const leat_retention *b);

/* LEAT_EINVAL for what contradicts itself. */
leat_code leat__retention_check(const leat_retention *r, leat_error *err);

/* The fields of the meta hash: their names, and names and values in turn, whose
 * text is in `text`. */
void leat__retention_names(leat_bytes names[LEAT__RETENTION_FIELDS]);
void leat__retention_pairs(
    const leat_retention *r, leat_bytes pairs[2 * LEAT__RETENTION_FIELDS],
    char text[LEAT__RETENTION_FIELDS][LEAT__RETENTION_NUMBER]);

/* From so many values in a row, the first given; nil where a topic has none.
 * False: another version wrote what this one does not know, *bad. */
bool leat__retention_read(leat_reply_iter values, leat_retention *out,
                          leat_bytes *bad);

#define LEAT__RETENTION_NS INT64_C(5000000000) /* how often it is to be read */

/* True for one caller, when it was not read for so long: it is to ask, by one
 * of the two below. */
bool leat__retention_due(leat_topic *t, int64_t now_ns, int64_t every_ns);

/* When that is next; INT64_MAX: never. */
int64_t leat__retention_at(const leat_topic *t, int64_t every_ns);

/* Ask on this connection, which leads to the topic's meta; the answer is taken
 * in with others. */
void leat__retention_ask(leat_topic *t, leat_conn *c);

/* Ask and wait, a second at most; false: no answer.  `wait` asks much later
 * then: who calls it does other things. */
bool leat__retention_look(leat_topic *t);
void leat__retention_wait(leat_topic *t);

#endif
