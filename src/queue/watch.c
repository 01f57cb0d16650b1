/*
 * watch.c: hearing of events.
 *
 * A thread with a connection of its own.  By publish/subscribe it hears what is
 * said while it listens: after a lost connection the next event is marked, as
 * some may have been missed.  Of the durable stream it reads on from the last
 * one it had; only what the stream no longer holds is missed, and marked.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/thread.h"
#include "queue/queue.h"
#include "redis/client.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { BLOCK_MS = 1000, COUNT = 100, RETRY_MS = 500, PING_MS = 15000, ID = 48 };

struct leat_queue_watch {
    leat_client *client; /* NULL: not held yet */
    leat_logger log;
    leat__key key; /* channel or stream */
    bool durable;
    leat_queue_event_fn *fn;
    void *arg;
    pthread_t thread;
    int event;
    atomic_bool closing;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool listening; /* it was subscribed once */

    /* The thread's own. */
    bool missed;
    bool begun;     /* `last` is where to go on */
    char last[ID];  /* id in the stream         */
    bool answered;  /* the read under way       */
    leat_error err; /* of it                    */
};

/* ---- one event -------------------------------------------------------- */

static leat_bytes text_of(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    return v ? leat_mem(json_string_value(v), json_string_length(v))
             : leat_str("");
}

static int64_t receives_of(const json_t *o)
{
    const char *rc = json_string_value(
        json_object_get(json_object_get(o, "extra"), "rc"));
    return rc ? strtoll(rc, NULL, 10) : -1;
}

/* What is no event, said by somebody else on the channel, is passed over. */
static void tell(leat_queue_watch *w, leat_bytes text)
{
    json_t *o = json_loadb(text.p, text.n, JSON_ALLOW_NUL, NULL);
    leat_queue_event e = {
        .type = json_string_value(json_object_get(o, "type")),
        .queue = text_of(o, "queue"),
        .message_id = text_of(o, "message_id"),
        .at_ms = json_integer_value(json_object_get(o, "at_unix_ms")),
        .receives = receives_of(o),
    };
    if (e.type) {
        w->fn(w->arg, &e, w->missed);
        w->missed = false;
    }
    json_decref(o);
}

/* ---- listening -------------------------------------------------------- */

/* Sleep until the server says something or the watch is closed. */
static int sleep_for(leat_queue_watch *w, leat_conn *conn, int64_t ms)
{
    struct pollfd p[] = { { .fd = leat_conn_fd(conn), .events = POLLIN },
                          { .fd = w->event, .events = POLLIN } };
    return leat__sys->poll(leat__sys->arg, p, 2, ms * 1000000);
}

static void on_push(void *arg, leat_bytes channel, leat_bytes payload)
{
    (void)channel;
    tell(arg, payload);
}

