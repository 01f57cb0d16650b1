/*
 * stream.h: the inside of a stream handle and of its subscriber.
 *
 * A subscriber is one I/O thread, the connections it drives, and what it shares
 * with the threads that receive and settle:
 *
 *   source.c  the table of a source: receive, settle, extend, flush, close
 *   io.c      the thread: connections, waiting, reading
 *   settle.c  settlements on their way to the server and their outcomes
 *   claim.c   what comes back: own entries that were lost or left, nacked ones
 *             whose time has come, those of the dead
 *   batch.c   one reply as deliveries, in one piece of memory
 *   held.c, park.c, id.c   pure parts
 *
 * An entry's life: read or taken -> in the table of what is held, its messages
 * ready -> handed out -> all settled -> sent -> outcome known, out of the
 * table.  A nacked one is then parked in the table until it is taken again.
 */
#ifndef LEAT_STREAM_STREAM_H
#define LEAT_STREAM_STREAM_H

#include "base/backoff.h"
#include "message/outcomes.h"
#include "message/source.h"
#include "redis/script.h"
#include "stream/held.h"
#include "stream/id.h"
#include "stream/park.h"
#include <leat/stream.h>
#include <pthread.h>

struct leat_stream {
    leat_client *client;
    char *name;
    const leat_codec *codec;
    leat_logger log;
    leat_metrics *metrics;
    atomic_uint refs; /* the handle, its source and its sinks */
    atomic_bool subscribed;
};

enum { LEAT__STREAM_NAME = 512 }; /* bytes */

/* LEAT_EINVAL: it cannot be a stream's. */
leat_code leat__stream_name_check(const char *name, leat_error *err);

/* What TYPE said of it.  LEAT_ENOENT: there is no such key; LEAT_EINVAL: it is
 * no stream. */
leat_code leat__stream_kind(const char *name, leat_bytes kind, leat_error *err);
leat_code leat__stream_there(leat_client *c, const char *name, leat_error *err);

void leat__stream_keep(leat_stream *s);
void leat__stream_drop(leat_stream *s);

/* A connection to the server that has the stream, within wait_ms; and its
 * end. */
leat_conn *leat__stream_connect(leat_stream *s, int64_t wait_ms,
                                leat_error *err);
void leat__stream_disconnect(leat_stream *s, leat_conn *conn);

/* Where we were sent for the time of a move, others say better after it. */
bool leat__stream_asked_long(const leat_conn *conn, int64_t since_ns);

/* ---- batches ---------------------------------------------------------- */

typedef struct stream_source stream_source;
typedef struct stream_batch stream_batch;

typedef struct stream_entry {
    leat_position id;
    leat_bytes text; /* the id, in the batch's bytes                       */
    stream_batch *batch;
    struct stream_entry *next; /* settled, or in one command               */
    int64_t since_ns;          /* nobody else can have it before since_ns + */
                               /* idle: from before the request left        */
    int64_t delay_ms;          /* of the nacks, the shortest; -1: now       */
    uint32_t attempt;
    uint32_t first, count; /* its slots                                    */
    uint32_t left;         /* of them unsettled                            */
    bool handed;           /* some message of it was handed out            */
    bool nacked;           /* some message of it was nacked or released    */
    bool tried;            /* a message was nacked, so an attempt counts   */
    bool committed;        /* settled by a commit script                   */
    bool plain;            /* sent as an unfenced XACK                     */
    bool doubt;            /* an earlier command may have settled it       */
} stream_entry;

typedef struct stream_slot {
    leat_delivery d;
    stream_entry *entry;
} stream_slot;

/* One reply.  The last slot that is recycled gives it back. */
struct stream_batch {
    stream_source *source;
    stream_batch *next;          /* ready, or in the pool               */
    stream_batch *newer, *older; /* all that are in use                 */
    atomic_uint refs;            /* slots in use                        */
    char *bytes;                 /* the reply's                         */
    size_t bytes_cap;
    leat_fields *fields;
    stream_entry *entries;
    size_t entry_count, entry_cap;
    stream_slot *slots;
    size_t slot_count, slot_cap;
    size_t taken; /* slots handed out so far */
    size_t redelivered, undecodable;
};

/* Fill b from `entries`, an array of [id, fields] or, with counts, of [id,
 * count, fields]; elements without fields are left out, and so is what `held`
 * has (parked entries are not held).  LEAT_ENOMEM leaves b empty. */
leat_code leat__stream_batch_fill(stream_batch *b, const leat_codec *codec,
                                  const leat_reply *entries, bool counts,
                                  const stream_held *held, int64_t since_ns,
                                  leat_error *err);
void leat__stream_batch_free(stream_batch *b);

/* ---- the subscriber --------------------------------------------------- */

enum {
    STREAM_CHUNK = 100,        /* ids in one script call                 */
    STREAM_XACK = 256,         /* ids in one XACK                        */
    STREAM_READS = 2,          /* in flight on one connection            */
    STREAM_CONNECTIONS = 16,   /* that read                              */
    STREAM_LINGER_NS = 500000, /* settlements wait so long for company   */
    STREAM_POOLED = 64         /* empty batches kept                     */
};

/* One connection of the subscriber: links[0] never blocks in the server and
 * does what is not reading. */
typedef struct stream_link {
    stream_source *s;
    leat_conn *conn;
    int64_t since_ns;  /* connected                                        */
    int64_t client_id; /* for CLIENT UNBLOCK; 0: unknown                   */
    int64_t unblock_ns;
    unsigned reads; /* in flight, oldest first:                            */
    struct {
        int64_t sent_ns;
        size_t asked;
    } read[STREAM_READS];
    bool full;  /* the last read brought as much as was asked for          */
    bool reset; /* connect anew                                            */
} stream_link;

