/*
 * network.c: peers that vanish, names that are not found, bits that flip and
 * resources that run out.
 *
 * The C library's name lookup is replaced here by one that can fail, for one
 * name only, and then is the C library's again.
 */
#include "support/tcpfault.h"
#include "topic_help.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- a name that may not be found ------------------------------------- */

#define NAME "redis.leat.invalid"

static atomic_bool name_fails;
static atomic_int lookups;

int getaddrinfo(const char *node, const char *service,
                const struct addrinfo *hints, struct addrinfo **out)
{
    int (*real)(const char *, const char *, const struct addrinfo *,
                struct addrinfo **) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    bool numeric = hints && (hints->ai_flags & AI_NUMERICHOST);
    if (!node || strcmp(node, NAME) != 0 || numeric)
        return real(node, service, hints, out);
    atomic_fetch_add(&lookups, 1);
    if (atomic_load(&name_fails))
        return EAI_AGAIN;
    return real("127.0.0.1", service, hints, out);
}

/* ---- fixtures --------------------------------------------------------- */

static tcpfault *proxy;
static char by_proxy[64];

static int open_proxy(void **state)
{
    proxy = tcpfault_start(redis_socket(server), NULL);
    if (!proxy)
        return -1;
    snprintf(by_proxy, sizeof by_proxy, "redis://127.0.0.1:%d",
             tcpfault_port(proxy));
    return open_one(state);
}

static int close_proxy(void **state)
{
    int rc = close_one(state);
    tcpfault_stop(proxy);
    proxy = NULL;
    return rc;
}

#define proxy_test(name)                                                       \
    cmocka_unit_test_setup_teardown(name, open_proxy, close_proxy)

static leat_code ping(leat_client *c, leat_error *e)
{
    return leat_client_call(c, LEAT_ARGS(leat_str("PING")), NULL, NULL, e);
}

static uint64_t failures_of(leat_metrics *m)
{
    return leat_counter_get(leat_metrics_counter(
        m, "leat_redis_connect_failures_total",
        "Attempts to connect that failed.", NULL, 0, NULL));
}

/* The server is away for AWAY_MS: attempts are few, and the error says so in
 * the end.  It is to be back within the time that is given to conditions. */
enum { AWAY_MS = 2000 };

static void stays_away(leat_client *c, leat_metrics *m, const char *word)
{
    leat_error e = { 0 };
    uint64_t before = failures_of(m);
    int64_t begin = wait_now_ms();
    assert_null(leat_client_lend(c, AWAY_MS, &e));
    assert_true(wait_now_ms() - begin < LONG_MS);
    assert_true(e.retriable);
    if (!strstr(e.msg, word))
        fail_msg("'%s' does not name '%s'", e.msg, word);
    uint64_t tries = failures_of(m) - before;
    print_message("# %d attempts in %d s\n", (int)tries, AWAY_MS / 1000);
    assert_in_range(tries, 1, 10 + 2 * AWAY_MS / 1000);
}

static void comes_back(leat_client *c)
{
    leat_error e = { 0 };
    int64_t begin = wait_now_ms();
    leat_conn *conn = leat_client_lend(c, LONG_MS, &e);
    if (!conn)
        fail_msg("it does not come back: %s", e.msg);
    print_message("# back after %d ms\n", (int)(wait_now_ms() - begin));
    leat_client_return(c, conn);
}

/* ---- peers that vanish ------------------------------------------------ */

/* C6: nothing says that the peer is gone but its silence.  The time between is
 * the configured one; above it only what a busy machine adds. */
static void a_half_open_peer_is_noticed_when_configured(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_client *c = open_client(by_proxy,
                                 &(leat_client_opts){ .timeout_ms = 3000 });
    assert_code(ping(c, &e), LEAT_OK);
    tcpfault_rule_add(proxy, &(tcpfault_rule){ .dir = TCPFAULT_UP,
                                               .when = TCPFAULT_COMMAND,
                                               .command = "PING",
                                               .action = TCPFAULT_HALF_OPEN });
    int64_t before = wait_now_ms();
    assert_code(ping(c, &e), LEAT_EUNKNOWN);
    int64_t took = wait_now_ms() - before;
    print_message("# noticed after %d ms\n", (int)took);
    assert_in_range(took, 2900, 3000 + LONG_MS);
    tcpfault_clear(proxy);
    assert_code(ping(c, &e), LEAT_OK); /* on another connection */
    leat_client_close(c);
}

/* A reader that only waits: the read it waits in never ends.  The side that
 * publishes is not cut off. */
