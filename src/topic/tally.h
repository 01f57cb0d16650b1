/*
 * tally.h: how many entries of a log there are between two places.
 */
#ifndef LEAT_TOPIC_TALLY_H
#define LEAT_TOPIC_TALLY_H

#include "topic/look.h"

/* What counting has cost so far; zero-initialised but for the first two. */
typedef struct leat__tallies {
    const leat__topic_at *topic;
    leat_conn *conn;
    size_t counted, bytes;
} leat__tallies;

typedef struct leat__tally {
    int64_t all, settled; /* all includes the settled       */
    bool known;           /* false: beyond the bounds       */
} leat__tally;

/* Entries behind the group's cursor, as far as that is known without counting;
 * -1: it is not. */
int64_t leat__tally_behind(const leat__look *l);

/* Count the entries of partition i after `after` up to `to`, and those of them
 * that are in the ranges `settled`, which may be NULL. */
leat_code leat__tally_count(leat__tallies *x, uint32_t i, const char *settled,
                            leat_position after, leat_position to,
                            leat__tally *out, leat_error *err);

/* How many entries the ranges hold after `after`; -1: beyond the bounds. */
leat_code leat__tally_settled(leat__tallies *x, uint32_t i, const char *settled,
                              leat_position after, int64_t *out,
                              leat_error *err);

#endif
