/*
 * queue_worker.c: a process of the chaos run `queue` and of its scenarios.
 *
 *   queue_worker produce URL DIR ROLE [option=value ...]
 *   queue_worker consume URL DIR ROLE [option=value ...]
 *   queue_worker redrive|purge|remove URL DIR ROLE [option=value ...]
 *
 * A producer sends numbered messages of its keys, in turn.  Attempts and
 * outcomes go to its ledger; no number is ever used again, so that what appears
 * twice was sent twice by the library: after a kill it goes on behind the
 * highest in its ledgers.
 *
 *   key=N keys=N    its keys, from this number on (1, 16)
 *   count=N         end after so many (0: at SIGTERM)
 *   rate=N          a second at most (0: as fast as it goes)
 *   size=N          bytes of a body, at least
 *   large=N         one in N has a body of 50,000 bytes (0: none)
 *   batch=N         sent at once (1)
 *   given=1         the message's id is its number; else the library's
 *   later=MS        each is delayed, by any time up to this (0: none is)
 *
 * A consumer writes down each delivery, effect and outcome of a settlement.
 * The fence of a delivery is when its receive began, in ns, and of a settlement
 * when that did (0: not known); the detail is how often it was received, or the
 * leat_code, and above 16 bits a hash of the receipt (0: not known).
 *
 *   api=direct      receive, ack and so on, a thread for each queue
 *       run         a runner for each queue
 *       pool        a pool for all of them
 *   batch=N         received at once (10); ack=each|batch
 *   wait=MS         of a receive (500)
 *   hide=MS         visibility of a receive (0: the queue's)
 *   in_flight=N threads=N   of the runner (20, 2); threads of the pool
 *   work=MS         every handler takes so long
 *   slow=ID         message ID (key << 32 | seq) takes slow_ms=MS, once
 *   busy=1          and burns time instead of sleeping
 *   hold=1          direct: kept hidden by a hold while it is worked on
 *   delay=MS        before one that failed comes again
 *   poison=N flaky=N reject=N crash=N max=N   see worker.h
 *
 * All: queue=NAME, queues=N (then NAME-0 ..., and a key belongs to key mod N),
 * names=A,B... (N of them, instead), again=1 (whoever finds a queue removed
 * waits for the next of its name), fifo=1, visibility=MS, ttl=MS, receives=N
 * (until it is a dead letter), no_reaper=1, answer=MS (the client's timeout),
 * durability=N replicas=N, log=LEVEL, exist=1 (the queue is not made), led=1:
 * says "ready" on stdout and ends when its stdin does.  of=N rate=N: of a
 * redrive.
 *
 * The places of the failpoints: received, before_effect, after_effect,
 * after_settle.
 *
 * SIGTERM ends it in order.  Exit 0: all is well; 1: it cannot work; 3: it
 * could not end so.
 */
#include "pool/pool.h"
#include "queue/source.h"
#include "support/failpoint.h"
#include "support/wait.h"
#include "support/worker.h"

#include <leat/pool.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST = 100,
    QUEUES = 64,
    NAME_SIZE = 80,
    BODY_SIZE = 1 << 16,
    LARGE = 50000
};

static struct {
    const char *queue, *names, *api, *ack;
    worker_link link;
    int64_t queues, fifo, visibility, ttl, receives, no_reaper, led, exist,
        again;
    int64_t key, keys, count, rate, size, large, given, later, of;
    int64_t batch, wait, hide, in_flight, threads, work, slow, slow_ms, busy,
        hold, delay;
    worker_fates fates;
} o = { .queue = "orders",
        .api = "direct",
        .ack = "each",
        .queues = 1,
        .visibility = 2000,
        .link = { .answer = 1000, .log = LEAT_LOG_ERROR },
        .key = 1,
        .keys = 16,
        .wait = 500,
        .in_flight = 20,
        .threads = 2 };

