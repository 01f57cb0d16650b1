/*
 * bundle_io.c: the children of a bundle.
 *
 *   absent -> an attempt under way -> connected -> lost -> absent ...
 *
 * Attempts run on threads of their own; between two that fail there is a pause
 * that grows.  One epoll descriptor stands for all: the children's sockets, and
 * an eventfd by which attempts tell that they are decided.  So whoever polls a
 * bundle polls one descriptor, and a node that is away stalls nobody.
 */
#include "base/fork.h"
#include "base/mem.h"
#include "base/system.h"
#include "redis/bundle_inside.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    FIRST_RETRY_MS = 25,
    STABLE_MS = 2000, /* a connection that lived so long was a success */
    OTHERS_MS = 100,  /* for the others, once one is connected         */
    EVENTS = 32,
    EVENT_FD = 0xffffffff, /* instead of a child's number */
    WINDOW = 1024,
    MAX_WINDOW = 16384
};

/* ---- children --------------------------------------------------------- */

leat_code leat__child_absent(const leat__child *child, leat_error *err)
{
    return leat__fail(err, LEAT_ECONN, "not connected to %.100s:%d yet%s%.100s",
                      child->at.host, child->at.port,
                      child->why.code ? ": " : "",
                      child->why.code ? child->why.msg : "");
}

static leat__child *find(const leat__bundle *b, const leat__address *at)
{
    for (uint32_t i = 0; i < b->count; i++)
        if (leat__address_same(&b->children[i]->at, at))
            return b->children[i];
    return NULL;
}

static leat_code grow(leat__bundle *b, leat_error *err)
{
    uint32_t cap = b->cap ? b->cap * 2 : 8;
    if (cap > UINT16_MAX)
        return leat__fail(err, LEAT_EFULL, "the cluster has too many nodes");
    void *p = leat__realloc(b->children, cap * sizeof *b->children, err);
    if (!p)
        return LEAT_ENOMEM;
    b->children = p;
    b->cap = cap;
    return LEAT_OK;
}

/* One of a node that is gone: nodes may come and go for ever. */
static leat__child *unused(const leat__bundle *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        leat__child *child = b->children[i];
        assert(child);
        if (!child->wanted && !child->conn && !child->dial &&
            leat__list_empty(&child->waiting) && child != b->pin &&
            child != b->heard && child != b->sticky)
            return child;
    }
    return NULL;
}

static leat__child *one_more(leat__bundle *b, leat_error *err)
{
    if (b->count == b->cap && grow(b, err) != LEAT_OK)
        return NULL;
    leat__child *child = leat__zalloc(sizeof *child, err);
    if (!child)
        return NULL;
    child->index = b->count;
    leat__list_init(&child->waiting);
    return b->children[b->count++] = child;
}

leat__child *leat__bundle_child(leat__bundle *b, const leat__address *at,
                                leat_error *err)
{
    leat__child *child = find(b, at);
    if (child)
        return child;
    child = unused(b);
    if (!child && !(child = one_more(b, err)))
        return NULL;
    child->at = *at;
    child->next_ns = 0;
    child->why = (leat_error){ 0 };
    child->backoff = (leat__backoff){ .base_ms = FIRST_RETRY_MS,
                                      .cap_ms = b->client->opts.max_retry_ms };
    return child;
}

/* No attempt before a pause is over, and none beyond the client's budget. */
static void attempt(leat__bundle *b, leat__child *child)
{
    int64_t now = leat__now_ns();
    if (child->conn || child->dial || now < child->next_ns)
        return;
    int64_t turn = leat__budget_take(&b->client->budget, now);
    if (turn > 0) {
        leat__budget_give(&b->client->budget);
        child->next_ns = now + turn * 1000000;
        return;
    }
    int64_t ms = b->client->opts.connect_timeout_ms;
    child->dial = leat__dial_start(b->client, &child->at, leat__deadline_ns(ms),
                                   b->event, &child->why);
    if (!child->dial)
        child->next_ns = leat__deadline_ns(
            leat__backoff_next_ms(&child->backoff));
}

