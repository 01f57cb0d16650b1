/* rigs_tcpfault.c: the proxy breaks at the byte it was told, and no other. */
#include "support/framer.h"
#include "support/redis.h"
#include "support/tcpfault.h"
#include "support/wait.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static redis_server *server;
static tcpfault *proxy;

static int setup(void **state)
{
    (void)state;
    redis_flush(server);
    proxy = tcpfault_start(redis_socket(server), NULL);
    return proxy ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    tcpfault_stop(proxy);
    return 0;
}

/* A client of the plainest kind, so that bytes can be counted. */
static int dial_from(const char *address)
{
    struct sockaddr_in a = { .sin_family = AF_INET }, me = a;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons((uint16_t)tcpfault_port(proxy));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval wait = { .tv_sec = 5 };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    if (address) {
        assert_int_equal(inet_pton(AF_INET, address, &me.sin_addr), 1);
        assert_int_equal(bind(fd, (struct sockaddr *)&me, sizeof me), 0);
    }
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static int dial(void)
{
    return dial_from(NULL);
}

static void say(int fd, const char *text)
{
    size_t n = strlen(text);
    assert_int_equal(send(fd, text, n, MSG_NOSIGNAL), n);
}

/* Read until the end, an error or n bytes; returns the bytes.  *why: 0 for an
 * orderly end. */
static size_t hear(int fd, char *buf, size_t n, int *why)
{
    size_t got = 0;
    *why = -1;
    while (got < n) {
        ssize_t r = recv(fd, buf + got, n - got, 0);
        if (r <= 0) {
            *why = r < 0 ? errno : 0;
            break;
        }
        got += (size_t)r;
    }
    return got;
}

static void assert_hears(int fd, const char *want)
{
    char buf[4096] = "";
    int why;
    size_t n = strlen(want);
    assert_true(n < sizeof buf);
    assert_int_equal(hear(fd, buf, n, &why), n);
    assert_string_equal(buf, want);
}

static bool silent(int fd, int ms)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    return poll(&p, 1, ms) == 0;
}

#define RULE(...) tcpfault_rule_add(proxy, &(tcpfault_rule){ __VA_ARGS__ })

static void the_framer_finds_the_ends(void **state)
{
    static const char *const replies[] = {
        "+OK\r\n",
        "-ERR x\r\n",
        ":12\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
        "$3\r\na\rb\r\n",
        "*0\r\n",
        "*-1\r\n",
        "_\r\n",
        "#t\r\n",
        ",1.5\r\n",
        "(123\r\n",
        "=5\r\ntxt:a\r\n",
        "!3\r\nERR\r\n",
        "~1\r\n:1\r\n",
        "*2\r\n*1\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n",
        "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n",
        ">2\r\n+x\r\n+y\r\n",
        "|1\r\n+k\r\n+v\r\n:5\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        size_t n = strlen(replies[i]);
        framer f = { 0 };
        framer_begin(&f);
        for (size_t k = 0; k < n; k++) {
            assert_false(f.over);
            assert_int_equal(framer_scan(&f, replies[i] + k, 1), 1);
        }
        assert_true(f.over);
        char twice[200];
        snprintf(twice, sizeof twice, "%s+more\r\n", replies[i]);
        framer_begin(&f);
        assert_int_equal(framer_scan(&f, twice, strlen(twice)), n);
    }
}

static void the_framer_knows_command_names(void **state)
{
    framer f = { .commands = true };
    (void)state;
    framer_begin(&f);
    const char
        *set = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\nPING x\r\n";
    size_t n = framer_scan(&f, set, strlen(set));
    assert_true(f.over && f.named);
    assert_string_equal(f.name, "SET");
    framer_begin(&f);
    assert_int_equal(framer_scan(&f, set + n, strlen(set) - n), 8);
    assert_true(f.over);
    assert_string_equal(f.name, "PING");
    framer_begin(&f);
    assert_int_equal(framer_scan(&f, set, 10), 10);
    assert_false(f.named);
    framer_scan(&f, set + 10, 1);
    assert_true(f.named && !f.over);
    framer lost = { 0 };
    framer_begin(&lost);
    assert_int_equal(framer_scan(&lost, "?\r\n+OK\r\n", 8), 8);
    assert_true(lost.lost && !lost.over);
}

