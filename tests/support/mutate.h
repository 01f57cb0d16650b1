/*
 * mutate.h: a server that lies once.
 *
 * Between the library and a real server every reply is taken apart; the one
 * that is to be harmed is changed at one place of its tree: an element is
 * dropped, doubled, emptied, wrapped, or becomes something else.  What arrives
 * is well-formed RESP of the wrong shape.
 *
 *   mutate_install(&m);        the m.at-th reply from here on is changed
 *   ... work ...
 *   m.count                    replies that came
 *
 * Threads: a connection is used by one thread at a time, as in the library.
 */
#ifndef SUPPORT_MUTATE_H
#define SUPPORT_MUTATE_H

#include "base/buf.h"
#include "redis/resp.h"

#include <errno.h>
#include <inttypes.h>
#include <leat/leat.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum mutation {
    MUTATE_DROP,
    MUTATE_DOUBLE,
    MUTATE_EMPTY, /* *0                                        */
    MUTATE_WRAP,  /* *1 around it                              */
    MUTATE_NIL,
    MUTATE_INT, /* a large or negative number                 */
    MUTATE_TEXT,
    MUTATE_ERROR,
    MUTATE_ODD, /* a list of three                            */
    MUTATE_MAP,
    MUTATE_COUNT
};

typedef struct mutate {
    atomic_bool on;
    atomic_uint count;      /* replies that came while on               */
    int record_fd;          /* all replies are written there, too; 0: nowhere */
    unsigned at, seed;      /* which to change, and how; 0: none        */
    char was[160], is[160]; /* the beginning of both                */
} mutate;

enum { MUTATE_FDS = 1024, MUTATE_READ = 65536 };

static struct {
    leat_system sys;
    mutate *to;
    struct mutate_fd {
        bool known;
        leat__buf in, out;
        size_t given; /* of out */
        leat__resp resp;
    } fd[MUTATE_FDS];
} mutating;

/* ---- a tree as bytes -------------------------------------------------- */

static inline void mutate_put(leat__buf *b, const char *text)
{
    if (leat__buf_str(b, text, NULL) != LEAT_OK)
        abort();
}

static inline void mutate_text(leat__buf *b, char mark, const leat_reply *r)
{
    char head[32];
    leat_bytes t = leat_reply_bytes(r);
    if (mark == '$')
        snprintf(head, sizeof head, "$%zu\r\n", t.n);
    else
        snprintf(head, sizeof head, "%c", mark);
    mutate_put(b, head);
    if (leat__buf_add(b, t.p, t.n, NULL) != LEAT_OK)
        abort();
    mutate_put(b, "\r\n");
}

static inline void mutate_other(leat__buf *b, enum mutation how, unsigned seed)
{
    static const char *const ints[] = { ":-1\r\n", ":9223372036854775807\r\n",
                                        ":0\r\n", ":-9223372036854775808\r\n",
                                        ":1000\r\n" };
    static const char *const texts[] = { "$0\r\n\r\n", "$3\r\n1-1\r\n",
                                         "$1\r\n\xff\r\n", "+OK\r\n",
                                         "$4\r\n4096\r\n" };
    switch (how) {
    case MUTATE_EMPTY:
        mutate_put(b, "*0\r\n");
        break;
    case MUTATE_NIL:
        mutate_put(b, "$-1\r\n");
        break;
    case MUTATE_INT:
        mutate_put(b, ints[seed % 5]);
        break;
    case MUTATE_TEXT:
        mutate_put(b, texts[seed % 5]);
        break;
    case MUTATE_ERROR:
        mutate_put(b, "-WRONGTYPE it is something else\r\n");
        break;
    case MUTATE_ODD:
        mutate_put(b, "*3\r\n$1\r\na\r\n:1\r\n*0\r\n");
        break;
    default:
        mutate_put(b, "%1\r\n$1\r\na\r\n*1\r\n:1\r\n");
    }
}

static inline size_t mutate_emit(leat__buf *b, const leat_reply *r, size_t i,
                                 size_t target, enum mutation how,
                                 unsigned seed);

