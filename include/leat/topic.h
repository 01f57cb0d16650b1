/*
 * topic.h: partitioned topics, read by groups.
 *
 * A topic is a number of partitions, each a stream of the server.  Messages of
 * one key go to one partition and keep their order.  A group reads the whole
 * topic; its members share the partitions between them, each partition with one
 * owner at a time, by leases that name an epoch.  What a member that died had
 * not settled is handed out again by its successor: at least once.
 *
 *   leat_topic *t = leat_topic_open(client, "orders",
 *       &(leat_topic_opts){ .auto_create = true, .partitions = 4 }, &e);
 *   leat_topic_publish(t, &(leat_msg){ .key = K, .body = B }, NULL, NULL, &e);
 *   leat_topic_flush(t, 5000, &e);
 *
 *   run = leat_run_start(leat_topic_source(t, "billing", NULL, &e), bill, db,
 *                        NULL, &e);
 *
 * Threads: leat_topic is shared.
 */
#ifndef LEAT_TOPIC_H
#define LEAT_TOPIC_H

#include <leat/log.h>
#include <leat/message.h>
#include <leat/metrics.h>
#include <leat/redis.h>
#include <leat/source.h>

LEAT_BEGIN

enum { LEAT_PARTITIONS_MAX = 16384 };

typedef struct leat_topic leat_topic;

/* Which partition a message goes to.  The choice is the topic's, kept with it
 * when it is made, so that all its producers agree.  Messages without a key go
 * to the partitions in turn, unless the choice is random or the program's
 * own. */
typedef enum leat_partitioner {
    LEAT_PARTITION_MURMUR2 = 0, /* as Kafka's clients do                   */
    LEAT_PARTITION_JAVA,        /* String.hashCode, as redis-streaming     */
    LEAT_PARTITION_RING,        /* consistent hashing, 128 points each     */
    LEAT_PARTITION_ROUND_ROBIN, /* in turn, also with a key                */
    LEAT_PARTITION_RANDOM,
    LEAT_PARTITION_OWN /* leat_topic_opts.partition_fn                     */
} leat_partitioner;

/* Below `partitions`; a larger answer is refused as LEAT_EINVAL.  Asked for
 * each message, on the publishing thread and without a lock: it may use the
 * topic, and is asked again for what it publishes; it must not close it. */
typedef uint32_t leat_partition_fn(void *arg, const leat_msg *m,
                                   uint32_t partitions);

/* What becomes of a group that has members no more but bounds what may be
 * trimmed. */
typedef enum leat_abandoned {
    LEAT_ABANDONED_PIN = 0, /* its messages stay                            */
    LEAT_ABANDONED_ALARM,   /* they stay, and it is logged and counted      */
    LEAT_ABANDONED_DETACH   /* they go; when it comes back it is told       */
} leat_abandoned;

/* When a message may go, beside its age and number. */
typedef enum leat_forget {
    LEAT_FORGET_NEVER = 0, /* by age and number only                        */
    LEAT_FORGET_ALL,       /* as soon as every group has settled it         */
    LEAT_FORGET_FIRST      /* as soon as any group has                      */
} leat_forget;

/* What is kept of a topic's logs; zero: everything.  Nothing is taken away that
 * some group has not settled, but by lossy_maxlen, by LEAT_FORGET_FIRST, and
 * from a group that is detached.  See docs/retention.md. */
typedef struct leat_retention {
    int64_t max_age_ms;   /* older ones may go                              */
    int64_t max_entries;  /* of a partition; more may go, the oldest first  */
    int64_t cap;          /* of a partition; then publishing is LEAT_EFULL  */
    int64_t lossy_maxlen; /* of a partition; more go, settled or not        */
    leat_forget forget;
    leat_abandoned abandoned;
    int64_t abandoned_ms; /* without a member for so long; 0: 7 days        */
    int64_t large_body;   /* longer ones are kept beside the log; 0: 64 KiB,*/
                          /* -1: none are                                   */
} leat_retention;

/* Their names, "never", "pin" and so on; NULL, and false, where there is no
 * such. */
