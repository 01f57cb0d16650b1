/*
 * reaper.c: a thread that gives back what expired.
 *
 * One for all queues that a client has open, made by the first and ended with
 * the last.  It looks at the heads of their shards' indexes of deadlines, once
 * a second at least.  A redowl queue is a shard of its own.
 *
 * Of all reapers of a shard one does the work: it holds a lease, which the
 * script renews and which another takes over when it has run out.  The lease
 * only saves work, as expiring twice is as good as once: so a reaper that was
 * told by its own process of something due sooner does not ask for it, and
 * nothing waits for a reaper that died but what only that one knew of, and not
 * even that where somebody waits to receive: see receive.c.  One that ends
 * gives its lease up, or the next would wait until it has run out.
 *
 * Events of what it gives back are told where the handles of their queues say.
 * The script tells them, unless some handle of the shard has an event client:
 * then it hands them over, and they are told here, to each such client and to
 * this server if a handle without one, or none at all, is open.
 *
 * Who has the lease also looks, now and then, for messages that stand nowhere:
 * see repair.lua.
 *
 * The same thread feeds outside dead-letter queues and reads the gauges.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/thread.h"
#include "queue/queue.h"
#include "redis/client.h"

#include <stdio.h>

enum {
    FLOOR_MS = 1000,
    LEASE_MS = 3000,
    GAUGES_MS = 5000,
    REPAIR_MS = 10000,
    SEARCH_MS = 100, /* between two looks into a long queue */
    CALL_MS = 2000,
    GIVE_UP_MS = 200,             /* whoever closes a queue waits for that */
    MUTE_MS = 10 * LEAT__TELL_MS, /* an event client that is away rests */
    LIMIT = LEAT__QUEUE_LOT,
    AT_ONCE = LEAT__QUEUE_SHARDS
};

typedef struct reap_shard {
    leat__link link;
    leat__key due;
    const queue_profile *profile;
    char prefix[LEAT__QUEUE_PREFIX_MAX + 1];
    const char *events; /* of handles without an event client       */
    int queues;
    int elsewhere;     /* of them have one                        */
    int64_t look_ns;   /* when to look next                       */
    int64_t repair_ns; /* and for what stands nowhere             */
    bool told;         /* by this process: then without the lease */
    bool near;         /* a look that tells here is under way     */
    bool ours;         /* the lease, as far as we know            */
} reap_shard;

struct leat__reaper {
    leat_client *client;
    int users; /* under the client's lock */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    leat__list shards, queues;
    leat_queue *at; /* the queue that is being looked after */
    int64_t care_ns, gauges_ns;
    uint64_t told; /* lots of events */
    bool ending;
    char nonce[17];
};

/* ---- looking ---------------------------------------------------------- */

/* One shard's turn: a copy, so that nothing is locked meanwhile. */
typedef struct turn {
    leat__key due;
    const queue_profile *profile;
    char prefix[LEAT__QUEUE_PREFIX_MAX + 1];
    const char *events;
    bool elsewhere, told, done, ours, repair, searching;
    int limit;
    int64_t lease_ms, moved, next_ms, wrong, repaired;
    leat__buf heard;
    leat_error err;
} turn;

static void on_expired(void *arg, const leat_reply *r, const leat_error *e)
{
    turn *t = arg;
    leat_error odd;
    e = leat__reply_odd(r, e, "[iiii" LEAT__QUEUE_TOLD "]", "what expired",
                        &odd);
    if (e) {
        t->err = *e;
        return;
    }
    leat_reply_iter it = leat_reply_each(r);
    t->moved = leat_reply_int(leat_reply_step(&it));
    t->next_ms = leat_reply_int(leat_reply_step(&it));
    t->ours = leat_reply_int(leat_reply_step(&it)) == 1;
    t->wrong = leat_reply_int(leat_reply_step(&it));
    t->done = true;
    if (leat__told_copy(NULL, &t->heard, r, NULL) != LEAT_OK)
        t->heard.n = 0; /* events less */
}

