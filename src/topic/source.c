/*
 * source.c: a member of a group as a source.
 *
 * See consumer.h for the parts and drive.c for who does the work.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/thread.h"
#include "redis/bundle.h"
#include "redis/client.h"
#include "redis/script.h"
#include "topic/consumer.h"
#include "topic/identity.h"
#include "topic/retry.h"
#include "topic/standing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    BATCH = 100,
    IN_FLIGHT = 1000,
    BLOCK_MS = 1000,
    POLL_MS = 10, /* with more partitions than wait at once */
    CLUSTER_POLL_MS = 50,
    DRAIN_MS = 30000,
    OPEN_MS = 5000,
    CLOSE_MS = 3000,
    BATCH_MAX = 10000,
    IN_FLIGHT_MAX = 1 << 20
};

#define TELL_NS INT64_C(200000000) /* for one node to say that it knows */
#define SILENT_NS                                                              \
    INT64_C(1000000000) /* until one that did not is tried again */

/* ---- receive ---------------------------------------------------------- */

/* Of what is not out for the first time the server has said that it knows, or
 * it is not ours any more. */
static bool confirmed_one(const leat_delivery *d)
{
    const handed *h = (const handed *)d;
    const part *p = h->part;
    if ((!d->redelivered && !h->kept) || leat__part_epoch(p) != d->fence)
        return true;
    if (h->kept)
        return !h->kept->begin;
    return p->saves == 0 && !leat__window_unmarked(p->window);
}

/* The server refused the save that would have told it. */
static bool refused(const leat_delivery *d, int64_t now_ns)
{
    const part *p = ((const handed *)d)->part;
    return leat__part_epoch(p) == d->fence && now_ns < p->retry_ns;
}

/* Or nobody will hear of it: then some stay untold. */
static bool confirmed(leat_delivery **out, int n, bool *untold)
{
    int64_t now = leat__now_ns();
    for (int i = 0; i < n; i++) {
        if (confirmed_one(out[i]))
            continue;
        if (!refused(out[i], now))
            return false;
        *untold = true;
    }
    return true;
}

/* What the server did not hear of goes back, the rest is given out: on a
 * cluster each node is told by itself, and any server may refuse a save.  A
 * node that does not answer is left alone for a while: the others' messages
 * would wait with each try. */
static int keep_told(consumer *c, leat_delivery **out, int n)
{
    int64_t now = leat__now_ns();
    int still = 0;
    for (int i = 0; i < n; i++) {
        part *p = ((handed *)out[i])->part;
        bool untold = !confirmed_one(out[i]);
        if (!untold && !refused(out[i], now)) {
            out[still++] = out[i];
            continue;
        }
        leat__deliver_undo(c, &out[i], 1);
        if (untold && now >= p->retry_ns)
            p->retry_ns = now + SILENT_NS;
    }
    return still;
}

/* Announce what was taken, and ask for more with it.  What is in the socket
 * when we die is read by the server, but not if it finds out by an answer that
 * it cannot write.  For a first attempt that is good enough; one that may have
 * killed before must not be begun untold. */
static int announce(consumer *c, leat_delivery **out, int n)
{
    int64_t now = leat__now_ns();
    int64_t until = now + c->opts.lease_ms * 1000000 / 3;
    if (c->clustered && until > now + TELL_NS)
        until = now + TELL_NS;
    leat__read_more(c, now);
    leat__save_step(c, now);
    bool told = leat__drive_flush(c), some = c->clustered;
    while (told && !confirmed(out, n, &some)) {
        leat__drive(c, until);
        told = c->cmd && leat__now_ns() < until;
    }
    if (c->cmd && (c->clustered || (told && some)))
        return keep_told(c, out, n);
    if (told)
        return n;
    leat__deliver_undo(c, out, n);
    return 0;
}

static int fail_receive(const leat_error *e, leat_error *err)
{
    if (err)
        *err = *e;
    return -1;
}

