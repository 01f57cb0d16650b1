/*
 * tcpfault.c: the proxy behind tcpfault.h.
 *
 * A connection is two lanes, up and down.  A lane reads into its buffer, and
 * pump() passes on from it, never past the next place where a rule fires:
 *
 *        pos           stop            end of buffer
 *   ......|-------------|-----------------|
 *  passed   passed next   waits for rule
 *
 * Every kind of trigger is turned into such a place, an offset in the lane's
 * stream, by locate().  The framer runs ahead of pos but only to the end of
 * the current frame, so there is one frame to think about.
 *
 * How a connection ends: a client's FIN is passed on when its bytes were; a
 * server's FIN closes the connection, for a dead server does not take writes
 * either.  Before a close what the peer sent is read away for a moment, because
 * close() with unread bytes sends RST where FIN is meant.
 */
#include "support/tcpfault.h"
#include "support/framer.h"
#include "support/wait.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    BUFFER = 64 * 1024,
    CONNECTIONS = 1024, /* known at a time; more wait in the backlog */
    FIN_MS = 200,       /* for the peer to answer our FIN with its own */
    RETRY_MS = 2,       /* connect to a Unix socket with a full backlog */
    DRAIN_MS = 500,     /* for our bytes to arrive before an RST */
};

typedef struct address {
    struct sockaddr_storage sa;
    socklen_t len;
} address;

typedef struct lane {
    int from, to;
    char *buf; /* start .. start + len */
    size_t start, len;
    uint64_t pos;   /* of buf[start] in the stream */
    size_t scanned; /* bytes from start that the framer has seen */
    framer frame;
    bool in_frame;
    uint64_t frame_no, frame_start, frame_end;
    bool eof;      /* from has sent its last byte */
    bool eof_sent; /* and to knows, or never will */
    bool blocked;  /* to takes no more at the moment */
    bool held, split, swallow, dropping;
    int split_ms;
    int64_t until_ms; /* wait; 0: no */
    char *inject;     /* goes out before anything else */
    size_t inject_len, inject_sent;
    uint64_t fired[TCPFAULT_RULES]; /* in which frame; 1 for offsets */
    uint64_t seen[TCPFAULT_RULES];  /* commands of the rule's name */
} lane;

typedef struct answer {
    struct answer *next;
    uint64_t after; /* replies of the server that come before it */
    size_t len;
    char bytes[];
} answer;

typedef struct conn {
    int no;
    int client, server; /* -1: closed */
    bool connecting;
    bool dead;            /* half open */
    bool gone;            /* to be freed */
    int64_t retry_ms;     /* connect again then */
    int64_t fin_until_ms; /* cut: closed at the latest then */
    lane lane[2];
    answer *answers;
    uint64_t asked, replied; /* frames passed up, replies passed down */
} conn;

typedef struct rule {
    tcpfault_rule r; /* the pointers inside are ours */
    uint64_t fired;
} rule;

struct tcpfault {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t turned;
    uint64_t turns; /* times poll() returned */
    int wake_fd;
    bool stop;
    int listen_fd; /* -1 while refusing */
    int guard_fd;  /* keeps the port while the listener is closed */
    int port;
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    address target;
    tcpfault_door door;
    rule rules[TCPFAULT_RULES];
    int nrules;
    int first_rule; /* number of rules[0]: numbers are not used twice */
    conn *conns[CONNECTIONS];
    int nconns;
    tcpfault_counts counts;
    tcpfault_event *events;
    size_t nevents;
    bool again; /* there is more to do without waiting */
};

static const char *const action_names[TCPFAULT_ACTIONS_] = {
    "delay",     "hold",      "split", "cut",    "reset",
    "blackhole", "half-open", "flip",  "inject", "answer",
};

const char *tcpfault_action_name(tcpfault_action a)
{
    return a < TCPFAULT_ACTIONS_ ? action_names[a] : "?";
}

