/*
 * kept.c: messages that wait beside the log, and their next turn.
 *
 *   due on the server -- fetch -->  waits -- take, `begin` confirmed -->  out
 *         ^                          |                                     |
 *         +----------- forgotten ----+                                     |
 *         +----------------- `keep` confirmed -----------------------------+
 *                            `done`, `dead` confirmed: gone
 *
 * One fetch (due.lua) at a time for each partition, when something is due, as
 * far as is known: after the lease was taken, when the server said, when a step
 * put something there, when the group is told of something new, and now and
 * then, since others may have put it there.  A fetch changes nothing, and
 * nothing is counted until a user receives it: then the server knows before it
 * is handed out, so attempts are exact.
 *
 * At most LEAT__KEPT_MAX are in hand, and they count as in flight.  One is
 * fetched also where there is no room, or a partition that is full of messages
 * which wait behind it would wait for ever.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "metrics/metrics.h"
#include "topic/consumer.h"

#include <assert.h>

#define RETRY_NS INT64_C(50000000)
#define LOOK_NS  INT64_C(5000000000) /* others may have put something there */
#define SHARE_NS INT64_C(20000000)   /* the more partitions, the more seldom */

enum { FETCH_BYTES = 1 << 20 };

/* ---- in hand ---------------------------------------------------------- */

static void append(part *p, leat__kept *k)
{
    kept_line *l = &p->kept;
    k->next = NULL;
    if (l->last)
        l->last->next = k;
    else
        l->first = k;
    l->last = k;
    l->count++;
    l->waits++;
    l->suspects += k->alone;
    p->c->in_rings++;
}

static void release(part *p, leat__kept *k)
{
    p->c->in_rings--;
    leat__held_drop(k->held);
    leat__free(k);
}

void leat__kept_drop(part *p, leat__kept *k)
{
    kept_line *l = &p->kept;
    leat__kept *before = NULL;
    for (leat__kept *at = l->first; at != k; at = at->next)
        before = at;
    if (before)
        before->next = k->next;
    else
        l->first = k->next;
    if (l->last == k)
        l->last = before;
    l->count--;
    l->suspects -= k->alone;
    release(p, k);
}

void leat__kept_forget(part *p)
{
    for (leat__kept *k = p->kept.first, *next; k; k = next) {
        next = k->next;
        release(p, k);
    }
    kept_line none = { .asked = p->kept.asked, .epoch = p->kept.epoch };
    p->kept = none; /* the answer of a fetch may still come */
}

void leat__kept_fall_back(part *p, uint64_t lane)
{
    leat__kept *next;
    for (leat__kept *k = lane ? p->kept.first : NULL; k; k = next) {
        next = k->next;
        if (k->state != KEPT_WAITS || k->lane != lane)
            continue;
        p->kept.waits--;
        leat__kept_drop(p, k);
    }
}

leat__kept *leat__kept_take(part *p, bool alone)
{
    leat__kept *k = p->kept.first;
    while (k && (k->state != KEPT_WAITS || k->alone != alone))
        k = k->next;
    if (!k)
        return NULL;
    leat__step *s = leat__settle_step(p, LEAT__STEP_BEGIN, k->id, k->n + 1,
                                      k->f);
    if (!s)
        return NULL;
    s->kept = k;
    k->begin = s;
    k->n++;
    k->state = KEPT_OUT;
    p->kept.waits--;
    leat__settle_add(p, s, 0); /* at once */
    return k;
}

void leat__kept_look(part *p, int64_t at_ns)
{
    if (at_ns < p->kept.at_ns)
        p->kept.at_ns = at_ns;
}

void leat__kept_hint(consumer *c, int64_t now_ns)
{
    for (uint32_t i = 0; i < c->owned_count; i++)
        leat__kept_look(c->owned[i], now_ns);
}

/* ---- fetching --------------------------------------------------------- */

