/*
 * embedded.c: the embedded server, used by real processes that are killed.
 *
 * Processes of a directory are found by their working directory: the guardian
 * and the server work inside it, users do not.
 */
#include "redis/embedded.h"
#include "redis/guardian.h"
#include "support/wait.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <leat/system.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Under TSan every exit sleeps a second, and there are many here. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "atexit_sleep_ms=0";
}

#define USERS 8

typedef struct user {
    pid_t pid;
    FILE *to, *from;
    char line[512]; /* the last answer */
} user;

static user users[USERS];
static char top[64];
static char dir[128];
static char lock[160];

/* ---- processes -------------------------------------------------------- */

/* Start the n-th user; dir is its argument, "NAME=value" goes to its
 * environment. */
static user *start_user(int n, const char *in, const char *env)
{
    user *u = &users[n];
    int to[2], from[2];
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    u->pid = fork();
    if (u->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], 0);
        dup2(from[1], 1);
        if (env)
            putenv((char *)env);
        execl(EMBEDDED_USER, "embedded_user", in, (char *)NULL);
        _exit(127);
    }
    assert_true(u->pid > 0);
    close(to[0]);
    close(from[1]);
    u->to = fdopen(to[1], "w");
    u->from = fdopen(from[0], "r");
    assert_non_null(fgets(u->line, sizeof u->line, u->from));
    return u;
}

static void tell(user *u, const char *what)
{
    fprintf(u->to, "%s\n", what);
    fflush(u->to);
}

static const char *answer(user *u)
{
    if (!fgets(u->line, sizeof u->line, u->from))
        fail_msg("the user is gone");
    u->line[strcspn(u->line, "\n")] = '\0';
    return u->line;
}

static const char *ask(user *u, const char *what)
{
    tell(u, what);
    return answer(u);
}

static user *attached_user(int n)
{
    user *u = start_user(n, dir, NULL);
    assert_string_equal(ask(u, "attach 10000"), "ok");
    return u;
}

static void kill_user(user *u)
{
    kill(u->pid, SIGKILL);
    assert_int_equal(waitpid(u->pid, NULL, 0), u->pid);
    u->pid = 0;
    fclose(u->to);
    fclose(u->from);
}

/* Ends when its input does. */
static void let_go(user *u)
{
    int status;
    fclose(u->to);
    assert_int_equal(waitpid(u->pid, &status, 0), u->pid);
    u->pid = 0;
    fclose(u->from);
    assert_int_equal(status, 0);
}

/* How many processes work inside the directory. */
static int inhabitants(void)
{
    DIR *proc = opendir("/proc");
    struct dirent *d;
    int n = 0;
    while ((d = readdir(proc))) {
        char path[300], cwd[256];
        if (d->d_name[0] < '0' || d->d_name[0] > '9')
            continue;
        snprintf(path, sizeof path, "/proc/%s/cwd", d->d_name);
        ssize_t len = readlink(path, cwd, sizeof cwd - 1);
        if (len <= 0)
            continue;
        cwd[len] = '\0';
        n += strcmp(cwd, dir) == 0;
    }
    closedir(proc);
    return n;
}

static pid_t guardian(void)
{
    return leat__guardian_find(lock, LEAT__GUARDIAN_ITSELF);
}

static pid_t server(void)
{
    return leat__guardian_find(lock, LEAT__GUARDIAN_SERVER);
}

static int starts_in_log(void)
{
    char path[192], line[512];
    int n = 0;
    snprintf(path, sizeof path, "%s/server.log", dir);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        n += strstr(line, "Redis is starting") != NULL;
    if (f)
        fclose(f);
    return n;
}

/* ---- before and after each -------------------------------------------- */

static int setup(void **state)
{
    (void)state;
    memset(users, 0, sizeof users);
    snprintf(top, sizeof top, "/tmp/leat-embedded-XXXXXX");
    if (!mkdtemp(top))
        return -1;
    snprintf(dir, sizeof dir, "%s/a/redis", top);
    snprintf(lock, sizeof lock, "%s/server.lock", dir);
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *f)
{
    (void)st, (void)type, (void)f;
    return remove(path);
}

