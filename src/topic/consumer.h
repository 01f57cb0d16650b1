/*
 * consumer.h: the parts of a topic's source, one member of a group.
 *
 *   source.c   opening and closing, the table of a leat_source
 *   drive.c    who drives: the thread in a call, or the background thread
 *   heard.c    what a beat says of the group, and a look of the topic: another
 *              incarnation, settings
 *   member.c   carries out what the group's state machine decides
 *   read.c     reads the logs of owned partitions into their windows
 *   verify.c   finds out whether a log is the one that was read from
 *   again.c    failed messages that are published again instead
 *   bodies.c   gets the bodies that are kept beside a log, a few ahead
 *   wait.c     waits for entries, where each partition needs its own connection
 *   deliver.c  hands out what the windows give, takes back what is settled
 *   settle.c   what becomes of a message that was handed out
 *   park.c     lanes that stand still behind a message that failed
 *   kept.c     messages that wait beside the log, and their next turn
 *   save.c     tells the server, fenced, what was handed out and settled
 *   prove.c    waits for replicas or the disk where the durability asks for it
 *   sample.c   how long, how old and how far behind, for the metrics
 *   tend.c     trims the logs of owned partitions
 *   gap.c      finds what was trimmed unread
 *   meter.c    metrics
 *
 * A crash leaves the cursor as it was last saved, a lease in our name and a
 * record that no longer beats.  Another member that saw no beat for the lease
 * takes over with a higher epoch and hands out again what is behind the
 * cursor and not settled.
 *
 * Two connections: `cmd` for scripts and reads that find something at once,
 * `blk` for the read that waits for partitions with nothing to read.  On a
 * cluster `cmd` leads to all nodes, what fails for one partition is tried again
 * for that one only, and instead of `blk` there are the connections of wait.c.
 * One thread at a time, the driver, uses them and everything below that is not
 * atomic.  Whoever calls receive or flush drives while it waits; otherwise the
 * background thread does, when something is due.
 *
 * A partition's hand-outs are written to the server's socket before the user
 * gets them: a process that dies then has told, but for a rare case, also if
 * nobody waited for the answer.  It is waited for where a message was out
 * before: of those the count is exact.
 */
#ifndef LEAT_TOPIC_CONSUMER_H
#define LEAT_TOPIC_CONSUMER_H

#include "base/backoff.h"
#include "base/siphash.h"
#include "base/system.h"
#include "message/source.h"
#include "redis/dialer.h"
#include "redis/script.h"
#include "redis/shape.h"
#include "redis/waker.h"
#include "topic/chunk.h"
#include "topic/group.h"
#include "topic/join.h"
#include "topic/moves.h"
#include "topic/pace.h"
#include "topic/print.h"
#include "topic/ripen.h"
#include "topic/topic.h"
#include "topic/window.h"
#include <poll.h>
#include <pthread.h>

enum {
    LEAT__BLOCK_MAX = 64, /* partitions that are waited for at once     */
    LEAT__READ_TIMES = 4, /* batches in one read of a backlog */
    LEAT__SAVES_MAX = 4,  /* of one partition under way                 */
    LEAT__SAVE_SOON = 64, /* settlements that are not kept waiting      */
    LEAT__KEPT_MAX = 64,  /* of one partition in hand                   */
    LEAT__REPLAYED = 56,  /* room for the name of a dead letter         */
    LEAT__RENEW_MAX = 256 /* leases looked at with one beat             */
};

#define LEAT__LINGER_NS INT64_C(1000000) /* settlements wait for more */

typedef struct consumer consumer;
typedef struct part part;
typedef struct handed handed;
typedef struct leat__kept leat__kept;
typedef struct saving saving;
typedef struct leat__tend leat__tend;

/* What is asked of the server now and then, for gauges. */
typedef enum leat__sample {
    LEAT__SAMPLE_MESSAGES = 0,
    LEAT__SAMPLE_LAG,
    LEAT__SAMPLE_OLDEST, /* milliseconds */
    LEAT__SAMPLE_WAITING,
    LEAT__SAMPLE_DEAD,
    LEAT__SAMPLE_BYTES,
    LEAT__SAMPLES
} leat__sample;

