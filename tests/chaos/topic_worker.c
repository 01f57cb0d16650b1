/*
 * topic_worker.c: a process of the chaos run `topic` and of the scenarios.
 *
 *   topic_worker produce URL DIR ROLE [option=value ...]
 *   topic_worker consume URL DIR ROLE [option=value ...]
 *
 * A producer publishes numbered messages of its keys, in turn.  Attempts and
 * outcomes go to its ledger; no number is ever used again, so that what appears
 * twice was sent twice by the library: after a kill it goes on behind the
 * highest in its ledgers.
 *
 *   key=N keys=N    its keys, from this number on (1, 16)
 *   count=N         end after so many (0: at SIGTERM); each must be persisted
 *   rate=N          a second at most (0: as fast as it goes)
 *   timeout=MS      to be sent while the server is away (60000)
 *   window=N        sent and unconfirmed (64)
 *   republish=N     bytes held to be published again after a loss (0)
 *   later=MS        each is delayed, by any time up to this (0: none is)
 *   large=N         one in N has a body that is kept beside the log (0: none)
 *
 * A consumer writes down each delivery, effect, outcome of a settlement and
 * change of ownership, with partition and fence; and when it takes a partition,
 * what is settled there.
 *
 *   name=TEXT       its stable name in the group ("": none)
 *   lease=MS drain=MS block=MS in_flight=N batch=N order=partition|key|none
 *   work=MS         every handler takes so long
 *   slow=ID:MS      one takes that long, once: message ID (key << 32 | seq)
 *   limit=MS        the runner's max_processing_ms
 *   threads=N       of the runner (4); 0: receive, settle and flush in a loop
 *   max=N           times a message is handed out before it is a dead letter
 *   delay=MS        before the first retry (0: the library's), most_delay=MS;
 *   jitter=0        so long exactly; 2: as the group has it, like order=any
 *   fail_key=N      messages of this key fail while there is a file
 *   fail_file=PATH
 *
 * Some messages have a fate, which follows from their number alone (worker.h),
 * so many of a thousand:
 *
 *   poison=N        always fail
 *   flaky=N         fail at first, fewer times than max
 *   reject=N        are rejected
 *   crash=N         kill the process that handles them
 *
 * Both: topic=NAME partitions=N group=NAME answer=MS (the client's timeout),
 * durability=N (the class of leat_durability: 0), replicas=N of it, log=LEVEL
 * (1: errors), led=1: orders are lines on stdin, `stats` and `quit`; its end is
 * quit too.
 *
 * The places of the failpoints: received, before_effect, after_effect,
 * after_settle (settled, perhaps not sent), after_flush (surely sent).
 *
 * SIGTERM ends it in order.  Exit 0: all is well; 1: it cannot work; 3: it
 * could not end so; 4: the group has other settings than this member asks for.
 */
#include "message/source.h"
#include "support/failpoint.h"
#include "support/wait.h"
#include "support/worker.h"
#include "topic/consumer.h"
#include "topic/window_inside.h"

#include <leat/leat.h>
#include <leat/topic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BATCH = 64,
    KEY_SIZE = 32,
    WHY_SIZE = 256,
    LARGE = 70000, /* bytes: more than a log keeps itself */
    REFUSED = 4
};

static struct {
    const char *topic, *group, *name, *order, *fail_file;
    worker_link link;
    int64_t partitions, led;
    int64_t key, keys, count, rate, timeout, window, republish, later, large;
    int64_t lease, drain, block, in_flight, batch, work, limit, threads;
    int64_t delay, most_delay, jitter, fail_key;
    worker_fates fates;
    uint64_t slow_id;
    int64_t slow_ms;
} o = { .topic = "orders",
        .group = "billing",
        .name = "",
        .order = "partition",
        .partitions = 4,
        .link = { .answer = 1000, .log = LEAT_LOG_ERROR },
        .key = 1,
        .keys = 16,
        .timeout = 60000,
        .window = 64,
        .lease = 2000,
        .drain = 5000,
        .block = 200,
        .in_flight = 64,
        .batch = 32,
        .threads = 4,
        .jitter = 1 };

static ledger *book;

/* ---- options ---------------------------------------------------------- */

static const char *slow;

