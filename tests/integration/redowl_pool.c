/*
 * redowl_pool.c: a pool of queues of redowl, and which there are.
 */
#include "redowl_help.h"
#include <leat/pool.h>

#include <pthread.h>
#include <stdatomic.h>

enum { ROOMS = 30, EACH = 5, SEEN = 4096 };

/* What was handled, in its order: "<queue> <body>". */
typedef struct record {
    pthread_mutex_t lock;
    char seen[SEEN][48];
    atomic_int n;
    int fail_first; /* so many deliveries are not acknowledged */
    int slow_ms;
    atomic_bool hold_first, holding; /* body "0" of room0 is not let go */
} record;

static record all;

static int open_pool(void **state)
{
    memset(&all, 0, sizeof all);
    pthread_mutex_init(&all.lock, NULL);
    return open_owl(state);
}

#define pool_test(name)                                                        \
    cmocka_unit_test_setup_teardown(name, open_pool, close_one)

static void hold(record *r)
{
    while (r->hold_first) {
        r->holding = true;
        wait_nap(1);
    }
}

static leat_verdict handle(leat_ctx *x, void *arg)
{
    record *r = arg;
    const leat_delivery *d = leat_ctx_delivery(x);
    leat_bytes from = leat_delivery_from(d), body = leat_ctx_msg(x)->body;
    if (r->slow_ms > 0)
        wait_nap(r->slow_ms);
    if (leat_bytes_eq(from, leat_str("room0")) &&
        leat_bytes_eq(body, leat_str("0")))
        hold(r);
    pthread_mutex_lock(&r->lock);
    bool fails = r->fail_first > 0;
    r->fail_first -= fails;
    if (!fails && r->n < SEEN) {
        snprintf(r->seen[r->n], sizeof r->seen[0], "%.*s %.*s", (int)from.n,
                 (const char *)from.p, (int)body.n, (const char *)body.p);
        r->n++;
    }
    pthread_mutex_unlock(&r->lock);
    return fails ? LEAT_NACK : LEAT_ACK;
}

static leat_pool *pool_of(leat_pool_opts o)
{
    leat_error e = { 0 };
    o.profile = LEAT_QUEUE_REDOWL;
    leat_pool *p = leat_pool_start(client, handle, &all, &o, &e);
    if (!p)
        fail_msg("no pool: %s", e.msg);
    return p;
}

/* Each queue's were handled once, in their order. */
static void in_order(int rooms, int each)
{
    int next[ROOMS] = { 0 };
    assert_int_equal(all.n, rooms * each);
    for (int i = 0; i < all.n; i++) {
        int room, k;
        assert_int_equal(sscanf(all.seen[i], "room%d %d", &room, &k), 2);
        assert_int_equal(k, next[room]++);
    }
}

static void peer_sends(int rooms, int each)
{
    for (int k = 0; k < each; k++)
        for (int i = 0; i < rooms; i++)
            ask_peer("send room%d %d", i, k);
}

static void nothing_is_left(void)
{
    redisReply *r = redis_raw(server, "KEYS *");
    for (size_t i = 0; i < r->elements; i++)
        if (!strstr(r->element[i]->str, ":lane:"))
            fail_msg("left: %s", r->element[i]->str);
    freeReplyObject(r);
}

/* ---- finding ---------------------------------------------------------- */

static void a_backlog_from_before_the_start_is_found(void **state)
{
    (void)state;
    peer_sends(ROOMS, EACH);
    leat_pool *p = pool_of((leat_pool_opts){ .workers = 4 });
    wait_until(all.n == ROOMS * EACH, LONG_MS);
    must(leat_pool_stop(p, 0, err));
    in_order(ROOMS, EACH);
    nothing_is_left();
}

static void a_queue_is_served_when_it_begins(void **state)
{
    (void)state;
    leat_pool *p = pool_of((leat_pool_opts){ .workers = 4 });
    peer_sends(ROOMS, EACH);
    wait_until(all.n == ROOMS * EACH, LONG_MS);
    leat_pool_stats s;
    leat_pool_stats_get(p, &s);
    assert_int_equal(s.received, ROOMS * EACH);
    assert_int_equal(s.queues, ROOMS);
    must(leat_pool_stop(p, 0, err));
    in_order(ROOMS, EACH);
    nothing_is_left();
}

/* By its event, not by a round through the keys, which is 5 s later. */
static void an_event_of_the_prefix_is_a_hint(void **state)
{
    (void)state;
    int soon = 0;
    leat_pool *p = pool_of((leat_pool_opts){ .poll_ms = 60000 });
    for (int i = 0; i < 10; i++) {
        int64_t before = wait_now_ms();
        ask_peer("send room%d 0", i);
        wait_until(all.n == i + 1, LONG_MS);
        soon += wait_now_ms() - before < 1500;
    }
    must(leat_pool_stop(p, 0, err));
    assert_true(soon >= 8);
}

