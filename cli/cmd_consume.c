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

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum {
    LOOK_MS = 20,
    REASON_MAX = 255,      /* bytes, as many as the library keeps       */
    DELAY_MAX_MS = 60000,  /* the library's, where nothing is said      */
    NOT_STARTED_MS = 1000, /* until a program is tried to start again   */
    JOIN_MS = 20000 /* a group whose last member died is joined by then */
};

typedef struct consuming {
    cli *c;
    char **program; /* NULL: print */
    printer *printer;
    bool fail_once; /* a failure is for good */
    leat_retry retry;
    int64_t max_ms;
    int64_t limit; /* 0: none */

    atomic_bool stopping;
    atomic_bool assigned; /* some partition is or was ours */
    atomic_llong acked, failed, rejected;
    uint64_t undecodable; /* of the main thread */
    pthread_mutex_t lock; /* of what follows, and of the printer */
    pthread_cond_t changed;
    int64_t begun, finished; /* for the limit: finished is part of begun */
    int64_t given_up;        /* failed for the last time                 */
    int trouble;             /* an exit code that ends us */
    bool ran;
} consuming;

/* ---- the limit -------------------------------------------------------- */

/* Wait for a place; false: there will be none. */
static bool enter(consuming *s)
{
    bool good = true;
    pthread_mutex_lock(&s->lock);
    while (((s->limit && s->begun >= s->limit) || s->trouble) && !s->stopping)
        pthread_cond_wait(&s->changed, &s->lock);
    if (s->stopping)
        good = false;
    else
        s->begun++;
    pthread_mutex_unlock(&s->lock);
    return good;
}

