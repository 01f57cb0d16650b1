/*
 * cmd_up.c: leat up and leat down: keep a private server running.
 *
 *   DIR/up.pid   pid, server's pid and URL, a line each; locked (fcntl) by
 *                the process that holds the server
 *
 * The server lives as long as somebody uses it, so `up` leaves a process behind
 * that does just that.  `down` asks the kernel who has the lock, never the
 * file's text alone: a lock goes with its process, so a number left by a crash
 * is never signalled.  The file itself stays: removing it would let two
 * processes hold the lock of two files of one name.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_AFTER_MS 2000

/* ---- directories ------------------------------------------------------ */

static int hex(char c)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) & 15 : -1;
}

/* The directory of an embedded: URL; NULL where there is no home. */
char *embedded_dir(const char *url)
{
    const char *s = url + strlen("embedded:");
    if (strncmp(s, "//", 2) == 0)
        s += 2;
    size_t n = strcspn(s, "?#"), o = 0;
    if (n == 0)
        return home_path("XDG_STATE_HOME", ".local/state", "leat/redis");
    char *dir = grab(n + 1);
    for (size_t i = 0; i < n; i++) {
        int high = s[i] == '%' && i + 2 < n ? hex(s[i + 1]) : -1;
        int low = high >= 0 ? hex(s[i + 2]) : -1;
        dir[o++] = low >= 0 ? (char)(high << 4 | low) : s[i];
        i += low >= 0 ? 2 : 0;
    }
    return dir;
}

static char *dir_url(const char *dir)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-~";
    char *url = grab(strlen(dir) * 3 + 16);
    size_t o = (size_t)snprintf(url, 16, "embedded://");
    for (; *dir; dir++) {
        if (strchr(plain, *dir))
            url[o++] = *dir;
        else
            o += (size_t)snprintf(url + o, 4, "%%%02X", (unsigned char)*dir);
    }
    return url;
}

static char *absolute(const char *dir)
{
    char *real = realpath(dir, NULL);
    if (real || dir[0] == '/')
        return real ? real : copy(dir);
    char *here = getcwd(NULL, 0);
    char *path = format("%s/%s", here ? here : "", dir);
    free(here);
    return path;
}

/* Directory and URL from --dir or the URL in force. */
static bool place(cli *c, char **dir, char **url, int *code)
{
    const char *given = value_text(c, "dir");
    const char *u = value_text(c, "url");
    *dir = *url = NULL;
    *code = 0;
    if (given) {
        *dir = absolute(given);
        *url = dir_url(*dir);
        return true;
    }
    if (!url_is_embedded(u)) {
        char *shown = url_mask(u);
        *code = fail(EXIT_USAGE,
                     "name a directory: --dir DIR, or "
                     "--url embedded:",
                     "%s: not a server that leat starts or stops", shown);
        free(shown);
        return false;
    }
    *url = copy(u);
    *dir = embedded_dir(u);
    if (!*dir)
        *code = fail(EXIT_CONFIG, "set HOME, or give --dir",
                     "no home directory to keep the server in");
    return *dir != NULL;
}

/* ---- the pid file ----------------------------------------------------- */

static int open_pid_file(const char *dir, int flags)
{
    char *path = format("%s/up.pid", dir);
    int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    free(path);
    return fd;
}

/* The process that holds the lock; 0: none. */
static long lock_owner(int fd)
{
    struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    if (fcntl(fd, F_GETLK, &l) < 0 || l.l_type == F_UNLCK)
        return 0;
    return l.l_pid;
}

static bool take_lock(int fd)
{
    struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    return fcntl(fd, F_SETLK, &l) == 0;
}

long holder_pid(const char *dir)
{
    int fd = open_pid_file(dir, O_RDWR);
    if (fd < 0)
        return 0;
    long pid = lock_owner(fd);
    close(fd);
    return pid;
}

static bool write_pid_file(int fd, long server, const char *url)
{
    char *text = format("%ld\n%ld\n%s\n", (long)getpid(), server, url);
    size_t n = strlen(text);
    bool good = ftruncate(fd, 0) == 0 && pwrite(fd, text, n, 0) == (ssize_t)n;
    free(text);
    return good;
}

static void read_pid_file(int fd, long *holder, long *server)
{
    size_t n = 0;
    char *text = slurp(fd, 8192, &n), *end = text;
    *holder = *server = 0;
    if (!text)
        return;
    *holder = strtol(text, &end, 10);
    *server = strtol(end, NULL, 10);
    free(text);
}

/* ---- holding ---------------------------------------------------------- */

typedef struct holder {
    cli *c;
    const char *dir, *url;
    int ready; /* a byte is written here when it runs; -1: nobody waits */
} holder;

static void tell(const holder *h, int code)
{
    unsigned char byte = (unsigned char)code;
    if (h->ready >= 0)
        while (write(h->ready, &byte, 1) < 0 && errno == EINTR)
            continue;
}

static void announce(const char *url)
{
    puts(url);
    fflush(stdout);
}

static void to_null(int from, int to)
{
    int fd = open("/dev/null", O_RDWR);
    for (int i = from; i <= to && fd >= 0; i++)
        dup2(fd, i);
    if (fd > 2)
        close(fd);
}

/* Until a signal asks to stop: see now and then that the server is there,
 * which starts it again if it is not. */
static void stay(leat_client *client, const sigset_t *stops)
{
    struct timespec pause = { .tv_sec = LOOK_AFTER_MS / 1000 };
    int got;
    while ((got = sigtimedwait(stops, NULL, &pause)) < 0) {
        leat_reply *reply = NULL;
        leat_call_opts again = { .idempotent = true };
        if (leat_client_call(client, LEAT_ARGS(leat_str("PING")), &again,
                             &reply, NULL) == LEAT_OK)
            leat_reply_free(reply);
    }
    stop_signal = got;
}

