/*
 * scripted.c: a source in memory for tests of the runner.
 */
#include "scripted.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/thread.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct handed {
    leat_delivery d;
    size_t number;
    struct handed *next;
} handed;

struct scripted {
    leat_source base;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t lease_ms;

    script_entry *e;
    size_t count, cap, first; /* first: not done */
    struct {
        size_t out;
        bool still;
        uint64_t blocked; /* in that scan */
    } lanes[SCRIPT_LANES];
    uint64_t scan;
    bool interrupted, closed;

    handed *pool;
    size_t made, pooled;
    script_settle *log;
    size_t log_count, log_cap;

    int fail_receive, fail_extend;
    leat_code receive_code, extend_code, extend_says;
    bool stalled;
    size_t settled, extends, extending, calls, out, max_out;
};

static void broken(const char *what, size_t number)
{
    fprintf(stderr, "scripted source: %s of message %zu\n", what, number);
    abort();
}

static const leat_error undecodable = { .code = LEAT_EDECODE,
                                        .msg = "not a message" };

/* ---- receive ---------------------------------------------------------- */

static bool may_go(scripted *s, script_entry *e, int64_t now)
{
    if (e->state != SCRIPT_WAITS)
        return false;
    bool due = e->due_ns <= now;
    if (!s->base.ordered || e->lane == 0)
        return due;
    if (s->lanes[e->lane].blocked == s->scan)
        return false;
    if (due && (!s->lanes[e->lane].still || s->lanes[e->lane].out == 0)) {
        s->lanes[e->lane].still = false;
        return true;
    }
    s->lanes[e->lane].blocked = s->scan;
    return false;
}

static handed *get_handed(scripted *s, leat_error *err)
{
    handed *h = s->pool;
    if (h) {
        s->pool = h->next;
        s->pooled--;
    } else {
        h = leat__alloc(sizeof *h, err);
        s->made += h != NULL;
    }
    if (h)
        memset(h, 0, sizeof *h);
    return h;
}

static leat_delivery *hand_out(scripted *s, size_t i, leat_error *err)
{
    script_entry *e = &s->e[i];
    handed *h = get_handed(s, err);
    if (!h)
        return NULL;
    h->number = i;
    h->d.msg.key = leat_str(e->key);
    h->d.from = leat_str("script");
    h->d.position.seq = i;
    h->d.lane = e->lane;
    h->d.attempt = (uint32_t)++e->attempts;
    h->d.redelivered = e->attempts > 1;
    h->d.error = e->bad ? &undecodable : NULL;
    leat__delivery_arm(&h->d, &s->base, leat__deadline_ns(s->lease_ms));
    e->state = SCRIPT_OUT;
    s->lanes[e->lane % SCRIPT_LANES].out++;
    if (++s->out > s->max_out)
        s->max_out = s->out;
    return &h->d;
}

static int pick(scripted *s, leat_delivery **out, int max, leat_error *err)
{
    int n = 0;
    int64_t now = leat__now_ns();
    s->scan++;
    while (s->first < s->count && s->e[s->first].state == SCRIPT_DONE)
        s->first++;
    for (size_t i = s->first; i < s->count && n < max; i++) {
        if (!may_go(s, &s->e[i], now))
            continue;
        out[n] = hand_out(s, i, err);
        if (!out[n])
            return n > 0 ? n : -1;
        n++;
    }
    return n;
}

static int receive_locked(scripted *s, leat_delivery **out, int max,
                          int64_t wait_ms, leat_error *err)
{
    int64_t end = leat__deadline_ns(wait_ms);
    for (;;) {
        if (s->interrupted) {
            s->interrupted = false;
            return 0;
        }
        int n = pick(s, out, max, err);
        int64_t now = leat__now_ns();
        if (n != 0 || now >= end)
            return n;
        /* What is delayed comes due without a signal. */
        int64_t tick = now + 1000000;
        (void)leat__cond_wait(&s->changed, &s->lock, tick < end ? tick : end);
    }
}