static void who_publishes_nothing_is_found_by_a_round(void **state)
{
    (void)state;
    leat_pool *p = pool_of((leat_pool_opts){ 0 });
    ask_peer("send room0 0");
    wait_until(all.n == 1, LONG_MS);
    redis_do(server, "HSET redowl:room1:msg:a body MA== attrs null rc 0 "
                     "created_at_ms 1");
    redis_do(server, "RPUSH redowl:room1:ready a");
    wait_until(all.n == 2, LONG_MS);
    must(leat_pool_stop(p, 0, err));
}

static void what_the_other_died_with_is_served(void **state)
{
    (void)state;
    ask_peer("send room0 0");
    ask_peer("receive room0 100 0 0");
    leat_pool *p = pool_of((leat_pool_opts){ 0 });
    wait_until(all.n == 1, LONG_MS);
    must(leat_pool_stop(p, 0, err));
    nothing_is_left();
}

static void a_namespace_of_both_is_not_mixed_up(void **state)
{
    (void)state;
    leat_queue *native = queue_of("orders", NULL);
    send_text(native, "mine");
    leat_queue *q = owl("room0", (leat_queue_opts){ .prefix = "leat" });
    send_text(q, "0");
    leat_pool *p = pool_of((leat_pool_opts){ .prefix = "leat" });
    wait_until(all.n == 1, LONG_MS);
    must(leat_pool_stop(p, 0, err));
    assert_string_equal(all.seen[0], "room0 0");
    assert_int_equal(stats(native).visible, 1); /* a repair is slower */
    leat_queue_batch *b = take_one(native);
    assert_item(item(b), "mine");
    leat_queue_batch_free(b);
    leat_queue_close(q);
    leat_queue_close(native);
}

static void a_prefix_is_no_pattern(void **state)
{
    (void)state;
    leat_queue *a = owl("room0", (leat_queue_opts){ .prefix = "a*[b]?" });
    leat_queue *b = owl("room1", (leat_queue_opts){ .prefix = "aXb" });
    send_text(a, "0");
    send_text(b, "0");
    leat_pool *p = pool_of((leat_pool_opts){ .prefix = "a*[b]?" });
    wait_until(all.n == 1, LONG_MS);
    must(leat_pool_stop(p, 0, err));
    assert_string_equal(all.seen[0], "room0 0");
    leat_queue_close(a);
    leat_queue_close(b);
}

/* ---- handling --------------------------------------------------------- */

static void what_fails_comes_first_and_its_queue_waits(void **state)
{
    (void)state;
    all.fail_first = 7;
    peer_sends(3, EACH);
    leat_pool *p = pool_of((leat_pool_opts){ .retry_ms = 20 });
    wait_until(all.n == 3 * EACH, LONG_MS);
    must(leat_pool_stop(p, 0, err));
    in_order(3, EACH);
    nothing_is_left();
}

static void too_many_receives_make_a_dead_letter(void **state)
{
    (void)state;
    all.fail_first = 2;
    ask_peer("send room0 0");
    leat_pool *p = pool_of(
        (leat_pool_opts){ .retry_ms = 1, .max_receives = 2 });
    wait_until(redis_int(server, "LLEN redowl:room0:dlq") == 1, LONG_MS);
    must(leat_pool_stop(p, 0, err));
    assert_int_equal(all.n, 0);
}

/* A delayed one was never received, and keeps nobody back. */
static void what_is_delayed_keeps_nobody_back(void **state)
{
    (void)state;
    leat_queue *q = owl("room0", (leat_queue_opts){ .no_reaper = true });
    leat_queue_send_opts late = { .delay_ms = 3600000 };
    must(leat_queue_send(q, &(leat_msg){ .body = leat_str("9") }, &late, NULL,
                         err));
    send_text(q, "0");
    leat_pool *p = pool_of((leat_pool_opts){ 0 });
    wait_until(all.n == 1, LONG_MS);
    assert_string_equal(all.seen[0], "room0 0");
    must(leat_pool_stop(p, 0, err));
    leat_queue_close(q);
}

static void several_pools_share_queues_and_keep_their_order(void **state)
{
    (void)state;
    all.slow_ms = 2;
    peer_sends(8, EACH);
    leat_pool *p[3];
    for (int i = 0; i < 3; i++)
        p[i] = pool_of((leat_pool_opts){ .workers = 3, .poll_ms = 20 });
    wait_until(all.n == 8 * EACH, LONG_MS);
    for (int i = 0; i < 3; i++)
        must(leat_pool_stop(p[i], 0, err));
    in_order(8, EACH);
    nothing_is_left();
}

static void while_one_is_handled_no_other_pool_takes_of_its_queue(void **state)
{
    (void)state;
    all.hold_first = true;
    leat_pool *p[2];
    p[0] = pool_of((leat_pool_opts){ .workers = 1, .poll_ms = 20 });
    peer_sends(1, 3);
    wait_until(all.holding, LONG_MS);
    p[1] = pool_of((leat_pool_opts){ .workers = 3, .poll_ms = 20 });
    for (int k = 0; k < EACH; k++)
        for (int i = 1; i < 4; i++)
            ask_peer("send room%d %d", i, k);
    wait_until(all.n >= 3 * EACH, LONG_MS);
    for (int i = 0; i < all.n; i++)
        assert_true(strncmp(all.seen[i], "room0", 5) != 0);
    all.hold_first = false;
    wait_until(all.n == 3 * EACH + 3, LONG_MS);
    for (int i = 0; i < 2; i++)
        must(leat_pool_stop(p[i], 0, err));
    for (int i = 0; i < 3; i++) {
        char want[16];
        snprintf(want, sizeof want, "room0 %d", i);
        assert_string_equal(all.seen[3 * EACH + i], want);
    }
}

