/* rigs_peers.c: the scripted server, child programs, and the proxy as one. */
#include "support/badredis.h"
#include "support/failpoint.h"
#include "support/proc.h"
#include "support/redis.h"
#include "support/wait.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* badredis */

#define STEPS(...)                                                             \
    .steps = (const badredis_step[]){ __VA_ARGS__ },                           \
    .nsteps = sizeof((const badredis_step[]){ __VA_ARGS__ }) /                 \
              sizeof(badredis_step)

static redisContext *to(badredis *b)
{
    redisContext *c = redisConnect("127.0.0.1", badredis_port(b));
    assert_true(c && !c->err);
    redisSetTimeout(c, (struct timeval){ .tv_sec = 5 });
    return c;
}

static void assert_reply(redisContext *c, const char *command, const char *want)
{
    redisReply *r = redisCommand(c, command);
    assert_non_null(r);
    assert_string_equal(r->str ? r->str : "", want);
    freeReplyObject(r);
}

static void a_handshake_is_answered_before_the_script(void **state)
{
    (void)state;
    badredis *b = badredis_start(
        &(badredis_opts){ .handshake = true,
                          STEPS({ .command = "GET", .send = "$2\r\nhi\r\n" }),
                          .rest = "+REST\r\n" });
    assert_non_null(b);
    redisContext *c = to(b);
    assert_reply(c, "AUTH a b", "OK");
    assert_reply(c, "CLIENT SETNAME x", "OK");
    assert_reply(c, "PING", "PONG");
    redisReply *r = redisCommand(c, "INFO server");
    assert_non_null(strstr(r->str, "redis_version:7.0.15"));
    assert_non_null(strstr(r->str, "maxmemory_policy:noeviction"));
    freeReplyObject(r);
    r = redisCommand(c, "HELLO 2");
    assert_int_equal(r->elements, 14);
    freeReplyObject(r);
    r = redisCommand(c, "COMMAND INFO get xadd");
    assert_int_equal(r->elements, 2);
    assert_string_equal(r->element[1]->element[0]->str, "xadd");
    freeReplyObject(r);
    assert_false(badredis_done(b));
    assert_reply(c, "GET k", "hi");
    wait_until(badredis_done(b), 1000);
    assert_reply(c, "SET a b", "REST");
    assert_reply(c, "PING", "PONG");
    redisFree(c);
    badredis_stop(b);
}

static void what_was_sent_can_be_looked_at(void **state)
{
    char text[64];
    int conn;
    (void)state;
    badredis *b = badredis_start(&(badredis_opts){ .rest = "+OK\r\n" });
    redisContext *c = to(b);
    assert_reply(c, "XADD s * k v", "OK");
    redisReply *r = redisCommand(c, "SET k %b", "a\0b\r\n", (size_t)5);
    freeReplyObject(r);
    redisFree(c);
    assert_int_equal(badredis_count(b, "xadd"), 1);
    assert_int_equal(badredis_count(b, NULL), 2);
    assert_int_equal(badredis_connections(b), 1);
    assert_true(badredis_seen(b, 0, text, sizeof text, &conn));
    assert_string_equal(text, "XADD s * k v");
    assert_int_equal(conn, 1);
    assert_true(badredis_seen(b, 1, text, sizeof text, NULL));
    assert_string_equal(text, "SET k a\\x00b\\x0d\\x0a");
    assert_false(badredis_seen(b, 2, text, sizeof text, NULL));
    badredis_stop(b);
}

static void ends_come_as_scripted(void **state)
{
    static const struct {
        badredis_then then;
        int error;
    } cases[] = { { BADREDIS_CLOSE, REDIS_ERR_EOF },
                  { BADREDIS_RESET, REDIS_ERR_IO } };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        badredis_step half = { .commands = 1,
                               .send = "$20\r\n17000",
                               .then = cases[i].then };
        badredis *b = badredis_start(
            &(badredis_opts){ .steps = &half, .nsteps = 1 });
        redisContext *c = to(b);
        assert_null(redisCommand(c, "GET k"));
        assert_int_equal(c->err, cases[i].error);
        redisFree(c);
        badredis_stop(b);
    }
}

