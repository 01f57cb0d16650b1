/*
 * exec.c: a program for one message: its body on stdin, its attributes in the
 * environment, the exit code as the answer.
 *
 * The program leads a process group of its own, so that it and what it started
 * can be ended together, and so that Ctrl-C is ours to handle.  It gets stdin,
 * stdout and stderr and no other descriptor of ours, no signal blocked, and
 * SIGPIPE as a program expects it.  Its stderr is a pipe to us: we pass on what
 * comes, and remember the last line as the reason of a failure.
 *
 *   running -- it ends --> reaped
 *      |                     ^
 *      +-- too long, or      |
 *          cancelled --> SIGTERM to the group, KILL_AFTER_MS later SIGKILL
 *
 * A body that is not read is no error, and what the program leaves behind, with
 * stderr open, is not waited for.
 */
#include "exec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    KILL_AFTER_MS = 2000,
    LOOK_MS = 20,        /* where there is no descriptor to wait for */
    VALUE_MAX = 32768,   /* of a variable                            */
    ALL_MAX = 512 << 10, /* of all variables of ours                */
    VARS_MAX = 1024,     /* variables of one message                 */
    SLOTS = 4096,        /* of the table that finds them: a power of */
                         /* two, and more than they are              */
    HELPINGS = 32        /* of stderr, after its end                 */
};

/* ---- those that run --------------------------------------------------- */

static _Atomic pid_t running[MAX_PROGRAMS];

static size_t enlist(pid_t pid)
{
    for (size_t i = 0; i < MAX_PROGRAMS; i++) {
        pid_t none = 0;
        if (atomic_compare_exchange_strong(&running[i], &none, pid))
            return i;
    }
    return MAX_PROGRAMS;
}

static void strike(size_t i)
{
    if (i < MAX_PROGRAMS)
        running[i] = 0;
}

/* A program that runs and is not listed yet would outlive us: while one is on
 * its way the last signal waits, and after it none begins.  Whoever starts one
 * takes no signals, or the handler might wait for its own thread. */
static atomic_int starting;
static atomic_bool over;

static bool start_begin(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
    atomic_fetch_add(&starting, 1);
    return !over;
}

static void start_end(const sigset_t *before)
{
    atomic_fetch_sub(&starting, 1);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* In a signal's handler: end them all, nobody waits for them any more. */
void programs_kill(void)
{
    const struct timespec nap = { .tv_nsec = 1000000 };
    over = true;
    for (int i = 0; i < KILL_AFTER_MS && starting > 0; i++)
        nanosleep(&nap, NULL);
    for (size_t i = 0; i < MAX_PROGRAMS; i++) {
        pid_t pid = running[i];
        if (pid > 0)
            kill(-pid, SIGKILL);
    }
}

/* ---- the environment -------------------------------------------------- */

typedef struct vars {
    char **list;
    size_t count, room, own; /* from `own` on they are ours to free */
    size_t bytes;
    uint16_t slots[SLOTS]; /* 1 + place behind `own`; 0: free */
} vars;

static void add_var(vars *v, char *text)
{
    if (v->count + 1 >= v->room) {
        v->room = v->room ? v->room * 2 : 64;
        v->list = regrab(v->list, v->room * sizeof *v->list);
    }
    v->list[v->count++] = text;
    v->list[v->count] = NULL;
}

/* Of a message before: one that runs inside another's program. */
static bool describes_message(const char *s)
{
    static const char *const names[] = {
        "LEAT_TOPIC=",       "LEAT_PARTITION=",     "LEAT_POSITION=",
        "LEAT_ID=",          "LEAT_KEY=",           "LEAT_TYPE=",
        "LEAT_ATTEMPT=",     "LEAT_FENCE=",         "LEAT_HEADER_",
        "LEAT_ORIGINAL_ID=", "LEAT_REPLAYED_FROM=", "LEAT_QUEUE=",
        "LEAT_STREAM=",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(s, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* FNV-1a. */
static size_t hash(const char *s)
{
    uint32_t h = 2166136261u;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    return h;
}

/* Where this name is, or where it would be entered.  There is always a free
 * slot: of all variables VARS_MAX are ours. */
static uint16_t *find_var(vars *v, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = hash(name);; i++) {
        uint16_t *slot = &v->slots[i % SLOTS];
        if (*slot == 0)
            return slot;
        const char *is = v->list[v->own + *slot - 1];
        if (strncmp(is, name, n) == 0 && is[n] == '=')
            return slot;
    }
}

static void set_var(vars *v, const char *name, leat_bytes is)
{
    if (is.n == 0 || is.n > VALUE_MAX || memchr(is.p, '\0', is.n) ||
        v->count - v->own >= VARS_MAX || v->bytes + is.n > ALL_MAX)
        return;
    uint16_t *slot = find_var(v, name);
    if (*slot)
        return;
    v->bytes += is.n + strlen(name) + 2;
    add_var(v, format("%s=%.*s", name, (int)is.n, (const char *)is.p));
    *slot = (uint16_t)(v->count - v->own);
}

static void set_number(vars *v, const char *name, uint64_t is)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)is);
    set_var(v, name, leat_str(text));
}