static int receive_driving(consumer *c, leat_delivery **out, int max,
                           int64_t deadline_ns, leat_error *err)
{
    for (;;) {
        leat__deliver_settled(c);
        int n = leat__deliver(c, out, max);
        if (n > 0)
            n = announce(c, out, n);
        if (n > 0) {
            atomic_store(&c->interrupted, false); /* it returns, as asked */
            return n;
        }
        if (c->final.code != LEAT_OK)
            return fail_receive(&c->final, err);
        if (c->refused.code != LEAT_OK) {
            leat__error_take(&c->refused, err);
            return -1;
        }
        if (atomic_exchange(&c->interrupted, false))
            return 0;
        int64_t now = leat__now_ns(), until = deadline_ns;
        if (now >= deadline_ns)
            return c->cmd ? 0 : fail_receive(&c->why, err);
        (void)leat__deliver_ready(c, now, &until);
        leat__drive(c, until);
    }
}

static int receive(leat_source *s, leat_delivery **out, int max,
                   int64_t wait_ms, leat_error *err)
{
    consumer *c = (consumer *)s;
    int64_t deadline = leat__deadline_ns(wait_ms);
    leat__drive_take(c);
    int n = receive_driving(c, out, max, deadline, err);
    leat__drive_give(c);
    return n;
}

static void interrupt(leat_source *s)
{
    consumer *c = (consumer *)s;
    atomic_store(&c->interrupted, true);
    leat__drive_poke(c);
}

/* ---- extend ----------------------------------------------------------- */

/* Wait for a beat that is answered from now on. */
static leat_code await_beat(consumer *c, int64_t deadline_ns, leat_error *err)
{
    bool in_time = true;
    pthread_mutex_lock(&c->lock);
    uint64_t before = c->beats;
    atomic_store(&c->beat_wanted, true);
    c->due_ns = 0;
    pthread_cond_signal(&c->background);
    leat__drive_poke(c);
    while (in_time && c->beats == before)
        in_time = leat__cond_wait(&c->beaten, &c->lock, deadline_ns);
    bool beaten = c->beats != before;
    pthread_mutex_unlock(&c->lock);
    if (beaten)
        return LEAT_OK;
    return leat__fail(err, LEAT_ETIMEOUT,
                      "no answer to the heartbeat of group '%s' in time",
                      c->group);
}

/* The lease is what keeps deliveries, and the heartbeat keeps the lease: if
 * that was answered lately, two thirds of ms are certain. */
static leat_code extend(leat_source *s, leat_delivery *const *d, size_t n,
                        int64_t ms, leat_code *outcome, leat_error *err)
{
    consumer *c = (consumer *)s;
    int64_t now = leat__now_ns(), want = ms * 2 / 3 * 1000000;
    int64_t lease = atomic_load(&c->lease_ms);
    if (want > lease * 1000000 * 2 / 3)
        want = lease * 1000000 * 2 / 3;
    leat_code rc = LEAT_OK;
    if (leat__lease_left_ns(c) < want)
        rc = await_beat(c, now + ms * 1000000 / 3, err);
    if (rc != LEAT_OK)
        return rc;
    for (size_t i = 0; i < n; i++) {
        const handed *h = (const handed *)d[i];
        uint64_t epoch = atomic_load(&h->part->epoch);
        outcome[i] = epoch == h->d.fence ? LEAT_OK : LEAT_ESTALE;
    }
    return LEAT_OK;
}

/* ---- flush, fd -------------------------------------------------------- */

static leat_code first_bad(consumer *c, leat_error *err)
{
    pthread_mutex_lock(&c->lock);
    leat_code code = leat__error_take(&c->first_bad, err);
    pthread_mutex_unlock(&c->lock);
    return code;
}

static leat_code source_flush(leat_source *s, int64_t timeout_ms,
                              leat_error *err)
{
    consumer *c = (consumer *)s;
    int64_t deadline = leat__deadline_ns(timeout_ms);
    leat__drive_take(c);
    while (atomic_load(&c->owing) > 0 && leat__now_ns() < deadline)
        leat__drive(c, deadline);
    leat__drive_give(c);
    size_t owing = atomic_load(&c->owing);
    if (owing > 0)
        return leat__fail(err, LEAT_ETIMEOUT,
                          "%zu settlements of '%s' have no answer yet", owing,
                          c->topic->name);
    return first_bad(c, err);
}

