/*
 * cmd_queue_receive.c: leat queue receive and peek.
 *
 * What is printed is flushed before it is acknowledged, so that a reader that
 * went away costs no message.
 */
#include "queue.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 20 };

/* ---- a signal ends a wait --------------------------------------------- */

/* A thread that passes a signal on to who waits in the library. */
typedef struct bell {
    leat_queue *queue;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over;
} bell;

static void *ring(void *arg)
{
    bell *b = arg;
    pthread_mutex_lock(&b->lock);
    while (!b->over) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        (void)pthread_cond_timedwait(&b->changed, &b->lock, &until);
        if (stop_signal && !b->over)
            leat_queue_interrupt(b->queue);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

static void bell_start(bell *b, leat_queue *q)
{
    *b = (bell){ .queue = q,
                 .lock = PTHREAD_MUTEX_INITIALIZER,
                 .changed = PTHREAD_COND_INITIALIZER };
    b->started = pthread_create(&b->thread, NULL, ring, b) == 0;
}

static void bell_end(bell *b)
{
    if (!b->started)
        return;
    pthread_mutex_lock(&b->lock);
    b->over = true;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
}

/* ---- printing --------------------------------------------------------- */

static int print_batch(cli *c, printer *p, const leat_queue_batch *b)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < leat_queue_batch_count(b); i++) {
        const leat_queue_item *it = leat_queue_batch_at(b, i);
        code = printer_put(p, &(sighting){ .queue = leat_str(c->args[0]),
                                           .receipt = it->receipt,
                                           .group = it->group,
                                           .reason = it->reason,
                                           .receives = it->receives,
                                           .sent_ms = it->sent_ms,
                                           .msg = &it->msg,
                                           .error = it->error });
    }
    return code;
}

static int ack_batch(cli *c, opened *q, const leat_queue_batch *b)
{
    size_t n = leat_queue_batch_count(b);
    leat_error err = { 0 };
    leat_bytes *receipts = grab(n * sizeof *receipts);
    for (size_t i = 0; i < n; i++)
        receipts[i] = leat_queue_batch_at(b, i)->receipt;
    leat_code got = leat_queue_ack_batch(q->queue, receipts, n, NULL, &err);
    free(receipts);
    return got == LEAT_OK ? 0 : queue_fail(c, q->client, c->args[0], &err);
}

/* A handle that waits gives back what expired.  Who only looks, and finds
 * nothing, does it here: nobody else may have the queue open. */
static leat_queue_batch *receive_now(opened *q, const leat_receive_opts *o,
                                     leat_error *err)
{
    int64_t back = 1;
    leat_queue_batch *b = leat_queue_receive(q->queue, o, err);
    while (b && leat_queue_batch_count(b) == 0 && back > 0) {
        leat_queue_batch_free(b);
        b = NULL;
        if (leat_queue_requeue_expired_once(q->queue, 0, &back, err) == LEAT_OK)
            b = leat_queue_receive(q->queue, o, err);
    }
    return b;
}

static leat_queue_batch *receive(cli *c, opened *q, leat_error *err)
{
    int64_t max = value_count(c, "count");
    leat_receive_opts o = { .max = max ? (int)max : 1,
                            .wait_ms = value_ms(c, "wait"),
                            .visibility_ms = value_ms(c, "visibility"),
                            .dead = value_on(c, "dead") };
    bell b = { 0 };
    if (o.wait_ms == 0)
        return receive_now(q, &o, err);
    bell_start(&b, q->queue);
    leat_queue_batch *got = leat_queue_receive(q->queue, &o, err);
    bell_end(&b);
    return got;
}

static int print_received(cli *c, opened *q, printer *p)
{
    leat_error err = { 0 };
    leat_queue_batch *b = receive(c, q, &err);
    if (!b)
        return queue_fail(c, q->client, c->args[0], &err);
    size_t n = leat_queue_batch_count(b);
    int code = print_batch(c, p, b);
    if (code == 0 && n > 0 && value_on(c, "ack"))
        code = ack_batch(c, q, b);
    leat_queue_batch_free(b);
    if (code == 0 && n == 0)
        code = stop_signal ? EXIT_SIGNAL + stop_signal : EXIT_NO;
    if (code == EXIT_NO)
        note("nothing to receive");
    else if (code == 0 && !value_on(c, "ack") && isatty(STDOUT_FILENO) == 1)
        hint("leat queue ack %s RECEIPT... when done; else it comes again",
             c->args[0]);
    return code;
}

