/*
 * cmd_stream.c: leat stream ls, info, groups, rm and add, and what all commands
 * on streams share.
 *
 * A name may be any bytes but zero: what is shown of it goes through output.c
 * and report.c, or is made printable here.
 */
#include "queue.h"
#include "send.h"
#include "stream.h"

#include <stdlib.h>

/* ---- shared ----------------------------------------------------------- */

int stream_fail(leat_client *client, const char *name, const leat_error *err)
{
    if (err->code == LEAT_EINVAL)
        return fail(EXIT_USAGE, NULL, "%s", err->msg);
    if (err->code != LEAT_ENOENT)
        return fail_with(name, err, NULL);
    char *todo = near_name(leat_stream_names(client, NULL, NULL), name,
                           "leat stream ls lists them, leat stream add makes "
                           "one");
    int code = fail(EXIT_NO, todo, "no stream '%s'", name);
    free(todo);
    return code;
}

int stream_refuse_own(cli *c)
{
    static const char own[] = "leat:";
    if (strncmp(c->args[0], own, sizeof own - 1) != 0)
        return 0;
    return fail(EXIT_USAGE, "leat topic send and leat consume are for topics",
                "'%s' is a part of a topic", c->args[0]);
}

/* ---- ls --------------------------------------------------------------- */

static const column ls_columns[] = {
    { "name", COLUMN_TEXT, false },    { "messages", COLUMN_COUNT, false },
    { "groups", COLUMN_COUNT, false }, { "last", COLUMN_TEXT, false },
    { "first", COLUMN_TEXT, true },    { "added", COLUMN_COUNT, true },
    { "bytes", COLUMN_BYTES, true },
};

enum { LS_COLUMNS = sizeof ls_columns / sizeof *ls_columns };

static void show_stream(output *out, const leat_stream_info *s)
{
    output_text(out, s->name);
    output_number(out, s->entries);
    output_number(out, (int64_t)s->groups);
    output_position(out, s->last);
    output_position(out, s->first);
    output_count(out, s->added);
    output_count(out, s->bytes);
}

/* The name of one that may not be looked at is known all the same. */
static void show_name(output *out, const char *name)
{
    output_text(out, name);
    for (int i = 1; i < LS_COLUMNS; i++)
        output_null(out);
}

/* One that went meanwhile is not listed. */
static leat_code list_stream(leat_client *client, const char *name, output *out,
                             leat_error *err)
{
    leat_stream_info *s = leat_stream_describe(client, name, err);
    leat_code code = s ? LEAT_OK : err->code;
    if (s)
        show_stream(out, s);
    else if (code == LEAT_EAUTH)
        show_name(out, name);
    leat_stream_info_free(s);
    bool passed = code == LEAT_EAUTH || code == LEAT_ENOENT ||
                  code == LEAT_EINVAL;
    return passed ? LEAT_OK : code;
}

static int list_streams(cli *c, leat_client *client, output *out)
{
    leat_error err = { 0 };
    const leat_stream_names_opts o = {
        .match = c->arg_count ? c->args[0] : NULL,
        .all = value_on(c, "all"),
    };
    leat_names *n = leat_stream_names(client, &o, &err);
    leat_code got = n ? LEAT_OK : err.code;
    for (size_t i = 0; n && i < n->count && got == LEAT_OK && !stop_signal; i++)
        got = list_stream(client, n->name[i], out, &err);
    leat_names_free(n);
    return got == LEAT_OK ? 0 : fail_with("stream ls", &err, NULL);
}

int run_stream_ls(cli *c)
{
    int code;
    output *out = output_open(c, ls_columns, LS_COLUMNS, false, &code);
    leat_client *client = out ? client_open(c, value_text(c, "url"),
                                            "leat-stream", &code)
                              : NULL;
    if (client)
        code = list_streams(c, client, out);
    client_close(c, client);
    return output_end(out, code);
}

/* ---- one stream ------------------------------------------------------- */

static const column group_columns[] = {
    { "group", COLUMN_TEXT, false },    { "consumers", COLUMN_COUNT, false },
    { "pending", COLUMN_COUNT, false }, { "lag", COLUMN_COUNT, false },
    { "last", COLUMN_TEXT, false },
};

static void show_groups(output *out, const leat_stream_info *s)
{
    for (size_t i = 0; i < s->groups; i++) {
        const leat_stream_group *g = &s->group[i];
        output_bytes(out, g->name);
        output_number(out, g->consumers);
        output_number(out, g->pending);
        output_count(out, g->lag);
        output_position(out, g->last);
    }
}

