/*
 * cmd_group_admin.c: leat group alter, seek, pause, resume, rm and pending.
 */
#include "cli.h"

#include <stdlib.h>

/* "12 messages", or that nobody knows how many; malloced. */
static char *messages(int64_t n)
{
    return n < 0 ? copy("an unknown number of messages")
                 : format("%lld message%s", (long long)n, plural(n));
}

static int refused(leat_client *client, cli *c, const leat_error *err)
{
    if (err->code == LEAT_EBUSY)
        return fail_with(c->args[1], err,
                         "stop its members first, or give --force");
    return group_fail(client, c->args[0], c->args[1], err);
}

/* ---- seek ------------------------------------------------------------- */

static const column seek_columns[] = {
    { "partition", COLUMN_ID, false }, { "from", COLUMN_TEXT, false },
    { "to", COLUMN_TEXT, false },      { "skipped", COLUMN_COUNT, false },
    { "again", COLUMN_COUNT, false },  { "kept", COLUMN_COUNT, false },
    { "done", COLUMN_BOOL, false },
};

static void show_seek(output *out, const leat_seek *s)
{
    for (uint32_t i = 0; i < s->partitions; i++) {
        const leat_seek_partition *p = &s->partition[i];
        output_number(out, p->partition);
        output_position(out, p->from);
        output_position(out, p->to);
        output_count(out, p->skipped);
        output_count(out, p->again);
        output_number(out, p->kept);
        output_bool(out, p->done);
    }
}

/* --to as the library wants it; malloced.  NULL with *code: it is no place, and
 * that is said. */
static char *to_text(leat_client *client, const char *text, int *code)
{
    int64_t ms;
    *code = 0;
    if (time_parse(text + (text[0] == '@'), &ms))
        return format("@%lld", (long long)ms);
    if (duration_parse(text, &ms))
        return from_text(client, text, code);
    if (strcmp(text, "start") == 0 || strcmp(text, "end") == 0 ||
        strspn(text, "@0123456789-") == strlen(text))
        return copy(text);
    *code = fail(EXIT_USAGE,
                 "give start, end, a time ago such as 10m, a time such as "
                 "2026-01-31T12:00:00Z, @ and milliseconds since 1970, or an "
                 "id MS-SEQ",
                 "--to: '%s' is no place to seek to", text);
    return NULL;
}

static bool may_seek(cli *c, const char *to, const leat_seek *s, int *code)
{
    char *skipped = messages(s->skipped), *again = messages(s->again);
    char *kept = messages(s->kept);
    char *dropped = value_on(c, "drop") ? format(", %s put by dropped", kept)
                                        : copy("");
    char *question = format(
        "seek group %s of topic %s to %s: %s skipped, %s to come again%s",
        c->args[1], c->args[0], to, skipped, again, dropped);
    bool yes = confirmed(c, question, code);
    free(question);
    free(dropped);
    free(kept);
    free(again);
    free(skipped);
    return yes;
}

static void note_seek(cli *c, const leat_seek *s, bool dry)
{
    char *skipped = messages(s->skipped), *again = messages(s->again);
    note("%s%s of %s: %u of %u partition%s set; %s skipped, %s to come again",
         dry ? "dry run: " : "", c->args[1], c->args[0], s->done, s->partitions,
         plural(s->partitions), skipped, again);
    free(again);
    free(skipped);
}

/* What was done is shown also where it failed midway. */
static int seek_now(cli *c, leat_client *client, const char *to,
                    const leat_seek_opts *o, output *out, bool *shown)
{
    leat_seek *s = NULL;
    leat_error err = { 0 };
    leat_code got = leat_group_seek(client, c->args[0], c->args[1], to, o, &s,
                                    &err);
    *shown = s != NULL;
    if (s) {
        show_seek(out, s);
        note_seek(c, s, o->dry_run);
    }
    leat_seek_free(s);
    return got == LEAT_OK ? 0 : refused(client, c, &err);
}

/* Refused before the question, not after it. */
static int check_idle(cli *c, leat_client *client)
{
    leat_error err = { 0 };
    if (value_on(c, "force") ||
        leat_group_remove(client, c->args[0], c->args[1],
                          &(leat_remove_opts){ .dry_run = true },
                          &err) == LEAT_OK)
        return 0;
    return refused(client, c, &err);
}

static int ask_and_seek(cli *c, leat_client *client, const char *to,
                        output *out, bool *shown)
{
    int code = 0;
    leat_seek *s = NULL;
    leat_error err = { 0 };
    leat_seek_opts o = { .one = value_text(c, "partition") != NULL,
                         .partition = (uint32_t)value_count(c, "partition"),
                         .dry_run = true,
                         .force = value_on(c, "force"),
                         .drop = value_on(c, "drop") };
    if (value_on(c, "dry-run"))
        return seek_now(c, client, to, &o, out, shown);
    code = check_idle(c, client);
    if (code == 0 && leat_group_seek(client, c->args[0], c->args[1], to, &o, &s,
                                     &err) != LEAT_OK)
        code = refused(client, c, &err);
    o.dry_run = false;
    if (code == 0 && may_seek(c, to, s, &code))
        code = seek_now(c, client, to, &o, out, shown);
    leat_seek_free(s);
    return code;
}

