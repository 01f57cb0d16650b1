/*
 * read.c: from the logs into the windows.
 *
 * A partition that may have more is read without waiting, one read at a time,
 * beside the scripts; about one batch is kept ahead of what is handed out, of a
 * long backlog a few.  One whose log gave fewer than asked for has no more: it
 * joins the read that waits inside the server, up to 64 partitions in one; on a
 * cluster it waits by itself (wait.c).  When a partition joins while that read
 * waits without it, the read is ended early (CLIENT UNBLOCK), or, where that is
 * not permitted, by its own time limit.
 *
 * All reads are plain XREAD behind the last entry that is in the window: they
 * change nothing on the server, so an answer that is lost costs nothing and a
 * reader that is no longer the owner takes nothing away.
 */
#include "base/log.h"
#include "base/system.h"
#include "redis/bundle.h"
#include "redis/conn.h"
#include "topic/consumer.h"

#include <string.h>

#define RETRY_NS INT64_C(50000000)

enum {
    READ_BYTES = 512 * 1024, /* that a larger read should not exceed     */
};

/* ---- what came -------------------------------------------------------- */

static uint64_t lane(const part *p, const leat__held *h)
{
    return p->order == LEAT_ORDER_KEY ? leat__lane_of(h->msg->key) : 0;
}

/* It is another group's. */
static LEAT__COLD void pass(part *p, leat__held *h)
{
    leat__entry *e = leat__window_push(p->window, h->id, 0, h);
    p->c->in_rings++;
    if (e)
        leat__again_pass(p, e);
    else
        leat__held_drop(h);
}

/* What was settled by an earlier owner needs no memory. */
void leat__read_into(part *p, leat__held *h)
{
    consumer *c = p->c;
    leat__id from = leat__window_read_from(p->window);
    if (leat__id_cmp(h->id, from) <= 0) {
        leat__held_drop(h);
        return;
    }
    if (h->again && leat__again_others(c, h->msg)) {
        pass(p, h);
        return;
    }
    leat__entry *e = leat__window_push(p->window, h->id, lane(p, h), h);
    c->in_rings++;
    if (!e)
        leat__held_drop(h);
    else if (p->blocks.count > 0)
        leat__park_read(p, e);
}

/* How many more of it fit, beside what other reads may bring. */
static uint32_t room_for(const consumer *c, const part *p)
{
    uint32_t used = c->in_rings + c->asked;
    uint32_t limit = (uint32_t)c->opts.max_in_flight;
    uint32_t left = used < limit ? limit - used : 0;
    uint32_t room = leat__window_room(p->window);
    return room < left ? room : left;
}

/* What does not fit is left in the log and read again, and so is what a read
 * brings that went out for what is behind. */
static void take_entries(part *p, const leat_reply *entries, uint32_t max,
                         uint32_t asked)
{
    consumer *c = p->c;
    leat_error e = { 0 };
    size_t all = leat_reply_len(entries);
    if (p->bodies)
        return; /* what they belong to comes first, and then this again */
    if (leat_reply_kind(entries) != LEAT_REPLY_ARRAY) {
        leat__fail(&e, LEAT_EPROTO, "the server answered XREAD strangely");
        leat__read_failed(c, p, &e);
        return;
    }
    size_t n = leat__chunk_fill(&c->chunks, c->topic->opts.codec, entries,
                                c->held, max, &e);
    if (c->chunks.stubs)
        n = leat__bodies_take(p, entries, c->held, n);
    leat__id last = n > 0 ? c->held[n - 1]->id : (leat__id){ 0, 0 };
    for (size_t i = 0; i < n; i++)
        leat__read_into(p, c->held[i]);
    if (n > 0)
        leat__pace_busy(&c->pace);
    if (n > 0)
        leat__verify_read(p, leat__verify_print(last, entries, n - 1));
    leat__read_done(p);
    if (e.code != LEAT_OK) {
        leat__drive_failed(c, &e, "reading");
        p->retry_ns = leat__now_ns() + RETRY_NS;
    }
    p->caught_up = n == all && all < asked;
    if (n < all)
        p->read_epoch = 0; /* what is under way is behind the rest of this */
}