LEAT_API const char *leat_forget_name(leat_forget f);
LEAT_API const char *leat_abandoned_name(leat_abandoned a);
LEAT_API bool leat_forget_find(const char *name, leat_forget *out);
LEAT_API bool leat_abandoned_find(const char *name, leat_abandoned *out);

/* How a new topic is made. */
typedef struct leat_topic_spec {
    int partitions; /* 0: 1 */
    leat_partitioner partitioner;
    const char *prefix; /* of its keys; NULL: "leat" */
    leat_retention retention;
} leat_topic_spec;

/* LEAT_EEXIST when there is one; LEAT_EBUSY: one of that name is being removed,
 * or that was cut off: remove it to the end; LEAT_EINVAL for a name that cannot
 * be. */
LEAT_API leat_code leat_topic_create(leat_client *c, const char *name,
                                     const leat_topic_spec *spec,
                                     leat_error *err);

/* Change what is kept of a topic.  Who has it open learns of it within seconds.
 * LEAT_EINVAL for what contradicts itself; LEAT_ENOENT: no such topic;
 * LEAT_ESTALE: it was removed meanwhile, and one made since is as it was. */
LEAT_API leat_code leat_topic_alter(leat_client *c, const char *name,
                                    const char *prefix, const leat_retention *r,
                                    leat_error *err);

/* Trim it now; without a bound by its retention. */
typedef struct leat_trim_opts {
    const char *prefix;
    int64_t max_entries; /* of a partition that stay; 0: any number; -1:    */
                         /* none                                            */
    int64_t max_age_ms;  /* older ones go; 0: of any age                    */
    bool force;          /* also what groups have not settled               */
    bool dry_run;        /* nothing goes, it is only counted                */
} leat_trim_opts;

typedef struct leat_trimmed {
    uint64_t removed; /* entries that went, or would                        */
    uint64_t left;    /* that are there then                                */
    uint64_t held;    /* of these, only because groups have not settled them*/
    char holder[LEAT_NAME_MAX + 1]; /* the group that holds most back; ""   */
    uint64_t holder_held;           /* how many it does                     */
} leat_trimmed;

/* *out, which may be NULL, is filled as far as it came also after a failure.
 * LEAT_ENOENT: no such topic; LEAT_EINVAL: nothing says what is to go.  Of a
 * bare stream the server's own consumer groups hold back, too. */
LEAT_API leat_code leat_topic_trim(leat_client *c, const char *name,
                                   const leat_trim_opts *opts,
                                   leat_trimmed *out, leat_error *err);

/* Messages that had been acknowledged and are not in the log any more.  Either
 * nobody took them away: the server crashed before they were on disk, a replica
 * without them took over, or all was deleted.  Or they were trimmed: see the
 * last member.  Owned by who tells it. */
typedef struct leat_loss {
    const char *topic;
    const char *group; /* whose member found it; NULL: the producer        */
    uint32_t partition;
    leat_position from, to; /* the first and the last that is missing; for a
                               group: it had read more than is there, all
                               between                                     */
    uint64_t count;         /* how many; 0: not known                      */
    bool exact; /* false: at least so many, more than is remembered may be */
                /* gone                                                    */
    uint64_t republished; /* of these, published again by republish_bytes  */
    bool trimmed; /* they were taken away before the group had read them:   */
                  /* by lossy_maxlen, while the group was detached, or by   */
                  /* hand; somewhere between from and to                    */
} leat_loss;

/* Runs on a thread of the topic's or the source's, or inside its calls and
 * close.  It may publish, and look at statistics; it must not receive, extend,
 * flush or close, nor wait for anybody who does. */
typedef void leat_loss_fn(void *arg, const leat_loss *loss);

