/*
 * publish.c: the publisher as a sink: accepting messages.
 *
 * A message is encoded on the thread that publishes it, straight into the
 * command that will be sent, so an error of the message is told by the call and
 * the memory is bounded by what is really kept.
 */
#include "base/mem.h"
#include "base/system.h"
#include "base/thread.h"
#include "message/codec.h"
#include "redis/client.h"
#include "stream/sink.h"

#include <errno.h>
#include <sched.h>
#include <stdalign.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    WINDOW = 1024,
    QUEUED = 65536,
    QUEUED_BYTES = 64 * 1024 * 1024,
    WAIT_MS = 30000,
    TIMEOUT_MS = 30000,
    HEAD_ROOM = 16 /* "*n\r\n" */
};

bool leat__sink_wake_locked(sink_lane *l)
{
    uint64_t one = 1;
    if (!l->asleep)
        return false;
    l->asleep = false;
    ssize_t n = write(l->event, &one, sizeof one);
    (void)n;
    return true;
}

/* ---- blocks ----------------------------------------------------------- */

static sink_block *block_new(sink_lane *l, size_t size, leat_error *err)
{
    sink_block *b = l->spare;
    if (b && b->cap >= size) {
        l->spare = b->next;
    } else {
        size_t cap = size > SINK_BLOCK ? size : SINK_BLOCK;
        b = leat__alloc(sizeof *b + cap, err);
        if (!b)
            return NULL;
        b->cap = cap;
    }
    b->next = NULL;
    b->used = b->count = b->done = 0;
    if (l->newest)
        l->newest->next = b;
    else
        l->oldest = b;
    return l->newest = b;
}

static sink_record *record_new(sink_lane *l, size_t size, leat_error *err)
{
    const size_t unit = alignof(max_align_t);
    size_t all = (sizeof(sink_record) + size + unit - 1) / unit * unit;
    sink_block *b = l->newest;
    if (!b || b->cap - b->used < all)
        b = block_new(l, all, err);
    if (!b)
        return NULL;
    sink_record *r = (sink_record *)(b->bytes + b->used);
    r->lane = l;
    r->block = b;
    r->size = size;
    b->used += all;
    b->count++;
    return r;
}

/* ---- encoding --------------------------------------------------------- */

typedef struct stamp {
    int64_t now_ns, date_ms;
} stamp;

static leat_code complete(stream_sink *k, leat_msg *m, const stamp *t,
                          char id[LEAT__UUID_TEXT + 1], leat_error *err)
{
    leat__uuid u;
    if (m->time_ms == 0)
        m->time_ms = t->date_ms;
    if (m->id.n > 0)
        return LEAT_OK;
    leat_code rc = leat__uuid7_next(&k->ids, &u, err);
    if (rc != LEAT_OK)
        return rc;
    leat__uuid_format(&u, id);
    m->id = leat_mem(id, LEAT__UUID_TEXT);
    return LEAT_OK;
}

static size_t put_command(const stream_sink *k, const leat_fields *f, char *out)
{
    size_t n = 2 * leat_fields_count(f);
    const leat_bytes *v = leat_fields_pairs(f);
    char *p = leat__resp_array_head(out, k->head_words + n);
    memcpy(p, k->head, k->head_size);
    p += k->head_size;
    for (size_t i = 0; i < n; i++)
        p = leat__resp_bulk(p, v[i].p, v[i].n);
    return (size_t)(p - out);
}

static sink_record *encode_locked(sink_lane *l, const leat_msg *m,
                                  const stamp *t, leat_error *err)
{
    stream_sink *k = l->k;
    const leat_codec *codec = k->stream->codec;
    char id[LEAT__UUID_TEXT + 1];
    leat_msg whole = *m;

    leat_fields_clear(l->fields);
    if (leat__check_headers(m, err) != LEAT_OK ||
        complete(k, &whole, t, id, err) != LEAT_OK ||
        codec->encode(codec, &whole, 1, l->fields, err) != LEAT_OK)
        return NULL;
    size_t n = leat_fields_count(l->fields);
    size_t size = leat__resp_command_size(leat_fields_pairs(l->fields), 2 * n);
    if (size > SIZE_MAX / 2) {
        leat__fail(err, LEAT_ETOOBIG, "stream '%s': the message is too large",
                   k->base.name);
        return NULL;
    }
    sink_record *r = record_new(l, HEAD_ROOM + k->head_size + size, err);
    if (r)
        r->size = put_command(k, l->fields, r->bytes);
    return r;
}

