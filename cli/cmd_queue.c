/*
 * cmd_queue.c: leat queue create, alter, pause, resume, ls and stats, and what
 * all commands on queues share.
 */
#include "queue.h"

#include <stdlib.h>

/* ---- shared ----------------------------------------------------------- */

bool is_redowl(cli *c)
{
    const value *v = value_find(c, "profile");
    return v && v->text && strcmp(v->text, "redowl") == 0;
}

leat_queue_opts queue_opts(cli *c)
{
    return (leat_queue_opts){ .prefix = value_text(c, "namespace"),
                              .profile = is_redowl(c) ? LEAT_QUEUE_REDOWL
                                                      : LEAT_QUEUE_NATIVE,
                              .must_exist = true,
                              .no_reaper = true,
                              .log = report_logger() };
}

typedef struct names {
    char **name;
    size_t count;
} names;

static void add_name(void *arg, const char *name)
{
    names *n = arg;
    n->name = regrab(n->name, (n->count + 1) * sizeof *n->name);
    n->name[n->count++] = copy(name);
}

static void free_names(names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->name[i]);
    free(n->name);
}

/* The nearest queue there is, as a hint; malloced. */
static char *near_queue(cli *c, leat_client *client, const char *name)
{
    names n = { 0 };
    if (is_redowl(c))
        return copy("a queue of redowl is there while it holds something");
    (void)leat_queue_list(client, value_text(c, "namespace"), add_name, &n,
                          NULL);
    const char *near = nearest(name, (const char *const *)n.name, n.count);
    char *text = near ? format("did you mean '%s'?", near)
                      : format("leat queue ls lists them, leat queue create "
                               "makes one%s",
                               value_find(c, "auto-create")
                                   ? ", as --auto-create does"
                                   : "");
    free_names(&n);
    return text;
}

int queue_done(cli *c, const char *done, bool dry, const char *remark)
{
    const column columns[] = { { c->command->noun, COLUMN_TEXT, false },
                               { "done", COLUMN_TEXT, false },
                               { "dry_run", COLUMN_BOOL, false } };
    int code = 0;
    if (!wants_record(c)) {
        note("%s", remark);
        return 0;
    }
    output *out = output_open(c, columns, 3, true, &code);
    if (!out)
        return code;
    output_text(out, c->args[0]);
    output_text(out, done);
    output_bool(out, dry);
    return output_close(out);
}

bool key_is_foreign(const leat_error *err)
{
    return err->code == LEAT_EDECODE;
}

int queue_fail(cli *c, leat_client *client, const char *name,
               const leat_error *err)
{
    if (key_is_foreign(err))
        return fail(EXIT_DATA, "nothing was changed", "%s", err->msg);
    if (err->code == LEAT_ESTALE)
        return fail(EXIT_NO,
                    "its visibility ran out, or it is done: what is left is "
                    "received again",
                    "%s", err->msg);
    if (err->code == LEAT_ENOTSUP && is_redowl(c))
        return fail(EXIT_USAGE,
                    "a queue that is shared with redowl has what redowl knows",
                    "%s", err->msg);
    if (err->code != LEAT_ENOENT)
        return fail_with(name, err, NULL);
    char *todo = near_queue(c, client, name);
    int code = fail(EXIT_NO, todo, "no queue '%s'", name);
    free(todo);
    return code;
}

bool opened_open(cli *c, opened *q, bool care, int *code)
{
    leat_error err = { 0 };
    leat_queue_opts o = queue_opts(c);
    o.no_reaper = !care;
    if (is_redowl(c) && value_find(c, "max-receives"))
        o.max_receives = (int)value_count(c, "max-receives");
    *q = (opened){ 0 };
    q->client = client_open(c, value_text(c, "url"), "leat-queue", code);
    if (!q->client)
        return false;
    q->queue = leat_queue_open(q->client, c->args[0], &o, &err);
    if (q->queue)
        return true;
    *code = queue_fail(c, q->client, c->args[0], &err);
    opened_close(c, q);
    return false;
}

