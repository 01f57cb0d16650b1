/*
 * produce.c: publish ten thousand orders to a topic of four partitions.
 *
 *   cc produce.c $(pkg-config --cflags --libs leat) -o produce
 *   ./produce redis://localhost        or: ./produce embedded:
 *
 * Orders of one customer keep their order.  Publishing does not wait for the
 * server; each message is told how it ended: persisted, certainly not, or
 * unknown.
 */
#include <leat/leat.h>
#include <stdio.h>

enum { COUNT = 10000, CUSTOMERS = 100 };

struct tally {
    int persisted, failed, unknown;
};

/* Runs on a thread of the topic's, one call at a time. */
static void on_published(void *arg, const leat_position *at,
                         const leat_error *err)
{
    struct tally *t = arg;
    (void)at;
    if (!err)
        t->persisted++;
    else if (err->code == LEAT_EUNKNOWN)
        t->unknown++;
    else
        t->failed++;
}

static leat_code publish_all(leat_topic *topic, struct tally *t,
                             leat_error *err)
{
    leat_code rc = LEAT_OK;
    for (int i = 0; i < COUNT && rc == LEAT_OK; i++) {
        char key[32], body[64];
        snprintf(key, sizeof key, "customer-%d", i % CUSTOMERS);
        snprintf(body, sizeof body, "{\"order\":%d}", i);
        leat_msg m = { .key = leat_str(key),
                       .type = leat_str("order.placed"),
                       .body = leat_str(body) };
        rc = leat_topic_publish(topic, &m, on_published, t, err);
    }
    return rc == LEAT_OK ? leat_topic_flush(topic, 10000, err) : rc;
}

int main(int argc, char **argv)
{
    leat_error err;
    struct tally t = { 0 };
    leat_topic_opts o = { .auto_create = true, .partitions = 4 };
    leat_client *c = leat_client_open(argc > 1 ? argv[1] : "embedded:", NULL,
                                      &err);
    leat_topic *topic = c ? leat_topic_open(c, "example-produce", &o, &err)
                          : NULL;
    leat_code rc = topic ? publish_all(topic, &t, &err) : err.code;
    leat_topic_close(topic);
    leat_client_close(c);
    if (rc != LEAT_OK) {
        fprintf(stderr, "produce: %s\n", err.msg);
        return 1;
    }
    printf("%d persisted, %d failed, %d unknown\n", t.persisted, t.failed,
           t.unknown);
    return 0;
}
