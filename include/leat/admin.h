/*
 * admin.h: setting groups, topics and streams right.
 *
 *   leat_seek *s;
 *   leat_group_seek(c, "orders", "billing", "@1767225600000",
 *                   &(leat_seek_opts){ .dry_run = true }, &s, &err);
 *
 * All of it may be repeated: what was cut short, or whose answer was lost, is
 * called again and does what is left.  What would take something away from
 * members that live is refused with LEAT_EBUSY unless it is forced; then they
 * are fenced: what they still have in hand is stale.  A member lives if its
 * last heartbeat is younger than its lease by the server's clock, see
 * describe.h.  Producers are not known to the server: stop them first.
 *
 * prefix NULL is "leat" everywhere.
 * Threads: shared.
 */
#ifndef LEAT_ADMIN_H
#define LEAT_ADMIN_H

#include <leat/describe.h>

LEAT_BEGIN

/* ---- where a group reads ---------------------------------------------- */

typedef struct leat_seek_opts {
    const char *prefix;
    bool one; /* only `partition` */
    uint32_t partition;
    bool dry_run; /* tell what would be, change nothing                     */
    bool force;   /* also while members live: they go on from there         */
    bool drop;    /* forget what is put by for a retry or parked behind it; */
                  /* without: it stays, and comes as well                   */
} leat_seek_opts;

typedef struct leat_seek_partition {
    uint32_t partition;
    leat_position from, to; /* the cursor: all up to it, and including it,  */
                            /* counts as settled; zero: nothing does        */
    int64_t skipped;        /* not settled, and not to be handed out any    */
                            /* more; -1: too many to count                  */
    int64_t again;          /* settled, and to be handed out again; -1:     */
                            /* likewise                                     */
    int64_t kept;           /* put by or parked: these stay, or are dropped */
    bool done;              /* false: a dry run, or it failed before        */
} leat_seek_partition;

typedef struct leat_seek {
    const char *topic, *group;
    uint32_t partitions, done; /* that were to be set; and that were      */
    int64_t skipped, again;    /* of all of them; -1: one is not known    */
    int64_t kept;
    const leat_seek_partition *partition;
} leat_seek;

/* Set where a group reads on: "start", "end", "@MS" since 1970, or an id
 * "MS-SEQ": that message comes next, or the first one after it.  A time before
 * the first message is the start, one after the last the end, one that has not
 * come yet is refused; so is an id that is before the first message of every
 * partition, or behind the last of each (LEAT_EINVAL).
 *
 * Each partition is set at once, one after another.  *out, unless out is NULL,
 * tells what was done, also after a failure midway: the same call does the
 * rest.  It is NULL where nothing could be begun. */
LEAT_API leat_code leat_group_seek(leat_client *c, const char *topic,
                                   const char *group, const char *to,
                                   const leat_seek_opts *opts, leat_seek **out,
                                   leat_error *err);
LEAT_API void leat_seek_free(leat_seek *s); /* NULL is accepted */

/* ---- pausing ---------------------------------------------------------- */

/* Members of a paused group hand out nothing, from their next heartbeat on,
 * which is asked for at once.  What is in hand is finished and settled.  It
 * stays paused, whoever comes and goes, until it is resumed. */
LEAT_API leat_code leat_group_pause(leat_client *c, const char *topic,
                                    const char *group, const char *prefix,
                                    leat_error *err);
LEAT_API leat_code leat_group_resume(leat_client *c, const char *topic,
                                     const char *group, const char *prefix,
                                     leat_error *err);

/* ---- settings --------------------------------------------------------- */

typedef struct leat_alter_opts {
    const char *prefix;
    const char *id; /* only the group with this incarnation, as             */
                    /* leat_remove_opts says; NULL: whichever is there      */
} leat_alter_opts;

/* Change what the members of a group share.  What is unset, zero, stays as it
 * is: of two changes at once neither undoes the other.  A group that has no
 * settings yet gets the defaults.  Members that live learn of it with their
 * next beat.  Until a shorter lease is known to all, nobody is judged by it; an
 * order holds for a partition from when nothing of it is out or waits for a
 * retry.
 * LEAT_EINVAL: delay_ms would be above max_delay_ms, or one is out of its
 * range; LEAT_ENOENT: no such topic or group; LEAT_ESTALE: another of that
 * name.  Nothing was changed then. */
