/*
 * io.c: the thread that drives a subscriber's connections.
 *
 * A connection that waits inside XREADGROUP hears nothing else, so there is one
 * link that never does (links[0]) and one or more that read.  While messages
 * flow, the settlements of one batch leave in the same write as the read for
 * the next; only when no read is about to leave within STREAM_LINGER_NS do they
 * take links[0].
 *
 * A lost connection is connected anew.  If a command that gives entries to this
 * consumer was in flight, its reply is lost and the entries are pending here
 * without being held: then no new ones are read until a scan (claim.c) has
 * fetched those.  The scan waits for the reads of the other links, as what they
 * carry is not held yet either.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "redis/client.h"
#include "redis/shape.h"
#include "stream/stream.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum {
    LEND_MS = 2000,   /* to connect: a slow network needs some of it      */
    PAUSE_MS = 50,    /* after the server refused something               */
    UNBLOCK_MS = 20,  /* between two tries to end a waiting read          */
    CLOSE_MS = 2000,  /* to give everything back                          */
    AHEAD = 3,        /* batches asked for and not handed out             */
    SOON_NS = 4000000 /* a full read is answered within that              */
};

/* ---- failures --------------------------------------------------------- */

void leat__stream_failed(stream_source *s, const leat_error *err)
{
    pthread_mutex_lock(&s->lock);
    s->failure = *err;
    s->failed = true;
    leat__error_weather(&s->failure);
    pthread_cond_signal(&s->arrived);
    pthread_mutex_unlock(&s->lock);
}

bool leat__stream_nogroup(const leat_error *err)
{
    return err->code == LEAT_ENOENT ||
           (err->code == LEAT_ESERVER && strstr(err->msg, "NOGROUP"));
}

void leat__stream_refused(stream_source *s, stream_link *l,
                          const leat_error *err)
{
    if (leat__stream_nogroup(err)) {
        s->need_group = true;
        return;
    }
    s->retry_ns = leat__deadline_ns(PAUSE_MS);
    if (err->code == LEAT_ECONN || err->code == LEAT_EUNKNOWN)
        return; /* the link is told by its connection */
    if (err->code == LEAT_EREADONLY ||
        (err->code == LEAT_EBUSY && leat__client_clustered(s->client)))
        l->reset = true; /* the master is elsewhere, or may be */
    leat__stream_failed(s, err);
}

/* ---- incoming --------------------------------------------------------- */

static stream_batch *batch_get(stream_source *s, leat_error *err)
{
    pthread_mutex_lock(&s->lock);
    stream_batch *b = s->pool;
    if (b) {
        s->pool = b->next;
        s->pooled--;
    }
    pthread_mutex_unlock(&s->lock);
    if (!b)
        b = leat__zalloc(sizeof *b, err);
    if (b)
        b->source = s;
    return b;
}

static void batch_put(stream_source *s, stream_batch *b)
{
    pthread_mutex_lock(&s->lock);
    b->next = s->pool;
    s->pool = b;
    s->pooled++;
    pthread_mutex_unlock(&s->lock);
}

static void make_ready(stream_source *s, stream_batch *b)
{
    for (size_t i = 0; i < b->entry_count; i++)
        leat__stream_held_put(&s->held, b->entries[i].id, &b->entries[i]);
    leat_counter_add(s->meters.undecodable, b->undecodable);
    leat_gauge_add(s->meters.in_flight, (int64_t)b->slot_count);

    pthread_mutex_lock(&s->lock);
    s->stats.undecodable += b->undecodable;
    b->older = s->newest;
    b->newer = NULL;
    if (s->newest)
        s->newest->newer = b;
    s->newest = b;
    if (s->ready_last)
        s->ready_last->next = b;
    else
        s->ready_first = b;
    s->ready_last = b;
    s->ready += b->slot_count;
    s->unsettled += b->slot_count;
    if (s->ready_fd >= 0 && !s->ready_set) {
        uint64_t one = 1;
        s->ready_set = write(s->ready_fd, &one, sizeof one) > 0;
    }
    pthread_cond_signal(&s->arrived);
    pthread_mutex_unlock(&s->lock);
}