leat_code leat__child_need(leat__bundle *b, leat__child *child, leat_error *err)
{
    attempt(b, child);
    return b->impatient ? leat__child_absent(child, err) : LEAT_OK;
}

leat__child *leat__bundle_any(leat__bundle *b)
{
    if (b->sticky && b->sticky->conn)
        return b->sticky;
    leat__child *best = NULL;
    for (uint32_t i = 0; i < b->count; i++) {
        leat__child *child = b->children[i];
        if (!child->wanted && !child->conn)
            continue;
        if (!best || (child->conn && !best->conn) ||
            (!child->conn && !best->conn && child->next_ns < best->next_ns))
            best = child;
    }
    return b->sticky = best;
}

/* Its waiting calls were never sent. */
static void refuse_waiting(leat__child *child, int64_t born_before,
                           const leat_error *e)
{
    LEAT__LIST_EACH(&child->waiting, at)
    {
        leat__routed *k = LEAT__ITEM(at, leat__routed, link);
        if (k->born_ns > born_before)
            continue;
        leat__link_remove(at);
        leat__routed_end(k, NULL, e);
    }
}

static void watch(leat__bundle *b, leat__child *child, int op)
{
    struct epoll_event e = { .events = EPOLLIN, .data.u32 = child->index };
    if (child->room_wanted)
        e.events |= EPOLLOUT;
    (void)epoll_ctl(b->epoll, op, child->conn->t->fd, &e);
}

/* What was sent is told by the connection; what was not yet queued waits for
 * the next. */
static void bury(leat__bundle *b, leat__child *child)
{
    child->why = child->conn->why;
    if (b->kept == child)
        b->kept = NULL;
    leat__conn_free(child->conn);
    child->conn = NULL;
    if (leat__now_ns() - child->up_ns > STABLE_MS * INT64_C(1000000))
        leat__backoff_reset(&child->backoff);
    child->next_ns = leat__deadline_ns(leat__backoff_next_ms(&child->backoff));
}

/* Has it broken?  Then the map may be wrong as well. */
static void lost(leat__bundle *b, leat__child *child)
{
    if (!child->conn || child->conn->t)
        return;
    bury(b, child);
    leat__cluster_doubt(b->cluster);
}

static void let_go(leat__bundle *b, leat__child *child, const char *why)
{
    leat_error e;
    leat__fail(&e, LEAT_ECONN, "%s", why);
    (void)leat__conn_break(child->conn, &e);
    bury(b, child);
}

static void connected(leat__bundle *b, leat__child *child, leat_conn *conn)
{
    child->conn = conn;
    b->conn->proof = conn->proof;
    child->room_wanted = false;
    child->up_ns = leat__now_ns();
    child->lives++;
    child->why = (leat_error){ 0 };
    struct epoll_event e = { .events = EPOLLIN, .data.u32 = child->index };
    if (epoll_ctl(b->epoll, EPOLL_CTL_ADD, conn->t->fd, &e) != 0) {
        let_go(b, child, "cannot watch the socket");
        return;
    }
    conn->home->epoll = b->epoll;
    leat__bundle_pump(child);
}

static void fetch(leat__bundle *b, leat__child *child)
{
    leat_conn *conn;
    leat_error why;
    if (!child->dial || !leat__dial_fetch(child->dial, &conn, &why))
        return;
    child->dial = NULL;
    if (conn) {
        connected(b, child, conn);
        return;
    }
    child->why = why;
    child->next_ns = leat__deadline_ns(leat__backoff_next_ms(&child->backoff));
    leat_error e;
    leat__child_absent(child, &e);
    e.retriable = why.retriable;
    refuse_waiting(child, INT64_MAX, &e);
}

void leat__bundle_stir(leat__bundle *b)
{
    uint64_t one = 1;
    ssize_t n = write(b->event, &one, sizeof one);
    (void)n; /* full means that it has been told already */
}

static void fetch_all(leat__bundle *b)
{
    uint64_t told;
    ssize_t n = read(b->event, &told, sizeof told);
    (void)n;
    for (uint32_t i = 0; i < b->count; i++)
        fetch(b, b->children[i]);
    leat__bundle_doom(b);
}

