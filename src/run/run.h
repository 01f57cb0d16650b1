/*
 * run.h: the parts of a runner.
 *
 *   receive.c   one thread: takes deliveries from the source, as many as there
 *               are free slots, and sorts them into lanes
 *   lane.c      who may run: lanes, the line of ready ones, held ones
 *   work.c      N threads: take work from the line, call the handler
 *   keep.c      one thread: heartbeat, time limits, cancel tokens
 *   slot.c      a message in flight, from its receipt to its settlement
 *   ctx.c       what a handler sees
 *   meter.c     metrics
 *   crew.c      how many workers there are
 *   run.c       start, stop, statistics
 *
 * A crash leaves what a crash of any consumer leaves: deliveries without
 * settlement, which the source hands out again.
 *
 * A message in flight has a slot; their number is the bound.  A slot goes
 *
 *   free -> HELD -> HELD|DONE -> free          settled by who set DONE
 *           HELD|PIN                           the keeper is looking at it
 *           HELD|PIN|DONE                      settled by the keeper, later
 *           HELD|TAKEN                         nacked by the keeper, while the
 *                                              handler still runs
 *
 * Only the keeper pins, so a delivery is never extended and settled at once.
 *
 * Every message is in a lane, one without order in its slot's own.  A lane is
 * idle, in the line of ready lanes, or owned by one worker, which runs its
 * messages one after another.  Locks: `lock` for lanes, line and waiting;
 * `cancel_lock`, innermost, for the cancel descriptors.
 */
#ifndef LEAT_RUN_RUN_H
#define LEAT_RUN_RUN_H

#include "base/siphash.h"
#include "message/source.h"
#include <leat/run.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    LEAT__RUN_QUANTUM = 16, /* messages a worker takes at once       */
    LEAT__RUN_THREADS_MAX = 1024,
    LEAT__RUN_IN_FLIGHT_MAX = 1 << 20,
    LEAT__RUN_REASON = 256
};

typedef struct run_slot run_slot;
typedef struct run_lane run_lane;
typedef struct run_worker run_worker;

struct run_lane {
    uint64_t id;
    run_lane *chain; /* next in the bucket, or in the pool of unused ones */
    run_lane *ready; /* next in the line                                  */
    run_lane *next_held;
    run_slot *first, *last;
    bool busy; /* in the line or owned by a worker */

    /* A message was given back: what was received before that and stands
     * behind it must not run.  `shut` tells the owner; `held` tells the
     * receiver, for deliveries behind held_at of receives up to held_until. */
    atomic_bool shut;
    bool held, in_held;
    int holders; /* that are still giving back */
    leat_position held_at;
    uint64_t held_until;
};

/* How many threads there are: made when there is work for more, ended when they
 * had none for so long. */
typedef struct leat__crew {
    int least;       /* always there       */
    int64_t idle_ms; /* 0: they never end  */
} leat__crew;

enum { SLOT_HELD = 1, SLOT_PIN = 2, SLOT_DONE = 4, SLOT_TAKEN = 8 };

struct run_slot {
    atomic_uint state;
    atomic_bool cancelled;
    leat_delivery *d;
    run_slot *next; /* in its lane, or among the free */
    run_lane *lane;
    _Atomic(run_worker *) worker; /* that runs it */
    _Atomic int64_t started_ns;   /* 0: not yet   */
    int64_t grant_ns;             /* what the delivery had left; 0: no end */
    int64_t beat_ns;              /* when to extend it                     */
    leat__settlement how;         /* for the keeper to settle by           */
    run_lane solo;
};

typedef struct run_list {
    run_slot *first, *last;
} run_list;

/* What one thread counted; only stats_get reads those of others. */
typedef struct run_tally {
    char apart[64]; /* from what other threads write */
    _Atomic uint64_t acked, nacked, rejected, released, stale, cancelled;
} run_tally;

struct leat_ctx {
    run_worker *worker;
    run_slot *slot;
    leat__settlement how;
    bool committed;
    char reason[LEAT__RUN_REASON];
};

struct run_worker {
    leat_run *run;
    pthread_t thread;
    bool started, live; /* its thread is to be joined; works; under lock */

    /* Taken from the line and not begun.  Whoever swaps in NULL has it: the
     * worker, a thief (solo only), or a stop. */
    _Atomic(run_slot *) solo[LEAT__RUN_QUANTUM];
    _Atomic(run_slot *) line[LEAT__RUN_QUANTUM];
    int count;      /* put into solo or line at the last grab            */
    run_lane *lane; /* owned, NULL while running solo ones              */
    bool broke;     /* gave a message of the lane back: empty it         */
    atomic_bool running;
    int64_t now_ns; /* when the last message ended                       */

    leat_ctx ctx;
    run_tally tally;

    int fd; /* -1: never asked for; under cancel_lock as is the next */
    run_slot *fd_slot;
};

typedef struct run_meters {
    leat_counter *consumed, *settled[LEAT__SETTLE_COMMITTED + 1], *stale;
    leat_histogram *process[LEAT__SETTLE_COMMITTED + 1];
    leat_gauge *in_flight;
} run_meters;

struct leat_run {
    leat_source *source;
    leat_handler_fn *fn;
    void *arg;
    leat_run_opts opts; /* with the defaults filled in */
    run_meters meters;
    leat__sipkey seed;

    pthread_mutex_t lock;
    pthread_cond_t work;   /* the line has something, or closing          */
    pthread_cond_t room;   /* slots came free, or stopping                */
    pthread_cond_t keep;   /* the keeper is to look earlier               */
    pthread_cond_t let_go; /* the keeper unpinned                         */
    pthread_cond_t ended;  /* a worker ended                              */
    pthread_mutex_t cancel_lock;