/* A key that is no stream is told to who receives, and asked again. */
void leat__read_failed(consumer *c, part *p, const leat_error *e)
{
    leat__drive_failed(c, e, "reading");
    if (p)
        p->retry_ns = leat__now_ns() + RETRY_NS;
    if (e->code == LEAT_ESERVER || e->code == LEAT_EAUTH)
        leat__drive_refused(c, e);
}

/* The streams of a reply: a map's pairs, or an array of pairs. */
typedef struct streams {
    leat_reply_iter rest;
    bool map;
    const leat_reply *key, *entries; /* of the one at hand */
} streams;

static bool next_stream(streams *s)
{
    const leat_reply *one = leat_reply_step(&s->rest);
    s->key = s->map ? one : leat_reply_at(one, 0);
    s->entries = s->map ? leat_reply_step(&s->rest) : leat_reply_at(one, 1);
    return one != NULL;
}

static streams streams_of(const leat_reply *r)
{
    leat_reply_type kind = leat_reply_kind(r);
    bool map = kind == LEAT_REPLY_MAP;
    return (streams){ .rest = leat_reply_each(
                          map || kind == LEAT_REPLY_ARRAY ? r : NULL),
                      .map = map };
}

/* ---- a partition by itself -------------------------------------------- */

static leat_reply_fn on_read;

/* count entries behind from. */
static leat_code send_read(part *p, leat__id from, uint32_t count,
                           leat_error *err)
{
    consumer *c = p->c;
    char number[LEAT__NUMBER], id[LEAT__ID_TEXT];
    p->reading = true; /* before: the answer may be there at once */
    p->read_epoch = leat__part_epoch(p);
    p->asked = count;
    c->asked += count;
    leat__conn_confine(c->cmd, p->route);
    leat_code rc = leat_conn_send(
        c->cmd,
        LEAT_ARGS(leat_mem("XREAD", 5), leat_mem("COUNT", 5),
                  leat__arg_int(number, count), leat_mem("STREAMS", 7),
                  leat__key_bytes(&p->log), leat__id_format(from, id)),
        &(leat_send_opts){ .fn = on_read, .arg = p }, err);
    leat__conn_confine(c->cmd, 0);
    if (rc != LEAT_OK) {
        p->reading = false;
        p->asked = 0;
        c->asked -= count;
    }
    return rc;
}

/* How many entries of it to ask for now, with so many more in its window and
 * room for so many; 0: none, or not worth it yet. */
static uint32_t appetite(const consumer *c, const part *p, uint32_t more,
                         uint32_t room)
{
    uint32_t want = p->appetite ? p->appetite : (uint32_t)c->opts.batch;
    uint32_t waiting = leat__window_count(p->window) -
                       leat__window_out(p->window);
    if (p->draining || p->doubtful || !p->lanes_known ||
        waiting + more > want || room <= more)
        return 0;
    return room - more < want ? room - more : want;
}

/* The most to ask for at once: a few batches, and no more than leaves every
 * partition its share. */
static uint32_t greatest(const consumer *c)
{
    uint32_t batch = (uint32_t)c->opts.batch;
    uint32_t parts = c->owned_count ? c->owned_count : 1;
    uint32_t share = (uint32_t)c->opts.max_in_flight / 2 / parts;
    uint32_t most = batch * LEAT__READ_TIMES;
    most = share < most ? share : most;
    return most > batch ? most : batch;
}

/* A full answer of n entries and about so many bytes: the log holds a backlog,
 * which is read in larger pieces, fewer round trips for the same.  Not where
 * the messages are large: what is read is kept in memory. */
static void grow_appetite(part *p, uint32_t n, size_t bytes)
{
    uint32_t most = greatest(p->c);
    if (bytes > READ_BYTES)
        p->appetite = 0;
    else if (bytes <= READ_BYTES / 2)
        p->appetite = 2 * n < most ? 2 * n : most;
}

static const leat_reply *last_of(const leat_reply *entries)
{
    const leat_reply *last = NULL;
    leat_reply_iter it = leat_reply_each(entries);
    for (const leat_reply *e; (e = leat_reply_step(&it));)
        last = e;
    return last;
}

/* A full answer is followed by more: ask for that before this is taken in, so
 * that the server is at work meanwhile. */
