/*
 * badredis.c: see badredis.h.  A thread accepts, a thread per connection runs
 * the script.  All that arrives goes through the recorder first, which cuts it
 * into commands with the rigs' own framer; a step then waits for the counters
 * of its connection to pass what the step before has used.
 */
#include "support/badredis.h"
#include "support/framer.h"
#include "support/wait.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FRAME_KEPT = 64 * 1024, SEEN_MAX = 1 << 20, REPLY_MAX = 16 * 1024 };

static const char default_info[] =
    "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n"
    "run_id:0123456789abcdef0123456789abcdef01234567\r\ntcp_port:0\r\n"
    "uptime_in_seconds:1000\r\n\r\n# Memory\r\nused_memory:1000000\r\n"
    "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n\r\n"
    "# Persistence\r\nloading:0\r\naof_enabled:1\r\n"
    "aof_last_write_status:ok\r\n\r\n# Replication\r\nrole:master\r\n"
    "connected_slaves:0\r\n\r\n# Cluster\r\ncluster_enabled:0\r\n";

typedef struct seen {
    int conn;
    char name[48];
    char *text;
} seen;

typedef struct peer {
    struct badredis *b;
    pthread_t thread;
    int no, fd;
    framer frame;
    char *buf; /* the frame so far, cut to FRAME_KEPT */
    size_t len;
    size_t bytes, bytes_used;
    size_t *index; /* where in b->seen its commands are */
    size_t commands, commands_used, room;
    bool over; /* nothing more will come */
} peer;

struct badredis {
    badredis_opts o;
    badredis_step *steps; /* a copy of o.steps */
    pthread_t thread;
    pthread_mutex_t lock;
    bool stop, started, done;
    int fd, port;
    peer *peers[BADREDIS_CONNS];
    int npeers, connections;
    seen *seen;
    size_t nseen, room;
};

/* Recording */

static bool grow(void **p, size_t *room, size_t n, size_t each)
{
    if (n < *room)
        return true;
    size_t more = *room ? 2 * *room : 64;
    void *new = realloc(*p, more * each);
    if (!new)
        return false;
    *p = new;
    *room = more;
    return true;
}

static size_t add_escaped(char *out, size_t at, size_t size, const char *p,
                          size_t n)
{
    for (size_t i = 0; i < n && at + 5 < size; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c >= 0x20 && c < 0x7f && c != '\\')
            out[at++] = (char)c;
        else
            at += (size_t)snprintf(out + at, size - at, "\\x%02x", c);
    }
    return at;
}

/* The words of a command frame.  What a bad client sent is shown as far as it
 * makes sense. */
static char *frame_text(const char *p, size_t n)
{
    char text[BADREDIS_TEXT];
    size_t out = 0, at = 0;
    if (n && p[0] != '*') {
        while (n && (p[n - 1] == '\n' || p[n - 1] == '\r'))
            n--;
        out = add_escaped(text, 0, sizeof text, p, n);
        n = 0;
    }
    while (at < n) {
        const char *nl = memchr(p + at, '\n', n - at);
        if (!nl)
            break;
        size_t len = p[at] == '$' ? strtoul(p + at + 1, NULL, 10) : 0;
        bool word = p[at] == '$';
        at = (size_t)(nl - p) + 1;
        if (!word)
            continue;
        if (len > n - at)
            len = n - at;
        if (out && out + 1 < sizeof text)
            text[out++] = ' ';
        out = add_escaped(text, out, sizeof text, p + at, len);
        at += len + 2;
    }
    text[out] = '\0';
    return strdup(text);
}

static void record_locked(peer *c)
{
    badredis *b = c->b;
    if (b->nseen >= SEEN_MAX ||
        !grow((void **)&b->seen, &b->room, b->nseen, sizeof *b->seen) ||
        !grow((void **)&c->index, &c->room, c->commands, sizeof *c->index))
        return;
    seen *s = &b->seen[b->nseen];
    *s = (seen){ .conn = c->no, .text = frame_text(c->buf, c->len) };
    snprintf(s->name, sizeof s->name, "%s", c->frame.name);
    c->index[c->commands++] = b->nseen++;
}

