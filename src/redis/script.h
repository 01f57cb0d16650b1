/*
 * script.h: Lua scripts, compiled into the library.
 *
 * src/<part>/lua/<name>.lua becomes `leat__script_<part>_<name>`; a line
 * `--#include "<part>/<name>.lua"` is replaced by that file's text when leat is
 * built.  A script is called by its SHA-1; a server that does not know it gets
 * the body, also in the middle of a pipeline, where only that call moves behind
 * the commands that were sent after it.
 */
#ifndef LEAT_REDIS_SCRIPT_H
#define LEAT_REDIS_SCRIPT_H

#include "redis/conn.h"

typedef struct leat__script {
    const char *name; /* "redis/probe" */
    const char *sha;  /* 40 hexadecimal digits */
    const char *body;
    size_t body_size;
} leat__script;

#include "redis_scripts.h"

/* Queue a call.  keys and args are copied.  fn as with leat_conn_send. */
leat_code leat__script_send(leat_conn *c, const leat__script *s,
                            const leat_bytes *keys, size_t nkeys,
                            const leat_bytes *args, size_t nargs,
                            const leat_send_opts *opts, leat_error *err);

/* Call and wait; the reply is owned by the connection until its next use. */
leat_code leat__script_call(leat_conn *c, const leat__script *s,
                            const leat_bytes *keys, size_t nkeys,
                            const leat_bytes *args, size_t nargs,
                            const leat_reply **reply, leat_error *err);

/* A decimal argument: text must hold LEAT__NUMBER bytes and outlive the use. */
enum { LEAT__NUMBER = 24 };
leat_bytes leat__arg_int(char *text, int64_t v);

#endif