static inline void mutate_list(leat__buf *b, const leat_reply *r, size_t i,
                               size_t target, enum mutation how, unsigned seed)
{
    static const char marks[] = { [LEAT_REPLY_ARRAY] = '*',
                                  [LEAT_REPLY_MAP] = '%',
                                  [LEAT_REPLY_SET] = '~',
                                  [LEAT_REPLY_PUSH] = '>' };
    char head[32], mark = marks[r[i].type];
    size_t n = r[i].n, at = i + 1;
    for (size_t k = 0; k < r[i].n; at += r[at].span, k++)
        if (at == target)
            n += how == MUTATE_DOUBLE ? 1 : how == MUTATE_DROP ? -1UL : 0;
    if (mark == '%' && n % 2)
        mark = '*'; /* a map has no half pairs */
    snprintf(head, sizeof head, "%c%zu\r\n", mark, mark == '%' ? n / 2 : n);
    mutate_put(b, head);
    at = i + 1;
    for (size_t k = 0; k < r[i].n; k++)
        at = mutate_emit(b, r, at, target, how, seed);
}

static inline void mutate_node(leat__buf *b, const leat_reply *r, size_t i,
                               size_t target, enum mutation how, unsigned seed)
{
    char text[64];
    switch (r[i].type) {
    case LEAT_REPLY_NIL:
        mutate_put(b, "$-1\r\n");
        return;
    case LEAT_REPLY_INT:
        snprintf(text, sizeof text, ":%" PRId64 "\r\n", r[i].i);
        mutate_put(b, text);
        return;
    case LEAT_REPLY_BOOL:
        mutate_put(b, r[i].i ? "#t\r\n" : "#f\r\n");
        return;
    case LEAT_REPLY_DOUBLE:
        snprintf(text, sizeof text, ",%.17g\r\n", r[i].d);
        mutate_put(b, text);
        return;
    case LEAT_REPLY_STRING:
        mutate_text(b, '$', r + i);
        return;
    case LEAT_REPLY_STATUS:
        mutate_text(b, '+', r + i);
        return;
    case LEAT_REPLY_ERROR:
        mutate_text(b, '-', r + i);
        return;
    case LEAT_REPLY_BIGNUM:
        mutate_text(b, '(', r + i);
        return;
    default:
        mutate_list(b, r, i, target, how, seed);
    }
}

/* The i-th node with all inside it; returns the one behind. */
static inline size_t mutate_emit(leat__buf *b, const leat_reply *r, size_t i,
                                 size_t target, enum mutation how,
                                 unsigned seed)
{
    if (i != target) {
        mutate_node(b, r, i, target, how, seed);
    } else if (how == MUTATE_DOUBLE) {
        mutate_node(b, r, i, SIZE_MAX, how, seed);
        mutate_node(b, r, i, SIZE_MAX, how, seed);
    } else if (how == MUTATE_WRAP) {
        mutate_put(b, "*1\r\n");
        mutate_node(b, r, i, SIZE_MAX, how, seed);
    } else if (how != MUTATE_DROP) {
        mutate_other(b, how, seed);
    }
    return i + r[i].span;
}

/* ---- on its way ------------------------------------------------------- */

static inline void mutate_show(char *to, size_t room, const char *p, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < n && at + 5 < room; i++)
        at += (size_t)snprintf(to + at, room - at,
                               p[i] >= ' ' && p[i] < 0x7f ? "%c" : "\\%02x",
                               (unsigned char)p[i]);
}

static inline void mutate_pass(struct mutate_fd *f, const char *p, size_t n)
{
    mutate *m = mutating.to;
    unsigned number = 0;
    if (m->record_fd > 0 && write(m->record_fd, p, n) != (ssize_t)n)
        abort();
    if (atomic_load(&m->on))
        number = atomic_fetch_add(&m->count, 1) + 1;
    size_t from = f->out.n;
    if (number == 0 || number != m->at) {
        if (leat__buf_add(&f->out, p, n, NULL) != LEAT_OK)
            abort();
        return;
    }
    const leat_reply *r = f->resp.nodes;
    (void)mutate_emit(&f->out, r, 0, m->seed / MUTATE_COUNT % r->span,
                      (enum mutation)(m->seed % MUTATE_COUNT), m->seed / 7);
    mutate_show(m->was, sizeof m->was, p, n);
    mutate_show(m->is, sizeof m->is, f->out.p + from, f->out.n - from);
}

