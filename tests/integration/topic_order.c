/*
 * topic_order.c: what waits behind a message that fails, and what does not.
 *
 * A ledger of what was handled, in the order in which it was: for each key, or
 * for the partition, the bodies ascend, whatever failed in between.
 */
#include "topic_help.h"

#include <stdlib.h>

enum { KEYS = 8, MOST = 4000, SHORT_LEASE = 600 };

static const leat_retry patient = { .max_attempts = -1,
                                    .backoff = LEAT_BACKOFF_FIXED,
                                    .delay_ms = 30,
                                    .jitter = LEAT_NO };

static leat_source *open_ordered(leat_topic *t, leat_order order, int in_flight)
{
    return source_of(t, "g",
                     &(leat_topic_source_opts){ .order = order,
                                                .max_in_flight = in_flight,
                                                .lease_ms = SHORT_LEASE,
                                                .block_ms = 100,
                                                .retry = patient });
}

/* n messages, in turn for each key: "k0", "k1", ... */
static void add_in_turn(int from, int n)
{
    char key[16], body[16];
    for (int i = from; i < from + n; i++) {
        snprintf(key, sizeof key, "k%d", i % KEYS);
        snprintf(body, sizeof body, "%d", i);
        add_keyed("orders", 0, key, body);
    }
}

struct ledger {
    int last[KEYS]; /* of each key                            */
    int handled;
    int others; /* of other keys than the failing, meanwhile  */
    bool seen[MOST];
};

static struct ledger ledger_new(void)
{
    struct ledger l = { .handled = 0 };
    for (int i = 0; i < KEYS; i++)
        l.last[i] = -1;
    return l;
}

/* It comes once, and behind what stands before it. */
static void enter(struct ledger *l, const leat_delivery *d)
{
    int n = body_number(d);
    if (l->seen[n] || n <= l->last[n % KEYS])
        fail_msg("%d comes after %d", n, l->last[n % KEYS]);
    l->seen[n] = true;
    l->last[n % KEYS] = n;
    l->handled++;
}

/* Handle until `until` are handled or the time is over; key 0 fails. */
static void handle(leat_source *s, struct ledger *l, bool failing, int until,
                   int64_t ms)
{
    leat_delivery *d[16];
    leat_error e = { 0 };
    int64_t end = wait_now_ms() + ms;
    while (l->handled < until && wait_now_ms() < end) {
        int n = leat_source_receive(s, d, 16, 20, &e);
        for (int i = 0; i < n; i++) {
            if (failing && body_number(d[i]) % KEYS == 0) {
                assert_int_equal(leat_delivery_fail(d[i], "down"), LEAT_OK);
                continue;
            }
            enter(l, d[i]);
            l->others += failing;
            ack(d[i]);
        }
    }
}

static int64_t lanes(void)
{
    return redis_int(server, "ZCARD leat:{orders/0}:lane:g");
}

static void all_is_gone(void)
{
    wait_until(redis_int(server, "HLEN leat:{orders/0}:kept:g") == 0, LONG_MS);
    assert_int_equal(lanes(), 0);
    assert_int_equal(redis_int(server, "ZCARD leat:{orders/0}:due:g"), 0);
    assert_int_equal(redis_int(server, "XLEN leat:{orders/0}:dlq"), 0);
}

/* ---- keys ------------------------------------------------------------- */

static void a_key_that_fails_waits_in_order_and_others_flow(void **state)
{
    enum { N = 800 };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_in_turn(0, N / 2);
    leat_source *s = open_ordered(t, LEAT_ORDER_KEY, 0);
    struct ledger l = ledger_new();
    handle(s, &l, true, N / 2 - N / 2 / KEYS, LONG_MS);
    add_in_turn(N / 2, N / 2);
    handle(s, &l, true, N - N / KEYS, LONG_MS);
    assert_int_equal(l.others, N - N / KEYS); /* while it failed */
    wait_until(lanes() == N / KEYS, LONG_MS);
    handle(s, &l, false, N, 2 * LONG_MS);
    assert_int_equal(l.handled, N);
    must(leat_source_flush(s, LONG_MS, err));
    all_is_gone();
    add_in_turn(N, KEYS); /* the lane flows again */
    handle(s, &l, false, N + KEYS, LONG_MS);
    assert_int_equal(l.handled, N + KEYS);
    leat_topic_source_stats st;
    leat_topic_source_stats_get(s, &st);
    assert_int_equal(st.dead, 0);
    leat_source_close(s);
    leat_topic_close(t);
}

