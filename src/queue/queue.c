/*
 * queue.c: opening queues, and their settings.
 *
 * The settings are a hash that one script makes; whoever opens the queue after
 * that compares.  A handle knows them as it last saw them; the scripts look for
 * themselves.
 */
#include "queue/queue.h"
#include "base/backoff.h"
#include "base/fork.h"
#include "base/mem.h"
#include "message/codec.h"
#include "redis/client.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    HIDE_MS = 30 * 1000,
    MAX_RECEIVES = 10,
    MAX_MESSAGE = 1 << 20, /* see the profiles, too */
    DEDUP_MS = 5 * 60 * 1000,
    MAX_DAYS = 3650, /* of any time: the scripts add it to their clock */
    RECEIVES = 1,    /* of settings */
    SIZE = 4,
    DEDUP = 5,
    RETRY = 9, /* and what is behind it is of the policy */
    RETRY_MAX = 10,
    NUMBERS = 13,
    ARGS = 3 + 2 * (NUMBERS + 1)
};

/* ---- settings --------------------------------------------------------- */

static const struct {
    const char *field, *name;
    int64_t usual;
} settings[NUMBERS] = {
    { "hide", "visibility_ms", HIDE_MS },
    { "receives", "max_receives", MAX_RECEIVES },
    { "delay", "delay_ms", 0 },
    { "ttl", "ttl_ms", 0 },
    { "max", "max_message", MAX_MESSAGE },
    { "dedup", "dedup_ms", DEDUP_MS },
    { "fifo", "fifo", 0 },
    { "content", "content_dedup", 0 },
    { "events", "durable_events", 0 },
    { "retry", "retry_delay_ms", 0 },
    { "retrymax", "retry_max_delay_ms", 0 },
    { "backoff", "backoff", LEAT_BACKOFF_EXPONENTIAL },
    { "jitter", "jitter", LEAT_YES },
};

static int64_t get(const leat_queue_opts *o, size_t i)
{
    const int64_t all[NUMBERS] = {
        o->visibility_ms,  o->max_receives,         o->delay_ms,
        o->ttl_ms,         (int64_t)o->max_message, o->dedup_ms,
        o->fifo,           o->content_dedup,        o->durable_events,
        o->retry_delay_ms, o->retry_max_delay_ms,   o->backoff,
        o->jitter,
    };
    return all[i];
}

static void set(leat_queue_opts *o, size_t i, int64_t v)
{
    switch (i) {
    case 0:
        o->visibility_ms = v;
        break;
    case 1:
        o->max_receives = (int)v;
        break;
    case 2:
        o->delay_ms = v;
        break;
    case 3:
        o->ttl_ms = v;
        break;
    case 4:
        o->max_message = (size_t)v;
        break;
    case 5:
        o->dedup_ms = v;
        break;
    case 6:
        o->fifo = v != 0;
        break;
    case 7:
        o->content_dedup = v != 0;
        break;
    case 8:
        o->durable_events = v != 0;
        break;
    case RETRY:
        o->retry_delay_ms = v;
        break;
    case RETRY_MAX:
        o->retry_max_delay_ms = v;
        break;
    case 11:
        o->backoff = (leat_backoff_kind)v;
        break;
    default:
        o->jitter = (leat_choice)v;
    }
}

/* What -1 makes of it. */
static int64_t unbounded(size_t i)
{
    return i == SIZE ? LEAT__FIELD_MAX : 0;
}

/* And a kept value as options say it, where 0 is the default. */
static int64_t as_given(size_t i, int64_t v)
{
    return (i == RECEIVES || i == RETRY) && v == 0 ? -1 : v;
}

/* least: 0, or -1 where that takes a bound away. */
static leat_code check_numbers(const leat_queue_opts *o, int64_t least,
                               const queue_profile *p, leat_error *err)
{
    const int64_t most = MAX_DAYS * INT64_C(24 * 3600 * 1000);
    for (size_t i = 0; i < NUMBERS; i++) {
        int64_t v = get(o, i), low = i == 0 || i == DEDUP ? 0 : least;
        low = i == RECEIVES || i == RETRY ? -1 : i > RETRY ? 0 : low;
        if (v < low)
            return leat__fail(err, LEAT_EINVAL, "%s %" PRId64 " is negative",
                              settings[i].name, v);
        if (v > most && i != SIZE)
            return leat__fail(err, LEAT_EINVAL,
                              "%s %" PRId64 " is over the %d days that can be",
                              settings[i].name, v, MAX_DAYS);
    }
    if (o->visibility_ms > p->hide_max_ms)
        return leat__fail(
            err, LEAT_EINVAL,
            "visibility_ms %" PRId64 " is over the %" PRId64 " of %d hours",
            o->visibility_ms, p->hide_max_ms, (int)(p->hide_max_ms / 3600000));
    if ((int64_t)o->max_message > LEAT__FIELD_MAX)
        return leat__fail(err, LEAT_EINVAL,
                          "max_message %zu is over the %d that can be read",
                          o->max_message, LEAT__FIELD_MAX);
    return LEAT_OK;
}

