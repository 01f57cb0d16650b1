/*
 * cmd_queue_pool.c: leat queue pool: a program for the messages of all queues
 * of a namespace.
 */
#include "queue.h"

#include <stdlib.h>

enum { LOOK_MS = 20, IDLE_MS = 250 };

/* Until a signal, the count, idleness or a failure for good. */
static void wait_for_end(working *w, leat_pool *p)
{
    const char *text = value_text(w->c, "until-idle");
    int64_t idle = value_ms(w->c, "until-idle"), since = now_ns();
    uint64_t before = 0;
    if (idle < IDLE_MS)
        idle = IDLE_MS; /* it must have looked once */
    while (!stop_signal && !gate_reached(&w->gate)) {
        leat_pool_stats now;
        leat_pool_stats_get(p, &now);
        int64_t t = now_ns();
        if (now.received != before || now.running)
            since = t;
        before = now.received;
        if (now.failed || (text && t - since > idle * 1000000))
            return;
        sleep_ms(LOOK_MS);
    }
}

/* The argument, or --namespace, which may come from the environment. */
static const char *namespace_of(cli *c)
{
    return c->arg_count ? c->args[0] : value_text(c, "namespace");
}

static int run_pool(cli *c, leat_client *client, working *w)
{
    leat_error err = { 0 };
    int64_t drain = value_ms(c, "drain");
    leat_pool_opts o = {
        .prefix = namespace_of(c),
        .workers = (int)value_count(c, "workers"),
        .min_workers = (int)value_count(c, "min-workers"),
        .queue_workers = (int)value_count(c, "queue-workers"),
        .visibility_ms = value_ms(c, "visibility"),
        .retry_ms = w->retry_ms,
        .go_on = value_on(c, "go-on"),
        .log = report_logger(),
    };
    leat_pool *p = leat_pool_start(client, working_handle, w, &o, &err);
    if (!p)
        return fail_with("queue pool", &err, NULL);
    wait_for_end(w, p);
    gate_stop(&w->gate);
    leat_code got = leat_pool_stop(p, drain ? drain : 1, &err);
    return working_end(w, got, &err);
}

static int check_words(cli *c)
{
    char *by_name[2];
    const value *v = value_find(c, "namespace");
    if (c->arg_count && v->origin == FROM_FLAG &&
        strcmp(v->text, c->args[0]) != 0)
        return fail(EXIT_USAGE, NULL,
                    "two namespaces, '%s' and '%s': a pool has one", c->args[0],
                    v->text);
    if (!program_get(c, by_name))
        return fail(EXIT_USAGE, "usage: leat queue pool [NAMESPACE] --exec CMD",
                    "--exec is missing");
    if (value_count(c, "workers") > MAX_PROGRAMS)
        return fail(EXIT_USAGE, NULL, "--workers is at most %d", MAX_PROGRAMS);
    if (value_count(c, "min-workers") > value_count(c, "workers"))
        return fail(EXIT_USAGE, NULL, "--min-workers is more than --workers");
    return check_visibility(c);
}

int run_queue_pool(cli *c)
{
    working w;
    int code = check_words(c);
    if (code || !working_init(c, &w, value_count(c, "count"), &code))
        return code;
    last_words = programs_kill;
    leat_client *client = client_open(c, value_text(c, "url"), "leat-pool",
                                      &code);
    if (client)
        code = run_pool(c, client, &w);
    leat_client_close(client);
    last_words = NULL;
    return code;
}