static void a_stop_gives_back_what_was_not_begun(void **state)
{
    (void)state;
    all.slow_ms = 5;
    peer_sends(6, 4 * EACH);
    leat_pool *p = pool_of((leat_pool_opts){ .workers = 3 });
    wait_until(all.n > 5, LONG_MS);
    must(leat_pool_stop(p, 0, err));
    int handled = all.n, left = 0;
    for (int i = 0; i < 6; i++) {
        left += (int)redis_int(server, "LLEN redowl:room%d:ready", i);
        assert_int_equal(redis_int(server, "ZCARD redowl:room%d:inflight", i),
                         0);
    }
    assert_int_equal(handled + left, 6 * 4 * EACH);
    all.slow_ms = 0;
    p = pool_of((leat_pool_opts){ .workers = 3 });
    wait_until(all.n == 6 * 4 * EACH, LONG_MS);
    must(leat_pool_stop(p, 0, err));
    in_order(6, 4 * EACH);
}

/* It would find no backlog, and nobody would know. */
static void a_pool_that_may_not_look_for_queues_says_so(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_pool_stats s = { 0 };
    redis_do(server, "ACL SETUSER blind on >p ~* &* +@all -scan");
    leat_client *blind = open_client(
        url, &(leat_client_opts){ .user = "blind", .password = "p" });
    leat_pool_opts o = { .profile = LEAT_QUEUE_REDOWL };
    leat_pool *p = leat_pool_start(blind, handle, &all, &o, &e);
    assert_non_null(p);
    wait_until((leat_pool_stats_get(p, &s), s.failed), LONG_MS);
    assert_code(leat_pool_stop(p, 0, &e), LEAT_EAUTH);
    leat_client_close(blind);
    redis_do(server, "ACL DELUSER blind");
}

/* ---- which there are -------------------------------------------------- */

static void add_name(void *arg, const char *name)
{
    char *text = arg;
    snprintf(text + strlen(text), 512 - strlen(text), "%s ", name);
}

static void queues_are_listed_while_they_hold_something(void **state)
{
    (void)state;
    char text[512] = "";
    leat_queue_opts o = { .profile = LEAT_QUEUE_REDOWL };
    leat_queue_close(queue_of("native", NULL));
    must(leat_queue_list_of(client, &o, add_name, text, err));
    assert_string_equal(text, "");
    ask_peer("send b:c 0");
    ask_peer("send a 0");
    ask_peer("send fly 0");
    ask_peer("receive fly 60000 0 0");
    ask_peer("send dead 0");
    ask_peer("receive dead -1 1 0");
    ask_peer("receive dead -1 1 0");
    for (int i = 0; i < 3000; i++)
        redis_do(server, "SET other:%d x", i);
    must(leat_queue_list_of(client, &o, add_name, text, err));
    assert_string_equal(text, "a b:c dead fly ");
    text[0] = '\0';
    o.prefix = "redowl:b";
    must(leat_queue_list_of(client, &o, add_name, text, err));
    assert_string_equal(text, "c ");
}

static void odd_options_are_refused(void **state)
{
    (void)state;
    leat_error e = { 0 };
    const leat_pool_opts bad[] = {
        { .max_receives = 1 },
        { .profile = LEAT_QUEUE_REDOWL, .max_receives = -1 },
        { .profile = LEAT_QUEUE_REDOWL, .prefix = " x" },
        { .profile = (leat_queue_profile)7 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(leat_pool_start(client, handle, &all, &bad[i], &e));
        assert_code(e.code, LEAT_EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        pool_test(a_backlog_from_before_the_start_is_found),
        pool_test(a_queue_is_served_when_it_begins),
        pool_test(an_event_of_the_prefix_is_a_hint),
        pool_test(who_publishes_nothing_is_found_by_a_round),
        pool_test(what_the_other_died_with_is_served),
        pool_test(a_namespace_of_both_is_not_mixed_up),
        pool_test(a_prefix_is_no_pattern),
        pool_test(what_fails_comes_first_and_its_queue_waits),
        pool_test(too_many_receives_make_a_dead_letter),
        pool_test(what_is_delayed_keeps_nobody_back),
        pool_test(several_pools_share_queues_and_keep_their_order),
        pool_test(while_one_is_handled_no_other_pool_takes_of_its_queue),
        pool_test(a_stop_gives_back_what_was_not_begun),
        pool_test(a_pool_that_may_not_look_for_queues_says_so),
        pool_test(queues_are_listed_while_they_hold_something),
        pool_test(odd_options_are_refused),
    };
    return cmocka_run_group_tests(tests, start_both, stop_both);
}