static leat_code check_retry(const leat_queue_opts *o, leat_error *err)
{
    int64_t first = o->retry_delay_ms, most = o->retry_max_delay_ms;
    if (first > LEAT_VISIBILITY_MAX_MS || most > LEAT_VISIBILITY_MAX_MS)
        return leat__fail(err, LEAT_EINVAL,
                          "retry_delay_ms %" PRId64 " to %" PRId64
                          ": up to the %d of 12 hours",
                          first, most, LEAT_VISIBILITY_MAX_MS);
    if (most > 0 && most < first)
        return leat__fail(err, LEAT_EINVAL,
                          "retry_max_delay_ms %" PRId64 " is below the %" PRId64
                          " of the first",
                          most, first);
    if ((unsigned)o->backoff > LEAT_BACKOFF_FIXED ||
        (unsigned)o->jitter > LEAT_NO)
        return leat__fail(err, LEAT_EINVAL,
                          "there is no backoff %d with jitter %d",
                          (int)o->backoff, (int)o->jitter);
    bool any = first != 0 || most != 0 || o->backoff != LEAT_BACKOFF_UNSET ||
               o->jitter != LEAT_UNSET;
    if (any && !leat__queue_profile(o->profile)->kept)
        return leat__fail(err, LEAT_ENOTSUP,
                          "a queue of this profile keeps no retry policy");
    return LEAT_OK;
}

/* A new queue's delays, where the options leave them open. */
static void fill_retry(leat_queue_opts *o)
{
    int64_t first = o->retry_delay_ms < 0 ? 0 : o->retry_delay_ms;
    leat__backoff_fill(&first, &o->retry_max_delay_ms);
    if (o->retry_delay_ms >= 0)
        o->retry_delay_ms = first;
}

static leat_code check_dead_queue(const char *name, const char *dead,
                                  leat_error *err)
{
    if (!dead || !*dead)
        return LEAT_OK;
    if (strcmp(name, dead) == 0)
        return leat__fail(err, LEAT_EINVAL,
                          "queue '%s' cannot be its own dead-letter queue",
                          name);
    return leat__name_check("dead-letter queue", dead, err);
}

leat_code leat__queue_check(const char *name, const leat_queue_opts *o,
                            leat_error *err)
{
    const queue_profile *p = leat__queue_profile(o->profile);
    if (!p)
        return leat__fail(err, LEAT_EINVAL, "there is no queue profile %d",
                          (int)o->profile);
    if (!name)
        return leat__fail(err, LEAT_EINVAL, "no queue name was given");
    return p->check(name, o, err);
}

leat_code leat__queue_check_on(const leat_client *c, const char *name,
                               const leat_queue_opts *o, leat_error *err)
{
    leat__key home;
    leat_code rc = leat__queue_check(name, o, err);
    const queue_profile *p = leat__queue_profile(o->profile);
    if (rc != LEAT_OK || !p->shard || !leat__client_clustered(c))
        return rc;
    p->home(&home, o->prefix, name);
    return leat__queue_one_slot(&home, name, err);
}

static void read_field(queue_conf *c, leat_bytes field, const leat_reply *value)
{
    leat_bytes text = leat_reply_bytes(value);
    for (size_t i = 0; i < NUMBERS; i++)
        if (leat_bytes_eq(field, leat_str(settings[i].field)))
            set(&c->kept, i, as_given(i, leat_reply_int(value)));
    if (leat_bytes_eq(field, leat_str("created")))
        c->created_ms = leat_reply_int(value);
    if (leat_bytes_eq(field, leat_str("paused")))
        c->paused_ms = leat_reply_int(value);
    if (leat_bytes_eq(field, leat_str("u")) && text.n < sizeof c->who)
        snprintf(c->who, sizeof c->who, "%.*s", (int)text.n,
                 (const char *)text.p);
    if (leat_bytes_eq(field, leat_str("gone")))
        c->gone = true;
    if (leat_bytes_eq(field, leat_str("deadq")) && text.n <= LEAT_NAME_MAX)
        snprintf(c->dead_queue, sizeof c->dead_queue, "%.*s", (int)text.n,
                 (const char *)text.p);
}

