/*
 * topic_retention_help.h: a topic "orders" of one partition, its groups, and
 * what its owners take away.
 */
#ifndef TOPIC_RETENTION_HELP_H
#define TOPIC_RETENTION_HELP_H

#include "topic/topic.h"
#include "topic_help.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { MANY = 300, SOON_MS = 60000 };

#define LOG "leat:{orders/0}:log"

/* ---- words ------------------------------------------------------------ */

struct heard {
    atomic_int losses;
    leat_loss last;
    _Atomic uint64_t lost;
    atomic_int alarms, detached;
};

static inline void on_loss(void *arg, const leat_loss *loss)
{
    struct heard *h = arg;
    h->last = *loss;
    atomic_fetch_add(&h->lost, loss->count);
    atomic_fetch_add(&h->losses, 1);
}

static inline void on_log(void *arg, leat_level level, const char *text)
{
    struct heard *h = arg;
    (void)level;
    if (strstr(text, "its messages are kept"))
        atomic_fetch_add(&h->alarms, 1);
    if (strstr(text, "detached"))
        atomic_fetch_add(&h->detached, 1);
}

static inline leat_topic *orders(const leat_retention *r)
{
    leat_error e = { 0 };
    leat_topic *t = leat_topic_open(
        client, "orders",
        &(leat_topic_opts){ .auto_create = true, .retention = *r }, &e);
    if (!t)
        fail_msg("cannot open: %s", e.msg);
    return t;
}

static inline leat_topic_source_opts quick(struct heard *h)
{
    return (
        leat_topic_source_opts){ .lease_ms = 1500,
                                 .block_ms = 100,
                                 .on_loss = h ? on_loss : NULL,
                                 .loss_arg = h,
                                 .log = { .fn = h ? on_log : NULL, .arg = h } };
}

static inline leat_source *join(leat_topic *t, const char *group,
                                struct heard *h)
{
    leat_topic_source_opts o = quick(h);
    return source_of(t, group, &o);
}

/* Messages from, from + 1, ... come in this order, and are acknowledged. */
static inline void read_on(leat_source *s, int from, int n)
{
    for (int i = from; i < from + n; i++) {
        leat_delivery *d = next_of(s);
        assert_int_equal(body_number(d), i);
        ack(d);
    }
    must(leat_source_flush(s, LONG_MS, err));
}

static inline void read_and_leave(leat_topic *t, const char *group, int from,
                                  int n)
{
    leat_source *s = join(t, group, NULL);
    read_on(s, from, n);
    leat_source_close(s);
}

static inline int64_t length(void)
{
    int64_t n = redis_int(server, "XLEN " LOG);
    return n < 0 ? 0 : n;
}

/* The number in the body of the oldest entry; -1: there is none. */
static inline int oldest(void)
{
    leat_seen seen;
    leat_error e = { 0 };
    char text[16] = "-1";
    leat_browse *b = leat_browse_open(client, "orders", NULL, &e);
    assert_non_null(b);
    if (leat_browse_next(b, &seen, 0, &e) == 1)
        snprintf(text, sizeof text, "%.*s", (int)seen.msg->body.n,
                 (const char *)seen.msg->body.p);
    leat_browse_close(b);
    return (int)strtol(text, NULL, 10);
}

/* How often the server was given a command since it started. */
static inline int64_t calls(const char *command)
{
    char info[16384], name[64];
    snprintf(name, sizeof name, "cmdstat_%s:calls=", command);
    redis_text(server, info, sizeof info, "INFO commandstats");
    const char *found = strstr(info, name);
    return found ? strtoll(found + strlen(name), NULL, 10) : 0;
}

/* The timer of an owner has gone round since: a trim of its own is seen by the
 * names of groups that it reads before. */
static inline int64_t rounds(void)
{
    return calls("smembers");
}

static inline void let_owners_trim(void)
{
    int64_t before = rounds();
    wait_until(rounds() >= before + 3, SOON_MS);
}

/* The owner has beaten some times since, and looked whether something is
 * missing. */
static inline int64_t beats(const char *group)
{
    long long n = 0;
    redisReply *r = redis_raw(server, "HVALS leat:{orders}:members:%s", group);
    if (r && r->type == REDIS_REPLY_ARRAY && r->elements == 1)
        (void)sscanf(r->element[0]->str, "1 %lld", &n);
    freeReplyObject(r);
    return n;
}

static inline void let_beat(const char *group)
{
    int64_t before = beats(group);
    wait_until(beats(group) >= before + 3, SOON_MS);
}

#endif
