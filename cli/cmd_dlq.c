/*
 * cmd_dlq.c: leat dlq ls, show and errors, and what all commands on dead
 * letters share.
 */
#include "dlq.h"

#include <stdlib.h>
#include <unistd.h>

enum { PAGE = 100, ERROR_SHOWN = 60 };

/* ---- shared ----------------------------------------------------------- */

void letters_close(cli *c, letters *l)
{
    leat_dlq_close(l->dlq);
    client_close(c, l->client);
    *l = (letters){ 0 };
}

int letter_fail(const leat_error *err)
{
    return fail(exit_code(err->code),
                err->code == LEAT_ENOENT ? "leat dlq ls lists them" : NULL,
                "%s", err->msg);
}

bool letters_open(cli *c, letters *l, int *code)
{
    leat_error err = { 0 };
    const char *codec = value_text(c, "codec");
    leat_dlq_opts o = { .codec = leat_codec_find(codec ? codec : "") };
    value *size = value_find(c, "max-size");
    if (size)
        o.max_message = (size_t)value_count(c, "max-size");
    *l = (letters){ 0 };
    l->client = client_open(c, value_text(c, "url"), "leat-dlq", code);
    if (!l->client)
        return false;
    l->dlq = leat_dlq_open(l->client, c->args[0], &o, &err);
    if (l->dlq)
        return true;
    *code = topic_fail(l->client, c->args[0], &err);
    letters_close(c, l);
    return false;
}

/* A time ago is told by the server's clock, by which letters die. */
static bool time_get(cli *c, leat_client *client, const char *name, int64_t *ms,
                     int *code)
{
    const char *text = value_text(c, name);
    int64_t ago;
    *ms = 0;
    if (!text)
        return true;
    if (duration_parse(text, &ago)) {
        char *at = from_text(client, text, code);
        if (at)
            *ms = strtoll(at + 1, NULL, 10);
        free(at);
        return *code == 0;
    }
    if (time_parse(text, ms))
        return true;
    *code = fail(EXIT_USAGE,
                 "give a time ago such as 10m, 2026-01-31T12:34:56Z, or @ and "
                 "milliseconds since 1970",
                 "--%s: '%s' is no time", name, text);
    return false;
}

bool filter_given(cli *c)
{
    static const char *const names[] = { "group", "error", "key",
                                         "since", "until", "partition" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const value *v = value_find(c, names[i]);
        if (v && v->text && v->origin == FROM_FLAG)
            return true;
    }
    return false;
}

bool filter_get(cli *c, letters *l, leat_dead_filter *out, int *code)
{
    *code = 0;
    *out = (leat_dead_filter){
        .group = value_text(c, "group"),
        .error = value_text(c, "error"),
        .key = leat_str(value_text(c, "key")),
        .one = value_text(c, "partition") != NULL,
        .partition = (uint32_t)value_count(c, "partition"),
    };
    return time_get(c, l->client, "since", &out->since_ms, code) &&
           time_get(c, l->client, "until", &out->until_ms, code);
}

/* Dead letters outlive their group, so only who finds none may have named a
 * wrong one. */
int nothing_found(cli *c, letters *l, const leat_dead_filter *f)
{
    int code = 0;
    leat_names *n = f->group
                        ? leat_group_names(l->client, c->args[0], NULL, NULL)
                        : NULL;
    bool known = !n;
    for (size_t i = 0; n && i < n->count; i++)
        known = known || strcmp(n->name[i], f->group) == 0;
    if (!known) {
        const char *near = nearest(f->group, n->name, n->count);
        char *todo = near ? format("did you mean '%s'?", near)
                          : format("leat group ls %s lists its groups",
                                   c->args[0]);
        code = fail(EXIT_NO, todo, "topic %s has no group '%s'", c->args[0],
                    f->group);
        free(todo);
    }
    leat_names_free(n);
    return code;
}

static void bytes_or_null(output *out, leat_bytes b)
{
    if (b.n)
        output_bytes(out, b);
    else
        output_null(out);
}

/* "name: value", a line each; malloced. */
static char *lines_of(const leat_header *h, size_t count)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f)
        return copy("");
    for (size_t i = 0; i < count; i++) {
        char *name = printable(h[i].name.p ? h[i].name.p : "", h[i].name.n);
        char *is = printable(h[i].value.p ? h[i].value.p : "", h[i].value.n);
        fprintf(f, "%s%s: %s", i ? "\n" : "", name, is);
        free(name);
        free(is);
    }
    fclose(f);
    return text;
}

/* ---- one as a row ----------------------------------------------------- */

/* The same for ls and show; what ls shows only where --columns asks for it is
 * marked by `list`. */
