/*
 * dlq.h: what the parts of the dead letters share.
 *
 *   dlq.c          the handle, names of dead letters, one by its name
 *   dlq_letter.c   an entry of the stream as a leat_dead
 *   dlq_walk.c     all of them, merged over the partitions, filtered
 *   dlq_count.c    by group and by error
 *   dlq_move.c     many of them, in batches, through a script
 *   dlq_replay.c   what replaying and removing give to those scripts
 *   dlq_edit.c     one of them with another message
 *   fingerprint.c  what errors have in common
 *
 *   leat:{<t>/<i>}:dlq   stream, an entry: g group, u its incarnation, i id in
 *     the log, n times handed out, f failures told, fm lm first and last
 *     failure in ms, fe le first and last error, e epoch, r id when it was
 *     replayed last, x names and values that the policy added, each
 *     "<length>:<bytes>", ed when it was edited in ms, c number of the
 *     message's fields, and behind it these; of very many one "@packed", as
 *     kept.lua packs them
 *
 * Written by bury in topic/lua/move.lua and by edit.lua.
 */
#ifndef LEAT_ADMIN_DLQ_H
#define LEAT_ADMIN_DLQ_H

#include "base/arena.h"
#include "message/opened.h"
#include "redis/script.h"
#include "topic/describe.h"
#include <leat/dlq.h>

enum {
    LEAT__DLQ_PAGE = 100,        /* dead letters in one command             */
    LEAT__DLQ_BYTES = 1 << 20,   /* of them, once their size is known       */
    LEAT__DLQ_FIELDS_MOST = 3000 /* of a message: what Lua can hand on      */
};

struct leat_dlq {
    leat__topic_at at;   /* its names are owned  */
    leat_client *client; /* NULL: not held yet   */
    leat_dlq_opts opts;
    char *name, *prefix;
};

/* A place among dead letters: which partition, which entry. */
typedef struct leat__dead_at {
    uint32_t partition;
    leat_position at;
} leat__dead_at;

/* LEAT_EINVAL, quoting it: not "PARTITION:MS-SEQ". */
leat_code leat__dead_at_parse(const char *text, leat__dead_at *out,
                              leat_error *err);
void leat__dead_at_format(leat__dead_at x, char out[LEAT_DEAD_ID]);

void leat__dlq_key(const leat_dlq *d, uint32_t partition, const char *word,
                   const char *group, leat__key *out);

/* XRANGE, or with `back` XREVRANGE; the reply is the caller's. */
leat_code leat__dlq_range(const leat_dlq *d, uint32_t partition, bool back,
                          leat_bytes from, leat_bytes to, size_t count,
                          leat_reply **out, leat_error *err);

/* Run a script that compares the topic's id, which is put behind its keys and
 * arguments.  When its answer was lost it is run again, and *again is true:
 * what it finds done may then be its own work.  LEAT_ESTALE: the topic is
 * another by now. */
leat_code leat__dlq_run(const leat_dlq *d, uint32_t partition,
                        const leat__script *s, const leat__key *keys,
                        size_t nkeys, const leat_bytes *args, size_t nargs,
                        bool *again, leat_reply **out, leat_error *err);

/* ---- dlq_letter.c ----------------------------------------------------- */

/* A dead letter and the memory that its parts live in.  Zero-initialised. */
typedef struct leat__letter {
    leat_dead pub;
    leat__opened opened;
    leat__arena arena;
    char id[LEAT_DEAD_ID];
    leat_reply *reply; /* of leat_dlq_get; NULL: the walk's */
} leat__letter;

void leat__letter_release(leat__letter *x);

/* Read [id, [name, value, ...]]; what is read points into the reply. */
leat_code leat__letter_read(leat__letter *x, const leat_dlq *d,
                            leat__dead_at at, const leat_reply *entry,
                            leat_error *err);

/* Read this one into x, which keeps the reply.  LEAT_ENOENT: it is not
 * there. */
leat_code leat__letter_fetch(leat__letter *x, leat_dlq *d, leat__dead_at at,
                             leat_error *err);

/* The walk's own letter: the one that was given out last. */
const leat__letter *leat__dlq_walk_letter(const leat_dlq_walk *w);

/* ---- dlq_move.c ------------------------------------------------------- */

/* Dead letters of one partition, and where it matters of one group. */
typedef struct leat__batch {
    uint32_t partition;
    const char *group;
    size_t count;
    leat_position at[LEAT__DLQ_PAGE];
    leat_bytes *args; /* of the script, beside its first */
    size_t nargs, room;
    size_t bytes;
    leat__arena arena; /* of group and args */
} leat__batch;

/* Append a copy to the script's arguments. */
leat_code leat__batch_arg(leat__batch *b, leat_bytes arg, leat_error *err);

enum { LEAT__MOVE_KEYS = 5, LEAT__MOVE_ARGS = 4 };

/* What is done with dead letters.  The script answers "1" for each that it has
 * moved, see judge in dlq_move.c. */
typedef struct leat__move {
    const leat__script *script;
    bool look;     /* ids do not suffice: group or message are needed      */
    bool by_group; /* a batch is of one group                              */

    /* The script's keys, and its first arguments, which may point into text;
     * how many. */
    size_t (*keys)(const leat_dlq *d, const leat__batch *b, leat__key *out);
    size_t (*args)(const leat_dlq *d, const leat__batch *b, leat_bytes *out,
                   char text[LEAT__MOVE_ARGS][LEAT__NUMBER]);

    /* The arguments of one, behind its id; NULL: there are none. */
    leat_code (*add)(const leat_dlq *d, leat__batch *b, const leat__letter *x,
                     leat_error *err);
} leat__move;

/* These, or with ids NULL all that match. */
leat_code leat__dlq_move(leat_dlq *d, const leat__move *how,
                         const char *const *ids, size_t n,
                         const leat_dead_filter *filter,
                         const leat_dlq_move_opts *opts, leat_dlq_sum *sum,
                         leat_error *err);

/* ---- dlq_edit.c ------------------------------------------------------- */

/* Append the fields of n messages, by the codec they were read with or, where
 * by is NULL, by the handle's; *size is what they take. */
leat_code leat__dead_encode(const leat_dlq *d, const leat_codec *by,
                            const leat_msg *m, size_t n, leat_fields *out,
                            size_t *size, leat_error *err);

#endif