static void without_rules_bytes_pass_unchanged(void **state)
{
    (void)state;
    redisContext *c = redisConnect("127.0.0.1", tcpfault_port(proxy));
    size_t n = 3 * 1000 * 1000;
    char *big = malloc(n);
    for (size_t i = 0; i < n; i++)
        big[i] = (char)(i * 2654435761u >> 13);
    freeReplyObject(redisCommand(c, "SET k %b", big, n));
    redisReply *r = redisCommand(c, "GET k");
    assert_non_null(r);
    assert_int_equal(r->len, n);
    assert_memory_equal(r->str, big, n);
    freeReplyObject(r);
    redisFree(c);
    free(big);
    tcpfault_counts k = tcpfault_count(proxy);
    assert_int_equal(k.connections, 1);
    assert_true(k.up > n && k.down > n);
    wait_until(tcpfault_count(proxy).open == 0, 2000);
}

/* The promise all cut tests stand on: exactly k bytes, for every k. */
static void cut_at(tcpfault_action action, int why_wanted)
{
    const char *want = "+PONG\r\n$5\r\nhello\r\n";
    size_t all = strlen(want);
    for (size_t k = 0; k <= all; k++) {
        char buf[64] = "";
        int why;
        tcpfault_clear(proxy);
        int r = RULE(.dir = TCPFAULT_DOWN, .n = k, .action = action,
                     .times = 1);
        int fd = dial();
        assert_true(fd >= 0);
        /* A reset at 0 may be there before we speak; then send says so. */
        bool late = send(fd, "PING\r\nECHO hello\r\n", 18, MSG_NOSIGNAL) < 0;
        int sent_why = errno;
        assert_int_equal(hear(fd, buf, sizeof buf, &why), k);
        if (late && why == 0 && k == 0)
            why = sent_why;
        assert_memory_equal(buf, want, k);
        assert_int_equal(why, why_wanted);
        assert_int_equal(tcpfault_fired(proxy, r), 1);
        close(fd);
    }
    wait_until(tcpfault_count(proxy).open == 0, 2000);
}

static void cut_ends_orderly_after_exactly_k_bytes(void **state)
{
    (void)state;
    cut_at(TCPFAULT_CUT, 0);
}

static void reset_comes_after_exactly_k_bytes(void **state)
{
    (void)state;
    cut_at(TCPFAULT_RESET, ECONNRESET);
}

static void a_request_cut_anywhere_but_at_its_end_is_not_run(void **state)
{
    const char *incr = "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n";
    size_t all = strlen(incr);
    (void)state;
    for (size_t k = 0; k <= all; k++) {
        char buf[64];
        int why;
        tcpfault_clear(proxy);
        RULE(.dir = TCPFAULT_UP, .n = k, .action = TCPFAULT_CUT, .times = 1);
        uint64_t up = tcpfault_count(proxy).up;
        int fd = dial();
        (void)!send(fd, incr, all, MSG_NOSIGNAL);
        hear(fd, buf, sizeof buf, &why);
        close(fd);
        wait_until(tcpfault_count(proxy).open == 0, 2000);
        assert_int_equal(tcpfault_count(proxy).up - up, k);
    }
    wait_until(redis_int(server, "GET n") == 1, 1000);
}

