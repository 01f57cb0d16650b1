/*
 * tcpfault_lane.c: what the proxy passes on, and where its rules fire.
 *
 * A connection is two lanes, up and down.  A lane reads into its buffer, and
 * tcpfault__pump() passes on from it, never past the next place where a rule
 * fires:
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
#include "support/tcpfault_lane.h"
#include "support/wait.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

void tcpfault__note(tcpfault *f, const conn *c, int dir, const char *what,
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

void tcpfault__close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void tcpfault__bury(tcpfault *f, conn *c)
{
    if (c->gone)
        return;
    tcpfault__close_fd(&c->client);
    tcpfault__close_fd(&c->server);
    c->gone = true;
    tcpfault__note(f, c, TCPFAULT_UP, "close", 0);
}

/* Whether some of what we sent may still arrive.  What a peer that has reset
 * the connection had not taken is counted for ever. */
static bool draining(int fd)
{
    struct tcp_info info = { 0 };
    socklen_t len = sizeof info;
    int left = 0;
    if (ioctl(fd, SIOCOUTQ, &left) != 0 || left == 0)
        return false;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0 ||
           info.tcpi_state != TCP_CLOSE;
}

/* RST throws away what was not yet taken by the peer's kernel; what was passed
 * on before the cut must arrive. */
void tcpfault__reset_fd(int *fd)
{
    struct linger now = { .l_onoff = 1 };
    if (*fd < 0)
        return;
    for (int64_t end = wait_now_ms() + DRAIN_MS;
         draining(*fd) && wait_now_ms() < end;)
        wait_nap(1);
    (void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    tcpfault__close_fd(fd);
}

void tcpfault__reset_conn(tcpfault *f, conn *c)
{
    tcpfault__reset_fd(&c->client);
    tcpfault__reset_fd(&c->server);
    tcpfault__bury(f, c);
}

void tcpfault__cut_conn(conn *c)
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
        tcpfault__cut_conn(c);
        break;
    case TCPFAULT_RESET:
        tcpfault__reset_conn(f, c);
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
        tcpfault__note(f, c, dir, tcpfault_action_name(r->r.action),
                       f->first_rule + i);
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
        tcpfault__cut_conn(c);
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

void tcpfault__pump(tcpfault *f, conn *c, int dir)
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

void tcpfault__fill(tcpfault *f, lane *l)
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