/* Why a message became a dead letter. */
typedef enum leat__dead {
    LEAT__DEAD_REJECTED = 0,
    LEAT__DEAD_FAILED,
    LEAT__DEAD_DIED,
    LEAT__DEAD_UNREADABLE, /* set aside by due.lua */
    LEAT__DEADS
} leat__dead;

/* What is counted of a partition, or of all together. */
typedef struct part_meters {
    leat_counter *consumed, *redelivered, *stale, *undecodable, *losses;
    leat_counter *settled[LEAT__SETTLE_COMMITTED + 1];
    leat_counter *retries, *dead[LEAT__DEADS];
    leat_gauge *sampled[LEAT__SAMPLES];
} part_meters;

/* A connection on which one partition of a cluster is waited for. */
typedef struct leat__wait {
    consumer *c;
    part *part;     /* NULL: unused                                   */
    uint64_t epoch; /* of its lease, when the read was sent           */
    leat_conn *conn;
    leat__dial *dial; /* under way                                    */
    leat__backoff backoff;
    int64_t retry_ns; /* no connection before                         */
    int64_t since_ns; /* of the connection                            */
    uint32_t asked;
    bool out; /* a read is                                            */
} leat__wait;

/* A delivery in a user's hands. */
struct handed {
    leat_delivery d; /* first */
    part *part;
    leat__entry *entry; /* while the lease d.fence lasts; or it was ... */
    leat__kept *kept;   /* ... or NULL                                   */
    leat__held *held;
    leat__settle verdict;
    int64_t delay_ms; /* of a nack; -1: as the policy says               */
    int64_t settled_ns;
    uint32_t again; /* of d.attempt: as other messages, see again.c      */
    atomic_bool out;
    handed *all; /* of all ever made */
    char reason[LEAT__ERROR_MAX + 1];
    char replayed[LEAT__REPLAYED]; /* what d.replayed points to          */
};

/* A message that left the log for a retry, or behind one that did, in hand. */
struct leat__kept {
    leat__kept *next;
    leat__id id;
    leat__held *held;
    uint64_t lane;
    uint32_t n, f;
    enum { KEPT_WAITS, KEPT_OUT, KEPT_LEAVES } state;
    bool alone;        /* nothing else beside it                         */
    leat__step *begin; /* under way; NULL: the server knows              */
    char replayed[LEAT__REPLAYED]; /* the dead letter it was, or ""     */
};

/* The kept messages of one partition, as far as we know. */
typedef struct kept_line {
    leat__kept *first, *last;
    uint32_t count, waits; /* in hand; not with a user                  */
    uint32_t suspects;     /* of these */
    bool asked;            /* a fetch is under way                      */
    uint64_t epoch;        /* of it                                     */
    int64_t at_ns;         /* when to fetch                             */
    uint64_t total;        /* on the server                             */
} kept_line;

/* A line of settled deliveries that wait for their outcome. */
typedef struct settled_line {
    leat_delivery *first, *last;
    size_t count;
} settled_line;

/* One save under way. */
struct saving {
    part *part;
    uint64_t epoch;
    uint64_t upto; /* the last step it carries; 0: none */
    settled_line line;
    saving *next; /* among the unused */
};

