/*
 * queue.c: what each call of a queue promises.
 */
#include "queue_help.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* ---- sending and receiving -------------------------------------------- */

static void a_message_comes_out_as_it_went_in(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    const leat_header h[] = { { leat_str("a"), leat_mem("\0b", 2) },
                              { leat_str("a"), leat_str("") } };
    leat_queue_sent sent;
    must(leat_queue_send(q,
                         &(leat_msg){ .key = leat_str("k"),
                                      .type = leat_str("t"),
                                      .subject = leat_str("s"),
                                      .headers = h,
                                      .header_count = 2,
                                      .body = leat_mem("x\0y", 3) },
                         NULL, &sent, err));
    assert_int_equal(strlen(sent.id), 36);
    assert_false(sent.duplicate);
    leat_queue_batch *b = take_one(q);
    const leat_queue_item *it = item(b);
    assert_true(leat_bytes_eq(it->msg.id, leat_str(sent.id)));
    assert_true(leat_bytes_eq(it->msg.key, leat_str("k")));
    assert_true(leat_bytes_eq(it->msg.body, leat_mem("x\0y", 3)));
    assert_int_equal(it->msg.header_count, 2);
    assert_true(
        leat_bytes_eq(leat_msg_header(&it->msg, "a"), leat_mem("\0b", 2)));
    assert_int_equal(it->receives, 1);
    assert_true(it->sent_ms > 1600000000000);
    assert_null(it->error);
    ack(q, b);
    leat_queue_batch_free(b);
    nothing(q);
    conserved(q);
    leat_queue_close(q);
}

static void messages_come_in_the_order_sent(void **state)
{
    (void)state;
    char text[16];
    leat_queue *q = queue_of("orders", NULL);
    send_many(q, 0, 25);
    for (int i = 0; i < 25;) {
        leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 10 });
        assert_true(leat_queue_batch_count(b) > 0);
        for (size_t k = 0; k < leat_queue_batch_count(b); k++) {
            snprintf(text, sizeof text, "%d", i++);
            assert_item(leat_queue_batch_at(b, k), text);
        }
        ack(q, b);
        leat_queue_batch_free(b);
    }
    leat_queue_close(q);
}

static void a_received_message_is_hidden_and_comes_back(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders",
                             &(leat_queue_opts){ .visibility_ms = 400 });
    send_text(q, "hello");
    leat_queue_batch *first = take_one(q);
    nothing(q);
    leat_queue_batch *again = take_one(q);
    assert_item(item(again), "hello");
    assert_int_equal(item(again)->receives, 2);
    leat_error e = { 0 };
    assert_code(leat_queue_ack(q, item(first)->receipt, &e), LEAT_ESTALE);
    must(leat_queue_change_visibility(q, item(again)->receipt, 60000, err));
    assert_code(leat_queue_change_visibility(q, item(first)->receipt, 0, &e),
                LEAT_ESTALE);
    ack(q, again);
    assert_code(leat_queue_ack(q, item(again)->receipt, &e), LEAT_ESTALE);
    leat_queue_batch_free(first);
    leat_queue_batch_free(again);
    assert_int_equal(stats(q).requeued, 1);
    conserved(q);
    leat_queue_close(q);
}

static void a_visibility_of_0_gives_it_back_at_once_and_first(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    send_many(q, 0, 3);
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 2 });
    leat_bytes r[] = { leat_queue_batch_at(b, 0)->receipt,
                       leat_queue_batch_at(b, 1)->receipt };
    must(leat_queue_change_batch(q, r, 2, 0, NULL, err));
    leat_queue_batch_free(b);
    b = take(q, &(leat_receive_opts){ .max = 3 });
    assert_int_equal(leat_queue_batch_count(b), 3);
    assert_item(leat_queue_batch_at(b, 0), "0");
    assert_item(leat_queue_batch_at(b, 1), "1");
    assert_item(leat_queue_batch_at(b, 2), "2");
    leat_queue_batch_free(b);
    conserved(q);
    leat_queue_close(q);
}

static void a_delayed_message_comes_later(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .delay_ms = 300 });
    leat_queue_send_opts now = { .delay_ms = -1 };
    must(leat_queue_send(q, &(leat_msg){ .body = leat_str("now") }, &now, NULL,
                         err));
    send_text(q, "later");
    assert_int_equal(stats(q).visible, 1);
    assert_int_equal(stats(q).delayed, 1);
    leat_queue_batch *b = take_one(q);
    assert_item(item(b), "now");
    ack(q, b);
    leat_queue_batch_free(b);
    b = take_one(q);
    assert_item(item(b), "later");
    assert_int_equal(item(b)->receives, 1);
    leat_queue_batch_free(b);
    assert_int_equal(stats(q).delayed, 0);
    conserved(q);
    leat_queue_close(q);
}