typedef struct leat_topic_opts {
    const char *prefix; /* of its keys; NULL: "leat"                       */
    bool auto_create;   /* make it with what follows if there is none      */
    int partitions;     /* 0: 1                                            */
    leat_partitioner partitioner;
    leat_partition_fn *partition_fn; /* for LEAT_PARTITION_OWN             */
    void *partition_arg;
    leat_retention retention; /* of one that is made                       */
    const leat_codec *codec;  /* NULL: native                               */

    /* Publishing.  What was accepted is bounded by count and bytes; a
     * publish beyond that waits for room, or fails with LEAT_EFULL. */
    int window;              /* sent and unconfirmed; 0: 1024; at most the */
                             /* client's; on a cluster of each partition   */
    int64_t linger_ms;       /* wait for more before sending; 0: do not    */
    int max_queued;          /* messages without outcome; 0: 65536         */
    size_t max_queued_bytes; /* 0: 64 MiB                                  */
    bool no_wait;            /* LEAT_EFULL at once                         */
    int64_t max_wait_ms;     /* for room; 0: 30 s, then LEAT_EFULL         */
    size_t max_message;      /* bytes of an encoded message; 0: 1 MiB      */
    int64_t timeout_ms;      /* to be sent, while the server is away;      */
                             /* 0: 30 s, then LEAT_ETIMEOUT               */
    int replicas;            /* WAIT for so many, if that is more than the */
                             /* client's; fewer is LEAT_EUNKNOWN           */
    int64_t replicas_ms;     /* how long, likewise; 0: 1 s                 */
    bool partition_header;   /* add the header partitionId                 */

    leat_logger log;       /* NULL fn: the client's                        */
    leat_metrics *metrics; /* borrowed; NULL: the client's                 */

    /* What was acknowledged is compared with the log after every reconnect,
     * and now and then; see docs/losses.md. */
    leat_loss_fn *on_loss; /* called for each loss; NULL: only logged       */
    void *loss_arg;
    int remember;           /* messages of a partition, to find losses; 0:   */
                            /* up to 16384; -1: none, losses go unnoticed    */
    size_t republish_bytes; /* hold so many bytes of acknowledged messages,  */
                            /* and publish lost ones again; 0: none, with    */
                            /* LEAT_OUTBOX 16 MiB                            */
} leat_topic_opts;

/* Open a topic for publishing, reading, or both.  LEAT_ENOENT when there is
 * none and auto_create is not set; a stream of that very name is opened as a
 * topic of one partition (legacy), whose entries other programs may write. */
LEAT_API leat_topic *leat_topic_open(leat_client *c, const char *name,
                                     const leat_topic_opts *opts,
                                     leat_error *err);

/* Wait for what is unconfirmed, 5 s at most, and close.  What has no outcome by
 * then gets one: LEAT_ECLOSED where it certainly did not leave, LEAT_EUNKNOWN
 * otherwise.  Sources opened from it must be closed first.  NULL is
 * accepted. */
LEAT_API void leat_topic_close(leat_topic *t);

LEAT_API const char *leat_topic_name(const leat_topic *t);
LEAT_API uint32_t leat_topic_partitions(const leat_topic *t);
LEAT_API bool leat_topic_legacy(const leat_topic *t);

/* The partition the message would go to; one without a key: any. */
LEAT_API leat_code leat_topic_partition_of(leat_topic *t, const leat_msg *m,
                                           uint32_t *partition,
                                           leat_error *err);

/* Remove the topic and all that is known of it, messages and groups. */
LEAT_API leat_code leat_topic_remove(leat_client *c, const char *name,
                                     const char *prefix, leat_error *err);

/* ---- publishing ------------------------------------------------------- */

/* Hand over one message; it is copied.  fn, which may be NULL, runs exactly
 * once, on a thread of the topic's or inside flush and close: persisted with
 * its position, failed, or LEAT_EUNKNOWN.  A failure here means that it was not
 * accepted, and fn does not run.
 *
 * Every few seconds it is looked whether the topic is still the one that was
 * opened; what is sent before goes to who has the name.  Another one with the
 * same partitions is published to from then on, and that is logged; for one
 * with others this is LEAT_ESTALE, open it again; for one that is gone
 * LEAT_ENOENT, until there is one, but with auto_create it is made again. */
LEAT_API leat_code leat_topic_publish(leat_topic *t, const leat_msg *m,
                                      leat_published_fn *fn, void *arg,
                                      leat_error *err);