/* ---- by a program ----------------------------------------------------- */

static working_state look(void *run)
{
    leat_run_stats s;
    leat_run_stats_get(run, &s);
    return (working_state){ s.received, s.in_flight > 0, s.failed };
}

static int run_programs(cli *c, opened *q)
{
    int code;
    working w;
    leat_error err = { 0 };
    if (!working_init(c, &w, value_count(c, "count"), &code))
        return code;
    int threads = (int)value_count(c, "concurrency");
    /* No more is taken than is worked on: others may wait for it. */
    leat_queue_source_opts so = { .batch = threads,
                                  .visibility_ms = value_ms(c, "visibility"),
                                  .dead = value_on(c, "dead") };
    leat_run_opts ro = { .threads = threads,
                         .max_in_flight = threads,
                         .batch = threads,
                         .log = report_logger() };
    leat_source *source = leat_queue_source(q->queue, &so, &err);
    leat_run *r = leat_run_start(source, working_handle, &w, &ro, &err);
    if (!r) {
        leat_source_close(source);
        return queue_fail(c, q->client, c->args[0], &err);
    }
    working_wait(&w, "wait", q->client, look, r);
    int64_t drain = value_ms(c, "drain");
    leat_code got = leat_run_stop(r, drain ? drain : 1, &err);
    return working_end(&w, got, &err);
}

/* ---- the words -------------------------------------------------------- */

static int check_words(cli *c, bool program)
{
    if (program &&
        (value_text(c, "format") || value_on(c, "raw") || value_on(c, "ack")))
        return fail(EXIT_USAGE, NULL,
                    "--format, --raw and --ack are for printing, without "
                    "--exec");
    if (value_count(c, "concurrency") > MAX_PROGRAMS)
        return fail(EXIT_USAGE, NULL, "--concurrency is at most %d",
                    MAX_PROGRAMS);
    if (!program && value_count(c, "count") > LEAT_QUEUE_BATCH)
        return fail(EXIT_USAGE, NULL, "--count is at most %d without --exec",
                    LEAT_QUEUE_BATCH);
    if (value_find(c, "max-receives")->origin == FROM_FLAG && !is_redowl(c))
        return fail(EXIT_USAGE, "leat queue alter --max-receives sets it",
                    "--max-receives: it is kept with the queue");
    return check_visibility(c);
}

static int print(cli *c, int (*fn)(cli *, opened *, printer *), print_kind what,
                 bool care)
{
    int code;
    opened q;
    printer *p = printer_open(c, what, &code);
    if (!p)
        return code;
    bool there = opened_open(c, &q, care, &code);
    if (there) {
        code = fn(c, &q, p);
        opened_close(c, &q);
    }
    int end = printer_close(p, code == 0 || (there && code == EXIT_NO));
    return code ? code : end;
}

int run_queue_receive(cli *c)
{
    bool program = program_get(c) != NULL;
    int code = check_words(c, program);
    opened q;
    if (code)
        return code;
    if (!program) /* who waits, waits for what expires, too */
        return print(c, print_received,
                     value_on(c, "ack") ? PRINT_SEEN : PRINT_RECEIVED,
                     value_ms(c, "wait") > 0);
    last_words = programs_kill;
    if (opened_open(c, &q, true, &code)) {
        code = run_programs(c, &q);
        opened_close(c, &q);
    }
    last_words = NULL;
    return code;
}

/* ---- peek ------------------------------------------------------------- */

static int print_seen(cli *c, opened *q, printer *p)
{
    leat_error err = { 0 };
    leat_queue_batch *b = leat_queue_peek(
        q->queue, (int)value_count(c, "count"), value_on(c, "dead"), &err);
    if (!b)
        return queue_fail(c, q->client, c->args[0], &err);
    int code = print_batch(c, p, b);
    leat_queue_batch_free(b);
    return code;
}

int run_queue_peek(cli *c)
{
    if (value_count(c, "count") > LEAT_QUEUE_BATCH)
        return fail(EXIT_USAGE, NULL, "--count is at most %d",
                    LEAT_QUEUE_BATCH);
    return print(c, print_seen, PRINT_SEEN, false);
}