static void record(peer *c, const char *p, size_t n)
{
    pthread_mutex_lock(&c->b->lock);
    c->bytes += n;
    while (n > 0) {
        size_t used = framer_scan(&c->frame, p, n);
        size_t keep = FRAME_KEPT - c->len < used ? FRAME_KEPT - c->len : used;
        memcpy(c->buf + c->len, p, keep);
        c->len += keep;
        p += used;
        n -= used;
        if (!c->frame.over)
            continue;
        record_locked(c);
        framer_begin(&c->frame);
        c->len = 0;
    }
    pthread_mutex_unlock(&c->b->lock);
}

/* Talking */

static bool stopped(badredis *b)
{
    pthread_mutex_lock(&b->lock);
    bool stop = b->stop;
    pthread_mutex_unlock(&b->lock);
    return stop;
}

/* Read what is there, waiting for it.  False when the connection is over. */
static bool take(peer *c)
{
    char p[16 * 1024];
    ssize_t n = recv(c->fd, p, sizeof p, 0);
    if (n > 0)
        record(c, p, (size_t)n);
    else
        c->over = true;
    return n > 0;
}

static bool put(peer *c, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t r = send(c->fd, p, n, MSG_NOSIGNAL);
        if (r < 0)
            return false;
        p += r;
        n -= (size_t)r;
    }
    return true;
}

static bool put_slowly(peer *c, const char *p, size_t n, int ms)
{
    for (size_t i = 0; i < n; i++) {
        if (!put(c, p + i, 1) || stopped(c->b))
            return false;
        wait_nap(ms);
    }
    return true;
}

/* Name and text of the i-th command of this connection; waits for it. */
static bool command_at(peer *c, size_t i, char *name, char *text)
{
    while (c->commands <= i)
        if (!take(c))
            return false;
    pthread_mutex_lock(&c->b->lock);
    const seen *s = &c->b->seen[c->index[i]];
    snprintf(name, sizeof s->name, "%s", s->name);
    snprintf(text, BADREDIS_TEXT, "%s", s->text);
    pthread_mutex_unlock(&c->b->lock);
    return true;
}

/* The handshake */

static void reply_hello(char *out, size_t size, const char *text, int id)
{
    bool three = strncmp(text + strcspn(text, " "), " 3", 2) == 0;
    snprintf(out, size,
             "%s\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n"
             "7.0.15\r\n$5\r\nproto\r\n:%d\r\n$2\r\nid\r\n:%d\r\n$4\r\nmode\r\n"
             "$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\n"
             "modules\r\n*0\r\n",
             three ? "%7" : "*14", three ? 3 : 2, id);
}

/* COMMAND INFO a b: both exist, as six fields each. */
static void reply_command(char *out, size_t size, const char *text)
{
    char words[BADREDIS_TEXT], *rest = words, *names[64];
    size_t n = 0;
    snprintf(words, sizeof words, "%s", text);
    for (char *w; (w = strsep(&rest, " ")) != NULL && n < 64;)
        names[n++] = w;
    if (n < 2 || strcasecmp(names[1], "INFO") != 0) {
        snprintf(out, size, "*0\r\n");
        return;
    }
    size_t at = (size_t)snprintf(out, size, "*%zu\r\n", n - 2);
    for (size_t i = 2; i < n && at < size; i++)
        at += (size_t)snprintf(out + at, size - at,
                               "*6\r\n$%zu\r\n%s\r\n:-2\r\n*1\r\n+write\r\n"
                               ":1\r\n:1\r\n:1\r\n",
                               strlen(names[i]), names[i]);
}