static const worker_option options[] = {
    { "queue", &o.queue, NULL },
    { "names", &o.names, NULL },
    { "api", &o.api, NULL },
    { "ack", &o.ack, NULL },
    { "queues", NULL, &o.queues },
    { "fifo", NULL, &o.fifo },
    { "visibility", NULL, &o.visibility },
    { "ttl", NULL, &o.ttl },
    { "receives", NULL, &o.receives },
    { "no_reaper", NULL, &o.no_reaper },
    { "answer", NULL, &o.link.answer },
    { "durability", NULL, &o.link.durability },
    { "replicas", NULL, &o.link.replicas },
    { "log", NULL, &o.link.log },
    { "led", NULL, &o.led },
    { "exist", NULL, &o.exist },
    { "again", NULL, &o.again },
    { "key", NULL, &o.key },
    { "keys", NULL, &o.keys },
    { "count", NULL, &o.count },
    { "rate", NULL, &o.rate },
    { "size", NULL, &o.size },
    { "large", NULL, &o.large },
    { "given", NULL, &o.given },
    { "later", NULL, &o.later },
    { "of", NULL, &o.of },
    { "batch", NULL, &o.batch },
    { "wait", NULL, &o.wait },
    { "hide", NULL, &o.hide },
    { "in_flight", NULL, &o.in_flight },
    { "threads", NULL, &o.threads },
    { "work", NULL, &o.work },
    { "slow", NULL, &o.slow },
    { "slow_ms", NULL, &o.slow_ms },
    { "busy", NULL, &o.busy },
    { "hold", NULL, &o.hold },
    { "delay", NULL, &o.delay },
    { "poison", NULL, &o.fates.poison },
    { "flaky", NULL, &o.fates.flaky },
    { "reject", NULL, &o.fates.reject },
    { "crash", NULL, &o.fates.crash },
    { "max", NULL, &o.fates.max },
};

static ledger *book;
static leat_queue *queues[QUEUES];

static void write_down(ledger_kind kind, ledger_record r)
{
    r.key = r.id >> 32;
    r.seq = r.id & 0xffffffff;
    worker_write(book, kind, r);
}

static void note(ledger_kind kind, uint64_t id)
{
    write_down(kind, (ledger_record){ .id = id });
}

/* ---- opening ---------------------------------------------------------- */

static leat_queue *open_queue(leat_client *c, const char *name)
{
    leat_queue_opts opts = { .visibility_ms = o.visibility,
                             .max_receives = (int)o.receives,
                             .ttl_ms = o.ttl,
                             .fifo = o.fifo != 0,
                             .must_exist = o.exist != 0,
                             .no_reaper = o.no_reaper != 0,
                             .log = { worker_log, NULL,
                                      (leat_level)o.link.log } };
    int64_t end = wait_now_ms() + WORKER_OPEN_MS;
    leat_error e = { 0 };
    for (;;) {
        leat_queue *q = leat_queue_open(c, name, &opts, &e);
        if (q)
            return q;
        worker_again_or_die("queue", &e, end);
    }
}

static void name_queue(char name[NAME_SIZE], int64_t i)
{
    const char *p = o.names;
    for (int64_t k = 0; p && k < i; k++)
        p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL;
    if (o.names && !p)
        worker_die("names", NULL);
    if (o.names)
        snprintf(name, NAME_SIZE, "%.*s", (int)strcspn(p, ","), p);
    else if (o.queues == 1)
        snprintf(name, NAME_SIZE, "%s", o.queue);
    else
        snprintf(name, NAME_SIZE, "%s-%lld", o.queue, (long long)i);
}

static void open_queues(leat_client *c)
{
    char name[NAME_SIZE];
    if (o.queues < 1 || o.queues > QUEUES)
        worker_die("queues", NULL);
    for (int64_t i = 0; i < o.queues; i++) {
        name_queue(name, i);
        queues[i] = open_queue(c, name);
    }
}

static void close_queues(void)
{
    for (int64_t i = 0; i < o.queues; i++)
        leat_queue_close(queues[i]);
}

/* ---- producing -------------------------------------------------------- */

static uint64_t *last_seq; /* of each key */

typedef struct parcel {
    uint64_t id;
    char key[32], text[24];
    char *body;
} parcel;

static parcel parcels[MOST];

static leat_msg pack(parcel *p, int64_t key)
{
    p->id = (uint64_t)key << 32 | ++last_seq[key - o.key];
    snprintf(p->key, sizeof p->key, "key-%lld", (long long)key);
    snprintf(p->text, sizeof p->text, "%llu", (unsigned long long)p->id);
    int n = snprintf(p->body, BODY_SIZE, "n=%llu;", (unsigned long long)p->id);
    leat_msg m = { .key = leat_str(p->key), .body = leat_mem(p->body, n) };
    if (o.given)
        m.id = leat_str(p->text);
    int64_t size = o.large && worker_delay(p->id, o.large) == 0 ? LARGE
                                                                : o.size;
    if (size > n && size < BODY_SIZE) {
        memset(p->body + n, 'x', (size_t)(size - n));
        m.body.n = (size_t)size;
    }
    return m;
}