/* A partition that is, was or is about to be ours. */
struct part {
    consumer *c;
    uint32_t index;
    int slot; /* of its keys, in a cluster                              */
    uint32_t owned_at;      /* its place in owned                       */
    _Atomic uint64_t epoch; /* of our lease; 0: not ours                */
    leat__window *window;
    uint64_t seq;          /* of the last save sent                    */
    int saves;             /* under way                                */
    settled_line settled;  /* not in a save yet                        */
    settled_line unproven; /* saved, not known to be kept              */
    leat__moves moves;
    leat__blocks blocks;
    kept_line kept;
    uint32_t claimed; /* OUT of the window, but with no user             */
    bool halted;      /* the lane of the whole partition stands still    */
    bool lanes_known; /* those that stand still are: it may be read      */
    bool lanes_asked;
    uint64_t lanes_epoch, lane_last;
    int64_t lanes_at_ns;
    bool move_taught;     /* its node knows the script of moves              */
    uint64_t gained;      /* epoch of a lease not known to be kept    */
    bool proving, listed; /* a proof is under way; in c->unproven     */
    part *next_unproven;
    int64_t save_at_ns;     /* when they must go                        */
    int64_t retry_ns;       /* not before: the server refused something */
    bool draining, drained; /* to be handed over; told so               */
    leat_order order;       /* in force since it was taken              */
    bool reordering;        /* it drains, to be taken in another order  */
    bool unsure;            /* whether the lease is still ours          */
    bool gone;              /* not ours any more, to be swept           */
    leat_assign gone_how;
    uint64_t gone_epoch;
    bool caught_up;              /* the log has no more, as far as is known  */
    bool blocked;                /* in the waiting read                      */
    bool taught;                 /* its node knows the script of saves       */
    leat__wait *wait;            /* its connection to wait on, or NULL       */
    bool reading;                /* in a read of its own                     */
    uint32_t asked;              /* entries that may come by it              */
    uint32_t appetite;           /* how many to ask for; 0: a batch */
    struct leat__bodies *bodies; /* that are on their way, or NULL  */
    bool starved;                /* more bodies than may be held    */
    leat__ripe ripe;             /* delayed messages                */
    bool passed;                 /* entries that are not for us     */
    uint64_t read_epoch, renew_epoch;
    leat__id begin;   /* where the group started                  */
    leat__id reached; /* by our last lease, if there was one      */
    bool was_ours;    /* then there is one                        */
    bool anew;        /* it was a group's that is gone            */
    bool told_loss;   /* with the lease that is taken anew        */
    bool doubtful;    /* whether this is the log that was read, see */
    bool verifying;   /* verify.c; asked just now                 */
    uint64_t verify_epoch;
    int64_t verify_ns;   /* not before                                 */
    uint64_t route;      /* of its commands, as last asked; 0: not yet */
    leat__print print;   /* of the last entry that was read            */
    leat__id taken_at;   /* the position of the lease when it was taken */
    part_meters *meters; /* its own, or those of all together         */
    bool own_meters;
    int64_t sampled[LEAT__SAMPLES]; /* -1: not known                  */
    uint64_t sample_epoch;
    bool tending;    /* a trim is under way                                 */
    int64_t tend_ns; /* the next is not before                              */
    int64_t tend_pause_ns;
    leat__id tended; /* the cursor at the last                              */
    bool looking;    /* for gaps; as it was then:                           */
    bool looked_quiet;
    uint64_t looked_epoch;
    leat__id looked_from;
    leat__id looked_good; /* up to here none is missing that is not told    */
    leat__key log, cursor, lease;
    leat__key kept_key, due_key, lane_key, dlq_key, bodies_key, later_key,
        laters_key, since_key, joined_key, id_key;
    bool strange;        /* its id is not the topic's, as a take has found */
    unsigned strange_at; /* by so many looks at the topic                  */
    char found[LEAT__INCARNATION + 1]; /* there, as far as is known         */
};

typedef struct consumer_meters {
    part_meters parts; /* of all together                               */
    leat_counter *rebalances;
    leat_gauge *in_flight, *owned, *pending;
    leat_histogram *settle_time, *end_to_end;
} consumer_meters;

/* What is counted for leat_topic_source_stats_get. */
typedef struct consumer_counts {
    _Atomic uint64_t received, redelivered, settled, rejected, stale;
    _Atomic uint64_t undecodable, rebalances, in_flight;
    _Atomic uint64_t retries, dead, waiting;
    _Atomic uint32_t owned, members;
} consumer_counts;

/* The id beside the groups, as far as a member that makes its group again has
 * seen: heard.c. */
typedef enum groups_id { ID_RIGHT, ID_STRANGE, ID_WRITTEN } groups_id;

struct consumer {
    leat_source base;
    leat_topic *topic;
    leat_client *client;
    bool clustered;
    leat_topic_source_opts opts; /* with the defaults filled in */
    leat_logger log;
    char *group, *name;
    leat__group_facts facts;             /* of the group */
    char topic_u[LEAT__INCARNATION + 1]; /* of the topic                   */
    unsigned incarnations;  /* of it, that were seen so far             */
    unsigned lost_looks;    /* by when it was made again last           */
    uint32_t strangers;     /* partitions whose id is not the topic's   */
    bool rejoining;         /* it is another: the group is made in it   */
    bool group_lost;        /* the group is gone, and ...               */
    unsigned group_lost_at; /* ... was by so many looks at the topic    */
    groups_id groups_id;    /* it was so by ...                         */
    unsigned groups_id_at;  /* ... so many looks                        */
    char groups_id_found[LEAT__INCARNATION + 1];
    char start[LEAT__ID_TEXT]; /* of a new group */
    leat_bytes from;           /* the topic's name */
    leat__key members, beats_key, paused_key, group_key, groups_id_key;
    char nonce[LEAT__NONCE_TEXT + 1];
    consumer_meters meters;
    consumer_counts counts;

