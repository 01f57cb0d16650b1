/*
 * cmd_status.c: leat status: what the server is, and how safely it keeps data.
 */
#include "cli.h"

#include <stdlib.h>
#include <time.h>

#define STATUS_PINGS 5
#define MAX_SKEW_MS  5000
#define MAX_LAG_S    10
#define MAX_NODES    1024

/* ---- warnings --------------------------------------------------------- */

static void warn(FILE *f, const char *text)
{
    fprintf(f, "%s%s", ftell(f) > 0 ? "\n" : "", text);
}

static void warn_of_durability(FILE *f, const leat_server *s,
                               const leat_durability_report *d)
{
    bool lacking = d->asked > d->given && d->asked != LEAT_OUTBOX;
    if (lacking) {
        char *text = format("durability '%s' is asked for and not given: %s",
                            leat_durability_name(d->asked), d->lacks);
        warn(f, text);
        free(text);
    }
    if (!s->version[0])
        warn(f, "INFO is refused: whether the server keeps its data cannot be "
                "seen; allow +info");
    else if (!s->aof && !lacking)
        warn(f, "appendonly is off: a restart forgets everything since the "
                "last snapshot; set appendonly yes");
    else if (strcmp(s->appendfsync, "no") == 0 && !lacking)
        warn(f, "appendfsync is no: the operating system decides when data "
                "reaches the disk; set appendfsync everysec or always");
    if (s->aof_failed)
        warn(f, "the append-only file could not be written: the server "
                "refuses writes until it can; look at its disk");
    if (s->saves_failed)
        warn(f, "the last snapshot failed: the server may refuse writes; look "
                "at its log and disk");
}

static void warn_of_replicas(FILE *f, const leat_server *s)
{
    if (strcmp(s->role, "slave") == 0 || strcmp(s->role, "replica") == 0)
        warn(f, "this is a replica: it takes no writes; name the master in "
                "the URL");
    if (s->replicas_online < s->replicas)
        warn(f, "some replicas do not follow yet: they are loading or lost; "
                "look at their logs");
    if (s->replicas_lag_s > MAX_LAG_S)
        warn(f, "a replica has been silent for over ten seconds: after a "
                "failover to it messages are missing; look at its log");
    if (s->config_seen && s->min_replicas > 0 && s->min_replicas_lag_s > 0 &&
        s->replicas_online < s->min_replicas)
        warn(f, "fewer replicas follow than min-replicas-to-write: the server "
                "refuses writes; start replicas");
}

/* What is weak about keeping messages here, and what to do. */
static char *weaknesses(const leat_server *s, const leat_durability_report *d,
                        bool embedded, bool held)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f)
        return copy("");
    warn_of_durability(f, s, d);
    if (s->maxmemory_policy[0] &&
        strcmp(s->maxmemory_policy, "noeviction") != 0)
        warn(f, "the eviction policy may drop messages; set "
                "maxmemory-policy noeviction");
    warn_of_replicas(f, s);
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

/* ---- nodes ------------------------------------------------------------ */

static void node_name(FILE *f, const leat_node *n)
{
    bool v6 = strchr(n->host, ':') != NULL;
    if (n->port)
        fprintf(f, "%s%s%s:%d", v6 ? "[" : "", n->host, v6 ? "]" : "", n->port);
    else
        fputs(n->host, f);
}

static void node_line(FILE *f, const leat_node *all, size_t count,
                      const leat_node *n, bool known)
{
    node_name(f, n);
    if (!known)
        return;
    if (n->master && n->slots > 0)
        fprintf(f, " master of %d slots", n->slots);
    else
        fputs(n->master ? " master" : " replica", f);
    if (!n->master && n->primary >= 0 && (size_t)n->primary < count) {
        fputs(" of ", f);
        node_name(f, &all[n->primary]);
    }
}

/* A line for each, masters with their replicas behind them as they come; a
 * single server tells its role by INFO, which may be refused. */