static int source_fd(leat_source *s)
{
    consumer *c = (consumer *)s;
    if (!atomic_exchange(&c->fd_wanted, true)) {
        pthread_mutex_lock(&c->lock);
        c->due_ns = 0;
        pthread_cond_signal(&c->background);
        pthread_mutex_unlock(&c->lock);
        leat__drive_poke(c);
    }
    return c->ready_fd;
}

/* ---- close ------------------------------------------------------------ */

static void end_background(consumer *c)
{
    if (!c->thread_started)
        return;
    pthread_mutex_lock(&c->lock);
    c->ending = true;
    pthread_cond_signal(&c->background);
    pthread_mutex_unlock(&c->lock);
    leat__drive_poke(c);
    pthread_join(c->thread, NULL);
}

/* What users still hold was never begun, as far as anybody knows. */
static void release_out(consumer *c)
{
    for (handed *h = c->all; h; h = h->all)
        if (atomic_load(&h->out) && leat__part_epoch(h->part) == h->d.fence &&
            h->part->window)
            leat__settle_release(h);
}

/* Hand everything over and go, as far as the server can be reached. */
static void leave(consumer *c)
{
    int64_t deadline = leat__deadline_ns(CLOSE_MS);
    leat__deliver_settled(c);
    leat__member_sweep(c);
    release_out(c);
    leat__group_leave(c->machine, leat__now_ns());
    while (!c->left && c->final.code == LEAT_OK && leat__now_ns() < deadline)
        leat__drive(c, deadline);
    if (!c->left)
        leat__log(&c->log, LEAT_LOG_WARN,
                  "left group '%s' of '%s' without a word: its partitions are "
                  "taken over after %lld ms",
                  c->group, c->topic->name, (long long)c->opts.lease_ms);
}

/* Settlements without outcome get one. */
static void settle_accounts(consumer *c)
{
    leat_error e;
    settled_line line = { 0 };
    leat__fail(&e, LEAT_EUNKNOWN, "closed before the server answered");
    leat__deliver_settled(c);
    for (uint32_t i = 0; i < c->owned_count; i++) {
        leat__settle_forget(c->owned[i], &c->owned[i]->settled);
        leat__line_tell(c, &c->owned[i]->settled, &e);
        leat__line_tell(c, &c->owned[i]->unproven, &e);
    }
    leat__line_tell(c, &line, &e);
}

static void free_parts(consumer *c)
{
    void *held;
    for (uint32_t i = 0; c->parts && i < c->partitions; i++) {
        part *p = c->parts[i];
        while (p && p->window && leat__window_clear(p->window, &held))
            if (held)
                leat__held_drop(held);
        if (p) {
            leat__window_free(p->window);
            leat__part_meters_release(p);
        }
        leat__free(p);
    }
    leat__free(c->parts);
    leat__free(c->owned);
}

static void free_lists(consumer *c)
{
    for (handed *h = c->all, *next; h; h = next) {
        next = h->all;
        if (atomic_load(&h->out))
            leat__held_drop(h->held);
        leat__free(h);
    }
    for (saving *s = c->savings, *next; s; s = next) {
        next = s->next;
        leat__free(s);
    }
}

static void free_consumer(consumer *c)
{
    leat_client_return(c->client, c->cmd);
    leat_client_return(c->client, c->blk);
    leat__wait_close(c);
    leat__waiter_close(c->waiter);
    if (c->machine)
        settle_accounts(c);
    leat__sample_end(c);
    free_parts(c);
    free_lists(c);
    leat__chunk_pool_release(&c->chunks);
    leat__group_free(c->machine);
    leat__buf_release(&c->text);
    leat__buf_release(&c->steps);
    leat__free(c->args);
    leat__tend_close(c);
    leat__free(c->records);
    leat__free(c->held);
    if (c->wake_fd >= 0)
        close(c->wake_fd);
    if (c->ready_fd >= 0)
        close(c->ready_fd);
    pthread_cond_destroy(&c->role_free);
    pthread_cond_destroy(&c->background);
    pthread_cond_destroy(&c->beaten);
    pthread_mutex_destroy(&c->lock);
    leat__free(c->group);
    leat__free(c->name);
    leat__free(c);
}

static void source_close(leat_source *s)
{
    consumer *c = (consumer *)s;
    end_background(c);
    leave(c);
    free_consumer(c);
}

