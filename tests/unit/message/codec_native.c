/*
 * codec_native.c: the bytes of leat's own format, which may not drift, and
 * that damage is always seen.
 */
#include "base/crc32c.h"
#include "codec_support.h"

static const leat_codec *const native = &leat_codec_native;

#define UUID_TEXT "0190a5b2-7c3d-7e4f-8a1b-2c3d4e5f6071"
#define UUID_BYTES                                                             \
    "\x01\x90\xa5\xb2\x7c\x3d\x7e\x4f\x8a\x1b\x2c\x3d\x4e\x5f\x60\x71"

/* A string literal as bytes, zeros in it and all. */
#define LIT(s) leat_mem(s, sizeof(s) - 1)

static leat_fields *encoded(const leat_msg *m, size_t n)
{
    leat_fields *f = new_fields();
    assert_int_equal(native->encode(native, m, n, f, NULL), LEAT_OK);
    return f;
}

static leat_msg full_msg(void)
{
    static leat_header h[2];
    h[0] = (leat_header){ LIT("a"), LIT("1") };
    h[1] = (leat_header){ LIT("X-"), LIT("") };
    return (leat_msg){
        .id = LIT("order-7"),
        .key = LIT("cust"),
        .type = LIT("placed"),
        .source = LIT("/shop"),
        .subject = LIT("7"),
        .content_type = LIT("text/plain"),
        .time_ms = -1,
        .headers = h,
        .header_count = 2,
        .body = LIT("a\0b"),
    };
}

/* ---- the format ------------------------------------------------------- */

/* The bytes below were made by another program, from the format's text. */
static void a_small_message_is_32_bytes_and_its_body(void **state)
{
    leat_msg m = { .id = LIT(UUID_TEXT),
                   .time_ms = INT64_C(1700000000123),
                   .body = LIT("hello") };
    leat_fields *f = encoded(&m, 1);
    (void)state;
    assert_int_equal(leat_fields_count(f), 2);
    assert_bytes(leat_fields_get(f, "a"),
                 LIT("\x01\x6c\x6a\x69\xcb\x00"
                     "\x02" UUID_BYTES "\x07\x7b\x68\xe5\xcf\x8b\x01\x00\x00"));
    assert_field(f, "b", "hello");
    leat_fields_free(f);
}

static void a_full_message_has_these_bytes(void **state)
{
    leat_msg m = full_msg();
    leat_fields *f = encoded(&m, 1);
    (void)state;
    assert_int_equal(leat_fields_count(f), 3);
    assert_field(f, "k", "cust");
    assert_bytes(leat_fields_get(f, "a"),
                 LIT("\x01\x1a\x09\xfa\x82\x00"
                     "\x01\x07order-7"
                     "\x03\x06placed"
                     "\x04\x05/shop"
                     "\x05\x01"
                     "7"
                     "\x06\x0atext/plain"
                     "\x07\xff\xff\xff\xff\xff\xff\xff\xff"
                     "\x08\x02\x01"
                     "a\x01"
                     "1\x02X-\x00"));
    assert_bytes(leat_fields_get(f, "b"), LIT("a\0b"));
    leat_fields_free(f);
}

static void a_batch_has_these_bytes(void **state)
{
    leat_msg m[] = {
        { .id = LIT(UUID_TEXT), .key = LIT("k"), .body = LIT("hello") },
        { .id = LIT("x") }
    };
    leat_fields *f = encoded(m, 2);
    (void)state;
    assert_int_equal(leat_fields_count(f), 2);
    assert_bytes(leat_fields_get(f, "a"),
                 LIT("\x01\x08\x3c\x38\x83\x01"
                     "\x02"
                     "\x02" UUID_BYTES "\x09\x01k\x0a\x05\x00"
                     "\x01\x01x\x00"));
    assert_field(f, "b", "hello");
    leat_fields_free(f);
}

static void an_empty_message_is_a_head_alone(void **state)
{
    leat_msg m = { 0 };
    leat_fields *f = encoded(&m, 1);
    (void)state;
    assert_int_equal(leat_fields_count(f), 1);
    assert_int_equal(leat_fields_get(f, "a").n, 6);
    assert_comes_back(native, f, &m, 1);
    leat_fields_free(f);
}

