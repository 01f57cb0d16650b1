/*
 * cmd_queue_pool.c: leat queue pool: a program for the messages of all queues
 * of a namespace.
 */
#include "queue.h"

#include <stdlib.h>

static working_state look(void *pool)
{
    leat_pool_stats s;
    leat_pool_stats_get(pool, &s);
    return (working_state){ s.received, s.running > 0, s.failed };
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
        .retry_ms = w->retry_ms > 0 ? w->retry_ms : 0,
        .go_on = value_on(c, "go-on"),
        .profile = queue_opts(c).profile,
        .max_receives = (int)value_count(c, "max-receives"),
        .log = report_logger(),
    };
    leat_pool *p = leat_pool_start(client, working_handle, w, &o, &err);
    if (!p)
        return fail_with("queue pool", &err, NULL);
    working_wait(w, "until-idle", client, look, p);
    leat_code got = leat_pool_stop(p, drain ? drain : 1, &err);
    return working_end(w, got, &err);
}

static int check_words(cli *c)
{
    const value *v = value_find(c, "namespace");
    if (c->arg_count && v->origin == FROM_FLAG &&
        strcmp(v->text, c->args[0]) != 0)
        return fail(EXIT_USAGE, NULL,
                    "two namespaces, '%s' and '%s': a pool has one", c->args[0],
                    v->text);
    if (!program_get(c))
        return fail(EXIT_USAGE, "usage: leat queue pool [NAMESPACE] --exec CMD",
                    "--exec is missing, or a program behind --");
    if (value_count(c, "workers") > MAX_PROGRAMS)
        return fail(EXIT_USAGE, NULL, "--workers is at most %d", MAX_PROGRAMS);
    if (value_count(c, "min-workers") > value_count(c, "workers"))
        return fail(EXIT_USAGE, NULL, "--min-workers is more than --workers");
    if (value_find(c, "max-receives")->origin == FROM_FLAG && !is_redowl(c))
        return fail(EXIT_USAGE, "leat queue alter sets it",
                    "--max-receives is kept with the queue");
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
