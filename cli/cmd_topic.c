/*
 * cmd_topic.c: leat topic create, ls, info and rm, and what all commands on
 * topics share.
 */
#include "cli.h"

#include <stdlib.h>
#include <time.h>

/* ---- shared ----------------------------------------------------------- */

char *near_name(leat_names *n, const char *name, const char *otherwise)
{
    const char *near = n ? nearest(name, n->name, n->count) : NULL;
    char *text = near ? format("did you mean '%s'?", near) : copy(otherwise);
    leat_names_free(n);
    return text;
}

int topic_fail(leat_client *client, const char *topic, const leat_error *err)
{
    if (err->code != LEAT_ENOENT)
        return fail_with(topic, err, NULL);
    char *todo = near_name(leat_topic_names(client, NULL, NULL), topic,
                           "leat topic ls lists them, leat topic create makes "
                           "one");
    int code = fail(EXIT_NO, todo, "no topic '%s'", topic);
    free(todo);
    return code;
}

int say_done(cli *c, const char *done, bool dry, const char *remark)
{
    static const column columns[] = {
        { "topic", COLUMN_TEXT, false },
        { "group", COLUMN_TEXT, false },
        { "done", COLUMN_TEXT, false },
        { "dry_run", COLUMN_BOOL, false },
    };
    int code;
    if (!wants_record(c)) {
        note("%s", remark);
        return 0;
    }
    output *out = output_open(c, columns, sizeof columns / sizeof *columns,
                              true, &code);
    if (!out)
        return code;
    output_text(out, c->args[0]);
    output_text(out, c->arg_count > 1 ? c->args[1] : NULL);
    output_text(out, done);
    output_bool(out, dry);
    return output_close(out);
}

const char *position_text(leat_position at, char out[POSITION_TEXT])
{
    int n = snprintf(out, POSITION_TEXT, "%llu-%llu", (unsigned long long)at.ms,
                     (unsigned long long)at.seq);
    if (at.index)
        snprintf(out + n, (size_t)(POSITION_TEXT - n), "-%u", at.index);
    return out;
}

void output_position(output *out, leat_position at)
{
    char text[POSITION_TEXT];
    output_text(out, at.ms || at.seq ? position_text(at, text) : NULL);
}

void output_count(output *out, int64_t n)
{
    if (n >= 0)
        output_number(out, n);
    else
        output_null(out);
}

void output_given(output *out, int64_t n)
{
    output_count(out, n > 0 ? n : -1);
}

static bool is_id(const char *s)
{
    size_t n = strspn(s, "0123456789");
    if (n == 0 || s[n] != '-')
        return false;
    size_t m = strspn(s + n + 1, "0123456789");
    return m > 0 && s[n + 1 + m] == '\0';
}

/* A time ago is told by the server's clock, which made the ids. */
static char *ago(leat_client *client, int64_t ms)
{
    struct timespec t;
    leat_server server = { 0 };
    if (leat_client_server(client, &server, NULL) != LEAT_OK)
        server.clock_skew_ms = 0;
    clock_gettime(CLOCK_REALTIME, &t);
    int64_t at = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000 +
                 server.clock_skew_ms - ms;
    return format("@%lld", (long long)(at > 0 ? at : 0));
}

char *from_text(leat_client *client, const char *text, int *code)
{
    int64_t ms = 0;
    *code = 0;
    if (strcmp(text, "start") == 0 || strcmp(text, "end") == 0 || is_id(text))
        return copy(text);
    if (duration_parse(text, &ms))
        return ago(client, ms);
    *code = fail(EXIT_USAGE,
                 "give start, end, a time ago such as 10m, or an id MS-SEQ",
                 "--from: '%s' is no place to begin", text);
    return NULL;
}

/* ---- create ----------------------------------------------------------- */

int run_topic_create(cli *c)
{
    int code;
    const char *name = c->args[0];
    int64_t partitions = value_count(c, "partitions");
    leat_topic_spec spec = { .partitions = (int)partitions };
    if (partitions > LEAT_PARTITIONS_MAX)
        return fail(EXIT_USAGE, NULL, "--partitions is at most %d",
                    LEAT_PARTITIONS_MAX);
    if (!leat_partitioner_find(value_text(c, "partitioner"), &spec.partitioner))
        return fail(EXIT_BUG, "please report this", "no partitioner '%s'",
                    value_text(c, "partitioner"));
    code = retention_options(c, &spec.retention);
    if (code != 0)
        return code;
    leat_client *client = client_open(c, value_text(c, "url"), "leat-topic",
                                      &code);
    if (!client)
        return code;
    leat_error err = { 0 };
    leat_code got = leat_topic_create(client, name, &spec, &err);
    if (got == LEAT_OK) {
        char *remark = format("topic %s created with %lld partition%s", name,
                              (long long)partitions,
                              partitions == 1 ? "" : "s");
        code = say_done(c, "created", false, remark);
        free(remark);
    } else if (got == LEAT_EEXIST)
        code = fail(EXIT_NO, "leat topic info shows it",
                    "there is a topic '%s' already", name);
    else
        code = fail_with("topic create", &err, NULL);
    leat_client_close(client);
    return code;
}