    /* The role of the driver, under lock. */
    pthread_mutex_t lock;
    pthread_cond_t role_free, background, beaten;
    bool driving;
    int wanting;             /* threads that wait for the role         */
    bool ending;             /* the background thread is to end        */
    int64_t due_ns;          /* when the background thread must drive  */
    int64_t nap_ns;          /* its next nap while another drives      */
    int64_t sleeps_until_ns; /* it sleeps; 0: it does not       */
    pthread_t thread;
    bool thread_started;
    _Atomic int64_t safe_until_ns;      /* as the group says         */
    _Atomic int64_t safe_until_boot_ns; /* with time asleep     */
    _Atomic int64_t lease_ms;           /* as in opts, for all threads */
    uint64_t beats;                     /* answered, under lock      */
    atomic_bool beat_wanted;

    /* From other threads to the driver. */
    int wake_fd;
    atomic_bool polling; /* the driver sleeps in poll: poke wake_fd */
    atomic_bool interrupted;
    atomic_bool fd_wanted; /* read also while nobody receives         */
    int ready_fd;          /* readable: a receive would find something */
    bool ready_said;
    _Atomic(leat_delivery *) inbox; /* settled, newest first           */
    _Atomic(leat_delivery *) recycled;
    atomic_size_t owing; /* settled without outcome         */

    /* The driver's. */
    leat__group *machine;
    leat__waiter *waiter;
    leat_conn *cmd, *blk;
    leat__backoff backoff;
    int64_t connect_ns; /* not before                              */
    int64_t blk_id;     /* CLIENT ID of blk; 0: not known          */
    bool blk_out, unblocking;
    bool taught; /* cmd's server knows the script of saves         */
    uint32_t blk_count, blk_turn;
    struct {
        part *part;
        uint64_t epoch;
    } blk_set[LEAT__BLOCK_MAX];
    uint32_t blk_asked;
    leat__wait *waits; /* LEAT__BLOCK_MAX; NULL: there is blk            */
    uint32_t dials, look_turn;
    int64_t look_ns; /* the next look at those that nothing waits for   */
    leat__pace pace; /* of looks in turn                                */
    part **parts;    /* by index; NULL: never seen               */
    uint32_t partitions;
    part **owned;
    uint32_t owned_count, turn, renew_turn;
    uint32_t in_rings; /* entries in all windows               */
    uint32_t asked;    /* that may come by reads under way     */
    uint32_t outs;     /* deliveries that users have           */
    bool careful;      /* some message may be what kills       */
    handed *alone;     /* such a one is out                    */
    part *unproven;    /* that wait for a proof                */
    bool proving;      /* one for all is under way             */
    int64_t prove_at_ns;
    int64_t beat_sent_ns, beat_sent_boot_ns;
    int64_t asleep_ns; /* boot time ahead of the time awake        */
    uint64_t highest;  /* of the epochs of our leases               */
    int64_t sample_ns; /* the next sample is not before            */
    uint32_t sample_turn, sampling;
    bool paused;   /* somebody paused the group            */
    bool any_gone; /* some partition is to be swept        */
    bool left;     /* our record is gone                   */
    leat__group_record *records;
    size_t records_cap;
    leat__chunk_pool chunks;
    size_t body_size;  /* of the last large body                  */
    int64_t body_ns;   /* one more than may be held, not before   */
    leat__held **held; /* scratch of one read                  */
    leat__buf text;    /* scratch of one save, and ...         */
    leat__buf steps;   /* ... of its steps                     */
    leat_bytes *args;
    saving *savings; /* unused                               */
    leat__tend *tend;
    handed *spare;
    handed *all;
    leat_error why;       /* the last failure, for who waits in vain */
    leat_code said;       /* the last failure logged                 */
    leat_error final;     /* it is of no use to go on                */
    leat_error refused;   /* to be told by the next receive          */
    leat_error first_bad; /* outcome, for flush; under lock         */
};

