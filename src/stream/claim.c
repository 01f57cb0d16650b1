/*
 * claim.c: what comes back.
 *
 * One call at a time, over the link that never blocks, in this order:
 *
 *   the group   is made, where it is gone
 *   own         the scan: pages of XPENDING of this consumer; what is not held
 *               is taken.  At the start of a named consumer, and when a reply
 *               may have been lost.  It changes nothing of what is held, which
 *               reading the history with XREADGROUP would: that counts and
 *               renews every entry.  A lost reply does not count as a delivery.
 *   due         nacked entries whose time has come are taken, if nobody else
 *               was faster
 *   others      a pass over the group's pending entries every claim_ms: by
 *               XAUTOCLAIM, or on Redis 6.0 by pages of XPENDING, filtered here
 *               since asking for idle ones is 6.2 and scans the whole list.  A
 *               page at a time with pauses, so that a million pending entries
 *               are no burden
 *   names       of dead consumers with nothing pending are removed
 *
 * take.lua and autoclaim.lua hand the entries over with what is in them and how
 * often they were delivered.  Entries that were deleted from the stream are
 * settled, counted and reported, never handed out.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "redis/shape.h"
#include "stream/stream.h"

#include <string.h>

enum {
    PAGE = 100,
    AUTOCLAIM_PAUSE_MS = 20, /* one looks at ten pages, for 2 ms            */
    PAGE_PAUSE_MS = 5,
    GRACE_MS = 2,  /* the server counts idle time in whole milliseconds     */
    AGAIN_MS = 5,  /* when it was too early all the same                    */
    SWEPT = 32,    /* names removed in one pass                             */
    LEAVE_MS = 500 /* to remove our own                                     */
};

static const leat_position at_end = { UINT64_MAX, UINT64_MAX, 0 };

static int64_t after_ms(int64_t ms)
{
    return leat__deadline_ns(ms);
}

static bool is_end(leat_position id)
{
    return id.ms == at_end.ms && id.seq == at_end.seq;
}

/* The call under way is over; true: it failed, and that is dealt with. */
static bool over(stream_source *s, const leat_error *err)
{
    s->busy = false;
    if (err)
        leat__stream_refused(s, &s->links[0], err);
    return err != NULL;
}

/* A call could not even be queued.  Before one is, busy is set: should the
 * connection break at once, the answer comes first. */
static void sent(stream_source *s, leat_code rc, const leat_error *err)
{
    if (rc == LEAT_OK)
        return;
    s->busy = false;
    leat__stream_refused(s, &s->links[0], err);
}

/* ---- parking ---------------------------------------------------------- */

void leat__stream_park(stream_source *s, leat_position id, int64_t ready_ns)
{
    int64_t now = leat__now_ns(), half = now + s->idle_ns / 2;
    stream_parked p = { .ready_ns = ready_ns, .id = id };
    p.due_ns = ready_ns + (int64_t)GRACE_MS * 1000000;
    if (ready_ns <= now)
        p.due_ns = now;
    else if (ready_ns > now + s->idle_ns)
        p.due_ns = half; /* the server cannot wait so long: remind it */
    if (s->leaving || leat__stream_held_reserve(&s->held, 1, NULL) != LEAT_OK ||
        !leat__stream_park_add(&s->park, &p))
        return; /* a claim will find it */
    leat__stream_held_put(&s->held, id, LEAT__STREAM_PARKED);
}

static bool is_parked(const stream_source *s, leat_position id)
{
    return leat__stream_held_get(&s->held, id) == LEAT__STREAM_PARKED;
}

static void unpark(stream_source *s, leat_position id)
{
    if (is_parked(s, id))
        leat__stream_held_drop(&s->held, id);
}

/* ---- taking ----------------------------------------------------------- */

static void report_deleted(stream_source *s, leat_bytes id)
{
    leat__log(&s->stream->log, LEAT_LOG_WARN,
              "stream '%s', group '%s': entry %.*s was pending and is deleted "
              "from the stream, it is settled unseen",
              s->base.name, s->group_text, (int)id.n, (const char *)id.p);
    leat_counter_add(s->meters.deleted, 1);
    pthread_mutex_lock(&s->lock);
    s->stats.deleted++;
    pthread_mutex_unlock(&s->lock);
}

static void count_adopted(stream_source *s, size_t n)
{
    leat_counter_add(s->meters.adopted, n);
    pthread_mutex_lock(&s->lock);
    s->stats.adopted += n;
    pthread_mutex_unlock(&s->lock);
}

