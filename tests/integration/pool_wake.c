/*
 * pool_wake.c: whatever gives a pool work tells so.
 *
 * A pool that was not told finds it within a second by itself, so what it does
 * cannot show that it was told: here the telling is heard.
 */
#include "pool_help.h"
#include "redis/client.h"
#include "redis/waker.h"

enum { CALM_MS = 50 };

static leat__waiter *heard;

static bool is_listening(void)
{
    redisReply *r = redis_raw(server, "PUBSUB NUMSUB leat:work");
    bool yes = r && r->elements == 2 && r->element[1]->integer > 0;
    freeReplyObject(r);
    return yes;
}

/* As a pool leaves it that found nothing. */
static void unlist(void)
{
    redisReply *r = redis_raw(server, "EVAL %s 0",
                              "for _, k in ipairs(redis.call('KEYS', "
                              "'leat:{q/*}:work')) do redis.call('DEL', k) "
                              "end");
    assert_true(r && r->type == REDIS_REPLY_NIL);
    freeReplyObject(r);
}

/* A connection that begins is a hint as well. */
static void hear(void)
{
    leat__waker *w = leat__client_waker(client, NULL);
    assert_non_null(w);
    heard = leat__waiter_open(w, leat_str("leat:work"), NULL);
    assert_non_null(heard);
    wait_until(is_listening(), LONG_MS);
    while (leat__waiter_wait(heard, CALM_MS))
        ;
}

static void assert_told(void)
{
    assert_true(leat__waiter_wait(heard, LONG_MS));
    leat__waiter_close(heard);
    heard = NULL;
}

static void a_send_tells_the_pools(void **state)
{
    (void)state;
    leat_queue *q = queue_of("jobs", NULL);
    hear();
    send_text(q, "x");
    assert_told();
    leat_queue_close(q);
}

static void a_send_to_a_group_tells_the_pools(void **state)
{
    (void)state;
    leat_queue *q = queue_of("jobs", &(leat_queue_opts){ .fifo = true });
    hear();
    send_group(q, "g", "x");
    assert_told();
    leat_queue_close(q);
}

static void what_is_given_back_tells_the_pools(void **state)
{
    (void)state;
    leat_queue *q = queue_of("jobs", NULL);
    send_text(q, "x");
    leat_queue_batch *b = take_one(q);
    unlist();
    hear();
    must(leat_queue_change_visibility(q, item(b)->receipt, 0, err));
    assert_told();
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static void what_is_redriven_tells_the_pools(void **state)
{
    (void)state;
    leat_queue *q = queue_of("jobs", NULL);
    int64_t n = 0;
    send_text(q, "x");
    leat_queue_batch *b = take_one(q);
    must(leat_queue_reject(q, item(b)->receipt, "no", err));
    unlist();
    hear();
    must(leat_queue_redrive(q, NULL, &n, err));
    assert_int_equal(n, 1);
    assert_told();
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        queue_test(a_send_tells_the_pools),
        queue_test(a_send_to_a_group_tells_the_pools),
        queue_test(what_is_given_back_tells_the_pools),
        queue_test(what_is_redriven_tells_the_pools),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