/* That it may not, or cannot, is no reason not to go on. */
static void on_repaired(void *arg, const leat_reply *r, const leat_error *e)
{
    turn *t = arg;
    leat_error odd;
    e = leat__reply_odd(r, e, "[ii" LEAT__QUEUE_TOLD "]", "a repair", &odd);
    if (e == &odd)
        t->err = odd;
    if (e)
        return;
    t->repaired = leat_reply_int(leat_reply_at(r, 0));
    t->searching = leat_reply_int(leat_reply_at(r, 1)) == 1;
    if (leat__told_copy(NULL, &t->heard, r, NULL) != LEAT_OK)
        t->heard.n = 0; /* events less */
}

static leat_code ask(leat__reaper *r, leat_conn *conn, turn *t, leat_error *err)
{
    char limit[LEAT__NUMBER], lease[LEAT__NUMBER];
    leat__key whole;
    leat_bytes keys[LEAT__QUEUE_KEYS];
    size_t n = leat__queue_keys(r->client, leat__key_bytes(&t->due), &whole,
                                keys);
    leat_bytes args[] = { leat__arg_int(limit, t->limit),
                          leat_str(t->elsewhere ? "3" : t->events),
                          leat_str(r->nonce),
                          leat__arg_int(lease, t->lease_ms),
                          leat_str(t->told ? "1" : "0"),
                          leat_str(t->prefix) };
    leat_code rc = leat__script_send(conn, t->profile->expire, keys, n, args, 6,
                                     &(leat_send_opts){ on_expired, t, 0 },
                                     err);
    if (rc != LEAT_OK || !t->repair)
        return rc;
    return leat__script_send(conn, t->profile->repair, keys, n, &args[1], 1,
                             &(leat_send_opts){ on_repaired, t, 0 }, err);
}

/* True: the server answered. */
static bool ask_all(leat__reaper *r, turn *t, size_t n)
{
    leat_error e;
    leat_conn *conn = leat_client_lend(r->client, CALL_MS, &e);
    leat_code rc = conn ? LEAT_OK : e.code;
    for (size_t i = 0; rc == LEAT_OK && i < n; i++)
        rc = ask(r, conn, &t[i], &e);
    if (rc == LEAT_OK)
        rc = leat_conn_drain(conn, 0, &e);
    leat_client_return(r->client, conn);
    for (size_t i = 0; rc == LEAT_OK && i < n; i++) {
        if (t[i].repaired > 0)
            leat__log(
                &r->client->opts.log, LEAT_LOG_WARN,
                "reaper: %lld messages of %.*s stood nowhere and were put "
                "back",
                (long long)t[i].repaired, (int)t[i].due.n, t[i].due.p);
        if (t[i].wrong > 0)
            leat__log(&r->client->opts.log, LEAT_LOG_WARN,
                      "reaper: %lld messages of %.*s cannot be given back: a "
                      "key of their queue is something else, or others wrote "
                      "there; they are tried again in a minute",
                      (long long)t[i].wrong, (int)t[i].due.n, t[i].due.p);
        e = t[i].err;
        rc = e.code;
    }
    if (rc != LEAT_OK)
        leat__log(&r->client->opts.log, LEAT_LOG_INFO, "reaper: %s", e.msg);
    return rc == LEAT_OK;
}

static size_t collect_locked(leat__reaper *r, turn *t, int64_t now)
{
    size_t n = 0;
    LEAT__LIST_EACH(&r->shards, at)
    {
        reap_shard *s = LEAT__ITEM(at, reap_shard, link);
        if (s->look_ns > now || n == AT_ONCE)
            continue;
        t[n++] = (turn){ .due = s->due,
                         .profile = s->profile,
                         .events = s->events,
                         .elsewhere = s->elsewhere > 0,
                         .limit = LIMIT,
                         .lease_ms = LEASE_MS,
                         .told = s->told,
                         .repair = s->ours && s->profile->repair &&
                                   s->repair_ns <= now };
        if (t[n - 1].repair)
            s->repair_ns = now + REPAIR_MS * INT64_C(1000000);
        snprintf(t[n - 1].prefix, sizeof t->prefix, "%s", s->prefix);
        s->told = false;
        s->near = s->elsewhere == 0;
        s->look_ns = now + FLOOR_MS * INT64_C(1000000);
    }
    return n;
}

static reap_shard *find_locked(leat__reaper *r, const leat__key *due)
{
    LEAT__LIST_EACH(&r->shards, at)
    {
        reap_shard *s = LEAT__ITEM(at, reap_shard, link);
        if (leat_bytes_eq(leat__key_bytes(&s->due), leat__key_bytes(due)))
            return s;
    }
    return NULL;
}

