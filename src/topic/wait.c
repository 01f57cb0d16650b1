/*
 * wait.c: waiting for entries on a cluster.
 *
 * A cluster refuses a read across slots even on one node, so a partition with
 * nothing to read waits inside the server on a connection of its own, which
 * leads to the node that has it:
 *
 *   none --dial, in the background--> connected --read--> waits --answer--> ...
 *
 * At most LEAT__BLOCK_MAX partitions wait at once.  Those beyond it, and those
 * whose connection is not there, are looked at in turn by plain reads.
 *
 * A connection that broke, or whose node has not got the partition any more, is
 * closed and made anew; where to, the client has learnt from the refusal.  An
 * answer that is lost costs nothing: reads change nothing.  A partition that is
 * moved away key by key under a waiting read is found when that has waited its
 * time.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "redis/bundle.h"
#include "redis/client.h"
#include "topic/consumer.h"

enum {
    FIRST_RETRY_MS = 25,
    MAX_RETRY_MS = 1000,
    DIALS_AT_ONCE = 4,
    LOOK_AT_ONCE = 64 /* partitions, in turn */
};

#define MS       INT64_C(1000000)
#define ASKED_NS (1000 * MS) /* then see again who has the partition */

leat_code leat__wait_open(consumer *c, leat_error *err)
{
    c->waits = leat__calloc(LEAT__BLOCK_MAX, sizeof *c->waits, err);
    for (int i = 0; c->waits && i < LEAT__BLOCK_MAX; i++)
        c->waits[i].c = c;
    return c->waits ? LEAT_OK : LEAT_ENOMEM;
}

/* ---- connections ------------------------------------------------------ */

/* Callbacks are told by the free. */
static void hang_up(leat__wait *w)
{
    leat_conn *conn = w->conn;
    w->conn = NULL;
    leat__conn_free(conn);
    w->out = false;
}

static void let_go(leat__wait *w)
{
    hang_up(w);
    if (w->dial) {
        leat__dial_drop(w->dial);
        w->c->dials--;
    }
    if (w->part)
        w->part->wait = NULL;
    *w = (leat__wait){ .c = w->c };
}

void leat__wait_close(consumer *c)
{
    for (int i = 0; c->waits && i < LEAT__BLOCK_MAX; i++)
        let_go(&c->waits[i]);
    leat__free(c->waits);
    c->waits = NULL;
}

void leat__wait_drop(part *p)
{
    if (p->wait)
        hang_up(p->wait);
}

static void not_connected(leat__wait *w, const leat_error *e)
{
    leat__drive_failed(w->c, e, "connecting");
    w->retry_ns = leat__deadline_ns(leat__backoff_next_ms(&w->backoff));
}

/* What it reads counts if it leads to the server of our commands; whether that
 * is still the same one is asked once more, now that this connection is
 * made. */
static void check(leat__wait *w)
{
    leat_error e;
    consumer *c = w->c;
    leat__verify_doubt(w->part);
    if (w->conn->asking ||
        (c->cmd && leat__conn_leads(c->cmd, w->part->slot, w->conn)))
        return;
    hang_up(w);
    leat__fail(&e, LEAT_ECONN, "it leads to another node than the commands");
    not_connected(w, &e);
}

static void fetch(leat__wait *w, int64_t now_ns)
{
    leat_error e;
    if (!leat__dial_fetch(w->dial, &w->conn, &e))
        return;
    w->dial = NULL;
    w->c->dials--;
    w->since_ns = now_ns;
    if (w->conn)
        check(w);
    else
        not_connected(w, &e);
}

static void dial(leat__wait *w, int64_t now_ns)
{
    leat_error e;
    consumer *c = w->c;
    if (now_ns < w->retry_ns || c->dials >= DIALS_AT_ONCE)
        return;
    w->dial = leat__dial_start_key(
        c->client, leat__key_bytes(&w->part->log),
        leat__deadline_ns(c->client->opts.connect_timeout_ms), c->wake_fd, &e);
    if (w->dial)
        c->dials++;
    else
        not_connected(w, &e);
}

/* It broke: the next one not at once, unless this one was good for long. */
static void lost(leat__wait *w, const leat_error *e)
{
    leat__drive_failed(w->c, e, "the connection");
    hang_up(w);
    w->retry_ns = leat__deadline_ns(leat__backoff_next_ms(&w->backoff));
}

/* ---- reading ---------------------------------------------------------- */

static void on_waited(void *arg, const leat_reply *r, const leat_error *e)
{
    leat__wait *w = arg;
    part *p = w->part;
    leat_error odd;
    w->out = false;
    e = leat__reply_odd(r, e, LEAT__SHAPE_READ, "XREAD", &odd);
    if (!e)
        leat__backoff_reset(&w->backoff);
    if (!e && p && leat__part_epoch(p) == w->epoch && !p->doubtful)
        leat__read_came(p, r, w->asked);
    if (!e || !r || !w->conn)
        return; /* a connection that broke is seen by its own */
    w->conn->stale = true;
    if (e->code != LEAT_EREADONLY)
        leat__read_failed(w->c, p, e);
}

static leat_code send_read(leat__wait *w, leat_error *err)
{
    const part *p = w->part;
    consumer *c = w->c;
    char count[LEAT__NUMBER], block[LEAT__NUMBER], id[LEAT__ID_TEXT];
    return leat_conn_send(
        w->conn,
        LEAT_ARGS(leat_mem("XREAD", 5), leat_mem("COUNT", 5),
                  leat__arg_int(count, w->asked), leat_mem("BLOCK", 5),
                  leat__arg_int(block, c->opts.block_ms),
                  leat_mem("STREAMS", 7), leat__key_bytes(&p->log),
                  leat__id_format(leat__window_read_from(p->window), id)),
        &(leat_send_opts){
            .fn = on_waited, .arg = w, .block_ms = c->opts.block_ms },
        err);
}

