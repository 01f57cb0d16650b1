/*
 * queue_instructions.c: what a message costs, counted by callgrind.
 *
 * The client's side: this program runs itself with --work.  The server's: it
 * runs under callgrind (server.h); at 10 a call within 1.1 of what the lean
 * scripts cost when the targets were made (G6), and 0.6 of the usual ones (G7).
 * "alone" is the same with nothing else in flight.
 */
#include "queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAN_ONCE = 62900, CLIENT = 3000 };

/* ---- the client's side ------------------------------------------------ */

/* "send.10": its socket comes by the environment. */
int queue_work_main(const char *what, int n)
{
    work w = { .socket = getenv("BENCH_SOCKET") };
    ours o = { 0 };
    const char *dot = strchr(what, '.');
    if (!w.socket || !dot)
        return 64;
    int batch = (int)strtol(dot + 1, NULL, 10);
    snprintf(w.url, sizeof w.url, "unix://%s", w.socket);
    bool ok = ours_open(&o, &w) &&
              (strncmp(what, "send", 4) == 0 ? ours_send(&o, batch, n)
                                             : ours_take(&o, batch, n));
    ours_close(&o);
    return ok ? 0 : 1;
}

static void client_side(work *w)
{
    static const char *const works[] = { "send.1",     "send.10",
                                         "send.100",   "receive.1",
                                         "receive.10", "receive.100" };
    setenv("BENCH_SOCKET", w->socket, 1);
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        char name[64];
        ours o = { 0 };
        snprintf(name, sizeof name, "queue.instructions.client.%s", works[i]);
        if (!bench_wants(name))
            continue;
        redis_flush(w->server);
        if (*works[i] == 'r' && ours_open(&o, w))
            (void)ours_send(&o, MOST, 4 * CLIENT);
        ours_close(&o);
        bench_figure(name, BODY, "instructions/msg",
                     bench_instructions(w->argv0, works[i], CLIENT));
    }
}

/* ---- the server's side ------------------------------------------------ */

typedef struct cycle {
    int batch, held;
    bool mine;
    shape shape;
} cycle;

/* Send n, then receive and acknowledge them. */
static bool one_cycle(redis_server *s, void *arg, int n)
{
    const cycle *y = arg;
    work w = { 0 };
    ours o = { 0 };
    other them = { 0 };
    bool ok;
    work_on(&w, s);
    if (y->mine) {
        ok = ours_open(&o, &w) && ours_hold(&o, y->held) &&
             ours_send(&o, y->batch, n) && ours_take(&o, y->batch, n);
        ours_close(&o);
    } else {
        ok = other_open(&them, &w, y->shape) && other_hold(&them, y->held) &&
             other_send(&them, y->batch, n) && other_take(&them, y->batch, n);
        other_close(&them);
    }
    return ok;
}

static double cost(int batch, int held, bool mine, shape s)
{
    cycle y = { batch, held, mine, s };
    return server_instructions(one_cycle, &y, batch == 1 ? 1000 : 4000);
}

static bool server_side(int batch)
{
    char name[48];
    bool ten = batch == 10, ok;
    snprintf(name, sizeof name, "queue.instructions.server.%d", batch);
    if (!bench_wants(name))
        return true;
    double mine = cost(batch, HELD, true, LEAN);
    ok = bench_count(name, "instructions/msg", mine, "raw",
                     cost(batch, HELD, false, LEAN),
                     ten ? 1.10 * LEAN_ONCE : 1e9);
    if (!ten)
        return ok;
    double usual = cost(batch, HELD, false, USUAL);
    return ok & bench_count("queue.instructions.usual", "instructions/msg",
                            mine, "usual", usual, 0.60 * usual);
}

static void alone(void)
{
    static const struct {
        const char *name;
        bool mine;
        shape shape;
    } all[] = { { "queue.instructions.alone.ours", true, LEAN },
                { "queue.instructions.alone.lean", false, LEAN },
                { "queue.instructions.alone.usual", false, USUAL } };
    for (size_t i = 0; i < 3; i++)
        if (bench_wants(all[i].name))
            bench_figure(all[i].name, BODY, "instructions/msg",
                         cost(10, 0, all[i].mine, all[i].shape));
}

bool queue_instructions(work *w)
{
    static const int batches[] = { 10, 1, 100 };
    bool ok = true;
    fprintf(stderr, "queue.instructions: callgrind\n");
    client_side(w);
    for (size_t i = 0; i < 3; i++)
        ok &= server_side(batches[i]);
    alone();
    return ok;
}