static void what_is_too_old_is_dropped_and_counted(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .ttl_ms = 1 });
    leat_msg m[5] = { { .body = leat_str("x") } };
    must(leat_queue_send_batch(q, m, 5, NULL, NULL, err));
    wait_until(stats(q).oldest_ms > 1, LONG_MS);
    nothing(q);
    assert_int_equal(stats(q).expired, 5);
    assert_int_equal(redis_int(server, "EXISTS leat:{q/41}:orders:body"), 0);
    conserved(q);
    leat_queue_close(q);
}

/* ---- batches ---------------------------------------------------------- */

static void a_batch_says_how_each_message_ended(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_queue *q = queue_of("orders",
                             &(leat_queue_opts){ .max_message = 200 });
    static char big[300], long_id[65];
    memset(long_id, 'i', 64);
    leat_msg m[4] = { { .body = leat_str("a") },
                      { .body = leat_mem(big, sizeof big) },
                      { .id = leat_str(long_id), .body = leat_str("b") },
                      { .id = leat_str("mine"), .body = leat_str("c") } };
    leat_queue_sent sent[4];
    assert_code(leat_queue_send_batch(q, m, 4, NULL, sent, &e), LEAT_ETOOBIG);
    assert_code(sent[0].code, LEAT_OK);
    assert_code(sent[1].code, LEAT_ETOOBIG);
    assert_code(sent[2].code, LEAT_EINVAL);
    assert_code(sent[3].code, LEAT_OK);
    assert_string_equal(sent[3].id, "mine");
    assert_int_equal(stats(q).visible, 2);
    must(leat_queue_send(q, &m[3], NULL, sent, err));
    assert_true(sent[0].duplicate);
    assert_int_equal(stats(q).sent, 2);
    conserved(q);
    leat_queue_close(q);
}

static void a_thousand_go_at_once_and_one_more_does_not(void **state)
{
    (void)state;
    static leat_msg m[LEAT_QUEUE_BATCH + 1];
    leat_error e = { 0 };
    leat_queue *q = queue_of("orders", NULL);
    for (size_t i = 0; i < LEAT_QUEUE_BATCH + 1; i++)
        m[i].body = leat_str("x");
    must(leat_queue_send_batch(q, m, LEAT_QUEUE_BATCH, NULL, NULL, err));
    assert_code(
        leat_queue_send_batch(q, m, LEAT_QUEUE_BATCH + 1, NULL, NULL, &e),
        LEAT_EINVAL);
    leat_queue_batch *b = take(q,
                               &(leat_receive_opts){ .max = LEAT_QUEUE_BATCH });
    assert_int_equal(leat_queue_batch_count(b), LEAT_QUEUE_BATCH);
    static leat_bytes r[LEAT_QUEUE_BATCH];
    for (size_t i = 0; i < LEAT_QUEUE_BATCH; i++)
        r[i] = leat_queue_batch_at(b, i)->receipt;
    must(leat_queue_change_batch(q, r, LEAT_QUEUE_BATCH, 1000, NULL, err));
    must(leat_queue_ack_batch(q, r, LEAT_QUEUE_BATCH, NULL, err));
    leat_queue_batch_free(b);
    assert_int_equal(stats(q).acked, LEAT_QUEUE_BATCH);
    conserved(q);
    leat_queue_close(q);
}

static void a_dedup_id_counts_for_its_window(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .dedup_ms = 300 });
    leat_queue_send_opts o = { .dedup = leat_str("once") };
    leat_queue_sent first, second;
    leat_msg m = { .body = leat_str("x") };
    must(leat_queue_send(q, &m, &o, &first, err));
    leat_queue_batch *b = take_one(q);
    ack(q, b);
    leat_queue_batch_free(b);
    must(leat_queue_send(q, &m, &o, &second, err));
    assert_true(second.duplicate);
    assert_string_equal(second.id, first.id);
    int64_t end = wait_now_ms() + LONG_MS;
    do {
        must(leat_queue_send(q, &m, &o, &second, err));
    } while (second.duplicate && wait_now_ms() < end);
    assert_false(second.duplicate);
    leat_queue_close(q);
}