/* ---- ls --------------------------------------------------------------- */

static const column ls_columns[] = {
    { "name", COLUMN_TEXT, false },       { "partitions", COLUMN_COUNT, false },
    { "messages", COLUMN_COUNT, false },  { "groups", COLUMN_COUNT, false },
    { "partitioner", COLUMN_TEXT, true }, { "created", COLUMN_TIME, true },
};

bool listing_goes_on(const char *name, const leat_error *err, int *code)
{
    if (err->code == LEAT_ENOENT)
        return true;
    bool damaged = err->code == LEAT_EDECODE || err->code == LEAT_EINVAL;
    int bad = damaged ? fail(EXIT_DATA, NULL, "%s: %s", name, err->msg) : 0;
    *code = *code ? *code : bad;
    return damaged;
}

static leat_code list_topic(leat_client *client, const char *name, output *out,
                            leat_error *err)
{
    leat_topic_info *t = leat_topic_describe(client, name, NULL, err);
    if (!t)
        return err->code;
    output_text(out, t->name);
    output_number(out, t->partitions);
    output_number(out, t->entries);
    output_number(out, t->groups);
    output_text(out, t->partitioner_name);
    output_given(out, t->created_ms);
    leat_topic_info_free(t);
    return LEAT_OK;
}

int run_topic_ls(cli *c)
{
    int code;
    output *out = output_open(
        c, ls_columns, sizeof ls_columns / sizeof *ls_columns, false, &code);
    leat_client *client = out ? client_open(c, value_text(c, "url"),
                                            "leat-topic", &code)
                              : NULL;
    leat_error err = { 0 };
    leat_names *n = client ? leat_topic_names(client, NULL, &err) : NULL;
    leat_code got = n ? LEAT_OK : err.code;
    for (size_t i = 0; n && i < n->count && got == LEAT_OK; i++) {
        got = list_topic(client, n->name[i], out, &err);
        if (got != LEAT_OK && listing_goes_on(n->name[i], &err, &code))
            got = LEAT_OK;
    }
    if (client && got != LEAT_OK)
        code = fail_with("topic ls", &err, NULL);
    bool good = client && got == LEAT_OK;
    int shown = good ? output_close(out) : 0;
    if (!good)
        output_drop(out);
    leat_names_free(n);
    client_close(c, client);
    return code ? code : shown;
}

/* ---- info ------------------------------------------------------------- */

static const column info_columns[] = {
    { "name", COLUMN_TEXT, false },
    { "partitions", COLUMN_COUNT, false },
    { "partitioner", COLUMN_TEXT, false },
    { "legacy", COLUMN_BOOL, false },
    { "created", COLUMN_TIME, false },
    { "updated", COLUMN_TIME, false },
    { "messages", COLUMN_COUNT, false },
    { "groups", COLUMN_COUNT, false },
    { "bytes", COLUMN_BYTES, false },
    { "rate", COLUMN_REAL, false },
    { "dead", COLUMN_COUNT, false },
    { "delayed", COLUMN_COUNT, false },
    { "max_age_ms", COLUMN_MS, false },
    { "max_entries", COLUMN_COUNT, false },
    { "cap", COLUMN_COUNT, false },
    { "lossy_maxlen", COLUMN_COUNT, false },
    { "forget", COLUMN_TEXT, false },
    { "abandoned", COLUMN_TEXT, false },
    { "abandoned_ms", COLUMN_MS, false },
    { "large_body", COLUMN_BYTES, false },
    { "first", COLUMN_TEXT, false },
    { "last", COLUMN_TEXT, false },
    { "id", COLUMN_TEXT, false },
    { "removing", COLUMN_BOOL, false },
};

static const column partition_columns[] = {
    { "partition", COLUMN_ID, false },  { "messages", COLUMN_COUNT, false },
    { "added", COLUMN_COUNT, false },   { "first", COLUMN_TEXT, false },
    { "last", COLUMN_TEXT, false },     { "bytes", COLUMN_BYTES, false },
    { "rate", COLUMN_REAL, false },     { "dead", COLUMN_COUNT, false },
    { "delayed", COLUMN_COUNT, false },
};

static void rate_or_null(output *out, double rate)
{
    if (rate >= 0)
        output_real(out, rate);
    else
        output_null(out);
}

/* Zero is no bound. */
/* With the defaults, as they hold. */
static void show_retention(output *out, const leat_retention *r)
{
    output_given(out, r->max_age_ms);
    output_given(out, r->max_entries);
    output_given(out, r->cap);
    output_given(out, r->lossy_maxlen);
    output_text(out, leat_forget_name(r->forget));
    output_text(out, leat_abandoned_name(r->abandoned));
    output_given(out, r->abandoned_ms ? r->abandoned_ms : INT64_C(604800000));
    output_given(out, r->large_body ? r->large_body : 65536);
}

