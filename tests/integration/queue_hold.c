/*
 * queue_hold.c: messages that are worked on for long, or given up.
 */
#include "queue_help.h"

/* ---- rejection -------------------------------------------------------- */

#define assert_bytes(b, text)                                                  \
    do {                                                                       \
        leat_bytes bytes_ = (b);                                               \
        assert_int_equal(bytes_.n, strlen(text));                              \
        if (bytes_.n > 0)                                                      \
            assert_memory_equal(bytes_.p, text, bytes_.n);                     \
    } while (0)

static bool no_reasons(void)
{
    return redis_int(server, "EXISTS leat:{q/41}:orders:why") == 0;
}

static void reject_one(leat_queue *q, const char *reason)
{
    leat_error e = { 0 };
    leat_queue_batch *b = take_one(q);
    must(leat_queue_reject(q, item(b)->receipt, reason, err));
    assert_code(leat_queue_reject(q, item(b)->receipt, reason, &e),
                LEAT_ESTALE);
    leat_queue_batch_free(b);
}

static void a_rejected_message_is_a_dead_letter_with_a_reason(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    char longer[400];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    send_many(q, 0, 3);
    reject_one(q, "no such customer");
    reject_one(q, NULL);
    reject_one(q, longer);
    leat_queue_batch *b = leat_queue_peek(q, 10, true, NULL);
    assert_int_equal(leat_queue_batch_count(b), 3);
    assert_bytes(item(b)->reason, "no such customer");
    assert_item(item(b), "0");
    assert_bytes(leat_queue_batch_at(b, 1)->reason, "");
    assert_int_equal(leat_queue_batch_at(b, 2)->reason.n, 255);
    assert_item(leat_queue_batch_at(b, 2), "2");
    leat_queue_batch_free(b);
    b = take_dead(q);
    assert_bytes(item(b)->reason, "no such customer");
    leat_queue_batch *rest = take(
        q, &(leat_receive_opts){ .max = 5, .dead = true });
    assert_int_equal(leat_queue_batch_count(rest), 2);
    assert_int_equal(leat_queue_batch_at(rest, 1)->reason.n, 255);
    ack(q, b);
    ack(q, rest);
    assert_true(no_reasons());
    leat_queue_batch_free(b);
    leat_queue_batch_free(rest);
    conserved(q);
    leat_queue_close(q);
}

static void a_reason_goes_with_its_dead_letter(void **state)
{
    (void)state;
    int64_t n;
    leat_queue *q = queue_of("orders", NULL);
    send_many(q, 0, 2);
    reject_one(q, "a");
    reject_one(q, "b");
    must(leat_queue_redrive(q, &(leat_redrive_opts){ .max = 1 }, &n, err));
    assert_int_equal(redis_int(server, "HLEN leat:{q/41}:orders:why"), 1);
    must(leat_queue_purge(q, true, &n, err));
    assert_int_equal(n, 1);
    assert_true(no_reasons());
    reject_one(q, "c"); /* the redriven one */
    leat_queue_batch *b = take_dead(q);
    must(leat_queue_reject(q, item(b)->receipt, "still", err));
    leat_queue_batch_free(b);
    b = take_dead(q);
    assert_bytes(item(b)->reason, "still");
    leat_queue_batch_free(b);
    conserved(q);
    must(leat_queue_remove(client, "orders", NULL, err));
    assert_true(no_reasons());
    leat_queue_close(q);
}

static void a_rejected_message_frees_its_group(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .fifo = true });
    send_group(q, "a", "1");
    send_group(q, "a", "2");
    reject_one(q, "bad");
    leat_queue_batch *b = take_one(q);
    assert_item(item(b), "2");
    leat_queue_batch_free(b);
    b = take_dead(q);
    assert_item(item(b), "1");
    assert_bytes(item(b)->reason, "bad");
    leat_queue_batch_free(b);
    conserved(q);
    leat_queue_close(q);
}

static void a_sources_reasons_are_kept(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_delivery *d[3];
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .max_receives = 1 });
    send_many(q, 0, 3);
    leat_source *s = leat_queue_source(q, NULL, &e);
    assert_non_null(s);
    assert_int_equal(leat_source_receive(s, d, 3, 0, &e), 3);
    assert_code(leat_delivery_reject(d[0], "never"), LEAT_OK);
    assert_code(leat_delivery_nack(d[1], 100000), LEAT_OK);
    assert_code(leat_delivery_reject(d[2], "nor this"), LEAT_OK);
    must(leat_source_flush(s, LONG_MS, err));
    leat_queue_stats st = stats(q);
    assert_int_equal(st.dead, 3); /* the nacked one had its last receive */
    leat_queue_batch *b = leat_queue_peek(q, 10, true, NULL);
    for (size_t i = 0; i < 3; i++) {
        const leat_queue_item *it = leat_queue_batch_at(b, i);
        const char *body = it->msg.body.p;
        assert_bytes(it->reason, *body == '0'   ? "never"
                                 : *body == '1' ? ""
                                                : "nor this");
    }
    leat_queue_batch_free(b);
    leat_source_close(s);
    conserved(q);
    leat_queue_close(q);
}