/* ---- following the map ------------------------------------------------ */

static void want_masters(leat__bundle *b)
{
    leat__address at[64];
    size_t n = leat__cluster_masters(b->cluster, at, 64);
    for (uint32_t i = 0; i < b->count; i++)
        b->children[i]->wanted = leat__cluster_is_master(b->cluster,
                                                         &b->children[i]->at);
    for (size_t i = 0; i < n && i < 64; i++) {
        leat__child *child = leat__bundle_child(b, &at[i], NULL);
        if (child)
            child->wanted = true;
    }
}

static bool idle(const leat__bundle *b, const leat__child *child)
{
    return leat__conn_waiting(child->conn) == 0 &&
           leat__outq_left(&child->conn->out) == 0 && child != b->pin &&
           child != b->heard && child != b->kept;
}

void leat__bundle_sync(leat__bundle *b)
{
    unsigned now = leat__cluster_version(b->cluster);
    if (now == b->version)
        return;
    b->version = now;
    for (unsigned i = 0; i < LEAT__SLOTS; i++)
        if (b->slots[i].pending == 0)
            b->slots[i].child = 0;
    want_masters(b);
    for (uint32_t i = 0; i < b->count; i++) {
        leat__child *child = b->children[i];
        if (child->conn && !child->wanted && idle(b, child))
            let_go(b, child, "it has no slots any more");
        else if (!child->conn && !child->wanted)
            leat__bundle_reroute(child);
    }
}

/* ---- moving bytes ----------------------------------------------------- */

void leat__child_write(leat__bundle *b, leat__child *child)
{
    leat_conn *conn = child->conn;
    conn->timeout_ms = b->conn->timeout_ms;
    if (leat__outq_left(&conn->out) > 0)
        (void)leat__conn_write_some(conn, NULL);
    if (!conn->t) {
        lost(b, child);
        return;
    }
    bool wanted = leat__outq_left(&conn->out) > 0;
    if (wanted != child->room_wanted) {
        child->room_wanted = wanted;
        watch(b, child, EPOLL_CTL_MOD);
    }
}

/* While a reply is kept for the caller its connection is left alone.  One node
 * that never stops to send keeps neither the others nor a deadline waiting. */
static void child_read(leat__bundle *b, leat__child *child)
{
    bool got = true;
    leat_conn *conn = child->conn;
    for (int i = 0;
         i < LEAT__READS_AT_ONCE && conn->t && got && b->kept != child; i++) {
        (void)leat__conn_read_some(conn, false, &got, NULL);
        if (leat__conn_waiting(conn) == 0)
            break;
    }
    conn->stale = false; /* a redirect is no fault of the connection */
    if (conn->t)
        leat__bundle_pump(child);
    lost(b, child);
}

/* One that broke while a transaction used it directly is found here. */
static void write_all(leat__bundle *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        leat__child *child = b->children[i];
        lost(b, child);
        if (child->conn &&
            (leat__outq_left(&child->conn->out) > 0 || child->room_wanted))
            leat__child_write(b, child);
    }
}

static void read_ready(leat__bundle *b)
{
    struct epoll_event e[EVENTS];
    int n = epoll_wait(b->epoll, e, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        if (e[i].data.u32 == EVENT_FD)
            fetch_all(b);
        else if (b->children[e[i].data.u32]->conn)
            child_read(b, b->children[e[i].data.u32]);
    }
}

void leat__bundle_unkeep(leat__bundle *b)
{
    leat__child *child = b->kept;
    if (!child)
        return;
    b->kept = NULL;
    if (child->conn) {
        (void)leat__conn_process(child->conn, NULL);
        lost(b, child);
    }
}

/* How long a call may wait for a connection. */
static int64_t patience_ns(const leat__bundle *b)
{
    int64_t connect = b->client->opts.connect_timeout_ms;
    int64_t answer = b->conn->timeout_ms;
    return (connect < answer ? connect : answer) * 1000000;
}

