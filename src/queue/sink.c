/*
 * sink.c: a queue as a sink.
 *
 * Messages are copied into a line and sent by a thread, as many in one script
 * as have come meanwhile.  The line has a bound: who publishes into a full one
 * waits.  Each message keeps its id when it is sent again, so that it arrives
 * once.
 */
#include "message/sink.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/thread.h"
#include "message/codec.h"
#include "queue/queue.h"

enum {
    LOT = 500,
    LOT_BYTES = 1 << 20,
    MAX_WAITING = 10000,
    MAX_WAITING_BYTES = 64 << 20
};

typedef struct waiting {
    struct waiting *next;
    leat_msg *msg;
    size_t bytes;
    leat_published_fn *fn;
    void *arg;
} waiting;

/* What one script sends. */
typedef struct sink_lot {
    size_t n;
    waiting *w[LOT];
    leat_msg msg[LOT];
    leat_queue_sent sent[LOT];
} sink_lot;

typedef struct queue_sink {
    leat_sink base;
    leat_queue *q;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work; /* something to send, or the end */
    pthread_cond_t told; /* outcomes came, or room         */
    waiting *first, *last;
    size_t count, bytes;         /* without outcome                 */
    uint64_t accepted, finished; /* ever                            */
    leat_error bad;              /* of those without fn             */
    bool closing;
    sink_lot lot; /* the thread's own */
} queue_sink;

/* ---- accepting -------------------------------------------------------- */

static size_t size_of(const leat_msg *m)
{
    size_t n = sizeof *m + m->key.n + m->body.n + m->type.n + m->subject.n;
    for (size_t i = 0; i < m->header_count; i++)
        n += m->headers[i].name.n + m->headers[i].value.n;
    return n;
}

static void free_line(waiting *w)
{
    while (w) {
        waiting *next = w->next;
        leat_msg_free(w->msg);
        leat__free(w);
        w = next;
    }
}

/* Copies of all of them, or none. */
static waiting *copy_all(const leat_msg *m, size_t n, leat_published_fn *fn,
                         void *arg, leat_error *err)
{
    waiting *first = NULL, **at = &first;
    for (size_t i = 0; i < n; i++) {
        waiting *w = leat__zalloc(sizeof *w, err);
        if (w)
            w->msg = leat_msg_copy(&m[i], err);
        if (!w || !w->msg) {
            leat__free(w);
            free_line(first);
            return NULL;
        }
        w->bytes = size_of(&m[i]);
        w->fn = fn;
        w->arg = arg;
        *at = w;
        at = &w->next;
    }
    return first;
}

static bool inside(const queue_sink *k)
{
    return pthread_equal(pthread_self(), k->thread);
}

static void append_locked(queue_sink *k, waiting *line)
{
    if (k->last)
        k->last->next = line;
    else
        k->first = line;
    for (; line; line = line->next) {
        k->last = line;
        k->count++;
        k->bytes += line->bytes;
        k->accepted++;
    }
    pthread_cond_signal(&k->work);
}

/* In a callback, on the sink's own thread, nobody else could make room. */
static leat_code await_room_locked(queue_sink *k, leat_error *err)
{
    while (k->count >= MAX_WAITING || k->bytes >= MAX_WAITING_BYTES) {
        if (inside(k))
            return leat__fail(err, LEAT_EFULL,
                              "queue '%s': %zu messages wait for their outcome",
                              k->q->name, k->count);
        leat__cond_wait(&k->told, &k->lock, INT64_MAX);
    }
    return LEAT_OK;
}

static leat_code publish(leat_sink *base, const leat_msg *m, size_t n,
                         leat_published_fn *fn, void *arg, leat_error *err)
{
    queue_sink *k = (queue_sink *)base;
    leat_code rc = leat__queue_own(k->q, err);
    if (rc != LEAT_OK)
        return rc;
    for (size_t i = 0; i < n; i++)
        if (leat__check_headers(&m[i], err) != LEAT_OK)
            return LEAT_ETOOBIG;
    waiting *line = copy_all(m, n, fn, arg, err);
    if (!line)
        return LEAT_ENOMEM;
    pthread_mutex_lock(&k->lock);
    rc = await_room_locked(k, err);
    if (rc == LEAT_OK)
        append_locked(k, line);
    pthread_mutex_unlock(&k->lock);
    if (rc != LEAT_OK)
        free_line(line);
    return rc;
}