static void equal_contents_are_one_message_where_asked(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders",
                             &(leat_queue_opts){ .content_dedup = true });
    leat_msg m[] = { { .body = leat_str("a") },
                     { .body = leat_str("a") },
                     { .body = leat_str("b") } };
    leat_queue_sent sent[3];
    must(leat_queue_send_batch(q, m, 3, NULL, sent, err));
    assert_false(sent[0].duplicate);
    assert_true(sent[1].duplicate);
    assert_string_equal(sent[1].id, sent[0].id);
    assert_false(sent[2].duplicate);
    assert_int_equal(stats(q).visible, 2);
    leat_queue_close(q);
}

/* ---- receipts --------------------------------------------------------- */

static void bad_receipts_are_refused_and_change_nothing(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_queue *q = queue_of("orders", NULL), *other = queue_of("bills", NULL);
    send_text(q, "x");
    leat_queue_batch *b = take_one(q);
    leat_bytes good = item(b)->receipt;
    char copy[LEAT_RECEIPT_MAX];
    memcpy(copy, good.p, good.n);
    assert_code(leat_queue_ack(other, good, &e), LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "'orders'"));
    static const char *const bad[] = { "",
                                       "x",
                                       "v/orders/1",
                                       "v/orders/1/2/3",
                                       "v/orders/a/2/3/4",
                                       "w/orders/1/2/3/4",
                                       "v//1/2/3/4" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_code(leat_queue_ack(q, leat_str(bad[i]), &e), LEAT_EINVAL);
        assert_code(leat_queue_change_visibility(q, leat_str(bad[i]), 0, &e),
                    LEAT_EINVAL);
    }
    /* A wrong time is told from a wrong receipt. */
    assert_code(leat_queue_change_visibility(q, good, -1, &e), LEAT_EINVAL);
    assert_code(leat_queue_receipt_check(q, good, &e), LEAT_OK);
    assert_code(leat_queue_receipt_check(q, leat_str("x"), &e), LEAT_EINVAL);
    assert_code(leat_queue_receipt_check(other, good, &e), LEAT_EINVAL);
    copy[good.n - 1] ^= 1;
    leat_bytes r[] = { leat_mem(copy, good.n), leat_str("x"), good };
    leat_code outcome[3];
    assert_code(leat_queue_ack_batch(q, r, 3, outcome, &e), LEAT_EINVAL);
    assert_code(outcome[0], LEAT_ESTALE);
    assert_code(outcome[1], LEAT_EINVAL);
    assert_code(outcome[2], LEAT_OK);
    assert_int_equal(stats(q).acked, 1);
    leat_queue_batch_free(b);
    conserved(q);
    leat_queue_close(q);
    leat_queue_close(other);
}

/* ---- dead letters ----------------------------------------------------- */

static void too_many_receives_make_a_dead_letter(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .max_receives = 2 });
    send_text(q, "poison");
    send_text(q, "good");
    for (int i = 0; i < 2; i++) {
        leat_queue_batch *b = take_one(q);
        assert_item(item(b), "poison");
        must(leat_queue_change_visibility(q, item(b)->receipt, 0, err));
        leat_queue_batch_free(b);
    }
    leat_queue_batch *b = take_one(q);
    assert_item(item(b), "good");
    leat_queue_batch_free(b);
    assert_int_equal(stats(q).dead, 1);
    b = leat_queue_peek(q, 10, true, NULL);
    assert_int_equal(leat_queue_batch_count(b), 1);
    assert_item(item(b), "poison");
    assert_int_equal(item(b)->receives, 2);
    leat_queue_batch_free(b);
    conserved(q);
    leat_queue_close(q);
}

static void a_dead_letter_has_a_visibility_too(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .max_receives = 1 });
    send_text(q, "poison");
    leat_queue_batch *b = take_one(q);
    must(leat_queue_change_visibility(q, item(b)->receipt, 0, err));
    leat_queue_batch_free(b);
    leat_queue_batch *first = take(
        q, &(leat_receive_opts){ .dead = true, .visibility_ms = 200 });
    assert_int_equal(leat_queue_batch_count(first), 1);
    assert_int_equal(stats(q).dead, 1);
    b = take_dead(q);
    assert_item(item(b), "poison");
    assert_code(leat_queue_ack(q, item(first)->receipt, &e), LEAT_ESTALE);
    ack(q, b);
    leat_queue_batch_free(first);
    leat_queue_batch_free(b);
    assert_int_equal(stats(q).dead, 0);
    conserved(q);
    leat_queue_close(q);
}

