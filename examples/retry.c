/*
 * retry.c: orders that fail: tried again, given up, and replayed.
 *
 *   cc retry.c $(pkg-config --cflags --libs leat) -o retry
 *   ./retry redis://localhost        or: ./retry embedded:
 *
 * Of fifteen orders one fails twice before it succeeds, one fails as long as
 * there is a bug, and one is refused at once.  Later orders of a customer wait
 * while one of his is to be tried again; those of other customers do not.  What
 * was given up is a dead letter, and is replayed when the bug is fixed.
 */
#include <leat/leat.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { COUNT = 15, CUSTOMERS = 3, TRIES = 3, GIVE_UP_S = 30 };
enum { UNKNOWN_ITEM = 4, SLOW_BANK = 6, BUG = 7 };

struct shop {
    atomic_int handled;
    atomic_bool fixed;
};

/* Runs on the runner's threads. */
static leat_verdict handle(leat_ctx *x, void *arg)
{
    struct shop *shop = arg;
    leat_bytes body = leat_ctx_msg(x)->body;
    uint32_t attempt = leat_delivery_attempt(leat_ctx_delivery(x));
    char text[16] = "";
    if (body.n < sizeof text)
        memcpy(text, body.p, body.n);

    switch (strtol(text, NULL, 10)) {
    case UNKNOWN_ITEM:
        if (!shop->fixed)
            return leat_ctx_reject(x, "no such item");
        break;
    case SLOW_BANK:
        if (attempt < TRIES)
            return leat_ctx_fail(x, "the bank does not answer");
        break;
    case BUG:
        if (!shop->fixed)
            return leat_ctx_fail(x, "the address cannot be read");
        break;
    }
    shop->handled++;
    return LEAT_ACK;
}

static leat_code publish_all(leat_topic *topic, leat_error *err)
{
    leat_code rc = LEAT_OK;
    for (int i = 0; i < COUNT && rc == LEAT_OK; i++) {
        char key[32], body[16];
        snprintf(key, sizeof key, "customer-%d", i % CUSTOMERS);
        snprintf(body, sizeof body, "%d", i);
        leat_msg m = { .key = leat_str(key), .body = leat_str(body) };
        rc = leat_topic_publish(topic, &m, NULL, NULL, err);
    }
    return rc == LEAT_OK ? leat_topic_flush(topic, 10000, err) : rc;
}

/* Until so many are handled and so many are dead letters. */
static bool wait_for(struct shop *shop, leat_source *s, int handled,
                     uint64_t dead)
{
    leat_topic_source_stats now;
    time_t end = time(NULL) + GIVE_UP_S;
    do {
        struct timespec nap = { .tv_nsec = 5000000 };
        nanosleep(&nap, NULL);
        leat_topic_source_stats_get(s, &now);
        if (shop->handled >= handled && now.dead >= dead)
            break;
    } while (time(NULL) < end);
    printf("%d handled, %d retries, %d dead letters\n", shop->handled,
           (int)now.retries, (int)now.dead);
    return shop->handled == handled && now.dead == dead;
}

static leat_code replay(leat_client *c, leat_error *err)
{
    leat_dead x;
    leat_dlq_sum sum = { 0 };
    leat_dlq *d = leat_dlq_open(c, "example-retry", NULL, err);
    leat_dlq_walk *w = d ? leat_dlq_walk_open(d, NULL, err) : NULL;
    while (w && leat_dlq_walk_next(w, &x, err) == 1)
        printf("order %.*s, attempt %u: %.*s\n", (int)x.msg->body.n,
               (const char *)x.msg->body.p, x.attempts, (int)x.error.n,
               (const char *)x.error.p);
    leat_dlq_walk_close(w);
    leat_code rc = w ? leat_dlq_replay_all(d, NULL, NULL, &sum, err)
                     : err->code;
    leat_dlq_close(d);
    printf("%d replayed\n", (int)sum.done);
    return rc;
}

static leat_code work(leat_client *c, leat_topic *topic, leat_error *err)
{
    struct shop shop = { 0 };
    leat_topic_source_opts o = { .order = LEAT_ORDER_KEY,
                                 .retry = { .max_attempts = TRIES,
                                            .delay_ms = 20 } };
    leat_code rc = publish_all(topic, err);
    if (rc != LEAT_OK)
        return rc;
    leat_source *s = leat_topic_source(topic, "billing", &o, err);
    leat_run *run = leat_run_start(s, handle, &shop, NULL, err);
    if (!run) {
        leat_source_close(s);
        return err->code;
    }
    bool good = wait_for(&shop, s, COUNT - 2, 2);
    shop.fixed = true;
    rc = replay(c, err);
    good = rc == LEAT_OK && wait_for(&shop, s, COUNT, 2) && good;
    leat_code stopped = leat_run_stop(run, 0, rc == LEAT_OK ? err : NULL);
    if (rc == LEAT_OK)
        rc = stopped;
    if (rc == LEAT_OK && !good) {
        snprintf(err->msg, sizeof err->msg, "not as it should be");
        rc = LEAT_ETIMEOUT;
    }
    return rc;
}

int main(int argc, char **argv)
{
    leat_error err = { 0 };
    leat_topic_opts o = { .auto_create = true, .partitions = 2 };
    leat_client *c = leat_client_open(argc > 1 ? argv[1] : "embedded:", NULL,
                                      &err);
    leat_topic *topic = c ? leat_topic_open(c, "example-retry", &o, &err)
                          : NULL;
    leat_code rc = topic ? work(c, topic, &err) : err.code;
    leat_topic_close(topic);
    leat_client_close(c);
    if (rc != LEAT_OK)
        fprintf(stderr, "retry: %s\n", err.msg);
    return rc != LEAT_OK;
}
