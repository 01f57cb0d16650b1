/* rigs.c: the private redis-server, its clock, and waiting. */
#include "support/redis.h"
#include "support/wait.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static void a_server_starts_answers_and_leaves_nothing(void **state)
{
    char dir[200], text[200];
    (void)state;
    redis_server *s = redis_start(NULL);
    assert_non_null(s);
    pid_t pid = redis_pid(s);
    snprintf(dir, sizeof dir, "%s", redis_dir(s));
    assert_string_equal(
        redis_text(s, text, sizeof text, "SET %s %b", "k", "a b", (size_t)3),
        "OK");
    assert_string_equal(redis_text(s, text, sizeof text, "GET k"), "a b");
    assert_int_equal(redis_int(s, "STRLEN k"), 3);
    assert_true(redis_flush(s));
    assert_int_equal(redis_int(s, "DBSIZE"), 0);
    assert_int_equal(redis_int(s, "GET k"), INT64_MIN);
    assert_true(strlen(redis_socket(s)) < 108);
    struct stat st;
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    redis_stop(s);
    assert_false(exists(dir));
    assert_int_not_equal(kill(pid, 0), 0);
}

static void data_survive_kill_and_restart_with_aof(void **state)
{
    (void)state;
    redis_server *s = redis_start(
        &(redis_opts){ .aof = REDIS_AOF_ALWAYS, .tcp = true });
    assert_non_null(s);
    int port = redis_port(s);
    assert_int_equal(redis_int(s, "INCR n"), 1);
    redis_kill(s);
    assert_false(redis_alive(s));
    assert_null(redis_raw(s, "GET n"));
    assert_true(redis_restart(s));
    assert_int_equal(redis_port(s), port);
    assert_int_equal(redis_int(s, "INCR n"), 2);
    redis_shutdown(s);
    assert_true(redis_restart(s));
    assert_int_equal(redis_int(s, "GET n"), 2);
    redis_stop(s);
}

static void a_server_listens_on_a_port_if_asked(void **state)
{
    char url[256], want[64];
    (void)state;
    redis_server *s = redis_start(&(redis_opts){ .tcp = true });
    assert_non_null(s);
    redisContext *c = redisConnect("127.0.0.1", redis_port(s));
    assert_true(c && !c->err);
    redisReply *r = redisCommand(c, "PING");
    assert_non_null(r);
    assert_string_equal(r->str, "PONG");
    freeReplyObject(r);
    redisFree(c);
    snprintf(want, sizeof want, "redis://127.0.0.1:%d", redis_port(s));
    assert_string_equal(redis_url(s, url, sizeof url), want);
    redis_stop(s);
}

static void users_and_configuration_are_as_asked(void **state)
{
    char text[200];
    const char *users[] = { "reader on >r ~* +get", NULL };
    const char *config[] = { "busy-reply-threshold 100", NULL };
    (void)state;
    redis_server *s = redis_start(&(redis_opts){ .user = "app",
                                                 .password = "secret",
                                                 .users = users,
                                                 .config = config,
                                                 .maxmemory = 50000000 });
    assert_non_null(s);
    assert_string_equal(redis_text(s, text, sizeof text, "ACL WHOAMI"), "app");
    assert_string_equal(redis_text(s, text, sizeof text, "AUTH reader r"),
                        "OK");
    redis_text(s, text, sizeof text, "SET a b");
    assert_memory_equal(text, "NOPERM", 6);
    redis_text(s, text, sizeof text, "AUTH app secret");
    redisReply *r = redis_raw(s, "CONFIG GET busy-reply-threshold");
    assert_string_equal(r->element[1]->str, "100");
    freeReplyObject(r);
    r = redis_raw(s, "CONFIG GET maxmemory");
    assert_string_equal(r->element[1]->str, "50000000");
    freeReplyObject(r);
    redis_url(s, text, sizeof text);
    assert_memory_equal(text, "unix://app:secret@/tmp/", 23);
    redis_stop(s);
}

static void looking_survives_a_closed_connection(void **state)
{
    (void)state;
    redis_server *s = redis_start(NULL);
    assert_non_null(s);
    redisContext *c = redisConnectUnix(redis_socket(s));
    assert_int_equal(redis_int(s, "DBSIZE"), 0);
    freeReplyObject(redisCommand(c, "CLIENT KILL TYPE normal SKIPME yes"));
    assert_int_equal(redis_int(s, "DBSIZE"), 0);
    redisFree(c);
    redis_stop(s);
}

static void a_paused_server_is_silent_until_resumed(void **state)
{
    (void)state;
    redis_server *s = redis_start(NULL);
    assert_non_null(s);
    redis_pause(s);
    redisContext *c = redisConnectUnix(redis_socket(s));
    assert_true(c && !c->err);
    redisSetTimeout(c, (struct timeval){ .tv_usec = 100 * 1000 });
    assert_null(redisCommand(c, "PING"));
    redisFree(c);
    redis_resume(s);
    assert_int_equal(redis_int(s, "DBSIZE"), 0);
    redis_pause(s);
    redis_stop(s);
}

/* A child starts a server, says where, and is killed. */
static void nothing_is_left_when_the_test_is_killed(void **state)
{
    int fds[2];
    struct {
        pid_t server;
        char dir[200];
    } said;
    (void)state;
    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    if (child == 0) {
        redis_server *s = redis_start(NULL);
        memset(&said, 0, sizeof said);
        said.server = s ? redis_pid(s) : -1;
        snprintf(said.dir, sizeof said.dir, "%s", s ? redis_dir(s) : "");
        (void)!write(fds[1], &said, sizeof said);
        pause();
        _exit(0);
    }
    assert_int_equal(read(fds[0], &said, sizeof said), sizeof said);
    assert_true(said.server > 0);
    assert_true(exists(said.dir));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    char comm[64];
    snprintf(comm, sizeof comm, "/proc/%d/exe", (int)said.server);
    wait_until(!exists(said.dir), 5000);
    /* A zombie that nobody reaps has no exe. */
    wait_until(access(comm, F_OK) != 0, 5000);
    close(fds[0]);
    close(fds[1]);
}

