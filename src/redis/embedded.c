/*
 * embedded.c: a private redis-server that lives as long as somebody uses it.
 *
 * The directory, 0700 and ours:
 *
 *   users.lock     every user holds a shared flock on it from before it looks
 *                  for the server until it is gone; the guardian waits for the
 *                  exclusive one
 *   server.lock    byte 0 is locked by the guardian, byte 1 by the server
 *   redis.sock     the server's only door
 *   appendonlydir  the data, kept
 *   server.log     what the server has to say; server.log.1 the one before
 *   guardian.pid   for people
 *
 * A user takes the shared lock and says PING.  If nobody answers and nobody
 * holds server.lock it forks a guardian (guardian.c) and waits for the answer;
 * of several that do so at once one guardian gets the lock and the others
 * leave.  When the last user is gone, killed or not, the kernel gives the
 * guardian the exclusive lock: it ends the server, and who comes meanwhile
 * waits for the shared lock and finds an empty house.
 */
#include "redis/embedded.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "redis/guardian.h"
#include "redis/trusted.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEP_MS    5    /* between two looks           */
#define PING_MS    1000 /* for an answer to one PING   */
#define MAX_SOCKET (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)
#define INSTALL                                                                \
    "install the package redis-server or redis-tools, or set "                 \
    "LEAT_REDIS_SERVER"

struct leat__embedded {
    char *dir;
    char *socket;
    char *server_lock;
    char *log_file;
    int users; /* the file with our shared lock; -1: none */
    leat_logger log;
};

typedef enum answer {
    ABSENT = 0, /* nobody listens          */
    SILENT,     /* no answer within a PING */
    LOADING,
    READY
} answer;

/* ---- the directory ---------------------------------------------------- */

static char *join(const char *dir, const char *name, leat_error *err)
{
    size_t d = strlen(dir), n = strlen(name) + 1;
    char *path = leat__alloc(d + 1 + n, err);
    if (!path)
        return NULL;
    memcpy(path, dir, d);
    path[d] = '/';
    memcpy(path + d + 1, name, n);
    return path;
}

static leat_code default_dir(char **out, leat_error *err)
{
    const char *state = secure_getenv("XDG_STATE_HOME");
    const char *home = secure_getenv("HOME");
    if (state && state[0] == '/')
        *out = join(state, "leat/redis", err);
    else if (home && home[0] == '/')
        *out = join(home, ".local/state/leat/redis", err);
    else
        return leat__fail(err, LEAT_EINVAL,
                          "embedded: neither XDG_STATE_HOME nor HOME is an "
                          "absolute path; write embedded:///directory");
    return *out ? LEAT_OK : LEAT_ENOMEM;
}

/* A copy of dir, or the default, without slashes at its end. */
static leat_code choose_dir(const char *dir, char **out, leat_error *err)
{
    leat_code rc = LEAT_OK;
    if (!dir)
        rc = default_dir(out, err);
    else if (dir[0] != '/')
        rc = leat__fail(err, LEAT_EINVAL,
                        "embedded: the directory must be an absolute path");
    else if (!(*out = leat__strdup(dir, err)))
        rc = LEAT_ENOMEM;
    if (rc != LEAT_OK)
        return rc;
    size_t n = strlen(*out);
    while (n > 1 && (*out)[n - 1] == '/')
        (*out)[--n] = '\0';
    return LEAT_OK;
}

static leat_code check_length(const leat__embedded *e, leat_error *err)
{
    size_t n = strlen(e->socket);
    if (n <= MAX_SOCKET)
        return LEAT_OK;
    return leat__fail(err, LEAT_EINVAL,
                      "embedded: the path of the socket has %zu bytes and the "
                      "system allows %zu; choose a shorter directory, as "
                      "embedded:///tmp/name",
                      n, (size_t)MAX_SOCKET);
}