/* The keys of a queue, in turn. */
static int64_t next_key(int64_t at)
{
    static int64_t turn[QUEUES];
    int64_t first = o.key + (at + o.queues - o.key % o.queues) % o.queues;
    int64_t many = (o.keys - (first - o.key) + o.queues - 1) / o.queues;
    return first + o.queues * (turn[at]++ % many);
}

static void send_some(int64_t at, int64_t n)
{
    leat_msg m[MOST] = { 0 };
    leat_queue_send_opts how[MOST] = { 0 };
    leat_queue_sent sent[MOST] = { 0 };
    leat_error e = { 0 };
    for (int64_t i = 0; i < n; i++) {
        m[i] = pack(&parcels[i], next_key(at));
        if (o.later)
            how[i].delay_ms = worker_delay(parcels[i].id, o.later) + 1;
        note(LEDGER_ATTEMPT, parcels[i].id);
    }
    leat_code rc = leat_queue_send_batch(queues[at], m, (size_t)n, how, sent,
                                         &e);
    if (rc != LEAT_OK && o.link.log >= LEAT_LOG_INFO)
        fprintf(stderr, "send: %s\n", e.msg);
    for (int64_t i = 0; i < n; i++)
        note(worker_outcome(sent[i].code), parcels[i].id);
}

static void produce(void)
{
    int64_t start = wait_now_ns(), sent = 0;
    for (int64_t turn = 0; !worker_stopping && (o.count == 0 || sent < o.count);
         turn++) {
        int64_t left = o.count ? o.count - sent : o.batch;
        int64_t n = left < o.batch ? left : o.batch;
        send_some(turn % o.queues, n);
        sent += n;
        worker_pace(start, o.rate, sent);
    }
}

static int producer(const char *dir, const char *role)
{
    o.batch = o.batch ? o.batch : 1;
    last_seq = calloc((size_t)o.keys, sizeof *last_seq);
    if (!last_seq || o.batch > MOST || o.keys < o.queues)
        return 1;
    for (int i = 0; i < MOST; i++)
        if (!(parcels[i].body = malloc(BODY_SIZE)))
            return 1;
    worker_recall(dir, role, (uint64_t)o.key, (uint64_t)o.keys, last_seq);
    book = ledger_open(dir, role);
    if (!book)
        return 1;
    produce();
    ledger_close(book);
    for (int i = 0; i < MOST; i++)
        free(parcels[i].body);
    free(last_seq);
    return 0;
}

/* ---- handling --------------------------------------------------------- */

/* One receive of one message. */
typedef struct visit {
    uint64_t id, receipt;
    uint32_t receives;
    int64_t begun_ns;
} visit;

static uint64_t number_of(const leat_msg *m)
{
    char text[32];
    size_t n = m->body.n < sizeof text ? m->body.n : sizeof text - 1;
    if (n < 3 || memcmp(m->body.p, "n=", 2) != 0)
        worker_die("a message that nobody sent", NULL);
    memcpy(text, m->body.p, n);
    text[n] = '\0';
    return strtoull(text + 2, NULL, 10);
}

static void tell(ledger_kind kind, const visit *v, uint64_t detail,
                 int64_t fence)
{
    write_down(kind, (ledger_record){ .id = v->id,
                                      .fence = (uint64_t)fence,
                                      .detail = v->receipt << 16 |
                                                (detail & 0xffff) });
}

static void spend(int64_t ms)
{
    int64_t end = wait_now_ms() + ms;
    if (!o.busy)
        wait_nap(ms);
    while (wait_now_ms() < end)
        ;
}

/* LEAT_ACK if it had its effect. */
static leat_verdict work(const visit *v)
{
    uint32_t times;
    tell(LEDGER_DELIVERY, v, v->receives, v->begun_ns);
    failpoint("before_effect");
    if (o.work)
        spend(o.work);
    if (v->id == (uint64_t)o.slow && v->receives == 1)
        spend(o.slow_ms);
    worker_fate f = worker_fate_of(&o.fates, v->id, &times);
    if (f == WORKER_CRASHER)
        (void)kill(getpid(), SIGKILL);
    if (f == WORKER_POISON || (f == WORKER_FLAKY && v->receives <= times))
        return LEAT_NACK;
    if (f == WORKER_REJECTED)
        return LEAT_REJECT;
    tell(LEDGER_EFFECT, v, v->receives, v->begun_ns);
    failpoint("after_effect");
    return LEAT_ACK;
}

