/*
 * topic_later.c: messages that are published now and are in the log later: not
 * before their time, once each, whoever dies meanwhile and whatever the clock
 * does.
 */
#include "support/clock.h"
#include "support/tcpfault.h"
#include "topic_help.h"
#include "topic_told.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOUR_MS = 3600 * 1000, LARGE = 300 };

static leat_topic *open_with(leat_client *c, const leat_retention *r)
{
    leat_error e = { 0 };
    leat_topic *t = leat_topic_open(
        c, "t",
        &(leat_topic_opts){ .auto_create = true,
                            .max_queued = 200000,
                            .retention = r ? *r : (leat_retention){ 0 } },
        &e);
    if (!t)
        fail_msg("cannot open: %s", e.msg);
    return t;
}

static void later(leat_topic *t, const char *body, int64_t ms)
{
    must(leat_topic_publish_later(t, &(leat_msg){ .body = leat_str(body) }, ms,
                                  NULL, NULL, err));
}

static void number_later(leat_topic *t, int i, int64_t ms)
{
    char body[16];
    snprintf(body, sizeof body, "%d", i);
    later(t, body, ms);
}

static void flush(leat_topic *t)
{
    must(leat_topic_flush(t, LONG_MS, err));
}

static int64_t waiting(redis_server *s)
{
    return redis_int(s, "ZCARD leat:{t/0}:later");
}

static int64_t there(redis_server *s)
{
    return redis_int(s, "XLEN leat:{t/0}:log");
}

/* Each of 0..n-1 is in the log as often as counts say, nothing else is. */
static void count_numbers(redis_server *s, int *counts, int n)
{
    redisReply *r = redis_raw(s, "XRANGE leat:{t/0}:log - +");
    for (size_t k = 0; k < r->elements; k++) {
        int i = told_number(s, "leat:{t/0}:log", r->element[k]);
        assert_in_range(i, 0, n - 1);
        counts[i]++;
    }
    freeReplyObject(r);
}

static void assert_each_once(redis_server *s, int n)
{
    int *counts = calloc((size_t)n, sizeof *counts);
    count_numbers(s, counts, n);
    for (int i = 0; i < n; i++)
        if (counts[i] != 1)
            fail_msg("%d is there %d times", i, counts[i]);
    free(counts);
}

/* ---- in good times ---------------------------------------------------- */

static void on_told(void *arg, const leat_position *at, const leat_error *e)
{
    bool *good = arg;
    *good = !e && at && at->ms == 0 && at->seq == 0;
}

static void a_delayed_message_comes_in_time_once_to_every_group(void **state)
{
    bool good = false;
    (void)state;
    leat_topic *t = open_with(client, NULL);
    leat_source *a = source_of(t, "a", NULL), *b = source_of(t, "b", NULL);
    int64_t begun = wait_now_ms();
    must(leat_topic_publish_later(t, &(leat_msg){ .body = leat_str("x") }, 300,
                                  on_told, &good, err));
    flush(t);
    assert_true(good);
    assert_int_equal(waiting(server) + there(server), 1);
    leat_delivery *d[2] = { next_of(a), next_of(b) };
    assert_true(wait_now_ms() - begun >= 299);
    for (int i = 0; i < 2; i++) {
        assert_body(d[i], "x");
        assert_int_equal(leat_delivery_attempt(d[i]), 1);
        ack(d[i]);
    }
    nothing_of(a, 20);
    nothing_of(b, 20);
    assert_int_equal(waiting(server), 0);
    assert_int_equal(redis_int(server, "EXISTS leat:{t/0}:laters"), 0);
    assert_int_equal(redis_int(server, "EXISTS leat:{t/0}:since"), 0);
    leat_source_close(a);
    leat_source_close(b);
    leat_topic_close(t);
}

static int64_t server_ms(void)
{
    redisReply *r = redis_raw(server, "TIME");
    int64_t ms = strtoll(r->element[0]->str, NULL, 10) * 1000 +
                 strtoll(r->element[1]->str, NULL, 10) / 1000;
    freeReplyObject(r);
    return ms;
}

