/* queue_keys.c: names of queues' keys, and reading receipts. */
#include "base/crc16.h"
#include "queue/keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define assert_bytes(b, text)                                                  \
    assert_true(leat_bytes_eq(b, leat_mem(text, sizeof text - 1)))

static void all_keys_of_a_queue_share_the_shards_slot(void **state)
{
    static const char *const names[] = { "orders", "a", "room-17", "x.y_z" };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        leat__key a, b;
        leat__key_queue(&a, NULL, names[i], "ready");
        leat__key_shard(&b, NULL, leat__queue_shard(names[i]), "due");
        assert_int_equal(leat__crc16_slot(leat__key_bytes(&a)),
                         leat__crc16_slot(leat__key_bytes(&b)));
        assert_true(leat__queue_shard(names[i]) < LEAT__QUEUE_SHARDS);
    }
}

static void keys_are_named_as_the_design_says(void **state)
{
    char text[64];
    leat__key k;
    (void)state;
    leat__key_queue(&k, "p", "orders", "conf");
    snprintf(text, sizeof text, "p:{q/%u}:orders:conf",
             leat__crc16("orders", 6) % 64u);
    assert_int_equal(k.n, strlen(text));
    assert_memory_equal(k.p, text, k.n);
}

static void a_receipt_says_what_it_is_of(void **state)
{
    leat__receipt r;
    (void)state;
    assert_true(leat__receipt_parse(
        leat_str("v/orders/12/1700000000000/a/b/00ff.7"), false, &r));
    assert_int_equal(r.kind, 'v');
    assert_bytes(r.queue, "orders");
    assert_int_equal(r.receives, 12);
    assert_int_equal(r.sent_ms, 1700000000000);
    assert_bytes(r.id, "a/b");
    assert_bytes(r.nonce, "00ff.7");
    assert_bytes(r.entry, "12/1700000000000/a/b");
    assert_int_equal(r.group.n, 0);
}

static void a_fifo_receipt_has_a_group_of_any_bytes(void **state)
{
    leat__receipt r;
    (void)state;
    assert_true(
        leat__receipt_parse(leat_str("x/q/1/2/5/a/b/c/id/n.1"), true, &r));
    assert_int_equal(r.kind, 'x');
    assert_bytes(r.group, "a/b/c");
    assert_bytes(r.id, "id");
    assert_bytes(r.entry, "1/2/5/a/b/c/id");
}

static void what_is_no_receipt_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "v",
        "v/q",
        "v/q/1/2/id",
        "v/q/1/2//n",
        "v/q/1/2/id/",
        "d/q/1/2/id/n",
        "vv/q/1/2/id/n",
        "v//1/2/id/n",
        "v/q/-1/2/id/n",
        "v/q/01/2/id/n",
        "v/q/4294967296/2/id/n",
        "v/q/1/99999999999999999999/id/n",
        "v/q/1/x/id/n",
    };
    static const char *const fifo[] = { "v/q/1/2/id/n", "v/q/1/2/3/ab/id/n",
                                        "v/q/1/2/129/a/id/n",
                                        "v/q/1/2/99/a/id/n", "v/q/1/2/1/a/n" };
    leat__receipt r;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (leat__receipt_parse(leat_str(bad[i]), false, &r))
            fail_msg("taken for a receipt: %s", bad[i]);
    for (size_t i = 0; i < sizeof fifo / sizeof *fifo; i++)
        if (leat__receipt_parse(leat_str(fifo[i]), true, &r))
            fail_msg("taken for a fifo receipt: %s", fifo[i]);
}

/* Whatever the bytes, nothing outside of them is looked at. */
static void any_bytes_are_read_without_harm(void **state)
{
    static const char some[] = "vxd/0159.ab\0";
    leat__receipt r;
    (void)state;
    srand(7);
    for (int i = 0; i < 200000; i++) {
        size_t n = (size_t)(rand() % 24);
        char *p = malloc(n ? n : 1);
        for (size_t k = 0; k < n; k++)
            p[k] = some[rand() % (int)(sizeof some - 1)];
        (void)leat__receipt_parse(leat_mem(p, n), i % 2, &r);
        free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_keys_of_a_queue_share_the_shards_slot),
        cmocka_unit_test(keys_are_named_as_the_design_says),
        cmocka_unit_test(a_receipt_says_what_it_is_of),
        cmocka_unit_test(a_fifo_receipt_has_a_group_of_any_bytes),
        cmocka_unit_test(what_is_no_receipt_is_refused),
        cmocka_unit_test(any_bytes_are_read_without_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