static void only_a_canonical_uuid_is_packed(void **state)
{
    static const struct {
        const char *id;
        size_t n; /* of field a */
    } cases[] = {
        { UUID_TEXT, 23 },
        { "ffffffff-ffff-ffff-ffff-ffffffffffff", 23 },
        { "0190A5B2-7c3d-7e4f-8a1b-2c3d4e5f6071", 44 },
        { "0190a5b2-7c3d-7e4f-8a1b-2c3d4e5f607g", 44 },
        { "0190a5b2-7c3d-7e4f-8a1b-2c3d4e5f607/", 44 },
        { "0190a5b2-7c3d-7e4f-8a1b-2c3d4e5f607:", 44 },
        { "0190a5b2-7c3d-7e4f-8a1b-2c3d4e5f607`", 44 },
        { "0190a5b2-7c3d-7e4f-8a1b-2c3d4e5f607\xb1", 44 },
        { "0190a5b2-7c3d-7e4f-8a1b-2c3d4e5f607\x10", 44 },
        { "0190a5b2 7c3d-7e4f-8a1b-2c3d4e5f6071", 44 },
        { "0190a5b2-7c3d-7e4f-8a1b-2c3d4e5f607", 43 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        leat_msg m = { .id = leat_str(cases[i].id) };
        leat_fields *f = encoded(&m, 1);
        assert_int_equal(leat_fields_get(f, "a").n, cases[i].n);
        assert_comes_back(native, f, &m, 1);
        leat_fields_free(f);
    }
}

static void every_byte_of_a_uuid_survives(void **state)
{
    leat_fields *f = new_fields();
    (void)state;
    for (int place = 0; place < 36; place++)
        for (int c = 0; c < 256; c++) {
            char id[] = UUID_TEXT;
            id[place] = (char)c;
            assert_comes_back(native, f, &(leat_msg){ .id = leat_mem(id, 36) },
                              1);
        }
    leat_fields_free(f);
}

static void times_at_the_ends_come_back(void **state)
{
    static const int64_t times[] = { 1,        -1,  63,        64,
                                     -64,      -65, INT64_MAX, INT64_MIN + 1,
                                     INT64_MIN };
    leat_fields *f = new_fields();
    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        assert_comes_back(native, f, &(leat_msg){ .time_ms = times[i] }, 1);
    leat_fields_free(f);
}

/* ---- damage ----------------------------------------------------------- */

/* A copy of f's pairs, which a test may change. */
static size_t copy_pairs(const leat_fields *f, leat_fields *mem,
                         leat_bytes *pairs)
{
    size_t n = 2 * leat_fields_count(f);
    for (size_t i = 0; i < n; i++) {
        leat_bytes b = leat_fields_pairs(f)[i];
        char *p = leat_fields_alloc(mem, b.n + 1, NULL);
        memcpy(p, b.p, b.n);
        pairs[i] = leat_mem(p, b.n);
    }
    return n;
}

static bool decodes(leat_fields *f, const leat_bytes *pairs, size_t n)
{
    const leat_msg *m;
    size_t count;
    leat_fields_clear(f);
    for (size_t i = 0; i < n; i += 2)
        assert_int_equal(leat_fields_add(f, pairs[i], pairs[i + 1], NULL),
                         LEAT_OK);
    leat_code rc = native->decode(native, f, &m, &count, NULL);
    assert_true(rc == LEAT_OK || rc == LEAT_EDECODE);
    return rc == LEAT_OK;
}

static void each_entry(void (*test)(leat_fields *f, leat_bytes *pairs,
                                    size_t n))
{
    leat_msg m[] = { full_msg(), full_msg(), { .id = LIT(UUID_TEXT) } };
    for (size_t n = 1; n <= 3; n += 2) {
        leat_fields *f = encoded(m, n), *mem = new_fields(), *in = new_fields();
        leat_bytes pairs[6];
        size_t count = copy_pairs(f, mem, pairs);
        assert_true(decodes(in, pairs, count));
        test(in, pairs, count);
        assert_true(decodes(in, pairs, count));
        leat_fields_free(f);
        leat_fields_free(mem);
        leat_fields_free(in);
    }
}

static void flip(leat_fields *f, leat_bytes *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t bit = 0; bit < 8 * pairs[i].n; bit++) {
            unsigned char *p = (unsigned char *)pairs[i].p + bit / 8;
            *p ^= (unsigned char)(1 << bit % 8);
            assert_false(decodes(f, pairs, n));
            *p ^= (unsigned char)(1 << bit % 8);
        }
}

static void every_flipped_bit_is_seen(void **state)
{
    (void)state;
    each_entry(flip);
}

static void cut(leat_fields *f, leat_bytes *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        leat_bytes whole = pairs[i];
        for (size_t k = 0; k < whole.n; k++) {
            pairs[i] = leat_mem(whole.p, k);
            assert_false(decodes(f, pairs, n));
            pairs[i] = leat_mem((const char *)whole.p + k + 1, whole.n - k - 1);
            assert_false(decodes(f, pairs, n));
        }
        pairs[i] = whole;
    }
}