static const worker_option options[] = {
    { "topic", &o.topic, NULL },
    { "group", &o.group, NULL },
    { "name", &o.name, NULL },
    { "order", &o.order, NULL },
    { "fail_file", &o.fail_file, NULL },
    { "partitions", NULL, &o.partitions },
    { "answer", NULL, &o.link.answer },
    { "led", NULL, &o.led },
    { "durability", NULL, &o.link.durability },
    { "replicas", NULL, &o.link.replicas },
    { "log", NULL, &o.link.log },
    { "republish", NULL, &o.republish },
    { "later", NULL, &o.later },
    { "large", NULL, &o.large },
    { "key", NULL, &o.key },
    { "keys", NULL, &o.keys },
    { "count", NULL, &o.count },
    { "rate", NULL, &o.rate },
    { "window", NULL, &o.window },
    { "timeout", NULL, &o.timeout },
    { "lease", NULL, &o.lease },
    { "drain", NULL, &o.drain },
    { "block", NULL, &o.block },
    { "in_flight", NULL, &o.in_flight },
    { "batch", NULL, &o.batch },
    { "work", NULL, &o.work },
    { "limit", NULL, &o.limit },
    { "threads", NULL, &o.threads },
    { "max", NULL, &o.fates.max },
    { "delay", NULL, &o.delay },
    { "most_delay", NULL, &o.most_delay },
    { "jitter", NULL, &o.jitter },
    { "fail_key", NULL, &o.fail_key },
    { "poison", NULL, &o.fates.poison },
    { "flaky", NULL, &o.fates.flaky },
    { "reject", NULL, &o.fates.reject },
    { "crash", NULL, &o.fates.crash },
    { "slow", &slow, NULL },
};

static void parse(char **words)
{
    char *rest = NULL;
    worker_parse(options, sizeof options / sizeof *options, words);
    if (!slow)
        return;
    o.slow_id = strtoull(slow, &rest, 10);
    o.slow_ms = *rest == ':' ? strtoll(rest + 1, NULL, 10) : 0;
}

/* What the library found to be lost, as it was told. */
static void on_loss(void *arg, const leat_loss *l)
{
    (void)arg;
    ledger_record r = { .key = l->from.ms,
                        .seq = l->from.seq,
                        .id = l->to.ms,
                        .fence = l->to.seq,
                        .detail = (l->exact ? l->count : 0) << 16 |
                                  (l->partition + 1) };
    worker_write(book, LEDGER_LOSS, r);
}

static leat_topic *open_topic(leat_client *c)
{
    leat_topic_opts opts = { .auto_create = true,
                             .partitions = (int)o.partitions,
                             .window = (int)o.window,
                             .max_queued = 4096,
                             .timeout_ms = o.timeout,
                             .on_loss = on_loss,
                             .republish_bytes = (size_t)o.republish,
                             .log = { worker_log, NULL,
                                      (leat_level)o.link.log } };
    int64_t end = wait_now_ms() + WORKER_OPEN_MS;
    leat_error e = { 0 };
    for (;;) {
        leat_topic *t = leat_topic_open(c, o.topic, &opts, &e);
        if (t)
            return t;
        worker_again_or_die("topic", &e, end);
    }
}

/* ---- producing -------------------------------------------------------- */

static uint64_t *last_seq; /* of each key */
static uint32_t *parts;    /* likewise, where they go */

static void note(ledger_kind kind, uint64_t id)
{
    worker_write(
        book, kind,
        (ledger_record){ .key = id >> 32, .seq = id & 0xffffffff, .id = id });
}

static void note_at(uint64_t id, const leat_position *at)
{
    ledger_record r = { .key = id >> 32,
                        .seq = id & 0xffffffff,
                        .id = id,
                        .fence = at->ms,
                        .detail = at->seq << 16 |
                                  (parts[(id >> 32) - (uint64_t)o.key] + 1) };
    worker_write(book, LEDGER_ACK, r);
}

/* arg is the id itself. */
static void on_published(void *arg, const leat_position *at,
                         const leat_error *e)
{
    uint64_t id = (uint64_t)(uintptr_t)arg;
    if (!e && at->ms == 0 && at->seq == 0 && o.later == 0)
        worker_die("persisted nowhere", NULL);
    if (!e)
        note_at(id, at);
    else
        note(worker_outcome(e->code), id);
}

static void name_key(char key[KEY_SIZE], int64_t i)
{
    snprintf(key, KEY_SIZE, "key-%lld", (long long)o.key + i);
}

static void find_partitions(leat_topic *t)
{
    char key[KEY_SIZE];
    leat_error e = { 0 };
    for (int64_t i = 0; i < o.keys; i++) {
        name_key(key, i);
        leat_msg m = { .key = leat_str(key) };
        if (leat_topic_partition_of(t, &m, &parts[i], &e) != LEAT_OK)
            worker_die("no partition", &e);
    }
}

/* It begins with the number.  Where it is kept beside the log the message's id
 * is the number, too: whoever reads the log finds it there. */
