/*
 * redis.c: start, watch and end a private redis-server.
 *
 *   /tmp/leat-r<pid>-XXXXXX/
 *     s      Unix socket     conf   configuration
 *     log    what it said    *.aof, appendonlydir, dump.rdb: its data
 *
 * Three processes: the test, the server, and a watcher (sh) that reads pids
 * from a pipe.  The pipe ends when the test does, however it does; the watcher
 * then kills the last pid it read and removes the directory.  So that no server
 * can be missed, a new server waits for a byte before it becomes redis: the
 * test writes the pid to the watcher first, and if the test dies before the
 * byte the child reads the end of file and leaves.  So that no stranger is
 * killed, the pid is withdrawn before it is reaped.
 *
 * A watcher that is killed itself leaves a directory; the next start sweeps
 * those whose pid is dead and that are older than an hour.
 */
#include "support/redis.h"
#include "support/shim_sync.h"
#include "support/wait.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <linux/close_range.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PREFIX "leat-r"

enum {
    PATH_SIZE = 4096,
    STALE_AFTER_S = 3600,
    PORT_TRIES = 10,
    END_MS = 10000,
    LOG_SHOWN = 4000,
};

struct redis_server {
    redis_opts opts; /* the pointers inside are ours */
    char **users;
    char **config;
    char program[PATH_SIZE];
    char dir[PATH_SIZE - 16]; /* room for the names in it */
    char socket[PATH_SIZE];
    int port, tls_port;
    pid_t pid; /* 0: not running */
    pid_t watcher;
    int watch_fd; /* the watcher reads the other end */
    redisContext *side;
    struct shim_sync *sync; /* mapped; NULL: without the shim */
};

static const char *const watch_script =
    "p=0\n"
    "while read -r line; do p=$line; done\n"
    "if [ \"$p\" -gt 1 ]; then kill -9 \"-$p\" \"$p\"; fi 2>/dev/null\n"
    "[ \"$2\" = keep ] && exit 0\n"
    "rm -rf -- \"$1\" 2>/dev/null\n"
    "[ -e \"$1\" ] && sleep 0.3 && rm -rf -- \"$1\"\n"
    "exit 0\n";

/* Directories */

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    (void)remove(path);
    return 0;
}