void opened_close(cli *c, opened *q)
{
    leat_queue_close(q->queue);
    client_close(c, q->client);
    *q = (opened){ 0 };
}

/* ---- receipts --------------------------------------------------------- */

/* A FIFO queue's receipt holds its message group, which may be any bytes: what
 * is not a plain letter is %XX, so that receipts pass through every form and
 * every shell. */
char *receipt_text(leat_bytes receipt)
{
    const unsigned char *p = receipt.p;
    char *text = grab(receipt.n * 3 + 1);
    size_t n = 0;
    for (size_t i = 0; i < receipt.n; i++) {
        if (p[i] > ' ' && p[i] < 0x7f && !strchr("%\\'\"", p[i]))
            text[n++] = (char)p[i];
        else
            n += (size_t)snprintf(text + n, 4, "%%%02X", p[i]);
    }
    return text;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

leat_bytes receipt_bytes(char *text)
{
    size_t n = 0;
    for (const char *s = text; *s; s++) {
        int high = *s == '%' ? hex(s[1]) : -1;
        int low = high >= 0 ? hex(s[2]) : -1;
        text[n++] = low >= 0 ? (char)(high * 16 + low) : *s;
        s += low >= 0 ? 2 : 0;
    }
    return leat_mem(text, n);
}

/* ---- create and alter ------------------------------------------------- */

/* What the options say of a queue.  taken: what stands for "no bound", where
 * somebody gives 0. */
static void get_settings(cli *c, leat_queue_opts *o, int64_t taken)
{
    static const struct {
        const char *name;
        size_t at;
    } times[] = {
        { "visibility", offsetof(leat_queue_opts, visibility_ms) },
        { "delay", offsetof(leat_queue_opts, delay_ms) },
        { "ttl", offsetof(leat_queue_opts, ttl_ms) },
        { "dedup-window", offsetof(leat_queue_opts, dedup_ms) },
    };
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        int64_t ms = value_ms(c, times[i].name);
        if (value_text(c, times[i].name))
            *(int64_t *)((char *)o + times[i].at) = ms ? ms : taken;
    }
    int64_t receives = value_count(c, "max-receives");
    if (value_text(c, "max-receives"))
        o->max_receives = receives ? (int)receives : -1;
    int64_t size = value_count(c, "max-size");
    if (value_text(c, "max-size"))
        o->max_message = (size_t)(size ? size : taken);
    o->content_dedup = value_on(c, "content-dedup");
    o->durable_events = value_on(c, "durable-events");
    if (value_text(c, "dead-queue"))
        o->dead_queue = value_text(c, "dead-queue");
}

int64_t longest_visibility(cli *c)
{
    return is_redowl(c) ? LEAT_REDOWL_VISIBILITY_MAX_MS
                        : LEAT_VISIBILITY_MAX_MS;
}

int check_visibility(cli *c)
{
    const char *text = value_text(c, "visibility");
    int64_t ms = value_ms(c, "visibility");
    if (text && ms == 0)
        return fail(EXIT_USAGE, "others would receive it at once",
                    "--visibility: 0 hides nothing");
    if (ms > longest_visibility(c))
        return fail(EXIT_USAGE,
                    "what takes longer is hidden again and again: receive "
                    "--exec and pool do so, or leat queue change",
                    "--visibility: '%s' is over %s", text,
                    is_redowl(c) ? "10 years" : "12 hours");
    return 0;
}

/* What --backoff says: 0, or an exit code. */
static int get_backoff(cli *c, leat_queue_opts *o)
{
    leat_retry r = { 0 };
    const char *text = value_text(c, "backoff");
    if (text && strcmp(text, "none") == 0) {
        o->retry_delay_ms = -1;
        return 0;
    }
    int code = text ? backoff_of(text, &r) : 0;
    o->retry_delay_ms = r.delay_ms;
    o->retry_max_delay_ms = r.max_delay_ms;
    o->backoff = r.backoff;
    o->jitter = r.jitter;
    return code;
}