/* What has waited too long, for an answer or for a connection, is told. */
static void overdue(leat__bundle *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        leat__child *child = b->children[i];
        if (child->conn) {
            (void)leat__conn_expire(child->conn, NULL);
            lost(b, child);
        } else if (!leat__list_empty(&child->waiting)) {
            leat_error e;
            leat__child_absent(child, &e);
            refuse_waiting(child, leat__now_ns() - patience_ns(b), &e);
        }
        if (!child->conn &&
            (child->wanted || !leat__list_empty(&child->waiting)))
            attempt(b, child);
    }
}

int64_t leat__bundle_deadline(const leat_conn *c)
{
    const leat__bundle *b = c->bundle;
    int64_t at = INT64_MAX;
    for (uint32_t i = 0; i < b->count; i++) {
        const leat__child *child = b->children[i];
        leat__link *first = leat__list_first(&child->waiting);
        int64_t mine = INT64_MAX;
        if (child->conn)
            mine = leat__conn_deadline(child->conn);
        else if (!child->dial && (child->wanted || first))
            mine = child->next_ns;
        if (mine < at)
            at = mine;
        if (!child->conn && first) {
            mine = LEAT__ITEM(first, leat__routed, link)->born_ns +
                   patience_ns(b);
            at = mine < at ? mine : at;
        }
    }
    return at;
}

/* Write, wait until something happens, read.  LEAT_EIO: it cannot wait. */
leat_code leat__bundle_round(leat__bundle *b, int64_t until_ns, leat_error *err)
{
    leat__bundle_sync(b);
    write_all(b);
    int64_t deadline = leat__bundle_deadline(b->conn);
    if (until_ns < deadline)
        deadline = until_ns;
    int64_t left = deadline == INT64_MAX ? -1 : deadline - leat__now_ns();
    struct pollfd p = { .fd = b->epoll, .events = POLLIN };
    int n = leat__sys->poll(leat__sys->arg, &p, 1,
                            deadline != INT64_MAX && left < 0 ? 0 : left);
    if (n < 0 && errno != EINTR)
        return leat__fail_errno(err, LEAT_EIO, errno, "cannot poll");
    read_ready(b);
    overdue(b);
    return LEAT_OK;
}

leat_code leat__child_connected(leat__bundle *b, leat__child *child,
                                leat_error *err)
{
    leat_code rc = LEAT_OK;
    int64_t until = leat__deadline_ns(b->client->opts.connect_timeout_ms);
    while (rc == LEAT_OK && !child->conn) {
        bool tried = child->dial != NULL;
        rc = leat__child_need(b, child, err);
        if (rc == LEAT_OK)
            rc = leat__bundle_round(b, until, err);
        if (rc == LEAT_OK && !child->conn &&
            ((tried && !child->dial) || leat__now_ns() >= until))
            rc = leat__child_absent(child, err);
    }
    return rc;
}

/* ---- what a connection does ------------------------------------------- */

leat_code leat__bundle_begin(leat_conn *c, leat_error *err)
{
    leat_code rc = leat__bundle_own(c, err);
    if (rc == LEAT_OK)
        leat__bundle_unkeep(c->bundle);
    return rc;
}

/* The bundle cannot wait any more: nobody is to believe that it can. */
static leat_code crippled(leat_conn *c, const leat_error *e, leat_error *err)
{
    if (err)
        *err = *e;
    return leat__bundle_break(c, e);
}

leat_code leat__bundle_await(leat_conn *c, size_t in_flight, leat_error *err)
{
    leat_error e;
    leat__bundle *b = c->bundle;
    leat_code rc = leat__bundle_begin(c, err);
    if (rc != LEAT_OK)
        return rc;
    write_all(b);
    while (leat__conn_waiting(c) > in_flight)
        if (leat__bundle_round(b, INT64_MAX, &e) != LEAT_OK)
            return crippled(c, &e, err);
    return LEAT_OK;
}

void leat__bundle_finish(leat_conn *c, const leat__call *call)
{
    leat_error e;
    while (!call->reply && call->err.code == LEAT_OK)
        if (leat__bundle_round(c->bundle, INT64_MAX, &e) != LEAT_OK)
            (void)crippled(c, &e, NULL);
}