static void a_held_connection_times_out_at_the_client(void **state)
{
    badredis_then kinds[] = { BADREDIS_HOLD, BADREDIS_STALL };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        badredis_step s = { .bytes = 10, .then = kinds[i] };
        badredis *b = badredis_start(
            &(badredis_opts){ .steps = &s, .nsteps = 1 });
        redisContext *c = to(b);
        redisSetTimeout(c, (struct timeval){ .tv_usec = 50 * 1000 });
        assert_null(redisCommand(c, "GET k"));
        assert_int_equal(c->err, REDIS_ERR_IO);
        wait_until(badredis_done(b), 1000);
        redisFree(c);
        badredis_stop(b);
    }
}

static void an_endless_reply_never_ends(void **state)
{
    char path[64];
    (void)state;
    snprintf(path, sizeof path, "/tmp/leat-bad%d", (int)getpid());
    badredis *b = badredis_start(&(badredis_opts){
        .path = path,
        STEPS({ .command = "GET", .send = "+" },
              { .send = "aaaaaaaaaaaaaaaa", .then = BADREDIS_REPEAT }) });
    redisContext *c = redisConnectUnix(path);
    char url[128];
    assert_memory_equal(badredis_url(b, url, sizeof url), "unix:///tmp/", 12);
    assert_int_equal(send(c->fd, "GET k\r\n", 7, 0), 7);
    size_t got = 0;
    while (got < 4 * 1024 * 1024) {
        char waste[65536];
        ssize_t n = recv(c->fd, waste, sizeof waste, 0);
        assert_true(n > 0);
        got += (size_t)n;
    }
    redisFree(c);
    badredis_stop(b);
}

static void only_the_chosen_connection_runs_the_script(void **state)
{
    (void)state;
    badredis *b = badredis_start(&(badredis_opts){
        .conn = 1,
        .rest = "+OK\r\n",
        STEPS({ .commands = 1, .sleep_ms = 5, .then = BADREDIS_CLOSE }) });
    redisContext *c = to(b);
    assert_null(redisCommand(c, "SET a b"));
    redisFree(c);
    for (int i = 0; i < 600; i++) { /* more than are kept at a time */
        c = to(b);
        assert_reply(c, "SET a b", "OK");
        redisFree(c);
    }
    assert_int_equal(badredis_count(b, "SET"), 601);
    badredis_stop(b);
}

static void replies_and_loops_can_be_given(void **state)
{
    static const badredis_reply own[] = { { "INFO", "-NOPERM no\r\n" },
                                          { NULL, NULL } };
    (void)state;
    badredis *b = badredis_start(&(badredis_opts){
        .handshake = true,
        .replies = own,
        STEPS(
            { .command = "INCR", .send = "-LOADING\r\n", .slow_ms = 1 },
            { .command = "INCR", .send = ":1\r\n", .then = BADREDIS_LOOP }) });
    redisContext *c = to(b);
    assert_reply(c, "INFO", "NOPERM no");
    for (int i = 0; i < 3; i++) {
        assert_reply(c, "INCR n", "LOADING");
        assert_reply(c, "INCR n", "");
    }
    redisFree(c);
    badredis_stop(b);
}

/* Child programs: this program again, told to be a worker. */

static proc *worker(const char *role, const char *failpoint_env)
{
    const char *argv[] = { "/proc/self/exe", role, NULL };
    const char *env[] = { failpoint_env, NULL };
    proc *p = proc_start(argv, &(proc_opts){ .env = env });
    assert_non_null(p);
    return p;
}