/* LEAT_HEADER_CONTENT_TYPE; of equal names the first counts. */
static void set_header(vars *v, const leat_header *h)
{
    char name[160] = "LEAT_HEADER_";
    size_t at = strlen(name);
    const char *s = h->name.p;
    for (size_t i = 0; i < h->name.n && at + 1 < sizeof name; i++) {
        char c = s[i];
        if (c >= 'a' && c <= 'z')
            c = (char)(c - 'a' + 'A');
        bool good = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        name[at++] = good ? c : '_';
    }
    name[at] = '\0';
    if (h->name.n > 0 && at + 1 < sizeof name)
        set_var(v, name, h->value);
}

/* A retry that is a message of its own says whose it is. */
static void set_original(vars *v, const leat_msg *m)
{
    for (size_t i = 0; i < m->header_count; i++)
        if (leat_bytes_eq(m->headers[i].name, leat_str("originalMessageId")))
            set_var(v, "LEAT_ORIGINAL_ID", m->headers[i].value);
}

static void set_place(vars *v, const sighting *m, const leat_delivery *d)
{
    char text[POSITION_TEXT];
    if (m->queue.n) {
        set_var(v, "LEAT_QUEUE", m->queue);
        return;
    }
    set_var(v, "LEAT_POSITION", leat_str(position_text(m->position, text)));
    if (m->stream) {
        set_var(v, "LEAT_STREAM", leat_str(m->topic));
        return;
    }
    set_var(v, "LEAT_TOPIC", leat_str(m->topic));
    if (m->partition >= 0)
        set_number(v, "LEAT_PARTITION", (uint64_t)m->partition);
    set_number(v, "LEAT_FENCE", leat_delivery_fence(d));
}

static void make_vars(vars *v, const sighting *m, const leat_delivery *d)
{
    for (char **e = environ; *e; e++)
        if (!describes_message(*e) && !variable_is_secret(*e))
            add_var(v, *e);
    v->own = v->count;
    set_place(v, m, d);
    set_var(v, "LEAT_ID", m->msg->id);
    set_var(v, "LEAT_KEY", m->msg->key);
    set_var(v, "LEAT_TYPE", m->msg->type);
    set_number(v, "LEAT_ATTEMPT", leat_delivery_attempt(d));
    set_original(v, m->msg);
    set_var(v, "LEAT_REPLAYED_FROM", leat_delivery_replayed_from(d));
    for (size_t i = 0; i < m->msg->header_count; i++)
        set_header(v, &m->msg->headers[i]);
}

static void free_vars(vars *v)
{
    for (size_t i = v->own; i < v->count; i++)
        free(v->list[i]);
    free(v->list);
}

/* ---- starting --------------------------------------------------------- */

