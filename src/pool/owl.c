/*
 * owl.c: a pool of queues of redowl.
 *
 * There is no index of those that have something to do.  The pool knows of a
 * queue by an event on the channel of its prefix, or because its keys are
 * there: it goes through the keys of the server when it starts, and again
 * FIND_MS after each round, then a few pages every poll_ms.  So a backlog from
 * before is found, and what a lost event told of.
 *
 * Of a queue that is known `look_ns` says when to take of it: at once after an
 * event, after a round that found it and after its last lot; else when
 * something of it that is hidden is due, as an empty answer tells, or every
 * poll_ms while somebody has something of it.  One that has nothing at all is
 * not asked.
 *
 * With one worker a queue the server gives out nothing while a message that was
 * received is in flight, to whomever: so its order is kept, beside other pools
 * of leat as well.  Other programs with redowl take what they like.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "pool/pool.h"
#include "redis/client.h"

#include <stdio.h>
#include <string.h>

enum {
    TURNS = 64,      /* queues in one go                             */
    PAGES = 8,       /* of keys before queues get their turn          */
    FIND_MS = 5000,  /* between two rounds                            */
    WRONG_MS = 5000, /* a queue that cannot be served rests           */
    HIDE_MS = 30000, /* as redowl has it                              */
    REAP = 100,
    ARGS = 10
};

/* One queue, in one go. */
typedef struct owl_turn {
    pool_source *s;
    pool_queue *q;
    leat__key key;
    int asked;
    int64_t asked_ns;
    int64_t next_ms; /* of an empty answer: something is due; -1: nothing */
    bool more;
    leat__list lots;
    leat_bytes args[ARGS];
    char number[LEAT__NUMBER], max[LEAT__NUMBER], hide[LEAT__NUMBER];
    char reap[LEAT__NUMBER], most[LEAT__NUMBER];
} owl_turn;

struct pool_owl {
    leat__finder *finder;
    leat_queue_watch *watch;
    uint64_t number;                  /* of the last call, of any queue  */
    atomic_bool calm;                 /* a round was over, and nothing missed */
    _Atomic int64_t find_ns;          /* the next pages are read then  */
    atomic_bool full_told, slot_told; /* once               */
    owl_turn turns[TURNS];
    queue_call calls[TURNS];
    queue_answer answers[TURNS];
};

/* ---- which queues ----------------------------------------------------- */

/* On a cluster a script needs the keys of its queue in one slot. */
static bool can_be_served(const pool_source *s, const char *name)
{
    leat__key home;
    if (!leat__client_clustered(s->client))
        return true;
    s->profile->home(&home, s->prefix, name);
    return leat__queue_one_slot(&home, name, NULL) == LEAT_OK;
}

static void warn_once(pool_source *s, atomic_bool *told, const char *name,
                      const char *why)
{
    if (!atomic_exchange(told, true))
        leat__log(&s->opts.log, LEAT_LOG_WARN,
                  "pool '%s': queue '%s' is not served: %s", s->prefix, name,
                  why);
}

/* Is it one more than a pool knows? */
static bool too_many(pool_source *s, leat_bytes name)
{
    pthread_mutex_lock(&s->lock);
    bool many = s->queues.count >= POOL_KNOWN_MAX &&
                !leat__map_get(&s->queues, name);
    pthread_mutex_unlock(&s->lock);
    return many;
}

/* There may be something in it.  LEAT_ENOMEM, or it is none that can be served:
 * LEAT_OK. */
static leat_code learn(pool_source *s, leat_bytes name, leat_error *err)
{
    char text[LEAT__QUEUE_NAME_MAX + 1];
    if (name.n == 0 || name.n >= sizeof text)
        return LEAT_OK;
    memcpy(text, name.p, name.n);
    text[name.n] = '\0';
    if (s->profile->check(text, &(leat_queue_opts){ 0 }, NULL) != LEAT_OK)
        return LEAT_OK;
    if (!can_be_served(s, text)) {
        warn_once(s, &s->owl->slot_told, text,
                  "its keys are in different slots of the cluster; a hash tag "
                  "in the name keeps them together");
        return LEAT_OK;
    }
    if (too_many(s, name)) {
        warn_once(s, &s->owl->full_told, text, "there are too many");
        return LEAT_OK;
    }
    pool_queue *q = leat__pool_queue(s, name, err);
    if (!q)
        return LEAT_ENOMEM;
    pthread_mutex_lock(&s->lock);
    q->look_ns = 0;
    q->out--;
    pthread_mutex_unlock(&s->lock);
    return LEAT_OK;
}

static leat_code on_found(void *arg, leat_bytes name, leat_error *err)
{
    return learn(arg, name, err);
}

static bool brings_something(const char *type)
{
    return strcmp(type, "sent") == 0 || strcmp(type, "requeued") == 0 ||
           strcmp(type, "dlq_redriven") == 0;
}

