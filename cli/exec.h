/*
 * exec.h: a program for one message.
 */
#ifndef LEAT_CLI_EXEC_H
#define LEAT_CLI_EXEC_H

#include "cli.h"

enum {
    MAX_PROGRAMS = 256, /* at once                                  */
    SAID_MAX = 224      /* bytes of the last line a program has said */
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

/* Is there such a program, in PATH where the name has no slash? */
bool program_exists(const char *name);

/* Kill all that run; may be called by a signal's handler. */
void programs_kill(void);

#endif
