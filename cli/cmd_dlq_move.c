/*
 * cmd_dlq_move.c: leat dlq replay and rm.
 *
 * What cannot be done is told one by one, a few of them; the last line counts.
 */
#include "dlq.h"

#include <stdlib.h>
#include <unistd.h>

enum { TOLD = 10 };

typedef struct move {
    cli *c;
    letters l;
    bool rm;
    leat_dead_filter filter;
    leat_dlq_move_opts opts;
    leat_dlq_sum sum;
    uint64_t bad;          /* that were not done        */
    leat_code first;       /* why the first was not ... */
    char first_error[240]; /* ... and as it was told    */
    uint64_t seen;
    progress bar;
    bool show;
} move;

/* ---- the words -------------------------------------------------------- */

static int check_words(cli *c)
{
    bool all = value_on(c, "all"), ids = c->arg_count > 1;
    if (!all && !ids)
        return fail(EXIT_USAGE, "leat dlq ls lists them",
                    filter_given(c) ? "all that the options choose? then give "
                                      "--all, too"
                                    : "which ones? give ids, or --all");
    if (ids && (all || filter_given(c)))
        return fail(EXIT_USAGE, "give either",
                    "ids name them already: --all and what chooses are of no "
                    "use");
    return 0;
}

/* ---- while it runs ---------------------------------------------------- */

static bool on_step(void *arg, const leat_dlq_step *s)
{
    move *m = arg;
    m->seen++;
    if (s->code != LEAT_OK && m->bad == 0) {
        m->first = s->code;
        snprintf(m->first_error, sizeof m->first_error, "%s", s->error);
    }
    if (s->code != LEAT_OK && ++m->bad <= TOLD) {
        if (m->show)
            fputs("\r\033[K", stderr);
        fail(EXIT_NO, NULL, "%s", s->error);
    }
    if (m->show)
        progress_set(&m->bar, (int64_t)m->seen);
    return !stop_signal;
}

static leat_code run_move(move *m, leat_error *err)
{
    const char *const *ids = (const char *const *)m->c->args + 1;
    size_t n = (size_t)m->c->arg_count - 1;
    if (n > 0 && m->rm)
        return leat_dlq_remove(m->l.dlq, ids, n, &m->opts, &m->sum, err);
    if (n > 0)
        return leat_dlq_replay(m->l.dlq, ids, n, &m->opts, &m->sum, err);
    if (m->rm)
        return leat_dlq_clear(m->l.dlq, &m->filter, &m->opts, &m->sum, err);
    return leat_dlq_replay_all(m->l.dlq, &m->filter, &m->opts, &m->sum, err);
}

/* ---- what came of it -------------------------------------------------- */

static const column columns[] = {
    { "topic", COLUMN_TEXT, false },    { "done", COLUMN_COUNT, false },
    { "missing", COLUMN_COUNT, false }, { "refused", COLUMN_COUNT, false },
    { "unknown", COLUMN_COUNT, false }, { "dry_run", COLUMN_BOOL, false },
};

static const char *verb(const move *m)
{
    if (m->rm)
        return m->opts.dry_run ? "would be removed" : "removed";
    if (m->opts.republish)
        return m->opts.dry_run ? "would be republished" : "republished";
    return m->opts.dry_run ? "would be replayed" : "replayed";
}

static void say_counts(const move *m)
{
    const leat_dlq_sum *s = &m->sum;
    char *more = copy("");
    const uint64_t counts[] = { s->missing, s->refused, s->unknown };
    static const char *const words[] = { "missing", "refused", "unknown" };
    for (int i = 0; i < 3; i++) {
        if (counts[i] == 0)
            continue;
        char *longer = format("%s, %llu %s", more,
                              (unsigned long long)counts[i], words[i]);
        free(more);
        more = longer;
    }
    note("%llu dead letter%s %s%s", (unsigned long long)s->done,
         plural((int64_t)s->done), verb(m), more);
    free(more);
}