/* mkdir -p; what is made belongs to its owner alone. */
static leat_code make_dir(char *dir, leat_error *err)
{
    for (char *p = dir + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char end = *p;
        *p = '\0';
        int rc = mkdir(dir, 0700);
        int sys = errno;
        if (rc != 0 && sys != EEXIST && (end == '\0' || access(dir, F_OK) != 0))
            return leat__fail_errno(err, LEAT_EIO, sys,
                                    "embedded: the directory '%s' cannot be "
                                    "made",
                                    dir);
        *p = end;
        if (end == '\0')
            return LEAT_OK;
    }
}

/* Who may enter the directory may use the server, which has no password. */
static leat_code check_dir(const char *dir, leat_error *err)
{
    struct stat st;
    if (stat(dir, &st) != 0)
        return leat__fail_errno(err, LEAT_EIO, errno,
                                "embedded: '%s' cannot be looked at", dir);
    if (!S_ISDIR(st.st_mode))
        return leat__fail(err, LEAT_EINVAL, "embedded: '%s' is not a directory",
                          dir);
    if (st.st_uid != geteuid())
        return leat__fail(err, LEAT_EAUTH,
                          "embedded: '%s' belongs to user %u and not to user "
                          "%u; use a directory of your own",
                          dir, (unsigned)st.st_uid, (unsigned)geteuid());
    if (st.st_mode & 077)
        return leat__fail(err, LEAT_EAUTH,
                          "embedded: others may enter '%s' (mode %03o); run "
                          "chmod 700 on it",
                          dir, (unsigned)st.st_mode & 0777);
    return leat__trusted_way(dir, err);
}

/* ---- the users' lock -------------------------------------------------- */

/* While a guardian that is ending its server holds it, wait. */
static leat_code lock_shared(leat__embedded *e, int64_t deadline,
                             leat_error *err)
{
    char *path = join(e->dir, LEAT__EMBEDDED_USERS, err);
    if (!path)
        return LEAT_ENOMEM;
    e->users = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int sys = errno;
    leat__free(path);
    if (e->users < 0)
        return leat__fail_errno(err, LEAT_EIO, sys,
                                "embedded: users.lock in '%s' cannot be opened",
                                e->dir);
    while (flock(e->users, LOCK_SH | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return leat__fail_errno(err, LEAT_EIO, errno,
                                    "embedded: users.lock in '%s' cannot be "
                                    "locked",
                                    e->dir);
        if (leat__left_ms(deadline) == 0)
            return leat__fail(err, LEAT_ETIMEOUT,
                              "embedded: the server in '%s' is being stopped "
                              "and takes too long",
                              e->dir);
        leat__sleep_ms(STEP_MS);
    }
    return LEAT_OK;
}

/* ---- is it there ------------------------------------------------------ */

static bool ready_for(int fd, short events, int64_t deadline)
{
    struct pollfd p = { .fd = fd, .events = events };
    int64_t left;
    while ((left = leat__left_ms(deadline)) > 0) {
        int n = leat__sys->poll(leat__sys->arg, &p, 1, left * 1000000);
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
    }
    return false;
}

/* The first line of the answer.  Any line but -LOADING comes from a server that
 * serves, also one that says it has too many clients. */
static answer read_answer(int fd, int64_t deadline)
{
    static const char loading[] = "-LOADING";
    char line[256];
    size_t n = 0;
    while (n < sizeof line && !memchr(line, '\n', n)) {
        ssize_t got = leat__sys->recv(leat__sys->arg, fd, line + n,
                                      sizeof line - n);
        if (got > 0) {
            n += (size_t)got;
            continue;
        }
        bool wait = got < 0 && (errno == EAGAIN || errno == EINTR);
        if (!wait)
            return ABSENT;
        if (!ready_for(fd, POLLIN, deadline))
            return SILENT;
    }
    bool same = n >= sizeof loading - 1 &&
                memcmp(line, loading, sizeof loading - 1) == 0;
    return same ? LOADING : READY;
}

static answer ping_on(int fd, const char *path, int64_t deadline)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    struct iovec v = { .iov_base = (void *)"PING\r\n", .iov_len = 6 };
    memcpy(a.sun_path, path, strlen(path) + 1);
    if (leat__sys->connect(leat__sys->arg, fd, (struct sockaddr *)&a,
                           sizeof a) != 0)
        return errno == EAGAIN ? SILENT : ABSENT; /* EAGAIN: too many wait */
    if (leat__sys->sendv(leat__sys->arg, fd, &v, 1) != 6)
        return ABSENT;
    return read_answer(fd, deadline);
}

