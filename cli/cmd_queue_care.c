/*
 * cmd_queue_care.c: leat queue redrive, purge, rm and expire.
 */
#include "queue.h"

#include <stdlib.h>
#include <unistd.h>

enum { STEP = 1000 };

/* One count: as a record where --output was given, else as words. */
static int show_count(cli *c, const char *name, int64_t n, bool dry)
{
    int code;
    const column columns[] = { { "queue", COLUMN_TEXT, false },
                               { name, COLUMN_COUNT, false },
                               { "dry_run", COLUMN_BOOL, false } };
    bool can_be_dry = value_find(c, "dry-run") != NULL;
    if (!wants_record(c)) {
        note("%lld message%s %s%s", (long long)n, plural(n),
             dry ? "would be " : "", name);
        return 0;
    }
    output *out = output_open(c, columns, can_be_dry ? 3 : 2, true, &code);
    if (!out)
        return code;
    output_text(out, c->args[0]);
    output_number(out, n);
    if (can_be_dry)
        output_bool(out, dry);
    return output_close(out);
}

/* ---- redrive ---------------------------------------------------------- */

typedef struct redriving {
    cli *c;
    opened q;
    leat_redrive_opts opts;
    int64_t total, done;
    bool show;
    progress bar;
} redriving;

/* In steps, so that a signal is heard and progress seen; of a rate a second's
 * worth. */
static leat_code redrive_all(redriving *r, leat_error *err)
{
    leat_code got = LEAT_OK;
    double rate = r->opts.rate;
    while (got == LEAT_OK && r->done < r->total && !stop_signal) {
        int64_t left = r->total - r->done, moved = 0;
        int64_t step = rate > 0 && rate < STEP ? (int64_t)rate : STEP;
        r->opts.max = left < step ? left : step;
        got = leat_queue_redrive(r->q.queue, &r->opts, &moved, err);
        r->done += moved;
        if (r->show)
            progress_set(&r->bar, r->done);
        if (moved == 0)
            break; /* others were quicker */
    }
    return got;
}

static int redrive(redriving *r)
{
    cli *c = r->c;
    leat_error err = { 0 };
    bool dry = value_on(c, "dry-run");
    leat_redrive_opts count = { .max = value_count(c, "count"),
                                .dry_run = true };
    leat_code got = leat_queue_redrive(r->q.queue, &count, &r->total, &err);
    r->show = !dry && !report_quiet() && isatty(STDERR_FILENO) == 1 &&
              (r->total > STEP || r->opts.rate > 0);
    if (r->show)
        progress_start(&r->bar, "redriving", r->total);
    if (got == LEAT_OK && !dry)
        got = redrive_all(r, &err);
    if (r->show) {
        r->bar.done = r->done;
        progress_end(&r->bar);
    }
    int code = got == LEAT_OK || r->done > 0
                   ? show_count(c, "redriven", dry ? r->total : r->done, dry)
                   : 0;
    if (got != LEAT_OK)
        return queue_fail(c, r->q.client, c->args[0], &err);
    return code == 0 && stop_signal ? EXIT_SIGNAL + stop_signal : code;
}

int run_queue_redrive(cli *c)
{
    int code;
    redriving r = { .c = c, .opts.rate = (double)value_count(c, "rate") };
    if (!opened_open(c, &r.q, false, &code))
        return code;
    code = redrive(&r);
    opened_close(c, &r.q);
    return code;
}

/* ---- purge ------------------------------------------------------------ */

static bool look(cli *c, opened *q, leat_queue_stats *s, int *code)
{
    leat_error err = { 0 };
    *code = 0;
    if (leat_queue_stats_get(q->queue, s, &err) != LEAT_OK)
        *code = queue_fail(c, q->client, c->args[0], &err);
    return *code == 0;
}

static bool may_purge(cli *c, int64_t n, int *code)
{
    char *what = format("drop %lld %s%s of queue %s", (long long)n,
                        value_on(c, "dead") ? "dead letter" : "message",
                        plural(n), c->args[0]);
    bool yes = confirmed(c, what, code);
    free(what);
    return yes;
}

