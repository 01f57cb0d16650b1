/*
 * redowl_dropin.c: a program that used redowl uses leat instead: its names, its
 * sizes, its times and its receipts are good here, too.
 */
#include "redowl_help.h"

#define Q "redowl:orders:"

/* ---- names and sizes -------------------------------------------------- */

static leat_queue *owl_under(const char *prefix, const char *name)
{
    return owl(name, (leat_queue_opts){ .prefix = prefix });
}

/* What the other program hears on the prefix's channel names the queue. */
static void hears_of(const char *type, const char *queue)
{
    char want[256];
    snprintf(want, sizeof want, "{\"type\":\"%s\",\"queue\":\"%s\",", type,
             queue);
    ask_peer("heard");
    if (!strstr(said, want))
        fail_msg("not %s: %s", want, said);
}

static void a_prefix_may_hold_colons_blanks_braces_and_any_text(void **state)
{
    (void)state;
    static const char *const all[] = { "my:app", "a b", "{x}:y",
                                       "caf\xc3\xa9:\xe2\x82\xac" };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[64];
        ask_peer("prefix %s", all[i]);
        ask_peer("listen %s:events", all[i]);
        leat_queue *q = owl_under(all[i], "or:ders");
        send_text(q, "x");
        hears_of("sent", "or:ders");
        ask_peer("receive or:ders -1 0 0");
        assert_string_equal(part_of(3, text, sizeof text), "x");
        hears_of("received", "or:ders");
        leat_queue_batch *b = take_one(q); /* which gives it back first */
        hears_of("requeued", "or:ders");
        hears_of("received", "or:ders");
        ack(q, b);
        hears_of("acked", "or:ders");
        leat_queue_batch_free(b);
        ask_peer("send or:ders y");
        hears_of("sent", "or:ders");
        b = take(
            q, &(leat_receive_opts){ .wait_ms = LONG_MS, .visibility_ms = 1 });
        hears_of("received", "or:ders");
        hears_of("requeued", "or:ders"); /* by the reaper */
        leat_queue_batch_free(b);
        leat_queue_close(q);
        ask_peer("forget");
    }
}

static char *long_text(size_t n)
{
    static char text[LEAT_REDOWL_NAME_MAX + 2];
    assert_true(n < sizeof text);
    memset(text, 'n', n);
    text[n] = '\0';
    return text;
}

static void names_and_prefixes_have_bounds(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_queue_opts o = { .profile = LEAT_QUEUE_REDOWL };
    static const size_t good[] = { 300, LEAT_REDOWL_NAME_MAX };
    char prefix[LEAT_REDOWL_PREFIX_MAX + 2];
    memset(prefix, 'p', sizeof prefix);
    prefix[LEAT_REDOWL_PREFIX_MAX] = '\0';
    for (size_t i = 0; i < 2; i++) {
        const char *name = long_text(good[i]);
        leat_queue *q = owl_under(prefix, name);
        send_text(q, "x");
        assert_int_equal(redis_int(server, "LLEN %s:%s:ready", prefix, name),
                         1);
        leat_queue_batch *b = take_one(q);
        ack(q, b);
        leat_queue_batch_free(b);
        leat_queue_close(q);
    }
    assert_null(
        leat_queue_open(client, long_text(LEAT_REDOWL_NAME_MAX + 1), &o, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "512"));
    prefix[LEAT_REDOWL_PREFIX_MAX] = 'p';
    prefix[LEAT_REDOWL_PREFIX_MAX + 1] = '\0';
    o.prefix = prefix;
    assert_null(leat_queue_open(client, "orders", &o, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "128"));
    o.prefix = " x";
    assert_null(leat_queue_open(client, "orders", &o, &e));
    assert_code(e.code, LEAT_EINVAL);
}

enum { BODY_MAX = 64 << 20 };

/* It is kept as base64, and comes as one string of a reply. */
static void a_body_has_64_mib_and_not_a_byte_more(void **state)
{
    (void)state;
    leat_error e = { 0 };
    size_t n = BODY_MAX;
    leat_queue *q = owl("orders", (leat_queue_opts){ .no_events = true });
    char *body = calloc(1, BODY_MAX + 1);
    assert_non_null(body);
    body[n - 1] = 'x';
    leat_msg m = { .body = leat_mem(body, BODY_MAX + 1) };
    assert_code(leat_queue_send(q, &m, NULL, NULL, &e), LEAT_ETOOBIG);
    assert_int_equal(stats(q).settings.max_message, BODY_MAX);
    m.body.n = n;
    must(leat_queue_send(q, &m, NULL, NULL, err));
    leat_queue_batch *b = take_one(q);
    assert_int_equal(item(b)->msg.body.n, n);
    assert_int_equal(((const char *)item(b)->msg.body.p)[n - 1], 'x');
    ack(q, b);
    leat_queue_batch_free(b);
    leat_queue_close(q);
    free(body);
}