/* ---- drive.c ---------------------------------------------------------- */

/* Become the driver, and let go. */
void leat__drive_take(consumer *c);
void leat__drive_give(consumer *c);

/* Do what is due, wait for the server or a poke until deadline_ns at most,
 * take in what came. */
void leat__drive(consumer *c, int64_t deadline_ns);

/* Send what is queued; false: the connection is gone, and all that was under
 * way has been told so. */
bool leat__drive_flush(consumer *c);

void leat__drive_poke(consumer *c);
void *leat__drive_background(void *consumer);

/* A command failed; logs what is new. */
void leat__drive_failed(consumer *c, const leat_error *e, const char *what);

/* The server does not let us; who receives is told, and it is tried again. */
void leat__drive_refused(consumer *c, const leat_error *e);

/* ---- member.c --------------------------------------------------------- */

void leat__member_step(consumer *c, int64_t now_ns);

/* There is a new connection. */
void leat__member_reconnected(consumer *c);

/* The group had read up to `to`, and the log has nothing of that behind
 * `from`. */
void leat__member_tell_loss(part *p, leat__id from, leat__id to);

/* The lease of that epoch is another's. */
void leat__member_lost(part *p, uint64_t epoch);

/* The lease that was taken counts, or does not. */
void leat__member_gained(part *p, uint64_t epoch);
void leat__member_not_gained(part *p);

/* Forget the partitions that are no longer ours. */
void leat__member_sweep(consumer *c);

/* ---- read.c ----------------------------------------------------------- */

void leat__read_step(consumer *c, int64_t now_ns);

/* Only what may be there already; a wait is for who waits. */
void leat__read_more(consumer *c, int64_t now_ns);

/* The connection of the waiting read is gone. */
void leat__read_reset(consumer *c);

/* It has nothing to read, as far as is known, and room for more. */
bool leat__read_idle(const consumer *c, const part *p, int64_t now_ns);

/* The answer to a read of this partition, and a failure of one. */
void leat__read_came(part *p, const leat_reply *r, uint32_t asked);
void leat__read_failed(consumer *c, part *p, const leat_error *e);

/* Into the window, if it is behind what that has. */
void leat__read_into(part *p, leat__held *h);

/* ---- verify.c --------------------------------------------------------- */

/* The print of the i-th entry of a read, which has this id; and the entries up
 * to it are in the window. */
leat__print leat__verify_print(leat__id id, const leat_reply *entries,
                               size_t i);
void leat__verify_read(part *p, leat__print last);

/* It has been taken. */
void leat__verify_begin(part *p);

/* Is it the log that was read?  Until that is known nothing is read, handed out
 * or saved. */
void leat__verify_doubt(part *p);
void leat__verify_all(consumer *c);

void leat__verify_step(consumer *c, int64_t now_ns);
int64_t leat__verify_due(const consumer *c);

/* ---- bodies.c --------------------------------------------------------- */

/* Of n entries that were read, those up to the first large one may go into the
 * window: how many.  The others are taken: they follow with their bodies, or
 * are read again. */
size_t leat__bodies_take(part *p, const leat_reply *entries, leat__held **held,
                         size_t n);

/* Must it not be read, because bodies are on their way, or too many here? */
bool leat__bodies_wait(const part *p);

/* ---- again.c ---------------------------------------------------------- */

/* How often it was published again for this group; is it another group's? */
uint32_t leat__again_count(const consumer *c, const leat_msg *m);
bool leat__again_others(const consumer *c, const leat_msg *m);

/* It is, and has been read: settle it, nobody is told. */
void leat__again_pass(part *p, leat__entry *e);

/* The fields of the message that follows this one, packed.  False: it has to be
 * kept as it is. */
bool leat__again_pack(const handed *h, leat__buf *to);

/* "<length>:<bytes>" */
leat_code leat__settle_pack(leat__buf *to, leat_bytes b, leat_error *err);

/* ---- ripen.c ---------------------------------------------------------- */

/* Let owned partitions' delayed messages ripen. */
void leat__ripen_step(consumer *c, int64_t now_ns);
int64_t leat__ripen_due(const consumer *c);

/* ---- wait.c ----------------------------------------------------------- */

leat_code leat__wait_open(consumer *c, leat_error *err);
void leat__wait_close(consumer *c);

