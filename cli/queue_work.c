/*
 * queue_work.c: a program for each message of queues, for receive and pool, and
 * of a stream, which cmd_stream_consume.c tells about.
 *
 *   exit 0                  acknowledged
 *   exit 65                 a dead letter at once
 *   any other exit, killed,
 *   too long                given back, received again after --retry-delay or
 *                           when the queue's backoff says
 *   could not be started    given back, and the receive does not count
 */
#include "queue.h"

#include <stdlib.h>

enum { LOOK_MS = 20, IDLE_MS = 250 };

bool working_init(cli *c, working *w, int64_t limit, int *code)
{
    *w = (working){ .c = c,
                    .max_ms = value_ms(c, "max-time"),
                    .retry_ms = value_find(c, "retry-delay") &&
                                        value_text(c, "retry-delay")
                                    ? value_ms(c, "retry-delay")
                                    : -1,
                    .gate = GATE(limit) };
    w->program = program_get(c);
    *code = w->program ? program_check(w->program, "nothing was received") : 0;
    return *code == 0;
}

/* ---- verdicts --------------------------------------------------------- */

static void tell(const sighting *m, const leat_ctx *x, const char *what)
{
    char text[POSITION_TEXT];
    uint32_t attempt = leat_delivery_attempt(leat_ctx_delivery(x));
    if (m->stream) {
        note("message %s, attempt %u: %s", position_text(m->position, text),
             attempt, what);
        return;
    }
    note("queue %.*s, message %.*s, receive %u: %s", (int)m->queue.n,
         (const char *)m->queue.p, (int)m->msg->id.n,
         (const char *)m->msg->id.p, attempt, what);
}

/* Of a stream: this was the last attempt. */
static bool is_last(const working *w, uint32_t attempt)
{
    return w->retry.max_attempts > 0 &&
           attempt >= (uint32_t)w->retry.max_attempts;
}

static leat_verdict failed(working *w, leat_ctx *x, const sighting *m,
                           const ran *r)
{
    char *reason = ran_reason(r);
    uint32_t attempt = leat_delivery_attempt(leat_ctx_delivery(x));
    bool never = (r->how == RAN_EXITED && r->status == EXIT_DATA) ||
                 is_last(w, attempt);
    leat_verdict v;
    tell(m, x, reason);
    if (never && w->stream)
        tell(m, x, "given up: this group does not see it again");
    if (never) {
        w->rejected++;
        v = leat_ctx_reject(x, reason);
    } else {
        w->back++;
        v = leat_ctx_fail(x, reason);
        if (w->stream)
            v = leat_ctx_nack(x, retry_delay(&w->retry, attempt));
        else if (w->retry_ms >= 0)
            v = leat_ctx_nack(x, w->retry_ms); /* the reason stays */
    }
    free(reason);
    return v;
}

/* That is not the message's fault, and the next would fare no better. */
static leat_verdict not_started(working *w, leat_ctx *x, const sighting *m,
                                const ran *r)
{
    char *what = format("%s: %s: given back", w->program[0],
                        strerror(r->status));
    tell(m, x, what);
    free(what);
    gate_pause(&w->gate, NOT_STARTED_MS);
    return LEAT_RELEASE;
}

static leat_verdict run_program(working *w, leat_ctx *x, const sighting *m)
{
    ran r = program_run(w->program, m, w->max_ms, x);
    if (r.how == RAN_NOT)
        return not_started(w, x, m, &r);
    if (r.how == RAN_EXITED && r.status == 0) {
        w->acked++;
        return LEAT_ACK;
    }
    if (r.how == RAN_CANCELLED) {
        tell(m, x, "no longer ours: its program was ended");
        w->back++;
        return leat_ctx_nack(x, 0); /* no reason to wait */
    }
    return failed(w, x, m, &r);
}

