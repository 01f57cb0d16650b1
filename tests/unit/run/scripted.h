/*
 * scripted.h: a source in memory that does what a test says and remembers what
 * was done to it.
 *
 * Messages are numbered from 0; a message's position is {0, number, 0}.  The
 * source keeps the whole contract of message/source.h, the ordered part too,
 * and fails the process when its user breaks it: a delivery settled twice, or
 * extended while it is settled.
 */
#ifndef LEAT_TESTS_SCRIPTED_H
#define LEAT_TESTS_SCRIPTED_H

#include "message/source.h"
#include <leat/run.h>

enum { SCRIPT_LANES = 64 };

typedef struct scripted scripted;

typedef struct script_entry {
    uint64_t lane;
    char key[16];
    bool bad;   /* cannot be decoded                    */
    bool stale; /* its settlement is refused            */
    int attempts, acks, nacks, rejects, releases;
    int64_t delay_ms; /* of the last nack               */
    char reason[64];  /* of the last reject             */

    enum { SCRIPT_WAITS, SCRIPT_OUT, SCRIPT_DONE } state;
    int64_t due_ns;
} script_entry;

typedef struct script_settle {
    size_t number;
    leat__settle verdict;
} script_settle;

scripted *scripted_open(bool ordered, int64_t lease_ms);
leat_source *scripted_source(scripted *s);

/* Append n messages of a lane (0: none) with that key (NULL: none). */
void scripted_add(scripted *s, size_t n, uint64_t lane, const char *key);

/* The entry's settings; before it is received. */
script_entry *scripted_entry(scripted *s, size_t number);

/* The next n receives, or extends, fail with that code. */
void scripted_fail_receive(scripted *s, int n, leat_code code);
void scripted_fail_extend(scripted *s, int n, leat_code code);

/* From now on every extend of every delivery says so. */
void scripted_extend_says(scripted *s, leat_code outcome);

/* Every extend waits until it is let through again. */
void scripted_stall_extend(scripted *s, bool stalled);

/* Figures so far; the last two outlive the close. */
size_t scripted_settled(scripted *s);   /* acked or rejected           */
size_t scripted_extends(scripted *s);   /* deliveries extended         */
size_t scripted_extending(scripted *s); /* calls under way           */
size_t scripted_calls(scripted *s);     /* receives                    */
size_t scripted_max_out(scripted *s);   /* most that were out at once  */
bool scripted_closed(scripted *s);

/* What was settled, in order. */
size_t scripted_log(scripted *s, const script_settle **log);

/* After the close: checks that every delivery came back, and frees. */
void scripted_free(scripted *s);

/* The number of a message. */
size_t script_number(const leat_ctx *x);

/* Wait for a condition; fails the test when it does not come. */
#define AWAIT(condition)                                                       \
    do {                                                                       \
        int64_t until_ = script_now_ms() + 60000;                              \
        while (!(condition)) {                                                 \
            if (script_now_ms() > until_)                                      \
                script_never(#condition, __FILE__, __LINE__);                  \
            script_nap();                                                      \
        }                                                                      \
    } while (0)

int64_t script_now_ms(void);
void script_nap(void);
_Noreturn void script_never(const char *what, const char *file, int line);

#endif
