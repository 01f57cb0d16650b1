/*
 * send.c: lines of stdin as messages.
 *
 * What is sent and unconfirmed is bounded by the library, and publishing waits
 * for room.  Whatever ends the reading, everything that was accepted gets its
 * outcome before the command ends, and the counts add up:
 *
 *   sent = persisted + failed + unknown
 */
#include "send.h"

#include <stdlib.h>
#include <unistd.h>

void on_published(void *arg, const leat_position *at, const leat_error *err)
{
    sending *s = arg;
    (void)at;
    if (!err || err->code == LEAT_OK) {
        s->persisted++;
        return;
    }
    bool unknown = err->code == LEAT_EUNKNOWN;
    atomic_fetch_add(unknown ? &s->unknown : &s->failed, 1);
    pthread_mutex_lock(&s->lock);
    if (s->first.code == LEAT_OK)
        s->first = *err;
    pthread_mutex_unlock(&s->lock);
}

/* ---- one message ------------------------------------------------------ */

/* "line 3", "message 3" or the file's name, for an error; malloced. */
static char *called(const sending *s)
{
    const char *file = value_text(s->c, "file");
    if (s->c->arg_count > 1)
        return copy("the message");
    return file ? copy(strcmp(file, "-") == 0 ? "stdin" : file)
                : format("%s %lld", s->in.end ? "line" : "message",
                         (long long)s->in.count);
}

static int too_large(const sending *s)
{
    char *what = called(s);
    int code = fail(EXIT_DATA, "--max-size allows more; nothing is ever cut",
                    "%s: over %zu bytes", what, s->in.max_size);
    free(what);
    return code;
}

static int no_key(const sending *s)
{
    char *what = called(s);
    int code = fail(EXIT_DATA, "it is a key, the delimiter and a body",
                    "%s: no '%s' in it", what, s->delimiter);
    free(what);
    return code;
}

static bool split_key(const sending *s, leat_msg *m)
{
    size_t n = strlen(s->delimiter);
    const char *at = memmem(m->body.p, m->body.n, s->delimiter, n);
    if (!at)
        return false;
    size_t key = (size_t)(at - (const char *)m->body.p);
    m->key = leat_mem(m->body.p, key);
    m->body = leat_mem(at + n, m->body.n - key - n);
    return true;
}

static int send_one(sending *s, const char *p, size_t n)
{
    leat_msg m = s->model;
    leat_error err = { 0 };
    m.body = leat_mem(p, n);
    if (n > s->in.max_size)
        return too_large(s);
    if (s->delimiter && !split_key(s, &m))
        return no_key(s);
    leat_code code = s->to->publish(s, &m, &err);
    if (code == LEAT_OK) {
        s->sent++;
        return 0;
    }
    char *what = called(s);
    int exit = fail_with(what, &err, NULL);
    free(what);
    return exit;
}

/* ---- reading ---------------------------------------------------------- */

static void show_progress(sending *s)
{
    if (s->show && s->in.count % 64 == 0)
        progress_set(&s->bar, s->persisted);
}

static int send_lines(sending *s)
{
    const char *p = NULL;
    size_t n = 0;
    int code = 0;
    while (code == 0 && !stop_signal && lines_next(&s->in, &p, &n, &code)) {
        code = send_one(s, p, n);
        show_progress(s);
    }
    return code;
}

static int send_whole(sending *s)
{
    const char *p;
    size_t n;
    int code = 0;
    if (s->c->arg_count > 1)
        return send_one(s, s->c->args[1], strlen(s->c->args[1]));
    return lines_all(&s->in, &p, &n, &code) ? send_one(s, p, n) : code;
}

/* ---- the end ---------------------------------------------------------- */

