/*
 * hold.c: a thread that keeps messages hidden while they are worked on.
 *
 * One for a queue handle, begun with the first hold.  It extends what is due,
 * many in one script where their times are equal.  A hold that cannot be
 * extended is tried again until its time is over; then it counts as lost, as
 * somebody else may have the message.
 */
#include "base/mem.h"
#include "base/system.h"
#include "base/thread.h"
#include "queue/queue.h"

#include <string.h>

enum { AT_ONCE = 100, RETRIES = 10, MS = 1000000 };

struct leat_queue_hold {
    leat__link link;
    leat_queue *q;
    int64_t ms;
    int64_t next_ns;  /* when it is extended         */
    int64_t until_ns; /* it is hidden until then     */
    bool busy;        /* it is being extended        */
    bool lost;
    leat_bytes receipt;
    char bytes[];
};

struct queue_holder {
    leat_queue *q;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    leat__list holds;
    bool ending;
};

/* ---- the thread ------------------------------------------------------- */

typedef struct hold_lot {
    size_t n;
    leat_queue_hold *hold[AT_ONCE];
    leat_bytes receipt[AT_ONCE];
    leat_code outcome[AT_ONCE];
} hold_lot;

static void collect_locked(queue_holder *h, hold_lot *lot, int64_t now)
{
    lot->n = 0;
    LEAT__LIST_EACH(&h->holds, at)
    {
        leat_queue_hold *one = LEAT__ITEM(at, leat_queue_hold, link);
        if (one->lost || one->next_ns > now || lot->n == AT_ONCE ||
            (lot->n > 0 && one->ms != lot->hold[0]->ms))
            continue;
        one->busy = true;
        lot->hold[lot->n] = one;
        lot->outcome[lot->n] = LEAT_EUNKNOWN;
        lot->receipt[lot->n++] = one->receipt;
    }
}

static int64_t due_locked(const queue_holder *h)
{
    int64_t at = INT64_MAX;
    LEAT__LIST_EACH(&h->holds, k)
    {
        const leat_queue_hold *one = LEAT__ITEM(k, leat_queue_hold, link);
        if (!one->lost && one->next_ns < at)
            at = one->next_ns;
    }
    return at;
}

/* asked_ns: before the server was asked. */
static void note(leat_queue_hold *one, leat_code outcome, int64_t asked_ns)
{
    int64_t now = leat__now_ns();
    if (outcome == LEAT_OK) {
        one->until_ns = asked_ns + one->ms * MS;
        one->next_ns = asked_ns + one->ms * MS / 3;
    } else if (outcome == LEAT_ESTALE || now >= one->until_ns) {
        one->lost = true;
    } else {
        one->next_ns = now + one->ms * MS / 3 / RETRIES;
    }
}

static void extend(queue_holder *h, hold_lot *lot)
{
    int64_t asked = leat__now_ns(), ms = lot->hold[0]->ms;
    pthread_mutex_unlock(&h->lock);
    (void)leat__queue_change(h->q, QUEUE_HIDE, lot->receipt, lot->n, ms,
                             asked + ms * MS / 3, lot->outcome, NULL);
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < lot->n; i++) {
        note(lot->hold[i], lot->outcome[i], asked);
        lot->hold[i]->busy = false;
    }
    pthread_cond_broadcast(&h->changed);
}

static void *run(void *arg)
{
    queue_holder *h = arg;
    hold_lot lot;
    pthread_mutex_lock(&h->lock);
    while (!h->ending) {
        collect_locked(h, &lot, leat__now_ns());
        if (lot.n > 0)
            extend(h, &lot);
        else
            leat__cond_wait(&h->changed, &h->lock, due_locked(h));
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

/* ---- its life --------------------------------------------------------- */

static void holder_free(queue_holder *h)
{
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    leat__free(h);
}

static queue_holder *holder_open(leat_queue *q, leat_error *err)
{
    queue_holder *h = leat__zalloc(sizeof *h, err);
    if (!h)
        return NULL;
    if (leat__cond_init(&h->changed, err) != LEAT_OK) {
        leat__free(h);
        return NULL;
    }
    h->q = q;
    pthread_mutex_init(&h->lock, NULL);
    leat__list_init(&h->holds);
    if (leat__thread_start(&h->thread, "leat-holder", run, h, err) != LEAT_OK) {
        holder_free(h);
        return NULL;
    }
    return h;
}

static queue_holder *holder_of(leat_queue *q, leat_error *err)
{
    pthread_mutex_lock(&q->lock);
    if (!q->holder)
        q->holder = holder_open(q, err);
    queue_holder *h = q->holder;
    pthread_mutex_unlock(&q->lock);
    return h;
}

void leat__holder_close(leat_queue *q)
{
    queue_holder *h = q->holder;
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->ending = true;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    q->holder = NULL;
    holder_free(h);
}

/* ---- holds ------------------------------------------------------------ */

static leat_queue_hold *hold_new(leat_queue *q, leat_bytes receipt, int64_t ms,
                                 leat_error *err)
{
    leat_queue_hold *h = leat__zalloc(sizeof *h + receipt.n, err);
    if (!h)
        return NULL;
    if (receipt.n > 0)
        memcpy(h->bytes, receipt.p, receipt.n);
    h->receipt = leat_mem(h->bytes, receipt.n);
    h->q = q;
    h->ms = ms;
    if (ms == 0) {
        pthread_mutex_lock(&q->lock);
        h->ms = q->kept.visibility_ms;
        pthread_mutex_unlock(&q->lock);
    }
    return h;
}

leat_queue_hold *leat_queue_hold_start(leat_queue *q, leat_bytes receipt,
                                       int64_t ms, leat_error *err)
{
    if (leat__queue_own(q, err) != LEAT_OK)
        return NULL;
    if (ms < 0 || ms > q->profile->hide_max_ms) {
        leat__fail(
            err, LEAT_EINVAL, "a visibility of %lld ms: use 0 to %lld hours",
            (long long)ms, (long long)(q->profile->hide_max_ms / 3600000));
        return NULL;
    }
    queue_holder *to = holder_of(q, err);
    leat_queue_hold *h = to ? hold_new(q, receipt, ms, err) : NULL;
    if (!h)
        return NULL;
    int64_t asked = leat__now_ns();
    if (leat__queue_change(q, QUEUE_HIDE, &h->receipt, 1, h->ms, 0, NULL,
                           err) != LEAT_OK) {
        leat__free(h);
        return NULL;
    }
    pthread_mutex_lock(&to->lock);
    note(h, LEAT_OK, asked);
    leat__list_push(&to->holds, &h->link);
    pthread_cond_broadcast(&to->changed);
    pthread_mutex_unlock(&to->lock);
    return h;
}

bool leat_queue_hold_lost(leat_queue_hold *h)
{
    queue_holder *in = h->q->holder;
    pthread_mutex_lock(&in->lock);
    bool lost = h->lost || leat__now_ns() >= h->until_ns;
    pthread_mutex_unlock(&in->lock);
    return lost;
}

/* An extension under way is waited for: the caller may hide it anew. */
void leat_queue_hold_end(leat_queue_hold *h)
{
    if (!h || leat__queue_own(h->q, NULL) != LEAT_OK)
        return;
    queue_holder *in = h->q->holder;
    pthread_mutex_lock(&in->lock);
    while (h->busy)
        leat__cond_wait(&in->changed, &in->lock, INT64_MAX);
    leat__link_remove(&h->link);
    pthread_mutex_unlock(&in->lock);
    leat__free(h);
}
