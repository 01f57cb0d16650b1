/*
 * cmd_queue_send.c: leat queue send: an argument, or lines of stdin, as
 * messages.
 *
 * Lines that are there already go together, up to --batch of them; nobody waits
 * for a line that has not come.  A message that the queue refuses is told and
 * passed over; what the server does not take ends the sending.  The counts add
 * up: lines = sent + duplicates + failed + unknown, up to where it ended.
 */
#include "queue.h"

#include <stdlib.h>
#include <unistd.h>

enum { TOLD = 10 };

#define LARGER "leat queue alter --max-size allows more; nothing is ever cut"

typedef struct sending {
    cli *c;
    opened q;
    line_reader in;
    header_list headers;
    leat_msg model; /* what all messages share */
    leat_queue_send_opts how;
    const char *delimiter;
    size_t batch;

    leat_msg *msgs;
    leat_queue_send_opts *hows;
    leat_queue_sent *sents;
    int64_t *numbers; /* of the lines */
    size_t n;

    int64_t sent, duplicates, failed, unknown;
    int first; /* exit code of the first failure */
    char id[64];
    bool show;
    progress bar;
} sending;

/* ---- one lot ---------------------------------------------------------- */

static char *called(const sending *s, int64_t number)
{
    const char *file = value_text(s->c, "file");
    if (s->c->arg_count > 1)
        return copy("the message");
    return file ? copy(strcmp(file, "-") == 0 ? "stdin" : file)
                : format("%s %lld", s->in.end ? "line" : "message",
                         (long long)number);
}

static void refused(sending *s, int64_t number, int code, const char *hint,
                    const char *why)
{
    s->first = s->first ? s->first : code;
    if (++s->failed > TOLD)
        return;
    if (s->show)
        fputs("\r\033[K", stderr);
    char *what = called(s, number);
    fail(code, hint, "%s: %s", what, why);
    free(what);
}

/* Refused by the queue, not by the server. */
static bool of_message(leat_code code, const leat_error *err)
{
    return code == LEAT_ETOOBIG ||
           (code == LEAT_EINVAL && !key_is_foreign(err));
}

static void count(sending *s, leat_code got, const leat_error *err)
{
    for (size_t i = 0; i < s->n; i++) {
        const leat_queue_sent *x = &s->sents[i];
        if (x->code == LEAT_OK) {
            s->sent += !x->duplicate;
            s->duplicates += x->duplicate;
            memcpy(s->id, x->id, sizeof s->id);
        } else if (x->code == LEAT_EUNKNOWN) {
            s->unknown++;
        } else if (of_message(x->code, err)) {
            refused(s, s->numbers[i],
                    x->code == LEAT_ETOOBIG ? EXIT_DATA : EXIT_USAGE,
                    x->code == LEAT_ETOOBIG ? LARGER : NULL,
                    x->code == got ? err->msg : leat_code_text(x->code));
        } else {
            s->failed++;
        }
    }
}

/* Send what is there; 0, or an exit code that ends all. */
static int flush(sending *s)
{
    leat_error err = { 0 };
    if (s->n == 0)
        return 0;
    memset(s->sents, 0, s->n * sizeof *s->sents);
    leat_code got = leat_queue_send_batch(s->q.queue, s->msgs, s->n, s->hows,
                                          s->sents, &err);
    count(s, got, &err);
    s->n = 0;
    if (s->show)
        progress_set(&s->bar, s->sent + s->duplicates);
    if (got == LEAT_OK || of_message(got, &err))
        return 0;
    if (s->show)
        fputs("\r\033[K", stderr);
    int code = queue_fail(s->c, s->q.client, s->c->args[0], &err);
    s->first = s->first ? s->first : code;
    return code;
}

static bool split_group(const sending *s, leat_msg *m, leat_bytes *to)
{
    size_t n = strlen(s->delimiter);
    const char *at = m->body.n ? memmem(m->body.p, m->body.n, s->delimiter, n)
                               : NULL;
    if (!at)
        return false;
    size_t len = (size_t)(at - (const char *)m->body.p);
    *to = leat_mem(m->body.p, len);
    m->body = leat_mem(at + n, m->body.n - len - n);
    return true;
}