static int spawn(char **argv, char **env, int input, int says, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, standard;
    sigemptyset(&none);
    sigemptyset(&standard);
    sigaddset(&standard, SIGPIPE);
    int rc = posix_spawn_file_actions_init(&files);
    if (rc)
        return rc;
    rc = posix_spawnattr_init(&attr);
    if (rc)
        goto no_attr;
    rc = posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&files, says, STDERR_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_addclosefrom_np(&files,
                                                      STDERR_FILENO + 1);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &standard);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP |
                                        POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF);
    if (rc == 0)
        rc = posix_spawnp(pid, argv[0], &files, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
no_attr:
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

/* ---- running ---------------------------------------------------------- */

typedef struct child {
    pid_t pid;
    int pidfd;       /* -1: the kernel has none        */
    int input;       /* -1: closed                     */
    leat_bytes body; /* what is not written yet        */
    int says;        /* its stderr; -1: closed         */
    char line[SAID_MAX], last[SAID_MAX];
    size_t line_n, last_n; /* the line that comes, the last that came */
    int64_t term_ns;       /* when SIGTERM is due            */
    int64_t kill_ns;       /* when SIGKILL is due            */
    ran_how why;           /* RAN_EXITED until it was ended  */
} child;

static void close_input(child *c)
{
    if (c->input >= 0)
        close(c->input);
    c->input = -1;
}

static void feed(child *c)
{
    while (c->input >= 0 && c->body.n) {
        ssize_t n = write(c->input, c->body.p, c->body.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            close_input(c); /* it does not want more */
            return;
        }
        c->body = leat_mem((const char *)c->body.p + n, c->body.n - (size_t)n);
    }
    close_input(c);
}

/* ---- its stderr ------------------------------------------------------- */

/* Of a long line the beginning is kept, and empty ones are none. */
static void note_byte(child *c, char byte)
{
    if (byte != '\n' && byte != '\r') {
        if (c->line_n < sizeof c->line)
            c->line[c->line_n++] = byte;
        return;
    }
    if (c->line_n == 0)
        return;
    memcpy(c->last, c->line, c->line_n);
    c->last_n = c->line_n;
    c->line_n = 0;
}

/* What is not taken is lost: there is nobody to tell. */
static void pass_on(const char *p, size_t n)
{
    while (n > 0) {
        ssize_t done = write(STDERR_FILENO, p, n);
        if (done < 0 && errno != EINTR)
            return;
        if (done > 0) {
            p += done;
            n -= (size_t)done;
        }
    }
}

static void close_says(child *c)
{
    if (c->says >= 0)
        close(c->says);
    c->says = -1;
}

/* One helping; false: there is no more now. */
static bool listen_to(child *c)
{
    char some[4096];
    ssize_t n;
    if (c->says < 0)
        return false;
    do
        n = read(c->says, some, sizeof some);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n <= 0) {
        close_says(c);
        return false;
    }
    pass_on(some, (size_t)n);
    for (ssize_t i = 0; i < n; i++)
        note_byte(c, some[i]);
    return true;
}

/* After its end: what is in the pipe, but no more than fits into one, since
 * what it left behind may go on for ever. */
static void hear_out(child *c)
{
    for (int i = 0; i < HELPINGS && listen_to(c); i++)
        ;
    note_byte(c, '\n');
}

/* ---- its end ---------------------------------------------------------- */

static void end_soon(child *c, ran_how why, int64_t now)
{
    if (c->why != RAN_EXITED)
        return;
    c->why = why;
    c->kill_ns = now + KILL_AFTER_MS * (int64_t)1000000;
    c->term_ns = INT64_MAX;
    kill(-c->pid, SIGTERM);
    kill(-c->pid, SIGCONT); /* a stopped one would not see it */
}

static int wait_ms(const child *c, bool look, int64_t now)
{
    int64_t due = c->term_ns < c->kill_ns ? c->term_ns : c->kill_ns;
    int64_t ms = due == INT64_MAX ? 1000 : (due - now) / 1000000 + 1;
    if (look && ms > LOOK_MS)
        ms = LOOK_MS;
    return ms < 0 ? 0 : ms > 1000 ? 1000 : (int)ms;
}

/* True when it has ended; it stays a zombie, and its number its own. */
static bool ended(const child *c)
{
    siginfo_t info = { 0 };
    int rc;
    do
        rc = waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    while (rc < 0 && errno == EINTR);
    return rc < 0 || info.si_pid == c->pid;
}

static void attend(child *c, leat_ctx *x)
{
    int cancel = leat_ctx_cancel_fd(x);
    while (!ended(c)) {
        int64_t now = now_ns();
        if (now >= c->kill_ns) {
            kill(-c->pid, SIGKILL);
            c->kill_ns = INT64_MAX;
        }
        if (now >= c->term_ns)
            end_soon(c, RAN_TOO_LONG, now);
        /* Once it is to end the token says nothing new. */
        bool told = c->why != RAN_EXITED;
        struct pollfd p[] = {
            { .fd = c->pidfd, .events = POLLIN },
            { .fd = c->input, .events = POLLOUT },
            { .fd = told ? -1 : cancel, .events = POLLIN },
            { .fd = c->says, .events = POLLIN },
        };
        poll(p, 4, wait_ms(c, c->pidfd < 0 || (cancel < 0 && !told), now));
        if (p[1].revents)
            feed(c);
        if (p[3].revents)
            (void)listen_to(c);
        if (!told && leat_ctx_cancelled(x))
            end_soon(c, RAN_CANCELLED, now_ns());
    }
}

static ran reap(child *c)
{
    int status = 0;
    /* What it left behind in its group outlives it, unless it was ended. */
    if (c->why != RAN_EXITED)
        kill(-c->pid, SIGKILL);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        ;
    ran r = { .how = c->why };
    if (c->why == RAN_EXITED && WIFSIGNALED(status))
        r = (ran){ .how = RAN_KILLED, .status = WTERMSIG(status) };
    else if (c->why == RAN_EXITED)
        r.status = WEXITSTATUS(status);
    memcpy(r.said, c->last, c->last_n);
    return r;
}

