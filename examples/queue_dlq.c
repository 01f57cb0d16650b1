/*
 * queue_dlq.c: a payment that cannot be handled, and a second chance for it.
 *
 *   cc queue_dlq.c $(pkg-config --cflags --libs leat) -o queue_dlq
 *   ./queue_dlq redis://localhost        or: ./queue_dlq embedded:
 *
 * A payment that was received twice and not acknowledged becomes a dead letter;
 * the others go on.  It is looked at, the bug is fixed, and it is sent back to
 * the queue with its receives counted anew.
 */
#include <leat/leat.h>
#include <stdbool.h>
#include <stdio.h>

enum { PAYMENTS = 5, BAD = 3, RECEIVES = 2 };

static leat_code send_all(leat_queue *q, leat_error *err)
{
    leat_code rc = LEAT_OK;
    for (int i = 1; rc == LEAT_OK && i <= PAYMENTS; i++) {
        char body[8];
        snprintf(body, sizeof body, "%d", i);
        rc = leat_queue_send(q, &(leat_msg){ .body = leat_str(body) }, NULL,
                             NULL, err);
    }
    return rc;
}

static bool can_handle(const leat_msg *m, bool fixed)
{
    return fixed || *(const char *)m->body.p != '0' + BAD;
}

/* What fails is given back at once. */
static leat_code handle(leat_queue *q, const leat_queue_item *it, bool fixed,
                        leat_error *err)
{
    bool good = can_handle(&it->msg, fixed);
    printf("payment %.*s, receive %u: %s\n", (int)it->msg.body.n,
           (const char *)it->msg.body.p, it->receives, good ? "done" : "fails");
    return good ? leat_queue_ack(q, it->receipt, err)
                : leat_queue_change_visibility(q, it->receipt, 0, err);
}

/* Until nothing is left. */
static leat_code work(leat_queue *q, bool fixed, leat_error *err)
{
    for (;;) {
        leat_queue_batch *b = leat_queue_receive(q, NULL, err);
        const leat_queue_item *it = b ? leat_queue_batch_at(b, 0) : NULL;
        leat_code rc = !b ? err->code : LEAT_OK;
        if (it)
            rc = handle(q, it, fixed, err);
        leat_queue_batch_free(b);
        if (!it || rc != LEAT_OK)
            return rc;
    }
}

/* A dead letter that is received is hidden as others are: given back, it stays
 * one. */
static leat_code look(leat_queue *q, leat_error *err)
{
    leat_receive_opts o = { .dead = true };
    leat_queue_batch *b = leat_queue_receive(q, &o, err);
    const leat_queue_item *it = b ? leat_queue_batch_at(b, 0) : NULL;
    leat_code rc = !b ? err->code : LEAT_OK;
    if (it) {
        printf("dead letter: payment %.*s\n", (int)it->msg.body.n,
               (const char *)it->msg.body.p);
        rc = leat_queue_change_visibility(q, it->receipt, 0, err);
    }
    leat_queue_batch_free(b);
    return rc;
}

static leat_code redrive(leat_queue *q, leat_error *err)
{
    int64_t moved;
    leat_code rc = leat_queue_redrive(q, &(leat_redrive_opts){ .max = 100 },
                                      &moved, err);
    if (rc == LEAT_OK)
        printf("%lld redriven\n", (long long)moved);
    return rc;
}

static leat_code show(leat_queue *q, leat_error *err)
{
    leat_code rc = send_all(q, err);
    if (rc == LEAT_OK)
        rc = work(q, false, err);
    if (rc == LEAT_OK)
        rc = look(q, err);
    if (rc == LEAT_OK)
        rc = redrive(q, err);
    return rc == LEAT_OK ? work(q, true, err) : rc;
}

int main(int argc, char **argv)
{
    leat_error err = { 0 };
    leat_queue_opts o = { .max_receives = RECEIVES };
    leat_client *c = leat_client_open(argc > 1 ? argv[1] : "embedded:", NULL,
                                      &err);
    leat_queue *q = c ? leat_queue_open(c, "example-payments", &o, &err) : NULL;
    leat_code rc = q ? show(q, &err) : err.code;
    leat_queue_close(q);
    leat_client_close(c);
    if (rc != LEAT_OK)
        fprintf(stderr, "queue_dlq: %s\n", err.msg);
    return rc != LEAT_OK;
}
