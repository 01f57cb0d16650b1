/*
 * sysfail.h: failing the n-th system call of the library's sockets.
 *
 *   sys_fail_install(SYS_FAULT_HARD, n);
 *   ... work; the n-th call from now fails, whichever it is ...
 *   sys_fail_heal();
 *   ... work that must succeed ...
 *   assert_int_equal(alloc_fail_live(), 0);
 *   alloc_fail_remove();
 *
 * Stands on allocfail.h, so that memory is counted as well.
 */
#ifndef TESTS_SUPPORT_SYSFAIL_H
#define TESTS_SUPPORT_SYSFAIL_H

#include "support/allocfail.h"

#include <errno.h>

enum sys_fault {
    SYS_FAULT_HARD, /* the call fails for good         */
    SYS_FAULT_SOFT, /* EINTR, EAGAIN: it must be tried again */
    SYS_FAULT_SHORT /* every call moves only a little */
};

static struct {
    enum sys_fault kind;
    atomic_long at, calls, fails;
} sys_fail;

/* Is this the call to fail?  The errno depends on which it is, too. */
static inline bool sys_fail_strikes(const int *errors_of, size_t n)
{
    long call_number = atomic_fetch_add(&sys_fail.calls, 1) + 1;
    if (sys_fail.kind == SYS_FAULT_SHORT ||
        call_number != atomic_load(&sys_fail.at))
        return false;
    atomic_fetch_add(&sys_fail.fails, 1);
    errno = errors_of[(size_t)call_number % n];
    return true;
}

#define SYS_FAIL_STRIKES(...)                                                  \
    sys_fail_strikes((const int[]){ __VA_ARGS__ },                             \
                     sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int))

static inline int sys_fail_socket(void *arg, int domain, int type, int protocol)
{
    if (sys_fail.kind == SYS_FAULT_HARD &&
        SYS_FAIL_STRIKES(EMFILE, ENFILE, ENOBUFS))
        return -1;
    return leat_system_default()->socket(arg, domain, type, protocol);
}

static inline int sys_fail_connect(void *arg, int fd, const struct sockaddr *a,
                                   socklen_t n)
{
    if (sys_fail.kind == SYS_FAULT_HARD
            ? SYS_FAIL_STRIKES(ECONNREFUSED, ENOENT, ETIMEDOUT)
            : SYS_FAIL_STRIKES(EAGAIN))
        return -1;
    return leat_system_default()->connect(arg, fd, a, n);
}

static inline bool sys_fail_short_recv(size_t *n)
{
    if (sys_fail.kind == SYS_FAULT_HARD
            ? SYS_FAIL_STRIKES(ECONNRESET, ETIMEDOUT, ENOMEM)
            : SYS_FAIL_STRIKES(EINTR, EAGAIN))
        return true;
    if (sys_fail.kind == SYS_FAULT_SHORT && *n > 509)
        *n = 509;
    return false;
}

static inline ssize_t sys_fail_recv(void *arg, int fd, void *buf, size_t n)
{
    return sys_fail_short_recv(&n)
               ? -1
               : leat_system_default()->recv(arg, fd, buf, n);
}

static inline ssize_t sys_fail_recv_wait(void *arg, int fd, void *buf, size_t n)
{
    return sys_fail_short_recv(&n)
               ? -1
               : leat_system_default()->recv_wait(arg, fd, buf, n);
}

static inline int sys_fail_patience(void *arg, int fd, int64_t ns)
{
    if (sys_fail.kind == SYS_FAULT_HARD && SYS_FAIL_STRIKES(ENOMEM, EBADF))
        return -1;
    return leat_system_default()->patience(arg, fd, ns);
}

static inline ssize_t sys_fail_sendv(void *arg, int fd, const struct iovec *v,
                                     int n)
{
    struct iovec one = { v[0].iov_base, 1 };
    if (sys_fail.kind == SYS_FAULT_HARD
            ? SYS_FAIL_STRIKES(EPIPE, ECONNRESET, ENOBUFS)
            : SYS_FAIL_STRIKES(EINTR, EAGAIN))
        return -1;
    if (sys_fail.kind == SYS_FAULT_SHORT)
        return leat_system_default()->sendv(arg, fd, &one, 1);
    return leat_system_default()->sendv(arg, fd, v, n);
}

static inline int sys_fail_poll(void *arg, struct pollfd *p, nfds_t n,
                                int64_t timeout_ns)
{
    if (sys_fail.kind == SYS_FAULT_HARD ? SYS_FAIL_STRIKES(ENOMEM, EINVAL)
                                        : SYS_FAIL_STRIKES(EINTR))
        return -1;
    return leat_system_default()->poll(arg, p, n, timeout_ns);
}

static inline void sys_fail_heal(void)
{
    atomic_store(&sys_fail.at, 0);
}

/* Fail the n-th call from now; with SHORT every call moves little, and n is
 * not looked at.  No other thread may be inside leat. */
static inline void sys_fail_install(enum sys_fault kind, long n)
{
    alloc_fail_install(ALLOC_FAIL_NEVER, false);
    leat_system *s = &alloc_fail_state.sys;
    s->socket = sys_fail_socket;
    s->connect = sys_fail_connect;
    s->recv = sys_fail_recv;
    s->recv_wait = sys_fail_recv_wait;
    s->patience = sys_fail_patience;
    s->sendv = sys_fail_sendv;
    s->poll = sys_fail_poll;
    sys_fail.kind = kind;
    atomic_store(&sys_fail.calls, 0);
    atomic_store(&sys_fail.fails, 0);
    atomic_store(&sys_fail.at, n);
}

/* How many calls were failed since. */
static inline long sys_fail_count(void)
{
    return atomic_load(&sys_fail.fails);
}

#endif