static void read_ahead(part *p, const leat_reply *entries, uint32_t room,
                       uint32_t asked)
{
    leat__id from;
    uint32_t all = (uint32_t)leat_reply_len(entries);
    if (all < asked || all == 0) {
        p->appetite = 0;
        return;
    }
    const leat_reply *first = leat_reply_at(entries, 0);
    leat_bytes last = leat_reply_bytes(leat_reply_at(last_of(entries), 0));
    leat_bytes begin = leat_reply_bytes(leat_reply_at(first, 0));
    if (!leat__id_parse(last, &from) || begin.n == 0)
        return;
    grow_appetite(p, all,
                  (size_t)((const char *)last.p - (const char *)begin.p));
    uint32_t n = appetite(p->c, p, all, room);
    if (n > 0 && leat__conn_roomy(p->c->cmd) &&
        send_read(p, from, n, NULL) == LEAT_OK)
        leat__conn_write_early(p->c->cmd);
}

static void on_read(void *arg, const leat_reply *r, const leat_error *e)
{
    part *p = arg;
    consumer *c = p->c;
    uint32_t asked = p->asked;

    leat_error odd;
    p->reading = false;
    p->asked = 0;
    c->asked -= asked;
    e = leat__reply_odd(r, e, LEAT__SHAPE_READ, "XREAD", &odd);
    if (e) {
        leat__read_failed(c, p, e);
        return;
    }
    if (!leat__part_owned(p) || leat__part_epoch(p) != p->read_epoch ||
        p->doubtful)
        return;
    streams s = streams_of(r);
    if (!next_stream(&s)) {
        p->caught_up = true;
        p->appetite = 0;
        return;
    }
    uint32_t room = room_for(c, p);
    read_ahead(p, s.entries, room, asked);
    take_entries(p, s.entries, room < asked ? room : asked, asked);
}

static void read_on(consumer *c, int64_t now_ns)
{
    leat_error e;
    for (uint32_t i = 0; c->cmd && i < c->owned_count; i++) {
        part *p = c->owned[(c->turn + i) % c->owned_count];
        if (p->caught_up || p->reading || p->gone || now_ns < p->retry_ns ||
            leat__bodies_wait(p))
            continue;
        uint32_t n = appetite(c, p, 0, room_for(c, p));
        leat__id from = leat__window_read_from(p->window);
        if (n > 0 && send_read(p, from, n, &e) != LEAT_OK)
            leat__read_failed(c, p, &e);
    }
}

/* ---- the read that waits ---------------------------------------------- */

static void end_wait(consumer *c)
{
    for (uint32_t i = 0; i < c->blk_count; i++)
        c->blk_set[i].part->blocked = false;
    c->blk_count = 0;
    c->blk_out = c->unblocking = false;
}

static bool still_ours(const consumer *c, uint32_t i)
{
    const part *p = c->blk_set[i].part;
    return leat__part_epoch(p) == c->blk_set[i].epoch && !p->doubtful;
}

static void take_waited(part *p, const leat_reply *entries, uint32_t asked)
{
    uint32_t room = room_for(p->c, p);
    take_entries(p, entries, room < asked ? room : asked, asked);
}

void leat__read_came(part *p, const leat_reply *r, uint32_t asked)
{
    streams s = streams_of(r);
    if (next_stream(&s))
        take_waited(p, s.entries, asked);
}

/* Streams come in the order in which they were asked for. */
static void on_waited(void *arg, const leat_reply *r, const leat_error *e)
{
    consumer *c = arg;
    leat_error odd;

    e = leat__reply_odd(r, e, LEAT__SHAPE_READ, "XREAD", &odd);
    if (e && e->code != LEAT_ECONN && e->code != LEAT_EUNKNOWN)
        leat__read_failed(c, NULL, e);
    streams s = streams_of(e ? NULL : r);
    bool more = next_stream(&s);
    if (!more)
        leat__pace_empty(&c->pace);
    for (uint32_t i = 0; more && i < c->blk_count; i++) {
        part *p = c->blk_set[i].part;
        if (!leat_bytes_eq(leat_reply_bytes(s.key), leat__key_bytes(&p->log)))
            continue;
        if (still_ours(c, i))
            take_waited(p, s.entries, c->blk_asked);
        more = next_stream(&s);
    }
    end_wait(c);
}

void leat__read_reset(consumer *c)
{
    end_wait(c);
    c->blk_id = 0;
}