LEAT_API leat_code leat_group_alter(leat_client *c, const char *topic,
                                    const char *group,
                                    const leat_group_settings *s,
                                    const leat_alter_opts *opts,
                                    leat_error *err);

/* ---- removing --------------------------------------------------------- */

typedef struct leat_remove_opts {
    const char *prefix;
    bool force;     /* also while members live: those that go on make a group */
                    /* of that name anew, so stop them                        */
    bool dead;      /* of a group: its dead letters go, too                   */
    bool dry_run;   /* say only whether it would be refused                   */
    const char *id; /* only the one with this incarnation, as describe tells */
                    /* it: whoever tries again after LEAT_EUNKNOWN does not   */
                    /* remove one of that name that was made meanwhile, which */
                    /* is LEAT_ESTALE; NULL: whichever is there               */
} leat_remove_opts;

/* Remove a group and all that is known of it; its dead letters stay unless
 * asked for. */
LEAT_API leat_code leat_group_remove(leat_client *c, const char *topic,
                                     const char *group,
                                     const leat_remove_opts *opts,
                                     leat_error *err);

/* leat_topic_remove, which forces nothing, with options. */
LEAT_API leat_code leat_topic_remove_with(leat_client *c, const char *topic,
                                          const leat_remove_opts *opts,
                                          leat_error *err);

/* Remove a plain stream with its messages and the server's groups, whoever
 * reads it.  LEAT_ENOENT: no such key; LEAT_EINVAL: it is no stream, or a part
 * of a topic, named by the prefix and ":".  It stays then. */
LEAT_API leat_code leat_stream_remove(leat_client *c, const char *name,
                                      const char *prefix, leat_error *err);

/* ---- what is not settled ---------------------------------------------- */

typedef enum leat_pending_state {
    LEAT_PENDING_OUT = 0, /* handed out, or was to somebody who died        */
    LEAT_PENDING_RETRY,   /* put by until it is due                         */
    LEAT_PENDING_PARKED   /* behind one that is, of the same key            */
} leat_pending_state;

typedef enum leat_pending_sort {
    LEAT_PENDING_BY_AGE = 0,  /* the oldest message first                   */
    LEAT_PENDING_BY_ATTEMPTS, /* the most attempts first, then by age       */
    LEAT_PENDING_BY_POSITION  /* by partition, then by position             */
} leat_pending_sort;

typedef struct leat_pending {
    uint32_t partition;
    leat_position position;
    leat_pending_state state;
    int64_t age_ms;     /* since it came into the log                       */
    uint32_t attempts;  /* times it was handed out                          */
    uint32_t failures;  /* of these, so many ended with a failure told      */
    int64_t due_ms;     /* RETRY: since 1970; may have passed; else 0       */
    const char *error;  /* the last one told; NULL: none                    */
    const char *lane;   /* behind which others wait, or it waits; NULL: none*/
    const char *origin; /* of a dead letter that was replayed:              */
                        /* "<partition>:<id>"; else NULL                    */
} leat_pending;

typedef struct leat_pending_opts {
    const char *prefix;
    bool one; /* only `partition` */
    uint32_t partition;
    leat_pending_sort sort;
    int limit;         /* 0: 100; at most 10000                             */
    const char *after; /* `next` of the page before; NULL: from the first   */
} leat_pending_opts;

typedef struct leat_pending_page {
    size_t count;
    const leat_pending *item;
    int64_t total;    /* of all pages, as it was just now                   */
    bool whole;       /* false: there are more than were looked at, 100000  */
    const char *next; /* for the next page; NULL: this is the last          */
} leat_pending_page;

/* What of a group is handed out, put by or parked, over all partitions.  A page
 * is a look of its own: what is settled between two is in neither or one. */
LEAT_API leat_pending_page *leat_pending_list(leat_client *c, const char *topic,
                                              const char *group,
                                              const leat_pending_opts *opts,
                                              leat_error *err);
LEAT_API void leat_pending_free(leat_pending_page *p); /* NULL is accepted */

/* "out", "retry" or "parked". */
LEAT_API const char *leat_pending_state_name(leat_pending_state s);

LEAT_END
#endif