static void remove_tree(const char *dir)
{
    (void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static bool is_stale(const char *name, const char *path)
{
    char *end;
    struct stat st;
    long pid = strtol(name + strlen(PREFIX), &end, 10);
    if (*end != '-' || pid <= 1 || lstat(path, &st) != 0)
        return false;
    return S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           time(NULL) - st.st_mtime > STALE_AFTER_S &&
           kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

static void sweep_stale(void)
{
    DIR *d = opendir("/tmp");
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[PATH_SIZE];
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        snprintf(path, sizeof path, "/tmp/%s", e->d_name);
        if (is_stale(e->d_name, path))
            remove_tree(path);
    }
    closedir(d);
}

static bool make_dir(redis_server *s)
{
    if (s->opts.dir) {
        snprintf(s->dir, sizeof s->dir, "%s", s->opts.dir);
        return mkdir(s->dir, 0700) == 0 || errno == EEXIST;
    }
    sweep_stale();
    snprintf(s->dir, sizeof s->dir, "/tmp/" PREFIX "%d-XXXXXX", (int)getpid());
    return mkdtemp(s->dir) != NULL;
}

/* Options */

static char *copy(const char *text)
{
    return text ? strdup(text) : NULL;
}

static char **copy_list(const char *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    char **out = calloc(n + 1, sizeof *out);
    for (size_t i = 0; out && i < n; i++)
        out[i] = strdup(list[i]);
    return out;
}

static void free_list(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

static void copy_opts(redis_server *s, const redis_opts *opts)
{
    if (opts)
        s->opts = *opts;
    s->opts.user = copy(s->opts.user);
    s->opts.password = copy(s->opts.password);
    s->opts.dir = copy(s->opts.dir);
    s->opts.tls = copy(s->opts.tls);
    s->opts.clock_file = copy(s->opts.clock_file);
    s->users = copy_list(s->opts.users);
    s->config = copy_list(s->opts.config);
    if (s->opts.start_ms == 0)
        s->opts.start_ms = 20000;
}

static void free_opts(redis_server *s)
{
    free((void *)s->opts.user);
    free((void *)s->opts.password);
    free((void *)s->opts.dir);
    free((void *)s->opts.tls);
    free((void *)s->opts.clock_file);
    free_list(s->users);
    free_list(s->config);
}

/* The program */

static bool find_in_path(const char *name, char *out, size_t size)
{
    const char *path = getenv("PATH");
    char all[PATH_SIZE];
    snprintf(all, sizeof all, "%s:/usr/local/bin:/usr/bin:/usr/sbin",
             path ? path : "");
    char *rest = all;
    for (char *dir; (dir = strsep(&rest, ":")) != NULL;) {
        int n = snprintf(out, size, "%s/%s", dir, name);
        if (*dir && n > 0 && (size_t)n < size && access(out, X_OK) == 0)
            return true;
    }
    return false;
}

static bool find_program(char *out, size_t size)
{
    static const char *const names[] = { "redis-server", "valkey-server",
                                         "redis-check-rdb" };
    const char *given = getenv("LEAT_REDIS_SERVER");
    if (given && *given) {
        snprintf(out, size, "%s", given);
        return access(out, X_OK) == 0;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (find_in_path(names[i], out, size))
            return true;
    return false;
}

int redis_free_port(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET };
    socklen_t len = sizeof a;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&a, len) == 0 &&
              getsockname(fd, (struct sockaddr *)&a, &len) == 0;
    if (fd >= 0)
        close(fd);
    return ok ? ntohs(a.sin_port) : 0;
}

static void write_users(const redis_server *s, FILE *f)
{
    const redis_opts *o = &s->opts;
    if (o->user) {
        fprintf(f, "user default off\nuser %s on ~* &* +@all ", o->user);
        if (o->password)
            fprintf(f, ">%s\n", o->password);
        else
            fprintf(f, "nopass\n");
    } else if (o->password) {
        fprintf(f, "requirepass %s\n", o->password);
    }
    for (size_t i = 0; s->users[i]; i++)
        fprintf(f, "user %s\n", s->users[i]);
}

/* Replicas and nodes of a cluster speak TLS to each other, too. */
static void write_tls(const redis_server *s, FILE *f)
{
    const char *dir = s->opts.tls;
    if (dir)
        fprintf(f,
                "tls-port %d\ntls-cert-file %s/server.crt\n"
                "tls-key-file %s/server.key\ntls-ca-cert-file %s/ca.crt\n"
                "tls-auth-clients no\ntls-replication yes\n"
                "tls-cluster yes\n",
                s->tls_port, dir, dir, dir);
}

static void write_data_config(const redis_server *s, FILE *f)
{
    static const char *const sync[] = { "no", "everysec", "always" };
    fprintf(f,
            "save \"\"\nappendonly %s\nappendfsync %s\n"
            "maxmemory-policy noeviction\ndatabases 16\n",
            s->opts.aof ? "yes" : "no", sync[s->opts.aof]);
}

/* Written at each start, as the port may change; but a sentinel keeps in it
 * what it has learnt. */
static bool write_config(const redis_server *s)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/conf", s->dir);
    if (s->opts.sentinel && access(path, F_OK) == 0)
        return true;
    FILE *f = fopen(path, "we");
    if (!f)
        return false;
    fprintf(f,
            "dir %s\nunixsocket %s\nunixsocketperm 700\nport %d\n"
            "bind 127.0.0.1\nlogfile %s/log\ndaemonize no\n"
            "always-show-logo no\n",
            s->dir, s->socket, s->port, s->dir);
    if (!s->opts.sentinel)
        write_data_config(s, f);
    if (s->opts.maxmemory)
        fprintf(f, "maxmemory %" PRId64 "\n", s->opts.maxmemory);
    write_users(s, f);
    write_tls(s, f);
    for (size_t i = 0; s->config[i]; i++)
        fprintf(f, "%s\n", s->config[i]);
    return fclose(f) == 0;
}

static void show_log(const redis_server *s, const char *why)
{
    char path[PATH_SIZE], text[LOG_SHOWN];
    snprintf(path, sizeof path, "%s/log", s->dir);
    fprintf(stderr, "redis_start: %s (%s in %s)\n", why, s->program, s->dir);
    FILE *f = fopen(path, "re");
    if (!f)
        return;
    size_t n = fread(text, 1, sizeof text, f);
    (void)fwrite(text, 1, n, stderr);
    (void)fclose(f);
}

/* Processes */

/* Only calls that are safe after the fork of a threaded program from here to
 * exec: everything was prepared before. */
static void child_stdio(int in, int out)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    setsid();
    dup2(in, 0);
    dup2(out, 1);
    dup2(out, 2);
    /* A pipe of the test that stayed open here would never end. */
    (void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
}

static bool start_watcher(redis_server *s)
{
    int fds[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || pipe2(fds, O_CLOEXEC) != 0)
        return false;
    const char *keep = s->opts.dir ? "keep" : "remove";
    char *argv[] = { "sh",         "-c",   (char *)watch_script,
                     "leat-watch", s->dir, (char *)keep,
                     NULL };
    s->watcher = fork();
    if (s->watcher == 0) {
        child_stdio(fds[0], null);
        execv("/bin/sh", argv);
        _exit(127);
    }
    close(fds[0]);
    close(null);
    s->watch_fd = fds[1];
    return s->watcher > 0;
}

static void tell_watcher(const redis_server *s, pid_t pid)
{
    char line[32];
    int n = snprintf(line, sizeof line, "%d\n", (int)pid);
    if (write(s->watch_fd, line, (size_t)n) != n)
        fprintf(stderr, "redis_start: the watcher is gone\n");
}

/* Room for what child_env adds. */
struct extra {
    char preload[2 * PATH_SIZE], clock[PATH_SIZE], sync[PATH_SIZE + 24];
};

static const char *shim(const char *variable, const char *built)
{
    const char *given = getenv(variable);
    return given ? given : built;
}

/* The environment with the shims in front, or the plain one. */
static char **child_env(const redis_server *s, struct extra *x)
{
    extern char **environ;
    size_t n = 0;
    while (environ[n])
        n++;
    char **env = calloc(n + 4, sizeof *env);
    if (!env)
        return NULL;
    size_t out = 0;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0)
            env[out++] = environ[i];
    snprintf(x->preload, sizeof x->preload, "LD_PRELOAD=%s:%s",
             s->opts.clock_file ? shim("LEAT_SHIM_CLOCK", SHIM_CLOCK) : "",
             s->sync ? shim("LEAT_SHIM_SYNC", SHIM_SYNC) : "");
    snprintf(x->clock, sizeof x->clock, "SHIM_CLOCK_FILE=%s",
             s->opts.clock_file ? s->opts.clock_file : "");
    snprintf(x->sync, sizeof x->sync, "SHIM_SYNC_FILE=%s/sync", s->dir);
    if (s->opts.clock_file || s->sync)
        env[out++] = x->preload;
    if (s->opts.clock_file)
        env[out++] = x->clock;
    if (s->sync)
        env[out++] = x->sync;
    return env;
}