bool leat__read_idle(const consumer *c, const part *p, int64_t now_ns)
{
    return p->caught_up && !p->gone && now_ns >= p->retry_ns &&
           appetite(c, p, 0, room_for(c, p)) > 0;
}

/* Choose who waits, in turn where there are more than fit. */
static uint32_t choose(consumer *c, int64_t now_ns, uint32_t *left_out)
{
    uint32_t n = 0;
    *left_out = 0;
    for (uint32_t i = 0; i < c->owned_count; i++) {
        part *p = c->owned[(c->blk_turn + i) % c->owned_count];
        if (!leat__read_idle(c, p, now_ns))
            continue;
        if (n == LEAT__BLOCK_MAX) {
            ++*left_out;
            continue;
        }
        c->blk_set[n].part = p;
        c->blk_set[n++].epoch = leat__part_epoch(p);
    }
    if (*left_out)
        c->blk_turn += n;
    return n;
}

/* As many as each of them has room for: together they may bring more than fits,
 * and then some are read again. */
static uint32_t share(const consumer *c, uint32_t n)
{
    uint32_t each = (uint32_t)c->opts.batch;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t room = leat__window_room(c->blk_set[i].part->window);
        if (room < each)
            each = room;
    }
    return each;
}

static leat_code send_wait(consumer *c, uint32_t n, uint32_t each, int64_t ms,
                           leat_error *err)
{
    char count[LEAT__NUMBER], block[LEAT__NUMBER];
    char ids[LEAT__BLOCK_MAX][LEAT__ID_TEXT];
    leat_bytes argv[6 + 2 * LEAT__BLOCK_MAX] = {
        leat_mem("XREAD", 5),       leat_mem("COUNT", 5),
        leat__arg_int(count, each), leat_mem("BLOCK", 5),
        leat__arg_int(block, ms),   leat_mem("STREAMS", 7),
    };
    for (uint32_t i = 0; i < n; i++) {
        const part *p = c->blk_set[i].part;
        argv[6 + i] = leat__key_bytes(&p->log);
        argv[6 + n + i] = leat__id_format(leat__window_read_from(p->window),
                                          ids[i]);
    }
    return leat_conn_send(
        c->blk, argv, 6 + 2 * n,
        &(leat_send_opts){ .fn = on_waited, .arg = c, .block_ms = ms }, err);
}

static void wait_for_more(consumer *c, int64_t now_ns)
{
    leat_error e;
    uint32_t left_out, n = choose(c, now_ns, &left_out);
    if (n == 0)
        return;
    uint32_t each = share(c, n);
    int64_t ms = left_out ? c->pace.ms : c->opts.block_ms;
    for (uint32_t i = 0; i < n; i++)
        c->blk_set[i].part->blocked = true;
    c->blk_count = n;
    c->blk_asked = each;
    c->blk_out = true;
    if (send_wait(c, n, each, ms, &e) != LEAT_OK) {
        end_wait(c);
        leat__read_failed(c, NULL, &e);
    }
}

static void ignore(void *arg, const leat_reply *r, const leat_error *e)
{
    (void)arg;
    (void)r;
    (void)e;
}

/* Somebody is left out of a read that still waits. */
static void end_early(consumer *c, int64_t now_ns)
{
    char id[LEAT__NUMBER];
    if (c->unblocking || c->blk_id == 0 || c->blk_count == LEAT__BLOCK_MAX)
        return;
    for (uint32_t i = 0; i < c->owned_count; i++) {
        const part *p = c->owned[i];
        if (p->blocked || !leat__read_idle(c, p, now_ns))
            continue;
        c->unblocking = leat_conn_send(c->cmd,
                                       LEAT_ARGS(leat_mem("CLIENT", 6),
                                                 leat_mem("UNBLOCK", 7),
                                                 leat__arg_int(id, c->blk_id)),
                                       &(leat_send_opts){ .fn = ignore },
                                       NULL) == LEAT_OK;
        return;
    }
}

void leat__read_more(consumer *c, int64_t now_ns)
{
    if (c->cmd)
        read_on(c, now_ns);
}

void leat__read_step(consumer *c, int64_t now_ns)
{
    if (c->waits)
        leat__wait_step(c, now_ns);
    leat__read_more(c, now_ns);
    if (c->cmd && c->blk && !c->blk_out)
        wait_for_more(c, now_ns);
    else if (c->cmd && c->blk)
        end_early(c, now_ns);
}