tcpfault_action tcpfault_action_named(const char *name)
{
    int a = 0;
    while (a < TCPFAULT_ACTIONS_ && strcmp(action_names[a], name) != 0)
        a++;
    return (tcpfault_action)a;
}

static void note(tcpfault *f, const conn *c, int dir, const char *what,
                 int number)
{
    if (f->nevents >= TCPFAULT_EVENTS)
        return;
    f->events[f->nevents++] = (tcpfault_event){ .at_ms = wait_now_ms(),
                                                .conn = c->no,
                                                .dir = (tcpfault_dir)dir,
                                                .what = what,
                                                .offset = c->lane[dir].pos,
                                                .rule = number };
}

/* Ends */

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void bury(tcpfault *f, conn *c)
{
    if (c->gone)
        return;
    close_fd(&c->client);
    close_fd(&c->server);
    c->gone = true;
    note(f, c, TCPFAULT_UP, "close", 0);
}

/* RST throws away what was not yet taken by the peer's kernel; what was passed
 * on before the cut must arrive. */
static void reset_fd(int *fd)
{
    struct linger now = { .l_onoff = 1 };
    int left = 0;
    if (*fd < 0)
        return;
    for (int i = 0; i < DRAIN_MS; i++) {
        if (ioctl(*fd, SIOCOUTQ, &left) != 0 || left == 0)
            break;
        wait_nap(1);
    }
    (void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close_fd(fd);
}

static void reset_conn(tcpfault *f, conn *c)
{
    reset_fd(&c->client);
    reset_fd(&c->server);
    bury(f, c);
}

static void cut_conn(conn *c)
{
    if (c->fin_until_ms)
        return;
    (void)shutdown(c->client, SHUT_WR);
    if (c->server >= 0)
        (void)shutdown(c->server, SHUT_WR);
    c->fin_until_ms = wait_now_ms() + FIN_MS;
}

/* Where rules fire */

static bool applies(const rule *r, const conn *c, int dir)
{
    return (int)r->r.dir == dir && (r->r.conn == 0 || r->r.conn == c->no) &&
           (r->r.times == 0 || r->fired < (uint64_t)r->r.times);
}

static bool matches_frame(const tcpfault_rule *r, const lane *l, int i)
{
    if (!l->in_frame || l->fired[i] == l->frame_no)
        return false;
    if (r->when == TCPFAULT_FRAME)
        return r->n == 0 || r->n == l->frame_no;
    return l->frame.named && strcasecmp(r->command, l->frame.name) == 0 &&
           (r->n == 0 || r->n == l->seen[i]);
}

static bool locate(const tcpfault_rule *r, const lane *l, int i, uint64_t *at)
{
    if (r->when == TCPFAULT_OFFSET) {
        *at = r->n;
        return !l->fired[i];
    }
    if (!matches_frame(r, l, i))
        return false;
    *at = r->after ? l->frame_end : l->frame_start + r->plus;
    if (l->frame.over && *at > l->frame_end)
        *at = l->frame_end;
    return !r->after || l->frame.over;
}

/* These do something to the byte here, so it must be here. */
static bool needs_byte(tcpfault_action a)
{
    return a == TCPFAULT_DELAY || a == TCPFAULT_SPLIT || a == TCPFAULT_FLIP;
}

/* How far bytes may pass before the next rule. */
static uint64_t next_stop(const tcpfault *f, const conn *c, int dir)
{
    const lane *l = &c->lane[dir];
    uint64_t stop = l->pos + l->len;
    if (l->in_frame && l->frame.over && l->frame_end < stop)
        stop = l->frame_end;
    for (int i = 0; i < f->nrules; i++) {
        uint64_t at;
        const rule *r = &f->rules[i];
        if (!applies(r, c, dir))
            continue;
        if (r->r.when == TCPFAULT_COMMAND && l->in_frame && !l->frame.named &&
            !l->frame.over && !l->frame.lost && !l->eof)
            return l->pos; /* its name decides */
        if (locate(&r->r, l, i, &at) && at > l->pos && at < stop)
            stop = at;
    }
    return stop;
}

/* Actions */

static void inject(conn *c, const char *bytes, size_t len)
{
    lane *l = &c->lane[TCPFAULT_DOWN];
    char *p = realloc(l->inject, l->inject_len + len);
    if (!p)
        return;
    memcpy(p + l->inject_len, bytes, len);
    l->inject = p;
    l->inject_len += len;
}

static void add_answer(conn *c, const char *bytes, size_t len)
{
    answer **last = &c->answers;
    answer *a = malloc(sizeof *a + len);
    if (!a)
        return;
    *a = (answer){ .after = c->asked, .len = len };
    memcpy(a->bytes, bytes, len);
    while (*last)
        last = &(*last)->next;
    *last = a;
}

static void act(tcpfault *f, conn *c, int dir, const tcpfault_rule *r)
{
    lane *l = &c->lane[dir];
    switch (r->action) {
    case TCPFAULT_DELAY:
        l->until_ms = wait_now_ms() + r->ms;
        break;
    case TCPFAULT_HOLD:
        l->held = true;
        break;
    case TCPFAULT_SPLIT:
        l->split = true;
        l->split_ms = r->ms;
        l->until_ms = r->ms ? wait_now_ms() + r->ms : 0;
        break;
    case TCPFAULT_CUT:
        cut_conn(c);
        break;
    case TCPFAULT_RESET:
        reset_conn(f, c);
        break;
    case TCPFAULT_BLACKHOLE:
        l->swallow = true;
        break;
    case TCPFAULT_HALF_OPEN:
        c->dead = true;
        break;
    case TCPFAULT_FLIP:
        l->buf[l->start] = (char)(l->buf[l->start] ^ (1 << (r->bit & 7)));
        break;
    case TCPFAULT_INJECT:
        inject(c, r->bytes, r->len);
        f->again = true;
        break;
    case TCPFAULT_ANSWER:
        l->dropping = true;
        add_answer(c, r->bytes, r->len);
        f->again = true;
        break;
    case TCPFAULT_ACTIONS_:
        break;
    }
}

/* Fire the first rule whose place is here.  False if there is none. */
static bool fire_one(tcpfault *f, conn *c, int dir)
{
    lane *l = &c->lane[dir];
    for (int i = 0; i < f->nrules; i++) {
        uint64_t at;
        rule *r = &f->rules[i];
        if (!applies(r, c, dir) || !locate(&r->r, l, i, &at) || at != l->pos)
            continue;
        if (needs_byte(r->r.action) && l->len == 0)
            continue;
        l->fired[i] = r->r.when == TCPFAULT_OFFSET ? 1 : l->frame_no;
        r->fired++;
        f->counts.fired++;
        note(f, c, dir, action_names[r->r.action], f->first_rule + i);
        act(f, c, dir, &r->r);
        return true;
    }
    return false;
}

/* Lanes */

static void scan(const tcpfault *f, lane *l)
{
    if (!l->in_frame || l->frame.over)
        return;
    bool was_named = l->frame.named;
    l->scanned += framer_scan(&l->frame, l->buf + l->start + l->scanned,
                              l->len - l->scanned);
    if (l->frame.over)
        l->frame_end = l->pos + l->scanned;
    for (int i = 0; !was_named && l->frame.named && i < f->nrules; i++)
        if (f->rules[i].r.when == TCPFAULT_COMMAND &&
            strcasecmp(f->rules[i].r.command, l->frame.name) == 0)
            l->seen[i]++;
}

static bool between_frames(const lane *l)
{
    return !l->in_frame || (l->frame.over && l->pos == l->frame_end);
}

static bool begin_frame(const tcpfault *f, lane *l)
{
    if (!between_frames(l) || l->len == 0)
        return false;
    framer_begin(&l->frame);
    l->in_frame = true;
    l->frame_no++;
    l->frame_start = l->pos;
    scan(f, l);
    return true;
}

/* Answers to dropped commands whose turn has come. */
static void give_answers(conn *c)
{
    answer *a;
    if (!between_frames(&c->lane[TCPFAULT_DOWN]))
        return;
    while ((a = c->answers) != NULL && a->after <= c->replied) {
        inject(c, a->bytes, a->len);
        c->answers = a->next;
        free(a);
    }
}

/* Returns what to took, 0 if it takes nothing now.  Where to is gone the lane
 * swallows: the other lane will see the end. */
static size_t give(lane *l, const char *p, size_t n)
{
    ssize_t r = send(l->to, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (r >= 0)
        return (size_t)r;
    if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)
        l->blocked = true;
    else
        l->swallow = true;
    return 0;
}

static bool flush_inject(tcpfault *f, lane *l)
{
    while (l->inject_sent < l->inject_len && !l->swallow) {
        size_t n = give(l, l->inject + l->inject_sent,
                        l->inject_len - l->inject_sent);
        f->counts.down += n;
        l->inject_sent += n;
        if (l->blocked)
            return false;
    }
    free(l->inject);
    l->inject = NULL;
    l->inject_len = l->inject_sent = 0;
    return true;
}

static void consume(conn *c, int dir, size_t n)
{
    lane *l = &c->lane[dir];
    l->start += n;
    l->len -= n;
    l->pos += n;
    l->scanned -= n;
    if (l->len == 0)
        l->start = 0;
    if (!l->in_frame || !l->frame.over || l->pos != l->frame_end)
        return;
    if (dir == TCPFAULT_UP && !l->dropping)
        c->asked++;
    if (dir == TCPFAULT_DOWN && l->frame.type != '>')
        c->replied++;
    l->dropping = false;
}

static void pass_eof(conn *c, int dir)
{
    lane *l = &c->lane[dir];
    if (!l->eof || l->eof_sent || l->len)
        return;
    l->eof_sent = true;
    if (l->swallow)
        return;
    if (dir == TCPFAULT_DOWN)
        cut_conn(c);
    else
        (void)shutdown(l->to, SHUT_WR);
}

/* Pass on what may be.  False when there is nothing to do but wait. */
static bool pass(tcpfault *f, conn *c, int dir)
{
    lane *l = &c->lane[dir];
    size_t n = (size_t)(next_stop(f, c, dir) - l->pos);
    if (l->split && n > 1)
        n = 1;
    if (n == 0) {
        pass_eof(c, dir);
        return false;
    }
    if (!l->swallow && !l->dropping) {
        n = give(l, l->buf + l->start, n);
        *(dir == TCPFAULT_UP ? &f->counts.up : &f->counts.down) += n;
    }
    consume(c, dir, n);
    if (l->split && n) {
        l->until_ms = l->split_ms ? wait_now_ms() + l->split_ms : 0;
        f->again = true;
        return false;
    }
    return n > 0 || l->swallow;
}

static bool ended(const conn *c)
{
    return c->gone || c->dead || c->fin_until_ms;
}

static bool waits(lane *l)
{
    if (l->until_ms && wait_now_ms() < l->until_ms)
        return true;
    l->until_ms = 0;
    return l->held || l->blocked;
}

static void pump(tcpfault *f, conn *c, int dir)
{
    lane *l = &c->lane[dir];
    while (!ended(c) && !c->connecting) {
        if (dir == TCPFAULT_DOWN)
            give_answers(c);
        if (l->blocked || !flush_inject(f, l) || waits(l))
            return;
        if (fire_one(f, c, dir) || begin_frame(f, l))
            continue;
        if (!pass(f, c, dir))
            return;
    }
}

static void fill(tcpfault *f, lane *l)
{
    if (l->start) {
        memmove(l->buf, l->buf + l->start, l->len);
        l->start = 0;
    }
    ssize_t n = recv(l->from, l->buf + l->len, BUFFER - l->len, MSG_DONTWAIT);
    if (n > 0)
        l->len += (size_t)n;
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        l->eof = true;
    scan(f, l);
}

/* Connections */

static bool parse_address(const char *text, address *a)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&a->sa;
    struct sockaddr_in *in = (struct sockaddr_in *)&a->sa;
    char host[64];
    *a = (address){ 0 };
    if (text[0] == '/') {
        un->sun_family = AF_UNIX;
        a->len = sizeof *un;
        return snprintf(un->sun_path, sizeof un->sun_path, "%s", text) <
               (int)sizeof un->sun_path;
    }
    const char *colon = strrchr(text, ':');
    if (!colon || (size_t)(colon - text) >= sizeof host)
        return false;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    in->sin_family = AF_INET;
    in->sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    a->len = sizeof *in;
    return inet_pton(AF_INET, host, &in->sin_addr) == 1;
}