static leat_msg message_of(uint64_t id, const char *key, char body[64])
{
    static char large[LARGE];
    int n = snprintf(body, 64, "%llu", (unsigned long long)id);
    leat_msg m = { .key = leat_str(key), .body = leat_str(body) };
    if (o.large && worker_delay(id, o.large) == 0) {
        memset(large, ' ', LARGE);
        memcpy(large, body, (size_t)n);
        m.body = leat_mem(large, LARGE);
        m.id = leat_str(body);
    }
    return m;
}

static void publish(leat_topic *t, int64_t i)
{
    char key[KEY_SIZE], body[64];
    leat_error e = { 0 };
    uint64_t number = (uint64_t)(o.key + i);
    uint64_t id = number << 32 | ++last_seq[i];
    name_key(key, i);
    note(LEDGER_ATTEMPT, id);
    leat_msg m = message_of(id, key, body);
    void *arg = (void *)(uintptr_t)id;
    leat_code rc = o.later ? leat_topic_publish_later(t, &m,
                                                      worker_delay(id, o.later),
                                                      on_published, arg, &e)
                           : leat_topic_publish(t, &m, on_published, arg, &e);
    if (rc != LEAT_OK)
        note(worker_outcome(rc), id);
}

/* One more of each key must be persisted, or the topic is of no use. */
static int produce(leat_topic *t)
{
    int64_t start = wait_now_ns(), sent = 0;
    leat_error e = { 0 };
    for (; !worker_stopping && (o.count == 0 || sent < o.count); sent++) {
        publish(t, sent % o.keys);
        worker_pace(start, o.rate, sent);
    }
    if (leat_topic_flush(t, WORKER_END_MS, &e) != LEAT_OK)
        return 3;
    if (o.count)
        return 0;
    for (int64_t i = 0; i < o.keys; i++)
        publish(t, i);
    return leat_topic_flush(t, WORKER_END_MS, &e) == LEAT_OK ? 0 : 3;
}

static int run_producer(leat_client *c, const char *dir, const char *role)
{
    last_seq = calloc((size_t)o.keys, sizeof *last_seq);
    parts = calloc((size_t)o.keys, sizeof *parts);
    if (!last_seq || !parts)
        return 1;
    worker_recall(dir, role, (uint64_t)o.key, (uint64_t)o.keys, last_seq);
    book = ledger_open(dir, role);
    if (!book)
        return 1;
    leat_topic *t = open_topic(c);
    find_partitions(t);
    int code = produce(t);
    leat_topic_close(t);
    ledger_close(book);
    free(parts);
    free(last_seq);
    return code;
}

/* ---- consuming -------------------------------------------------------- */

static uint64_t number_of(const leat_delivery *d)
{
    char text[32];
    leat_bytes body = leat_delivery_msg(d)->body;
    snprintf(text, sizeof text, "%.*s", (int)body.n, (const char *)body.p);
    return strtoull(text, NULL, 10);
}

static void write_down(ledger_kind kind, const leat_delivery *d,
                       uint64_t detail)
{
    uint64_t id = number_of(d);
    ledger_record r = { .key = id >> 32,
                        .seq = id & 0xffffffff,
                        .id = id,
                        .place = (uint64_t)leat_delivery_partition(d) + 1,
                        .fence = leat_delivery_fence(d),
                        .detail = detail };
    if (id == 0)
        worker_die("a message that nobody sent", leat_delivery_error(d));
    worker_write(book, kind, r);
    if (kind == LEDGER_DELIVERY && id == o.slow_id &&
        leat_delivery_attempt(d) == 1)
        wait_nap(o.slow_ms);
}

static bool is_denied(uint64_t id)
{
    return o.fail_file && id >> 32 == (uint64_t)o.fail_key &&
           access(o.fail_file, F_OK) == 0;
}

/* 0: it waited beside the log, and came from there. */
static uint64_t place_in_log(const leat_delivery *d)
{
    leat_position at = leat_delivery_position(d);
    return ((const handed *)d)->kept ? 0 : ledger_at(at.ms, at.seq);
}