static void an_idle_reader_of_a_half_open_peer_reads_on(void **state)
{
    (void)state;
    leat_client *c = open_client(
        by_proxy,
        &(leat_client_opts){ .timeout_ms = 1000, .max_retry_ms = 100 });
    leat_topic *t = topic_of(c, "orders", 2);
    leat_source *s = source_of(t, "g",
                               &(leat_topic_source_opts){ .block_ms = 500 });
    wait_until((nothing_of(s, 1), stats_of(s).partitions == 2), LONG_MS);
    for (int i = 0; i < 3; i++) {
        tcpfault_counts was = tcpfault_count(proxy);
        /* From here on nothing passes on those that are there. */
        for (int k = 1; k <= (int)was.connections; k++)
            tcpfault_rule_add(proxy,
                              &(tcpfault_rule){ .conn = k,
                                                .dir = TCPFAULT_DOWN,
                                                .when = TCPFAULT_FRAME,
                                                .action = TCPFAULT_HALF_OPEN });
        int64_t before = wait_now_ms();
        add_many("orders", i % 2, i, 1);
        leat_delivery *d = next_of(s);
        print_message("# read on after %d ms\n", (int)(wait_now_ms() - before));
        assert_int_equal(body_number(d), i);
        ack(d);
        tcpfault_clear(proxy);
    }
    must(leat_source_flush(s, LONG_MS, err));
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(c);
}

/* ---- peers that cannot be reached ------------------------------------- */

/* A listener whose backlog is full drops what asks for a connection. */
typedef struct hole {
    int fd, full[4];
} hole;