/* Far more of the failing key than may be in flight, all before the others. */
static void a_hot_key_that_fails_leaves_room_for_others(void **state)
{
    enum { HOT = 3000, OTHERS = 100, IN_FLIGHT = 64 };
    char body[16];
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    for (int i = 0; i < HOT; i++) {
        snprintf(body, sizeof body, "%d", i * KEYS % MOST);
        add_keyed("orders", 0, "hot", body);
    }
    for (int i = 0; i < OTHERS; i++) {
        snprintf(body, sizeof body, "%d", i * KEYS + 1);
        add_keyed("orders", 0, "other", body);
    }
    leat_source *s = open_ordered(t, LEAT_ORDER_KEY, IN_FLIGHT);
    struct ledger l = ledger_new();
    handle(s, &l, true, OTHERS, 2 * LONG_MS);
    assert_int_equal(l.handled, OTHERS);
    wait_until(lanes() == HOT, LONG_MS);
    leat_source_close(s);
    leat_topic_close(t);
}

/* The owner goes away in the middle: by its lease, or by closing. */
static void change_owners(bool killed)
{
    enum { N = 400 };
    leat_client *second = open_client(url, NULL);
    leat_topic *t = topic_of(client, "orders", 1);
    leat_topic *u = topic_of(second, "orders", 1);
    add_in_turn(0, N);
    leat_source *s = open_ordered(t, LEAT_ORDER_KEY, 100);
    struct ledger l = ledger_new();
    handle(s, &l, true, N / 2, LONG_MS);
    must(leat_source_flush(s, LONG_MS, err));
    if (killed) { /* its lease is nobody's any more, and it does not know */
        redis_do(server, "DEL leat:{orders/0}:lease:g");
        redis_do(server, "DEL leat:{orders}:members:g");
    } else {
        leat_source_close(s);
    }
    leat_source *v = open_ordered(u, LEAT_ORDER_KEY, 100);
    if (killed)
        leat_source_close(s);
    handle(v, &l, true, N - N / KEYS, LONG_MS);
    handle(v, &l, false, N, 2 * LONG_MS);
    assert_int_equal(l.handled, N);
    must(leat_source_flush(v, LONG_MS, err));
    all_is_gone();
    leat_source_close(v);
    leat_topic_close(t);
    leat_topic_close(u);
    leat_client_close(second);
}

static void a_new_owner_knows_which_keys_wait(void **state)
{
    (void)state;
    change_owners(false);
}

static void an_owner_whose_lease_was_taken_leaves_the_order(void **state)
{
    (void)state;
    change_owners(true);
}

/* Several of a key are with users when the first of them fails. */
static void what_is_out_comes_back_before_its_key_goes_on(void **state)
{
    leat_delivery *d[4], *x;
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    for (int i = 0; i < 5; i++) {
        char body[4] = { (char)('0' + i) };
        add_keyed("orders", 0, "a", body);
    }
    leat_source *s = open_ordered(t, LEAT_ORDER_KEY, 0);
    take_n(s, d, 4);
    assert_int_equal(leat_delivery_nack(d[2], 0), LEAT_OK);
    assert_int_equal(leat_delivery_nack(d[1], 0), LEAT_OK);
    ack(d[3]);
    nothing_of(s, 60); /* the first is still out */
    ack(d[0]);
    static const int want[] = { 1, 2, 4 };
    static const uint32_t attempts[] = { 2, 2, 1 };
    for (int i = 0; i < 3; i++) {
        x = next_of(s);
        assert_int_equal(body_number(x), want[i]);
        assert_int_equal(leat_delivery_attempt(x), attempts[i]);
        nothing_of(s, 20); /* one at a time */
        ack(x);
    }
    must(leat_source_flush(s, LONG_MS, err));
    all_is_gone();
    leat_source_close(s);
    leat_topic_close(t);
}

/* A key's dead letter holds nothing up. */
static void a_dead_letter_lets_its_key_go_on(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    for (int i = 0; i < 4; i++) {
        char body[4] = { (char)('0' + i) };
        add_keyed("orders", 0, "a", body);
    }
    leat_topic_source_opts o = {
        .order = LEAT_ORDER_KEY,
        .retry = { .max_attempts = 2, .delay_ms = 1, .jitter = LEAT_NO }
    };
    leat_source *s = source_of(t, "g", &o);
    for (int i = 0; i < 2; i++) {
        leat_delivery *d = next_of(s);
        assert_int_equal(body_number(d), 0);
        assert_int_equal(leat_delivery_fail(d, "no"), LEAT_OK);
    }
    for (int i = 1; i < 4; i++) {
        leat_delivery *d = next_of(s);
        assert_int_equal(body_number(d), i);
        assert_int_equal(leat_delivery_attempt(d), 1);
        ack(d);
    }
    must(leat_source_flush(s, LONG_MS, err));
    wait_until(redis_int(server, "HLEN leat:{orders/0}:kept:g") == 0, LONG_MS);
    assert_int_equal(redis_int(server, "XLEN leat:{orders/0}:dlq"), 1);
    leat_source_close(s);
    leat_topic_close(t);
}

