/*
 * cmd_group.c: leat group ls, info, lag and members.
 */
#include "cli.h"

#include <stdlib.h>

/* No such group, with those that there are; or no such topic. */
int group_fail(leat_client *client, const char *topic, const char *name,
               const leat_error *err)
{
    if (err->code != LEAT_ENOENT)
        return fail_with(topic, err, NULL);
    leat_topic_info *t = leat_topic_describe(client, topic, NULL, NULL);
    leat_names *n = t ? leat_group_names(client, topic, NULL, NULL) : NULL;
    leat_topic_info_free(t);
    if (!n)
        return topic_fail(client, topic, err);
    const char *near = nearest(name, n->name, n->count);
    char *todo = near ? format("did you mean '%s'?", near)
                      : format("leat group ls %s lists its groups", topic);
    int code = fail(EXIT_NO, todo, "topic %s has no group '%s'", topic, name);
    free(todo);
    leat_names_free(n);
    return code;
}

/* ---- ls --------------------------------------------------------------- */

static const column ls_columns[] = {
    { "group", COLUMN_TEXT, false },  { "members", COLUMN_COUNT, false },
    { "owned", COLUMN_COUNT, false }, { "partitions", COLUMN_COUNT, false },
    { "lag", COLUMN_COUNT, false },
};

static leat_code list_group(leat_client *client, const char *topic,
                            const char *name, output *out, leat_error *err)
{
    leat_group_info *g = leat_group_describe(client, topic, name, NULL, err);
    if (!g)
        return err->code;
    output_text(out, g->group);
    output_number(out, g->members);
    output_number(out, g->owned);
    output_number(out, g->partitions);
    output_count(out, g->lag);
    leat_group_info_free(g);
    return LEAT_OK;
}

/* False: there is nothing to print. */
static bool list_groups(leat_client *client, const char *topic, output *out,
                        int *code)
{
    leat_error err = { 0 };
    leat_topic_info *t = leat_topic_describe(client, topic, NULL, &err);
    leat_topic_info_free(t);
    leat_names *n = t ? leat_group_names(client, topic, NULL, &err) : NULL;
    leat_code got = n ? LEAT_OK : err.code;
    for (size_t i = 0; n && i < n->count && got == LEAT_OK; i++) {
        got = list_group(client, topic, n->name[i], out, &err);
        if (got != LEAT_OK && listing_goes_on(n->name[i], &err, code))
            got = LEAT_OK;
    }
    leat_names_free(n);
    if (got != LEAT_OK)
        *code = topic_fail(client, topic, &err);
    return got == LEAT_OK;
}

int run_group_ls(cli *c)
{
    int code;
    output *out = output_open(
        c, ls_columns, sizeof ls_columns / sizeof *ls_columns, false, &code);
    leat_client *client = out ? client_open(c, value_text(c, "url"),
                                            "leat-group", &code)
                              : NULL;
    bool good = client && list_groups(client, c->args[0], out, &code);
    client_close(c, client);
    int shown = good ? output_close(out) : 0;
    if (!good)
        output_drop(out);
    return code ? code : shown;
}

/* ---- one group, in three ways ----------------------------------------- */

static const column info_columns[] = {
    { "topic", COLUMN_TEXT, false },
    { "group", COLUMN_TEXT, false },
    { "partitions", COLUMN_COUNT, false },
    { "owned", COLUMN_COUNT, false },
    { "members", COLUMN_COUNT, false },
    { "lag", COLUMN_COUNT, false },
    { "alive", COLUMN_COUNT, false },
    { "paused", COLUMN_TIME, false },
    { "in_flight", COLUMN_COUNT, false },
    { "retries", COLUMN_COUNT, false },
    { "due", COLUMN_COUNT, false },
    { "lanes", COLUMN_COUNT, false },
    { "parked", COLUMN_COUNT, false },
    { "detached", COLUMN_COUNT, false },
    { "id", COLUMN_TEXT, false },
    { "lease_ms", COLUMN_MS, false },
    { "order", COLUMN_TEXT, false },
    { "max_attempts", COLUMN_COUNT, false },
    { "backoff", COLUMN_TEXT, false },
    { "delay_ms", COLUMN_MS, false },
    { "max_delay_ms", COLUMN_MS, false },
    { "jitter", COLUMN_BOOL, false },
    { "re_add", COLUMN_BOOL, false },
};

enum { SETTINGS = 8 }; /* the last columns */

static void seconds_or_null(output *out, int64_t ms)
{
    if (ms >= 0)
        output_real(out, (double)ms / 1000);
    else
        output_null(out);
}

/* No limit is 0, as leat group alter takes it. */
static void show_settings(output *out, const leat_group_settings *s)
{
    for (int i = 0; s->lease_ms == 0 && i < SETTINGS; i++)
        output_null(out);
    if (s->lease_ms == 0)
        return;
    output_number(out, s->lease_ms);
    output_text(out, order_word(s->order));
    output_number(out, s->max_attempts < 0 ? 0 : s->max_attempts);
    output_text(out,
                s->backoff == LEAT_BACKOFF_FIXED ? "fixed" : "exponential");
    output_number(out, s->delay_ms);
    output_number(out, s->max_delay_ms);
    output_bool(out, s->jitter == LEAT_YES);
    output_bool(out, s->re_add == LEAT_YES);
}

