/*
 * tcpfault_main.c: tcpfault TARGET CONTROL [LISTEN], the proxy as a program.
 *
 * TARGET is a Unix path or 127.0.0.1:port, LISTEN a Unix path (otherwise a
 * random port, printed as "port N" on stdout), CONTROL the Unix path where
 * orders are taken: one line each, answered by lines of which the last is "ok"
 * or "error WHY".
 *
 *   rule [conn=N] [dir=up|down] [offset=N | frame=N | command=NAME[:N]]
 *        [plus=N] [after] do=ACTION [ms=N] [bit=N] [times=N] [bytes=TEXT]
 *                            answers "rule N"; bytes= takes the rest of the
 *                            line, with \r \n \\ and \xNN
 *   clear   release   fired N   counts   events
 *   drop N | reset N         connection N, 0: all; by FIN or RST
 *   door open|refuse|reset|hang
 *   bar [ADDRESS]            nothing passes for clients from there; none: all
 *   target ADDRESS
 *   quit
 */
#include "support/tcpfault.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { LINE = 64 * 1024 };

typedef struct order {
    tcpfault_rule rule;
    char command[64];
    char bytes[LINE];
} order;

/* Undo \r \n \\ \xNN; returns the length. */
static size_t unescape(const char *text, char *out)
{
    size_t n = 0;
    for (; *text; text++) {
        if (*text != '\\' || !text[1]) {
            out[n++] = *text;
            continue;
        }
        text++;
        if (*text == 'x' && text[1] && text[2]) {
            char hex[3] = { text[1], text[2], '\0' };
            out[n++] = (char)strtoul(hex, NULL, 16);
            text += 2;
        } else {
            char c = *text;
            if (c == 'r')
                c = '\r';
            else if (c == 'n')
                c = '\n';
            out[n++] = c;
        }
    }
    return n;
}

static bool set_command(order *o, const char *value)
{
    const char *colon = strchr(value, ':');
    int n = (int)(colon ? (size_t)(colon - value) : strlen(value));
    snprintf(o->command, sizeof o->command, "%.*s", n, value);
    o->rule.command = o->command;
    o->rule.when = TCPFAULT_COMMAND;
    o->rule.n = colon ? strtoull(colon + 1, NULL, 10) : 0;
    return true;
}

static bool set_number(tcpfault_rule *r, const char *word, uint64_t n)
{
    if (strncmp(word, "conn=", 5) == 0)
        r->conn = (int)n;
    else if (strncmp(word, "plus=", 5) == 0)
        r->plus = n;
    else if (strncmp(word, "ms=", 3) == 0)
        r->ms = (int)n;
    else if (strncmp(word, "bit=", 4) == 0)
        r->bit = (int)n;
    else if (strncmp(word, "times=", 6) == 0)
        r->times = (int)n;
    else if (strncmp(word, "offset=", 7) == 0)
        r->when = TCPFAULT_OFFSET, r->n = n;
    else if (strncmp(word, "frame=", 6) == 0)
        r->when = TCPFAULT_FRAME, r->n = n;
    else
        return false;
    return true;
}

static bool set_word(order *o, const char *word)
{
    tcpfault_rule *r = &o->rule;
    const char *value = strchr(word, '=');
    if (strcmp(word, "after") == 0)
        return (r->after = true);
    if (!value)
        return false;
    value++;
    if (strncmp(word, "command=", 8) == 0)
        return set_command(o, value);
    if (strncmp(word, "do=", 3) == 0)
        return (r->action = tcpfault_action_named(value)) < TCPFAULT_ACTIONS_;
    if (strncmp(word, "dir=", 4) == 0) {
        r->dir = strcmp(value, "down") == 0 ? TCPFAULT_DOWN : TCPFAULT_UP;
        return strcmp(value, "down") == 0 || strcmp(value, "up") == 0;
    }
    return set_number(r, word, strtoull(value, NULL, 10));
}

static bool parse_rule(char *text, order *o)
{
    memset(&o->rule, 0, sizeof o->rule);
    o->rule.action = TCPFAULT_ACTIONS_;
    while (text && *text) {
        if (strncmp(text, "bytes=", 6) == 0) {
            o->rule.len = unescape(text + 6, o->bytes);
            o->rule.bytes = o->bytes;
            break;
        }
        char *word = strsep(&text, " ");
        if (*word && !set_word(o, word))
            return false;
    }
    return o->rule.action < TCPFAULT_ACTIONS_;
}