static void kill_all(leat_queue *q, int n)
{
    for (int i = 0; i < n; i++) {
        leat_queue_batch *b = take_one(q);
        must(leat_queue_change_visibility(q, item(b)->receipt, 0, err));
        leat_queue_batch_free(b);
    }
}

static void redrive_gives_back_the_oldest_first_and_fresh(void **state)
{
    (void)state;
    char text[16];
    int64_t moved;
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .max_receives = 1 });
    send_many(q, 0, 5);
    kill_all(q, 5);
    assert_int_equal(stats(q).dead, 5);
    must(leat_queue_redrive(q, &(leat_redrive_opts){ .dry_run = true }, &moved,
                            err));
    assert_int_equal(moved, 5);
    must(leat_queue_redrive(q, &(leat_redrive_opts){ .max = 2 }, &moved, err));
    assert_int_equal(moved, 2);
    must(leat_queue_redrive(q, &(leat_redrive_opts){ .rate = 1000 }, &moved,
                            err));
    assert_int_equal(moved, 3);
    for (int i = 0; i < 5; i++) {
        leat_queue_batch *b = take_one(q);
        snprintf(text, sizeof text, "%d", i);
        assert_item(item(b), text);
        assert_int_equal(item(b)->receives, 1);
        ack(q, b);
        leat_queue_batch_free(b);
    }
    conserved(q);
    leat_queue_close(q);
}

/* ---- settings --------------------------------------------------------- */

static void a_queue_keeps_its_settings(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_queue *q = queue_of(
        "orders",
        &(leat_queue_opts){ .visibility_ms = 5000, .max_receives = 3 });
    leat_queue *same = queue_of("orders", NULL);
    assert_int_equal(stats(same).settings.visibility_ms, 5000);
    assert_int_equal(stats(same).settings.max_receives, 3);
    assert_null(leat_queue_open(client, "orders",
                                &(leat_queue_opts){ .max_receives = 4 }, &e));
    assert_code(e.code, LEAT_EEXIST);
    assert_non_null(strstr(e.msg, "max_receives"));
    must(leat_queue_alter(q,
                          &(leat_queue_opts){ .max_receives = -1,
                                              .visibility_ms = 7000,
                                              .dead_queue = "graves" },
                          err));
    assert_int_equal(stats(same).settings.max_receives, -1);
    assert_int_equal(stats(same).settings.visibility_ms, 7000);
    assert_string_equal(stats(same).settings.dead_queue, "graves");
    leat_queue_close(q);
    leat_queue_close(same);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static const leat_queue_opts bad[] = {
        { .visibility_ms = -1 },
        { .visibility_ms = LEAT_VISIBILITY_MAX_MS + 1 },
        { .max_receives = -2 },
        { .delay_ms = -5 },
        { .ttl_ms = -5 },
        { .dedup_ms = -1 },
        { .dedup_ms = INT64_MAX / 2 },
        { .delay_ms = INT64_MAX / 2 },
        { .ttl_ms = INT64_MAX },
        { .dead_queue = "orders" },
        { .dead_queue = "a:b" },
        { .prefix = "a:b" },
    };
    leat_error e = { 0 };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(leat_queue_open(client, "orders", &bad[i], &e));
        assert_code(e.code, LEAT_EINVAL);
    }
    assert_null(leat_queue_open(client, "or:ders", NULL, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_null(leat_queue_open(client, "none",
                                &(leat_queue_opts){ .must_exist = true }, &e));
    assert_code(e.code, LEAT_ENOENT);
    leat_queue *q = queue_of("orders", NULL);
    assert_null(leat_queue_receive(q, &(leat_receive_opts){ .max = -1 }, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_null(leat_queue_receive(
        q, &(leat_receive_opts){ .max = LEAT_QUEUE_BATCH + 1 }, &e));
    assert_null(
        leat_queue_receive(q, &(leat_receive_opts){ .wait_ms = -1 }, &e));
    assert_code(e.code, LEAT_EINVAL);
    leat_queue_send_opts o = { .delay_ms = -2 };
    assert_code(leat_queue_send(q, &(leat_msg){ 0 }, &o, NULL, &e),
                LEAT_EINVAL);
    for (int64_t ms = -1; ms != 0; ms = ms < 0 ? INT64_MAX : 0)
        assert_code(
            leat_queue_alter(q, &(leat_queue_opts){ .dedup_ms = ms }, &e),
            LEAT_EINVAL);
    o = (leat_queue_send_opts){ .dedup = leat_str("once") };
    must(leat_queue_send(q, &(leat_msg){ 0 }, &o, NULL, err));
    leat_queue_close(q);
}

/* ---- purge, remove, list ---------------------------------------------- */

static void purge_drops_all_but_the_dead_letters(void **state)
{
    (void)state;
    int64_t n;
    leat_error e = { 0 };
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .max_receives = 1 });
    leat_queue *other = queue_of("bills", NULL);
    send_text(other, "kept");
    leat_queue_batch_free(take_one(other));
    send_text(q, "dead");
    kill_all(q, 1);
    send_many(q, 0, 2500);
    leat_queue_send_opts later = { .delay_ms = 100000 };
    must(leat_queue_send(q, &(leat_msg){ .body = leat_str("d") }, &later, NULL,
                         err));
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 7 });
    must(leat_queue_purge(q, false, &n, err));
    assert_int_equal(n, 2501);
    assert_code(leat_queue_ack(q, item(b)->receipt, &e), LEAT_ESTALE);
    leat_queue_batch_free(b);
    leat_queue_stats st = stats(q);
    assert_int_equal(st.visible + st.in_flight + st.delayed, 0);
    assert_int_equal(st.dead, 1);
    conserved(q);
    must(leat_queue_purge(q, true, &n, err));
    assert_int_equal(n, 1);
    conserved(q);
    assert_int_equal(stats(other).in_flight, 1);
    leat_queue_close(q);
    leat_queue_close(other);
}

