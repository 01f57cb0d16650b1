/* delivery.c: reading a delivery, and settling it once. */
#include "message/delivery.h"
#include "base/system.h"
#include "message/source.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct fake {
    leat_source base;
    int settled, recycled;
    leat__settlement how;
    leat_code extend, outcome;
    int64_t extend_ms;
};

static void take(leat_source *s, leat_delivery *d, const leat__settlement *how)
{
    struct fake *f = (struct fake *)s;
    f->settled++;
    f->how = *how;
    leat__source_settled(s, d, NULL);
}

static void recycle(leat_source *s, leat_delivery *d)
{
    (void)d;
    ((struct fake *)s)->recycled++;
}

static leat_code extend(leat_source *s, leat_delivery *const *d, size_t n,
                        int64_t ms, leat_code *outcome, leat_error *err)
{
    struct fake *f = (struct fake *)s;
    (void)d;
    f->extend_ms = ms;
    for (size_t i = 0; i < n; i++)
        outcome[i] = f->outcome;
    if (f->extend != LEAT_OK)
        return leat__fail(err, f->extend, "no server");
    return LEAT_OK;
}

static const leat_source_ops ops = {
    .settle = take,
    .recycle = recycle,
    .extend = extend,
};
static const leat_source_ops no_extend = { .settle = take, .recycle = recycle };

static void deliver(struct fake *f, leat_delivery *d, int64_t lease_ms)
{
    *f = (struct fake){ .base = { .ops = &ops, .name = "fake" } };
    *d = (leat_delivery){ .attempt = 2,
                          .redelivered = true,
                          .fence = 77,
                          .position = { 5, 6, 7 },
                          .from = leat_str("orders"),
                          .replayed = leat_str("3:17-0"),
                          .msg = { .body = leat_str("hello") } };
    leat__delivery_arm(d, &f->base, leat__deadline_ns(lease_ms));
}

static void a_delivery_tells_where_it_came_from(void **state)
{
    struct fake f;
    leat_delivery d;
    (void)state;
    deliver(&f, &d, 1000);
    assert_true(leat_bytes_eq(leat_delivery_msg(&d)->body, leat_str("hello")));
    assert_true(leat_bytes_eq(leat_delivery_from(&d), leat_str("orders")));
    assert_int_equal(leat_delivery_position(&d).seq, 6);
    assert_int_equal(leat_delivery_attempt(&d), 2);
    assert_true(leat_delivery_redelivered(&d));
    assert_int_equal(leat_delivery_fence(&d), 77);
    assert_true(
        leat_bytes_eq(leat_delivery_replayed_from(&d), leat_str("3:17-0")));
    assert_null(leat_delivery_error(&d));
    assert_in_range(leat_delivery_left_ms(&d), 1, 1000);
    deliver(&f, &d, -1);
    assert_int_equal(leat_delivery_left_ms(&d), -1);
}

static void each_verb_reaches_the_source(void **state)
{
    struct fake f;
    leat_delivery d;
    (void)state;
    deliver(&f, &d, -1);
    assert_int_equal(leat_delivery_ack(&d), LEAT_OK);
    assert_int_equal(f.how.verdict, LEAT__SETTLE_ACK);
    deliver(&f, &d, -1);
    assert_int_equal(leat_delivery_nack(&d, 12), LEAT_OK);
    assert_int_equal(f.how.verdict, LEAT__SETTLE_NACK);
    assert_int_equal(f.how.delay_ms, 12);
    deliver(&f, &d, -1);
    assert_int_equal(leat_delivery_reject(&d, "why"), LEAT_OK);
    assert_int_equal(f.how.verdict, LEAT__SETTLE_REJECT);
    assert_string_equal(f.how.reason, "why");
}

static void a_second_settlement_is_stale_and_does_nothing(void **state)
{
    struct fake f;
    leat_delivery d;
    (void)state;
    deliver(&f, &d, -1);
    assert_int_equal(leat_delivery_nack(&d, -1), LEAT_EINVAL);
    assert_int_equal(leat_delivery_ack(&d), LEAT_OK);
    assert_int_equal(leat_delivery_ack(&d), LEAT_ESTALE);
    assert_int_equal(leat_delivery_reject(&d, NULL), LEAT_ESTALE);
    assert_int_equal(f.settled, 1);
    assert_int_equal(f.recycled, 1);
}

static void memory_goes_back_with_the_last_holder(void **state)
{
    struct fake f;
    leat_delivery d;
    (void)state;
    deliver(&f, &d, -1);
    leat__delivery_keep(&d);
    assert_int_equal(leat_delivery_ack(&d), LEAT_OK);
    assert_int_equal(f.recycled, 0);
    leat__delivery_drop(&d);
    assert_int_equal(f.recycled, 1);
}

static void an_extend_moves_the_deadline_only_when_confirmed(void **state)
{
    struct fake f;
    leat_delivery d;
    leat_error err;
    (void)state;
    deliver(&f, &d, 100);
    f.extend = LEAT_ECONN;
    assert_int_equal(leat_delivery_extend(&d, 9000, &err), LEAT_ECONN);
    assert_true(leat_delivery_left_ms(&d) <= 100);
    f.extend = LEAT_OK;
    f.outcome = LEAT_ESTALE;
    assert_int_equal(leat_delivery_extend(&d, 9000, &err), LEAT_ESTALE);
    assert_true(leat_delivery_left_ms(&d) <= 100);
    assert_true(d.stale);
    f.outcome = LEAT_OK;
    assert_int_equal(leat_delivery_extend(&d, 9000, &err), LEAT_OK);
    assert_int_equal(f.extend_ms, 9000);
    assert_in_range(leat_delivery_left_ms(&d), 101, 9000);
    assert_int_equal(leat_delivery_extend(&d, 0, &err), LEAT_EINVAL);
    f.base.ops = &no_extend;
    assert_int_equal(leat_delivery_extend(&d, 9000, &err), LEAT_ENOTSUP);
}

static void positions_have_an_order(void **state)
{
    const leat_position p[] = {
        { 0, 0, 0 }, { 0, 0, 1 }, { 0, 1, 0 }, { 1, 0, 0 }, { 1, 0, 9 },
    };
    (void)state;
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 5; k++)
            assert_int_equal(leat__position_cmp(p[i], p[k]), (i > k) - (i < k));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_delivery_tells_where_it_came_from),
        cmocka_unit_test(each_verb_reaches_the_source),
        cmocka_unit_test(a_second_settlement_is_stale_and_does_nothing),
        cmocka_unit_test(memory_goes_back_with_the_last_holder),
        cmocka_unit_test(an_extend_moves_the_deadline_only_when_confirmed),
        cmocka_unit_test(positions_have_an_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