static int open_pidfd(pid_t pid)
{
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, pid, 0);
#else
    (void)pid;
    return -1;
#endif
}

static ran watch(pid_t pid, size_t slot, int input, int says, leat_bytes body,
                 int64_t max_ms, leat_ctx *x)
{
    child c = { .pid = pid,
                .pidfd = open_pidfd(pid),
                .input = input,
                .says = says,
                .body = body,
                .term_ns = max_ms ? now_ns() + max_ms * 1000000 : INT64_MAX,
                .kill_ns = INT64_MAX };
    feed(&c);
    attend(&c, x);
    strike(slot);
    hear_out(&c);
    ran r = reap(&c);
    close_input(&c);
    close_says(&c);
    if (c.pidfd >= 0)
        close(c.pidfd);
    return r;
}

ran program_run(char **argv, const sighting *m, int64_t max_ms, leat_ctx *x)
{
    int in[2], err[2];
    pid_t pid = 0;
    vars v = { 0 };
    if (pipe2(in, O_CLOEXEC) < 0)
        return (ran){ .how = RAN_NOT, .status = errno };
    if (pipe2(err, O_CLOEXEC) < 0) {
        int why = errno;
        close(in[0]);
        close(in[1]);
        return (ran){ .how = RAN_NOT, .status = why };
    }
    make_vars(&v, m, leat_ctx_delivery(x));
    sigset_t mask;
    size_t slot = MAX_PROGRAMS;
    int rc = start_begin(&mask) ? spawn(argv, v.list, in[0], err[1], &pid)
                                : ECANCELED;
    if (rc == 0)
        slot = enlist(pid);
    start_end(&mask);
    free_vars(&v);
    close(in[0]);
    close(err[1]);
    if (rc) {
        close(in[1]);
        close(err[0]);
        return (ran){ .how = RAN_NOT, .status = rc };
    }
    (void)fcntl(in[1], F_SETFL, O_NONBLOCK);
    (void)fcntl(err[0], F_SETFL, O_NONBLOCK);
    return watch(pid, slot, in[1], err[0], m->msg->body, max_ms, x);
}

/* ---- the words -------------------------------------------------------- */

static void shorten(char *text, size_t most)
{
    size_t n = strlen(text);
    if (n <= most)
        return;
    for (n = most; n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80; n--)
        ;
    text[n] = '\0';
}

char *ran_reason(const ran *r)
{
    char what[48] = "over --max-time and killed";
    if (r->how == RAN_EXITED)
        snprintf(what, sizeof what, "exit status %d", r->status);
    else if (r->how == RAN_KILLED)
        snprintf(what, sizeof what, "killed by signal %d", r->status);
    char *said = printable(r->said, strlen(r->said));
    char *reason = format("%s%s%s", what, said[0] ? ": " : "", said);
    free(said);
    shorten(reason, REASON_MAX);
    return reason;
}

/* Is there such a program, in PATH where the name has no slash? */
static bool program_exists(const char *name)
{
    if (strchr(name, '/'))
        return access(name, X_OK) == 0;
    const char *path = getenv("PATH");
    for (const char *s = path ? path : "/bin:/usr/bin"; *s;) {
        size_t n = strcspn(s, ":");
        char *file = format("%.*s/%s", n ? (int)n : 1, n ? s : ".", name);
        bool there = access(file, X_OK) == 0;
        free(file);
        if (there)
            return true;
        s += n + (s[n] == ':');
    }
    return false;
}

/* The words behind -- are the arguments of what --exec names; where that comes
 * from the environment, they are a program of their own. */
char **program_get(cli *c)
{
    value *v = value_find(c, "exec");
    bool given = v->text && v->origin == FROM_FLAG;
    if (c->rest_count && !given)
        return c->rest;
    if (!v->text)
        return NULL;
    if (!c->rest) {
        c->rest = grab(2 * sizeof *c->rest);
        c->rest++;
    }
    c->rest[-1] = v->text;
    return c->rest - 1;
}

int program_check(char **program, const char *nothing)
{
    if (program_exists(program[0]))
        return 0;
    return fail(EXIT_USAGE,
                strpbrk(program[0], " |;<>&$")
                    ? "no shell is involved: its arguments are words of their "
                      "own behind --, or it is -- sh -c '...'"
                    : nothing,
                "--exec: there is no program '%s'", program[0]);
}
