/*
 * sink.h: the inside of a publisher.
 *
 * A lane is one connection with its thread.  Whoever publishes encodes the
 * whole command and appends it to the lane's queue; the thread takes the queue
 * as a whole, copies the commands into the connection's buffer and tells each
 * message how it ended.
 *
 * A record's life: queued -> unsent (the thread has it) -> sent -> answered,
 * and where the durability asks for proof -> unproven -> told.  When the
 * connection is lost what never left goes back to unsent, in order, and so does
 * what the server refused because it does not have the stream now or cannot
 * serve it; what may have left is LEAT_EUNKNOWN.
 */
#ifndef LEAT_STREAM_SINK_H
#define LEAT_STREAM_SINK_H

#include "base/uuid.h"
#include "message/sink.h"
#include "stream/stream.h"

typedef struct stream_sink stream_sink;
typedef struct sink_lane sink_lane;

/* Memory of records: filled by publishers under the lock, given back by the
 * thread once all in it are answered. */
typedef struct sink_block {
    struct sink_block *next;
    size_t used, cap;
    size_t count; /* records in it          */
    size_t done;  /* of these, answered     */
    char bytes[];
} sink_block;

typedef struct sink_record {
    struct sink_record *next;
    sink_lane *lane;
    sink_block *block;
    leat_published_fn *fn;
    void *arg;
    int64_t deadline_ns; /* to be sent */
    leat_position at;    /* of one that is unproven */
    size_t size;
    char bytes[]; /* the command */
} sink_record;

typedef struct sink_queue {
    sink_record *first, *last;
    size_t count;
} sink_queue;

struct sink_lane {
    stream_sink *k;
    pthread_t thread;
    bool started;
    int event;

    pthread_mutex_t lock;
    pthread_cond_t told; /* messages were answered */
    sink_block *oldest, *newest, *spare;
    sink_queue queue;
    uint64_t accepted, finished;
    size_t bytes; /* without outcome */
    size_t waiting;
    leat_fields *fields;
    leat_error bad; /* the first failure without a callback */
    bool closing, abort;
    bool asleep;
    size_t wake_at; /* queued messages that end its sleep */

    /* The thread's own. */
    leat_conn *conn;
    int64_t since_ns; /* connected                                      */
    int64_t retry_ns; /* not before                                     */
    sink_queue unsent, back;
    sink_queue refused;  /* with nothing behind them that was done       */
    leat_error why;      /* they were                                    */
    sink_queue unproven; /* added, not known to be kept */
    size_t done, done_bytes;
};

struct stream_sink {
    leat_sink base;
    leat_stream *stream;
    leat_stream_sink_opts opts;
    char *head; /* XADD key [MAXLEN ~ n] *, encoded */
    size_t head_size, head_words;
    leat__uuid7_gen ids;
    leat_counter *sent, *failed, *unknown;
    atomic_uint turn;
    int lane_count;
    sink_lane lanes[];
};

enum { SINK_BLOCK = 64 * 1024, SINK_LANES = 16, SINK_CLOSE_MS = 5000 };

/* send.c: the thread's body. */
void *leat__stream_send(void *lane);

/* True: it slept. */
bool leat__sink_wake_locked(sink_lane *l);

static inline void leat__sink_push(sink_queue *q, sink_record *r)
{
    r->next = NULL;
    if (q->last)
        q->last->next = r;
    else
        q->first = r;
    q->last = r;
    q->count++;
}

#endif