static void a_child_talks_and_ends(void **state)
{
    char line[64];
    int status;
    (void)state;
    proc *p = worker("echo", "X_GREETING=hello");
    assert_true(proc_line(p, line, sizeof line, 5000));
    assert_string_equal(line, "hello");
    assert_false(proc_line(p, line, sizeof line, 20));
    assert_true(proc_write(p, "one\ntwo\n"));
    assert_true(proc_line(p, line, sizeof line, 5000));
    assert_string_equal(line, "one");
    assert_true(proc_line(p, line, sizeof line, 5000));
    assert_string_equal(line, "two");
    assert_false(proc_wait(p, 20, &status));
    proc_close_stdin(p);
    assert_true(proc_wait(p, 5000, &status));
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_false(proc_line(p, line, sizeof line, 100));
    proc_free(p);
}

static void a_child_is_paused_and_killed(void **state)
{
    int status;
    char line[64];
    (void)state;
    proc *p = worker("echo", "X_GREETING=a");
    assert_true(proc_line(p, line, sizeof line, 5000));
    assert_true(proc_pause(p, 1000));
    assert_true(proc_stopped(p));
    proc_write(p, "x\n");
    assert_false(proc_line(p, line, sizeof line, 30));
    proc_signal(p, SIGCONT);
    assert_true(proc_line(p, line, sizeof line, 5000));
    proc_signal(p, SIGKILL);
    assert_true(proc_wait(p, 5000, &status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    proc_free(p);
}

/* The child of a killed child ends too. */
static void no_orphan_stays(void **state)
{
    char line[64], exe[64];
    (void)state;
    proc *p = worker("parent", "X=y");
    assert_true(proc_line(p, line, sizeof line, 5000));
    pid_t grandchild = (pid_t)strtol(line, NULL, 10);
    snprintf(exe, sizeof exe, "/proc/%d/exe", (int)grandchild);
    char what[256];
    assert_true(readlink(exe, what, sizeof what) > 0);
    kill(proc_pid(p), SIGKILL);
    assert_true(proc_wait(p, 5000, NULL));
    wait_until(readlink(exe, what, sizeof what) < 0, 5000);
    proc_free(p);
}

static void failpoints_fire_at_the_nth_pass(void **state)
{
    static const struct {
        const char *env;
        int passes;
    } cases[] = { { "LEAT_FAILPOINT=step:kill@3", 3 },
                  { "LEAT_FAILPOINT=other:kill,step:exit@2", 2 },
                  { "LEAT_FAILPOINT=step:kill", 1 },
                  { "LEAT_FAILPOINT=", 5 } };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[64];
        int status, passes = 0;
        proc *p = worker("steps", cases[i].env);
        while (proc_line(p, line, sizeof line, 5000))
            passes++;
        assert_int_equal(passes, cases[i].passes);
        assert_true(proc_wait(p, 5000, &status));
        if (i == 1)
            assert_int_equal(WEXITSTATUS(status), FAILPOINT_EXIT);
        else if (i == 3)
            assert_int_equal(status, 0);
        else
            assert_int_equal(WTERMSIG(status), SIGKILL);
        proc_free(p);
    }
}

static void a_stop_failpoint_stands_until_continued(void **state)
{
    char line[64];
    (void)state;
    proc *p = worker("steps", "LEAT_FAILPOINT=step:stop@2");
    assert_true(proc_line(p, line, sizeof line, 5000));
    assert_true(proc_line(p, line, sizeof line, 5000));
    wait_until(proc_stopped(p), 5000);
    assert_false(proc_line(p, line, sizeof line, 20));
    proc_signal(p, SIGCONT);
    for (int i = 0; i < 3; i++)
        assert_true(proc_line(p, line, sizeof line, 5000));
    assert_true(proc_wait(p, 5000, NULL));
    proc_free(p);
}

/* The proxy as a program */

static void order(FILE *f, const char *text, const char *want)
{
    char line[256] = "";
    fprintf(f, "%s\n", text);
    fflush(f);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, want, strlen(want)) == 0)
            break;
    assert_memory_equal(line, want, strlen(want));
    while (strncmp(line, "ok", 2) != 0 && strncmp(line, "error", 5) != 0)
        assert_non_null(fgets(line, sizeof line, f));
}

