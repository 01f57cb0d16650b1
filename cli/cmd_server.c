/*
 * cmd_server.c: connecting, and leat ping: how far away the server is.
 */
#include "cli.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define MAX_PINGS 1000000

/* ---- connecting ------------------------------------------------------- */

/* A directory that others may enter. */
static int embedded_refused(const char *url, const char *shown,
                            const leat_error *err)
{
    char *dir = embedded_dir(url);
    char *todo = format("chmod 700 %s", dir ? dir : "it");
    int code = fail(EXIT_CONFIG, todo, "%s: %s", shown, err->msg);
    free(todo);
    free(dir);
    return code;
}

static int cannot_open(cli *c, const char *url, const char *shown,
                       const leat_error *err)
{
    if (url_is_embedded(url) && err->code == LEAT_EAUTH)
        return embedded_refused(url, shown, err);
    if (url_is_embedded(url) && err->code == LEAT_EIO)
        return fail_with(shown, err,
                         "--url embedded:///DIR, or XDG_STATE_HOME, names a "
                         "directory that can be written");
    value *v = value_find(c, "url");
    bool tls = err->code == LEAT_EAUTH && strstr(err->msg, "certificate");
    bool evicts = err->code == LEAT_EUNSAFE && strstr(err->msg, "evict");
    int code = fail_with(shown, err,
                         tls      ? "see TLS in leat-urls(7)"
                         : evicts ? "messages could vanish unseen; "
                                    "--allow-eviction, or allow_eviction in "
                                    "the context, accepts that"
                                  : NULL);
    /* A bad URL is a usage error only where it was typed. */
    return code == EXIT_USAGE && v->origin != FROM_FLAG ? EXIT_CONFIG : code;
}

static leat_durability durability(cli *c)
{
    const char *text = value_text(c, "durability");
    leat_durability d = LEAT_OUTBOX;
    while (text && d > LEAT_EXECUTED &&
           strcmp(text, leat_durability_name(d)) != 0)
        d--;
    return text ? d : LEAT_EXECUTED;
}

/* Asked for by name it overrules what the URL asks for. */
static bool only_executed(cli *c)
{
    const char *text = value_text(c, "durability");
    return text && strcmp(text, leat_durability_name(LEAT_EXECUTED)) == 0;
}

/* ---- remarks ---------------------------------------------------------- */

/* What the library has to say about a server while it is opened is a matter of
 * its configuration: that is said once, and by 'leat status' always. */
static struct opening {
    _Atomic(const char *) server; /* NULL: it is open                 */
    bool shows;                   /* the command itself tells them all */
    leat_logger log;
} opening;

static void on_remark(void *arg, leat_level level, const char *line)
{
    const char *server = opening.server;
    (void)arg;
    bool weak = server && level == LEAT_LOG_WARN;
    if (weak && !report_verbose() &&
        (opening.shows || told_before(server, line)))
        return;
    opening.log.fn(opening.log.arg, level, line);
    if (weak && !report_verbose())
        hint("this is said once; 'leat status' shows it");
}

static leat_logger remark_logger(void)
{
    opening.log = report_logger();
    return (leat_logger){ .fn = opening.log.fn ? on_remark : NULL,
                          .level = opening.log.level };
}

static leat_client *open_with(cli *c, const char *url, const char *what,
                              bool weak, int *code)
{
    leat_error err = { 0 };
    login who = { 0 };
    bool embedded = url_is_embedded(url);
    *code = 0;
    if (c->kept)
        return c->kept;
    if (!embedded && !login_get(c, &who, code)) {
        login_free(&who);
        return NULL;
    }
    int64_t timeout = value_ms(c, "timeout");
    leat_client_opts opts = { .name = what,
                              .user = who.user,
                              .password = who.password,
                              .connect_timeout_ms = timeout ? timeout : 1,
                              .timeout_ms = timeout ? timeout : 1,
                              .allow_eviction = c->command->looks ||
                                                value_on(c, "allow-eviction"),
                              .allow_weak = weak,
                              .durability = durability(c),
                              .only_executed = only_executed(c),
                              .tls = tls_get(c),
                              .log = remark_logger() };
    char *shown = url_mask(url);
    opening.server = shown;
    opening.shows = c->command->run == run_status;
    sig_atomic_t asks = signals_ask;
    signals_ask = 0; /* nothing has begun that would have to be ended */
    leat_client *client = leat_client_open(url, &opts, &err);
    signals_ask = asks;
    opening.server = NULL;
    login_free(&who);
    *code = 0;
    if (!client) {
        *code = cannot_open(c, url, shown, &err);
    }
    free(shown);
    if (c->watching)
        c->kept = client;
    return client;
}

void client_close(cli *c, leat_client *client)
{
    if (!client || client != c->kept)
        leat_client_close(client);
}

