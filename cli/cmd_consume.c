/*
 * cmd_consume.c: leat consume: a member of a group that hands each message to a
 * program, or prints it.
 *
 * Handlers run on the runner's threads; the main thread waits for a signal, for
 * idleness or for the count, and stops the runner.
 *
 *   exit 0                    acknowledged
 *   exit 65                   a dead letter at once
 *   any other exit, killed,
 *   too long                  failed: tried again as --backoff says, a dead
 *                             letter after --max-attempts; with --on-failure
 *                             dead at once, but for exit 75
 *   could not be started      given back: no attempt is counted
 *
 * Entries that are no messages are rejected by the runner and do not come here;
 * they are counted, and dead letters.
 */
#include "exec.h"

#include <stdatomic.h>
#include <stdlib.h>

enum {
    LOOK_MS = 20,
    DELAY_MAX_MS = 60000, /* the library's, where nothing is said       */
    JOIN_MS = 20000       /* a group whose last member died is joined by then */
};

typedef struct consuming {
    cli *c;
    char **program; /* NULL: print */
    printer *printer;
    bool fail_once; /* a failure is for good */
    leat_retry retry;
    int64_t max_ms;

    atomic_bool assigned; /* some partition is or was ours      */
    atomic_bool hinted;   /* it was said where dead letters are */
    atomic_llong acked, failed, rejected;
    uint64_t undecodable; /* of the main thread */
    gate gate;            /* its lock is the printer's, too */
    int64_t given_up;     /* failed for the last time       */
    int trouble;          /* an exit code that ends us      */
    bool ran;
} consuming;

/* ---- verdicts --------------------------------------------------------- */

static void tell(const sighting *m, const leat_ctx *x, const char *what)
{
    char text[POSITION_TEXT];
    note("partition %lld, message %s, attempt %u: %s", (long long)m->partition,
         position_text(m->position, text),
         leat_delivery_attempt(leat_ctx_delivery(x)), what);
}

/* Whether it is tried again, and when, is the policy's to decide. */
static leat_verdict failed(consuming *s, leat_ctx *x, const sighting *m,
                           const ran *r)
{
    char *reason = ran_reason(r);
    tell(m, x, reason);
    s->failed++;
    leat_verdict v = leat_ctx_fail(x, reason);
    free(reason);
    return v;
}

static leat_verdict rejected(consuming *s, leat_ctx *x, const sighting *m,
                             const ran *r)
{
    char *reason = ran_reason(r);
    tell(m, x, reason);
    s->rejected++;
    leat_verdict v = leat_ctx_reject(x, reason);
    free(reason);
    return v;
}

static leat_verdict judge_exit(consuming *s, leat_ctx *x, const sighting *m,
                               const ran *r)
{
    if (r->status == 0) {
        s->acked++;
        return LEAT_ACK;
    }
    bool never = r->status == EXIT_DATA ||
                 (s->fail_once && r->status != EXIT_TRY_AGAIN);
    return never ? rejected(s, x, m, r) : failed(s, x, m, r);
}

/* That is not the message's fault, and the next would fare no better. */
static leat_verdict not_started(consuming *s, leat_ctx *x, const sighting *m,
                                const ran *r)
{
    char *what = format("%s: %s: given back", s->program[0],
                        strerror(r->status));
    tell(m, x, what);
    free(what);
    gate_pause(&s->gate, NOT_STARTED_MS);
    return LEAT_RELEASE;
}

static leat_verdict run_program(consuming *s, leat_ctx *x, const sighting *m)
{
    ran r = program_run(s->program, m, s->max_ms, x);
    switch (r.how) {
    case RAN_EXITED:
        return judge_exit(s, x, m, &r);
    case RAN_NOT:
        return not_started(s, x, m, &r);
    case RAN_CANCELLED:
        tell(m, x, "no longer ours: its program was ended");
        (void)leat_ctx_fail(x, "its program was ended with leat consume");
        return leat_ctx_nack(x, 0); /* no reason to wait */
    case RAN_KILLED:
    case RAN_TOO_LONG:
        break;
    }
    return s->fail_once ? rejected(s, x, m, &r) : failed(s, x, m, &r);
}

/* Printed before it is acknowledged; what did not arrive is not. */
static leat_verdict print(consuming *s, const sighting *m)
{
    pthread_mutex_lock(&s->gate.lock);
    int code = s->trouble ? s->trouble : printer_put(s->printer, m);
    s->trouble = code;
    s->gate.shut = code != 0;
    pthread_mutex_unlock(&s->gate.lock);
    if (code)
        return LEAT_RELEASE;
    s->acked++;
    return LEAT_ACK;
}

static gate_key key_of(uint32_t partition, leat_position at)
{
    return (gate_key){ partition, at.ms, at.seq };
}