/* A reaper without the lease looks when it may have run out. */
static void plan_locked(leat__reaper *r, const turn *t)
{
    reap_shard *s = find_locked(r, &t->due);
    if (!s)
        return;
    int64_t ms = t->ours ? FLOOR_MS : LEASE_MS;
    s->ours = t->ours;
    s->near = false;
    pthread_cond_broadcast(&r->changed);
    if (!t->done)
        ms = FLOOR_MS;
    else if (t->moved >= LIMIT)
        ms = 0;
    else if (t->ours && t->next_ms >= 0 && t->next_ms < ms)
        ms = t->next_ms;
    if (t->searching) {
        s->repair_ns = leat__deadline_ns(SEARCH_MS);
        ms = ms < SEARCH_MS ? ms : SEARCH_MS;
    }
    int64_t at = leat__deadline_ns(ms);
    if (!s->told || at < s->look_ns)
        s->look_ns = at;
}

/* ---- telling ---------------------------------------------------------- */

/* The queue stays while `at` is it: leave waits. */
static void pin_locked(leat__reaper *r, leat_queue *q)
{
    r->at = q;
    pthread_mutex_unlock(&r->lock);
}

static void unpin(leat__reaper *r)
{
    pthread_mutex_lock(&r->lock);
    r->at = NULL;
    pthread_cond_broadcast(&r->changed);
}

static bool is_of(const leat_queue *q, const turn *t, leat_bytes name)
{
    return leat_bytes_eq(leat_str(q->name), name) &&
           leat_bytes_eq(leat__key_bytes(&q->due), leat__key_bytes(&t->due));
}

/* A handle whose event client was not told of this lot.  *near: is there one,
 * or no handle at all, that has this server's events? */
static leat_queue *untold_locked(leat__reaper *r, const turn *t,
                                 leat_bytes name, bool *near)
{
    leat_queue *found = NULL;
    bool any = false;
    *near = false;
    LEAT__LIST_EACH(&r->queues, at)
    {
        leat_queue *q = LEAT__ITEM(at, leat_queue, reaped);
        if (!is_of(q, t, name))
            continue;
        any = true;
        *near |= q->events[0] == '1' || q->events[0] == '2';
        if (q->events[0] == '3' && q->told != r->told &&
            (!found || q->opts.event_client == found->opts.event_client)) {
            found = found ? found : q;
            q->told = r->told;
        }
    }
    *near |= !any && t->events[0] != '0';
    return found;
}

/* Events of one queue.  An event client that is away is not waited for again
 * and again: all that expires would be late by that. */
static void tell_one_locked(leat__reaper *r, const turn *t, leat_bytes name,
                            leat_bytes events)
{
    leat_queue *q;
    bool near;
    r->told++;
    while ((q = untold_locked(r, t, name, &near))) {
        if (leat__now_ns() < q->mute_ns)
            continue;
        pin_locked(r, q);
        bool heard = leat__told_publish(q->opts.event_client, q->profile,
                                        q->prefix, events);
        unpin(r);
        q->mute_ns = heard ? 0 : leat__deadline_ns(MUTE_MS);
    }
    if (!near)
        return;
    pthread_mutex_unlock(&r->lock);
    (void)leat__told_publish(r->client, t->profile, t->prefix, events);
    pthread_mutex_lock(&r->lock);
}

static void tell_locked(leat__reaper *r, turn *t)
{
    leat_bytes all = leat__buf_bytes(&t->heard), name;
    while (all.n > 0 && !r->ending) {
        leat_bytes some = leat__told_of_one(all, &name);
        tell_one_locked(r, t, name, some);
        all = leat_mem((const char *)all.p + some.n, all.n - some.n);
    }
    leat__buf_release(&t->heard);
}

/* ---- what else is done for a queue ------------------------------------ */

static void add_since(leat_counter *c, int64_t *seen, int64_t now)
{
    if (*seen >= 0 && now > *seen)
        leat_counter_add(c, (uint64_t)(now - *seen));
    *seen = now;
}