static const char *add_rule(tcpfault *f, char *text, FILE *out)
{
    static order o;
    int number = parse_rule(text, &o) ? tcpfault_rule_add(f, &o.rule) : 0;
    if (number == 0)
        return "no such rule, or too many";
    fprintf(out, "rule %d\n", number);
    return NULL;
}

static const char *set_door(tcpfault *f, const char *text)
{
    static const char *const names[] = { "open", "refuse", "reset", "hang" };
    for (int i = 0; i < 4; i++) {
        if (strcmp(names[i], text) == 0) {
            tcpfault_set_door(f, (tcpfault_door)i);
            return NULL;
        }
    }
    return "door open|refuse|reset|hang";
}

static void print_counts(tcpfault *f, FILE *out)
{
    tcpfault_counts c = tcpfault_count(f);
    fprintf(out,
            "connections %" PRIu64 " open %" PRIu64 " up %" PRIu64
            " down %" PRIu64 " fired %" PRIu64 "\n",
            c.connections, c.open, c.up, c.down, c.fired);
}

static void print_events(tcpfault *f, FILE *out)
{
    tcpfault_event e;
    for (size_t i = 0; tcpfault_events(f, i, &e, 1) == 1; i++)
        fprintf(out,
                "event %" PRId64 " conn %d %s %s offset %" PRIu64 " rule %d\n",
                e.at_ms, e.conn, e.dir == TCPFAULT_UP ? "up" : "down", e.what,
                e.offset, e.rule);
}

/* NULL, or what was wrong. */
static const char *obey(tcpfault *f, char *line, FILE *out)
{
    char *rest = line, *verb = strsep(&rest, " ");
    const char *arg = rest ? rest : "";
    int n = (int)strtol(arg, NULL, 10);
    if (strcmp(verb, "rule") == 0)
        return add_rule(f, rest, out);
    if (strcmp(verb, "door") == 0)
        return set_door(f, arg);
    if (strcmp(verb, "target") == 0)
        return tcpfault_target(f, arg) ? NULL : "no address";
    if (strcmp(verb, "bar") == 0)
        return tcpfault_bar(f, *arg ? arg : NULL) ? NULL : "no address";
    if (strcmp(verb, "clear") == 0)
        tcpfault_clear(f);
    else if (strcmp(verb, "release") == 0)
        tcpfault_release(f);
    else if (strcmp(verb, "fired") == 0)
        fprintf(out, "fired %" PRIu64 "\n", tcpfault_fired(f, n));
    else if (strcmp(verb, "counts") == 0)
        print_counts(f, out);
    else if (strcmp(verb, "events") == 0)
        print_events(f, out);
    else if (strcmp(verb, "drop") == 0 || strcmp(verb, "reset") == 0)
        tcpfault_drop(f, n, verb[0] == 'r');
    else
        return "no such order";
    return NULL;
}

/* True: quit. */
static bool obey_all(tcpfault *f, FILE *in, FILE *out)
{
    static char line[LINE];
    while (fgets(line, sizeof line, in)) {
        line[strcspn(line, "\r\n")] = '\0';
        bool quit = strcmp(line, "quit") == 0;
        const char *why = quit ? NULL : obey(f, line, out);
        if (why)
            fprintf(out, "error %s\n", why);
        else
            fprintf(out, "ok\n");
        (void)fflush(out);
        if (quit)
            return true;
    }
    return false;
}

static bool take_orders(tcpfault *f, int fd)
{
    FILE *in = fdopen(fd, "r");
    FILE *out = fdopen(dup(fd), "w");
    bool quit = in && out && obey_all(f, in, out);
    if (out)
        (void)fclose(out);
    if (in)
        (void)fclose(in);
    else
        close(fd);
    return quit;
}

static int listen_control(const char *path)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (snprintf(a.sun_path, sizeof a.sun_path, "%s", path) >=
        (int)sizeof a.sun_path)
        return -1;
    unlink(path);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || listen(fd, 16) != 0)
        return -1;
    return fd;
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: tcpfault TARGET CONTROL [LISTEN]\n");
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    int control = listen_control(argv[2]);
    if (control < 0) {
        fprintf(stderr, "tcpfault: %s: %s\n", argv[2], strerror(errno));
        return 1;
    }
    tcpfault *f = tcpfault_start(argv[1], argv[3]);
    if (!f)
        return 1;
    printf("port %d\n", tcpfault_port(f));
    (void)fflush(stdout);
    for (int fd; (fd = accept4(control, NULL, NULL, SOCK_CLOEXEC)) >= 0;)
        if (take_orders(f, fd))
            break;
    tcpfault_stop(f);
    close(control);
    unlink(argv[2]);
    return 0;
}