static void note_listening(leat_queue_watch *w)
{
    pthread_mutex_lock(&w->lock);
    w->listening = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static leat_code listen_to(leat_queue_watch *w, leat_conn *conn,
                           leat_error *err)
{
    leat_bytes channel = leat__key_bytes(&w->key);
    leat_conn_on_push(conn, on_push, w);
    leat_code rc = leat_conn_subscribe(conn, false, &channel, 1, err);
    if (rc == LEAT_OK)
        note_listening(w);
    while (rc == LEAT_OK && !atomic_load(&w->closing)) {
        int n = sleep_for(w, conn, PING_MS);
        if (n < 0 && errno != EINTR)
            return leat__fail_errno(err, LEAT_EIO, errno, "cannot poll");
        rc = n == 0 ? leat_conn_call(conn, LEAT_ARGS(leat_str("PING")), NULL,
                                     NULL, err)
                    : leat_conn_listen(conn, 0, err);
    }
    return rc;
}

/* ---- the stream ------------------------------------------------------- */

static void keep_id(leat_queue_watch *w, leat_bytes id)
{
    if (id.n < sizeof w->last) {
        memcpy(w->last, id.p, id.n);
        w->last[id.n] = '\0';
    }
}

static void on_entries(void *arg, const leat_reply *r, const leat_error *e)
{
    leat_queue_watch *w = arg;
    w->answered = true;
    leat_error odd;
    e = leat__reply_odd(
        r, e, "0|[[t" LEAT__SHAPE_ENTRIES "]]|{t" LEAT__SHAPE_ENTRIES "}",
        "XREAD", &odd);
    if (e) {
        w->err = *e;
        return;
    }
    /* [[stream, entries]], or of RESP3 {stream: entries}. */
    const leat_reply *one = leat_reply_at(r, 0);
    const leat_reply *all = !one ? NULL
                            : leat_reply_kind(r) == LEAT_REPLY_MAP
                                ? leat_reply_at(r, 1)
                                : leat_reply_at(one, 1);
    size_t n = all ? leat_reply_len(all) : 0;
    for (size_t i = 0; i < n; i++) {
        const leat_reply *entry = leat_reply_at(all, i);
        const leat_reply *fields = leat_reply_at(entry, 1);
        keep_id(w, leat_reply_bytes(leat_reply_at(entry, 0)));
        if (leat_reply_len(fields) >= 2)
            tell(w, leat_reply_bytes(leat_reply_at(fields, 1)));
    }
}

/* From the end of the stream as it is now. */
static leat_code begin(leat_queue_watch *w, leat_conn *conn, leat_error *err)
{
    const leat_reply *r;
    leat_code rc = leat_conn_call(conn,
                                  LEAT_ARGS(leat_str("XREVRANGE"),
                                            leat__key_bytes(&w->key),
                                            leat_str("+"), leat_str("-"),
                                            leat_str("COUNT"), leat_str("1")),
                                  NULL, &r, err);
    if (rc == LEAT_OK)
        rc = leat__reply_want(r, LEAT__SHAPE_ENTRIES, LEAT_EPROTO, "XREVRANGE",
                              err);
    if (rc != LEAT_OK)
        return rc;
    keep_id(w, leat_reply_len(r) > 0
                   ? leat_reply_bytes(leat_reply_at(leat_reply_at(r, 0), 0))
                   : leat_str("0"));
    w->begun = true;
    return LEAT_OK;
}

/* Is the entry that we had last no longer there, and not because there never
 * was one? */
static leat_code look_for_gap(leat_queue_watch *w, leat_conn *conn,
                              leat_error *err)
{
    const leat_reply *r;
    if (strcmp(w->last, "0") == 0)
        return LEAT_OK;
    leat_code rc = leat_conn_call(
        conn,
        LEAT_ARGS(leat_str("XRANGE"), leat__key_bytes(&w->key),
                  leat_str(w->last), leat_str(w->last)),
        NULL, &r, err);
    if (rc == LEAT_OK)
        rc = leat__reply_want(r, LEAT__SHAPE_ENTRIES, LEAT_EPROTO, "XRANGE",
                              err);
    if (rc == LEAT_OK && leat_reply_len(r) == 0)
        w->missed = true;
    return rc;
}

static leat_code read_some(leat_queue_watch *w, leat_conn *conn,
                           leat_error *err)
{
    char count[LEAT__NUMBER], block[LEAT__NUMBER];
    w->answered = false;
    w->err = (leat_error){ 0 };
    leat_code rc = leat_conn_send(
        conn,
        LEAT_ARGS(leat_str("XREAD"), leat_str("COUNT"),
                  leat__arg_int(count, COUNT), leat_str("BLOCK"),
                  leat__arg_int(block, BLOCK_MS), leat_str("STREAMS"),
                  leat__key_bytes(&w->key), leat_str(w->last)),
        &(leat_send_opts){ on_entries, w, BLOCK_MS }, err);
    if (rc == LEAT_OK)
        rc = leat_conn_flush(conn, err);
    while (rc == LEAT_OK && !w->answered && !atomic_load(&w->closing)) {
        (void)sleep_for(w, conn, BLOCK_MS);
        rc = leat_conn_take(conn, err);
        if (rc == LEAT_OK && !w->answered)
            rc = leat__conn_expire(conn, err);
    }
    if (rc == LEAT_OK && w->err.code != LEAT_OK) {
        *err = w->err;
        rc = w->err.code;
    }
    return rc;
}

static leat_code read_on(leat_queue_watch *w, leat_conn *conn, leat_error *err)
{
    leat_code rc = LEAT_OK;
    if (!w->begun)
        rc = begin(w, conn, err);
    while (rc == LEAT_OK && !atomic_load(&w->closing)) {
        rc = look_for_gap(w, conn, err);
        if (rc == LEAT_OK)
            rc = read_some(w, conn, err);
    }
    return rc;
}

/* ---- the thread ------------------------------------------------------- */

static void nap(leat_queue_watch *w)
{
    struct pollfd p = { .fd = w->event, .events = POLLIN };
    (void)leat__sys->poll(leat__sys->arg, &p, 1, RETRY_MS * INT64_C(1000000));
}

static void *run(void *arg)
{
    leat_queue_watch *w = arg;
    while (!atomic_load(&w->closing)) {
        leat_error e;
        leat_conn *conn = leat__client_dial_key(
            w->client, leat__key_bytes(&w->key), INT64_MAX, &e);
        leat_code rc = !conn        ? e.code
                       : w->durable ? read_on(w, conn, &e)
                                    : listen_to(w, conn, &e);
        leat__conn_free(conn);
        if (rc == LEAT_OK)
            continue;
        leat__log(&w->log, LEAT_LOG_INFO, "watch: %s", e.msg);
        w->missed |= !w->durable;
        nap(w);
    }
    return NULL;
}

static void watch_free(leat_queue_watch *w)
{
    if (w->event >= 0)
        close(w->event);
    leat_client *c = w->client;
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    leat__free(w);
    leat__client_drop(c, LEAT__A_WATCH);
}

static leat_queue_watch *watch_new(leat_client *c, const char *name,
                                   const leat_queue_opts *o, bool durable,
                                   leat_error *err)
{
    leat_queue_watch *w = leat__zalloc(sizeof *w, err);
    if (!w)
        return NULL;
    w->log = o->log;
    leat__client_inherit(c, &w->log, NULL);
    w->durable = durable;
    const queue_profile *p = leat__queue_profile(o->profile);
    if (name)
        p->key(&w->key, o->prefix, name, durable ? "log" : "events");
    else
        leat__key_put(&w->key, "%s:events", leat__profile_prefix(p, o->prefix));
    if (leat__cond_init(&w->changed, err) != LEAT_OK) {
        leat__free(w);
        return NULL;
    }
    pthread_mutex_init(&w->lock, NULL);
    w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->event < 0)
        leat__fail_errno(err, LEAT_EIO, errno, "eventfd");
    else if (leat__client_keep(c, LEAT__A_WATCH, err) == LEAT_OK)
        w->client = c;
    if (w->client)
        return w;
    watch_free(w);
    return NULL;
}
/* The end of the stream is looked for here, so that what is sent after the open
 * is heard. */