/* A file that may not grow is to a server what a full disk is: its write fails.
 * The signal that comes with it stays ignored over exec. */
static void limit_files(const redis_server *s)
{
    struct rlimit r = { (rlim_t)s->opts.file_limit, RLIM_INFINITY };
    if (s->opts.file_limit == 0)
        return;
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)setrlimit(RLIMIT_FSIZE, &r);
}

static void run_server(const redis_server *s, const char *conf, char **env,
                       int go, int log)
{
    char byte;
    char *argv[] = { "redis-server", (char *)conf,
                     s->opts.sentinel ? "--sentinel" : NULL, NULL };
    if (read(go, &byte, 1) != 1)
        _exit(0);
    int null = open("/dev/null", O_RDONLY);
    child_stdio(null, log);
    limit_files(s);
    execve(s->program, argv, env);
    _exit(127);
}

static bool spawn_server(redis_server *s)
{
    char conf[PATH_SIZE], log[PATH_SIZE];
    struct extra x;
    snprintf(conf, sizeof conf, "%s/conf", s->dir);
    snprintf(log, sizeof log, "%s/log", s->dir);
    int go[2];
    char **env = child_env(s, &x);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (!env || fd < 0 || pipe2(go, O_CLOEXEC) != 0) {
        free(env);
        return false;
    }
    s->pid = fork();
    if (s->pid == 0) {
        close(go[1]);
        run_server(s, conf, env, go[0], fd);
    }
    close(go[0]);
    close(fd);
    free(env);
    if (s->pid > 0) {
        tell_watcher(s, s->pid);
        (void)!write(go[1], "g", 1);
    }
    close(go[1]);
    return s->pid > 0;
}

