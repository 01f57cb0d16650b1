/*
 * transport.h: bytes to and from one server.
 *
 * The connection above knows only this table; TLS is another implementation of
 * it.  A transport never blocks: where a call would, it returns -1 with EAGAIN
 * and `wants` tells what to poll for: TLS may have to write in order to read.
 */
#ifndef LEAT_REDIS_TRANSPORT_H
#define LEAT_REDIS_TRANSPORT_H

#include "base/error.h"
#include <sys/uio.h>

typedef struct leat__transport leat__transport;

/* How long a read may wait inside the system call. */
#define LEAT__PATIENCE_NS (20 * INT64_C(1000000))

typedef struct leat__transport_ops {
    /* Bytes read; 0: the peer closed; -1 with errno.  With `wait` it may wait
     * up to LEAT__PATIENCE_NS for the first byte, or not at all. */
    ssize_t (*recv)(leat__transport *t, void *buf, size_t n, bool wait);

    /* Bytes taken, all that will ever be counted as sent; -1 with errno. */
    ssize_t (*sendv)(leat__transport *t, const struct iovec *v, int n);

    /* Close and free.  Sends nothing: the child of a fork calls it too. */
    void (*close)(leat__transport *t);
} leat__transport_ops;

struct leat__transport {
    const leat__transport_ops *ops;
    int fd;
    short wants; /* POLLIN and POLLOUT, after EAGAIN                     */
    bool more;   /* after recv: there is more, and poll cannot see it    */
    const leat_error *why; /* of a failure that errno cannot tell, or NULL */
};

/* Connect to a Unix socket, or to the first address of host that answers,
 * before deadline_ns.  LEAT_ECONN or LEAT_ETIMEOUT: nobody there. */
leat__transport *leat__transport_unix(const char *path, int64_t deadline_ns,
                                      leat_error *err);
leat__transport *leat__transport_tcp(const char *host, int port,
                                     int64_t deadline_ns, leat_error *err);

#endif
