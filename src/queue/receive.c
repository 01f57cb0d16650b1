/*
 * receive.c: messages out of a queue, and waiting for them.
 *
 * Whoever finds nothing waits for a hint on the list's channel: one connection
 * of the client listens for all of them (redis/waker.h).  The hint comes when
 * the list stops being empty, so that who looked before it and waits after it
 * is told, and it is also given when some may have been missed.  The floor is
 * for a server that lets nobody publish, and for other programs that do not.
 *
 * What is delayed or in flight does not come back by itself: an empty answer
 * says when the next deadline of the shard is over, and whoever waits looks
 * then and gives it back himself, whether a reaper lives or not.  A delay that
 * ends before the floor does is hinted when it is sent.
 */
#include "base/mem.h"
#include "base/system.h"
#include "queue/queue.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { REAP = 100, ARGS = 10 };

/* ---- one look --------------------------------------------------------- */

typedef struct taking {
    leat_queue *q;
    leat_queue_batch *batch;
    int64_t hidden_ms, asked_ns;
    int64_t next_ms; /* something may come back then; -1: nothing known */
    bool dead;
    bool more; /* there may be some, though none came */

    const atomic_bool *stop; /* the source's; NULL: the queue's interrupts */
    unsigned before;         /* interrupts that are not meant for this one */
    int cancel_fd;
} taking;

static leat_code read_taken(void *arg, const leat_reply *r, leat_error *err)
{
    taking *t = arg;
    leat_code rc = leat__queue_expect(r,
                                      t->dead
                                          ? "[i]|[ii(ttt)" LEAT__QUEUE_TOLD "]"
                                          : "[i]|[ii(tt)" LEAT__QUEUE_TOLD "]",
                                      err);
    if (rc != LEAT_OK)
        return rc;
    int64_t first = leat_reply_int(leat_reply_at(r, 0));
    if (first < 0 || first > 2 || leat_reply_len(r) < 2)
        return leat__queue_refused(t->q, r, err);
    int64_t second = leat_reply_int(leat_reply_at(r, 1));
    t->more = first == 1;
    t->next_ms = first == 2 ? second : -1;
    t->hidden_ms = second;
    leat_queue_batch_free(t->batch); /* of an answer without proof */
    t->batch = leat__batch_read_as(t->q->profile, r, t->q->fifo, t->dead, err);
    return t->batch ? LEAT_OK : LEAT_ENOMEM;
}

/* What the handle knows and a queue without settings has to be told. */
static int64_t own_settings(leat_queue *q, int64_t visibility_ms, int *most)
{
    pthread_mutex_lock(&q->lock);
    *most = q->kept.max_receives;
    if (visibility_ms == 0 && !q->profile->kept)
        visibility_ms = q->kept.visibility_ms;
    pthread_mutex_unlock(&q->lock);
    return visibility_ms;
}

static leat_code take_apart(taking *t, int max, int64_t ms, leat_error *err)
{
    leat_error e = { 0 };
    t->asked_ns = leat__now_ns();
    t->hidden_ms = ms;
    t->batch = leat__apart_take(t->q, max, ms, &e);
    if (!t->batch && err)
        *err = e;
    return t->batch ? LEAT_OK : e.code;
}

static leat_code take_once(taking *t, const leat_receive_opts *o,
                           leat_error *err)
{
    leat_queue *q = t->q;
    char number[LEAT__NUMBER], max[LEAT__NUMBER], hide[LEAT__NUMBER];
    char reap[LEAT__NUMBER], receives[LEAT__NUMBER], again[] = "0";
    /* redowl's receive does it, too, whatever its reaper is set to. */
    bool reaps = !q->opts.no_reaper || !q->profile->kept;
    int most;
    int64_t ms = own_settings(q, o->visibility_ms, &most);
    if (q->apart && !o->dead)
        return take_apart(t, o->max, ms, err);
    queue_line line = o->dead ? QUEUE_TAKE_DEAD : QUEUE_TAKE;
    queue_lane *lane = leat__lane_take_for(q, line, o->max, err);
    if (!lane)
        return LEAT_ENOMEM;
    leat_bytes args[ARGS] = {
        leat_str(q->name),
        leat_str(lane->name),
        leat__arg_int(number, (int64_t)lane->number),
        leat_str(leat__queue_telling(q)),
        leat__arg_int(max, o->max),
        leat__arg_int(hide, ms),
        leat__arg_int(reap, reaps ? REAP : 0),
        leat_str(o->dead ? "1" : "0"),
        leat__arg_int(receives, most),
        leat_str("0"), /* whether in order or not */
    };
    bool doubt = lane->doubt;
    leat_code rc = leat__queue_ask(q, q->profile->take, args, ARGS, again, 0,
                                   read_taken, t, err);
    /* What an earlier try was given may have run out. */
    t->more |= doubt || again[0] == '1';
    t->asked_ns = lane->asked_ns;
    leat__lane_give(q, line, lane, rc != LEAT_OK);
    if (rc != LEAT_OK) {
        leat_queue_batch_free(t->batch);
        t->batch = NULL;
    }
    return rc;
}

