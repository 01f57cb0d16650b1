/*
 * source_settle.c: a thread that sends settlements.
 *
 * What was settled while a script was under way goes with the next one, so that
 * under load many go together and a single one does not wait.  Each script
 * takes those of one kind: all acks, all nacks of one delay, and so on.
 */
#include "base/log.h"
#include "base/system.h"
#include "base/thread.h"
#include "queue/source.h"

#include <string.h>

enum { LOT = 256, TRY_MS = 10 * 1000, RELEASE_MS = 2000 };

/* One script's worth, all alike. */
typedef struct settle_lot {
    size_t n;
    source_slot *slot[LOT];
    leat_bytes receipt[LOT];
    leat_code outcome[LOT];
} settle_lot;

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool alike(const source_slot *a, const source_slot *b)
{
    return a->verdict == b->verdict && same_text(a->reason, b->reason) &&
           (a->verdict != LEAT__SETTLE_NACK || a->delay_ms == b->delay_ms);
}

/* Take those that are like the first out of the line. */
static bool collect_locked(queue_source *s, settle_lot *l)
{
    source_slot *first = s->first, **at = &s->first, *kept = NULL;
    l->n = 0;
    while (*at && l->n < LOT) {
        source_slot *slot = *at;
        if (alike(slot, first)) {
            *at = slot->next;
            l->slot[l->n] = slot;
            l->outcome[l->n] = LEAT_EUNKNOWN;
            l->receipt[l->n++] = slot->receipt;
        } else {
            kept = slot;
            at = &slot->next;
        }
    }
    if (!*at)
        s->last = kept;
    return l->n > 0;
}

static leat_code send_lot(queue_source *s, settle_lot *l, int64_t deadline_ns,
                          leat_error *err)
{
    const source_slot *first = l->slot[0];
    queue_order o = { .how = QUEUE_FREE };
    switch (first->verdict) {
    case LEAT__SETTLE_ACK:
        return leat__queue_ack(s->q, l->receipt, l->n, deadline_ns, l->outcome,
                               err);
    case LEAT__SETTLE_COMMITTED:
        for (size_t i = 0; i < l->n; i++)
            l->outcome[i] = LEAT_OK;
        return LEAT_OK;
    case LEAT__SETTLE_NACK:
        o = leat__queue_failed(s->q, first->delay_ms, first->reason);
        break;
    case LEAT__SETTLE_REJECT:
        o = (queue_order){ .how = QUEUE_BURY, .reason = first->reason };
        break;
    case LEAT__SETTLE_RELEASE:
        break;
    }
    o.deadline_ns = deadline_ns;
    return leat__queue_settle(s->q, &o, l->receipt, l->n, l->outcome, err);
}

static void tell(queue_source *s, settle_lot *l, const leat_error *e)
{
    for (size_t i = 0; i < l->n; i++)
        leat__source_settled(&s->base, &l->slot[i]->d,
                             l->outcome[i] == LEAT_OK ? NULL : e);
    pthread_mutex_lock(&s->lock);
    leat__outcomes_came(&s->outcomes, l->n, e);
    pthread_cond_signal(&s->room);
    pthread_mutex_unlock(&s->lock);
}

void *leat__queue_settler(void *source)
{
    queue_source *s = source;
    settle_lot l;
    pthread_mutex_lock(&s->lock);
    while (!s->closing || s->first) {
        if (!collect_locked(s, &l)) {
            leat__cond_wait(&s->work, &s->lock, INT64_MAX);
            continue;
        }
        int64_t ms = s->closing ? RELEASE_MS : TRY_MS;
        pthread_mutex_unlock(&s->lock);
        leat_error e = { 0 };
        (void)send_lot(s, &l, leat__deadline_ns(ms), &e);
        tell(s, &l, &e);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Unless it failed before. */
static leat_code give_back(queue_source *s, const leat_bytes *receipts,
                           size_t n, int64_t deadline_ns, leat_code before)
{
    if (before != LEAT_OK)
        return before;
    leat_code rc = leat__queue_change(s->q, QUEUE_FREE, receipts, n, 0,
                                      deadline_ns, NULL, NULL);
    return rc == LEAT_ESTALE ? LEAT_OK : rc;
}

void leat__queue_release(queue_source *s)
{
    leat_bytes receipts[LOT];
    int64_t deadline = leat__deadline_ns(RELEASE_MS);
    size_t n = 0;
    leat_code rc = LEAT_OK;
    LEAT__LIST_EACH(&s->lots, at)
    {
        source_lot *lot = LEAT__ITEM(at, source_lot, link);
        for (size_t i = 0; i < lot->n; i++) {
            if (!lot->slots[i].out)
                continue;
            receipts[n++] = lot->slots[i].receipt;
            if (n < LOT)
                continue;
            rc = give_back(s, receipts, n, deadline, rc);
            n = 0;
        }
    }
    if (n > 0)
        rc = give_back(s, receipts, n, deadline, rc);
    if (rc != LEAT_OK)
        leat__log(&s->q->opts.log, LEAT_LOG_INFO,
                  "queue '%s': what was out comes back when its time is over",
                  s->q->name);
}
