/*
 * outcomes.h: settlements that have no outcome yet, and the first bad one.
 *
 * What the flush of a source waits for and returns; a part of the source,
 * whose lock is held in every call.
 */
#ifndef LEAT_MESSAGE_OUTCOMES_H
#define LEAT_MESSAGE_OUTCOMES_H

#include "base/thread.h"

typedef struct leat__outcomes {
    size_t due;          /* settlements without outcome   */
    leat_error bad;      /* the first since a flush       */
    pthread_cond_t none; /* is due any more               */
} leat__outcomes;

leat_code leat__outcomes_init(leat__outcomes *o, leat_error *err);
void leat__outcomes_release(leat__outcomes *o);

/* n have their outcome; `bad` is the first bad one's, its code LEAT_OK if all
 * are good.  Of none there is no bad one. */
void leat__outcomes_came(leat__outcomes *o, size_t n, const leat_error *bad);

/* Wait until none is due: the first bad one, which is forgotten, or
 * LEAT_ETIMEOUT.  The error calls the source by its kind and name. */
leat_code leat__outcomes_flush(leat__outcomes *o, pthread_mutex_t *lock,
                               int64_t deadline_ns, const char *kind,
                               const char *name, leat_error *err);

#endif