/* ---- accepting -------------------------------------------------------- */

static size_t share(const stream_sink *k, size_t all)
{
    size_t n = all / (size_t)k->lane_count;
    return n > 0 ? n : 1;
}

static bool has_room_locked(const sink_lane *l, size_t n)
{
    const stream_sink *k = l->k;
    size_t there = (size_t)(l->accepted - l->finished);
    return there + n <= share(k, (size_t)k->opts.max_queued) &&
           l->bytes < share(k, k->opts.max_queued_bytes);
}

/* On the lane's own thread, inside a callback, nobody could make room. */
static leat_code await_room_locked(sink_lane *l, size_t n, leat_error *err)
{
    stream_sink *k = l->k;
    bool wait = !k->opts.no_wait && !pthread_equal(pthread_self(), l->thread);
    int64_t deadline = leat__deadline_ns(k->opts.max_wait_ms);

    if (n > share(k, (size_t)k->opts.max_queued))
        return leat__fail(err, LEAT_ETOOBIG,
                          "stream '%s': %zu messages at once are more than "
                          "max_queued",
                          k->base.name, n);
    l->waiting++;
    while (wait && !l->closing && !has_room_locked(l, n))
        wait = leat__cond_wait(&l->told, &l->lock, deadline);
    l->waiting--;
    if (l->closing)
        return leat__fail(err, LEAT_ECLOSED, "stream '%s': the sink is closing",
                          k->base.name);
    if (!has_room_locked(l, n))
        return leat__fail(err, LEAT_EFULL,
                          "stream '%s': %llu messages wait for their outcome",
                          k->base.name,
                          (unsigned long long)(l->accepted - l->finished));
    return LEAT_OK;
}

/* The end of the blocks, to go back to. */
typedef struct mark {
    sink_block *block;
    size_t used, count;
} mark;

static void cut_locked(sink_lane *l, const mark *m)
{
    sink_block *b = m->block ? m->block->next : l->oldest;
    while (b) {
        sink_block *next = b->next;
        leat__free(b);
        b = next;
    }
    l->newest = m->block;
    if (!m->block) {
        l->oldest = NULL;
        return;
    }
    m->block->next = NULL;
    m->block->used = m->used;
    m->block->count = m->count;
}

static leat_code accept_locked(sink_lane *l, const leat_msg *m, size_t n,
                               leat_published_fn *fn, void *arg, bool *woke,
                               leat_error *err)
{
    stamp t = { leat__now_ns(), leat__date_ms() };
    mark before = { l->newest, l->newest ? l->newest->used : 0,
                    l->newest ? l->newest->count : 0 };
    sink_queue fresh = { 0 };
    size_t bytes = 0;
    leat_error e;

    for (size_t i = 0; i < n; i++) {
        sink_record *r = encode_locked(l, &m[i], &t, &e);
        if (!r) {
            cut_locked(l, &before);
            if (err)
                *err = e;
            return e.code;
        }
        r->fn = fn;
        r->arg = arg;
        r->deadline_ns = t.now_ns + l->k->opts.timeout_ms * 1000000;
        bytes += r->size;
        leat__sink_push(&fresh, r);
    }
    if (l->queue.last)
        l->queue.last->next = fresh.first;
    else
        l->queue.first = fresh.first;
    l->queue.last = fresh.last;
    l->queue.count += n;
    l->accepted += n;
    l->bytes += bytes;
    if (l->queue.count >= l->wake_at)
        *woke = leat__sink_wake_locked(l);
    return LEAT_OK;
}

static leat_code publish(leat_sink *base, const leat_msg *m, size_t n,
                         leat_published_fn *fn, void *arg, leat_error *err)
{
    stream_sink *k = (stream_sink *)base;
    unsigned turn = k->lane_count > 1 ? atomic_fetch_add(&k->turn, 1) : 0;
    sink_lane *l = &k->lanes[turn % (unsigned)k->lane_count];

    leat_code rc = leat__client_own(k->stream->client, err);
    if (rc != LEAT_OK)
        return rc;
    bool woke = false;
    pthread_mutex_lock(&l->lock);
    rc = await_room_locked(l, n, err);
    if (rc == LEAT_OK)
        rc = accept_locked(l, m, n, fn, arg, &woke, err);
    pthread_mutex_unlock(&l->lock);
    /* Where cores are few, who sends would wait for the end of our time slice
     * while the server has nothing to do. */
    if (woke)
        sched_yield();
    return rc;
}

