/*
 * main.c: the command `leat`.
 *
 * Whatever a command printed counts only when it arrived: a full disk behind
 * stdout is exit code 74, a reader that went away ends us in silence.
 */
#include "cli.h"

#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

int run_version(cli *c)
{
    static const column columns[] = { { "version", COLUMN_TEXT, false },
                                      { "features", COLUMN_TEXT, false } };
    int code;
    output *out = output_open(c, columns, 2, true, &code);
    if (!out)
        return code;
    output_text(out, leat_version());
    output_text(out, leat_features());
    return output_close(out);
}

int run_config_show(cli *c)
{
    return settings_show(c, value_on(c, "origin"));
}

/* Why an earlier write failed is forgotten by now. */
static bool reader_is_gone(void)
{
    struct pollfd p = { .fd = STDOUT_FILENO };
    return poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

/* Flush stdout and see whether everything arrived. */
static int finish(int code)
{
    if (code == EXIT_SIGNAL + SIGPIPE)
        return code; /* it was noticed already */
    /* Ctrl-C may have cut a write short, which is no failure of stdout. */
    bool bad = ferror(stdout) != 0 && code != EXIT_SIGNAL + SIGINT;
    errno = 0;
    if (fflush(stdout) == 0 && !bad)
        return code;
    if (errno == EPIPE || (errno == 0 && reader_is_gone()))
        return EXIT_SIGNAL + SIGPIPE;
    return fail(EXIT_IO, NULL, "stdout: %s",
                errno ? strerror(errno) : "could not be written");
}

static void set_style(cli *c)
{
    const value *color = value_find(c, "color");
    const value *verbose = value_find(c, "verbose");
    const char *when = color->text ? color->text : getenv("LEAT_COLOR");
    c->color_out = term_color(stdout, when);
    c->color_err = term_color(stderr, when);
    report_style(c->color_err, value_on(c, "quiet"),
                 value_on(c, "verbose") ? verbose->times : 0);
}

/* Help must come also where a configuration file is broken. */
static bool needs_no_settings(const command *k)
{
    return k->hidden || k->run == run_help || k->run == run_completion;
}

/* A URL may stand where none is expected, and be quoted there; and ps shows our
 * arguments to everybody.  From here on we read copies. */
static void hide_arguments(cli *c, int argc, char **argv)
{
    c->words = grab((size_t)(argc + 1) * sizeof *c->words);
    for (int i = 0; i < argc; i++) {
        secret_add_url(argv[i]);
        c->words[i] = url_hide(argv[i]);
    }
}

static int run(cli *c, int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("leat %s\n", leat_version());
        return 0;
    }
    c->color_err = term_color(stderr, NULL);
    report_style(c->color_err, false, 0);
    hide_arguments(c, argc, argv);
    int code = parse_words(c, argc, c->words);
    if (code)
        return code;
    set_style(c);
    if (c->help)
        return help_show(c, stdout);
    if (!c->command && !c->group) {
        help_short(stderr);
        return EXIT_USAGE;
    }
    if (!c->command) {
        help_show(c, stderr);
        return EXIT_USAGE;
    }
    if (needs_no_settings(c->command))
        return c->command->run(c);
    if (!settings_load(c, &code))
        return code;
    set_style(c);
    bool again = value_find(c, "watch") && value_on(c, "watch");
    signals_ask = again || c->command->stops;
    return again ? watch_command(c) : c->command->run(c);
}

int main(int argc, char **argv)
{
    cli c = { 0 };
    occupy_standard_files();
    /* Widths of characters, whatever the user's language. */
    if (!setlocale(LC_CTYPE, ""))
        (void)setlocale(LC_CTYPE, "C.UTF-8");
    catch_signals();
    int code = run(&c, argc, argv);
    if (code == 0 && stop_signal == SIGINT)
        code = EXIT_SIGNAL + SIGINT; /* whoever started us may want to stop */
    code = finish(code);
    settings_free(&c);
    return code;
}
