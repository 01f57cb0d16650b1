/*
 * producer.c: sending a topic's messages.
 *
 *   publish -> encoded into the backlog -> given to the connection -> answered
 *                  head    told   next   sent, unanswered   tail   accepted
 *
 * Publishing encodes the command in place, under one lock (producer_accept.c).
 * A message that finds little under way is written to the socket by its own
 * thread.  Otherwise it waits for the sender, a thread that reads answers and
 * sends what has gathered meanwhile (producer_run.c): the busier, the larger
 * its batches, and nobody has to wake it, since an answer does.
 *
 * The bytes stay in the backlog until the outcome is known.  When a connection
 * breaks, what left is unknown, and what certainly did not leave is simply not
 * sent yet: it goes out on the next connection, in the same order.  So does
 * what a server refused because it does not have the partition now or cannot
 * serve it.
 *
 * On one server a topic has one producer; on a cluster each partition its own,
 * with a connection to where the partition is (lanes.c).
 *
 * Outcomes are noted where the answer is read, by whichever thread, and told by
 * the sender alone, in order, outside all locks: a callback may publish.
 *
 * Locks: `io` before `lock`; callbacks and waits hold neither.
 */
#include "topic/producer.h"
#include "base/fork.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/thread.h"
#include "redis/client.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { FIRST_RETRY_MS = 25, MAX_WINDOW = 1 << 20 };

static leat_code meter(leat__producer *p, leat_error *err)
{
    static const char *const names[] = { "ok", "failed", "unknown" };
    leat_metrics *registry = p->opts->metrics;
    leat_label labels[] = {
        { "messaging_system", "leat" },
        { "messaging_destination_name", p->topic->name },
        { "result", NULL },
    };
    if (!registry)
        return LEAT_OK;
    p->queued = leat_metrics_gauge(registry, "leat_topic_queued_messages",
                                   "Messages accepted and without outcome.",
                                   labels, 2, err);
    if (!p->queued)
        return LEAT_ENOMEM;
    for (int i = 0; i < LEAT__OUTCOMES; i++) {
        labels[2].value = names[i];
        p->outcomes[i] = leat_metrics_counter(
            registry, "messaging_client_sent_messages_total",
            "Messages sent, by result.", labels, 3, err);
        if (!p->outcomes[i])
            return LEAT_ENOMEM;
    }
    return LEAT_OK;
}

static leat_code make_window(leat__producer *p, leat_error *err)
{
    uint64_t n = 32;
    while (n < 2 * (uint64_t)p->opts->window && n < 2 * MAX_WINDOW)
        n *= 2;
    p->mask = n - 1;
    p->verdicts = leat__calloc(n, sizeof *p->verdicts, err);
    return p->verdicts ? LEAT_OK : LEAT_ENOMEM;
}

static leat_code make_memory(leat__producer *p, leat_error *err)
{
    leat_code rc = make_window(p, err);
    if (rc == LEAT_OK)
        rc = leat__backlog_init(&p->backlog, err);
    if (rc != LEAT_OK)
        return rc;
    p->sent = p->told = leat__backlog_end(&p->backlog);
    p->heads = leat__calloc(p->span, sizeof *p->heads, err);
    p->fields = p->heads ? leat_fields_new(err) : NULL;
    if (!p->fields)
        return LEAT_ENOMEM;
    p->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (p->event < 0)
        return leat__fail_errno(err, LEAT_EIO, errno, "eventfd");
    rc = leat__loss_new(p->topic, p->first, p->span, &p->loss, err);
    return rc == LEAT_OK ? meter(p, err) : rc;
}

void leat__producer_free(leat__producer *p)
{
    leat__loss_free(p->loss);
    if (p->event >= 0)
        close(p->event);
    for (uint32_t i = 0; p->heads && i < p->span; i++)
        leat__free((void *)p->heads[i].p);
    leat__free(p->heads);
    leat__ripening_release(&p->ripening);
    leat_fields_free(p->fields);
    leat__backlog_release(&p->backlog);
    leat__free(p->verdicts);
    leat__uuid7_release(&p->uuids);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->room);
    pthread_mutex_destroy(&p->io);
    pthread_mutex_destroy(&p->lock);
    leat__free(p);
}

static leat__producer *producer_new(leat_topic *t, leat_error *err)
{
    leat__producer *p = leat__zalloc(sizeof *p, err);
    if (!p)
        return NULL;
    if (leat__cond_init(&p->room, err) != LEAT_OK)
        goto no_room;
    if (leat__cond_init(&p->done, err) != LEAT_OK)
        goto no_done;
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_init(&p->io, NULL);
    leat__uuid7_init(&p->uuids);
    p->topic = t;
    p->client = t->client;
    p->opts = &t->opts;
    p->event = -1;
    p->flush_at = UINT64_MAX;
    p->wait = (leat__backoff){ .base_ms = FIRST_RETRY_MS,
                               .cap_ms = t->client->opts.max_retry_ms };
    leat__fail(&p->why, LEAT_ECONN, "not connected yet");
    return p;

no_done:
    pthread_cond_destroy(&p->room);
no_room:
    leat__free(p);
    return NULL;
}

leat__producer *leat__producer_open(leat_topic *t, uint32_t first,
                                    uint32_t span, leat__quota *q,
                                    leat_error *err)
{
    leat__producer *p = producer_new(t, err);
    if (!p)
        return NULL;
    leat_retention r;
    p->first = first;
    p->span = span;
    p->quota = q;
    leat__topic_retention(t, &r);
    leat__producer_policy_locked(p, &r); /* nobody else has it yet */
    if (make_memory(p, err) == LEAT_OK &&
        leat__ripening_init(&p->ripening, t, first, span, err) == LEAT_OK &&
        leat__thread_start(&p->thread, "leat-producer", leat__producer_run, p,
                           err) == LEAT_OK)
        return p;
    leat__producer_free(p);
    return NULL;
}

void leat__producer_stop(leat__producer *p)
{
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_broadcast(&p->room);
    pthread_mutex_unlock(&p->lock);
    leat__producer_poke(p);
}

void leat__producer_end(leat__producer *p)
{
    pthread_join(p->thread, NULL);
    leat__producer_finish(p);
}

/* ---- flushing --------------------------------------------------------- */

/* Wait until head has reached `until`.  Who waits for less than the others
 * lowers the mark at which they are all woken. */
static bool reach_locked(leat__producer *p, uint64_t until, int64_t deadline_ns)
{
    while (p->head < until) {
        if (until < p->flush_at)
            p->flush_at = until;
        if (!leat__cond_wait(&p->done, &p->lock, deadline_ns) &&
            p->head < until)
            return false;
    }
    return true;
}

void leat__producer_hurry(leat__producer *p)
{
    pthread_mutex_lock(&p->lock);
    uint64_t until = p->tail;
    bool lingers = p->hurry < until && p->next < until && p->opts->linger_ms;
    p->hurry = until;
    pthread_mutex_unlock(&p->lock);
    if (lingers)
        leat__producer_poke(p);
}

uint64_t leat__producer_settled(leat__producer *p, int64_t deadline_ns)
{
    pthread_mutex_lock(&p->lock);
    uint64_t until = p->tail;
    uint64_t left = reach_locked(p, until, deadline_ns) ? 0 : until - p->head;
    pthread_mutex_unlock(&p->lock);
    return left;
}

void leat__producer_failure(leat__producer *p, leat_error *out)
{
    pthread_mutex_lock(&p->lock);
    *out = p->failed;
    p->failed = (leat_error){ 0 };
    pthread_mutex_unlock(&p->lock);
}
