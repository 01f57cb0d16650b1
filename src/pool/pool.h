/*
 * pool.h: the inside of a pool.
 *
 *   pool.c    options, starting, statistics
 *   source.c  a source over all queues of a prefix, for the runner of run/
 *   take.c    asks the shards who waits, and takes
 *   owl.c     the same of queues of redowl, which it has to find
 *   choose.c  whose turn it is
 *   settle.c  a thread that sends what was settled, many queues in one script
 *   queues.c  what is known of each queue
 *
 * Nothing of a pool is on the server: it serves what queue/keys.h describes.
 * Who waits stands in the shards' `work`, with the time since; one look asks
 * all shards (of one server in one script, of a cluster in one for each shard,
 * in one round trip), then those whose turn it is are served, in one script a
 * shard.  Pools beside each other get different queues.
 *
 * With one worker a queue, all that a pool takes of it in a turn is one lot,
 * and the server gives out nothing more of it, to nobody, while any of that is
 * in flight: so the order is the server's, and a crash leaves a lot in flight
 * that comes back whole, in its order.  What is given back of a lot goes back
 * together, when the last of it is settled here.
 *
 * How much is taken: as many queues as there are workers, and as many more as
 * were done with lately; of a queue what by the pace of the handlers fits into
 * its turn, and where nobody else waits more, if its last lot was soon done.
 * So fast handlers get large batches and slow ones leave the rest to other
 * pools.  A lot that lasts longer than its turn makes room for another queue,
 * whose messages then run between its own.
 */
#ifndef LEAT_POOL_POOL_H
#define LEAT_POOL_POOL_H

#include "base/map.h"
#include "base/system.h"
#include "message/outcomes.h"
#include "message/source.h"
#include "pool/choose.h"
#include "queue/queue.h"
#include "queue/redowl_find.h"
#include <leat/pool.h>

enum {
    POOL_QUEUES_MAX = 2000,    /* taken in one go, and ahead of workers   */
    POOL_IN_FLIGHT = 12288,    /* messages                                */
    POOL_TAKE_MAX = 4096,      /* and of them in one go,                  */
    POOL_TAKE_BYTES = 1 << 26, /* or about so much                        */
    POOL_SETTLE_MAX = 4096,    /* messages in one go                      */
    POOL_DUE_MAX = 20000,      /* settlements without outcome             */
    POOL_TURN_MAX = 256,       /* messages of a queue where nobody waits  */
    POOL_SLICE_MAX = 64,       /* and where others do                     */
    POOL_SLICE_NS = 2000000,   /* its turn is over then                   */
    POOL_CANDIDATES = 64 * 64, /* that one look tells of, at most         */
    POOL_LATELY_MS = 100,
    POOL_KNOWN_MAX = 100000 /* queues of redowl that are kept in mind  */
};

/* What is known of a queue. */
typedef struct pool_queue {
    leat__link link;  /* in the order of use, the latest last  */
    leat__link known; /* in the order in which they were met   */
    unsigned shown;   /* to callbacks, just now                */
    unsigned shard;
    uint64_t lane;
    int weight;
    int burst;    /* of it where nobody else waits          */
    unsigned out; /* messages received and without outcome  */
    uint64_t received, acked, nacked, rejected;
    atomic_int running;
    int64_t used_ns;
    int64_t look_ns; /* owl.c: take of it then; INT64_MAX: when it is told */
    uint64_t number; /* of its last call                                  */
    bool doubt;      /* nobody knows how that ended                       */
    char name[];
} pool_queue;

typedef struct pool_lot pool_lot;

/* What becomes of a message; in this order it is told to the server. */
typedef enum pool_verdict {
    POOL_ACK,
    POOL_COMMITTED,
    POOL_FREE,
    POOL_WAIT, /* failed, and its queue waits for it */
    POOL_LATE, /* failed, and its queue goes on      */
    POOL_BACK,
    POOL_BURY
} pool_verdict;

typedef struct pool_slot {
    leat_delivery d;
    pool_lot *lot;
    leat_bytes receipt;
    struct pool_slot *next; /* in the line, or among those to go back */
    pool_verdict verdict;
    int64_t delay_ms;
    char *reason; /* or NULL */
    leat_code outcome;
    bool out;  /* handed out and not settled            */
    bool last; /* its queue may be served again with it */
} pool_slot;

/* What was taken of one queue at a time. */
struct pool_lot {
    leat__link link;
    pool_queue *queue;
    leat_queue_batch *batch;
    atomic_uint refs;
    size_t n, given, out; /* of them handed out so far, and not settled */
    int64_t since_ns, until_ns;
    int64_t age_ms;          /* for how long its queue waited */
    _Atomic int64_t used_ns; /* by its handlers */
    pool_slot *back;         /* to be given back together, the last first */
    bool fifo, log;          /* its queue, when it was taken              */
    bool late;               /* its turn is over, but it is not           */
    bool marked;             /* by an extend                              */
    bool stuck;              /* nobody knows whether something went back  */
    pool_slot slots[];
};

typedef struct pool_shard {
    leat__key due;
    uint64_t number; /* of the last call of our lane   */
    bool doubt;      /* nobody knows how that ended    */
    int64_t rest_ns; /* it failed: not before that     */
} pool_shard;

typedef struct pool_taking pool_taking;
typedef struct pool_settling pool_settling;
typedef struct pool_owl pool_owl;

