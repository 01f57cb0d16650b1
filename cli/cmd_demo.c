/*
 * cmd_demo.c: leat demo: a topic, three consumers, a kill -9 among them, and an
 * order that nobody can handle.
 *
 *   <prefix>:...   a topic "orders" of four partitions, under a prefix of its
 *                  own, leat-demo-<random>; removed at the end
 *
 * Without --url the server is private.  It and the ledgers live in a temporary
 * directory; processes and directory are gone when the command ends, also by
 * Ctrl-C.  After kill -9 the workers are ended by the kernel and the server by
 * itself, since its last user is gone; the next demo removes the directory.
 *
 * This process is the producer and leads; cmd_demo_worker.c consumes;
 * cmd_demo_ledger.c counts; cmd_demo_poison.c looks after that order;
 * cmd_demo_sweep.c after what an earlier one left.
 */
#include "demo.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    STOP_MS = 15000,   /* for the server and the workers to end          */
    READY_MS = 30000,  /* until every worker has a partition             */
    STALL_MS = 12000,  /* without any progress: what is missing is lost  */
    PUBLISH_MS = 4000, /* spread over so long at most                    */
    PER_MS = 5,        /* and over less where there are few              */
    TICK_MS = 20,
    BUSY_MS = 4, /* after a publish every worker has something in hands   */
    MAX_KEYS = 1000000
};

typedef struct demo {
    cli *c;
    leat_client *client;
    leat_topic *topic;
    char prefix[40];
    const char *dir;
    demo_worker workers[DEMO_WORKERS];
    int ledger;
    demo_ledger read;
    int64_t count, keys, published;
    bool kill, killed;
    demo_poisoned poison;
    atomic_bool unwritten; /* a record was not taken by the disk */
    leat_error refusal;    /* the first that publish refused     */
    progress bar;
} demo;

/* ---- publishing ------------------------------------------------------- */

typedef struct order {
    demo *d;
    uint64_t number;
} order;

static void on_published(void *arg, const leat_position *at,
                         const leat_error *err)
{
    order *o = arg;
    demo_record r = { .kind = DEMO_SENT, .number = o->number };
    (void)at;
    if (err)
        r.kind = err->code == LEAT_EUNKNOWN ? DEMO_UNKNOWN : DEMO_FAILED;
    if (!demo_write(o->d->ledger, r))
        atomic_store(&o->d->unwritten, true);
    free(o);
}

static leat_code publish_one(demo *d, leat_error *err)
{
    char id[32], key[32], body[64];
    int64_t n = d->published;
    order *o = grab(sizeof *o);
    *o = (order){ d, (uint64_t)n };
    snprintf(id, sizeof id, "order-%lld", (long long)n);
    snprintf(key, sizeof key, "customer-%lld", (long long)(n % d->keys));
    snprintf(body, sizeof body, "{\"order\":%lld}", (long long)n);
    leat_msg m = { .id = leat_str(id),
                   .key = leat_str(key),
                   .type = leat_str("leat.demo.order"),
                   .source = leat_str("leat demo"),
                   .content_type = leat_str("application/json"),
                   .body = leat_str(body) };
    leat_code code = leat_topic_publish(d->topic, &m, on_published, o, err);
    if (code == LEAT_OK)
        d->published++;
    else
        free(o);
    return code;
}

/* What is due by now. */
static leat_code publish(demo *d, int64_t start_ns, leat_error *err)
{
    int64_t ms = (now_ns() - start_ns) / 1000000;
    int64_t all_ms = d->count / PER_MS < PUBLISH_MS ? d->count / PER_MS + 1
                                                    : PUBLISH_MS;
    int64_t due = ms >= all_ms ? d->count : d->count * ms / all_ms;
    leat_code code = LEAT_OK;
    while (d->published < due && code == LEAT_OK && !stop_signal)
        code = publish_one(d, err);
    return code;
}

/* ---- the kill --------------------------------------------------------- */