/* n at once, all or none accepted; fn runs for each. */
LEAT_API leat_code leat_topic_publish_batch(leat_topic *t, const leat_msg *m,
                                            size_t n, leat_published_fn *fn,
                                            void *arg, leat_error *err);

/* To this partition, whatever its key. */
LEAT_API leat_code leat_topic_publish_to(leat_topic *t, uint32_t partition,
                                         const leat_msg *m,
                                         leat_published_fn *fn, void *arg,
                                         leat_error *err);

/* To be in the log, for every group, delay_ms from now by the server's clock;
 * until then it waits beside it.  The position that fn is told is zero: it has
 * none yet.  Delayed messages keep no order among each other. */
LEAT_API leat_code leat_topic_publish_later(leat_topic *t, const leat_msg *m,
                                            int64_t delay_ms,
                                            leat_published_fn *fn, void *arg,
                                            leat_error *err);

/* Wait until every message accepted so far has its outcome.  LEAT_ETIMEOUT when
 * some have none; otherwise the first failure among those without fn since the
 * last flush. */
LEAT_API leat_code leat_topic_flush(leat_topic *t, int64_t timeout_ms,
                                    leat_error *err);

/* The topic as a sink; closing that leaves the topic open. */
LEAT_API leat_sink *leat_topic_sink(leat_topic *t, leat_error *err);

/* ---- reading ---------------------------------------------------------- */

/* What the members of a group share is left unset, zero, or asked for.  Unset
 * is as the group has it; of a group that is new, the default. */

/* What must not overtake what. */
typedef enum leat_order {
    LEAT_ORDER_UNSET = 0, /* of a new group: LEAT_ORDER_PARTITION          */
    LEAT_ORDER_PARTITION, /* one line a partition                          */
    LEAT_ORDER_KEY,       /* one line a key, others flow                   */
    LEAT_ORDER_NONE       /* every message for itself                      */
} leat_order;

/* A message that failed, as policies see it. */
typedef struct leat_failure {
    const char *topic, *group;
    uint32_t partition;
    leat_position position;
    const leat_msg *msg;
    uint32_t attempts;  /* times it was handed out                          */
    const char *reason; /* of the last failure; "" where none was given     */
    bool rejected;      /* by the handler; false: it failed                 */
    bool died;          /* whoever had it died, again and again             */
} leat_failure;

/* Milliseconds until the next try; negative: a dead letter at once.  Runs on a
 * thread of the source's or inside its calls, as a leat_loss_fn does. */
typedef int64_t leat_retry_fn(void *arg, const leat_failure *f);

/* Names and values to be kept with a dead letter; a field "error" replaces the
 * error that is shown.  As above. */
typedef void leat_dead_fn(void *arg, const leat_failure *f, leat_fields *extra);

/* What becomes of a message that failed.  A header "maxRetries" of a message
 * goes before max_attempts: so many tries after the first. */
typedef struct leat_retry {
    int max_attempts; /* times handed out, then it is a dead letter; unset: */
                      /* 5; -1: no limit                                    */
    leat_backoff_kind backoff;
    int64_t delay_ms;     /* the first; unset: 1 s                          */
    int64_t max_delay_ms; /* the longest; unset: 60 s                       */
    leat_choice jitter;   /* any time up to the delay; unset: LEAT_YES      */
    leat_retry_fn *fn;    /* decides instead; NULL: as above                */
    void *arg;
    leat_choice re_add; /* as a new message at the end of the log, for this */
                        /* group alone, with the headers retryCount,        */
                        /* originalMessageId and retryGroup; instead of the */
                        /* same one again; unset: LEAT_NO                   */
} leat_retry;

/* What the members of a group share.  The first member's options make it, and
 * leat_group_alter changes it, also while members live; a member that asks for
 * something else is refused. */
typedef struct leat_group_settings {
    int64_t lease_ms;
    leat_order order;
    int max_attempts; /* these as in leat_retry */
    leat_backoff_kind backoff;
    int64_t delay_ms;
    int64_t max_delay_ms;
    leat_choice jitter;
    leat_choice re_add;
} leat_group_settings;