/* ---- directly --------------------------------------------------------- */

static void settled(const visit *v, int64_t begun_ns, leat_code rc)
{
    tell(LEDGER_SETTLED, v, (uint64_t)rc, begun_ns);
    failpoint("after_settle");
}

static void settle(leat_queue *q, const visit *v, leat_bytes receipt,
                   leat_verdict how)
{
    leat_error e = { 0 };
    int64_t begun = wait_now_ns();
    leat_code rc;
    if (how == LEAT_ACK) {
        rc = leat_queue_ack(q, receipt, &e);
        settled(v, begun, rc);
    } else if (how == LEAT_NACK) {
        rc = leat_queue_change_visibility(q, receipt, o.delay, &e);
    } else {
        rc = leat_queue_reject(q, receipt, "never", &e);
    }
    if (rc == LEAT_EINVAL || rc == LEAT_EPROTO)
        worker_die("settle", &e);
}

/* Those that had their effect, all at once. */
typedef struct heap {
    leat_bytes receipt[MOST];
    visit of[MOST];
    size_t n;
} heap;

static void ack_heap(leat_queue *q, heap *h)
{
    leat_code rc[MOST];
    leat_error e = { 0 };
    int64_t begun = wait_now_ns();
    if (h->n == 0)
        return;
    (void)leat_queue_ack_batch(q, h->receipt, h->n, rc, &e);
    for (size_t i = 0; i < h->n; i++)
        settled(&h->of[i], begun, rc[i]);
    h->n = 0;
}

static visit visit_of(const leat_queue_item *it, int64_t begun_ns)
{
    return (visit){ .id = number_of(&it->msg),
                    .receipt = ledger_hash(it->receipt.p, it->receipt.n) >> 16,
                    .receives = it->receives,
                    .begun_ns = begun_ns };
}

static leat_verdict work_held(leat_queue *q, const visit *v, leat_bytes receipt)
{
    leat_error e = { 0 };
    leat_queue_hold *h = NULL;
    int64_t ms = o.hide ? o.hide : o.visibility;
    /* Without one it is a receiver that may be too slow. */
    if (o.hold && !(h = leat_queue_hold_start(q, receipt, ms, &e)) &&
        e.code == LEAT_EINVAL)
        worker_die("hold", &e);
    leat_verdict how = work(v);
    leat_queue_hold_end(h);
    return how;
}

static void handle(leat_queue *q, const leat_queue_batch *b, int64_t begun_ns,
                   heap *acks)
{
    for (size_t i = 0; i < leat_queue_batch_count(b); i++) {
        const leat_queue_item *it = leat_queue_batch_at(b, i);
        visit v = visit_of(it, begun_ns);
        if (worker_stopping) { /* somebody else, at once */
            (void)leat_queue_change_visibility(q, it->receipt, 0, NULL);
            continue;
        }
        leat_verdict how = work_held(q, &v, it->receipt);
        if (how == LEAT_ACK && strcmp(o.ack, "batch") == 0) {
            acks->receipt[acks->n] = it->receipt;
            acks->of[acks->n++] = v;
        } else {
            settle(q, &v, it->receipt, how);
        }
    }
    ack_heap(q, acks);
}

static void *receive_all(void *arg)
{
    leat_queue *q = arg;
    heap *acks = calloc(1, sizeof *acks);
    while (acks && !worker_stopping) {
        leat_error e = { 0 };
        int64_t begun = wait_now_ns();
        leat_queue_batch *b = leat_queue_receive(
            q,
            &(leat_receive_opts){ .max = (int)o.batch,
                                  .wait_ms = o.wait,
                                  .visibility_ms = o.hide },
            &e);
        if (!b && e.code == LEAT_ENOENT && !o.again)
            break; /* removed */
        if (!b && !e.retriable && e.code != LEAT_ENOENT &&
            e.code != LEAT_EUNKNOWN)
            worker_die("receive", &e);
        if (!b) {
            wait_nap(5);
            continue;
        }
        if (leat_queue_batch_count(b) > 0)
            failpoint("received");
        handle(q, b, begun, acks);
        leat_queue_batch_free(b);
    }
    free(acks);
    return NULL;
}