static answer ping(const leat__embedded *e, int64_t deadline)
{
    int64_t soon = leat__deadline_ns(PING_MS);
    int fd = leat__sys->socket(leat__sys->arg, AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0)
        return ABSENT;
    answer a = ping_on(fd, e->socket, soon < deadline ? soon : deadline);
    leat__sys->close(leat__sys->arg, fd);
    return a;
}

/* ---- which program ---------------------------------------------------- */

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
           access(path, X_OK) == 0;
}

/* Look for name along a list of directories as in PATH. */
static char *find_in(const char *dirs, const char *name, leat_error *err)
{
    char path[PATH_MAX];
    while (dirs && *dirs) {
        size_t n = strcspn(dirs, ":");
        int len = snprintf(path, sizeof path, "%.*s/%s", (int)n, dirs, name);
        if (n > 0 && dirs[0] == '/' && (size_t)len < sizeof path &&
            is_program(path))
            return leat__strdup(path, err);
        dirs += n + (dirs[n] == ':');
    }
    return NULL;
}

static char *find_by_name(const char *name, leat_error *err)
{
    char *path = find_in(secure_getenv("PATH"), name, err);
    if (!path)
        path = find_in("/usr/local/bin:/usr/bin:/usr/local/sbin:/usr/sbin",
                       name, err);
    return path;
}

/* Absolute, because the guardian works in another directory. */
static leat_code find_chosen(const char *chosen, char **out, leat_error *err)
{
    char real[PATH_MAX];
    if (!strchr(chosen, '/'))
        *out = find_by_name(chosen, err);
    else if (is_program(chosen) && realpath(chosen, real))
        *out = leat__strdup(real, err);
    if (*out)
        return LEAT_OK;
    return leat__fail(err, LEAT_ENOENT,
                      "embedded: LEAT_REDIS_SERVER names '%s', which is no "
                      "program that can be run; correct it or unset it and "
                      "install the package redis-server",
                      chosen);
}

/* redis-check-rdb is the server's own file under another name: called as
 * redis-server it is one, and redis-tools brings it without a service. */
static leat_code find_program(char **out, leat_error *err)
{
    static const char *const names[] = { "redis-server", "valkey-server",
                                         "redis-check-rdb" };
    const char *chosen = secure_getenv("LEAT_REDIS_SERVER");
    *out = NULL;
    if (chosen && *chosen)
        return find_chosen(chosen, out, err);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *out = find_by_name(names[i], err);
        if (*out)
            return LEAT_OK;
    }
    return leat__fail(err, LEAT_ENOENT,
                      "embedded: no redis-server, valkey-server or "
                      "redis-check-rdb found; " INSTALL);
}

/* ---- starting --------------------------------------------------------- */