static void every_cut_at_either_end_is_seen(void **state)
{
    (void)state;
    each_entry(cut);
}

static void grow(leat_fields *f, leat_bytes *pairs, size_t n)
{
    char longer[256];
    for (size_t i = 1; i < n; i += 2)
        for (int c = 0; c < 256; c++) {
            leat_bytes whole = pairs[i];
            memcpy(longer, whole.p, whole.n);
            longer[whole.n] = (char)c;
            pairs[i] = leat_mem(longer, whole.n + 1);
            assert_false(decodes(f, pairs, n));
            pairs[i] = whole;
        }
}

static void every_added_byte_is_seen(void **state)
{
    (void)state;
    each_entry(grow);
}

static void lose_and_repeat(leat_fields *f, leat_bytes *pairs, size_t n)
{
    leat_bytes more[8];
    for (size_t i = 0; i < n; i += 2) {
        memcpy(more, pairs, n * sizeof *pairs);
        memcpy(more + n, pairs + i, 2 * sizeof *pairs);
        assert_false(decodes(f, more, n + 2));
        memmove(more + i, more + i + 2, (n - i - 2) * sizeof *pairs);
        assert_false(decodes(f, more, n - 2));
    }
}

static void a_field_lost_or_repeated_is_seen(void **state)
{
    (void)state;
    each_entry(lose_and_repeat);
}

static void fields_may_stand_in_any_order(void **state)
{
    leat_msg m = full_msg();
    leat_fields *f = encoded(&m, 1), *in = new_fields();
    const leat_bytes *p = leat_fields_pairs(f);
    const leat_msg *got;
    size_t n;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        size_t k = 2 * ((i + 2) % 3);
        assert_int_equal(leat_fields_add(in, p[k], p[k + 1], NULL), LEAT_OK);
    }
    assert_int_equal(native->decode(native, in, &got, &n, NULL), LEAT_OK);
    assert_same(got, &m);
    leat_fields_free(f);
    leat_fields_free(in);
}

/* ---- forgery: a right checksum over wrong bytes ----------------------- */

/* Field a with those flags and that tail, sealed over k and b. */
static leat_fields *sealed(unsigned char flags, leat_bytes tail, leat_bytes k,
                           leat_bytes b)
{
    leat_fields *f = new_fields();
    unsigned char *p = leat_fields_alloc(f, 6 + tail.n, NULL);
    p[0] = 1;
    p[5] = flags;
    memcpy(p + 6, tail.p, tail.n);
    uint32_t crc = leat__crc32c(0, k.p, k.n);
    crc = leat__crc32c(crc, p + 5, 1 + tail.n);
    crc = leat__crc32c(crc, b.p, b.n);
    for (int i = 0; i < 4; i++)
        p[1 + i] = (unsigned char)(crc >> 8 * i);
    if (k.n > 0)
        (void)leat_fields_add(f, LIT("k"), k, NULL);
    (void)leat_fields_add(f, LIT("a"), leat_mem(p, 6 + tail.n), NULL);
    if (b.n > 0)
        (void)leat_fields_add(f, LIT("b"), b, NULL);
    return f;
}