/* See that every idle partition is waited for. */
void leat__wait_step(consumer *c, int64_t now_ns);
int64_t leat__wait_due(const consumer *c);

/* Its connection leads to the wrong server. */
void leat__wait_drop(part *p);

/* What to poll for; how many; and what came of it, in the same order. */
nfds_t leat__wait_fds(const consumer *c, struct pollfd *out);
void leat__wait_take(consumer *c, const struct pollfd *come);
void leat__wait_flush(consumer *c);

/* ---- deliver.c -------------------------------------------------------- */

/* Take up to max from the windows.  How many. */
int leat__deliver(consumer *c, leat_delivery **out, int max);

/* They could not be announced: back into the windows, as if never taken. */
void leat__deliver_undo(consumer *c, leat_delivery **out, int n);

/* A window has something to hand out now; *due_ns becomes no later than when
 * one will have. */
bool leat__deliver_ready(consumer *c, int64_t now_ns, int64_t *due_ns);

/* Sort what users settled into the windows. */
void leat__deliver_settled(consumer *c);

/* Tell the outcome of all in the line: NULL is good. */
void leat__line_tell(consumer *c, settled_line *line, const leat_error *e);

void leat__deliver_settle(leat_source *s, leat_delivery *d,
                          const leat__settlement *how);
void leat__deliver_recycle(leat_source *s, leat_delivery *d);

/* ---- settle.c --------------------------------------------------------- */

/* The message goes where its verdict says; the lease is the one it was handed
 * out with. */
void leat__settle_one(handed *h, int64_t since_ns);

/* The user is not asked any more: as if never begun. */
void leat__settle_release(handed *h);

/* The window has messages in whose hands processes died.  Too often: a dead
 * letter; else nothing is handed out beside them. */
void leat__settle_suspects(part *p);
void leat__settle_died(part *p, leat__entry *e, leat__kept *k);
bool leat__settle_deadly(part *p, const leat__held *held, uint32_t n,
                         uint32_t f);

/* A new step of this message; NULL: no memory, and the partition is lost. */
leat__step *leat__settle_step(part *p, leat__step_what what, leat__id id,
                              uint32_t n, uint32_t f);

/* Into the line of the partition's steps, and soon to the server. */
void leat__settle_add(part *p, leat__step *s, int64_t since_ns);

/* A save is made: which steps it carries, and how it ended. */
void leat__settle_carry(part *p);
void leat__settle_carried(part *p, uint64_t upto);

/* The partition is not ours any more: whose outcome was open is in the line. */
void leat__settle_forget(part *p, settled_line *open);

/* ---- park.c ----------------------------------------------------------- */

/* The step of a message that a user gave back brings it into its lane, which
 * stands still from now on until it is empty. */
void leat__park(part *p, leat__step *s, int64_t since_ns);

/* Of the window's messages of this lane one fewer is with a user. */
void leat__park_back(part *p, uint64_t lane, int64_t since_ns);

/* A message has been read into the window: if its lane stands still, behind. */
void leat__park_read(part *p, leat__entry *e);

/* The server says that the lane is empty. */
void leat__park_empty(part *p, uint64_t lane);

/* See that the lanes of every partition are known. */
void leat__park_step(consumer *c, int64_t now_ns);
int64_t leat__park_due(const consumer *c);
void leat__park_forget(part *p, settled_line *open);

/* ---- kept.c ----------------------------------------------------------- */

/* Fetch what is due. */
void leat__kept_step(consumer *c, int64_t now_ns);
int64_t leat__kept_due(const consumer *c);

/* Something is due by then. */
void leat__kept_look(part *p, int64_t at_ns);

/* The group was told that something is new: it may be replayed letters. */
void leat__kept_hint(consumer *c, int64_t now_ns);

/* The next to be handed out, with its attempt counted; NULL: none. */
leat__kept *leat__kept_take(part *p, bool alone);

/* It is in hand no more. */
void leat__kept_drop(part *p, leat__kept *k);
void leat__kept_forget(part *p);

/* One of the lane goes back to wait: what is in hand behind it, too. */
void leat__kept_fall_back(part *p, uint64_t lane);

/* ---- save.c ----------------------------------------------------------- */

/* Send the saves that are due.  now: also what could wait for more. */
void leat__save_step(consumer *c, int64_t now_ns);

