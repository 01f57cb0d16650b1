/*
 * source.c: the subscriber as a source, and its life.
 *
 * receive, settle, extend and flush only touch what is under the lock; the I/O
 * thread does the rest.  It is woken by an eventfd, but only when it sleeps
 * longer than the matter can wait: under load the next reply wakes it anyway.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/thread.h"
#include "redis/client.h"
#include "stream/stream.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    BATCH = 100,
    MAX_BATCH = 10000,
    BLOCK_MS = 1000,
    CLAIM_MS = 30000,
    IDLE_MS = 60000,
    IN_FLIGHT = 1000,
    MAX_IN_FLIGHT = 1000000,
    EXTENDED_AT_ONCE = STREAM_CHUNK
};

static const leat_source_ops ops;

static void tell(int fd)
{
    uint64_t one = 1;
    ssize_t n = write(fd, &one, sizeof one);
    (void)n; /* full means that it has been told already */
}

void leat__stream_wake_locked(stream_source *s)
{
    if (!s->asleep)
        return;
    s->asleep = false;
    tell(s->event);
}

/* ---- receive ---------------------------------------------------------- */

/* The descriptor is readable exactly while something is ready. */
static void show_ready_locked(stream_source *s)
{
    bool want = s->ready > 0;
    uint64_t told;
    if (s->ready_fd < 0 || want == s->ready_set)
        return;
    s->ready_set = want;
    if (want)
        tell(s->ready_fd);
    else if (read(s->ready_fd, &told, sizeof told) < 0)
        s->ready_set = false; /* it was empty already */
}

static int take_locked(stream_source *s, leat_delivery **out, int max)
{
    int n = 0;
    while (n < max && s->ready_first) {
        stream_batch *b = s->ready_first;
        while (n < max && b->taken < b->slot_count) {
            stream_slot *slot = &b->slots[b->taken++];
            slot->entry->handed = true;
            out[n++] = &slot->d;
        }
        if (b->taken == b->slot_count) {
            s->ready_first = b->next;
            b->next = NULL;
        }
    }
    if (!s->ready_first)
        s->ready_last = NULL;
    s->ready -= (size_t)n;
    if (n > 0 && s->hungry && s->ready < (size_t)s->opts.batch)
        leat__stream_wake_locked(s);
    show_ready_locked(s);
    return n;
}

/* What is to be told instead of messages; 0: nothing, wait. */
static int trouble_locked(stream_source *s, leat_error *err)
{
    if (!s->failed)
        return 0;
    s->failed = false;
    if (err)
        *err = s->failure;
    return -1;
}

static int await_locked(stream_source *s, leat_delivery **out, int max,
                        int64_t deadline_ns, leat_error *err)
{
    for (bool in_time = true;;) {
        int n = take_locked(s, out, max);
        if (n == 0)
            n = trouble_locked(s, err);
        if (n != 0 || s->interrupted || !in_time) {
            s->interrupted = false;
            return n;
        }
        in_time = leat__cond_wait(&s->arrived, &s->lock, deadline_ns);
    }
}

static void count_received(stream_source *s, leat_delivery **d, int n)
{
    uint64_t again = 0;
    for (int i = 0; i < n; i++) {
        const stream_slot *slot = (const stream_slot *)d[i];
        leat__delivery_arm(d[i], &s->base, slot->entry->since_ns + s->idle_ns);
        d[i]->from = s->key;
        again += d[i]->redelivered;
    }
    leat_counter_add(s->meters.consumed, (uint64_t)n);
    leat_counter_add(s->meters.redelivered, again);
    pthread_mutex_lock(&s->lock);
    s->stats.received += (uint64_t)n;
    s->stats.redelivered += again;
    pthread_mutex_unlock(&s->lock);
}

static int receive(leat_source *base, leat_delivery **out, int max,
                   int64_t wait_ms, leat_error *err)
{
    stream_source *s = (stream_source *)base;
    int64_t deadline = leat__deadline_ns(wait_ms);
    if (leat__client_own(s->client, err) != LEAT_OK)
        return -1;
    pthread_mutex_lock(&s->lock);
    int n = await_locked(s, out, max, deadline, err);
    pthread_mutex_unlock(&s->lock);
    if (n > 0)
        count_received(s, out, n);
    return n;
}

