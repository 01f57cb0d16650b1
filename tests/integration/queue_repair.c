/* queue_repair.c: what a script that failed half way left is set right. */
#include "queue/keys.h"
#include "queue_help.h"

#include <stdlib.h>

enum { ALL = 100, LOST = 40, HELD = 7, LATE = 3, DONE = 5 };

/* As an earlier version of a pool left it: received, and in no list. */
static void lose(const char *key, int n)
{
    redis_do(server, "HINCRBY %s:stat recv %d", key, n);
    redis_do(server, "LTRIM %s:ready %d -1", key, n);
}

/* How often each number comes until so many came. */
static void count_all(leat_queue *q, int n, int *times)
{
    for (int got = 0; got < n; got++) {
        leat_queue_batch *b = take_one(q);
        times[number(item(b))]++;
        ack(q, b);
        leat_queue_batch_free(b);
    }
    nothing(q);
}

static void what_stands_nowhere_is_found_and_nothing_else(void **state)
{
    (void)state;
    int times[ALL + LATE] = { 0 };
    leat_receive_opts few = { .max = HELD, .visibility_ms = 3600000 };
    leat_queue *q = queue_of("a", &(leat_queue_opts){ .no_reaper = true });
    char key[64];
    snprintf(key, sizeof key, "leat:{q/%u}:a", leat__queue_shard("a"));
    send_many(q, 0, ALL);
    for (int i = 0; i < LATE; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", ALL + i);
        must(leat_queue_send(q, &(leat_msg){ .body = leat_str(text) },
                             &(leat_queue_send_opts){ .delay_ms = 3600000 },
                             NULL, err));
    }
    for (int i = 0; i < DONE; i++) {
        leat_queue_batch *b = take_one(q);
        ack(q, b);
        leat_queue_batch_free(b);
    }
    leat_queue_batch *held = take(q, &few);
    assert_int_equal(leat_queue_batch_count(held), HELD);
    lose(key, LOST);

    leat_queue *with = queue_of("a", NULL);
    wait_until(stats(with).visible == ALL - DONE - HELD, LONG_MS);
    leat_queue_stats st = stats(with);
    assert_int_equal(st.in_flight, HELD);
    assert_int_equal(st.delayed, LATE);
    assert_int_equal(st.requeued, LOST);
    count_all(with, ALL - DONE - HELD, times);
    for (int i = 0; i < ALL; i++)
        assert_int_equal(times[i], i >= DONE + HELD);
    ack(with, held);
    assert_int_equal(stats(with).acked, ALL);
    leat_queue_batch_free(held);
    leat_queue_close(with);
    leat_queue_close(q);
}

static void a_group_that_waits_for_nothing_goes_on(void **state)
{
    (void)state;
    leat_queue_opts o = { .fifo = true, .no_reaper = true };
    leat_queue *q = queue_of("f", &o);
    char key[64], entry[128];
    snprintf(key, sizeof key, "leat:{q/%u}:f", leat__queue_shard("f"));
    send_group(q, "g", "1");
    send_group(q, "g", "2");
    send_group(q, "h", "3");
    /* Popped, and its group is busy with it. */
    redis_text(server, entry, sizeof entry, "LPOP %s:g:g", key);
    redis_do(server, "LREM %s:ready 1 g", key);
    redis_do(server, "HSET %s:busy g %s", key, strrchr(entry, '/') + 1);
    /* Popped, and nobody knows its group. */
    redis_do(server, "DEL %s:g:h", key);
    redis_do(server, "LREM %s:ready 1 h", key);

    o.no_reaper = false;
    leat_queue *with = queue_of("f", &o);
    for (int i = 1; i <= 2; i++) {
        leat_queue_batch *b = take_one(with);
        assert_int_equal(number(item(b)), i);
        ack(with, b);
        leat_queue_batch_free(b);
    }
    leat_queue_batch *dead = take_dead(with);
    assert_item(item(dead), "3");
    ack(with, dead);
    leat_queue_batch_free(dead);
    nothing(with);
    leat_queue_close(with);
    leat_queue_close(q);
}

/* More than one call of the script reads. */
static void what_stands_nowhere_in_a_long_queue_is_found(void **state)
{
    (void)state;
    enum { LONG = 4500 };
    leat_queue *q = queue_of("l", &(leat_queue_opts){ .no_reaper = true });
    char key[64];
    snprintf(key, sizeof key, "leat:{q/%u}:l", leat__queue_shard("l"));
    send_many(q, 0, LONG);
    lose(key, LOST);
    assert_int_equal(stats(q).visible, LONG - LOST);

    leat_queue *with = queue_of("l", NULL);
    wait_until(stats(with).visible == LONG, LONG_MS);
    assert_int_equal(stats(with).in_flight, 0);
    assert_int_equal(stats(with).requeued, LOST);
    leat_queue_close(with);
    leat_queue_close(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        queue_test(what_stands_nowhere_is_found_and_nothing_else),
        queue_test(what_stands_nowhere_in_a_long_queue_is_found),
        queue_test(a_group_that_waits_for_nothing_goes_on),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