/* Printed before it is acknowledged; what did not arrive is not. */
static leat_verdict print(working *w, const sighting *m)
{
    pthread_mutex_lock(&w->gate.lock);
    int code = w->trouble ? w->trouble : printer_put(w->printer, m);
    w->trouble = code;
    w->gate.shut = code != 0;
    pthread_mutex_unlock(&w->gate.lock);
    if (code)
        return LEAT_RELEASE;
    w->acked++;
    return LEAT_ACK;
}

static sighting seen(const working *w, const leat_ctx *x)
{
    const leat_delivery *d = leat_ctx_delivery(x);
    if (w->stream)
        return (sighting){ .topic = w->stream,
                           .stream = true,
                           .partition = -1,
                           .position = leat_delivery_position(d),
                           .msg = leat_ctx_msg(x) };
    return (sighting){ .queue = leat_delivery_from(d), .msg = leat_ctx_msg(x) };
}

leat_verdict working_handle(leat_ctx *x, void *arg)
{
    working *w = arg;
    sighting m = seen(w, x);
    if (!gate_enter(&w->gate, NULL))
        return LEAT_RELEASE;
    leat_verdict v = w->printer ? print(w, &m) : run_program(w, x, &m);
    bool again = v == LEAT_RELEASE || (w->stream && v == LEAT_NACK);
    gate_leave(&w->gate, !again);
    return v;
}

/* ---- the end ---------------------------------------------------------- */

/* Whether it is over.  A server that is away has nothing either, but that is no
 * lack of work. */
static bool is_over(working *w, const char *word, leat_client *client,
                    const working_state *now, int64_t since)
{
    double ms;
    int64_t idle = value_ms(w->c, word);
    if (stop_signal || gate_reached(&w->gate) || now->failed)
        return true;
    if (idle < IDLE_MS)
        idle = IDLE_MS; /* it must have looked once */
    if (!value_text(w->c, word) || now_ns() - since <= idle * 1000000)
        return false;
    (void)!ping_once(client, &ms, &w->away);
    return true;
}

void working_wait(working *w, const char *word, leat_client *client,
                  working_state (*look)(void *arg), void *arg)
{
    int64_t since = now_ns();
    uint64_t before = 0;
    for (;;) {
        working_state now = look(arg);
        if (now.received != before || now.busy)
            since = now_ns();
        before = now.received;
        if (is_over(w, word, client, &now, since))
            break;
        sleep_ms(LOOK_MS);
    }
    gate_stop(&w->gate);
}

static const column columns[] = {
    { "handled", COLUMN_COUNT, false },
    { "acked", COLUMN_COUNT, false },
    { "given_back", COLUMN_COUNT, false },
    { "rejected", COLUMN_COUNT, false },
};

static int show_counts(working *w)
{
    int code;
    long long acked = w->acked, back = w->back, rejected = w->rejected;
    if (w->printer || !wants_record(w->c)) {
        note("%lld handled: %lld acknowledged, %lld given back, %lld rejected",
             acked + back + rejected, acked, back, rejected);
        return 0;
    }
    output *out = output_open(w->c, columns, 4, true, &code);
    if (!out)
        return code;
    output_number(out, acked + back + rejected);
    output_number(out, acked);
    output_number(out, back);
    output_number(out, rejected);
    return output_close(out);
}

int working_end(working *w, leat_code code, const leat_error *err)
{
    const char *noun = w->stream ? "stream" : "queue";
    int shown = w->trouble ? w->trouble : show_counts(w);
    if (w->trouble)
        return w->trouble;
    if (code == LEAT_ETIMEOUT)
        return fail(EXIT_TRY_AGAIN,
                    "their messages are received again; --drain gives more "
                    "time",
                    "some programs did not end within %s and were killed, or "
                    "the server did not hear of them",
                    value_text(w->c, "drain"));
    if (key_is_foreign(err))
        return fail(EXIT_DATA, "nothing was lost", "%s", err->msg);
    if (code == LEAT_OK && w->away.code != LEAT_OK)
        return fail_with(noun, &w->away, NULL);
    return code == LEAT_OK ? shown : fail_with(noun, err, NULL);
}