static void leave(consuming *s, bool finished)
{
    pthread_mutex_lock(&s->lock);
    if (finished)
        s->finished++;
    else
        s->begun--;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static bool reached(consuming *s)
{
    pthread_mutex_lock(&s->lock);
    bool yes = s->trouble || (s->limit && s->finished >= s->limit);
    pthread_mutex_unlock(&s->lock);
    return yes;
}

static void stop_handlers(consuming *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* Wait, unless we stop. */
static void pause_handler(consuming *s, int64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ms / 1000;
    pthread_mutex_lock(&s->lock);
    while (!s->stopping &&
           pthread_cond_timedwait(&s->changed, &s->lock, &until) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&s->lock);
}

/* ---- verdicts --------------------------------------------------------- */

static void tell(const sighting *m, const leat_ctx *x, const char *what)
{
    char text[POSITION_TEXT];
    note("partition %lld, message %s, attempt %u: %s", (long long)m->partition,
         position_text(m->position, text),
         leat_delivery_attempt(leat_ctx_delivery(x)), what);
}

/* No longer than the library keeps, and no letter cut in two. */
static void shorten(char *text, size_t most)
{
    size_t n = strlen(text);
    if (n <= most)
        return;
    for (n = most; n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80; n--)
        ;
    text[n] = '\0';
}

/* "exit status 3: no such customer"; malloced. */
static char *reason_of(const ran *r, const char *what)
{
    char *said = printable(r->said, strlen(r->said));
    char *reason = format("%s%s%s", what, said[0] ? ": " : "", said);
    free(said);
    shorten(reason, REASON_MAX);
    return reason;
}

/* Whether it is tried again, and when, is the policy's to decide. */
static leat_verdict failed(consuming *s, leat_ctx *x, const sighting *m,
                           const ran *r, const char *what)
{
    char *reason = reason_of(r, what);
    tell(m, x, reason);
    s->failed++;
    leat_verdict v = leat_ctx_fail(x, reason);
    free(reason);
    return v;
}

static leat_verdict rejected(consuming *s, leat_ctx *x, const sighting *m,
                             const ran *r, const char *what)
{
    char *reason = reason_of(r, what);
    tell(m, x, reason);
    s->rejected++;
    leat_verdict v = leat_ctx_reject(x, reason);
    free(reason);
    return v;
}

static leat_verdict judge_exit(consuming *s, leat_ctx *x, const sighting *m,
                               const ran *r)
{
    char what[32];
    if (r->status == 0) {
        s->acked++;
        return LEAT_ACK;
    }
    snprintf(what, sizeof what, "exit status %d", r->status);
    bool never = r->status == EXIT_DATA ||
                 (s->fail_once && r->status != EXIT_TRY_AGAIN);
    return never ? rejected(s, x, m, r, what) : failed(s, x, m, r, what);
}

/* That is not the message's fault, and the next would fare no better. */
static leat_verdict not_started(consuming *s, leat_ctx *x, const sighting *m,
                                const ran *r)
{
    char *what = format("%s: %s: given back", s->program[0],
                        strerror(r->status));
    tell(m, x, what);
    free(what);
    pause_handler(s, NOT_STARTED_MS);
    return LEAT_RELEASE;
}

static leat_verdict run_program(consuming *s, leat_ctx *x, const sighting *m)
{
    char what[64];
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
        snprintf(what, sizeof what, "killed by signal %d", r.status);
        break;
    case RAN_TOO_LONG:
        snprintf(what, sizeof what, "over --max-time and killed");
        break;
    }
    return s->fail_once ? rejected(s, x, m, &r, what)
                        : failed(s, x, m, &r, what);
}

/* Printed before it is acknowledged; what did not arrive is not. */
static leat_verdict print(consuming *s, const sighting *m)
{
    pthread_mutex_lock(&s->lock);
    int code = s->trouble ? s->trouble : printer_put(s->printer, m);
    s->trouble = code;
    pthread_mutex_unlock(&s->lock);
    if (code)
        return LEAT_RELEASE;
    s->acked++;
    return LEAT_ACK;
}

static leat_verdict handle(leat_ctx *x, void *arg)
{
    consuming *s = arg;
    const leat_delivery *d = leat_ctx_delivery(x);
    sighting m = { .topic = s->c->args[0],
                   .partition = leat_delivery_partition(d),
                   .position = leat_delivery_position(d),
                   .msg = leat_ctx_msg(x) };
    if (!enter(s))
        return LEAT_RELEASE;
    leat_verdict v = s->program ? run_program(s, x, &m) : print(s, &m);
    leave(s, v == LEAT_ACK || v == LEAT_REJECT);
    return v;
}

/* Those that were rejected are counted already. */
static void on_dead(void *arg, const leat_failure *f, leat_fields *extra)
{
    consuming *s = arg;
    char text[POSITION_TEXT];
    (void)extra;
    note("partition %u, message %s: a dead letter after %u attempt%s; leat dlq "
         "ls %s lists them",
         f->partition, position_text(f->position, text), f->attempts,
         f->attempts == 1 ? "" : "s", f->topic);
    if (f->rejected)
        return;
    pthread_mutex_lock(&s->lock);
    s->given_up++;
    s->begun++;
    s->finished++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
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
    while (!stop_signal && !reached(s)) {
        leat_run_stats now;
        leat_run_stats_get(r, &now);
        count_undecodable(s, source);
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
    stop_handlers(s);
    leat_code code = leat_run_stop(r, drain ? drain : 1, &err);
    if (code == LEAT_ETIMEOUT)
        return fail(EXIT_TRY_AGAIN,
                    "their messages go to others; --drain "
                    "gives more time",
                    "some programs did not end within %s and were killed",
                    value_text(s->c, "drain"));
    return code == LEAT_OK ? 0 : fail_with(s->c->args[0], &err, NULL);
}

static leat_order order_of(const char *word)
{
    return strcmp(word, "key") == 0    ? LEAT_ORDER_KEY
           : strcmp(word, "none") == 0 ? LEAT_ORDER_NONE
                                       : LEAT_ORDER_PARTITION;
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

/* KIND:TIME[..MAX][,nojitter], for example exponential:1s..60s. */
static bool backoff_parse(const char *text, leat_retry *out)
{
    char word[64];
    if (strlen(text) >= sizeof word)
        return false;
    snprintf(word, sizeof word, "%s", text);
    char *comma = strchr(word, ','), *colon = strchr(word, ':');
    if (comma) {
        *comma = '\0';
        out->no_jitter = true;
    }
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
    if (!most && out->delay_ms > DELAY_MAX_MS)
        out->max_delay_ms = out->delay_ms;
    return !most || (duration_parse(most + 2, &out->max_delay_ms) &&
                     out->max_delay_ms >= out->delay_ms);
}

static int retry_parse(cli *c, leat_retry *out)
{
    const char *text = value_text(c, "backoff");
    int64_t most = value_count(c, "max-attempts");
    if (most > INT32_MAX)
        return fail(EXIT_USAGE, "0 is without a limit",
                    "--max-attempts: %lld is too many", (long long)most);
    out->max_attempts = most == 0 ? -1 : (int)most;
    if (!backoff_parse(text, out))
        return fail(EXIT_USAGE,
                    "fixed:5s, exponential:1s..60s, and ,nojitter after it",
                    "--backoff: '%s' is no backoff", text);
    return 0;
}

static int check_words(cli *c, char **program)
{
    if (!value_text(c, "group"))
        return fail(EXIT_USAGE, "usage: leat consume TOPIC -g GROUP",
                    "--group is missing");
    if (value_count(c, "concurrency") > MAX_PROGRAMS)
        return fail(EXIT_USAGE, NULL, "--concurrency is at most %d",
                    MAX_PROGRAMS);
    if (program && !program_exists(program[0]))
        return fail(EXIT_USAGE, "nothing was read",
                    "--exec: there is no program '%s'", program[0]);
    if (program && (value_text(c, "format") || value_on(c, "raw")))
        return fail(EXIT_USAGE, NULL,
                    "--format and --raw are for printing, without --exec");
    return 0;
}

static void say_counts(consuming *s)
{
    long long acked = s->acked, failed = s->failed, rejected = s->rejected;
    note("%lld attempts: %lld acknowledged, %lld to be tried again, %lld dead "
         "letters, %llu no message",
         acked + failed + rejected, acked, failed - (long long)s->given_up,
         rejected + (long long)s->given_up, (unsigned long long)s->undecodable);
}

int run_consume(cli *c)
{
    char *by_name[2] = { value_find(c, "exec")->text, NULL };
    char **program = c->rest_count ? c->rest : by_name[0] ? by_name : NULL;
    int code = check_words(c, program);
    if (code)
        return code;
    consuming s = { .c = c,
                    .program = program,
                    .fail_once = in_words("dead", value_text(c, "on-failure")),
                    .max_ms = value_ms(c, "max-time"),
                    .limit = value_count(c, "count"),
                    .lock = PTHREAD_MUTEX_INITIALIZER,
                    .changed = PTHREAD_COND_INITIALIZER };
    code = retry_parse(c, &s.retry);
    if (code)
        return code;
    if (!program && !(s.printer = printer_open(c, &code)))
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