static void none_comes_before_its_time_by_the_servers_clock(void **state)
{
    static const int64_t delays[] = { 300, 1200 };
    (void)state;
    leat_topic *t = open_with(client, NULL);
    leat_source *s = source_of(t, "g", NULL);
    for (size_t i = 0; i < 2; i++) {
        int64_t before = server_ms();
        later(t, "x", delays[i]);
        flush(t);
        leat_delivery *d = next_of(s);
        int64_t entry_ms = (int64_t)leat_delivery_position(d).ms;
        assert_true(entry_ms - before >= delays[i]);
        ack(d);
    }
    leat_source_close(s);
    leat_topic_close(t);
}

static void they_come_in_the_order_of_their_times(void **state)
{
    (void)state;
    leat_topic *t = open_with(client, NULL);
    for (int i = 0; i < 30; i++)
        number_later(t, i, i < 10 ? 600 : i < 20 ? 400 : 200);
    flush(t);
    leat_source *s = source_of(t, "g", NULL);
    for (int i = 0; i < 30; i++) {
        leat_delivery *d = next_of(s);
        assert_int_equal(body_number(d), i < 10 ? 20 + i : i < 20 ? i : i - 20);
        ack(d);
    }
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_producer_alone_lets_its_own_ripen(void **state)
{
    (void)state;
    leat_topic *t = open_with(client, NULL);
    later(t, "0", 50);
    flush(t);
    wait_until(there(server) == 1, LONG_MS);
    later(t, "1", 1300);
    flush(t);
    wait_until(there(server) == 2, LONG_MS);
    assert_each_once(server, 2);
    leat_topic_close(t);
}

static void what_ripens_while_nobody_is_there_comes_with_the_next(void **state)
{
    (void)state;
    leat_topic *t = open_with(client, NULL);
    later(t, "x", 100);
    flush(t);
    leat_topic_close(t);
    t = open_with(client, NULL);
    leat_source *s = source_of(t, "g", NULL);
    leat_delivery *d = next_of(s);
    assert_body(d, "x");
    ack(d);
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_large_body_waits_and_goes_beside_the_log(void **state)
{
    char body[LARGE];
    (void)state;
    memset(body, 'x', sizeof body);
    leat_topic *t = open_with(client, &(leat_retention){ .large_body = 100 });
    must(leat_topic_publish_later(
        t, &(leat_msg){ .key = leat_str("k"), .body = leat_mem(body, LARGE) },
        1, NULL, NULL, err));
    leat_source *s = source_of(t, "g", NULL);
    leat_delivery *d = next_of(s);
    assert_int_equal(leat_delivery_msg(d)->body.n, LARGE);
    assert_memory_equal(leat_delivery_msg(d)->body.p, body, LARGE);
    assert_int_equal(redis_int(server, "HLEN leat:{t/0}:bodies"), 1);
    assert_int_equal(redis_int(server, "ZCARD leat:{t/0}:large"), 1);
    ack(d);
    leat_source_close(s);
    leat_topic_close(t);
}

/* The wait is longer than the lease: nobody has it meanwhile. */
static void a_delay_longer_than_a_lease_has_one_effect(void **state)
{
    (void)state;
    leat_topic *t = open_with(client, NULL);
    leat_source *s = source_of(t, "g",
                               &(leat_topic_source_opts){ .lease_ms = 300 });
    for (int i = 0; i < 100; i++)
        number_later(t, i, 1000);
    flush(t);
    bool seen[100] = { false };
    for (int i = 0; i < 100; i++) {
        leat_delivery *d = next_of(s);
        assert_false(seen[body_number(d)]);
        assert_int_equal(leat_delivery_attempt(d), 1);
        seen[body_number(d)] = true;
        ack(d);
    }
    nothing_of(s, 400);
    leat_source_close(s);
    leat_topic_close(t);
}

/* ---- bounds ----------------------------------------------------------- */

static void a_delay_that_cannot_be_is_refused(void **state)
{
    const int64_t bad[] = { -1, INT64_MIN, INT64_MAX, INT64_C(1) << 53 };
    leat_msg m = { .body = leat_str("x") };
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = open_with(client, NULL);
    for (int i = 0; i < 4; i++)
        assert_code(leat_topic_publish_later(t, &m, bad[i], NULL, NULL, &e),
                    LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "a hundred years"));
    must(leat_topic_publish_later(t, &m, INT64_C(99) * 365 * 24 * HOUR_MS, NULL,
                                  NULL, err));
    flush(t);
    assert_int_equal(waiting(server), 1);
    leat_topic_close(t);
}

/* They are part of what a cap counts; what was accepted comes all the same. */
static void a_cap_counts_what_waits_and_takes_what_ripens(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = open_with(client, &(leat_retention){ .cap = 3 });
    for (int i = 0; i < 3; i++)
        number_later(t, i, 300);
    flush(t);
    later(t, "x", 1);
    assert_code(leat_topic_flush(t, LONG_MS, &e), LEAT_EFULL);
    assert_true(e.retriable);
    must(leat_topic_publish(t, &(leat_msg){ .body = leat_str("x") }, NULL, NULL,
                            err));
    assert_code(leat_topic_flush(t, LONG_MS, NULL), LEAT_EFULL);
    add("t", 0, "3");
    add("t", 0, "4");
    wait_until(waiting(server) == 0, LONG_MS);
    assert_int_equal(there(server), 5);
    assert_each_once(server, 5);
    leat_topic_close(t);
}

static void without_free_memory_what_is_due_comes_still(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = open_with(client, &(leat_retention){ .large_body = 100 });
    for (int i = 0; i < 20; i++)
        number_later(t, i, 400);
    flush(t);
    redis_do(server, "CONFIG SET maxmemory 1");
    later(t, "x", 1);
    assert_code(leat_topic_flush(t, LONG_MS, &e), LEAT_EFULL);
    assert_true(e.retriable);
    wait_until(there(server) == 20, LONG_MS);
    redis_do(server, "CONFIG SET maxmemory 0");
    assert_each_once(server, 20);
    assert_int_equal(waiting(server), 0);
    leat_topic_close(t);
}

/* ---- many, and the clock ---------------------------------------------- */

static void receive_numbers(leat_source *s, unsigned char *seen, int n)
{
    leat_delivery *d[256];
    leat_error e;
    int64_t end = wait_now_ms() + 2 * LONG_MS;
    while (n > 0) {
        int got = leat_source_receive(s, d, 256, 500, &e);
        assert_true(got >= 0 && wait_now_ms() < end);
        for (int i = 0; i < got; i++) {
            seen[body_number(d[i])]++;
            ack(d[i]);
        }
        n -= got;
    }
}

/* A server with a clock of its own. */
struct clocked {
    wall_clock clock;
    redis_server *server;
    leat_client *client;
    leat_topic *topic;
};

static struct clocked clocked_begin(void)
{
    char at[128];
    struct clocked x = { .clock = clock_new() };
    x.server = redis_start(&(redis_opts){ .clock_file = x.clock.path });
    assert_non_null(x.server);
    redis_url(x.server, at, sizeof at);
    x.client = open_client(at, NULL);
    x.topic = open_with(x.client, NULL);
    return x;
}

static void clocked_end(struct clocked *x)
{
    leat_topic_close(x->topic);
    leat_client_close(x->client);
    redis_stop(x->server);
    clock_free(&x->clock);
}

/* Many wait for an hour; others go past them; the clock goes back and then
 * jumps over all of them.  A hundred thousand take ten seconds to send: that is
 * for LEAT_LONG=1. */
static void many_wait_and_come_once_each_when_the_clock_jumps(void **state)
{
    int many = getenv("LEAT_LONG") ? 100000 : SANITIZED ? 5000 : 20000;
    (void)state;
    struct clocked x = clocked_begin();
    redis_server *z = x.server;
    leat_topic *t = x.topic;
    for (int i = 0; i < many; i++)
        number_later(t, i, HOUR_MS);
    flush(t);
    assert_int_equal(waiting(z), many);
    leat_source *s = source_of(t, "g", NULL);
    unsigned char *seen = calloc((size_t)many + 1000, 1);
    for (int i = 0; i < 1000; i++) {
        char body[16];
        snprintf(body, sizeof body, "%d", many + i);
        must(leat_topic_publish(t, &(leat_msg){ .body = leat_str(body) }, NULL,
                                NULL, err));
    }
    receive_numbers(s, seen, 1000);
    clock_set(&x.clock, -600);
    nothing_of(s, 1100);
    assert_int_equal(waiting(z), many);
    clock_set(&x.clock, 2 * HOUR_MS / 1000);
    receive_numbers(s, seen, many);
    nothing_of(s, 20);
    for (int i = 0; i < many + 1000; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(waiting(z), 0);
    free(seen);
    leat_source_close(s);
    clocked_end(&x);
}

/* By a day; some wait for longer than that, so that they are not the last. */
static void
what_was_sent_while_the_clock_was_ahead_does_not_wait_for_it(void **state)
{
    enum { AHEAD = 500, LONG = 50, DAY_MS = 24 * HOUR_MS };
    unsigned char seen[AHEAD] = { 0 };
    (void)state;
    struct clocked x = clocked_begin();
    for (int i = 0; i < LONG; i++)
        later(x.topic, "long", 3 * DAY_MS);
    flush(x.topic);
    clock_set(&x.clock, DAY_MS / 1000);
    for (int i = 0; i < AHEAD; i++)
        number_later(x.topic, i, 700);
    flush(x.topic);
    clock_set(&x.clock, 0);
    int64_t begun = wait_now_ms();
    leat_source *s = source_of(x.topic, "g", NULL);
    leat_delivery *d = next_of(s);
    assert_true(wait_now_ms() - begun >= 600);
    seen[body_number(d)]++;
    ack(d);
    receive_numbers(s, seen, AHEAD - 1);
    for (int i = 0; i < AHEAD; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(waiting(x.server), LONG);
    assert_int_equal(redis_int(x.server, "ZCARD leat:{t/0}:since"), LONG);
    leat_source_close(s);
    clocked_end(&x);
}

/* ---- faults ----------------------------------------------------------- */

/* A child that owns the partition, and so moves what is due, until it is
 * killed. */
static pid_t start_mover(void)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    leat_client *c = leat_client_open(url, NULL, NULL);
    leat_topic *t = c ? leat_topic_open(c, "t", NULL, NULL) : NULL;
    leat_source *s = t ? leat_topic_source(
                             t, "g",
                             &(leat_topic_source_opts){ .lease_ms = 300 }, NULL)
                       : NULL;
    leat_delivery *d;
    while (s && leat_source_receive(s, &d, 1, 100, NULL) >= 0)
        ; /* it settles nothing */
    _exit(1);
}

static void movers_that_are_killed_lose_and_double_nothing(void **state)
{
    enum { N = 1000, KILLS = 6 };
    (void)state;
    leat_topic *t = open_with(client, NULL);
    for (int i = 0; i < N; i++)
        number_later(t, i, 300 + i);
    flush(t);
    leat_topic_close(t);
    for (int i = 0; i < KILLS; i++) {
        pid_t pid = start_mover();
        assert_true(pid > 0);
        int64_t had = there(server);
        wait_until(there(server) > had || waiting(server) == 0, LONG_MS);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    pid_t last = start_mover();
    wait_until(waiting(server) == 0, LONG_MS);
    kill(last, SIGKILL);
    waitpid(last, NULL, 0);
    assert_int_equal(there(server), N);
    assert_each_once(server, N);
}

struct through {
    tcpfault *proxy;
    leat_client *client;
    leat_topic *topic;
    told *l;
    int at;
};

static struct through through_begin(int messages)
{
    char at[64];
    struct through x = { .proxy = tcpfault_start(redis_socket(server), NULL),
                         .l = told_new(messages) };
    assert_non_null(x.proxy);
    snprintf(at, sizeof at, "redis://127.0.0.1:%d", tcpfault_port(x.proxy));
    x.client = open_client(at, &(leat_client_opts){ .max_retry_ms = 5 });
    x.topic = open_with(x.client, NULL);
    return x;
}

static void told_later(struct through *x, int64_t ms)
{
    char body[16];
    struct told_arg *a = malloc(sizeof *a);
    int i = x->at++;
    *a = (struct told_arg){ x->l, i };
    snprintf(body, sizeof body, "%d", i);
    atomic_store(&x->l->m[i].accepted, true);
    must(leat_topic_publish_later(
        x->topic, &(leat_msg){ .body = leat_str(body) }, ms, told_on, a, err));
    (void)leat_topic_flush(x->topic, LONG_MS, NULL);
}

static void through_end(struct through *x)
{
    int *counts = calloc((size_t)x->l->count, sizeof *counts);
    print_message("# %d persisted, %d unknown\n", x->l->ok, x->l->unknown);
    assert_int_equal(x->l->failed, 0);
    leat_topic_close(x->topic);
    leat_client_close(x->client);
    tcpfault_stop(x->proxy);
    leat_topic *t = open_with(client, NULL); /* and nothing is left over */
    leat_source *s = source_of(t, "end", NULL);
    nothing_of(s, 0);
    wait_until(waiting(server) == 0, LONG_MS);
    leat_source_close(s);
    leat_topic_close(t);
    count_numbers(server, counts, x->l->count);
    told_judge(x->l, counts);
    free(counts);
    told_free(x->l);
}

static void cut(struct through *x, tcpfault_dir dir, uint64_t plus)
{
    bool up = dir == TCPFAULT_UP;
    assert_true(
        tcpfault_rule_add(
            x->proxy,
            &(tcpfault_rule){ .dir = dir,
                              .when = up ? TCPFAULT_COMMAND : TCPFAULT_FRAME,
                              .command = up ? "EVALSHA" : NULL,
                              .plus = plus,
                              .action = TCPFAULT_RESET,
                              .times = 1 }) > 0);
}

/* Every byte takes long: that is for LEAT_LONG=1. */
static uint64_t step(uint64_t usual)
{
    return getenv("LEAT_LONG") ? 1 : usual;
}

/* The first of each two is a long call with the script's text, the second a
 * short one, which is cut; and while they ripen, so is that. */
static void a_publish_that_is_cut_at_any_byte_is_told_truly(void **state)
{
    enum { CALL = 420, ANSWER = 12 };
    (void)state;
    struct through x = through_begin(2 * (CALL + ANSWER));
    for (uint64_t k = 0; k < CALL; k += step(19)) {
        told_later(&x, HOUR_MS);
        cut(&x, TCPFAULT_UP, k);
        told_later(&x, 1);
        tcpfault_clear(x.proxy);
    }
    for (uint64_t k = 0; k < ANSWER; k += step(2)) {
        told_later(&x, HOUR_MS);
        cut(&x, TCPFAULT_DOWN, k);
        told_later(&x, 1);
        tcpfault_clear(x.proxy);
    }
    assert_true(x.l->unknown > 0 && x.l->ok >= x.at / 2);
    redis_do(server, "EVAL %s 1 leat:{t/0}:later",
             "for _, t in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do "
             "redis.call('ZADD', KEYS[1], 1, t) end");
    through_end(&x);
}

/* Those that wait are moved over a connection that is cut again and again. */
static void a_move_that_is_cut_at_any_byte_moves_once(void **state)
{
    enum { CALL = 420, ANSWER = 24 };
    (void)state;
    struct through x = through_begin(CALL + ANSWER);
    for (uint64_t k = 0; k < CALL + ANSWER; k += step(17)) {
        told_later(&x, 30);
        if (k < CALL)
            cut(&x, TCPFAULT_UP, k);
        else
            cut(&x, TCPFAULT_DOWN, k - CALL);
        wait_until(waiting(server) == 0, LONG_MS);
        tcpfault_clear(x.proxy);
    }
    assert_int_equal(x.l->ok, x.at);
    through_end(&x);
}

static int after(void **state)
{
    redis_do(server, "CONFIG SET maxmemory 0");
    return close_one(state);
}

/* ---- without any member ------------------------------------------------ */

/* From a process of its own, as it were: nothing is left of it, and its time is
 * over; n of them. */
static void leave_some(int n)
{
    leat_client *c = open_client(url, NULL);
    leat_topic *t = open_with(c, NULL);
    for (int i = 0; i < n; i++)
        number_later(t, i, HOUR_MS);
    flush(t);
    leat_topic_close(t);
    leat_client_close(c);
    assert_int_equal(waiting(server), n);
    assert_int_equal(redis_int(server,
                               "EVAL %s 2 leat:{t/0}:later "
                               "leat:{t/0}:since",
                               "for _, t in ipairs(redis.call('ZRANGE', "
                               "KEYS[1], 0, -1)) do redis.call('ZADD', "
                               "KEYS[1], 1, t) end return 1"),
                     1);
}

static void a_producer_of_others_moves_what_is_due(void **state)
{
    (void)state;
    leave_some(1);
    leat_topic *t = open_with(client, NULL);
    must(leat_topic_publish(t, &(leat_msg){ .body = leat_str("other") }, NULL,
                            NULL, err));
    wait_until(there(server) == 2, LONG_MS);
    assert_int_equal(waiting(server), 0);
    leat_topic_close(t);
}

static void a_tail_shows_what_is_due(void **state)
{
    (void)state;
    leat_seen seen;
    leave_some(1);
    leat_browse *b = leat_browse_open(client, "t", NULL, NULL);
    assert_non_null(b);
    assert_int_equal(leat_browse_next(b, &seen, 0, NULL), 1);
    assert_true(leat_bytes_eq(seen.msg->body, leat_str("0")));
    leat_browse_close(b);
}

static void a_tail_that_waits_shows_what_becomes_due(void **state)
{
    (void)state;
    leat_seen seen;
    leave_some(1);
    leat_browse *b = leat_browse_open(
        client, "t", &(leat_browse_opts){ .follow = true }, NULL);
    assert_non_null(b);
    assert_int_equal(leat_browse_next(b, &seen, LONG_MS, NULL), 1);
    leave_some(1);
    assert_int_equal(leat_browse_next(b, &seen, LONG_MS, NULL), 1);
    leat_browse_close(b);
}

/* As many as one call moves, and one more. */
static void a_description_counts_what_is_due(void **state)
{
    (void)state;
    enum { MOST = 200 };
    leave_some(MOST + 1);
    leat_topic_info *x = leat_topic_describe(client, "t", NULL, NULL);
    assert_non_null(x);
    assert_int_equal(x->entries, MOST);
    assert_int_equal(x->delayed, 1);
    leat_topic_info_free(x);
    x = leat_topic_describe(client, "t", NULL, NULL);
    assert_int_equal(x->entries, MOST + 1);
    assert_int_equal(x->delayed, 0);
    leat_topic_info_free(x);
}

static void the_lag_of_a_group_without_members_counts_what_is_due(void **state)
{
    (void)state;
    leat_topic *t = open_with(client, NULL);
    leat_source_close(source_of(t, "g", NULL));
    leat_topic_close(t);
    leave_some(1);
    leat_group_info *g = leat_group_describe(client, "t", "g", NULL, NULL);
    assert_non_null(g);
    assert_int_equal(g->lag, 1);
    leat_group_info_free(g);
}

static void one_who_may_only_look_is_not_hindered(void **state)
{
    (void)state;
    leat_seen seen;
    leave_some(1);
    redis_do(server, "ACL SETUSER looker on >secret ~* &* +@all -@scripting");
    leat_client *c = open_client(
        url, &(leat_client_opts){ .user = "looker", .password = "secret" });
    leat_topic_info *x = leat_topic_describe(c, "t", NULL, NULL);
    assert_non_null(x);
    assert_int_equal(x->entries, 0);
    assert_int_equal(x->delayed, 1);
    leat_topic_info_free(x);
    leat_browse *b = leat_browse_open(c, "t", NULL, NULL);
    assert_non_null(b);
    assert_int_equal(leat_browse_next(b, &seen, 0, NULL), 0);
    leat_browse_close(b);
    leat_client_close(c);
    redis_do(server, "ACL DELUSER looker");
}

int main(void)
{
#define each(name) cmocka_unit_test_setup_teardown(name, open_one, after)
    const struct CMUnitTest tests[] = {
        each(a_delayed_message_comes_in_time_once_to_every_group),
        each(they_come_in_the_order_of_their_times),
        each(none_comes_before_its_time_by_the_servers_clock),
        each(a_producer_alone_lets_its_own_ripen),
        each(what_ripens_while_nobody_is_there_comes_with_the_next),
        each(a_producer_of_others_moves_what_is_due),
        each(a_tail_shows_what_is_due),
        each(a_tail_that_waits_shows_what_becomes_due),
        each(a_description_counts_what_is_due),
        each(the_lag_of_a_group_without_members_counts_what_is_due),
        each(one_who_may_only_look_is_not_hindered),
        each(a_large_body_waits_and_goes_beside_the_log),
        each(a_delay_longer_than_a_lease_has_one_effect),
        each(a_delay_that_cannot_be_is_refused),
        each(a_cap_counts_what_waits_and_takes_what_ripens),
        each(without_free_memory_what_is_due_comes_still),
        each(many_wait_and_come_once_each_when_the_clock_jumps),
        each(what_was_sent_while_the_clock_was_ahead_does_not_wait_for_it),
        each(movers_that_are_killed_lose_and_double_nothing),
        each(a_publish_that_is_cut_at_any_byte_is_told_truly),
        each(a_move_that_is_cut_at_any_byte_moves_once),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
