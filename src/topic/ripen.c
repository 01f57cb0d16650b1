/*
 * ripen.c: delayed messages go to the log when their time has come.
 */
#include "topic/ripen.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "redis/client.h"
#include "redis/script.h"
#include "topic/consumer.h"

#include <string.h>

#define LOOK_NS INT64_C(1000000000)

/* Messages moved by one call, and their bytes, about. */
#define RIPE_MOST  "200"
#define RIPE_BYTES "1048576"

enum {
    AT_ONCE = 64,            /* partitions a second   */
    UNSENT_MOST = 16 * 1024, /* bytes before a call   */
    LARGE = 64 * 1024
};

int64_t leat__ripe_calm(uint32_t partitions)
{
    return LOOK_NS * (1 + partitions / AT_ONCE);
}

/* ---- one partition ---------------------------------------------------- */

/* Milliseconds until the next; -1: none waits. */
static int64_t wait_of(const leat_reply *r)
{
    const leat_reply *wait = leat_reply_at(r, 1);
    return wait && leat_reply_bytes(wait).n > 0 ? leat_reply_int(wait) : -1;
}

static void tell_aside(const leat__ripe *one, int64_t aside)
{
    const leat_topic *t = one->topic;
    if (aside > 0)
        leat__log(&t->client->opts.log, LEAT_LOG_WARN,
                  "'%s': %lld delayed messages of partition %u are dead "
                  "letters now: a log cannot take them, they have too many "
                  "fields or none",
                  t->name, (long long)aside, one->partition);
}

/* After a connection that is lost the next one is used at once, what a server
 * refuses is not asked again at once. */
static void on_ripe(void *arg, const leat_reply *r, const leat_error *e)
{
    leat__ripe *one = arg;
    leat_error odd;
    e = leat__reply_odd(r, e, "[ini]", "what is ripe", &odd);
    int64_t now = leat__now_ns(), ms = !e ? wait_of(r) : r ? -1 : 0;
    one->out = false;
    if (!e)
        tell_aside(one, leat_reply_int(leat_reply_at(r, 2)));
    one->due_ns = now + one->calm_ns;
    if (ms >= 0 && ms < one->calm_ns / 1000000)
        one->due_ns = now + ms * 1000000;
    else if (ms < 0 && !e && one->enough)
        one->due_ns = INT64_MAX;
    if (one->soon_ns < one->due_ns)
        one->due_ns = one->soon_ns;
}

static leat_bytes limit(const leat_topic *t, const leat_retention *r,
                        char *text)
{
    if (t->meta.legacy || r->large_body < 0)
        return leat_str("0");
    return leat__arg_int(text, r->large_body ? r->large_body : LARGE);
}

leat_code leat__ripe_send(leat__ripe *r, leat_conn *c, leat_error *err)
{
    static const char *const words[] = { "bodies", "large", "later",
                                         "laters", "since", "dlq" };
    enum { KEYS = 7 };
    leat_topic *t = r->topic;
    leat_retention kept;
    leat__key keys[KEYS];
    leat_bytes views[KEYS];
    char large[LEAT__NUMBER], maxlen[LEAT__NUMBER];

    leat__topic_retention(t, &kept);
    leat__key_log(&keys[0], t->prefix, t->name, t->meta.legacy, r->partition);
    for (int i = 1; i < KEYS; i++)
        leat__key_part(&keys[i], t->prefix, t->name, t->meta.legacy,
                       r->partition, words[i - 1], NULL);
    for (int i = 0; i < KEYS; i++)
        views[i] = leat__key_bytes(&keys[i]);
    const leat_bytes args[] = { leat_str(RIPE_MOST), leat_str(RIPE_BYTES),
                                limit(t, &kept, large),
                                leat__arg_int(maxlen, kept.lossy_maxlen) };
    r->soon_ns = INT64_MAX;
    r->out = true; /* before: a failure may be told at once */
    leat_code rc = leat__script_send(
        c, &leat__script_topic_ripe, views, KEYS, args, 4,
        &(leat_send_opts){ .fn = on_ripe, .arg = r }, err);
    if (rc != LEAT_OK) {
        r->out = false;
        r->due_ns = leat__now_ns() + r->calm_ns;
    }
    return rc;
}