/* Ours, but too early: by a clock that was set back, or because a lost call
 * took it before. */
static void too_early(stream_source *s, leat_position id)
{
    if (is_parked(s, id)) {
        int64_t soon = after_ms(AGAIN_MS);
        stream_parked p = { .due_ns = soon, .ready_ns = soon, .id = id };
        if (!leat__stream_park_add(&s->park, &p))
            unpark(s, id);
    }
}

/* XAUTOCLAIM does not know what we still work on: such an entry was idle too
 * long, anybody may have it, but from ourselves it is not taken. */
static void note_stolen(stream_source *s, leat_position id, int64_t count)
{
    if (!leat__stream_held_get(&s->held, id) || s->stolen_count == STREAM_CHUNK)
        return;
    s->stolen[s->stolen_count].id = id;
    s->stolen[s->stolen_count++].count = count - 1;
}

/* Look at each [id, state, fields] before they are delivered together. */
static void sort_taken(stream_source *s, const leat_reply *items)
{
    leat_reply_iter it = leat_reply_each(items);
    for (const leat_reply *r; (r = leat_reply_step(&it));) {
        leat_bytes text = leat_reply_bytes(leat_reply_at(r, 0));
        int64_t state = leat_reply_int(leat_reply_at(r, 1));
        leat_position id;
        if (!leat__stream_id_parse(text, &id))
            continue;
        if (state == 0)
            report_deleted(s, text);
        if (state == -2)
            too_early(s, id);
        else
            unpark(s, id);
        if (state > 0)
            note_stolen(s, id, state);
    }
}

/* What a lost call may have taken is pending here and not held: the scan finds
 * it, once it is no longer taken for parked. */
/* Of take.lua and autoclaim.lua: [id, state], or with the fields. */
#define TAKEN "([di(_)])"

static void take_lost(stream_source *s, const leat_error *err)
{
    for (size_t i = 0; i < s->take_count; i++) {
        if (leat__stream_in_doubt(err))
            unpark(s, s->take[i]);
        else
            too_early(s, s->take[i]);
    }
    if (leat__stream_in_doubt(err) || s->take_kind == STREAM_TAKE_OWN)
        leat__stream_scan(s);
}

static void on_take(void *arg, const leat_reply *r, const leat_error *err)
{
    stream_source *s = arg;
    leat_error odd;
    err = leat__reply_odd(r, err, "[" TAKEN "]", "a take", &odd);
    if (over(s, err)) {
        take_lost(s, err);
        return;
    }
    sort_taken(s, r);
    size_t n = leat__stream_deliver(s, r, true, s->take_ns);
    if (s->take_kind == STREAM_TAKE_OTHERS)
        count_adopted(s, n);
}

/* Take the ids in s->take. */
static void take(stream_source *s, stream_link *l)
{
    leat_bytes argv[4 + STREAM_CHUNK] = { s->group, s->consumer };
    char id[STREAM_CHUNK][LEAT__STREAM_ID], idle[LEAT__NUMBER];
    leat_error e;
    bool own = s->take_kind == STREAM_TAKE_OWN;
    argv[2] = leat__arg_int(idle, own ? -1 : s->opts.idle_ms);
    argv[3] = leat_str(own && !s->scan_fresh ? "0" : "1");
    for (size_t i = 0; i < s->take_count; i++)
        argv[4 + i] = leat__stream_id_format(s->take[i], id[i]);
    s->take_ready = false;
    s->take_ns = leat__now_ns();
    s->busy = true;
    leat_code rc = leat__script_send(l->conn, &leat__script_stream_take,
                                     &s->key, 1, argv, 4 + s->take_count,
                                     &(leat_send_opts){ on_take, s, 0 }, &e);
    sent(s, rc, &e);
    if (rc != LEAT_OK)
        take_lost(s, &e);
}

/* ---- the group -------------------------------------------------------- */

static void on_group(void *arg, const leat_reply *r, const leat_error *err)
{
    stream_source *s = arg;
    (void)r;
    s->busy = false;
    if (err && err->code != LEAT_EEXIST) {
        leat__stream_refused(s, &s->links[0], err);
        return;
    }
    s->need_group = false;
    if (!err)
        leat__log(&s->stream->log, LEAT_LOG_WARN,
                  "stream '%s': the group '%s' was gone and is made anew, from "
                  "'%s'",
                  s->base.name, s->group_text, s->start);
}