static void no_delay(int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void connected(conn *c)
{
    c->connecting = false;
    c->retry_ms = 0;
    c->lane[TCPFAULT_UP].to = c->lane[TCPFAULT_DOWN].from = c->server;
}

static void dial(tcpfault *f, conn *c)
{
    const struct sockaddr *sa = (const struct sockaddr *)&f->target.sa;
    c->connecting = true;
    c->retry_ms = 0;
    close_fd(&c->server);
    c->server = socket(sa->sa_family,
                       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    no_delay(c->server);
    if (connect(c->server, sa, f->target.len) == 0)
        connected(c);
    else if (errno == EAGAIN)
        c->retry_ms = wait_now_ms() + RETRY_MS;
    else if (errno != EINPROGRESS)
        reset_conn(f, c);
}

static void dialled(tcpfault *f, conn *c)
{
    int why = 0;
    socklen_t len = sizeof why;
    (void)getsockopt(c->server, SOL_SOCKET, SO_ERROR, &why, &len);
    if (why == 0)
        connected(c);
    else
        reset_conn(f, c);
}

static void free_conn(conn *c)
{
    for (answer *a = c->answers, *next; a; a = next) {
        next = a->next;
        free(a);
    }
    close_fd(&c->client);
    close_fd(&c->server);
    for (int d = 0; d < 2; d++) {
        free(c->lane[d].buf);
        free(c->lane[d].inject);
    }
    free(c);
}

static conn *new_conn(int no, int fd)
{
    conn *c = calloc(1, sizeof *c);
    if (!c) {
        close(fd);
        return NULL;
    }
    c->no = no;
    c->client = fd;
    c->server = -1;
    for (int d = 0; d < 2; d++)
        c->lane[d] = (lane){ .from = d ? -1 : fd,
                             .to = d ? fd : -1,
                             .frame.commands = d == TCPFAULT_UP,
                             .buf = malloc(BUFFER) };
    if (c->lane[0].buf && c->lane[1].buf)
        return c;
    free_conn(c);
    return NULL;
}

static void welcome(tcpfault *f)
{
    int fd = accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    no_delay(fd);
    f->counts.connections++;
    if (f->door == TCPFAULT_RESET_NEW) {
        reset_fd(&fd);
        return;
    }
    conn *c = new_conn((int)f->counts.connections, fd);
    if (!c)
        return;
    f->conns[f->nconns++] = c;
    note(f, c, TCPFAULT_UP, "open", 0);
    if (f->door == TCPFAULT_HANG_NEW)
        c->dead = true;
    else
        dial(f, c);
}

/* After our FIN: read away what still comes, until the peers' FINs. */
static void discard(tcpfault *f, conn *c)
{
    char waste[4096];
    int *fds[] = { &c->client, &c->server };
    for (int i = 0; i < 2; i++) {
        ssize_t n = 1;
        while (*fds[i] >= 0 && n > 0)
            n = recv(*fds[i], waste, sizeof waste, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            close_fd(fds[i]);
    }
    if ((c->client < 0 && c->server < 0) || wait_now_ms() >= c->fin_until_ms)
        bury(f, c);
}

static void serve(tcpfault *f, conn *c)
{
    if (c->gone || c->dead)
        return;
    if (c->retry_ms && wait_now_ms() >= c->retry_ms)
        dial(f, c);
    pump(f, c, TCPFAULT_UP);
    pump(f, c, TCPFAULT_DOWN);
    if (c->fin_until_ms && !c->gone)
        discard(f, c);
    if (c->lane[0].eof_sent && c->lane[1].eof_sent)
        bury(f, c);
}

static void forget_gone(tcpfault *f)
{
    int kept = 0;
    for (int i = 0; i < f->nconns; i++) {
        if (f->conns[i]->gone)
            free_conn(f->conns[i]);
        else
            f->conns[kept++] = f->conns[i];
    }
    f->nconns = kept;
}

/* The thread */

static int wait_ms(const tcpfault *f)
{
    int64_t first = INT64_MAX, now = wait_now_ms();
    if (f->again)
        return 0;
    for (int i = 0; i < f->nconns; i++) {
        const conn *c = f->conns[i];
        int64_t times[] = { c->retry_ms, c->fin_until_ms, c->lane[0].until_ms,
                            c->lane[1].until_ms };
        for (int k = 0; k < 4; k++)
            if (times[k] && times[k] < first)
                first = times[k];
    }
    if (first == INT64_MAX)
        return -1;
    return first <= now ? 0 : (int)(first - now);
}

/* A descriptor without events is left out: its POLLHUP would spin. */
static struct pollfd watch(int fd, const lane *in, const lane *out,
                           const conn *c)
{
    short events = 0;
    if (c->fin_until_ms || (!in->eof && in->len < BUFFER))
        events = POLLIN;
    if (out->blocked)
        events |= POLLOUT;
    if (c->dead || c->gone)
        events = 0;
    return (struct pollfd){ .fd = events ? fd : -1, .events = events };
}

static void watch_conn(conn *c, struct pollfd p[2])
{
    lane *up = &c->lane[TCPFAULT_UP], *down = &c->lane[TCPFAULT_DOWN];
    p[0] = watch(c->client, up, down, c);
    p[1] = watch(c->server, down, up, c);
    if (c->connecting && !c->dead && !c->fin_until_ms)
        p[1] = (struct pollfd){ .fd = c->retry_ms ? -1 : c->server,
                                .events = POLLOUT };
}

static void heard(tcpfault *f, conn *c, const struct pollfd p[2])
{
    if (c->gone || c->dead || c->fin_until_ms)
        return;
    lane *up = &c->lane[TCPFAULT_UP], *down = &c->lane[TCPFAULT_DOWN];
    short in = POLLIN | POLLHUP | POLLERR, out = POLLOUT | POLLERR | POLLHUP;
    if (p[0].revents & out)
        down->blocked = false;
    if ((p[0].revents & in) && !up->eof && up->len < BUFFER)
        fill(f, up);
    if (c->connecting && p[1].revents) {
        dialled(f, c);
        return;
    }
    if (p[1].revents & out)
        up->blocked = false;
    if ((p[1].revents & in) && !down->eof && down->len < BUFFER)
        fill(f, down);
}

static void turn(tcpfault *f, struct pollfd *p)
{
    int n = f->nconns;
    p[0] = (struct pollfd){ .fd = f->wake_fd, .events = POLLIN };
    p[1] = (struct pollfd){ .fd = n < CONNECTIONS ? f->listen_fd : -1,
                            .events = POLLIN };
    for (int i = 0; i < n; i++)
        watch_conn(f->conns[i], &p[2 + 2 * i]);
    int wait = wait_ms(f);
    f->again = false;
    pthread_mutex_unlock(&f->lock);
    (void)poll(p, 2 + 2 * (nfds_t)n, wait);
    pthread_mutex_lock(&f->lock);
    f->turns++;
    pthread_cond_broadcast(&f->turned);
    uint64_t woken;
    if (p[0].revents)
        (void)!read(f->wake_fd, &woken, sizeof woken);
    for (int i = 0; i < n; i++)
        heard(f, f->conns[i], &p[2 + 2 * i]);
    if (p[1].revents && f->listen_fd >= 0)
        welcome(f);
    for (int i = 0; i < f->nconns; i++)
        serve(f, f->conns[i]);
    forget_gone(f);
}

static void *run(void *arg)
{
    static _Thread_local struct pollfd p[2 + 2 * CONNECTIONS];
    tcpfault *f = arg;
    pthread_mutex_lock(&f->lock);
    while (!f->stop)
        turn(f, p);
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* The door */

static int bound_socket(int *port)
{
    int on = 1;
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons((uint16_t)*port) };
    socklen_t len = sizeof a;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&a, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) != 0)
        close_fd(&fd);
    *port = ntohs(a.sin_port);
    return fd;
}

static int unix_socket(const char *path)
{
    address a;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    unlink(path);
    if (!parse_address(path, &a) ||
        bind(fd, (struct sockaddr *)&a.sa, a.len) != 0)
        close_fd(&fd);
    return fd;
}

/* The guard is bound to the port but never listens: while there is no listener
 * a connect is refused, and nobody else can be given the port. */
static bool open_door(tcpfault *f)
{
    if (f->path[0]) {
        f->listen_fd = unix_socket(f->path);
    } else {
        f->listen_fd = bound_socket(&f->port);
        if (f->guard_fd < 0)
            f->guard_fd = bound_socket(&f->port);
    }
    if (f->listen_fd >= 0 && listen(f->listen_fd, SOMAXCONN) == 0)
        return true;
    close_fd(&f->listen_fd);
    return false;
}

static void wake(tcpfault *f)
{
    uint64_t one = 1;
    (void)!write(f->wake_fd, &one, sizeof one);
}

/* A descriptor that was closed while poll() looks at it lives on until poll()
 * returns; only then is the port refused, the RST sent. */
static void let_turn_locked(tcpfault *f)
{
    uint64_t before = f->turns;
    wake(f);
    while (f->turns == before)
        pthread_cond_wait(&f->turned, &f->lock);
}

tcpfault *tcpfault_start(const char *target, const char *listen_path)
{
    tcpfault *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->listen_fd = f->guard_fd = -1;
    f->first_rule = 1;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->turned, NULL);
    f->events = calloc(TCPFAULT_EVENTS, sizeof *f->events);
    f->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    snprintf(f->path, sizeof f->path, "%s", listen_path ? listen_path : "");
    if (f->events && f->wake_fd >= 0 && parse_address(target, &f->target) &&
        open_door(f) && pthread_create(&f->thread, NULL, run, f) == 0)
        return f;
    fprintf(stderr, "tcpfault_start: %s: %s\n", target, strerror(errno));
    f->stop = true;
    tcpfault_stop(f);
    return NULL;
}