static const column info_columns[] = {
    { "name", COLUMN_TEXT, false },    { "messages", COLUMN_COUNT, false },
    { "groups", COLUMN_COUNT, false }, { "last", COLUMN_TEXT, false },
    { "first", COLUMN_TEXT, false },   { "added", COLUMN_COUNT, false },
    { "bytes", COLUMN_BYTES, false },
};

static int run_view(cli *c, const column *columns, size_t n, bool record,
                    void (*show)(output *, const leat_stream_info *))
{
    int code;
    leat_error err = { 0 };
    output *out = output_open(c, columns, n, record, &code);
    leat_client *client = out ? client_open(c, value_text(c, "url"),
                                            "leat-stream", &code)
                              : NULL;
    leat_stream_info *s = client
                              ? leat_stream_describe(client, c->args[0], &err)
                              : NULL;
    if (s)
        show(out, s);
    else if (client)
        code = stream_fail(client, c->args[0], &err);
    leat_stream_info_free(s);
    client_close(c, client);
    return output_end(out, code);
}

int run_stream_info(cli *c)
{
    return run_view(c, info_columns, LS_COLUMNS, true, show_stream);
}

int run_stream_groups(cli *c)
{
    return run_view(c, group_columns,
                    sizeof group_columns / sizeof *group_columns, false,
                    show_groups);
}

/* ---- rm --------------------------------------------------------------- */

/* "stream s with 3 messages and 1 group, 2 pending"; malloced. */
static char *contents(const leat_stream_info *s)
{
    int64_t count = (int64_t)s->groups, pending = 0;
    char *name = printable(s->name, strlen(s->name));
    for (size_t i = 0; i < s->groups; i++)
        pending += s->group[i].pending;
    char *text = format("stream %s with %lld message%s and %lld group%s, %lld "
                        "pending",
                        name, (long long)s->entries, plural(s->entries),
                        (long long)count, plural(count), (long long)pending);
    free(name);
    return text;
}

static int ask_and_remove(cli *c, leat_client *client,
                          const leat_stream_info *s)
{
    int code = 0;
    leat_error err = { 0 };
    char *what = contents(s), *question = format("remove %s", what);
    char *would = format("dry run: %s would be removed", what);
    char *done = format("removed %s", what);
    if (value_on(c, "dry-run"))
        code = queue_done(c, "removed", true, would);
    else if (confirmed(c, question, &code))
        code = leat_stream_remove(client, s->name, NULL, &err) == LEAT_OK
                   ? queue_done(c, "removed", false, done)
                   : stream_fail(client, s->name, &err);
    free(done);
    free(would);
    free(question);
    free(what);
    return code;
}

int run_stream_rm(cli *c)
{
    leat_error err = { 0 };
    int code = stream_refuse_own(c);
    leat_client *client = code ? NULL
                               : client_open(c, value_text(c, "url"),
                                             "leat-stream", &code);
    if (!client)
        return code;
    leat_stream_info *s = leat_stream_describe(client, c->args[0], &err);
    code = s ? ask_and_remove(c, client, s)
             : stream_fail(client, c->args[0], &err);
    leat_stream_info_free(s);
    leat_client_close(client);
    return code;
}

/* ---- add -------------------------------------------------------------- */

static int open_sink(sending *s)
{
    cli *c = s->c;
    leat_error err = { 0 };
    int64_t timeout = value_ms(c, "timeout");
    leat_stream_opts o = { .codec = codec_get(value_text(c, "codec")),
                           .log = report_logger() };
    leat_stream_sink_opts so = { .timeout_ms = timeout ? timeout : 1,
                                 .max_wait_ms = ROOM_MS,
                                 .lossy_maxlen = value_count(c,
                                                             "lossy-maxlen") };
    leat_stream *stream = leat_stream_open(s->client, c->args[0], &o, &err);
    s->handle = stream ? leat_stream_sink(stream, &so, &err) : NULL;
    leat_stream_close(stream);
    return s->handle ? 0 : stream_fail(s->client, c->args[0], &err);
}

static leat_code add(sending *s, const leat_msg *m, leat_error *err)
{
    return leat_sink_publish(s->handle, m, 1, on_published, s, err);
}

/* What has no outcome after a while gets one by the close. */
static void close_sink(sending *s)
{
    leat_error err = { 0 };
    if (!s->handle)
        return;
    (void)leat_sink_flush(s->handle, 2 * value_ms(s->c, "timeout") + 1000,
                          &err);
    leat_sink_close(s->handle);
    s->handle = NULL;
}

int run_stream_add(cli *c)
{
    static const target stream = { "stream", open_sink, add, close_sink };
    int code = stream_refuse_own(c);
    return code ? code : send_messages(c, &stream);
}
