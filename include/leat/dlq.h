/*
 * dlq.h: dead letters: messages that a group gave up.
 *
 * Each partition of a topic has a stream of them, of all its groups; here they
 * are one list, in the order in which they died.  A dead letter is named
 * "PARTITION:MS-SEQ", where MS is the time of its death by the server's clock.
 *
 *   leat_dlq *d = leat_dlq_open(client, "orders", NULL, &err);
 *   leat_dead x;
 *   leat_dlq_walk *w = leat_dlq_walk_open(d,
 *       &(leat_dlq_walk_opts){ .filter = { .group = "billing" } }, &err);
 *   while (leat_dlq_walk_next(w, &x, &err) == 1)
 *       printf("%s %.*s\n", x.id, (int)x.error.n, (const char *)x.error.p);
 *   leat_dlq_walk_close(w);
 *   leat_dlq_replay_all(d, &(leat_dead_filter){ .group = "billing" }, NULL,
 *                       NULL, &err);
 *   leat_dlq_close(d);
 *
 * A dead letter leaves its place and is at the other in one step of the server:
 * whoever is killed while replaying begins again, and each message is replayed
 * once.  No command asks for more than 100 dead letters, nor for more than
 * 1 MiB of them once it is known how large they are.
 *
 * Threads: leat_dlq and what is opened from it is confined.
 */
#ifndef LEAT_DLQ_H
#define LEAT_DLQ_H

#include <leat/message.h>
#include <leat/redis.h>
#include <leat/source.h>

LEAT_BEGIN

enum {
    LEAT_DEAD_ID = 56,      /* room for an id                              */
    LEAT_DEAD_PRINT = 200,  /* for a fingerprint, with the zero at its end */
    LEAT_DEAD_ERRORS = 1000 /* different ones that are told apart          */
};

typedef struct leat_dlq leat_dlq;

typedef struct leat_dlq_opts {
    const char *prefix;      /* of the topic's keys; NULL: "leat"           */
    const leat_codec *codec; /* NULL: native, else CloudEvents              */
    size_t max_message;      /* bytes of one that was edited; 0: 1 MiB      */
} leat_dlq_opts;

/* LEAT_ENOENT: no such topic. */
LEAT_API leat_dlq *leat_dlq_open(leat_client *c, const char *topic,
                                 const leat_dlq_opts *opts, leat_error *err);
LEAT_API void leat_dlq_close(leat_dlq *d); /* NULL is accepted */

/* ---- looking ---------------------------------------------------------- */

/* One dead letter. */
typedef struct leat_dead {
    const char *id;
    const char *topic;
    const char *group; /* that gave it up; "" where it is no dead letter    */
    uint32_t partition;
    leat_position position; /* the message's, in the log                    */
    uint32_t attempts;      /* times it was handed out                      */
    uint32_t failures;      /* of these, told; in the others somebody died  */
    leat_bytes error;       /* the one to be shown: the last, unless the    */
                            /* dead-letter policy has put another           */
    leat_bytes first_error, last_error;
    int64_t first_ms, last_ms; /* when it failed, since 1970; 0: not known  */
    int64_t dead_ms;           /* when it died, or was edited: the time of  */
                               /* its id                                    */
    uint64_t fence;            /* the epoch of the lease under which it did */
    const char *replayed_from; /* its id when it was replayed last; "": it  */
                               /* was not                                   */
    int64_t edited_ms;         /* when it was edited last; 0: never         */
    const leat_header *extra;  /* what the dead-letter policy added         */
    size_t extra_count;
    const leat_msg *msg;
    size_t msg_count;          /* of a packed entry more than one; 0: the   */
                               /* message was deleted from the log before   */
    const leat_error *damaged; /* why it could not be decoded: msg then has */
                               /* the raw fields as headers; NULL: it could */
    size_t size;               /* bytes of it all                           */
    const char *group_id;      /* the group's incarnation; "": an earlier   */
                               /* version made it                           */
} leat_dead;

/* Which ones; zero: all. */
typedef struct leat_dead_filter {
    const char *group;
    const char *error; /* is part of the error, big or small letters         */
    leat_bytes key;    /* p NULL: any; n 0: those without                    */
    int64_t since_ms;  /* died then or later, since 1970                     */
    int64_t until_ms;  /* died before then; 0: no end                        */
    bool one;          /* of this partition only                             */
    uint32_t partition;
    const char *group_id; /* of this incarnation of the group; NULL: of any  */
} leat_dead_filter;

typedef struct leat_dlq_walk leat_dlq_walk;

typedef struct leat_dlq_walk_opts {
    leat_dead_filter filter;
    const char *after; /* go on behind this id, which need not be there      */
    bool newest_first;
} leat_dlq_walk_opts;

/* All that are there now, one after the other. */
LEAT_API leat_dlq_walk *leat_dlq_walk_open(leat_dlq *d,
                                           const leat_dlq_walk_opts *opts,
                                           leat_error *err);
LEAT_API void leat_dlq_walk_close(leat_dlq_walk *w); /* NULL is accepted */

/* 1: *out is filled, until the next call; 0: the end; -1: a failure, after
 * which it may be called again. */
LEAT_API int leat_dlq_walk_next(leat_dlq_walk *w, leat_dead *out,
                                leat_error *err);

/* One by its id, the caller's.  LEAT_ENOENT: it is not there; LEAT_EINVAL: that
 * is no id. */
