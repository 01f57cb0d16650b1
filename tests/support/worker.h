/*
 * worker.h: what the processes of the chaos runs have in common.
 *
 * A worker is given its options as name=value, opens what it needs for as long
 * as that may work, writes down what it does and ends in order at SIGTERM.  For
 * programs that are not cmocka tests.
 */
#ifndef SUPPORT_WORKER_H
#define SUPPORT_WORKER_H

#include "support/ledger.h"

#include <leat/leat.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORKER_OPEN_MS = 60000, WORKER_END_MS = 60000 };

/* One of text and number is NULL. */
typedef struct worker_option {
    const char *name;
    const char **text;
    int64_t *number;
} worker_option;

/* Ends the process at a word that is none of them. */
void worker_parse(const worker_option *options, size_t n, char **words);

/* Set by SIGTERM, or by hand, and seen by every thread. */
extern atomic_int worker_stopping;
void worker_signals(void);

/* To stderr, and exit 1. */
_Noreturn void worker_die(const char *what, const leat_error *e);

/* An open that failed: waits a little if there is a point in another; ends the
 * process otherwise, with 0 if it is stopping. */
void worker_again_or_die(const char *what, const leat_error *e, int64_t end_ms);

/* A leat_logger's function; it names the process. */
void worker_log(void *arg, leat_level level, const char *line);

/* What is said of the way to the server. */
typedef struct worker_link {
    int64_t answer; /* the client's timeout, and to connect */
    int64_t durability, replicas, log;
} worker_link;

leat_client *worker_dial(const char *url, const worker_link *l);

/* For who leads this one by its stdin, that all is open. */
void worker_say_ready(void);

/* Ends the process if it cannot be written. */
void worker_write(ledger *book, ledger_kind kind, ledger_record r);

/* The highest number attempted so far, of each of `keys` keys from `key` on, by
 * the ledgers of this role.  last is to hold 0 for each. */
void worker_recall(const char *dir, const char *role, uint64_t key,
                   uint64_t keys, uint64_t *last);

/* How the ledger calls the outcome of sending one. */
ledger_kind worker_outcome(leat_code rc);

/* Where messages are delayed, by any time below `most`; it follows from the
 * number. */
int64_t worker_delay(uint64_t id, int64_t most);

/* Sleep until so many since start_ns are no more than rate a second; rate 0:
 * not at all. */
void worker_pace(int64_t start_ns, int64_t rate, int64_t sent);

/* What happens to a message follows from its number alone; as many of a
 * thousand as is said here.  Fates in support/topic_policies.py is the same. */
typedef struct worker_fates {
    int64_t poison, flaky, reject, crash;
    int64_t max; /* a flaky one fails fewer times */
} worker_fates;

typedef enum worker_fate {
    WORKER_PLAIN,
    WORKER_POISON, /* always fails                             */
    WORKER_FLAKY,  /* fails `times` times                      */
    WORKER_REJECTED,
    WORKER_CRASHER /* kills the process that handles it        */
} worker_fate;

worker_fate worker_fate_of(const worker_fates *f, uint64_t id, uint32_t *times);

#endif
