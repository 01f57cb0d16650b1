/*
 * lookup.c: connecting ends at its deadline, whatever the resolver or the
 * network does.
 *
 * The C library's name lookup is replaced for the names below, by one that
 * hangs until it is told to go on.
 */
#include "redis/lookup.h"
#include "support/server.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOW "slow.leat.invalid"
#define HERE "here.leat.invalid"
#define TWO  "two.leat.invalid"

enum { LONG_MS = 60000, CONNECT_MS = 300, TWO_MS = 6000, HANGS_MS = 20000 };

/* ---- a resolver that hangs -------------------------------------------- */

typedef int getaddrinfo_fn(const char *, const char *, const struct addrinfo *,
                           struct addrinfo **);

static atomic_bool hangs;
static atomic_int begun, ended; /* lookups of SLOW    */
static atomic_int names;        /* lookups of a name  */

/* A machine without this rig would hang for good; here it only takes long, so
 * that a caller who waits for it fails the test and not the run. */
static int hang(void)
{
    int64_t stop = wait_now_ms() + HANGS_MS;
    atomic_fetch_add(&begun, 1);
    while (atomic_load(&hangs) && wait_now_ms() < stop)
        usleep(1000);
    atomic_fetch_add(&ended, 1);
    return EAI_AGAIN;
}

/* The first address is silent, the second answers. */
static int resolve_two(getaddrinfo_fn *real, const char *service,
                       const struct addrinfo *hints, struct addrinfo **out)
{
    int rc = real("127.0.0.2", service, hints, out);
    return rc ? rc : real("127.0.0.1", service, hints, &(*out)->ai_next);
}

int getaddrinfo(const char *node, const char *service,
                const struct addrinfo *hints, struct addrinfo **out)
{
    getaddrinfo_fn *real = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (!node || !hints || (hints->ai_flags & AI_NUMERICHOST))
        return real(node, service, hints, out);
    atomic_fetch_add(&names, 1);
    if (strcmp(node, SLOW) == 0)
        return hang();
    if (strcmp(node, TWO) == 0)
        return resolve_two(real, service, hints, out);
    return real(strcmp(node, HERE) == 0 ? "127.0.0.1" : node, service, hints,
                out);
}

static int start_hanging(void **state)
{
    (void)state;
    atomic_store(&begun, 0);
    atomic_store(&ended, 0);
    atomic_store(&hangs, true);
    return 0;
}

/* Nobody is left behind for the next test. */
static int stop_hanging(void **state)
{
    (void)state;
    atomic_store(&hangs, false);
    wait_until(atomic_load(&ended) == atomic_load(&begun), LONG_MS);
    return 0;
}

#define slow_test(name)                                                        \
    cmocka_unit_test_setup_teardown(name, start_hanging, stop_hanging)

/* ---- connecting ------------------------------------------------------- */

static leat_client *connect_to(const char *host, int port, int64_t timeout_ms,
                               leat_error *e)
{
    char where[400];
    snprintf(where, sizeof where, "redis://%s:%d", host, port);
    return leat_client_open(
        where, &(leat_client_opts){ .connect_timeout_ms = timeout_ms }, e);
}

static void ends_in_time(const char *host, int port, const char *word)
{
    leat_error e = { 0 };
    int64_t before = wait_now_ms();
    assert_null(connect_to(host, port, CONNECT_MS, &e));
    int64_t took = wait_now_ms() - before;
    print_message("# after %d ms: %s\n", (int)took, e.msg);
    assert_code(e.code, LEAT_ETIMEOUT);
    assert_true(e.retriable);
    assert_non_null(strstr(e.msg, host));
    assert_non_null(strstr(e.msg, word));
    assert_in_range(took, CONNECT_MS - 1, LONG_MS);
}

static void answers(const char *host)
{
    leat_error e = { 0 };
    leat_client *c = connect_to(host, redis_port(server), LONG_MS, &e);
    if (!c)
        fail_msg("%s: %s", host, e.msg);
    leat_client_close(c);
}

/* ---- names ------------------------------------------------------------ */

static void a_slow_lookup_ends_at_the_connect_deadline(void **state)
{
    (void)state;
    ends_in_time(SLOW, 1, "no answer in time");
    assert_int_equal(atomic_load(&ended), 0); /* it was not waited for */
}

static void a_numeric_address_is_not_looked_up(void **state)
{
    (void)state;
    int before = atomic_load(&names);
    answers("127.0.0.1");
    assert_int_equal(atomic_load(&names), before);
    answers(HERE);
    assert_true(atomic_load(&names) > before);
}