static bool unwritten(const leat__bundle *b)
{
    for (uint32_t i = 0; i < b->count; i++)
        if (b->children[i]->conn && b->children[i]->room_wanted)
            return true;
    return false;
}

/* What is queued for a node that is not connected yet is not waited for; and
 * an impatient one does not wait for a node that takes no more. */
leat_code leat__bundle_flush(leat_conn *c, leat_error *err)
{
    leat_error e;
    leat__bundle *b = c->bundle;
    leat_code rc = leat__bundle_begin(c, err);
    if (rc != LEAT_OK)
        return rc;
    leat__bundle_sync(b);
    write_all(b);
    while (!b->impatient && unwritten(b))
        if (leat__bundle_round(b, INT64_MAX, &e) != LEAT_OK)
            return crippled(c, &e, err);
    return LEAT_OK;
}

leat_code leat__bundle_take(leat_conn *c, leat_error *err)
{
    leat__bundle *b = c->bundle;
    leat_code rc = leat__bundle_begin(c, err);
    if (rc != LEAT_OK)
        return rc;
    leat__bundle_sync(b);
    read_ready(b);
    overdue(b);
    write_all(b);
    return LEAT_OK;
}

leat_code leat__bundle_expire(leat_conn *c, leat_error *err)
{
    leat_code rc = leat__bundle_own(c, err);
    if (rc == LEAT_OK) {
        leat__bundle_sync(c->bundle);
        overdue(c->bundle);
    }
    return rc;
}

void leat__bundle_write_early(leat_conn *c)
{
    leat__bundle *b = c->bundle;
    if (leat__bundle_own(c, NULL) != LEAT_OK)
        return;
    for (uint32_t i = 0; i < b->count; i++)
        if (b->children[i]->conn)
            leat__conn_write_early(b->children[i]->conn);
}

int leat__bundle_fd(const leat_conn *c)
{
    return c->bundle->ended ? -1 : c->bundle->epoll;
}

void leat__conn_impatient(leat_conn *c)
{
    if (c->bundle)
        c->bundle->impatient = true;
}

/* ---- life ------------------------------------------------------------- */

bool leat__bundle_clean(const leat_conn *c)
{
    const leat__bundle *b = c->bundle;
    return !b->ended && leat__conn_waiting(c) == 0 && !c->in_tx && !b->pin &&
           !b->heard && c->forks == leat__fork_count();
}

/* Whatever can be read from an idle child is its end, or a reply that belongs
 * to nobody. */
bool leat__bundle_sound(leat_conn *c)
{
    leat__bundle *b = c->bundle;
    if (!leat__bundle_clean(c))
        return false;
    leat__bundle_unkeep(b);
    for (uint32_t i = 0; i < b->count; i++) {
        leat__child *child = b->children[i];
        if (!child->conn)
            continue;
        child->conn->stale = false;
        struct pollfd p = { .fd = leat_conn_fd(child->conn), .events = POLLIN };
        if (!leat__conn_clean(child->conn) ||
            leat__sys->poll(leat__sys->arg, &p, 1, 0) != 0)
            let_go(b, child, "it was lost while idle");
    }
    b->impatient = false;
    return true;
}

leat_code leat__bundle_break(leat_conn *c, const leat_error *cause)
{
    leat_error e;
    leat__bundle *b = c->bundle;
    if (b->ended)
        return cause->code;
    b->ended = true;
    c->why = *cause;
    c->in_tx = false;
    for (uint32_t i = 0; i < b->count; i++)
        if (b->children[i]->conn)
            (void)leat__conn_break(b->children[i]->conn, cause);
    leat__fail(&e, LEAT_ECONN, "not sent: %s", cause->msg);
    for (uint32_t i = 0; i < b->count; i++)
        refuse_waiting(b->children[i], INT64_MAX, &e);
    leat__bundle_doom(b);
    leat__link *at;
    while ((at = leat__list_pop(&b->held)) != NULL)
        leat__routed_end(LEAT__ITEM(at, leat__routed, link), NULL, &e);
    return cause->code;
}