static char *node_lines(leat_client *client, const leat_server *s)
{
    bool known = s->role[0] || leat_client_topology(client) != LEAT_SINGLE;
    char *text = NULL;
    size_t len = 0, n = 0;
    leat_node *nodes = grab(MAX_NODES * sizeof *nodes);
    FILE *f = open_memstream(&text, &len);
    if (f && leat_client_nodes(client, nodes, MAX_NODES, &n, NULL) == LEAT_OK) {
        size_t count = n < MAX_NODES ? n : MAX_NODES;
        for (size_t i = 0; i < count; i++) {
            fputs(i ? "\n" : "", f);
            node_line(f, nodes, count, &nodes[i], known);
        }
    }
    if (f)
        fclose(f);
    free(nodes);
    return text;
}

static const char *topology(const leat_client *client)
{
    static const char *const words[] = { "single", "sentinel", "cluster" };
    return words[leat_client_topology(client)];
}

/* ---- the record ------------------------------------------------------- */

static const column columns[] = {
    { "url", COLUMN_TEXT, false },
    { "topology", COLUMN_TEXT, false },
    { "nodes", COLUMN_LINES, false },
    { "version", COLUMN_TEXT, false },
    { "role", COLUMN_TEXT, false },
    { "replicas", COLUMN_COUNT, false },
    { "replica_lag_s", COLUMN_COUNT, false },
    { "failover", COLUMN_SENTENCE, false },
    { "failover_offset", COLUMN_COUNT, false },
    { "sentinel_epoch", COLUMN_COUNT, false },
    { "protocol", COLUMN_ID, false },
    { "durability", COLUMN_TEXT, false },
    { "meaning", COLUMN_SENTENCE, false },
    { "asked", COLUMN_TEXT, false },
    { "possible", COLUMN_TEXT, false },
    { "for_more", COLUMN_SENTENCE, false },
    { "forgets_ms", COLUMN_MS, true },
    { "aof", COLUMN_BOOL, false },
    { "appendfsync", COLUMN_TEXT, false },
    { "min_replicas", COLUMN_COUNT, true },
    { "maxmemory_policy", COLUMN_TEXT, false },
    { "used_memory", COLUMN_BYTES, false },
    { "maxmemory", COLUMN_BYTES, false },
    { "scripts", COLUMN_BOOL, false },
    { "clock_skew_ms", COLUMN_MS, false },
    { "started", COLUMN_TIME, false },
    { "latency_ms", COLUMN_REAL, false },
    { "holder_pid", COLUMN_ID, false },
    { "warnings", COLUMN_LIST, false },
};

typedef struct seen {
    leat_server server;
    leat_durability_report durability;
    double ms;
} seen;