static void forget_side(redis_server *s)
{
    if (s->side)
        redisFree(s->side);
    s->side = NULL;
}

/* The process has ended: the watcher must not kill its number any more. */
static void reap(redis_server *s)
{
    tell_watcher(s, 0);
    waitpid(s->pid, NULL, 0);
    s->pid = 0;
    forget_side(s);
}

bool redis_alive(redis_server *s)
{
    siginfo_t info = { 0 };
    if (s->pid <= 0)
        return false;
    if (waitid(P_PID, (id_t)s->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
        return false;
    if (info.si_pid == 0)
        return true;
    reap(s);
    return false;
}

static void end_server(redis_server *s, int sig)
{
    if (!redis_alive(s))
        return;
    kill(s->pid, sig);
    kill(s->pid, SIGCONT);
    for (int64_t end = wait_now_ms() + END_MS; redis_alive(s); wait_nap(1))
        if (wait_now_ms() > end)
            kill(s->pid, SIGKILL);
}

/* Starting */

static redisContext *side_connect(redis_server *s)
{
    struct timeval wait = { .tv_sec = 5 };
    redisContext *c = redisConnectUnixWithTimeout(s->socket, wait);
    if (!c || c->err) {
        if (c)
            redisFree(c);
        return NULL;
    }
    redisSetTimeout(c, wait);
    if (!s->opts.password && !s->opts.user)
        return c;
    redisReply *r = redisCommand(c, "AUTH %s %s",
                                 s->opts.user ? s->opts.user : "default",
                                 s->opts.password ? s->opts.password : "");
    if (r)
        freeReplyObject(r);
    return c;
}

static bool is_ready(redis_server *s)
{
    bool ready = false;
    redisReply *r = redis_raw(s, "PING");
    if (r && r->type == REDIS_REPLY_STATUS)
        ready = strcmp(r->str, "PONG") == 0;
    if (r && r->type == REDIS_REPLY_ERROR && s->opts.loading_is_ready)
        ready = strncmp(r->str, "LOADING", 7) == 0;
    if (r)
        freeReplyObject(r);
    return ready;
}

static bool start_once(redis_server *s)
{
    if (!write_config(s) || !spawn_server(s)) {
        show_log(s, "cannot start");
        return false;
    }
    int64_t end = wait_now_ms() + s->opts.start_ms;
    while (!is_ready(s)) {
        if (!redis_alive(s) || wait_now_ms() > end) {
            end_server(s, SIGKILL);
            return false;
        }
        wait_nap(1);
    }
    return true;
}

/* With tcp or tls the port may be taken in between: try some. */
static bool start(redis_server *s)
{
    bool ports = s->opts.tcp || s->opts.tls;
    for (int i = 0; i < (ports ? PORT_TRIES : 1); i++) {
        if (s->opts.tcp && (i > 0 || s->port == 0))
            s->port = redis_free_port();
        if (s->opts.tls && (i > 0 || s->tls_port == 0))
            s->tls_port = redis_free_port();
        if (start_once(s))
            return true;
    }
    show_log(s, "not ready");
    return false;
}

static bool map_sync(redis_server *s)
{
    char path[PATH_SIZE];
    if (!s->opts.sync_shim)
        return true;
    snprintf(path, sizeof path, "%s/sync", s->dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    void *p = MAP_FAILED;
    if (ftruncate(fd, sizeof *s->sync) == 0)
        p = mmap(NULL, sizeof *s->sync, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                 0);
    close(fd);
    s->sync = p == MAP_FAILED ? NULL : p;
    return s->sync != NULL;
}

redis_server *redis_start(const redis_opts *opts)
{
    redis_server *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->watch_fd = -1;
    copy_opts(s, opts);
    if (!find_program(s->program, sizeof s->program)) {
        fprintf(stderr, "redis_start: no redis-server; set LEAT_REDIS_SERVER "
                        "or install redis-tools\n");
        goto fail;
    }
    if (!make_dir(s) || !map_sync(s) || !start_watcher(s)) {
        fprintf(stderr, "redis_start: %s: %s\n", s->dir, strerror(errno));
        goto fail;
    }
    snprintf(s->socket, sizeof s->socket, "%s/s", s->dir);
    if (start(s))
        return s;

fail:
    redis_stop(s);
    return NULL;
}

void redis_stop(redis_server *s)
{
    if (!s)
        return;
    end_server(s, s->opts.dir ? SIGTERM : SIGKILL);
    forget_side(s);
    if (s->watch_fd >= 0)
        close(s->watch_fd);
    if (s->watcher > 0)
        waitpid(s->watcher, NULL, 0);
    if (s->sync)
        munmap(s->sync, sizeof *s->sync);
    free_opts(s);
    free(s);
}

void redis_kill(redis_server *s)
{
    end_server(s, SIGKILL);
}

/* The power cut */

struct shim_sync *redis_sync(redis_server *s)
{
    return s->sync;
}

static int64_t synced_length(const struct shim_sync *sync, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t file = fd >= 0 ? shim_sync_file(fd) : 0;
    if (fd >= 0)
        close(fd);
    for (int i = 0; file && i < SHIM_SYNC_FILES; i++)
        if (sync->files[i].file == file)
            return sync->files[i].length;
    return 0;
}

static const struct shim_sync *cutting; /* nftw passes no argument */

/* Only data: the rig's own files are no part of the disk. */
static int cut_one(const char *path, const struct stat *st, int type,
                   struct FTW *where)
{
    static const char *const ours[] = { "conf", "log", "s", "sync" };
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (where->level == 1 && strcmp(path + where->base, ours[i]) == 0)
            return 0;
    if (type != FTW_F)
        return 0;
    int64_t keep = synced_length(cutting, path);
    if (keep < st->st_size && truncate(path, keep) != 0)
        fprintf(stderr, "redis_power_cut: %s: %s\n", path, strerror(errno));
    return 0;
}

void redis_power_cut(redis_server *s)
{
    end_server(s, SIGKILL);
    cutting = s->sync;
    (void)nftw(s->dir, cut_one, 16, FTW_PHYS);
}

void redis_set_file_limit(redis_server *s, int64_t bytes)
{
    s->opts.file_limit = bytes;
}

void redis_shutdown(redis_server *s)
{
    end_server(s, SIGTERM);
}

bool redis_restart(redis_server *s)
{
    end_server(s, SIGTERM);
    unlink(s->socket);
    /* Clients hold the old port: keep it if it can be had. */
    return start(s);
}

void redis_pause(redis_server *s)
{
    siginfo_t info;
    if (redis_alive(s) && kill(s->pid, SIGSTOP) == 0)
        waitid(P_PID, (id_t)s->pid, &info, WSTOPPED | WEXITED | WNOWAIT);
}

void redis_resume(redis_server *s)
{
    if (redis_alive(s))
        kill(s->pid, SIGCONT);
}

const char *redis_socket(const redis_server *s)
{
    return s->socket;
}

const char *redis_dir(const redis_server *s)
{
    return s->dir;
}

int redis_port(const redis_server *s)
{
    return s->port;
}

int redis_tls_port(const redis_server *s)
{
    return s->tls_port;
}

pid_t redis_pid(const redis_server *s)
{
    return s->pid;
}

static int url_user(const redis_server *s, char *buf, size_t size)
{
    const redis_opts *o = &s->opts;
    if (!o->user && !o->password)
        return snprintf(buf, size, "%s", "");
    return snprintf(buf, size, "%s:%s@", o->user ? o->user : "",
                    o->password ? o->password : "");
}

char *redis_url_unix(const redis_server *s, char *buf, size_t size)
{
    char who[256];
    url_user(s, who, sizeof who);
    snprintf(buf, size, "unix://%s%s", who, s->socket);
    return buf;
}

char *redis_url_tls(const redis_server *s, char *buf, size_t size)
{
    char who[256];
    url_user(s, who, sizeof who);
    snprintf(buf, size, "rediss://%slocalhost:%d?cafile=%s/ca.crt", who,
             s->tls_port, s->opts.tls);
    return buf;
}

char *redis_url(const redis_server *s, char *buf, size_t size)
{
    char who[256];
    if (!s->port)
        return redis_url_unix(s, buf, size);
    url_user(s, who, sizeof who);
    snprintf(buf, size, "redis://%s127.0.0.1:%d", who, s->port);
    return buf;
}

/* The look from the side */

/* hiredis writes without MSG_NOSIGNAL; a server that closed our connection must
 * not end the test program by SIGPIPE. */
static redisReply *command(redisContext *c, const char *format, va_list args)
{
    sigset_t pipe_set, old;
    struct timespec none = { 0 };
    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_set, &old);
    redisReply *r = redisvCommand(c, format, args);
    if (!sigismember(&old, SIGPIPE))
        while (sigtimedwait(&pipe_set, NULL, &none) > 0)
            ;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return r;
}

/* A connection that broke (the server was restarted) is made once more: what
 * is asked here is asked again without harm. */
static redisReply *ask(redis_server *s, const char *format, va_list args)
{
    for (int i = 0; i < 2; i++) {
        va_list again;
        if (!s->side)
            s->side = side_connect(s);
        if (!s->side)
            return NULL;
        va_copy(again, args);
        redisReply *r = command(s->side, format, again);
        va_end(again);
        if (r)
            return r;
        forget_side(s);
    }
    return NULL;
}

redisReply *redis_raw(redis_server *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *r = ask(s, format, args);
    va_end(args);
    return r;
}

int64_t redis_int(redis_server *s, const char *format, ...)
{
    int64_t n = INT64_MIN;
    va_list args;
    va_start(args, format);
    redisReply *r = ask(s, format, args);
    va_end(args);
    if (r && r->type == REDIS_REPLY_INTEGER)
        n = r->integer;
    else if (r && r->type == REDIS_REPLY_STRING)
        n = strtoll(r->str, NULL, 10);
    else if (r && r->type == REDIS_REPLY_ARRAY)
        n = (int64_t)r->elements;
    if (r)
        freeReplyObject(r);
    return n;
}

char *redis_text(redis_server *s, char *buf, size_t size, const char *format,
                 ...)
{
    va_list args;
    va_start(args, format);
    redisReply *r = ask(s, format, args);
    va_end(args);
    snprintf(buf, size, "%s", r && r->str ? r->str : "");
    if (r)
        freeReplyObject(r);
    return buf;
}

int64_t redis_accepted(redis_server *s)
{
    static const char name[] = "total_connections_received:";
    char text[16384];
    redis_text(s, text, sizeof text, "INFO stats");
    const char *at = strstr(text, name);
    return at ? strtoll(at + sizeof name - 1, NULL, 10) : -1;
}

bool redis_flush(redis_server *s)
{
    char text[64];
    return strcmp(redis_text(s, text, sizeof text, "FLUSHALL"), "OK") == 0;
}