static leat_verdict handle(leat_ctx *x, void *arg)
{
    consuming *s = arg;
    const leat_delivery *d = leat_ctx_delivery(x);
    sighting m = { .topic = s->c->args[0],
                   .partition = leat_delivery_partition(d),
                   .position = leat_delivery_position(d),
                   .msg = leat_ctx_msg(x) };
    const gate_key key = key_of((uint32_t)m.partition, m.position);
    if (!gate_enter(&s->gate, &key))
        return LEAT_RELEASE;
    leat_verdict v = s->program ? run_program(s, x, &m) : print(s, &m);
    if (v == LEAT_NACK)
        gate_hold(&s->gate, &key); /* see on_dead */
    else
        gate_leave(&s->gate, v == LEAT_ACK || v == LEAT_REJECT);
    return v;
}

/* Those that were rejected are counted already. */
static void on_dead(void *arg, const leat_failure *f, leat_fields *extra)
{
    consuming *s = arg;
    (void)extra;
    /* The library has told of it. */
    if (!atomic_exchange(&s->hinted, true))
        hint("leat dlq ls %s lists dead letters, leat dlq replay sends them "
             "again",
             f->topic);
    if (f->rejected)
        return;
    pthread_mutex_lock(&s->gate.lock);
    s->given_up++;
    pthread_mutex_unlock(&s->gate.lock);
    const gate_key key = key_of(f->partition, f->position);
    gate_count(&s->gate, &key);
}

/* ---- the main thread -------------------------------------------------- */

static void on_assign(void *arg, leat_assign what, uint32_t partition,
                      uint64_t epoch)
{
    consuming *s = arg;
    (void)partition;
    (void)epoch;
    if (what == LEAT_ASSIGNED)
        s->assigned = true;
}

static void count_undecodable(consuming *s, leat_source *source)
{
    leat_topic_source_stats now;
    leat_topic_source_stats_get(source, &now);
    if (now.undecodable > s->undecodable)
        note("%llu entr%s no message: rejected; leat topic tail %s shows why",
             (unsigned long long)(now.undecodable - s->undecodable),
             now.undecodable - s->undecodable == 1 ? "y is" : "ies are",
             s->c->args[0]);
    s->undecodable = now.undecodable;
}

/* Until a signal, the count, idleness or a failure for good.  Nothing can come
 * before a partition is ours, so idleness begins there; or, where others have
 * them all, when that is certain. */
static void wait_for_end(consuming *s, leat_run *r, leat_source *source)
{
    int64_t idle = value_ms(s->c, "until-idle") * 1000000;
    int64_t start = now_ns(), since = start;
    uint64_t before = 0;
    while (!stop_signal && !gate_reached(&s->gate)) {
        leat_run_stats now;
        leat_run_stats_get(r, &now);
        count_undecodable(s, source);
        gate_sweep(&s->gate);
        int64_t t = now_ns();
        bool joined = s->assigned || t - start > JOIN_MS * (int64_t)1000000;
        if (now.received != before || now.in_flight || !joined)
            since = t;
        before = now.received;
        if (now.failed || (idle && t - since > idle))
            return;
        sleep_ms(LOOK_MS);
    }
}

static int stop(consuming *s, leat_run *r)
{
    leat_error err = { 0 };
    int64_t drain = value_ms(s->c, "drain");
    gate_stop(&s->gate);
    leat_code code = leat_run_stop(r, drain ? drain : 1, &err);
    if (code == LEAT_ETIMEOUT)
        return fail(EXIT_TRY_AGAIN,
                    "their messages go to others; --drain "
                    "gives more time",
                    "some programs did not end within %s and were killed",
                    value_text(s->c, "drain"));
    return code == LEAT_OK ? 0 : fail_with(s->c->args[0], &err, NULL);
}

leat_order order_of(const char *word)
{
    return !word                       ? LEAT_ORDER_UNSET
           : strcmp(word, "key") == 0  ? LEAT_ORDER_KEY
           : strcmp(word, "none") == 0 ? LEAT_ORDER_NONE
                                       : LEAT_ORDER_PARTITION;
}

const char *order_word(leat_order order)
{
    return order == LEAT_ORDER_KEY    ? "key"
           : order == LEAT_ORDER_NONE ? "none"
                                      : "partition";
}

static int run_group(consuming *s, leat_topic *t, const char *from)
{
    cli *c = s->c;
    leat_error err = { 0 };
    int64_t drain = value_ms(c, "drain");
    leat_topic_source_opts so = { .name = value_text(c, "name"),
                                  .start = from,
                                  .order = order_of(value_text(c, "order")),
                                  .drain_ms = drain ? drain : 1,
                                  .retry = s->retry,
                                  .dead_fn = on_dead,
                                  .dead_arg = s,
                                  .on_assign = on_assign,
                                  .assign_arg = s,
                                  .log = report_logger() };
    leat_run_opts ro = { .threads = (int)value_count(c, "concurrency"),
                         .log = report_logger() };
    leat_source *source = leat_topic_source(t, value_text(c, "group"), &so,
                                            &err);
    leat_run *r = leat_run_start(source, handle, s, &ro, &err);
    if (!r) {
        leat_source_close(source);
        return fail_with(c->args[0], &err, NULL);
    }
    s->ran = true;
    wait_for_end(s, r, source);
    count_undecodable(s, source);
    int code = stop(s, r);
    return s->trouble ? s->trouble : code;
}

