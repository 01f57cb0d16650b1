/*
 * cmd_server.c: leat status and leat ping: what the server is, how far away.
 */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define STATUS_PINGS 5
#define MAX_PINGS    1000000
#define MAX_SKEW_MS  5000

/* ---- connecting ------------------------------------------------------- */

static int cannot_open(cli *c, const char *shown, const leat_error *err)
{
    value *v = value_find(c, "url");
    bool tls = err->code == LEAT_EAUTH && strstr(err->msg, "certificate");
    int code = fail_with(shown, err, tls ? "see TLS in leat-urls(7)" : NULL);
    /* A bad URL is a usage error only where it was typed. */
    return code == EXIT_USAGE && v->origin != FROM_FLAG ? EXIT_CONFIG : code;
}

/* Open a client with the options in force.  NULL with *code, and said. */
leat_client *client_open(cli *c, const char *url, const char *what, int *code)
{
    leat_error err = { 0 };
    login who = { 0 };
    bool embedded = strncmp(url, "embedded:", 9) == 0;
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
                              .allow_eviction = true,
                              .tls = tls_get(c),
                              .log = report_logger() };
    leat_client *client = leat_client_open(url, &opts, &err);
    login_free(&who);
    *code = 0;
    if (!client) {
        char *shown = url_mask(url);
        *code = cannot_open(c, shown, &err);
        free(shown);
    }
    return client;
}

/* One PING; its time in milliseconds, or the error. */
static leat_code ping(leat_client *client, double *ms, leat_error *err)
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

/* The whole number after "\nname:" in INFO's text; 0: none. */
static int64_t info_number(const char *info, const char *name)
{
    char *key = format("\n%s:", name);
    const char *at = strstr(info, key);
    int64_t v = at ? strtoll(at + strlen(key), NULL, 10) : 0;
    free(key);
    return v;
}

static char *server_info(leat_client *client)
{
    leat_reply *reply = NULL;
    leat_call_opts again = { .idempotent = true };
    if (leat_client_call(client,
                         LEAT_ARGS(leat_str("INFO"), leat_str("server")),
                         &again, &reply, NULL) != LEAT_OK)
        return copy("");
    leat_bytes text = leat_reply_bytes(reply);
    char *info = copy_n(text.p, text.n);
    leat_reply_free(reply);
    return info;
}

long server_pid(leat_client *client)
{
    char *info = server_info(client);
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

/* ---- status ----------------------------------------------------------- */

static void warn(FILE *f, const char *text)
{
    fprintf(f, "%s%s", ftell(f) > 0 ? "\n" : "", text);
}

/* What is weak about keeping messages here, and what to do. */
static char *weaknesses(const leat_server *s, bool embedded, bool held)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f)
        return copy("");
    if (!s->version[0])
        warn(f, "INFO is refused: whether the server keeps its data cannot be "
                "seen; allow +info");
    else if (!s->aof)
        warn(f, "appendonly is off: a restart forgets everything since the "
                "last snapshot; set appendonly yes");
    else if (strcmp(s->appendfsync, "no") == 0)
        warn(f, "appendfsync is no: the operating system decides when data "
                "reaches the disk; set appendfsync everysec or always");
    if (s->maxmemory_policy[0] &&
        strcmp(s->maxmemory_policy, "noeviction") != 0)
        warn(f, "the eviction policy may drop messages; set "
                "maxmemory-policy noeviction");
    if (strcmp(s->role, "slave") == 0 || strcmp(s->role, "replica") == 0)
        warn(f, "this is a replica: it takes no writes; name the master in "
                "the URL");
    if (s->maxmemory > 0 && s->used_memory > s->maxmemory / 10 * 9)
        warn(f, "over 90 % of maxmemory is used: writes will be refused "
                "soon");
    if (!s->has_scripts)
        warn(f, "scripts are refused: leat moves messages by them; allow "
                "+eval +evalsha");
    if (s->clock_skew_ms > MAX_SKEW_MS || s->clock_skew_ms < -MAX_SKEW_MS)
        warn(f, "the clocks here and there differ: times in listings are the "
                "server's");
    if (s->version[0] && s->major < 6)
        warn(f, "this server is older than Redis 6.0, the oldest that leat "
                "supports");
    if (embedded && !held)
        warn(f, "nobody holds this private server: it runs only while a "
                "program uses it; 'leat up' keeps it running");
    fclose(f);
    return text;
}