static void a_command_is_held_and_released_after_its_sender_left(void **state)
{
    (void)state;
    int r = RULE(.when = TCPFAULT_COMMAND, .command = "rpush",
                 .action = TCPFAULT_HOLD, .times = 1);
    int fd = dial();
    say(fd, "*1\r\n$4\r\nPING\r\n");
    assert_hears(fd, "+PONG\r\n");
    say(fd, "*3\r\n$5\r\nRPUSH\r\n$1\r\nl\r\n$1\r\nx\r\n");
    wait_until(tcpfault_fired(proxy, r) == 1, 1000);
    close(fd);
    fd = dial();
    say(fd, "RPUSH l y\r\n");
    assert_hears(fd, ":1\r\n");
    tcpfault_release(proxy);
    wait_until(redis_int(server, "LLEN l") == 2, 1000);
    close(fd);
}

static void a_delay_delays(void **state)
{
    (void)state;
    RULE(.dir = TCPFAULT_DOWN, .when = TCPFAULT_FRAME, .n = 2,
         .action = TCPFAULT_DELAY, .ms = 150);
    int fd = dial();
    say(fd, "PING\r\n");
    assert_hears(fd, "+PONG\r\n");
    int64_t start = wait_now_ms();
    say(fd, "PING\r\nPING\r\n");
    assert_hears(fd, "+PONG\r\n+PONG\r\n");
    assert_true(wait_now_ms() - start >= 149);
    close(fd);
}

/* Seen by the pauses: a reader that comes late finds bytes put together. */
static void split_gives_single_bytes(void **state)
{
    (void)state;
    RULE(.dir = TCPFAULT_DOWN, .n = 2, .action = TCPFAULT_SPLIT, .ms = 10);
    int fd = dial();
    int64_t before = wait_now_ms();
    say(fd, "PING\r\n");
    assert_hears(fd, "+PONG\r\n");
    assert_true(wait_now_ms() - before >= 4 * 10);
    close(fd);
}

static void a_blackhole_swallows_one_direction(void **state)
{
    (void)state;
    int r = RULE(.conn = 1, .dir = TCPFAULT_DOWN, .when = TCPFAULT_FRAME,
                 .n = 2, .action = TCPFAULT_BLACKHOLE);
    int fd = dial();
    say(fd, "INCR n\r\nINCR n\r\nINCR n\r\n");
    assert_hears(fd, ":1\r\n");
    wait_until(redis_int(server, "GET n") == 3, 1000);
    wait_until(tcpfault_fired(proxy, r) == 1, 1000);
    assert_true(silent(fd, 50));
    int other = dial();
    say(other, "INCR n\r\n");
    assert_hears(other, ":4\r\n");
    close(fd);
    close(other);
    wait_until(tcpfault_count(proxy).open == 0, 2000);
}

static void half_open_is_silent_both_ways(void **state)
{
    (void)state;
    RULE(.when = TCPFAULT_COMMAND, .command = "INCR", .n = 2,
         .action = TCPFAULT_HALF_OPEN);
    int fd = dial();
    say(fd, "INCR n\r\n");
    assert_hears(fd, ":1\r\n");
    say(fd, "INCR n\r\n");
    assert_true(silent(fd, 50));
    assert_int_equal(redis_int(server, "GET n"), 1);
    close(fd);
    assert_int_equal(tcpfault_count(proxy).open, 1);
    tcpfault_drop(proxy, 0, true);
    wait_until(tcpfault_count(proxy).open == 0, 2000);
}

static void the_door_refuses_resets_hangs_and_opens_again(void **state)
{
    char c;
    (void)state;
    tcpfault_set_door(proxy, TCPFAULT_REFUSE);
    assert_int_equal(dial(), -1);
    assert_int_equal(errno, ECONNREFUSED);
    tcpfault_set_door(proxy, TCPFAULT_RESET_NEW);
    int fd = dial();
    if (fd >= 0) {
        assert_int_equal(recv(fd, &c, 1, 0), -1);
        close(fd);
    }
    tcpfault_set_door(proxy, TCPFAULT_HANG_NEW);
    fd = dial();
    say(fd, "PING\r\n");
    assert_true(silent(fd, 50));
    close(fd);
    tcpfault_set_door(proxy, TCPFAULT_OPEN);
    fd = dial();
    say(fd, "PING\r\n");
    assert_hears(fd, "+PONG\r\n");
    close(fd);
}

