/*
 * cmd_topic_keep.c: what is kept of a topic: the options of leat topic create
 * that say it, leat topic alter and leat topic trim.
 */
#include "cli.h"

#include <stdlib.h>

/* ---- options ---------------------------------------------------------- */

static void read_number(cli *c, const char *name, int64_t *out)
{
    if (value_text(c, name))
        *out = value_count(c, name);
}

static void read_time(cli *c, const char *name, int64_t *out)
{
    if (value_text(c, name))
        *out = value_ms(c, name);
}

static int read_large(const char *text, int64_t *out)
{
    char *end = NULL;
    if (strcmp(text, "none") == 0) {
        *out = -1;
        return 0;
    }
    long long n = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : -1;
    if (n < 0 || n > 1000000000 || *end)
        return fail(EXIT_USAGE, "give a number of bytes, or none",
                    "--large-body: '%s' is no size", text);
    *out = n;
    return 0;
}

/* Choices were checked when the words were read. */
int retention_options(cli *c, leat_retention *r)
{
    const char *large = value_text(c, "large-body");
    read_time(c, "max-age", &r->max_age_ms);
    read_number(c, "max-entries", &r->max_entries);
    read_number(c, "cap", &r->cap);
    read_number(c, "lossy-maxlen", &r->lossy_maxlen);
    read_time(c, "abandoned-after", &r->abandoned_ms);
    if (value_text(c, "forget"))
        (void)leat_forget_find(value_text(c, "forget"), &r->forget);
    if (value_text(c, "abandoned"))
        (void)leat_abandoned_find(value_text(c, "abandoned"), &r->abandoned);
    return large ? read_large(large, &r->large_body) : 0;
}

static bool any_option(cli *c)
{
    static const char *const names[] = {
        "max-age",   "max-entries",     "cap",       "lossy-maxlen", "forget",
        "abandoned", "abandoned-after", "large-body"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (value_text(c, names[i]))
            return true;
    return false;
}

/* ---- alter ------------------------------------------------------------ */

static int alter(cli *c, leat_client *client, const char *name)
{
    leat_error err = { 0 };
    leat_topic_info *t = leat_topic_describe(client, name, NULL, &err);
    if (!t)
        return topic_fail(client, name, &err);
    leat_retention r = t->retention;
    leat_topic_info_free(t);
    int code = retention_options(c, &r);
    if (code != 0)
        return code;
    if (leat_topic_alter(client, name, NULL, &r, &err) != LEAT_OK)
        return topic_fail(client, name, &err);
    char *remark = format(
        "topic %s altered; who has it open learns of it within seconds", name);
    code = say_done(c, "altered", false, remark);
    free(remark);
    return code;
}

int run_topic_alter(cli *c)
{
    int code;
    if (!any_option(c))
        return fail(EXIT_USAGE, "leat topic alter --help lists what can be",
                    "nothing is to be changed");
    leat_client *client = client_open(c, value_text(c, "url"), "leat-topic",
                                      &code);
    if (!client)
        return code;
    code = alter(c, client, c->args[0]);
    leat_client_close(client);
    return code;
}

/* ---- trim ------------------------------------------------------------- */

static const column trim_columns[] = {
    { "removed", COLUMN_COUNT, false }, { "left", COLUMN_COUNT, false },
    { "held", COLUMN_COUNT, false },    { "holder", COLUMN_TEXT, false },
    { "holds", COLUMN_COUNT, false },   { "dry_run", COLUMN_BOOL, false },
};

static void show_trimmed(output *out, const leat_trimmed *t, bool dry)
{
    output_number(out, (int64_t)t->removed);
    output_number(out, (int64_t)t->left);
    output_number(out, (int64_t)t->held);
    output_text(out, t->holder[0] ? t->holder : NULL);
    output_number(out, (int64_t)t->holder_held);
    output_bool(out, dry);
}

/* What would go is counted before it is asked for, where that is asked. */
static bool may_trim(cli *c, leat_client *client, const char *name,
                     const leat_trim_opts *o, int *code)
{
    leat_error err = { 0 };
    leat_trimmed would;
    leat_trim_opts dry = *o;
    dry.dry_run = true;
    if (value_on(c, "yes"))
        return true;
    if (leat_topic_trim(client, name, &dry, &would, &err) != LEAT_OK) {
        *code = topic_fail(client, name, &err);
        return false;
    }
    if (would.removed == 0)
        return true;
    char *what = format("remove %llu message%s of topic %s%s",
                        (unsigned long long)would.removed,
                        would.removed == 1 ? "" : "s", name,
                        o->force ? ", settled or not" : "");
    bool yes = confirmed(c, what, code);
    free(what);
    return yes;
}

static int trim(cli *c, leat_client *client, const char *name, output *out)
{
    int code = 0;
    leat_error err = { 0 };
    leat_trimmed got;
    leat_trim_opts o = { .force = value_on(c, "force"),
                         .dry_run = value_on(c, "dry-run") };
    read_number(c, "max-entries", &o.max_entries);
    read_time(c, "older-than", &o.max_age_ms);
    if (value_text(c, "max-entries") && o.max_entries == 0)
        o.max_entries = -1;
    if (value_text(c, "older-than") && o.max_age_ms == 0)
        o.max_age_ms = 1;
    if (!o.dry_run && !may_trim(c, client, name, &o, &code))
        return code;
    if (leat_topic_trim(client, name, &o, &got, &err) != LEAT_OK)
        return topic_fail(client, name, &err);
    show_trimmed(out, &got, o.dry_run);
    return 0;
}

int run_topic_trim(cli *c)
{
    int code;
    output *out = output_open(c, trim_columns,
                              sizeof trim_columns / sizeof *trim_columns, true,
                              &code);
    leat_client *client = out ? client_open(c, value_text(c, "url"),
                                            "leat-topic", &code)
                              : NULL;
    bool shown = false;
    if (client) {
        code = trim(c, client, c->args[0], out);
        shown = code == 0;
    }
    if (shown)
        code = output_close(out);
    else
        output_drop(out);
    leat_client_close(client);
    return code;
}