/* They may not have been kept: the next save carries them once more. */
void leat__save_again(part *p, settled_line *line);

/* Something is to be saved soon after that time. */
void leat__save_soon(part *p, int64_t since_ns);

/* When the next is. */
int64_t leat__save_due(const consumer *c);

/* The server knows all that we know. */
bool leat__save_told(const part *p);

/* The same, and nothing of it is out. */
bool leat__save_clean(const part *p);

/* ---- prove.c ---------------------------------------------------------- */

/* Is the server's word not enough? */
bool leat__prove_needed(const consumer *c);

/* Wait for a proof: of a save, whose line is taken; of a lease. */
void leat__prove_saved(part *p, settled_line *line);
void leat__prove_taken(part *p, uint64_t epoch);

/* The partition is another's. */
void leat__prove_forget(part *p);

void leat__prove_step(consumer *c, int64_t now_ns);
int64_t leat__prove_due(const consumer *c);

/* The connection is gone. */
void leat__prove_reset(consumer *c);

/* ---- sample.c --------------------------------------------------------- */

/* With a beat: look at some partitions, unless that was just now. */
void leat__sample_step(consumer *c, int64_t now_ns);

/* The partition is another's, and so is what its gauges say. */
void leat__sample_forget(part *p);

/* All are: we end. */
void leat__sample_end(consumer *c);

/* ---- tend.c ----------------------------------------------------------- */

leat_code leat__tend_open(consumer *c, leat_error *err);
void leat__tend_close(consumer *c);

/* The partition is ours. */
void leat__tend_begin(part *p);

/* The topic is another. */
void leat__tend_anew(consumer *c);

/* Look at the topic now. */
void leat__tend_hurry(consumer *c);

void leat__tend_step(consumer *c, int64_t now_ns);
int64_t leat__tend_due(const consumer *c);

/* ---- gap.c ------------------------------------------------------------ */

/* Messages between these two were taken away unread; count 0: nobody knows how
 * many. */
void leat__gap_tell(part *p, leat__id from, leat__id to, uint64_t count,
                    bool exact);

void leat__gap_begin(part *p);
void leat__gap_reconnected(consumer *c);

/* With a beat: is anything missing? */
void leat__gap_step(consumer *c);

/* ---- meter.c ---------------------------------------------------------- */

leat_code leat__consumer_meters_init(consumer *c, leat_error *err);

/* Give the partition the meters it counts by. */
void leat__part_meters_init(part *p);
void leat__part_meters_release(part *p);

/* These were handed out. */
void leat__meter_out(consumer *c, leat_delivery *const *out, int n);

/* At the end of the line. */
static inline void leat__line_add(settled_line *line, leat_delivery *d)
{
    d->next = NULL;
    if (line->last)
        line->last->next = d;
    else
        line->first = d;
    line->last = d;
    line->count++;
}

static inline bool leat__part_owned(const part *p)
{
    return atomic_load_explicit(&p->epoch, memory_order_relaxed) != 0;
}

static inline uint64_t leat__part_epoch(const part *p)
{
    return atomic_load_explicit(&p->epoch, memory_order_relaxed);
}

/* How long others will certainly not think that we are gone. */
static inline int64_t leat__lease_left_ns(const consumer *c)
{
    return atomic_load_explicit(&c->safe_until_boot_ns, memory_order_relaxed) -
           leat__boot_ns();
}

static inline void leat__count_add(_Atomic uint64_t *n, uint64_t by)
{
    atomic_fetch_add_explicit(n, by, memory_order_relaxed);
}

/* Entries have been put into the window. */
static inline void leat__read_done(part *p)
{
    if (leat__window_suspects(p->window) > 0)
        leat__settle_suspects(p);
}

/* ---- heard.c ---------------------------------------------------------- */

typedef struct leat__heard {
    bool any; /* the group is there                                          */
    leat__group_facts facts;
    int64_t judge_ms; /* 0: as the lease                                     */
} leat__heard;

void leat__heard_field(leat__heard *h, leat_bytes name, leat_bytes value);
void leat__heard_take(consumer *c, const leat__heard *h);

/* What the looks at the topic have found, and a refused take. */
void leat__heard_topic(consumer *c);
void leat__heard_stale(part *p);

#endif