static void started(output *out, leat_client *client)
{
    char *info = server_info(client, "server");
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

static void number_or_null(output *out, bool known, int64_t v)
{
    if (known)
        output_number(out, v);
    else
        output_null(out);
}

/* What changed the replication id of a server.  From 7.0 on one that starts
 * from a snapshot takes a new one as well. */
static const char *failover_text(const leat_server *s)
{
    if (strcmp(s->role, "master") != 0)
        return "the master of this replica took over from another; what that "
               "had acknowledged last may be lost";
    if (s->major >= 7)
        return "this server took over from another master, or was started "
               "again from a snapshot; what was acknowledged last before may "
               "be lost";
    return "this server took over from another master; what that had "
           "acknowledged last may be lost";
}

/* A server that follows another history than its first keeps the offset where
 * that one ended, until it starts again.  The sentinels remember longer: each
 * failover raises their epoch.  INFO may be refused, and of a cluster it tells
 * of one node only: then it is not known. */
static void show_failover(output *out, leat_client *client,
                          const leat_server *s)
{
    bool cluster = leat_client_topology(client) == LEAT_CLUSTER;
    char *info = cluster ? copy("") : server_info(client, "replication");
    bool known = strstr(info, "second_repl_offset:") != NULL;
    int64_t offset = known ? info_number(info, "second_repl_offset") : -1;
    int64_t epoch = leat_client_sentinel_epoch(client);
    output_text(out, offset >= 0 ? failover_text(s)
                     : epoch > 0 ? "the sentinels have replaced a master; what "
                                   "that had acknowledged last may be lost"
                     : known     ? "none"
                                 : NULL);
    number_or_null(out, offset >= 0, offset);
    number_or_null(out, epoch >= 0, epoch);
    free(info);
}

static void show_where(output *out, leat_client *client, const leat_server *s)
{
    char *nodes = node_lines(client, s);
    output_text(out, leat_client_url(client));
    output_text(out, topology(client));
    output_text(out, nodes ? nodes : "");
    text_or_null(out, s->version);
    text_or_null(out, s->role);
    number_or_null(out, s->role[0] != '\0', s->replicas);
    number_or_null(out, s->replicas_online > 0, s->replicas_lag_s);
    show_failover(out, client, s);
    output_number(out, s->protocol);
    free(nodes);
}

static void show_durability(output *out, const leat_server *s,
                            const leat_durability_report *d)
{
    output_text(out, leat_durability_name(d->given));
    output_text(out, d->means);
    output_text(out, leat_durability_name(d->asked));
    output_text(out, leat_durability_name(d->best));
    text_or_null(out, d->lacks);
    number_or_null(out, d->forgets_ms >= 0, d->forgets_ms);
    if (s->version[0])
        output_bool(out, s->aof);
    else
        output_null(out);
    text_or_null(out, s->appendfsync);
    number_or_null(out, s->config_seen, s->min_replicas);
}

static void show(output *out, leat_client *client, const char *url,
                 const seen *what)
{
    const leat_server *s = &what->server;
    bool embedded = url_is_embedded(url);
    char *dir = embedded ? embedded_dir(url) : NULL;
    long holder = dir ? holder_pid(dir) : 0;
    char *weak = weaknesses(s, &what->durability, embedded, holder != 0);

    show_where(out, client, s);
    show_durability(out, s, &what->durability);
    text_or_null(out, s->maxmemory_policy);
    number_or_null(out, s->version[0] != '\0', s->used_memory);
    number_or_null(out, s->maxmemory > 0, s->maxmemory);
    output_bool(out, s->has_scripts);
    output_number(out, s->clock_skew_ms);
    started(out, client);
    output_real(out, what->ms);
    number_or_null(out, holder != 0, holder);
    output_text(out, weak);
    free(weak);
    free(dir);
}

/* The least of a few pings: the first pays for what is cold. */
static leat_code best_ping(leat_client *client, double *best, leat_error *err)
{
    for (int i = 0; i < STATUS_PINGS; i++) {
        double ms = 0;
        leat_code code = ping_once(client, &ms, err);
        if (code != LEAT_OK)
            return code;
        if (i == 0 || ms < *best)
            *best = ms;
    }
    return LEAT_OK;
}

static leat_code look(leat_client *client, seen *out, leat_error *err)
{
    leat_code code = leat_client_server(client, &out->server, err);
    if (code == LEAT_OK)
        code = leat_client_durability(client, &out->durability, err);
    return code == LEAT_OK ? best_ping(client, &out->ms, err) : code;
}

int run_status(cli *c)
{
    int code;
    const char *url = value_text(c, "url");
    output *out = output_open(c, columns, sizeof columns / sizeof *columns,
                              true, &code);
    if (!out)
        return code;
    leat_client *client = client_open_weak(c, url, "leat-status", &code);
    leat_error err = { 0 };
    seen what = { 0 };
    if (client && look(client, &what, &err) != LEAT_OK)
        code = fail_with(leat_client_url(client), &err, NULL);
    if (code == 0) {
        show(out, client, url, &what);
        code = output_close(out);
    } else {
        output_drop(out);
    }
    client_close(c, client);
    const leat_durability_report *d = &what.durability;
    return code == 0 && d->asked > d->given ? EXIT_CONFIG : code;
}
