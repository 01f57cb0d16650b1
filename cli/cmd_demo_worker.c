/*
 * cmd_demo_worker.c: a consumer process of leat demo.
 *
 * Forked before the command has threads, and started by a byte when the topic
 * is there.  It ends in order when its pipe ends or at a signal, and by the
 * kernel when the command dies.
 */
#include "demo.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

typedef struct worker {
    cli *c;
    uint32_t number;
    const char *url, *prefix, *dir;
    int ledger;
    int from;
} worker;

/* "order-17": 17. */
static bool number_of(leat_bytes id, uint64_t *out)
{
    char text[32], *end = NULL;
    if (id.n < 7 || id.n >= sizeof text || memcmp(id.p, "order-", 6) != 0)
        return false;
    memcpy(text, id.p, id.n);
    text[id.n] = '\0';
    *out = strtoull(text + 6, &end, 10);
    return *end == '\0';
}

static leat_verdict handle(leat_ctx *x, void *arg)
{
    const worker *w = arg;
    const leat_delivery *d = leat_ctx_delivery(x);
    demo_record r = { .kind = DEMO_HANDLED,
                      .worker = w->number,
                      .partition = (uint32_t)leat_delivery_partition(d),
                      .attempt = leat_delivery_attempt(d),
                      .fence = leat_delivery_fence(d) };
    if (!number_of(leat_ctx_msg(x)->id, &r.number))
        return leat_ctx_reject(x, "not an order of this demo");
    sleep_ms(1); /* the work: as long as a small write elsewhere takes */
    bool poison = r.number == demo_poison(value_count(w->c, "count")) &&
                  !demo_is_fixed(w->dir);
    if (poison)
        r.kind = DEMO_TRIED;
    else if (leat_delivery_replayed_from(d).n > 0)
        r.kind = DEMO_REPLAYED;
    /* Not written down is not done. */
    if (!demo_write(w->ledger, r))
        return LEAT_RELEASE;
    return poison ? leat_ctx_fail(x, "the customer has no address") : LEAT_ACK;
}

static void on_assign(void *arg, leat_assign what, uint32_t partition,
                      uint64_t epoch)
{
    const worker *w = arg;
    if (what == LEAT_ASSIGNED)
        (void)demo_write(w->ledger, (demo_record){ .kind = DEMO_OWNED,
                                                   .worker = w->number,
                                                   .partition = partition,
                                                   .fence = epoch });
}

/* Until the pipe ends; what else comes through it does not matter. */
static void wait_for_the_end(const worker *w)
{
    char byte;
    struct pollfd p = { .fd = w->from, .events = POLLIN };
    while (!stop_signal)
        if (poll(&p, 1, 1000) > 0 && read(w->from, &byte, 1) <= 0)
            return;
}

static int consume(worker *w, leat_topic *t)
{
    leat_error err = { 0 };
    char *name = format("worker-%u", w->number + 1);
    leat_topic_source_opts how = { .name = name,
                                   .lease_ms = DEMO_LEASE_MS,
                                   .order = LEAT_ORDER_KEY,
                                   .retry = { .max_attempts = DEMO_TRIES,
                                              .delay_ms = DEMO_BACKOFF_MS,
                                              .jitter = LEAT_NO },
                                   .on_assign = on_assign,
                                   .assign_arg = w };
    leat_source *s = leat_topic_source(t, DEMO_GROUP, &how, &err);
    leat_run *run = leat_run_start(s, handle, w, NULL, &err);
    free(name);
    if (!run) {
        leat_source_close(s);
        return fail_with("consumer", &err, NULL);
    }
    wait_for_the_end(w);
    /* What it had not finished is the others'. */
    (void)leat_run_stop(run, 0, &err);
    return 0;
}

static int work(worker *w)
{
    int code;
    leat_error err = { 0 };
    leat_client *client = client_open(w->c, w->url, "leat-demo", &code);
    if (!client)
        return code;
    leat_topic_opts how = { .prefix = w->prefix, .log = report_logger() };
    leat_topic *t = leat_topic_open(client, DEMO_TOPIC, &how, &err);
    code = t ? consume(w, t) : fail_with("topic " DEMO_TOPIC, &err, NULL);
    leat_topic_close(t);
    leat_client_close(client);
    return code;
}

/* The child: its own pipe is the only one it keeps. */
static void be_worker(worker *w, const demo_worker *all, const char *dir)
{
    char byte;
    /* What there is to say of the server is said by the command itself. */
    if (!value_on(w->c, "verbose"))
        report_style(w->c->color_err, true, 0);
    for (uint32_t i = 0; i <= w->number; i++)
        close(all[i].to);
    w->ledger = demo_ledger_create(dir, (int)w->number);
    int code = w->ledger < 0 ? EXIT_IO : 0;
    ssize_t got;
    do
        got = read(w->from, &byte, 1);
    while (got < 0 && errno == EINTR && !stop_signal);
    if (code == 0 && got == 1 && !stop_signal)
        code = work(w);
    _exit(code);
}

bool demo_fork(cli *c, demo_worker *all, int n, const char *url,
               const char *prefix, const char *dir)
{
    int ends[2];
    pid_t parent = getpid();
    if (pipe(ends) != 0)
        return fail(EXIT_IO, NULL, "pipe: %m") == 0;
    all[n].to = ends[1];
    pid_t pid = fork();
    if (pid == 0) {
        worker w = { .c = c,
                     .number = (uint32_t)n,
                     .url = url,
                     .prefix = prefix,
                     .dir = dir,
                     .from = ends[0] };
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(EXIT_IO);
        be_worker(&w, all, dir);
    }
    close(ends[0]);
    all[n].pid = pid;
    if (pid > 0)
        return true;
    all[n].pid = 0;
    close(ends[1]);
    return fail(EXIT_IO, NULL, "fork: %m") == 0;
}