/* Until it is to end: by a signal, or by the end of its stdin. */
static void await_end(void)
{
    struct pollfd p = { .fd = 0, .events = POLLIN };
    char c;
    while (!worker_stopping) {
        if (!o.led)
            wait_nap(5);
        else if (poll(&p, 1, 20) > 0 && read(0, &c, 1) <= 0)
            worker_stopping = 1;
    }
}

static int consume_directly(void)
{
    pthread_t t[QUEUES];
    for (int64_t i = 0; i < o.queues; i++)
        if (pthread_create(&t[i], NULL, receive_all, queues[i]) != 0)
            return 1;
    await_end();
    for (int64_t i = 0; i < o.queues; i++)
        leat_queue_interrupt(queues[i]);
    for (int64_t i = 0; i < o.queues; i++)
        pthread_join(t[i], NULL);
    return 0;
}

/* ---- by the runner ---------------------------------------------------- */

static leat_verdict answer(leat_ctx *x, const visit *v)
{
    leat_verdict how = work(v);
    if (how == LEAT_NACK)
        return leat_ctx_nack(x, o.delay);
    return how == LEAT_REJECT ? leat_ctx_reject(x, "never") : how;
}

static leat_verdict run_one(leat_ctx *x, void *arg)
{
    const leat_delivery *d = leat_ctx_delivery(x);
    leat_bytes receipt = ((const source_slot *)d)->receipt;
    visit v = { .id = number_of(leat_ctx_msg(x)),
                .receipt = ledger_hash(receipt.p, receipt.n) >> 16,
                .receives = leat_delivery_attempt(d) };
    (void)arg;
    return answer(x, &v);
}

/* The runner's own, which is told as well. */
static _Atomic(leat__settled_fn *) runners;

/* What was acknowledged, and is so on the server. */
static void on_settled_too(void *arg, const leat_delivery *d,
                           const leat_error *e)
{
    const source_slot *slot = (const source_slot *)d;
    visit v = { .id = number_of(leat_delivery_msg(d)),
                .receipt = ledger_hash(slot->receipt.p, slot->receipt.n) >> 16,
                .receives = leat_delivery_attempt(d) };
    if (slot->verdict == LEAT__SETTLE_ACK)
        tell(LEDGER_SETTLED, &v, e ? (uint64_t)e->code : LEAT_OK, 0);
    atomic_load (&runners)(arg, d, e);
}

/* Between it and what it asked for: a single store, whatever threads run. */
static void listen_too(leat_source *s, leat__settled_fn *fn)
{
    if (s->on_settled == fn)
        return;
    atomic_store(&runners, s->on_settled);
    __atomic_store_n(&s->on_settled, fn, __ATOMIC_SEQ_CST);
}

static leat_run *start_runner(leat_queue *q)
{
    leat_error e = { 0 };
    leat_run_opts opts = { .threads = (int)o.threads,
                           .max_in_flight = (int)o.in_flight,
                           .batch = (int)o.batch,
                           .log = { worker_log, NULL,
                                    (leat_level)o.link.log } };
    leat_queue_source_opts how = { .visibility_ms = o.hide };
    leat_source *s = leat_queue_source(q, &how, &e);
    leat_run *r = leat_run_start(s, run_one, NULL, &opts, &e);
    if (!r)
        worker_die("run", &e);
    listen_too(s, on_settled_too);
    return r;
}

/* Whose queue was removed ends; with the next of its name it begins anew. */
static void begin_anew(leat_run **r, int64_t i)
{
    leat_run_stats v;
    leat_error e = { 0 };
    leat_run_stats_get(*r, &v);
    if (!o.again || !v.failed)
        return;
    if (leat_run_stop(*r, WORKER_END_MS, &e) != LEAT_ENOENT)
        worker_die("the source failed", &e);
    *r = start_runner(queues[i]);
}

static int consume_by_runners(void)
{
    leat_run *r[QUEUES];
    int code = 0;
    leat_error e = { 0 };
    for (int64_t i = 0; i < o.queues; i++)
        r[i] = start_runner(queues[i]);
    while (o.again && !worker_stopping) {
        for (int64_t i = 0; i < o.queues; i++)
            begin_anew(&r[i], i);
        wait_nap(50);
    }
    await_end();
    for (int64_t i = 0; i < o.queues; i++)
        if (leat_run_stop(r[i], WORKER_END_MS, &e) == LEAT_ETIMEOUT)
            code = 3;
    return code;
}

/* ---- by a pool -------------------------------------------------------- */

