/* waker.c: many waiters behind one listening connection. */
#include "redis/waker.h"
#include "support/server.h"
#include "support/tcpfault.h"

static leat__waiter *waiter(leat_client *c, const char *channel)
{
    leat_error e = { 0 };
    leat__waker *w = leat__client_waker(c, &e);
    leat__waiter *q = w ? leat__waiter_open(w, leat_str(channel), &e) : NULL;
    if (!q)
        fail_msg("%s", e.msg);
    return q;
}

/* The first hint says that the channel is listened to. */
static leat__waiter *listening(leat_client *c, const char *channel)
{
    leat__waiter *q = waiter(c, channel);
    assert_true(leat__waiter_wait(q, 5000));
    return q;
}

static void a_message_wakes_the_waiters_of_its_channel_only(void **state)
{
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat__waiter *a = listening(c, "a"), *a2 = listening(c, "a");
    leat__waiter *b = listening(c, "b");
    assert_int_equal(redis_int(server, "PUBLISH a x"), 1);
    assert_true(leat__waiter_wait(a, 5000));
    assert_true(leat__waiter_wait(a2, 5000));
    assert_false(leat__waiter_wait(b, 30));
    leat__waiter_close(a);
    leat__waiter_close(a2);
    leat__waiter_close(b);
    leat_client_close(c);
}

static void silence_ends_at_the_poll_floor(void **state)
{
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat__waiter *q = listening(c, "quiet");
    int64_t before = wait_now_ms();
    assert_false(leat__waiter_wait(q, 40));
    assert_in_range(wait_now_ms() - before, 39, 2000);
    leat__waiter_poke(q);
    assert_true(leat__waiter_wait(q, 5000));
    leat__waiter_close(q);
    leat_client_close(c);
}

static void five_hundred_channels_use_one_connection(void **state)
{
    enum { N = 500 };
    static leat__waiter *q[N];
    (void)state;
    leat_client *c = open_client(url, NULL);
    for (int i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "ch-%d", i);
        q[i] = waiter(c, name);
    }
    for (int i = 0; i < N; i++)
        assert_true(leat__waiter_wait(q[i], 5000));
    for (int i = 0; i < N; i += 7) {
        assert_int_equal(redis_int(server, "PUBLISH ch-%d x", i), 1);
        assert_true(leat__waiter_wait(q[i], 5000));
    }
    for (int i = 0; i < N; i++)
        leat__waiter_close(q[i]);
    wait_until(redis_int(server, "PUBSUB CHANNELS ch-*") == 0, 5000);
    leat_client_close(c);
}

static void a_lost_connection_hints_everyone_and_is_made_again(void **state)
{
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat__waiter *a = listening(c, "a"), *b = listening(c, "b");
    for (int i = 0; i < 5; i++) {
        redis_do(server, "CLIENT KILL TYPE pubsub");
        assert_true(leat__waiter_wait(a, 5000));
        assert_true(leat__waiter_wait(b, 5000));
        wait_until(redis_int(server, "PUBLISH a x") == 1, 5000);
        assert_true(leat__waiter_wait(a, 5000));
    }
    leat__waiter_close(a);
    leat__waiter_close(b);
    leat_client_close(c);
}

static void a_channel_left_and_joined_again_is_heard(void **state)
{
    (void)state;
    leat_client *c = open_client(url, NULL);
    for (int i = 0; i < 100; i++) {
        leat__waiter *q = listening(c, "again");
        wait_until(redis_int(server, "PUBLISH again x") == 1, 5000);
        assert_true(leat__waiter_wait(q, 5000));
        leat__waiter_close(q);
    }
    leat_client_close(c);
}

static void closing_while_the_server_is_away_does_not_hang(void **state)
{
    (void)state;
    tcpfault *proxy = tcpfault_start(redis_socket(server), NULL);
    char through[64];
    snprintf(through, sizeof through, "redis://127.0.0.1:%d",
             tcpfault_port(proxy));
    leat_client *c = open_client(through, NULL);
    leat__waiter *q = listening(c, "a");
    tcpfault_set_door(proxy, TCPFAULT_REFUSE);
    tcpfault_drop(proxy, 0, true);
    assert_true(leat__waiter_wait(q, 5000));
    int64_t before = wait_now_ms();
    leat__waiter_close(q);
    leat_client_close(c);
    assert_true(wait_now_ms() - before < 2000);
    tcpfault_stop(proxy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_wakes_the_waiters_of_its_channel_only),
        cmocka_unit_test(silence_ends_at_the_poll_floor),
        cmocka_unit_test(five_hundred_channels_use_one_connection),
        cmocka_unit_test(a_lost_connection_hints_everyone_and_is_made_again),
        cmocka_unit_test(a_channel_left_and_joined_again_is_heard),
        cmocka_unit_test(closing_while_the_server_is_away_does_not_hang),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