void tcpfault_stop(tcpfault *f)
{
    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    bool started = !f->stop;
    f->stop = true;
    pthread_mutex_unlock(&f->lock);
    wake(f);
    if (started)
        pthread_join(f->thread, NULL);
    for (int i = 0; i < f->nconns; i++)
        free_conn(f->conns[i]);
    f->nconns = 0;
    tcpfault_clear(f);
    close_fd(&f->listen_fd);
    close_fd(&f->guard_fd);
    close_fd(&f->wake_fd);
    if (f->path[0])
        unlink(f->path);
    pthread_cond_destroy(&f->turned);
    pthread_mutex_destroy(&f->lock);
    free(f->events);
    free(f);
}

int tcpfault_port(const tcpfault *f)
{
    return f->port;
}

bool tcpfault_target(tcpfault *f, const char *target)
{
    address a;
    if (!parse_address(target, &a))
        return false;
    pthread_mutex_lock(&f->lock);
    f->target = a;
    pthread_mutex_unlock(&f->lock);
    return true;
}

static bool sensible(const tcpfault_rule *r)
{
    if (r->when == TCPFAULT_COMMAND && (!r->command || r->dir != TCPFAULT_UP))
        return false;
    if (r->action == TCPFAULT_ANSWER)
        return r->bytes && r->dir == TCPFAULT_UP &&
               r->when != TCPFAULT_OFFSET && !r->plus && !r->after;
    if (r->action == TCPFAULT_INJECT)
        return r->bytes;
    return r->action < TCPFAULT_ACTIONS_;
}

