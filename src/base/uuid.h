/*
 * uuid.h: UUIDs, and making version 7 (RFC 9562): they sort by time.
 */
#ifndef LEAT_BASE_UUID_H
#define LEAT_BASE_UUID_H

#include "base/error.h"
#include <leat/bytes.h>
#include <pthread.h>

enum { LEAT__UUID_TEXT = 36, LEAT__UUID_POOL = 1024 };

typedef struct leat__uuid {
    uint8_t b[16];
} leat__uuid;

/* Makes ids that ascend, strictly, for all its threads together, also while
 * the clock stands or goes back.  Threads: shared.  A forked child makes
 * others than its parent; it must not be forked off during a call. */
typedef struct leat__uuid7_gen {
    pthread_mutex_t lock;
    uint64_t ms;      /* of the last id; never goes back          */
    uint32_t counter; /* within that millisecond, 26 bits         */
    unsigned forks;   /* whose randomness the pool holds          */
    size_t left;      /* unused bytes at the end of the pool      */
    uint8_t pool[LEAT__UUID_POOL];
} leat__uuid7_gen;

void leat__uuid7_init(leat__uuid7_gen *g);
void leat__uuid7_release(leat__uuid7_gen *g);

/* LEAT_EIO when the system has no randomness. */
leat_code leat__uuid7_next(leat__uuid7_gen *g, leat__uuid *id,
                           leat_error *err) LEAT_MUST_CHECK;

/* The same for a caller that lets one thread at a time in. */
leat_code leat__uuid7_next_locked(leat__uuid7_gen *g, leat__uuid *id,
                                  leat_error *err) LEAT_MUST_CHECK;

/* When a version 7 was made, in milliseconds since 1970. */
int64_t leat__uuid7_ms(const leat__uuid *id);

/* "0190a6e0-...": lower case, LEAT__UUID_TEXT characters and a zero. */
void leat__uuid_format(const leat__uuid *id, char out[LEAT__UUID_TEXT + 1]);

/* Either case; false: not a UUID. */
bool leat__uuid_parse(leat_bytes text, leat__uuid *id);

#endif
