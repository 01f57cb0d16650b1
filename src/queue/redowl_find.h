/*
 * redowl_find.h: which queues of redowl there are.
 *
 * redowl keeps no register: a queue is there while one of its keys is.  So the
 * keys of the server are gone through, a page at a time, of a cluster those of
 * each master.  What is there from the beginning of a round to its end is
 * found, some of it several times.
 *
 * Threads: confined.
 */
#ifndef LEAT_QUEUE_REDOWL_FIND_H
#define LEAT_QUEUE_REDOWL_FIND_H

#include "base/error.h"
#include <leat/redis.h>

typedef struct leat__finder leat__finder;

/* A name that may be a queue's.  Anything but LEAT_OK ends the step. */
typedef leat_code leat__found_fn(void *arg, leat_bytes name, leat_error *err);

/* The prefix was checked; NULL or empty: redowl's own. */
leat__finder *leat__finder_new(leat_client *c, const char *prefix,
                               leat_error *err);
void leat__finder_free(leat__finder *f); /* NULL is accepted */

/* Up to so many pages more.  *over: the round is, and the next step begins
 * another one; a step that failed also begins again. */
leat_code leat__finder_step(leat__finder *f, int pages, leat__found_fn *fn,
                            void *arg, bool *over, leat_error *err);

#endif
