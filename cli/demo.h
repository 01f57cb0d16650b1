/*
 * demo.h: what the parts of leat demo share: its ledger and its workers.
 *
 * The processes of a demo write down what they did, each in a file of its own
 * in one directory: one record is one write(2), so a kill -9 loses nothing that
 * was done.  What the demo says at the end is counted from these files alone.
 */
#ifndef LEAT_CLI_DEMO_H
#define LEAT_CLI_DEMO_H

#include "cli.h"

#define DEMO_TOPIC "orders"
#define DEMO_GROUP "billing"

enum {
    DEMO_PARTITIONS = 4,
    DEMO_WORKERS = 3,
    DEMO_FILES = DEMO_WORKERS + 1, /* the producer's is the last          */
    DEMO_LEASE_MS = 2000,
    DEMO_TRIES = 3, /* of the poison order; then it is a dead letter       */
    DEMO_BACKOFF_MS = 50,
    DEMO_MAX_COUNT = 10 * 1000 * 1000
};

typedef enum demo_kind {
    DEMO_SENT = 1, /* persisted                                           */
    DEMO_UNKNOWN,  /* may be                                              */
    DEMO_FAILED,   /* certainly not                                       */
    DEMO_HANDLED,
    DEMO_REPLAYED, /* handled, and it was a dead letter before             */
    DEMO_TRIED,    /* the poison order, in vain                            */
    DEMO_OWNED,    /* a partition is the worker's from now on              */
    DEMO_KILLED    /* by the demo; worker: whom                            */
} demo_kind;

typedef struct demo_record {
    uint32_t kind;
    uint32_t worker;
    uint32_t partition;
    uint32_t attempt;
    uint64_t number; /* of the message, from 0; its key is number % keys  */
    uint64_t fence;
    int64_t ns; /* monotonic: one clock for all processes                 */
} demo_record;

/* The order that no worker can handle before the bug is fixed; it comes early,
 * so that it is a dead letter before anybody is killed. */
static inline uint64_t demo_poison(int64_t count)
{
    return (uint64_t)count / 10;
}

/* ---- writing ---------------------------------------------------------- */

/* A file of the directory; -1 and said. */
int demo_ledger_create(const char *dir, int n);

/* Time is filled in.  False: do not go on with what it announces. */
bool demo_write(int fd, demo_record r);

/* ---- reading ---------------------------------------------------------- */

typedef struct demo_ledger {
    int64_t count, keys;
    int fd[DEMO_FILES]; /* for reading */
    demo_record *r;
    size_t n, room;
    unsigned char *seen;             /* a bit per message              */
    int64_t sent, outcomes, handled; /* so far; handled: each once     */
    int64_t by_worker[DEMO_WORKERS]; /* handled, each time             */
    int64_t tried, replayed;         /* the poison order               */
    bool ready[DEMO_WORKERS];        /* has owned a partition          */
} demo_ledger;

bool demo_ledger_open(demo_ledger *l, const char *dir, int64_t count,
                      int64_t keys);
void demo_ledger_close(demo_ledger *l);

/* Take in what was written since the last call. */
void demo_ledger_read(demo_ledger *l);

/* What came out.  A worker that was thought dead and was only slow may do again
 * what its successor has done: the fence tells, and a store that remembers the
 * highest fence refuses it.  So does the count. */
typedef struct demo_result {
    int64_t sent, unknown, handled, lost, out_of_order;
    int64_t redelivered; /* handled again                                 */
    int64_t retried;     /* failed and put by for another try             */
    int64_t replayed;    /* handled after having been a dead letter       */
    int64_t fenced;      /* refused by the fence                          */
    int64_t takeover_ms; /* from the kill until all partitions of the     */
                         /* dead had new owners; -1: no kill, or never    */
} demo_result;

void demo_judge(demo_ledger *l, demo_result *out);

/* ---- the poison order (cmd_demo_poison.c) ----------------------------- */

typedef struct demo_poisoned {
    leat_client *client;
    const char *prefix, *dir;
    int64_t number;
    int64_t dead; /* dead letters that there were; 0: none yet            */
    int64_t left; /* that there are in the end                            */
    bool fixed;
} demo_poisoned;

/* True when it is a dead letter; says so, and shows what the command would. */
bool demo_poison_dead(demo_poisoned *p, const demo_ledger *l);

/* Fix the bug, and replay the dead letter.  0, or an exit code and said. */
int demo_poison_fix(demo_poisoned *p);

/* Count what is left. */
int demo_poison_end(demo_poisoned *p);

/* The workers' side: is the bug fixed? */
bool demo_is_fixed(const char *dir);

/* ---- the workers ------------------------------------------------------ */

typedef struct demo_worker {
    long pid; /* 0: ended */
    int to;   /* a byte starts it, the end of the stream stops it */
} demo_worker;

/* Fork worker n.  To be called before this process has threads.  Never returns
 * in the child. */
bool demo_fork(cli *c, demo_worker *all, int n, const char *url,
               const char *prefix, const char *dir);

/* ---- cmd_demo_sweep.c ------------------------------------------------- */

/* This process leads the demo in dir until the descriptor is closed; -1 and
 * said.  And the server is a private one. */
int demo_lead(const char *dir);
void demo_lead_server(int fd, long pid);

/* Remove the directory, after its server has ended. */
void demo_clean_up(const char *dir, long server);

/* Remove what demos that were killed left there. */
void demo_sweep(const char *base);

#endif
