/*
 * queue_consumer.c: work off the queue "example-orders", for ever or so many.
 *
 *   cc queue_consumer.c $(pkg-config --cflags --libs leat) -o queue_consumer
 *   ./queue_consumer redis://localhost [COUNT]
 *
 * A receive waits up to five seconds without asking again and again.  Any
 * number of consumers share a queue; what one that dies had received comes back
 * after 30 seconds.
 */
#include <leat/leat.h>
#include <stdio.h>
#include <stdlib.h>

static leat_code handle(leat_queue *q, const leat_queue_item *it,
                        leat_error *err)
{
    leat_bytes i = leat_msg_header(&it->msg, "i");
    printf("got: %.*s %.*s, receive %u\n", (int)it->msg.body.n,
           (const char *)it->msg.body.p, (int)i.n, (const char *)i.p,
           it->receives);
    fflush(stdout);
    leat_code rc = leat_queue_ack(q, it->receipt, err);
    /* We were too slow: it is somebody else's now. */
    return rc == LEAT_ESTALE ? LEAT_OK : rc;
}

static leat_code consume(leat_queue *q, long count, leat_error *err)
{
    leat_receive_opts o = { .wait_ms = 5000 };
    leat_code rc = LEAT_OK;
    for (long done = 0; rc == LEAT_OK && (count == 0 || done < count);) {
        leat_queue_batch *b = leat_queue_receive(q, &o, err);
        if (!b)
            return err->code;
        if (leat_queue_batch_count(b) > 0) {
            rc = handle(q, leat_queue_batch_at(b, 0), err);
            done++;
        }
        leat_queue_batch_free(b);
    }
    return rc;
}

int main(int argc, char **argv)
{
    leat_error err = { 0 };
    long count = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    leat_client *c = leat_client_open(argc > 1 ? argv[1] : "redis://localhost",
                                      NULL, &err);
    leat_queue *q = c ? leat_queue_open(c, "example-orders", NULL, &err) : NULL;
    leat_code rc = q ? consume(q, count, &err) : err.code;
    leat_queue_close(q);
    leat_client_close(c);
    if (rc != LEAT_OK)
        fprintf(stderr, "queue_consumer: %s\n", err.msg);
    return rc != LEAT_OK;
}
