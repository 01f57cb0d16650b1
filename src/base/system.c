/*
 * system.c: the operating system behind the table of system.h.
 */
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static void *os_alloc(void *arg, void *old, size_t size)
{
    (void)arg;
    if (size == 0) {
        free(old);
        return NULL;
    }
    return realloc(old, size);
}

static int64_t read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t os_monotonic_ns(void *arg)
{
    (void)arg;
    return read_clock(CLOCK_MONOTONIC);
}

static int64_t os_boottime_ns(void *arg)
{
    (void)arg;
    return read_clock(CLOCK_BOOTTIME);
}

static int64_t os_realtime_ns(void *arg)
{
    (void)arg;
    return read_clock(CLOCK_REALTIME);
}

static int os_random(void *arg, void *buf, size_t n)
{
    char *p = buf;
    (void)arg;
    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        p += got;
        n -= (size_t)got;
    }
    return 0;
}

static int os_socket(void *arg, int domain, int type, int protocol)
{
    (void)arg;
    return socket(domain, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
}

static int os_connect(void *arg, int fd, const struct sockaddr *a, socklen_t n)
{
    (void)arg;
    return connect(fd, a, n);
}

static ssize_t os_recv(void *arg, int fd, void *buf, size_t n)
{
    (void)arg;
    return recv(fd, buf, n, MSG_DONTWAIT);
}

static ssize_t os_recv_wait(void *arg, int fd, void *buf, size_t n)
{
    (void)arg;
    return recv(fd, buf, n, 0);
}

/* The socket becomes a blocking one with a limit; the other calls say for
 * themselves that they do not wait. */
static int os_patience(void *arg, int fd, int64_t ns)
{
    struct timeval t = { .tv_sec = ns / 1000000000,
                         .tv_usec = ns % 1000000000 / 1000 };
    int flags = fcntl(fd, F_GETFL);
    (void)arg;
    if (flags < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t) != 0)
        return -1;
    return fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

static ssize_t os_sendv(void *arg, int fd, const struct iovec *v, int n)
{
    struct msghdr m = { .msg_iov = (struct iovec *)v, .msg_iovlen = (size_t)n };
    (void)arg;
    return sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int os_poll(void *arg, struct pollfd *fds, nfds_t n, int64_t timeout_ns)
{
    struct timespec t = { .tv_sec = timeout_ns / 1000000000,
                          .tv_nsec = timeout_ns % 1000000000 };
    (void)arg;
    return ppoll(fds, n, timeout_ns < 0 ? NULL : &t, NULL);
}

static int os_close(void *arg, int fd)
{
    (void)arg;
    return close(fd);
}

static const leat_system os = {
    .alloc = os_alloc,
    .monotonic_ns = os_monotonic_ns,
    .realtime_ns = os_realtime_ns,
    .random = os_random,
    .socket = os_socket,
    .connect = os_connect,
    .recv = os_recv,
    .recv_wait = os_recv_wait,
    .patience = os_patience,
    .sendv = os_sendv,
    .poll = os_poll,
    .close = os_close,
    .boottime_ns = os_boottime_ns,
};

const leat_system *leat__sys = &os;

const leat_system *leat_system_default(void)
{
    return &os;
}

void leat_system_set(const leat_system *sys)
{
    leat__sys = sys ? sys : &os;
}

leat_code leat__random(void *buf, size_t n, leat_error *err)
{
    if (leat__sys->random(leat__sys->arg, buf, n) != 0)
        return leat__fail(err, LEAT_EIO, "the system gave no random bytes");
    return LEAT_OK;
}

void leat__sleep_ms(int64_t ms)
{
    if (ms > 0)
        leat__sys->poll(leat__sys->arg, NULL, 0, ms * 1000000);
}