static int already_up(const holder *h, long pid)
{
    note("already up, held by process %ld", pid);
    if (h->ready < 0)
        announce(h->url);
    return 0;
}

static int hold(const holder *h)
{
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGHUP);
    /* Blocked before the library makes threads, which inherit that. */
    sigprocmask(SIG_BLOCK, &stops, NULL);

    int code = 0, fd = open_pid_file(h->dir, O_RDWR | O_CREAT);
    if (fd < 0)
        return fail(EXIT_IO,
                    "--dir DIR, or XDG_STATE_HOME, names a directory that can "
                    "be written",
                    "%s/up.pid: %m", h->dir);
    if (!take_lock(fd)) {
        long pid = lock_owner(fd);
        close(fd);
        return already_up(h, pid);
    }
    leat_client *client = client_open(h->c, h->url, "leat-up", &code);
    if (client && !write_pid_file(fd, server_pid(client), h->url))
        code = fail(EXIT_IO, NULL, "%s/up.pid: %m", h->dir);
    if (client && code == 0) {
        if (h->ready < 0)
            announce(h->url);
        tell(h, 0);
        if (h->ready >= 0) {
            report_style(false, true, 0);
            to_null(0, 2);
        }
        stay(client, &stops);
    }
    leat_client_close(client);
    close(fd);
    return code;
}

/* In the background: two forks, so that the holder has no terminal and no
 * parent.  The byte it sends back is the exit code of `up`. */
static int hold_behind(holder *h)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return fail(EXIT_IO, NULL, "pipe: %m");
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0)
        return fail(EXIT_IO, NULL, "fork: %m");
    if (pid == 0) {
        (void)setsid();
        if (fork() != 0)
            _exit(0);
        if (chdir("/") < 0)
            _exit(EXIT_IO);
        to_null(0, 1);
        h->ready = ends[1];
        int code = hold(h);
        tell(h, code);
        _exit(code);
    }
    close(ends[1]);
    unsigned char code = EXIT_BUG;
    ssize_t n;
    do
        n = read(ends[0], &code, 1);
    while (n < 0 && errno == EINTR && !stop_signal);
    close(ends[0]);
    if (stop_signal)
        return EXIT_SIGNAL + stop_signal;
    if (n != 1)
        return fail(EXIT_BUG, NULL, "the holder ended without a word");
    if (code == 0)
        announce(h->url);
    return code;
}

int run_up(cli *c)
{
    char *dir, *url;
    int code;
    if (place(c, &dir, &url, &code)) {
        holder h = { .c = c, .dir = dir, .url = url, .ready = -1 };
        make_dirs(dir);
        code = value_on(c, "foreground") ? hold(&h) : hold_behind(&h);
    }
    free(dir);
    free(url);
    return code;
}

/* ---- down ------------------------------------------------------------- */

static int pidfd_open_(long pid)
{
    return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
}

/* Signal the very process that holds the lock: the handle is taken first, and
 * the lock looked at again, so the number cannot have changed hands. */
static int end_holder(int fd, long pid, const char *dir, int64_t timeout_ms)
{
    int process = pidfd_open_(pid);
    if (process < 0)
        return errno == ESRCH ? 0 : fail(EXIT_IO, NULL, "process %ld: %m", pid);
    int code = 0;
    if (lock_owner(fd) == pid &&
        syscall(SYS_pidfd_send_signal, process, SIGTERM, NULL, 0) < 0 &&
        errno != ESRCH)
        code = fail(errno == EPERM ? EXIT_DENIED : EXIT_IO, NULL,
                    "process %ld, which holds %s: %m", pid, dir);
    struct pollfd p = { .fd = process, .events = POLLIN };
    int wait = timeout_ms > INT_MAX ? INT_MAX : (int)timeout_ms;
    if (code == 0 && poll(&p, 1, wait) == 0)
        code = fail(EXIT_TRY_AGAIN, NULL,
                    "process %ld, which holds %s, did not end in time", pid,
                    dir);
    close(process);
    return code;
}

static int down(int fd, const char *dir, int64_t timeout_ms)
{
    long pid = lock_owner(fd), written, server;
    read_pid_file(fd, &written, &server);
    if (pid == 0) {
        note("nothing runs in %s", dir);
        return 0;
    }
    if (written != pid)
        return fail(EXIT_TRY_AGAIN, "try again: it may be starting",
                    "%s is held by process %ld, which is not what 'leat up' "
                    "wrote there",
                    dir, pid);
    int code = end_holder(fd, pid, dir, timeout_ms);
    if (code)
        return code;
    if (server > 0 && !wait_gone(server, timeout_ms))
        note("%s is no longer held; the server stays while other programs "
             "use it",
             dir);
    else
        note("stopped; the data is in %s", dir);
    return 0;
}

int run_down(cli *c)
{
    char *dir, *url;
    int code;
    if (place(c, &dir, &url, &code)) {
        int fd = open_pid_file(dir, O_RDWR);
        if (fd >= 0) {
            code = down(fd, dir, value_ms(c, "timeout"));
            close(fd);
        } else if (errno == ENOENT || errno == ENOTDIR) {
            note("nothing runs in %s", dir);
        } else {
            code = fail(EXIT_IO, NULL, "%s/up.pid: %m", dir);
        }
    }
    free(dir);
    free(url);
    return code;
}