/* The log's last line, without the server's time stamp, for an error. */
static void last_words(const leat__embedded *e, char *out, size_t room)
{
    char text[1025];
    out[0] = '\0';
    int fd = open(e->log_file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    off_t size = lseek(fd, 0, SEEK_END);
    off_t from = size > 1024 ? size - 1024 : 0;
    ssize_t n = pread(fd, text, sizeof text - 1, from);
    close(fd);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        n--;
    if (n <= 0)
        return;
    text[n] = '\0';
    const char *line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    const char *mark = strstr(line, " # ");
    line = mark ? mark + 3 : line;
    leat__escape(out, room, line, strlen(line));
}

static leat_code fail_ended(const leat__embedded *e, int status,
                            leat_error *err)
{
    char words[90];
    last_words(e, words, sizeof words);
    return leat__fail_retriable(err, LEAT_ECONN, false,
                                "embedded: redis-server ended with %s %d, "
                                "saying '%s'; see %s",
                                WIFSIGNALED(status) ? "signal" : "status",
                                WIFSIGNALED(status) ? WTERMSIG(status)
                                                    : WEXITSTATUS(status),
                                words, e->log_file);
}

static leat_code fail_noexec(int sys, leat_error *err)
{
    if (sys == ENOENT || sys == EACCES || sys == ENOEXEC || sys == ENOTDIR)
        return leat__fail_errno(err, LEAT_ENOENT, sys,
                                "embedded: redis-server cannot be run (" INSTALL
                                ")");
    return leat__fail_errno(err, LEAT_EIO, sys,
                            "embedded: redis-server cannot be started");
}

/* Read what the guardian has to say, if anything.  *report is closed when it
 * will say no more. */
static leat_code hear(const leat__embedded *e, int *report, leat_error *err)
{
    leat__guardian_report r;
    ssize_t n = *report < 0 ? -1 : read(*report, &r, sizeof r);
    if (n < 0)
        return LEAT_OK;
    bool whole = n == (ssize_t)sizeof r;
    if (whole && r.news == LEAT__GUARDIAN_RUNNING)
        return hear(e, report, err);
    close(*report);
    *report = -1;
    if (!whole || r.news == LEAT__GUARDIAN_BUSY)
        return LEAT_OK;
    if (r.news == LEAT__GUARDIAN_ENDED)
        return fail_ended(e, r.detail, err);
    if (r.news == LEAT__GUARDIAN_NOEXEC)
        return fail_noexec(r.detail, err);
    return leat__fail_errno(err, LEAT_EIO, r.detail,
                            "embedded: the guardian cannot work in '%s'",
                            e->dir);
}

/* The server's settings, as its command line: it quotes what it is given, so a
 * path may hold anything. */
#define ARGS 32

static void settings(const leat__embedded *e, const char *argv[ARGS])
{
    const char *const pairs[][2] = {
        { "--port", "0" },
        { "--unixsocket", e->socket },
        { "--unixsocketperm", "700" },
        { "--dir", e->dir },
        { "--logfile", e->log_file },
        { "--daemonize", "no" },
        { "--supervised", "no" },
        { "--save", "" },
        { "--appendonly", "yes" },
        { "--appendfsync", "everysec" },
        { "--maxmemory-policy", "noeviction" },
    };
    size_t n = 0;
    argv[n++] = "redis-server";
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        argv[n++] = pairs[i][0];
        argv[n++] = pairs[i][1];
    }
    assert(n < ARGS);
    argv[n] = NULL;
}

static leat_code start(const leat__embedded *e, int *report, leat_error *err)
{
    const char *argv[ARGS];
    char *program;
    leat_code rc = find_program(&program, err);
    if (rc != LEAT_OK)
        return rc;
    settings(e, argv);
    leat__guardian_plan plan = { .dir = e->dir,
                                 .program = program,
                                 .argv = (char *const *)argv,
                                 .envp = environ };
    rc = leat__guardian_start(&plan, report, err);
    leat__free(program);
    if (rc == LEAT_OK)
        leat__log(&e->log, LEAT_LOG_INFO, "embedded: starting a server in '%s'",
                  e->dir);
    return rc;
}

static bool is_empty_house(const leat__embedded *e)
{
    return leat__guardian_find(e->server_lock, LEAT__GUARDIAN_ITSELF) == 0 &&
           leat__guardian_find(e->server_lock, LEAT__GUARDIAN_SERVER) == 0;
}