static void show_info(output *out, const leat_topic_info *t)
{
    output_text(out, t->name);
    output_number(out, t->partitions);
    output_text(out, t->partitioner_name);
    output_bool(out, t->legacy);
    output_given(out, t->created_ms);
    output_given(out, t->updated_ms);
    output_number(out, t->entries);
    output_number(out, t->groups);
    output_count(out, t->bytes);
    rate_or_null(out, t->rate);
    output_number(out, t->dead);
    output_number(out, t->delayed);
    show_retention(out, &t->retention);
    output_position(out, t->first);
    output_position(out, t->last);
    output_text(out, t->id);
    output_bool(out, t->removing);
}

static void show_partitions(output *out, const leat_topic_info *t)
{
    for (uint32_t i = 0; i < t->partitions; i++) {
        const leat_partition_info *p = &t->partition[i];
        output_number(out, p->partition);
        output_number(out, p->entries);
        output_count(out, p->added);
        output_position(out, p->first);
        output_position(out, p->last);
        output_count(out, p->bytes);
        rate_or_null(out, p->rate);
        output_number(out, p->dead);
        output_number(out, p->delayed);
    }
}

int run_topic_info(cli *c)
{
    int code;
    bool rows = value_on(c, "by-partition");
    output *out = output_open(c, rows ? partition_columns : info_columns,
                              rows ? sizeof partition_columns /
                                         sizeof *partition_columns
                                   : sizeof info_columns / sizeof *info_columns,
                              !rows, &code);
    leat_client *client = out ? client_open(c, value_text(c, "url"),
                                            "leat-topic", &code)
                              : NULL;
    leat_error err = { 0 };
    leat_topic_info *t = client ? leat_topic_describe(client, c->args[0], NULL,
                                                      &err)
                                : NULL;
    if (client && !t)
        code = topic_fail(client, c->args[0], &err);
    if (t) {
        (rows ? show_partitions : show_info)(out, t);
        code = output_close(out);
    } else {
        output_drop(out);
    }
    leat_topic_info_free(t);
    client_close(c, client);
    return code;
}

/* ---- rm --------------------------------------------------------------- */

/* The wrong one stays wrong: it is a no, not to be tried again. */
static int removal_fail(const char *name, const leat_error *err)
{
    if (err->code == LEAT_ESTALE) {
        char *todo = format("leat topic info %s shows the id of the one that "
                            "is there",
                            name);
        int code = fail(EXIT_NO, todo, "%s", err->msg);
        free(todo);
        return code;
    }
    return fail_with(name, err,
                     err->code == LEAT_EBUSY
                         ? "stop its consumers first, or give --force"
                         : NULL);
}

/* Refused before the question, not after it; and what is removed is the topic
 * that it was about. */
static int ask_and_remove(cli *c, leat_client *client, const char *name,
                          const char *id, const char *what)
{
    int code = 0;
    leat_error err = { 0 };
    leat_remove_opts o = { .force = value_on(c, "force"),
                           .dry_run = true,
                           .id = id };
    char *question = format("remove %s", what);
    leat_code got = leat_topic_remove_with(client, name, &o, &err);
    char *would = format("dry run: %s would be removed", what);
    char *done = format("removed %s", what);
    o.dry_run = false;
    if (got == LEAT_OK && value_on(c, "dry-run"))
        code = say_done(c, "removed", true, would);
    else if (got == LEAT_OK && confirmed(c, question, &code)) {
        got = leat_topic_remove_with(client, name, &o, &err);
        if (got == LEAT_OK)
            code = say_done(c, "removed", false, done);
    }
    free(done);
    free(would);
    free(question);
    return got == LEAT_OK ? code : removal_fail(name, &err);
}

static int remove_topic(cli *c, leat_client *client, const leat_topic_info *t)
{
    char *what = format("topic %s with %lld message%s and %lld group%s",
                        t->name, (long long)t->entries, plural(t->entries),
                        (long long)t->groups, plural(t->groups));
    const char *id = value_text(c, "id");
    int code = ask_and_remove(c, client, t->name, id ? id : t->id, what);
    free(what);
    return code;
}

int run_topic_rm(cli *c)
{
    int code;
    leat_client *client = client_open(c, value_text(c, "url"), "leat-topic",
                                      &code);
    if (!client)
        return code;
    leat_error err = { 0 };
    leat_topic_info *t = leat_topic_describe(client, c->args[0], NULL, &err);
    code = t ? remove_topic(c, client, t)
             : topic_fail(client, c->args[0], &err);
    leat_topic_info_free(t);
    leat_client_close(client);
    return code;
}
