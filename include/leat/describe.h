/*
 * describe.h: what the server knows of topics, groups and plain streams, for
 * people and the programs that serve them.
 *
 * Nothing here changes anything, joins a group or takes a lease, and no command
 * sent is larger than a stated bound.  What is described moves on meanwhile:
 * partitions are looked at one after another.
 *
 *   leat_group_info *g = leat_group_describe(c, "orders", "billing", NULL,
 *                                            &err);
 *   if (g && g->lag > 1000)
 *       ...
 *   leat_group_info_free(g);
 *
 * A result is one object of the caller's, and everything in it dies with it.
 * Threads: the calls are shared, a leat_browse is confined.
 */
#ifndef LEAT_DESCRIBE_H
#define LEAT_DESCRIBE_H

#include <leat/message.h>
#include <leat/redis.h>
#include <leat/source.h>
#include <leat/topic.h>

LEAT_BEGIN

/* ---- names ------------------------------------------------------------ */

/* Sorted. */
typedef struct leat_names {
    size_t count;
    const char *const *name;
} leat_names;

/* The registered topics; bare streams are not among them.  prefix NULL is
 * "leat", here and below. */
LEAT_API leat_names *leat_topic_names(leat_client *c, const char *prefix,
                                      leat_error *err);

/* The groups of a topic; none for a topic that does not exist. */
LEAT_API leat_names *leat_group_names(leat_client *c, const char *topic,
                                      const char *prefix, leat_error *err);

LEAT_API void leat_names_free(leat_names *n);

/* ---- topics ----------------------------------------------------------- */

typedef struct leat_partition_info {
    uint32_t partition;
    int64_t entries;     /* in the log now                                 */
    int64_t added;       /* ever; -1: not known, before Redis 7            */
    leat_position first; /* the oldest and the newest entry in the log;    */
    leat_position last;  /* zero where there is none                       */
    int64_t bytes;       /* of memory, with large bodies, as the server    */
                         /* estimates it by samples; -1: not known         */
    double rate;         /* messages a second that come in, by the ids of  */
                         /* the newest ten; -1: not known                  */
    int64_t dead;        /* dead letters, of all groups                    */
    int64_t delayed;     /* messages that wait for their time              */
} leat_partition_info;

typedef struct leat_topic_info {
    const char *name;
    uint32_t partitions;
    leat_partitioner partitioner;
    const char *partitioner_name;
    bool legacy;        /* a bare stream                                   */
    int64_t created_ms; /* since 1970; 0: not known                        */
    int64_t updated_ms;
    int64_t entries; /* of all partitions                               */
    int64_t groups;
    const leat_partition_info *partition; /* `partitions` of them          */
    leat_retention retention;
    int64_t bytes; /* these are of all partitions;  */
    double rate;   /* -1: one is not known          */
    int64_t dead;
    int64_t delayed;
    leat_position first; /* the oldest and the newest entry of all; zero  */
    leat_position last;  /* where there is none                           */
    const char *id; /* its incarnation; "": an earlier version made it, or */
                    /* it is a bare stream                                 */
    bool removing;  /* a removal is under way, or was cut off              */
} leat_topic_info;

/* LEAT_ENOENT: no such topic, nor a stream of that name. */
LEAT_API leat_topic_info *leat_topic_describe(leat_client *c, const char *name,
                                              const char *prefix,
                                              leat_error *err);
LEAT_API void leat_topic_info_free(leat_topic_info *t);

/* A partitioner by the name that leat_topic_info gives; false: none. */
LEAT_API bool leat_partitioner_find(const char *name, leat_partitioner *out);

/* ---- groups ----------------------------------------------------------- */

/* A group's state on one partition.  Before it was read for the first time the
 * cursor is zero. */
typedef struct leat_group_partition {
    uint32_t partition;
    bool begun;           /* has a cursor                                   */
    leat_position cursor; /* everything up to and including it is settled   */
    leat_position mark;   /* handed out at least once up to here            */
    leat_position last;   /* the newest entry in the log; zero: none        */
    int64_t settled;      /* behind the cursor; -1: too many to count       */
    int64_t lag;          /* entries of the log not settled, without those  */
                          /* put by; -1: too many to count                  */
    const char *owner;    /* the name of the member that holds it; NULL:    */
                          /* nobody, or one whose record is gone            */
    const char *nonce;    /* of the owner; NULL: nobody                     */
    uint64_t epoch;       /* of the lease, kept when it is given up         */
    int64_t in_flight;    /* handed out and not settled, without those put  */
                          /* by; -1: too many to count                      */
    int64_t retries;      /* put by, and waiting for their time; of these   */
    int64_t due;          /* so many could be handed out now                */
    int64_t lanes;        /* keys, or the whole partition, that wait behind */
    int64_t parked;       /* one of these, with so many messages            */
    int64_t beat_age_ms;  /* since the owner's last heartbeat; -1: not      */
                          /* known                                          */
    const char *reason;   /* of the last change of owner: "start", "handed" */
                          /* "dead", "superseded", "again" (its own lease   */
                          /* anew), "seek"; NULL: not known                 */
    int64_t changed_ms;   /* when that was, since 1970; 0: not known        */
    int64_t detached_ms;  /* since when what it has not settled is not kept */
                          /* for it, since 1970; 0: it is                   */
} leat_group_partition;

/* A member that has a record.  It lives if its last heartbeat is younger than
 * its lease by the server's clock; what counts is what the others see, who
 * watch the record on their own clocks. */