/* ---- waiting ---------------------------------------------------------- */

static queue_wait *unused_locked(leat_queue *q, bool dead)
{
    LEAT__LIST_EACH(&q->waits, at)
    {
        queue_wait *w = LEAT__ITEM(at, queue_wait, link);
        if (!w->used && w->dead == dead)
            return w;
    }
    return NULL;
}

static queue_wait *wait_new(leat_queue *q, bool dead, leat_error *err)
{
    leat__key channel;
    const queue_profile *p = q->profile;
    leat__waker *waker = leat__client_waker(q->client, err);
    queue_wait *w = waker ? leat__zalloc(sizeof *w, err) : NULL;
    if (!w)
        return NULL;
    p->key(&channel, q->prefix, q->name, dead ? p->dead_channel : p->channel);
    w->waiter = leat__waiter_open(waker, leat__key_bytes(&channel), err);
    if (w->waiter)
        leat__waiter_hears(w->waiter, dead ? p->hears_dead : p->hears);
    w->dead = dead;
    w->event = -1;
    if (!w->waiter) {
        leat__free(w);
        return NULL;
    }
    return w;
}

static queue_wait *wait_take(leat_queue *q, bool dead, leat_error *err)
{
    pthread_mutex_lock(&q->lock);
    queue_wait *w = unused_locked(q, dead);
    if (w)
        w->used = true;
    pthread_mutex_unlock(&q->lock);
    if (w)
        return w;
    w = wait_new(q, dead, err);
    if (!w)
        return NULL;
    w->used = true;
    pthread_mutex_lock(&q->lock);
    leat__list_push(&q->waits, &w->link);
    pthread_mutex_unlock(&q->lock);
    return w;
}

static void wait_give(leat_queue *q, queue_wait *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&q->lock);
    w->used = false;
    pthread_mutex_unlock(&q->lock);
}

void leat__waits_free(leat_queue *q)
{
    LEAT__LIST_EACH(&q->waits, at)
    {
        queue_wait *w = LEAT__ITEM(at, queue_wait, link);
        leat__waiter_close(w->waiter);
        if (w->event >= 0)
            close(w->event);
        leat__free(w);
    }
    leat__list_init(&q->waits);
}

/* With a descriptor to be watched the waiter tells by one, too. */
static leat_code wait_for(queue_wait *w, int cancel_fd, int64_t ms,
                          leat_error *err)
{
    if (cancel_fd == 0) {
        (void)leat__waiter_wait(w->waiter, ms);
        return LEAT_OK;
    }
    if (w->event < 0) {
        w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (w->event < 0)
            return leat__fail_errno(err, LEAT_EIO, errno, "eventfd");
        leat__waiter_tell(w->waiter, w->event);
    }
    struct pollfd p[] = { { .fd = w->event, .events = POLLIN },
                          { .fd = cancel_fd, .events = POLLIN } };
    if (leat__sys->poll(leat__sys->arg, p, 2, ms * 1000000) < 0 &&
        errno != EINTR)
        return leat__fail_errno(err, LEAT_EIO, errno, "cannot poll");
    uint64_t told;
    ssize_t n = read(w->event, &told, sizeof told);
    (void)n; /* nothing there: it was the other one, or the time */
    (void)leat__waiter_wait(w->waiter, 0);
    return LEAT_OK;
}

/* ---- ending a wait early ---------------------------------------------- */

static void poke_locked(leat_queue *q)
{
    LEAT__LIST_EACH(&q->waits, at)
    leat__waiter_poke(LEAT__ITEM(at, queue_wait, link)->waiter);
}

/* Where nobody waits it is kept for the next who would. */
void leat_queue_interrupt(leat_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->interrupts++;
    q->interrupt_kept = q->receiving == 0;
    poke_locked(q);
    pthread_mutex_unlock(&q->lock);
}

void leat__queue_poke(leat_queue *q)
{
    pthread_mutex_lock(&q->lock);
    poke_locked(q);
    pthread_mutex_unlock(&q->lock);
}

/* An interrupt that was kept is not for who does not wait. */
static void begin_receive(taking *t, bool waits)
{
    leat_queue *q = t->q;
    pthread_mutex_lock(&q->lock);
    t->before = q->interrupts;
    if (waits) {
        t->before -= q->interrupt_kept;
        q->interrupt_kept = false;
        q->receiving++;
    }
    pthread_mutex_unlock(&q->lock);
}

static void end_receive(taking *t, bool waits)
{
    pthread_mutex_lock(&t->q->lock);
    t->q->receiving -= waits;
    pthread_mutex_unlock(&t->q->lock);
}

static bool readable(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    return leat__sys->poll(leat__sys->arg, &p, 1, 0) != 0;
}

