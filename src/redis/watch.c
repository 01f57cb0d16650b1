/*
 * watch.c: following the master of a service.
 *
 *   ask all    a connection to each of the first sentinels of the URL; one that
 *              fails is left alone for a while
 *   decide     leat__sentinel_choose, over what they say now
 *   follow     if it is not the known master: dial, verify, cut
 *   rest       until a sentinel speaks, the second is over, or the end comes
 *
 * Publish/subscribe is a hint that can be lost; the answers to the questions
 * are what counts.  With RESP2 a connection that has subscribed can ask nothing
 * more, so there the questions alone must do.
 */
#include "redis/watch.h"
#include "base/backoff.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/thread.h"
#include "redis/sentinel.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    WATCHED = 5,       /* sentinels at most                          */
    EVERY_MS = 1000,   /* between two rounds without a hint          */
    GAP_MS = 50,       /* between two rounds with hints              */
    PATIENCE_MS = 2000 /* for a sentinel, and for the new master     */
};

struct peer {
    leat_conn *conn; /* NULL: not now                       */
    leat__backoff wait;
    int64_t again_ns; /* when to try it again                */
};

struct leat__watch {
    leat_client *client;
    pthread_t thread;
    int event;         /* readable: the end has come                    */
    leat__lines lines; /* to the sentinels, which may hang when it ends */
    size_t n;
    struct peer peers[WATCHED];
    leat__sentinel_answer said[WATCHED];
    leat_error told; /* the last complaint, which is not repeated */
};

static bool is_closing(leat__watch *w)
{
    return !leat__client_pause(w->client, 0, INT64_MAX);
}

static void complain(leat__watch *w, const leat_error *e)
{
    if (strcmp(w->told.msg, e->msg) == 0)
        return;
    w->told = *e;
    leat__log(&w->client->opts.log, LEAT_LOG_INFO, "%s", e->msg);
}

/* ---- asking ----------------------------------------------------------- */

static void drop(struct peer *p)
{
    leat__conn_free(p->conn);
    p->conn = NULL;
    p->again_ns = leat__deadline_ns(leat__backoff_next_ms(&p->wait));
}

/* Without the hint the questions still come every second. */
static void subscribe(leat_conn *conn)
{
    leat_bytes name = leat_str("+switch-master");
    if (conn->protocol == 3)
        (void)leat_conn_subscribe(conn, false, &name, 1, NULL);
}

static void ask_one(leat__watch *w, size_t i)
{
    leat_error e;
    struct peer *p = &w->peers[i];
    leat__sentinel *s = w->client->sentinel;
    int64_t end = leat__deadline_ns(PATIENCE_MS);

    w->said[i] = (leat__sentinel_answer){ 0 };
    if (!p->conn && leat__now_ns() < p->again_ns)
        return;
    if (!p->conn) {
        p->conn = leat__sentinel_connect(s, i, &w->lines, end, &e);
        if (p->conn)
            subscribe(p->conn);
    }
    if (p->conn &&
        leat__sentinel_ask(s, i, p->conn, end, &w->said[i], &e) == LEAT_OK) {
        leat__backoff_reset(&p->wait);
        return;
    }
    complain(w, &e);
    drop(p);
}

/* ---- following -------------------------------------------------------- */

static void mark_tried(leat__watch *w, const leat__address *at)
{
    for (size_t i = 0; i < w->n; i++)
        if (leat__address_same(&w->said[i].at, at))
            w->said[i].tried = true;
}

static bool follow_one(leat__watch *w)
{
    leat__sentinel *s = w->client->sentinel;
    leat__sentinel_known known = leat__sentinel_now(s);
    size_t k = leat__sentinel_choose(&known, w->said, w->n, w->n);
    if (k == w->n)
        return true;
    leat__sentinel_answer *a = &w->said[k];
    if (known.is && leat__address_same(&known.at, &a->at)) {
        leat__sentinel_confirm(s, a);
        return true;
    }
    leat_error e;
    leat_conn *conn = leat__sentinel_follow(s, &known, a, k,
                                            leat__deadline_ns(PATIENCE_MS), &e);
    if (!conn)
        complain(w, &e);
    leat__conn_free(conn);
    mark_tried(w, &a->at);
    return conn != NULL;
}

/* A sentinel may name a server that is no master: then what the others say
 * counts.  Each turn rules out one address. */
static void follow(leat__watch *w)
{
    for (size_t i = 0; i < w->n && !is_closing(w); i++)
        if (follow_one(w))
            return;
}

/* ---- resting ---------------------------------------------------------- */

static void rest(leat__watch *w)
{
    struct pollfd p[WATCHED + 1] = { { .fd = w->event, .events = POLLIN } };
    int64_t ms = INT64_C(1000000);
    nfds_t n = 1;
    int rc = leat__sys->poll(leat__sys->arg, p, 1, GAP_MS * ms);
    for (size_t i = 0; i < w->n; i++)
        if (w->peers[i].conn)
            p[n++] = (struct pollfd){ .fd = leat_conn_fd(w->peers[i].conn),
                                      .events = POLLIN };
    if (rc == 0)
        rc = leat__sys->poll(leat__sys->arg, p, n, (EVERY_MS - GAP_MS) * ms);
    if (rc < 0 && errno != EINTR)
        (void)leat__client_pause(w->client, EVERY_MS, INT64_MAX);
}

static void *run(void *arg)
{
    leat__watch *w = arg;
    while (!is_closing(w)) {
        for (size_t i = 0; i < w->n && !is_closing(w); i++)
            ask_one(w, i);
        follow(w);
        rest(w);
    }
    for (size_t i = 0; i < w->n; i++)
        leat__conn_free(w->peers[i].conn);
    return NULL;
}

leat__watch *leat__watch_open(leat_client *c, leat_error *err)
{
    leat__watch *w = leat__zalloc(sizeof *w, err);
    if (!w)
        return NULL;
    w->client = c;
    w->n = c->url.host_count < WATCHED ? c->url.host_count : WATCHED;
    for (size_t i = 0; i < w->n; i++)
        w->peers[i].wait = (leat__backoff){ .base_ms = EVERY_MS,
                                            .cap_ms = 10 * EVERY_MS };
    w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->event < 0) {
        leat__fail_errno(err, LEAT_EIO, errno, "eventfd");
        leat__free(w);
        return NULL;
    }
    leat__lines_init(&w->lines);
    if (leat__thread_start(&w->thread, "leat-watch", run, w, err) != LEAT_OK) {
        leat__lines_release(&w->lines);
        close(w->event);
        leat__free(w);
        return NULL;
    }
    return w;
}

static bool keep_none(const leat__address *at, void *arg)
{
    (void)at;
    (void)arg;
    return false;
}

void leat__watch_close(leat__watch *w)
{
    uint64_t one = 1;
    if (!w)
        return;
    ssize_t n = write(w->event, &one, sizeof one);
    (void)n; /* an eventfd that is full is readable too */
    (void)leat__lines_cut(&w->lines, keep_none, NULL);
    pthread_join(w->thread, NULL);
    leat__lines_release(&w->lines);
    close(w->event);
    leat__free(w);
}