/* Users that a failed test left are killed; the rest must follow by itself. */
static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < USERS; i++)
        if (users[i].pid > 0)
            kill_user(&users[i]);
    wait_until(inhabitants() == 0, 2000);
    return nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- promises --------------------------------------------------------- */

static void two_processes_share_one_server(void **state)
{
    (void)state;
    user *a = attached_user(0), *b = attached_user(1);
    assert_string_equal(ask(a, "set x 1"), "OK");
    assert_string_equal(ask(b, "get x"), "1");
    assert_int_equal(inhabitants(), 2);
    let_go(a);
    assert_string_equal(ask(b, "set x 2"), "OK");
    assert_string_equal(ask(b, "get x"), "2");
    let_go(b);
}

static void the_death_of_the_first_user_stops_nobody(void **state)
{
    (void)state;
    user *a = attached_user(0), *b = attached_user(1), *c = attached_user(2);
    pid_t was = server();
    assert_string_equal(ask(a, "set x 1"), "OK");
    int from = fcntl(fileno(a->from), F_DUPFD_CLOEXEC, 0);
    kill_user(a);
    /* The guardian it forked holds none of its files: the pipe has ended. */
    char byte;
    assert_int_equal(read(from, &byte, 1), 0);
    close(from);
    kill_user(c);
    assert_string_equal(ask(b, "get x"), "1");
    assert_int_equal(server(), was);
}

static void nothing_runs_two_seconds_after_the_last_kill(void **state)
{
    (void)state;
    user *a = attached_user(0), *b = attached_user(1);
    assert_true(guardian() > 0 && server() > 0);
    kill_user(a);
    kill_user(b);
    wait_until(inhabitants() == 0, 2000);
    assert_int_equal(guardian(), 0);
    assert_int_equal(server(), 0);
    char path[192];
    snprintf(path, sizeof path, "%s/redis.sock", dir);
    assert_int_equal(access(path, F_OK), -1);
}

static void data_is_there_at_the_next_start(void **state)
{
    (void)state;
    user *a = attached_user(0);
    assert_string_equal(ask(a, "set x kept"), "OK");
    kill_user(a);
    a = attached_user(0);
    assert_string_equal(ask(a, "get x"), "kept");
    assert_string_equal(ask(a, "detach"), "ok");
    assert_string_equal(ask(a, "attach 10000"), "ok");
    assert_string_equal(ask(a, "get x"), "kept");
}

static void eight_at_the_same_instant_start_one_server(void **state)
{
    (void)state;
    for (int i = 0; i < USERS; i++)
        start_user(i, dir, NULL);
    for (int i = 0; i < USERS; i++)
        tell(&users[i], "attach 20000");
    for (int i = 0; i < USERS; i++)
        assert_string_equal(answer(&users[i]), "ok");
    assert_int_equal(starts_in_log(), 1);
    wait_until(inhabitants() == 2, 2000);
    assert_string_equal(ask(&users[0], "set x 1"), "OK");
    for (int i = 0; i < USERS; i++)
        assert_string_equal(ask(&users[i], "get x"), "1");
}

static void
without_its_guardian_the_server_ends_and_ensure_starts_anew(void **state)
{
    (void)state;
    user *a = attached_user(0);
    assert_string_equal(ask(a, "set x 1"), "OK");
    pid_t was = server();
    kill(guardian(), SIGKILL);
    wait_until(server() == 0, 2000);
    assert_string_equal(ask(a, "ensure 10000"), "ok");
    assert_true(server() > 0 && server() != was && guardian() > 0);
    assert_string_equal(ask(a, "get x"), "lost");
    assert_string_equal(ask(a, "get x"), "1");
    assert_int_equal(inhabitants(), 2);
}

