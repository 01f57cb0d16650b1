/*
 * send.c: messages into a queue.
 *
 * Encoded here, in one script on the server, or in few where each message says
 * how it is to be sent.  One that cannot be sent (too big, an id too long) is
 * told so and the others go on.  A lost answer is
 * asked for again under the same number of the lane, so that no message is sent
 * twice, also when it has been received and acknowledged meanwhile.
 */
#include "base/mem.h"
#include "base/sha256.h"
#include "base/system.h"
#include "message/codec.h"
#include "queue/queue.h"

#include <stdio.h>

enum {
    HEAD = 6, /* arguments before the messages */
    EACH = 6, /* of a message, in the long form */
    DEDUP_MAX = 128,
    AGAIN = 3, /* the queue's limit may change meanwhile */
    DELAY_MAX_MS = 366 * 24 * 3600
};

typedef struct parcel {
    size_t index;    /* of the caller's message */
    size_t at, size; /* its value in the buffer */
    leat_bytes group, dedup;
    int64_t delay_ms;
    bool given; /* the caller's id */
    char content[LEAT__SHA256_TEXT + 3];
    char delay[LEAT__NUMBER];
} parcel;

typedef struct sending {
    leat_queue *q;
    const leat_msg *m;
    const leat_queue_send_opts *opts;
    size_t n;
    leat_queue_sent *sent; /* n of them */
    parcel *parcels;
    size_t count;
    leat__buf values;
    leat_fields *fields;
    leat_error first; /* of what cannot be sent */
    int64_t hidden_ms;
    size_t max;       /* bytes of a message */
    int64_t delay_ms; /* the queue's */
    bool content_dedup;
    bool redo;
} sending;

/* ---- one message ------------------------------------------------------ */

static leat_code fill_id(sending *s, size_t i, leat_msg *m, leat_error *err)
{
    char *id = s->sent[i].id;
    if (m->id.n > LEAT__QUEUE_ID_MAX)
        return leat__fail(err, LEAT_EINVAL,
                          "a message id of %zu bytes: a queue takes up to %d",
                          m->id.n, LEAT__QUEUE_ID_MAX);
    if (m->id.n > 0) {
        memcpy(id, m->id.p, m->id.n);
        id[m->id.n] = '\0';
        m->id.p = id;
        return LEAT_OK;
    }
    leat_code rc = s->q->profile->id(&s->q->ids, id, err);
    if (rc == LEAT_OK)
        m->id = leat_str(id);
    return rc;
}

static leat_code check_how(const sending *s, const parcel *p, leat_error *err)
{
    if (p->delay_ms < -1 || p->delay_ms > DELAY_MAX_MS * INT64_C(1000))
        return leat__fail(err, LEAT_EINVAL,
                          "a delay of %lld ms: use 0 to a year, or -1 for none",
                          (long long)p->delay_ms);
    if (s->q->fifo && p->delay_ms > 0)
        return leat__fail(err, LEAT_EINVAL,
                          "a message of the fifo queue '%s' has no delay of "
                          "its own",
                          s->q->name);
    if (s->q->fifo && (p->group.n == 0 || p->group.n > LEAT__GROUP_MAX))
        return leat__fail(
            err, LEAT_EINVAL,
            "a message of the fifo queue '%s' needs a group, or a "
            "key, of 1 to %d bytes",
            s->q->name, LEAT__GROUP_MAX);
    if (p->dedup.n > DEDUP_MAX)
        return leat__fail(err, LEAT_EINVAL,
                          "a dedup id of %zu bytes is over %d", p->dedup.n,
                          DEDUP_MAX);
    return LEAT_OK;
}

static leat_code prepare(sending *s, size_t i, parcel *p, leat_error *err)
{
    leat_msg m = s->m[i];
    leat_queue_send_opts o = s->opts ? s->opts[i] : (leat_queue_send_opts){ 0 };
    *p = (parcel){ .index = i, .dedup = o.dedup, .delay_ms = o.delay_ms };
    p->group = o.group.n ? o.group : m.key;
    p->given = m.id.n > 0;
    if (p->dedup.n == 0 && s->content_dedup) {
        p->content[0] = 'c';
        leat__sha256_hex(m.body, p->content + 1);
        p->dedup = leat_str(p->content);
    }
    const queue_profile *profile = s->q->profile;
    leat_code rc = check_how(s, p, err);
    if (rc == LEAT_OK && !s->q->moves)
        rc = leat__check_headers(&m, err);
    if (rc == LEAT_OK && profile->check_send)
        rc = profile->check_send(&m, &o, err);
    if (rc == LEAT_OK)
        rc = fill_id(s, i, &m, err);
    p->at = s->values.n;
    if (rc == LEAT_OK)
        rc = profile->pack(&s->values, s->fields, &m, err);
    p->size = s->values.n - p->at;
    if (rc != LEAT_OK)
        return rc;
    size_t size = profile->size ? profile->size(&m, p->size) : p->size;
    if (size > s->max)
        rc = leat__fail(err, LEAT_ETOOBIG,
                        "a message of %zu bytes is over the %zu that queue "
                        "'%s' takes",
                        size, s->max, s->q->name);
    return rc;
}