int run_group_seek(cli *c)
{
    int code;
    bool shown = false;
    const char *where = value_text(c, "to");
    if (!where)
        return fail(EXIT_USAGE,
                    "--to start, end, @TIME, a time ago such as 10m, or an id "
                    "MS-SEQ",
                    "where should it read on?");
    output *out = output_open(c, seek_columns,
                              sizeof seek_columns / sizeof *seek_columns, false,
                              &code);
    leat_client *client = out ? client_open(c, value_text(c, "url"),
                                            "leat-group", &code)
                              : NULL;
    char *to = client ? to_text(client, where, &code) : NULL;
    if (to)
        code = ask_and_seek(c, client, to, out, &shown);
    free(to);
    leat_client_close(client);
    if (!shown)
        output_drop(out);
    int printed = shown ? output_close(out) : 0;
    return code ? code : printed;
}

/* ---- alter ------------------------------------------------------------ */

static bool any_setting(cli *c)
{
    return value_text(c, "lease") || value_text(c, "order") ||
           value_text(c, "max-attempts") || value_text(c, "backoff") ||
           value_text(c, "re-add");
}

static leat_choice re_add_of(const char *word)
{
    return !word ? LEAT_UNSET : strcmp(word, "yes") == 0 ? LEAT_YES : LEAT_NO;
}

/* Only what is given.  Choices were checked when the words were read. */
static int settings_options(cli *c, leat_group_settings *s)
{
    leat_retry r = { 0 };
    int code = retry_parse(c, &r);
    if (code == 0 && value_text(c, "lease") && value_ms(c, "lease") == 0)
        code = fail(EXIT_USAGE, "give a time such as 15s",
                    "--lease: 0 is no lease");
    *s = (leat_group_settings){ .lease_ms = value_ms(c, "lease"),
                                .order = order_of(value_text(c, "order")),
                                .max_attempts = r.max_attempts,
                                .backoff = r.backoff,
                                .delay_ms = r.delay_ms,
                                .max_delay_ms = r.max_delay_ms,
                                .jitter = r.jitter,
                                .re_add = re_add_of(value_text(c, "re-add")) };
    return code;
}

/* The wrong one stays wrong: it is a no, not to be tried again. */
static int another(cli *c, const leat_error *err)
{
    char *todo = format("leat group info %s %s shows the id of the one that is "
                        "there",
                        c->args[0], c->args[1]);
    int code = fail(EXIT_NO, todo, "%s", err->msg);
    free(todo);
    return code;
}

static int alter(cli *c, leat_client *client, const char *topic,
                 const char *name)
{
    leat_error err = { 0 };
    leat_group_settings s;
    leat_alter_opts o = { .id = value_text(c, "id") };
    int code = settings_options(c, &s);
    if (code != 0)
        return code;
    leat_code got = leat_group_alter(client, topic, name, &s, &o, &err);
    if (got == LEAT_ESTALE)
        return another(c, &err);
    if (got != LEAT_OK)
        return group_fail(client, topic, name, &err);
    char *remark = format("group %s of %s altered; its members learn of it "
                          "within seconds",
                          name, topic);
    code = say_done(c, "altered", false, remark);
    free(remark);
    return code;
}

int run_group_alter(cli *c)
{
    int code;
    if (!any_setting(c))
        return fail(EXIT_USAGE, "leat group alter --help lists what can be",
                    "nothing is to be changed");
    leat_client *client = client_open(c, value_text(c, "url"), "leat-group",
                                      &code);
    if (!client)
        return code;
    code = alter(c, client, c->args[0], c->args[1]);
    leat_client_close(client);
    return code;
}

/* ---- pause and resume ------------------------------------------------- */

static int set_paused(cli *c, bool yes)
{
    int code;
    leat_error err = { 0 };
    const char *topic = c->args[0], *name = c->args[1];
    leat_client *client = client_open(c, value_text(c, "url"), "leat-group",
                                      &code);
    if (!client)
        return code;
    leat_code got = yes ? leat_group_pause(client, topic, name, NULL, &err)
                        : leat_group_resume(client, topic, name, NULL, &err);
    const char *done = yes ? "paused" : "resumed";
    char *remark = format("group %s of %s is %s", name, topic, done);
    code = got == LEAT_OK ? say_done(c, done, false, remark)
                          : group_fail(client, topic, name, &err);
    free(remark);
    leat_client_close(client);
    return code;
}

int run_group_pause(cli *c)
{
    return set_paused(c, true);
}

int run_group_resume(cli *c)
{
    return set_paused(c, false);
}

/* ---- rm --------------------------------------------------------------- */