static const leat_source_ops ops = {
    .receive = receive,
    .interrupt = interrupt,
    .settle = leat__deliver_settle,
    .extend = extend,
    .flush = source_flush,
    .fd = source_fd,
    .recycle = leat__deliver_recycle,
    .close = source_close,
};

/* ---- open ------------------------------------------------------------- */

static leat_code check_range(const char *what, int64_t v, int64_t low,
                             int64_t high, leat_error *err)
{
    if (v >= low && v <= high)
        return LEAT_OK;
    return leat__fail(err, LEAT_EINVAL, "%s is %lld, it is from %lld to %lld",
                      what, (long long)v, (long long)low, (long long)high);
}

static bool is_number(const char *s)
{
    return *s && strspn(s, "0123456789") == strlen(s) && strlen(s) <= 18;
}

/* An id is written as the server writes it. */
static leat_code check_start(char *start, size_t room, leat_error *err)
{
    leat__id id;
    char text[LEAT__ID_TEXT];
    if (strcmp(start, "start") == 0 || strcmp(start, "end") == 0 ||
        (start[0] == '@' && is_number(start + 1)))
        return LEAT_OK;
    if (!leat__id_parse(leat_str(start), &id))
        return leat__fail(err, LEAT_EINVAL,
                          "start '%s': it is start, end, an id MS-SEQ or @MS",
                          start);
    leat_bytes whole = leat__id_format(id, text);
    snprintf(start, room, "%.*s", (int)whole.n, (const char *)whole.p);
    return LEAT_OK;
}

static leat_code check_opts(const leat_topic_source_opts *o, leat_error *err)
{
    const leat_group_settings asked = leat__settings_of(o);
    leat_code rc = check_range("batch", o->batch, 1, BATCH_MAX, err);
    if (rc == LEAT_OK)
        rc = check_range("max_in_flight", o->max_in_flight, 1, IN_FLIGHT_MAX,
                         err);
    if (rc == LEAT_OK)
        rc = check_range("max_partitions", o->max_partitions, 0,
                         LEAT_PARTITIONS_MAX, err);
    if (rc == LEAT_OK)
        rc = check_range("block_ms", o->block_ms, 1, 86400000, err);
    if (rc == LEAT_OK)
        rc = check_range("drain_ms", o->drain_ms, 1, 86400000, err);
    if (rc == LEAT_OK)
        rc = check_range("idle_poll_ms", o->idle_poll_ms, 0, 86400000, err);
    if (rc == LEAT_OK)
        rc = check_range("metric_labels", o->metric_labels, 0,
                         LEAT_LABEL_PARTITION | LEAT_LABEL_CONSUMER, err);
    return rc == LEAT_OK ? leat__settings_check(&asked, err) : rc;
}

static void fill_opts(consumer *c, const leat_topic_source_opts *given)
{
    leat_topic_source_opts *o = &c->opts;
    if (given)
        *o = *given;
    o->batch = o->batch ? o->batch : BATCH;
    o->max_in_flight = o->max_in_flight ? o->max_in_flight : IN_FLIGHT;
    o->block_ms = o->block_ms ? o->block_ms : BLOCK_MS;
    o->drain_ms = o->drain_ms ? o->drain_ms : DRAIN_MS;
    c->log = o->log.fn ? o->log : c->topic->opts.log;
    if (!o->metrics)
        o->metrics = c->topic->opts.metrics;
    c->base.log = c->log;
    c->base.metrics = o->metrics;
}

static leat_code init_sync(consumer *c, leat_error *err)
{
    pthread_mutex_init(&c->lock, NULL);
    leat_code rc = leat__cond_init(&c->role_free, err);
    if (rc == LEAT_OK)
        rc = leat__cond_init(&c->background, err);
    if (rc == LEAT_OK)
        rc = leat__cond_init(&c->beaten, err);
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (rc == LEAT_OK && (c->wake_fd < 0 || c->ready_fd < 0))
        rc = leat__fail_errno(err, LEAT_EIO, errno, "eventfd");
    return rc;
}