static leat_code flush(leat_sink *base, int64_t timeout_ms, leat_error *err)
{
    queue_sink *k = (queue_sink *)base;
    int64_t deadline = leat__deadline_ns(timeout_ms);
    bool in_time = true;
    leat_code rc = leat__queue_own(k->q, err);
    if (rc == LEAT_OK && inside(k))
        rc = leat__sink_inside(err);
    if (rc != LEAT_OK)
        return rc;
    pthread_mutex_lock(&k->lock);
    uint64_t until = k->accepted;
    while (k->finished < until && in_time)
        in_time = leat__cond_wait(&k->told, &k->lock, deadline);
    if (k->finished < until) {
        rc = leat__fail(err, LEAT_ETIMEOUT,
                        "queue '%s': %llu messages have no outcome yet",
                        k->q->name, (unsigned long long)(until - k->finished));
    } else {
        rc = leat__error_take(&k->bad, err);
    }
    pthread_mutex_unlock(&k->lock);
    return rc;
}

/* ---- sending ---------------------------------------------------------- */

static bool collect_locked(queue_sink *k, sink_lot *l)
{
    size_t bytes = 0;
    l->n = 0;
    while (k->first && l->n < LOT && bytes < LOT_BYTES) {
        waiting *w = k->first;
        k->first = w->next;
        if (!k->first)
            k->last = NULL;
        bytes += w->bytes;
        l->w[l->n] = w;
        l->msg[l->n++] = *w->msg;
    }
    return l->n > 0;
}

/* The error of a batch is that of its first bad message: others get a text of
 * their own code. */
static void tell_one(queue_sink *k, const waiting *w, leat_code code,
                     const leat_error *batch)
{
    leat_error e = *batch;
    leat_position at = { 0 };
    if (code != LEAT_OK && code != e.code)
        leat__fail(&e, code, "queue '%s': %s", k->q->name,
                   leat_code_text(code));
    if (w->fn)
        w->fn(w->arg, &at, code == LEAT_OK ? NULL : &e);
    if (!w->fn && code != LEAT_OK) {
        pthread_mutex_lock(&k->lock);
        leat__error_keep(&k->bad, &e);
        pthread_mutex_unlock(&k->lock);
    }
}

static void send_lot(queue_sink *k, sink_lot *l)
{
    leat_error e = { 0 };
    size_t bytes = 0;
    (void)leat_queue_send_batch(k->q, l->msg, l->n, NULL, l->sent, &e);
    for (size_t i = 0; i < l->n; i++) {
        tell_one(k, l->w[i], l->sent[i].code, &e);
        bytes += l->w[i]->bytes;
        leat_msg_free(l->w[i]->msg);
        leat__free(l->w[i]);
    }
    pthread_mutex_lock(&k->lock);
    k->count -= l->n;
    k->bytes -= bytes;
    k->finished += l->n;
    pthread_cond_broadcast(&k->told);
    pthread_mutex_unlock(&k->lock);
}

static void *run(void *arg)
{
    queue_sink *k = arg;
    pthread_mutex_lock(&k->lock);
    while (!k->closing || k->first) {
        if (!collect_locked(k, &k->lot)) {
            leat__cond_wait(&k->work, &k->lock, INT64_MAX);
            continue;
        }
        pthread_mutex_unlock(&k->lock);
        send_lot(k, &k->lot);
        pthread_mutex_lock(&k->lock);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

/* ---- its life --------------------------------------------------------- */

static void sink_free(queue_sink *k)
{
    free_line(k->first);
    pthread_cond_destroy(&k->told);
    pthread_cond_destroy(&k->work);
    pthread_mutex_destroy(&k->lock);
    leat__free(k);
}

static void close_sink(leat_sink *base)
{
    queue_sink *k = (queue_sink *)base;
    if (leat__queue_own(k->q, NULL) != LEAT_OK)
        return;
    pthread_mutex_lock(&k->lock);
    k->closing = true;
    pthread_cond_broadcast(&k->work);
    pthread_mutex_unlock(&k->lock);
    pthread_join(k->thread, NULL);
    sink_free(k);
}

static const leat_sink_ops ops = {
    .publish = publish,
    .flush = flush,
    .close = close_sink,
};

leat_sink *leat_queue_sink(leat_queue *q, leat_error *err)
{
    queue_sink *k = leat__queue_own(q, err) == LEAT_OK
                        ? leat__zalloc(sizeof *k, err)
                        : NULL;
    if (!k)
        return NULL;
    k->base.ops = &ops;
    k->base.name = q->name;
    k->q = q;
    if (leat__cond_init(&k->work, err) != LEAT_OK) {
        leat__free(k);
        return NULL;
    }
    if (leat__cond_init(&k->told, err) != LEAT_OK) {
        pthread_cond_destroy(&k->work);
        leat__free(k);
        return NULL;
    }
    pthread_mutex_init(&k->lock, NULL);
    if (leat__thread_start(&k->thread, "leat-sink", run, k, err) != LEAT_OK) {
        sink_free(k);
        return NULL;
    }
    return &k->base;
}
