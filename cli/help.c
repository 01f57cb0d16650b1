/*
 * help.c: the table as help for a terminal.
 */
#include "cli.h"

#include <stdlib.h>

static const char *b(const cli *c, const FILE *f)
{
    return (f == stdout ? c->color_out : c->color_err) ? "\033[1m" : "";
}

static const char *n(const cli *c, const FILE *f)
{
    return (f == stdout ? c->color_out : c->color_err) ? "\033[0m" : "";
}

/* Write text in lines of that width, each indented; paragraphs stay. */
void wrap(FILE *f, const char *text, int indent, int width)
{
    int used = 0;
    while (*text) {
        if (*text == '\n') {
            fputs(used ? "\n\n" : "", f);
            used = 0;
            text += strspn(text, "\n");
            continue;
        }
        int len = (int)strcspn(text, " \n");
        if (used && used + 1 + len > width) {
            fputc('\n', f);
            used = 0;
        }
        used += used ? fprintf(f, " %.*s", len, text)
                     : fprintf(f, "%*s%.*s", indent, "", len, text);
        text += len;
        text += strspn(text, " ");
    }
    fputc('\n', f);
}

static void list_line(FILE *f, const char *left, const char *right)
{
    enum { AT = 26 };
    int used = fprintf(f, "  %s", left);
    if (used > AT - 2) {
        fputc('\n', f);
        used = 0;
    }
    char *text = NULL;
    size_t len = 0;
    FILE *m = open_memstream(&text, &len);
    if (!m)
        return;
    wrap(m, right, AT, term_width());
    fclose(m);
    fprintf(f, "%*s%s", AT - used, "", text + AT);
    free(text);
}

static void list_option(FILE *f, const option *o)
{
    char env[64];
    char letter[] = { '-', o->letter, ',', ' ', '\0' };
    char *left = format("%s--%s%s%s", o->letter ? letter : "    ", o->name,
                        o->value ? " " : "", o->value ? o->value : "");
    char *right = o->initial ? format("%s  [default: %s]", o->help, o->initial)
                             : copy(o->help);
    if (strcmp(o->name, "help") != 0 && option_env(o, env, sizeof env)) {
        char *more = format("%s  [%s]", right, env);
        free(right);
        right = more;
    }
    list_line(f, left, right);
    free(left);
    free(right);
}

static void list_options(cli *c, FILE *f, const char *title, const option *list)
{
    if (!list || !list->name)
        return;
    fprintf(f, "\n%s%s%s\n", b(c, f), title, n(c, f));
    for (const option *o = list; o->name; o++)
        if (!o->no_flag)
            list_option(f, o);
}

/* Beside a command's own options these need only be named. */
static void name_global_options(cli *c, FILE *f)
{
    char *text = NULL;
    size_t len = 0;
    FILE *m = open_memstream(&text, &len);
    if (!m)
        return;
    for (const option *o = global_options; o->name; o++)
        if (!o->no_flag)
            fprintf(m, "--%s ", o->name);
    fclose(m);
    fprintf(f, "\n%sOptions of every command%s (leat --help explains them)\n",
            b(c, f), n(c, f));
    wrap(f, text, 2, term_width());
    free(text);
}

void help_short(FILE *f)
{
    fputs("usage: leat COMMAND [ARGUMENTS]\n\n", f);
    for (const command *k = command_next(NULL, NULL); k;
         k = command_next(NULL, k))
        if (!k->hidden && !k->verb)
            list_line(f, k->noun, k->summary);
    for (const group *g = groups; g->noun; g++)
        list_line(f, g->noun, g->summary);
    fputs("\nleat help COMMAND explains one; 'leat demo' is a good start.\n",
          f);
}

static void help_all(cli *c, FILE *f)
{
    fprintf(f, "%sleat%s: reliable messaging on the Redis you already run\n\n",
            b(c, f), n(c, f));
    help_short(f);
    list_options(c, f, "Options of every command", global_options);
    fputs("\nEvery option is also an environment variable, shown in [...]; "
          "LEAT_PASSWORD\nis the password.  Exit codes and files: man leat\n",
          f);
}

static void help_group(cli *c, const group *g, FILE *f)
{
    fprintf(f, "%susage:%s leat %s VERB\n\n", b(c, f), n(c, f), g->noun);
    wrap(f, g->text, 0, term_width());
    fputc('\n', f);
    for (const command *k = command_next(g->noun, NULL); k;
         k = command_next(g->noun, k)) {
        char *left = format("%s %s", k->verb, k->args);
        list_line(f, left, k->summary);
        free(left);
    }
    fprintf(f, "\nleat help %s VERB explains one.\n", g->noun);
}

void help_command(cli *c, const command *k, FILE *f)
{
    fprintf(f, "%susage:%s leat %s%s%s%s%s%s\n\n", b(c, f), n(c, f), k->noun,
            k->verb ? " " : "", k->verb ? k->verb : "",
            k->options ? " [OPTIONS]" : "", *k->args ? " " : "", k->args);
    wrap(f, k->text, 0, term_width());
    if (k->aliases)
        fprintf(f, "\nAliases: %s\n", k->aliases);
    list_options(c, f, "Options", k->options);
    if (k->examples)
        fprintf(f, "\n%sExamples%s\n", b(c, f), n(c, f));
    for (const example *e = k->examples; e && e->line; e++)
        fprintf(f, "  %s\n      %s\n", e->line, e->what);
    name_global_options(c, f);
}

int help_show(cli *c, FILE *f)
{
    if (c->command && !c->command->hidden)
        help_command(c, c->command, f);
    else if (c->group)
        help_group(c, c->group, f);
    else
        help_all(c, f);
    return 0;
}

/* leat help NOUN VERB: the words are parsed as a command of their own. */
int run_help(cli *c)
{
    cli other = { .color_out = c->color_out, .color_err = c->color_err };
    char *argv[5] = { (char[]){ "leat" } };
    int argc = 1;
    for (int i = 0; i < c->arg_count; i++)
        argv[argc++] = c->args[i];
    char last[] = "--help";
    argv[argc++] = last;
    other.help = true;
    /* With --help a mistake is forgiven; here it is the answer. */
    int code = parse_words(&other, argc, argv);
    bool whole = c->arg_count == 0 || other.command || other.group;
    if (code == 0 && (!whole || (other.command && other.arg_count))) {
        settings_free(&other);
        other = (cli){ 0 };
        code = parse_words(&other, argc - 1, argv);
        if (code == 0)
            code = fail(EXIT_USAGE, "leat help lists what there is",
                        "unknown command '%s'", c->args[0]);
    } else if (code == 0) {
        code = help_show(&other, stdout);
    }
    settings_free(&other);
    return code;
}