void leat__ripe_soon(leat__ripe *r, int64_t ms)
{
    int64_t most = LOOK_NS / 1000000; /* the server's clock may jump */
    int64_t due = leat__now_ns() + (ms < most ? ms : most) * 1000000;
    if (due < r->soon_ns)
        r->soon_ns = due;
    if (due < r->due_ns)
        r->due_ns = due;
}

/* ---- those of a producer ---------------------------------------------- */

void leat__ripening_init(leat__ripening *r, leat_topic *t, uint32_t most)
{
    *r = (leat__ripening){ .topic = t, .most = most };
}

void leat__ripening_release(leat__ripening *r)
{
    for (uint32_t i = 0; i < r->count; i++)
        leat__free(r->of[i]);
    leat__free(r->of);
}

static bool grow(leat__ripening *r)
{
    uint32_t cap = r->cap ? 2 * r->cap : 4;
    if (r->count < r->cap)
        return true;
    leat__ripe **of = leat__realloc(r->of, cap * sizeof *of, NULL);
    if (!of)
        return false;
    r->of = of;
    r->cap = cap;
    return true;
}

/* By partition, so that one is found by halving. */
static uint32_t place_of(const leat__ripening *r, uint32_t partition)
{
    uint32_t lo = 0, hi = r->count;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (r->of[mid]->partition < partition)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static leat__ripe *insert(leat__ripening *r, uint32_t at, uint32_t partition)
{
    leat__ripe *one = grow(r) ? leat__zalloc(sizeof *one, NULL) : NULL;
    if (!one)
        return NULL;
    *one = (leat__ripe){ .topic = r->topic,
                         .partition = partition,
                         .enough = true,
                         .due_ns = INT64_MAX,
                         .soon_ns = INT64_MAX };
    memmove(r->of + at + 1, r->of + at, (r->count - at) * sizeof *r->of);
    r->of[at] = one;
    r->count++;
    return one;
}

void leat__ripening_add(leat__ripening *r, uint32_t partition, int64_t ms)
{
    uint32_t at = place_of(r, partition);
    leat__ripe *one = at < r->count && r->of[at]->partition == partition
                          ? r->of[at]
                          : insert(r, at, partition);
    if (one)
        leat__ripe_soon(one, ms);
}

static bool roomy(const leat_conn *c)
{
    return c->t && leat__conn_waiting(c) + 1 < c->window &&
           leat__outq_left(&c->out) < UNSENT_MOST;
}

void leat__ripening_step(leat__ripening *r, leat_conn *c, int64_t now_ns)
{
    if (c->asking || c->stale)
        return;
    for (uint32_t i = 0; i < r->count && roomy(c); i++) {
        leat__ripe *one = r->of[r->turn++ % r->count];
        one->calm_ns = leat__ripe_calm(r->count);
        if (!one->out && one->due_ns <= now_ns)
            (void)leat__ripe_send(one, c, NULL);
    }
}

int64_t leat__ripening_due(const leat__ripening *r)
{
    int64_t due = INT64_MAX;
    for (uint32_t i = 0; i < r->count; i++)
        if (!r->of[i]->out && r->of[i]->due_ns < due)
            due = r->of[i]->due_ns;
    return due;
}

/* ---- those of an owner ------------------------------------------------ */

void leat__ripen_step(consumer *c, int64_t now_ns)
{
    for (uint32_t i = 0; c->cmd && i < c->owned_count; i++) {
        part *p = c->owned[i];
        leat__ripe *r = &p->ripe;
        if (p->gone || r->out || r->due_ns > now_ns)
            continue;
        r->topic = c->topic;
        r->partition = p->index;
        r->calm_ns = leat__ripe_calm(c->owned_count);
        if (leat__ripe_send(r, c->cmd, NULL) != LEAT_OK && !c->clustered)
            return; /* it is the same for all */
    }
}

int64_t leat__ripen_due(const consumer *c)
{
    int64_t due = INT64_MAX;
    for (uint32_t i = 0; i < c->owned_count; i++) {
        const leat__ripe *r = &c->owned[i]->ripe;
        if (!r->out && r->due_ns < due)
            due = r->due_ns;
    }
    return due;
}
