/*
 * cmd_topic_send.c: leat topic send: lines of stdin as messages.
 *
 * What is sent and unconfirmed is bounded by the library, and publishing waits
 * for room.  Whatever ends the reading, everything that was accepted gets its
 * outcome before the command ends, and the counts add up:
 *
 *   sent = persisted + failed + unknown
 */
#include "cli.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define AROUND  65536            /* what surrounds a body         */
#define ROOM_MS (10 * 60 * 1000) /* messages time out long before */

typedef struct sending {
    cli *c;
    leat_client *client;
    leat_topic *topic;
    leat_msg model; /* what all messages share */
    header_list headers;
    const char *delimiter;
    bool to_one;
    uint32_t partition;
    int64_t delay_ms; /* -1: none */
    line_reader in;

    int64_t sent; /* accepted by the library */
    bool show;    /* progress */
    progress bar;

    atomic_llong persisted, failed, unknown; /* by the topic's thread */
    pthread_mutex_t lock;
    leat_error first; /* failure, under the lock */
} sending;

static void on_published(void *arg, const leat_position *at,
                         const leat_error *err)
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

static leat_code publish(sending *s, const leat_msg *m, leat_error *err)
{
    if (s->delay_ms >= 0)
        return leat_topic_publish_later(s->topic, m, s->delay_ms, on_published,
                                        s, err);
    if (s->to_one)
        return leat_topic_publish_to(s->topic, s->partition, m, on_published, s,
                                     err);
    return leat_topic_publish(s->topic, m, on_published, s, err);
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
    leat_code code = publish(s, &m, &err);
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
    const char *p = s->c->arg_count > 1 ? s->c->args[1] : NULL;
    size_t n = p ? strlen(p) : 0;
    int code = 0;
    if (!p && !lines_all(&s->in, &p, &n, &code))
        return code;
    return send_one(s, p, n);
}

static bool is_whole(const sending *s)
{
    return s->c->arg_count > 1 || value_text(s->c, "file");
}

/* ---- options ---------------------------------------------------------- */

static int check_words(cli *c)
{
    if (value_text(c, "key") && value_text(c, "key-delimiter"))
        return fail(EXIT_USAGE, NULL,
                    "--key and --key-delimiter do not go together");
    bool arg = c->arg_count > 1, file = value_text(c, "file") != NULL;
    if (arg && file)
        return fail(EXIT_USAGE, NULL,
                    "a message and --file do not go together");
    if ((arg || file) &&
        (value_on(c, "null") || value_text(c, "key-delimiter")))
        return fail(EXIT_USAGE, NULL,
                    "one message is sent: neither --null nor --key-delimiter "
                    "go with it");
    if (value_text(c, "delay") && value_text(c, "partition"))
        return fail(EXIT_USAGE, NULL,
                    "--delay and --partition do not go together");
    if (value_text(c, "partitions") && !value_on(c, "auto-create"))
        return fail(EXIT_USAGE, "leat topic create makes a topic",
                    "--partitions is for --auto-create");
    if (value_count(c, "partitions") > LEAT_PARTITIONS_MAX)
        return fail(EXIT_USAGE, NULL, "--partitions is at most %d",
                    LEAT_PARTITIONS_MAX);
    return 0;
}

static int open_topic(sending *s)
{
    cli *c = s->c;
    leat_error err = { 0 };
    int64_t timeout = value_ms(c, "timeout");
    /* What surrounds a body is allowed for: --max-size speaks of the body. */
    leat_topic_opts o = { .auto_create = value_on(c, "auto-create"),
                          .partitions = (int)value_count(c, "partitions"),
                          .codec = leat_codec_find(value_text(c, "codec")),
                          .max_message = s->in.max_size * 2 + AROUND,
                          .timeout_ms = timeout ? timeout : 1,
                          .max_wait_ms = ROOM_MS,
                          .log = report_logger() };
    s->topic = leat_topic_open(s->client, c->args[0], &o, &err);
    if (!s->topic)
        return topic_fail(s->client, c->args[0], &err);
    uint32_t partitions = leat_topic_partitions(s->topic);
    if (s->to_one && s->partition >= partitions)
        return fail(EXIT_USAGE, NULL,
                    "topic %s has no partition %u: they are 0 to %u",
                    c->args[0], s->partition, partitions - 1);
    return 0;
}

/* ---- the end ---------------------------------------------------------- */

static const column columns[] = {
    { "topic", COLUMN_TEXT, false },
    { "persisted", COLUMN_COUNT, false },
    { "failed", COLUMN_COUNT, false },
    { "unknown", COLUMN_COUNT, false },
};

static int show_counts(sending *s)
{
    cli *c = s->c;
    int code;
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
    char *what = format("topic send: %s", s->c->args[0]);
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
    int code = open_topic(s);
    if (code)
        return code;
    s->show = !is_whole(s) && !report_quiet() && isatty(STDERR_FILENO) == 1 &&
              isatty(s->in.fd) != 1;
    if (s->show)
        progress_start(&s->bar, "sending", 0);
    code = is_whole(s) ? send_whole(s) : send_lines(s);
    leat_error err = { 0 };
    (void)leat_topic_flush(s->topic, 2 * value_ms(s->c, "timeout") + 1000,
                           &err);
    leat_topic_close(s->topic); /* what has no outcome gets one here */
    s->topic = NULL;
    if (s->show) {
        s->bar.done = s->persisted;
        progress_end(&s->bar);
    }
    return judge(s, code);
}

int run_topic_send(cli *c)
{
    int code = check_words(c);
    if (code)
        return code;
    sending *s = grab(sizeof *s);
    s->c = c;
    s->delimiter = value_text(c, "key-delimiter");
    s->to_one = value_text(c, "partition") != NULL;
    s->partition = (uint32_t)value_count(c, "partition");
    s->delay_ms = value_text(c, "delay") ? value_ms(c, "delay") : -1;
    s->in.max_size = (size_t)value_count(c, "max-size");
    s->in.end = value_on(c, "null") ? '\0' : '\n';
    s->model.key = leat_str(value_text(c, "key"));
    s->model.type = leat_str(value_text(c, "type"));
    s->model.content_type = leat_str(value_text(c, "content-type"));
    pthread_mutex_init(&s->lock, NULL);
    code = header_list_get(c, &s->headers);
    s->model.headers = s->headers.list;
    s->model.header_count = s->headers.count;
    if (code == 0 && c->arg_count < 2)
        code = lines_open(&s->in, value_text(c, "file"), "message");
    if (code == 0 &&
        (s->client = client_open(c, value_text(c, "url"), "leat-send", &code)))
        code = send_all(s);
    leat_topic_close(s->topic);
    leat_client_close(s->client);
    lines_close(&s->in);
    free(s->headers.text);
    free(s);
    return code;
}
