/*
 * redis.h: a real redis-server of one's own, for tests.
 *
 * The server lives in a fresh 0700 directory under /tmp and listens on a Unix
 * socket there (and on a random port of 127.0.0.1 if asked).  Nothing is fixed,
 * so test programs run in parallel.  It needs no cleaning up: a watcher process
 * sees the end of the test program, also by kill -9, kills the server and
 * removes the directory.  The server's log is printed only when a start fails.
 *
 * The program is $LEAT_REDIS_SERVER, redis-server, valkey-server, or Debian's
 * redis-check-rdb, which is the same binary.
 *
 * Threads: a redis_server is confined.
 */
#ifndef SUPPORT_REDIS_H
#define SUPPORT_REDIS_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct redis_server redis_server;

typedef enum redis_aof {
    REDIS_AOF_NONE,
    REDIS_AOF_EVERYSEC,
    REDIS_AOF_ALWAYS,
} redis_aof;

typedef struct redis_opts {
    redis_aof aof;
    bool tcp;                  /* listen on 127.0.0.1 as well               */
    const char *tls;           /* and with TLS, by the ca and server of this
                                  directory (certs.h); clients need none    */
    const char *user;          /* with all rights; "default" is switched off */
    const char *password;      /* of user, or without user: requirepass     */
    const char *const *users;  /* more "name rule rule", NULL-terminated    */
    const char *const *config; /* more lines of configuration, likewise     */
    int64_t maxmemory;         /* bytes, noeviction; 0: no limit            */
    bool sentinel;             /* a sentinel; config says of what           */
    const char *dir;           /* work in this directory and leave it there */
    const char *clock_file;    /* run under shim_clock with this file       */
    bool sync_shim;            /* run under shim_sync, see redis_sync       */
    int64_t file_limit;        /* bytes a file of it may have: a full disk  */
    bool loading_is_ready;     /* ready when PING is answered by -LOADING   */
    int64_t start_ms;          /* to become ready; 0: 20 s                  */
} redis_opts;

/* Start a server and wait until it answers PING.  NULL after saying why on
 * stderr.  opts may be NULL; what it points to is copied. */
redis_server *redis_start(const redis_opts *opts);

/* End the server, remove its directory, free s.  NULL is fine. */
void redis_stop(redis_server *s);

/* kill -9, and wait for the end.  The data stay for redis_restart. */
void redis_kill(redis_server *s);

/* With sync_shim: how its syncs behave; owned by s, and kept over restarts. */
struct shim_sync;
struct shim_sync *redis_sync(redis_server *s);

/* With sync_shim: kill -9, and its files lose what was not synced.  Those that
 * never were are emptied. */
void redis_power_cut(redis_server *s);

/* From the next start on. */
void redis_set_file_limit(redis_server *s, int64_t bytes);

/* SIGTERM, so that it saves what it is configured to save. */
void redis_shutdown(redis_server *s);

/* Start it again in the same place with the same options, after shutting it
 * down if it still runs; on the same port unless another program took it.
 * False after saying why on stderr. */
bool redis_restart(redis_server *s);

/* SIGSTOP: connections stay, nothing is answered.  Returns when stopped. */
void redis_pause(redis_server *s);
void redis_resume(redis_server *s);

/* True while the process lives.  A server that ended by itself is noticed. */
bool redis_alive(redis_server *s);

/* All owned by s. */
const char *redis_socket(const redis_server *s);
const char *redis_dir(const redis_server *s);
int redis_port(const redis_server *s); /* 0 without tcp */
pid_t redis_pid(const redis_server *s);

int redis_tls_port(const redis_server *s); /* 0 without tls */

/* "rediss://localhost:port?cafile=..." of a server with tls. */
char *redis_url_tls(const redis_server *s, char *buf, size_t size);

/* "unix:///tmp/.../s" or, with tcp, "redis://127.0.0.1:port", with user and
 * password where there are any.  Returns buf; 256 bytes are plenty. */
char *redis_url(const redis_server *s, char *buf, size_t size);
char *redis_url_unix(const redis_server *s, char *buf, size_t size);

/* A port of 127.0.0.1 that nobody has now; 0: none.  Somebody may take it
 * before a server does, whose start then fails and is tried with another. */
int redis_free_port(void);

/*
 * A look from the side, through hiredis and a connection of the rig's own.  The
 * formats are hiredis's: %s string, %b bytes and size_t, %d %lld numbers.
 */

/* The reply, to be freed with freeReplyObject; NULL if the server is gone. */
redisReply *redis_raw(redis_server *s, const char *format, ...);

/* The integer, or the number in a string, or the count of an array; INT64_MIN
 * for nil, errors and silence. */
int64_t redis_int(redis_server *s, const char *format, ...);

/* The string, status or error ("" for nil and silence) into buf. */
char *redis_text(redis_server *s, char *buf, size_t size, const char *format,
                 ...);

/* How many connections it has accepted since it began. */
int64_t redis_accepted(redis_server *s);

/* FLUSHALL.  False if it was not answered with OK. */
bool redis_flush(redis_server *s);

#endif