static int show_counts(sending *s)
{
    cli *c = s->c;
    int code;
    const column columns[] = {
        { s->to->noun, COLUMN_TEXT, false },
        { "persisted", COLUMN_COUNT, false },
        { "failed", COLUMN_COUNT, false },
        { "unknown", COLUMN_COUNT, false },
    };
    if (report_quiet())
        return 0;
    if (!wants_record(c)) {
        note("%lld persisted, %lld failed, %lld unknown",
             (long long)s->persisted, (long long)s->failed,
             (long long)s->unknown);
        return 0;
    }
    output *out = output_open(c, columns, 4, true, &code);
    if (!out)
        return code;
    output_text(out, c->args[0]);
    output_number(out, s->persisted);
    output_number(out, s->failed);
    output_number(out, s->unknown);
    return output_close(out);
}

/* Everything has its outcome; `code` says why reading ended. */
static int judge(sending *s, int code)
{
    char *what = format("%s %s: %s", s->to->noun, s->c->command->verb,
                        s->c->args[0]);
    int shown = show_counts(s);
    if (s->first.code != LEAT_OK) {
        int first = fail_with(what, &s->first, NULL);
        code = code ? code : first;
    }
    free(what);
    if (s->unknown)
        return EXIT_UNKNOWN;
    if (code == 0 && stop_signal)
        code = EXIT_SIGNAL + stop_signal;
    return code ? code : shown;
}

static int send_all(sending *s)
{
    int code = s->to->open(s);
    bool whole = s->c->arg_count > 1 || value_text(s->c, "file");
    if (code)
        return code;
    s->show = !whole && !report_quiet() && isatty(STDERR_FILENO) == 1 &&
              isatty(s->in.fd) != 1;
    if (s->show)
        progress_start(&s->bar, "sending", 0);
    code = whole ? send_whole(s) : send_lines(s);
    s->to->close(s);
    if (s->show) {
        s->bar.done = s->persisted;
        progress_end(&s->bar);
    }
    return judge(s, code);
}

/* ---- options ---------------------------------------------------------- */

static int check_words(cli *c)
{
    bool arg = c->arg_count > 1, file = value_text(c, "file") != NULL;
    if (value_text(c, "key") && value_text(c, "key-delimiter"))
        return fail(EXIT_USAGE, NULL,
                    "--key and --key-delimiter do not go together");
    if (arg && file)
        return fail(EXIT_USAGE, NULL,
                    "a message and --file do not go together");
    if ((arg || file) &&
        (value_on(c, "null") || value_text(c, "key-delimiter")))
        return fail(EXIT_USAGE, NULL,
                    "one message is sent: neither --null nor --key-delimiter "
                    "go with it");
    return 0;
}

static int open_input(sending *s)
{
    cli *c = s->c;
    s->in.max_size = (size_t)value_count(c, "max-size");
    s->in.end = value_on(c, "null") ? '\0' : '\n';
    return c->arg_count > 1
               ? 0
               : lines_open(&s->in, value_text(c, "file"), "message");
}

static int get_model(sending *s)
{
    cli *c = s->c;
    int code = header_list_get(c, &s->headers);
    s->delimiter = value_text(c, "key-delimiter");
    s->model = (leat_msg){
        .key = leat_str(value_text(c, "key")),
        .type = leat_str(value_text(c, "type")),
        .content_type = leat_str(value_text(c, "content-type")),
        .headers = s->headers.list,
        .header_count = s->headers.count,
    };
    return code;
}

int send_messages(cli *c, const target *to)
{
    int code = check_words(c);
    if (code)
        return code;
    sending *s = grab(sizeof *s);
    s->c = c;
    s->to = to;
    pthread_mutex_init(&s->lock, NULL);
    code = get_model(s);
    if (code == 0)
        code = open_input(s);
    if (code == 0 &&
        (s->client = client_open(c, value_text(c, "url"), "leat-send", &code)))
        code = send_all(s);
    to->close(s);
    leat_client_close(s->client);
    lines_close(&s->in);
    free(s->headers.text);
    free(s);
    return code;
}