static void a_moved_dead_letter_tells_its_reason(void **state)
{
    (void)state;
    leat_queue *to = queue_of("morgue", NULL);
    leat_queue *q = queue_of("orders",
                             &(leat_queue_opts){ .dead_queue = "morgue" });
    send_text(q, "x");
    reject_one(q, "no such customer");
    leat_queue_batch *b = take_one(to);
    assert_bytes(leat_msg_header(&item(b)->msg, "leat-dead-reason"),
                 "no such customer");
    leat_queue_batch_free(b);
    leat_queue_close(q);
    leat_queue_close(to);
}

/* ---- holding ---------------------------------------------------------- */

/* The earliest deadline of the shard. */
static int64_t deadline(void)
{
    return redis_int(server, "EVAL %s 1 leat:{q/41}:due",
                     "return redis.call('ZRANGE', KEYS[1], 0, 0, "
                     "'WITHSCORES')[2] or '0'");
}

static void held_messages_are_hidden_again_and_again(void **state)
{
    (void)state;
    enum { HELD = 5 };
    leat_error e = { 0 };
    leat_queue_hold *h[HELD];
    leat_queue *q = queue_of("orders", NULL);
    send_many(q, 0, HELD);
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = HELD });
    assert_int_equal(leat_queue_batch_count(b), HELD);
    for (size_t i = 0; i < HELD; i++) {
        h[i] = leat_queue_hold_start(q, leat_queue_batch_at(b, i)->receipt,
                                     i % 2 ? 1500 : 1800, &e);
        assert_non_null(h[i]);
    }
    for (int i = 0; i < 3; i++) {
        int64_t before = deadline();
        wait_until(deadline() > before, LONG_MS);
    }
    for (size_t i = 0; i < HELD; i++)
        leat_queue_hold_end(h[i]);
    leat_queue_batch_free(b);
    conserved(q);
    leat_queue_close(q);
}

static void an_ended_hold_lets_it_come_back(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_queue *q = queue_of("orders",
                             &(leat_queue_opts){ .visibility_ms = 300 });
    send_text(q, "x");
    leat_queue_batch *b = take_one(q);
    leat_queue_hold *h = leat_queue_hold_start(q, item(b)->receipt, 0, &e);
    assert_non_null(h);
    leat_queue_hold_end(h);
    leat_queue_hold_end(NULL);
    leat_queue_batch *again = take_one(q);
    assert_int_equal(item(again)->receives, 2);
    assert_null(leat_queue_hold_start(q, item(b)->receipt, 0, &e));
    assert_code(e.code, LEAT_ESTALE);
    assert_null(leat_queue_hold_start(q, leat_str("nonsense"), 0, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_null(leat_queue_hold_start(q, item(again)->receipt, -1, &e));
    assert_code(e.code, LEAT_EINVAL);
    leat_queue_batch_free(again);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static void a_hold_knows_that_it_lost_its_message(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_queue *q = queue_of("orders", NULL);
    send_text(q, "x");
    leat_queue_batch *b = take_one(q);
    leat_queue_hold *h = leat_queue_hold_start(q, item(b)->receipt, 600, &e);
    assert_non_null(h);
    must(leat_queue_ack(q, item(b)->receipt, err));
    wait_until(leat_queue_hold_lost(h), LONG_MS);
    leat_queue_hold_end(h);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

/* Nobody can be asked: after its time the message may be another's. */
static void a_hold_without_server_is_lost_in_time(void **state)
{
    (void)state;
    leat_error e = { 0 };
    char u[256];
    redis_server *s = redis_start(NULL);
    assert_non_null(s);
    leat_client *c = open_client(
        redis_url(s, u, sizeof u),
        &(leat_client_opts){ .timeout_ms = 200, .max_retry_ms = 20 });
    leat_queue *q = leat_queue_open(c, "orders", NULL, &e);
    assert_non_null(q);
    send_text(q, "x");
    leat_queue_batch *b = take_one(q);
    leat_queue_hold *h = leat_queue_hold_start(q, item(b)->receipt, 1500, &e);
    assert_non_null(h);
    redis_kill(s);
    wait_until(leat_queue_hold_lost(h), LONG_MS);
    leat_queue_hold_end(h);
    leat_queue_batch_free(b);
    leat_queue_close(q);
    leat_client_close(c);
    redis_stop(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        queue_test(a_rejected_message_is_a_dead_letter_with_a_reason),
        queue_test(a_reason_goes_with_its_dead_letter),
        queue_test(a_rejected_message_frees_its_group),
        queue_test(a_sources_reasons_are_kept),
        queue_test(a_moved_dead_letter_tells_its_reason),
        queue_test(held_messages_are_hidden_again_and_again),
        queue_test(an_ended_hold_lets_it_come_back),
        queue_test(a_hold_knows_that_it_lost_its_message),
        queue_test(a_hold_without_server_is_lost_in_time),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