static leat_code init_names(consumer *c, const char *group,
                            const leat_topic_source_opts *o, leat_error *err)
{
    char host[64] = "host", name[160];
    const leat_topic *t = c->topic;
    (void)gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "%s-%ld-%.8s", host, (long)getpid(), c->nonce);
    c->group = leat__strdup(group, err);
    c->name = leat__strdup(o && o->name ? o->name : name, err);
    if (!c->group || !c->name)
        return LEAT_ENOMEM;
    c->base.group = c->group;
    c->from = leat_str(t->name);
    snprintf(c->start, sizeof c->start, "%s",
             o && o->start ? o->start : "start");
    if (o && o->start && strlen(o->start) >= sizeof c->start)
        return leat__fail(err, LEAT_EINVAL, "start '%.20s...' is too long",
                          o->start);
    leat__key_members(&c->members, t->prefix, t->name, c->group);
    leat__key_beats(&c->beats_key, t->prefix, t->name, c->group);
    leat__key_paused(&c->paused_key, t->prefix, t->name, c->group);
    leat__key_group(&c->group_key, t->prefix, t->name, c->group);
    leat__key_topic(&c->groups_id_key, t->prefix, t->name);
    return LEAT_OK;
}

static leat_code init_memory(consumer *c, leat_error *err)
{
    c->partitions = c->topic->meta.partitions;
    c->parts = leat__calloc(c->partitions, sizeof *c->parts, err);
    c->owned = leat__calloc(c->partitions, sizeof *c->owned, err);
    c->held = leat__calloc((size_t)c->opts.batch * LEAT__READ_TIMES,
                           sizeof *c->held, err);
    return c->parts && c->owned && c->held ? LEAT_OK : LEAT_ENOMEM;
}

static leat_code init_machine(consumer *c, const leat__nonce *self, bool stable,
                              leat_error *err)
{
    c->machine = leat__group_new(
        &(leat__group_opts){ .self = *self,
                             .name = c->name,
                             .stable = stable,
                             .partitions = c->partitions,
                             .cap = (uint32_t)c->opts.max_partitions,
                             .lease_ns = c->opts.lease_ms * 1000000,
                             .drain_ns = c->opts.drain_ms * 1000000 },
        err);
    return c->machine ? LEAT_OK : LEAT_ENOMEM;
}

/* It may be another topic by now than the one that was opened. */
static leat_code look(consumer *c, leat_error *err)
{
    leat_topic *t = c->topic;
    if (!t->meta.legacy)
        (void)leat__retention_look(t);
    if (leat__standing_lost(t)) {
        leat__standing_restore_wait(t);
        (void)leat__retention_look(t);
    }
    c->incarnations = atomic_load(&t->incarnations);
    leat__standing_u(t, c->topic_u);
    return leat__standing_of(t) == LEAT__TOPIC_THERE
               ? LEAT_OK
               : leat__standing_refuse(t, err);
}

/* Its maker may have died, or is not through, or made it just now. */
static leat_code make_whole(consumer *c, leat_error *err)
{
    leat__topic_at at;
    leat_code rc = leat__topic_at_init(&at, c->client, c->topic->name,
                                       c->topic->prefix, err);
    at.meta.marked = false;
    if (rc == LEAT_OK)
        rc = leat__topic_mark(&at, err);
    return rc == LEAT_OK ? look(c, err) : rc;
}

/* What the members of the group share is the group's from here on. */
static leat_code enter(consumer *c, leat_error *err)
{
    leat_group_settings mine = leat__settings_of(&c->opts);
    leat__settings_fill(&mine);
    leat_code rc = look(c, err);
    if (rc == LEAT_OK)
        rc = leat__group_join(c->topic, c->group, &mine, &c->facts, err);
    if (rc == LEAT_ESTALE && (rc = make_whole(c, err)) == LEAT_OK)
        rc = leat__group_join(c->topic, c->group, &mine, &c->facts, err);
    if (rc == LEAT_OK)
        rc = leat__settings_agree(&c->opts, &c->facts.set, c->topic->name,
                                  c->group, err);
    if (rc == LEAT_OK)
        leat__settings_apply(&c->facts.set, &c->opts);
    atomic_store(&c->lease_ms, c->opts.lease_ms);
    return rc;
}

