/* batch.c: replies as deliveries. */
#include "base/mem.h"
#include "stream/stream.h"
#include "support/allocfail.h"

#include <stdio.h>
#include <stdlib.h>

/* A codec whose message is the field "b"; n of them where it says so. */
static leat_code decode_b(const leat_codec *c, leat_fields *in,
                          const leat_msg **m, size_t *n, leat_error *err)
{
    leat_bytes b = leat_fields_get(in, "b"), count = leat_fields_get(in, "n");
    (void)c;
    if (!b.p)
        return leat__fail(err, LEAT_EDECODE, "no b");
    *n = count.n > 0 ? (size_t)(*(const char *)count.p - '0') : 1;
    leat_msg *out = leat_fields_alloc(in, (*n + 1) * sizeof *out, err);
    if (!out)
        return LEAT_ENOMEM;
    for (size_t i = 0; i < *n; i++)
        out[i] = (leat_msg){ .body = b };
    *m = out;
    return LEAT_OK;
}

static const leat_codec codec = { .name = "b", .decode = decode_b };

/* A decoded reply; the text is overwritten, as a receive buffer will be. */
struct reply {
    leat__resp d;
    char text[4096];
};

static const leat_reply *decoded(struct reply *r, const char *text)
{
    size_t used;
    leat_error e;
    leat__resp_init(&r->d, &(leat__resp_limits){ 0 });
    snprintf(r->text, sizeof r->text, "%s", text);
    assert_int_equal(leat__resp_decode(&r->d, r->text, strlen(text), &used, &e),
                     LEAT__RESP_DONE);
    return r->d.nodes;
}

static void forget(struct reply *r)
{
    memset(r->text, '#', sizeof r->text);
    leat__resp_release(&r->d);
}

static const char three[] = "*3\r\n"
                            "*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nb\r\n$3\r\none\r\n"
                            "*2\r\n$3\r\n1-2\r\n*2\r\n$1\r\nx\r\n$1\r\ny\r\n"
                            "*2\r\n$3\r\n2-0\r\n*4\r\n$1\r\nb\r\n$3\r\ntwo\r\n"
                            "$1\r\nn\r\n$1\r\n2\r\n";

static stream_batch *new_batch(void)
{
    return leat__zalloc(sizeof(stream_batch), NULL);
}

static void body_is(const stream_slot *slot, const char *text)
{
    assert_true(leat_bytes_eq(slot->d.msg.body, leat_str(text)));
}

static void entries_become_deliveries_of_their_own_memory(void **state)
{
    struct reply r;
    stream_held held = { 0 };
    (void)state;
    stream_batch *b = new_batch();
    for (int round = 0; round < 3; round++) { /* a batch is used again */
        assert_int_equal(leat__stream_batch_fill(b, &codec, decoded(&r, three),
                                                 false, &held, 77, NULL),
                         LEAT_OK);
        forget(&r);
        assert_int_equal(b->entry_count, 3);
        assert_int_equal(b->slot_count, 4);
        assert_int_equal(atomic_load(&b->refs), 4);
        body_is(&b->slots[0], "one");
        body_is(&b->slots[2], "two");
        body_is(&b->slots[3], "two");
        assert_int_equal(b->slots[3].d.position.index, 1);
        assert_ptr_equal(b->slots[3].entry, &b->entries[2]);
        assert_int_equal(b->entries[2].left, 2);
        assert_int_equal(b->entries[0].since_ns, 77);
        assert_true(leat_bytes_eq(b->entries[2].text, leat_str("2-0")));
        assert_int_equal(b->slots[0].d.attempt, 1);
        assert_int_equal(b->undecodable, 1);
        const leat_delivery *bad = &b->slots[1].d;
        assert_int_equal(leat_delivery_error(bad)->code, LEAT_EDECODE);
        assert_true(
            leat_bytes_eq(leat_msg_header(&bad->msg, "x"), leat_str("y")));
    }
    leat__stream_batch_free(b);
}