/* Without memory the entries stay pending here, and a scan finds them. */
size_t leat__stream_deliver(stream_source *s, const leat_reply *entries,
                            bool counts, int64_t since_ns)
{
    leat_error e;
    size_t n = 0;
    stream_batch *b = batch_get(s, &e);
    leat_code rc = b ? leat__stream_held_reserve(&s->held,
                                                 leat_reply_len(entries), &e)
                     : LEAT_ENOMEM;
    if (rc == LEAT_OK)
        rc = leat__stream_batch_fill(b, s->stream->codec, entries, counts,
                                     &s->held, since_ns, &e);
    if (rc == LEAT_OK)
        n = b->slot_count;
    if (n > 0)
        make_ready(s, b);
    else if (b)
        batch_put(s, b);
    if (rc != LEAT_OK) {
        s->retry_ns = leat__deadline_ns(PAUSE_MS);
        leat__stream_scan(s);
        leat__stream_failed(s, &e);
    }
    return n;
}

/* ---- reading ---------------------------------------------------------- */

/* RESP2 [[key, entries]], RESP3 {key: entries}, nil when there was nothing. */
static const leat_reply *entries_of(const leat_reply *r)
{
    if (leat_reply_kind(r) == LEAT_REPLY_MAP)
        return leat_reply_at(r, 1);
    return leat_reply_at(leat_reply_at(r, 0), 1);
}

static void on_read(void *arg, const leat_reply *r, const leat_error *err)
{
    stream_link *l = arg;
    stream_source *s = l->s;
    int64_t since = l->read[0].sent_ns;
    size_t asked = l->read[0].asked;

    leat_error odd;

    l->reads--;
    memmove(&l->read[0], &l->read[1], sizeof l->read - sizeof l->read[0]);
    err = leat__reply_odd(r, err, LEAT__SHAPE_READ, "XREADGROUP", &odd);
    if (!err) {
        const leat_reply *entries = entries_of(r);
        l->full = leat_reply_len(entries) >= asked;
        if (leat_reply_len(entries) > 0)
            leat__stream_deliver(s, entries, false, since);
        return;
    }
    l->full = false;
    if (leat__stream_in_doubt(err))
        leat__stream_scan(s); /* what it gave us is pending */
    leat__stream_refused(s, l, err);
}

static size_t asked_for(const stream_source *s)
{
    size_t n = 0;
    for (int i = 1; i < s->link_count; i++)
        for (unsigned k = 0; k < s->links[i].reads; k++)
            n += s->links[i].read[k].asked;
    return n;
}

size_t leat__stream_room(stream_source *s)
{
    pthread_mutex_lock(&s->lock);
    size_t held = s->unsettled + asked_for(s), max = s->opts.max_in_flight;
    pthread_mutex_unlock(&s->lock);
    return held < max ? max - held : 0;
}

/* How many to ask for; 0: enough is on its way or waits. */
static size_t wanted(stream_source *s)
{
    size_t asked = asked_for(s), n = 0;
    size_t batch = (size_t)s->opts.batch, max = (size_t)s->opts.max_in_flight;
    pthread_mutex_lock(&s->lock);
    if (s->unsettled + asked < max)
        n = max - s->unsettled - asked;
    if (s->ready + asked >= AHEAD * batch)
        n = 0;
    s->hungry = n == 0;
    pthread_mutex_unlock(&s->lock);
    return n < batch ? n : batch;
}

/* Waiting is for a stream that was found empty: behind a read that waits
 * nothing else would be heard. */
