/*
 * man.c: the table as manual pages, in scdoc's notation (scdoc(5)).
 *
 *   leat __man            the names of the pages
 *   leat __man leat       leat(1)
 *   leat __man leat-up    leat-up(1)
 */
#include "cli.h"

#include <ctype.h>

/* Text with what scdoc would take for markup escaped. */
static void put(const char *s)
{
    for (; *s; s++) {
        if (strchr("\\*_#`[|]<>~", *s))
            putchar('\\');
        putchar(*s);
    }
}

static void put_paragraphs(const char *s)
{
    put(s); /* a blank line is a paragraph for both */
    fputs("\n\n", stdout);
}

static void put_sentence(const char *s)
{
    putchar(toupper((unsigned char)*s));
    put(s + 1);
    fputs(".\n\n", stdout);
}

static void put_option(const option *o)
{
    char env[64];
    if (o->letter)
        printf("*-%c*, ", o->letter);
    fputs("*--", stdout);
    put(o->name);
    putchar('*');
    if (o->value) {
        fputs(" _", stdout);
        put(o->value);
        putchar('_');
    }
    fputs("\n\t", stdout);
    put(o->help);
    if (o->initial) {
        fputs("  Default: ", stdout);
        put(o->initial);
        putchar('.');
    }
    if (strcmp(o->name, "help") != 0 && option_env(o, env, sizeof env)) {
        fputs("  Environment: ", stdout);
        put(env);
        putchar('.');
    }
    fputs("\n\n", stdout);
}

static void put_options(const option *list)
{
    for (const option *o = list; o && o->name; o++)
        if (!o->no_flag)
            put_option(o);
}

static void put_usage(const command *k)
{
    printf("*leat %s%s%s*", k->noun, k->verb ? " " : "",
           k->verb ? k->verb : "");
    if (k->options)
        fputs(" \\[_OPTIONS_\\]", stdout);
    if (*k->args) {
        fputs(" ", stdout);
        put(k->args);
    }
    fputs("\n\n", stdout);
}

static void put_examples(const example *list)
{
    for (const example *e = list; e && e->line; e++) {
        put(e->what);
        printf(":\n\n```\n%s\n```\n\n", e->line);
    }
}

static void put_see_also(const char *self)
{
    printf("# SEE ALSO\n\n");
    if (strcmp(self, "leat") != 0)
        fputs("*leat*(1), ", stdout);
    fputs("*leat-urls*(7), *leat.toml*(5)\n", stdout);
}

static void head(const char *page, const char *summary)
{
    printf("%s(1) \"leat %s\" \"leat manual\"\n\n# NAME\n\n%s - ", page,
           leat_version(), page);
    put(summary);
    fputs("\n\n# SYNOPSIS\n\n", stdout);
}

static void page_of_command(const char *page, const command *k)
{
    head(page, k->summary);
    put_usage(k);
    fputs("# DESCRIPTION\n\n", stdout);
    put_paragraphs(k->text);
    if (k->aliases)
        printf("Aliases: %s\n\n", k->aliases);
    if (k->options) {
        fputs("# OPTIONS\n\n", stdout);
        put_options(k->options);
    }
    fputs("Options of every command are in *leat*(1).\n\n", stdout);
    if (k->examples) {
        fputs("# EXAMPLES\n\n", stdout);
        put_examples(k->examples);
    }
    put_see_also(page);
}

static void page_of_group(const char *page, const group *g)
{
    head(page, g->summary);
    for (const command *k = command_next(g->noun, NULL); k;
         k = command_next(g->noun, k))
        put_usage(k);
    fputs("# DESCRIPTION\n\n", stdout);
    put_paragraphs(g->text);
    fputs("# VERBS\n\n", stdout);
    for (const command *k = command_next(g->noun, NULL); k;
         k = command_next(g->noun, k)) {
        printf("## %s\n\n", k->verb);
        put_usage(k);
        put_sentence(k->summary);
        put_paragraphs(k->text);
        if (k->aliases)
            printf("Aliases: %s\n\n", k->aliases);
        put_options(k->options);
        put_examples(k->examples);
    }
    put_see_also(page);
}

static void put_commands(void)
{
    for (const command *k = command_next(NULL, NULL); k;
         k = command_next(NULL, k)) {
        if (k->hidden || k->verb)
            continue;
        printf("*%s*\n\t", k->noun);
        put(k->summary);
        printf(".  *leat-%s*(1)\n\n", k->noun);
    }
    for (const group *g = groups; g->noun; g++) {
        printf("*%s*\n\t", g->noun);
        put(g->summary);
        printf(".  *leat-%s*(1)\n\n", g->noun);
    }
}

