/*
 * replies.c (fuzz): the replies of a server, to everything that reads one.
 *
 *   byte 0   the section of the workout
 *   rest     replies, each given to the next command that waits for one,
 *            whoever sent it; behind the last the server is gone
 *
 * LEAT_RECORD of integration-replies writes such inputs.  Behind the nodes of a
 * reply the memory is poisoned: see resp.c.
 */
#include "base/buf.h"
#include "redis/resp.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>

enum { WORKOUT_MS = 5, FDS = 1024 };

static const char work_url[] = "redis://127.0.0.1:1";

static void begin(void)
{
}

static void prepared(bool ok)
{
    (void)ok;
}

#include "support/workout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- a server of these bytes ------------------------------------------ */

static struct {
    pthread_mutex_t lock;
    const char *p;
    size_t n;
    struct peer {
        bool open;
        leat__buf sent, reply;
        size_t given;     /* of reply                        */
        unsigned waiting; /* commands without a reply        */
    } peer[FDS];
} fake = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void must(bool ok)
{
    if (!ok)
        abort();
}

static int fake_socket(void *arg, int domain, int type, int protocol)
{
    (void)arg;
    (void)domain;
    (void)type;
    (void)protocol;
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    must(fd >= 0 && fd < FDS);
    fake.peer[fd].open = true;
    return fd;
}

static int fake_connect(void *arg, int fd, const struct sockaddr *a,
                        socklen_t n)
{
    (void)arg;
    (void)fd;
    (void)a;
    (void)n;
    pthread_mutex_lock(&fake.lock);
    bool gone = fake.n == 0;
    pthread_mutex_unlock(&fake.lock);
    errno = ECONNREFUSED;
    return gone ? -1 : 0;
}

/* Commands are replies by their form. */
static void count_commands(struct peer *x)
{
    leat__resp d;
    size_t used, at = 0;
    leat__resp_init(&d, &(leat__resp_limits){ 0 });
    while (at < x->sent.n &&
           leat__resp_decode(&d, x->sent.p + at, x->sent.n - at, &used, NULL) ==
               LEAT__RESP_DONE) {
        leat__resp_reset(&d);
        at += used;
        x->waiting++;
    }
    leat__resp_release(&d);
    memmove(x->sent.p, x->sent.p + at, x->sent.n - at);
    x->sent.n -= at;
}

static ssize_t fake_sendv(void *arg, int fd, const struct iovec *v, int n)
{
    (void)arg;
    ssize_t sum = 0;
    pthread_mutex_lock(&fake.lock);
    for (int i = 0; i < n; i++) {
        must(leat__buf_add(&fake.peer[fd].sent, v[i].iov_base, v[i].iov_len,
                           NULL) == LEAT_OK);
        sum += (ssize_t)v[i].iov_len;
    }
    count_commands(&fake.peer[fd]);
    pthread_mutex_unlock(&fake.lock);
    return sum;
}

/* The next reply; what is none goes as it is, and is the last. */
static void answer_locked(struct peer *x)
{
    leat__resp d;
    size_t used = fake.n;
    leat__resp_init(&d, &(leat__resp_limits){ 0 });
    if (leat__resp_decode(&d, fake.p, fake.n, &used, NULL) != LEAT__RESP_DONE)
        used = fake.n;
    leat__resp_release(&d);
    must(leat__buf_add(&x->reply, fake.p, used, NULL) == LEAT_OK);
    fake.p += used;
    fake.n -= used;
    x->waiting--;
}

static ssize_t recv_locked(struct peer *x, void *buf, size_t n)
{
    if (x->given == x->reply.n && x->waiting > 0 && fake.n > 0) {
        x->given = x->reply.n = 0;
        answer_locked(x);
    }
    size_t have = x->reply.n - x->given;
    if (have == 0) {
        errno = EAGAIN;
        return fake.n == 0 ? 0 : -1;
    }
    n = n < have ? n : have;
    memcpy(buf, x->reply.p + x->given, n);
    x->given += n;
    return (ssize_t)n;
}

static ssize_t fake_recv(void *arg, int fd, void *buf, size_t n)
{
    (void)arg;
    pthread_mutex_lock(&fake.lock);
    ssize_t got = recv_locked(&fake.peer[fd], buf, n);
    pthread_mutex_unlock(&fake.lock);
    return got;
}

static int fake_patience(void *arg, int fd, int64_t ns)
{
    (void)arg;
    (void)fd;
    (void)ns;
    return 0;
}

/* Ready to write, and to read what there is; a peer without more is gone. */
static short ready_locked(const struct pollfd *p)
{
    const struct peer *x = p->fd >= 0 && p->fd < FDS ? &fake.peer[p->fd] : NULL;
    if (!x || !x->open)
        return 0;
    bool reads = x->reply.n > x->given || x->waiting > 0 || fake.n == 0;
    return (short)(p->events & (POLLOUT | (reads ? POLLIN : 0)));
}

static int fake_poll(void *arg, struct pollfd *fds, nfds_t n, int64_t ns)
{
    short ready[64] = { 0 };
    int more = 0;
    must(n <= 64);
    pthread_mutex_lock(&fake.lock);
    for (nfds_t i = 0; i < n; i++)
        more |= ready[i] = ready_locked(&fds[i]);
    pthread_mutex_unlock(&fake.lock);
    struct pollfd real[64];
    for (nfds_t i = 0; i < n; i++) {
        real[i] = fds[i];
        if (fds[i].fd >= 0 && fds[i].fd < FDS && fake.peer[fds[i].fd].open)
            real[i].fd = -1;
    }
    int count = leat_system_default()->poll(arg, real, n, more ? 0 : ns);
    if (count < 0)
        return count;
    count = 0;
    for (nfds_t i = 0; i < n; i++) {
        fds[i].revents = (short)((real[i].fd < 0 ? 0 : real[i].revents) |
                                 ready[i]);
        count += fds[i].revents != 0;
    }
    return count;
}

static int fake_close(void *arg, int fd)
{
    pthread_mutex_lock(&fake.lock);
    leat__buf_release(&fake.peer[fd].sent);
    leat__buf_release(&fake.peer[fd].reply);
    fake.peer[fd] = (struct peer){ 0 };
    pthread_mutex_unlock(&fake.lock);
    return leat_system_default()->close(arg, fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static leat_system sys;
    if (size < 2)
        return 0;
    fake.p = (const char *)data + 1;
    fake.n = size - 1;
    sys = *leat_system_default();
    sys.socket = fake_socket;
    sys.connect = fake_connect;
    sys.sendv = fake_sendv;
    sys.recv = fake_recv;
    sys.recv_wait = fake_recv;
    sys.patience = fake_patience;
    sys.poll = fake_poll;
    sys.close = fake_close;
    leat_system_set(&sys);
    work(&sections[data[0] % SECTIONS]);
    leat_system_set(NULL);
    return 0;
}
