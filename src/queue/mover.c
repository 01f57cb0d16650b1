/*
 * mover.c: dead letters to another queue.
 *
 * They may live in different slots, so it is no script: each is received from
 * the dead letters, sent, and acknowledged.  Whoever is stopped in between
 * leaves it hidden for a while; it is then sent again under the same dedup id,
 * which the other queue remembers for its window, and so stands there once.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "queue/queue.h"

#include <stdio.h>
#include <string.h>

enum { LOT = 100, HIDDEN_MS = 30 * 1000, EXTRA = 3 };

static bool target_of(leat_queue *q, char name[LEAT_NAME_MAX + 1])
{
    pthread_mutex_lock(&q->lock);
    bool there = q->dead_queue != NULL;
    snprintf(name, LEAT_NAME_MAX + 1, "%s", there ? q->dead_queue : "");
    pthread_mutex_unlock(&q->lock);
    return there;
}

bool leat__mover_wanted(leat_queue *q)
{
    char name[LEAT_NAME_MAX + 1];
    return target_of(q, name);
}

/* The message with where it comes from added. */
typedef struct letter {
    leat_header *headers;
    char receives[LEAT__NUMBER];
    char dedup[LEAT__SHA256_TEXT + 1];
} letter;

static leat_code address(const leat_queue *q, const leat_queue_item *it,
                         letter *l, leat_msg *m, leat_queue_send_opts *o,
                         leat_error *err)
{
    char text[LEAT_NAME_MAX + LEAT__QUEUE_ID_MAX + 40];
    leat_bytes id = it->msg.id, group = leat_str(q->name);
    size_t n = it->msg.header_count;
    *m = it->msg;
    l->headers = leat__calloc(n + EXTRA, sizeof *l->headers, err);
    if (!l->headers)
        return LEAT_ENOMEM;
    for (size_t i = 0; i < n; i++)
        l->headers[i] = it->msg.headers[i];
    l->headers[n] = (leat_header){ leat_str("leat-dead-from"),
                                   leat_str(q->name) };
    l->headers[n + 1] = (leat_header){
        leat_str("leat-dead-receives"), leat__arg_int(l->receives, it->receives)
    };
    l->headers[n + 2] = (leat_header){ leat_str("leat-dead-reason"),
                                       it->reason };
    m->headers = l->headers;
    m->header_count = n + EXTRA - (it->reason.n == 0);
    int size = snprintf(text, sizeof text, "%s/%lld/", q->name,
                        (long long)it->sent_ms);
    if (id.n > LEAT__QUEUE_ID_MAX)
        id.n = LEAT__QUEUE_ID_MAX;
    memcpy(text + size, id.p, id.n);
    leat__sha256_hex(leat_mem(text, (size_t)size + id.n), l->dedup);
    if (group.n > LEAT__GROUP_MAX)
        group.n = LEAT__GROUP_MAX;
    *o = (leat_queue_send_opts){ .dedup = leat_str(l->dedup),
                                 .delay_ms = -1,
                                 .group = it->group.n ? it->group : group };
    return LEAT_OK;
}

static leat_code move_one(leat_queue *q, leat_queue *to,
                          const leat_queue_item *it, leat_error *err)
{
    letter l = { 0 };
    leat_msg m;
    leat_queue_send_opts o;
    leat_queue_sent sent = { 0 };
    leat_code rc = address(q, it, &l, &m, &o, err);
    if (rc == LEAT_OK)
        rc = leat_queue_send(to, &m, &o, &sent, err);
    if (rc == LEAT_OK && sent.duplicate) {
        /* This one, or another queue's of the same id: the dedup id tells. */
        m.id = leat_str("");
        rc = leat_queue_send(to, &m, &o, NULL, err);
    }
    if (rc == LEAT_OK)
        rc = leat_queue_ack(q, it->receipt, err);
    leat__free(l.headers);
    return rc;
}

/* What cannot be moved stays hidden until its time is over, and does not hold
 * up the others where it is the letter's own fault. */
static size_t move_all(leat_queue *q, const char *name,
                       const leat_queue_batch *b)
{
    leat_error e;
    size_t moved = 0;
    leat_queue *to = leat_queue_open(
        q->client, name,
        &(leat_queue_opts){ .prefix = q->prefix,
                            .no_reaper = true,
                            .no_events = q->opts.no_events },
        &e);
    if (to)
        to->moves = true;
    for (size_t i = 0; to && i < leat_queue_batch_count(b); i++) {
        leat_code rc = move_one(q, to, leat_queue_batch_at(b, i), &e);
        moved += rc == LEAT_OK;
        if (rc != LEAT_OK && rc != LEAT_ETOOBIG && rc != LEAT_EINVAL)
            break;
    }
    if (moved < leat_queue_batch_count(b))
        leat__log(&q->opts.log, LEAT_LOG_WARN,
                  "queue '%s': a dead letter cannot be moved to '%s': %s",
                  q->name, name, e.msg);
    leat_queue_close(to);
    return moved;
}

bool leat__mover_step(leat_queue *q)
{
    char name[LEAT_NAME_MAX + 1];
    if (!target_of(q, name))
        return false;
    leat_queue_batch *b = leat_queue_receive(
        q,
        &(leat_receive_opts){
            .max = LOT, .dead = true, .visibility_ms = HIDDEN_MS },
        NULL);
    if (!b)
        return false;
    size_t n = leat_queue_batch_count(b);
    size_t moved = n > 0 ? move_all(q, name, b) : 0;
    leat_queue_batch_free(b);
    return n == LOT && moved == n;
}