static void what_is_held_is_passed_over_and_what_is_parked_is_not(void **state)
{
    struct reply r;
    stream_held held = { 0 };
    int value;
    (void)state;
    assert_int_equal(leat__stream_held_reserve(&held, 2, NULL), LEAT_OK);
    leat__stream_held_put(&held, (leat_position){ 1, 1, 0 }, &value);
    leat__stream_held_put(&held, (leat_position){ 2, 0, 0 },
                          LEAT__STREAM_PARKED);
    stream_batch *b = new_batch();
    assert_int_equal(leat__stream_batch_fill(b, &codec, decoded(&r, three),
                                             false, &held, 0, NULL),
                     LEAT_OK);
    forget(&r);
    assert_int_equal(b->entry_count, 2);
    body_is(&b->slots[1], "two");
    leat__stream_batch_free(b);
    leat__stream_held_release(&held);
}

static void counts_are_attempts_and_gaps_are_passed_over(void **state)
{
    struct reply r;
    stream_held held = { 0 };
    (void)state;
    stream_batch *b = new_batch();
    const leat_reply *items = decoded(
        &r, "*4\r\n"
            "*2\r\n$3\r\n1-1\r\n:0\r\n"
            "*2\r\n$3\r\n1-2\r\n:-1\r\n"
            "*3\r\n$3\r\n1-3\r\n:7\r\n*2\r\n$1\r\nb\r\n$1\r\nz\r\n"
            "$-1\r\n");
    assert_int_equal(
        leat__stream_batch_fill(b, &codec, items, true, &held, 0, NULL),
        LEAT_OK);
    forget(&r);
    assert_int_equal(b->slot_count, 1);
    assert_int_equal(b->slots[0].d.attempt, 7);
    assert_true(b->slots[0].d.redelivered);
    body_is(&b->slots[0], "z");
    assert_int_equal(leat__stream_batch_fill(b, &codec, decoded(&r, "*0\r\n"),
                                             true, &held, 0, NULL),
                     LEAT_OK);
    assert_int_equal(b->slot_count, 0);
    forget(&r);
    leat__stream_batch_free(b);
}

/* An entry that somebody deleted has an id and no fields. */
static void a_deleted_entry_is_passed_over_and_noise_is_refused(void **state)
{
    static const struct {
        const char *text;
        leat_code code;
    } cases[] = {
        { "*1\r\n*2\r\n$3\r\n1-1\r\n*-1\r\n", LEAT_OK },
        { "*1\r\n$5\r\nnoise\r\n", LEAT_EPROTO },
        { "*1\r\n*2\r\n$3\r\n1-1\r\n$1\r\nx\r\n", LEAT_EPROTO },
        { "*1\r\n*2\r\n$3\r\n1-1\r\n*1\r\n$1\r\nx\r\n", LEAT_EPROTO },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reply r;
        stream_held held = { 0 };
        stream_batch *b = new_batch();
        assert_int_equal(leat__stream_batch_fill(b, &codec,
                                                 decoded(&r, cases[i].text),
                                                 false, &held, 0, NULL),
                         cases[i].code);
        assert_int_equal(b->slot_count, 0);
        forget(&r);
        leat__stream_batch_free(b);
    }
}

static void fill_once(void *arg)
{
    struct reply *r = arg;
    stream_held held = { 0 };
    leat_error e = { 0 };
    stream_batch *b = new_batch();
    if (!b)
        return;
    leat_code rc = leat__stream_batch_fill(b, &codec, r->d.nodes, false, &held,
                                           0, &e);
    assert_true(rc == LEAT_OK || rc == LEAT_ENOMEM);
    assert_int_equal(b->slot_count, rc == LEAT_OK ? 4 : 0);
    leat__stream_batch_free(b);
}

static void without_memory_a_batch_is_empty(void **state)
{
    struct reply r;
    (void)state;
    (void)decoded(&r, three);
    alloc_fail_sweep(fill_once, &r);
    forget(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_become_deliveries_of_their_own_memory),
        cmocka_unit_test(what_is_held_is_passed_over_and_what_is_parked_is_not),
        cmocka_unit_test(counts_are_attempts_and_gaps_are_passed_over),
        cmocka_unit_test(a_deleted_entry_is_passed_over_and_noise_is_refused),
        cmocka_unit_test(without_memory_a_batch_is_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
