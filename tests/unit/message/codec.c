/*
 * codec.c: what every codec promises, asked of each, one's own among them.
 */
#include "base/error.h"
#include "codec_support.h"
#include "support/allocfail.h"

static const leat_codec *const codecs[] = {
    &leat_codec_native,
    &leat_codec_ce_binary,
    &leat_codec_ce_json,
};
enum { CODECS = 3 };

static kind carries(const leat_codec *c)
{
    return c == &leat_codec_native ? ANYTHING : EVENT;
}

static void codecs_are_found_by_name(void **state)
{
    (void)state;
    assert_ptr_equal(leat_codec_find("native"), &leat_codec_native);
    assert_ptr_equal(leat_codec_find("ce"), &leat_codec_ce_binary);
    assert_ptr_equal(leat_codec_find("ce-json"), &leat_codec_ce_json);
    assert_null(leat_codec_find("json"));
    assert_null(leat_codec_find(""));
    assert_null(leat_codec_find(NULL));
}

static void every_message_comes_back_as_it_was(void **state)
{
    leat_fields *mem = new_fields(), *f = new_fields();
    (void)state;
    for (int c = 0; c < CODECS; c++) {
        rng r = { 42 };
        for (int i = 0; i < 5000; i++) {
            leat_fields_clear(mem);
            leat_msg m = some_msg(&r, mem, carries(codecs[c]));
            assert_comes_back(codecs[c], f, &m, 1);
        }
    }
    leat_fields_free(mem);
    leat_fields_free(f);
}

static void every_batch_comes_back_as_it_was(void **state)
{
    leat_fields *mem = new_fields(), *f = new_fields();
    leat_msg m[20];
    (void)state;
    for (int c = 0; c < CODECS; c++) {
        rng r = { 7 };
        for (int i = 0; i < 300 && codecs[c]->max_batch > 1; i++) {
            size_t n = 1 + rng_below(&r, 20);
            leat_fields_clear(mem);
            for (size_t k = 0; k < n; k++)
                m[k] = some_msg(&r, mem, carries(codecs[c]));
            assert_comes_back(codecs[c], f, m, n);
        }
    }
    leat_fields_free(mem);
    leat_fields_free(f);
}

static leat_msg plain_msg(void)
{
    return (leat_msg){
        .id = leat_str("0190a5b2-7c3d-7e4f-8a1b-2c3d4e5f6071"),
        .type = leat_str("t"),
        .source = leat_str("/s"),
    };
}

static void bodies_of_every_size_come_back(void **state)
{
    static const size_t sizes[] = { 0,   1,   2,    3,    127,    128,
                                    129, 255, 4095, 4096, 100000, 1 << 20 };
    static const char *const types[] = { "", "text/plain", "image/png" };
    static char body[1 << 20];
    leat_fields *f = new_fields();
    (void)state;
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (char)(i * 7 >> 3);
    for (size_t i = 0; i < 12 * 3 * CODECS; i++) {
        leat_msg m = plain_msg();
        m.content_type = leat_str(types[i / 12 % 3]);
        m.body = leat_mem(body, sizes[i % 12]);
        assert_comes_back(codecs[i / 36], f, &m, 1);
    }
    leat_fields_free(f);
}

static void many_headers_of_one_name_keep_their_order(void **state)
{
    enum { MANY = 3000 };
    static leat_header h[MANY];
    static char values[MANY][8];
    leat_fields *f = new_fields();
    (void)state;
    for (int i = 0; i < MANY; i++) {
        snprintf(values[i], sizeof values[i], "%d", i);
        h[i].name = leat_str(i % 3 ? "same" : "Other");
        h[i].value = leat_str(values[i]);
    }
    for (int c = 0; c < CODECS; c++) {
        leat_msg m = plain_msg();
        m.headers = h;
        m.header_count = MANY;
        assert_comes_back(codecs[c], f, &m, 1);
    }
    leat_fields_free(f);
}

static void a_full_batch_is_carried_and_one_more_refused(void **state)
{
    leat_fields *f = new_fields();
    leat_error err;
    (void)state;
    for (int c = 0; c < CODECS; c++) {
        size_t max = codecs[c]->max_batch;
        leat_msg *m = test_calloc(max + 1, sizeof *m);
        for (size_t i = 0; i <= max; i++)
            m[i] = plain_msg();
        assert_comes_back(codecs[c], f, m, max);
        leat_fields_clear(f);
        assert_int_equal(codecs[c]->encode(codecs[c], m, max + 1, f, &err),
                         LEAT_EINVAL);
        assert_int_equal(codecs[c]->encode(codecs[c], m, 0, f, &err),
                         LEAT_EINVAL);
        test_free(m);
    }
    leat_fields_free(f);
}

static void what_no_reader_would_take_is_not_written(void **state)
{
    leat_fields *f = new_fields();
    leat_error err;
    (void)state;
    for (int c = 0; c < CODECS; c++) {
        leat_msg m = plain_msg();
        m.body = leat_mem("never read", (64 << 20) + 1);
        assert_int_equal(codecs[c]->encode(codecs[c], &m, 1, f, &err),
                         LEAT_ETOOBIG);
        m.body.n = SIZE_MAX;
        assert_int_equal(codecs[c]->encode(codecs[c], &m, 1, f, &err),
                         LEAT_ETOOBIG);
        leat_header h = { leat_str("X"), leat_mem("", SIZE_MAX) };
        m = plain_msg();
        m.headers = &h;
        m.header_count = 1;
        assert_int_equal(codecs[c]->encode(codecs[c], &m, 1, f, &err),
                         LEAT_ETOOBIG);
    }
    leat_fields_free(f);
}