enum { BIG = 12 << 20 }; /* two are over 32 MiB, as they are kept */

static void a_receive_brings_what_fits_and_leaves_the_rest(void **state)
{
    (void)state;
    leat_queue *q = owl("orders", (leat_queue_opts){ .no_events = true });
    char *body = calloc(1, BIG);
    assert_non_null(body);
    for (int i = 0; i < 2; i++)
        must(leat_queue_send(q, &(leat_msg){ .body = leat_mem(body, BIG) },
                             NULL, NULL, err));
    leat_queue_batch *b = leat_queue_peek(q, 10, false, NULL);
    assert_int_equal(leat_queue_batch_count(b), 1);
    leat_queue_batch_free(b);
    for (int i = 0; i < 2; i++) {
        b = take(q, &(leat_receive_opts){ .max = 10 });
        assert_int_equal(leat_queue_batch_count(b), 1);
        ack(q, b);
        leat_queue_batch_free(b);
    }
    nothing(q);
    leat_queue_close(q);
    free(body);
}

/* ---- times ------------------------------------------------------------ */

static void a_negative_visibility_ends_at_the_next_look(void **state)
{
    (void)state;
    char text[64];
    leat_queue *q = owl("orders", (leat_queue_opts){ .no_reaper = true });
    send_many(q, 1, 2);
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 2 });
    leat_bytes one = item(b)->receipt, two = leat_queue_batch_at(b, 1)->receipt;
    must(leat_queue_change_visibility(q, one, -5000, err));
    must(leat_queue_change_visibility(q, two, -1, err));
    assert_int_equal(redis_int(server, "LLEN " Q "ready"), 0);
    must(leat_queue_ack(q, two, err)); /* nobody has looked */
    ask_peer("receive orders 60000 0 0");
    assert_string_equal(part_of(3, text, sizeof text), "1");
    assert_string_equal(part_of(2, text, sizeof text), "2");
    assert_code(leat_queue_ack(q, one, NULL), LEAT_ESTALE);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static void our_reaper_ends_a_negative_visibility_soon(void **state)
{
    (void)state;
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    send_text(q, "x");
    leat_queue_batch *b = take_one(q);
    must(leat_queue_change_visibility(q, item(b)->receipt,
                                      -LEAT_REDOWL_VISIBILITY_MAX_MS, err));
    wait_until(redis_int(server, "LLEN " Q "ready") == 1, LONG_MS);
    assert_code(leat_queue_ack(q, item(b)->receipt, NULL), LEAT_ESTALE);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static void a_message_may_be_hidden_for_ten_years(void **state)
{
    (void)state;
    char text[64];
    leat_error e = { 0 };
    const int64_t most = LEAT_REDOWL_VISIBILITY_MAX_MS;
    leat_queue_opts o = { .visibility_ms = most };
    leat_queue *q = owl("orders", o);
    send_text(q, "x");
    leat_queue_batch *b = take_one(q);
    leat_bytes r = item(b)->receipt;
    int64_t now = redis_int(server, "HGET " Q "msg:%b created_at_ms",
                            item(b)->msg.id.p, item(b)->msg.id.n);
    redis_text(server, text, sizeof text, "ZSCORE " Q "inflight %b", r.p, r.n);
    assert_true(strtoll(text, NULL, 10) >= now + most);
    must(leat_queue_change_visibility(q, r, most, err));
    assert_code(leat_queue_change_visibility(q, r, most + 1, &e), LEAT_EINVAL);
    assert_code(leat_queue_change_visibility(q, r, -most - 1, &e), LEAT_EINVAL);
    must(leat_queue_receipt_check(q, r, err)); /* so it was the time */
    assert_null(leat_queue_receive(
        q, &(leat_receive_opts){ .visibility_ms = most + 1 }, &e));
    assert_code(e.code, LEAT_EINVAL);
    ack(q, b);
    leat_queue_batch_free(b);
    leat_queue_close(q);
    o = (leat_queue_opts){ .profile = LEAT_QUEUE_REDOWL,
                           .visibility_ms = most + 1 };
    assert_null(leat_queue_open(client, "orders", &o, &e));
    assert_code(e.code, LEAT_EINVAL);
}

static void a_receive_gives_back_what_expired_without_a_reaper(void **state)
{
    (void)state;
    leat_queue *q = owl("orders", (leat_queue_opts){ .no_reaper = true });
    send_text(q, "x");
    ask_peer("receive orders -1 0 0");
    leat_queue_batch *b = take(q, NULL);
    assert_int_equal(leat_queue_batch_count(b), 1);
    assert_int_equal(item(b)->receives, 2);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

/* Not at the next look twice a second, but when its time is over. */
static void who_waits_looks_when_the_next_one_is_due(void **state)
{
    (void)state;
    int soon = 0;
    leat_queue *q = owl("orders", (leat_queue_opts){ .no_reaper = true });
    for (int i = 0; i < 10; i++) {
        send_text(q, "x");
        leat_queue_batch *b = take(q,
                                   &(leat_receive_opts){ .visibility_ms = 20 });
        assert_int_equal(leat_queue_batch_count(b), 1);
        leat_queue_batch_free(b);
        int64_t before = wait_now_ms();
        b = take_one(q);
        soon += wait_now_ms() - before < 300;
        ack(q, b);
        leat_queue_batch_free(b);
    }
    assert_true(soon >= 8);
    leat_queue_close(q);
}

/* ---- receipts --------------------------------------------------------- */

static void an_ack_of_a_message_that_is_gone_is_stale(void **state)
{
    (void)state;
    leat_code outcome[2];
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    send_many(q, 1, 2);
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 2 });
    leat_bytes id = item(b)->msg.id;
    leat_bytes r[] = { item(b)->receipt, leat_queue_batch_at(b, 1)->receipt };
    redis_do(server, "DEL " Q "msg:%b", id.p, id.n);
    assert_code(leat_queue_ack_batch(q, r, 2, outcome, NULL), LEAT_ESTALE);
    assert_code(outcome[0], LEAT_ESTALE);
    assert_code(outcome[1], LEAT_OK);
    assert_int_equal(redis_int(server, "EXISTS " Q "receipt " Q "inflight"), 0);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static void a_receipt_of_any_shape_is_looked_for(void **state)
{
    (void)state;
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    char longest[LEAT_RECEIPT_MAX + 1];
    memset(longest, 'r', sizeof longest);
    redis_do(server, "HSET " Q "msg:a body eA== attrs null rc 1");
    redis_do(server, "HSET " Q "receipt %b a", longest,
             (size_t)LEAT_RECEIPT_MAX);
    must(leat_queue_ack(q, leat_mem(longest, LEAT_RECEIPT_MAX), err));
    assert_int_equal(redis_int(server, "EXISTS " Q "msg:a " Q "receipt"), 0);
    assert_code(leat_queue_ack(q, leat_mem(longest, LEAT_RECEIPT_MAX), NULL),
                LEAT_ESTALE);
    assert_code(leat_queue_ack(q, leat_mem(longest, sizeof longest), NULL),
                LEAT_EINVAL);
    leat_queue_close(q);
}

static void items_carry_their_deadline(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        leat_queue_opts o = { .visibility_ms = 40000,
                              .profile = i ? LEAT_QUEUE_REDOWL
                                           : LEAT_QUEUE_NATIVE };
        leat_queue *q = queue_of("orders", &o);
        send_text(q, "x");
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        int64_t before = t.tv_sec * 1000 + t.tv_nsec / 1000000;
        leat_queue_batch *b = take_one(q);
        clock_gettime(CLOCK_REALTIME, &t);
        int64_t after = t.tv_sec * 1000 + t.tv_nsec / 1000000;
        assert_true(item(b)->deadline_ms >= before + 40000 - 2);
        assert_true(item(b)->deadline_ms <= after + 40000);
        leat_queue_batch_free(b);
        leat_queue_close(q);
    }
}