leat_code leat__conf_read(const leat_reply *fields, queue_conf *out,
                          leat_error *err)
{
    leat_reply_iter it = leat_reply_each(fields);
    *out = (queue_conf){ 0 };
    leat_code rc = leat__queue_expect(fields, "[(tt)]", err);
    if (rc != LEAT_OK)
        return rc;
    for (const leat_reply *at; (at = leat_reply_step(&it));)
        read_field(out, leat_reply_bytes(at), leat_reply_step(&it));
    out->there = out->created_ms > 0;
    fill_retry(&out->kept); /* an earlier version's, too */
    if (out->kept.backoff == LEAT_BACKOFF_UNSET)
        out->kept.backoff = LEAT_BACKOFF_EXPONENTIAL;
    if (out->kept.jitter == LEAT_UNSET)
        out->kept.jitter = LEAT_YES;
    if (!out->who[0]) /* an earlier version's */
        snprintf(out->who, sizeof out->who, "%" PRId64, out->created_ms);
    return LEAT_OK;
}

/* Without memory the old name stays: the next look learns it. */
void leat__queue_learn(leat_queue *q, const queue_conf *conf)
{
    char *dead = conf->dead_queue[0] ? leat__strdup(conf->dead_queue, NULL)
                                     : NULL;
    pthread_mutex_lock(&q->lock);
    q->kept = conf->kept;
    q->created_ms = conf->created_ms;
    if (dead || !conf->dead_queue[0]) {
        char *old = q->dead_queue;
        q->dead_queue = dead;
        dead = old;
    }
    q->kept.dead_queue = q->dead_queue;
    pthread_mutex_unlock(&q->lock);
    leat__free(dead);
}

/* ---- the script ------------------------------------------------------- */

static leat_code read_conf(void *arg, const leat_reply *r, leat_error *err)
{
    return leat__conf_read(r, arg, err);
}

/* how: as in make.lua.  What is -1 becomes what is no bound. */
static leat_code make(leat_queue *q, const char *how, const leat_queue_opts *o,
                      queue_conf *conf, leat_error *err)
{
    char text[NUMBERS][LEAT__NUMBER], fresh[LEAT__QUEUE_NONCE];
    size_t n = 3;
    bool all = how[0] == 'o';
    leat_code rc = all ? leat__queue_nonce(fresh, err) : LEAT_OK;
    leat_queue_opts whole = *o;
    if (rc != LEAT_OK)
        return rc;
    if (all)
        fill_retry(&whole);
    leat_bytes args[ARGS] = { leat_str(q->name), leat_str(how),
                              leat_str(all ? fresh : q->who) };
    for (size_t i = 0; i < NUMBERS && how[0] != 'f'; i++) {
        int64_t v = get(&whole, i);
        if (v == 0 && !all)
            continue;
        if (v < 0)
            v = unbounded(i);
        else if (v == 0)
            v = settings[i].usual;
        args[n++] = leat_str(settings[i].field);
        args[n++] = leat__arg_int(text[i], v);
    }
    if (o->dead_queue && how[0] != 'f') {
        args[n++] = leat_str("deadq");
        args[n++] = leat_str(o->dead_queue);
    }
    return leat__queue_ask(q, q->profile->make, args, n, NULL, 0, read_conf,
                           conf, err);
}

static leat_code compare(const leat_queue *q, const leat_queue_opts *o,
                         const queue_conf *conf, leat_error *err)
{
    for (size_t i = 0; i < NUMBERS; i++) {
        int64_t want = get(o, i), has = get(&conf->kept, i);
        if (want != 0 && want != has)
            return leat__fail(err, LEAT_EEXIST,
                              "queue '%s' has %s %" PRId64 ", not %" PRId64
                              ": leave it out or alter the queue",
                              q->name, settings[i].name, has, want);
    }
    if (o->dead_queue && strcmp(o->dead_queue, conf->dead_queue) != 0)
        return leat__fail(err, LEAT_EEXIST,
                          "queue '%s' has the dead-letter queue '%s', not "
                          "'%s': leave it out or alter the queue",
                          q->name, conf->dead_queue, o->dead_queue);
    return LEAT_OK;
}