/* In a forked child the attempts' threads are not ours, and may hold locks. */
static void child_free(leat__child *child, bool ours)
{
    if (child->dial && ours)
        leat__dial_drop(child->dial);
    leat__conn_free(child->conn);
    leat__free(child);
}

void leat__bundle_free(leat_conn *c)
{
    leat_error e;
    leat__bundle *b = c->bundle;
    bool ours = c->forks == leat__fork_count();
    leat__fail(&e, LEAT_ECLOSED, "the connection was closed");
    if (ours)
        leat__bundle_break(c, &e);
    for (uint32_t i = 0; i < b->count; i++)
        child_free(b->children[i], ours);
    if (b->epoll >= 0)
        close(b->epoll);
    if (b->event >= 0)
        close(b->event);
    leat__free(b->children);
    leat__free(b->slots);
    leat__free(b);
    leat__free(c);
}

static leat_code watch_events(leat__bundle *b, leat_error *err)
{
    struct epoll_event e = { .events = EPOLLIN, .data.u32 = EVENT_FD };
    b->epoll = epoll_create1(EPOLL_CLOEXEC);
    b->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (b->epoll < 0 || b->event < 0 ||
        epoll_ctl(b->epoll, EPOLL_CTL_ADD, b->event, &e) != 0)
        return leat__fail_errno(err, LEAT_EIO, errno, "cannot watch sockets");
    return LEAT_OK;
}

static leat_conn *bundle_new(leat_client *client, leat_error *err)
{
    leat_conn *c = leat__zalloc(sizeof *c, err);
    leat__bundle *b = c ? leat__zalloc(sizeof *b, err) : NULL;
    if (!b) {
        leat__free(c);
        return NULL;
    }
    c->bundle = b;
    c->forks = leat__fork_count();
    c->timeout_ms = client->opts.timeout_ms;
    c->window = client->opts.window ? (uint32_t)client->opts.window : WINDOW;
    if (c->window > MAX_WINDOW)
        c->window = MAX_WINDOW;
    b->conn = c;
    b->client = client;
    b->cluster = client->cluster;
    b->version = leat__cluster_version(b->cluster) - 1;
    b->epoll = b->event = -1;
    leat__list_init(&b->held);
    leat__list_init(&b->doomed);
    b->slots = leat__calloc(LEAT__SLOTS, sizeof *b->slots, err);
    if (!b->slots || watch_events(b, err) != LEAT_OK) {
        leat__bundle_free(c);
        return NULL;
    }
    return c;
}

/* How many attempts are undecided; *any: a child that is connected. */
static uint32_t undecided(const leat__bundle *b, leat__child **any)
{
    uint32_t n = 0;
    *any = NULL;
    for (uint32_t i = 0; i < b->count; i++) {
        n += b->children[i]->dial != NULL;
        if (b->children[i]->conn)
            *any = b->children[i];
    }
    return n;
}

leat_conn *leat__bundle_open(leat_client *client, int64_t deadline_ns,
                             leat_error *err)
{
    leat_conn *c = bundle_new(client, err);
    if (!c)
        return NULL;
    leat_code rc = LEAT_OK;
    leat__bundle *b = c->bundle;
    leat__child *any = NULL;
    leat__bundle_sync(b);
    overdue(b);
    for (bool some = false; rc == LEAT_OK && undecided(b, &any) > 0;) {
        if (any && !some && deadline_ns > leat__deadline_ns(OTHERS_MS))
            deadline_ns = leat__deadline_ns(OTHERS_MS);
        some = any != NULL;
        if (leat__left_ms(deadline_ns) == 0)
            break;
        rc = leat__bundle_round(b, deadline_ns, err);
    }
    if (rc == LEAT_OK && any)
        return c;
    if (rc == LEAT_OK && b->count > 0)
        leat__child_absent(b->children[0], err);
    else if (rc == LEAT_OK)
        leat__fail(err, LEAT_EBUSY, "no node of the cluster has a slot");
    leat__bundle_free(c);
    return NULL;
}