typedef struct pool_source {
    leat_source base;
    leat_client *client; /* borrowed */
    const queue_profile *profile;
    pool_owl *owl;       /* NULL: they are leat's own */
    leat_pool_opts opts; /* with the defaults filled in */
    char prefix[LEAT__QUEUE_PREFIX_MAX + 1];
    const char *events;      /* as tell.lua has it */
    leat__key heard;         /* a pattern of their channels, or "" */
    _Atomic int64_t deaf_ns; /* nobody hears any, it is believed until then */
    unsigned forks;
    leat__sipkey seed;
    char lane[17];
    leat__waiter *waiter;
    _Atomic int64_t pace_ns; /* how long a handler takes, lately            */
    pthread_t settler;
    bool settler_started;
    pool_settling *settling; /* its room */

    /* the receiver's own */
    pool_shard shards[LEAT__QUEUE_SHARDS];
    pool_taking *taking;
    leat__list fresh; /* lots not wholly handed out */
    size_t told;      /* queues that the last look told of */
    int64_t swept_ns;
    bool worked; /* once: a refusal before is final, as at an open */

    pthread_mutex_t change; /* held while what is in flight is extended or   */
                            /* given back: outermost                         */
    pthread_mutex_t lock;   /* for all below                                 */
    pthread_cond_t work;    /* something is settled, or the end              */
    leat__map queues;       /* name -> pool_queue                            */
    leat__list used, known;
    leat__list lots;
    size_t held;       /* messages that were taken and are not over  */
    size_t busy;       /* queues (or messages, where they have no    */
                       /* order) that are with workers or before     */
    size_t lately[2];  /* that were done with in the last while, and */
    int64_t lately_ns; /* in the one before; when the last began     */
    size_t hungry;     /* the receiver waits until no more are busy */
    pool_slot *first, *line_end; /* settled, to be sent */
    leat__outcomes outcomes;
    bool interrupted, closing;
} pool_source;

static inline bool leat__pool_serial(const pool_source *s)
{
    return s->opts.queue_workers == 1;
}

/* For a script that may tell events. */
static inline const char *leat__pool_events(const pool_source *s)
{
    int64_t until = atomic_load_explicit(&s->deaf_ns, memory_order_relaxed);
    return leat__now_ns() < until ? "0" : s->events;
}

/* ---- queues.c --------------------------------------------------------- */

/* The queue of that name, made if it is new; NULL: no memory.  One more of it
 * is out, so that it is not forgotten.  Without the lock, as the program is
 * asked for its weight; the receiver only. */
pool_queue *leat__pool_queue(pool_source *s, leat_bytes name, leat_error *err);

/* fn runs without the lock. */
void leat__pool_queues_each(pool_source *s, leat_pool_queue_fn *fn, void *arg);

/* It has something to do. */
void leat__pool_use_locked(pool_source *s, pool_queue *q, int64_t now_ns);

/* Forget those that had nothing to do for long. */
void leat__pool_forget_locked(pool_source *s, int64_t now_ns);
void leat__pool_queues_free(pool_source *s);

/* ---- pool.c ----------------------------------------------------------- */

/* Messages of a queue of weight 1 that fit into a turn, by the handlers' pace.
 */
int leat__pool_slice(const pool_source *s);

/* ---- take.c ----------------------------------------------------------- */

pool_taking *leat__pool_taking_new(leat_error *err);
void leat__pool_taking_free(pool_taking *t);

/* Up to max messages of those that are here into out; if there are none, look,
 * and take of at most `queues` queues.  How many, or -1.  *again_ms: look again
 * after so long, at the latest. */
int leat__pool_take(pool_source *s, size_t queues, leat_delivery **out, int max,
                    int64_t *again_ms, leat_error *err);

/* Out of the lots that are here; how many. */
int leat__pool_hand_out(pool_source *s, leat_delivery **out, int max);

/* How many of a queue fit into its turn, by its weight; where nobody else waits
 * its burst, if that is more. */
int leat__pool_count_for(pool_source *s, leat_bytes name, int slice,
                         bool crowded);

/* A lot, into the list; it takes the batch, also where it fails. */
pool_lot *leat__pool_lot_new(pool_source *s, pool_queue *q,
                             leat_queue_batch *batch, int64_t until_ns,
                             leat__list *to, leat_error *err);

/* They are ours: their messages can be handed out. */
void leat__pool_lots_begin(pool_source *s, leat__list *lots);

/* ---- owl.c ------------------------------------------------------------ */

leat_code leat__owl_open(pool_source *s, leat_error *err);
void leat__owl_close(pool_source *s);

/* As leat__pool_take. */
int leat__owl_take(pool_source *s, size_t queues, leat_delivery **out, int max,
                   int64_t *again_ms, leat_error *err);

/* ---- settle.c --------------------------------------------------------- */

/* The settler's room.  Made beforehand: without memory there is the more to
 * be given back. */
pool_settling *leat__pool_settling_new(leat_error *err);
void leat__pool_settling_free(pool_settling *t);
void *leat__pool_settler(void *source);
leat_code leat__pool_extend(pool_source *s, leat_delivery *const *d, size_t n,
                            int64_t ms, leat_code *outcome, leat_error *err);

/* Give back what is out and not settled. */
void leat__pool_release(pool_source *s);

/* ---- source.c --------------------------------------------------------- */

/* The lot, which a worker has, lasts longer than its turn. */
void leat__pool_overrun(pool_source *s, pool_lot *lot);

leat_source *leat__pool_source(leat_client *c, const leat_pool_opts *o,
                               leat_error *err);
void leat__pool_lot_free(pool_lot *lot);

#endif