/* Labels of a source's metrics beside topic and group: docs/metrics.md. */
enum {
    LEAT_LABEL_PARTITION = 1, /* of counters and what is sampled             */
    LEAT_LABEL_CONSUMER = 2   /* the member's name                           */
};

/* What happened to a partition of this member.  Runs on a thread of the
 * source's or inside its calls, as a leat_loss_fn does. */
typedef enum leat_assign {
    LEAT_ASSIGNED = 0, /* ours from now on                                 */
    LEAT_REVOKED,      /* handed over, with nothing of it in flight        */
    LEAT_LOST          /* another's already: what is in flight is stale    */
} leat_assign;

typedef void leat_assign_fn(void *arg, leat_assign what, uint32_t partition,
                            uint64_t epoch);

typedef struct leat_topic_source_opts {
    const char *name;  /* stays over restarts and takes the place of its   */
                       /* earlier life at once; NULL: host-pid-nonce       */
    const char *start; /* of a new group: "start", "end", an id "MS-SEQ",  */
                       /* or "@MS" since 1970; NULL: "start"               */
    leat_order order;
    int batch;          /* messages asked for at once, of a backlog up to   */
                        /* four times as many; 0: 100                       */
    int max_in_flight;  /* read and unsettled; 0: 1000                      */
    int max_partitions; /* owned at most; 0: no limit                       */
    int64_t lease_ms;   /* silent for so long, a member is dead; unset: 15 s*/
    int64_t block_ms;   /* the longest wait inside the server; 0: 1 s       */
    int64_t drain_ms;   /* given to handlers when a partition is to be      */
                        /* handed over, then it is taken; 0: 30 s           */
    leat_retry retry;
    leat_dead_fn *dead_fn; /* NULL: none                                    */
    void *dead_arg;
    leat_assign_fn *on_assign;
    void *assign_arg;
    leat_logger log;       /* NULL fn: the topic's                           */
    leat_metrics *metrics; /* NULL: the topic's                              */
    leat_loss_fn *on_loss; /* the log has less than the group had read       */
    void *loss_arg;
    unsigned metric_labels; /* LEAT_LABEL_...; 0: none                       */
    int64_t idle_poll_ms;   /* a member of more than 64 partitions looks at   */
                            /* them 64 at a time, every 10 ms, on a cluster   */
                            /* 50; while nothing comes less and less often,   */
                            /* down to this; 0: always that often             */
} leat_topic_source_opts;

/* Join a group as one member.  The group is made by its first, whose lease_ms,
 * order and retry become the group's (but for retry.fn, which is a member's
 * own).  What later members leave unset is the group's; LEAT_EINVAL where they
 * ask for anything else: leat_group_alter changes it for all.  The topic
 * must stay open as long as the source.  Deliveries carry the lease's epoch as
 * fence.  Close it to leave: what is unsettled is released, and others take
 * over at once. */
LEAT_API leat_source *leat_topic_source(leat_topic *t, const char *group,
                                        const leat_topic_source_opts *opts,
                                        leat_error *err);

/* What a member holds, for statistics. */
typedef struct leat_topic_source_stats {
    uint32_t partitions;  /* owned                                         */
    uint32_t members;     /* alive, this one included, as far as is known  */
    uint64_t received;    /* handed out                                    */
    uint64_t redelivered; /* of these, not for the first time              */
    uint64_t settled;     /* taken by the server                           */
    uint64_t rejected;    /* of these, rejected                            */
    uint64_t retries;     /* put by for another try                        */
    uint64_t dead;        /* made dead letters                             */
    uint64_t waiting;     /* put by and not settled yet, as far as is known*/
    uint64_t stale;       /* settlements refused: no longer ours           */
    uint64_t undecodable; /* entries that are no message                   */
    uint64_t rebalances;  /* partitions gained, given up or lost           */
    uint64_t in_flight;   /* read and unsettled                            */
} leat_topic_source_stats;

LEAT_API void leat_topic_source_stats_get(leat_source *s,
                                          leat_topic_source_stats *out);

LEAT_END
#endif
