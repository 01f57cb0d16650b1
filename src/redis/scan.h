/*
 * scan.h: requests that are repeated until the server says that it is done.
 *
 * When that is, the server decides, and one that lies never does.  So each such
 * loop has two ends of its own: a number of steps, and a time.
 *
 *   leat__scan s;
 *   leat__scan_begin(&s, "the topics", timeout_ms);
 *   do {
 *       ... SSCAN key s.cursor ...
 *       rc = leat__scan_page(&s, reply, &items, err);
 *   } while (rc == LEAT_OK && !s.over);
 *
 * Threads: confined.
 */
#ifndef LEAT_REDIS_SCAN_H
#define LEAT_REDIS_SCAN_H

#include "base/error.h"
#include <leat/redis.h>

enum {
    LEAT__STEPS_MAX = 1000000, /* of one loop                          */
    LEAT__CURSOR_TEXT = 24     /* a cursor is a number of 64 bits      */
};

typedef struct leat__steps {
    const char *what; /* for errors: "the topics"; borrowed       */
    int64_t timeout_ms, deadline_ns;
    uint32_t count;
} leat__steps;

void leat__steps_begin(leat__steps *s, const char *what, int64_t timeout_ms);

/* A step is done and the server wants another.  The time counts from the last
 * step that got something done: a long work may take long, but not stand
 * still.  LEAT_ETIMEOUT, or LEAT_EPROTO after LEAT__STEPS_MAX. */
leat_code leat__steps_next(leat__steps *s, bool progress, leat_error *err);

typedef struct leat__scan {
    leat__steps steps;
    char cursor[LEAT__CURSOR_TEXT]; /* to ask with */
    bool over;
} leat__scan;

/* All of it must be read by the timeout. */
void leat__scan_begin(leat__scan *s, const char *what, int64_t timeout_ms);

/* Take in an answer: [next cursor, items].  LEAT_EPROTO: it is none. */
leat_code leat__scan_page(leat__scan *s, const leat_reply *r,
                          const leat_reply **items, leat_error *err);

/* Take in a cursor that came by another way; progress as above. */
leat_code leat__scan_next(leat__scan *s, leat_bytes cursor, bool progress,
                          leat_error *err);

#endif