static int run_topic(consuming *s, leat_client *client)
{
    int code;
    cli *c = s->c;
    leat_error err = { 0 };
    char *from = from_text(client, value_text(c, "from"), &code);
    if (!from)
        return code;
    leat_topic_opts o = { .codec = leat_codec_find(value_text(c, "codec")),
                          .log = report_logger() };
    leat_topic *t = leat_topic_open(client, c->args[0], &o, &err);
    code = t ? run_group(s, t, from) : topic_fail(client, c->args[0], &err);
    leat_topic_close(t);
    free(from);
    return code;
}

/* KIND:TIME[..MAX][,nojitter], for example exponential:1s..60s.  It says all:
 * what is left out is the default. */
static bool backoff_parse(const char *text, leat_retry *out)
{
    char word[64];
    if (strlen(text) >= sizeof word)
        return false;
    snprintf(word, sizeof word, "%s", text);
    char *comma = strchr(word, ','), *colon = strchr(word, ':');
    out->jitter = comma ? LEAT_NO : LEAT_YES;
    if (comma)
        *comma = '\0';
    if ((comma && strcmp(comma + 1, "nojitter") != 0) || !colon)
        return false;
    *colon = '\0';
    bool fixed = strcmp(word, "fixed") == 0;
    out->backoff = fixed ? LEAT_BACKOFF_FIXED : LEAT_BACKOFF_EXPONENTIAL;
    char *most = strstr(colon + 1, "..");
    if (most)
        *most = '\0';
    if ((!fixed && strcmp(word, "exponential") != 0) || (fixed && most) ||
        !duration_parse(colon + 1, &out->delay_ms) || out->delay_ms < 1)
        return false;
    out->max_delay_ms = out->delay_ms > DELAY_MAX_MS ? out->delay_ms
                                                     : DELAY_MAX_MS;
    return !most || (duration_parse(most + 2, &out->max_delay_ms) &&
                     out->max_delay_ms >= out->delay_ms);
}

int backoff_of(const char *text, leat_retry *out)
{
    if (backoff_parse(text, out))
        return 0;
    return fail(EXIT_USAGE,
                "fixed:5s, exponential:1s..60s, and ,nojitter after it",
                "--backoff: '%s' is no backoff", text);
}

int retry_parse(cli *c, leat_retry *out)
{
    const char *text = value_text(c, "backoff");
    int64_t most = value_count(c, "max-attempts");
    if (most > INT32_MAX)
        return fail(EXIT_USAGE, "0 is without a limit",
                    "--max-attempts: %lld is too many", (long long)most);
    if (value_text(c, "max-attempts"))
        out->max_attempts = most == 0 ? -1 : (int)most;
    return text ? backoff_of(text, out) : 0;
}

static int check_words(cli *c, char **program)
{
    if (!value_text(c, "group"))
        return fail(EXIT_USAGE, "usage: leat consume TOPIC -g GROUP",
                    "--group is missing");
    if (value_count(c, "concurrency") > MAX_PROGRAMS)
        return fail(EXIT_USAGE, NULL, "--concurrency is at most %d",
                    MAX_PROGRAMS);
    if (program && (value_text(c, "format") || value_on(c, "raw")))
        return fail(EXIT_USAGE, NULL,
                    "--format and --raw are for printing, without --exec");
    return program ? program_check(program, "nothing was read") : 0;
}

static void say_counts(consuming *s)
{
    long long acked = s->acked, failed = s->failed, rejected = s->rejected;
    long long all = acked + failed + rejected;
    long long dead = rejected + (long long)s->given_up;
    note("%lld attempt%s: %lld acknowledged, %lld to be tried again, %lld dead "
         "letter%s, %llu no message",
         all, plural(all), acked, failed - (long long)s->given_up, dead,
         plural(dead), (unsigned long long)s->undecodable);
}

int run_consume(cli *c)
{
    char **program = program_get(c);
    int code = check_words(c, program);
    if (code)
        return code;
    consuming s = { .c = c,
                    .program = program,
                    .fail_once = in_words("dead", value_text(c, "on-failure")),
                    .max_ms = value_ms(c, "max-time"),
                    .gate = GATE(value_count(c, "count")) };
    code = retry_parse(c, &s.retry);
    if (code)
        return code;
    if (!program && !(s.printer = printer_open(c, PRINT_TOPIC, &code)))
        return code;
    last_words = programs_kill;
    leat_client *client = client_open(c, value_text(c, "url"), "leat-consume",
                                      &code);
    if (client)
        code = run_topic(&s, client);
    leat_client_close(client);
    last_words = NULL;
    int end = s.printer ? printer_close(s.printer, code == 0) : 0;
    if (s.ran && code != EXIT_SIGNAL + SIGPIPE)
        say_counts(&s);
    return code ? code : end;
}