static FILE *control(const char *path)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    FILE *f = fdopen(fd, "r+");
    assert_non_null(f);
    setvbuf(f, NULL, _IONBF, 0);
    return f;
}

static void the_proxy_program_takes_orders(void **state)
{
    char path[64], line[64];
    int status;
    (void)state;
    redis_server *s = redis_start(NULL);
    assert_non_null(s);
    snprintf(path, sizeof path, "/tmp/leat-tfc%d", (int)getpid());
    const char *argv[] = { TCPFAULT_PROGRAM, redis_socket(s), path, NULL };
    proc *p = proc_start(argv, NULL);
    assert_non_null(p);
    assert_true(proc_line(p, line, sizeof line, 5000));
    assert_memory_equal(line, "port ", 5);
    int port = (int)strtol(line + 5, NULL, 10);
    FILE *f = control(path);
    order(f, "rule command=SET:2 times=1 do=answer bytes=-BUSY\\x20wait\\r\\n",
          "rule 1");
    order(f, "rule dir=down do=explode", "error");
    redisContext *c = redisConnect("127.0.0.1", port);
    assert_reply(c, "SET a 1", "OK");
    assert_reply(c, "SET a 2", "BUSY wait");
    assert_int_equal(redis_int(s, "GET a"), 1);
    order(f, "fired 1", "fired 1");
    order(f, "counts", "connections 1 open 1");
    order(f, "events", "event");
    order(f, "clear", "ok");
    order(f, "reset 0", "ok");
    assert_null(redisCommand(c, "PING"));
    redisFree(c);
    order(f, "door refuse", "ok");
    c = redisConnect("127.0.0.1", port);
    assert_int_not_equal(c->err, 0);
    redisFree(c);
    order(f, "nonsense", "error");
    order(f, "quit", "ok");
    fclose(f);
    assert_true(proc_wait(p, 5000, &status));
    assert_int_equal(status, 0);
    assert_int_not_equal(access(path, F_OK), 0);
    proc_free(p);
    redis_stop(s);
}

/* Roles of the child */

static int role_echo(void)
{
    char line[64];
    puts(getenv("X_GREETING"));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        fputs(line, stdout);
        fflush(stdout);
    }
    return 7;
}

static int role_steps(void)
{
    for (int i = 0; i < 5; i++) {
        puts("step");
        fflush(stdout);
        failpoint("step");
    }
    return 0;
}

static int role_parent(void)
{
    const char *argv[] = { "/proc/self/exe", "sleep", NULL };
    proc *p = proc_start(argv, NULL);
    printf("%d\n", p ? (int)proc_pid(p) : -1);
    fflush(stdout);
    pause();
    return 0;
}

static int be(const char *role)
{
    if (strcmp(role, "echo") == 0)
        return role_echo();
    if (strcmp(role, "steps") == 0)
        return role_steps();
    if (strcmp(role, "parent") == 0)
        return role_parent();
    pause();
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handshake_is_answered_before_the_script),
        cmocka_unit_test(what_was_sent_can_be_looked_at),
        cmocka_unit_test(ends_come_as_scripted),
        cmocka_unit_test(a_held_connection_times_out_at_the_client),
        cmocka_unit_test(an_endless_reply_never_ends),
        cmocka_unit_test(only_the_chosen_connection_runs_the_script),
        cmocka_unit_test(replies_and_loops_can_be_given),
        cmocka_unit_test(a_child_talks_and_ends),
        cmocka_unit_test(a_child_is_paused_and_killed),
        cmocka_unit_test(no_orphan_stays),
        cmocka_unit_test(failpoints_fire_at_the_nth_pass),
        cmocka_unit_test(a_stop_failpoint_stands_until_continued),
        cmocka_unit_test(the_proxy_program_takes_orders),
    };
    if (argc > 1)
        return be(argv[1]);
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