static void a_removed_queue_leaves_nothing(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .fifo = true });
    send_group(q, "a", "1");
    send_group(q, "a", "2");
    send_group(q, "b", "3");
    leat_queue_batch *b = take_one(q);
    must(leat_queue_remove(client, "orders", NULL, err));
    assert_code(leat_queue_ack(q, item(b)->receipt, &e), LEAT_ESTALE);
    leat_queue_batch_free(b);
    leat_queue_send_opts o = { .group = leat_str("a") };
    assert_code(leat_queue_send(q, &(leat_msg){ 0 }, &o, NULL, &e),
                LEAT_ENOENT);
    assert_null(leat_queue_receive(q, NULL, &e));
    assert_code(e.code, LEAT_ENOENT);
    assert_int_equal(redis_int(server, "KEYS *orders*"), 0);
    assert_code(leat_queue_remove(client, "orders", NULL, &e), LEAT_ENOENT);
    leat_queue_close(q);
}

static void collect(void *arg, const char *name)
{
    char *all = arg;
    size_t n = strlen(all);
    snprintf(all + n, 100 - n, "%s ", name);
}

static void queues_are_listed_by_name(void **state)
{
    (void)state;
    char all[100] = "";
    static const char *const names[] = { "c", "a", "b", "z" };
    for (size_t i = 0; i < 4; i++)
        leat_queue_close(queue_of(names[i], NULL));
    must(leat_queue_remove(client, "z", NULL, err));
    must(leat_queue_list(client, NULL, collect, all, err));
    assert_string_equal(all, "a b c ");
    all[0] = '\0';
    must(leat_queue_list(client, "other", collect, all, err));
    assert_string_equal(all, "");
}

/* Queues "q<from>" and so on in the set of one shard; how: SADD or SREM. */
static void register_many(const char *how, int from, int n)
{
    redis_int(server, "EVAL %s 1 leat:{q/7}:queues %s %d %d",
              "for i = ARGV[2], ARGV[2] + ARGV[3] - 1 do "
              "redis.call(ARGV[1], KEYS[1], string.format('q%06d', i)) end "
              "return 1",
              how, from, n);
}

static int64_t calls_of(const char *command)
{
    return redis_int(server, "EVAL %s 0 %s",
                     "return tonumber(string.match(redis.call('INFO', "
                     "'commandstats'), 'cmdstat_' .. ARGV[1] .. "
                     "':calls=(%d+)') or 0)",
                     command);
}

enum { MANY_QUEUES = 20000, FEW_QUEUES = 2000 };

typedef struct listing {
    char last[32];
    int few; /* of those that stay */
    int all;
    bool sorted;
} listing;