LEAT_API leat_dead *leat_dlq_get(leat_dlq *d, const char *id, leat_error *err);
LEAT_API void leat_dead_free(leat_dead *x);

/* ---- counting --------------------------------------------------------- */

/* What errors have in common: the text with numbers as <n>, others as <hex>,
 * <uuid> and, where quoted, <text>, and white space as one blank.  Written to
 * out, cut if it is too long and ended by a zero; returns out. */
LEAT_API const char *leat_dead_fingerprint(leat_bytes error,
                                           char out[LEAT_DEAD_PRINT]);

typedef struct leat_dead_group {
    const char *group;
    uint64_t count;
    int64_t first_ms, last_ms; /* of the oldest and of the newest           */
} leat_dead_group;

typedef struct leat_dead_error {
    const char *fingerprint;
    const char *newest; /* the id of the newest                             */
    uint64_t count;
    int64_t first_ms, last_ms;
} leat_dead_error;

typedef struct leat_dead_counts {
    uint64_t total;
    size_t groups;
    const leat_dead_group *group; /* by name                                */
    size_t errors;
    const leat_dead_error *error; /* the most frequent first                */
    uint64_t other; /* beyond the first LEAT_DEAD_ERRORS different errors   */
} leat_dead_counts;

/* Looks at each of them. */
LEAT_API leat_dead_counts *
leat_dlq_count(leat_dlq *d, const leat_dead_filter *filter, leat_error *err);
LEAT_API void leat_dead_counts_free(leat_dead_counts *n);

/* ---- replaying and removing ------------------------------------------- */

/* What became of one. */
typedef struct leat_dlq_step {
    const char *id;
    leat_code code;    /* LEAT_OK: done, or in a dry run: it would be        */
    const char *error; /* otherwise why not; NULL                            */
} leat_dlq_step;

/* Runs inside the call and on its thread, for every one, without a lock: it may
 * use the client and other handles, not this leat_dlq.  False: no more of
 * them. */
typedef bool leat_dlq_fn(void *arg, const leat_dlq_step *s);

typedef struct leat_dlq_move_opts {
    uint32_t rate;  /* so many a second at most; 0: as fast as it goes       */
    uint64_t limit; /* so many in all at most, the oldest; 0: no limit       */
    bool dry_run;   /* only tell what would be done                          */
    bool republish; /* replay: to the end of the log, for all groups, with   */
                    /* the header replayedFrom; otherwise to its own group,  */
                    /* as a retry that is due, its attempts forgotten        */
    leat_dlq_fn *fn;
    void *arg;
} leat_dlq_move_opts;

typedef struct leat_dlq_sum {
    uint64_t done;    /* in a dry run: would be                              */
    uint64_t missing; /* LEAT_ENOENT: not there, or not there any more       */
    uint64_t refused; /* LEAT_EBUSY: its message waits for a retry already;  */
                      /* LEAT_EINVAL: there is no message in it, or its      */
                      /* group is gone                                       */
    uint64_t unknown; /* LEAT_EUNKNOWN: an answer was lost, and when it was  */
                      /* asked again it was gone: by this call or another    */
} leat_dlq_sum;

/* Replay these; or all that match and are there now, the oldest first.  One
 * that cannot be does not keep back the others, and is told to fn.  The result
 * is LEAT_OK, or the first failure; opts and sum may be NULL.  Run again after
 * any failure it goes on with what is left.  LEAT_EFULL: republished into a log
 * that is full; the rest is where it was. */
LEAT_API leat_code leat_dlq_replay(leat_dlq *d, const char *const *ids,
                                   size_t n, const leat_dlq_move_opts *opts,
                                   leat_dlq_sum *sum, leat_error *err);
LEAT_API leat_code leat_dlq_replay_all(leat_dlq *d,
                                       const leat_dead_filter *filter,
                                       const leat_dlq_move_opts *opts,
                                       leat_dlq_sum *sum, leat_error *err);

/* The same, and they are gone for good. */
LEAT_API leat_code leat_dlq_remove(leat_dlq *d, const char *const *ids,
                                   size_t n, const leat_dlq_move_opts *opts,
                                   leat_dlq_sum *sum, leat_error *err);
LEAT_API leat_code leat_dlq_clear(leat_dlq *d, const leat_dead_filter *filter,
                                  const leat_dlq_move_opts *opts,
                                  leat_dlq_sum *sum, leat_error *err);

/* ---- editing ---------------------------------------------------------- */

/* What is to be another; p NULL and headers NULL: as it was. */
typedef struct leat_dead_edit {
    leat_bytes body;
    leat_bytes key;             /* the partition stays                      */
    const leat_header *headers; /* all of them                              */
    size_t header_count;
} leat_dead_edit;

/* Change the message of a dead letter.  What it was is gone; all else stays but
 * its id: *id_now, unless NULL, is the new one.  One that could not be decoded
 * becomes a new message and needs a body.  LEAT_ENOENT: it is not there;
 * LEAT_ETOOBIG: over max_message; LEAT_EINVAL: a packed entry; LEAT_EUNKNOWN:
 * the answer was lost, and when it was asked again it was gone. */
LEAT_API leat_code leat_dlq_edit(leat_dlq *d, const char *id,
                                 const leat_dead_edit *edit,
                                 char id_now[LEAT_DEAD_ID], leat_error *err);

LEAT_END
#endif