static int not_removed(cli *c, leat_client *client, const leat_error *err)
{
    return err->code == LEAT_ESTALE ? another(c, err) : refused(client, c, err);
}

/* What is removed is the group that the question was about. */
static int remove_group(cli *c, leat_client *client, const char *id,
                        const char *what)
{
    int code = 0;
    leat_error err = { 0 };
    leat_remove_opts o = { .force = value_on(c, "force"),
                           .dead = value_on(c, "dead-letters"),
                           .dry_run = true,
                           .id = id };
    char *question = format("remove %s", what);
    char *would = format("dry run: %s would be removed", what);
    char *done = format("removed %s", what);
    leat_code got = leat_group_remove(client, c->args[0], c->args[1], &o, &err);
    bool dry = value_on(c, "dry-run");
    o.dry_run = false;
    if (got == LEAT_OK && !dry && confirmed(c, question, &code))
        got = leat_group_remove(client, c->args[0], c->args[1], &o, &err);
    if (got != LEAT_OK)
        code = not_removed(c, client, &err);
    else if (code == 0)
        code = say_done(c, "removed", dry, dry ? would : done);
    free(done);
    free(would);
    free(question);
    return code;
}

/* In the log, and beside it for another try. */
static int64_t unsettled(const leat_group_info *g)
{
    return g->lag < 0 || g->retries < 0 || g->parked < 0
               ? -1
               : g->lag + g->retries + g->parked;
}

int run_group_rm(cli *c)
{
    int code;
    leat_client *client = client_open(c, value_text(c, "url"), "leat-group",
                                      &code);
    if (!client)
        return code;
    leat_error err = { 0 };
    leat_group_info *g = leat_group_describe(client, c->args[0], c->args[1],
                                             NULL, &err);
    if (!g)
        code = group_fail(client, c->args[0], c->args[1], &err);
    if (g) {
        const char *id = value_text(c, "id");
        char *lag = messages(unsettled(g));
        char *what = format(
            "group %s of topic %s with %s not settled%s", g->group, g->topic,
            lag, value_on(c, "dead-letters") ? " and its dead letters" : "");
        code = remove_group(c, client, id ? id : g->id, what);
        free(what);
        free(lag);
    }
    leat_group_info_free(g);
    leat_client_close(client);
    return code;
}

/* ---- pending ---------------------------------------------------------- */

static const column pending_columns[] = {
    { "partition", COLUMN_ID, false },  { "position", COLUMN_TEXT, false },
    { "state", COLUMN_TEXT, false },    { "attempts", COLUMN_COUNT, false },
    { "failures", COLUMN_COUNT, true }, { "age_s", COLUMN_SECONDS, false },
    { "due", COLUMN_TIME, false },      { "error", COLUMN_TEXT, false },
    { "lane", COLUMN_TEXT, true },      { "replayed_from", COLUMN_TEXT, true },
};

static void show_pending(output *out, const leat_pending_page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        const leat_pending *p = &page->item[i];
        output_number(out, p->partition);
        output_position(out, p->position);
        output_text(out, leat_pending_state_name(p->state));
        output_number(out, p->attempts);
        output_number(out, p->failures);
        output_real(out, (double)p->age_ms / 1000);
        output_given(out, p->due_ms);
        output_text(out, p->error);
        output_text(out, p->lane);
        output_text(out, p->origin);
    }
    if (page->next)
        note("%zu of %lld%s; the next: --after %s", page->count,
             (long long)page->total, page->whole ? "" : " or more", page->next);
}

static leat_pending_sort sort_of(const char *word)
{
    return strcmp(word, "attempts") == 0   ? LEAT_PENDING_BY_ATTEMPTS
           : strcmp(word, "position") == 0 ? LEAT_PENDING_BY_POSITION
                                           : LEAT_PENDING_BY_AGE;
}

static int list_pending(cli *c, leat_client *client, output *out)
{
    leat_error err = { 0 };
    int64_t limit = value_count(c, "count");
    leat_pending_opts o = { .one = value_text(c, "partition") != NULL,
                            .partition = (uint32_t)value_count(c, "partition"),
                            .sort = sort_of(value_text(c, "sort")),
                            .limit = limit < INT32_MAX ? (int)limit : INT32_MAX,
                            .after = value_text(c, "after") };
    leat_pending_page *p = leat_pending_list(client, c->args[0], c->args[1], &o,
                                             &err);
    if (!p)
        return group_fail(client, c->args[0], c->args[1], &err);
    show_pending(out, p);
    leat_pending_free(p);
    return 0;
}

int run_group_pending(cli *c)
{
    int code;
    output *out = output_open(c, pending_columns,
                              sizeof pending_columns / sizeof *pending_columns,
                              false, &code);
    leat_client *client = out ? client_open(c, value_text(c, "url"),
                                            "leat-group", &code)
                              : NULL;
    if (client)
        code = list_pending(c, client, out);
    client_close(c, client);
    return output_end(out, code);
}