static const column status_columns[] = {
    { "url", COLUMN_TEXT, false },
    { "version", COLUMN_TEXT, false },
    { "role", COLUMN_TEXT, false },
    { "replicas", COLUMN_COUNT, false },
    { "protocol", COLUMN_ID, false },
    { "aof", COLUMN_BOOL, false },
    { "appendfsync", COLUMN_TEXT, false },
    { "maxmemory_policy", COLUMN_TEXT, false },
    { "used_memory", COLUMN_BYTES, false },
    { "maxmemory", COLUMN_BYTES, false },
    { "scripts", COLUMN_BOOL, false },
    { "clock_skew_ms", COLUMN_COUNT, false },
    { "started", COLUMN_TIME, false },
    { "latency_ms", COLUMN_REAL, false },
    { "holder_pid", COLUMN_ID, false },
    { "warnings", COLUMN_LIST, false },
};

static void started(output *out, leat_client *client)
{
    char *info = server_info(client);
    int64_t up = info_number(info, "uptime_in_seconds");
    if (*info)
        output_number(out, ((int64_t)time(NULL) - up) * 1000);
    else
        output_null(out);
    free(info);
}

static void text_or_null(output *out, const char *s)
{
    output_text(out, *s ? s : NULL);
}

static void show_server(output *out, leat_client *client, const char *url,
                        const leat_server *s, double ms)
{
    bool embedded = strncmp(url, "embedded:", 9) == 0;
    char *dir = embedded ? embedded_dir(url) : NULL;
    long holder = dir ? holder_pid(dir) : 0;
    char *weak = weaknesses(s, embedded, holder != 0);

    output_text(out, leat_client_url(client));
    text_or_null(out, s->version);
    text_or_null(out, s->role);
    output_number(out, s->replicas);
    output_number(out, s->protocol);
    output_bool(out, s->aof);
    text_or_null(out, s->appendfsync);
    text_or_null(out, s->maxmemory_policy);
    output_number(out, s->used_memory);
    if (s->maxmemory)
        output_number(out, s->maxmemory);
    else
        output_null(out);
    output_bool(out, s->has_scripts);
    output_number(out, s->clock_skew_ms);
    started(out, client);
    output_real(out, ms);
    if (holder)
        output_number(out, holder);
    else
        output_null(out);
    output_text(out, weak);
    free(weak);
    free(dir);
}

/* The least of a few pings: the first pays for what is cold. */
static leat_code best_ping(leat_client *client, double *best, leat_error *err)
{
    for (int i = 0; i < STATUS_PINGS; i++) {
        double ms = 0;
        leat_code code = ping(client, &ms, err);
        if (code != LEAT_OK)
            return code;
        if (i == 0 || ms < *best)
            *best = ms;
    }
    return LEAT_OK;
}

int run_status(cli *c)
{
    int code;
    const char *url = value_text(c, "url");
    output *out = output_open(c, status_columns,
                              sizeof status_columns / sizeof *status_columns,
                              true, &code);
    if (!out)
        return code;
    leat_client *client = client_open(c, url, "leat-status", &code);
    leat_error err = { 0 };
    leat_server server = { 0 };
    double ms = 0;
    if (client && (leat_client_server(client, &server, &err) != LEAT_OK ||
                   best_ping(client, &ms, &err) != LEAT_OK))
        code = fail_with(leat_client_url(client), &err, NULL);
    if (code == 0) {
        show_server(out, client, url, &server, ms);
        code = output_close(out);
    } else {
        output_drop(out);
    }
    leat_client_close(client);
    return code;
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
        leat_code got = ping(client, &ms[answered], &err);
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
    leat_client *client = client_open(c, value_text(c, "url"), "leat-ping",
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