static void add(sending *s, const char *p, size_t n)
{
    leat_msg m = s->model;
    leat_queue_send_opts how = s->how;
    m.body = leat_mem(p, n);
    if (s->delimiter && !split_group(s, &m, &how.group)) {
        refused(s, s->in.count, EXIT_DATA,
                "it is a message group, the delimiter and a body",
                "the delimiter is not in it");
        return;
    }
    s->msgs[s->n] = m;
    s->hows[s->n] = how;
    s->numbers[s->n++] = s->in.count;
}

/* ---- reading ---------------------------------------------------------- */

static void too_large(sending *s)
{
    refused(s, s->in.count, EXIT_DATA, LARGER,
            "larger than the queue's messages may be");
}

static int send_lines(sending *s)
{
    const char *p = NULL;
    size_t n = 0;
    int code = 0;
    while (code == 0 && !stop_signal && lines_next(&s->in, &p, &n, &code)) {
        bool whole = n <= s->in.max_size;
        if (whole)
            add(s, p, n);
        if (!whole || s->n == s->batch || !lines_ready(&s->in))
            code = flush(s);
        if (whole)
            continue;
        too_large(s);
        lines_skip(&s->in, &code);
    }
    int last = flush(s);
    return code ? code : last;
}

static int send_whole(sending *s)
{
    const char *p = s->c->arg_count > 1 ? s->c->args[1] : NULL;
    size_t n = p ? strlen(p) : 0;
    int code = 0;
    bool read = !p;
    if (read && !lines_all(&s->in, &p, &n, &code))
        return code;
    s->in.count = 1;
    if (read && n > s->in.max_size) /* it was not read whole */
        too_large(s);
    else
        add(s, p, n);
    return flush(s);
}

/* ---- the end ---------------------------------------------------------- */

static const column columns[] = {
    { "queue", COLUMN_TEXT, false },       { "sent", COLUMN_COUNT, false },
    { "duplicates", COLUMN_COUNT, false }, { "failed", COLUMN_COUNT, false },
    { "unknown", COLUMN_COUNT, false },    { "id", COLUMN_TEXT, false },
};

/* "3 sent", and what else there is. */
static void say_counts(const sending *s)
{
    char *more[3] = { copy(""), copy(""), copy("") };
    const int64_t counts[] = { s->duplicates, s->failed, s->unknown };
    static const char *const words[] = { "sent before", "failed", "unknown" };
    for (int i = 0; i < 3; i++) {
        if (counts[i] == 0)
            continue;
        free(more[i]);
        more[i] = format(", %lld %s", (long long)counts[i], words[i]);
    }
    note("%lld message%s sent%s%s%s", (long long)s->sent, plural(s->sent),
         more[0], more[1], more[2]);
    for (int i = 0; i < 3; i++)
        free(more[i]);
}

static int show_counts(const sending *s)
{
    int code;
    if (!wants_record(s->c)) {
        say_counts(s);
        return 0;
    }
    output *out = output_open(s->c, columns, 6, true, &code);
    if (!out)
        return code;
    output_text(out, s->c->args[0]);
    output_number(out, s->sent);
    output_number(out, s->duplicates);
    output_number(out, s->failed);
    output_number(out, s->unknown);
    output_text(out, s->sent + s->duplicates == 1 ? s->id : NULL);
    return output_close(out);
}

static int judge(sending *s, int code)
{
    if (s->failed > TOLD && s->first && !s->unknown)
        fail(s->first, NULL, "and %lld more", (long long)(s->failed - TOLD));
    int shown = show_counts(s);
    if (s->unknown)
        return EXIT_UNKNOWN;
    code = s->first ? s->first : code;
    if (code == 0 && stop_signal)
        code = EXIT_SIGNAL + stop_signal;
    return code ? code : shown;
}

/* What the queue takes: longer lines need not be read whole. */
static int look_at_queue(sending *s)
{
    leat_queue_stats st;
    leat_error err = { 0 };
    if (leat_queue_stats_get(s->q.queue, &st, &err) != LEAT_OK)
        return queue_fail(s->c, s->q.client, s->c->args[0], &err);
    s->in.max_size = st.settings.max_message;
    return 0;
}

