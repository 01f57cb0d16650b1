/*
 * queue.h: what the parts of the queue bench share.
 *
 * Each part is one line of the table in queue.c, measures one thing and returns
 * whether every target was met.
 */
#ifndef BENCH_QUEUE_H
#define BENCH_QUEUE_H

#include "bench.h"
#include "raw.h"
#include "server.h"
#include <hiredis/hiredis.h>
#include <leat/leat.h>

enum {
    BODY = 100,
    MOST = 100,
    HELD = 35 /* in flight besides, as other receivers have them: with so many
                 the lean and the usual shape cost what they did when the
                 targets were made, 62,900 and 111,500 instructions a message.
                 With none they cost a third less, for then Redis finds each
                 deadline at the head of a short list.                     */
};

typedef struct work {
    redis_server *server;
    const char *socket;
    char url[256];
    const char *argv0;
    int batch, count;
} work;

extern char bench_body[BODY];

bool queue_pairs(work *w);
bool queue_rsmq(work *w);
bool queue_wake(work *w);
bool queue_growth(work *w);
bool queue_instructions(work *w);

void work_on(work *w, redis_server *s);
double rate(int count, int64_t start_ns);

/* Print and be false. */
bool complain(const leat_error *e);

/* ---- ours: queue.c ---------------------------------------------------- */

typedef struct ours {
    leat_client *c;
    leat_queue *q;
} ours;

bool ours_open(ours *o, const work *w);
void ours_close(ours *o);
bool ours_send(ours *o, int batch, int count);

/* Send and receive so many, and leave them in flight. */
bool ours_hold(ours *o, int count);

/* Receive and acknowledge. */
bool ours_take(ours *o, int batch, int count);

/* ---- others: queue_raw.c ---------------------------------------------- */

typedef enum shape {
    LEAN,  /* a list of ids, a hash of bodies, an index of deadlines: the
              least that a queue needs; no lanes, clock, counters, events */
    USUAL, /* what most write: a hash a message with its body, its receives
              and its receipt, looked at one by one                       */
    SHAPES_
} shape;

typedef struct other {
    redisContext *c;
    char sha[3][41];
    uint64_t next;
} other;

bool other_open(other *o, const work *w, shape s);
void other_close(other *o);
bool other_send(other *o, int batch, int count);
bool other_hold(other *o, int count);
bool other_take(other *o, int batch, int count);
void other_clear(const work *w);

/* The commands that rsmq sends, one message a call. */
bool rsmq_open(other *o, const work *w);
bool rsmq_send(other *o, int count);
bool rsmq_take(other *o, int count);

/* ---- what callgrind runs: queue_instructions.c ------------------------ */

int queue_work_main(const char *what, int n);

#endif