static leat_code join(consumer *c, leat_error *err)
{
    leat_code rc = LEAT_OK;
    c->cmd = leat_client_lend(c->client, OPEN_MS, err);
    if (!c->cmd)
        return err->code;
    leat__conn_impatient(c->cmd);
    c->pace = leat__pace_start(c->clustered ? CLUSTER_POLL_MS : POLL_MS,
                               c->opts.idle_poll_ms);
    if (c->clustered)
        rc = leat__wait_open(c, err);
    else if (!(c->blk = leat_client_lend(c->client, OPEN_MS, err)))
        rc = err->code;
    if (rc != LEAT_OK)
        return rc;
    leat__waker *w = leat__client_waker(c->client, err);
    c->waiter = w ? leat__waiter_open(w, leat__key_bytes(&c->members), err)
                  : NULL;
    if (!c->waiter)
        return LEAT_ENOMEM;
    leat__waiter_tell(c->waiter, c->wake_fd);
    return LEAT_OK;
}

static leat_code init(consumer *c, const char *group,
                      const leat_topic_source_opts *o, leat_error *err)
{
    leat__nonce self;
    leat_code rc = init_sync(c, err);
    if (rc == LEAT_OK)
        rc = leat__random(&self, sizeof self, err);
    if (rc != LEAT_OK)
        return rc;
    leat__nonce_format(&self, c->nonce);
    fill_opts(c, o);
    rc = init_names(c, group, o, err);
    if (rc == LEAT_OK)
        rc = check_opts(&c->opts, err);
    if (rc == LEAT_OK)
        rc = check_start(c->start, sizeof c->start, err);
    if (rc == LEAT_OK)
        rc = enter(c, err);
    if (rc == LEAT_OK)
        rc = init_memory(c, err);
    if (rc == LEAT_OK)
        rc = init_machine(c, &self, o && o->name, err);
    if (rc == LEAT_OK)
        rc = leat__consumer_meters_init(c, err);
    if (rc == LEAT_OK)
        rc = leat__tend_open(c, err);
    return rc == LEAT_OK ? join(c, err) : rc;
}

leat_source *leat_topic_source(leat_topic *t, const char *group,
                               const leat_topic_source_opts *opts,
                               leat_error *err)
{
    leat_error e = { 0 };
    err = err ? err : &e;
    if (!t || leat__name_check("group", group, err) != LEAT_OK)
        return NULL; /* a topic that could not be opened has said why */
    consumer *c = leat__zalloc(sizeof *c, err);
    if (!c)
        return NULL;
    c->base.ops = &ops;
    c->base.name = t->name;
    c->topic = t;
    c->chunks.bodies = !t->meta.legacy;
    c->client = t->client;
    c->clustered = leat__client_clustered(c->client);
    c->wake_fd = c->ready_fd = -1;
    c->nap_ns = LEAT__LINGER_NS;
    c->backoff = (leat__backoff){ .base_ms = 10, .cap_ms = 1000 };
    if (init(c, group, opts, err) != LEAT_OK)
        goto fail;
    c->base.ordered = true; /* without lanes nothing is */
    if (leat__thread_start(&c->thread, "leat-topic", leat__drive_background, c,
                           err) != LEAT_OK)
        goto fail;
    c->thread_started = true;
    return &c->base;

fail:
    free_consumer(c);
    return NULL;
}

void leat_topic_source_stats_get(leat_source *s, leat_topic_source_stats *out)
{
    const consumer *c = (const consumer *)s;
    const consumer_counts *n = &c->counts;
    *out = (leat_topic_source_stats){
        .partitions = atomic_load(&n->owned),
        .members = atomic_load(&n->members),
        .received = atomic_load(&n->received),
        .redelivered = atomic_load(&n->redelivered),
        .settled = atomic_load(&n->settled),
        .rejected = atomic_load(&n->rejected),
        .stale = atomic_load(&n->stale),
        .undecodable = atomic_load(&n->undecodable),
        .rebalances = atomic_load(&n->rebalances),
        .in_flight = atomic_load(&n->in_flight),
        .retries = atomic_load(&n->retries),
        .dead = atomic_load(&n->dead),
        .waiting = atomic_load(&n->waiting),
    };
}