static visit pool_visit(const leat_delivery *d)
{
    leat_bytes receipt = ((const pool_slot *)d)->receipt;
    return (visit){ .id = number_of(leat_delivery_msg(d)),
                    .receipt = ledger_hash(receipt.p, receipt.n) >> 16,
                    .receives = leat_delivery_attempt(d) };
}

static void on_pool_settled(void *arg, const leat_delivery *d,
                            const leat_error *e)
{
    visit v = pool_visit(d);
    if (((const pool_slot *)d)->verdict <= POOL_COMMITTED)
        tell(LEDGER_SETTLED, &v, e ? (uint64_t)e->code : LEAT_OK, 0);
    atomic_load (&runners)(arg, d, e);
}

/* The pool's source is its own: the first message leads to it. */
static pthread_once_t listening = PTHREAD_ONCE_INIT;
static leat_source *pools;

static void listen_to_pool(void)
{
    listen_too(pools, on_pool_settled);
}

static leat_verdict pool_one(leat_ctx *x, void *arg)
{
    const leat_delivery *d = leat_ctx_delivery(x);
    visit v = pool_visit(d);
    (void)arg;
    __atomic_store_n(&pools, d->source, __ATOMIC_SEQ_CST);
    pthread_once(&listening, listen_to_pool);
    return answer(x, &v);
}

static int consume_by_pool(leat_client *c)
{
    leat_error e = { 0 };
    leat_pool_opts opts = { .workers = (int)o.threads,
                            .visibility_ms = o.hide,
                            .log = { worker_log, NULL,
                                     (leat_level)o.link.log } };
    leat_pool *p = leat_pool_start(c, pool_one, NULL, &opts, &e);
    if (!p)
        worker_die("pool", &e);
    await_end();
    return leat_pool_stop(p, WORKER_END_MS, &e) == LEAT_ETIMEOUT ? 3 : 0;
}

static int consumer(leat_client *c, const char *dir, const char *role)
{
    o.batch = o.batch ? o.batch : 10;
    book = ledger_open(dir, role);
    if (!book || o.batch > MOST)
        return 1;
    if (o.led)
        worker_say_ready();
    int code = strcmp(o.api, "direct") == 0 ? consume_directly()
               : strcmp(o.api, "run") == 0  ? consume_by_runners()
                                            : consume_by_pool(c);
    worker_write(book, LEDGER_END, (ledger_record){ 0 });
    ledger_close(book);
    return code;
}

/* ---- care ------------------------------------------------------------- */

static int say_done(leat_code rc, int64_t n, const leat_error *e)
{
    if (rc != LEAT_OK)
        fprintf(stderr, "worker %d: %s\n", (int)getpid(), e->msg);
    if (o.led)
        printf("done %lld\n", (long long)n);
    return rc == LEAT_OK ? 0 : 1;
}

static int redrive(leat_client *c)
{
    leat_error e = { 0 };
    int64_t n = 0;
    (void)c;
    leat_code rc = leat_queue_redrive(
        queues[0], &(leat_redrive_opts){ .max = o.of, .rate = (double)o.rate },
        &n, &e);
    return say_done(rc, n, &e);
}

static int purge(leat_client *c)
{
    leat_error e = { 0 };
    int64_t n = 0;
    (void)c;
    leat_code rc = leat_queue_purge(queues[0], false, &n, &e);
    return say_done(rc, n, &e);
}

static int remove_it(leat_client *c)
{
    leat_error e = { 0 };
    leat_code rc = leat_queue_remove(c, o.queue, NULL, &e);
    return say_done(rc, 0, &e);
}

static int work_as(const char *verb, leat_client *c, const char *dir,
                   const char *role)
{
    if (strcmp(verb, "produce") == 0)
        return producer(dir, role);
    if (strcmp(verb, "consume") == 0)
        return consumer(c, dir, role);
    return strcmp(verb, "redrive") == 0 ? redrive(c)
           : strcmp(verb, "purge") == 0 ? purge(c)
                                        : remove_it(c);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: queue_worker VERB URL DIR ROLE "
                        "[option=value ...]\n");
        return 1;
    }
    worker_signals();
    worker_parse(options, sizeof options / sizeof *options, argv + 5);
    leat_client *c = worker_dial(argv[2], &o.link);
    open_queues(c);
    int code = work_as(argv[1], c, argv[3], argv[4]);
    close_queues();
    leat_client_close(c);
    return code;
}
