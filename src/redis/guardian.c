/*
 * guardian.c: the process that owns an embedded redis-server.
 *
 *   starting   takes byte 0 of server.lock; leaves if it is taken, or if a
 *              server still holds byte 1
 *   guarding   the server runs or is about to be started again; waits for the
 *              exclusive lock on users.lock
 *   stopping   has that lock: no user is left and none can come; ends the
 *              server, removes the socket, leaves
 *
 * The program that forks it may have threads, so between the fork and the exec
 * or _exit only calls that are safe in a signal handler are made, on memory
 * that was filled before.
 *
 * Locks on server.lock are fcntl locks: they belong to one process, are kept by
 * exec and not by fork, and can be looked at without being taken.  So byte 1 is
 * held by the very process that is redis-server, whoever started it, and two
 * servers never write one directory.
 *
 * What a crash leaves: if the guardian is killed the server gets SIGTERM from
 * the kernel and ends in order; if the server is killed it is started again.
 * Locks go with their process.  A stale socket or guardian.pid means nothing.
 *
 * It is a fork and not a program of its own, so that the library needs no file
 * installed beside it.  The price: ps shows the command line of the program
 * that started it (its name is leat-guardian), and pages that program changes
 * later are kept twice.
 */
#include "redis/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TICK_MS       500 /* the longest a missed signal stays unseen    */
#define STOP_MS       10000
#define PAUSE_MIN_MS  100 /* before a server that died is started again  */
#define PAUSE_MAX_MS  5000
#define STABLE_MS     10000 /* having lived that long, it is forgiven      */
#define LOG_MAX_BYTES (1024L * 1024)
#define REPORT_FD     3

typedef struct guardian {
    const leat__guardian_plan *plan;
    long max_fd;
    int report; /* -1 once nobody listens */
    int users;
    int lock;
    int log;
    pid_t server;     /* 0: none             */
    int64_t born_ms;  /* when it was started */
    int64_t again_ms; /* when to start one   */
    int64_t pause_ms;
} guardian;

static volatile sig_atomic_t stop_asked;

static void on_signal(int sig)
{
    if (sig == SIGTERM)
        stop_asked = 1;
}

/* ---- small things that are safe after a fork -------------------------- */

/* Without the handlers a program has registered: in a child of a threaded
 * program they may wait for a lock nobody will free. */
static pid_t fork_plainly(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    return _Fork();
#else
    return fork();
#endif
}

static int64_t clock_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void nap(int64_t ms)
{
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
    nanosleep(&t, NULL);
}

/* Wake every ms: a signal that comes just before a blocking call would
 * otherwise be slept over. */
static void tick(int64_t ms)
{
    struct timeval t = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
    struct itimerval every = { .it_interval = t, .it_value = t };
    setitimer(ITIMER_REAL, &every, NULL);
}

static void tell(guardian *g, leat__guardian_news news, int detail)
{
    leat__guardian_report r = { .news = (int32_t)news, .detail = detail };
    if (g->report < 0 || write(g->report, &r, sizeof r) == (ssize_t)sizeof r)
        return;
    close(g->report);
    g->report = -1;
}

_Noreturn static void leave(guardian *g, leat__guardian_news news, int detail)
{
    tell(g, news, detail);
    _exit(1);
}

static void close_from(int first, long max_fd)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    if (close_range((unsigned)first, ~0u, 0) == 0)
        return;
#endif
    for (long fd = first; fd < max_fd; fd++)
        close((int)fd);
}

static int set_lock(int fd, int command, leat__guardian_role role,
                    struct flock *l)
{
    *l = (struct flock){
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = role, .l_len = 1
    };
    return fcntl(fd, command, l);
}

/* ---- becoming a guardian ---------------------------------------------- */

static void handle(int sig, void (*fn)(int))
{
    struct sigaction a = { .sa_handler = fn }; /* no SA_RESTART: to wake up */
    sigaction(sig, &a, NULL);
}

