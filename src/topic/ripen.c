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
    IDLE = 5,                /* times as far apart    */
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

static void set_due(leat__ripe *one, int64_t due_ns)
{
    one->due_ns = due_ns;
    if (one->first_ns && due_ns < *one->first_ns)
        *one->first_ns = due_ns;
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
    int64_t due = now + (ms < 0 ? one->idle_ns : one->calm_ns);
    if (ms >= 0 && ms < one->calm_ns / 1000000)
        due = now + ms * 1000000;
    set_due(one, one->soon_ns < due ? one->soon_ns : due);
}

static leat_bytes limit(bool legacy, const leat_retention *r, char *text)
{
    if (legacy || r->large_body < 0)
        return leat_str("0");
    return leat__arg_int(text, r->large_body ? r->large_body : LARGE);
}

static leat_code send_script(const leat__topic_at *t, uint32_t partition,
                             leat_conn *c, const leat_send_opts *o,
                             leat_error *err)
{
    static const char *const words[] = { "bodies", "large", "later",
                                         "laters", "since", "dlq" };
    enum { KEYS = 7 };
    const leat_retention *kept = &t->meta.retention;
    bool legacy = t->meta.legacy;
    leat__key keys[KEYS];
    leat_bytes views[KEYS];
    char large[LEAT__NUMBER], maxlen[LEAT__NUMBER];

    leat__key_log(&keys[0], t->prefix, t->name, legacy, partition);
    for (int i = 1; i < KEYS; i++)
        leat__key_part(&keys[i], t->prefix, t->name, legacy, partition,
                       words[i - 1], NULL);
    for (int i = 0; i < KEYS; i++)
        views[i] = leat__key_bytes(&keys[i]);
    const leat_bytes args[] = { leat_str(RIPE_MOST), leat_str(RIPE_BYTES),
                                limit(legacy, kept, large),
                                leat__arg_int(maxlen, kept->lossy_maxlen) };
    return leat__script_send(c, &leat__script_topic_ripe, views, KEYS, args, 4,
                             o, err);
}

leat_code leat__ripe_send(leat__ripe *r, leat_conn *c, leat_error *err)
{
    leat_topic *t = r->topic;
    leat__topic_at at = { .client = t->client,
                          .prefix = t->prefix,
                          .name = t->name,
                          .meta.legacy = t->meta.legacy };
    leat__topic_retention(t, &at.meta.retention);
    r->soon_ns = INT64_MAX;
    r->out = true; /* before: a failure may be told at once */
    leat_code rc = send_script(&at, r->partition, c,
                               &(leat_send_opts){ .fn = on_ripe, .arg = r },
                               err);
    if (rc != LEAT_OK) {
        r->out = false;
        set_due(r, leat__now_ns() + r->calm_ns);
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
        set_due(r, due);
}

/* ---- for one who looks ------------------------------------------------ */

static void on_looked(void *arg, const leat_reply *r, const leat_error *e)
{
    (void)arg, (void)r, (void)e; /* whatever it was, the look goes on */
}

/* A server that is only to be read from is no reason to leave it. */
void leat__ripe_look(const leat__topic_at *t, leat_conn *c, uint32_t first,
                     uint32_t count)
{
    bool stale = c->stale;
    leat_code rc = LEAT_OK;
    for (uint32_t i = 0; i < count && rc == LEAT_OK; i++) {
        rc = send_script(t, first + i, c, &(leat_send_opts){ .fn = on_looked },
                         NULL);
        if (i % AT_ONCE == AT_ONCE - 1 && rc == LEAT_OK)
            rc = leat_conn_drain(c, 0, NULL);
    }
    (void)!leat_conn_drain(c, 0, NULL);
    c->stale = stale;
}

/* ---- those of a producer ---------------------------------------------- */

leat_code leat__ripening_init(leat__ripening *r, leat_topic *t, uint32_t first,
                              uint32_t count, leat_error *err)
{
    int64_t calm = leat__ripe_calm(count), due = leat__now_ns() + LOOK_NS;
    *r = (leat__ripening){ .first = first, .first_ns = due };
    r->of = leat__calloc(count, sizeof *r->of, err);
    if (!r->of)
        return LEAT_ENOMEM;
    r->count = count;
    for (uint32_t i = 0; i < count; i++)
        r->of[i] = (leat__ripe){ .topic = t,
                                 .partition = first + i,
                                 .due_ns = due,
                                 .soon_ns = INT64_MAX,
                                 .calm_ns = calm,
                                 .idle_ns = IDLE * calm,
                                 .first_ns = &r->first_ns };
    return LEAT_OK;
}

void leat__ripening_release(leat__ripening *r)
{
    leat__free(r->of);
}

void leat__ripening_add(leat__ripening *r, uint32_t partition, int64_t ms)
{
    leat__ripe_soon(&r->of[partition - r->first], ms);
}

static bool roomy(const leat_conn *c)
{
    return c->t && leat__conn_waiting(c) + 1 < c->window &&
           leat__outq_left(&c->out) < UNSENT_MOST;
}

/* Only where one is due: there may be thousands. */
void leat__ripening_step(leat__ripening *r, leat_conn *c, int64_t now_ns)
{
    if (c->asking || c->stale || now_ns < r->first_ns)
        return;
    for (uint32_t i = 0; i < r->count && roomy(c); i++) {
        leat__ripe *one = &r->of[r->turn++ % r->count];
        if (!one->out && one->due_ns <= now_ns)
            (void)leat__ripe_send(one, c, NULL);
    }
    r->first_ns = INT64_MAX;
    for (uint32_t i = 0; i < r->count; i++)
        if (!r->of[i].out && r->of[i].due_ns < r->first_ns)
            r->first_ns = r->of[i].due_ns;
}

int64_t leat__ripening_due(const leat__ripening *r)
{
    return r->first_ns;
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
        r->calm_ns = r->idle_ns = leat__ripe_calm(c->owned_count);
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