static void reply_client(char *out, size_t size, const char *text, int id)
{
    if (strncasecmp(text + strcspn(text, " "), " ID", 3) == 0)
        snprintf(out, size, ":%d\r\n", id);
    else
        snprintf(out, size, "+OK\r\n");
}

/* False if the command is not of the handshake. */
static bool built_in(const peer *c, const char *name, const char *text,
                     char *out, size_t size)
{
    const char *info = c->b->o.info ? c->b->o.info : default_info;
    if (strcasecmp(name, "HELLO") == 0)
        reply_hello(out, size, text, c->no);
    else if (strcasecmp(name, "COMMAND") == 0)
        reply_command(out, size, text);
    else if (strcasecmp(name, "CLIENT") == 0)
        reply_client(out, size, text, c->no);
    else if (strcasecmp(name, "INFO") == 0)
        snprintf(out, size, "$%zu\r\n%s\r\n", strlen(info), info);
    else if (strcasecmp(name, "AUTH") == 0 || strcasecmp(name, "SELECT") == 0)
        snprintf(out, size, "+OK\r\n");
    else if (strcasecmp(name, "PING") == 0)
        snprintf(out, size, "+PONG\r\n");
    else if (strcasecmp(name, "ROLE") == 0)
        snprintf(out, size, "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
    else if (strcasecmp(name, "CONFIG") == 0)
        snprintf(out, size, "-NOPERM no permissions to run 'config'\r\n");
    else
        return false;
    return true;
}

/* The script of the handshake is the one that has no keys. */
static bool is_probe(const char *name, const char *text)
{
    size_t n = strlen(text);
    return strcasecmp(name, "EVALSHA") == 0 && n > 2 &&
           strcmp(text + n - 2, " 0") == 0;
}

static bool handshake_reply(const peer *c, const char *name, const char *text,
                            char *out, size_t size)
{
    const badredis_reply *r = c->b->o.replies;
    if (c->b->o.handshake && is_probe(name, text)) {
        snprintf(out, size, "$16\r\n1763200000000000\r\n");
        return true;
    }
    for (; r && r->command; r++) {
        if (strcasecmp(r->command, name) == 0) {
            snprintf(out, size, "%s", r->reply);
            return true;
        }
    }
    return c->b->o.handshake && built_in(c, name, text, out, size);
}

/* Answer until a command comes that is not of the handshake; that one is left
 * for the script.  False when the connection is over. */
static bool shake_hands(peer *c)
{
    char name[48], text[BADREDIS_TEXT], out[REPLY_MAX];
    if (!c->b->o.handshake && !c->b->o.replies)
        return true;
    while (command_at(c, c->commands_used, name, text)) {
        if (!handshake_reply(c, name, text, out, sizeof out))
            return true;
        c->commands_used++;
        if (!put(c, out, strlen(out)))
            return false;
    }
    return false;
}

static void after_script(peer *c)
{
    char name[48], text[BADREDIS_TEXT], out[REPLY_MAX];
    while (command_at(c, c->commands_used, name, text)) {
        c->commands_used++;
        if (handshake_reply(c, name, text, out, sizeof out))
            put(c, out, strlen(out));
        else if (c->b->o.rest)
            put(c, c->b->o.rest, strlen(c->b->o.rest));
    }
}

/* The script */

static bool expect_command(peer *c, const char *wanted)
{
    char name[48], text[BADREDIS_TEXT];
    do {
        if (!command_at(c, c->commands_used, name, text))
            return false;
        c->commands_used++;
    } while (strcasecmp(name, wanted) != 0);
    return true;
}

static bool expect(peer *c, const badredis_step *s)
{
    if (s->command) {
        if (!expect_command(c, s->command))
            return false;
    } else if (s->commands) {
        while (c->commands < c->commands_used + s->commands)
            if (!take(c))
                return false;
        c->commands_used += s->commands;
    } else if (s->bytes) {
        while (c->bytes < c->bytes_used + s->bytes)
            if (!take(c))
                return false;
        c->bytes_used += s->bytes;
        return true;
    }
    c->bytes_used = c->bytes;
    return true;
}

static bool say(peer *c, const badredis_step *s)
{
    size_t n = s->len || !s->send ? s->len : strlen(s->send);
    for (int ms = 0; ms < s->sleep_ms && !stopped(c->b); ms++)
        wait_nap(1);
    if (s->slow_ms)
        return put_slowly(c, s->send, n, s->slow_ms);
    return n == 0 || put(c, s->send, n);
}

static void reset(const peer *c)
{
    struct linger now = { .l_onoff = 1 };
    (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

/* For a FIN and not an RST nothing may be left unread. */
static void drain(const peer *c)
{
    char waste[4096];
    while (recv(c->fd, waste, sizeof waste, MSG_DONTWAIT) > 0)
        ;
}

static void repeat(peer *c, const badredis_step *s)
{
    while (!stopped(c->b) && say(c, s))
        ;
}

static void stall(const peer *c)
{
    while (!stopped(c->b))
        wait_nap(5);
}

/* True: go on with the script. */
static bool then(peer *c, const badredis_step *s)
{
    switch (s->then) {
    case BADREDIS_NEXT:
    case BADREDIS_LOOP:
        return true;
    case BADREDIS_CLOSE:
        drain(c);
        break;
    case BADREDIS_RESET:
        reset(c);
        break;
    case BADREDIS_HOLD:
        while (take(c))
            ;
        break;
    case BADREDIS_STALL:
        stall(c);
        break;
    case BADREDIS_REPEAT:
        repeat(c, s);
        break;
    }
    return false;
}

static void set_done(badredis *b)
{
    pthread_mutex_lock(&b->lock);
    b->done = true;
    pthread_mutex_unlock(&b->lock);
}

/* True if it came to its end, with the connection still there. */
static bool run_script(peer *c)
{
    const badredis_opts *o = &c->b->o;
    for (size_t i = 0; i < o->nsteps && !stopped(c->b); i++) {
        const badredis_step *s = &c->b->steps[i];
        if (!expect(c, s) || !say(c, s))
            return false;
        if (i + 1 == o->nsteps)
            set_done(c->b);
        if (!then(c, s))
            return false;
        if (s->then == BADREDIS_LOOP)
            i = (size_t)-1;
    }
    return true;
}

static void *run_peer(void *arg)
{
    peer *c = arg;
    badredis *b = c->b;
    bool runs = b->o.conn == 0 || b->o.conn == c->no;
    if (!runs || (shake_hands(c) && run_script(c)))
        after_script(c);
    pthread_mutex_lock(&b->lock);
    close(c->fd);
    c->fd = -1;
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* Accepting */

static void free_peer(peer *c)
{
    pthread_join(c->thread, NULL);
    free(c->buf);
    free(c->index);
    free(c);
}

/* A peer that has closed its descriptor takes the lock no more. */
static void reap_locked(badredis *b)
{
    int kept = 0;
    for (int i = 0; i < b->npeers; i++) {
        if (b->peers[i]->fd < 0)
            free_peer(b->peers[i]);
        else
            b->peers[kept++] = b->peers[i];
    }
    b->npeers = kept;
}

static void welcome(badredis *b, int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    peer *c = calloc(1, sizeof *c);
    char *buf = malloc(FRAME_KEPT);
    pthread_mutex_lock(&b->lock);
    b->connections++;
    reap_locked(b);
    bool ok = c && buf && b->npeers < BADREDIS_CONNS && !b->stop;
    if (ok) {
        *c = (peer){ .b = b,
                     .fd = fd,
                     .no = b->connections,
                     .buf = buf,
                     .frame.commands = true };
        framer_begin(&c->frame);
        ok = pthread_create(&c->thread, NULL, run_peer, c) == 0;
    }
    if (ok)
        b->peers[b->npeers++] = c;
    pthread_mutex_unlock(&b->lock);
    if (ok)
        return;
    free(c);
    free(buf);
    close(fd);
}

static void *run(void *arg)
{
    badredis *b = arg;
    for (int fd; (fd = accept4(b->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0;)
        welcome(b, fd);
    return NULL;
}

static bool listen_on(badredis *b)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    struct sockaddr_in in = { .sin_family = AF_INET };
    socklen_t len = sizeof in;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const char *path = b->o.path;
    b->fd = socket(path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (path) {
        if (snprintf(un.sun_path, sizeof un.sun_path, "%s", path) >=
            (int)sizeof un.sun_path)
            return false;
        unlink(path);
        return bind(b->fd, (struct sockaddr *)&un, sizeof un) == 0 &&
               listen(b->fd, SOMAXCONN) == 0;
    }
    if (bind(b->fd, (struct sockaddr *)&in, len) != 0 ||
        getsockname(b->fd, (struct sockaddr *)&in, &len) != 0)
        return false;
    b->port = ntohs(in.sin_port);
    return listen(b->fd, SOMAXCONN) == 0;
}

badredis *badredis_start(const badredis_opts *opts)
{
    badredis *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->o = *opts;
    b->steps = calloc(opts->nsteps + 1, sizeof *b->steps);
    if (!b->steps) {
        free(b);
        return NULL;
    }
    if (opts->nsteps)
        memcpy(b->steps, opts->steps, opts->nsteps * sizeof *b->steps);
    pthread_mutex_init(&b->lock, NULL);
    b->started = listen_on(b) && pthread_create(&b->thread, NULL, run, b) == 0;
    if (b->started)
        return b;
    fprintf(stderr, "badredis_start: %s\n", strerror(errno));
    badredis_stop(b);
    return NULL;
}

void badredis_stop(badredis *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->stop = true;
    for (int i = 0; i < b->npeers; i++)
        if (b->peers[i]->fd >= 0)
            (void)shutdown(b->peers[i]->fd, SHUT_RDWR);
    pthread_mutex_unlock(&b->lock);
    (void)shutdown(b->fd, SHUT_RDWR); /* accept4 returns */
    if (b->started)
        pthread_join(b->thread, NULL);
    for (int i = 0; i < b->npeers; i++)
        free_peer(b->peers[i]);
    close(b->fd);
    if (b->o.path)
        unlink(b->o.path);
    for (size_t i = 0; i < b->nseen; i++)
        free(b->seen[i].text);
    free(b->seen);
    free(b->steps);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

int badredis_port(const badredis *b)
{
    return b->port;
}

char *badredis_url(const badredis *b, char *buf, size_t size)
{
    if (b->o.path)
        snprintf(buf, size, "unix://%s", b->o.path);
    else
        snprintf(buf, size, "redis://127.0.0.1:%d", b->port);
    return buf;
}

int badredis_connections(badredis *b)
{
    pthread_mutex_lock(&b->lock);
    int n = b->connections;
    pthread_mutex_unlock(&b->lock);
    return n;
}

size_t badredis_count(badredis *b, const char *command)
{
    size_t n = 0;
    pthread_mutex_lock(&b->lock);
    for (size_t i = 0; i < b->nseen; i++)
        n += !command || strcasecmp(b->seen[i].name, command) == 0;
    pthread_mutex_unlock(&b->lock);
    return n;
}

bool badredis_seen(badredis *b, size_t i, char *buf, size_t size, int *conn)
{
    pthread_mutex_lock(&b->lock);
    bool ok = i < b->nseen;
    if (ok)
        snprintf(buf, size, "%s", b->seen[i].text ? b->seen[i].text : "");
    if (ok && conn)
        *conn = b->seen[i].conn;
    pthread_mutex_unlock(&b->lock);
    return ok;
}

bool badredis_done(badredis *b)
{
    pthread_mutex_lock(&b->lock);
    bool done = b->done;
    pthread_mutex_unlock(&b->lock);
    return done;
}