static int check_settings(cli *c)
{
    leat_queue_opts o = { 0 };
    int code = get_backoff(c, &o);
    if (code)
        return code;
    if (o.retry_max_delay_ms > LEAT_VISIBILITY_MAX_MS)
        return fail(EXIT_USAGE, NULL, "--backoff: '%s' is over 12 hours",
                    value_text(c, "backoff"));
    if (value_text(c, "dedup-window") && value_ms(c, "dedup-window") == 0)
        return fail(EXIT_USAGE, "send without --dedup to have none",
                    "--dedup-window: 0 remembers nothing");
    return check_visibility(c);
}

/* Is there one of that name, or half of one that is being removed? */
static bool is_there(cli *c, leat_client *client, leat_error *err)
{
    leat_queue_opts o = queue_opts(c);
    leat_queue *q = leat_queue_open(client, c->args[0], &o, err);
    bool there = q != NULL;
    leat_queue_close(q);
    return there;
}

static int create(cli *c, leat_client *client)
{
    leat_error err = { 0 };
    const char *name = c->args[0];
    if (is_there(c, client, &err))
        return fail(EXIT_NO,
                    "leat queue stats shows it, leat queue alter changes it",
                    "there is a queue '%s' already", name);
    if (err.code != LEAT_ENOENT)
        return fail_with(name, &err, NULL);
    leat_queue_opts o = queue_opts(c);
    get_settings(c, &o, 0);
    (void)get_backoff(c, &o); /* it was checked */
    o.fifo = value_on(c, "fifo");
    o.must_exist = false;
    err = (leat_error){ 0 };
    leat_queue *q = leat_queue_open(client, name, &o, &err);
    if (!q)
        return fail_with(name, &err, NULL);
    leat_queue_close(q);
    char *remark = format("queue %s created%s", name,
                          o.fifo ? ", first in, first out" : "");
    int code = queue_done(c, "created", false, remark);
    free(remark);
    return code;
}

int run_queue_create(cli *c)
{
    int code = check_settings(c);
    leat_client *client = code ? NULL
                               : client_open(c, value_text(c, "url"),
                                             "leat-queue", &code);
    if (client)
        code = create(c, client);
    leat_client_close(client);
    return code;
}

static bool any_setting(cli *c)
{
    for (const option *o = c->command->options; o->name; o++)
        if (strcmp(o->name, "namespace") != 0 && value_text(c, o->name))
            return true;
    return false;
}

int run_queue_alter(cli *c)
{
    int code = check_settings(c);
    leat_error err = { 0 };
    opened q;
    if (code == 0 && !any_setting(c))
        code = fail(EXIT_USAGE, "leat queue alter --help lists the settings",
                    "what is to change? nothing was given");
    if (code == 0 && value_on(c, "no-dead-queue") &&
        value_text(c, "dead-queue"))
        code = fail(EXIT_USAGE, NULL,
                    "--dead-queue and --no-dead-queue do not go together");
    if (code || !opened_open(c, &q, false, &code))
        return code;
    leat_queue_opts o = { 0 };
    get_settings(c, &o, -1);
    (void)get_backoff(c, &o); /* it was checked */
    if (value_on(c, "no-dead-queue"))
        o.dead_queue = "";
    char *remark = format("queue %s altered", c->args[0]);
    leat_code got = leat_queue_alter(q.queue, &o, &err);
    code = got == LEAT_OK ? queue_done(c, "altered", false, remark)
                          : queue_fail(c, q.client, c->args[0], &err);
    free(remark);
    opened_close(c, &q);
    return code;
}

/* ---- pause and resume ------------------------------------------------- */

