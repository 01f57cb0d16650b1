/*
 * queue_minimal.c: send, receive and acknowledge, and hear of each step.
 *
 *   cc queue_minimal.c $(pkg-config --cflags --libs leat) -o queue_minimal
 *   ./queue_minimal redis://localhost        or: ./queue_minimal embedded:
 *
 * The queue hides a received message for five seconds and gives it back if it
 * was not acknowledged by then; after three receives it is a dead letter.
 */
#include <leat/leat.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { EVENTS = 3, GIVE_UP_S = 10 };

/* Runs on the watch's thread. */
static void on_event(void *arg, const leat_queue_event *e, bool missed)
{
    atomic_int *heard = arg;
    (void)missed;
    printf("event: %s %.*s\n", e->type, (int)e->message_id.n,
           (const char *)e->message_id.p);
    ++*heard;
}

static leat_code send_hello(leat_queue *q, leat_error *err)
{
    leat_header trace = { leat_str("trace_id"), leat_str("t-1") };
    leat_msg m = { .body = leat_str("hello"),
                   .headers = &trace,
                   .header_count = 1 };
    return leat_queue_send(q, &m, NULL, NULL, err);
}

static leat_code receive_and_ack(leat_queue *q, leat_error *err)
{
    leat_queue_batch *b = leat_queue_receive(q, NULL, err);
    if (!b)
        return err->code;
    leat_code rc = LEAT_OK;
    const leat_queue_item *it = leat_queue_batch_at(b, 0);
    if (it) {
        leat_bytes trace = leat_msg_header(&it->msg, "trace_id");
        printf("received: %.*s, receive %u, trace_id %.*s\n",
               (int)it->msg.body.n, (const char *)it->msg.body.p, it->receives,
               (int)trace.n, (const char *)trace.p);
        rc = leat_queue_ack(q, it->receipt, err);
    }
    leat_queue_batch_free(b);
    return rc;
}

/* Events come after what they tell of. */
static void wait_for_events(atomic_int *heard)
{
    time_t end = time(NULL) + GIVE_UP_S;
    while (*heard < EVENTS && time(NULL) < end)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

int main(int argc, char **argv)
{
    leat_error err = { 0 };
    atomic_int heard = 0;
    leat_queue_watch *watch = NULL;
    leat_client *c = leat_client_open(argc > 1 ? argv[1] : "embedded:", NULL,
                                      &err);
    leat_queue_opts o = { .visibility_ms = 5000, .max_receives = 3 };
    leat_queue *q = c ? leat_queue_open(c, "example-greetings", &o, &err)
                      : NULL;
    if (q)
        watch = leat_queue_watch_open(c, "example-greetings", NULL, false,
                                      on_event, &heard, &err);
    leat_code rc = watch ? send_hello(q, &err) : err.code;
    if (rc == LEAT_OK)
        rc = receive_and_ack(q, &err);
    if (rc == LEAT_OK)
        wait_for_events(&heard);
    leat_queue_watch_close(watch);
    leat_queue_close(q);
    leat_client_close(c);
    if (rc != LEAT_OK)
        fprintf(stderr, "queue_minimal: %s\n", err.msg);
    return rc != LEAT_OK;
}