#define LETTER_COLUMNS(list)                                                   \
    { "id", COLUMN_TEXT, false }, { "group", COLUMN_TEXT, false },             \
        { "key", COLUMN_TEXT, false }, { "attempts", COLUMN_COUNT, false },    \
        { "died", COLUMN_TIME, false }, { "error", COLUMN_TEXT, false },       \
        { "failures", COLUMN_COUNT, list },                                    \
        { "first_error", COLUMN_TEXT, list }, { "first", COLUMN_TIME, list },  \
        { "last_error", COLUMN_TEXT, list }, { "last", COLUMN_TIME, list },    \
        { "topic", COLUMN_TEXT, list }, { "partition", COLUMN_ID, list },      \
        { "position", COLUMN_TEXT, list }, { "fence", COLUMN_ID, list },       \
        { "replayed_from", COLUMN_TEXT, list },                                \
        { "edited", COLUMN_TIME, list }, { "extra", COLUMN_LINES, list },      \
        { "damaged", COLUMN_TEXT, list }, { "message", COLUMN_TEXT, list },    \
        { "type", COLUMN_TEXT, list }, { "time", COLUMN_TIME, list },          \
        { "headers", COLUMN_LINES, list }, { "size", COLUMN_BYTES, list },     \
        { "body", COLUMN_TEXT, list },                                         \
    {                                                                          \
        "body_base64", COLUMN_TEXT, true                                       \
    }

static const column ls_columns[] = { LETTER_COLUMNS(true) };
static const column show_columns[] = { LETTER_COLUMNS(false) };
enum { LETTER_COUNT = sizeof ls_columns / sizeof *ls_columns };

/* Base64 where it is not text, for JSON has no other way; malloced. */
static char *base64(leat_bytes b)
{
    leat_json *j = leat_json_new(NULL);
    size_t n = 0;
    if (!j)
        return NULL;
    leat_json_base64(j, NULL, b);
    const char *text = leat_json_done(j, &n, NULL);
    while (text && n > 0 && text[n - 1] == '\n')
        n--;
    char *out = text && n >= 2 ? copy_n(text + 1, n - 2) : NULL;
    leat_json_free(j);
    return out;
}

static void put_message(output *out, const leat_dead *x)
{
    static const leat_msg none = { 0 };
    const leat_msg *m = x->msg_count ? x->msg : &none;
    char *headers = lines_of(m->headers, m->header_count);
    bytes_or_null(out, m->id);
    bytes_or_null(out, m->type);
    output_given(out, m->time_ms);
    output_text(out, headers);
    output_number(out, (int64_t)x->size);
    bytes_or_null(out, m->body);
    char *other = base64(m->body);
    output_text(out, other);
    free(other);
    free(headers);
}

static void put_letter(output *out, const leat_dead *x, leat_bytes error)
{
    char *extra = lines_of(x->extra, x->extra_count);
    output_text(out, x->id);
    bytes_or_null(out, leat_str(x->group));
    bytes_or_null(out, x->msg_count ? x->msg->key : leat_mem(NULL, 0));
    output_number(out, x->attempts);
    output_given(out, x->dead_ms);
    bytes_or_null(out, error);
    output_number(out, x->failures);
    bytes_or_null(out, x->first_error);
    output_given(out, x->first_ms);
    bytes_or_null(out, x->last_error);
    output_given(out, x->last_ms);
    output_text(out, x->topic);
    output_number(out, x->partition);
    output_position(out, x->position);
    output_count(out, x->fence ? (int64_t)x->fence : -1);
    bytes_or_null(out, leat_str(x->replayed_from));
    output_given(out, x->edited_ms);
    output_text(out, extra);
    output_text(out, x->damaged ? x->damaged->msg : NULL);
    put_message(out, x);
    free(extra);
}

/* ---- ls --------------------------------------------------------------- */

static bool is_table(cli *c)
{
    const char *form = value_text(c, "output");
    return form ? strcmp(form, "table") == 0 : isatty(STDOUT_FILENO) == 1;
}

/* What has no room in a table is not needed to see what kind it is. */
static leat_bytes error_in_table(leat_bytes error, char room[ERROR_SHOWN + 4])
{
    if (error.n <= ERROR_SHOWN)
        return error;
    size_t n = ERROR_SHOWN;
    while (n > 0 && (((const unsigned char *)error.p)[n] & 0xc0) == 0x80)
        n--;
    memcpy(room, error.p, n);
    memcpy(room + n, "...", 3);
    return leat_mem(room, n + 3);
}

/* Rows of these forms need not know each other, so they may go. */
static bool flushable(cli *c)
{
    const char *form = value_text(c, "output");
    return !is_table(c) && (!form || strcmp(form, "json") != 0);
}