static leat_code find_end(leat_queue_watch *w, leat_error *err)
{
    leat_conn *conn = leat__client_dial_key(w->client, leat__key_bytes(&w->key),
                                            INT64_MAX, err);
    if (!conn)
        return err ? err->code : LEAT_ECONN;
    leat_code rc = begin(w, conn, err);
    leat__conn_free(conn);
    return rc;
}

/* Until those who send will ask who listens.  A server that is away is not
 * waited for any longer: then the first event is marked. */
static void wait_to_hear(leat_queue_watch *w)
{
    int64_t deadline = leat__deadline_ns(w->client->opts.timeout_ms);
    bool in_time = true;
    pthread_mutex_lock(&w->lock);
    while (!w->listening && in_time)
        in_time = leat__cond_wait(&w->changed, &w->lock, deadline);
    pthread_mutex_unlock(&w->lock);
    if (in_time)
        (void)leat__client_pause(w->client, LEAT__QUEUE_DEAF_MS, INT64_MAX);
}

leat_queue_watch *leat_queue_watch_open(leat_client *c, const char *name,
                                        const leat_queue_opts *opts,
                                        bool durable, leat_queue_event_fn *fn,
                                        void *arg, leat_error *err)
{
    leat_queue_opts o = opts ? *opts : (leat_queue_opts){ 0 };
    if (leat__queue_check(name ? name : "all", &o, err) != LEAT_OK ||
        leat__client_own(c, err) != LEAT_OK)
        return NULL;
    if (durable && (!name || o.profile != LEAT_QUEUE_NATIVE)) {
        leat__fail(err, LEAT_ENOTSUP,
                   name ? "redowl keeps no events: watch without `durable`"
                        : "durable events are kept with each queue: name one");
        return NULL;
    }
    leat_queue_watch *w = watch_new(c, name, &o, durable, err);
    if (!w)
        return NULL;
    w->fn = fn;
    w->arg = arg;
    if ((durable && find_end(w, err) != LEAT_OK) ||
        leat__thread_start(&w->thread, "leat-watch", run, w, err) != LEAT_OK) {
        watch_free(w);
        return NULL;
    }
    if (!durable)
        wait_to_hear(w);
    return w;
}

void leat_queue_watch_close(leat_queue_watch *w)
{
    uint64_t one = 1;
    if (!w || leat__client_own(w->client, NULL) != LEAT_OK)
        return;
    atomic_store(&w->closing, true);
    ssize_t n = write(w->event, &one, sizeof one);
    (void)n;
    pthread_join(w->thread, NULL);
    watch_free(w);
}