static void make_group(stream_source *s, stream_link *l)
{
    leat_error e;
    s->busy = true;
    leat_code rc = leat_conn_send(
        l->conn,
        LEAT_ARGS(leat_str("XGROUP"), leat_str("CREATE"), s->key, s->group,
                  leat_str(s->start), leat_str("MKSTREAM")),
        &(leat_send_opts){ on_group, s, 0 }, &e);
    sent(s, rc, &e);
}

/* ---- own -------------------------------------------------------------- */

/* Begin at the beginning; a scan under way begins anew.  Entries of an earlier
 * life count as delivered again, those of a lost reply do not. */
void leat__stream_scan(stream_source *s)
{
    if (!s->scan)
        s->scan_fresh = false;
    s->scan = true;
    s->scan_at = (leat_position){ 0 };
}

/* [[id, consumer, idle, count]...]: remember which of them to take, and say
 * where to go on. */
static leat_position read_page(stream_source *s, const leat_reply *page,
                               stream_take_kind kind)
{
    leat_position id = { 0 }, next = at_end;
    leat_reply_iter it = leat_reply_each(page);
    int64_t min = kind == STREAM_TAKE_OWN ? 0 : s->opts.idle_ms;
    size_t n = leat_reply_len(page);
    s->take_count = 0;
    for (const leat_reply *r; (r = leat_reply_step(&it));) {
        if (!leat__stream_id_parse(leat_reply_bytes(leat_reply_at(r, 0)), &id))
            continue;
        next = leat__stream_id_after(id);
        if (leat_reply_int(leat_reply_at(r, 2)) >= min &&
            !leat__stream_held_get(&s->held, id) &&
            s->take_count < STREAM_CHUNK)
            s->take[s->take_count++] = id;
    }
    s->take_kind = kind;
    s->take_ready = s->take_count > 0;
    return n < s->page ? at_end : next;
}

/* Ask for no more than there is room for: all of it may have to be taken. */
static void send_page(stream_source *s, stream_link *l, leat_position from,
                      bool own, leat_reply_fn *fn)
{
    char id[LEAT__STREAM_ID], n[LEAT__NUMBER];
    leat_error e;
    leat_bytes argv[] = { leat_str("XPENDING"),
                          s->key,
                          s->group,
                          leat__stream_id_format(from, id),
                          leat_str("+"),
                          leat__arg_int(n, (int64_t)s->page),
                          s->consumer };
    s->busy = true;
    leat_code rc = leat_conn_send(l->conn, argv, own ? 7 : 6,
                                  &(leat_send_opts){ fn, s, 0 }, &e);
    sent(s, rc, &e);
}

static bool page_room(stream_source *s)
{
    size_t room = leat__stream_room(s);
    s->page = room < PAGE ? room : PAGE;
    return room > 0;
}

static void on_own_page(void *arg, const leat_reply *r, const leat_error *err)
{
    stream_source *s = arg;
    leat_error odd;
    err = leat__reply_odd(r, err, "[([dtii])]", "XPENDING", &odd);
    if (!over(s, err))
        s->scan_at = read_page(s, r, STREAM_TAKE_OWN);
}

static void scan_step(stream_source *s, stream_link *l)
{
    for (int i = 1; i < s->link_count; i++)
        if (s->links[i].reads > 0)
            return; /* what they bring is not held yet */
    if (is_end(s->scan_at))
        s->scan = s->scan_fresh = false;
    else if (page_room(s))
        send_page(s, l, s->scan_at, true, on_own_page);
}

/* ---- due -------------------------------------------------------------- */

static void ignore(void *arg, const leat_reply *r, const leat_error *err)
{
    (void)arg;
    (void)r;
    (void)err;
}

/* Set the idle time of one entry; if that is lost it comes back early. */
static void set_idle(stream_source *s, stream_link *l, leat_position id,
                     int64_t idle_ms, int64_t count)
{
    char text[LEAT__STREAM_ID], idle[LEAT__NUMBER], times[LEAT__NUMBER];
    leat_bytes argv[] = { s->group, s->consumer,
                          leat__stream_id_format(id, text),
                          leat__arg_int(idle, idle_ms),
                          leat__arg_int(times, count) };
    (void)leat__script_send(l->conn, &leat__script_stream_idle, &s->key, 1,
                            argv, 5, &(leat_send_opts){ ignore, NULL, 0 },
                            NULL);
}

/* Its delay is longer than idle_ms: keep it from the others. */
static void renew(stream_source *s, stream_link *l, const stream_parked *p,
                  int64_t now)
{
    int64_t left_ms = (p->ready_ns - now) / 1000000;
    int64_t idle = s->opts.idle_ms - left_ms;
    set_idle(s, l, p->id, idle > 0 ? idle : 0, -1);
    leat__stream_held_drop(&s->held, p->id);
    leat__stream_park(s, p->id, p->ready_ns);
}