static void several_users_that_ensure_at_once_get_one_server(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        attached_user(i);
    kill(guardian(), SIGKILL);
    wait_until(guardian() == 0, 2000); /* the server may still answer */
    for (int i = 0; i < 4; i++)
        tell(&users[i], "ensure 10000");
    for (int i = 0; i < 4; i++)
        assert_string_equal(answer(&users[i]), "ok");
    wait_until(inhabitants() == 2, 2000);
    assert_int_equal(starts_in_log(), 2);
}

static void a_killed_server_is_started_again(void **state)
{
    (void)state;
    user *a = attached_user(0);
    pid_t keeper = guardian();
    for (int i = 0; i < 3; i++) {
        pid_t was = server();
        assert_string_equal(ask(a, "set x 1"), "OK");
        kill(was, SIGKILL);
        wait_until(server() > 0 && server() != was, 4000);
        assert_string_equal(ask(a, "ensure 10000"), "ok");
        assert_string_equal(ask(a, "get x"), "lost");
        assert_string_equal(ask(a, "get x"), "1");
    }
    assert_int_equal(guardian(), keeper);
}

static void a_guardian_that_is_asked_to_end_ends_its_server(void **state)
{
    (void)state;
    user *a = attached_user(0);
    assert_string_equal(ask(a, "set x 1"), "OK");
    kill(guardian(), SIGTERM);
    wait_until(inhabitants() == 0, 2000);
    assert_string_equal(ask(a, "ensure 10000"), "ok");
    assert_string_equal(ask(a, "get x"), "lost");
    assert_string_equal(ask(a, "get x"), "1");
}

static void who_comes_while_it_is_stopped_gets_a_working_one(void **state)
{
    char set[32], number[16];
    (void)state;
    user *b = start_user(1, dir, NULL);
    for (int i = 0; i < 30; i++) {
        user *a = attached_user(0);
        snprintf(set, sizeof set, "set x %d", i);
        snprintf(number, sizeof number, "%d", i);
        assert_string_equal(ask(a, set), "OK");
        kill(a->pid, SIGKILL);
        wait_nap(i % 10); /* at each moment of the stop */
        tell(b, "attach 10000");
        kill_user(a);
        assert_string_equal(answer(b), "ok");
        assert_string_equal(ask(b, "get x"), number);
        assert_string_equal(ask(b, "detach"), "ok");
    }
}

static void a_forked_child_is_a_user_too(void **state)
{
    (void)state;
    user *a = attached_user(0);
    pid_t child = (pid_t)strtol(ask(a, "fork"), NULL, 10);
    pid_t was = server();
    kill_user(a);
    user *b = attached_user(1);
    assert_int_equal(server(), was);
    kill_user(b);
    wait_nap(100);
    assert_int_equal(server(), was);
    kill(child, SIGKILL);
    wait_until(inhabitants() == 0, 2000);
}

static void the_starter_keeps_no_child(void **state)
{
    (void)state;
    user *a = attached_user(0);
    assert_string_equal(ask(a, "children"), "0");
    kill(guardian(), SIGKILL);
    wait_until(server() == 0, 2000);
    assert_string_equal(ask(a, "ensure 10000"), "ok");
    assert_string_equal(ask(a, "children"), "0");
}

static void
a_server_that_is_stopped_is_waited_for_until_the_deadline(void **state)
{
    (void)state;
    user *a = attached_user(0);
    pid_t was = server();
    kill(was, SIGSTOP);
    assert_non_null(strstr(ask(a, "ensure 300"), "LEAT_ETIMEOUT"));
    assert_non_null(strstr(a->line, "does not answer"));
    kill(was, SIGCONT);
    assert_string_equal(ask(a, "ensure 10000"), "ok");
    assert_int_equal(server(), was);
}

