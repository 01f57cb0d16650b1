/*
 * loss_again.c: telling losses, and publishing again what is still held.
 *
 * Copies of the last acknowledged messages are held, of all partitions together
 * up to a number of bytes; the oldest make room.  Those of a loss go again on
 * the first connection, in their order, before it carries anything newer.  They
 * are the same bytes: a message keeps its id, by which who reads knows it.
 *
 * Where the client's durability asks for proof they need it as well, or they
 * are not counted.
 *
 * A loss is told once, when it is known how that ended.  A connection that
 * breaks meanwhile, or a server that is full, is waited for; what left without
 * an answer goes once more, and may then be there twice.
 */
#include "base/log.h"
#include "base/mem.h"
#include "metrics/metrics.h"
#include "redis/proof.h"
#include "topic/addition.h"
#include "topic/loss_inside.h"

#include <string.h>

enum {
    CHUNK = 64, /* messages at once */
    CHUNK_BYTES = 1 << 20,
};

/* ---- holding ---------------------------------------------------------- */

static void unlink_copy(leat__loss *l, copy *k)
{
    *(k->older ? &k->older->newer : &l->oldest) = k->newer;
    *(k->newer ? &k->newer->older : &l->newest) = k->older;
    l->bytes -= k->size;
}

static void link_newest(leat__loss *l, copy *k)
{
    k->older = l->newest;
    k->newer = NULL;
    *(l->newest ? &l->newest->newer : &l->oldest) = k;
    l->newest = k;
    l->bytes += k->size;
}

void leat__loss_let_go(leat__loss *l, leat__print *p)
{
    copy *k = p->copy;
    if (!k)
        return;
    p->copy = NULL;
    unlink_copy(l, k);
    leat__free(k);
}

static void forget_oldest(leat__loss *l)
{
    copy *k = l->oldest;
    const leat__trail *t = &k->watch->trail;
    uint32_t upto = leat__trail_upto(t, k->id);
    leat__loss_let_go(l, leat__trail_at(t, upto - 1));
}

void leat__loss_hold(watch *w, leat__print *p, leat_bytes command, size_t head)
{
    leat__loss *l = w->l;
    if (command.n > l->most_bytes)
        return;
    while (l->bytes + command.n > l->most_bytes)
        forget_oldest(l);
    copy *k = leat__alloc(sizeof *k + command.n, NULL);
    if (!k)
        return;
    *k = (copy){ .watch = w,
                 .id = p->id,
                 .head = (uint32_t)head,
                 .size = (uint32_t)command.n };
    memcpy(k->bytes, command.p, command.n);
    if (leat__addition_is(command))
        leat__addition_uncap(k->bytes);
    link_newest(l, k);
    p->copy = k;
}

/* ---- telling ---------------------------------------------------------- */

static leat_position position(leat__id id)
{
    return (leat_position){ .ms = id.ms, .seq = id.seq };
}

static void log_loss(const leat__loss *l, const leat_loss *x)
{
    leat__log(&l->topic->opts.log, LEAT_LOG_ERROR,
              "topic '%s' %u: %s%llu acknowledged messages are lost, from "
              "%llu-%llu to %llu-%llu",
              x->topic, x->partition, x->exact ? "" : "at least ",
              (unsigned long long)x->count, (unsigned long long)x->from.ms,
              (unsigned long long)x->from.seq, (unsigned long long)x->to.ms,
              (unsigned long long)x->to.seq);
}

static void log_again(const leat__loss *l, const leat_loss *x)
{
    bool all = x->republished == x->count;
    if (l->most_bytes == 0)
        return;
    leat__log(
        &l->topic->opts.log, all ? LEAT_LOG_WARN : LEAT_LOG_ERROR,
        "topic '%s' %u: %llu of %llu lost messages were published again%s",
        x->topic, x->partition, (unsigned long long)x->republished,
        (unsigned long long)x->count,
        all ? "" : ", the others are no longer held");
}

static void tell(const leat__loss *l, const leat_loss *x)
{
    const leat_topic_opts *o = &l->topic->opts;
    log_again(l, x);
    leat__counter_add(l->republished, x->republished);
    if (o->on_loss)
        o->on_loss(o->loss_arg, x);
}

static void one_less(const leat__loss *l, told_loss *t)
{
    if (--t->left > 0)
        return;
    tell(l, &t->loss);
    leat__free(t);
}

static void queue(watch *w, copy *k, told_loss *t)
{
    unlink_copy(w->l, k);
    k->lost = t;
    k->next = NULL;
    k->state = COPY_WAITS;
    *w->again_end = k;
    w->again_end = &k->next;
    t->left++;
}