static int64_t usual(const queue_profile *p, size_t i)
{
    return i == SIZE ? (int64_t)p->max_message : settings[i].usual;
}

/* A handle's own settings, where none are kept with the queue: there is no
 * bound of receives but one that is asked for, and no retry policy. */
static void set_own(leat_queue *q, const leat_queue_opts *o, bool all)
{
    pthread_mutex_lock(&q->lock);
    for (size_t i = 0; i < RETRY; i++) {
        int64_t v = get(o, i);
        if (v < 0)
            set(&q->kept, i, unbounded(i));
        else if (v > 0 || (all && i != RECEIVES))
            set(&q->kept, i, v > 0 ? v : usual(q->profile, i));
    }
    pthread_mutex_unlock(&q->lock);
}

static leat_code find_or_make(leat_queue *q, const leat_queue_opts *o,
                              leat_error *err)
{
    if (!q->profile->kept) {
        set_own(q, o, true);
        return LEAT_OK;
    }
    queue_conf conf;
    leat_code rc = make(q, o->must_exist ? "find" : "open", o, &conf, err);
    if (rc != LEAT_OK)
        return rc;
    if (conf.gone)
        return leat__fail(err, LEAT_EBUSY,
                          "queue '%s' is being removed: remove it again to "
                          "finish that",
                          q->name);
    if (!conf.there)
        return leat__fail(err, LEAT_ENOENT, "there is no queue '%s'", q->name);
    rc = compare(q, o, &conf, err);
    if (rc == LEAT_OK)
        leat__queue_learn(q, &conf);
    q->fifo = conf.kept.fifo; /* for good: it cannot be altered */
    memcpy(q->who, conf.who, sizeof q->who);
    return rc;
}

/* ---- handles ---------------------------------------------------------- */

static const char *events_of(const leat_queue_opts *o, leat_client *c)
{
    if (o->no_events)
        return "0";
    if (o->event_client)
        return "3";
    return leat__client_clustered(c) ? "2" : "1";
}

static leat_code keep_clients(leat_client *c, const leat_queue_opts *o,
                              leat_error *err)
{
    leat_code rc = leat__client_keep(c, LEAT__A_QUEUE, err);
    if (rc != LEAT_OK || !o->event_client)
        return rc;
    rc = leat__client_keep(o->event_client, LEAT__A_QUEUE, err);
    if (rc != LEAT_OK)
        leat__client_drop(c, LEAT__A_QUEUE);
    return rc;
}

static leat_queue *queue_new(leat_client *c, const char *name,
                             const leat_queue_opts *o, leat_error *err)
{
    leat_queue *q = leat__zalloc(sizeof *q, err);
    if (!q || keep_clients(c, o, err) != LEAT_OK) {
        leat__free(q);
        return NULL;
    }
    q->client = c;
    q->profile = leat__queue_profile(o->profile);
    q->forks = leat__fork_count();
    pthread_mutex_init(&q->lock, NULL);
    leat__uuid7_init(&q->ids);
    leat__list_init(&q->waits);
    q->requeued_seen = q->dead_seen = -1;
    q->opts = *o;
    snprintf(q->prefix, sizeof q->prefix, "%s",
             leat__profile_prefix(q->profile, o->prefix));
    q->opts.prefix = q->prefix;
    q->opts.dead_queue = NULL;
    leat__client_inherit(c, &q->opts.log, &q->opts.metrics);
    q->events = events_of(o, c);
    q->profile->home(&q->due, q->prefix, name);
    q->apart = q->profile->shard && leat__client_clustered(c) &&
               leat__queue_one_slot(&q->due, name, NULL) != LEAT_OK;
    q->name = leat__strdup(name, err);
    if (!q->name || leat__queue_meters(q, err) != LEAT_OK) {
        leat_queue_close(q);
        return NULL;
    }
    return q;
}

/* What a queue cannot have whose keys are in different slots. */
static leat_code check_apart(const leat_queue *q, const leat_queue_opts *o,
                             leat_error *err)
{
    return o->max_receives > 0 || o->delay_ms > 0 ? leat__queue_whole(q, err)
                                                  : LEAT_OK;
}