typedef struct leat_group_member {
    const char *nonce;
    const char *name;    /* "" where the record cannot be read            */
    int64_t born_ms;     /* since 1970, by its own clock; 0: not known    */
    uint32_t partitions; /* whose lease names it                          */
    bool leaving;
    bool readable; /* false: the record of a newer version          */
    bool alive;
    int64_t beat_age_ms; /* since its last heartbeat; -1: not known       */
} leat_group_member;

typedef struct leat_group_info {
    const char *topic;
    const char *group;
    uint32_t partitions;
    uint32_t owned; /* partitions with an owner                            */
    int64_t lag;    /* of all partitions; -1: one of them is not known     */
    uint32_t members;
    const leat_group_partition *partition;
    const leat_group_member *member; /* by name                             */
    uint32_t alive;                  /* of the members                      */
    uint32_t detached;               /* partitions that are                 */
    int64_t paused_ms;               /* since when, since 1970; 0: it runs  */
    int64_t in_flight;               /* these are of all partitions; -1:    */
    int64_t retries;                 /* one is not known                    */
    int64_t due;
    int64_t lanes;
    int64_t parked;
    const char *id; /* its incarnation; "": an earlier version made it      */
    leat_group_settings settings; /* unset: no member of this version has   */
                                  /* come                                   */
} leat_group_info;

/* LEAT_ENOENT: no such topic, or no such group of it. */
LEAT_API leat_group_info *leat_group_describe(leat_client *c, const char *topic,
                                              const char *group,
                                              const char *prefix,
                                              leat_error *err);
LEAT_API void leat_group_info_free(leat_group_info *g);

/* ---- plain streams ---------------------------------------------------- */

typedef struct leat_stream_names_opts {
    const char *prefix;
    const char
        *match; /* a pattern of the server's, as KEYS has it; NULL: any */
    bool all; /* also what leat keeps itself: names of prefix and ":"        */
} leat_stream_names_opts;

/* The streams among the server's keys, or of all masters of a cluster.  The
 * server walks its keys, a small step at a time: with many millions of them
 * that takes a while.  Names that leat_stream_open does not take, with zero
 * bytes or too long, are left out and told to the client's log. */
LEAT_API leat_names *leat_stream_names(leat_client *c,
                                       const leat_stream_names_opts *opts,
                                       leat_error *err);

/* A group of the server, as leat_stream_source and others make them. */
typedef struct leat_stream_group {
    leat_bytes name;    /* any bytes; a zero follows                        */
    int64_t consumers;  /* that have a name there, alive or not             */
    int64_t pending;    /* entries handed out and not acknowledged          */
    int64_t lag;        /* entries not handed out yet; -1: not known, before */
                        /* Redis 7 or after some in between were deleted    */
    leat_position last; /* the newest handed out; zero: none                */
} leat_stream_group;

typedef struct leat_stream_info {
    const char *name;
    int64_t entries;     /* in it now                                       */
    int64_t added;       /* ever; -1: not known, before Redis 7             */
    leat_position first; /* the oldest and the newest; zero where there is  */
    leat_position last;  /* none                                            */
    int64_t bytes;       /* of memory, as the server estimates it; -1: not  */
                         /* known                                           */
    size_t groups;
    const leat_stream_group *group;
} leat_stream_info;

/* LEAT_ENOENT: no such key; LEAT_EINVAL: it is no stream. */
LEAT_API leat_stream_info *
leat_stream_describe(leat_client *c, const char *name, leat_error *err);
LEAT_API void leat_stream_info_free(leat_stream_info *s);

/* ---- looking at messages ---------------------------------------------- */

/* Reads a topic without a group: nothing is taken from anybody. */
typedef struct leat_browse leat_browse;

typedef struct leat_browse_opts {
    const char *prefix;
    const char *from; /* "start", "end", an id "MS-SEQ" or "@MS" since */
                      /* 1970, that or later; NULL: "start"            */
    int last;         /* instead of from: so many of the newest        */
    bool one;         /* only `partition`                              */
    uint32_t partition;
    bool follow;             /* go on with what comes; otherwise the end is   */
                             /* where the log ended at the open               */
    const leat_codec *codec; /* NULL: native, else CloudEvents                */
} leat_browse_opts;

LEAT_API leat_browse *leat_browse_open(leat_client *c, const char *topic,
                                       const leat_browse_opts *opts,
                                       leat_error *err);
LEAT_API void leat_browse_close(leat_browse *b); /* NULL is accepted */

/* The same of a plain stream, whatever topics there are.  LEAT_ENOENT: no such
 * key; LEAT_EINVAL: it is no stream. */
LEAT_API leat_browse *leat_stream_browse(leat_client *c, const char *name,
                                         const leat_browse_opts *opts,
                                         leat_error *err);

typedef struct leat_seen {
    uint32_t partition;
    leat_position position;
    const leat_msg *msg;
    const leat_error *error; /* why it could not be decoded: msg then has the */
                             /* raw fields as headers; NULL for a good one    */
} leat_seen;

/* The next message, in the order of ids as far as the partitions' logs were
 * read together.  1: *out is filled, until the next call; 0: the end, or with
 * follow nothing came within wait_ms; -1: a failure, after which it may be
 * called again. */
LEAT_API int leat_browse_next(leat_browse *b, leat_seen *out, int64_t wait_ms,
                              leat_error *err);

LEAT_END
#endif