/* On the thread of the watch.  What was missed is found by the next round,
 * which begins at once. */
static void on_event(void *arg, const leat_queue_event *e, bool missed)
{
    pool_source *s = arg;
    if (missed) {
        atomic_store(&s->owl->calm, false);
        atomic_store(&s->owl->find_ns, 0);
    }
    if (!brings_something(e->type))
        return;
    (void)!learn(s, e->queue, NULL); /* without memory a round finds it */
    leat__waiter_poke(s->waiter);
}

/* The first round, and one after events were missed, goes on at once; others
 * read a few pages every poll_ms, however many keys there are. */
static leat_code find(pool_source *s, leat_error *err)
{
    pool_owl *o = s->owl;
    bool over = false;
    if (leat__now_ns() < atomic_load(&o->find_ns))
        return LEAT_OK;
    bool hurry = !atomic_load(&o->calm);
    atomic_store(&o->find_ns, 0);
    atomic_store(&o->calm, true);
    leat_code rc = leat__finder_step(o->finder, PAGES, on_found, s, &over, err);
    if (rc == LEAT_OK && !over && hurry)
        atomic_store(&o->calm, false);
    else
        atomic_store(&o->find_ns, leat__deadline_ns(rc != LEAT_OK || over
                                                        ? FIND_MS
                                                        : s->opts.poll_ms));
    return rc;
}

/* ---- a turn ----------------------------------------------------------- */

static void drop_lots(owl_turn *t)
{
    LEAT__LIST_EACH(&t->lots, at)
    {
        pool_lot *lot = LEAT__ITEM(at, pool_lot, link);
        pthread_mutex_lock(&t->s->lock);
        t->q->out -= (unsigned)lot->n;
        pthread_mutex_unlock(&t->s->lock);
        leat__pool_lot_free(lot);
    }
    leat__list_init(&t->lots);
}

static leat_code read_turn(void *arg, const leat_reply *r, leat_error *err)
{
    owl_turn *t = arg;
    pool_source *s = t->s;
    leat_code rc = leat__queue_expect(r, "[ii(tt)" LEAT__QUEUE_TOLD "]", err);
    if (rc != LEAT_OK)
        return rc;
    drop_lots(t); /* of an answer without proof */
    int64_t first = leat_reply_int(leat_reply_at(r, 0));
    int64_t second = leat_reply_int(leat_reply_at(r, 1));
    t->more = first == 1;
    t->next_ms = first == 2 ? second : -1;
    leat_queue_batch *b = leat__batch_read_as(s->profile, r, false, false, err);
    if (!b)
        return LEAT_ENOMEM;
    if (leat_queue_batch_count(b) == 0) {
        leat_queue_batch_free(b);
        return LEAT_OK;
    }
    return leat__pool_lot_new(s, t->q, b, t->asked_ns + second * 1000000,
                              &t->lots, err)
               ? LEAT_OK
               : LEAT_ENOMEM;
}

static void plan(pool_source *s, owl_turn *t, size_t i, int max, bool crowded)
{
    pool_owl *o = s->owl;
    pool_queue *q = t->q;
    int64_t hide = s->opts.visibility_ms ? s->opts.visibility_ms : HIDE_MS;
    bool ordered = s->base.ordered;
    int n = leat__pool_count_for(s, leat_str(q->name), leat__pool_slice(s),
                                 crowded);
    t->s = s;
    t->asked = n < max ? n : max;
    t->asked_ns = leat__now_ns();
    t->next_ms = -1;
    t->more = false;
    leat__list_init(&t->lots);
    if (!q->doubt)
        q->number = ++o->number;
    q->doubt = true;
    s->profile->home(&t->key, s->prefix, q->name);
    leat_bytes args[ARGS] = {
        leat_str(q->name),
        leat_str(s->lane),
        leat__arg_int(t->number, (int64_t)q->number),
        leat_str(leat__pool_events(s)),
        leat__arg_int(t->max, t->asked),
        leat__arg_int(t->hide, hide),
        leat__arg_int(t->reap, REAP),
        leat_str("0"),
        leat__arg_int(t->most, s->opts.max_receives),
        leat_str(ordered ? "1" : "0"),
    };
    memcpy(t->args, args, sizeof args);
    o->calls[i] = (queue_call){ .client = s->client,
                                .name = q->name,
                                .key = leat__key_bytes(&t->key),
                                .script = s->profile->take,
                                .args = t->args,
                                .n = ARGS,
                                .read = read_turn,
                                .arg = t };
    o->answers[i] = (queue_answer){ .call = &o->calls[i] };
}

static bool has_room(const pool_source *s, const pool_queue *q)
{
    return q->out < (unsigned)s->opts.queue_workers;
}

/* Those whose turn it is, the one that had something longest ago first; told
 * meanwhile they are looked at once more. */