static void interrupt(leat_source *base)
{
    stream_source *s = (stream_source *)base;
    pthread_mutex_lock(&s->lock);
    s->interrupted = true;
    pthread_cond_broadcast(&s->arrived);
    pthread_mutex_unlock(&s->lock);
}

static int ready_fd(leat_source *base)
{
    stream_source *s = (stream_source *)base;
    pthread_mutex_lock(&s->lock);
    if (s->ready_fd < 0)
        s->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    show_ready_locked(s);
    int fd = s->ready_fd;
    pthread_mutex_unlock(&s->lock);
    return fd;
}

/* ---- settle ----------------------------------------------------------- */

static int64_t shorter(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* An entry of several messages is acknowledged only if all of them are. */
static void merge(const stream_source *s, stream_entry *e,
                  const leat__settlement *how)
{
    int64_t delay = how->delay_ms;
    if (how->verdict == LEAT__SETTLE_COMMITTED)
        e->committed = true;
    if (how->verdict != LEAT__SETTLE_NACK &&
        how->verdict != LEAT__SETTLE_RELEASE)
        return;
    if (how->verdict == LEAT__SETTLE_RELEASE ||
        (delay == 0 && s->opts.nack_at_once))
        delay = -1;
    else if (delay == 0)
        delay = INT64_MAX; /* left as it is, until its time is over */
    e->delay_ms = e->nacked ? shorter(e->delay_ms, delay) : delay;
    e->tried |= how->verdict == LEAT__SETTLE_NACK;
    e->nacked = true;
}

static void append_locked(stream_source *s, stream_entry *e)
{
    e->next = NULL;
    if (s->settled_last)
        s->settled_last->next = e;
    else
        s->settled_first = e;
    s->settled_last = e;
    if (s->settled_count++ > 0)
        return;
    s->settled_ns = leat__now_ns();
    if (s->wake_ns > s->settled_ns + STREAM_LINGER_NS)
        leat__stream_wake_locked(s);
}

static void settle(leat_source *base, leat_delivery *d,
                   const leat__settlement *how)
{
    stream_source *s = (stream_source *)base;
    stream_entry *e = ((stream_slot *)d)->entry;

    if (how->verdict == LEAT__SETTLE_REJECT)
        leat__log(&s->stream->log, LEAT_LOG_WARN,
                  "stream '%s', group '%s': entry %.*s is rejected: %s",
                  s->base.name, s->group_text, (int)e->text.n,
                  (const char *)e->text.p,
                  how->reason ? how->reason : "no reason given");
    pthread_mutex_lock(&s->lock);
    merge(s, e, how);
    s->outcomes.due++;
    if (--e->left == 0)
        append_locked(s, e);
    pthread_mutex_unlock(&s->lock);
}

static void take_from_list_locked(stream_source *s, stream_batch *b)
{
    if (b->newer)
        b->newer->older = b->older;
    else
        s->newest = b->older;
    if (b->older)
        b->older->newer = b->newer;
    b->newer = b->older = NULL;
}

static void recycle(leat_source *base, leat_delivery *d)
{
    stream_source *s = (stream_source *)base;
    stream_batch *b = ((stream_slot *)d)->entry->batch;
    if (atomic_fetch_sub(&b->refs, 1) > 1)
        return;
    pthread_mutex_lock(&s->lock);
    take_from_list_locked(s, b);
    bool keep = s->pooled < STREAM_POOLED;
    if (keep) {
        b->next = s->pool;
        s->pool = b;
        s->pooled++;
    }
    pthread_mutex_unlock(&s->lock);
    if (!keep)
        leat__stream_batch_free(b);
}

static leat_code flush(leat_source *base, int64_t timeout_ms, leat_error *err)
{
    stream_source *s = (stream_source *)base;
    int64_t deadline = leat__deadline_ns(timeout_ms);
    leat_code rc = leat__client_own(s->client, err);
    if (rc != LEAT_OK)
        return rc;
    pthread_mutex_lock(&s->lock);
    if (s->outcomes.due > 0) {
        s->urgent = true;
        leat__stream_wake_locked(s);
    }
    rc = leat__outcomes_flush(&s->outcomes, &s->lock, deadline, "stream",
                              s->base.name, err);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* ---- extend ----------------------------------------------------------- */

static stream_extend *extend_new(stream_source *s, leat_delivery *const *d,
                                 size_t n, leat_error *err)
{
    stream_extend *x = leat__zalloc(
        sizeof *x + n * (sizeof *x->id + sizeof *x->outcome), err);
    if (!x)
        return NULL;
    x->s = s;
    x->n = n;
    x->outcome = (leat_code *)(x->id + n);
    for (size_t i = 0; i < n; i++)
        x->id[i] = d[i]->position;
    return x;
}

/* Wait for the answer; true: x is ours to free. */
static bool await_extend(stream_source *s, stream_extend *x, int64_t deadline,
                         leat_error *err)
{
    bool in_time = true;
    pthread_mutex_lock(&s->lock);
    x->next = s->extends;
    s->extends = x;
    leat__stream_wake_locked(s);
    while (!x->done && in_time)
        in_time = leat__cond_wait(&s->extended, &s->lock, deadline);
    bool done = x->done;
    if (!done) {
        x->abandoned = true;
        leat__fail(err, LEAT_EUNKNOWN,
                   "extend: no answer from stream '%s' in time", s->base.name);
    }
    pthread_mutex_unlock(&s->lock);
    return done;
}

static leat_code extend_some(stream_source *s, leat_delivery *const *d,
                             size_t n, int64_t deadline_ns, leat_code *outcome,
                             leat_error *err)
{
    stream_extend *x = extend_new(s, d, n, err);
    if (!x)
        return LEAT_ENOMEM;
    if (!await_extend(s, x, deadline_ns, err))
        return LEAT_EUNKNOWN;
    leat_code rc = x->err.code;
    if (rc != LEAT_OK && err)
        *err = x->err;
    if (rc == LEAT_OK)
        memcpy(outcome, x->outcome, n * sizeof *outcome);
    leat__free(x);
    return rc;
}

static leat_code extend(leat_source *base, leat_delivery *const *d, size_t n,
                        int64_t ms, leat_code *outcome, leat_error *err)
{
    stream_source *s = (stream_source *)base;
    int64_t deadline = leat__deadline_ns(ms / 3 > 0 ? ms / 3 : 1);
    leat_code rc = leat__client_own(s->client, err);
    if (ms > s->opts.idle_ms)
        rc = leat__fail(err, LEAT_EINVAL,
                        "extend by %lld ms: an entry of stream '%s' can be "
                        "kept for idle_ms, %lld ms, at a time",
                        (long long)ms, s->base.name,
                        (long long)s->opts.idle_ms);
    for (size_t i = 0; i < n && rc == LEAT_OK; i += EXTENDED_AT_ONCE) {
        size_t some = n - i < EXTENDED_AT_ONCE ? n - i : EXTENDED_AT_ONCE;
        rc = extend_some(s, d + i, some, deadline, outcome + i, err);
    }
    return rc;
}

/* ---- what only a stream has ------------------------------------------- */

leat_code leat_stream_nack_now(leat_delivery *d)
{
    if (d->source->ops != &ops)
        return leat_delivery_nack(d, 0);
    return leat__delivery_settle(
        d, &(leat__settlement){ .verdict = LEAT__SETTLE_NACK, .delay_ms = -1 });
}

const char *leat_stream_consumer(const leat_source *source)
{
    return ((const stream_source *)source)->consumer_text;
}

void leat_stream_stats_get(leat_source *source, leat_stream_stats *out)
{
    stream_source *s = (stream_source *)source;
    pthread_mutex_lock(&s->lock);
    *out = s->stats;
    out->in_flight = s->unsettled;
    pthread_mutex_unlock(&s->lock);
}

/* ---- open and close --------------------------------------------------- */

static void free_batches(stream_batch *b, bool listed)
{
    while (b) {
        stream_batch *next = listed ? b->older : b->next;
        leat__stream_batch_free(b);
        b = next;
    }
}

static void release_source(stream_source *s)
{
    for (int i = 0; i < s->link_count; i++)
        leat__stream_disconnect(s->stream, s->links[i].conn);
    free_batches(s->newest, true);
    free_batches(s->pool, false);
    leat__stream_held_release(&s->held);
    leat__stream_park_release(&s->park);
    leat__free(s->sweep_names);
    leat__free(s->group_text);
    if (s->event >= 0)
        close(s->event);
    if (s->ready_fd >= 0)
        close(s->ready_fd);
    leat__outcomes_release(&s->outcomes);
    pthread_cond_destroy(&s->extended);
    pthread_cond_destroy(&s->arrived);
    pthread_mutex_destroy(&s->lock);
    atomic_store(&s->stream->subscribed, false);
    leat__stream_drop(s->stream);
    leat__free(s);
}

static void close_source(leat_source *base)
{
    stream_source *s = (stream_source *)base;
    if (leat__client_own(s->client, NULL) != LEAT_OK)
        return; /* in a forked child neither thread nor lock are ours */
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    leat__stream_wake_locked(s);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    leat_gauge_add(s->meters.in_flight, -(int64_t)s->unsettled);
    release_source(s);
}

static const leat_source_ops ops = {
    .receive = receive,
    .interrupt = interrupt,
    .settle = settle,
    .extend = extend,
    .flush = flush,
    .fd = ready_fd,
    .recycle = recycle,
    .close = close_source,
};

static int64_t pick(int64_t own, int64_t usual)
{
    return own ? own : usual;
}

static leat_code set_options(stream_source *s,
                             const leat_stream_source_opts *opts,
                             leat_error *err)
{
    leat_stream_source_opts *o = &s->opts;
    if (opts)
        *o = *opts;
    o->batch = (int)pick(o->batch, BATCH);
    o->block_ms = pick(o->block_ms, BLOCK_MS);
    o->claim_ms = pick(o->claim_ms, CLAIM_MS);
    o->idle_ms = pick(o->idle_ms, IDLE_MS);
    o->connections = (int)pick(o->connections, 1);
    o->max_in_flight = (int)pick(o->max_in_flight, IN_FLIGHT);
    if (o->batch < 1 || o->batch > MAX_BATCH || o->block_ms < 1 ||
        o->claim_ms < 1 || o->idle_ms < 1 || o->idle_ms > INT32_MAX ||
        o->max_in_flight < 1 || o->max_in_flight > MAX_IN_FLIGHT ||
        o->connections < 1 || o->connections > STREAM_CONNECTIONS)
        return leat__fail(err, LEAT_EINVAL,
                          "stream '%s': times cannot be negative, batch is at "
                          "most %d, max_in_flight %d, connections %d",
                          s->stream->name, MAX_BATCH, MAX_IN_FLIGHT,
                          STREAM_CONNECTIONS);
    /* A read that waits as long as an entry may be idle would hand out
     * entries whose time is nearly over. */
    if (o->block_ms > (o->idle_ms + 3) / 4)
        o->block_ms = (o->idle_ms + 3) / 4;
    s->idle_ns = o->idle_ms * 1000000;
    s->safe_ns = o->fence_all ? 0 : s->idle_ns - s->idle_ns / 4;
    s->claim_ns = o->claim_ms * 1000000;
    s->link_count = 1 + o->connections;
    return leat__stream_start(o->start, s->start, err);
}

static leat_code set_names(stream_source *s, const char *group, leat_error *err)
{
    const char *own = s->opts.consumer;
    s->opts.consumer = s->opts.start = NULL; /* the caller's */
    if (!group || !group[0] || (own && !own[0]) ||
        (own && strlen(own) >= sizeof s->consumer_text))
        return leat__fail(err, LEAT_EINVAL,
                          "stream '%s': group and consumer need names, a "
                          "consumer's of less than %zu bytes",
                          s->stream->name, sizeof s->consumer_text);
    s->named = own != NULL;
    if (own)
        snprintf(s->consumer_text, sizeof s->consumer_text, "%s", own);
    else if (leat__stream_consumer_make(s->consumer_text, err) != LEAT_OK)
        return LEAT_EIO;
    s->group_text = leat__strdup(group, err);
    s->base.group = s->group_text;
    if (!s->group_text)
        return LEAT_ENOMEM;
    s->key = leat_str(s->stream->name);
    s->group = leat_str(s->group_text);
    s->consumer = leat_str(s->consumer_text);
    return LEAT_OK;
}

/* The first look at the server, on the caller's thread: what is wrong here is
 * told by the call that is wrong. */
static leat_code subscribe(stream_source *s, leat_error *err)
{
    leat_error e;
    leat_server facts;
    leat_code rc = leat_client_call(
        s->client,
        LEAT_ARGS(leat_str("XGROUP"), leat_str("CREATE"), s->key, s->group,
                  leat_str(s->start), leat_str("MKSTREAM")),
        &(leat_call_opts){ .idempotent = true }, NULL, &e);
    if (rc != LEAT_OK && rc != LEAT_EEXIST) {
        if (err)
            *err = e;
        return rc;
    }
    for (int i = 0; i < s->link_count; i++) {
        s->links[i].s = s;
        s->links[i].conn = leat__stream_connect(s->stream, 5000, err);
        s->links[i].since_ns = leat__now_ns();
        if (!s->links[i].conn)
            return LEAT_ECONN;
    }
    rc = leat_client_server(s->client, &facts, err);
    s->xautoclaim = facts.has_xautoclaim;
    return rc;
}

static stream_source *source_new(leat_stream *stream, leat_error *err)
{
    stream_source *s = leat__zalloc(sizeof *s, err);
    if (!s)
        return NULL;
    if (leat__cond_init(&s->arrived, err) != LEAT_OK)
        goto no_arrived;
    if (leat__cond_init(&s->extended, err) != LEAT_OK)
        goto no_extended;
    if (leat__outcomes_init(&s->outcomes, err) != LEAT_OK)
        goto no_outcomes;
    pthread_mutex_init(&s->lock, NULL);
    s->base = (leat_source){ .ops = &ops,
                             .name = stream->name,
                             .log = stream->log,
                             .metrics = stream->metrics };
    s->stream = stream;
    s->client = stream->client;
    s->ready_fd = -1;
    leat__stream_keep(stream);
    s->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return s;

no_outcomes:
    pthread_cond_destroy(&s->extended);
no_extended:
    pthread_cond_destroy(&s->arrived);
no_arrived:
    leat__free(s);
    return NULL;
}

leat_source *leat_stream_source(leat_stream *stream, const char *group,
                                const leat_stream_source_opts *opts,
                                leat_error *err)
{
    if (leat__client_own(stream->client, err) != LEAT_OK)
        return NULL;
    if (atomic_exchange(&stream->subscribed, true)) {
        leat__fail(err, LEAT_EINVAL,
                   "stream '%s': this handle is subscribed already, open "
                   "another for a second subscription",
                   stream->name);
        return NULL;
    }
    stream_source *s = source_new(stream, err);
    if (!s) {
        atomic_store(&stream->subscribed, false);
        return NULL;
    }
    if (s->event < 0) {
        leat__fail_errno(err, LEAT_EIO, errno, "eventfd");
        goto fail;
    }
    if (set_options(s, opts, err) != LEAT_OK ||
        set_names(s, group, err) != LEAT_OK ||
        leat__stream_meters(s, err) != LEAT_OK || subscribe(s, err) != LEAT_OK)
        goto fail;
    s->scan = s->scan_fresh = s->named;
    if (leat__thread_start(&s->thread, "leat-stream", leat__stream_io, s,
                           err) != LEAT_OK)
        goto fail;
    return &s->base;

fail:
    release_source(s);
    return NULL;
}