/* Two servers on one directory would destroy its data. */
static void no_second_server_starts_beside_one_that_does_not_end(void **state)
{
    char path[192];
    (void)state;
    user *a = attached_user(0);
    assert_string_equal(ask(a, "set x 1"), "OK");
    pid_t was = server();
    kill(was, SIGSTOP);
    kill(guardian(), SIGKILL);
    wait_until(inhabitants() == 1, 2000);
    snprintf(path, sizeof path, "%s/redis.sock", dir);
    assert_int_equal(unlink(path), 0);
    assert_non_null(strstr(ask(a, "ensure 300"), "LEAT_ETIMEOUT"));
    assert_int_equal(server(), was);
    assert_int_equal(inhabitants(), 1);
    kill(was, SIGCONT);
    assert_string_equal(ask(a, "ensure 10000"), "ok");
    assert_string_equal(ask(a, "get x"), "lost");
    assert_string_equal(ask(a, "get x"), "1");
    assert_int_equal(starts_in_log(), 2);
}

/* ---- refusals --------------------------------------------------------- */

static void refused(const char *in, leat_code code, const char *words)
{
    leat_error err = { 0 };
    leat__embedded *e = leat__embedded_attach(in, NULL, 5000, &err);
    assert_null(e);
    if (err.code != code || !strstr(err.msg, words))
        fail_msg("%s '%s' lacks '%s'", leat_code_name(err.code), err.msg,
                 words);
}

static void a_directory_others_may_enter_is_refused(void **state)
{
    (void)state;
    refused("relative", LEAT_EINVAL, "absolute");
    assert_int_equal(chmod(top, 0710), 0);
    refused(top, LEAT_EAUTH, "chmod 700");
    assert_int_equal(chmod(top, 0701), 0);
    refused(top, LEAT_EAUTH, "chmod 700");
    assert_int_equal(chmod(top, 0700), 0);
    if (geteuid() == 0 && chown(top, 12345, (gid_t)-1) == 0)
        refused(top, LEAT_EAUTH, "belongs to user 12345");
}

/* Below `top` a parent and the server's directory in it. */
static void a_directory_that_others_can_replace_is_refused(void **state)
{
    (void)state;
    char parent[96], below[sizeof dir], link[96];
    snprintf(parent, sizeof parent, "%s/parent", top);
    snprintf(below, sizeof below, "%s/in/redis", parent);
    memcpy(dir, below, sizeof dir); /* where the teardown looks */
    snprintf(link, sizeof link, "%s/link", top);
    assert_int_equal(mkdir(parent, 0700), 0);
    const mode_t bad[] = { 0777, 0770, 0702, 0720 };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(chmod(parent, bad[i]), 0);
        refused(below, LEAT_EAUTH, "chmod go-w");
    }
    /* Where links lead counts as well. */
    char inner[160];
    snprintf(inner, sizeof inner, "%s/in", parent);
    assert_int_equal(symlink(inner, link), 0);
    snprintf(inner, sizeof inner, "%s/redis", link);
    refused(inner, LEAT_EAUTH, "chmod go-w");
    if (geteuid() == 0) {
        assert_int_equal(chmod(parent, 0755), 0);
        assert_int_equal(chown(parent, 12345, (gid_t)-1), 0);
        refused(below, LEAT_EAUTH, "belongs to user 12345");
        assert_int_equal(chown(parent, 0, (gid_t)-1), 0);
        assert_int_equal(lchown(link, 12345, (gid_t)-1), 0);
        refused(inner, LEAT_EAUTH, "belongs to user 12345");
    }
    /* Only owners rename in a sticky one. */
    assert_int_equal(chmod(parent, 01777), 0);
    leat_error err = { 0 };
    leat__embedded *e = leat__embedded_attach(below, NULL, 10000, &err);
    if (!e)
        fail_msg("%s", err.msg);
    leat__embedded_detach(e);
}

static void a_path_that_cannot_be_is_refused(void **state)
{
    char path[300];
    (void)state;
    snprintf(path, sizeof path, "%s/file", top);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    refused(path, LEAT_EINVAL, "not a directory");
    snprintf(path, sizeof path, "%s/file/below", top);
    refused(path, LEAT_EIO, "cannot be made");
    int n = snprintf(path, sizeof path, "%s/", top);
    memset(path + n, 'd', (size_t)(97 - n));
    path[97] = '\0';
    refused(path, LEAT_EINVAL, "shorter");
    assert_int_equal(access(path, F_OK), -1);
}