static void who_is_barred_is_cut_off_alone_and_reset_in_the_end(void **state)
{
    char buf[8];
    int why;
    (void)state;
    int near = dial(), far = dial_from("127.0.0.2");
    say(far, "PING\r\n");
    assert_hears(far, "+PONG\r\n");
    assert_false(tcpfault_bar(proxy, "nobody"));
    assert_true(tcpfault_bar(proxy, "127.0.0.2"));
    int late = dial_from("127.0.0.2");
    wait_until(tcpfault_count(proxy).connections == 3, 30000);
    say(far, "PING\r\n");
    say(late, "PING\r\n");
    say(near, "PING\r\n");
    assert_hears(near, "+PONG\r\n");
    assert_true(silent(far, 50) && silent(late, 50));

    assert_true(tcpfault_bar(proxy, NULL));
    assert_int_equal(hear(far, buf, 1, &why), 0);
    assert_int_equal(why, ECONNRESET);
    assert_int_equal(hear(late, buf, 1, &why), 0);
    say(near, "PING\r\n");
    assert_hears(near, "+PONG\r\n");
    close(late);
    late = dial_from("127.0.0.2");
    say(late, "PING\r\n");
    assert_hears(late, "+PONG\r\n");
    close(near);
    close(far);
    close(late);
}

/* Each has been sent more than it took when it goes, which the proxy does not
 * see: nothing of it can arrive any more, and nobody waits for that.  Half a
 * second for each would be ten. */
static void resetting_those_whose_peers_are_gone_takes_no_time(void **state)
{
    enum { MANY = 20 };
    int fd[MANY];
    (void)state;
    int near = dial();
    say(near, "SETRANGE big 16777215 x\r\n");
    assert_hears(near, ":16777216\r\n");
    for (int i = 0; i < MANY; i++) {
        fd[i] = dial_from("127.0.0.2");
        say(fd[i], "GET big\r\n");
        assert_hears(fd[i], "$16777216\r\n");
    }
    uint64_t before;
    do { /* until all are full */
        before = tcpfault_count(proxy).down;
        wait_nap(100);
    } while (tcpfault_count(proxy).down != before);
    assert_true(tcpfault_bar(proxy, "127.0.0.2"));
    for (int i = 0; i < MANY; i++)
        close(fd[i]);
    int64_t begin = wait_now_ms();
    assert_true(tcpfault_bar(proxy, NULL));
    assert_true(wait_now_ms() - begin < 9000);
    close(near);
}

static void one_bit_is_flipped_where_asked(void **state)
{
    (void)state;
    RULE(.dir = TCPFAULT_DOWN, .n = 6, .action = TCPFAULT_FLIP, .bit = 5);
    int fd = dial();
    say(fd, "ECHO hello\r\n");
    assert_hears(fd, "$5\r\nheLlo\r\n");
    close(fd);
}

static void a_line_is_injected_at_a_trigger(void **state)
{
    (void)state;
    RULE(.dir = TCPFAULT_DOWN, .when = TCPFAULT_FRAME, .n = 1, .after = true,
         .action = TCPFAULT_INJECT, .bytes = "+EXTRA\r\n", .len = 8);
    int fd = dial();
    say(fd, "PING\r\nECHO a\r\n");
    assert_hears(fd, "+PONG\r\n+EXTRA\r\n$1\r\na\r\n");
    close(fd);
}

static void an_answered_command_never_reaches_the_server(void **state)
{
    (void)state;
    RULE(.when = TCPFAULT_COMMAND, .command = "INCR", .n = 2,
         .action = TCPFAULT_ANSWER, .bytes = "-BUSY x\r\n", .len = 9);
    int fd = dial();
    say(fd, "INCR n\r\nECHO a\r\nINCR n\r\nECHO b\r\nINCR n\r\n");
    assert_hears(fd, ":1\r\n$1\r\na\r\n-BUSY x\r\n$1\r\nb\r\n:2\r\n");
    assert_int_equal(redis_int(server, "GET n"), 2);
    close(fd);
}