/* What becomes of it: LEAT_ACK if it had its effect; else with a reason. */
static leat_verdict work(const leat_delivery *d, char why[WHY_SIZE])
{
    uint32_t attempt = leat_delivery_attempt(d), times;
    uint64_t id = number_of(d);
    if (leat_delivery_error(d)) {
        snprintf(why, WHY_SIZE, "%s", leat_delivery_error(d)->msg);
        return LEAT_REJECT;
    }
    write_down(LEDGER_DELIVERY, d, attempt);
    failpoint("before_effect");
    if (o.work)
        wait_nap(o.work);
    worker_fate f = worker_fate_of(&o.fates, id, &times);
    if (f == WORKER_CRASHER)
        (void)kill(getpid(), SIGKILL);
    if (f == WORKER_POISON || (f == WORKER_FLAKY && attempt <= times) ||
        is_denied(id)) {
        snprintf(why, WHY_SIZE, "no %llu", (unsigned long long)id);
        return LEAT_NACK;
    }
    if (f == WORKER_REJECTED) {
        snprintf(why, WHY_SIZE, "never %llu", (unsigned long long)id);
        return LEAT_REJECT;
    }
    write_down(LEDGER_EFFECT, d, place_in_log(d));
    failpoint("after_effect");
    return LEAT_ACK;
}

static leat_verdict handler(leat_ctx *x, void *arg)
{
    char why[WHY_SIZE];
    (void)arg;
    leat_verdict v = work(leat_ctx_delivery(x), why);
    if (v == LEAT_ACK)
        return v;
    return v == LEAT_NACK ? leat_ctx_fail(x, why) : leat_ctx_reject(x, why);
}

static leat_code settle(leat_delivery *d)
{
    char why[WHY_SIZE];
    leat_verdict v = work(d, why);
    if (v == LEAT_ACK)
        return leat_delivery_ack(d);
    return v == LEAT_NACK ? leat_delivery_fail(d, why)
                          : leat_delivery_reject(d, why);
}

static void on_settled(void *arg, const leat_delivery *d, const leat_error *e)
{
    (void)arg;
    if (leat_delivery_error(d))
        return;
    write_down(LEDGER_SETTLED, d, e ? (uint64_t)e->code : LEAT_OK);
}

/* The runner's own, which is told first. */
static leat__settled_fn *runners;

static void on_settled_too(void *arg, const leat_delivery *d,
                           const leat_error *e)
{
    runners(arg, d, e);
    on_settled(NULL, d, e);
}

/* Between it and what it asked for: a single store, whatever threads run. */
static void listen_too(leat_source *s)
{
    runners = s->on_settled;
    __atomic_store_n(&s->on_settled, on_settled_too, __ATOMIC_SEQ_CST);
}

static leat_source *_Atomic joined;

static void write_settled(uint32_t partition, uint64_t epoch, leat__id first,
                          leat__id last)
{
    ledger_record r = { .key = ledger_at(first.ms, first.seq),
                        .seq = ledger_at(last.ms, last.seq),
                        .place = (uint64_t)partition + 1,
                        .fence = epoch };
    worker_write(book, LEDGER_TAKEN, r);
}

/* What the server said to be settled, before anything of it is handed out.  The
 * first time the source may be about to be returned. */
static void write_taken(uint32_t partition, uint64_t epoch)
{
    leat_source *s;
    while (!(s = atomic_load(&joined)))
        wait_nap(1);
    const leat__window *w = ((const consumer *)s)->parts[partition]->window;
    write_settled(partition, epoch, (leat__id){ 0, 0 }, w->cursor);
    for (size_t i = 0; i < w->recall.range_n; i++)
        write_settled(partition, epoch, w->recall.ranges[i].first,
                      w->recall.ranges[i].last);
}

static void on_assign(void *arg, leat_assign what, uint32_t partition,
                      uint64_t epoch)
{
    (void)arg;
    ledger_record r = { .place = (uint64_t)partition + 1,
                        .fence = epoch,
                        .detail = (uint64_t)what };
    if (what == LEAT_ASSIGNED)
        write_taken(partition, epoch);
    worker_write(book, LEDGER_OWNER, r);
}

static leat_source *join_group(leat_topic *t)
{
    leat_topic_source_opts opts = {
        .name = *o.name ? o.name : NULL,
        .order = strcmp(o.order, "key") == 0    ? LEAT_ORDER_KEY
                 : strcmp(o.order, "none") == 0 ? LEAT_ORDER_NONE
                 : strcmp(o.order, "any") == 0  ? LEAT_ORDER_UNSET
                                                : LEAT_ORDER_PARTITION,
        .batch = (int)o.batch,
        .max_in_flight = (int)o.in_flight,
        .lease_ms = o.lease,
        .block_ms = o.block,
        .drain_ms = o.drain,
        .retry = { .max_attempts = (int)o.fates.max,
                   .delay_ms = o.delay,
                   .max_delay_ms = o.most_delay,
                   .jitter = o.jitter > 1 ? LEAT_UNSET
                             : o.jitter   ? LEAT_YES
                                          : LEAT_NO },
        .on_assign = on_assign
    };
    int64_t end = wait_now_ms() + WORKER_OPEN_MS;
    leat_error e = { 0 };
    for (;;) {
        leat_source *s = leat_topic_source(t, o.group, &opts, &e);
        atomic_store(&joined, s);
        if (s)
            return s;
        if (e.code == LEAT_EINVAL)
            _exit(REFUSED);
        worker_again_or_die("source", &e, end);
    }
}