static void stale_directories_of_dead_processes_are_swept(void **state)
{
    char old[64], fresh[64];
    (void)state;
    pid_t dead = fork();
    if (dead == 0)
        _exit(0);
    waitpid(dead, NULL, 0);
    snprintf(old, sizeof old, "/tmp/leat-r%d-oldold", (int)dead);
    snprintf(fresh, sizeof fresh, "/tmp/leat-r%d-fresh1", (int)dead);
    assert_int_equal(mkdir(old, 0700), 0);
    assert_int_equal(mkdir(fresh, 0700), 0);
    struct timespec times[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
    assert_int_equal(utimensat(AT_FDCWD, old, times, 0), 0);
    redis_stop(redis_start(NULL));
    assert_false(exists(old));
    assert_true(exists(fresh));
    assert_int_equal(rmdir(fresh), 0);
}

static int64_t server_time_s(redis_server *s)
{
    redisReply *r = redis_raw(s, "TIME");
    assert_true(r && r->elements == 2);
    int64_t t = strtoll(r->element[0]->str, NULL, 10);
    freeReplyObject(r);
    return t;
}

static void the_server_clock_jumps_when_told(void **state)
{
    char path[] = "/tmp/leat-clock-XXXXXX";
    (void)state;
    int fd = mkstemp(path);
    assert_int_equal(ftruncate(fd, 8), 0);
    int64_t *shift = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(shift, MAP_FAILED);
    redis_server *s = redis_start(&(redis_opts){ .clock_file = path });
    assert_non_null(s);
    int64_t t0 = time(NULL);
    assert_in_range(server_time_s(s) - t0 + 5, 0, 10);
    redis_text(s, (char[8]){ 0 }, 8, "SET lease me PX 60000");
    *shift = 120LL * 1000000000;
    assert_in_range(server_time_s(s) - t0 - 120 + 5, 0, 10);
    wait_until(redis_int(s, "EXISTS lease") == 0, 1000);
    *shift = -3600LL * 1000000000;
    assert_in_range(server_time_s(s) - t0 + 3600 + 5, 0, 10);
    redis_stop(s);
    munmap(shift, 8);
    close(fd);
    unlink(path);
}

/* Loaded beside the true functions instead of in front of them, so that both
 * can be asked. */
static void only_the_wall_clock_is_moved(void **state)
{
    char path[] = "/tmp/leat-clock-XXXXXX";
    int64_t shift = -90LL * 1000000000 - 999999999;
    (void)state;
    int fd = mkstemp(path);
    assert_int_equal(write(fd, &shift, 8), 8);
    setenv("SHIM_CLOCK_FILE", path, 1);
    void *shim = dlopen(SHIM_CLOCK, RTLD_NOW | RTLD_LOCAL);
    unsetenv("SHIM_CLOCK_FILE");
    assert_non_null(shim);
    int (*moved)(clockid_t, struct timespec *);
    int (*moved_day)(struct timeval *, void *);
    time_t (*moved_time)(time_t *);
    *(void **)&moved = dlsym(shim, "clock_gettime");
    *(void **)&moved_day = dlsym(shim, "gettimeofday");
    *(void **)&moved_time = dlsym(shim, "time");
    for (int i = 0; i < 1000; i++) {
        struct timespec now, t;
        struct timeval day;
        clock_gettime(CLOCK_REALTIME, &now);
        assert_int_equal(moved(CLOCK_REALTIME, &t), 0);
        assert_in_range(now.tv_sec - t.tv_sec, 85, 91);
        assert_in_range(t.tv_nsec, 0, 999999999);
        assert_int_equal(moved_day(&day, NULL), 0);
        assert_in_range(now.tv_sec - day.tv_sec, 85, 91);
        assert_in_range(now.tv_sec - moved_time(NULL), 85, 91);
        clock_gettime(CLOCK_MONOTONIC, &now);
        assert_int_equal(moved(CLOCK_MONOTONIC, &t), 0);
        assert_in_range(t.tv_sec - now.tv_sec, 0, 5);
    }
    dlclose(shim);
    close(fd);
    unlink(path);
}

static void a_start_that_fails_says_so_and_leaves_nothing(void **state)
{
    const char *config[] = { "no-such-setting 1", NULL };
    (void)state;
    assert_int_equal(freopen("/dev/null", "w", stderr) != NULL, 1);
    assert_null(redis_start(&(redis_opts){ .config = config }));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_starts_answers_and_leaves_nothing),
        cmocka_unit_test(data_survive_kill_and_restart_with_aof),
        cmocka_unit_test(a_server_listens_on_a_port_if_asked),
        cmocka_unit_test(users_and_configuration_are_as_asked),
        cmocka_unit_test(looking_survives_a_closed_connection),
        cmocka_unit_test(a_paused_server_is_silent_until_resumed),
        cmocka_unit_test(nothing_is_left_when_the_test_is_killed),
        cmocka_unit_test(stale_directories_of_dead_processes_are_swept),
        cmocka_unit_test(the_server_clock_jumps_when_told),
        cmocka_unit_test(only_the_wall_clock_is_moved),
        cmocka_unit_test(a_start_that_fails_says_so_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