/* A call of extend, from its thread to the I/O thread and back. */
typedef struct stream_extend {
    struct stream_extend *next;
    stream_source *s;
    int64_t sent_ns;
    leat_error err;
    bool done, abandoned; /* under the source's lock */
    size_t n;
    leat_code *outcome; /* n, behind the ids */
    leat_position id[];
} stream_extend;

typedef enum stream_take_kind {
    STREAM_TAKE_OWN,   /* ours, from an earlier life or a lost reply       */
    STREAM_TAKE_DUE,   /* parked, and its time has come                    */
    STREAM_TAKE_OTHERS /* idle too long                                    */
} stream_take_kind;

typedef struct stream_meters {
    leat_counter *consumed, *redelivered, *deleted, *undecodable, *stale,
        *adopted;
    leat_gauge *in_flight;
} stream_meters;

struct stream_source {
    leat_source base;
    leat_stream *stream;
    leat_client *client;
    leat_bytes key, group, consumer; /* views of the strings below         */
    char *group_text;
    char consumer_text[LEAT__STREAM_CONSUMER * 2];
    char start[LEAT__STREAM_ID];
    leat_stream_source_opts opts;
    bool named;
    int64_t idle_ns, safe_ns, claim_ns;
    stream_meters meters;
    pthread_t thread;
    int event; /* wakes the thread */

    /* Shared. */
    pthread_mutex_t lock;
    pthread_cond_t arrived;  /* something to receive                        */
    pthread_cond_t extended; /* an extend is done                          */
    stream_batch *ready_first, *ready_last;
    size_t ready;         /* messages not yet handed out           */
    size_t unsettled;     /* messages without outcome, all of them */
    stream_batch *newest; /* in use                                */
    stream_batch *pool;
    size_t pooled;
    stream_entry *settled_first, *settled_last;
    size_t settled_count; /* entries to be sent                    */
    int64_t settled_ns;   /* since then                            */
    leat__outcomes outcomes;
    stream_extend *extends;
    leat_error failure; /* to be told by receive                 */
    bool failed;
    bool interrupted, urgent, closing;
    bool asleep; /* the thread, until wake_ns or an event */
    bool hungry; /* it waits for room                     */
    int64_t wake_ns;
    int ready_fd; /* -1: nobody asked                      */
    bool ready_set;
    leat_stream_stats stats;

    /* The thread's own. */
    stream_link links[1 + STREAM_CONNECTIONS];
    int link_count;
    stream_held held;
    stream_park park;
    bool xautoclaim;
    int64_t retry_ns; /* nothing is sent before                */
    bool need_group;
    bool scan, scan_fresh; /* look for own entries that are not held */
    leat_position scan_at;
    bool claiming; /* a pass over the group's pending ones  */
    leat_position claim_at;
    int64_t claim_due_ns, page_due_ns;
    bool sweep;        /* look for names to remove              */
    char *sweep_names; /* found: zero-terminated, in a row      */
    size_t sweep_size, sweep_next;
    bool busy; /* a call of claim.c is under way        */
    stream_take_kind take_kind;
    bool take_ready; /* what is in take has to be asked for   */
    size_t take_count;
    leat_position take[STREAM_CHUNK];
    int64_t take_ns;
    size_t page;         /* entries asked for in one page         */
    size_t stolen_count; /* claimed from ourselves: to be undone  */
    struct {
        leat_position id;
        int64_t count;
    } stolen[STREAM_CHUNK];
    bool away;     /* the server, and receive was told                     */
    bool leaving;  /* nothing more is read                                 */
    bool released; /* what was held is on its way back                     */
};

/* Wake the thread, if it sleeps. */
void leat__stream_wake_locked(stream_source *s);

/* io.c: the thread's body. */
void *leat__stream_io(void *source);

/* Messages that may be asked for now; 0: no room. */
size_t leat__stream_room(stream_source *s);

/* Something failed: receive says so once.  Not retriable: for good. */
void leat__stream_failed(stream_source *s, const leat_error *err);

/* An error of the group being gone, also from inside a script. */
bool leat__stream_nogroup(const leat_error *err);

/* Nobody answered, or what makes no sense: it may have been done. */
static inline bool leat__stream_in_doubt(const leat_error *err)
{
    return err->code == LEAT_EUNKNOWN || err->code == LEAT_EPROTO;
}

/* What a failed command means: the group is to be made, try later, or for
 * good. */
void leat__stream_refused(stream_source *s, stream_link *l,
                          const leat_error *err);

/* Make a reply's entries ready; how many messages, or 0. */
size_t leat__stream_deliver(stream_source *s, const leat_reply *entries,
                            bool counts, int64_t since_ns);

/* settle.c: send what is settled over l. */
void leat__stream_settle_send(stream_source *s, stream_link *l);
void leat__stream_extend_send(stream_source *s, stream_link *l);

/* Give back everything that is not settled. */
void leat__stream_settle_release(stream_source *s);

/* The end: whatever has no outcome gets this one. */
void leat__stream_settle_abort(stream_source *s, const leat_error *err);

/* claim.c: do the next thing that is due, over l; and when that will be. */
void leat__stream_claim_step(stream_source *s, stream_link *l, int64_t now);
int64_t leat__stream_claim_due(stream_source *s);

/* Look for what is pending here and not held. */
void leat__stream_scan(stream_source *s);

/* An entry comes back at ready_ns. */
void leat__stream_park(stream_source *s, leat_position id, int64_t ready_ns);

/* Remove our own name, if it is a made one and nothing is pending. */
void leat__stream_leave(stream_source *s, stream_link *l);

/* meter.c */
leat_code leat__stream_meters(stream_source *s, leat_error *err);

#endif