static int set_paused(cli *c, bool yes)
{
    int code;
    leat_error err = { 0 };
    opened q;
    if (!opened_open(c, &q, false, &code))
        return code;
    leat_code got = yes ? leat_queue_pause(q.queue, &err)
                        : leat_queue_resume(q.queue, &err);
    const char *done = yes ? "paused" : "resumed";
    char *remark = format("queue %s is %s", c->args[0], done);
    code = got == LEAT_OK ? queue_done(c, done, false, remark)
                          : queue_fail(c, q.client, c->args[0], &err);
    free(remark);
    opened_close(c, &q);
    return code;
}

int run_queue_pause(cli *c)
{
    return set_paused(c, true);
}

int run_queue_resume(cli *c)
{
    return set_paused(c, false);
}

/* ---- ls --------------------------------------------------------------- */

static const column ls_columns[] = {
    { "name", COLUMN_TEXT, false },     { "visible", COLUMN_COUNT, false },
    { "delayed", COLUMN_COUNT, false }, { "in_flight", COLUMN_COUNT, false },
    { "dead", COLUMN_COUNT, false },    { "oldest_ms", COLUMN_MS, false },
    { "fifo", COLUMN_BOOL, true },      { "created", COLUMN_TIME, true },
    { "paused", COLUMN_TIME, true },
};

/* One that was removed meanwhile is not listed, and one that is damaged hides
 * no other; 0, or an exit code. */
static int list_queue(cli *c, leat_client *client, const char *name,
                      output *out, bool *over)
{
    leat_queue_stats s = { 0 };
    leat_error err = { 0 };
    leat_queue_opts o = queue_opts(c);
    leat_queue *q = leat_queue_open(client, name, &o, &err);
    leat_code got = q ? leat_queue_stats_get(q, &s, &err) : err.code;
    if (got == LEAT_OK) {
        output_text(out, name);
        output_number(out, s.visible);
        output_number(out, s.delayed);
        output_number(out, s.in_flight);
        output_number(out, s.dead);
        output_count(out, s.oldest_ms);
        output_bool(out, s.settings.fifo);
        output_number(out, s.created_ms);
        output_given(out, s.paused_ms);
    }
    leat_queue_close(q);
    if (got == LEAT_OK || got == LEAT_ENOENT || got == LEAT_EBUSY)
        return 0;
    *over = !key_is_foreign(&err);
    return queue_fail(c, client, name, &err);
}

/* False: there is nothing to print. */
static bool list(cli *c, leat_client *client, output *out, int *code)
{
    names n = { 0 };
    leat_error err = { 0 };
    leat_queue_opts o = queue_opts(c);
    leat_code got = leat_queue_list_of(client, &o, add_name, &n, &err);
    if (got != LEAT_OK)
        *code = fail_with("queue ls", &err, NULL);
    bool over = got != LEAT_OK;
    for (size_t i = 0; i < n.count && !over && !stop_signal; i++) {
        int bad = list_queue(c, client, n.name[i], out, &over);
        *code = *code ? *code : bad;
    }
    free_names(&n);
    return !over && !stop_signal;
}

int run_queue_ls(cli *c)
{
    int code;
    output *out = output_open(
        c, ls_columns, sizeof ls_columns / sizeof *ls_columns, false, &code);
    leat_client *client = out ? client_open(c, value_text(c, "url"),
                                            "leat-queue", &code)
                              : NULL;
    bool good = client && list(c, client, out, &code);
    client_close(c, client);
    int shown = 0;
    if (good)
        shown = output_close(out);
    else
        output_drop(out);
    if (code == 0 && stop_signal)
        code = EXIT_SIGNAL + stop_signal;
    return code ? code : shown;
}

/* ---- stats ------------------------------------------------------------ */