/* ---- partitions ------------------------------------------------------- */

static void behind_a_failing_message_the_partition_waits(void **state)
{
    enum { N = 60 };
    leat_delivery *d[N];
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, N);
    leat_source *s = open_ordered(t, LEAT_ORDER_PARTITION, 0);
    take_n(s, d, 10);
    for (int i = 0; i < 10; i++) /* 3, 5 and 8 fail, the others are done */
        if (i == 3 || i == 5 || i == 8)
            assert_int_equal(leat_delivery_nack(d[i], 100), LEAT_OK);
        else
            ack(d[i]);
    static const int again[] = { 3, 5, 8 };
    for (int i = 0; i < 3; i++) {
        d[0] = next_of(s);
        assert_int_equal(body_number(d[0]), again[i]);
        assert_int_equal(leat_delivery_attempt(d[0]), 2);
        nothing_of(s, 20);
        ack(d[0]);
    }
    for (int i = 10; i < N; i++) {
        d[0] = next_of(s);
        assert_int_equal(body_number(d[0]), i);
        ack(d[0]);
    }
    must(leat_source_flush(s, LONG_MS, err));
    all_is_gone();
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_new_owner_knows_that_the_partition_waits(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, 5);
    leat_source *s = open_ordered(t, LEAT_ORDER_PARTITION, 0);
    assert_int_equal(leat_delivery_nack(next_of(s), 400), LEAT_OK);
    int64_t before = wait_now_ms();
    leat_source_close(s);
    s = open_ordered(t, LEAT_ORDER_PARTITION, 0);
    for (int i = 0; i < 5; i++) {
        leat_delivery *d = next_of(s);
        assert_int_equal(body_number(d), i);
        assert_true(wait_now_ms() - before >= 399);
        ack(d);
    }
    must(leat_source_flush(s, LONG_MS, err));
    all_is_gone();
    leat_source_close(s);
    leat_topic_close(t);
}

/* A ring that is full of messages which wait does not keep out the one that
 * they wait for. */
static void a_full_window_does_not_stop_what_it_waits_for(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, 20);
    leat_source *s = open_ordered(t, LEAT_ORDER_PARTITION, 4);
    for (int i = 0; i < 20; i++) {
        leat_delivery *d = next_of(s);
        assert_int_equal(body_number(d), i);
        assert_int_equal(leat_delivery_attempt(d), 1);
        assert_int_equal(leat_delivery_fail(d, "once"), LEAT_OK);
        d = next_of(s);
        assert_int_equal(body_number(d), i);
        assert_int_equal(leat_delivery_attempt(d), 2);
        ack(d);
    }
    must(leat_source_flush(s, LONG_MS, err));
    all_is_gone();
    leat_source_close(s);
    leat_topic_close(t);
}

/* ---- none ------------------------------------------------------------- */

static void without_order_only_the_failing_one_waits(void **state)
{
    enum { N = 50 };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_in_turn(0, N);
    leat_source *s = open_ordered(t, LEAT_ORDER_NONE, 0);
    leat_delivery *d = next_of(s);
    assert_int_equal(leat_delivery_nack(d, 400), LEAT_OK);
    int64_t before = wait_now_ms();
    bool seen[N] = { 0 };
    for (int i = 1; i < N; i++) {
        d = next_of(s);
        int n = body_number(d);
        assert_true(n > 0 && !seen[n]);
        seen[n] = true;
        ack(d);
    }
    d = next_of(s);
    assert_int_equal(body_number(d), 0);
    assert_true(wait_now_ms() - before >= 399);
    ack(d);
    must(leat_source_flush(s, LONG_MS, err));
    all_is_gone();
    leat_source_close(s);
    leat_topic_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(a_key_that_fails_waits_in_order_and_others_flow),
        topic_test(a_hot_key_that_fails_leaves_room_for_others),
        topic_test(a_new_owner_knows_which_keys_wait),
        topic_test(an_owner_whose_lease_was_taken_leaves_the_order),
        topic_test(what_is_out_comes_back_before_its_key_goes_on),
        topic_test(a_dead_letter_lets_its_key_go_on),
        topic_test(behind_a_failing_message_the_partition_waits),
        topic_test(a_new_owner_knows_that_the_partition_waits),
        topic_test(a_full_window_does_not_stop_what_it_waits_for),
        topic_test(without_order_only_the_failing_one_waits),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
