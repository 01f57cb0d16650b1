/*
 * cmd_stream_consume.c: leat stream consume: a consumer of a group that hands
 * each message to a program, or prints it.
 *
 *   exit 0                  acknowledged
 *   exit 65                 given up: acknowledged, and said
 *   any other exit, killed,
 *   too long                left pending, and tried again as --backoff says;
 *                           given up after --max-attempts
 *   could not be started    given back: no attempt is counted
 *
 * A stream has no dead letters.  What is given up stays in the stream, and only
 * this group does not see it again.
 */
#include "queue.h"
#include "stream.h"

#include <stdlib.h>
#include <sys/random.h>

enum { BATCH = 100, DELAY_MS = 1000, DELAY_MAX_MS = 60000 };

typedef struct consumer {
    cli *c;
    leat_source *source; /* the runner's */
    leat_run *run;
    uint64_t undecodable;
} consumer;

/* ---- when it is tried again ------------------------------------------- */

/* Any time up to ms. */
static int64_t some_of(int64_t ms)
{
    uint64_t x = 0;
    if (getrandom(&x, sizeof x, GRND_NONBLOCK) != (ssize_t)sizeof x)
        return ms;
    return (int64_t)(x % (uint64_t)(ms + 1));
}

int64_t retry_delay(const leat_retry *r, uint32_t attempt)
{
    int64_t ms = r->delay_ms ? r->delay_ms : DELAY_MS;
    int64_t most = r->max_delay_ms ? r->max_delay_ms : DELAY_MAX_MS;
    bool fixed = r->backoff == LEAT_BACKOFF_FIXED;
    for (uint32_t i = 1; !fixed && i < attempt && ms < most; i++)
        ms *= 2;
    if (!fixed && ms > most)
        ms = most;
    return r->jitter == LEAT_NO ? ms : some_of(ms);
}

/* ---- the main thread -------------------------------------------------- */

/* Where the codec reads nothing of an entry, the library acknowledges it. */
static void count_undecodable(consumer *s)
{
    leat_stream_stats now;
    leat_stream_stats_get(s->source, &now);
    uint64_t n = now.undecodable - s->undecodable;
    s->undecodable = now.undecodable;
    if (n == 0)
        return;
    note("%llu entr%s no message of codec %s: passed over, and in the stream",
         (unsigned long long)n, n == 1 ? "y is" : "ies are",
         value_text(s->c, "codec"));
    hint("--codec fields takes any entry");
}

static working_state look(void *arg)
{
    consumer *s = arg;
    leat_run_stats r;
    leat_run_stats_get(s->run, &r);
    count_undecodable(s);
    return (working_state){ r.received, r.in_flight > 0, r.failed };
}

static bool read_id(const char *text, unsigned long long *ms,
                    unsigned long long *seq)
{
    char *end;
    *ms = strtoull(text, &end, 10);
    if (end == text || *end != '-')
        return false;
    text = end + 1;
    *seq = strtoull(text, &end, 10);
    return end > text && *end == '\0';
}

/* "start", "end", "@MS" or an id whose message comes first, as a group begins:
 * behind an id.  Malloced. */
static char *start_text(leat_client *client, const char *from, int *code)
{
    char *text = from_text(client, from, code);
    unsigned long long ms, seq;
    if (!text)
        return NULL;
    char *at = NULL;
    if (strcmp(text, "start") == 0)
        at = copy("0");
    else if (strcmp(text, "end") == 0)
        at = copy("$");
    else if (read_id(text, &ms, &seq) && (ms || seq))
        at = seq ? format("%llu-%llu", ms, seq - 1) : format("@%llu", ms);
    else
        at = copy(text[0] == '@' ? text : "0");
    free(text);
    return at;
}

/* No more is taken than is worked on: others may wait for it. */
static leat_run *start(cli *c, leat_stream *stream, const char *from,
                       working *w, consumer *s, leat_error *err)
{
    int threads = (int)value_count(c, "concurrency");
    int batch = w->program ? threads : BATCH;
    leat_stream_source_opts so = { .consumer = value_text(c, "name"),
                                   .start = from,
                                   .batch = batch,
                                   .max_in_flight = batch,
                                   .nack_at_once = true,
                                   .idle_ms = value_ms(c, "idle"),
                                   .claim_ms = value_ms(c, "idle") / 2 };
    leat_run_opts ro = { .threads = threads,
                         .max_in_flight = batch,
                         .batch = batch,
                         .lanes = w->program ? LEAT_LANES_SOURCE
                                             : LEAT_LANES_ONE,
                         .log = report_logger() };
    s->source = leat_stream_source(stream, value_text(c, "group"), &so, err);
    s->run = leat_run_start(s->source, working_handle, w, &ro, err);
    if (!s->run)
        leat_source_close(s->source);
    return s->run;
}

static int consume(cli *c, leat_client *client, leat_stream *stream,
                   const char *from, working *w)
{
    leat_error err = { 0 };
    consumer s = { .c = c };
    if (!start(c, stream, from, w, &s, &err))
        return stream_fail(client, c->args[0], &err);
    working_wait(w, "until-idle", client, look, &s);
    count_undecodable(&s);
    int64_t drain = value_ms(c, "drain");
    leat_code got = leat_run_stop(s.run, drain ? drain : 1, &err);
    return working_end(w, got, &err);
}

static int consume_stream(cli *c, leat_client *client, working *w)
{
    int code;
    leat_error err = { 0 };
    char *from = start_text(client, value_text(c, "from"), &code);
    if (!from)
        return code;
    leat_stream_opts o = { .codec = codec_get(value_text(c, "codec")),
                           .log = report_logger() };
    leat_stream *stream = leat_stream_open(client, c->args[0], &o, &err);
    code = stream ? consume(c, client, stream, from, w)
                  : stream_fail(client, c->args[0], &err);
    leat_stream_close(stream);
    free(from);
    return code;
}

/* ---- the words -------------------------------------------------------- */

static int check_words(cli *c, bool program)
{
    int code = stream_refuse_own(c);
    if (code)
        return code;
    if (!value_text(c, "group"))
        return fail(EXIT_USAGE, "usage: leat stream consume NAME -g GROUP",
                    "--group is missing");
    if (value_count(c, "concurrency") > MAX_PROGRAMS)
        return fail(EXIT_USAGE, NULL, "--concurrency is at most %d",
                    MAX_PROGRAMS);
    if (program && (value_text(c, "format") || value_on(c, "raw")))
        return fail(EXIT_USAGE, NULL,
                    "--format and --raw are for printing, without --exec");
    if (value_ms(c, "idle") < 1000)
        return fail(EXIT_USAGE, NULL, "--idle is at least 1s");
    return 0;
}

int run_stream_consume(cli *c)
{
    working w;
    bool program = c->rest_count || value_text(c, "exec");
    int code = check_words(c, program);
    if (code || !working_init(c, &w, value_count(c, "count"), &code))
        return code;
    w.stream = c->args[0];
    code = retry_parse(c, &w.retry);
    if (code)
        return code;
    if (!program && !(w.printer = printer_open(c, PRINT_STREAM, &code)))
        return code;
    last_words = programs_kill;
    leat_client *client = client_open(c, value_text(c, "url"), "leat-consume",
                                      &code);
    if (client)
        code = consume_stream(c, client, &w);
    leat_client_close(client);
    last_words = NULL;
    int end = w.printer ? printer_close(w.printer, code == 0) : 0;
    return code ? code : end;
}