static void read_gauges(leat_queue *q)
{
    leat_queue_stats s;
    if (!q->opts.metrics || leat_queue_stats_get(q, &s, NULL) != LEAT_OK)
        return;
    leat_gauge_set(q->meters.visible, s.visible);
    leat_gauge_set(q->meters.in_flight, s.in_flight);
    leat_gauge_set(q->meters.delayed, s.delayed);
    leat_gauge_set(q->meters.letters, s.dead);
    leat_gauge_set(q->meters.oldest, s.oldest_ms < 0 ? 0 : s.oldest_ms / 1000);
    add_since(q->meters.requeued, &q->requeued_seen, s.requeued);
    add_since(q->meters.dead, &q->dead_seen, s.to_dead);
}

static void care_for_locked(leat__reaper *r, leat_queue *q, bool gauges)
{
    pin_locked(r, q);
    for (int i = 0; i < LIMIT && leat__mover_step(q); i++)
        continue;
    if (gauges)
        read_gauges(q);
    unpin(r);
}

/* Each queue moves to the end as it is served, so that those that leave or join
 * meanwhile do not matter. */
static void care_locked(leat__reaper *r, int64_t now)
{
    size_t n = 0;
    bool gauges = now >= r->gauges_ns;
    r->care_ns = now + FLOOR_MS * INT64_C(1000000);
    if (gauges)
        r->gauges_ns = now + GAUGES_MS * INT64_C(1000000);
    LEAT__LIST_EACH(&r->queues, at)
    n++;
    for (size_t i = 0; i < n && !r->ending; i++) {
        leat__link *k = leat__list_pop(&r->queues);
        if (!k)
            return;
        leat__list_push(&r->queues, k);
        leat_queue *q = LEAT__ITEM(k, leat_queue, reaped);
        if (q->opts.metrics || leat__mover_wanted(q))
            care_for_locked(r, q, gauges);
    }
}

/* ---- the thread ------------------------------------------------------- */

static int64_t due_locked(const leat__reaper *r)
{
    int64_t at = r->care_ns;
    LEAT__LIST_EACH(&r->shards, k)
    {
        const reap_shard *s = LEAT__ITEM(k, reap_shard, link);
        if (s->look_ns < at)
            at = s->look_ns;
    }
    return at;
}

