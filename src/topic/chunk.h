/*
 * chunk.h: the memory of the messages that one read brought.
 *
 * A reply is copied once, as one run of bytes; its messages are decoded where
 * they lie.  A chunk lives until the last of them is neither in a window nor
 * with a user, and goes back to its pool, so in a steady state nothing is
 * allocated.
 * Threads: filling belongs to one thread; references are shared.
 */
#ifndef LEAT_TOPIC_CHUNK_H
#define LEAT_TOPIC_CHUNK_H

#include "base/buf.h"
#include "topic/window.h"
#include <leat/message.h>
#include <leat/redis.h>
#include <stdatomic.h>

typedef struct leat__chunk leat__chunk;

typedef struct leat__chunk_pool {
    _Atomic(leat__chunk *) back; /* given back, by any thread          */
    leat__chunk *spare;          /* the filler's own                   */
    atomic_size_t made;          /* in existence, for the bound        */
    bool bodies;                 /* may be beside the log              */
    bool stubs;                  /* the last filling had some          */
    atomic_uint ahead;           /* large ones not handed out yet,     */
    atomic_size_t ahead_bytes;   /* and how large they are             */
    atomic_size_t large_bytes;   /* of these and those handed out      */
} leat__chunk_pool;

/* An entry whose body is kept beside the log: its fields, the last of which
 * names the one that is missing. */
typedef struct leat__stub {
    const leat_bytes *pairs;
    size_t n;
} leat__stub;

/* One message, in its chunk. */
typedef struct leat__held {
    leat__chunk *chunk;
    const leat_msg *msg; /* NULL: there is only the stub */
    union {
        const leat_error *error; /* why it is none; the fields are headers
                                    then                                   */
        const leat__stub *stub;
    };
    leat__id id;
    bool again; /* marked as one that leat published again: see again.c */
} leat__held;

/* The name of the mark, which is an entry's first field. */
#define LEAT__AGAIN_MARK "@again"

/* Decode an array of entries as XREAD gives it for one stream: up to max of
 * them go to held[], each with a reference.  How many; fewer than there are
 * only for lack of memory or for something that is no entry, with *err
 * filled. */
size_t leat__chunk_fill(leat__chunk_pool *pool, const leat_codec *codec,
                        const leat_reply *entries, leat__held **held,
                        size_t max, leat_error *err);

/* The same for one message whose fields, an array of names and values, came
 * otherwise. */
leat_code leat__chunk_one(leat__chunk_pool *pool, const leat_codec *codec,
                          leat__id id, const leat_reply *fields,
                          leat__held **held, leat_error *err);

/* The message of a stub, in a chunk of its own; body NULL: it is gone, and the
 * error says so.  NULL: no memory. */
leat__held *leat__chunk_large(leat__chunk_pool *pool, const leat_codec *codec,
                              const leat__held *stub, const leat_bytes *body,
                              leat_error *err);

/* Keep it for who gets it. */
void leat__held_keep(leat__held *h);
void leat__held_drop(leat__held *h);

/* Nothing refers to any chunk any more. */
void leat__chunk_pool_release(leat__chunk_pool *pool);

#endif