static void say_stats(leat_source *s)
{
    leat_topic_source_stats v;
    leat_topic_source_stats_get(s, &v);
    printf("stats partitions=%u members=%u received=%llu redelivered=%llu "
           "settled=%llu stale=%llu in_flight=%llu retries=%llu dead=%llu "
           "waiting=%llu\n",
           v.partitions, v.members, (unsigned long long)v.received,
           (unsigned long long)v.redelivered, (unsigned long long)v.settled,
           (unsigned long long)v.stale, (unsigned long long)v.in_flight,
           (unsigned long long)v.retries, (unsigned long long)v.dead,
           (unsigned long long)v.waiting);
    (void)fflush(stdout);
}

/* Orders, for up to ms. */
static void obey(leat_source *s, int ms)
{
    struct pollfd p = { .fd = 0, .events = POLLIN };
    char line[80] = "";
    if (!o.led) {
        wait_nap(ms);
        return;
    }
    if (poll(&p, 1, ms) <= 0)
        return;
    size_t n = 0;
    while (n + 1 < sizeof line && read(0, line + n, 1) == 1 && line[n] != '\n')
        n++;
    line[n] = '\0';
    if (strcmp(line, "stats") == 0)
        say_stats(s);
    else
        worker_stopping = 1;
}

static int run_it(leat_source *s)
{
    leat_error e = { 0 };
    leat_run_opts opts = { .threads = (int)o.threads,
                           .max_in_flight = (int)o.in_flight,
                           .batch = (int)o.batch,
                           .max_processing_ms = o.limit,
                           .log = { worker_log, NULL,
                                    (leat_level)o.link.log } };
    leat_run *r = leat_run_start(s, handler, NULL, &opts, &e);
    if (!r)
        worker_die("run", &e);
    listen_too(s);
    while (!worker_stopping) {
        leat_run_stats v;
        leat_run_stats_get(r, &v);
        if (v.failed)
            worker_stopping = 2;
        obey(s, 20);
    }
    leat_code rc = leat_run_stop(r, WORKER_END_MS, &e);
    if (worker_stopping == 2)
        worker_die("the source failed", &e);
    /* What was lost on the way is the successor's. */
    return rc == LEAT_ETIMEOUT ? 3 : 0;
}

static void take_turns(leat_source *s)
{
    leat_delivery *d[BATCH];
    leat_error e = { 0 };
    int n = leat_source_receive(s, d, BATCH, 50, &e);
    if (n < 0 && !e.retriable)
        worker_die("receive", &e);
    if (n <= 0)
        return;
    failpoint("received");
    for (int i = 0; i < n; i++) {
        if (settle(d[i]) != LEAT_OK)
            worker_die("settled twice", NULL);
        failpoint("after_settle");
    }
    if (leat_source_flush(s, o.lease, &e) == LEAT_OK)
        failpoint("after_flush");
}

static int loop_it(leat_source *s)
{
    leat__source_on_settled(s, on_settled, NULL);
    while (!worker_stopping) {
        take_turns(s);
        obey(s, 0);
    }
    leat_source_close(s);
    return 0;
}

static int run_consumer(leat_client *c, const char *dir, const char *role)
{
    book = ledger_open(dir, role);
    if (!book)
        return 1;
    leat_topic *t = open_topic(c);
    leat_source *s = join_group(t);
    if (o.led)
        worker_say_ready();
    int code = o.threads ? run_it(s) : loop_it(s);
    leat_topic_close(t);
    worker_write(book, LEDGER_END, (ledger_record){ 0 });
    ledger_close(book);
    return code;
}

int main(int argc, char **argv)
{
    if (argc < 5 ||
        (strcmp(argv[1], "produce") != 0 && strcmp(argv[1], "consume") != 0)) {
        fprintf(stderr, "usage: topic_worker produce|consume URL DIR ROLE "
                        "[option=value ...]\n");
        return 1;
    }
    worker_signals();
    parse(argv + 5);
    leat_client *c = worker_dial(argv[2], &o.link);
    int code = strcmp(argv[1], "produce") == 0
                   ? run_producer(c, argv[3], argv[4])
                   : run_consumer(c, argv[3], argv[4]);
    leat_client_close(c);
    return code;
}