static int purge(cli *c, opened *q)
{
    int code;
    leat_error err = { 0 };
    leat_queue_stats s;
    bool dead = value_on(c, "dead");
    if (!look(c, q, &s, &code))
        return code;
    int64_t n = dead ? s.dead : s.visible + s.delayed + s.in_flight;
    if (value_on(c, "dry-run"))
        return show_count(c, "dropped", n, true);
    if (!may_purge(c, n, &code))
        return code;
    leat_code got = leat_queue_purge(q->queue, dead, &n, &err);
    return got == LEAT_OK ? show_count(c, "dropped", n, false)
                          : queue_fail(c, q->client, c->args[0], &err);
}

int run_queue_purge(cli *c)
{
    int code;
    opened q;
    if (!opened_open(c, &q, false, &code))
        return code;
    code = purge(c, &q);
    opened_close(c, &q);
    return code;
}

/* ---- rm --------------------------------------------------------------- */

/* What goes; malloced.  NULL with *code, and said.  A removal that was cut
 * short may be finished, though nobody can look into the queue any more. */
static char *contents(cli *c, leat_client *client, int *code)
{
    leat_error err = { 0 };
    leat_queue_stats s = { 0 };
    leat_queue_opts o = queue_opts(c);
    leat_queue *q = leat_queue_open(client, c->args[0], &o, &err);
    leat_code got = q ? leat_queue_stats_get(q, &s, &err) : err.code;
    leat_queue_close(q);
    *code = 0;
    if (got == LEAT_EBUSY)
        return format("queue %s, of which a part is removed already",
                      c->args[0]);
    if (got != LEAT_OK) {
        *code = queue_fail(c, client, c->args[0], &err);
        return NULL;
    }
    int64_t n = s.visible + s.delayed + s.in_flight;
    return format("queue %s with %lld message%s and %lld dead letter%s",
                  c->args[0], (long long)n, plural(n), (long long)s.dead,
                  plural(s.dead));
}

static int say_removed(cli *c, bool dry, const char *what)
{
    char *remark = format("%s %s", dry ? "would remove" : "removed", what);
    int code = queue_done(c, "removed", dry, remark);
    free(remark);
    return code;
}

/* What is removed is the queue that the question was about. */
static int ask_and_remove(cli *c, leat_client *client, const char *id,
                          const char *what)
{
    int code;
    leat_error err = { 0 };
    leat_queue_opts o = queue_opts(c);
    o.id = id;
    if (value_on(c, "dry-run"))
        return say_removed(c, true, what);
    char *question = format("remove %s", what);
    bool yes = confirmed(c, question, &code);
    free(question);
    if (!yes)
        return code;
    if (leat_queue_remove(client, c->args[0], &o, &err) != LEAT_OK)
        return queue_fail(c, client, c->args[0], &err);
    return say_removed(c, false, what);
}

int run_queue_rm(cli *c)
{
    int code;
    leat_client *client = client_open(c, value_text(c, "url"), "leat-queue",
                                      &code);
    if (!client)
        return code;
    char id[LEAT_QUEUE_ID];
    leat_error err = { 0 };
    leat_queue_opts o = queue_opts(c);
    char *what = NULL;
    if (leat_queue_id(client, c->args[0], &o, id, &err) == LEAT_OK)
        what = contents(c, client, &code);
    else
        code = queue_fail(c, client, c->args[0], &err);
    if (what)
        code = ask_and_remove(c, client, id, what);
    free(what);
    leat_client_close(client);
    return code;
}

/* ---- expire ----------------------------------------------------------- */

int run_queue_expire(cli *c)
{
    int code;
    int64_t n = 0;
    opened q;
    leat_error err = { 0 };
    if (!opened_open(c, &q, false, &code))
        return code;
    leat_code got = leat_queue_requeue_expired_once(
        q.queue, (int)value_count(c, "count"), &n, &err);
    code = got == LEAT_OK ? show_count(c, "moved", n, false)
                          : queue_fail(c, q.client, c->args[0], &err);
    opened_close(c, &q);
    return code;
}