static void read_some(stream_source *s, stream_link *l, size_t n, int64_t now)
{
    char count[LEAT__NUMBER], block[LEAT__NUMBER];
    leat_bytes argv[11] = { leat_str("XREADGROUP"),
                            leat_str("GROUP"),
                            s->group,
                            s->consumer,
                            leat_str("COUNT"),
                            leat__arg_int(count, (int64_t)n) };
    size_t words = 6;
    int64_t wait_ms = l->full ? 0 : s->opts.block_ms;
    leat_error e;
    if (wait_ms > 0) {
        argv[words++] = leat_str("BLOCK");
        argv[words++] = leat__arg_int(block, wait_ms);
    }
    argv[words++] = leat_str("STREAMS");
    argv[words++] = s->key;
    argv[words++] = leat_str(">");
    leat_code rc = leat_conn_send(l->conn, argv, words,
                                  &(leat_send_opts){ on_read, l, wait_ms }, &e);
    if (rc != LEAT_OK) {
        leat__stream_refused(s, l, &e);
        return;
    }
    l->read[l->reads].sent_ns = now;
    l->read[l->reads].asked = n;
    l->reads++;
}

/* While there is a backlog two reads are in flight, and neither waits. */
static void read_more(stream_source *s, int64_t now)
{
    for (int i = 1; i < s->link_count; i++) {
        stream_link *l = &s->links[i];
        unsigned most = l->full ? STREAM_READS : 1;
        while (l->conn && l->reads < most && s->retry_ns <= now) {
            size_t n = wanted(s);
            if (n == 0)
                return;
            leat__stream_settle_send(s, l);
            read_some(s, l, n, now);
        }
    }
}

static unsigned reads_in_flight(const stream_source *s)
{
    unsigned n = 0;
    for (int i = 1; i < s->link_count; i++)
        n += s->links[i].reads;
    return n;
}

static void ignore(void *arg, const leat_reply *r, const leat_error *err)
{
    (void)arg;
    (void)r;
    (void)err;
}

/* End reads that wait in the server.  Where that is refused they end by
 * themselves, after block_ms. */
static void unblock(stream_source *s, int64_t now)
{
    char id[LEAT__NUMBER];
    for (int i = 1; i < s->link_count; i++) {
        stream_link *l = &s->links[i];
        if (l->reads == 0 || l->client_id == 0 || l->unblock_ns > now)
            continue;
        l->unblock_ns = now + (int64_t)UNBLOCK_MS * 1000000;
        (void)leat_conn_send(s->links[0].conn,
                             LEAT_ARGS(leat_str("CLIENT"), leat_str("UNBLOCK"),
                                       leat__arg_int(id, l->client_id)),
                             &(leat_send_opts){ ignore, NULL, 0 }, NULL);
    }
}

/* ---- connections ------------------------------------------------------ */

static void on_client_id(void *arg, const leat_reply *r, const leat_error *err)
{
    stream_link *l = arg;
    l->client_id = err ? 0 : leat_reply_int(r);
}

static void introduce(stream_link *l)
{
    l->client_id = 0;
    l->reset = false;
    (void)leat_conn_send(l->conn, LEAT_ARGS(leat_str("CLIENT"), leat_str("ID")),
                         &(leat_send_opts){ on_client_id, l, 0 }, NULL);
}

/* Its callbacks have been told by now. */
static void lost(stream_link *l)
{
    leat__stream_disconnect(l->s->stream, l->conn);
    l->conn = NULL;
    l->full = false;
}

/* One outage is told once, however many tries it takes: who is told pauses. */
static void outage(stream_source *s, leat_error *err)
{
    if (err->code == LEAT_EUNKNOWN || err->code == LEAT_ETIMEOUT) {
        err->code = LEAT_ECONN; /* of the source itself nothing is unknown */
        err->retriable = true;
    }
    if (!s->away)
        leat__stream_failed(s, err);
    s->away = true;
}

static bool connect_link(stream_source *s, stream_link *l)
{
    leat_error e;
    leat_server facts;
    if (l->conn)
        return true;
    l->conn = leat__stream_connect(s->stream, LEND_MS, &e);
    l->since_ns = leat__now_ns();
    if (!l->conn) {
        outage(s, &e);
        return false;
    }
    if (leat_client_server(s->client, &facts, NULL) == LEAT_OK)
        s->xautoclaim = facts.has_xautoclaim;
    introduce(l);
    return true;
}

