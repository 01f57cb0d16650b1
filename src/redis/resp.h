/*
 * resp.h: the RESP2/RESP3 wire format, as pure functions over bytes.
 *
 * A reply is a flat array of nodes in the order of the wire: the elements of
 * an aggregate follow it directly, and `span` tells how many nodes a value
 * covers with all that is inside it.  So a reply of any shape is two pieces of
 * memory, the received bytes and the nodes, and walking it is pointer
 * arithmetic: first = r + 1, next = r + r->span.  Only reply.c does that:
 * everybody else walks with leat_reply_each, which knows the end.
 *
 * The decoder is incremental and iterative.  It appends a node when the bytes
 * of that node have arrived, never for what a count announces, so its memory
 * is bounded by the bytes received.
 */
#ifndef LEAT_REDIS_RESP_H
#define LEAT_REDIS_RESP_H

#include "base/buf.h"
#include "base/error.h"
#include <leat/redis.h>

struct leat_reply {
    uint8_t type;  /* leat_reply_type                       */
    bool owned;    /* made by leat__reply_copy              */
    uint32_t n;    /* elements of an aggregate              */
    uint32_t span; /* nodes, this one and all inside it     */
    union {
        int64_t i;
        double d;
        struct {
            const char *p; /* into the received bytes        */
            size_t n;
        } s;
    };
};

typedef struct leat__resp_limits {
    uint32_t depth;    /* 0: 8, at most LEAT__RESP_MAX_DEPTH            */
    uint32_t elements; /* nodes of one reply; 0: 1 Mi                   */
    uint64_t bulk;     /* bytes of one bulk, at least 99; 0: 96 MiB    */
    uint32_t line;     /* bytes of one line, at least 16; 0: 64 KiB     */
    uint64_t reply;    /* bytes of one reply; 0: 512 MiB                */
} leat__resp_limits;

enum { LEAT__RESP_MAX_DEPTH = 32 };

typedef enum leat__resp_state {
    LEAT__RESP_DONE, /* one whole reply                                   */
    LEAT__RESP_MORE, /* not enough bytes yet                              */
    LEAT__RESP_BAD   /* not RESP, or over a limit: the stream is lost     */
} leat__resp_state;

typedef struct leat__resp {
    leat__resp_limits limits;
    leat_reply *nodes;
    uint32_t count, cap;
    size_t pos;     /* bytes of this reply already taken in               */
    size_t scan;    /* a line's end was looked for up to here             */
    uintptr_t base; /* the address of the reply's bytes at the last call  */
    uint32_t depth; /* open aggregates                                    */
    uint64_t attrs; /* bit i: stack[i] is a RESP3 attribute               */
    struct leat__resp_open {
        uint32_t node; /* the open aggregate, or where an attribute's     */
                       /* elements begin: thrown away when complete       */
        uint32_t left; /* elements still to come                          */
    } stack[LEAT__RESP_MAX_DEPTH + 1]; /* [0] waits for the reply itself  */
} leat__resp;

void leat__resp_init(leat__resp *d, const leat__resp_limits *limits);
void leat__resp_release(leat__resp *d);

/* Forget a reply and begin the next, also after BAD.  The nodes' memory is
 * kept unless it is large and the reply was not. */
void leat__resp_reset(leat__resp *d);

/*
 * Decode one reply from the n bytes at p, which begin where the reply begins:
 * call again with the same bytes and more (they may have moved) after MORE.
 * On DONE, d->nodes is the reply, with views into p, and *used its length in
 * bytes.  On BAD *err says why: LEAT_EPROTO for bytes that are not RESP,
 * LEAT_ETOOBIG for a limit, LEAT_ENOTSUP for RESP3's streamed values and
 * LEAT_ENOMEM, after which the same call may be made again.
 *
 * The answer depends on the bytes alone, not on how they were cut into calls.
 */
leat__resp_state leat__resp_decode(leat__resp *d, const char *p, size_t n,
                                   size_t *used, leat_error *err);

/* A double as the wire writes it: decimal with an optional fraction and
 * exponent, "inf", "-inf" or "nan"; whatever the locale says. */
bool leat__resp_double(const char *p, size_t n, double *out);

/* A copy in one allocation, for leat_reply_free. */
leat_reply *leat__reply_copy(const leat_reply *r, leat_error *err);

/* ---- encoding ---------------------------------------------------------
 * Commands are arrays of bulk strings, never inline. */

/* How many bytes the command takes; SIZE_MAX when no memory has room for it. */
size_t leat__resp_command_size(const leat_bytes *argv, size_t n);

/* Write it at p, which has that much room; returns the end. */
char *leat__resp_command(char *p, const leat_bytes *argv, size_t n);

/* The pieces, for callers that build a command in place: "*n\r\n", then each
 * argument as "$len\r\n...\r\n".  Each returns the end. */
char *leat__resp_array_head(char *p, size_t n);
char *leat__resp_bulk(char *p, const void *bytes, size_t n);

#endif
