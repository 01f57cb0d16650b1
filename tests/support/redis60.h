/*
 * redis60.h: would Redis 6.0 understand this command?
 *
 * Reads the table tests/check/redis60.txt, whose form redis60.py beside it
 * explains.
 *
 * Threads: shared after the open.
 */
#ifndef SUPPORT_REDIS60_H
#define SUPPORT_REDIS60_H

#include <stdbool.h>
#include <stddef.h>

typedef struct redis60 redis60;

/* NULL after saying why on stderr. */
redis60 *redis60_open(const char *path);
void redis60_close(redis60 *t); /* NULL is fine */

/* True if it is known with all its words; otherwise why says what is not. */
bool redis60_knows(const redis60 *t, size_t argc, const char *const *argv,
                   char *why, size_t room);

#endif