/* That it answers is seen by attach itself: hiredis 0.14 does not end a path of
 * 107 bytes with a zero. */
static void the_longest_path_works(void **state)
{
    (void)state;
    size_t n = strlen(top);
    memset(dir, 'd', sizeof dir);
    memcpy(dir, top, n);
    dir[n] = '/';
    dir[107 - strlen("/redis.sock")] = '\0';
    snprintf(lock, sizeof lock, "%s/server.lock", dir);
    attached_user(0);
    assert_int_equal(inhabitants(), 2);
}

static void a_missing_program_is_named_with_the_remedy(void **state)
{
    (void)state;
    user *u = start_user(0, dir, "LEAT_REDIS_SERVER=/nonexistent");
    assert_non_null(strstr(ask(u, "attach 5000"), "error LEAT_ENOENT"));
    assert_non_null(strstr(u->line, "/nonexistent"));
    assert_non_null(strstr(u->line, "install the package redis-server"));
    assert_int_equal(inhabitants(), 0);
}

static void a_program_that_cannot_run_is_told_by_the_guardian(void **state)
{
    char path[192], env[256];
    (void)state;
    snprintf(path, sizeof path, "%s/script", top);
    FILE *f = fopen(path, "w");
    fputs("#!/nonexistent/interpreter\n", f);
    fclose(f);
    chmod(path, 0700);
    snprintf(env, sizeof env, "LEAT_REDIS_SERVER=%s", path);
    user *u = start_user(0, dir, env);
    assert_non_null(strstr(ask(u, "attach 5000"), "error LEAT_ENOENT"));
    assert_non_null(strstr(u->line, "cannot be run"));
    wait_until(inhabitants() == 0, 2000);
}

static void a_server_that_ends_at_once_is_quoted(void **state)
{
    char path[192], env[256];
    (void)state;
    snprintf(path, sizeof path, "%s/script", top);
    FILE *f = fopen(path, "w");
    fputs("#!/bin/sh\necho first; echo 'no luck today' >&2; exit 3\n", f);
    fclose(f);
    chmod(path, 0700);
    snprintf(env, sizeof env, "LEAT_REDIS_SERVER=%s", path);
    user *u = start_user(0, dir, env);
    assert_non_null(strstr(ask(u, "attach 5000"), "error LEAT_ECONN"));
    assert_non_null(strstr(u->line, "status 3, saying 'no luck today'"));
    wait_until(inhabitants() == 0, 2000);
}

