/*
 * redowl.c: a queue that is shared with a program that uses redowl.
 *
 * First the bytes, as such a program reads and writes them; then one of them,
 * which does its steps command by command, at the other end.
 */
#include "redowl_help.h"

#include <pthread.h>
#include <stdatomic.h>

#define Q "redowl:orders:"

/* ---- the bytes -------------------------------------------------------- */

static const char *field(const char *id, const char *name)
{
    static char text[1024];
    return redis_text(server, text, sizeof text, "HGET " Q "msg:%s %s", id,
                      name);
}

static leat_queue_sent send_with(leat_queue *q, leat_bytes body,
                                 const leat_header *h, size_t n)
{
    leat_queue_sent sent;
    leat_msg m = { .body = body, .headers = h, .header_count = n };
    must(leat_queue_send(q, &m, NULL, &sent, err));
    return sent;
}

static int64_t server_ms(void)
{
    redisReply *r = redis_raw(server, "TIME");
    int64_t ms = strtoll(r->element[0]->str, NULL, 10) * 1000 +
                 strtoll(r->element[1]->str, NULL, 10) / 1000;
    freeReplyObject(r);
    return ms;
}

static void a_message_has_redowls_fields(void **state)
{
    (void)state;
    char text[64];
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    leat_header h[] = { { leat_str("trace_id"), leat_str("t-1") },
                        { leat_str("a"), leat_str("<b> & \"c\"\\\n\t\x01") },
                        { leat_str("Z"), leat_str("\xe2\x80\xa8\xc3\xa9") } };
    int64_t before = server_ms();
    leat_queue_sent s = send_with(q, leat_str("hello"), h, 3);
    assert_true(is_hex(leat_str(s.id)));
    assert_string_equal(field(s.id, "body"), "aGVsbG8=");
    assert_string_equal(field(s.id, "attrs"),
                        "{\"Z\":\"\\u2028\xc3\xa9\",\"a\":\"\\u003cb\\u003e "
                        "\\u0026 \\\"c\\\"\\\\\\n\\t\\u0001\","
                        "\"trace_id\":\"t-1\"}");
    assert_string_equal(field(s.id, "rc"), "0");
    int64_t at = strtoll(field(s.id, "created_at_ms"), NULL, 10);
    assert_true(at >= before && at <= server_ms());
    assert_int_equal(redis_int(server, "HLEN " Q "msg:%s", s.id), 4);
    assert_string_equal(
        redis_text(server, text, sizeof text, "LINDEX " Q "ready 0"), s.id);
    assert_int_equal(redis_int(server, "TTL " Q "ready"), -1);
    assert_int_equal(redis_int(server, "TTL " Q "msg:%s", s.id), -1);
    leat_queue_close(q);
}

