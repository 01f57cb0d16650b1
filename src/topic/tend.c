/*
 * tend.c: an owner trims the logs of its partitions, by the topic's retention.
 *
 * Every owner of every group does, about once a second while there is something
 * to take away and more seldom otherwise, each a piece at a time: a second
 * owner of the same partition finds less to do.  Nothing is fenced, and nobody
 * has to be elected: what may go is decided inside the script, by the cursors
 * that are there (trimming.lua).  One that dies leaves whole pieces undone, and
 * the next takes them.
 *
 *   names of the groups --SMEMBERS--> then, for each partition that is due,
 *   a trim, and while that says that there is more, another soon after
 *
 * The names are read when they are over a second old and no trim is under way,
 * since their places in the list are what the answers speak of.
 */
#include "topic/tend.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "metrics/metrics.h"
#include "topic/standing.h"

#include <string.h>

#define MS_NS     INT64_C(1000000)
#define OFTEN_NS  (1000 * MS_NS) /* or as often as the member is quick: */
#define OF_A_BEAT 5              /* so many times a beat                */
#define SOON_NS   (50 * MS_NS)   /* after the policy was asked for           */
#define LEAST_NS  (200 * MS_NS)  /* until something will be too old          */
#define PIECE_NS  (5 * MS_NS)    /* between two pieces: others work, too     */
#define ALARM_NS  (3600 * 1000 * MS_NS)

enum {
    OUT_MOST = 64, /* trims under way                                     */
    SELDOM = 4     /* so many times the pause where nothing happens       */
};

/* ---- life ------------------------------------------------------------- */

static leat_code meter(leat__tend *t, const consumer *c, leat_error *err)
{
    const leat_label l[] = {
        { "messaging_system", "leat" },
        { "messaging_destination_name", c->topic->name },
        { "messaging_consumer_group_name", c->group },
        { "reason", "trimmed" },
    };
    const leat_label first[] = { l[0], l[1], l[2], { "reason", "forgotten" } };
    leat_metrics *m = c->opts.metrics;
    if (!m)
        return LEAT_OK;
    t->trimmed = leat_metrics_counter(m, "leat_topic_trimmed_total",
                                      "Entries taken from logs by retention.",
                                      l, 2, err);
    t->lost = leat_metrics_counter(m, "leat_topic_lost_total",
                                   "Messages acknowledged and lost since.", l,
                                   4, err);
    t->forgotten = leat_metrics_counter(m, "leat_topic_lost_total",
                                        "Messages acknowledged and lost since.",
                                        first, 4, err);
    t->abandoned = leat_metrics_gauge(m, "leat_topic_abandoned_groups",
                                      "Groups without a member for too long.",
                                      l, 2, err);
    return t->trimmed && t->lost && t->forgotten && t->abandoned ? LEAT_OK
                                                                 : LEAT_ENOMEM;
}

leat_code leat__tend_open(consumer *c, leat_error *err)
{
    leat__tend *t = leat__zalloc(sizeof *t, err);
    if (!t)
        return LEAT_ENOMEM;
    c->tend = t;
    t->at = (leat__topic_at){ .client = c->client,
                              .prefix = c->topic->prefix,
                              .name = c->topic->name,
                              .meta = c->topic->meta };
    memcpy(t->at.meta.u, c->topic_u, sizeof c->topic_u);
    int64_t beat = c->opts.lease_ms * MS_NS / 3;
    t->often_ns = beat / OF_A_BEAT < OFTEN_NS ? beat / OF_A_BEAT : OFTEN_NS;
    t->policy_ns = beat < LEAT__RETENTION_NS ? beat : LEAT__RETENTION_NS;
    return meter(t, c, err);
}

void leat__tend_close(consumer *c)
{
    if (!c->tend)
        return;
    leat__trim_names_release(&c->tend->names);
    leat__free(c->tend);
    c->tend = NULL;
}

/* Spread, so that many partitions do not come at once. */
static int64_t about(int64_t ns)
{
    uint64_t any = 0;
    (void)leat__random(&any, sizeof any, NULL);
    return ns * 3 / 4 + (int64_t)(any % (uint64_t)(ns / 2));
}

