/*
 * queue_wake.c: from before a send to after the receive that waited for it.
 *
 * Beside a list and BLPOP, which the server answers by itself, and beside what
 * is done here: a hint by publish/subscribe, then a call that looks.
 */
#include "queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WAKES = 200 };

/* For a waiter to fall asleep, and for it to be woken. */
static const int64_t patience_ns = INT64_C(10) * 1000000000;

typedef enum how { WAIT_OURS, WAIT_LIST, WAIT_HINT } how;

typedef struct wake {
    const work *w;
    ours *mine;
    how how;
    _Atomic int64_t got_ns;
    atomic_int tid;      /* the waiter's                            */
    atomic_bool waiting; /* it is inside the call that is to be woken */
    atomic_bool stop;
} wake;

static void wait_ours(wake *k)
{
    k->waiting = true;
    leat_queue_batch *b = leat_queue_receive(
        k->mine->q, &(leat_receive_opts){ .max = 1, .wait_ms = 200 }, NULL);
    int64_t now = bench_now_ns();
    k->waiting = false;
    if (b && leat_queue_batch_count(b) == 1) {
        leat_bytes r = leat_queue_batch_at(b, 0)->receipt;
        if (leat_queue_ack(k->mine->q, r, NULL) == LEAT_OK)
            k->got_ns = now;
    }
    leat_queue_batch_free(b);
}

static void wait_list(wake *k, redisContext *c)
{
    k->waiting = true;
    redisReply *r = redisCommand(c, "BLPOP raw:list 1");
    int64_t now = bench_now_ns();
    k->waiting = false;
    if (r && r->elements == 2)
        k->got_ns = now;
    freeReplyObject(r);
}

/* side: a second connection, to look. */
static void wait_hint(wake *k, redisContext *c, redisContext *side)
{
    redisReply *r = NULL;
    k->waiting = true;
    int got = redisGetReply(c, (void **)&r);
    k->waiting = false;
    if (got != REDIS_OK)
        return;
    freeReplyObject(r);
    r = redisCommand(side, "LPOP raw:list");
    if (r && r->type == REDIS_REPLY_STRING)
        k->got_ns = bench_now_ns();
    freeReplyObject(r);
}

static redisContext *dial(const wake *k)
{
    redisContext *c = redisConnectUnix(k->w->socket);
    if (c && k->how == WAIT_HINT)
        freeReplyObject(redisCommand(c, "SUBSCRIBE raw:hint"));
    return c;
}

static void *waiter(void *arg)
{
    wake *k = arg;
    redisContext *c = k->how == WAIT_OURS ? NULL : dial(k);
    redisContext *side = k->how == WAIT_HINT ? redisConnectUnix(k->w->socket)
                                             : NULL;
    k->tid = gettid();
    while (!k->stop) {
        if (k->how == WAIT_OURS)
            wait_ours(k);
        else if (k->how == WAIT_LIST)
            wait_list(k, c);
        else
            wait_hint(k, c, side);
    }
    if (c)
        redisFree(c);
    if (side)
        redisFree(side);
    return NULL;
}

static void send_one(const wake *k, redisContext *c)
{
    if (k->how == WAIT_OURS)
        (void)ours_send(k->mine, 1, 1);
    else
        freeReplyObject(redisCommand(c, "RPUSH raw:list x"));
    if (k->how == WAIT_HINT)
        freeReplyObject(redisCommand(c, "PUBLISH raw:hint x"));
}

/* The system call that the waiter sleeps in; -1: it runs. */
static long sleeps_in(const wake *k)
{
    char path[64], text[64] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", k->tid);
    FILE *f = fopen(path, "re");
    if (!f)
        return -1;
    bool told = fgets(text, sizeof text, f) != NULL;
    (void)fclose(f);
    return told && strncmp(text, "running", 7) != 0 ? strtol(text, NULL, 10)
                                                    : -1;
}

static bool server_has_blocked(redisContext *c)
{
    redisReply *r = redisCommand(c, "INFO clients");
    bool has = r && r->str && strstr(r->str, "blocked_clients:1\r");
    freeReplyObject(r);
    return has;
}

/* Ours waits for a condition, once it has looked and found nothing; the others
 * for a connection, in which a BLPOP is under way as soon as the server says
 * so. */
static bool asleep(const wake *k, redisContext *c)
{
    if (!k->waiting)
        return false;
    long in = sleeps_in(k);
    if (k->how == WAIT_OURS)
        return in == SYS_futex;
    return (in == SYS_recvfrom || in == SYS_read) &&
           (k->how != WAIT_LIST || server_has_blocked(c));
}

static bool await_sleep(const wake *k, redisContext *c)
{
    int64_t end = bench_now_ns() + patience_ns;
    while (!asleep(k, c)) {
        if (bench_now_ns() > end) {
            fprintf(stderr, "queue_wake: the waiter does not fall asleep\n");
            return false;
        }
        usleep(100);
    }
    return true;
}

/* Negative: it was not woken. */
static double once(wake *k, redisContext *c)
{
    k->got_ns = 0;
    if (!await_sleep(k, c))
        return -1;
    int64_t start = bench_now_ns();
    send_one(k, c);
    while (!k->got_ns && bench_now_ns() - start < patience_ns)
        usleep(20);
    return k->got_ns ? (double)(k->got_ns - start) / 1e3 : -1;
}

static double wake_us(wake *k)
{
    double us[WAKES];
    pthread_t t;
    redisContext *c = redisConnectUnix(k->w->socket);
    bool ok = true;
    k->waiting = k->stop = false;
    if (!c || pthread_create(&t, NULL, waiter, k) != 0)
        return -1;
    for (int i = 0; i < WAKES && ok; i++) {
        us[i] = once(k, c);
        ok = us[i] >= 0;
    }
    k->stop = true;
    if (k->how == WAIT_HINT) /* so that it looks */
        freeReplyObject(redisCommand(c, "PUBLISH raw:hint x"));
    pthread_join(t, NULL);
    freeReplyObject(redisCommand(c, "DEL raw:list"));
    redisFree(c);
    return ok ? bench_median(us, WAKES) : -1;
}

typedef struct wakes {
    wake mine, raw;
} wakes;

static double ours_us(void *arg)
{
    return wake_us(&((wakes *)arg)->mine);
}

static double raw_us(void *arg)
{
    return wake_us(&((wakes *)arg)->raw);
}

bool queue_wake(work *w)
{
    static const struct {
        const char *name;
        how how;
    } beside[] = { { "queue.wake.blpop", WAIT_LIST },
                   { "queue.wake.pubsub", WAIT_HINT } };
    ours mine = { 0 };
    bool ok = ours_open(&mine, w);
    for (size_t i = 0; ok && i < 2; i++) {
        wakes both = { .mine = { .w = w, .mine = &mine, .how = WAIT_OURS },
                       .raw = { .w = w, .how = beside[i].how } };
        if (bench_wants(beside[i].name))
            ok = bench_run(&(bench_pair){ .name = beside[i].name,
                                          .unit = "us",
                                          .ours = ours_us,
                                          .raw = raw_us,
                                          .arg = &both,
                                          .rounds = 5,
                                          .less = true });
    }
    ours_close(&mine);
    return ok;
}