static void say_over_bar(const demo *d)
{
    if (d->bar.tty && !report_quiet())
        fputs("\r\033[K", stderr);
}

/* The busiest, once a third is done and the poison order is out of the way: who
 * dies with it in hands does not tell that it failed. */
static void kill_one(demo *d)
{
    int n = 0;
    if (!d->kill || d->killed || d->read.handled < d->count / 3 ||
        d->poison.dead <= 0)
        return;
    for (int i = 1; i < DEMO_WORKERS; i++)
        if (d->read.by_worker[i] > d->read.by_worker[n])
            n = i;
    long pid = d->workers[n].pid;
    sleep_ms(BUSY_MS);
    (void)demo_write(
        d->ledger, (demo_record){ .kind = DEMO_KILLED, .worker = (uint32_t)n });
    kill((pid_t)pid, SIGKILL);
    d->killed = true;
    say_over_bar(d);
    note("worker %d of %d (process %ld) was killed with -9; its lease runs "
         "out in %d s",
         n + 1, DEMO_WORKERS, pid, DEMO_LEASE_MS / 1000);
}

/* Reap who has ended.  False when one ended that was not killed by us. */
static bool all_well(demo *d)
{
    bool well = true;
    for (int i = 0; i < DEMO_WORKERS; i++) {
        int status = 0;
        demo_worker *w = &d->workers[i];
        if (w->pid <= 0 || waitpid((pid_t)w->pid, &status, WNOHANG) == 0)
            continue;
        w->pid = 0;
        if (!(d->killed && WIFSIGNALED(status)) && !stop_signal) {
            say_over_bar(d);
            well = fail(EXIT_NO, NULL, "worker %d ended by itself", i + 1) == 0;
        }
    }
    return well;
}

/* ---- leading ---------------------------------------------------------- */

static bool is_ready(const demo *d)
{
    bool all = true;
    for (int i = 0; i < DEMO_WORKERS; i++)
        all = all && d->read.ready[i];
    return all;
}

static int await_workers(demo *d)
{
    int64_t end = now_ns() + READY_MS * (int64_t)1000000;
    note("topic " DEMO_TOPIC
         ", %d partitions, %d consumers in group " DEMO_GROUP,
         DEMO_PARTITIONS, DEMO_WORKERS);
    for (int i = 0; i < DEMO_WORKERS; i++)
        if (write(d->workers[i].to, "g", 1) != 1)
            return fail(EXIT_IO, NULL, "worker %d: %m", i + 1);
    for (;;) {
        demo_ledger_read(&d->read);
        if (is_ready(d) || stop_signal)
            return 0;
        if (!all_well(d))
            return EXIT_NO;
        if (now_ns() > end)
            return fail(EXIT_TRY_AGAIN, NULL,
                        "not every consumer got a partition within %d s",
                        READY_MS / 1000);
        sleep_ms(TICK_MS);
    }
}

/* Look for the dead letter; replay it when all else is done. */
static int poison(demo *d)
{
    demo_ledger *l = &d->read;
    if (d->poison.dead == 0 && l->tried >= DEMO_TRIES)
        say_over_bar(d);
    if (!demo_poison_dead(&d->poison, l) || d->poison.fixed ||
        (d->kill && !d->killed) || l->handled + 1 < l->sent ||
        l->outcomes < d->count)
        return 0;
    say_over_bar(d);
    return demo_poison_fix(&d->poison);
}

/* Everything sent was handled, or nothing moves any more. */
static bool is_through(demo *d, int64_t *moved_ns)
{
    demo_ledger *l = &d->read;
    size_t before = l->n;
    demo_ledger_read(l);
    if (l->n != before)
        *moved_ns = now_ns();
    if (d->published == d->count && l->outcomes >= d->count &&
        l->handled >= l->sent)
        return true;
    return now_ns() - *moved_ns > STALL_MS * (int64_t)1000000;
}