static int add_locked(tcpfault *f, const tcpfault_rule *r)
{
    if (f->nrules == TCPFAULT_RULES || !sensible(r))
        return 0;
    char *bytes = malloc(r->len + 1);
    char *command = r->command ? strdup(r->command) : NULL;
    if (!bytes || (r->command && !command)) {
        free(bytes);
        free(command);
        return 0;
    }
    if (r->len)
        memcpy(bytes, r->bytes, r->len);
    rule *new = &f->rules[f->nrules];
    *new = (rule){ .r = *r };
    new->r.bytes = bytes;
    new->r.command = command;
    f->again = true;
    return f->first_rule + f->nrules++;
}

int tcpfault_rule_add(tcpfault *f, const tcpfault_rule *r)
{
    pthread_mutex_lock(&f->lock);
    int number = add_locked(f, r);
    pthread_mutex_unlock(&f->lock);
    wake(f);
    return number;
}

void tcpfault_clear(tcpfault *f)
{
    pthread_mutex_lock(&f->lock);
    for (int i = 0; i < f->nrules; i++) {
        free((void *)f->rules[i].r.bytes);
        free((void *)f->rules[i].r.command);
    }
    f->first_rule += f->nrules;
    f->nrules = 0;
    for (int i = 0; i < f->nconns; i++) {
        for (int d = 0; d < 2; d++) {
            lane *l = &f->conns[i]->lane[d];
            memset(l->fired, 0, sizeof l->fired);
            memset(l->seen, 0, sizeof l->seen);
        }
    }
    pthread_mutex_unlock(&f->lock);
    wake(f);
}