static void plus_reaches_into_a_frame(void **state)
{
    char buf[64];
    int why;
    (void)state;
    RULE(.dir = TCPFAULT_DOWN, .when = TCPFAULT_FRAME, .n = 2, .plus = 3,
         .action = TCPFAULT_CUT);
    int fd = dial();
    say(fd, "PING\r\nPING\r\nPING\r\n");
    assert_int_equal(hear(fd, buf, sizeof buf, &why), 7 + 3);
    close(fd);
}

static void the_event_log_tells_what_happened(void **state)
{
    tcpfault_event e[8];
    char buf[8];
    int why;
    (void)state;
    int r = RULE(.dir = TCPFAULT_DOWN, .n = 3, .action = TCPFAULT_RESET);
    int fd = dial();
    (void)!send(fd, "PING\r\n", 6, MSG_NOSIGNAL);
    hear(fd, buf, sizeof buf, &why);
    close(fd);
    wait_until(tcpfault_count(proxy).open == 0, 1000);
    assert_int_equal(tcpfault_events(proxy, 0, e, 8), 3);
    assert_string_equal(e[0].what, "open");
    assert_string_equal(e[1].what, "reset");
    assert_int_equal(e[1].offset, 3);
    assert_int_equal(e[1].rule, r);
    assert_int_equal(e[1].conn, 1);
    assert_string_equal(e[2].what, "close");
}

static void unix_to_unix_works_and_a_dead_server_closes(void **state)
{
    char path[64];
    (void)state;
    snprintf(path, sizeof path, "/tmp/leat-tf%d", (int)getpid());
    tcpfault *f = tcpfault_start(redis_socket(server), path);
    assert_non_null(f);
    redisContext *c = redisConnectUnix(path);
    redisReply *r = redisCommand(c, "PING");
    assert_non_null(r);
    freeReplyObject(r);
    redis_kill(server);
    assert_null(redisCommand(c, "PING"));
    redisFree(c);
    c = redisConnectUnix(path);
    assert_true(c->err || !redisCommand(c, "PING"));
    redisFree(c);
    assert_true(redis_restart(server));
    c = redisConnectUnix(path);
    r = redisCommand(c, "PING");
    assert_non_null(r);
    freeReplyObject(r);
    redisFree(c);
    tcpfault_stop(f);
    assert_int_not_equal(access(path, F_OK), 0);
}

static int start_server(void **state)
{
    (void)state;
    server = redis_start(NULL);
    return server ? 0 : -1;
}

static int stop_server(void **state)
{
    (void)state;
    redis_stop(server);
    return 0;
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* hiredis writes to what is closed */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_framer_finds_the_ends),
        cmocka_unit_test(the_framer_knows_command_names),
        T(without_rules_bytes_pass_unchanged),
        T(cut_ends_orderly_after_exactly_k_bytes),
        T(reset_comes_after_exactly_k_bytes),
        T(a_request_cut_anywhere_but_at_its_end_is_not_run),
        T(a_command_is_held_and_released_after_its_sender_left),
        T(a_delay_delays),
        T(split_gives_single_bytes),
        T(a_blackhole_swallows_one_direction),
        T(half_open_is_silent_both_ways),
        T(the_door_refuses_resets_hangs_and_opens_again),
        T(who_is_barred_is_cut_off_alone_and_reset_in_the_end),
        T(resetting_those_whose_peers_are_gone_takes_no_time),
        T(one_bit_is_flipped_where_asked),
        T(a_line_is_injected_at_a_trigger),
        T(an_answered_command_never_reaches_the_server),
        T(plus_reaches_into_a_frame),
        T(the_event_log_tells_what_happened),
        T(unix_to_unix_works_and_a_dead_server_closes),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