static bool number(const leat_reply *r, uint64_t *out)
{
    int64_t v = leat_reply_int(r);
    *out = v > 0 ? (uint64_t)v : 0;
    return v >= 0;
}

/* One that is longer than any name of ours is nobody's. */
static void set_origin(leat__kept *k, leat_bytes dead)
{
    if (dead.n > 0 && dead.n < sizeof k->replayed)
        memcpy(k->replayed, dead.p, dead.n);
}

/* {id, fields, n, f, lane, replayed} */
static leat_code take_one(part *p, const leat_reply *r, leat_error *err)
{
    consumer *c = p->c;
    leat__id id;
    uint64_t n, f, lane;
    const leat_reply *fields = leat_reply_at(r, 1);
    if (leat_reply_len(r) < 6 ||
        !leat__id_parse(leat_reply_bytes(leat_reply_at(r, 0)), &id) ||
        !number(leat_reply_at(r, 2), &n) || !number(leat_reply_at(r, 3), &f) ||
        !leat__lane_parse(leat_reply_bytes(leat_reply_at(r, 4)), &lane))
        return leat__fail(err, LEAT_EPROTO,
                          "what is kept of '%s' %u for group '%s' is damaged",
                          c->topic->name, p->index, c->group);
    leat__kept *k = leat__zalloc(sizeof *k, err);
    if (!k)
        return LEAT_ENOMEM;
    *k = (leat__kept){
        .id = id, .n = (uint32_t)n, .f = (uint32_t)f, .lane = lane
    };
    set_origin(k, leat_reply_bytes(leat_reply_at(r, 5)));
    leat_code rc = leat__chunk_one(&c->chunks, c->topic->opts.codec, id, fields,
                                   &k->held, err);
    if (rc != LEAT_OK) {
        leat__free(k);
        return rc;
    }
    k->alone = n >= f + 2;
    append(p, k);
    if (!k->alone)
        return LEAT_OK;
    c->careful = true;
    if (leat__settle_deadly(p, k->held, k->n, k->f)) {
        p->kept.waits--;
        leat__settle_died(p, NULL, k);
    }
    return LEAT_OK;
}

static int64_t next_look(const part *p, const leat_reply *wait, int64_t now_ns)
{
    int64_t least = LOOK_NS + (int64_t)p->c->owned_count * SHARE_NS;
    if (leat_reply_bytes(wait).n == 0)
        return now_ns + least;
    int64_t ms = leat_reply_int(wait);
    int64_t ns = ms < least / 1000000 ? ms * 1000000 : least;
    return now_ns + ns;
}

static void count_aside(part *p, int64_t aside)
{
    consumer *c = p->c;
    if (aside <= 0)
        return;
    leat__count_add(&c->counts.dead, (uint64_t)aside);
    leat__counter_add(p->meters->dead[LEAT__DEAD_UNREADABLE], (uint64_t)aside);
    leat__log(&c->log, LEAT_LOG_WARN,
              "'%s' %u, group '%s': %lld messages that were put by are dead "
              "letters now: another program or version wrote what cannot be "
              "read",
              c->topic->name, p->index, c->group, (long long)aside);
}

/* What is damaged does not keep others waiting. */
static void take_all(part *p, const leat_reply *r)
{
    leat_error e = { 0 };
    int64_t now = leat__now_ns();
    leat_reply_iter it = leat_reply_each(r);
    leat__kept_look(p, next_look(p, leat_reply_step(&it), now));
    (void)number(leat_reply_step(&it), &p->kept.total);
    count_aside(p, leat_reply_int(leat_reply_step(&it)));
    while (it.left > 0 && !p->gone)
        if (take_one(p, leat_reply_step(&it), &e) == LEAT_ENOMEM)
            break;
    if (e.code == LEAT_OK)
        return;
    leat__drive_failed(p->c, &e, "fetching what is due again");
    if (e.code == LEAT_ENOMEM)
        p->kept.at_ns = now + RETRY_NS;
}

