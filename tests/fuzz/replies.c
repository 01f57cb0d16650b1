/*
 * replies.c (fuzz): the replies of a server, to everything that reads one.
 *
 *   byte 0   the section of the workout
 *   rest     answers: a tag of two bytes, by which it is known to which command
 *            it belongs (mutate.h), and a reply
 *
 * Who asks gets the next answer of its tag; the last one goes to all that ask
 * later, a few times, and then there is silence.  Where there is none at all,
 * it is refused; after MOST answers the server hangs up.  Time runs RATE times
 * as fast, or LEAT_RATE times, so that nothing is waited for in vain.
 *
 * What is made up from known inputs is well-formed, but for their cut.
 * LEAT_RECORD of integration-replies writes the first of them.  Behind the
 * nodes of a reply the memory is poisoned: see redis/resp.c.
 */
#include "base/buf.h"
#include "redis/resp.h"
#include "support/mutate.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
    WORKOUT_MS = 100,
    RATE = 1000,
    FDS = 1024,
    ANSWERS = 1024, /* of an input                                      */
    AGAIN = 32,     /* times that the last one of a tag is given        */
    MOST = 4000,    /* answers to all that is asked                     */
    WAITING = 256,  /* commands of a connection                         */
    TEXT = 256,     /* bytes of one that is changed                     */
    PATIENCE_S = 60 /* with threads that are to end                     */
};

static const char *work_url(int where);

static void begin(void)
{
}

static void prepared(bool ok)
{
    (void)ok;
}

#include "support/workout.h"

/* TLS would have to be spoken: that is the same as PLAIN here. */
static const char *work_url(int where)
{
    return where == CLUSTER    ? "redis+cluster://127.0.0.1:1"
           : where == SENTINEL ? "redis+sentinel://127.0.0.1:1/shop"
                               : "redis://127.0.0.1:1";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
                               unsigned seed);

static void must(bool ok)
{
    if (!ok)
        abort();
}

/* ---- time ------------------------------------------------------------- */

static int64_t start_ns; /* the same on both clocks */
static int64_t rate = RATE;

static int64_t real_ns(void)
{
    return leat_system_default()->monotonic_ns(NULL);
}

static int64_t fast_ns(void *arg)
{
    (void)arg;
    return start_ns + (real_ns() - start_ns) * rate;
}

static int64_t fast_date_ns(void *arg)
{
    return INT64_C(1800000000) * 1000000000 + fast_ns(arg);
}

/* Instead of the system's: whoever waits does so on our clock. */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *m,
                           const struct timespec *at)
{
    int64_t ns = at->tv_sec * INT64_C(1000000000) + at->tv_nsec;
    int64_t real = start_ns + (ns - start_ns) / rate;
    struct timespec t = { .tv_sec = real / 1000000000,
                          .tv_nsec = real % 1000000000 };
    return pthread_cond_clockwait(cond, m, CLOCK_MONOTONIC, &t);
}

/* ---- a server of these bytes ------------------------------------------ */

/* One reply of an input. */
typedef struct answer {
    const char *p;
    size_t n;
    uint16_t tag;
    bool given;
    int again;
} answer;

static struct {
    pthread_mutex_t lock;
    answer answer[ANSWERS];
    size_t count;
    int given;
    struct peer {
        bool gone;
        leat__buf sent, reply;
        size_t given; /* of reply                        */
        uint16_t waiting[WAITING];
        unsigned first, end;
    } peer[FDS];
} fake = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The tag and the reply at p; 0: there is none. */
static size_t next_answer(leat__resp *d, const char *p, size_t n)
{
    size_t used;
    leat__resp_reset(d);
    if (n < 3 ||
        leat__resp_decode(d, p + 2, n - 2, &used, NULL) != LEAT__RESP_DONE)
        return 0;
    return used + 2;
}