static void count_listed(void *arg, const char *name)
{
    listing *l = arg;
    l->sorted &= strcmp(l->last, name) < 0;
    l->few += strtol(name + 1, NULL, 10) < FEW_QUEUES;
    l->all++;
    snprintf(l->last, sizeof l->last, "%s", name);
}

static listing list_all(void)
{
    listing l = { .sorted = true };
    must(leat_queue_list(client, NULL, count_listed, &l, err));
    return l;
}

static void many_queues_are_listed_by_the_page(void **state)
{
    (void)state;
    register_many("SADD", 0, MANY_QUEUES);
    redis_do(server, "CONFIG RESETSTAT");
    listing l = list_all();
    assert_int_equal(l.all, MANY_QUEUES);
    assert_true(l.sorted);
    assert_int_equal(calls_of("smembers"), 0);
    assert_true(calls_of("sscan") >= MANY_QUEUES / 1000);
}

/* The set shrinks to a twentieth, so that the server moves its names about, and
 * a scan meets some of them twice. */
static void *come_and_go(void *arg)
{
    atomic_bool *over = arg;
    for (int k = 0; k < 5; k++) {
        register_many("SADD", FEW_QUEUES, 2 * MANY_QUEUES);
        for (int i = FEW_QUEUES; i < 2 * MANY_QUEUES + FEW_QUEUES; i += 200)
            register_many("SREM", i, 200);
    }
    atomic_store(over, true);
    return NULL;
}

static void
a_queue_that_stays_is_listed_once_while_others_come_and_go(void **state)
{
    (void)state;
    pthread_t other;
    atomic_bool over = false;
    register_many("SADD", 0, FEW_QUEUES);
    assert_int_equal(pthread_create(&other, NULL, come_and_go, &over), 0);
    for (int i = 0; i < 1000 && !atomic_load(&over); i++) {
        listing l = list_all();
        assert_int_equal(l.few, FEW_QUEUES);
        assert_true(l.sorted);
    }
    pthread_join(other, NULL);
}

/* The shortest time that a lane's last call will be known, "age": and then
 * they are as if written long ago.  0: there is no lane. */
static int64_t lanes_last_ms(const char *before)
{
    return redis_int(
        server, "EVAL %s 0 %s",
        "local least = 0 for _, k in ipairs(redis.call('KEYS', '*:s:*')) do "
        "local left = redis.call('PTTL', k) "
        "least = least == 0 and left or math.min(least, left) "
        "if ARGV[1] == 'age' then "
        "  redis.call('SET', k, "
        "    (string.gsub(redis.call('GET', k), '%d+$', '1')), 'PX', 1000000) "
        "end end return least",
        before);
}

static void the_last_calls_are_known_for_an_hour(void **state)
{
    (void)state;
    enum { HOUR_MS = 3600 * 1000 };
    leat_queue *q = queue_of("orders", NULL);
    for (int i = 0; i < 4; i++) {
        send_text(q, "x");
        leat_queue_batch_free(take_one(q));
        assert_true(lanes_last_ms(i == 1 ? "age" : "look") > HOUR_MS);
    }
    leat_queue_close(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        queue_test(a_message_comes_out_as_it_went_in),
        queue_test(messages_come_in_the_order_sent),
        queue_test(a_received_message_is_hidden_and_comes_back),
        queue_test(a_visibility_of_0_gives_it_back_at_once_and_first),
        queue_test(a_delayed_message_comes_later),
        queue_test(what_is_too_old_is_dropped_and_counted),
        queue_test(a_batch_says_how_each_message_ended),
        queue_test(a_thousand_go_at_once_and_one_more_does_not),
        queue_test(a_dedup_id_counts_for_its_window),
        queue_test(equal_contents_are_one_message_where_asked),
        queue_test(bad_receipts_are_refused_and_change_nothing),
        queue_test(too_many_receives_make_a_dead_letter),
        queue_test(a_dead_letter_has_a_visibility_too),
        queue_test(redrive_gives_back_the_oldest_first_and_fresh),
        queue_test(a_queue_keeps_its_settings),
        queue_test(what_makes_no_sense_is_refused),
        queue_test(purge_drops_all_but_the_dead_letters),
        queue_test(a_removed_queue_leaves_nothing),
        queue_test(queues_are_listed_by_name),
        queue_test(many_queues_are_listed_by_the_page),
        queue_test(a_queue_that_stays_is_listed_once_while_others_come_and_go),
        queue_test(the_last_calls_are_known_for_an_hour),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