/* ---- flush ------------------------------------------------------------ */

static bool await_outcomes(sink_lane *l, int64_t deadline_ns)
{
    bool in_time = true;
    pthread_mutex_lock(&l->lock);
    uint64_t upto = l->accepted;
    l->waiting++;
    while (l->finished < upto && in_time)
        in_time = leat__cond_wait(&l->told, &l->lock, deadline_ns);
    l->waiting--;
    bool all = l->finished >= upto;
    pthread_mutex_unlock(&l->lock);
    return all;
}

static void take_bad(sink_lane *l, leat_error *first)
{
    pthread_mutex_lock(&l->lock);
    leat__error_keep(first, &l->bad);
    l->bad = (leat_error){ 0 };
    pthread_mutex_unlock(&l->lock);
}

static leat_code flush(leat_sink *base, int64_t timeout_ms, leat_error *err)
{
    stream_sink *k = (stream_sink *)base;
    int64_t deadline = leat__deadline_ns(timeout_ms);
    leat_error first = { 0 };
    leat_code rc = leat__client_own(k->stream->client, err);
    if (rc != LEAT_OK)
        return rc;
    for (int i = 0; i < k->lane_count; i++)
        if (pthread_equal(pthread_self(), k->lanes[i].thread))
            return leat__sink_inside(err);
    for (int i = 0; i < k->lane_count; i++)
        if (!await_outcomes(&k->lanes[i], deadline))
            return leat__fail(err, LEAT_ETIMEOUT,
                              "stream '%s': some messages have no outcome yet",
                              k->base.name);
    for (int i = 0; i < k->lane_count; i++)
        take_bad(&k->lanes[i], &first);
    return leat__error_take(&first, err);
}

/* ---- open and close --------------------------------------------------- */

static void free_blocks(sink_block *b)
{
    while (b) {
        sink_block *next = b->next;
        leat__free(b);
        b = next;
    }
}

static void stop_lane(sink_lane *l, int64_t deadline_ns)
{
    if (!l->started)
        return;
    pthread_mutex_lock(&l->lock);
    l->closing = true;
    pthread_cond_broadcast(&l->told);
    pthread_mutex_unlock(&l->lock);
    (void)await_outcomes(l, deadline_ns);
    pthread_mutex_lock(&l->lock);
    l->abort = true;
    (void)leat__sink_wake_locked(l);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
}

static void release_lane(sink_lane *l)
{
    if (!l->k)
        return;
    leat__stream_disconnect(l->k->stream, l->conn);
    free_blocks(l->oldest);
    free_blocks(l->spare);
    leat_fields_free(l->fields);
    if (l->event >= 0)
        close(l->event);
    pthread_cond_destroy(&l->told);
    pthread_mutex_destroy(&l->lock);
}

static void close_sink(leat_sink *base)
{
    stream_sink *k = (stream_sink *)base;
    int64_t deadline = leat__deadline_ns(SINK_CLOSE_MS);
    if (leat__client_own(k->stream->client, NULL) != LEAT_OK)
        return; /* in a forked child neither threads nor locks are ours */
    for (int i = 0; i < k->lane_count; i++)
        stop_lane(&k->lanes[i], deadline);
    for (int i = 0; i < k->lane_count; i++)
        release_lane(&k->lanes[i]);
    leat__uuid7_release(&k->ids);
    leat__stream_drop(k->stream);
    leat__free(k->head);
    leat__free(k);
}

static const leat_sink_ops ops = {
    .publish = publish,
    .flush = flush,
    .close = close_sink,
};

static leat_code open_lane(stream_sink *k, sink_lane *l, leat_error *err)
{
    leat_code rc = leat__cond_init(&l->told, err);
    if (rc != LEAT_OK)
        return rc;
    pthread_mutex_init(&l->lock, NULL);
    l->k = k;
    l->wake_at = 1;
    l->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->event < 0)
        return leat__fail_errno(err, LEAT_EIO, errno, "eventfd");
    l->fields = leat_fields_new(err);
    if (!l->fields)
        return LEAT_ENOMEM;
    l->conn = leat__stream_connect(k->stream, 5000, err);
    l->since_ns = leat__now_ns();
    if (!l->conn)
        return LEAT_ECONN;
    rc = leat__thread_start(&l->thread, "leat-publish", leat__stream_send, l,
                            err);
    l->started = rc == LEAT_OK;
    return rc;
}