static void read_input(const char *p, size_t n)
{
    leat__resp d;
    size_t used;
    leat__resp_init(&d, &(leat__resp_limits){ 0 });
    fake.given = 0;
    for (fake.count = 0; fake.count < ANSWERS; p += used, n -= used) {
        used = next_answer(&d, p, n);
        if (used == 0)
            break;
        const unsigned char *tag = (const unsigned char *)p;
        fake.answer[fake.count++] = (answer){
            .tag = (uint16_t)(tag[0] | tag[1] << 8), .p = p + 2, .n = used - 2
        };
    }
    leat__resp_release(&d);
}

/* NULL: none of that tag. */
static answer *find_locked(uint16_t tag)
{
    answer *last = NULL;
    for (size_t i = 0; i < fake.count; i++) {
        if (fake.answer[i].tag != tag)
            continue;
        last = &fake.answer[i];
        if (!last->given)
            break;
    }
    return last;
}

static void answer_locked(struct peer *x)
{
    static const char none[] = "-ERR there is none\r\n";
    answer *a = find_locked(x->waiting[x->first++ % WAITING]);
    if (fake.count == 0 || ++fake.given > MOST) {
        x->gone = true;
        return;
    }
    if (!a) {
        must(leat__buf_add(&x->reply, none, sizeof none - 1, NULL) == LEAT_OK);
        return;
    }
    if (a->given && ++a->again > AGAIN) {
        x->first = x->end; /* nothing comes of it any more */
        return;
    }
    a->given = true;
    must(leat__buf_add(&x->reply, a->p, a->n, NULL) == LEAT_OK);
}

/* A subscription is answered by pushes. */
static uint16_t tag_of(const leat_reply *command)
{
    leat_bytes name = mutate_name(command);
    const char *p = name.p;
    bool pushes = name.n >= 9 && memcmp(p + name.n - 9, "SUBSCRIBE", 9) == 0;
    return mutate_tag(pushes ? NULL : command);
}

/* Commands are replies by their form. */
static void take_commands_locked(struct peer *x)
{
    leat__resp d;
    size_t used, at = 0;
    leat__resp_init(&d, &(leat__resp_limits){ 0 });
    while (at < x->sent.n &&
           leat__resp_decode(&d, x->sent.p + at, x->sent.n - at, &used, NULL) ==
               LEAT__RESP_DONE) {
        x->waiting[x->end++ % WAITING] = tag_of(d.nodes);
        must(x->end - x->first < WAITING);
        leat__resp_reset(&d);
        at += used;
    }
    leat__resp_release(&d);
    if (at > 0)
        memmove(x->sent.p, x->sent.p + at, x->sent.n - at);
    x->sent.n -= at;
}

/* An eventfd that counts is readable, as the socket would be: so they can be
 * polled together with others. */
static void show_locked(int fd)
{
    const struct peer *x = &fake.peer[fd];
    uint64_t n = 1;
    ssize_t done;
    if (x->reply.n > x->given || x->first != x->end || x->gone)
        done = write(fd, &n, sizeof n);
    else
        done = read(fd, &n, sizeof n);
    (void)done; /* it is so already */
}

static int fake_socket(void *arg, int domain, int type, int protocol)
{
    (void)arg;
    (void)domain;
    (void)type;
    (void)protocol;
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    must(fd >= 0 && fd < FDS);
    return fd;
}

static int fake_connect(void *arg, int fd, const struct sockaddr *a,
                        socklen_t n)
{
    (void)arg;
    (void)fd;
    (void)a;
    (void)n;
    return 0;
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
    take_commands_locked(&fake.peer[fd]);
    show_locked(fd);
    pthread_mutex_unlock(&fake.lock);
    return sum;
}