static void unblock_all(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The program's own handlers must not run here. */
static void take_signals(void)
{
    for (int sig = 1; sig < NSIG; sig++)
        handle(sig, SIG_DFL);
    handle(SIGHUP, SIG_IGN);
    handle(SIGINT, SIG_IGN);
    handle(SIGQUIT, SIG_IGN);
    handle(SIGPIPE, SIG_IGN);
    handle(SIGTERM, on_signal);
    handle(SIGCHLD, on_signal);
    handle(SIGALRM, on_signal);
    unblock_all();
}

/* Keep the report and nothing else: an inherited socket or lock would outlive
 * the program that owns it. */
static void shed_files(guardian *g)
{
    if (g->report != REPORT_FD)
        dup2(g->report, REPORT_FD);
    g->report = REPORT_FD;
    fcntl(REPORT_FD, F_SETFD, FD_CLOEXEC);
    int null = open("/dev/null", O_RDWR); /* not CLOEXEC: may be 0 to 2 */
    if (null < 0)
        leave(g, LEAT__GUARDIAN_FAILED, errno);
    for (int fd = 0; fd < REPORT_FD; fd++)
        dup2(null, fd);
    close_from(REPORT_FD + 1, g->max_fd);
}

static void take_directory(guardian *g)
{
    struct flock l;
    if (chdir(g->plan->dir) != 0)
        leave(g, LEAT__GUARDIAN_FAILED, errno);
    g->lock = open(LEAT__EMBEDDED_SERVER,
                   O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    g->users = open(LEAT__EMBEDDED_USERS,
                    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (g->lock < 0 || g->users < 0)
        leave(g, LEAT__GUARDIAN_FAILED, errno);
    if (set_lock(g->lock, F_SETLK, LEAT__GUARDIAN_ITSELF, &l) != 0) {
        bool taken = errno == EAGAIN || errno == EACCES;
        leave(g, taken ? LEAT__GUARDIAN_BUSY : LEAT__GUARDIAN_FAILED, errno);
    }
    /* Only guardians start servers, so one that is gone stays gone. */
    if (set_lock(g->lock, F_GETLK, LEAT__GUARDIAN_SERVER, &l) != 0)
        leave(g, LEAT__GUARDIAN_FAILED, errno);
    if (l.l_type != F_UNLCK)
        leave(g, LEAT__GUARDIAN_BUSY, 0);
}

static void open_log(guardian *g)
{
    struct stat st;
    if (stat(LEAT__EMBEDDED_LOG, &st) == 0 && st.st_size > LOG_MAX_BYTES)
        (void)rename(LEAT__EMBEDDED_LOG, LEAT__EMBEDDED_LOG ".1");
    g->log = open(LEAT__EMBEDDED_LOG,
                  O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (g->log < 0)
        leave(g, LEAT__GUARDIAN_FAILED, errno);
}

/* For people; nothing reads it. */
static void write_pid(void)
{
    char text[16];
    size_t at = sizeof text;
    text[--at] = '\n';
    for (pid_t pid = getpid(); pid > 0; pid /= 10)
        text[--at] = (char)('0' + pid % 10);
    int fd = open(LEAT__EMBEDDED_PID,
                  O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    if (write(fd, text + at, sizeof text - at) < 0)
        unlink(LEAT__EMBEDDED_PID);
    close(fd);
}

/* ---- the server ------------------------------------------------------- */

/* In the child: become redis-server, or tell why not. */
_Noreturn static void run_server(guardian *g, pid_t parent, int why)
{
    struct flock l;
    for (int sig = 1; sig < NSIG; sig++)
        handle(sig, SIG_DFL);
    unblock_all();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) /* it died before the line above */
        _exit(1);
    /* The lock must survive exec, and closing the file would drop it. */
    if (set_lock(g->lock, F_SETLK, LEAT__GUARDIAN_SERVER, &l) == 0 &&
        fcntl(g->lock, F_SETFD, 0) == 0) {
        dup2(g->log, 1);
        dup2(g->log, 2);
        execve(g->plan->program, g->plan->argv, g->plan->envp);
    }
    int e = errno;
    if (write(why, &e, sizeof e) < 0)
        _exit(2);
    _exit(1);
}

/* Wait for the exec: 0, or the errno it failed with. */
static int exec_outcome(int fd)
{
    int e = 0;
    ssize_t n;
    do {
        n = read(fd, &e, sizeof e);
    } while (n < 0 && errno == EINTR);
    close(fd);
    return n == (ssize_t)sizeof e ? e : 0;
}

/* 0, or the errno that kept it from running. */
static int start_server(guardian *g)
{
    int why[2];
    pid_t self = getpid();
    if (pipe2(why, O_CLOEXEC) != 0)
        return errno;
    pid_t pid = fork_plainly();
    if (pid == 0)
        run_server(g, self, why[1]);
    int e = errno;
    close(why[1]);
    if (pid < 0) {
        close(why[0]);
        return e;
    }
    e = exec_outcome(why[0]);
    if (e != 0) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        return e;
    }
    g->server = pid;
    g->born_ms = clock_ms();
    tell(g, LEAT__GUARDIAN_RUNNING, (int)pid);
    return 0;
}

static void plan_restart(guardian *g)
{
    int64_t now = clock_ms();
    bool stable = g->born_ms > 0 && now - g->born_ms >= STABLE_MS;
    g->pause_ms = stable || g->pause_ms == 0 ? PAUSE_MIN_MS : g->pause_ms * 2;
    if (g->pause_ms > PAUSE_MAX_MS)
        g->pause_ms = PAUSE_MAX_MS;
    g->again_ms = now + g->pause_ms;
    tick(PAUSE_MIN_MS);
}

static void look_after_server(guardian *g)
{
    int status;
    if (g->server > 0 && waitpid(g->server, &status, WNOHANG) == g->server) {
        g->server = 0;
        tell(g, LEAT__GUARDIAN_ENDED, status);
        plan_restart(g);
    }
    if (g->server > 0 || clock_ms() < g->again_ms)
        return;
    if (start_server(g) == 0)
        tick(TICK_MS);
    else
        plan_restart(g);
}

static void stop_server(guardian *g)
{
    int64_t deadline = clock_ms() + STOP_MS;
    if (g->server <= 0)
        return;
    kill(g->server, SIGTERM);
    while (waitpid(g->server, NULL, WNOHANG) == 0) {
        if (clock_ms() >= deadline)
            kill(g->server, SIGKILL);
        nap(2);
    }
    g->server = 0;
}

/* ---- guarding --------------------------------------------------------- */

/* Returns when no user is left, with the lock that keeps new ones waiting, or
 * when told to stop. */
static void guard(guardian *g)
{
    tick(TICK_MS);
    while (!stop_asked && flock(g->users, LOCK_EX) != 0) {
        if (errno != EINTR)
            nap(TICK_MS);
        look_after_server(g);
    }
}

_Noreturn static void be_guardian(guardian *g)
{
    take_signals();
    shed_files(g);
    umask(077);
    take_directory(g);
    prctl(PR_SET_NAME, "leat-guardian");
    open_log(g);
    int e = start_server(g);
    if (e != 0)
        leave(g, LEAT__GUARDIAN_NOEXEC, e);
    write_pid();
    guard(g);
    stop_server(g);
    unlink(LEAT__EMBEDDED_SOCKET);
    unlink(LEAT__EMBEDDED_PID);
    _exit(0);
}

/* ---- in the program --------------------------------------------------- */

static long highest_fd(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur > 1024L * 1024)
        return 1024L * 1024;
    return (long)r.rlim_cur;
}

static bool is_ours(const char *variable)
{
    static const char *const names[] = { "LEAT_PASSWORD=", "LEAT_URL=",
                                         "REDISCLI_AUTH=" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* Guardian and server live longer than the program, and ps shows what each has
 * in its environment.  Ours is where the kernel put it, so it is written over;
 * by a read, which fails where a program keeps a variable in memory that is not
 * to be written. */
static void forget_secrets(char **envp)
{
    size_t kept = 0;
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; envp[i]; i++) {
        if (!is_ours(envp[i]))
            envp[kept++] = envp[i];
        else if (zero >= 0)
            (void)!read(zero, envp[i], strlen(envp[i]));
    }
    envp[kept] = NULL;
    if (zero >= 0)
        close(zero);
}

/* The first child only makes the second an orphan, in a session of its own. */
static pid_t fork_guardian(guardian *g)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pid_t pid = fork_plainly();
    if (pid == 0) {
        setsid();
        pid = fork_plainly();
        if (pid == 0) {
            forget_secrets(g->plan->envp);
            be_guardian(g);
        }
        if (pid < 0)
            tell(g, LEAT__GUARDIAN_FAILED, errno);
        _exit(0);
    }
    int e = errno;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = e;
    return pid;
}

leat_code leat__guardian_start(const leat__guardian_plan *plan, int *report,
                               leat_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return leat__fail_errno(err, LEAT_EIO, errno,
                                "embedded: no pipe to the guardian");
    guardian g = { .plan = plan, .max_fd = highest_fd(), .report = ends[1] };
    pid_t pid = fork_guardian(&g);
    int e = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return leat__fail_errno(err, LEAT_EIO, e,
                                "embedded: the guardian cannot be forked");
    }
    /* A program that ignores SIGCHLD or waits for any child leaves nothing to
     * wait for; that is as good. */
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *report = ends[0];
    return LEAT_OK;
}

pid_t leat__guardian_find(const char *server_lock, leat__guardian_role role)
{
    struct flock l;
    int fd = open(server_lock, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? 0 : -1;
    int rc = set_lock(fd, F_GETLK, role, &l);
    int e = errno;
    close(fd);
    errno = e;
    if (rc != 0)
        return -1;
    return l.l_type == F_UNLCK ? 0 : l.l_pid > 0 ? l.l_pid : 1;
}
