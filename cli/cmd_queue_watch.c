/*
 * cmd_queue_watch.c: leat queue watch: what happens in queues, as it happens.
 *
 * Events come on a thread of the library and are printed there, each flushed;
 * the main thread waits for a signal, the count, or a reader that went away.
 */
#include "queue.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { LOOK_MS = 20 };

typedef struct watching {
    cli *c;
    bool lines, array, utc, headers;
    output *out; /* NULL: lines, or an array */
    leat_json *json;
    pthread_mutex_t lock;
    int64_t limit, count;
    int trouble; /* an exit code that ends us */
} watching;

static const column columns[] = {
    { "at", COLUMN_TIME, false },        { "type", COLUMN_TEXT, false },
    { "queue", COLUMN_TEXT, false },     { "message", COLUMN_TEXT, false },
    { "receives", COLUMN_COUNT, false }, { "missed", COLUMN_BOOL, false },
};

/* ---- one event -------------------------------------------------------- */

static void put_line(const watching *w, const leat_queue_event *e, bool missed)
{
    char *at = time_text(e->at_ms, w->utc);
    char *queue = printable(e->queue.p ? e->queue.p : "", e->queue.n);
    char *id = printable(e->message_id.p ? e->message_id.p : "",
                         e->message_id.n);
    char *type = printable(e->type, strlen(e->type));
    if (w->count == 0 && w->headers)
        puts("at type queue message");
    if (missed)
        puts("(some events may be missing here)");
    printf("%s %-12s %s %s", at, type, queue, id);
    if (e->receives >= 0)
        printf(" (receive %lld)", (long long)e->receives);
    putchar('\n');
    free(at);
    free(queue);
    free(id);
    free(type);
}

static int put_row(const watching *w, const leat_queue_event *e, bool missed)
{
    output_number(w->out, e->at_ms);
    output_text(w->out, e->type);
    output_bytes(w->out, e->queue);
    output_bytes(w->out, e->message_id);
    output_count(w->out, e->receives);
    output_bool(w->out, missed);
    return output_flush(w->out);
}

/* An array grows; only its end tells that it is whole. */
static int put_element(const watching *w, const leat_queue_event *e,
                       bool missed)
{
    leat_json *j = w->json;
    leat_error err = { 0 };
    size_t n = 0;
    char *at = time_text(e->at_ms, w->utc);
    leat_json_clear(j);
    leat_json_object(j, NULL);
    leat_json_str(j, "at", at);
    leat_json_str(j, "type", e->type);
    leat_json_text(j, "queue", e->queue);
    leat_json_text(j, "message", e->message_id);
    if (e->receives >= 0)
        leat_json_int(j, "receives", e->receives);
    else
        leat_json_null(j, "receives");
    leat_json_bool(j, "missed", missed);
    leat_json_end(j);
    free(at);
    const char *text = leat_json_done(j, &n, &err);
    if (!text)
        return fail_with("json", &err, NULL);
    fputs(w->count ? ",\n" : "[", stdout);
    fwrite(text, 1, n, stdout);
    return 0;
}

static int arrived(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    return errno == EPIPE ? EXIT_SIGNAL + SIGPIPE : EXIT_IO;
}

static void on_event(void *arg, const leat_queue_event *e, bool missed)
{
    watching *w = arg;
    int code = 0;
    pthread_mutex_lock(&w->lock);
    if (w->trouble || (w->limit && w->count >= w->limit))
        goto done;
    if (w->out)
        code = put_row(w, e, missed);
    else if (w->array)
        code = put_element(w, e, missed);
    else
        put_line(w, e, missed);
    w->count++;
    w->trouble = code ? code : arrived();
done:
    pthread_mutex_unlock(&w->lock);
}

/* ---- the whole -------------------------------------------------------- */

static bool ended(watching *w)
{
    pthread_mutex_lock(&w->lock);
    bool yes = w->trouble || (w->limit && w->count >= w->limit);
    pthread_mutex_unlock(&w->lock);
    return yes;
}

/* A queue that is not there yet may be made while we watch, but whoever waits
 * for a durable one, or for a misspelt one, should know. */
static int check_queue(cli *c, leat_client *client)
{
    leat_error err = { 0 };
    leat_queue_opts o = queue_opts(c);
    leat_queue_stats s;
    const char *name = c->args[0];
    leat_queue *q = leat_queue_open(client, name, &o, &err);
    if (!q)
        return queue_fail(c, client, name, &err);
    int code = 0;
    if (leat_queue_stats_get(q, &s, &err) != LEAT_OK)
        code = queue_fail(c, client, name, &err);
    else if (value_on(c, "durable") && !s.settings.durable_events)
        code = fail(EXIT_CONFIG,
                    "leat queue alter --durable-events lets them be kept",
                    "queue '%s' keeps no events", name);
    leat_queue_close(q);
    return code;
}

static int watch(watching *w, leat_client *client)
{
    cli *c = w->c;
    leat_error err = { 0 };
    leat_queue_opts o = queue_opts(c);
    const char *name = c->arg_count ? c->args[0] : NULL;
    int code = name ? check_queue(c, client) : 0;
    if (code)
        return code;
    leat_queue_watch *q = leat_queue_watch_open(
        client, name, &o, value_on(c, "durable"), on_event, w, &err);
    if (!q)
        return fail_with(name ? name : "queue watch", &err, NULL);
    while (!stop_signal && !ended(w))
        sleep_ms(LOOK_MS);
    leat_queue_watch_close(q);
    return w->trouble;
}

static bool open_output(watching *w, int *code)
{
    const char *form = value_text(w->c, "output");
    leat_error err = { 0 };
    *code = 0;
    w->array = form && strcmp(form, "json") == 0;
    w->lines = form ? strcmp(form, "table") == 0 : isatty(STDOUT_FILENO) == 1;
    if (w->array && !(w->json = leat_json_new(&err)))
        *code = fail_with("json", &err, NULL);
    else if (!w->array && !w->lines)
        w->out = output_open(w->c, columns, sizeof columns / sizeof *columns,
                             false, code);
    return *code == 0;
}

static int close_output(watching *w, int code)
{
    if (w->array && (code == 0 || w->count))
        puts(w->count ? "]" : "[]");
    if (w->out && w->count == 0 && code == 0)
        code = output_flush(w->out); /* the heading */
    if (w->out)
        output_drop(w->out);
    leat_json_free(w->json);
    return code;
}

int run_queue_watch(cli *c)
{
    int code;
    watching w = { .c = c,
                   .utc = value_on(c, "utc"),
                   .headers = !value_on(c, "no-headers"),
                   .limit = value_count(c, "count"),
                   .lock = PTHREAD_MUTEX_INITIALIZER };
    if (value_on(c, "durable") && c->arg_count == 0)
        return fail(EXIT_USAGE, "name a queue",
                    "--durable: events are kept with each queue");
    if (value_on(c, "durable") && is_redowl(c))
        return fail(EXIT_USAGE, "watch it without --durable",
                    "--durable: a queue of redowl keeps no events");
    if (!open_output(&w, &code))
        return code;
    leat_client *client = client_open(c, value_text(c, "url"), "leat-watch",
                                      &code);
    if (client)
        code = watch(&w, client);
    leat_client_close(client);
    code = close_output(&w, code);
    return code ? code : stop_signal ? EXIT_SIGNAL + stop_signal : 0;
}