void leat__tend_begin(part *p)
{
    leat__tend *t = p->c->tend;
    p->tending = false;
    p->tend_pause_ns = t->often_ns;
    p->tend_ns = leat__now_ns() + about(t->often_ns);
    if (p->tend_ns < t->next_ns)
        t->next_ns = p->tend_ns;
}

/* ---- groups that nobody is in ----------------------------------------- */

static void say_abandoned(consumer *c, const part *p, leat__trim_name *g)
{
    int64_t now = leat__now_ns();
    if (g->state == '2') {
        leat__log(&c->log, LEAT_LOG_WARN,
                  "'%s' %u: group '%s' had no member for too long: it is "
                  "detached, and what it has not settled is not kept for it",
                  c->topic->name, p->index, g->text);
        return;
    }
    if (g->state != '1' ||
        (g->alarmed_ns != 0 && now - g->alarmed_ns < ALARM_NS))
        return;
    g->alarmed_ns = now;
    leat__log(&c->log, LEAT_LOG_WARN,
              "'%s': group '%s' has had no member for too long, and its "
              "messages are kept: bring it back, or remove it",
              c->topic->name, g->text);
}

static void look_at_groups(consumer *c, const part *p)
{
    leat__trim_names *n = &c->tend->names;
    int64_t count = 0;
    for (size_t i = 0; i < n->groups; i++) {
        leat__trim_name *g = &n->list[i];
        count += g->state != '0';
        say_abandoned(c, p, g);
        if (g->state == '0')
            g->alarmed_ns = 0;
    }
    leat__gauge_set(c->tend->abandoned, count);
}

/* ---- trims ------------------------------------------------------------ */

/* Seldom where nothing happens. */
static int64_t pause_after(part *p, const leat__trim_result *r)
{
    leat__id cursor = leat__window_cursor(p->window);
    int64_t often = p->c->tend->often_ns;
    bool moved = leat__id_cmp(cursor, p->tended) != 0;
    p->tended = cursor;
    if (r->again)
        return PIECE_NS;
    if (r->asks)
        return 0;
    if (moved || r->taken > 0)
        p->tend_pause_ns = often;
    else if (p->tend_pause_ns < SELDOM * often)
        p->tend_pause_ns *= 2;
    int64_t pause = about(p->tend_pause_ns), wait = r->wait_ms * MS_NS;
    if (r->wait_ms >= 0 && wait < pause)
        pause = wait < LEAST_NS ? LEAST_NS : wait;
    return pause;
}

static void on_trimmed(void *arg, const leat_reply *r, const leat_error *e)
{
    part *p = arg;
    consumer *c = p->c;
    leat__tend *t = c->tend;
    leat__trim_result got;
    leat_error why;
    t->out--;
    t->next_ns = 0;
    p->tending = false;
    p->tend_ns = leat__now_ns() + SELDOM * t->often_ns;
    if (!e && leat__trim_read(r, &t->names, &got, &why) != LEAT_OK)
        e = &why;
    if (e && e->code == LEAT_ESTALE) {
        leat__tend_hurry(c);
        return;
    }
    if (e) {
        leat__drive_failed(c, e, "trimming");
        return;
    }
    if (got.asks)
        t->names_ns = 0;
    else
        look_at_groups(c, p);
    leat__counter_add(t->trimmed, (uint64_t)got.taken);
    if (p->window)
        p->tend_ns = leat__now_ns() + pause_after(p, &got);
}

static bool ready(const part *p, int64_t now_ns)
{
    return !p->tending && !p->gone && !p->draining && p->tend_ns <= now_ns;
}

static bool send_trim(part *p, const leat__trim_how *how)
{
    consumer *c = p->c;
    leat__tend *t = c->tend;
    leat_error e;
    p->tending = true; /* before: the answer may be there at once */
    t->out++;
    if (leat__trim_send(c->cmd, &t->at, p->index, &t->names, how,
                        &(leat_send_opts){ .fn = on_trimmed, .arg = p },
                        &e) == LEAT_OK)
        return true;
    t->out--;
    p->tending = false;
    p->tend_ns = leat__now_ns() + SELDOM * t->often_ns;
    leat__drive_failed(c, &e, "trimming");
    return false;
}

/* ---- names ------------------------------------------------------------ */

