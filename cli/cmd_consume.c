/*
 * cmd_consume.c: leat consume: a member of a group that hands each message to a
 * program, or prints it.
 *
 * Handlers run on the runner's threads; the main thread waits for a signal, for
 * idleness or for the count, and stops the runner.
 *
 *   exit 0                    acknowledged
 *   exit 75, killed, too long,
 *   could not be started      tried again after --retry-delay
 *   any other exit            rejected: counted and told
 *
 * Entries that are no messages are rejected by the runner and do not come here;
 * they are counted and stay in the log.
 */
#include "exec.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    LOOK_MS = 20,
    JOIN_MS = 20000 /* a group whose last member died is joined by then */
};

typedef struct consuming {
    cli *c;
    char **program; /* NULL: print */
    printer *printer;
    int64_t retry_ms, max_ms;
    int64_t limit; /* 0: none */

    atomic_bool stopping;
    atomic_bool assigned; /* some partition is or was ours */
    atomic_llong acked, retried, rejected;
    uint64_t undecodable; /* of the main thread */
    pthread_mutex_t lock; /* of what follows, and of the printer */
    pthread_cond_t changed;
    int64_t begun, finished; /* for the limit: finished is part of begun */
    int trouble;             /* an exit code that ends us */
    bool ran;
} consuming;

/* ---- the limit -------------------------------------------------------- */

/* Wait for a place; false: there will be none. */
static bool enter(consuming *s)
{
    bool good = true;
    pthread_mutex_lock(&s->lock);
    while (s->limit && s->begun >= s->limit && !s->stopping)
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

/* ---- verdicts --------------------------------------------------------- */

static leat_verdict retry(consuming *s, leat_ctx *x)
{
    s->retried++;
    return leat_ctx_nack(x, s->retry_ms);
}

static leat_verdict reject(consuming *s, leat_ctx *x, const char *reason)
{
    s->rejected++;
    return leat_ctx_reject(x, reason);
}

static void tell(const sighting *m, const leat_ctx *x, const char *what)
{
    char text[POSITION_TEXT];
    note("partition %lld, message %s, attempt %u: %s", (long long)m->partition,
         position_text(m->position, text),
         leat_delivery_attempt(leat_ctx_delivery(x)), what);
}

static leat_verdict judge_exit(consuming *s, leat_ctx *x, const sighting *m,
                               int status)
{
    char what[64], reason[32];
    if (status == 0) {
        s->acked++;
        return LEAT_ACK;
    }
    bool again = status == EXIT_TRY_AGAIN;
    snprintf(reason, sizeof reason, "exit status %d", status);
    snprintf(what, sizeof what, "%s: %s", reason,
             again ? "to be tried again" : "rejected");
    tell(m, x, what);
    return again ? retry(s, x) : reject(s, x, reason);
}

static leat_verdict run_program(consuming *s, leat_ctx *x, const sighting *m)
{
    char what[128];
    ran r = program_run(s->program, m, s->max_ms, x);
    switch (r.how) {
    case RAN_EXITED:
        return judge_exit(s, x, m, r.status);
    case RAN_KILLED:
        snprintf(what, sizeof what, "killed by signal %d: to be tried again",
                 r.status);
        break;
    case RAN_TOO_LONG:
        snprintf(what, sizeof what,
                 "over --max-time and killed: to be tried again");
        break;
    case RAN_CANCELLED:
        snprintf(what, sizeof what, "no longer ours: its program was ended");
        break;
    case RAN_NOT:
        snprintf(what, sizeof what, "%s: %s: to be tried again", s->program[0],
                 strerror(r.status));
        break;
    }
    tell(m, x, what);
    if (r.how != RAN_CANCELLED)
        return retry(s, x);
    s->retried++;
    return leat_ctx_nack(x, 0);
}

/* Printed before it is acknowledged; what did not arrive is not. */
static leat_verdict print(consuming *s, leat_ctx *x, const sighting *m)
{
    pthread_mutex_lock(&s->lock);
    int code = s->trouble ? s->trouble : printer_put(s->printer, m);
    s->trouble = code;
    pthread_mutex_unlock(&s->lock);
    if (code) {
        s->retried++;
        return leat_ctx_nack(x, 0);
    }
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
        return leat_ctx_nack(x, 0);
    leat_verdict v = s->program ? run_program(s, x, &m) : print(s, x, &m);
    leave(s, v != LEAT_NACK);
    return v;
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
    note("%lld acknowledged, %lld to be tried again, %lld rejected, %llu no "
         "message",
         (long long)s->acked, (long long)s->retried, (long long)s->rejected,
         (unsigned long long)s->undecodable);
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
                    .retry_ms = value_ms(c, "retry-delay"),
                    .max_ms = value_ms(c, "max-time"),
                    .limit = value_count(c, "count"),
                    .lock = PTHREAD_MUTEX_INITIALIZER,
                    .changed = PTHREAD_COND_INITIALIZER };
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