static void *run(void *arg)
{
    leat__reaper *r = arg;
    turn t[AT_ONCE];
    pthread_mutex_lock(&r->lock);
    while (!r->ending) {
        int64_t now = leat__now_ns();
        if (due_locked(r) > now) {
            leat__cond_wait(&r->changed, &r->lock, due_locked(r));
            continue;
        }
        size_t n = collect_locked(r, t, now);
        pthread_mutex_unlock(&r->lock);
        bool alive = n == 0 || ask_all(r, t, n);
        pthread_mutex_lock(&r->lock);
        for (size_t i = 0; i < n; i++)
            plan_locked(r, &t[i]);
        for (size_t i = 0; i < n; i++)
            tell_locked(r, &t[i]);
        if (now < r->care_ns || r->ending)
            continue;
        if (alive)
            care_locked(r, now);
        else
            r->care_ns = now + FLOOR_MS * INT64_C(1000000);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* ---- joining and leaving ---------------------------------------------- */

static void reaper_free(leat__reaper *r)
{
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    leat__free(r);
}

static leat__reaper *reaper_open(leat_client *c, leat_error *err)
{
    unsigned char b[8];
    leat__reaper *r = leat__zalloc(sizeof *r, err);
    if (!r)
        return NULL;
    if (leat__random(b, sizeof b, err) != LEAT_OK ||
        leat__cond_init(&r->changed, err) != LEAT_OK) {
        leat__free(r);
        return NULL;
    }
    for (size_t i = 0; i < sizeof b; i++)
        snprintf(r->nonce + 2 * i, 3, "%02x", b[i]);
    r->client = c;
    pthread_mutex_init(&r->lock, NULL);
    leat__list_init(&r->shards);
    leat__list_init(&r->queues);
    if (leat__thread_start(&r->thread, "leat-reaper", run, r, err) != LEAT_OK) {
        reaper_free(r);
        return NULL;
    }
    return r;
}

static leat_code add_locked(leat__reaper *r, leat_queue *q, leat_error *err)
{
    reap_shard *s = find_locked(r, &q->due);
    if (!s) {
        s = leat__zalloc(sizeof *s, err);
        if (!s)
            return LEAT_ENOMEM;
        s->due = q->due;
        s->profile = q->profile;
        snprintf(s->prefix, sizeof s->prefix, "%s", q->prefix);
        s->events = "0";
        leat__list_push(&r->shards, &s->link);
    }
    if (s->events[0] == '0' && q->events[0] != '0')
        s->events = leat__client_clustered(r->client) ? "2" : "1";
    s->queues++;
    s->elsewhere += q->events[0] == '3';
    leat__list_push(&r->queues, &q->reaped);
    pthread_cond_broadcast(&r->changed);
    /* What a look that is under way gives back would be told here. */
    int64_t deadline = leat__deadline_ns(LEAT__TELL_MS);
    while (q->events[0] == '3' && s->near &&
           leat__cond_wait(&r->changed, &r->lock, deadline))
        continue;
    return LEAT_OK;
}

/* A reaper lives as long as it has queues; the client's lock counts them. */
leat_code leat__reaper_join(leat_queue *q, leat_error *err)
{
    leat_client *c = q->client;
    pthread_mutex_lock(&c->lock);
    if (!c->reaper)
        c->reaper = reaper_open(c, err);
    leat__reaper *r = c->reaper;
    if (r)
        r->users++;
    pthread_mutex_unlock(&c->lock);
    if (!r)
        return LEAT_ENOMEM;
    q->reaper = r;
    pthread_mutex_lock(&r->lock);
    leat_code rc = add_locked(r, q, err);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

/* True: the lease of its shard is to be given up, *t says how. */
static bool remove_locked(leat__reaper *r, leat_queue *q, turn *t)
{
    while (r->at == q)
        leat__cond_wait(&r->changed, &r->lock, INT64_MAX);
    if (!leat__link_linked(&q->reaped))
        return false; /* it failed to join */
    leat__link_remove(&q->reaped);
    reap_shard *s = find_locked(r, &q->due);
    if (!s)
        return false;
    s->elsewhere -= q->events[0] == '3';
    if (--s->queues > 0)
        return false;
    /* By asking for one that is over in a moment, and for nothing else. */
    *t = (turn){
        .due = s->due, .profile = s->profile, .events = "0", .lease_ms = 1
    };
    bool ours = s->ours && !q->profile->shard; /* of redowl there is none */
    leat__link_remove(&s->link);
    leat__free(s);
    return ours;
}

static void give_up(leat__reaper *r, turn *t)
{
    leat_conn *conn = leat_client_lend(r->client, GIVE_UP_MS, NULL);
    if (!conn)
        return;
    int64_t usual = conn->timeout_ms;
    if (usual > GIVE_UP_MS)
        conn->timeout_ms = GIVE_UP_MS;
    if (ask(r, conn, t, NULL) == LEAT_OK)
        (void)leat_conn_drain(conn, 0, NULL);
    conn->timeout_ms = usual;
    leat_client_return(r->client, conn);
}

static void end(leat__reaper *r)
{
    pthread_mutex_lock(&r->lock);
    r->ending = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    reaper_free(r);
}

void leat__reaper_leave(leat_queue *q)
{
    leat_client *c = q->client;
    leat__reaper *r = q->reaper;
    if (!r)
        return;
    turn t = { 0 };
    pthread_mutex_lock(&r->lock);
    bool ours = remove_locked(r, q, &t);
    pthread_mutex_unlock(&r->lock);
    if (ours)
        give_up(r, &t);

    pthread_mutex_lock(&c->lock);
    bool last = --r->users == 0;
    if (last)
        c->reaper = NULL;
    pthread_mutex_unlock(&c->lock);
    if (last)
        end(r);
}

void leat__reaper_tell(leat_queue *q, int64_t ms)
{
    leat__reaper *r = q->reaper;
    if (ms >= FLOOR_MS || !r)
        return;
    int64_t at = leat__deadline_ns(ms);
    pthread_mutex_lock(&r->lock);
    reap_shard *s = find_locked(r, &q->due);
    if (s && (!s->told || at < s->look_ns)) {
        s->told = true;
        if (at < s->look_ns) {
            s->look_ns = at;
            pthread_cond_broadcast(&r->changed);
        }
    }
    pthread_mutex_unlock(&r->lock);
}