/* All but the fields: they follow. */
static leat_code make_head(stream_sink *k, leat_error *err)
{
    char len[LEAT__NUMBER];
    leat_bytes argv[6] = { leat_str("XADD"), leat_str(k->stream->name) };
    size_t n = 2;
    if (k->opts.lossy_maxlen > 0) {
        argv[n++] = leat_str("MAXLEN");
        argv[n++] = leat_str(k->opts.lossy_exact ? "=" : "~");
        argv[n++] = leat__arg_int(len, k->opts.lossy_maxlen);
    }
    argv[n++] = leat_str("*");
    k->head = leat__alloc(leat__resp_command_size(argv, n), err);
    if (!k->head)
        return LEAT_ENOMEM;
    char *p = k->head;
    for (size_t i = 0; i < n; i++)
        p = leat__resp_bulk(p, argv[i].p, argv[i].n);
    k->head_words = n;
    k->head_size = (size_t)(p - k->head);
    return LEAT_OK;
}

static leat_code set_options(leat_stream_sink_opts *o, const char *name,
                             leat_error *err)
{
    o->window = o->window ? o->window : WINDOW;
    o->max_queued = o->max_queued ? o->max_queued : QUEUED;
    if (o->max_queued_bytes == 0)
        o->max_queued_bytes = QUEUED_BYTES;
    o->max_wait_ms = o->max_wait_ms ? o->max_wait_ms : WAIT_MS;
    o->timeout_ms = o->timeout_ms ? o->timeout_ms : TIMEOUT_MS;
    o->connections = o->connections ? o->connections : 1;
    if (o->window < 1 || o->max_queued < 1 || o->max_wait_ms < 0 ||
        o->timeout_ms < 0 || o->connections < 1 ||
        o->connections > SINK_LANES || o->lossy_maxlen < 0)
        return leat__fail(err, LEAT_EINVAL,
                          "stream '%s': bounds and times cannot be negative, "
                          "connections are at most %d",
                          name, SINK_LANES);
    if (o->lossy_exact && o->lossy_maxlen == 0)
        return leat__fail(err, LEAT_EINVAL,
                          "stream '%s': lossy_exact without lossy_maxlen",
                          name);
    return LEAT_OK;
}

static leat_code set_meters(stream_sink *k, leat_error *err)
{
    leat_metrics *m = k->stream->metrics;
    const leat_label labels[] = {
        { "messaging_system", "leat" },
        { "messaging_destination_name", k->stream->name },
    };
    if (!m)
        return LEAT_OK;
    k->sent = leat_metrics_counter(m, "messaging_client_sent_messages_total",
                                   "Messages added to a stream.", labels, 2,
                                   err);
    k->failed = leat_metrics_counter(m, "leat_stream_failed_messages_total",
                                     "Messages that were certainly not added.",
                                     labels, 2, err);
    k->unknown = leat_metrics_counter(m, "leat_stream_unknown_messages_total",
                                      "Messages that may have been added.",
                                      labels, 2, err);
    return k->sent && k->failed && k->unknown ? LEAT_OK : LEAT_ENOMEM;
}

leat_sink *leat_stream_sink(leat_stream *s, const leat_stream_sink_opts *opts,
                            leat_error *err)
{
    leat_stream_sink_opts o = opts ? *opts : (leat_stream_sink_opts){ 0 };
    if (leat__client_own(s->client, err) != LEAT_OK ||
        set_options(&o, s->name, err) != LEAT_OK)
        return NULL;
    stream_sink *k = leat__zalloc(
        sizeof *k + (size_t)o.connections * sizeof k->lanes[0], err);
    if (!k)
        return NULL;
    k->base = (leat_sink){ .ops = &ops, .name = s->name };
    k->stream = s;
    k->opts = o;
    leat__uuid7_init(&k->ids);
    leat__stream_keep(s);
    leat_code rc = make_head(k, err);
    if (rc == LEAT_OK)
        rc = set_meters(k, err);
    while (rc == LEAT_OK && k->lane_count < o.connections)
        rc = open_lane(k, &k->lanes[k->lane_count++], err);
    if (rc == LEAT_OK)
        return &k->base;
    close_sink(&k->base);
    return NULL;
}