static bool stopped(const taking *t)
{
    if (t->cancel_fd != 0 && readable(t->cancel_fd))
        return true;
    if (t->stop)
        return atomic_load(t->stop);
    pthread_mutex_lock(&t->q->lock);
    bool stop = t->q->interrupts != t->before;
    pthread_mutex_unlock(&t->q->lock);
    return stop;
}

/* ---- receive ---------------------------------------------------------- */

static leat_code check(leat_queue *q, leat_receive_opts *o, leat_error *err)
{
    leat_code rc = leat__queue_own(q, err);
    if (rc != LEAT_OK)
        return rc;
    if (o->max < 0 || o->max > LEAT_QUEUE_BATCH)
        return leat__fail(err, LEAT_EINVAL,
                          "receive %d messages: ask for 1 to %d", o->max,
                          LEAT_QUEUE_BATCH);
    int64_t longest = q->profile->hide_max_ms;
    if (o->wait_ms < 0 || o->visibility_ms < 0 || o->visibility_ms > longest)
        return leat__fail(err, LEAT_EINVAL,
                          "a wait of %lld ms and a visibility of %lld ms: "
                          "neither is negative, the latter up to %lld hours",
                          (long long)o->wait_ms, (long long)o->visibility_ms,
                          (long long)(longest / 3600000));
    o->max = o->max ? o->max : 1;
    if (q->fifo && o->max > LEAT__QUEUE_LOT)
        o->max = LEAT__QUEUE_LOT;
    return LEAT_OK;
}

static int64_t pause_of(const taking *t, int64_t left)
{
    int64_t ms = t->q->profile->floor_ms;
    if (t->next_ms >= 0 && t->next_ms < ms)
        ms = t->next_ms;
    return left < ms ? left : ms;
}

/* Until there is something, the time is over or somebody interrupts. */
static leat_code look_and_wait(taking *t, const leat_receive_opts *o,
                               leat_error *err)
{
    int64_t deadline = leat__deadline_ns(o->wait_ms);
    queue_wait *w = NULL;
    leat_code rc;
    for (;;) {
        rc = take_once(t, o, err);
        int64_t left = leat__left_ms(deadline);
        if (rc != LEAT_OK || leat_queue_batch_count(t->batch) > 0 ||
            (left == 0 && !t->more) || stopped(t))
            break;
        if (t->more) {
            leat_queue_batch_free(t->batch);
            t->batch = NULL;
            continue;
        }
        if (!w && !(w = wait_take(t->q, o->dead, err))) {
            leat_queue_batch_free(t->batch);
            rc = LEAT_ENOMEM;
            break;
        }
        if (stopped(t)) /* before the waiter was there to be poked */
            break;
        rc = wait_for(w, t->cancel_fd, pause_of(t, left), err);
        leat_queue_batch_free(t->batch);
        t->batch = NULL;
        if (rc != LEAT_OK)
            break;
    }
    wait_give(t->q, w);
    return rc;
}

static leat_code receive(taking *t, const leat_receive_opts *o, leat_error *err)
{
    bool waits = !t->stop && o->wait_ms > 0;
    begin_receive(t, waits);
    leat_code rc = look_and_wait(t, o, err);
    end_receive(t, waits);
    return rc;
}

leat_queue_batch *leat__queue_take(leat_queue *q, const leat_receive_opts *o,
                                   const atomic_bool *stop, int64_t *until_ns,
                                   leat_error *err)
{
    leat_receive_opts own = o ? *o : (leat_receive_opts){ 0 };
    taking t = {
        .q = q, .dead = own.dead, .stop = stop, .cancel_fd = own.cancel_fd
    };
    if (check(q, &own, err) != LEAT_OK || receive(&t, &own, err) != LEAT_OK)
        return NULL;
    if (until_ns)
        *until_ns = t.asked_ns + t.hidden_ms * 1000000;
    if (leat_queue_batch_count(t.batch) > 0) {
        leat__batch_until(t.batch, leat__date_ms() + t.hidden_ms -
                                       (leat__now_ns() - t.asked_ns) / 1000000);
        leat__reaper_tell(q, t.hidden_ms);
    }
    leat_counter_add(q->meters.received, leat_queue_batch_count(t.batch));
    return t.batch;
}

leat_queue_batch *leat_queue_receive(leat_queue *q,
                                     const leat_receive_opts *opts,
                                     leat_error *err)
{
    return leat__queue_take(q, opts, NULL, NULL, err);
}

leat_queue_batch *leat_queue_peek(leat_queue *q, int max, bool dead,
                                  leat_error *err)
{
    char number[LEAT__NUMBER];
    leat_receive_opts o = { .max = max };
    taking t = { .q = q, .dead = dead };
    if (check(q, &o, err) != LEAT_OK)
        return NULL;
    leat_bytes args[] = { leat_str(q->name), leat__arg_int(number, o.max),
                          leat_str(dead ? "1" : "0") };
    if (leat__queue_ask(q, q->profile->peek, args, 3, NULL, 0, read_taken, &t,
                        err) == LEAT_OK)
        return t.batch;
    leat_queue_batch_free(t.batch);
    return NULL;
}
