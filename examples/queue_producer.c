/*
 * queue_producer.c: send ten messages to the queue "example-orders".
 *
 *   cc queue_producer.c $(pkg-config --cflags --libs leat) -o queue_producer
 *   ./queue_producer redis://localhost
 *
 * queue_consumer.c, in another process, works them off.
 */
#include <leat/leat.h>
#include <stdio.h>

enum { COUNT = 10 };

static leat_code send_all(leat_queue *q, leat_error *err)
{
    leat_code rc = LEAT_OK;
    for (int i = 0; rc == LEAT_OK && i < COUNT; i++) {
        char number[8];
        snprintf(number, sizeof number, "%d", i);
        leat_header h = { leat_str("i"), leat_str(number) };
        leat_msg m = { .body = leat_str("hello"),
                       .headers = &h,
                       .header_count = 1 };
        rc = leat_queue_send(q, &m, NULL, NULL, err);
    }
    return rc;
}

int main(int argc, char **argv)
{
    leat_error err = { 0 };
    leat_client *c = leat_client_open(argc > 1 ? argv[1] : "redis://localhost",
                                      NULL, &err);
    leat_queue *q = c ? leat_queue_open(c, "example-orders", NULL, &err) : NULL;
    leat_code rc = q ? send_all(q, &err) : err.code;
    leat_queue_close(q);
    leat_client_close(c);
    if (rc != LEAT_OK)
        fprintf(stderr, "queue_producer: %s\n", err.msg);
    else
        printf("%d sent\n", COUNT);
    return rc != LEAT_OK;
}