/* Open a client with the options in force.  NULL with *code, and said. */
leat_client *client_open(cli *c, const char *url, const char *what, int *code)
{
    return open_with(c, url, what, false, code);
}

leat_client *client_open_weak(cli *c, const char *url, const char *what,
                              int *code)
{
    return open_with(c, url, what, true, code);
}

leat_code ping_once(leat_client *client, double *ms, leat_error *err)
{
    leat_reply *reply = NULL;
    int64_t start = now_ns();
    leat_code code = leat_client_call(client, LEAT_ARGS(leat_str("PING")), NULL,
                                      &reply, err);
    *ms = (double)(now_ns() - start) / 1e6;
    leat_reply_free(reply);
    return code;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- INFO ------------------------------------------------------------- */

/* The whole number after "\nname:" in INFO's text. */
int64_t info_number(const char *info, const char *name)
{
    char *key = format("\n%s:", name);
    const char *at = strstr(info, key);
    int64_t v = at ? strtoll(at + strlen(key), NULL, 10) : 0;
    free(key);
    return v;
}

char *server_info(leat_client *client, const char *section)
{
    leat_reply *reply = NULL;
    leat_call_opts again = { .idempotent = true };
    if (leat_client_call(client, LEAT_ARGS(leat_str("INFO"), leat_str(section)),
                         &again, &reply, NULL) != LEAT_OK)
        return copy("");
    leat_bytes text = leat_reply_bytes(reply);
    char *info = copy_n(text.p, text.n);
    leat_reply_free(reply);
    return info;
}

long server_pid(leat_client *client)
{
    char *info = server_info(client, "server");
    int64_t pid = info_number(info, "process_id");
    free(info);
    return (long)pid;
}

bool wait_gone(long pid, int64_t timeout_ms)
{
    int64_t end = now_ns() + timeout_ms * 1000000;
    while (kill((pid_t)pid, 0) == 0 || errno == EPERM) {
        if (now_ns() > end)
            return false;
        struct timespec t = { .tv_nsec = 5000000 };
        nanosleep(&t, NULL);
    }
    return true;
}

/* ---- ping ------------------------------------------------------------- */

static const column ping_columns[] = {
    { "url", COLUMN_TEXT, false },       { "sent", COLUMN_COUNT, false },
    { "answered", COLUMN_COUNT, false }, { "min_ms", COLUMN_REAL, false },
    { "avg_ms", COLUMN_REAL, false },    { "p50_ms", COLUMN_REAL, false },
    { "max_ms", COLUMN_REAL, false },
};

static void show_times(output *out, double *ms, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += ms[i];
    if (n == 0) {
        for (int i = 0; i < 4; i++)
            output_null(out);
        return;
    }
    qsort(ms, (size_t)n, sizeof *ms, by_size);
    output_real(out, ms[0]);
    output_real(out, sum / (double)n);
    output_real(out, ms[n / 2]);
    output_real(out, ms[n - 1]);
}

/* Ping until the count or a signal; how many were answered. */
static int64_t ping_all(cli *c, leat_client *client, double *ms, int64_t count,
                        int64_t *sent, leat_error *first)
{
    int64_t answered = 0, pause = value_ms(c, "interval");
    for (*sent = 0; *sent < count && !stop_signal;) {
        leat_error err = { 0 };
        leat_code got = ping_once(client, &ms[answered], &err);
        ++*sent;
        if (got == LEAT_OK) {
            if (value_on(c, "verbose"))
                note("answer %lld: %.3f ms", (long long)*sent, ms[answered]);
            answered++;
        } else {
            note("ping %lld: %s", (long long)*sent, err.msg);
            if (first->code == LEAT_OK)
                *first = err;
        }
        if (*sent < count)
            sleep_ms(pause);
    }
    return answered;
}

int run_ping(cli *c)
{
    int code;
    int64_t count = value_count(c, "count"), sent = 0;
    if (count > MAX_PINGS)
        return fail(EXIT_USAGE, NULL, "--count is at most %d", MAX_PINGS);
    output *out = output_open(c, ping_columns, 7, true, &code);
    if (!out)
        return code;
    leat_client *client = client_open_weak(c, value_text(c, "url"), "leat-ping",
                                           &code);
    if (!client) {
        output_drop(out);
        return code;
    }
    double *ms = grab((size_t)count * sizeof *ms);
    leat_error err = { 0 };
    int64_t answered = ping_all(c, client, ms, count, &sent, &err);
    output_text(out, leat_client_url(client));
    output_number(out, sent);
    output_number(out, answered);
    show_times(out, ms, answered);
    leat_client_close(client);
    free(ms);
    code = output_close(out);
    if (code == 0 && answered == 0 && err.code != LEAT_OK)
        code = exit_code(err.code);
    if (code == 0 && stop_signal)
        code = EXIT_SIGNAL + stop_signal;
    return code ? code : answered < sent ? EXIT_NO : EXIT_DONE;
}