static int lead(demo *d)
{
    leat_error err = { 0 };
    int64_t start = now_ns(), moved = start;
    progress_start(&d->bar, "handled", d->count);
    while (!stop_signal && !is_through(d, &moved)) {
        if (publish(d, start, &err) != LEAT_OK)
            return fail_with("publish", &err, NULL);
        kill_one(d);
        int code = poison(d);
        if (code)
            return code;
        if (!all_well(d))
            return EXIT_NO;
        if (atomic_load(&d->unwritten))
            return fail(EXIT_IO, NULL, "the ledger could not be written");
        progress_set(&d->bar, d->read.handled);
        sleep_ms(TICK_MS);
    }
    d->bar.done = d->read.handled;
    progress_end(&d->bar);
    return 0;
}

/* ---- the result ------------------------------------------------------- */

static const column columns[] = {
    { "sent", COLUMN_COUNT, false },
    { "handled", COLUMN_COUNT, false },
    { "redelivered", COLUMN_COUNT, false },
    { "retried", COLUMN_COUNT, false },
    { "dead_letters", COLUMN_COUNT, false },
    { "replayed", COLUMN_COUNT, false },
    { "takeover_ms", COLUMN_COUNT, false },
    { "lost", COLUMN_COUNT, false },
    { "out_of_order", COLUMN_COUNT, false },
    { "fenced", COLUMN_COUNT, true },
    { "unknown", COLUMN_COUNT, true },
};

static int show(demo *d, output *out)
{
    demo_result r;
    demo_judge(&d->read, &r);
    output_number(out, r.sent);
    output_number(out, r.handled);
    output_number(out, r.redelivered);
    output_number(out, r.retried);
    output_number(out, d->poison.dead);
    output_number(out, r.replayed);
    if (r.takeover_ms < 0)
        output_null(out);
    else
        output_number(out, r.takeover_ms);
    output_number(out, r.lost);
    output_number(out, r.out_of_order);
    output_number(out, r.fenced);
    output_number(out, r.unknown);
    int code = output_close(out);
    if (code != 0)
        return code;
    const char *kept = r.out_of_order ? "per-key order broken"
                                      : "per-key order kept";
    if (r.lost || r.out_of_order || r.sent == 0)
        return fail(EXIT_NO, NULL, "%lld lost, %s", (long long)r.lost, kept);
    if (r.retried != DEMO_TRIES - 1 || d->poison.dead != 1 || r.replayed != 1 ||
        d->poison.left != 0)
        return fail(
            EXIT_NO, NULL,
            "the poison order was to be retried %d times, a dead letter "
            "and replayed once",
            DEMO_TRIES - 1);
    note("%lld lost, %s; the order that failed was retried, a dead letter, "
         "replayed and handled",
         (long long)r.lost, kept);
    return 0;
}

/* ---- running ---------------------------------------------------------- */

/* Ask all to end, then make them. */
static void end_workers(demo *d)
{
    int64_t end = now_ns() + STOP_MS * (int64_t)1000000;
    for (int i = 0; i < DEMO_WORKERS; i++) {
        if (d->workers[i].to > 0)
            close(d->workers[i].to);
        d->workers[i].to = 0;
    }
    for (int i = 0; i < DEMO_WORKERS; i++) {
        pid_t pid = (pid_t)d->workers[i].pid;
        while (pid > 0 && waitpid(pid, NULL, WNOHANG) == 0) {
            struct timespec t = { .tv_nsec = 5000000 };
            if (now_ns() > end)
                kill(pid, SIGKILL);
            nanosleep(&t, NULL);
        }
        d->workers[i].pid = 0;
    }
}