static leat_code prepare_all(sending *s, leat_error *err)
{
    s->count = 0;
    s->values.n = 0;
    for (size_t i = 0; i < s->n; i++) {
        leat_error e;
        leat_queue_sent *sent = &s->sent[i];
        if (sent->code != LEAT_OK)
            continue;
        sent->code = prepare(s, i, &s->parcels[s->count], &e);
        if (sent->code == LEAT_OK)
            s->count++;
        else if (s->first.code == LEAT_OK)
            s->first = e;
        if (sent->code == LEAT_ENOMEM) {
            if (err)
                *err = e;
            for (i++; i < s->n; i++) /* not looked at, not sent */
                if (s->sent[i].code == LEAT_OK)
                    s->sent[i].code = LEAT_ENOMEM;
            return LEAT_ENOMEM;
        }
    }
    return LEAT_OK;
}

/* ---- the script ------------------------------------------------------- */

static void mark_duplicate(sending *s, int64_t which, leat_bytes id)
{
    if (which < 0 || (size_t)which >= s->count)
        return;
    leat_queue_sent *sent = &s->sent[s->parcels[which].index];
    size_t n = id.n < sizeof sent->id ? id.n : sizeof sent->id - 1;
    sent->duplicate = true;
    memcpy(sent->id, id.p, n);
    sent->id[n] = '\0';
}

static leat_code read_sent(void *arg, const leat_reply *r, leat_error *err)
{
    sending *s = arg;
    leat_code rc = leat__queue_expect(
        r, "[i]|[iii]|[ii(it)" LEAT__QUEUE_TOLD "]", err);
    if (rc != LEAT_OK)
        return rc;
    leat_reply_iter it = leat_reply_each(r);
    int64_t how = leat_reply_int(leat_reply_step(&it));
    size_t n = leat_reply_len(r);
    if (how == -2 && n == 3) { /* the limit was changed */
        s->max = (size_t)leat_reply_int(leat_reply_at(r, 2));
        s->redo = true;
        return LEAT_OK;
    }
    if (how != 0)
        return leat__queue_refused(s->q, r, err);
    s->hidden_ms = leat_reply_int(leat_reply_step(&it));
    while (it.left >= 2) {
        int64_t which = leat_reply_int(leat_reply_step(&it));
        mark_duplicate(s, which, leat_reply_bytes(leat_reply_step(&it)));
    }
    return LEAT_OK;
}

/* May the short form carry them?  Then one delay holds for all. */
static bool plain(const sending *s)
{
    if (s->q->fifo || !s->q->profile->send)
        return false;
    for (size_t i = 0; i < s->count; i++) {
        const parcel *p = &s->parcels[i];
        if (p->given || p->dedup.n > 0 || p->delay_ms != s->parcels[0].delay_ms)
            return false;
    }
    return true;
}

/* For the script -1 is the queue's delay, where the queue has one, and 0 none.
 */
static leat_bytes delay_arg(const sending *s, parcel *p)
{
    int64_t usual = s->q->profile->kept ? -1 : s->delay_ms;
    int64_t ms = p->delay_ms == 0 ? usual : p->delay_ms < 0 ? 0 : p->delay_ms;
    return leat__arg_int(p->delay, ms);
}

static size_t put_each(sending *s, leat_bytes *args, parcel *p)
{
    args[0] = leat_str(s->sent[p->index].id);
    if (p->given)
        args[0].n = s->m[p->index].id.n;
    args[1] = leat_mem(s->values.p + p->at, p->size);
    args[2] = s->q->fifo ? p->group : leat_str("");
    args[3] = p->dedup;
    args[4] = delay_arg(s, p);
    args[5] = leat_str(p->given ? "1" : "0");
    return EACH;
}

/* Without scripts, up to the first that fails; those before are sent. */
static leat_code send_apart(sending *s, leat_error *err)
{
    leat_code rc = LEAT_OK;
    for (size_t i = 0; i < s->count; i++) {
        const parcel *p = &s->parcels[i];
        leat_queue_sent *sent = &s->sent[p->index];
        if (rc == LEAT_OK && p->delay_ms > 0)
            rc = leat__queue_whole(s->q, err);
        if (rc == LEAT_OK)
            rc = leat__apart_send(s->q, leat_str(sent->id),
                                  leat_mem(s->values.p + p->at, p->size), err);
        sent->code = rc;
    }
    return rc;
}