static leat_code fail_late(const leat__embedded *e, answer last,
                           leat_error *err)
{
    char words[90];
    pid_t server = leat__guardian_find(e->server_lock, LEAT__GUARDIAN_SERVER);
    if (last == LOADING)
        return leat__fail(err, LEAT_ETIMEOUT,
                          "embedded: the server in '%s' is still loading its "
                          "data",
                          e->dir);
    if (server > 0)
        return leat__fail(err, LEAT_ETIMEOUT,
                          "embedded: the server in '%s' (process %d) does not "
                          "answer",
                          e->dir, (int)server);
    last_words(e, words, sizeof words);
    return leat__fail(err, LEAT_ETIMEOUT,
                      "embedded: no server came up in time, its last words: "
                      "'%s'; see %s",
                      words, e->log_file);
}

/* A server whose guardian was killed still answers while it ends. */
static bool is_guarded(const leat__embedded *e)
{
    return leat__guardian_find(e->server_lock, LEAT__GUARDIAN_ITSELF) != 0;
}

/* Look, start if there is nobody, and wait.  The lock is looked at again each
 * time: the one who was to start it may be gone. */
static leat_code bring_up(leat__embedded *e, int64_t deadline, int *report,
                          leat_error *err)
{
    answer last;
    while ((last = ping(e, deadline)) != READY || !is_guarded(e)) {
        leat_code rc = hear(e, report, err);
        if (rc == LEAT_OK && *report < 0 && last == ABSENT && is_empty_house(e))
            rc = start(e, report, err);
        if (rc != LEAT_OK)
            return rc;
        if (leat__left_ms(deadline) == 0)
            return fail_late(e, last, err);
        leat__sleep_ms(STEP_MS);
    }
    return LEAT_OK;
}

leat_code leat__embedded_ensure(leat__embedded *e, int64_t timeout_ms,
                                leat_error *err)
{
    int report = -1;
    leat_code rc = bring_up(e, leat__deadline_ns(timeout_ms), &report, err);
    if (report >= 0)
        close(report);
    return rc;
}

/* ---- attaching -------------------------------------------------------- */

static leat_code name_files(leat__embedded *e, const char *dir, leat_error *err)
{
    leat_code rc = choose_dir(dir, &e->dir, err);
    if (rc != LEAT_OK)
        return rc;
    e->socket = join(e->dir, LEAT__EMBEDDED_SOCKET, err);
    e->server_lock = join(e->dir, LEAT__EMBEDDED_SERVER, err);
    e->log_file = join(e->dir, LEAT__EMBEDDED_LOG, err);
    if (!e->socket || !e->server_lock || !e->log_file)
        return LEAT_ENOMEM;
    return check_length(e, err);
}

leat__embedded *leat__embedded_attach(const char *dir, const leat_logger *log,
                                      int64_t timeout_ms, leat_error *err)
{
    int64_t deadline = leat__deadline_ns(timeout_ms);
    leat__embedded *e = leat__zalloc(sizeof *e, err);
    if (!e)
        return NULL;
    e->users = -1;
    if (log)
        e->log = *log;
    if (name_files(e, dir, err) != LEAT_OK ||
        make_dir(e->dir, err) != LEAT_OK || check_dir(e->dir, err) != LEAT_OK ||
        lock_shared(e, deadline, err) != LEAT_OK ||
        leat__embedded_ensure(e, timeout_ms < 0 ? -1 : leat__left_ms(deadline),
                              err) != LEAT_OK)
        goto fail;
    return e;

fail:
    leat__embedded_detach(e);
    return NULL;
}

const char *leat__embedded_socket(const leat__embedded *e)
{
    return e->socket;
}

const char *leat__embedded_dir(const leat__embedded *e)
{
    return e->dir;
}

void leat__embedded_detach(leat__embedded *e)
{
    if (!e)
        return;
    /* Closed, not unlocked: a lock is shared with a forked child, and to
     * unlock it would leave for both. */
    if (e->users >= 0)
        close(e->users);
    leat__free(e->dir);
    leat__free(e->socket);
    leat__free(e->server_lock);
    leat__free(e->log_file);
    leat__free(e);
}