static int receive(leat_source *base, leat_delivery **out, int max,
                   int64_t wait_ms, leat_error *err)
{
    scripted *s = (scripted *)base;
    int n = -1;
    pthread_mutex_lock(&s->lock);
    s->calls++;
    if (s->fail_receive > 0) {
        s->fail_receive--;
        leat__fail(err, s->receive_code, "the script says so");
    } else {
        n = receive_locked(s, out, max, wait_ms, err);
    }
    pthread_mutex_unlock(&s->lock);
    return n;
}

static void interrupt(leat_source *base)
{
    scripted *s = (scripted *)base;
    pthread_mutex_lock(&s->lock);
    s->interrupted = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* ---- settle ----------------------------------------------------------- */

static void remember(scripted *s, size_t number, leat__settle verdict)
{
    if (s->log_count == s->log_cap) {
        s->log_cap = s->log_cap ? s->log_cap * 2 : 1024;
        s->log = realloc(s->log, s->log_cap * sizeof *s->log);
    }
    s->log[s->log_count++] = (script_settle){ number, verdict };
}

static void apply(scripted *s, script_entry *e, const leat__settlement *how)
{
    e->state = SCRIPT_WAITS;
    switch (how->verdict) {
    case LEAT__SETTLE_ACK:
    case LEAT__SETTLE_COMMITTED:
        e->acks++;
        e->state = SCRIPT_DONE;
        break;
    case LEAT__SETTLE_REJECT:
        e->rejects++;
        e->state = SCRIPT_DONE;
        if (how->reason)
            snprintf(e->reason, sizeof e->reason, "%s", how->reason);
        break;
    case LEAT__SETTLE_NACK:
        e->nacks++;
        e->delay_ms = how->delay_ms;
        e->due_ns = leat__deadline_ns(how->delay_ms);
        break;
    case LEAT__SETTLE_RELEASE:
        e->releases++;
        e->attempts--;
        break;
    }
    if (e->state == SCRIPT_WAITS)
        s->lanes[e->lane % SCRIPT_LANES].still = true;
    else
        s->settled++;
}

static void settle(leat_source *base, leat_delivery *d,
                   const leat__settlement *how)
{
    static const leat_error stale = { .code = LEAT_ESTALE, .msg = "not yours" };
    scripted *s = (scripted *)base;
    size_t number = ((handed *)d)->number;

    pthread_mutex_lock(&s->lock);
    script_entry *e = &s->e[number];
    bool refused = e->stale;
    if (e->state != SCRIPT_OUT)
        broken("settlement without delivery", number);
    s->out--;
    s->lanes[e->lane % SCRIPT_LANES].out--;
    remember(s, number, how->verdict);
    apply(s, e, how);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    leat__source_settled(base, d, refused ? &stale : NULL);
}

static void recycle(leat_source *base, leat_delivery *d)
{
    scripted *s = (scripted *)base;
    handed *h = (handed *)d;
    pthread_mutex_lock(&s->lock);
    h->next = s->pool;
    s->pool = h;
    s->pooled++;
    pthread_mutex_unlock(&s->lock);
}

/* ---- extend ----------------------------------------------------------- */

static void must_be_out(leat_delivery *const *d, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (atomic_load(&d[i]->settled))
            broken("extend after settlement", ((handed *)d[i])->number);
}

static leat_code extend(leat_source *base, leat_delivery *const *d, size_t n,
                        int64_t ms, leat_code *outcome, leat_error *err)
{
    scripted *s = (scripted *)base;
    leat_code rc = LEAT_OK;
    (void)ms;
    must_be_out(d, n);
    pthread_mutex_lock(&s->lock);
    s->extending++;
    while (s->stalled)
        pthread_cond_wait(&s->changed, &s->lock);
    s->extending--;
    if (s->fail_extend > 0) {
        s->fail_extend--;
        rc = leat__fail(err, s->extend_code, "the script says so");
    } else {
        s->extends += n;
        for (size_t i = 0; i < n; i++)
            outcome[i] = s->extend_says;
    }
    pthread_mutex_unlock(&s->lock);
    must_be_out(d, n);
    return rc;
}

/* ---- the rest --------------------------------------------------------- */

static leat_code flush(leat_source *base, int64_t timeout_ms, leat_error *err)
{
    (void)base;
    (void)timeout_ms;
    (void)err;
    return LEAT_OK;
}

static void close_source(leat_source *base)
{
    scripted *s = (scripted *)base;
    pthread_mutex_lock(&s->lock);
    s->closed = true;
    if (s->out != 0)
        broken("close before settlement, in all", s->out);
    pthread_mutex_unlock(&s->lock);
}

static const leat_source_ops ops = {
    .receive = receive,
    .interrupt = interrupt,
    .settle = settle,
    .extend = extend,
    .flush = flush,
    .recycle = recycle,
    .close = close_source,
};

scripted *scripted_open(bool ordered, int64_t lease_ms)
{
    scripted *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->base = (leat_source){ .ops = &ops,
                             .name = "script",
                             .ordered = ordered };
    s->lease_ms = lease_ms;
    pthread_mutex_init(&s->lock, NULL);
    (void)leat__cond_init(&s->changed, NULL);
    return s;
}

leat_source *scripted_source(scripted *s)
{
    return &s->base;
}

void scripted_add(scripted *s, size_t n, uint64_t lane, const char *key)
{
    if (lane >= SCRIPT_LANES)
        abort();
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < n; i++) {
        if (s->count == s->cap) {
            s->cap = s->cap ? s->cap * 2 : 1024;
            s->e = realloc(s->e, s->cap * sizeof *s->e);
        }
        script_entry *e = &s->e[s->count++];
        memset(e, 0, sizeof *e);
        e->lane = lane;
        snprintf(e->key, sizeof e->key, "%s", key ? key : "");
    }
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

script_entry *scripted_entry(scripted *s, size_t number)
{
    return &s->e[number];
}

void scripted_fail_receive(scripted *s, int n, leat_code code)
{
    pthread_mutex_lock(&s->lock);
    s->fail_receive = n;
    s->receive_code = code;
    pthread_mutex_unlock(&s->lock);
}

void scripted_fail_extend(scripted *s, int n, leat_code code)
{
    pthread_mutex_lock(&s->lock);
    s->fail_extend = n;
    s->extend_code = code;
    pthread_mutex_unlock(&s->lock);
}

void scripted_extend_says(scripted *s, leat_code outcome)
{
    pthread_mutex_lock(&s->lock);
    s->extend_says = outcome;
    pthread_mutex_unlock(&s->lock);
}

void scripted_stall_extend(scripted *s, bool stalled)
{
    pthread_mutex_lock(&s->lock);
    s->stalled = stalled;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static size_t read_locked(scripted *s, const size_t *n)
{
    pthread_mutex_lock(&s->lock);
    size_t v = *n;
    pthread_mutex_unlock(&s->lock);
    return v;
}

size_t scripted_settled(scripted *s)
{
    return read_locked(s, &s->settled);
}

size_t scripted_extends(scripted *s)
{
    return read_locked(s, &s->extends);
}

size_t scripted_extending(scripted *s)
{
    return read_locked(s, &s->extending);
}

size_t scripted_calls(scripted *s)
{
    return read_locked(s, &s->calls);
}

size_t scripted_max_out(scripted *s)
{
    return read_locked(s, &s->max_out);
}

bool scripted_closed(scripted *s)
{
    pthread_mutex_lock(&s->lock);
    bool closed = s->closed;
    pthread_mutex_unlock(&s->lock);
    return closed;
}

size_t scripted_log(scripted *s, const script_settle **log)
{
    pthread_mutex_lock(&s->lock);
    size_t n = s->log_count;
    *log = s->log;
    pthread_mutex_unlock(&s->lock);
    return n;
}

void scripted_free(scripted *s)
{
    if (s->made != s->pooled)
        broken("delivery not dropped, in all", s->made - s->pooled);
    for (handed *h = s->pool, *next; h; h = next) {
        next = h->next;
        leat__free(h);
    }
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s->log);
    free(s->e);
    free(s);
}

size_t script_number(const leat_ctx *x)
{
    return leat_delivery_position(leat_ctx_delivery(x)).seq;
}

int64_t script_now_ms(void)
{
    return leat__now_ms();
}

void script_nap(void)
{
    leat__sleep_ms(1);
}

void script_never(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: never came: %s\n", file, line, what);
    abort();
}