leat_queue *leat_queue_open(leat_client *c, const char *name,
                            const leat_queue_opts *opts, leat_error *err)
{
    leat_queue_opts o = opts ? *opts : (leat_queue_opts){ 0 };
    if (leat__queue_check(name, &o, err) != LEAT_OK ||
        check_numbers(&o, 0, leat__queue_profile(o.profile), err) != LEAT_OK ||
        check_retry(&o, err) != LEAT_OK ||
        check_dead_queue(name, o.dead_queue, err) != LEAT_OK)
        return NULL;
    leat_queue *q = queue_new(c, name, &o, err);
    if (q &&
        (check_apart(q, &o, err) != LEAT_OK ||
         find_or_make(q, &o, err) != LEAT_OK ||
         (!o.no_reaper && !q->apart && leat__reaper_join(q, err) != LEAT_OK))) {
        leat_queue_close(q);
        return NULL;
    }
    return q;
}

/* Change the very queue that was opened. */
static leat_code change(leat_queue *q, const char *how,
                        const leat_queue_opts *o, leat_error *err)
{
    queue_conf conf;
    leat_code rc = make(q, how, o, &conf, err);
    if (rc == LEAT_OK && (!conf.there || conf.gone))
        rc = leat__fail(err, LEAT_ENOENT, "there is no queue '%s' any more",
                        q->name);
    if (rc == LEAT_OK && strcmp(conf.who, q->who) != 0)
        rc = leat__queue_other(q->name, err);
    if (rc == LEAT_OK)
        leat__queue_learn(q, &conf);
    return rc;
}

leat_code leat_queue_alter(leat_queue *q, const leat_queue_opts *opts,
                           leat_error *err)
{
    leat_code rc = leat__queue_own(q, err);
    leat_queue_opts retry = *opts;
    retry.profile = q->opts.profile;
    if (rc == LEAT_OK)
        rc = check_numbers(opts, -1, q->profile, err);
    if (rc == LEAT_OK)
        rc = check_retry(&retry, err);
    if (rc == LEAT_OK && !q->profile->kept) {
        rc = q->profile->check(NULL, opts, err);
        if (rc == LEAT_OK)
            rc = check_apart(q, opts, err);
        if (rc == LEAT_OK)
            set_own(q, opts, false);
        return rc;
    }
    if (rc == LEAT_OK)
        rc = check_dead_queue(q->name, opts->dead_queue, err);
    if (rc == LEAT_OK && opts->fifo && !q->fifo)
        rc = leat__fail(err, LEAT_EINVAL,
                        "queue '%s' cannot become fifo: make a new one",
                        q->name);
    return rc == LEAT_OK ? change(q, "alter", opts, err) : rc;
}

static leat_code set_paused(leat_queue *q, const char *how, leat_error *err)
{
    leat_code rc = leat__queue_own(q, err);
    if (rc == LEAT_OK && !q->profile->kept)
        rc = leat__fail(err, LEAT_ENOTSUP,
                        "queue '%s' keeps no settings: it cannot be paused",
                        q->name);
    return rc == LEAT_OK ? change(q, how, &(leat_queue_opts){ 0 }, err) : rc;
}

leat_code leat_queue_pause(leat_queue *q, leat_error *err)
{
    return set_paused(q, "pause", err);
}

leat_code leat_queue_resume(leat_queue *q, leat_error *err)
{
    return set_paused(q, "resume", err);
}

/* In a forked child neither the locks nor the threads are ours. */
void leat_queue_close(leat_queue *q)
{
    if (!q || leat__queue_own(q, NULL) != LEAT_OK)
        return;
    leat__holder_close(q);
    leat__reaper_leave(q);
    leat__waits_free(q);
    for (int i = 0; i < QUEUE_LINES_; i++)
        leat__lanes_free(q->lanes[i]);
    leat__uuid7_release(&q->ids);
    pthread_mutex_destroy(&q->lock);
    leat_client *c = q->client, *events = q->opts.event_client;
    leat__free(q->dead_queue);
    leat__free(q->name);
    leat__free(q);
    leat__client_drop(events, LEAT__A_QUEUE);
    leat__client_drop(c, LEAT__A_QUEUE);
}

leat_code leat__queue_own(const leat_queue *q, leat_error *err)
{
    if (q->forks == leat__fork_count())
        return LEAT_OK;
    return leat__fail(err, LEAT_EFORK,
                      "queue '%s' belongs to the parent process, open a client "
                      "and the queue after fork",
                      q->name);
}

const char *leat_queue_name(const leat_queue *q)
{
    return q->name;
}
