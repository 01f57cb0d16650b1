/*
 * mutate_wire.h: a server that lies once.
 *
 * Between each connection and its transport every reply is taken apart, also
 * of TLS, of a cluster's nodes and of sentinels; the one that is to be harmed
 * is changed (mutate.h).
 *
 *   mutate_install(&m);        the m.at-th reply from here on is changed
 *   ... work ...
 *   m.count                    replies that came
 *
 * Or it lies of one command: m.of is its name, or a script's, and m.with is
 * what arrives instead of the next m.times answers to it.
 *
 * A program that includes it is linked with --wrap=leat__conn_new.
 * Threads: a connection is used by one thread at a time, as in the library.
 */
#ifndef SUPPORT_MUTATE_WIRE_H
#define SUPPORT_MUTATE_WIRE_H

#include "base/mem.h"
#include "redis/conn.h"
#include "support/mutate.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <unistd.h>

typedef struct mutate {
    atomic_bool on;
    atomic_uint count;      /* replies that came while on               */
    int record_fd;          /* all replies are written there, too; 0: nowhere */
    unsigned at, seed;      /* which to change, and how; 0: none        */
    char was[160], is[160]; /* the beginning of both                    */
    const char *of, *with;
    atomic_int times;  /* of these are still to come                    */
    atomic_uint asked; /* commands of that name since then              */
} mutate;

enum { MUTATE_READ = 65536, MUTATE_ASKED = 4096 };

static mutate *mutating; /* NULL: all goes as it is */

typedef struct mutate_wire {
    leat__transport base;
    leat__transport *inner;
    leat__buf in, out, sent;
    size_t given; /* of out */
    leat__resp resp;
    unsigned first, end; /* commands without an answer */
    struct mutate_asked {
        bool of; /* m.of */
        uint16_t tag;
    } asked[MUTATE_ASKED];
} mutate_wire;

/* ---- commands --------------------------------------------------------- */

/* RESP3 confirms a subscription by pushes alone. */
static inline bool mutate_unanswered(leat_bytes name)
{
    const char *p = name.p;
    return name.n >= 9 && memcmp(p + name.n - 9, "SUBSCRIBE", 9) == 0;
}

static inline void mutate_note(mutate_wire *w, const leat_reply *command)
{
    mutate *m = mutating;
    leat_bytes name = mutate_name(command);
    bool ours = m->of && leat_bytes_eq(name, leat_str(m->of));
    if (ours)
        atomic_fetch_add(&m->asked, 1);
    if (!mutate_unanswered(name))
        w->asked[w->end++ % MUTATE_ASKED] = (struct mutate_asked){
            .of = ours, .tag = mutate_tag(command)
        };
}

/* Whole commands of what was sent. */
static inline void mutate_note_all(mutate_wire *w)
{
    leat__resp d;
    size_t used, at = 0;
    leat__resp_init(&d, &(leat__resp_limits){ 0 });
    while (at < w->sent.n &&
           leat__resp_decode(&d, w->sent.p + at, w->sent.n - at, &used, NULL) ==
               LEAT__RESP_DONE) {
        mutate_note(w, d.nodes);
        leat__resp_reset(&d);
        at += used;
    }
    leat__resp_release(&d);
    if (at > 0)
        memmove(w->sent.p, w->sent.p + at, w->sent.n - at);
    w->sent.n -= at;
}

static inline void mutate_mirror(mutate_wire *w)
{
    w->base.fd = w->inner->fd;
    w->base.wants = w->inner->wants;
    w->base.why = w->inner->why;
}

static inline ssize_t mutate_sendv(leat__transport *t, const struct iovec *v,
                                   int n)
{
    mutate_wire *w = (mutate_wire *)t;
    ssize_t sent = w->inner->ops->sendv(w->inner, v, n);
    mutate_mirror(w);
    for (ssize_t left = sent; left > 0; v++) {
        size_t some = v->iov_len < (size_t)left ? v->iov_len : (size_t)left;
        if (leat__buf_add(&w->sent, v->iov_base, some, NULL) != LEAT_OK)
            abort();
        left -= (ssize_t)some;
    }
    int saved = errno;
    mutate_note_all(w);
    errno = saved;
    return sent;
}

/* ---- replies ---------------------------------------------------------- */

static inline void mutate_show(char *to, size_t room, const char *p, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < n && at + 5 < room; i++)
        at += (size_t)snprintf(to + at, room - at,
                               p[i] >= ' ' && p[i] < 0x7f ? "%c" : "\\%02x",
                               (unsigned char)p[i]);
}