static ssize_t recv_locked(struct peer *x, void *buf, size_t n)
{
    if (x->given == x->reply.n)
        x->given = x->reply.n = 0;
    while (x->reply.n == 0 && x->first != x->end && !x->gone)
        answer_locked(x);
    size_t have = x->reply.n - x->given;
    if (have == 0) {
        errno = EAGAIN;
        return x->gone ? 0 : -1;
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
    int why = errno;
    show_locked(fd);
    pthread_mutex_unlock(&fake.lock);
    errno = why;
    return got;
}

static int fake_patience(void *arg, int fd, int64_t ns)
{
    (void)arg;
    (void)fd;
    (void)ns;
    return 0;
}

static int fast_poll(void *arg, struct pollfd *fds, nfds_t n, int64_t ns)
{
    return leat_system_default()->poll(arg, fds, n, ns > 0 ? ns / rate : ns);
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

static void install(void)
{
    static leat_system sys;
    if (start_ns != 0)
        return;
    const char *text = getenv("LEAT_RATE");
    rate = text ? strtol(text, NULL, 10) : RATE;
    sys = *leat_system_default();
    start_ns = real_ns();
    sys.monotonic_ns = sys.boottime_ns = fast_ns;
    sys.realtime_ns = fast_date_ns;
    sys.random = mutate_random;
    sys.socket = fake_socket;
    sys.connect = fake_connect;
    sys.sendv = fake_sendv;
    sys.recv = fake_recv;
    sys.recv_wait = fake_recv;
    sys.patience = fake_patience;
    sys.poll = fast_poll;
    sys.close = fake_close;
    leat_system_set(&sys);
}

/* How many threads this process has. */
static int threads(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    must(d != NULL);
    for (const struct dirent *t; (t = readdir(d)) != NULL;)
        n += t->d_name[0] != '.';
    closedir(d);
    return n;
}

/* Threads that nobody waits for, such as one that reads a cluster's map, get
 * nothing any more, and are waited for here: one that outlasts its input would
 * be taken for a leak of a later one.  One that does not end is a mistake. */
static void hang_up(int before)
{
    pthread_mutex_lock(&fake.lock);
    fake.count = 0;
    pthread_mutex_unlock(&fake.lock);
    int64_t until = real_ns() + INT64_C(1000000000) * PATIENCE_S;
    while (threads() > before) {
        must(real_ns() < until);
        usleep(100);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    install();
    int before = threads();
    pthread_mutex_lock(&fake.lock);
    read_input((const char *)data + 1, size - 1);
    pthread_mutex_unlock(&fake.lock);
    work(&sections[data[0] % SECTIONS]);
    hang_up(before);
    return 0;
}

/* ---- inputs ----------------------------------------------------------- */

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max)
    __attribute__((weak)); /* the replay has none */

/* What becomes of a text, where that is chosen. */
static enum mutation change_text(const leat_reply *r, uint8_t text[TEXT])
{
    leat_bytes was = leat_reply_bytes(r);
    size_t n = was.n < TEXT ? was.n : TEXT;
    if (r->type != LEAT_REPLY_STRING || !LLVMFuzzerMutate)
        return MUTATE_TEXT;
    if (n > 0)
        memcpy(text, was.p, n);
    mutate_own = leat_mem(text, LLVMFuzzerMutate(text, n, TEXT));
    return MUTATE_OWN;
}

/* One place of one reply is changed. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
                               unsigned seed)
{
    leat__buf b = { 0 };
    uint8_t text[TEXT];
    if (size < 2)
        return size;
    read_input((const char *)data + 1, size - 1);
    if (fake.count == 0)
        return size;
    const answer *a = &fake.answer[seed / MUTATE_COUNT % fake.count];
    size_t used, from = (size_t)((const uint8_t *)a->p - data);
    unsigned rest = seed / MUTATE_COUNT / (unsigned)fake.count;
    leat__resp d;
    leat__resp_init(&d, &(leat__resp_limits){ 0 });
    must(leat__resp_decode(&d, a->p, a->n, &used, NULL) == LEAT__RESP_DONE);
    must(leat__buf_add(&b, data, from, NULL) == LEAT_OK);
    size_t at = rest % d.nodes->span;
    enum mutation how = (enum mutation)(seed % MUTATE_COUNT);
    if (how == MUTATE_TEXT)
        how = change_text(d.nodes + at, text);
    (void)mutate_emit(&b, d.nodes, 0, at, how, rest);
    must(leat__buf_add(&b, a->p + a->n, size - from - a->n, NULL) == LEAT_OK);
    leat__resp_release(&d);
    if (b.n <= max) {
        memcpy(data, b.p, b.n);
        size = b.n;
    }
    leat__buf_release(&b);
    return size;
}