static void due_step(stream_source *s, stream_link *l, int64_t now)
{
    size_t room = leat__stream_room(s);
    if (room > STREAM_CHUNK)
        room = STREAM_CHUNK;
    s->take_count = 0;
    while (s->take_count < room && leat__stream_park_due(&s->park) <= now) {
        stream_parked p = leat__stream_park_pop(&s->park);
        if (!is_parked(s, p.id))
            continue; /* it came back another way */
        if (p.ready_ns > now)
            renew(s, l, &p, now);
        else
            s->take[s->take_count++] = p.id;
    }
    s->take_kind = STREAM_TAKE_DUE;
    if (s->take_count > 0)
        take(s, l);
}

/* ---- others ----------------------------------------------------------- */

static void return_stolen(stream_source *s, stream_link *l)
{
    for (size_t i = 0; i < s->stolen_count; i++)
        set_idle(s, l, s->stolen[i].id, s->opts.idle_ms, s->stolen[i].count);
    s->stolen_count = 0;
}

static void on_autoclaim(void *arg, const leat_reply *r, const leat_error *err)
{
    stream_source *s = arg;
    leat_error odd;
    err = leat__reply_odd(r, err, "[di[" TAKEN "]]", "a claim", &odd);
    if (over(s, err)) {
        s->claiming = false;
        if (leat__stream_in_doubt(err))
            leat__stream_scan(s);
        return;
    }
    const leat_reply *items = leat_reply_at(r, 2);
    leat_position next = { 0 };
    (void)leat__stream_id_parse(leat_reply_bytes(leat_reply_at(r, 0)), &next);
    s->claim_at = next;
    s->claiming = next.ms > 0 || next.seq > 0;
    if (leat_reply_int(leat_reply_at(r, 1)) > 0)
        leat__stream_scan(s); /* Redis 6.2 does not name the deleted */
    if (leat_reply_len(items) == 0)
        s->page_due_ns = after_ms(AUTOCLAIM_PAUSE_MS);
    else {
        sort_taken(s, items);
        count_adopted(s, leat__stream_deliver(s, items, true, s->take_ns));
    }
}

static void autoclaim(stream_source *s, stream_link *l)
{
    char idle[LEAT__NUMBER], at[LEAT__STREAM_ID], n[LEAT__NUMBER];
    leat_error e;
    leat_bytes argv[] = { s->group, s->consumer,
                          leat__arg_int(idle, s->opts.idle_ms),
                          leat__stream_id_format(s->claim_at, at),
                          leat__arg_int(n, (int64_t)s->page) };
    s->take_ns = leat__now_ns();
    s->busy = true;
    leat_code rc = leat__script_send(
        l->conn, &leat__script_stream_autoclaim, &s->key, 1, argv, 5,
        &(leat_send_opts){ on_autoclaim, s, 0 }, &e);
    sent(s, rc, &e);
}

static void on_page(void *arg, const leat_reply *r, const leat_error *err)
{
    stream_source *s = arg;
    leat_error odd;
    err = leat__reply_odd(r, err, "[([dtii])]", "XPENDING", &odd);
    if (over(s, err)) {
        s->claiming = false;
        return;
    }
    s->claim_at = read_page(s, r, STREAM_TAKE_OTHERS);
    s->claiming = !is_end(s->claim_at);
    s->page_due_ns = after_ms(PAGE_PAUSE_MS);
}

static void claim_others(stream_source *s, stream_link *l, int64_t now)
{
    if (!s->claiming) {
        s->claiming = s->sweep = true;
        s->claim_at = (leat_position){ 0 };
        s->claim_due_ns = now + s->claim_ns;
    }
    if (!page_room(s))
        return;
    if (s->xautoclaim)
        autoclaim(s, l);
    else
        send_page(s, l, s->claim_at, false, on_page);
}

/* ---- names ------------------------------------------------------------ */