static void show_info(output *out, const leat_group_info *g)
{
    output_text(out, g->topic);
    output_text(out, g->group);
    output_number(out, g->partitions);
    output_number(out, g->owned);
    output_number(out, g->members);
    output_count(out, g->lag);
    output_number(out, g->alive);
    output_given(out, g->paused_ms);
    output_count(out, g->in_flight);
    output_count(out, g->retries);
    output_count(out, g->due);
    output_count(out, g->lanes);
    output_count(out, g->parked);
    output_number(out, g->detached);
    output_text(out, g->id[0] ? g->id : NULL);
    show_settings(out, &g->settings);
}

static const column lag_columns[] = {
    { "partition", COLUMN_ID, false },  { "lag", COLUMN_COUNT, false },
    { "cursor", COLUMN_TEXT, false },   { "mark", COLUMN_TEXT, true },
    { "last", COLUMN_TEXT, false },     { "settled", COLUMN_COUNT, true },
    { "owner", COLUMN_TEXT, false },    { "nonce", COLUMN_TEXT, true },
    { "epoch", COLUMN_ID, true },       { "in_flight", COLUMN_COUNT, false },
    { "retries", COLUMN_COUNT, false }, { "due", COLUMN_COUNT, true },
    { "lanes", COLUMN_COUNT, true },    { "parked", COLUMN_COUNT, false },
    { "beat_s", COLUMN_SECONDS, true }, { "reason", COLUMN_TEXT, true },
    { "changed", COLUMN_TIME, true },   { "detached", COLUMN_TIME, true },
};

static void show_lag(output *out, const leat_group_info *g)
{
    for (uint32_t i = 0; i < g->partitions; i++) {
        const leat_group_partition *p = &g->partition[i];
        output_number(out, p->partition);
        output_count(out, p->lag);
        output_position(out, p->cursor);
        output_position(out, p->mark);
        output_position(out, p->last);
        output_count(out, p->settled);
        output_text(out, p->owner ? p->owner : p->nonce);
        output_text(out, p->nonce);
        if (p->epoch)
            output_number(out, (int64_t)p->epoch);
        else
            output_null(out);
        output_count(out, p->in_flight);
        output_count(out, p->retries);
        output_count(out, p->due);
        output_count(out, p->lanes);
        output_count(out, p->parked);
        seconds_or_null(out, p->beat_age_ms);
        output_text(out, p->reason);
        output_given(out, p->changed_ms);
        output_given(out, p->detached_ms);
    }
}

static const column member_columns[] = {
    { "name", COLUMN_TEXT, false },      { "partitions", COLUMN_COUNT, false },
    { "born", COLUMN_TIME, false },      { "leaving", COLUMN_BOOL, false },
    { "nonce", COLUMN_TEXT, false },     { "alive", COLUMN_BOOL, false },
    { "beat_s", COLUMN_SECONDS, false },
};

static void show_members(output *out, const leat_group_info *g)
{
    for (uint32_t i = 0; i < g->members; i++) {
        const leat_group_member *m = &g->member[i];
        output_text(out, m->readable ? m->name : NULL);
        output_number(out, m->partitions);
        output_given(out, m->born_ms);
        output_bool(out, m->leaving);
        output_text(out, m->nonce);
        output_bool(out, m->alive);
        seconds_or_null(out, m->beat_age_ms);
    }
}

typedef struct view {
    const column *columns;
    size_t count;
    bool record;
    void (*show)(output *, const leat_group_info *);
} view;

static int show_group(cli *c, leat_client *client, const view *v, output *out)
{
    leat_error err = { 0 };
    leat_group_info *g = leat_group_describe(client, c->args[0], c->args[1],
                                             NULL, &err);
    if (!g)
        return group_fail(client, c->args[0], c->args[1], &err);
    v->show(out, g);
    leat_group_info_free(g);
    return 0;
}

static int run_view(cli *c, const view *v)
{
    int code;
    output *out = output_open(c, v->columns, v->count, v->record, &code);
    leat_client *client = out ? client_open(c, value_text(c, "url"),
                                            "leat-group", &code)
                              : NULL;
    if (client)
        code = show_group(c, client, v, out);
    client_close(c, client);
    return output_end(out, code);
}

int run_group_info(cli *c)
{
    const view v = { info_columns, sizeof info_columns / sizeof *info_columns,
                     true, show_info };
    return run_view(c, &v);
}

int run_group_members(cli *c)
{
    const view v = { member_columns,
                     sizeof member_columns / sizeof *member_columns, false,
                     show_members };
    return run_view(c, &v);
}

int run_group_lag(cli *c)
{
    const view v = { lag_columns, sizeof lag_columns / sizeof *lag_columns,
                     false, show_lag };
    return run_view(c, &v);
}
