/*
 * server.h: what a message costs a server, counted by callgrind.
 *
 * The work is done twice, on a new server under callgrind each time, for n and
 * for 3 n messages; the difference leaves out what is done once.
 */
#ifndef BENCH_SERVER_H
#define BENCH_SERVER_H

#include "support/redis.h"

/* Some work for n messages. */
typedef bool server_fn(redis_server *s, void *arg, int n);

/* Instructions a message; negative: failed. */
double server_instructions(server_fn *once, void *arg, int n);

/* Inside such work: what was done so far does not count. */
bool server_count_anew(redis_server *s);

#endif