/* As a record where --output was given, else a remark. */
static int show_counts(const move *m)
{
    int code;
    if (!wants_record(m->c)) {
        say_counts(m);
        return 0;
    }
    output *out = output_open(m->c, columns, 6, true, &code);
    if (!out)
        return code;
    output_text(out, m->c->args[0]);
    output_number(out, (int64_t)m->sum.done);
    output_number(out, (int64_t)m->sum.missing);
    output_number(out, (int64_t)m->sum.refused);
    output_number(out, (int64_t)m->sum.unknown);
    output_bool(out, m->opts.dry_run);
    return output_close(out);
}

/* What ended it all, unless that is the first of those that were told. */
static bool ended_early(const move *m, leat_code got, const leat_error *err)
{
    return got != LEAT_OK && (m->bad == 0 || got != m->first ||
                              strcmp(err->msg, m->first_error) != 0);
}

static int judge(const move *m, leat_code got, const leat_error *err)
{
    const leat_dlq_sum *s = &m->sum;
    bool early = ended_early(m, got, err);
    if (m->bad > TOLD)
        fail(EXIT_NO, NULL, "and %llu more",
             (unsigned long long)(m->bad - TOLD));
    int code = early && m->seen == 0 ? 0 : show_counts(m);
    if (early)
        return fail_with(m->c->args[0], err, NULL);
    if (s->unknown || got == LEAT_EFULL)
        return EXIT_UNKNOWN;
    if (m->bad > 0)
        return EXIT_NO;
    if (code == 0 && stop_signal)
        code = EXIT_SIGNAL + stop_signal;
    return code;
}

static int move_them(move *m, uint64_t total)
{
    leat_error err = { 0 };
    m->opts.fn = on_step;
    m->opts.arg = m;
    m->show = total > 1 && !report_quiet() && isatty(STDERR_FILENO) == 1;
    if (m->show)
        progress_start(&m->bar, m->rm ? "removing" : "replaying",
                       (int64_t)total);
    leat_code got = run_move(m, &err);
    if (m->show) {
        m->bar.done = (int64_t)m->seen;
        progress_end(&m->bar);
    }
    return judge(m, got, &err);
}

/* ---- before it runs --------------------------------------------------- */

/* How many there are; false with *code, and said. */
static bool count_them(move *m, uint64_t *total, int *code)
{
    leat_error err = { 0 };
    uint64_t limit = m->opts.limit;
    *total = (uint64_t)m->c->arg_count - 1;
    if (*total > 0)
        return true;
    leat_dead_counts *n = leat_dlq_count(m->l.dlq, &m->filter, &err);
    if (!n) {
        *code = fail_with(m->c->args[0], &err, NULL);
        return false;
    }
    *total = limit && limit < n->total ? limit : n->total;
    leat_dead_counts_free(n);
    return true;
}

/* One is asked before something is removed, or many are replayed. */
static bool may(const move *m, uint64_t total, int *code)
{
    *code = 0;
    if (m->opts.dry_run || total == 0 || (!m->rm && m->c->arg_count > 1))
        return true;
    char *what = format("%s %llu dead letter%s of topic %s",
                        m->rm               ? "remove"
                        : m->opts.republish ? "republish"
                                            : "replay",
                        (unsigned long long)total, plural((int64_t)total),
                        m->c->args[0]);
    bool yes = confirmed(m->c, what, code);
    free(what);
    return yes;
}

static int run(cli *c, bool rm)
{
    int code = check_words(c);
    uint64_t total = 0;
    move m = { .c = c, .rm = rm };
    if (code)
        return code;
    m.opts.limit = (uint64_t)value_count(c, "count");
    m.opts.dry_run = value_on(c, "dry-run");
    if (!rm) {
        m.opts.rate = (uint32_t)value_count(c, "rate");
        m.opts.republish = value_on(c, "republish");
    }
    if (!letters_open(c, &m.l, &code))
        return code;
    if (filter_get(c, &m.l, &m.filter, &code) &&
        count_them(&m, &total, &code) && may(&m, total, &code)) {
        code = total == 0 ? nothing_found(c, &m.l, &m.filter) : 0;
        if (code == 0)
            code = move_them(&m, total);
    }
    letters_close(c, &m.l);
    return code;
}

int run_dlq_replay(cli *c)
{
    return run(c, false);
}

int run_dlq_rm(cli *c)
{
    return run(c, true);
}