/* As a delivery of a source, it says how long that is. */
static void deliveries_carry_their_deadline(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        leat_error e = { 0 };
        leat_delivery *d;
        leat_queue_opts o = { .visibility_ms = 40000,
                              .profile = i ? LEAT_QUEUE_REDOWL
                                           : LEAT_QUEUE_NATIVE };
        leat_queue *q = queue_of("orders", &o);
        send_text(q, "x");
        leat_source *s = leat_queue_source(q, NULL, &e);
        assert_int_equal(leat_source_receive(s, &d, 1, LONG_MS, &e), 1);
        int64_t left = leat_delivery_left_ms(d);
        assert_true(left > 0 && left <= 40000);
        assert_code(leat_delivery_ack(d), LEAT_OK);
        leat_source_close(s);
        leat_queue_close(q);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        owl_test(a_prefix_may_hold_colons_blanks_braces_and_any_text),
        queue_test(names_and_prefixes_have_bounds),
        queue_test(a_body_has_64_mib_and_not_a_byte_more),
        queue_test(a_receive_brings_what_fits_and_leaves_the_rest),
        owl_test(a_negative_visibility_ends_at_the_next_look),
        queue_test(our_reaper_ends_a_negative_visibility_soon),
        queue_test(a_message_may_be_hidden_for_ten_years),
        owl_test(a_receive_gives_back_what_expired_without_a_reaper),
        queue_test(who_waits_looks_when_the_next_one_is_due),
        queue_test(an_ack_of_a_message_that_is_gone_is_stale),
        queue_test(a_receipt_of_any_shape_is_looked_for),
        queue_test(items_carry_their_deadline),
        queue_test(deliveries_carry_their_deadline),
    };
    return cmocka_run_group_tests(tests, start_both, stop_both);
}
