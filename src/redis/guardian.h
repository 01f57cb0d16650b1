/*
 * guardian.h: the process that owns an embedded redis-server.  See
 * embedded.c for the whole picture.
 */
#ifndef LEAT_REDIS_GUARDIAN_H
#define LEAT_REDIS_GUARDIAN_H

#include "base/error.h"
#include <sys/types.h>

/* Files of the directory.  The guardian works inside it and names them so;
 * a directory that was moved or removed under it is then not confused with a
 * new one of the same name. */
#define LEAT__EMBEDDED_SOCKET "redis.sock"
#define LEAT__EMBEDDED_USERS  "users.lock"
#define LEAT__EMBEDDED_SERVER "server.lock"
#define LEAT__EMBEDDED_LOG    "server.log"
#define LEAT__EMBEDDED_PID    "guardian.pid"

/* All that is needed after the fork, where nothing may be allocated. */
typedef struct leat__guardian_plan {
    const char *dir;
    const char *program; /* the server's file, with a slash */
    char *const *argv;
    char **envp; /* the guardian takes its secrets out of its own copy */
} leat__guardian_plan;

typedef enum leat__guardian_news {
    LEAT__GUARDIAN_BUSY = 1, /* another one owns the directory; it left      */
    LEAT__GUARDIAN_RUNNING,  /* the server's program runs; detail: its pid   */
    LEAT__GUARDIAN_NOEXEC,   /* the program cannot be run; detail: errno     */
    LEAT__GUARDIAN_ENDED,    /* the server ended; detail: its wait status    */
    LEAT__GUARDIAN_FAILED    /* the guardian gave up; detail: errno          */
} leat__guardian_news;

typedef struct leat__guardian_report {
    int32_t news;
    int32_t detail;
} leat__guardian_report;

/* Fork a guardian that is nobody's child.  *report becomes the end of a pipe,
 * non-blocking, on which its news arrive; close it when they no longer
 * interest.  The caller must hold the shared users lock. */
leat_code leat__guardian_start(const leat__guardian_plan *plan, int *report,
                               leat_error *err);

/* Who lives in a directory, by its server.lock: the process, 0 for none, -1
 * with errno; 1 stands for one that has no number here, in another container.
 * Nothing is taken by looking. */
typedef enum leat__guardian_role {
    LEAT__GUARDIAN_ITSELF = 0,
    LEAT__GUARDIAN_SERVER = 1
} leat__guardian_role;

pid_t leat__guardian_find(const char *server_lock, leat__guardian_role role);

#endif