static const column stats_columns[] = {
    { "name", COLUMN_TEXT, false },
    { "visible", COLUMN_COUNT, false },
    { "delayed", COLUMN_COUNT, false },
    { "in_flight", COLUMN_COUNT, false },
    { "dead", COLUMN_COUNT, false },
    { "oldest_ms", COLUMN_MS, false },
    { "sent", COLUMN_COUNT, false },
    { "received", COLUMN_COUNT, false },
    { "acked", COLUMN_COUNT, false },
    { "requeued", COLUMN_COUNT, false },
    { "to_dead", COLUMN_COUNT, false },
    { "redriven", COLUMN_COUNT, false },
    { "expired", COLUMN_COUNT, false },
    { "purged", COLUMN_COUNT, false },
    { "lost", COLUMN_COUNT, false },
    { "created", COLUMN_TIME, false },
    { "visibility_ms", COLUMN_MS, false },
    { "max_receives", COLUMN_COUNT, false },
    { "delay_ms", COLUMN_MS, false },
    { "ttl_ms", COLUMN_MS, false },
    { "max_size", COLUMN_BYTES, false },
    { "fifo", COLUMN_BOOL, false },
    { "content_dedup", COLUMN_BOOL, false },
    { "dedup_ms", COLUMN_MS, false },
    { "dead_queue", COLUMN_TEXT, false },
    { "durable_events", COLUMN_BOOL, false },
    { "backoff", COLUMN_TEXT, false },
    { "retry_delay_ms", COLUMN_MS, false },
    { "retry_max_delay_ms", COLUMN_MS, false },
    { "jitter", COLUMN_BOOL, false },
    { "paused", COLUMN_TIME, false },
};

/* Zero is no bound. */
static void put_settings(output *out, const leat_queue_opts *o)
{
    output_number(out, o->visibility_ms);
    output_given(out, o->max_receives > 0 ? o->max_receives : 0);
    output_given(out, o->delay_ms);
    output_given(out, o->ttl_ms);
    output_number(out, (int64_t)o->max_message);
    output_bool(out, o->fifo);
    output_bool(out, o->content_dedup);
    output_number(out, o->dedup_ms);
    output_text(out, o->dead_queue);
    output_bool(out, o->durable_events);
    bool waits = o->retry_delay_ms > 0;
    output_text(out, !waits                             ? "none"
                     : o->backoff == LEAT_BACKOFF_FIXED ? "fixed"
                                                        : "exponential");
    output_given(out, waits ? o->retry_delay_ms : 0);
    output_given(out, waits ? o->retry_max_delay_ms : 0);
    output_bool(out, waits && o->jitter == LEAT_YES);
}

static void put_stats(output *out, const char *name, const leat_queue_stats *s)
{
    output_text(out, name);
    output_number(out, s->visible);
    output_number(out, s->delayed);
    output_number(out, s->in_flight);
    output_number(out, s->dead);
    output_count(out, s->oldest_ms);
    output_number(out, s->sent);
    output_number(out, s->received);
    output_number(out, s->acked);
    output_number(out, s->requeued);
    output_number(out, s->to_dead);
    output_number(out, s->redriven);
    output_number(out, s->expired);
    output_number(out, s->purged);
    output_number(out, s->lost);
    output_given(out, s->created_ms);
    put_settings(out, &s->settings);
    output_given(out, s->paused_ms);
}

/* The figures as they are now; false with *code, and said. */
static bool get_stats(cli *c, opened *q, leat_queue_stats *s, int *code)
{
    leat_error err = { 0 };
    *code = 0;
    if (leat_queue_stats_get(q->queue, s, &err) != LEAT_OK)
        *code = queue_fail(c, q->client, c->args[0], &err);
    return *code == 0;
}

static int show_stats(cli *c, opened *q)
{
    int code;
    leat_queue_stats s;
    output *out = output_open(c, stats_columns,
                              sizeof stats_columns / sizeof *stats_columns,
                              true, &code);
    if (!out)
        return code;
    if (get_stats(c, q, &s, &code)) {
        put_stats(out, c->args[0], &s);
        return output_close(out);
    }
    output_drop(out);
    return code;
}

int run_queue_stats(cli *c)
{
    int code;
    opened q;
    if (!opened_open(c, &q, false, &code))
        return code;
    code = show_stats(c, &q);
    opened_close(c, &q);
    return code;
}