/* Name, pending and idle of one consumer, from [key, value...] or a map. */
static leat_bytes dead_name(const stream_source *s, const leat_reply *r)
{
    leat_bytes name = { 0 };
    int64_t pending = -1, idle = 0;
    leat_reply_iter it = leat_reply_each(r);
    for (const leat_reply *key; (key = leat_reply_step(&it));) {
        const leat_reply *value = leat_reply_step(&it);
        if (leat_bytes_eq(leat_reply_bytes(key), leat_str("name")))
            name = leat_reply_bytes(value);
        else if (leat_bytes_eq(leat_reply_bytes(key), leat_str("pending")))
            pending = leat_reply_int(value);
        else if (leat_bytes_eq(leat_reply_bytes(key), leat_str("idle")))
            idle = leat_reply_int(value);
    }
    bool dead = pending == 0 && idle > 2 * s->opts.idle_ms &&
                !leat_bytes_eq(name, s->consumer) &&
                leat__stream_consumer_made(name);
    return dead ? name : (leat_bytes){ 0 };
}

static void on_consumers(void *arg, const leat_reply *r, const leat_error *err)
{
    stream_source *s = arg;
    leat_reply_iter it = leat_reply_each(r);
    leat__buf names = { 0 };
    size_t found = 0;
    leat_error odd;
    err = leat__reply_odd(r, err, "[([(t_)])]", "XINFO", &odd);
    if (over(s, err))
        return;
    while (it.left > 0 && found < SWEPT) {
        leat_bytes name = dead_name(s, leat_reply_step(&it));
        if (name.n == 0)
            continue;
        if (leat__buf_add(&names, name.p, name.n, NULL) != LEAT_OK ||
            leat__buf_add(&names, "", 1, NULL) != LEAT_OK)
            break;
        found++;
    }
    leat__free(s->sweep_names);
    s->sweep_names = names.p;
    s->sweep_size = names.n;
    s->sweep_next = 0;
}

static void on_removed(void *arg, const leat_reply *r, const leat_error *err)
{
    stream_source *s = arg;
    if (over(s, err) || leat_reply_int(r) != 1)
        return;
    pthread_mutex_lock(&s->lock);
    s->stats.removed++;
    pthread_mutex_unlock(&s->lock);
}

/* The next name whose end is known to be in the buffer. */
static void remove_next(stream_source *s, stream_link *l)
{
    const char *name = s->sweep_names + s->sweep_next;
    leat_bytes argv[] = { s->group, leat_str(name) };
    leat_error e;
    s->sweep_next += argv[1].n + 1;
    s->busy = true;
    leat_code rc = leat__script_send(l->conn, &leat__script_stream_remove,
                                     &s->key, 1, argv, 2,
                                     &(leat_send_opts){ on_removed, s, 0 }, &e);
    sent(s, rc, &e);
}

static void find_names(stream_source *s, stream_link *l)
{
    leat_error e;
    s->sweep = false;
    s->busy = true;
    leat_code rc = leat_conn_send(
        l->conn,
        LEAT_ARGS(leat_str("XINFO"), leat_str("CONSUMERS"), s->key, s->group),
        &(leat_send_opts){ on_consumers, s, 0 }, &e);
    sent(s, rc, &e);
}

void leat__stream_leave(stream_source *s, stream_link *l)
{
    leat_bytes argv[] = { s->group, s->consumer };
    int64_t usual = l->conn->timeout_ms;
    if (s->named)
        return;
    l->conn->timeout_ms = usual < LEAVE_MS ? usual : LEAVE_MS;
    (void)leat__script_call(l->conn, &leat__script_stream_remove, &s->key, 1,
                            argv, 2, NULL, NULL);
    l->conn->timeout_ms = usual;
}

/* ---- what next -------------------------------------------------------- */

static bool claim_is_due(const stream_source *s, int64_t now)
{
    return s->claiming ? s->page_due_ns <= now : s->claim_due_ns <= now;
}

void leat__stream_claim_step(stream_source *s, stream_link *l, int64_t now)
{
    if (s->busy || s->retry_ns > now)
        return;
    return_stolen(s, l);
    if (s->need_group)
        make_group(s, l);
    else if (s->take_ready)
        take(s, l);
    else if (s->scan)
        scan_step(s, l);
    else if (leat__stream_park_due(&s->park) <= now)
        due_step(s, l, now);
    else if (claim_is_due(s, now))
        claim_others(s, l, now);
    else if (s->sweep_next < s->sweep_size)
        remove_next(s, l);
    else if (s->sweep)
        find_names(s, l);
}

/* Without room there is nothing to wait for but outcomes, which wake us. */
int64_t leat__stream_claim_due(stream_source *s)
{
    if (s->busy || s->scan || s->need_group || leat__stream_room(s) == 0)
        return INT64_MAX;
    int64_t due = s->claiming ? s->page_due_ns : s->claim_due_ns;
    int64_t park = leat__stream_park_due(&s->park);
    return park < due ? park : due;
}
