/*
 * queue_rooms.c: a hundred game rooms, and what happened in each.
 *
 *   cc queue_rooms.c $(pkg-config --cflags --libs leat) -o queue_rooms
 *   ./queue_rooms redis://localhost        or: ./queue_rooms embedded:
 *
 * Each room is a queue.  Players join, play and leave, in that order, whatever
 * the other rooms do.
 */
#include <leat/leat.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROOMS = 100, STEPS = 3, GIVE_UP_S = 50, MOVE_MS = 1 };

static const char *const steps[STEPS] = { "joined", "played", "left" };

struct house {
    int next[ROOMS]; /* the step that each room waits for: its alone */
    atomic_int handled, wrong;
};

/* Runs on the pool's threads, but for one room on one at a time. */
static leat_verdict handle(leat_ctx *x, void *arg)
{
    struct house *h = arg;
    leat_bytes name = leat_delivery_from(leat_ctx_delivery(x));
    leat_bytes body = leat_ctx_msg(x)->body;
    char text[32] = "";
    memcpy(text, name.p, name.n < sizeof text ? name.n : sizeof text - 1);
    int room = (int)strtol(text + strlen("room_"), NULL, 10);
    int step = h->next[room]++;
    if (step >= STEPS || !leat_bytes_eq(body, leat_str(steps[step])))
        h->wrong++;
    nanosleep(&(struct timespec){ .tv_nsec = MOVE_MS * 1000000 }, NULL);
    h->handled++;
    return LEAT_ACK;
}

static leat_code open_room(leat_client *c, int i, leat_error *err)
{
    char name[32];
    snprintf(name, sizeof name, "room_%d", i);
    leat_queue_opts o = { .prefix = "example-rooms", .no_reaper = true };
    leat_queue *q = leat_queue_open(c, name, &o, err);
    leat_code rc = q ? LEAT_OK : err->code;
    for (int k = 0; rc == LEAT_OK && k < STEPS; k++)
        rc = leat_queue_send(q, &(leat_msg){ .body = leat_str(steps[k]) }, NULL,
                             NULL, err);
    leat_queue_close(q);
    return rc;
}

static void add_up(void *arg, const leat_pool_queue *room)
{
    uint64_t *all = arg;
    *all += room->acked;
    if (leat_bytes_eq(room->name, leat_str("room_7")))
        printf("room_7: %d received, %d acknowledged\n", (int)room->received,
               (int)room->acked);
}

static leat_code play(leat_client *c, struct house *h, leat_error *err)
{
    uint64_t acked = 0;
    leat_pool_stats s = { 0 };
    leat_pool *pool = leat_pool_start(
        c, handle, h, &(leat_pool_opts){ .prefix = "example-rooms" }, err);
    leat_code rc = pool ? LEAT_OK : err->code;
    for (int i = 0; rc == LEAT_OK && i < ROOMS; i++)
        rc = open_room(c, i, err);
    time_t end = time(NULL) + GIVE_UP_S;
    while (rc == LEAT_OK && s.acked < ROOMS * STEPS && time(NULL) < end) {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        leat_pool_stats_get(pool, &s);
    }
    if (pool) {
        leat_pool_each(pool, add_up, &acked);
        leat_code stopped = leat_pool_stop(pool, 0, rc == LEAT_OK ? err : NULL);
        rc = rc == LEAT_OK ? stopped : rc;
    }
    printf("%d messages of %d rooms, %d out of order\n", (int)acked,
           (int)s.queues, h->wrong);
    return rc;
}

int main(int argc, char **argv)
{
    leat_error err = { 0 };
    struct house h = { 0 };
    leat_client *c = leat_client_open(argc > 1 ? argv[1] : "embedded:", NULL,
                                      &err);
    leat_code rc = c ? play(c, &h, &err) : err.code;
    leat_client_close(c);
    if (rc != LEAT_OK)
        fprintf(stderr, "queue_rooms: %s\n", err.msg);
    return rc != LEAT_OK || h.handled != ROOMS * STEPS || h.wrong > 0;
}
