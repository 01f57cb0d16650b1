/*
 * watch.c: --watch: a command again and again, until a signal.
 *
 * On a terminal it is redrawn in place, on a screen of its own that is given
 * back at the end; elsewhere rows are appended below one heading.  The command
 * itself knows nothing of it: it opens its output as always (output.c), and its
 * client, which is kept from one round to the next.
 */
#include "cli.h"

#include <stdlib.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[?25h\033[?1049l"

static volatile sig_atomic_t on_screen;

/* Errors are said where they stay. */
void screen_leave(void)
{
    if (!on_screen)
        return;
    on_screen = 0;
    fputs(LEAVE, stdout);
    fflush(stdout);
}

/* In a signal's handler. */
static void leave_at_once(void)
{
    if (on_screen)
        (void)!write(STDOUT_FILENO, LEAVE, sizeof LEAVE - 1);
}

static void screen_enter(void)
{
    fputs(ENTER, stdout);
    on_screen = 1;
    last_words = leave_at_once;
}

static bool has_screen(cli *c)
{
    const char *form = value_text(c, "output");
    return isatty(STDOUT_FILENO) == 1 && (!form || strcmp(form, "table") == 0);
}

/* "group lag orders billing, every 2s"; malloced. */
static char *title(cli *c)
{
    const command *k = c->command;
    char *text = format("%s%s%s", k->noun, k->verb ? " " : "",
                        k->verb ? k->verb : "");
    for (int i = 0; i < c->arg_count; i++) {
        char *arg = printable(c->args[i], strlen(c->args[i]));
        char *more = format("%s %s", text, arg);
        free(arg);
        free(text);
        text = more;
    }
    char *all = format("\033[H\033[J%s, every %s; Ctrl-C ends\n\n", text,
                       value_text(c, "interval"));
    free(text);
    return all;
}

int watch_command(cli *c)
{
    int code = 0;
    bool screen = has_screen(c);
    c->watching = true;
    c->prelude = screen ? title(c) : NULL;
    if (screen)
        screen_enter();
    while (code == 0 && !stop_signal) {
        code = c->command->run(c);
        c->headed = true;
        if (code == 0 && fflush(stdout) != 0)
            break; /* main tells why */
        if (code == 0)
            sleep_ms(value_ms(c, "interval"));
    }
    screen_leave();
    last_words = NULL;
    leat_client_close(c->kept);
    free(c->prelude);
    return code;
}