/* links[0] first: the others are of no use without it. */
static bool connect_all(stream_source *s)
{
    for (int i = 0; i < s->link_count; i++)
        if (!connect_link(s, &s->links[i]))
            return false;
    s->away = false;
    return true;
}

static int64_t answer_due(const leat_conn *c)
{
    return c->head != c->stamped ? c->ring[c->head & c->mask].deadline_ns
                                 : INT64_MAX;
}

/* Take what has come; an answer that is late breaks the connection. */
static void serve(stream_link *l, int64_t now)
{
    leat_error e;
    if (!l->conn)
        return;
    leat_code rc = leat_conn_take(l->conn, &e);
    if (rc == LEAT_OK && answer_due(l->conn) <= now) {
        leat__fail(&e, LEAT_ETIMEOUT, "no answer in time");
        rc = leat__conn_break(l->conn, &e);
    }
    if (rc == LEAT_OK &&
        (l->reset || leat__stream_asked_long(l->conn, l->since_ns))) {
        leat__fail(&e, LEAT_ECONN, "the stream is elsewhere");
        rc = leat__conn_break(l->conn, &e);
    }
    if (rc == LEAT_OK)
        return;
    leat__log(&l->s->stream->log, LEAT_LOG_INFO, "stream '%s': %s",
              l->s->base.name, e.msg);
    lost(l);
    e.retriable = true;
    outage(l->s, &e);
}

/* ---- the loop --------------------------------------------------------- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Settlements that found no read to go with. */
static void send_settled(stream_source *s, int64_t now)
{
    pthread_mutex_lock(&s->lock);
    bool go = s->settled_count > 0 && (s->urgent || s->closing ||
                                       s->settled_ns + STREAM_LINGER_NS <= now);
    s->urgent = false;
    pthread_mutex_unlock(&s->lock);
    if (go)
        leat__stream_settle_send(s, &s->links[0]);
}

static void step(stream_source *s, int64_t now)
{
    bool quiet = reads_in_flight(s) == 0;
    leat__stream_extend_send(s, &s->links[0]);
    if (s->scan && !quiet)
        unblock(s, now);
    leat__stream_claim_step(s, &s->links[0], now);
    if (!s->scan && !s->need_group)
        read_more(s, now);
    send_settled(s, now);
}

static void flush_all(stream_source *s)
{
    for (int i = 0; i < s->link_count; i++)
        if (s->links[i].conn)
            (void)leat__conn_write_some(s->links[i].conn, NULL);
}

/* Until when nothing has to be done.  While full reads are on their way their
 * replies are soon here: whoever settles need not wake us for that. */
static int64_t next_due(stream_source *s, int64_t now)
{
    int64_t due = leat__stream_claim_due(s);
    if (s->retry_ns > now)
        due = earlier(due, s->retry_ns);
    for (int i = 0; i < s->link_count; i++) {
        const stream_link *l = &s->links[i];
        if (l->conn)
            due = earlier(due, answer_due(l->conn));
        if (l->reads > 0 && l->full && now - l->read[0].sent_ns < SOON_NS)
            due = earlier(due, now + STREAM_LINGER_NS);
        if (l->reads > 0 && l->client_id != 0 && (s->scan || s->leaving))
            due = earlier(due, l->unblock_ns);
    }
    return due;
}

/* Fall asleep, unless something came up since we looked. */
static int64_t fall_asleep(stream_source *s, int64_t due)
{
    pthread_mutex_lock(&s->lock);
    if (s->settled_count > 0)
        due = earlier(due, s->settled_ns + STREAM_LINGER_NS);
    bool sleeps = !s->urgent && !s->extends && !(s->closing && !s->leaving);
    s->wake_ns = due;
    s->asleep = sleeps;
    pthread_mutex_unlock(&s->lock);
    return sleeps ? due : 0;
}