static const char exit_text[] =
    "*0*\n\tDone.\n\n"
    "*1*\n\tA negative answer: something is missing, was not found or was "
    "not answered.\n\n"
    "*64*\n\tThe command line makes no sense.\n\n"
    "*65*\n\tData is not what it should be.\n\n"
    "*69*\n\tThe server cannot be reached, or refused.\n\n"
    "*70*\n\tA bug in leat.\n\n"
    "*74*\n\tThe operating system failed a call; also when the output could "
    "not be written.\n\n"
    "*75*\n\tNot done, and it may succeed later: the server is busy or full, "
    "or did not answer in time.  Try again.\n\n"
    "*76*\n\tThe outcome is not known: it was sent and the answer was lost.  "
    "Look before you repeat.\n\n"
    "*77*\n\tCredentials or rights are missing.\n\n"
    "*78*\n\tA configuration file, an environment variable or the server's "
    "configuration is wrong.\n\n"
    "*128+n*\n\tEnded by signal n: 130 after Ctrl-C, with every command.  A "
    "command that works until it is told to end, as *leat consume* does, exits "
    "with 0 after SIGTERM.\n\n";

static const char env_text[] =
    "Every option _--some-name_ is also read from LEAT\\_SOME\\_NAME.  A "
    "switch is on for 1, true, yes and on.\n\n"
    "*LEAT\\_PASSWORD*\n\tThe password.  There is no such option: everybody "
    "can see the arguments of a program.\n\n"
    "*NO\\_COLOR*, *CLICOLOR\\_FORCE*, *TERM*\n\tDecide about colours where "
    "*--color* is auto.\n\n"
    "*XDG\\_CONFIG\\_HOME*, *XDG\\_CONFIG\\_DIRS*, *XDG\\_STATE\\_HOME*\n\t"
    "Where configuration and the default server's data are.\n\n"
    "*CREDENTIALS\\_DIRECTORY*\n\tSet by systemd; its file leat.password is "
    "the password where nothing else gives one.\n\n";

static void page_of_leat(void)
{
    head("leat", "reliable messaging on the Redis you already run");
    fputs("*leat* \\[_OPTIONS_\\] _COMMAND_ \\[_VERB_\\] \\[_OPTIONS_\\] "
          "\\[_ARGUMENTS_\\]\n\n# DESCRIPTION\n\n",
          stdout);
    put_paragraphs("Commands and long options may be shortened as long as one "
                   "thing is meant.  -- ends the options.\n\n"
                   "On a terminal results are tables; elsewhere they are "
                   "tab-separated lines below a heading.  Keys in JSON are "
                   "stable.  Errors are one line, 'leat: what: why', and "
                   "often a second, 'hint: what to do'.  A password in a URL "
                   "is never printed.");
    fputs("# COMMANDS\n\n", stdout);
    put_commands();
    fputs("# OPTIONS\n\n", stdout);
    put_options(global_options);
    fputs("# ENVIRONMENT\n\n", stdout);
    fputs(env_text, stdout);
    fputs("# EXIT STATUS\n\n", stdout);
    fputs(exit_text, stdout);
    fputs("# FILES\n\n_$XDG\\_CONFIG\\_HOME/leat/config.toml_\n\tThe user's "
          "settings and contexts; *leat.toml*(5).\n\n"
          "# EXAMPLES\n\n",
          stdout);
    for (const command *k = command_next(NULL, NULL); k;
         k = command_next(NULL, k))
        if (!k->verb)
            put_examples(k->examples);
    put_see_also("leat");
}

static void list_pages(void)
{
    puts("leat");
    for (const command *k = command_next(NULL, NULL); k;
         k = command_next(NULL, k))
        if (!k->hidden && !k->verb)
            printf("leat-%s\n", k->noun);
    for (const group *g = groups; g->noun; g++)
        printf("leat-%s\n", g->noun);
}

int run_man(cli *c)
{
    const char *page = c->arg_count ? c->args[0] : NULL;
    if (!page) {
        list_pages();
        return 0;
    }
    if (strcmp(page, "leat") == 0) {
        page_of_leat();
        return 0;
    }
    const char *noun = strncmp(page, "leat-", 5) == 0 ? page + 5 : "";
    const group *g = group_find(noun);
    const command *k = command_next(noun, NULL);
    if (g)
        page_of_group(page, g);
    else if (k)
        page_of_command(page, k);
    else
        return fail(EXIT_USAGE, NULL, "no page '%s'", page);
    return 0;
}
