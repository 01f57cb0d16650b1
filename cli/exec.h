/*
 * exec.h: a program for one message.
 */
#ifndef LEAT_CLI_EXEC_H
#define LEAT_CLI_EXEC_H

#include "cli.h"

#include <pthread.h>

enum {
    MAX_PROGRAMS = 256,   /* at once                                  */
    SAID_MAX = 224,       /* bytes of the last line a program has said */
    REASON_MAX = 255,     /* as many as the library keeps             */
    NOT_STARTED_MS = 1000 /* until a program is tried to start again */
};

typedef enum ran_how {
    RAN_EXITED = 0, /* by itself: its exit code           */
    RAN_KILLED,     /* by a signal of somebody else's     */
    RAN_TOO_LONG,   /* ended by us                        */
    RAN_CANCELLED,  /* ended by us: the message is no longer ours, or we stop */
    RAN_NOT         /* it could not be started: errno     */
} ran_how;

typedef struct ran {
    ran_how how;
    int status;
    char said[SAID_MAX + 1]; /* its last line on stderr, as it was */
} ran;

/* Run it in a handler, to its end; max_ms 0: no limit.  Any thread.  What it
 * writes to stderr is written to ours. */
ran program_run(char **argv, const sighting *m, int64_t max_ms, leat_ctx *x);

/* "exit status 3: no such customer", no longer than the library keeps and no
 * letter cut in two; malloced. */
char *ran_reason(const ran *r);

/* The program that --exec, or the words behind --, name, and its arguments;
 * NULL: none.  Borrowed from c. */
char **program_get(cli *c);

/* 0, or an exit code where there is no such program, and said: `nothing` is
 * what was not done. */
int program_check(char **program, const char *nothing);

/* Kill all that run; may be called by a signal's handler. */
void programs_kill(void);

/* ---- how many may begin (gate.c) -------------------------------------- */

enum { GATE_HOLDS = 256 };

typedef struct gate_key { /* a message */
    uint32_t partition;
    uint64_t ms, seq;
} gate_key;

typedef struct held_place {
    gate_key key;
    int64_t since_ns;
} held_place;

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t limit;               /* 0: none                                  */
    int64_t begun, finished;     /* for the limit: finished is part of begun */
    held_place held[GATE_HOLDS]; /* failed, perhaps for the last time    */
    size_t holding;
    bool shut;     /* something went wrong: none may begin     */
    bool stopping; /* who waits leaves                         */
} gate;

#define GATE(most)                                                             \
    {                                                                          \
        .lock = PTHREAD_MUTEX_INITIALIZER,                                     \
        .changed = PTHREAD_COND_INITIALIZER, .limit = (most)                   \
    }

/* Wait for a place; false: there will be none.  key: the message, where places
 * are held; NULL: they are not. */
bool gate_enter(gate *g, const gate_key *key);
void gate_leave(gate *g, bool finished);
/* Instead of leaving: it failed, and whether that was the last time is not
 * known yet. */
void gate_hold(gate *g, const gate_key *key);
/* Let go of places that are held in vain; to be called now and then. */
void gate_sweep(gate *g);
/* One that ended without leaving: it was held, or did not enter. */
void gate_count(gate *g, const gate_key *key);
/* The limit is, or it is shut. */
bool gate_reached(gate *g);
void gate_stop(gate *g);
/* Wait, unless it stops. */
void gate_pause(gate *g, int64_t ms);

#endif