static void open_hole(hole *h, int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET };
    int on = 1;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons((uint16_t)port);
    h->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(h->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    assert_int_equal(bind(h->fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(h->fd, 0), 0);
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

/* C8 */
static void a_black_hole_is_left_in_time_and_the_server_found_again(void **s)
{
    char where[256];
    hole h;
    (void)s;
    redis_server *mine = redis_start(&(redis_opts){ .tcp = true });
    assert_non_null(mine);
    int port = redis_port(mine);
    leat_metrics *m = leat_metrics_new(NULL);
    leat_client *c = open_client(
        redis_url(mine, where, sizeof where),
        &(leat_client_opts){ .connect_timeout_ms = 300, .metrics = m });
    redis_kill(mine);
    open_hole(&h, port);
    stays_away(c, m, "127.0.0.1");
    close_hole(&h);
    assert_true(redis_restart(mine));
    if (redis_port(mine) == port) /* else another program took it */
        comes_back(c);
    leat_client_close(c);
    leat_metrics_free(m);
    redis_stop(mine);
}

/* C8 */
static void a_name_that_is_not_found_is_looked_up_again(void **state)
{
    char where[64];
    leat_error e = { 0 };
    (void)state;
    leat_metrics *m = leat_metrics_new(NULL);
    snprintf(where, sizeof where, "redis://" NAME ":%d", tcpfault_port(proxy));
    leat_client *c = open_client(where, &(leat_client_opts){ .metrics = m });
    assert_code(ping(c, &e), LEAT_OK);
    atomic_store(&name_fails, true);
    tcpfault_drop(proxy, 0, true);
    int before = atomic_load(&lookups);
    stays_away(c, m, NAME);
    assert_true(atomic_load(&lookups) > before);
    atomic_store(&name_fails, false);
    comes_back(c);
    leat_client_close(c);
    leat_metrics_free(m);
}

/* ---- bits that flip --------------------------------------------------- */

enum { BODY = 200 };

static void write_one(char body[BODY])
{
    leat_error e = { 0 };
    leat_fields *f = leat_fields_new(&e);
    for (int i = 0; i < BODY; i++)
        body[i] = (char)('!' + i * 7 % 90);
    leat_msg m = { .id = leat_str("an-id"),
                   .key = leat_str("a key"),
                   .type = leat_str("a.type"),
                   .time_ms = 1,
                   .body = { body, BODY } };
    leat_bytes argv[16] = { leat_str("XADD"), leat_str("log"),
                            leat_str("1-1") };
    must(leat_codec_native.encode(&leat_codec_native, &m, 1, f, err));
    size_t n = 2 * leat_fields_count(f);
    memcpy(argv + 3, leat_fields_pairs(f), n * sizeof *argv);
    must(leat_client_call(client, argv, 3 + n, NULL, NULL, err));
    leat_fields_free(f);
}

/* The fields of the one entry; false: it is not what XRANGE answers. */
static bool fields_of(const leat_reply *r, leat_fields *out)
{
    const leat_reply *entry = leat_reply_at(r, 0);
    const leat_reply *fields = entry ? leat_reply_at(entry, 1) : NULL;
    size_t n = fields ? leat_reply_len(fields) : 0;
    for (size_t i = 0; i + 1 < n; i += 2)
        must(leat_fields_add(out, leat_reply_bytes(leat_reply_at(fields, i)),
                             leat_reply_bytes(leat_reply_at(fields, i + 1)),
                             err));
    return n > 0 && n % 2 == 0;
}

static struct {
    leat_client *c;
    uint64_t base; /* bytes that came down before this connection */
    int broken, refused, unharmed;
} flips;

static void open_flipped(void)
{
    wait_until(tcpfault_count(proxy).open == 0, LONG_MS);
    flips.base = tcpfault_count(proxy).down;
    flips.c = open_client(by_proxy,
                          &(leat_client_opts){ .timeout_ms = 100,
                                               .connect_timeout_ms = LONG_MS,
                                               .pool_size = 1,
                                               .resp2 = true });
}

static leat_code read_log(leat_reply **r)
{
    leat_error e = { 0 };
    return leat_client_call(flips.c,
                            LEAT_ARGS(leat_str("XRANGE"), leat_str("log"),
                                      leat_str("-"), leat_str("+")),
                            NULL, r, &e);
}

static bool same(leat_bytes b, const char *text, size_t n)
{
    return b.n == n && memcmp(b.p, text, n) == 0;
}

/* What was read is the message, or nothing.  False: not even an entry, and
 * what follows on the connection may be the rest of it. */
static bool judge(const leat_reply *r, const char *body)
{
    leat_error e = { 0 };
    const leat_msg *m = NULL;
    size_t n = 0;
    leat_fields *f = leat_fields_new(&e);
    bool entry = fields_of(r, f);
    if (!entry || leat_codec_native.decode(&leat_codec_native, f, &m, &n, &e) !=
                      LEAT_OK) {
        flips.refused++;
    } else {
        if (n != 1 || !same(m->body, body, BODY) || !same(m->key, "a key", 5) ||
            !same(m->id, "an-id", 5) || !same(m->type, "a.type", 6) ||
            m->time_ms != 1)
            fail_msg("a message that nobody wrote");
        flips.unharmed++;
    }
    leat_fields_free(f);
    return entry;
}

static void reopen_flipped(void)
{
    leat_client_close(flips.c);
    open_flipped();
}

/* False: the bit was not on this connection.  The flip before may have made
 * two replies of one, and the client left the connection for it. */
static bool flip_one(uint64_t at, int bit, const char *body)
{
    leat_reply *r = NULL;
    tcpfault_counts now = tcpfault_count(proxy);
    int rule = tcpfault_rule_add(
        proxy, &(tcpfault_rule){ .conn = (int)now.connections,
                                 .dir = TCPFAULT_DOWN,
                                 .when = TCPFAULT_OFFSET,
                                 .n = now.down - flips.base + at,
                                 .action = TCPFAULT_FLIP,
                                 .bit = bit });
    leat_code rc = read_log(&r);
    bool fired = tcpfault_fired(proxy, rule) > 0;
    tcpfault_clear(proxy);
    if (fired && rc != LEAT_OK)
        flips.broken++;
    bool sound = fired && rc == LEAT_OK && judge(r, body);
    leat_reply_free(r);
    if (!sound)
        reopen_flipped();
    return fired;
}

/* C10: any bit of the reply, on its way.  What the codec wrote is covered by
 * its checksum, the rest by what a reply looks like. */
static void a_flipped_bit_never_makes_another_message(void **state)
{
    char body[BODY];
    leat_reply *r = NULL;
    (void)state;
    write_one(body);
    memset(&flips, 0, sizeof flips);
    open_flipped();
    uint64_t before = tcpfault_count(proxy).down;
    assert_code(read_log(&r), LEAT_OK);
    assert_true(judge(r, body));
    leat_reply_free(r);
    assert_int_equal(flips.unharmed, 1);
    uint64_t size = tcpfault_count(proxy).down - before;
    for (uint64_t at = 0; at < size; at++)
        for (int bit = 0; bit < 8; bit++)
            wait_until(flip_one(at, bit, body), LONG_MS);
    leat_client_close(flips.c);
    print_message("# %d bits: %d refused, %d broke the connection, %d in "
                  "the id\n",
                  (int)size * 8, flips.refused, flips.broken, flips.unharmed);
    /* Answers that a busy machine made late are told as lost. */
    assert_true(flips.refused > 0);
    assert_true(flips.refused + flips.broken >= BODY * 8);
    assert_true(flips.unharmed < 200);
}

/* ---- what runs out ---------------------------------------------------- */

enum { MANY = 64 };

/* Open until it fails; returns how many there are. */
static int open_many(leat_client **c, leat_error *e)
{
    for (int n = 0; n < MANY; n++) {
        c[n] = leat_client_open(url, NULL, e);
        if (!c[n])
            return n;
        /* Connections besides the first, as many threads would want. */
        for (int k = 0; k < 2; k++) {
            leat_conn *a = leat_client_lend(c[n], 0, e);
            leat_conn *b = a ? leat_client_lend(c[n], 0, e) : NULL;
            leat_client_return(c[n], b);
            leat_client_return(c[n], a);
        }
    }
    return MANY;
}

/* G4 */
static void without_descriptors_it_fails_leaks_nothing_and_recovers(void **s)
{
    static leat_client *c[MANY];
    leat_error e = { 0 };
    struct rlimit was, few;
    (void)s;
    int fds = open_fds();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    few = was;
    few.rlim_cur = 64;
    assert_true(fds < 40);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int n = open_many(c, &e);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    print_message("# %d clients, then: %s\n", n, e.msg);
    assert_in_range(n, 5, MANY - 1);
    assert_true(e.code != LEAT_OK && e.code != LEAT_EUNKNOWN);
    assert_true(e.retriable);
    for (int i = 0; i < n; i++) {
        assert_code(ping(c[i], &e), LEAT_OK);
        leat_client_close(c[i]);
    }
    assert_int_equal(open_fds(), fds);
}

static int no_port(void *arg, int fd, const struct sockaddr *a, socklen_t n)
{
    (void)arg;
    (void)fd;
    (void)a;
    (void)n;
    errno = EADDRNOTAVAIL;
    return -1;
}

/* G4 */
static void without_free_ports_it_fails_leaks_nothing_and_recovers(void **s)
{
    leat_error e = { 0 };
    (void)s;
    leat_client *c = open_client(by_proxy, NULL);
    leat_system sys = *leat_system_default();
    sys.connect = no_port;
    int fds = open_fds();
    leat_system_set(&sys);
    assert_null(leat_client_open(by_proxy, NULL, &e));
    assert_code(e.code, LEAT_ECONN);
    assert_true(e.retriable);
    leat_conn *first = leat_client_lend(c, 0, &e); /* the one that is there */
    assert_null(leat_client_lend(c, 200, &e));
    assert_code(e.code, LEAT_ECONN);
    leat_system_set(NULL);
    assert_int_equal(open_fds(), fds);
    comes_back(c);
    leat_client_return(c, first);
    leat_client_close(c);
}

/* G4: the server takes no more; those who are there go on, and who waits gets
 * in when there is room. */
static void a_server_without_room_is_waited_for(void **state)
{
    leat_client *c[8];
    leat_error e = { 0 };
    (void)state;
    int fds = open_fds();
    for (int i = 0; i < 8; i++)
        c[i] = open_client(url, &(leat_client_opts){ .max_retry_ms = 100 });
    redis_do(server, "CONFIG SET maxclients 10");
    redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    leat_conn *held[16];
    int got = 0, whose[16];
    for (int i = 0; i < 16; i++) {
        held[got] = leat_client_lend(c[i % 8], 100, &e);
        whose[got] = i % 8;
        got += held[got] != NULL;
    }
    assert_in_range(got, 1, 10);
    assert_true(e.retriable); /* told so, or shut out before it was said */
    redis_do(server, "CONFIG SET maxclients 1000");
    for (int i = 0; i < got; i++)
        must(leat_conn_call(held[i], LEAT_ARGS(leat_str("PING")), NULL, NULL,
                            err));
    for (int i = 0; i < got; i++)
        leat_client_return(c[whose[i]], held[i]);
    for (int i = 0; i < 8; i++) {
        comes_back(c[i]);
        leat_client_close(c[i]);
    }
    assert_int_equal(open_fds(), fds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        proxy_test(a_half_open_peer_is_noticed_when_configured),
        proxy_test(an_idle_reader_of_a_half_open_peer_reads_on),
        cmocka_unit_test(
            a_black_hole_is_left_in_time_and_the_server_found_again),
        proxy_test(a_name_that_is_not_found_is_looked_up_again),
        proxy_test(a_flipped_bit_never_makes_another_message),
        topic_test(without_descriptors_it_fails_leaks_nothing_and_recovers),
        proxy_test(without_free_ports_it_fails_leaks_nothing_and_recovers),
        topic_test(a_server_without_room_is_waited_for),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