static void nothing_is_null_and_empty(void **state)
{
    (void)state;
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    leat_queue_sent s = send_with(q, leat_str(""), NULL, 0);
    assert_string_equal(field(s.id, "attrs"), "null");
    assert_string_equal(field(s.id, "body"), "");
    assert_int_equal(redis_int(server, "HEXISTS " Q "msg:%s body", s.id), 1);
    leat_queue_batch *b = take_one(q);
    assert_int_equal(item(b)->msg.body.n, 0);
    assert_int_equal(item(b)->msg.header_count, 0);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static void a_receive_leaves_redowls_receipt(void **state)
{
    (void)state;
    char text[64], receipt[40];
    leat_queue *q = owl("orders", (leat_queue_opts){ .visibility_ms = 60000 });
    send_text(q, "x");
    int64_t before = server_ms();
    leat_queue_batch *b = take_one(q);
    const leat_queue_item *it = item(b);
    assert_true(is_hex(it->receipt));
    assert_int_equal(it->receives, 1);
    snprintf(receipt, sizeof receipt, "%.32s", (const char *)it->receipt.p);
    assert_memory_equal(
        redis_text(server, text, sizeof text, "HGET " Q "receipt %s", receipt),
        it->msg.id.p, 32);
    redis_text(server, text, sizeof text, "ZSCORE " Q "inflight %s", receipt);
    assert_null(strpbrk(text, ".e"));
    int64_t until = strtoll(text, NULL, 10);
    assert_true(until >= before + 60000 && until <= server_ms() + 60000);
    assert_int_equal(
        redis_int(server, "HGET " Q "msg:%b rc", it->msg.id.p, it->msg.id.n),
        1);
    assert_int_equal(redis_int(server, "EXISTS " Q "ready"), 0);
    ack(q, b);
    assert_int_equal(redis_int(server,
                               "EXISTS " Q "receipt " Q "inflight " Q "msg:%b",
                               it->msg.id.p, it->msg.id.n),
                     0);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

/* All keys but those that are redowl's are of lanes, and end by themselves. */
static void no_other_key_stays(void **state)
{
    (void)state;
    leat_queue *q = owl("orders", (leat_queue_opts){ .max_receives = 1 });
    send_many(q, 0, 3);
    leat_queue_batch *b = take_one(q);
    redisReply *r = redis_raw(server, "KEYS *");
    for (size_t i = 0; i < r->elements; i++) {
        const char *k = r->element[i]->str;
        bool lane = strncmp(k, Q "lane:", strlen(Q "lane:")) == 0;
        assert_true(lane || strcmp(k, Q "ready") == 0 ||
                    strcmp(k, Q "receipt") == 0 ||
                    strcmp(k, Q "inflight") == 0 ||
                    strncmp(k, Q "msg:", strlen(Q "msg:")) == 0);
        assert_true((redis_int(server, "PTTL %s", k) > 0) == lane);
    }
    freeReplyObject(r);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static void what_leat_has_besides_travels_as_attributes(void **state)
{
    (void)state;
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    leat_header h = { leat_str("n"), leat_str("1") };
    leat_msg m = { .key = leat_str("k"),
                   .type = leat_str("t"),
                   .content_type = leat_str("text/plain"),
                   .time_ms = 12345,
                   .headers = &h,
                   .header_count = 1,
                   .body = leat_str("b") };
    leat_queue_sent s;
    must(leat_queue_send(q, &m, NULL, &s, err));
    assert_string_equal(field(s.id, "attrs"),
                        "{\"leat-content-type\":\"text/plain\",\"leat-key\":"
                        "\"k\",\"leat-time\":\"12345\",\"leat-type\":\"t\","
                        "\"n\":\"1\"}");
    leat_queue_batch *b = take_one(q);
    const leat_msg *got = &item(b)->msg;
    assert_true(leat_bytes_eq(got->key, m.key));
    assert_true(leat_bytes_eq(got->type, m.type));
    assert_true(leat_bytes_eq(got->content_type, m.content_type));
    assert_int_equal(got->time_ms, 12345);
    assert_int_equal(got->header_count, 1);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static void foreign_bytes_are_an_error_of_their_message(void **state)
{
    (void)state;
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    redis_do(server,
             "HSET " Q "msg:a body ??? attrs null rc 0 created_at_ms 1");
    redis_do(server, "HSET " Q "msg:b body eA== attrs [1] rc x");
    redis_do(server, "HSET " Q "msg:c body eA== attrs {\"n\":1} rc 0");
    redis_do(server, "HSET " Q "msg:d body eA== attrs null rc 4");
    redis_do(server, "RPUSH " Q "ready a b gone c d");
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 10 });
    assert_int_equal(leat_queue_batch_count(b), 4);
    for (size_t i = 0; i < 3; i++) {
        const leat_queue_item *it = leat_queue_batch_at(b, i);
        assert_non_null(it->error);
        assert_code(it->error->code, LEAT_EDECODE);
        assert_int_equal(it->receives, 1);
        assert_int_equal(it->msg.id.n, 1);
    }
    assert_item(leat_queue_batch_at(b, 3), "x");
    assert_int_equal(leat_queue_batch_at(b, 3)->receives, 5);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

/* ---- events ----------------------------------------------------------- */

/* The next that the other program heard, the time taken out. */
static const char *heard(void)
{
    static char text[512];
    ask_peer("heard");
    char *at = strstr(said, "\"at_unix_ms\":");
    assert_non_null(at);
    char *end = at + strlen("\"at_unix_ms\":");
    size_t digits = strspn(end, "0123456789");
    assert_int_equal(digits, 13);
    snprintf(text, sizeof text, "%.*s0%s", (int)(end - said), said,
             end + digits);
    return text;
}

static void hears(const char *type, const char *id, const char *extra)
{
    char want[512];
    const char *const on[] = { "redowl:orders:events", "redowl:events" };
    for (int i = 0; i < 2; i++) {
        snprintf(want, sizeof want,
                 "%s {\"type\":\"%s\",\"queue\":\"orders\",\"message_id\":"
                 "\"%s\",\"at_unix_ms\":0%s}",
                 on[i], type, id, extra);
        assert_string_equal(heard(), want);
    }
}

static void every_step_is_told_as_redowl_tells_it(void **state)
{
    (void)state;
    leat_queue *q = owl("orders", (leat_queue_opts){ .max_receives = 1 });
    ask_peer("listen redowl:orders:events redowl:events");
    leat_queue_sent s = send_with(q, leat_str("x"), NULL, 0);
    hears("sent", s.id, "");
    leat_queue_batch *b = take_one(q);
    hears("received", s.id, ",\"extra\":{\"rc\":\"1\"}");
    must(leat_queue_change_visibility(q, item(b)->receipt, 0, err));
    hears("requeued", s.id, "");
    leat_queue_batch_free(b);
    nothing(q);
    hears("to_dlq", s.id, ",\"extra\":{\"rc\":\"2\"}");
    b = take_dead(q);
    hears("dlq_received", s.id, ",\"extra\":{\"rc\":\"2\"}");
    must(leat_queue_change_visibility(q, item(b)->receipt, 0, err));
    leat_queue_batch_free(b);
    must(leat_queue_redrive(q, NULL, NULL, err));
    hears("dlq_redriven", s.id, ",\"extra\":{\"rc\":\"0\"}");
    b = take_one(q);
    hears("received", s.id, ",\"extra\":{\"rc\":\"1\"}");
    ack(q, b);
    hears("acked", s.id, "");
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static void names_in_events_are_escaped_as_go_does(void **state)
{
    (void)state;
    leat_queue *q = owl("a<b>:\"c\"", (leat_queue_opts){ 0 });
    ask_peer("listen redowl:events");
    leat_msg m = { .id = leat_str("x&y"), .body = leat_str("b") };
    must(leat_queue_send(q, &m, NULL, NULL, err));
    assert_string_equal(
        heard(), "redowl:events {\"type\":\"sent\",\"queue\":"
                 "\"a\\u003cb\\u003e:\\\"c\\\"\",\"message_id\":\"x\\u0026y\","
                 "\"at_unix_ms\":0}");
    leat_queue_close(q);
}

static void events_can_be_off_or_elsewhere(void **state)
{
    (void)state;
    leat_queue *mute = owl("orders", (leat_queue_opts){ .no_events = true });
    leat_client *other = open_client(url, NULL);
    leat_queue *far = owl("orders", (leat_queue_opts){ .event_client = other });
    ask_peer("listen redowl:orders:events redowl:events");
    send_text(mute, "quiet");
    leat_queue_sent s = send_with(far, leat_str("loud"), NULL, 0);
    hears("sent", s.id, "");
    leat_queue_close(far);
    leat_queue_close(mute);
    leat_client_close(other);
}

typedef struct ears {
    atomic_int n;
    char kinds[256];
} ears;

static void listen_in(void *arg, const leat_queue_event *e, bool missed)
{
    ears *x = arg;
    (void)missed;
    snprintf(x->kinds + strlen(x->kinds), sizeof x->kinds - strlen(x->kinds),
             "%s/%.*s/%lld ", e->type, (int)e->queue.n,
             (const char *)e->queue.p, (long long)e->receives);
    x->n++;
}

static void leat_hears_the_other_program(void **state)
{
    (void)state;
    leat_error e;
    char receipt[64];
    ears x = { 0 };
    leat_queue_opts o = { .profile = LEAT_QUEUE_REDOWL };
    leat_queue_watch *w = leat_queue_watch_open(client, NULL, &o, false,
                                                listen_in, &x, &e);
    assert_non_null(w);
    wait_until(redis_int(server, "PUBSUB NUMPAT") == 0 &&
                   redis_int(server, "PUBLISH redowl:events x") == 1,
               LONG_MS);
    ask_peer("send orders a");
    ask_peer("receive orders 60000 0 0");
    ask_peer("ack orders %s", part_of(1, receipt, sizeof receipt));
    wait_until(x.n == 3, LONG_MS);
    leat_queue_watch_close(w);
    assert_string_equal(x.kinds,
                        "sent/orders/-1 received/orders/1 acked/orders/-1 ");
}

/* ---- both at one queue ------------------------------------------------ */

static void what_the_other_sends_is_received(void **state)
{
    (void)state;
    char id[64];
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    snprintf(id, sizeof id, "%.40s",
             ask_peer("send orders hello {\"b\":\"<2>\",\"a\":\"1 \\u2028\"}"));
    leat_queue_batch *b = take_one(q);
    const leat_queue_item *it = item(b);
    assert_item(it, "hello");
    assert_memory_equal(it->msg.id.p, id, 32);
    assert_int_equal(it->receives, 1);
    assert_true(leat_bytes_eq(leat_msg_header(&it->msg, "a"),
                              leat_str("1 \xe2\x80\xa8")));
    assert_true(leat_bytes_eq(leat_msg_header(&it->msg, "b"), leat_str("<2>")));
    assert_true(it->sent_ms > 0 && it->msg.time_ms == it->sent_ms);
    ack(q, b);
    leat_queue_batch_free(b);
    assert_int_equal(stats(q).in_flight, 0);
    leat_queue_close(q);
}

static void what_is_sent_the_other_receives(void **state)
{
    (void)state;
    char text[256];
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    leat_header h[] = { { leat_str("x"), leat_str("1&2") },
                        { leat_str("a"), leat_str("3") } };
    leat_queue_sent s = send_with(q, leat_str("one"), h, 2);
    send_text(q, "two");
    ask_peer("receive orders 60000 3 0");
    assert_string_equal(part_of(0, text, sizeof text), s.id);
    assert_string_equal(part_of(2, text, sizeof text), "1");
    assert_string_equal(part_of(3, text, sizeof text), "one");
    assert_non_null(strstr(said, "{\"a\": \"3\", \"x\": \"1&2\"}"));
    part_of(1, text, sizeof text);
    assert_string_equal(ask_peer("ack orders %s", text), "ok");
    ask_peer("receive orders 60000 3 0");
    assert_string_equal(part_of(3, text, sizeof text), "two");
    assert_non_null(strstr(said, " null"));
    leat_queue_stats st = stats(q);
    assert_int_equal(st.in_flight, 1);
    assert_int_equal(st.visible, 0);
    leat_queue_close(q);
}

/* It dies with a message; leat gives it back, to the head. */
static void what_the_other_dies_with_comes_back(void **state)
{
    (void)state;
    char receipt[64];
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    send_many(q, 1, 2);
    ask_peer("receive orders 1 0 0");
    part_of(1, receipt, sizeof receipt);
    wait_until(redis_int(server, "LLEN " Q "ready") == 2, LONG_MS);
    leat_queue_batch *b = take_one(q);
    assert_item(item(b), "1");
    assert_int_equal(item(b)->receives, 2);
    leat_queue_batch_free(b);
    assert_string_equal(ask_peer("ack orders %s", receipt), "invalid");
    leat_queue_close(q);
}

/* And the other way round: leat's receipt is refused. */
static void what_leat_dies_with_the_other_brings_back(void **state)
{
    (void)state;
    char text[64];
    leat_queue *q = owl("orders", (leat_queue_opts){ .no_reaper = true });
    send_many(q, 1, 2);
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .visibility_ms = 1 });
    assert_int_equal(leat_queue_batch_count(b), 1);
    wait_until(redis_int(server, "ZCOUNT " Q "inflight -inf %lld",
                         (long long)server_ms() - 50) == 1,
               LONG_MS);
    assert_string_equal(ask_peer("requeue orders"), "1");
    assert_code(leat_queue_ack(q, item(b)->receipt, NULL), LEAT_ESTALE);
    assert_code(leat_queue_change_visibility(q, item(b)->receipt, 5, NULL),
                LEAT_ESTALE);
    ask_peer("receive orders 60000 0 0");
    assert_string_equal(part_of(3, text, sizeof text), "1");
    assert_string_equal(part_of(2, text, sizeof text), "2");
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static void expired_ones_come_back_in_their_order(void **state)
{
    (void)state;
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    send_many(q, 0, 20);
    leat_queue_batch_free(
        take(q, &(leat_receive_opts){ .max = 10, .visibility_ms = 1 }));
    wait_until(redis_int(server, "LLEN " Q "ready") == 20, LONG_MS);
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 20 });
    for (size_t i = 0; i < 20; i++) {
        char text[8];
        snprintf(text, sizeof text, "%zu", i);
        assert_item(leat_queue_batch_at(b, i), text);
    }
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

/* ---- dead letters ----------------------------------------------------- */

static void one_receive_too_many_makes_a_dead_letter(void **state)
{
    (void)state;
    char text[64];
    leat_queue *q = owl("orders", (leat_queue_opts){ .max_receives = 1 });
    send_many(q, 1, 2);
    leat_queue_batch *b = take_one(q);
    must(leat_queue_change_visibility(q, item(b)->receipt, 0, err));
    leat_queue_batch_free(b);
    /* redowl would say that there is nothing; the second is there. */
    b = take_one(q);
    assert_item(item(b), "2");
    leat_queue_batch_free(b);
    ask_peer("dlq orders");
    assert_string_equal(part_of(3, text, sizeof text), "1");
    assert_string_equal(part_of(2, text, sizeof text), "2");
    part_of(1, text, sizeof text);
    assert_string_equal(ask_peer("ack orders %s", text), "ok");
    assert_int_equal(stats(q).dead, 0);
    leat_queue_close(q);
}

static void dead_letters_of_the_other_are_received_and_hidden(void **state)
{
    (void)state;
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    ask_peer("send orders bad");
    ask_peer("receive orders -1 1 0");
    assert_string_equal(ask_peer("receive orders -1 1 0"), "none");
    leat_queue_batch *b = take(
        q, &(leat_receive_opts){ .dead = true, .visibility_ms = 1 });
    assert_int_equal(leat_queue_batch_count(b), 1);
    assert_item(item(b), "bad");
    assert_int_equal(item(b)->receives, 2);
    assert_int_equal(redis_int(server, "EXISTS " Q "inflight"), 0);
    leat_queue_batch_free(b);
    b = take_dead(q);
    assert_item(item(b), "bad");
    ack(q, b);
    leat_queue_batch_free(b);
    assert_int_equal(
        redis_int(server, "EXISTS " Q "dlq " Q "dlq_inflight " Q "receipt"), 0);
    leat_queue_close(q);
}

static void bury(leat_queue *q, int n)
{
    for (int i = 0; i < n; i++) {
        leat_queue_batch *b = take_one(q);
        must(leat_queue_reject(q, item(b)->receipt, "no good", err));
        leat_queue_batch_free(b);
    }
}

static void redriving_takes_the_oldest_first(void **state)
{
    (void)state;
    char text[64];
    int64_t moved;
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    send_many(q, 1, 3);
    bury(q, 3);
    leat_queue_batch *b = leat_queue_peek(q, 3, true, NULL);
    assert_int_equal(leat_queue_batch_count(b), 3);
    assert_item(item(b), "1");
    assert_true(leat_bytes_eq(item(b)->reason, leat_str("no good")));
    leat_queue_batch_free(b);
    must(leat_queue_redrive(q, &(leat_redrive_opts){ .max = 2 }, &moved, err));
    assert_int_equal(moved, 2);
    for (int i = 1; i < 3; i++) {
        ask_peer("receive orders 60000 0 0");
        assert_int_equal(part_of(3, text, sizeof text)[0], '0' + i);
        assert_string_equal(part_of(2, text, sizeof text), "1");
    }
    assert_string_equal(ask_peer("redrive orders 10"), "1");
    b = take_one(q);
    assert_item(item(b), "3");
    assert_int_equal(item(b)->receives, 1);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

/* ---- waiting, delays -------------------------------------------------- */

static void *receive_one(void *arg)
{
    int64_t *at = arg;
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    leat_queue_batch *b = take_one(q);
    *at = wait_now_ms();
    ack(q, b);
    leat_queue_batch_free(b);
    leat_queue_close(q);
    return NULL;
}

enum { WAKES = 12, SOON_MS = 200 };

/* Looking twice a second would be as quick twice in five times. */
static void the_others_events_wake_who_waits(void **state)
{
    (void)state;
    int soon = 0;
    for (int i = 0; i < WAKES; i++) {
        int64_t at = 0;
        pthread_t t;
        pthread_create(&t, NULL, receive_one, &at);
        wait_until(redis_int(server, "PUBLISH redowl:orders:events x") == 1,
                   LONG_MS);
        wait_nap(i * 43 % 100);
        int64_t before = wait_now_ms();
        ask_peer("send orders x");
        pthread_join(t, NULL);
        soon += at - before < SOON_MS;
    }
    assert_true(soon >= WAKES - 2);
}

static void who_does_not_tell_is_found_by_looking(void **state)
{
    (void)state;
    int64_t at = 0;
    pthread_t t;
    pthread_create(&t, NULL, receive_one, &at);
    redis_do(server, "HSET " Q "msg:a body eA== attrs null rc 0 "
                     "created_at_ms 1");
    redis_do(server, "RPUSH " Q "ready a");
    pthread_join(t, NULL);
    assert_true(at > 0);
}

static void a_delay_is_kept_by_either(void **state)
{
    (void)state;
    char text[64];
    leat_queue *q = owl("orders", (leat_queue_opts){ .no_reaper = true });
    leat_queue_send_opts o = { .delay_ms = 3600000 };
    must(leat_queue_send(q, &(leat_msg){ .body = leat_str("late") }, &o, NULL,
                         err));
    nothing(q);
    assert_string_equal(ask_peer("receive orders 60000 0 0"), "none");
    assert_string_equal(ask_peer("requeue orders"), "0");
    redisReply *r = redis_raw(server, "ZRANGE " Q "inflight 0 0");
    snprintf(text, sizeof text, "%s", r->element[0]->str);
    freeReplyObject(r);
    assert_string_equal(ask_peer("change orders %s -5", text), "ok");
    ask_peer("receive orders 60000 0 0");
    assert_string_equal(part_of(3, text, sizeof text), "late");
    assert_string_equal(part_of(2, text, sizeof text), "1");

    o.delay_ms = 1;
    send_text(q, "first");
    leat_queue_sent s;
    must(leat_queue_send(q, &(leat_msg){ .body = leat_str("second") }, &o, &s,
                         err));
    ask_peer("listen redowl:orders:events redowl:events");
    int64_t n = 0;
    wait_until(leat_queue_requeue_expired_once(q, 0, &n, NULL) == LEAT_OK &&
                   n == 1,
               LONG_MS);
    hears("requeued", s.id, ""); /* or who waits would not look */
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 2 });
    assert_item(item(b), "first");
    assert_item(leat_queue_batch_at(b, 1), "second");
    assert_int_equal(leat_queue_batch_at(b, 1)->receives, 1);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

/* ---- deaths in between ------------------------------------------------ */

/* What redowl itself loses when it dies there: what it has taken off the list
 * and put nowhere.  At every other step the message is received. */
static void receive_is_cut(int at, bool lost)
{
    char number[8];
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    ask_peer("send orders %d", at);
    ask_peer("cut %d", at);
    assert_string_equal(ask_peer("receive orders 1 0 0"), "cut");
    leat_queue_batch *b;
    if (lost) {
        nothing(q);
    } else {
        b = take_one(q);
        snprintf(number, sizeof number, "%d", at);
        assert_item(item(b), number);
        ack(q, b);
        leat_queue_batch_free(b);
    }
    send_text(q, "next");
    b = take_one(q);
    assert_item(item(b), "next");
    ack(q, b);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static void the_other_may_die_at_any_step_of_a_receive(void **state)
{
    (void)state;
    /* ZRANGEBYSCORE, LPOP, EXISTS, HINCRBY, HSET, ZADD, HMGET, PUBLISH twice */
    for (int at = 0; at < 9; at++)
        receive_is_cut(at, at >= 2 && at < 6);
}

static void the_other_may_die_at_any_step_of_a_send(void **state)
{
    (void)state;
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    for (int at = 0; at < 4; at++) {
        ask_peer("cut %d", at);
        assert_string_equal(ask_peer("send orders x"), "cut");
        leat_queue_batch *b = take(q, NULL);
        assert_int_equal(leat_queue_batch_count(b), at >= 2);
        ack(q, b);
        leat_queue_batch_free(b);
    }
    leat_queue_close(q);
}

/* LPUSH, ZREM, HDEL: between them it is in the list and in flight.  leat then
 * gives it back once more, as another Go process would; whoever has acked it
 * meanwhile leaves an id without message. */
static void the_other_may_die_at_any_step_of_a_requeue(void **state)
{
    (void)state;
    leat_queue *q = owl("orders", (leat_queue_opts){ .no_reaper = true });
    leat_queue *reaping = owl("orders", (leat_queue_opts){ 0 });
    for (int at = 0; at < 8; at++) {
        send_text(q, "x");
        leat_queue_batch_free(
            take(q, &(leat_receive_opts){ .visibility_ms = 1 }));
        ask_peer("cut %d", at);
        wait_until(redis_int(server, "ZCOUNT " Q "inflight -inf %lld",
                             (long long)server_ms() - 50) != 1 ||
                       strcmp(ask_peer("requeue orders"), "cut") == 0,
                   LONG_MS);
        leat_queue_batch *b = take_one(reaping);
        assert_item(item(b), "x");
        ack(reaping, b);
        leat_queue_batch_free(b);
        nothing(reaping);
        assert_int_equal(redis_int(server, "EXISTS " Q "receipt"), 0);
        ask_peer("cut 100");
        ask_peer("requeue orders");
    }
    leat_queue_close(reaping);
    leat_queue_close(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        queue_test(a_message_has_redowls_fields),
        queue_test(nothing_is_null_and_empty),
        queue_test(a_receive_leaves_redowls_receipt),
        queue_test(no_other_key_stays),
        queue_test(what_leat_has_besides_travels_as_attributes),
        queue_test(foreign_bytes_are_an_error_of_their_message),
        owl_test(every_step_is_told_as_redowl_tells_it),
        owl_test(names_in_events_are_escaped_as_go_does),
        owl_test(events_can_be_off_or_elsewhere),
        owl_test(leat_hears_the_other_program),
        owl_test(what_the_other_sends_is_received),
        owl_test(what_is_sent_the_other_receives),
        owl_test(what_the_other_dies_with_comes_back),
        owl_test(what_leat_dies_with_the_other_brings_back),
        queue_test(expired_ones_come_back_in_their_order),
        owl_test(one_receive_too_many_makes_a_dead_letter),
        owl_test(dead_letters_of_the_other_are_received_and_hidden),
        owl_test(redriving_takes_the_oldest_first),
        owl_test(the_others_events_wake_who_waits),
        queue_test(who_does_not_tell_is_found_by_looking),
        owl_test(a_delay_is_kept_by_either),
        owl_test(the_other_may_die_at_any_step_of_a_receive),
        owl_test(the_other_may_die_at_any_step_of_a_send),
        owl_test(the_other_may_die_at_any_step_of_a_requeue),
    };
    return cmocka_run_group_tests(tests, start_both, stop_both);
}
