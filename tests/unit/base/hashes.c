/* hashes.c: checksums and hashes agree with those who published them. */
#include "base/crc16.h"
#include "base/crc32c.h"
#include "base/javahash.h"
#include "base/murmur2.h"
#include "base/siphash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static unsigned slot(const char *key)
{
    return leat__crc16_slot(leat_str(key));
}

static void crc16_is_that_of_redis_cluster(void **state)
{
    (void)state;
    assert_int_equal(leat__crc16("123456789", 9), 0x31c3);
    assert_int_equal(leat__crc16(NULL, 0), 0);
    assert_int_equal(slot("foo"), 12182); /* CLUSTER KEYSLOT foo */
    assert_int_equal(slot("123456789"), 0x31c3 % LEAT__SLOTS);
}

static void a_hash_tag_decides_the_slot(void **state)
{
    (void)state;
    assert_int_equal(slot("{user1000}.following"), slot("user1000"));
    assert_int_equal(slot("x{user1000}.followers"), slot("user1000"));
    assert_int_equal(slot("foo{bar}{zap}"), slot("bar"));
    assert_int_equal(slot("foo{{bar}}zap"), slot("{bar"));
    assert_int_equal(slot("}{a}"), slot("a"));
}

static void an_empty_or_open_tag_does_not_count(void **state)
{
    (void)state;
    const char *whole[] = { "foo{}{bar}", "{}", "{", "}", "a{b", "a}b{" };
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        assert_int_equal(slot(whole[i]),
                         leat__crc16(whole[i], strlen(whole[i])) % LEAT__SLOTS);
    assert_int_equal(leat__crc16_slot(leat_mem(NULL, 0)), 0);
}

typedef uint32_t crc_fn(uint32_t crc, const void *p, size_t n);
static crc_fn *const crc32cs[] = { leat__crc32c, leat__crc32c_portable };

/* The vectors of RFC 3720, B.4, and the usual check value. */
static void crc32c_gives_the_published_values(void **state)
{
    unsigned char zeros[32] = { 0 }, ones[32], up[32], down[32];
    (void)state;
    memset(ones, 0xff, sizeof ones);
    for (unsigned char i = 0; i < 32; i++) {
        up[i] = i;
        down[31 - i] = i;
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(crc32cs[i](0, "123456789", 9), 0xe3069283);
        assert_int_equal(crc32cs[i](0, zeros, 32), 0x8a9136aa);
        assert_int_equal(crc32cs[i](0, ones, 32), 0x62a8ab43);
        assert_int_equal(crc32cs[i](0, up, 32), 0x46dd794e);
        assert_int_equal(crc32cs[i](0, down, 32), 0x113fdb5c);
        assert_int_equal(crc32cs[i](0, NULL, 0), 0);
    }
}

static void crc32c_is_the_same_in_pieces_and_by_either_way(void **state)
{
    unsigned char data[300];
    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * i * 31 + i);
    for (size_t n = 0; n <= sizeof data; n++) {
        uint32_t whole = leat__crc32c(0, data, n);
        assert_int_equal(leat__crc32c_portable(0, data, n), whole);
        size_t cut = n * 2 / 3;
        uint32_t head = leat__crc32c(0, data, cut);
        assert_int_equal(leat__crc32c(head, data + cut, n - cut), whole);
        assert_int_equal(leat__crc32c_portable(head, data + cut, n - cut),
                         whole);
    }
}

/* Kafka's UtilsTest.testMurmur2. */
static void murmur2_is_that_of_kafka(void **state)
{
    static const struct {
        const char *key;
        int32_t hash;
    } v[] = {
        { "21", -973932308 },
        { "foobar", -790332482 },
        { "a-little-bit-long-string", -985981536 },
        { "a-little-bit-longer-string", -1486304829 },
        { "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971 },
        { "abc", 479470107 },
        { "", 275646681 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        assert_int_equal((int32_t)leat__murmur2(leat_str(v[i].key)), v[i].hash);
    assert_int_equal(leat__murmur2_partition(leat_str("foobar"), 50), 16);
    assert_int_equal(leat__murmur2_partition(leat_str("foobar"), 10), 6);
}

static void the_java_hash_is_that_of_java(void **state)
{
    static const struct {
        const char *key;
        int32_t hash;
        uint32_t of8;
    } v[] = {
        { "", 0, 0 },
        { "a", 97, 1 },
        { "order-1", -1207111310, 2 },
        { "user:42", -147170163, 5 },
        { "\xc3\xa9", 233, 1 },
        { "\xf0\x9f\x98\x80", 1772899, 3 },
        { "polygenelubricants", INT32_MIN, 0 },
        { "customer-1234567890", 739896298, 2 },
        { "\xff", 0xfffd, 5 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        assert_int_equal(leat__java_hash(leat_str(v[i].key)), v[i].hash);
        assert_int_equal(leat__java_partition(leat_str(v[i].key), 8), v[i].of8);
    }
}

static void siphash_gives_the_published_values(void **state)
{
    static const struct {
        leat_bytes text;
        uint64_t hash;
    } v[] = {
        { { "", 0 }, 0xd1fba762150c532c },
        { { "\0", 1 }, 0x68a914128e01e473 },
        { { "siphash", 7 }, 0x8264ceeccb16bcbe },
        { { "digest-sip_hash", 15 }, 0xce31007e34130c0a },
    };
    (void)state;
    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        assert_true(leat__siphash13((leat__sipkey){ 0 }, v[i].text) ==
                    v[i].hash);
    leat__sipkey other = { 1, 0 };
    assert_true(leat__siphash13(other, v[0].text) != v[0].hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc16_is_that_of_redis_cluster),
        cmocka_unit_test(a_hash_tag_decides_the_slot),
        cmocka_unit_test(an_empty_or_open_tag_does_not_count),
        cmocka_unit_test(crc32c_gives_the_published_values),
        cmocka_unit_test(crc32c_is_the_same_in_pieces_and_by_either_way),
        cmocka_unit_test(murmur2_is_that_of_kafka),
        cmocka_unit_test(the_java_hash_is_that_of_java),
        cmocka_unit_test(siphash_gives_the_published_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
