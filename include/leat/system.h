/*
 * system.h: everything the library asks of the world below it.
 *
 * Memory, clocks, randomness and sockets go through one table, so that a
 * program can count or pool its memory, and a test can fail the n-th call or
 * run on a clock of its own.  Set it once, before the first other call; besides
 * it only name lookups under way belong to the whole process.
 *
 * Threads: the functions are called from any thread.
 */
#ifndef LEAT_SYSTEM_H
#define LEAT_SYSTEM_H

#include <leat/api.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

LEAT_BEGIN

typedef struct leat_system {
    void *arg; /* handed to every function below */

    /* As realloc; size 0 frees and returns NULL.  NULL: no memory. */
    void *(*alloc)(void *arg, void *old, size_t size);

    int64_t (*monotonic_ns)(void *arg); /* never runs back */
    int64_t (*realtime_ns)(void *arg);  /* since 1970, may jump */

    /* Fill buf from a cryptographic source.  0, or -1. */
    int (*random)(void *arg, void *buf, size_t n);

    /* As the calls of the same name, with errno.  A socket is non-blocking
     * and closed on exec; send never raises SIGPIPE. */
    int (*socket)(void *arg, int domain, int type, int protocol);
    int (*connect)(void *arg, int fd, const struct sockaddr *a, socklen_t n);
    ssize_t (*recv)(void *arg, int fd, void *buf, size_t n);

    /* As recv, but it may wait for the first byte as long as patience allows:
     * one call where an answer is expected, instead of poll and recv. */
    ssize_t (*recv_wait)(void *arg, int fd, void *buf, size_t n);
    int (*patience)(void *arg, int fd, int64_t ns);

    ssize_t (*sendv)(void *arg, int fd, const struct iovec *v, int n);
    int (*poll)(void *arg, struct pollfd *fds, nfds_t n, int64_t timeout_ns);
    int (*close)(void *arg, int fd);

    /* As monotonic_ns, but it goes on while the machine sleeps.  NULL: that
     * never does, and monotonic_ns is used. */
    int64_t (*boottime_ns)(void *arg);
} leat_system;

/* The operating system's own table: copy it and replace what you need. */
LEAT_API const leat_system *leat_system_default(void);

/* Use this table from now on; NULL restores the default.  It is borrowed and
 * must outlive every handle.  Memory is freed by the table in force then. */
LEAT_API void leat_system_set(const leat_system *sys);

LEAT_END
#endif