static void wait_for(leat__wait *w)
{
    leat_error e;
    const part *p = w->part;
    uint32_t batch = (uint32_t)w->c->opts.batch;
    uint32_t room = leat__window_room(p->window);
    w->asked = room < batch ? room : batch;
    w->epoch = leat__part_epoch(p);
    w->out = true;
    if (send_read(w, &e) != LEAT_OK)
        lost(w, &e);
}

/* ---- the step --------------------------------------------------------- */

/* A moved partition is connected to at once, but not again and again. */
static void leave_stale(leat__wait *w, int64_t now_ns)
{
    if (w->out || !w->conn)
        return;
    if (w->conn->asking && now_ns - w->since_ns > ASKED_NS)
        w->conn->stale = true;
    if (!w->conn->stale)
        return;
    hang_up(w);
    w->retry_ns = leat__deadline_ns(leat__backoff_next_ms(&w->backoff));
}

static void tend(leat__wait *w, int64_t now_ns)
{
    consumer *c = w->c;
    const part *p = w->part;
    if (!leat__part_owned(p) || p->gone) {
        let_go(w);
        return;
    }
    if (w->dial)
        fetch(w, now_ns);
    leave_stale(w, now_ns);
    if (!leat__read_idle(c, p, now_ns) || w->out || w->dial)
        return;
    if (w->conn)
        wait_for(w);
    else
        dial(w, now_ns);
}

static leat__wait *unused(consumer *c)
{
    for (int i = 0; i < LEAT__BLOCK_MAX; i++)
        if (!c->waits[i].part)
            return &c->waits[i];
    return NULL;
}

static void assign(consumer *c)
{
    for (uint32_t i = 0; i < c->owned_count; i++) {
        part *p = c->owned[i];
        leat__wait *w = p->wait || p->gone ? NULL : unused(c);
        if (p->wait || p->gone)
            continue;
        if (!w)
            return;
        w->part = p;
        w->backoff = (leat__backoff){ .base_ms = FIRST_RETRY_MS,
                                      .cap_ms = MAX_RETRY_MS };
        p->wait = w;
    }
}

static bool unwatched(const consumer *c, const part *p, int64_t now_ns)
{
    return !(p->wait && p->wait->out) && leat__read_idle(c, p, now_ns);
}

/* What nothing waits for may have more by now. */
static void look(consumer *c, int64_t now_ns)
{
    uint32_t n = 0;
    if (now_ns < c->look_ns)
        return;
    c->look_ns = INT64_MAX;
    leat__pace_empty(&c->pace);
    for (uint32_t i = 0; i < c->owned_count; i++) {
        part *p = c->owned[(c->look_turn + i) % c->owned_count];
        if (!unwatched(c, p, now_ns))
            continue;
        c->look_ns = now_ns + c->pace.ms * MS;
        if (n++ == LOOK_AT_ONCE) {
            c->look_turn += i;
            return;
        }
        p->caught_up = false;
    }
}

/* When the next look is due: soon, where somebody needs one. */
static void plan_look(consumer *c, int64_t now_ns)
{
    int64_t soon_ns = now_ns + c->pace.ms * MS;
    if (c->look_ns <= soon_ns)
        return;
    for (uint32_t i = 0; i < c->owned_count; i++)
        if (unwatched(c, c->owned[i], now_ns)) {
            c->look_ns = soon_ns;
            return;
        }
}

void leat__wait_step(consumer *c, int64_t now_ns)
{
    assign(c);
    for (int i = 0; i < LEAT__BLOCK_MAX; i++)
        if (c->waits[i].part)
            tend(&c->waits[i], now_ns);
    look(c, now_ns);
    plan_look(c, now_ns);
}

int64_t leat__wait_due(const consumer *c)
{
    int64_t due = c->look_ns;
    for (int i = 0; i < LEAT__BLOCK_MAX; i++) {
        const leat__wait *w = &c->waits[i];
        int64_t at = w->conn ? leat__conn_deadline(w->conn) : INT64_MAX;
        if (at < due)
            due = at;
    }
    return due;
}

/* ---- the driver's poll ------------------------------------------------ */

nfds_t leat__wait_fds(const consumer *c, struct pollfd *out)
{
    for (int i = 0; i < LEAT__BLOCK_MAX; i++) {
        const leat_conn *conn = c->waits[i].conn;
        out[i] = (struct pollfd){ .fd = conn ? leat_conn_fd(conn) : -1,
                                  .events = POLLIN };
    }
    return LEAT__BLOCK_MAX;
}

void leat__wait_take(consumer *c, const struct pollfd *come)
{
    leat_error e;
    for (int i = 0; i < LEAT__BLOCK_MAX; i++) {
        leat__wait *w = &c->waits[i];
        leat_code rc = LEAT_OK;
        if (w->conn && come[i].revents)
            rc = leat_conn_take(w->conn, &e);
        if (w->conn && rc == LEAT_OK)
            rc = leat__conn_expire(w->conn, &e);
        if (w->conn && rc != LEAT_OK)
            lost(w, &e);
    }
}

void leat__wait_flush(consumer *c)
{
    leat_error e;
    for (int i = 0; i < LEAT__BLOCK_MAX; i++) {
        leat__wait *w = &c->waits[i];
        if (w->conn && leat__outq_left(&w->conn->out) > 0 &&
            leat_conn_flush(w->conn, &e) != LEAT_OK)
            lost(w, &e);
    }
}
