/*
 * cmd_tail.c: leat topic tail and leat stream tail: messages without a group.
 */
#include "stream.h"

#include <stdlib.h>

#define LAST    10
#define WAIT_MS 500 /* between two looks at signals */

/* What is looked at. */
typedef struct looked_at {
    print_kind what;
    leat_browse *(*open)(leat_client *c, const char *name,
                         const leat_browse_opts *opts, leat_error *err);
    int (*fail)(leat_client *c, const char *name, const leat_error *err);
} looked_at;

/* Where to begin: --from, else the last few. */
static bool beginning(cli *c, leat_client *client, leat_browse_opts *o,
                      char **from, int *code)
{
    const char *text = value_text(c, "from");
    int64_t count = value_count(c, "count");
    *from = NULL;
    if (text) {
        *from = from_text(client, text, code);
        o->from = *from;
        return *from != NULL;
    }
    if (count > 10000) {
        *code = fail(EXIT_USAGE, "--from start begins at the first",
                     "--count is at most 10000 without --from");
        return false;
    }
    o->last = count ? (int)count : LAST;
    return true;
}

/* Who follows waits for a server that is away, and says so once. */
static bool may_go_on(cli *c, leat_error *err, bool *said)
{
    bool passing = err->retriable || err->code == LEAT_EUNKNOWN;
    if (!value_on(c, "follow") || !passing)
        return false;
    if (!*said)
        note("%s: %s: waiting for it", c->args[0], err->msg);
    *said = true;
    *err = (leat_error){ 0 };
    sleep_ms(WAIT_MS);
    return true;
}

static int print_all(cli *c, leat_browse *b, printer *p, bool is_stream,
                     leat_error *err)
{
    bool follow = value_on(c, "follow"), said = false;
    /* Who follows from the last few goes on after them. */
    bool endless = follow && !value_text(c, "from");
    int64_t count = endless ? 0 : value_count(c, "count"), n = 0;
    int code = 0;
    while (code == 0 && !stop_signal && (count == 0 || n < count)) {
        leat_seen s;
        int got = leat_browse_next(b, &s, WAIT_MS, err);
        if (got < 0 && may_go_on(c, err, &said))
            continue;
        if (got < 0)
            return exit_code(err->code);
        said = false;
        if (got == 0 && !follow)
            break;
        if (got == 0)
            continue;
        code = printer_put(p, &(sighting){ .topic = c->args[0],
                                           .stream = is_stream,
                                           .partition = s.partition,
                                           .position = s.position,
                                           .msg = s.msg,
                                           .error = s.error });
        n++;
    }
    return code;
}

static int tail(cli *c, leat_client *client, printer *p, const looked_at *at)
{
    int code = 0;
    leat_error err = { 0 };
    char *from = NULL;
    leat_browse_opts o = { .follow = value_on(c, "follow"),
                           .codec = codec_get(value_text(c, "codec")) };
    if (at->what == PRINT_TOPIC && value_text(c, "partition")) {
        o.one = true;
        o.partition = (uint32_t)value_count(c, "partition");
    }
    if (!beginning(c, client, &o, &from, &code))
        return code;
    leat_browse *b = at->open(client, c->args[0], &o, &err);
    if (b)
        code = print_all(c, b, p, at->what == PRINT_STREAM, &err);
    if (err.code != LEAT_OK)
        code = at->fail(client, c->args[0], &err);
    leat_browse_close(b);
    free(from);
    return code;
}

static int run_tail(cli *c, const looked_at *at)
{
    int code;
    printer *p = printer_open(c, at->what, &code);
    if (!p)
        return code;
    leat_client *client = client_open(c, value_text(c, "url"), "leat-tail",
                                      &code);
    if (client)
        code = tail(c, client, p, at);
    leat_client_close(client);
    int end = printer_close(p, code == 0);
    if (code == 0 && stop_signal)
        code = EXIT_SIGNAL + stop_signal;
    return code ? code : end;
}

int run_topic_tail(cli *c)
{
    static const looked_at topic = { PRINT_TOPIC, leat_browse_open,
                                     topic_fail };
    return run_tail(c, &topic);
}

int run_stream_tail(cli *c)
{
    static const looked_at stream = { PRINT_STREAM, leat_stream_browse,
                                      stream_fail };
    return run_tail(c, &stream);
}