void tcpfault_release(tcpfault *f)
{
    pthread_mutex_lock(&f->lock);
    for (int i = 0; i < f->nconns; i++)
        f->conns[i]->lane[0].held = f->conns[i]->lane[1].held = false;
    f->again = true;
    pthread_mutex_unlock(&f->lock);
    wake(f);
}

void tcpfault_drop(tcpfault *f, int no, bool reset)
{
    pthread_mutex_lock(&f->lock);
    for (int i = 0; i < f->nconns; i++) {
        conn *c = f->conns[i];
        if (c->gone || (no && c->no != no))
            continue;
        c->dead = false;
        if (reset)
            reset_conn(f, c);
        else
            cut_conn(c);
    }
    f->again = true;
    let_turn_locked(f);
    pthread_mutex_unlock(&f->lock);
}

void tcpfault_set_door(tcpfault *f, tcpfault_door door)
{
    pthread_mutex_lock(&f->lock);
    if (door == TCPFAULT_REFUSE)
        close_fd(&f->listen_fd);
    else if (f->listen_fd < 0 && !open_door(f))
        fprintf(stderr, "tcpfault: cannot listen: %s\n", strerror(errno));
    f->door = door;
    let_turn_locked(f);
    pthread_mutex_unlock(&f->lock);
}

tcpfault_counts tcpfault_count(tcpfault *f)
{
    pthread_mutex_lock(&f->lock);
    tcpfault_counts out = f->counts;
    out.open = (uint64_t)f->nconns;
    pthread_mutex_unlock(&f->lock);
    return out;
}

uint64_t tcpfault_fired(tcpfault *f, int number)
{
    pthread_mutex_lock(&f->lock);
    int i = number - f->first_rule;
    uint64_t n = i >= 0 && i < f->nrules ? f->rules[i].fired : 0;
    pthread_mutex_unlock(&f->lock);
    return n;
}

size_t tcpfault_events(tcpfault *f, size_t from, tcpfault_event *out,
                       size_t max)
{
    size_t n = 0;
    pthread_mutex_lock(&f->lock);
    for (size_t i = from; i < f->nevents && n < max; i++)
        out[n++] = f->events[i];
    pthread_mutex_unlock(&f->lock);
    return n;
}
