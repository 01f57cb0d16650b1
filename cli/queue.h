/*
 * queue.h: what the commands on queues share.
 */
#ifndef LEAT_CLI_QUEUE_H
#define LEAT_CLI_QUEUE_H

#include "exec.h"

#include <stdatomic.h>

/* The client and the queue that is the first argument. */
typedef struct opened {
    leat_client *client;
    leat_queue *queue;
} opened;

/* Its keys' prefix by --namespace, and that it must be there. */
leat_queue_opts queue_opts(cli *c);
bool is_redowl(cli *c);

/* False with *code, and said.  `care`: also give back what expires and move
 * dead letters, as one does who stays. */
bool opened_open(cli *c, opened *q, bool care, int *code);
void opened_close(cli *c, opened *q);

/* Say why a call on the queue failed; one that is not there gets a hint of
 * those that are, and a receipt that is stale is a negative answer. */
int queue_fail(cli *c, leat_client *client, const char *name,
               const leat_error *err);

/* For so long a message may be hidden, in ms. */
int64_t longest_visibility(cli *c);

/* --visibility is a time that can be: 0, or an exit code. */
int check_visibility(cli *c);

/* Somebody else's key stands where one of the queue's should. */
bool key_is_foreign(const leat_error *err);

/* A receipt as words on the command line give it; bytes is overwritten. */
leat_bytes receipt_bytes(char *text);

/* Say what was done to the queue, or the stream, or would be: the remark, or a
 * record. */
int queue_done(cli *c, const char *done, bool dry, const char *remark);

/* ---- programs as workers (queue_work.c) ------------------------------- */

typedef struct working {
    cli *c;
    char **program;
    int64_t max_ms, retry_ms; /* -1: as the queue says */
    const char *stream;       /* whose messages they are; NULL: of queues */
    leat_retry retry;         /* of a stream                              */
    printer *printer;         /* of a stream, without a program           */
    int trouble;              /* of printing: an exit code that ends us   */
    gate gate;                /* its lock is the printer's, too           */
    atomic_llong acked, back, rejected;
    leat_error away; /* the server, when we ended for lack of work */
} working;

/* What the options say, of which one names a program, or none of a stream;
 * false with *code, and said. */
bool working_init(cli *c, working *w, int64_t limit, int *code);

/* How long a message of a stream waits after so many attempts
 * (cmd_stream_consume.c). */
int64_t retry_delay(const leat_retry *r, uint32_t attempt);

/* A handler; arg is a working. */
leat_verdict working_handle(leat_ctx *x, void *arg);

/* How far who hands out messages is. */
typedef struct working_state {
    uint64_t received;
    bool busy, failed; /* failed: for good */
} working_state;

/* Until a signal, the count, a failure for good, or nothing came for as long as
 * the option says; then nothing more is begun. */
void working_wait(working *w, const char *word, leat_client *client,
                  working_state (*look)(void *arg), void *arg);

/* The end: code is how stopping went. */
int working_end(working *w, leat_code code, const leat_error *err);

#endif
