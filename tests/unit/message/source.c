/* source.c: the generic half of sources and sinks. */
#include "message/source.h"
#include "base/error.h"
#include "message/sink.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct fake {
    leat_source base;
    leat_delivery d;
    int received, interrupted, flushed, closed, told;
    leat_code told_code;
};

static int receive(leat_source *s, leat_delivery **out, int max,
                   int64_t wait_ms, leat_error *err)
{
    struct fake *f = (struct fake *)s;
    (void)max;
    (void)wait_ms;
    (void)err;
    f->received++;
    f->d.attempt = 1;
    leat__delivery_arm(&f->d, s, INT64_MAX);
    out[0] = &f->d;
    return 1;
}

static void interrupt(leat_source *s)
{
    ((struct fake *)s)->interrupted++;
}

static void settle(leat_source *s, leat_delivery *d,
                   const leat__settlement *how)
{
    leat_error stale = { .code = LEAT_ESTALE };
    leat__source_settled(s, d,
                         how->verdict == LEAT__SETTLE_NACK ? &stale : NULL);
}

static void recycle(leat_source *s, leat_delivery *d)
{
    (void)s;
    (void)d;
}

static leat_code flush(leat_source *s, int64_t timeout_ms, leat_error *err)
{
    (void)timeout_ms;
    ((struct fake *)s)->flushed++;
    return leat__fail(err, LEAT_ESTALE, "one was late");
}

static int fd(leat_source *s)
{
    (void)s;
    return 42;
}

static leat_code settle_part(leat_source *s, const leat_delivery *d,
                             leat__settle_part *part, leat_error *err)
{
    (void)s;
    (void)d;
    (void)err;
    *part = (leat__settle_part){ .lua = "{}" };
    return LEAT_OK;
}

static void close_fake(leat_source *s)
{
    ((struct fake *)s)->closed++;
}

static const leat_source_ops whole = {
    .receive = receive,
    .interrupt = interrupt,
    .settle = settle,
    .recycle = recycle,
    .flush = flush,
    .fd = fd,
    .settle_part = settle_part,
    .close = close_fake,
};
static const leat_source_ops bare = { .receive = receive,
                                      .settle = settle,
                                      .recycle = recycle };

static void the_verbs_reach_the_table(void **state)
{
    struct fake f = { .base = { .ops = &whole, .name = "fake" } };
    leat_delivery *d;
    leat__settle_part part;
    leat_error err;
    (void)state;
    assert_int_equal(leat_source_receive(&f.base, &d, 1, 0, &err), 1);
    assert_ptr_equal(d, &f.d);
    leat_source_interrupt(&f.base);
    assert_int_equal(f.interrupted, 1);
    assert_int_equal(leat_source_flush(&f.base, 5, &err), LEAT_ESTALE);
    assert_int_equal(leat_source_fd(&f.base), 42);
    assert_int_equal(leat__source_settle_part(d, &part, &err), LEAT_OK);
    assert_string_equal(part.lua, "{}");
    leat_source_close(&f.base);
    assert_int_equal(f.closed, 1);
    leat_source_close(NULL);
}

static void what_a_source_does_not_offer_is_said(void **state)
{
    struct fake f = { .base = { .ops = &bare, .name = "fake" } };
    leat_delivery *d;
    leat__settle_part part;
    leat_error err;
    (void)state;
    assert_int_equal(leat_source_receive(&f.base, &d, 1, 0, &err), 1);
    assert_int_equal(leat_source_fd(&f.base), -1);
    assert_int_equal(leat__source_settle_part(d, &part, &err), LEAT_ENOTSUP);
}

static void a_senseless_receive_never_reaches_the_source(void **state)
{
    struct fake f = { .base = { .ops = &whole, .name = "fake" } };
    leat_delivery *d;
    leat_error err;
    (void)state;
    assert_int_equal(leat_source_receive(&f.base, &d, 0, 0, &err), -1);
    assert_int_equal(err.code, LEAT_EINVAL);
    assert_int_equal(leat_source_receive(&f.base, &d, 1, -1, &err), -1);
    assert_int_equal(f.received, 0);
}

static void hear(void *arg, const leat_delivery *d, const leat_error *err)
{
    struct fake *f = arg;
    assert_ptr_equal(d, &f->d);
    f->told++;
    f->told_code = err ? err->code : LEAT_OK;
}

static void outcomes_are_told(void **state)
{
    struct fake f = { .base = { .ops = &whole, .name = "fake" } };
    leat_delivery *d;
    (void)state;
    leat__source_on_settled(&f.base, hear, &f);
    assert_int_equal(leat_source_receive(&f.base, &d, 1, 0, NULL), 1);
    assert_int_equal(leat_delivery_ack(d), LEAT_OK);
    assert_int_equal(f.told_code, LEAT_OK);
    assert_int_equal(leat_source_receive(&f.base, &d, 1, 0, NULL), 1);
    assert_int_equal(leat_delivery_nack(d, 0), LEAT_OK);
    assert_int_equal(f.told_code, LEAT_ESTALE);
    assert_int_equal(f.told, 2);
}

/* ---- sinks ------------------------------------------------------------ */

struct fake_sink {
    leat_sink base;
    size_t published;
    int flushed, closed;
};

static leat_code publish(leat_sink *k, const leat_msg *m, size_t n,
                         leat_published_fn *fn, void *arg, leat_error *err)
{
    leat_position at = { 1, 2, 3 };
    (void)m;
    (void)err;
    ((struct fake_sink *)k)->published += n;
    for (size_t i = 0; fn && i < n; i++)
        fn(arg, &at, NULL);
    return LEAT_OK;
}

static leat_code flush_sink(leat_sink *k, int64_t timeout_ms, leat_error *err)
{
    (void)timeout_ms;
    (void)err;
    ((struct fake_sink *)k)->flushed++;
    return LEAT_OK;
}

static void close_sink(leat_sink *k)
{
    ((struct fake_sink *)k)->closed++;
}

static void count(void *arg, const leat_position *at, const leat_error *err)
{
    assert_int_equal(at->seq, 2);
    assert_null(err);
    ++*(int *)arg;
}

static void a_sink_takes_messages(void **state)
{
    static const leat_sink_ops ops = { publish, flush_sink, close_sink };
    struct fake_sink k = { .base = { .ops = &ops, .name = "fake" } };
    leat_msg m[3] = { 0 };
    int told = 0;
    (void)state;
    assert_int_equal(leat_sink_publish(&k.base, m, 3, count, &told, NULL),
                     LEAT_OK);
    assert_int_equal(leat_sink_publish(&k.base, NULL, 0, count, &told, NULL),
                     LEAT_OK);
    assert_int_equal(k.published, 3);
    assert_int_equal(told, 3);
    assert_int_equal(leat_sink_flush(&k.base, 0, NULL), LEAT_OK);
    leat_sink_close(&k.base);
    leat_sink_close(NULL);
    assert_int_equal(k.closed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_verbs_reach_the_table),
        cmocka_unit_test(what_a_source_does_not_offer_is_said),
        cmocka_unit_test(a_senseless_receive_never_reaches_the_source),
        cmocka_unit_test(outcomes_are_told),
        cmocka_unit_test(a_sink_takes_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