    /* slots */
    run_slot *slots;
    run_slot *spare; /* the receiver's own free ones */
    _Atomic(run_slot *) freed;
    _Atomic uint64_t freed_count, wanted;
    _Atomic uint64_t received;

    /* lanes, under lock */
    run_lane *lanes, *unused, **buckets, *held;
    size_t bucket_mask;
    run_lane *line, *line_end;
    size_t line_count;
    int idle;

    /* threads */
    run_worker *workers;
    leat__crew crew;
    int workers_live; /* under lock */
    pthread_t receiver, keeper;
    bool receiver_started, keeper_started;
    atomic_bool stopping;
    bool closing; /* under lock: nothing more comes */
    leat_delivery **batch;
    _Atomic uint64_t receive_seq;
    atomic_bool failed;
    leat_error failure; /* written once, before `failed` */

    /* keeper */
    int64_t keep_next; /* under lock, as are the next three */
    bool keep_stop;
    bool cancel_all, cancel_seen;
    run_slot **due;
    leat_delivery **due_d;
    leat_code *outcome;
    leat_code keep_said; /* the last failure logged */

    run_tally tally; /* of receiver, keeper and stop */
};

/* ---- slot.c ----------------------------------------------------------- */

/* Put a delivery into a free slot; the receiver's.  *due_ns becomes no later
 * than when the keeper must first look at it. */
run_slot *leat__slot_take(leat_run *r, leat_delivery *d, int64_t now_ns,
                          int64_t *due_ns);

/* Free slots at hand, after collecting those that came back. */
int leat__slot_room(leat_run *r);
uint64_t leat__slot_in_flight(const leat_run *r);

/* Settle, or leave it to the keeper if that is looking: how->reason must then
 * live on, so with a reason use the form that waits.  True: the keeper has
 * nacked it already, and how is ignored. */
bool leat__slot_settle(leat_run *r, run_tally *t, run_slot *m,
                       const leat__settlement *how);
void leat__slot_settle_now(leat_run *r, run_tally *t, run_slot *m,
                           const leat__settlement *how);
void leat__slot_release_all(leat_run *r, run_tally *t, run_list *list);

/* The keeper's: look at a held slot, false if there is none; and let go. */
bool leat__slot_pin(run_slot *m);
void leat__slot_unpin(leat_run *r, run_slot *m);

/* Take a pinned one from its handler, false if that just ended; and nack it. */
bool leat__slot_seize(run_slot *m);
void leat__slot_nack_seized(leat_run *r, run_slot *m);

/* How often to extend what has that much time. */
int64_t leat__slot_period_ns(const leat_run *r, int64_t grant_ns);

void leat__slot_append(run_list *l, run_slot *m);

/* ---- lane.c; all with the lock held ----------------------------------- */

/* Sort a received message into its lane.  False: it stands behind one that was
 * given back, release it. */
bool leat__lane_enter_locked(leat_run *r, run_slot *m, uint64_t seq);

/* Fill the worker's hands from the line; false: the line is empty. */
bool leat__lane_grab_locked(leat_run *r, run_worker *w);

/* A worker with empty hands takes one from another's. */
bool leat__lane_steal_locked(leat_run *r, run_worker *w);

/* Give back what is in the worker's hands, behind the other lanes. */
void leat__lane_yield_locked(run_worker *w);

/* The worker is through with its lane; out: what must be released. */
void leat__lane_leave_locked(leat_run *r, run_worker *w, run_list *out);

/* Nothing received before runs behind position at, until ...: a message was
 * given back, which the source may not know yet; and once it does know, until
 * the receive under way is sorted in. */
void leat__lane_hold_locked(leat_run *r, run_lane *l, leat_position at);
void leat__lane_held_until_locked(leat_run *r, run_lane *l);

/* All of a lane that did not begin; all of all lanes. */
void leat__lane_empty_locked(run_lane *l, run_worker *owner, run_list *out);
void leat__lane_sweep_locked(leat_run *r, run_list *out);

/* Forget holds that no receive under way can still break. */
void leat__lane_unhold_locked(leat_run *r, uint64_t seq);

/* ---- the threads ------------------------------------------------------ */

/* As leat_run_start, with a crew that grows and shrinks. */
leat_run *leat__run_start(leat_source *s, leat_handler_fn *fn, void *arg,
                          const leat_run_opts *opts, const leat__crew *crew,
                          leat_error *err);

/* Workers that live. */
int leat__run_threads(leat_run *r);

/* Start a worker's thread, whose last one has ended. */
leat_code leat__crew_add_locked(leat_run *r, run_worker *w, leat_error *err);

/* More workers, if more lanes wait than workers. */
leat_code leat__crew_grow_locked(leat_run *r, leat_error *err);

void *leat__run_receive(void *run);
void *leat__run_work(void *worker);
void *leat__run_keep(void *run);

/* Look at the slots no later than that. */
void leat__keep_by_locked(leat_run *r, int64_t when_ns);

/* When the keeper must first look at a fresh message. */
int64_t leat__keep_due(const leat_run *r, const run_slot *m, int64_t now_ns);

/* ---- ctx.c ------------------------------------------------------------ */

void leat__ctx_begin(leat_ctx *x, run_slot *m);
void leat__ctx_end(leat_ctx *x);
void leat__ctx_cancel(leat_run *r, run_slot *m);

/* A commit script has settled the delivery: return this as the verdict. */
leat_verdict leat__ctx_committed(leat_ctx *x);

/* ---- meter.c ---------------------------------------------------------- */

leat_code leat__meters_init(run_meters *m, leat_metrics *registry,
                            const leat_source *s, leat_error *err);

static inline void leat__count(_Atomic uint64_t *n)
{
    atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

static inline bool leat__stopping(leat_run *r)
{
    return atomic_load(&r->stopping);
}

#endif