/* Whole replies move from in to out. */
static inline void mutate_take(struct mutate_fd *f, const char *p, ssize_t n)
{
    size_t used, at = 0;
    if (leat__buf_add(&f->in, p, (size_t)n, NULL) != LEAT_OK)
        abort();
    while (at < f->in.n &&
           leat__resp_decode(&f->resp, f->in.p + at, f->in.n - at, &used,
                             NULL) == LEAT__RESP_DONE) {
        mutate_pass(f, f->in.p + at, used);
        leat__resp_reset(&f->resp);
        at += used;
    }
    memmove(f->in.p, f->in.p + at, f->in.n - at);
    f->in.n -= at;
    leat__resp_reset(&f->resp);
}

static inline ssize_t mutate_give(struct mutate_fd *f, void *buf, size_t n)
{
    size_t have = f->out.n - f->given;
    n = n < have ? n : have;
    memcpy(buf, f->out.p + f->given, n);
    f->given += n;
    if (f->given == f->out.n)
        f->given = f->out.n = 0;
    return (ssize_t)n;
}

typedef ssize_t mutate_recv_fn(void *arg, int fd, void *buf, size_t n);

static inline ssize_t mutate_read(mutate_recv_fn *os, int fd, void *buf,
                                  size_t n)
{
    static _Thread_local char room[MUTATE_READ];
    if (fd >= MUTATE_FDS)
        abort();
    struct mutate_fd *f = &mutating.fd[fd];
    if (!f->known) {
        leat__resp_init(&f->resp, &(leat__resp_limits){ 0 });
        f->known = true;
    }
    while (f->out.n == f->given) {
        ssize_t got = os(NULL, fd, room, sizeof room);
        if (got <= 0)
            return got;
        mutate_take(f, room, got);
        if (f->out.n == f->given && os == leat_system_default()->recv) {
            errno = EAGAIN;
            return -1;
        }
    }
    return mutate_give(f, buf, n);
}

static inline ssize_t mutate_recv(void *arg, int fd, void *buf, size_t n)
{
    (void)arg;
    return mutate_read(leat_system_default()->recv, fd, buf, n);
}

static inline ssize_t mutate_recv_wait(void *arg, int fd, void *buf, size_t n)
{
    (void)arg;
    return mutate_read(leat_system_default()->recv_wait, fd, buf, n);
}

static inline bool mutate_holds(const struct pollfd *p)
{
    return (p->events & POLLIN) && p->fd >= 0 && p->fd < MUTATE_FDS &&
           mutating.fd[p->fd].out.n > mutating.fd[p->fd].given;
}

static inline int mutate_poll(void *arg, struct pollfd *fds, nfds_t n,
                              int64_t timeout_ns)
{
    bool held = false;
    for (nfds_t i = 0; i < n; i++)
        held = held || mutate_holds(&fds[i]);
    int ready = leat_system_default()->poll(arg, fds, n, held ? 0 : timeout_ns);
    for (nfds_t i = 0; held && ready >= 0 && i < n; i++) {
        if (!mutate_holds(&fds[i]))
            continue;
        ready += fds[i].revents == 0;
        fds[i].revents |= POLLIN;
    }
    return ready;
}

static inline int mutate_close(void *arg, int fd)
{
    struct mutate_fd *f = &mutating.fd[fd];
    leat__buf_release(&f->in);
    leat__buf_release(&f->out);
    leat__resp_release(&f->resp);
    *f = (struct mutate_fd){ 0 };
    return leat_system_default()->close(arg, fd);
}

static inline void mutate_install(mutate *m)
{
    mutating.to = m;
    mutating.sys = *leat_system_default();
    mutating.sys.recv = mutate_recv;
    mutating.sys.recv_wait = mutate_recv_wait;
    mutating.sys.poll = mutate_poll;
    mutating.sys.close = mutate_close;
    leat_system_set(&mutating.sys);
}

#endif
