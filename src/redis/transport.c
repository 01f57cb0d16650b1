/*
 * transport.c: plain TCP and Unix sockets.
 */
#include "redis/transport.h"
#include "base/mem.h"
#include "base/system.h"
#include "redis/lookup.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static ssize_t plain_recv(leat__transport *t, void *buf, size_t n, bool wait)
{
    t->wants = POLLIN;
    return wait ? leat__sys->recv_wait(leat__sys->arg, t->fd, buf, n)
                : leat__sys->recv(leat__sys->arg, t->fd, buf, n);
}

static ssize_t plain_sendv(leat__transport *t, const struct iovec *v, int n)
{
    t->wants = POLLOUT;
    return leat__sys->sendv(leat__sys->arg, t->fd, v, n);
}

static void plain_close(leat__transport *t)
{
    leat__sys->close(leat__sys->arg, t->fd);
    leat__free(t);
}

static const leat__transport_ops plain = {
    .recv = plain_recv,
    .sendv = plain_sendv,
    .close = plain_close,
};

/* Wait for a started connect to end: 0, or the errno it failed with. */
static int connect_result(int fd, int64_t deadline_ns)
{
    for (;;) {
        struct pollfd p = { .fd = fd, .events = POLLOUT };
        int64_t left = leat__left_ms(deadline_ns);
        int n = leat__sys->poll(leat__sys->arg, &p, 1, left * 1000000);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n == 0)
            return ETIMEDOUT;
        int sys = 0;
        socklen_t len = sizeof sys;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &sys, &len) != 0)
            return errno;
        return sys;
    }
}

/* A full backlog makes a Unix connect fail with EAGAIN at once, and there is
 * nothing to poll for: try again a little later. */
static int connect_one(int fd, const struct sockaddr *a, socklen_t n,
                       int64_t deadline_ns)
{
    for (;;) {
        if (leat__sys->connect(leat__sys->arg, fd, a, n) == 0)
            return 0;
        if (errno == EINPROGRESS || errno == EINTR)
            return connect_result(fd, deadline_ns);
        if (errno != EAGAIN)
            return errno;
        if (leat__left_ms(deadline_ns) == 0)
            return ETIMEDOUT;
        leat__sleep_ms(5);
    }
}

/* Detect a peer that vanished without a word even when nothing is sent. */
static void tune_tcp(int fd)
{
    static const struct {
        int level, name, value;
    } opts[] = {
        { IPPROTO_TCP, TCP_NODELAY, 1 },   { SOL_SOCKET, SO_KEEPALIVE, 1 },
        { IPPROTO_TCP, TCP_KEEPIDLE, 15 }, { IPPROTO_TCP, TCP_KEEPINTVL, 5 },
        { IPPROTO_TCP, TCP_KEEPCNT, 3 },
    };
    for (size_t i = 0; i < sizeof opts / sizeof opts[0]; i++)
        (void)setsockopt(fd, opts[i].level, opts[i].name, &opts[i].value,
                         sizeof opts[i].value);
}

static leat__transport *wrap(int fd, leat_error *err)
{
    leat__transport *t = leat__zalloc(sizeof *t, err);
    if (t && leat__sys->patience(leat__sys->arg, fd, LEAT__PATIENCE_NS) != 0) {
        leat__fail_errno(err, LEAT_EIO, errno, "cannot set up a socket");
        leat__free(t);
        t = NULL;
    }
    if (!t) {
        leat__sys->close(leat__sys->arg, fd);
        return NULL;
    }
    t->ops = &plain;
    t->fd = fd;
    return t;
}

/* -1 with *sys set when this address cannot be had. */
static int open_socket(const struct sockaddr *a, socklen_t n,
                       int64_t deadline_ns, int *sys)
{
    int fd = leat__sys->socket(leat__sys->arg, a->sa_family, SOCK_STREAM, 0);
    if (fd < 0) {
        *sys = errno;
        return -1;
    }
    *sys = connect_one(fd, a, n, deadline_ns);
    if (*sys == 0)
        return fd;
    leat__sys->close(leat__sys->arg, fd);
    return -1;
}

static void no_connection(leat_error *err, int sys, const char *where)
{
    leat__fail_errno(err, sys == ETIMEDOUT ? LEAT_ETIMEOUT : LEAT_ECONN, sys,
                     "cannot connect to %s", where);
}

leat__transport *leat__transport_unix(const char *path, int64_t deadline_ns,
                                      leat_error *err)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    int sys;

    if (strlen(path) >= sizeof a.sun_path) {
        leat__fail(err, LEAT_EINVAL,
                   "socket path '%s' is over %zu bytes, use a shorter one",
                   path, sizeof a.sun_path - 1);
        return NULL;
    }
    memcpy(a.sun_path, path, strlen(path));
    int fd = open_socket((struct sockaddr *)&a, sizeof a, deadline_ns, &sys);
    if (fd < 0) {
        no_connection(err, sys, path);
        return NULL;
    }
    return wrap(fd, err);
}

/* Each address gets its share of the time that is left, so that one which
 * never answers does not use up that of the others.  -1 with *sys. */
static int open_first(const struct addrinfo *all, int64_t deadline_ns, int *sys)
{
    int fd = -1, after = -1;
    for (const struct addrinfo *a = all; a; a = a->ai_next)
        after++;
    for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next, after--) {
        int64_t now = leat__now_ns();
        int64_t until = after > 0 ? now + (deadline_ns - now) / (after + 1)
                                  : deadline_ns;
        fd = open_socket(a->ai_addr, a->ai_addrlen, until, sys);
    }
    return fd;
}

leat__transport *leat__transport_tcp(const char *host, int port,
                                     int64_t deadline_ns, leat_error *err)
{
    struct addrinfo *all;
    char where[300];
    int sys = ECONNREFUSED;

    if (leat__lookup(host, port, deadline_ns, &all, err) != LEAT_OK)
        return NULL;
    int fd = open_first(all, deadline_ns, &sys);
    freeaddrinfo(all);
    if (fd < 0) {
        snprintf(where, sizeof where, "%s:%d", host, port);
        no_connection(err, sys, where);
        return NULL;
    }
    tune_tcp(fd);
    return wrap(fd, err);
}