static void damaged_data_is_reported_in_the_servers_words(void **state)
{
    char path[256];
    (void)state;
    user *u = attached_user(0);
    assert_string_equal(ask(u, "set x 1"), "OK");
    assert_string_equal(ask(u, "detach"), "ok");
    wait_until(inhabitants() == 0, 2000);
    snprintf(path, sizeof path, "%s/appendonlydir/appendonly.aof.1.incr.aof",
             dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("this is no append only file, and it is not cut short either\n", f);
    fclose(f);
    assert_non_null(strstr(ask(u, "attach 5000"), "error LEAT_ECONN"));
    assert_non_null(strstr(u->line, "Bad file format"));
}

static void the_default_directory_is_under_the_state_home(void **state)
{
    char env[256];
    struct stat st;
    (void)state;
    snprintf(env, sizeof env, "XDG_STATE_HOME=%s/state", top);
    snprintf(dir, sizeof dir, "%s/state/leat/redis", top);
    user *u = start_user(0, "-", env);
    assert_string_equal(ask(u, "attach 10000"), "ok");
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(inhabitants(), 2);
}

static int allocations_left;

static void *failing_alloc(void *arg, void *old, size_t size)
{
    const leat_system *os = leat_system_default();
    (void)arg;
    if (size > 0 && allocations_left-- == 0)
        return NULL;
    return os->alloc(os->arg, old, size);
}

/* The n-th allocation fails, for every n, with a server and without one. */
static void any_allocation_may_fail(void **state)
{
    leat_system sys = *leat_system_default();
    (void)state;
    sys.alloc = failing_alloc;
    for (int living = 0; living < 2; living++) {
        leat__embedded *e = NULL;
        leat_error err;
        if (living)
            attached_user(0);
        for (int n = 0; !e; n++) {
            allocations_left = n;
            leat_system_set(&sys);
            e = leat__embedded_attach(dir, NULL, 5000, &err);
            leat_system_set(NULL);
            assert_in_range(n, 0, 20);
        }
        leat__embedded_detach(e);
    }
}

static int loadings_left;

static ssize_t loading_recv(void *arg, int fd, void *buf, size_t n)
{
    static const char line[] = "-LOADING Redis is loading the dataset\r\n";
    const leat_system *os = leat_system_default();
    (void)arg;
    if (loadings_left-- <= 0)
        return os->recv(os->arg, fd, buf, n);
    memcpy(buf, line, sizeof line - 1);
    return sizeof line - 1;
}

static void a_server_that_loads_its_data_is_waited_for(void **state)
{
    leat_system sys = *leat_system_default();
    leat_error err;
    (void)state;
    sys.recv = loading_recv;
    leat_system_set(&sys);
    loadings_left = 10;
    leat__embedded *e = leat__embedded_attach(dir, NULL, 10000, &err);
    assert_non_null(e);
    assert_in_range(-loadings_left, 1, 10);
    loadings_left = 100000;
    assert_int_equal(leat__embedded_ensure(e, 100, &err), LEAT_ETIMEOUT);
    assert_non_null(strstr(err.msg, "still loading"));
    leat_system_set(NULL);
    leat__embedded_detach(e);
}

static void *ensure_in_thread(void *e)
{
    leat_error err = { 0 };
    if (leat__embedded_ensure(e, 20000, &err) == LEAT_OK)
        return NULL;
    fprintf(stderr, "# %s\n", err.msg);
    return e;
}

static void threads_that_ensure_at_once_get_one_server(void **state)
{
    pthread_t threads[4];
    (void)state;
    leat__embedded *e = leat__embedded_attach(dir, NULL, 10000, NULL);
    assert_non_null(e);
    kill(guardian(), SIGKILL);
    wait_until(server() == 0, 2000);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ensure_in_thread, e),
                         0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(starts_in_log(), 2);
    wait_until(inhabitants() == 2, 2000);
    leat__embedded_detach(e);
}

#define with_directory(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        with_directory(two_processes_share_one_server),
        with_directory(the_death_of_the_first_user_stops_nobody),
        with_directory(nothing_runs_two_seconds_after_the_last_kill),
        with_directory(data_is_there_at_the_next_start),
        with_directory(eight_at_the_same_instant_start_one_server),
        with_directory(
            without_its_guardian_the_server_ends_and_ensure_starts_anew),
        with_directory(several_users_that_ensure_at_once_get_one_server),
        with_directory(a_killed_server_is_started_again),
        with_directory(a_guardian_that_is_asked_to_end_ends_its_server),
        with_directory(who_comes_while_it_is_stopped_gets_a_working_one),
        with_directory(a_forked_child_is_a_user_too),
        with_directory(the_starter_keeps_no_child),
        with_directory(
            a_server_that_is_stopped_is_waited_for_until_the_deadline),
        with_directory(no_second_server_starts_beside_one_that_does_not_end),
        with_directory(a_directory_others_may_enter_is_refused),
        with_directory(a_directory_that_others_can_replace_is_refused),
        with_directory(a_path_that_cannot_be_is_refused),
        with_directory(the_longest_path_works),
        with_directory(a_missing_program_is_named_with_the_remedy),
        with_directory(a_program_that_cannot_run_is_told_by_the_guardian),
        with_directory(a_server_that_ends_at_once_is_quoted),
        with_directory(damaged_data_is_reported_in_the_servers_words),
        with_directory(the_default_directory_is_under_the_state_home),
        with_directory(any_allocation_may_fail),
        with_directory(a_server_that_loads_its_data_is_waited_for),
        with_directory(threads_that_ensure_at_once_get_one_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
