/* proc.c: see proc.h. */
#include "support/proc.h"
#include "support/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct proc {
    pid_t pid;
    bool ended;
    int status;
    int in, out; /* its stdin (a socket, for MSG_NOSIGNAL), its stdout */
    size_t len;
    char buf[64 * 1024];
};

static char **merged_env(const char *const *more)
{
    size_t n = 0, m = 0, out = 0;
    while (environ[n])
        n++;
    while (more && more[m])
        m++;
    char **env = calloc(n + m + 1, sizeof *env);
    for (size_t i = 0; env && i < m; i++)
        env[out++] = (char *)more[i];
    for (size_t i = 0; env && i < n; i++) {
        size_t name = strcspn(environ[i], "=") + 1, k = 0;
        while (k < m && strncmp(more[k], environ[i], name) != 0)
            k++;
        if (k == m)
            env[out++] = environ[i];
    }
    return env;
}

/* Between fork and exec: only what is safe after a threaded fork. */
static void become(const char *const argv[], char **env, const int fds[3],
                   pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0); /* it died before we asked to follow */
    dup2(fds[0], 0);
    dup2(fds[1], 1);
    if (fds[2] >= 0)
        dup2(fds[2], 2);
    execvpe(argv[0], (char *const *)argv, env);
    _exit(127);
}

proc *proc_start(const char *const argv[], const proc_opts *opts)
{
    int in[2] = { -1, -1 }, out[2] = { -1, -1 };
    proc *p = calloc(1, sizeof *p);
    char **env = merged_env(opts ? opts->env : NULL);
    if (!p || !env ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0 ||
        pipe2(out, O_CLOEXEC) != 0)
        goto fail;
    int fds[3] = { in[1], out[1], opts && opts->with_stderr ? out[1] : -1 };
    pid_t parent = getpid();
    p->pid = fork();
    if (p->pid == 0)
        become(argv, env, fds, parent);
    close(in[1]);
    close(out[1]);
    p->in = in[0];
    p->out = out[0];
    free(env);
    if (p->pid > 0)
        return p;
    env = NULL;
    in[1] = out[1] = -1;

fail:
    fprintf(stderr, "proc_start: %s: %s\n", argv[0], strerror(errno));
    for (int i = 0; i < 2; i++) {
        if (in[i] >= 0)
            close(in[i]);
        if (out[i] >= 0)
            close(out[i]);
    }
    free(env);
    free(p);
    return NULL;
}

pid_t proc_pid(const proc *p)
{
    return p->pid;
}

bool proc_write(proc *p, const char *text)
{
    size_t n = strlen(text);
    while (n > 0 && p->in >= 0) {
        ssize_t r = send(p->in, text, n, MSG_NOSIGNAL);
        if (r < 0)
            return false;
        text += r;
        n -= (size_t)r;
    }
    return n == 0;
}

void proc_close_stdin(proc *p)
{
    if (p->in >= 0)
        close(p->in);
    p->in = -1;
}

/* Take the first n bytes as a line, and drop skip (the newline). */
static void take_line(proc *p, size_t n, size_t skip, char *buf, size_t size)
{
    size_t cut = n < size ? n : size - 1;
    memcpy(buf, p->buf, cut);
    buf[cut] = '\0';
    p->len -= n + skip;
    memmove(p->buf, p->buf + n + skip, p->len);
}

bool proc_line(proc *p, char *buf, size_t size, int64_t ms)
{
    int64_t end = wait_now_ms() + ms;
    for (;;) {
        char *nl = memchr(p->buf, '\n', p->len);
        if (nl || p->len == sizeof p->buf) {
            size_t n = nl ? (size_t)(nl - p->buf) : p->len;
            take_line(p, n, nl ? 1 : 0, buf, size);
            return true;
        }
        int64_t left = end - wait_now_ms();
        struct pollfd w = { .fd = p->out, .events = POLLIN };
        if (poll(&w, 1, left > 0 ? (int)left : 0) <= 0)
            return false;
        ssize_t r = read(p->out, p->buf + p->len, sizeof p->buf - p->len);
        if (r <= 0) {
            bool rest = p->len > 0; /* a last line without newline */
            take_line(p, p->len, 0, buf, size);
            return rest;
        }
        p->len += (size_t)r;
    }
}

static bool look_ended(proc *p)
{
    if (!p->ended && waitpid(p->pid, &p->status, WNOHANG) == p->pid)
        p->ended = true;
    return p->ended;
}

/* The pid is ours until it is reaped, so no stranger can be hit. */
void proc_signal(proc *p, int sig)
{
    if (!look_ended(p))
        kill(p->pid, sig);
}

bool proc_wait(proc *p, int64_t ms, int *status)
{
    int64_t end = wait_now_ms() + ms;
    while (!look_ended(p)) {
        if (wait_now_ms() >= end)
            return false;
        wait_nap(1);
    }
    if (status)
        *status = p->status;
    return true;
}

bool proc_stopped(const proc *p)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)p->pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    size_t n = fread(text, 1, sizeof text - 1, f);
    (void)fclose(f);
    text[n] = '\0';
    const char *state = strrchr(text, ')');
    return state && state[1] == ' ' && state[2] == 'T';
}

bool proc_pause(proc *p, int64_t ms)
{
    int64_t end = wait_now_ms() + ms;
    proc_signal(p, SIGSTOP);
    while (!proc_stopped(p)) {
        if (look_ended(p) || wait_now_ms() >= end)
            return false;
        wait_nap(1);
    }
    return true;
}

void proc_free(proc *p)
{
    if (!p)
        return;
    if (!look_ended(p)) {
        kill(-p->pid, SIGKILL);
        kill(p->pid, SIGKILL);
        waitpid(p->pid, NULL, 0);
    }
    proc_close_stdin(p);
    close(p->out);
    free(p);
}
