/*
 * tcpfault.c: the proxy behind tcpfault.h: its door, its connections and the
 * thread that turns them.  What happens to the bytes is in tcpfault_lane.c.
 */
#include "support/tcpfault.h"
#include "support/tcpfault_lane.h"
#include "support/wait.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

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
    tcpfault__close_fd(&c->server);
    c->server = socket(sa->sa_family,
                       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    no_delay(c->server);
    if (connect(c->server, sa, f->target.len) == 0)
        connected(c);
    else if (errno == EAGAIN)
        c->retry_ms = wait_now_ms() + RETRY_MS;
    else if (errno != EINPROGRESS)
        tcpfault__reset_conn(f, c);
}

static void dialled(tcpfault *f, conn *c)
{
    int why = 0;
    socklen_t len = sizeof why;
    (void)getsockopt(c->server, SOL_SOCKET, SO_ERROR, &why, &len);
    if (why == 0)
        connected(c);
    else
        tcpfault__reset_conn(f, c);
}

static void free_conn(conn *c)
{
    for (answer *a = c->answers, *next; a; a = next) {
        next = a->next;
        free(a);
    }
    tcpfault__close_fd(&c->client);
    tcpfault__close_fd(&c->server);
    for (int d = 0; d < 2; d++) {
        free(c->lane[d].buf);
        free(c->lane[d].inject);
    }
    free(c);
}

/* An address of IPv4; 0 of a Unix socket. */
static uint32_t ip_of(const struct sockaddr_storage *a)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)a;
    return a->ss_family == AF_INET ? in->sin_addr.s_addr : 0;
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
    struct sockaddr_storage from = { 0 };
    socklen_t len = sizeof from;
    int fd = accept4(f->listen_fd, (struct sockaddr *)&from, &len,
                     SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    no_delay(fd);
    f->counts.connections++;
    if (f->door == TCPFAULT_RESET_NEW) {
        tcpfault__reset_fd(&fd);
        return;
    }
    conn *c = new_conn((int)f->counts.connections, fd);
    if (!c)
        return;
    c->from = ip_of(&from);
    f->conns[f->nconns++] = c;
    tcpfault__note(f, c, TCPFAULT_UP, "open", 0);
    if (f->door == TCPFAULT_HANG_NEW || (f->barred && c->from == f->barred))
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
            tcpfault__close_fd(fds[i]);
    }
    if ((c->client < 0 && c->server < 0) || wait_now_ms() >= c->fin_until_ms)
        tcpfault__bury(f, c);
}

static void serve(tcpfault *f, conn *c)
{
    if (c->gone || c->dead)
        return;
    if (c->retry_ms && wait_now_ms() >= c->retry_ms)
        dial(f, c);
    tcpfault__pump(f, c, TCPFAULT_UP);
    tcpfault__pump(f, c, TCPFAULT_DOWN);
    if (c->fin_until_ms && !c->gone)
        discard(f, c);
    if (c->lane[0].eof_sent && c->lane[1].eof_sent)
        tcpfault__bury(f, c);
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
        if (c->dead || c->gone)
            continue; /* nobody will do what its times are for */
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
        tcpfault__fill(f, up);
    if (c->connecting && p[1].revents) {
        dialled(f, c);
        return;
    }
    if (p[1].revents & out)
        up->blocked = false;
    if ((p[1].revents & in) && !down->eof && down->len < BUFFER)
        tcpfault__fill(f, down);
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
        tcpfault__close_fd(&fd);
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
        tcpfault__close_fd(&fd);
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
    tcpfault__close_fd(&f->listen_fd);
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
    tcpfault__close_fd(&f->listen_fd);
    tcpfault__close_fd(&f->guard_fd);
    tcpfault__close_fd(&f->wake_fd);
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
            tcpfault__reset_conn(f, c);
        else
            tcpfault__cut_conn(c);
    }
    f->again = true;
    let_turn_locked(f);
    pthread_mutex_unlock(&f->lock);
}

void tcpfault_set_door(tcpfault *f, tcpfault_door door)
{
    pthread_mutex_lock(&f->lock);
    if (door == TCPFAULT_REFUSE)
        tcpfault__close_fd(&f->listen_fd);
    else if (f->listen_fd < 0 && !open_door(f))
        fprintf(stderr, "tcpfault: cannot listen: %s\n", strerror(errno));
    f->door = door;
    let_turn_locked(f);
    pthread_mutex_unlock(&f->lock);
}

/* Which connections a bar is about. */
static void set_dead_locked(tcpfault *f, uint32_t from, bool dead)
{
    for (int i = 0; i < f->nconns; i++) {
        conn *c = f->conns[i];
        if (c->gone || !from || c->from != from)
            continue;
        c->dead = dead;
        if (!dead)
            tcpfault__reset_conn(f, c);
    }
}

bool tcpfault_bar(tcpfault *f, const char *from)
{
    struct in_addr a = { 0 };
    if (from && inet_pton(AF_INET, from, &a) != 1)
        return false;
    pthread_mutex_lock(&f->lock);
    set_dead_locked(f, f->barred, false);
    f->barred = a.s_addr;
    set_dead_locked(f, f->barred, true);
    f->again = true;
    let_turn_locked(f);
    pthread_mutex_unlock(&f->lock);
    return true;
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