static void what_breaks_a_rule_is_refused_by_name(void **state)
{
    static const struct {
        unsigned char flags;
        const char *tail;
        size_t n;
        const char *k, *b;
        const char *why;
    } cases[] = {
#define BAD(flags, tail, k, b, why) { flags, tail, sizeof(tail) - 1, k, b, why }
        BAD(0, "\x0b\x01x", "", "", "unknown tag 11"),
        BAD(0, "\x7f\x01x", "", "", "unknown tag 127"),
        BAD(0, "\x01\x01x\x01\x01y", "", "", "repeats or is out of order"),
        BAD(0, "\x03\x01x\x01\x01y", "", "", "repeats or is out of order"),
        BAD(0, "\x01\x01x\x02" UUID_BYTES, "", "", "a second id"),
        BAD(0, "\x01\x05xyz", "", "", "(id) has a bad length"),
        BAD(0, "\x01\x81\x00x", "", "", "(id) has a bad length"),
        BAD(0, "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x", "", "",
            "(id) has a bad length"),
        BAD(0, "\x01", "", "", "(id) has a bad length"),
        BAD(0, "\x03\x00", "", "", "(type) is empty"),
        BAD(0, "\x80\x00", "", "", "(optional) is empty"),
        BAD(0, "\x80\x02x", "", "", "(optional) has a bad length"),
        BAD(0, "\x07\x00\x00\x00\x00\x00\x00\x00\x00", "", "",
            "(time) is empty"),
        BAD(0, "\x07\x01\x00\x00\x00\x00\x00\x00", "", "",
            "(time) is cut short"),
        BAD(0, "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "", "",
            "(id) has a bad length"),
        BAD(0, "\x02\x01\x02\x03", "", "", "(id) has a bad length"),
        BAD(0, "\x08\x00", "", "", "(headers) has a bad count"),
        BAD(0, "\x08\xff\xff\xff\x7f\x00\x00", "", "", "has a bad count"),
        BAD(0, "\x08\x02\x00\x00\x00", "", "", "(headers) has a bad count"),
        BAD(0, "\x08\x01\x01x\x02y", "", "", "(headers) has a bad length"),
        BAD(0, "\x09\x01k", "", "", "(key) outside a batch"),
        BAD(0, "\x0a\x01", "", "x", "(body) outside a batch"),
        BAD(0, "\x00", "", "", "(end) repeats"),
        BAD(2, "", "", "", "unknown flags"),
        BAD(1, "", "", "", "bad count"),
        BAD(1, "\x01\x00", "", "", "bad count"),
        BAD(1, "\x81\x20\x00\x00", "", "", "bad count"),
        BAD(1, "\x80\x20\x00\x00", "", "", "more messages announced"),
        BAD(1, "\x03\x00\x00", "", "", "is cut short"),
        BAD(1, "\x02\x00\x00\x00", "", "", "left over"),
        BAD(1, "\x02\x00\x00", "", "x", "left over"),
        BAD(1, "\x02\x0a\x02\x00\x00", "", "x", "(body) has a bad length"),
        BAD(1, "\x02\x0a\x00\x00\x00", "", "", "(body) has a bad length"),
        BAD(1, "\x02\x00\x00", "k", "", "field k in a batch"),
#undef BAD
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        leat_fields *f = sealed(cases[i].flags,
                                leat_mem(cases[i].tail, cases[i].n),
                                leat_str(cases[i].k), leat_str(cases[i].b));
        assert_refused(native, f, cases[i].why);
        leat_fields_free(f);
    }
}

static void an_optional_tag_of_the_future_is_skipped(void **state)
{
    leat_fields *f = sealed(0, LIT("\x01\x01x\x80\x03new\xff\x01z"), LIT(""),
                            LIT("body"));
    const leat_msg *m;
    size_t n;
    (void)state;
    assert_int_equal(native->decode(native, f, &m, &n, NULL), LEAT_OK);
    assert_same(m, &(leat_msg){ .id = LIT("x"), .body = LIT("body") });
    leat_fields_free(f);
}

static void what_is_no_native_entry_is_refused_by_name(void **state)
{
    leat_fields *f = new_fields();
    (void)state;
    assert_refused(native, f, "no field a");
    add_field(f, "b", "x");
    assert_refused(native, f, "no field a");
    add_field(f, "a", "");
    assert_refused(native, f, "field 'a' is empty");
    leat_fields_clear(f);
    add_field(f, "a", "\x02whatever");
    assert_refused(native, f, "version 2, this leat reads 1");
    leat_fields_clear(f);
    add_field(f, "a", "\x01");
    assert_refused(native, f, "cut short");
    leat_fields_clear(f);
    add_field(f, "a", "\x01\x01\x01\x01\x01\x01");
    assert_refused(native, f, "wrong checksum");
    add_field(f, "ce_id\n", "1");
    assert_refused(native, f, "field 'ce_id\\x0a' is none of ours");
    leat_fields_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_message_is_32_bytes_and_its_body),
        cmocka_unit_test(a_full_message_has_these_bytes),
        cmocka_unit_test(a_batch_has_these_bytes),
        cmocka_unit_test(an_empty_message_is_a_head_alone),
        cmocka_unit_test(only_a_canonical_uuid_is_packed),
        cmocka_unit_test(every_byte_of_a_uuid_survives),
        cmocka_unit_test(times_at_the_ends_come_back),
        cmocka_unit_test(every_flipped_bit_is_seen),
        cmocka_unit_test(every_cut_at_either_end_is_seen),
        cmocka_unit_test(every_added_byte_is_seen),
        cmocka_unit_test(a_field_lost_or_repeated_is_seen),
        cmocka_unit_test(fields_may_stand_in_any_order),
        cmocka_unit_test(what_breaks_a_rule_is_refused_by_name),
        cmocka_unit_test(an_optional_tag_of_the_future_is_skipped),
        cmocka_unit_test(what_is_no_native_entry_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