static int work(demo *d)
{
    leat_error err = { 0 };
    leat_topic_opts how = { .prefix = d->prefix,
                            .auto_create = true,
                            .partitions = DEMO_PARTITIONS,
                            .log = report_logger() };
    d->topic = leat_topic_open(d->client, DEMO_TOPIC, &how, &err);
    if (!d->topic)
        return fail_with("topic " DEMO_TOPIC, &err, NULL);
    int code = await_workers(d);
    if (code == 0 && !stop_signal)
        code = lead(d);
    end_workers(d);
    if (code == 0 && !stop_signal)
        code = demo_poison_end(&d->poison);
    leat_topic_close(d->topic);
    if (leat_topic_remove_with(
            d->client, DEMO_TOPIC,
            &(leat_remove_opts){ .prefix = d->prefix, .force = true },
            &err) != LEAT_OK)
        hint("the keys %s:* were left behind", d->prefix);
    return code;
}

static int run_on(cli *c, const char *url, const char *dir, int leader,
                  output *out, long *server)
{
    demo d = { .c = c,
               .dir = dir,
               .count = value_count(c, "count"),
               .keys = value_count(c, "keys"),
               .kill = !value_on(c, "no-kill") };
    uint64_t random = 0;
    int code = EXIT_IO;
    bool ok = true;
    if (getrandom(&random, sizeof random, 0) < 0)
        random = (uint64_t)now_ns();
    snprintf(d.prefix, sizeof d.prefix, "leat-demo-%016llx",
             (unsigned long long)random);
    d.ledger = demo_ledger_create(dir, DEMO_WORKERS);
    ok = d.ledger >= 0 && demo_ledger_open(&d.read, dir, d.count, d.keys);
    for (int i = 0; i < DEMO_WORKERS && ok; i++)
        ok = demo_fork(c, d.workers, i, url, d.prefix, dir);
    if (ok)
        d.client = client_open(c, url, "leat-demo", &code);
    if (d.client) {
        *server = server_pid(d.client);
        if (leader >= 0)
            demo_lead_server(leader, *server);
        d.poison = (demo_poisoned){ .client = d.client,
                                    .prefix = d.prefix,
                                    .dir = dir,
                                    .number = (int64_t)demo_poison(d.count) };
        code = work(&d);
    }
    end_workers(&d);
    leat_client_close(d.client);
    if (code == 0 && stop_signal)
        code = EXIT_SIGNAL + stop_signal;
    if (code == 0)
        code = show(&d, out);
    else
        output_drop(out);
    demo_ledger_close(&d.read);
    if (d.ledger >= 0)
        close(d.ledger);
    return code;
}

/* On the server of the words, or on a private one. */
static int run_in(cli *c, const char *dir, output *out)
{
    long server = 0;
    int code, leader = demo_lead(dir);
    if (leader < 0) {
        output_drop(out);
        demo_clean_up(dir, 0);
        return EXIT_IO;
    }
    if (value_find(c, "url")->origin >= FROM_CHOSEN_CONTEXT) {
        code = run_on(c, value_text(c, "url"), dir, -1, out, &server);
        server = 0; /* not ours */
    } else {
        char *url = format("embedded://%s/redis", dir);
        code = run_on(c, url, dir, leader, out, &server);
        free(url);
    }
    demo_clean_up(dir, server);
    close(leader);
    return code;
}

int run_demo(cli *c)
{
    int code;
    int64_t keys = value_count(c, "keys"), count = value_count(c, "count");
    if (count > DEMO_MAX_COUNT)
        return fail(EXIT_USAGE, NULL, "--count is at most %d", DEMO_MAX_COUNT);
    if (keys > MAX_KEYS)
        return fail(EXIT_USAGE, NULL, "--keys is at most %d", MAX_KEYS);
    output *out = output_open(c, columns, sizeof columns / sizeof *columns,
                              true, &code);
    if (!out)
        return code;
    const char *base = getenv("TMPDIR");
    if (!base || base[0] != '/')
        base = "/tmp";
    demo_sweep(base);
    char *dir = format("%s/leat-demo-XXXXXX", base);
    if (mkdtemp(dir)) {
        code = run_in(c, dir, out);
    } else {
        code = fail(EXIT_IO, NULL, "%s: %m", dir);
        output_drop(out);
    }
    free(dir);
    return code;
}