static int send_all(sending *s)
{
    int code = look_at_queue(s);
    bool whole = s->c->arg_count > 1 || value_text(s->c, "file");
    if (code)
        return code;
    s->show = !whole && !report_quiet() && isatty(STDERR_FILENO) == 1 &&
              isatty(s->in.fd) != 1;
    if (s->show)
        progress_start(&s->bar, "sending", 0);
    code = whole ? send_whole(s) : send_lines(s);
    if (s->show) {
        s->bar.done = s->sent + s->duplicates;
        progress_end(&s->bar);
    }
    return judge(s, code);
}

/* ---- options ---------------------------------------------------------- */

static int check_words(cli *c)
{
    bool arg = c->arg_count > 1, file = value_text(c, "file") != NULL;
    if (arg && file)
        return fail(EXIT_USAGE, NULL,
                    "a message and --file do not go together");
    if ((arg || file) &&
        (value_on(c, "null") || value_text(c, "group-delimiter")))
        return fail(EXIT_USAGE, NULL,
                    "one message is sent: neither --null nor "
                    "--group-delimiter go with it");
    if (value_text(c, "group") && value_text(c, "group-delimiter"))
        return fail(EXIT_USAGE, NULL,
                    "--group and --group-delimiter do not go together");
    if (value_count(c, "batch") > LEAT_QUEUE_BATCH)
        return fail(EXIT_USAGE, NULL, "--batch is at most %d",
                    LEAT_QUEUE_BATCH);
    return 0;
}

static int open_input(sending *s)
{
    cli *c = s->c;
    s->in.end = value_on(c, "null") ? '\0' : '\n';
    return c->arg_count > 1
               ? 0
               : lines_open(&s->in, value_text(c, "file"), "message");
}

static void get_model(sending *s)
{
    cli *c = s->c;
    s->batch = (size_t)value_count(c, "batch");
    s->delimiter = value_text(c, "group-delimiter");
    s->model = (leat_msg){
        .key = leat_str(value_text(c, "key")),
        .type = leat_str(value_text(c, "type")),
        .content_type = leat_str(value_text(c, "content-type")),
        .headers = s->headers.list,
        .header_count = s->headers.count,
    };
    int64_t delay = value_ms(c, "delay");
    s->how = (leat_queue_send_opts){
        .delay_ms = !value_text(c, "delay") ? 0
                    : delay                 ? delay
                                            : -1,
        .group = leat_str(value_text(c, "group")),
        .dedup = leat_str(value_text(c, "dedup")),
    };
    s->msgs = grab(s->batch * sizeof *s->msgs);
    s->hows = grab(s->batch * sizeof *s->hows);
    s->sents = grab(s->batch * sizeof *s->sents);
    s->numbers = grab(s->batch * sizeof *s->numbers);
}

static void sending_free(sending *s)
{
    opened_close(s->c, &s->q);
    lines_close(&s->in);
    free(s->headers.text);
    free(s->msgs);
    free(s->hows);
    free(s->sents);
    free(s->numbers);
    free(s);
}

/* --auto-create makes it as it is made by default. */
static bool open_queue(sending *s, int *code)
{
    cli *c = s->c;
    if (!value_on(c, "auto-create"))
        return opened_open(c, &s->q, false, code);
    leat_error err = { 0 };
    leat_queue_opts o = queue_opts(c);
    o.must_exist = false;
    s->q.client = client_open(c, value_text(c, "url"), "leat-queue", code);
    if (!s->q.client)
        return false;
    s->q.queue = leat_queue_open(s->q.client, c->args[0], &o, &err);
    if (!s->q.queue)
        *code = fail_with(c->args[0], &err, NULL);
    return s->q.queue != NULL;
}

int run_queue_send(cli *c)
{
    int code = check_words(c);
    if (code)
        return code;
    sending *s = grab(sizeof *s);
    s->c = c;
    code = header_list_get(c, &s->headers);
    get_model(s);
    if (code == 0)
        code = open_input(s);
    if (code == 0 && open_queue(s, &code))
        code = send_all(s);
    sending_free(s);
    return code;
}