void leat__loss_lost(watch *w, const leat__print **lost, uint32_t n, bool exact)
{
    const leat__loss *l = w->l;
    leat_loss x = { .topic = l->topic->name,
                    .partition = w->partition,
                    .from = position(lost[0]->id),
                    .to = position(lost[n - 1]->id),
                    .count = n,
                    .exact = exact };
    log_loss(l, &x);
    leat__counter_add(l->lost, n);
    told_loss *t = leat__zalloc(sizeof *t, NULL);
    if (!t) {
        tell(l, &x);
        return;
    }
    t->loss = x;
    t->left = 1;
    for (uint32_t i = 0; i < n; i++) {
        leat__print *p = (leat__print *)lost[i];
        if (p->copy)
            queue(w, p->copy, t);
        p->copy = NULL;
    }
    one_less(l, t);
}

/* ---- going again ------------------------------------------------------ */

static void on_again(void *arg, const leat_reply *r, const leat_error *e)
{
    copy *k = arg;
    if (e && r && !e->retriable)
        k->state = COPY_REFUSED;
    else if (!e && leat__id_parse(leat_reply_bytes(r), &k->at))
        k->state = COPY_DONE;
}

/* A script goes with its text: the server may have forgotten it, too. */
static leat_code push(leat_conn *c, copy *k, leat_error *err)
{
    leat_bytes command = leat_mem(k->bytes, k->size);
    bool script = leat__addition_is(command);
    size_t size = script ? leat__addition_whole_room(command) : k->size;
    char *to = leat__outq_room(&c->out, size, err);
    if (!to)
        return LEAT_ENOMEM;
    if (script)
        size = leat__addition_whole(to, command);
    else
        memcpy(to, k->bytes, size);
    leat__conn_push(c, size, &(leat__pending){ .fn = on_again, .arg = k });
    return LEAT_OK;
}

static void on_proof(void *arg, const leat_reply *r, const leat_error *e)
{
    watch *w = arg;
    leat__proof want = w->want;
    leat_error why;
    w->proven = leat__proof_check(&want, r, e, &why) == LEAT_OK;
    if (!w->proven)
        leat__log(&w->l->topic->opts.log, LEAT_LOG_ERROR,
                  "topic '%s' %u: lost messages were published again: %s",
                  w->l->topic->name, w->partition, why.msg);
}

static leat_code ask_for_proof(watch *w, leat_conn *c, leat_error *err)
{
    const leat_topic_opts *o = &w->l->topic->opts;
    w->proven = !leat__proof_needed(c, o->replicas);
    if (w->proven)
        return LEAT_OK;
    w->want = leat__conn_proof(c, o->replicas, o->replicas_ms);
    return leat__conn_wait_for(c, leat__key_bytes(&w->log), &w->want,
                               &(leat_send_opts){ .fn = on_proof, .arg = w },
                               err);
}

static leat_code push_chunk(watch *w, leat_conn *c, leat_error *err)
{
    leat_code rc = leat__conn_ready(c, err);
    size_t bytes = 0;
    int n = 0;
    for (copy *k = w->again; rc == LEAT_OK && k && n < CHUNK; k = k->next) {
        if (k->state != COPY_WAITS)
            continue; /* one before it was refused */
        bytes += k->size;
        if (n++ > 0 &&
            (bytes > CHUNK_BYTES || leat__conn_waiting(c) + 1 >= c->window))
            break;
        rc = push(c, k, err);
    }
    if (rc == LEAT_OK)
        rc = ask_for_proof(w, c, err);
    leat_error e;
    leat_code end = c->t ? leat_conn_drain(c, 0, &e) : LEAT_OK;
    if (rc == LEAT_OK && end != LEAT_OK && err)
        *err = e;
    return rc == LEAT_OK ? end : rc;
}

static void finish(watch *w, copy *k)
{
    told_loss *t = k->lost;
    if (k->state == COPY_DONE) {
        t->loss.republished += w->proven;
        leat__loss_note(w->l, w->partition, position(k->at),
                        leat_mem(k->bytes, k->size), k->head);
    }
    leat__free(k);
    one_less(w->l, t);
}

/* Those at the front that have an outcome; how many. */
static int finish_chunk(watch *w)
{
    int n = 0;
    for (; w->again && w->again->state != COPY_WAITS; n++) {
        copy *k = w->again;
        w->again = k->next;
        if (!w->again)
            w->again_end = &w->again;
        finish(w, k);
    }
    return n;
}

static leat_code again_one(watch *w, leat_conn *c, leat_error *err)
{
    while (w->again) {
        leat_code rc = push_chunk(w, c, err);
        int n = finish_chunk(w);
        if (rc != LEAT_OK)
            return rc;
        if (n == 0)
            return leat__fail(err, LEAT_EBUSY,
                              "topic '%s' %u: the server does not take lost "
                              "messages again now",
                              w->l->topic->name, w->partition);
    }
    return LEAT_OK;
}

leat_code leat__loss_again(leat__loss *l, leat_conn *c, leat_error *err)
{
    leat_code rc = LEAT_OK;
    for (uint32_t i = 0; rc == LEAT_OK && i < l->count; i++)
        rc = again_one(l->all[i], c, err);
    return rc;
}

void leat__loss_give_up(watch *w)
{
    while (w->again) {
        copy *k = w->again;
        w->again = k->next;
        k->state = COPY_REFUSED;
        finish(w, k);
    }
    w->again_end = &w->again;
}