static size_t collect(pool_source *s, size_t queues, bool *crowded)
{
    size_t n = 0;
    int64_t now = leat__now_ns();
    *crowded = false;
    queues = queues < TURNS ? queues : TURNS;
    pthread_mutex_lock(&s->lock);
    LEAT__LIST_EACH(&s->used, at)
    {
        pool_queue *q = LEAT__ITEM(at, pool_queue, link);
        if (q->look_ns > now || !has_room(s, q))
            continue;
        if (n == queues) {
            *crowded = true;
            break;
        }
        s->owl->turns[n++].q = q;
        q->look_ns = INT64_MAX;
    }
    pthread_mutex_unlock(&s->lock);
    return n;
}

static void look_in(pool_source *s, pool_queue *q, int64_t ms)
{
    int64_t at = ms > 0 ? leat__deadline_ns(ms) : 0;
    pthread_mutex_lock(&s->lock);
    if (at < q->look_ns)
        q->look_ns = at;
    leat__pool_use_locked(s, q, q->used_ns); /* behind the others */
    pthread_mutex_unlock(&s->lock);
}

static void after_turn(pool_source *s, owl_turn *t, const queue_answer *a)
{
    int64_t poll = s->opts.poll_ms;
    if (a->rc != LEAT_OK) {
        drop_lots(t);
        if (!a->err.retriable)
            leat__log(&s->opts.log, LEAT_LOG_WARN,
                      "queue '%s' cannot be served: %s", t->q->name,
                      a->err.msg);
        look_in(s, t->q, a->err.retriable ? poll : WRONG_MS);
        return;
    }
    t->q->doubt = false;
    bool some = !leat__list_empty(&t->lots);
    leat__pool_lots_begin(s, &t->lots);
    while (!leat__list_empty(&t->lots))
        leat__list_push(&s->fresh, leat__list_pop(&t->lots));
    if (t->more)
        look_in(s, t->q, 0);
    else if (!some && t->next_ms >= 0)
        look_in(s, t->q, t->next_ms < poll ? t->next_ms : poll);
}

/* Until a queue is to be looked at, or keys. */
static int64_t next_look(pool_source *s)
{
    int64_t at = atomic_load(&s->owl->find_ns);
    pthread_mutex_lock(&s->lock);
    LEAT__LIST_EACH(&s->used, k)
    {
        const pool_queue *q = LEAT__ITEM(k, pool_queue, link);
        if (q->look_ns < at && has_room(s, q))
            at = q->look_ns;
    }
    pthread_mutex_unlock(&s->lock);
    return leat__left_ms(at);
}

int leat__owl_take(pool_source *s, size_t queues, leat_delivery **out, int max,
                   int64_t *again_ms, leat_error *err)
{
    pool_owl *o = s->owl;
    bool crowded;
    *again_ms = 0;
    int n = leat__pool_hand_out(s, out, max);
    if (n > 0)
        return n;
    leat_code found = find(s, err);
    size_t calls = collect(s, queues, &crowded), bad = 0;
    int room = max < POOL_TAKE_MAX ? max : POOL_TAKE_MAX;
    for (size_t i = 0; i < calls; i++)
        plan(s, &o->turns[i], i, room / (int)calls > 0 ? room / (int)calls : 1,
             crowded);
    leat__queue_calls(s->client, o->answers, calls,
                      leat__deadline_ns(s->client->opts.timeout_ms));
    for (size_t i = 0; i < calls; i++) {
        after_turn(s, &o->turns[i], &o->answers[i]);
        bad += o->answers[i].rc != LEAT_OK && o->answers[i].err.retriable;
        if (o->answers[i].rc != LEAT_OK && found == LEAT_OK && err)
            *err = o->answers[i].err;
    }
    n = leat__pool_hand_out(s, out, max);
    if (n == 0 && (found != LEAT_OK || (calls > 0 && bad == calls)))
        return -1;
    *again_ms = next_look(s);
    return n;
}

/* ---- its life --------------------------------------------------------- */

leat_code leat__owl_open(pool_source *s, leat_error *err)
{
    leat_queue_opts o = { .prefix = s->prefix, .profile = s->opts.profile };
    s->owl = leat__zalloc(sizeof *s->owl, err);
    if (!s->owl)
        return LEAT_ENOMEM;
    s->owl->finder = leat__finder_new(s->client, s->prefix, err);
    if (!s->owl->finder)
        return LEAT_ENOMEM;
    s->owl->watch = leat_queue_watch_open(s->client, NULL, &o, false, on_event,
                                          s, err);
    return s->owl->watch ? LEAT_OK : LEAT_ENOMEM;
}

void leat__owl_close(pool_source *s)
{
    if (!s->owl)
        return;
    leat_queue_watch_close(s->owl->watch);
    leat__finder_free(s->owl->finder);
    leat__free(s->owl);
    s->owl = NULL;
}
