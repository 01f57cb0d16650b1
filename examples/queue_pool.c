/*
 * queue_pool.c: ten workers for a thousand queues.
 *
 *   cc queue_pool.c $(pkg-config --cflags --libs leat) -o queue_pool
 *   ./queue_pool redis://localhost        or: ./queue_pool embedded:
 *
 * Half of the queues have their message before the pool starts, half are made
 * while it runs: it finds both, and needs no thread for a queue that is empty.
 */
#include <leat/leat.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { QUEUES = 1000, WORKERS = 10, GIVE_UP_S = 50 };

/* Runs on the pool's threads. */
static leat_verdict handle(leat_ctx *x, void *arg)
{
    atomic_int *handled = arg;
    leat_bytes queue = leat_delivery_from(leat_ctx_delivery(x));
    leat_bytes body = leat_ctx_msg(x)->body;
    /* Each queue's message says whose it is. */
    if (!leat_bytes_eq(queue, body))
        return leat_ctx_reject(x, "of another queue");
    ++*handled;
    return LEAT_ACK;
}

static leat_code send_to(leat_client *c, const char *name, leat_error *err)
{
    leat_queue_opts o = { .prefix = "example-pool", .no_reaper = true };
    leat_queue *q = leat_queue_open(c, name, &o, err);
    if (!q)
        return err->code;
    leat_code rc = leat_queue_send(q, &(leat_msg){ .body = leat_str(name) },
                                   NULL, NULL, err);
    leat_queue_close(q);
    return rc;
}

static leat_code send_some(leat_client *c, int from, int to, leat_error *err)
{
    leat_code rc = LEAT_OK;
    for (int i = from; rc == LEAT_OK && i < to; i++) {
        char name[32];
        snprintf(name, sizeof name, "queue_%d", i);
        rc = send_to(c, name, err);
    }
    return rc;
}

static void wait_for(atomic_int *handled, int count)
{
    time_t end = time(NULL) + GIVE_UP_S;
    while (*handled < count && time(NULL) < end)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

int main(int argc, char **argv)
{
    leat_error err = { 0 };
    atomic_int handled = 0;
    leat_pool *pool = NULL;
    leat_pool_stats s = { 0 };
    leat_client *c = leat_client_open(argc > 1 ? argv[1] : "embedded:", NULL,
                                      &err);
    leat_code rc = c ? send_some(c, 0, QUEUES / 2, &err) : err.code;
    if (rc == LEAT_OK)
        pool = leat_pool_start(
            c, handle, &handled,
            &(leat_pool_opts){ .prefix = "example-pool", .workers = WORKERS },
            &err);
    if (pool) {
        rc = send_some(c, QUEUES / 2, QUEUES, &err);
        wait_for(&handled, QUEUES);
        leat_pool_stats_get(pool, &s);
        leat_code stopped = leat_pool_stop(pool, 0,
                                           rc == LEAT_OK ? &err : NULL);
        rc = rc == LEAT_OK ? stopped : rc;
    } else {
        rc = err.code;
    }
    leat_client_close(c);
    if (rc != LEAT_OK) {
        fprintf(stderr, "queue_pool: %s\n", err.msg);
        return 1;
    }
    printf("%d messages of %d queues by at most %d workers\n", handled,
           (int)s.queues, WORKERS);
    return handled != QUEUES || s.threads > WORKERS;
}
