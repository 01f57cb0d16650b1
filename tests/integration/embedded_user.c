/*
 * embedded_user.c: a program that uses an embedded server, led by a test.
 *
 *   embedded_user DIR        DIR "-": the default directory
 *
 * Reads commands, answers each with a line:
 *
 *   attach MS   ok, or error CODE MESSAGE
 *   ensure MS   likewise
 *   detach      ok
 *   set K V     OK, or what the server says; "lost" without one
 *   get K       the value, "(nil)", or "lost"
 *   fork        the pid of a child that waits for ever
 *   children    how many children this process has, dead ones too
 *
 * It ends with its input.  Threads of its own run beside, as in a real program.
 */
#include "redis/embedded.h"

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Under TSan every exit sleeps a second, and there are many here. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "atexit_sleep_ms=0";
}

static leat__embedded *server;
static redisContext *conn;

static void say(const char *what)
{
    printf("%s\n", what);
    fflush(stdout);
}

static void hang_up(void)
{
    if (conn)
        redisFree(conn);
    conn = NULL;
}

static void say_outcome(leat_code rc, const leat_error *err)
{
    if (rc == LEAT_OK) {
        say("ok");
        return;
    }
    printf("error %s %s\n", leat_code_name(rc), err->msg);
    fflush(stdout);
}

static void attach(const char *dir, int64_t ms)
{
    leat_error err = { 0 };
    server = leat__embedded_attach(strcmp(dir, "-") == 0 ? NULL : dir, NULL, ms,
                                   &err);
    say_outcome(server ? LEAT_OK : err.code, &err);
}

static void ensure(int64_t ms)
{
    leat_error err = { 0 };
    say_outcome(leat__embedded_ensure(server, ms, &err), &err);
}

static redisReply *ask(const char *k, const char *v)
{
    if (!conn && server)
        conn = redisConnectUnix(leat__embedded_socket(server));
    if (!conn || conn->err)
        return NULL;
    return v ? redisCommand(conn, "SET %s %s", k, v)
             : redisCommand(conn, "GET %s", k);
}

static void command(const char *k, const char *v)
{
    redisReply *r = ask(k, v);
    say(!r ? "lost" : r->str ? r->str : "(nil)");
    if (r)
        freeReplyObject(r);
    else
        hang_up();
}

static void fork_child(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        close(0);
        close(1);
        for (;;)
            pause();
    }
    printf("%d\n", (int)pid);
    fflush(stdout);
}

static void count_children(void)
{
    siginfo_t info = { 0 };
    int rc = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
    say(rc < 0 ? "0" : info.si_pid ? "dead" : "living");
}

/* Memory is allocated all the time: a fork finds its locks held. */
static void *be_busy(void *arg)
{
    for (;;) {
        free(malloc(1000));
        usleep(10);
    }
    return arg;
}

static bool obey(const char *dir, char *line)
{
    char *rest = NULL;
    const char *verb = strtok_r(line, " \n", &rest);
    const char *a = strtok_r(NULL, " \n", &rest);
    const char *b = strtok_r(NULL, " \n", &rest);
    if (!verb)
        return false;
    if (strcmp(verb, "attach") == 0 && a)
        attach(dir, strtoll(a, NULL, 10));
    else if (strcmp(verb, "ensure") == 0 && a)
        ensure(strtoll(a, NULL, 10));
    else if (strcmp(verb, "set") == 0 && a && b)
        command(a, b);
    else if (strcmp(verb, "get") == 0 && a)
        command(a, NULL);
    else if (strcmp(verb, "fork") == 0)
        fork_child();
    else if (strcmp(verb, "children") == 0)
        count_children();
    else if (strcmp(verb, "detach") == 0) {
        hang_up();
        leat__embedded_detach(server);
        server = NULL;
        say("ok");
    } else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    char line[256];
    pthread_t busy;
    if (argc != 2 || pthread_create(&busy, NULL, be_busy, NULL) != 0)
        return 2;
    /* Files a guardian must not keep, one of them where it puts its own. */
    for (int i = 0; i < 4; i++)
        if (dup(1) < 0)
            return 2;
    say("hello");
    while (fgets(line, sizeof line, stdin))
        if (!obey(argv[1], line))
            return 2;
    hang_up();
    leat__embedded_detach(server);
    return 0;
}