static int list(cli *c, leat_dlq_walk *w, output *out, uint64_t *n,
                leat_error *err)
{
    char room[ERROR_SHOWN + 4], last[LEAT_DEAD_ID] = "";
    leat_dead x;
    int code = 0;
    bool table = is_table(c), flush = flushable(c);
    uint64_t limit = (uint64_t)value_count(c, "count");
    if (limit == 0 && isatty(STDOUT_FILENO) == 1)
        limit = PAGE;
    while (code == 0 && !stop_signal && leat_dlq_walk_next(w, &x, err) == 1) {
        if (limit && *n == limit) {
            note("there are more: --after %s goes on", last);
            break;
        }
        put_letter(out, &x, table ? error_in_table(x.error, room) : x.error);
        snprintf(last, sizeof last, "%s", x.id);
        if (++*n % PAGE == 0 && flush)
            code = output_flush(out);
    }
    return code;
}

static int list_all(cli *c, letters *l, output *out)
{
    int code;
    uint64_t n = 0;
    leat_error err = { 0 };
    leat_dlq_walk_opts o = { .after = value_text(c, "after"),
                             .newest_first = value_on(c, "newest") };
    if (!filter_get(c, l, &o.filter, &code))
        return code;
    leat_dlq_walk *w = leat_dlq_walk_open(l->dlq, &o, &err);
    if (w)
        code = list(c, w, out, &n, &err);
    leat_dlq_walk_close(w);
    if (err.code != LEAT_OK)
        return fail_with(c->args[0], &err, NULL);
    if (code == 0 && stop_signal)
        code = EXIT_SIGNAL + stop_signal;
    return code == 0 && n == 0 ? nothing_found(c, l, &o.filter) : code;
}

int run_dlq_ls(cli *c)
{
    int code;
    letters l = { 0 };
    output *out = output_open(c, ls_columns, LETTER_COUNT, false, &code);
    if (out && letters_open(c, &l, &code))
        code = list_all(c, &l, out);
    letters_close(c, &l);
    return output_end(out, code);
}

/* ---- show ------------------------------------------------------------- */

static int show(cli *c, const leat_dead *x)
{
    int code;
    if (value_on(c, "raw")) {
        if (x->msg_count && x->msg->body.n)
            fwrite(x->msg->body.p, 1, x->msg->body.n, stdout);
        return 0;
    }
    output *out = output_open(c, show_columns, LETTER_COUNT, true, &code);
    if (!out)
        return code;
    put_letter(out, x, x->error);
    return output_close(out);
}

int run_dlq_show(cli *c)
{
    int code;
    letters l;
    leat_error err = { 0 };
    if (!letters_open(c, &l, &code))
        return code;
    leat_dead *x = leat_dlq_get(l.dlq, c->args[1], &err);
    code = x ? show(c, x) : letter_fail(&err);
    leat_dead_free(x);
    letters_close(c, &l);
    return code;
}

/* ---- errors ----------------------------------------------------------- */

static const column error_columns[] = {
    { "count", COLUMN_COUNT, false }, { "error", COLUMN_TEXT, false },
    { "first", COLUMN_TIME, true },   { "last", COLUMN_TIME, false },
    { "newest", COLUMN_TEXT, false },
};

static const column group_columns[] = {
    { "group", COLUMN_TEXT, false },
    { "count", COLUMN_COUNT, false },
    { "first", COLUMN_TIME, false },
    { "last", COLUMN_TIME, false },
};

static void put_errors(output *out, const leat_dead_counts *n)
{
    for (size_t i = 0; i < n->errors; i++) {
        const leat_dead_error *e = &n->error[i];
        output_number(out, (int64_t)e->count);
        bytes_or_null(out, leat_str(e->fingerprint));
        output_given(out, e->first_ms);
        output_given(out, e->last_ms);
        output_text(out, e->newest);
    }
    if (n->other)
        note("%llu of other errors are not shown: there are more than %d kinds",
             (unsigned long long)n->other, LEAT_DEAD_ERRORS);
}

static void put_groups(output *out, const leat_dead_counts *n)
{
    for (size_t i = 0; i < n->groups; i++) {
        const leat_dead_group *g = &n->group[i];
        bytes_or_null(out, leat_str(g->group));
        output_number(out, (int64_t)g->count);
        output_given(out, g->first_ms);
        output_given(out, g->last_ms);
    }
}

static int count(cli *c, letters *l, bool by_group, output *out)
{
    int code;
    leat_error err = { 0 };
    leat_dead_filter f;
    if (!filter_get(c, l, &f, &code))
        return code;
    leat_dead_counts *n = leat_dlq_count(l->dlq, &f, &err);
    if (!n)
        return fail_with(c->args[0], &err, NULL);
    (by_group ? put_groups : put_errors)(out, n);
    code = n->total == 0 ? nothing_found(c, l, &f) : 0;
    leat_dead_counts_free(n);
    return code;
}

int run_dlq_errors(cli *c)
{
    int code;
    letters l = { 0 };
    bool by_group = value_on(c, "by-group");
    output *out = output_open(c, by_group ? group_columns : error_columns,
                              by_group ? 4 : 5, false, &code);
    if (out && letters_open(c, &l, &code))
        code = count(c, &l, by_group, out);
    letters_close(c, &l);
    return output_end(out, code);
}