static leat_code send_lot(sending *s, leat_bytes *args, leat_error *err)
{
    char number[LEAT__NUMBER], again[1 + LEAT__QUEUE_WHO];
    leat_queue *q = s->q;
    bool shortly = plain(s);
    size_t n = HEAD;
    queue_lane *lane = leat__lane_take(q, QUEUE_SEND, err);
    if (!lane)
        return LEAT_ENOMEM;
    args[0] = leat_str(q->name);
    args[1] = leat_str(lane->name);
    args[2] = leat__arg_int(number, (int64_t)lane->number);
    args[3] = leat_str(leat__queue_telling(q));
    args[4] = shortly ? delay_arg(s, &s->parcels[0])
                      : leat_str(q->fifo ? "1" : "0");
    snprintf(again, sizeof again, "0%s", q->who);
    args[5] = leat_str(again);
    for (size_t i = 0; i < s->count; i++) {
        leat_bytes each[EACH];
        put_each(s, each, &s->parcels[i]);
        size_t take = shortly ? 2 : EACH;
        memcpy(args + n, each, take * sizeof *args);
        n += take;
    }
    leat_code rc = leat__queue_ask(
        q, shortly ? q->profile->send : q->profile->each, args, n, again, 0,
        read_sent, s, err);
    leat__lane_give(q, QUEUE_SEND, lane, false);
    return rc;
}

static void tell_all(sending *s, leat_code rc)
{
    uint64_t n = 0;
    for (size_t i = 0; i < s->count; i++) {
        leat_queue_sent *sent = &s->sent[s->parcels[i].index];
        sent->code = rc;
        n += rc == LEAT_OK && !sent->duplicate;
    }
    leat_counter_add(s->q->meters.sent, n);
}

static leat_code send_all(sending *s, leat_bytes *args, leat_error *err)
{
    leat_code rc = LEAT_OK;
    for (int i = 0; i < AGAIN; i++) {
        s->redo = false;
        rc = prepare_all(s, err);
        if (rc != LEAT_OK || s->count == 0)
            break;
        if (s->q->apart)
            return send_apart(s, err);
        rc = send_lot(s, args, err);
        if (!s->redo)
            break;
        rc = leat__fail(err, LEAT_ECONFLICT,
                        "the limit of queue '%s' keeps changing", s->q->name);
    }
    tell_all(s, rc);
    if (rc == LEAT_OK && s->hidden_ms > 0)
        leat__reaper_tell(s->q, s->hidden_ms);
    return rc;
}

static leat_code check_count(const leat_queue *q, size_t n, leat_error *err)
{
    leat_code rc = leat__queue_own(q, err);
    if (rc == LEAT_OK && n > LEAT_QUEUE_BATCH)
        rc = leat__fail(err, LEAT_EINVAL,
                        "%zu messages in one batch: send up to %d", n,
                        LEAT_QUEUE_BATCH);
    return rc;
}

/* How many go into one script. */
static size_t lot_of(const sending *s, const leat_msg *m, size_t n,
                     const leat_queue_send_opts *opts)
{
    bool each = s->q->fifo || s->content_dedup;
    for (size_t i = 0; !each && i < n; i++)
        each = m[i].id.n > 0 || (opts && opts[i].dedup.n > 0);
    return each && n > LEAT__QUEUE_LOT ? LEAT__QUEUE_LOT : n;
}

leat_code leat_queue_send_batch(leat_queue *q, const leat_msg *m, size_t n,
                                const leat_queue_send_opts *opts,
                                leat_queue_sent *sent, leat_error *err)
{
    leat_code rc = check_count(q, n, err);
    if (rc != LEAT_OK || n == 0)
        return rc;
    sending s = { .q = q };
    pthread_mutex_lock(&q->lock);
    s.max = q->kept.max_message;
    s.delay_ms = q->kept.delay_ms;
    s.content_dedup = q->kept.content_dedup;
    pthread_mutex_unlock(&q->lock);
    size_t lot = lot_of(&s, m, n, opts);
    leat_queue_sent *own = sent ? NULL : leat__calloc(n, sizeof *own, err);
    sent = sent ? sent : own;
    leat_bytes *args = leat__calloc(HEAD + EACH * lot, sizeof *args, err);
    s.parcels = leat__calloc(lot, sizeof *s.parcels, err);
    s.fields = leat_fields_new(err);
    if (sent)
        memset(sent, 0, n * sizeof *sent);
    if (!sent || !args || !s.parcels || !s.fields) {
        rc = LEAT_ENOMEM;
        for (size_t i = 0; sent && i < n; i++)
            sent[i].code = rc;
    } else {
        for (size_t i = 0; rc == LEAT_OK && i < n; i += lot) {
            s.m = m + i;
            s.opts = opts ? opts + i : NULL;
            s.sent = sent + i;
            s.n = n - i < lot ? n - i : lot;
            rc = send_all(&s, args, err);
            for (size_t k = i + lot; rc != LEAT_OK && k < n; k++)
                sent[k].code = rc; /* not tried */
        }
        if (rc == LEAT_OK && s.first.code != LEAT_OK) {
            rc = s.first.code;
            if (err)
                *err = s.first;
        }
    }
    leat_fields_free(s.fields);
    leat__buf_release(&s.values);
    leat__free(s.parcels);
    leat__free(args);
    leat__free(own);
    return rc;
}

leat_code leat_queue_send(leat_queue *q, const leat_msg *m,
                          const leat_queue_send_opts *opts,
                          leat_queue_sent *sent, leat_error *err)
{
    return leat_queue_send_batch(q, m, 1, opts, sent, err);
}