static void on_due(void *arg, const leat_reply *r, const leat_error *e)
{
    part *p = arg;
    p->kept.asked = false;
    if (leat__part_epoch(p) != p->kept.epoch)
        return;
    leat_error odd;
    e = leat__reply_odd(r, e, "[]|[nii(_)]", "what is due", &odd);
    if (e) {
        leat__drive_failed(p->c, e, "fetching what is due again");
        p->kept.at_ns = leat__now_ns() + RETRY_NS;
    } else if (leat_reply_len(r) == 0) {
        leat__member_lost(p, p->kept.epoch);
    } else {
        take_all(p, r);
    }
}

/* How many more may be in hand. */
static uint32_t room(const part *p)
{
    const consumer *c = p->c;
    uint32_t limit = (uint32_t)c->opts.max_in_flight;
    uint32_t used = c->in_rings + c->asked;
    uint32_t left = used < limit ? limit - used : p->kept.count == 0;
    uint32_t most = LEAT__KEPT_MAX - p->kept.count;
    return left < most ? left : most;
}

static void fetch(part *p, uint32_t most)
{
    consumer *c = p->c;
    leat_error e;
    char epoch[LEAT__NUMBER], count[LEAT__NUMBER], bytes[LEAT__NUMBER];
    char ids[LEAT__KEPT_MAX][LEAT__ID_TEXT];
    const leat_bytes keys[] = {
        leat__key_bytes(&p->lease),   leat__key_bytes(&p->kept_key),
        leat__key_bytes(&p->due_key), leat__key_bytes(&p->lane_key),
        leat__key_bytes(&p->dlq_key), leat__key_bytes(&p->cursor)
    };
    enum { KEYS = sizeof keys / sizeof *keys, FIRST = 5 };
    size_t n = FIRST;
    p->kept.epoch = leat__part_epoch(p);
    leat_bytes args[FIRST + LEAT__KEPT_MAX] = {
        leat_str(c->nonce), leat__arg_int(epoch, (int64_t)p->kept.epoch),
        leat__arg_int(count, most), leat__arg_int(bytes, FETCH_BYTES),
        leat_str(c->group)
    };
    for (const leat__kept *k = p->kept.first; k; k = k->next, n++)
        args[n] = leat__id_format(k->id, ids[n - FIRST]);
    p->kept.at_ns = INT64_MAX;
    p->kept.asked = true; /* before: the answer may be there at once */
    if (leat__script_send(c->cmd, &leat__script_topic_due, keys, KEYS, args, n,
                          &(leat_send_opts){ .fn = on_due, .arg = p },
                          &e) == LEAT_OK)
        return;
    p->kept.asked = false;
    p->kept.at_ns = leat__now_ns() + RETRY_NS;
    leat__drive_failed(c, &e, "fetching what is due again");
}

static int64_t fetch_at(const part *p)
{
    if (p->kept.asked || p->gone || p->draining || room(p) == 0)
        return INT64_MAX;
    return p->kept.at_ns < p->retry_ns ? p->retry_ns : p->kept.at_ns;
}

void leat__kept_step(consumer *c, int64_t now_ns)
{
    uint64_t total = 0;
    for (uint32_t i = 0; c->cmd && i < c->owned_count; i++) {
        part *p = c->owned[i];
        if (p->kept.at_ns <= now_ns && fetch_at(p) <= now_ns)
            fetch(p, room(p));
        total += p->kept.total;
    }
    atomic_store_explicit(&c->counts.waiting, total, memory_order_relaxed);
}

int64_t leat__kept_due(const consumer *c)
{
    int64_t due = INT64_MAX;
    for (uint32_t i = 0; i < c->owned_count; i++) {
        const part *p = c->owned[i];
        int64_t at = p->kept.at_ns < due ? fetch_at(p) : due;
        if (at < due)
            due = at;
    }
    return due;
}