/* In one call: connections are recorded together. */
static inline void mutate_record(int fd, uint16_t tag, const char *p, size_t n)
{
    unsigned char head[2] = { (unsigned char)tag, (unsigned char)(tag >> 8) };
    struct iovec v[] = { { head, 2 }, { (void *)p, n } };
    if (writev(fd, v, 2) != (ssize_t)n + 2)
        abort();
}

static inline void mutate_pass(mutate_wire *w, const char *p, size_t n)
{
    mutate *m = mutating;
    unsigned number = 0;
    struct mutate_asked asked = { .tag = mutate_tag(NULL) };
    const leat_reply *r = w->resp.nodes;
    if (r->type != LEAT_REPLY_PUSH && w->first != w->end)
        asked = w->asked[w->first++ % MUTATE_ASKED];
    if (m->record_fd > 0)
        mutate_record(m->record_fd, asked.tag, p, n);
    if (atomic_load(&m->on))
        number = atomic_fetch_add(&m->count, 1) + 1;
    if (asked.of && atomic_fetch_sub(&m->times, 1) > 0) {
        mutate_put(&w->out, m->with);
        return;
    }
    size_t from = w->out.n;
    if (number == 0 || number != m->at) {
        if (leat__buf_add(&w->out, p, n, NULL) != LEAT_OK)
            abort();
        return;
    }
    (void)mutate_emit(&w->out, r, 0, m->seed / MUTATE_COUNT % r->span,
                      (enum mutation)(m->seed % MUTATE_COUNT), m->seed / 7);
    mutate_show(m->was, sizeof m->was, p, n);
    mutate_show(m->is, sizeof m->is, w->out.p + from, w->out.n - from);
}

/* Whole replies move from in to out. */
static inline void mutate_take(mutate_wire *w, const char *p, size_t n)
{
    size_t used, at = 0;
    if (leat__buf_add(&w->in, p, n, NULL) != LEAT_OK)
        abort();
    while (at < w->in.n &&
           leat__resp_decode(&w->resp, w->in.p + at, w->in.n - at, &used,
                             NULL) == LEAT__RESP_DONE) {
        mutate_pass(w, w->in.p + at, used);
        leat__resp_reset(&w->resp);
        at += used;
    }
    if (at > 0)
        memmove(w->in.p, w->in.p + at, w->in.n - at);
    w->in.n -= at;
    leat__resp_reset(&w->resp);
}

/* A part of a reply is not passed on: nothing has come then. */
static inline ssize_t mutate_recv(leat__transport *t, void *buf, size_t n,
                                  bool wait)
{
    static _Thread_local char room[MUTATE_READ];
    mutate_wire *w = (mutate_wire *)t;
    while (w->out.n == w->given) {
        w->out.n = w->given = 0;
        ssize_t got = w->inner->ops->recv(w->inner, room, sizeof room, wait);
        mutate_mirror(w);
        if (got <= 0)
            return got;
        mutate_take(w, room, (size_t)got);
        if (w->out.n == 0 && !w->inner->more) {
            w->base.wants = POLLIN;
            errno = EAGAIN;
            return -1;
        }
    }
    size_t have = w->out.n - w->given;
    n = n < have ? n : have;
    memcpy(buf, w->out.p + w->given, n);
    w->given += n;
    w->base.more = n < have || w->inner->more;
    return (ssize_t)n;
}

static inline void mutate_free(mutate_wire *w)
{
    leat__buf_release(&w->in);
    leat__buf_release(&w->out);
    leat__buf_release(&w->sent);
    leat__resp_release(&w->resp);
    free(w);
}

static inline void mutate_close(leat__transport *t)
{
    mutate_wire *w = (mutate_wire *)t;
    w->inner->ops->close(w->inner);
    mutate_free(w);
}

/* ---- every connection ------------------------------------------------- */

leat_conn *__real_leat__conn_new(leat__transport *t,
                                 const leat__conn_opts *opts, leat_error *err);
leat_conn *__wrap_leat__conn_new(leat__transport *t,
                                 const leat__conn_opts *opts, leat_error *err);

leat_conn *__wrap_leat__conn_new(leat__transport *t,
                                 const leat__conn_opts *opts, leat_error *err)
{
    static const leat__transport_ops ops = { mutate_recv, mutate_sendv,
                                             mutate_close };
    if (!mutating)
        return __real_leat__conn_new(t, opts, err);
    mutate_wire *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    w->inner = t;
    w->base.ops = &ops;
    mutate_mirror(w);
    leat__resp_init(&w->resp, &(leat__resp_limits){ 0 });
    leat_conn *conn = __real_leat__conn_new(&w->base, opts, err);
    if (!conn)
        mutate_free(w);
    return conn;
}

static inline void mutate_install(mutate *m)
{
    mutating = m;
}

#endif