static void random_fields_are_an_error_and_no_crash(void **state)
{
    static const char *const names[] = { "k",
                                         "a",
                                         "b",
                                         "data",
                                         "content-type",
                                         "ce_id",
                                         "ce_time",
                                         "ce_specversion",
                                         "h_",
                                         "" };
    leat_fields *f = new_fields();
    const leat_msg *m;
    size_t n;
    rng r = { 3 };
    (void)state;
    for (int i = 0; i < 30000; i++) {
        leat_fields_clear(f);
        for (size_t k = rng_below(&r, 5); k > 0; k--) {
            leat_bytes v = some_bytes(&r, f, 30);
            (void)leat_fields_add(f, leat_str(names[rng_below(&r, 10)]), v,
                                  NULL);
        }
        const leat_codec *c = codecs[i % CODECS];
        assert_int_equal(c->decode(c, f, &m, &n, NULL), LEAT_EDECODE);
    }
    leat_fields_free(f);
}

static void encode_and_decode(void *arg)
{
    const leat_codec *c = arg;
    leat_header h[] = { { leat_str("x"), leat_str("1") },
                        { leat_str("X-Y"), leat_mem("\xff", 1) } };
    leat_msg m[2] = { plain_msg(), plain_msg() };
    const leat_msg *got;
    size_t n, count = c->max_batch > 1 ? 2 : 1;
    leat_fields *f = leat_fields_new(NULL);
    if (!f)
        return;

    m[0].headers = h;
    m[0].header_count = 2;
    m[0].time_ms = 1;
    m[0].body = leat_str("{}");
    m[1].body = leat_mem("\xff", 1);
    leat_code rc = c->encode(c, m, count, f, NULL);
    assert_true(rc == LEAT_OK || rc == LEAT_ENOMEM);
    if (rc == LEAT_OK) {
        rc = c->decode(c, f, &got, &n, NULL);
        assert_true(rc == LEAT_OK || rc == LEAT_ENOMEM);
    }
    /* Whatever failed, the fields are usable. */
    leat_fields_clear(f);
    leat_fields_free(f);
}

static void a_lack_of_memory_is_told_and_leaks_nothing(void **state)
{
    (void)state;
    for (int c = 0; c < CODECS; c++)
        alloc_fail_sweep(encode_and_decode, (void *)codecs[c]);
}

static void once_warm_nothing_is_allocated(void **state)
{
    leat_fields *mem = new_fields(), *f = new_fields();
    leat_msg m[50];
    rng r = { 5 };
    (void)state;
    for (int i = 0; i < 50; i++)
        m[i] = some_msg(&r, mem, EVENT);
    for (int c = 0; c < 2; c++) { /* the JSON codec says that it does */
        for (int i = 0; i < 150; i++)
            assert_comes_back(codecs[c], f, &m[i % 50], 1);
        alloc_fail_install(ALLOC_FAIL_NEVER, false);
        for (int i = 0; i < 50; i++)
            assert_comes_back(codecs[c], f, &m[i], 1);
        assert_int_equal(alloc_fail_calls(), 0);
        alloc_fail_remove();
    }
    leat_fields_free(mem);
    leat_fields_free(f);
}

/* ---- a codec of one's own --------------------------------------------- */

/* The body in a field of the name that arg gives, and nothing else. */
static leat_code own_encode(const leat_codec *c, const leat_msg *m, size_t n,
                            leat_fields *out, leat_error *err)
{
    (void)n;
    return leat_fields_add(out, leat_str(c->arg), m->body, err);
}

static leat_code own_decode(const leat_codec *c, leat_fields *in,
                            const leat_msg **m, size_t *n, leat_error *err)
{
    leat_bytes body = leat_fields_get(in, c->arg);
    if (!body.p)
        return leat__fail(err, LEAT_EDECODE, "no field %s", (char *)c->arg);
    leat_msg *one = leat_fields_alloc(in, sizeof *one, err);
    if (!one)
        return LEAT_ENOMEM;
    *one = (leat_msg){ .body = body };
    *m = one;
    *n = 1;
    return LEAT_OK;
}

static void a_table_of_ones_own_is_a_codec(void **state)
{
    static char field[] = "payload";
    const leat_codec own = { "own", 1, field, own_encode, own_decode };
    leat_fields *f = new_fields();
    (void)state;
    assert_comes_back(&own, f, &(leat_msg){ .body = leat_str("hello") }, 1);
    assert_field(f, "payload", "hello");
    leat_fields_clear(f);
    assert_refused(&own, f, "no field payload");
    leat_fields_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codecs_are_found_by_name),
        cmocka_unit_test(every_message_comes_back_as_it_was),
        cmocka_unit_test(every_batch_comes_back_as_it_was),
        cmocka_unit_test(bodies_of_every_size_come_back),
        cmocka_unit_test(many_headers_of_one_name_keep_their_order),
        cmocka_unit_test(a_full_batch_is_carried_and_one_more_refused),
        cmocka_unit_test(what_no_reader_would_take_is_not_written),
        cmocka_unit_test(random_fields_are_an_error_and_no_crash),
        cmocka_unit_test(a_lack_of_memory_is_told_and_leaks_nothing),
        cmocka_unit_test(once_warm_nothing_is_allocated),
        cmocka_unit_test(a_table_of_ones_own_is_a_codec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