static void wake_up(stream_source *s, bool event)
{
    uint64_t told;
    pthread_mutex_lock(&s->lock);
    s->asleep = false;
    pthread_mutex_unlock(&s->lock);
    if (event && read(s->event, &told, sizeof told) < 0)
        return; /* somebody told us and was not heard: no harm */
}

/* The server is away: a moment, or until somebody wants something. */
static void pause_io(stream_source *s)
{
    struct pollfd p = { .fd = s->event, .events = POLLIN };
    (void)fall_asleep(s, INT64_MAX);
    int got = leat__sys->poll(leat__sys->arg, &p, 1,
                              (int64_t)PAUSE_MS * 1000000);
    wake_up(s, got > 0);
}

static void sleep_until(stream_source *s, int64_t due)
{
    struct pollfd p[2 + STREAM_CONNECTIONS];
    nfds_t n = 0;
    p[n++] = (struct pollfd){ .fd = s->event, .events = POLLIN };
    for (int i = 0; i < s->link_count; i++) {
        leat_conn *c = s->links[i].conn;
        if (!c)
            continue;
        short out = leat__outq_left(&c->out) > 0 ? POLLOUT : 0;
        p[n++] = (struct pollfd){ .fd = leat_conn_fd(c),
                                  .events = (short)(POLLIN | out) };
        if (leat_conn_fd(c) < 0)
            due = 0; /* it broke while we wrote */
    }
    due = fall_asleep(s, due);
    int64_t left = due == INT64_MAX ? -1 : due - leat__now_ns();
    if (due != INT64_MAX && left < 0)
        left = 0;
    int got = leat__sys->poll(leat__sys->arg, p, n, left);
    wake_up(s, got > 0 && p[0].revents);
}

static void serve_all(stream_source *s)
{
    int64_t now = leat__now_ns();
    for (int i = 0; i < s->link_count; i++)
        serve(&s->links[i], now);
}

static bool is_closing(stream_source *s)
{
    pthread_mutex_lock(&s->lock);
    bool closing = s->closing;
    pthread_mutex_unlock(&s->lock);
    return closing;
}

/* Nothing more is read; what is held goes back, what is settled is sent. */
static void closing_step(stream_source *s, int64_t now)
{
    if (reads_in_flight(s) > 0) {
        unblock(s, now);
    } else if (!s->released && !s->busy) {
        s->released = true;
        leat__stream_settle_release(s);
    }
    leat__stream_extend_send(s, &s->links[0]);
    send_settled(s, now);
}

static bool all_told(stream_source *s)
{
    pthread_mutex_lock(&s->lock);
    bool told = s->settled_count == 0;
    pthread_mutex_unlock(&s->lock);
    return told && s->released && leat_conn_in_flight(s->links[0].conn) == 0;
}

static void close_down(stream_source *s)
{
    int64_t end = leat__deadline_ns(CLOSE_MS), now;
    leat_error e;
    bool done = false;
    s->leaving = true;
    while (!done && (now = leat__now_ns()) < end && connect_all(s)) {
        closing_step(s, now);
        flush_all(s);
        if ((done = all_told(s)) == false) {
            sleep_until(s, earlier(next_due(s, now), end));
            serve_all(s);
        }
    }
    if (done && s->links[0].conn)
        leat__stream_leave(s, &s->links[0]);
    leat__fail(&e, LEAT_ECLOSED, "stream '%s' was closed first", s->base.name);
    for (int i = 0; i < s->link_count; i++)
        if (s->links[i].conn)
            lost(&s->links[i]);
    leat__stream_settle_abort(s, &e);
}

void *leat__stream_io(void *source)
{
    stream_source *s = source;
    for (int i = 0; i < s->link_count; i++)
        introduce(&s->links[i]);
    while (!is_closing(s)) {
        if (!connect_all(s)) {
            pause_io(s);
            continue;
        }
        int64_t now = leat__now_ns();
        step(s, now);
        flush_all(s);
        sleep_until(s, next_due(s, now));
        serve_all(s);
    }
    close_down(s);
    return NULL;
}