static void on_names(void *arg, const leat_reply *r, const leat_error *e)
{
    consumer *c = arg;
    leat__tend *t = c->tend;
    leat_error why;
    t->asking = false;
    t->next_ns = 0;
    if (!e && leat__trim_names_read(&t->names, r, &why) != LEAT_OK)
        e = &why;
    if (!e) {
        t->names_ns = leat__now_ns();
        return;
    }
    leat__drive_failed(c, e, "reading the names of groups");
    t->next_ns = leat__now_ns() + SELDOM * t->often_ns;
}

static void ask_names(consumer *c)
{
    leat__tend *t = c->tend;
    leat_server server;
    leat__key key;
    leat__key_groups(&key, t->at.prefix, t->at.name);
    t->bulk = leat_client_server(c->client, &server, NULL) == LEAT_OK &&
              server.has_xautoclaim; /* of the same version */
    t->asking = true;
    if (leat_conn_send(
            c->cmd, LEAT_ARGS(leat_str("SMEMBERS"), leat__key_bytes(&key)),
            &(leat_send_opts){ .fn = on_names, .arg = c }, NULL) == LEAT_OK)
        return;
    t->asking = false;
    t->next_ns = leat__now_ns() + SELDOM * t->often_ns;
}

/* ---- the step --------------------------------------------------------- */

static bool any_ready(const consumer *c, int64_t now_ns)
{
    for (uint32_t i = 0; i < c->owned_count; i++)
        if (ready(c->owned[i], now_ns))
            return true;
    return false;
}

/* Answers that are awaited say themselves that there is something to do. */
static int64_t next(const consumer *c, int64_t now_ns)
{
    const leat__tend *t = c->tend;
    int64_t at = leat__retention_at(c->topic, t->policy_ns);
    bool full = t->asking || t->out >= OUT_MOST;
    for (uint32_t i = 0; i < c->owned_count && !full; i++) {
        const part *p = c->owned[i];
        if (p->tending || p->gone || p->draining)
            continue;
        if (p->tend_ns <= now_ns && t->out > 0)
            continue; /* it waits for names */
        if (p->tend_ns < at)
            at = p->tend_ns;
    }
    return at;
}

static void trim_some(consumer *c, const leat__trim_how *how, int64_t now_ns)
{
    leat__tend *t = c->tend;
    bool fresh = t->names_ns != 0 && now_ns - t->names_ns < t->often_ns;
    if (t->asking || !any_ready(c, now_ns))
        return;
    if (!fresh) {
        if (t->out == 0)
            ask_names(c);
        return;
    }
    for (uint32_t i = 0; i < c->owned_count && t->out < OUT_MOST; i++)
        if (ready(c->owned[i], now_ns) && !send_trim(c->owned[i], how) &&
            !c->clustered)
            return;
}

void leat__tend_anew(consumer *c)
{
    memcpy(c->tend->at.meta.u, c->topic_u, sizeof c->topic_u);
    c->tend->names_ns = 0;
}

void leat__tend_hurry(consumer *c)
{
    leat__standing_hurry(c->topic);
    c->tend->next_ns = 0;
}

void leat__tend_step(consumer *c, int64_t now_ns)
{
    leat__tend *t = c->tend;
    leat_retention r;
    leat__trim_how how;
    if (now_ns < t->next_ns || !c->cmd || c->topic->meta.legacy)
        return;
    t->next_ns = INT64_MAX; /* what fails sets it */
    bool asked = leat__retention_due(c->topic, now_ns, t->policy_ns);
    if (asked)
        leat__retention_ask(c->topic, c->cmd);
    leat__topic_retention(c->topic, &r);
    bool wanted = leat__trim_by(&r, t->bulk, &how);
    if (wanted)
        trim_some(c, &how, now_ns);
    int64_t at = wanted ? next(c, now_ns)
                        : leat__retention_at(c->topic, t->policy_ns);
    if (asked && at > now_ns + SOON_NS)
        at = now_ns + SOON_NS;
    if (at < t->next_ns)
        t->next_ns = at;
}

int64_t leat__tend_due(const consumer *c)
{
    return c->topic->meta.legacy ? INT64_MAX : c->tend->next_ns;
}