/* As many as there may be, and nobody waits for them any more. */
static void leave_as_many_as_there_may_be(void)
{
    leat_error e = { 0 };
    for (int i = 0; i < LEAT__LOOKUPS_MAX; i++) {
        struct addrinfo *all;
        assert_code(leat__lookup(SLOW, 1, wait_now_ms() * 1000000, &all, &e),
                    LEAT_ETIMEOUT);
        assert_non_null(strstr(e.msg, "no answer in time"));
    }
    wait_until(atomic_load(&begun) == LEAT__LOOKUPS_MAX, LONG_MS);
}

static void *answer_here(void *arg)
{
    (void)arg;
    answers(HERE);
    return NULL;
}

static void one_lookup_beyond_the_limit_waits_for_its_turn(void **state)
{
    pthread_t waits;
    (void)state;
    leave_as_many_as_there_may_be();
    ends_in_time(SLOW, 1, "32 lookups are under way");
    assert_int_equal(atomic_load(&begun), LEAT__LOOKUPS_MAX);
    answers("127.0.0.1"); /* needs no turn */

    assert_int_equal(pthread_create(&waits, NULL, answer_here, NULL), 0);
    atomic_store(&hangs, false);
    assert_int_equal(pthread_join(waits, NULL), 0);
}

/* TSan's runtime starts no thread in the child of a threaded program. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN
#endif
#endif

#ifndef UNDER_TSAN
static void a_forked_child_has_no_lookups_under_way(void **state)
{
    int status = 0;
    (void)state;
    leave_as_many_as_there_may_be();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct addrinfo *all;
        int64_t deadline = (wait_now_ms() + LONG_MS) * 1000000;
        _exit(leat__lookup(HERE, 1, deadline, &all, NULL) == LEAT_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}
#endif

static void a_name_has_a_longest(void **state)
{
    char name[LEAT__HOST_MAX + 2];
    struct addrinfo *all;
    leat_error e = { 0 };
    (void)state;
    int64_t deadline = (wait_now_ms() + LONG_MS) * 1000000;
    memset(name, 'x', sizeof name - 1);
    name[LEAT__HOST_MAX + 1] = '\0';
    assert_code(leat__lookup(name, 1, deadline, &all, &e), LEAT_ECONN);
    assert_non_null(strstr(e.msg, "over 255 bytes"));
    name[LEAT__HOST_MAX] = '\0';
    assert_code(leat__lookup(name, 1, deadline, &all, &e), LEAT_ECONN);
    assert_null(strstr(e.msg, "over 255 bytes"));
}

/* ---- addresses that never answer -------------------------------------- */

/* A listener whose backlog is full drops what asks for a connection. */
typedef struct hole {
    int fd, port, full[4];
} hole;

static void open_hole(hole *h, const char *address, int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET };
    socklen_t n = sizeof a;
    assert_int_equal(inet_pton(AF_INET, address, &a.sin_addr), 1);
    a.sin_port = htons((uint16_t)port);
    h->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(h->fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(h->fd, 0), 0);
    assert_int_equal(getsockname(h->fd, (struct sockaddr *)&a, &n), 0);
    h->port = ntohs(a.sin_port);
    for (size_t i = 0; i < sizeof h->full / sizeof h->full[0]; i++) {
        h->full[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                            0);
        (void)connect(h->full[i], (struct sockaddr *)&a, sizeof a);
    }
}

static void close_hole(hole *h)
{
    for (size_t i = 0; i < sizeof h->full / sizeof h->full[0]; i++)
        close(h->full[i]);
    close(h->fd);
}

static void a_black_hole_ends_at_the_connect_deadline(void **state)
{
    hole h;
    (void)state;
    open_hole(&h, "127.0.0.1", 0);
    ends_in_time("127.0.0.1", h.port, "cannot connect");
    close_hole(&h);
}

static void a_silent_address_leaves_time_for_the_next(void **state)
{
    hole h;
    leat_error e = { 0 };
    (void)state;
    open_hole(&h, "127.0.0.2", redis_port(server));
    int64_t before = wait_now_ms();
    leat_client *c = connect_to(TWO, redis_port(server), TWO_MS, &e);
    if (!c)
        fail_msg("%s", e.msg);
    assert_in_range(wait_now_ms() - before, TWO_MS / 2 - 1, TWO_MS - 1);
    leat_client_close(c);
    close_hole(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        slow_test(a_slow_lookup_ends_at_the_connect_deadline),
        cmocka_unit_test(a_numeric_address_is_not_looked_up),
        slow_test(one_lookup_beyond_the_limit_waits_for_its_turn),
#ifndef UNDER_TSAN
        slow_test(a_forked_child_has_no_lookups_under_way),
#endif
        cmocka_unit_test(a_name_has_a_longest),
        cmocka_unit_test(a_black_hole_ends_at_the_connect_deadline),
        cmocka_unit_test(a_silent_address_leaves_time_for_the_next),
    };
    server_opts.tcp = true;
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
